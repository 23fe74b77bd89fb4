//! Whether a network's ports can have what they are promised of it.

use core::fmt;

use model::{NetworkName, NetworkShare, PortName};
use units::Rate;

use crate::excess::{Amount, Most, list, quoted};
use crate::largest::Largest;
use crate::narrow;

/// Why a network's ports on a host cannot have what they are promised: it is more than the network
/// has there.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct NotWithin {
    /// The network.
    pub network: NetworkName,
    /// In bits a second.
    pub sum: u64,
    /// What the network is promised, or may have.
    pub limit: Rate,
    /// Whether the limit is its `max`, as it is promised nothing itself.
    pub is_max: bool,
    /// In bits a second.
    pub most: Most<PortName>,
}

impl NotWithin {
    /// The port whose share is to be lowered first.
    pub fn blamed(&self) -> Option<&PortName> {
        self.most.first().map(|(port, _)| port)
    }
}

impl fmt::Display for NotWithin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, sum, limit, is_max, most } = self;
        let rate = |bits: u64| Rate::from_bits_per_sec(bits).map(Amount::Rate);
        let sum = rate(*sum).unwrap_or(Amount::Rate(*limit));
        let which = if *is_max { "max" } else { "min" };
        write!(
            f,
            "`min` of all ports of network `{network}` is {sum}, and may be {limit}, the network's `{which}`; most have "
        )?;
        list(f, quoted(most), rate)?;
        f.write_str(": lower one of these, or raise the network's")
    }
}

/// Why a port cannot have a share of an uplink: none is kept there.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`share` of `{port}` is of an uplink whose rate is not known: declare `rate` in [uplink]")]
pub struct OfNoRate {
    /// The port.
    pub port: PortName,
}

/// Adds up what a network's ports are promised of an uplink, in bits a second: no more than the
/// network is; or than it may have, if it is promised nothing.
///
/// # Errors
///
/// [`NotWithin`] names the sum, its limit, and who has most of it.
pub fn admit_ports<'a>(
    network: &NetworkName,
    share: &NetworkShare,
    ports: impl IntoIterator<Item = (&'a PortName, Rate)>,
) -> Result<u64, NotWithin> {
    let (mut sum, mut largest) = (0, Largest::default());
    for (port, min) in ports {
        sum += u128::from(min.bits_per_sec());
        largest.note(port, min.bits_per_sec());
    }
    let sum = narrow(sum);
    match share.min.or(share.max) {
        Some(limit) if sum > limit.bits_per_sec() => Err(NotWithin {
            network: network.clone(),
            sum,
            limit,
            is_max: share.min.is_none(),
            most: largest.named(PortName::clone),
        }),
        _ => Ok(sum),
    }
}
