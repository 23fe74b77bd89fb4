//! Whether the backends of load balancers serve.
//!
//! The host of a backend's machine asks it, by opening a TCP connection that it resets at once, and
//! tells the hosts that choose among the backends what it has found:
//!
//! ```text
//! each interval ─▶ SYN ─▶ machine ─▶ SYN and ACK: it serves      RST, or nothing in time: it does not
//!                                     │                                  │
//! State::set_down ◀─ what is down ◀───┴──────────────────────────────────┘
//!        ▲                └─▶ the turn ─▶ words ─▶ other hosts
//!        └──────── what others' words say ◀─────────┘
//! ```
//!
//! A backend counts as up until its checks have failed as often as its load balancer says. What
//! another host has told counts for as long as the word says; a host that falls silent may be gone,
//! and its backends count as down.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::mem;
use core::net::IpAddr;
use core::ops::RangeInclusive;

use logical::objects::{HealthCheck, Identity};
use lossless::PortId;
use packet::{Fields, Tuple, answer};
use pipeline::{Asked, Down, Net};
use units::hash::splitmix64;
use units::{Class, Instant, Span};
use wire::ethernet::{self, Tag};
use wire::ip::protocol;
use wire::tcp::{Flags, Header};
use wire::whole;
use zerocopy::IntoBytes;

use crate::word::Word;

/// The ports that checks are from: dynamic ones (RFC 6335 §6).
const PORTS: RangeInclusive<u16> = 49_152..=65_535;

/// The most news that wait to be taken.
const MOST_NEWS: usize = 256;

/// A backend of a load balancer: its address and port there.
pub type Backend = (Identity, (IpAddr, u16));

/// A check that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    from: u16,
    number: u32,
    until: Instant,
}

/// What is known of a backend.
#[derive(Clone, Debug)]
struct Known {
    check: HealthCheck,
    /// Who asks it, if its machine can be at this host.
    asked: Option<Asked>,
    /// The port of the switch that its machine is at, if it is here.
    here: Option<PortId>,
    is_up: bool,
    /// How many checks in a row have said otherwise.
    against: u8,
    /// When it is asked next.
    next: Instant,
    sent: Option<Sent>,
    /// Until when the last word of another host counts.
    heard: Option<Instant>,
}

impl Known {
    /// When something is to be done about it.
    fn due(&self) -> Option<Instant> {
        match self.here {
            Some(_) => Some(self.sent.map_or(self.next, |sent| sent.until)),
            None => self.heard,
        }
    }
}

/// What is to be done about a backend.
#[derive(Clone, Copy, Debug)]
pub enum Due {
    /// Its machine, at this port, is to be asked.
    Check(PortId),
    /// It has not answered in time.
    Failure,
    /// Nothing is heard of its host any more.
    Silence,
}

/// What is known of a backend, as an operator sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BackendHealth<'a> {
    /// The load balancer.
    pub balancer: &'a Identity,
    /// The backend's address and port.
    pub backend: (IpAddr, u16),
    /// Whether it gets new connections.
    pub is_up: bool,
    /// Whether this host asks it: its machine is here.
    pub is_here: bool,
}

/// A backend has come up or gone down.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HealthNews {
    /// The load balancer.
    pub balancer: Identity,
    /// The backend's address and port.
    pub backend: (IpAddr, u16),
    /// Whether it is up now.
    pub is_up: bool,
    /// Whether this host has found that out itself.
    pub is_here: bool,
}

/// What is known of all backends that are checked.
#[derive(Debug, Default)]
pub struct Health {
    known: BTreeMap<Backend, Known>,
    /// When something is to be done.
    pub due: Option<Instant>,
    /// How many checks were sent, and how many of them failed.
    pub counts: [u64; 2],
    pub news: VecDeque<HealthNews>,
}

