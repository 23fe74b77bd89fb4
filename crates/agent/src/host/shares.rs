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
use units::{Bytes, Instant, Rate};

use super::attached::Attached;
use super::bound;
use super::guarantees::{FRAME, Guarantees};
use super::host_plane::HostPlane;
use super::numbers::Numbers;
use crate::logical::AllFacts;

/// What networks have of an uplink with a rate.
#[derive(Debug)]
pub(super) struct UplinkShares {
    rate: Rate,
    /// By name: the terms of the file's networks that are in force.
    shares: BTreeMap<NetworkName, NetworkShare>,
    promise: Promise,
    /// Those of tenants that have some, by the network of their ports.
    tenants: BTreeMap<NetworkName, NetworkShare>,
    /// Of networks of which a port here has a share: what those ports are promised.
    within: BTreeMap<NetworkName, Within>,
    /// The ports of those networks: the terms that are in force.
    ports: BTreeMap<PortId, PortRates>,
}

/// A port's terms, and how much of its maximum may go at once after a rest, if that is declared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct PortRates {
    share: PortShare,
    burst: Option<Bytes>,
}

/// Ports, and what is known of their terms.
#[derive(Clone, Copy)]
pub(super) struct AtUplink<'a> {
    pub attached: &'a [Attached],
    pub facts: &'a AllFacts,
    pub guarantees: &'a Guarantees,
}

