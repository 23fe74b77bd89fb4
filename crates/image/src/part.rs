//! What one host needs of a domain.

use alloc::collections::BTreeSet;

use logical::objects::{Identity, Kind};

use crate::condition::{Condition, Group};
use crate::domain::Domain;
use crate::rows::{Policy, Port};

/// What conditions speak of.
#[derive(Default)]
struct Spoken {
    groups: BTreeSet<Group>,
    sets: BTreeSet<Identity>,
}

impl Spoken {
    fn of(&mut self, conditions: &[Condition]) {
        for peer in conditions.iter().flat_map(Condition::peers) {
            self.groups.extend(peer.groups.iter().cloned());
            self.sets.extend(peer.sets.iter().cloned());
        }
    }

    fn of_policy(&mut self, policy: &Policy) {
        policy.rules.iter().for_each(|rule| self.of(&rule.conditions));
    }
}

impl Domain {
    /// What a host with these ports needs: of the ports of other hosts how to reach them, of its
    /// own all; of policies those that hold for its own, and of groups, sets and profiles what
    /// these and the routers speak of. Packets of its own ports are decided the same as by all of
    /// the domain. Children of its ports are its own. A host where a router of these names
    /// translates needs the domain for that, too.
    pub fn part(&self, own: &BTreeSet<Identity>) -> Self {
        let is_child = |row: &Port| row.parent.as_ref().is_some_and(|(of, _)| own.contains(of));
        let children = self.ports.iter().filter(|(_, row)| is_child(row));
        let ports = own.iter().filter_map(|port| self.ports.get_key_value(port)).chain(children);
        let ports = ports.map(|(port, row)| (port.clone(), row.clone())).collect();
        let mut part = Self { ports, ..self.clone() };
        let has_router = part.routers.keys().any(|router| own.contains(router));
        if part.ports.is_empty() && !has_router {
            return Self::default();
        }
        let policies: BTreeSet<_> = part.ports.values().flat_map(|it| &it.policies).collect();
        part.policies.retain(|policy, _| policies.contains(policy));
        let mut spoken = Spoken::default();
        part.policies.values().for_each(|it| spoken.of_policy(it));
        for it in part.route_policies.values() {
            spoken.of(core::slice::from_ref(&it.condition));
        }
        for it in part.nats.values() {
            spoken.of(it.condition.as_slice());
            spoken.sets.extend(it.exempt.iter().chain(&it.only_for).cloned());
        }
        part.members.retain(|(group, _), _| spoken.groups.contains(group));
        part.addresses.retain(|(set, _), ()| spoken.sets.contains(set));
        let switches: BTreeSet<_> = part.ports.values().map(|it| &it.switch).collect();
        let zones = part.switches.iter().filter(|(switch, _)| switches.contains(switch));
        let zones: BTreeSet<_> = zones.flat_map(|(_, it)| &it.zones).collect();
        part.zones.retain(|zone, _| zones.contains(zone));
        let ports = || part.ports.values();
        let profiles: BTreeSet<_> =
            ports().flat_map(|it| it.dhcp4.iter().chain(&it.dhcp6)).collect();
        part.profiles.retain(|profile, _| profiles.contains(profile));
        let qos: BTreeSet<_> = ports().filter_map(|it| it.qos.as_ref()).collect();
        part.qos.retain(|profile, _| qos.contains(profile));
        let tenants: BTreeSet<_> = part.ports.keys().filter_map(|it| it.tenant.as_ref()).collect();
        part.terms.retain(|tenant, _| tenants.contains(&tenant.name));
        let logs = part.policies.values().flat_map(|it| it.rules.iter());
        let logs = logs.filter_map(|rule| rule.log.as_ref()?.meter.clone());
        let logs = logs.map(|name| Identity { kind: Kind::Meter, tenant: None, name });
        let copp = part.routers.values().filter_map(|it| it.copp.clone());
        let meters: BTreeSet<_> = logs.chain(copp).collect();
        part.meters.retain(|meter, _| meters.contains(meter));
        part
    }
}
