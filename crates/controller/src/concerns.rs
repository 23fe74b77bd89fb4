//! Which domains objects have to do with, and which of them each revision has changed.
//!
//! An object has to do with the domains that have a row of it. A tenant has to do with those that
//! its switches, routers and ports are in: a port may be in another tenant's switch. So has
//! whatever of it has no rows of its own, as a service that is part of others' rules. What of the
//! operator has none has to do with all domains.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use image::{Change, Domain};
use logical::objects::{Identity, Kind};
use replica::Name;
use store::Revision;

/// How many revisions it is remembered of which domains they have changed, and how many names of
/// domains in all.
const MOST_REVISIONS: usize = 10_000;
const MOST_NAMES: usize = 1 << 20;

/// Some domains. `None`: all.
pub type Domains = Option<BTreeSet<Name>>;

/// Which domains objects and revisions have to do with.
#[derive(Debug, Default)]
pub struct Concerns {
    of_objects: BTreeSet<(Identity, Name)>,
    /// Revisions that were computed, each with those before it that were computed together with it.
    changed: VecDeque<(Revision, Vec<Name>)>,
    /// How many names are in there.
    names: usize,
    /// The last revision that is not there any more.
    forgotten: Revision,
}

/// An object has rows in a domain from now on, or has none any more.
pub type Concern = (Identity, Name, bool);

/// What changed rows of a domain say of which objects have rows there. `domain`: all its rows now.
pub fn concerns(name: &Name, rows: &[Change], domain: Option<&Domain>) -> Vec<Concern> {
    let objects = rows.iter().filter_map(object);
    let (mut all, mut tenants) = (Vec::<Concern>::new(), BTreeMap::new());
    for (id, is_there) in objects {
        all.push((id.clone(), name.clone(), is_there));
        if let Some(of) = id.tenant.as_ref().filter(|_| is_place(id.kind)) {
            *tenants.entry(of).or_insert(false) |= is_there;
        }
    }
    for (of, is_there) in tenants {
        let has = |domain: &Domain| {
            let nodes = domain.switches.keys().chain(domain.routers.keys());
            let mut places = nodes.chain(domain.stations.keys().map(|(_, port)| port));
            places.any(|it| it.tenant.as_ref() == Some(of))
        };
        let is_there = is_there || domain.is_some_and(has);
        all.push((tenant(of), name.clone(), is_there));
    }
    // A port that goes to another switch of the domain goes and comes.
    all.sort_by_key(|(.., is_there)| *is_there);
    all
}

/// Whether a tenant has to do with each domain that such an object of it is in.
fn is_place(kind: Kind) -> bool {
    matches!(kind, Kind::LogicalSwitch | Kind::LogicalRouter | Kind::LogicalPort)
}

fn tenant(name: &logical::objects::Name) -> Identity {
    Identity { kind: Kind::Tenant, tenant: None, name: name.clone() }
}

/// The object that a row is the only one of in its domain, and whether it is there now.
fn object(row: &Change) -> Option<(&Identity, bool)> {
    Some(match row {
        Change::Switch(id, row) => (id, row.is_some()),
        Change::Station((_, id), row) => (id, row.is_some()),
        Change::Policy(id, row) => (id, row.is_some()),
        Change::Router(id, row) => (id, row.is_some()),
        Change::RouterPort(id, row) => (id, row.is_some()),
        Change::Nat(id, row) => (id, row.is_some()),
        Change::Balancer(id, row) => (id, row.is_some()),
        Change::Zone(id, row) => (id, row.is_some()),
        Change::Profile(id, row) => (id, row.is_some()),
        Change::Qos(id, row) => (id, row.is_some()),
        Change::Meter(id, row) => (id, row.is_some()),
        Change::Port(..)
        | Change::Member(..)
        | Change::Address(..)
        | Change::Route(..)
        | Change::RoutePolicy(..)
        | Change::Terms(..) => return None,
    })
}

impl Concerns {
    /// A revision was computed: it says this of objects, and has changed these domains.
    pub fn advance(&mut self, revision: Revision, concerns: Vec<Concern>, changed: Vec<Name>) {
        for (id, domain, is_there) in concerns {
            match is_there {
                true => self.of_objects.insert((id, domain)),
                false => self.of_objects.remove(&(id, domain)),
            };
        }
        self.names += changed.len();
        self.changed.push_back((revision, changed));
        while (self.changed.len() > MOST_REVISIONS || self.names > MOST_NAMES)
            && self.changed.len() > 1
            && let Some((revision, names)) = self.changed.pop_front()
        {
            self.forgotten = revision;
            self.names -= names.len();
        }
    }

    /// The domains that a revision has changed, and those that were computed together with it.
    pub fn changed(&self, revision: Revision) -> Domains {
        if revision <= self.forgotten {
            return None;
        }
        let at = self.changed.partition_point(|(of, _)| *of < revision);
        Some(self.changed.get(at).into_iter().flat_map(|(_, names)| names).cloned().collect())
    }

