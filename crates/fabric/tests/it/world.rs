//! Hosts as the standard wants them, around a fabric, in time that jumps from event to event.

use std::collections::VecDeque;

use fabric::{Buffer, Config, Delivery, Fabric, Link, Pfc, PortConfig, Sent};
use lossless::{ClassKind, Classes, Scheduling};
use units::{Bytes, Class, ClassMap, Instant, Mac, Span};
use wire::ethernet::{self, Tag, ethertype};
use zerocopy::IntoBytes;

const NEVER: Instant = Instant::from_nanos(u64::MAX);

pub const LONGEST: u32 = 1518;

/// A fabric of hosts that are alike, all classes of which promise the same.
pub fn config(hosts: usize, kind: ClassKind) -> Config {
    let link = Link::default();
    let port = PortConfig {
        link,
        buffer: Buffer::default(),
        longest: LONGEST,
        class: Class::default(),
        trunk: false,
    };
    Config {
        ports: vec![port; hosts],
        classes: Classes::all(kind),
        dscp: None,
        scheduling: Scheduling::Strict,
        pfc: Pfc::default(),
        shared: None,
        ecn: None,
        loss: 0.0,
        seed: 1,
        stall_after: Span::from_secs(10),
        routes: Vec::new(),
    }
}

/// A frame that a host is to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame {
    pub number: u64,
    pub from: usize,
    /// A host, or everybody.
    pub to: Option<usize>,
    pub class: Class,
    pub len: u32,
}

/// A frame that a host has received.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub at: Instant,
    pub host: usize,
    pub frame: Frame,
    pub mark: bool,
}

/// A host that begins no frame of a class while that is paused, once it has had time to respond.
#[derive(Default)]
struct Host {
    queues: ClassMap<VecDeque<Frame>>,
    paused_until: ClassMap<Instant>,
    /// Pauses that it has received and not responded to yet.
    heard: VecDeque<(Instant, ClassMap<Option<u16>>)>,
}

pub struct World {
    pub config: Config,
    pub fabric: Fabric<Frame>,
    pub now: Instant,
    pub received: Vec<Received>,
    pub released: Vec<Frame>,
    hosts: Vec<Host>,
    next_number: u64,
}

impl World {
    pub fn new(config: Config) -> Self {
        let hosts = config.ports.iter().map(|_| Host::default()).collect();
        let fabric = Fabric::new(&config).unwrap();
        let (received, released) = (Vec::new(), Vec::new());
        Self { config, fabric, now: Instant::ZERO, received, released, hosts, next_number: 0 }
    }

    /// Has a host send a frame as soon as it may.
    pub fn queue(&mut self, from: usize, to: Option<usize>, pcp: u8, len: u32) {
        let class = Class::from_low_bits(pcp);
        let frame = Frame { number: self.next_number, from, to, class, len };
        self.next_number += 1;
        self.hosts[from].queues[class].push_back(frame);
    }

    /// Has a host say something now, whatever it is.
    pub fn say(&mut self, host: usize, head: &[u8]) {
        let none =
            Frame { number: u64::MAX, from: host, to: None, class: Class::default(), len: 0 };
        let sent =
            Sent { handle: none, head, len: head.len(), frames: 1, bytes: head.len() as u32 };
        self.fabric.send(self.now, host, sent);
    }

    /// Lets everything happen until `end`, or until nothing does any more. The books balance all
    /// the time.
    pub fn run(&mut self, end: Instant) {
        loop {
            self.fabric.run(self.now);
            self.deliver();
            for host in 0..self.hosts.len() {
                self.respond(host);
                while self.sends_at(host).is_some_and(|at| at <= self.now) {
                    self.send(host);
                }
            }
            self.released.extend(self.fabric.released().map(|released| released.handle));
            let hosts = (0..self.hosts.len())
                .flat_map(|host| [self.sends_at(host), self.responds_at(host)]);
            let next = hosts.chain([self.fabric.deadline()]).flatten().min();
            assert!(self.fabric.balances());
            match next {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
        }
        if end != NEVER {
            self.now = end;
        }
    }

    pub fn run_all(&mut self) {
        self.run(NEVER);
    }

    fn deliver(&mut self) {
        let Self { fabric, hosts, config, received, now, .. } = self;
        fabric.deliver(*now, |host, delivery| {
            match delivery {
                Delivery::Frame { from, handle, mark } => {
                    assert_eq!(from, handle.from);
                    received.push(Received { at: *now, host, frame: handle, mark });
                }
                Delivery::Pause(frame) => {
                    let response = config.ports[host].link.rate.time_for(config.pfc.response.0);
                    hosts[host].heard.push_back((*now + response, frame.told()));
                }
            }
            true
        });
    }

    fn responds_at(&self, host: usize) -> Option<Instant> {
        self.hosts[host].heard.front().map(|(at, _)| *at)
    }

    fn respond(&mut self, host: usize) {
        while self.responds_at(host).is_some_and(|at| at <= self.now) {
            let it = &mut self.hosts[host];
            let (_, told) = it.heard.pop_front().unwrap();
            for (class, quanta) in told.iter() {
                if let Some(quanta) = quanta {
                    let quanta = u64::from(*quanta) * 64;
                    it.paused_until[class] =
                        self.now + self.config.ports[host].link.rate.time_for(quanta);
                }
            }
        }
    }

    /// The class that a host may send first, and when.
    fn next(&self, host: usize) -> Option<(Instant, Class)> {
        let it = &self.hosts[host];
        let waiting = it.queues.iter().filter(|(_, queue)| !queue.is_empty());
        waiting.map(|(class, _)| (it.paused_until[class], class)).min()
    }

    fn sends_at(&self, host: usize) -> Option<Instant> {
        self.next(host).map(|(at, _)| at.max(self.fabric.host_free_at(host)))
    }

    fn send(&mut self, host: usize) {
        let (_, class) = self.next(host).unwrap();
        let frame = self.hosts[host].queues[class].pop_front().unwrap();
        let to = frame.to.map_or(Mac::BROADCAST, mac);
        let head = header(host, to, Tag { class, vlan: 0 });
        let sent = Sent {
            handle: frame,
            head: &head,
            len: frame.len as usize,
            frames: 1,
            bytes: frame.len,
        };
        self.fabric.send(self.now, host, sent);
    }
}

pub fn mac(host: usize) -> Mac {
    Mac::local(host as u32 + 1)
}

/// A frame's first bytes.
fn header(from: usize, to: Mac, tag: Tag) -> Vec<u8> {
    let ethernet = ethernet::Header::new(to, mac(from), ethertype::VLAN);
    [ethernet.as_bytes(), &tag.tci().to_be_bytes(), &ethertype::ARP.to_be_bytes()].concat()
}

pub fn bytes(bytes: u64) -> Option<Bytes> {
    Some(Bytes(bytes))
}
