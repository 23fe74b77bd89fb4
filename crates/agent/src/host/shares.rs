//! How networks share the uplink: what is declared of each, as the switch is told it, and what each
//! has had.

use std::collections::BTreeMap;
use std::mem;
use std::num::NonZeroU16;

use admission::Promise;
use datapath::Network;
use lossless::{LinkConfig, PortId};
use model::{
    NetworkName, NetworkShare, NetworkShareStatus, PortShare, PortShareStatus, SharingStatus,
    Uplink,
};
use shares::{Bound, Terms};
use units::{Instant, Rate};

use super::attached::Attached;
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
    /// Of networks of which a port here has a share: what those ports are promised.
    within: BTreeMap<NetworkName, Within>,
    /// The ports of those networks: the terms that are in force.
    ports: BTreeMap<PortId, PortShare>,
}

/// What ports of a network are promised together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Within {
    /// In bits a second.
    bits: u64,
    /// How many are promised something.
    ports: u32,
}

impl UplinkShares {
    /// Has networks share an uplink that was attached to a plane just now, if its rate is declared.
    /// Each of their frames takes `around` bytes more there than in the switch.
    pub(super) fn begin(uplink: &Uplink, plane: &mut HostPlane, around: u32) -> Option<Self> {
        let rate = uplink.rate?;
        plane.share_uplink(LinkConfig { rate, frame: FRAME + around, around });
        Some(Self {
            rate,
            shares: BTreeMap::new(),
            promise: Promise::default(),
            within: BTreeMap::new(),
            ports: BTreeMap::new(),
        })
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
            plane.set_terms(now, network, self.terms_of(name));
            let terms = self.terms(&self.shares.get(name).copied().unwrap_or_default());
            if let Some((overlay, _)) = plane.peers_mut() {
                overlay.set_terms(now, network, terms);
            }
        }
    }

    /// Has ports have what is declared of them, within their networks. Where one of a network's has
    /// a share, each of them has turns of its own.
    pub(super) fn set_ports(
        &mut self,
        now: Instant,
        plane: &mut HostPlane,
        numbers: &Numbers,
        attached: &[Attached],
    ) {
        let mut within: BTreeMap<NetworkName, Within> = BTreeMap::new();
        for Attached { spec, .. } in attached {
            if let Some(network) = spec.network.as_ref().filter(|_| !spec.share.is_default()) {
                let it = within.entry(network.clone()).or_default();
                let bits = spec.share.min.map_or(0, Rate::bits_per_sec);
                it.bits = it.bits.saturating_add(bits);
                it.ports += u32::from(bits > 0);
            }
        }
        let before = mem::replace(&mut self.within, within);
        if before.is_empty() && self.within.is_empty() {
            return;
        }
        let mut ports = BTreeMap::new();
        for Attached { id, spec, .. } in attached {
            let network = spec.network.as_ref();
            let is_within = network.is_some_and(|network| self.within.contains_key(network));
            let share = is_within.then_some(spec.share);
            if self.ports.get(id) != share.as_ref() {
                plane.set_port_terms(now, *id, share.as_ref().map(port_terms));
            }
            ports.extend(share.map(|share| (*id, share)));
        }
        self.ports = ports;
        for (name, network) in numbers.iter() {
            if before.get(name) != self.within.get(name) {
                plane.set_terms(now, network, self.terms_of(name));
            }
        }
    }

    /// A network's terms at the uplink. What it is promised are its ports' promises if it is
    /// promised nothing itself.
    fn terms_of(&self, network: &NetworkName) -> Terms {
        let share = self.shares.get(network).copied().unwrap_or_default();
        let terms = self.terms(&share);
        match self.within.get(network) {
            Some(Within { bits, ports }) if share.min.is_none() => Terms {
                min: Rate::from_bits_per_sec(*bits)
                    .map_or_else(Bound::default, |min| Bound::bits(min, FRAME * ports)),
                ..terms
            },
            _ => terms,
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
        attached: &[Attached],
    ) -> SharingStatus {
        let ports = |name: &NetworkName| {
            let its = attached.iter().filter(|port| port.spec.network.as_ref() == Some(name));
            let status = |Attached { id, spec, .. }: &Attached| {
                let used = plane.port_link_use(*id)?;
                Some(PortShareStatus {
                    port: spec.name.clone(),
                    min: spec.share.min,
                    max: spec.share.max,
                    weight: spec.share.weight.unwrap_or(1),
                    sent_bytes: used.bytes,
                    guaranteed_bytes: used.guaranteed_bytes,
                })
            };
            match self.within.contains_key(name) {
                true => its.filter_map(status).collect(),
                false => Vec::new(),
            }
        };
        // What ports are promised of networks that are promised nothing.
        let is_unpromised =
            |name: &NetworkName| self.shares.get(name).is_none_or(|share| share.min.is_none());
        let beside = self.within.iter().filter(|(name, _)| is_unpromised(name));
        let beside = beside.fold(Within::default(), |sum, (_, it)| Within {
            bits: sum.bits.saturating_add(it.bits),
            ports: sum.ports + it.ports,
        });
        let wait = self.rate.time_for(u64::from(FRAME) * u64::from(beside.ports));
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
                ports: ports(name),
            })
        };
        let short = plane.uplink().and_then(|id| plane.switch().link_short(id));
        SharingStatus {
            promised_bits: self.promise.bits_per_sec.saturating_add(beside.bits),
            promised_wait: self.promise.wait + wait,
            short: short.unwrap_or_default(),
            networks: numbers.iter().filter_map(status).collect(),
        }
    }
}

/// A port's terms within its network's.
fn port_terms(share: &PortShare) -> Terms {
    let PortShare { min, max, weight } = *share;
    Terms {
        min: min.map_or_else(Bound::default, |min| Bound::bits(min, FRAME)),
        max: max.map_or_else(Bound::default, |max| Bound::bits(max, max.bucket_bytes(FRAME))),
        weight: weight.and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MIN),
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
            within: BTreeMap::new(),
            ports: BTreeMap::new(),
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