    /// The domains that an object has to do with.
    pub fn of(&self, id: &Identity) -> Domains {
        let own: BTreeSet<_> = self.with_rows_of(id).cloned().collect();
        if !own.is_empty() {
            return Some(own);
        }
        match (&id.tenant, id.kind) {
            (Some(name), _) => Some(self.with_rows_of(&tenant(name)).cloned().collect()),
            (None, Kind::Tenant | Kind::Policy | Kind::QosProfile | Kind::Meter) => Some(own),
            (None, _) => None,
        }
    }

    /// The domains that have rows of an object.
    pub fn with_rows_of<'a>(&'a self, id: &'a Identity) -> impl Iterator<Item = &'a Name> {
        let from = (id.clone(), Name::from(""));
        let own = self.of_objects.range(from..).take_while(move |(it, _)| it == id);
        own.map(|(_, domain)| domain)
    }
}

/// The domains of any.
pub fn union(all: impl IntoIterator<Item = Domains>) -> Domains {
    all.into_iter().try_fold(BTreeSet::new(), |mut all, more| {
        all.append(&mut more?);
        Some(all)
    })
}

/// Of these domains, those that are among others.
pub fn among(these: Domains, others: Domains) -> Domains {
    match (these, others) {
        (Some(these), Some(others)) => Some(&these & &others),
        (one, None) | (None, one) => one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Identity {
        text.parse().unwrap()
    }

    fn names(names: &[&str]) -> Domains {
        Some(names.iter().map(|it| Name::from(*it)).collect())
    }

    #[test]
    fn what_has_no_rows_concerns_its_tenants_domains() {
        let mut all = Concerns::default();
        let concern = |of: &str, domain: &str| (id(of), Name::from(domain), true);
        let rows = ["LogicalSwitch/a/s", "LogicalPort/a/p", "Tenant/a"].map(|it| concern(it, "d"));
        let more = [concern("LogicalSwitch/a/t", "e"), concern("Tenant/a", "e")];
        all.advance(Revision(1), rows.into_iter().chain(more).collect(), vec!["d".into()]);
        assert_eq!(all.of(&id("LogicalPort/a/p")), names(&["d"]));
        assert_eq!(all.of(&id("Service/a/s")), names(&["d", "e"]));
        assert_eq!(all.of(&id("Service/b/s")), names(&[]));
        assert_eq!(all.of(&id("Policy/p")), names(&[]));
        assert_eq!(all.of(&id("TransportNode/h")), None);
        all.advance(Revision(2), vec![(id("LogicalPort/a/p"), "d".into(), false)], Vec::new());
        assert_eq!(all.of(&id("LogicalPort/a/p")), names(&["d", "e"]));
    }

    #[test]
    fn revisions_that_were_computed_together_have_changed_the_same() {
        let mut all = Concerns::default();
        all.advance(Revision(5), Vec::new(), vec!["d".into()]);
        all.advance(Revision(8), Vec::new(), vec!["e".into()]);
        for (revision, domains) in [(1, ["d"]), (5, ["d"]), (6, ["e"]), (8, ["e"])] {
            assert_eq!(all.changed(Revision(revision)), names(&domains));
        }
        for revision in 9..=9 + MOST_REVISIONS as u64 {
            all.advance(Revision(revision), Vec::new(), Vec::new());
        }
        assert_eq!((all.changed(Revision(8)), all.names), (None, 0));
        assert_eq!(all.changed(Revision(100)), names(&[]));
    }

    #[test]
    fn a_port_that_goes_to_another_switch_stays_in_the_domain() {
        let text = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: a, tenant: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: b, tenant: t}, spec: {}}
- {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {}}
- {kind: RouterPort, metadata: {name: a, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:01', addresses: [10.0.1.254/24]}}
- {kind: RouterPort, metadata: {name: b, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:02', addresses: [10.0.2.254/24]}}
- {kind: LogicalPort, metadata: {name: ra, tenant: t}, spec: {switch: a, router: {routerPort: a}}}
- {kind: LogicalPort, metadata: {name: rb, tenant: t}, spec: {switch: b, router: {routerPort: b}}}
";
        let machine = "- {kind: LogicalPort, metadata: {name: p, tenant: t}, spec: {switch: SWITCH, vif: {}}}";
        let domain = |switch: &str| {
            let topology = logical::load(&(text.to_owned() + &machine.replace("SWITCH", switch)));
            let mut all = compiler::compile(&topology.unwrap());
            assert_eq!(all.len(), 1);
            all.pop_first().unwrap().1
        };
        let mut all = Concerns::default();
        let mut before = Domain::default();
        for switch in ["a", "b", "a"] {
            let now = domain(switch);
            let of = concerns(&"d".into(), &before.diff(&now), Some(&now));
            all.advance(Revision(1), of, Vec::new());
            assert_eq!(all.of(&id("LogicalPort/t/p")), names(&["d"]));
            assert_eq!(all.of(&id("LogicalPort/t/ra")), names(&["d"]));
            before = now;
        }
        let of = concerns(&"d".into(), &before.diff(&Domain::default()), None);
        all.advance(Revision(2), of, Vec::new());
        assert!(all.of_objects.is_empty(), "{:?}", all.of_objects);
    }
}
