//! Which decisions a change of rows can change.

use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

use image::{Change, Condition, Domain, Station};
use logical::objects::Identity;
use units::Mac;

/// What decides otherwise than before.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Touched {
    /// Anything may.
    All,
    /// What these ports' rules say of packets, and nothing else.
    Ports(BTreeSet<Identity>),
}

impl Touched {
    /// What one part's next rows touch.
    pub fn between(before: &Domain, now: &Domain) -> Self {
        let mut ports = BTreeSet::new();
        let (mut policies, mut groups, mut sets) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut stations = Stations::default();
        for change in before.diff(now) {
            match change {
                Change::Port(port, _) => {
                    ports.insert(port);
                }
                Change::Policy(policy, _) => {
                    policies.insert(policy);
                }
                Change::Member((group, _), _) => {
                    groups.insert(group);
                }
                Change::Address((set, _), _) => {
                    sets.insert(set);
                }
                // Who is new, and has nothing that others have, is not where known packets go.
                Change::Station(key, Some(station))
                    if !before.stations.contains_key(&key)
                        && stations.of(before, &key.0).are_free(&station) => {}
                // These are asked by no packet of a flow.
                Change::Zone(..) | Change::Profile(..) | Change::Meter(..) => {}
                _ => return Self::All,
            }
        }
        let speaks = |it: &Condition| {
            it.peers()
                .any(|peer| !peer.groups.is_disjoint(&groups) || !peer.sets.is_disjoint(&sets))
        };
        for rows in [before, now] {
            if rows.route_policies.values().any(|it| speaks(&it.condition)) {
                return Self::All;
            }
            let others = rows.policies.iter().filter(|(_, policy)| {
                policy.rules.iter().any(|rule| rule.conditions.iter().any(speaks))
            });
            policies.extend(others.map(|(name, _)| name.clone()));
        }
        for rows in [before, now] {
            let theirs = rows.ports.iter().filter(|(_, row)| !row.policies.is_disjoint(&policies));
            ports.extend(theirs.map(|(port, _)| port.clone()));
        }
        Self::Ports(ports)
    }
}

/// The addresses of a switch.
#[derive(Default)]
struct Addresses {
    macs: BTreeSet<Mac>,
    addresses: BTreeSet<IpAddr>,
}

impl Addresses {
    fn are_free(&self, station: &Station) -> bool {
        !self.macs.contains(&station.mac)
            && station.addresses.iter().all(|it| !self.addresses.contains(it))
    }
}

/// The addresses of switches that were asked for.
#[derive(Default)]
struct Stations(BTreeMap<Identity, Addresses>);

impl Stations {
    fn of(&mut self, rows: &Domain, switch: &Identity) -> &Addresses {
        self.0.entry(switch.clone()).or_insert_with(|| {
            let mut all = Addresses::default();
            for (_, station) in rows.stations.iter().filter(|((at, _), _)| at == switch) {
                all.macs.insert(station.mac);
                all.addresses.extend(&station.addresses);
            }
            all
        })
    }
}

#[cfg(test)]
mod tests {
    use logical::objects::Name;

    use super::*;

    const TEXT: &str = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/24]}}
- {kind: LogicalPort, metadata: {name: a, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:01', addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: b, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:02', addresses: [10.0.0.2]}}
- {kind: AddressSet, metadata: {name: x, tenant: t}, spec: {addresses: [192.0.2.0/24]}}
- {kind: Policy, metadata: {name: p, tenant: t}, spec: {appliesTo: {ports: [a]}, rules: [{name: r, direction: toPort, action: allow, peer: {sets: [x]}}]}}
- {kind: Policy, metadata: {name: q, tenant: t}, spec: {appliesTo: {ports: [b]}, rules: [{name: r, direction: toPort, action: drop}]}}
";

    fn rows(text: &str) -> Domain {
        let topology = logical::load(text).unwrap_or_else(|faults| panic!("{faults:?}"));
        compiler::compile(&topology).into_values().next().unwrap()
    }

    fn touched(from: &str, to: &str) -> Touched {
        assert!(TEXT.contains(from), "{from}");
        Touched::between(&rows(TEXT), &rows(&TEXT.replace(from, to)))
    }

    fn ports(names: &[&str]) -> Touched {
        let kind = logical::objects::Kind::LogicalPort;
        let tenant: Option<Name> = Some("t".parse().unwrap());
        let port =
            |name: &&str| Identity { kind, tenant: tenant.clone(), name: name.parse().unwrap() };
        Touched::Ports(names.iter().map(port).collect())
    }

    #[test]
    fn what_one_policy_or_set_says_touches_its_ports_alone() {
        assert_eq!(touched("192.0.2.0", "192.0.2.0"), ports(&[]));
        assert_eq!(touched("192.0.2.0", "198.51.100.0"), ports(&["a"]));
        assert_eq!(touched("action: drop", "action: reject"), ports(&["b"]));
        assert_eq!(touched("{ports: [b]}", "{ports: [a]}"), ports(&["a", "b"]));
    }

    #[test]
    fn a_new_port_touches_itself_and_what_others_send_to_where_it_was_everything() {
        let new = "
- {kind: LogicalPort, metadata: {name: c, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:03', addresses: [10.0.0.3]}}
- {kind: AddressSet";
        assert_eq!(touched("\n- {kind: AddressSet", new), ports(&["c"]));
        assert_eq!(touched("00:02", "00:03"), Touched::All);
        assert_eq!(
            touched("subnets: [10.0.0.0/24]", "subnets: [10.0.0.0/24], mtu: 1400"),
            Touched::All
        );
    }
}
