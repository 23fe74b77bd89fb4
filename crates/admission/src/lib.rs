//! Whether a host can keep what networks are promised of it.
//!
//! A [`Claim`] is what one network is promised there; [`admit`] adds them all up and compares each
//! sum with what the [`Host`] has. Either all of them hold together or none is taken on:
//!
//! ```text
//!   Σ min, and control's   ≤ 0.99 · the uplink's rate            each way: terms are the same
//!   Σ burst                ≤ rate · latency                      what all at once may wait for
//!   Σ min_packets · frame  ≤ 0.85 s of the switch's thread, a second
//!   Σ memory               ≤ memory
//! ```
//!
//! Control, which is what hosts tell each other, has 0.05 of what an uplink is used for (0.0495 of
//! its rate), as if it were a network with that `min`. A `min` or a `max` of an uplink whose rate
//! is not declared is not kept by anybody, and is refused.
//!
//! Ports are promised parts of what their network is: [`admit_ports`] compares the sum of theirs
//! with it. Where a network is promised nothing, it is what its ports are, and is compared as
//! above.
//!
//! What objects guarantee logical ports is not refused where it is written, but where a port has no
//! room for it: [`admit_objects`].
//!
//! The order of claims does not matter, and what is admitted stays admitted when one is less or is
//! gone. Nothing here knows which host asks: an agent does for itself, a controller may for any.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod excess;
mod largest;
mod objects;
mod ports;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::cmp::Reverse;

use model::NetworkName;
use units::{Bytes, Rate, Span};

pub use excess::{Excess, Holder, NotAdmitted, RateTerm};
use largest::Largest;
pub use objects::{Grant, Kept, NotKept, PortAsk, TenantAsk, admit_objects};
pub use ports::{NotWithin, OfNoRate, admit_ports};

/// The part of an uplink's rate that is scheduled, in hundredths, and the part of that which
/// networks may be promised. The rest of that is control's.
const SCHEDULED: u128 = 99;
const PROMISED: u128 = 95;

/// The part of a processor that frames may be promised, in a second.
const THREAD: Span = Span::from_millis(850);

/// What a host has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Host {
    /// The rate of its uplink, or of each of them; `None` if it is not declared.
    pub rate: Option<Rate>,
    /// How long a frame within its network's guarantee may wait for others' bursts.
    pub latency: Span,
    /// The memory that frames of all networks share.
    pub memory: Bytes,
}

/// What a network is promised there.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The network.
    pub network: &'a NetworkName,
    /// The least rate of the uplink, each way.
    pub min: Option<Rate>,
    /// The highest.
    pub max: Option<Rate>,
    /// How much of that may come at once after a rest.
    pub burst: Bytes,
    /// The least number of frames a second through the switch.
    pub min_packets: u32,
    /// What one of its frames costs the switch's thread.
    pub frame: Span,
    /// The memory that is its frames' alone.
    pub memory: Bytes,
}

/// What all networks are promised together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Promise {
    /// Of the uplink, each way, in bits a second.
    pub bits_per_sec: u64,
    /// How long the uplink takes for all bursts: the longest that a guaranteed frame waits for
    /// others' frames, but for the one that is being sent.
    pub wait: Span,
    /// Of each second of the switch's thread.
    pub thread: Span,
    /// Of the memory for frames.
    pub memory: Bytes,
}

/// Adds up what networks are promised.
///
/// # Errors
///
/// [`NotAdmitted`] names each sum that is too large, its limit, and who has most of it.
pub fn admit<'a>(
    host: &Host,
    claims: impl IntoIterator<Item = Claim<'a>>,
) -> Result<Promise, NotAdmitted> {
    let mut sums = Sums::default();
    claims.into_iter().for_each(|claim| sums.add(&claim));
    sums.compare(host)
}

/// Sums of claims. In 128 bits they have no end: claims have 64.
#[derive(Default)]
struct Sums<'a> {
    bits: Sum<'a>,
    highest: Largest<&'a NetworkName>,
    bursts: Sum<'a>,
    packets: Sum<'a>,
    thread_ns: u128,
    memory: Sum<'a>,
}

/// One sum, and who has most of it.
#[derive(Default)]
struct Sum<'a> {
    total: u128,
    largest: Largest<&'a NetworkName>,
}

impl<'a> Sum<'a> {
    fn add(&mut self, network: &'a NetworkName, amount: u64) {
        if amount > 0 {
            self.total += u128::from(amount);
            self.largest.note(network, amount);
        }
    }
}

impl<'a> Sums<'a> {
    fn add(&mut self, claim: &Claim<'a>) {
        let Claim { network, min, max, burst, min_packets, frame, memory } = *claim;
        if let Some(min) = min {
            self.bits.add(network, min.bits_per_sec());
            self.bursts.add(network, burst.0);
        }
        if let Some(max) = max {
            self.highest.note(network, max.bits_per_sec());
        }
        self.packets.add(network, min_packets.into());
        self.thread_ns += u128::from(min_packets) * u128::from(frame.as_nanos());
        self.memory.add(network, memory.0);
    }

    fn compare(self, host: &Host) -> Result<Promise, NotAdmitted> {
        let Self { bits, highest, bursts, packets, thread_ns, memory } = self;
        let mut excesses = Vec::new();
        let mut wait = Span::ZERO;
        match host.rate {
            Some(rate) => {
                let limit = most_promised(rate);
                if bits.total > limit.into() {
                    let scheduled = u128::from(rate.bits_per_sec()) * SCHEDULED / 100;
                    let control = narrow(scheduled) - limit;
                    let sum = narrow(bits.total);
                    let most = beside(bits.largest, control);
                    excesses.push(Excess::Rate { sum, limit, rate, most });
                }
                wait = rate.time_for(narrow(bursts.total));
                if wait > host.latency {
                    let latency = host.latency;
                    let most = bursts.largest.named(NetworkName::clone);
                    excesses.push(Excess::Burst { wait, latency, most });
                }
            }
            None => {
                let terms = [(RateTerm::Min, bits.largest), (RateTerm::Max, highest)];
                let terms = terms.map(|(term, of)| (term, of.named(NetworkName::clone)));
                let said = terms.into_iter().filter(|(_, most)| !most.is_empty());
                excesses.extend(said.map(|(term, most)| Excess::NoRate { term, most }));
            }
        }
        let thread = Span::from_nanos(narrow(thread_ns));
        if thread > THREAD {
            let most = packets.largest.named(NetworkName::clone);
            excesses.push(Excess::Packets { thread, limit: THREAD, most });
        }
        let held = Bytes(narrow(memory.total));
        if held > host.memory {
            let (sum, limit) = (held, host.memory);
            let most = memory.largest.named(NetworkName::clone);
            excesses.push(Excess::Memory { sum, limit, most });
        }
        if excesses.is_empty() {
            return Ok(Promise { bits_per_sec: narrow(bits.total), wait, thread, memory: held });
        }
        Err(NotAdmitted(excesses))
    }
}

/// Those who have most of an uplink, if control has so much.
fn beside(networks: Largest<&NetworkName>, control: u64) -> excess::Most<Holder> {
    let mut most = networks.named(|network| Holder::Network(network.clone()));
    most.push((Holder::Control, control));
    most.sort_by_key(|(_, amount)| Reverse(*amount));
    most.truncate(largest::NAMED);
    most
}

/// What networks may be promised of an uplink of this rate, in bits a second.
fn most_promised(rate: Rate) -> u64 {
    narrow(u128::from(rate.bits_per_sec()) * SCHEDULED * PROMISED / 10_000)
}

/// A sum as it is told: no host has as much.
fn narrow(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}