impl Health {
    /// Backends are those that these networks say from now on. What is known of those that stay is
    /// kept.
    pub fn realize<'a>(&mut self, nets: impl Iterator<Item = &'a Net>) {
        let mut before = mem::take(&mut self.known);
        for checked in nets.flat_map(|net| net.checked()) {
            let key = (checked.balancer.clone(), checked.backend);
            let new = || Known {
                check: checked.check,
                asked: None,
                here: None,
                is_up: true,
                against: 0,
                next: Instant::ZERO,
                sent: None,
                heard: None,
            };
            let known = before.remove(&key).unwrap_or_else(new);
            self.known.insert(key, Known { check: checked.check, asked: checked.asked, ..known });
        }
    }

    /// Machines are at these ports of this host.
    pub fn place(&mut self, places: &BTreeMap<Identity, PortId>) {
        for known in self.known.values_mut() {
            let asked = known.asked.as_ref();
            let here = asked.and_then(|asked| places.get(&asked.port).copied());
            if here != known.here {
                // Who has left is down until a host is heard that has it.
                known.heard = known.here.filter(|_| here.is_none()).map(|_| Instant::ZERO);
                (known.here, known.sent) = (here, None);
            }
        }
        self.look_ahead();
    }

    /// Notes when something is to be done next.
    pub fn look_ahead(&mut self) {
        self.due = self.known.values().filter_map(Known::due).min();
    }

    /// What is down.
    pub fn down(&self) -> Down {
        let mut down = Down::new();
        for ((balancer, backend), _) in self.known.iter().filter(|(_, known)| !known.is_up) {
            down.entry(balancer.clone()).or_default().insert(*backend);
        }
        down
    }

    fn tell(&mut self, (balancer, backend): &Backend) {
        let known = &self.known[&(balancer.clone(), *backend)];
        let (is_up, is_here) = (known.is_up, known.here.is_some());
        if self.news.len() == MOST_NEWS {
            self.news.pop_front();
        }
        let balancer = balancer.clone();
        self.news.push_back(HealthNews { balancer, backend: *backend, is_up, is_here });
    }

    /// What is to be done by now.
    pub fn due_by(&self, now: Instant) -> Vec<(Backend, Due)> {
        let due = |(key, known): (&Backend, &Known)| {
            known.due().filter(|due| *due <= now)?;
            let what = match (known.here, known.sent) {
                (None, _) => Due::Silence,
                (Some(_), Some(_)) => Due::Failure,
                (Some(port), None) => Due::Check(port),
            };
            Some((key.clone(), what))
        };
        self.known.iter().filter_map(due).collect()
    }

    /// The frame that asks a backend.
    pub fn ask(&mut self, now: Instant, key: &Backend) -> Option<Vec<u8>> {
        let known = self.known.get_mut(key)?;
        let Asked { vlan, mac, by, .. } = known.asked.as_ref()?;
        let number = self.counts[0];
        self.counts[0] += 1;
        let from = PORTS.start() + (number % PORTS.len() as u64) as u16;
        let number = splitmix64(number) as u32;
        let (address, port) = key.1;
        let segment = Header::new(from, port, number, Flags::SYN);
        known.next = now + known.check.interval;
        known.sent = Some(Sent { from, number, until: now + known.check.timeout });
        let (macs, ends) = ((by.0, *mac), (by.1, address));
        let frame = whole::packet(macs, ends, protocol::TCP, segment.as_bytes())?;
        Some(with_tag(frame, *vlan))
    }

    /// What the machine at a port answers to a check of which backend, if a frame of it does.
    pub fn answer(&self, from: PortId, frame: &[u8]) -> Option<(Backend, Answer)> {
        let mut asked = self.known.iter().filter(|(_, known)| known.here == Some(from));
        asked.find_map(|(key, known)| Some((key.clone(), known.answer(key.1, frame)?)))
    }

    /// A check has succeeded or failed. Whether the backend has come up or gone down by it.
    pub fn note(&mut self, key: &Backend, succeeds: bool) -> bool {
        self.counts[1] += u64::from(!succeeds);
        let Some(known) = self.known.get_mut(key) else { return false };
        known.sent = None;
        if succeeds == known.is_up {
            known.against = 0;
            return false;
        }
        known.against += 1;
        let enough = if succeeds { known.check.successes } else { known.check.failures };
        if known.against < enough {
            return false;
        }
        known.against = 0;
        self.turn(key, succeeds)
    }

    /// What other hosts are told of a backend. It counts until it is certain that the next should
    /// have come.
    pub fn word(&self, key: &Backend) -> Option<Word> {
        let Known { check, is_up, .. } = self.known.get(key)?;
        let rounds = u64::from(check.failures) + 1;
        let patience = check.interval.as_nanos() * rounds + check.timeout.as_nanos();
        let patience = Span::from_nanos(patience);
        Some(Word { backend: key.1, is_up: *is_up, patience })
    }

    /// Another host's word of a backend. Whether that has come up or gone down by it.
    pub fn hear(&mut self, now: Instant, key: &Backend, word: Word) -> bool {
        // Who is here is asked here.
        let known = self.known.get_mut(key).filter(|known| known.here.is_none());
        let Some(known) = known else { return false };
        known.heard = Some(now + word.patience);
        self.turn(key, word.is_up)
    }

    /// No word of a backend counts any longer. Whether it has gone down by that.
    pub fn fall_silent(&mut self, key: &Backend) -> bool {
        self.known.get_mut(key).into_iter().for_each(|known| known.heard = None);
        self.turn(key, false)
    }

    fn turn(&mut self, key: &Backend, is_up: bool) -> bool {
        let known = self.known.get_mut(key);
        let has_turned = known.is_some_and(|known| mem::replace(&mut known.is_up, is_up) != is_up);
        if has_turned {
            self.tell(key);
        }
        has_turned
    }

    /// All backends.
    pub fn all(&self) -> impl Iterator<Item = BackendHealth<'_>> {
        self.known.iter().map(|((balancer, backend), known)| BackendHealth {
            balancer,
            backend: *backend,
            is_up: known.is_up,
            is_here: known.here.is_some(),
        })
    }
}