impl AtUplink<'_> {
    /// The terms of each port of a network.
    fn rates(&self) -> impl Iterator<Item = (PortId, NetworkName, PortRates)> {
        self.attached.iter().filter_map(|Attached { id, spec, .. }| {
            let share = bound::share(self.facts, spec, self.guarantees.of_port(*id));
            let burst = bound::burst(self.facts, spec);
            Some((*id, bound::owner(spec)?, PortRates { share, burst }))
        })
    }

    /// The terms of tenants that have a port here.
    fn tenants(&self) -> BTreeMap<NetworkName, NetworkShare> {
        let logical = self.attached.iter().filter(|it| it.spec.logical.is_some());
        let terms = |it: &Attached| {
            let network = bound::owner(&it.spec)?;
            let max = self.facts.tenants.get(&network)?.terms.limit;
            let min = self.guarantees.of_tenant(&network);
            Some((network, NetworkShare { min, max, ..NetworkShare::default() }))
        };
        logical.filter_map(terms).collect()
    }
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
            tenants: BTreeMap::new(),
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
            self.set_network(now, plane, name, network);
        }
    }

    /// Has a network's terms hold, each way.
    fn set_network(
        &self,
        now: Instant,
        plane: &mut HostPlane,
        name: &NetworkName,
        network: Network,
    ) {
        plane.set_terms(now, network, self.terms_of(name));
        if let Some((overlay, _)) = plane.peers_mut() {
            overlay.set_terms(now, network, self.terms(&self.share(name)));
        }
    }

    /// What is declared of a network, or of the tenant whose ports' it is.
    fn share(&self, network: &NetworkName) -> NetworkShare {
        let share = self.shares.get(network).or_else(|| self.tenants.get(network));
        share.copied().unwrap_or_default()
    }

    /// Has ports have what is declared of them, within their networks. Where one of a network's has
    /// a share, each of them has turns of its own.
    pub(super) fn set_ports(
        &mut self,
        now: Instant,
        plane: &mut HostPlane,
        numbers: &Numbers,
        at: AtUplink<'_>,
    ) {
        let mut within: BTreeMap<NetworkName, Within> = BTreeMap::new();
        for (_, network, PortRates { share, .. }) in at.rates() {
            if !share.is_default() {
                let it = within.entry(network).or_default();
                let bits = share.min.map_or(0, Rate::bits_per_sec);
                it.bits = it.bits.saturating_add(bits);
                it.ports += u32::from(bits > 0);
            }
        }
        let before = mem::replace(&mut self.within, within);
        let tenants = mem::replace(&mut self.tenants, at.tenants());
        let are_none = before.is_empty() && self.within.is_empty();
        if are_none && tenants.is_empty() && self.tenants.is_empty() {
            return;
        }
        let mut ports = BTreeMap::new();
        for (id, network, rates) in at.rates() {
            let rates = self.within.contains_key(&network).then_some(rates);
            if self.ports.get(&id) != rates.as_ref() {
                plane.set_port_terms(now, id, rates.as_ref().map(port_terms));
            }
            ports.extend(rates.map(|rates| (id, rates)));
        }
        self.ports = ports;
        for (name, network) in numbers.iter() {
            let is_other = before.get(name) != self.within.get(name)
                || tenants.get(name) != self.tenants.get(name);
            if is_other {
                self.set_network(now, plane, name, network);
            }
        }
    }

    /// A network's terms at the uplink. What it is promised are its ports' promises if it is
    /// promised nothing itself.
    fn terms_of(&self, network: &NetworkName) -> Terms {
        let share = self.share(network);
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
            let its = attached.iter().filter(|it| bound::owner(&it.spec).as_ref() == Some(name));
            let status = |Attached { id, spec, .. }: &Attached| {
                let (used, PortRates { share, .. }) =
                    (plane.port_link_use(*id)?, self.ports.get(id)?);
                Some(PortShareStatus {
                    port: spec.name.clone(),
                    min: share.min,
                    max: share.max,
                    weight: share.weight.unwrap_or(1),
                    sent_bytes: used.bytes,
                    guaranteed_bytes: used.guaranteed_bytes,
                })
            };
            match self.within.contains_key(name) {
                true => its.filter_map(status).collect(),
                false => Vec::new(),
            }
        };
        // What ports are promised of networks that are promised nothing, and tenants.
        let beside = self.within.iter().filter(|(name, _)| self.share(name).min.is_none());
        let beside = beside.map(|(_, it)| *it);
        let tenants = self.tenants.values().filter_map(|share| share.min);
        let tenants = tenants.map(|min| Within { bits: min.bits_per_sec(), ports: 1 });
        let beside = beside.chain(tenants).fold(Within::default(), |sum, it| Within {
            bits: sum.bits.saturating_add(it.bits),
            ports: sum.ports + it.ports,
        });
        let wait = self.rate.time_for(u64::from(FRAME) * u64::from(beside.ports));
        let status = |(name, network): (&NetworkName, Network)| {
            let used = plane.link_use(now, network)?;
            let share = self.share(name);
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

/// A port's terms within its network's. A bucket that is less deep than it has to be for the rate
/// is made so deep.
fn port_terms(rates: &PortRates) -> Terms {
    let PortRates { share: PortShare { min, max, weight }, burst } = *rates;
    let burst = burst.map_or(0, |it| u32::try_from(it.0).unwrap_or(u32::MAX));
    let limit = |max: Rate| Bound::bits(max, max.bucket_bytes(FRAME).max(burst));
    Terms {
        min: min.map_or_else(Bound::default, |min| Bound::bits(min, FRAME)),
        max: max.map_or_else(Bound::default, limit),
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
            tenants: BTreeMap::new(),
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

    #[test]
    fn a_burst_is_how_deep_the_bucket_of_a_limit_is_and_no_less_than_the_rate_takes() {
        let share = PortShare {
            min: "1mbit".parse().ok(),
            max: "10mbit".parse().ok(),
            ..PortShare::default()
        };
        let depths = [None, Some(100), Some(64 << 10), Some(1 << 40)].map(|burst| {
            let terms = port_terms(&PortRates { share, burst: burst.map(Bytes) });
            let [min, max] = [terms.min, terms.max].map(|it| it.bits.unwrap().burst);
            assert_eq!(min, FRAME, "others wait for a frame of what is guaranteed");
            max
        });
        assert_eq!(depths, [3064, 3064, 64 << 10, u32::MAX]);
    }
}
