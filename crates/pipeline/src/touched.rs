//! Which decisions a change of rows can change.

use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

use image::{Change, Condition, Domain, Nat, RoutePolicy, Station};
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
        Self::by(&before.diff(now), before, now)
    }

    /// What these changes touch, which make one part's next rows of those before.
    pub fn by(changes: &[Change], before: &Domain, now: &Domain) -> Self {
        let mut ports = BTreeSet::new();
        let (mut policies, mut groups, mut sets) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut stations = Stations::default();
        for change in changes {
            match change {
                Change::Port(port, _) => {
                    ports.insert(port.clone());
                }
                Change::Policy(policy, _) => {
                    policies.insert(policy.clone());
                }
                Change::Member((group, _), _) => {
                    groups.insert(group.clone());
                }
                Change::Address((set, _), _) => {
                    sets.insert(set.clone());
                }
                // Who is new, and has nothing that others have, is not where known packets go.
                Change::Station(key, Some(station))
                    if !before.stations.contains_key(key)
                        && !has_routers_address(before, station)
                        && stations.of(before, &key.0).are_free(station) => {}
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
            let mut nats = rows.nats.values();
            let translates_by = |it: &Nat| {
                let named = it.exempt.iter().chain(&it.only_for);
                it.condition.iter().any(speaks) || named.into_iter().any(|it| sets.contains(it))
            };
            let routes_by = |it: &RoutePolicy| speaks(&it.condition);
            if rows.route_policies.values().any(routes_by) || nats.any(translates_by) {
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

/// Whether somebody has an address that a router has, or stands for.
fn has_routers_address(rows: &Domain, station: &Station) -> bool {
    let has = |it: IpAddr| station.addresses.contains(&it);
    let ports = rows.router_ports.values().flat_map(|it| &it.addresses);
    let external = |it: &Nat| {
        station.addresses.iter().any(|own| it.external.contains(*own))
            || it.external_mac == Some(station.mac)
    };
    ports.into_iter().any(|it| has(it.address))
        || rows.nats.values().any(external)
        || rows.balancers.values().any(|it| has(it.vip))
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