/// What a machine has answered.
pub struct Answer {
    pub is_yes: bool,
    /// What ends the connection that it takes for begun.
    pub reset: Option<Vec<u8>>,
}

impl Known {
    /// What a frame of the backend's machine says, if it answers the check that was sent.
    fn answer(&self, backend: (IpAddr, u16), frame: &[u8]) -> Option<Answer> {
        let (sent, asked) = (self.sent?, self.asked.as_ref()?);
        let inner = match asked.vlan {
            None => Cow::Borrowed(frame),
            Some(vlan) => {
                let (tag, inner) = ethernet::untagged(frame)?;
                (tag.vlan == vlan).then_some(Cow::Owned(inner))?
            }
        };
        let ip = Fields::of(&inner)?.ip?;
        let destination = (asked.by.1, sent.from);
        let ends = Tuple { protocol: protocol::TCP, source: backend, destination };
        let header = ip.tcp.filter(|_| ip.tuple == ends)?;
        let is_its = header.acknowledgment.get() == sent.number.wrapping_add(1);
        let sets = |flag| header.flags.contains(flag);
        if !is_its || !sets(Flags::ACK) {
            return None;
        }
        match (sets(Flags::SYN), sets(Flags::RST)) {
            (_, true) => Some(Answer { is_yes: false, reset: None }),
            (true, false) => {
                let reset = answer::reject(&inner).map(|reset| with_tag(reset, asked.vlan));
                Some(Answer { is_yes: true, reset })
            }
            (false, false) => None,
        }
    }
}

fn with_tag(frame: Vec<u8>, vlan: Option<u16>) -> Vec<u8> {
    match vlan {
        None => frame,
        Some(vlan) => ethernet::tagged(&frame, Tag { class: Class::default(), vlan }),
    }
}
