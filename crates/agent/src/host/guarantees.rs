//! What objects guarantee ports here of the uplink, and which of that is kept: what
//! [`admission::admit_objects`] admits beside what the file promises.

use std::collections::{BTreeMap, BTreeSet};

use admission::{Grant, NotKept, PortAsk, Promise, TenantAsk, admit_objects};
use logical::objects::Identity;
use lossless::PortId;
use model::{LogicalPortName, NetworkName, NetworkShare, PortName, Uplink};
use units::{Bytes, Rate};

use super::attached::Attached;
use super::bound;
use crate::logical::AllFacts;

/// The longest frame at an MTU of 1500 bytes: what may go at once within a guarantee.
pub(super) const FRAME: u32 = 1514;

/// Guarantees of logical ports here, and of their tenants.
#[derive(Debug, Default)]
pub(super) struct Guarantees {
    /// The networks of the file that are promised something themselves.
    promised: BTreeSet<NetworkName>,
    /// What all of the file's are promised together.
    promise: Promise,
    tenants: BTreeMap<NetworkName, Guarantee>,
    ports: BTreeMap<PortId, Guarantee>,
    /// There is an uplink, and its rate is not declared.
    lacks_rate: bool,
}

/// A guarantee that is asked for.
#[derive(Clone, Debug)]
struct Guarantee {
    /// The object that says so.
    by: Identity,
    asked: Rate,
    kept: Result<Grant, NotKept>,
}

impl Guarantee {
    fn kept(&self) -> Option<Rate> {
        self.kept.ok().map(|it| it.rate)
    }

    fn is_whole(&self) -> bool {
        self.kept.is_ok_and(|it| it.short.is_none())
    }

    /// What is not kept of it and why, in a sentence, if that is so.
    fn note(&self) -> Option<String> {
        let Self { by, asked, kept } = self;
        match kept {
            Ok(Grant { short: None, .. }) => None,
            Ok(Grant { rate, short: Some(why) }) => Some(format!(
                "the guarantee of {asked} of {by} is kept at {rate}, as before: {why}"
            )),
            Err(why) => Some(format!("the guarantee of {asked} of {by} is not kept: {why}")),
        }
    }
}

impl Guarantees {
    /// The file's networks have these terms, and are promised so much together.
    pub fn set_file(&mut self, shares: &BTreeMap<NetworkName, NetworkShare>, promise: Promise) {
        let promised = shares.iter().filter(|(_, share)| share.min.is_some());
        self.promised = promised.map(|(name, _)| name.clone()).collect();
        self.promise = promise;
    }

    /// Admits what objects guarantee these ports, and writes a line of what is other than before.
    pub fn settle(&mut self, uplink: Option<&Uplink>, attached: &[Attached], facts: &AllFacts) {
        // Without an uplink nothing is shared that could be guaranteed.
        let Some(uplink) = uplink else { return };
        self.lacks_rate = uplink.rate.is_none();
        let asking = || {
            attached.iter().filter_map(|it| {
                let network = bound::owner(&it.spec)?;
                let rates = facts.get(it.spec.logical.as_ref()?)?.rates.as_ref()?;
                Some((it, network, rates, rates.guarantee?))
            })
        };
        let here: BTreeSet<_> = attached
            .iter()
            .filter(|it| it.spec.logical.is_some())
            .filter_map(|it| bound::owner(&it.spec))
            .collect();
        let tenants = facts.tenants.iter().filter(|(network, _)| here.contains(network));
        let terms = tenants.map(|(network, it)| (network, it.terms.guarantee, it.terms.limit));
        // Their ports had theirs out of a guarantee that nobody asks for any more.
        let lost = self.tenants.keys().filter(|it| !facts.tenants.contains_key(it));
        let lost = lost.map(|network| (network, None, None));
        let tenants: Vec<_> = terms
            .chain(lost)
            .map(|(network, guarantee, limit)| TenantAsk {
                tenant: network.clone(),
                guarantee,
                limit,
                had: self.of_tenant(network),
            })
            .collect();
        let were_none = self.ports.is_empty() && self.tenants.is_empty();
        if were_none && tenants.is_empty() && asking().next().is_none() {
            return;
        }
        let ports = asking().map(|(it, network, rates, guarantee)| PortAsk {
            tenant: network,
            port: &it.spec.name,
            guarantee,
            is_operators: rates.profile.tenant.is_none(),
            had: self.of_port(it.id),
        });
        let host = admission::Host { rate: uplink.rate, latency: uplink.latency, memory: Bytes(0) };
        let promise = self.promise_with_ports(uplink, attached);
        let kept = admit_objects(&host, &promise, FRAME, tenants, ports);
        let ports: BTreeMap<_, _> = asking()
            .filter_map(|(it, _, rates, asked)| {
                let kept = *kept.ports.get(&it.spec.name)?;
                Some((it.id, Guarantee { by: rates.profile.clone(), asked, kept }))
            })
            .collect();
        let tenants: BTreeMap<_, _> = kept
            .tenants
            .into_iter()
            .filter_map(|(network, kept)| {
                let it = facts.tenants.get(&network)?;
                let asked = it.terms.guarantee?;
                Some((network, Guarantee { by: it.tenant.clone(), asked, kept }))
            })
            .collect();
        let of_ports = attached.iter().filter_map(|it| {
            Some((Some(&it.spec.name), self.ports.get(&it.id), ports.get(&it.id)?))
        });
        let of_tenants = tenants.iter().map(|(at, now)| (None, self.tenants.get(at), now));
        for line in lines(of_ports.chain(of_tenants)) {
            line.write();
        }
        (self.tenants, self.ports) = (tenants, ports);
    }

