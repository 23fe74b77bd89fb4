//! Two hosts, what they seal for each other, and a network that an attacker owns.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use seal::{Channel, Config, Ends, Keys, Mode, OVERHEAD, Pace, Refusal, State};
use units::{Instant, Span};

pub const KEYS: [&str; 3] = [
    "Nq2qzpGUxm5uUBVVXVd1c6yjQYFCoUqrtVtNYyREp3k=",
    "gM3v1H5RZkQPZMNqZ6vWwVrGm2v8f8Jv0xQvV2rX0nA=",
    "sCjfGnO8nCh0nWbSgHTG9Bnm4oaC6XgpF3c7ne0qx3E=",
];

/// The hosts: the first initiates.
pub const INITIATOR: usize = 0;
pub const RESPONDER: usize = 1;

pub fn keys(which: &[usize]) -> Arc<Keys> {
    let lines: Vec<&str> = which.iter().map(|key| KEYS[*key]).collect();
    Arc::new(Keys::parse(&lines.join("\n")).unwrap())
}

pub fn ends(host: usize) -> Ends {
    let hosts = [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
    Ends::new(hosts[host], hosts[1 - host]).unwrap()
}

pub struct World {
    pub now: Instant,
    pub hosts: [Host; 2],
    /// Everything that was ever sent, by whom.
    pub sent: Vec<(usize, Vec<u8>)>,
    /// What of it is on its way.
    underway: Vec<usize>,
    /// What each host has sealed, and how often it was opened.
    sealed: [BTreeMap<Vec<u8>, u32>; 2],
    next: u64,
}

pub struct Host {
    pub channel: Channel,
    pub config: Config,
    pace: Pace,
}

impl World {
    pub fn new(mode: Mode) -> Self {
        Self::with([mode; 2], [&[0], &[0]])
    }

    pub fn with(modes: [Mode; 2], which: [&[usize]; 2]) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let hosts = [INITIATOR, RESPONDER].map(|host| {
            let config = Config { mode: modes[host], keys: keys(which[host]), ends: ends(host) };
            let channel = Channel::new(now, config.clone());
            Host { channel, config, pace: Pace::default() }
        });
        let (sent, underway, sealed) = (Vec::new(), Vec::new(), Default::default());
        Self { now, hosts, sent, underway, sealed, next: 0 }
    }

    /// The host starts again, with nothing remembered.
    pub fn restart(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        it.channel = Channel::new(self.now, it.config.clone());
    }

    pub fn set_keys(&mut self, host: usize, which: &[usize]) {
        let it = &mut self.hosts[host];
        it.config.keys = keys(which);
        it.channel.set_keys(self.now, it.config.keys.clone());
    }

    /// Seals a packet that was never sealed before, and sends it. Whether it could.
    pub fn send(&mut self, host: usize) -> bool {
        self.next += 1;
        let inside =
            [&self.next.to_be_bytes()[..], &vec![7; (self.next * 37 % 1400) as usize]].concat();
        let mut packet = [&[0; OVERHEAD], &inside[..]].concat();
        let is_sealed = self.hosts[host].channel.seal(self.now, &mut packet).is_ok();
        if is_sealed {
            self.sealed[host].insert(inside, 0);
            self.put(host, packet);
        }
        is_sealed
    }

    fn put(&mut self, from: usize, packet: Vec<u8>) {
        self.underway.push(self.sent.len());
        self.sent.push((from, packet));
    }

    /// Lets both hosts send what they have to by themselves.
    pub fn poll(&mut self) {
        for host in [INITIATOR, RESPONDER] {
            let mut most = 100;
            loop {
                let Host { channel, pace, .. } = &mut self.hosts[host];
                let Some(control) = channel.poll_transmit(self.now, pace) else { break };
                most -= 1;
                assert!(most > 0, "it sends without end");
                self.put(host, control.bytes().to_vec());
            }
        }
    }

    /// Hands a packet to a host, whoever sent it, and checks what comes of it.
    pub fn receive(&mut self, host: usize, packet: &[u8]) -> Result<bool, Refusal> {
        let mut packet = packet.to_vec();
        let opened = self.hosts[host].channel.open(self.now, &mut packet)?;
        let Some(inside) = opened else { return Ok(false) };
        let times = self.sealed[1 - host].get_mut(inside).expect("its peer has sealed it so");
        *times += 1;
        assert_eq!(*times, 1, "it is opened once");
        Ok(true)
    }

    /// The packets on their way, which are now the caller's.
    pub fn take(&mut self) -> Vec<(usize, Vec<u8>)> {
        std::mem::take(&mut self.underway).into_iter().map(|at| self.sent[at].clone()).collect()
    }

    /// Delivers all that is on its way, and what is sent in answer.
    pub fn deliver(&mut self) {
        loop {
            self.poll();
            let packets = self.take();
            if packets.is_empty() {
                break;
            }
            for (from, packet) in packets {
                let _ = self.receive(1 - from, &packet);
            }
        }
    }

    /// The next time at which a host has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = self.hosts.iter().filter_map(|host| host.channel.deadline());
        deadlines.min().map(|at| at.max(self.now))
    }

    /// A faultless network and time that passes, until both ends are open or it has been so long.
    /// How long it took.
    pub fn settle(&mut self, most: Span) -> Option<Span> {
        let begin = self.now;
        loop {
            for host in [INITIATOR, RESPONDER] {
                self.hosts[host].channel.want(self.now);
            }
            self.deliver();
            if self.agree() {
                return Some(self.now.since(begin));
            }
            // A host that waits asks again now and then.
            let soon = self.now + Span::from_millis(1);
            let next = self
                .deadline()
                .map_or(soon, |at| at.max(soon))
                .min(self.now + Span::from_millis(100));
            if next.since(begin) > most {
                return None;
            }
            self.now = next;
        }
    }

    /// Whether a packet gets through in each direction now.
    fn agree(&mut self) -> bool {
        [INITIATOR, RESPONDER].into_iter().all(|host| {
            if !self.send(host) {
                return false;
            }
            self.poll();
            let mut all = true;
            for (from, packet) in self.take() {
                let read = self.receive(1 - from, &packet);
                all &= from != host || read.is_ok();
            }
            all
        })
    }

    pub fn id(&self, host: usize) -> Option<u32> {
        match self.hosts[host].channel.state() {
            State::Open { key, .. } => Some(key),
            State::Opening | State::Closed => None,
        }
    }

    pub fn handshakes(&self) -> [u64; 2] {
        [INITIATOR, RESPONDER].map(|host| self.hosts[host].channel.counters().handshakes)
    }

    pub fn refused(&self, host: usize, why: Refusal) -> u64 {
        self.hosts[host].channel.counters().refused(why)
    }

    /// How many messages were sent that cost Diffie-Hellman.
    pub fn noise(&self) -> usize {
        self.sent.iter().filter(|(_, packet)| [0x8b, 0x8c].contains(&packet[10])).count()
    }

    /// No number is used twice with the same keys.
    pub fn check_packets(&self) {
        let mut seen = BTreeSet::new();
        for (from, packet) in &self.sent {
            if packet.len() >= OVERHEAD && packet[10] == 0x88 {
                assert!(seen.insert((*from, packet[28..32].to_vec(), packet[36..44].to_vec())));
            }
        }
    }
}
