//! How networks share the uplink: what is declared of each, as the switch is told it, and what each
//! has had.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use admission::Promise;
use datapath::Network;
use lossless::LinkConfig;
use model::{NetworkName, NetworkShare, NetworkShareStatus, SharingStatus, Uplink};
use shares::{Bound, Terms};
use units::{Instant, Rate};

use super::host_plane::HostPlane;
use super::numbers::Numbers;

/// The longest frame at an MTU of 1500 bytes.
const FRAME: u32 = 1514;

/// What networks have of an uplink with a rate.
#[derive(Debug)]
pub(super) struct UplinkShares {
    rate: Rate,
    /// By name: the terms that are in force.
    shares: BTreeMap<NetworkName, NetworkShare>,
    promise: Promise,
}

impl UplinkShares {
    /// Has networks share an uplink that was attached to a plane just now, if its rate is declared.
    /// Each of their frames takes `around` bytes more there than in the switch.
    pub(super) fn begin(uplink: &Uplink, plane: &mut HostPlane, around: u32) -> Option<Self> {
        let rate = uplink.rate?;
        plane.share_uplink(LinkConfig { rate, frame: FRAME + around, around });
        Some(Self { rate, shares: BTreeMap::new(), promise: Promise::default() })
    }

    /// Gives each network the terms that are declared of it, each way.
    pub(super) fn set(
        &mut self,
        now: Instant,
        plane: &mut HostPlane,
        numbers: &Numbers,
        shares: BTreeMap<NetworkName, NetworkShare>,
        promise: Promise,
    ) {
        self.promise = promise;
        self.shares = shares;
        for (name, network) in numbers.iter() {
            let share = self.shares.get(name).copied().unwrap_or_default();
            let terms = self.terms(&share);
            plane.set_terms(now, network, terms);
            if let Some((overlay, _)) = plane.peers_mut() {
                overlay.set_terms(now, network, terms);
            }
        }
    }

    fn terms(&self, share: &NetworkShare) -> Terms {
        let burst = u32::try_from(share.burst().0).unwrap_or(u32::MAX);
        Terms {
            min: share.min.map_or_else(Bound::default, |min| Bound::bits(min, burst)),
            max: share
                .max
                .map_or_else(Bound::default, |max| Bound::bits(max, max.bucket_bytes(FRAME))),
            weight: self.weight(share),
        }
    }

    /// A network's declared weight, or one for each hundredth of the uplink that it is guaranteed.
    fn weight(&self, share: &NetworkShare) -> NonZeroU16 {
        let hundredths = |min: Rate| {
            let of = u128::from(min.bits_per_sec()) * 100 / u128::from(self.rate.bits_per_sec());
            u16::try_from(of).unwrap_or(u16::MAX)
        };
        let weight = share.weight.or_else(|| share.min.map(hundredths)).unwrap_or(1);
        NonZeroU16::new(weight).unwrap_or(NonZeroU16::MIN)
    }

    /// What is promised, and what each network has had.
    pub(super) fn status(
        &self,
        now: Instant,
        plane: &HostPlane,
        numbers: &Numbers,
    ) -> SharingStatus {
        let status = |(name, network): (&NetworkName, Network)| {
            let used = plane.link_use(now, network)?;
            let share = self.shares.get(name).copied().unwrap_or_default();
            let granted = plane.peers().and_then(|overlay| overlay.granted(network));
            let granted = granted.unwrap_or_default();
            Some(NetworkShareStatus {
                network: name.clone(),
                min: share.min,
                max: share.max,
                weight: self.weight(&share).get(),
                sent_bytes: used.bytes,
                guaranteed_bytes: used.guaranteed_bytes,
                resent_bytes: used.resent_bytes,
                backlogged: used.backlogged,
                waited: used.waited,
                granted_bytes: granted.bytes,
                granted_guaranteed_bytes: granted.guaranteed_bytes,
            })
        };
        let short = plane.uplink().and_then(|id| plane.switch().link_short(id));
        SharingStatus {
            promised_bits: self.promise.bits_per_sec,
            promised_wait: self.promise.wait,
            short: short.unwrap_or_default(),
            networks: numbers.iter().filter_map(status).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_as_declared_or_as_large_as_the_guarantee() {
        let shares = UplinkShares {
            rate: Rate::from_gbit(10),
            shares: BTreeMap::new(),
            promise: Promise::default(),
        };
        let share = |min: &str, weight| NetworkShare {
            min: min.parse().ok(),
            weight,
            ..NetworkShare::default()
        };
        let weights = [share("", None), share("1mbit", None), share("2gbit", None)]
            .map(|share| shares.weight(&share).get());
        assert_eq!(weights, [1, 1, 20]);
        assert_eq!(shares.weight(&share("2gbit", Some(7))).get(), 7);
    }
}