    /// What the file promises, with what it promises ports of networks that are promised nothing.
    fn promise_with_ports(&self, uplink: &Uplink, attached: &[Attached]) -> Promise {
        let mut promise = self.promise;
        let mut bursts = 0;
        for Attached { spec, .. } in attached {
            let is_beside =
                spec.network.as_ref().is_some_and(|network| !self.promised.contains(network));
            if let Some(min) = spec.share.min.filter(|_| is_beside) {
                promise.bits_per_sec = promise.bits_per_sec.saturating_add(min.bits_per_sec());
                bursts += u64::from(FRAME);
            }
        }
        if let Some(rate) = uplink.rate {
            promise.wait += rate.time_for(bursts);
        }
        promise
    }

    /// What a port is guaranteed.
    pub fn of_port(&self, id: PortId) -> Option<Rate> {
        self.ports.get(&id)?.kept()
    }

    /// What a tenant is, by the network of its ports.
    pub fn of_tenant(&self, network: &NetworkName) -> Option<Rate> {
        self.tenants.get(network)?.kept()
    }

    /// How many are not kept, or less than is asked for.
    pub fn refused(&self) -> u32 {
        let all = self.ports.values().chain(self.tenants.values());
        all.filter(|it| !it.is_whole()).count() as u32
    }

    /// What is not kept of what a port is promised, in sentences.
    pub fn notes(&self, port: &Attached, facts: &AllFacts) -> Vec<String> {
        let Some(name) = &port.spec.logical else { return Vec::new() };
        let own = self.ports.get(&port.id).and_then(Guarantee::note);
        let network = bound::owner(&port.spec);
        let tenants = network.as_ref().and_then(|it| self.tenants.get(it)?.note());
        own.into_iter().chain(tenants).chain(self.unlimited(name, network, facts)).collect()
    }

    /// Limits that nobody keeps.
    fn unlimited(
        &self,
        port: &LogicalPortName,
        network: Option<NetworkName>,
        facts: &AllFacts,
    ) -> Vec<String> {
        if !self.lacks_rate {
            return Vec::new();
        }
        let rates = facts.get(port).and_then(|facts| facts.rates.as_ref());
        let own = rates.and_then(|it| Some((&it.profile, it.limit?)));
        let tenant = network.as_ref().and_then(|it| facts.tenants.get(it));
        let tenants = tenant.and_then(|it| Some((&it.tenant, it.terms.limit?)));
        let why = NotKept::NoRate;
        let told = own.into_iter().chain(tenants);
        told.map(|(by, limit)| format!("the limit of {limit} of {by} is not kept: {why}")).collect()
    }
}

/// What the log is told of a profile or a tenant: one line, however many ports it is of.
#[derive(Debug)]
struct Line<'a> {
    now: &'a Guarantee,
    /// The first port, if it is of ports.
    port: Option<&'a PortName>,
    /// Of how many ports, or tenants, it is so.
    count: u32,
}

