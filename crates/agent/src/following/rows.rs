//! What a controller has said, as it is executed.
//!
//! A domain may become two, or two may become one. Then the controller says so of each by itself,
//! and for a moment a port here may be in none of them. What it had is executed on until all has
//! been said: it *leaves*.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use image::{Domain, Site, Table, Told};
use logical::objects::Identity;
use model::Generation;
use replica::{Delta, Map, Name};

use crate::logical::{Domains, Labels, Sites};

/// All domains that are followed.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    domains: BTreeMap<Name, Followed>,
    leaving: Vec<Leaving>,
}

/// A domain as of a generation.
#[derive(Clone, Debug)]
pub struct Followed {
    pub generation: Generation,
    pub name: Identity,
    pub rows: Arc<Domain>,
    pub sites: Table<Identity, Site>,
    pub labels: Table<Identity, u32>,
}

/// Ports that are in no domain for a moment, and what they had of theirs. No domain has the name of
/// a port.
#[derive(Clone, Debug)]
struct Leaving {
    port: Identity,
    had: Followed,
}

impl Rows {
    /// With a new generation of a domain, on a host that has these ports. The error says in a
    /// sentence why this host cannot execute it.
    pub fn with(
        &self,
        domain: &Name,
        generation: Generation,
        delta: &Delta,
        own: &BTreeSet<Identity>,
    ) -> Result<Self, String> {
        let mut next = self.clone();
        let before = next.domains.remove(domain);
        let mut followed = match &before {
            Some(before) => before.clone(),
            None => {
                let name =
                    domain.parse().map_err(|_| format!("{domain} is no name of a domain"))?;
                let (rows, sites, labels) = Default::default();
                Followed { generation, name, rows, sites, labels }
            }
        };
        for (key, row) in delta.iter() {
            match Told::decode(key, row.as_deref()).map_err(|unknown| unknown.to_string())? {
                Told::Row(change) => Arc::make_mut(&mut followed.rows).apply(change),
                Told::Site(id, Some(site)) => drop(followed.sites.insert(id, site)),
                Told::Site(id, None) => drop(followed.sites.remove(&id)),
                Told::Label(id, Some(label)) => drop(followed.labels.insert(id, label)),
                Told::Label(id, None) => drop(followed.labels.remove(&id)),
            }
        }
        followed.generation = generation;
        next.domains.insert(domain.clone(), followed);
        next.let_leave(before, own);
        Ok(next)
    }

    /// Without a domain, on a host that has these ports.
    pub fn without(&self, domain: &Name, own: &BTreeSet<Identity>) -> Self {
        let mut next = self.clone();
        let before = next.domains.remove(domain);
        next.let_leave(before, own);
        next
    }

    /// All has been said: what left is gone. `None` if nothing did.
    pub fn settled(&self) -> Option<Self> {
        let domains = || self.domains.clone();
        (!self.leaving.is_empty()).then(|| Self { domains: domains(), leaving: Vec::new() })
    }

    /// Those of `own` that left with what was before, and no longer those that are back.
    fn let_leave(&mut self, before: Option<Followed>, own: &BTreeSet<Identity>) {
        let Self { domains, leaving } = self;
        let is_out = |port: &Identity, rows: &Domain| {
            let mut all = domains.values().map(|it| &it.rows);
            rows.ports.contains_key(port) && all.all(|it| !it.ports.contains_key(port))
        };
        let had: Vec<_> = leaving.drain(..).map(|it| it.had).chain(before).collect();
        leaving.extend(had.into_iter().filter_map(|had| {
            let out = own.iter().filter(|port| is_out(port, &had.rows));
            let out: BTreeSet<_> = out.cloned().collect();
            let port = out.first()?.clone();
            Some(Leaving { port, had: Followed { rows: had.rows.part(&out).into(), ..had } })
        }));
    }

    /// A domain that is followed.
    pub fn domain(&self, name: &Name) -> Option<&Followed> {
        self.domains.get(name)
    }

    /// What is executed of a domain, as a controller writes it, if that is other than these rows.
    pub fn instead(&self, domain: &Name, rows: &Map) -> Option<Map> {
        let all = rows.rows().map(|(key, row)| (key.clone(), Some(row.clone()))).collect();
        // Compared as they are read: another version may write the same otherwise.
        let said = Self::default().with(domain, Generation(0), &all, &BTreeSet::new()).ok();
        let said = said.as_ref().and_then(|it| it.domain(domain));
        let executed = self.domain(domain);
        if said.map(Followed::content) == executed.map(Followed::content) {
            return None;
        }
        let mut instead = Map::default();
        executed.into_iter().for_each(|it| instead.apply(it.encode()));
        Some(instead)
    }

    /// The newest generation of any.
    pub fn newest(&self) -> Generation {
        self.domains.values().map(|it| it.generation).max().unwrap_or_default()
    }

    /// What is executed.
    pub fn executed(&self) -> (Domains, Sites, Labels) {
        let leaving = self.leaving.iter().map(|it| (&it.port, &it.had));
        let followed = self.domains.values().map(|it| (&it.name, it));
        // What a followed domain says of a place, or a label, counts.
        let all = leaving.chain(followed);
        all.map(|(name, it)| ((name.clone(), it.rows.clone()), it.sites.clone(), it.labels.clone()))
            .collect()
    }
}

impl Followed {
    /// What it is, of whatever generation.
    fn content(&self) -> (&Domain, &Table<Identity, Site>, &Table<Identity, u32>) {
        (&self.rows, &self.sites, &self.labels)
    }

