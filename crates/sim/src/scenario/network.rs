//! Virtual networks with terms, by which servers grant credit for their links.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};
use shares::{Bound, Terms};
use units::Rate;

use super::words::Vms;

/// A virtual network: machines that share links by its terms. What they send counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Whose network it is.
    pub machines: Vms,
    /// What of each server's link is granted to it before others, if it is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Rate>,
    /// What is granted to it at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Rate>,
    /// Its part of what minima leave. Absent: one for each hundredth of the link that is its
    /// minimum, 1 without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
}

impl Network {
    /// Its terms at a link of this rate, whose longest frame takes so many bytes of it: what an
    /// agent makes of a network's share.
    pub(crate) fn terms(&self, link: Rate, frame: u32) -> Terms {
        let hundredths = |min: Rate| {
            let of = u128::from(min.bits_per_sec()) * 100 / u128::from(link.bits_per_sec());
            u16::try_from(of).unwrap_or(u16::MAX)
        };
        let weight = self.weight.or_else(|| self.min.map(hundredths)).unwrap_or(1);
        let bound = |rate: Option<Rate>, burst: &dyn Fn(Rate) -> u32| {
            rate.map_or_else(Bound::default, |rate| Bound::bits(rate, burst(rate)))
        };
        Terms {
            min: bound(self.min, &|_| frame),
            max: bound(self.max, &|max| max.bucket_bytes(frame)),
            weight: NonZeroU16::new(weight).unwrap_or(NonZeroU16::MIN),
        }
    }
}