impl Line<'_> {
    fn write(&self) {
        let Self { now: Guarantee { by, asked, kept }, port, count } = self;
        let port = port.map(tracing::field::display);
        match kept {
            Ok(Grant { short: None, .. }) => {
                tracing::info!(port, count, %by, %asked, "a guarantee is kept that was not before");
            }
            Ok(Grant { rate, short: Some(why) }) => {
                tracing::warn!(port, count, %by, %asked, kept = %rate, "a guarantee is kept as before, and not more: {why}");
            }
            Err(why) => {
                tracing::warn!(port, count, %by, %asked, "a guarantee is not kept: {why}");
            }
        }
    }
}

/// What is otherwise than before, of each port or tenant: a line for each object and what is of it
/// now. Other rates are no news, or a tenant could fill the log with them.
fn lines<'a>(
    all: impl Iterator<Item = (Option<&'a PortName>, Option<&'a Guarantee>, &'a Guarantee)>,
) -> Vec<Line<'a>> {
    // Whether anything is kept, and all of it.
    let state = |it: &Guarantee| (it.kept.is_ok(), it.is_whole());
    let mut lines: BTreeMap<_, Line<'a>> = BTreeMap::new();
    for (port, before, now) in all {
        // That it is kept is what everybody takes for granted, unless it was not so.
        if before.map_or((true, true), state) != state(now) {
            let line = Line { now, port, count: 0 };
            lines.entry((&now.by, state(now))).or_insert(line).count += 1;
        }
    }
    lines.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarantee(profile: &str, asked: &str, kept: Result<Grant, NotKept>) -> Guarantee {
        let kind = logical::objects::Kind::QosProfile;
        let by = Identity { kind, tenant: "t".parse().ok(), name: profile.parse().unwrap() };
        Guarantee { by, asked: asked.parse().unwrap(), kept }
    }

    fn grant(rate: &str, short: Option<NotKept>) -> Result<Grant, NotKept> {
        Ok(Grant { rate: rate.parse().unwrap(), short })
    }

    #[test]
    fn what_is_kept_of_more_is_told_in_the_note() {
        let short = Some(NotKept::Uplink(50_000_000));
        let note = guarantee("gold", "60mbit", grant("40mbit", short)).note().unwrap();
        let start = "the guarantee of 60mbit of QosProfile/t/gold is kept at 40mbit, as before: 50mbit is left of";
        assert!(note.starts_with(start), "{note}");
        assert_eq!(guarantee("gold", "60mbit", grant("60mbit", None)).note(), None);
    }

    #[test]
    fn the_log_has_a_line_of_each_profile_when_what_is_kept_changes() {
        let ports = ["a", "b", "c"].map(|it| PortName(it.into()));
        let refused = |asked| guarantee("gold", asked, Err(NotKept::Uplink(5)));
        let whole = |asked: &str| guarantee("gold", asked, grant(asked, None));
        let told = |before: Option<&Guarantee>, now: &Guarantee| {
            let all = ports.iter().map(|port| (Some(port), before, now));
            let told = lines(all).into_iter().map(|it| (it.port.cloned(), it.count));
            told.collect::<Vec<_>>()
        };
        let line = vec![(Some(PortName("a".into())), 3)];
        assert_eq!(told(None, &refused("60mbit")), line);
        assert_eq!(told(None, &whole("60mbit")), []);
        // A tenant asks for something else each second.
        assert_eq!(told(Some(&refused("60mbit")), &refused("61mbit")), []);
        assert_eq!(told(Some(&whole("60mbit")), &whole("61mbit")), []);
        assert_eq!(told(Some(&refused("60mbit")), &whole("6mbit")), line);
        let short = guarantee("gold", "60mbit", grant("6mbit", Some(NotKept::Uplink(5))));
        assert_eq!(told(Some(&whole("6mbit")), &short), line);
        assert_eq!(told(Some(&short), &refused("60mbit")), line);
        // Each profile has its own.
        let [one, other] = ["gold", "tin"].map(|it| guarantee(it, "6mbit", Err(NotKept::NoRate)));
        assert_eq!(lines([(None, None, &one), (None, None, &other)].into_iter()).len(), 2);
    }
}