    /// All rows as a controller writes them.
    pub fn encode(&self) -> Delta {
        let rows = Domain::default().diff(&self.rows).into_iter().map(Told::Row);
        let sites = self.sites.iter().map(|(id, site)| Told::Site(id.clone(), Some(site.clone())));
        let labels = self.labels.iter().map(|(id, label)| Told::Label(id.clone(), Some(*label)));
        let encoded = rows.chain(sites).chain(labels).map(|told| told.encode());
        encoded.map(|(key, row)| (key.into(), row.map(Into::into))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> Followed {
        let read = logical::read(include_str!("../../../../examples/shop.yaml"));
        let topology = read.resolve().unwrap();
        let (name, rows) = compiler::compile(&topology).pop_first().unwrap();
        let sites = rows.ports.keys().map(|port| (port.clone(), vec![[192, 0, 2, 1].into()]));
        let labels = rows.labelled().cloned().zip(1..).collect();
        let (generation, sites) = (Generation(1), sites.collect());
        Followed { generation, name, sites, labels, rows: rows.into() }
    }

    fn ports(names: &[&str]) -> BTreeSet<Identity> {
        names.iter().map(|name| format!("LogicalPort/shop/{name}").parse().unwrap()).collect()
    }

    /// The ports that rows are executed of.
    fn executed(rows: &Rows) -> BTreeSet<Identity> {
        rows.executed().0.values().flat_map(|domain| domain.ports.keys().cloned()).collect()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let (shop, name) = (shop(), Name::from("LogicalSwitch/shop/web"));
        let rows = Rows::default().with(&name, Generation(7), &shop.encode(), &BTreeSet::new());
        let rows = rows.unwrap();
        let read = rows.domain(&name).unwrap();
        assert_eq!(read.content(), shop.content());
        assert_eq!(rows.newest(), Generation(7));
    }

    #[test]
    fn what_is_executed_otherwise_than_it_was_said_is_found() {
        let (shop, name) = (shop(), Name::from("LogicalSwitch/shop/web"));
        let with =
            |delta: &Delta| Rows::default().with(&name, Generation(7), delta, &BTreeSet::new());
        let mut said = Map::default();
        said.apply(shop.encode());
        let whole = with(&shop.encode()).unwrap();
        assert_eq!(whole.instead(&name, &said), None);
        // A row is lost here, or there, and what is lost can be told again.
        let mut delta = shop.encode();
        let lost = delta.iter().next().unwrap().0.clone();
        delta.put(lost, None);
        let less = with(&delta).unwrap();
        let mut instead = less.instead(&name, &said).unwrap();
        assert_eq!(instead.diff(&said).len(), 1);
        assert_eq!(whole.instead(&name, &instead), Some(said.clone()));
        instead.apply(instead.diff(&said));
        assert_eq!(instead, said);
        assert_eq!(Rows::default().instead(&name, &said), Some(Map::default()));
    }

    #[test]
    fn ports_keep_what_they_had_until_all_has_been_said() {
        let (shop, own) = (shop(), ports(&["web-1"]));
        let [before, after] = ["LogicalSwitch/shop/db", "LogicalSwitch/shop/web"].map(Name::from);
        let none = Rows::default();
        let first = none.with(&before, Generation(1), &shop.encode(), &own).unwrap();
        assert!(first.settled().is_none(), "nothing left");
        assert_eq!(executed(&first).len(), shop.rows.ports.len());

        // The domain is gone, and what it has become is not there yet.
        let gone = first.without(&before, &own);
        assert_eq!(executed(&gone), own);
        assert!(executed(&gone.settled().unwrap()).is_empty());

        let back = gone.with(&after, Generation(2), &shop.encode(), &own).unwrap();
        assert!(back.settled().is_none(), "the port is in a domain again");
        assert_eq!(back.executed().0.len(), 1);
    }

    /// A machine that moves changes no row, and what changes in one table copies no other.
    #[test]
    fn what_is_not_changed_is_shared_with_the_generation_before() {
        let (shop, name) = (shop(), Name::from("LogicalSwitch/shop/web"));
        let none = BTreeSet::new();
        let first = Rows::default().with(&name, Generation(1), &shop.encode(), &none).unwrap();
        let delta = |told: Told| -> Delta {
            let (key, row) = told.encode();
            [(key.into(), row.map(Into::into))].into_iter().collect()
        };
        let (port, _) = shop.sites.first_key_value().unwrap();
        let moved = delta(Told::Site(port.clone(), Some(vec![[192, 0, 2, 2].into()])));
        let moved = first.with(&name, Generation(2), &moved, &none).unwrap();
        let [first, second] = [&first, &moved].map(|it| it.domain(&name).unwrap());
        assert!(Arc::ptr_eq(&first.rows, &second.rows) && first.sites != second.sites);

        let (member, _) = shop.rows.members.first_key_value().unwrap();
        let less = delta(Told::Row(image::Change::Member(member.clone(), None)));
        let less = moved.with(&name, Generation(3), &less, &none).unwrap();
        let third = less.domain(&name).unwrap();
        assert!(third.rows.stations.is_same(&second.rows.stations));
        assert!(third.sites.is_same(&second.sites) && third.rows.members != second.rows.members);
    }

    #[test]
    fn what_is_not_understood_changes_nothing() {
        let (shop, name) = (shop(), Name::from("LogicalSwitch/shop/web"));
        let mut delta = shop.encode();
        delta.put(b"[\"ways\",7]".as_slice().into(), None);
        let refused = Rows::default().with(&name, Generation(1), &delta, &BTreeSet::new());
        assert!(refused.unwrap_err().contains("ways"));
        let unnamed = Name::from("shop");
        let refused =
            Rows::default().with(&unnamed, Generation(1), &shop.encode(), &BTreeSet::new());
        assert_eq!(refused.unwrap_err(), "shop is no name of a domain");
    }
}
