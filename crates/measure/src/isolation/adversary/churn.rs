//! Networks that come, go and change what they may have, through the API of the host that all send
//! from.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::{Client, LabError};
use model::{Member, NetworkName, NetworkShare, NetworkSpec, VtepList};
use serde::{Deserialize, Serialize};
use units::{Mac, Rate};

use super::cast::network_name;
use crate::MeasureError;
use crate::isolation::set::Set;

/// The time from one change to the next.
const EVERY: Duration = Duration::from_millis(20);

/// What the network that comes has as its minimum at first and then, and what the others have in
/// turn, of the link's rate: with 64 of them, and the victim's fifth, less than may be promised.
const COMES_WITH: [f64; 2] = [0.01, 0.02];
const OTHERS_HAVE: [f64; 2] = [0.01, 0.005];

// What the victim has, the most that 64 others have, and the network that comes fit together.
const _: () = assert!(0.2 + 64.0 * OTHERS_HAVE[0] + COMES_WITH[1] <= 0.94 * 0.99);

/// What no endpoint of the lab has: the network's number in tunnels, its machine's label and
/// Ethernet address.
const VNI: u32 = 9000;
const LABEL: u32 = 1000;
const MACHINE: Mac = Mac::local(0x00ee_1000);

/// What was changed, and how long that took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Changes that were made.
    pub made: u64,
    /// Changes that were not, although they can be: all of what networks are promised together fits
    /// the link.
    pub refused: u64,
    /// What was said of the first of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The longest that the host took over one, in milliseconds.
    pub longest_ms: f64,
}

/// A change.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// A network comes, or has another share of the link.
    Comes(f64),
    /// One that sends has another share of the link.
    Other { network: u32, share: f64 },
    /// The network that came goes.
    Goes,
}

/// Change number `number` beside so many networks that send.
fn step(number: u64, others: u32) -> Step {
    let turn = number / 4;
    match number % 4 {
        0 => Step::Comes(COMES_WITH[0]),
        1 => Step::Comes(COMES_WITH[1]),
        2 => {
            let (round, network) =
                (turn / u64::from(others.max(1)), turn % u64::from(others.max(1)));
            Step::Other { network: network as u32, share: OTHERS_HAVE[(round % 2) as usize] }
        }
        _ => Step::Goes,
    }
}

impl Changes {
    /// Adds those of another round.
    pub fn add(&mut self, other: Self) {
        self.made += other.made;
        self.refused += other.refused;
        self.why = self.why.take().or(other.why);
        self.longest_ms = self.longest_ms.max(other.longest_ms);
    }

    /// Has networks of a host change for so long, beside so many that send. Each has the terms for
    /// a share of what all have in common.
    pub fn make(
        stop: &AtomicBool,
        agent: &Client,
        lasts: Duration,
        others: u32,
        terms: impl Fn(f64) -> NetworkShare,
    ) -> Result<Self, MeasureError> {
        let known = agent.networks().map_err(LabError::from)?;
        let Some(vtep) = known.vtep else {
            return Err(MeasureError::Config("networks change on hosts with tunnels only".into()));
        };
        let begin = Instant::now();
        let mut changes = Self::default();
        for number in 0.. {
            let due = EVERY * number;
            if due >= lasts {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                return Err(MeasureError::Interrupted);
            }
            sleep(due.saturating_sub(begin.elapsed()));
            let asked = Instant::now();
            let answer = match step(number.into(), others) {
                Step::Comes(share) => agent.set_network(&coming(&vtep, terms(share))),
                Step::Goes => agent.remove_network(&coming_name()),
                Step::Other { network, share } => {
                    let name = NetworkName(network_name(network));
                    let Some(spec) = known.networks.iter().find(|spec| spec.name == name) else {
                        continue;
                    };
                    agent.set_network(&NetworkSpec { share: terms(share), ..spec.clone() })
                }
            };
            changes.longest_ms = changes.longest_ms.max(asked.elapsed().as_secs_f64() * 1e3);
            match answer {
                Ok(_) => changes.made += 1,
                Err(error) => {
                    changes.refused += 1;
                    changes.why.get_or_insert(error.to_string());
                }
            }
        }
        Ok(changes)
    }
}

/// A share of the link as a minimum, or as a weight where its rate is not known.
pub(super) fn terms(share: f64, link: Option<Rate>) -> NetworkShare {
    let weight = link.is_none().then_some((share * 1000.0) as u16);
    NetworkShare { min: link.map(|link| Set::of(share, link)), weight, ..NetworkShare::default() }
}

fn coming_name() -> NetworkName {
    NetworkName("coming".into())
}

/// The network that comes and goes: with a machine on this host, so that it has a part in its link.
fn coming(vtep: &VtepList, share: NetworkShare) -> NetworkSpec {
    let member = Member { mac: MACHINE, addresses: Vec::new(), vtep: vtep.clone(), label: LABEL };
    NetworkSpec { share, ..NetworkSpec::new(coming_name(), VNI, vec![member]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_comes_changes_and_goes_and_each_other_changes_in_turn() {
        let steps: Vec<_> = (0..8).map(|number| step(number, 2)).collect();
        let other = |network, share| Step::Other { network, share };
        let turn =
            |network| [Step::Comes(0.01), Step::Comes(0.02), other(network, 0.01), Step::Goes];
        assert_eq!(steps, [turn(0), turn(1)].concat());
        assert_eq!(step(8 + 2, 2), other(0, 0.005));
    }
}
