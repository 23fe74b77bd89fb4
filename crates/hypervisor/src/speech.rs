//! What conditions speak of, and conditions in names.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use image::{Condition, Group, Peer, Rule};
use logical::Kind;
use logical::Object;
use logical::objects::{
    self, Action, AddressRange, Direction, Ethertype, Identity, Match, Name, Reference,
    ServiceChoice,
};
use logical::topology::{Service, Verdict};

use crate::objects::Objects;
use crate::text::{either, meant, operators};

/// All that an object speaks of.
#[derive(Default)]
pub struct Speech {
    pub groups: BTreeSet<Group>,
    /// Each by two names: who is meant, and who else if that one is not there.
    pub sets: BTreeSet<[Identity; 2]>,
    pub services: BTreeSet<Identity>,
    pub meters: BTreeSet<Identity>,
}

impl Speech {
    pub fn of(object: &Object) -> Self {
        let tenant = object.metadata().tenant.as_ref();
        let mut all = Self::default();
        match object {
            Object::Policy(it) => {
                for rule in &it.spec.rules {
                    rule.peer.iter().for_each(|it| all.peer(tenant, it));
                    all.services(tenant, &rule.services);
                    rule.matches.iter().for_each(|it| all.matches(tenant, it));
                    all.meter(rule.log.as_ref().and_then(|log| log.meter.as_ref()));
                }
            }
            Object::LogicalRouter(it) => {
                it.spec.policies.iter().for_each(|policy| all.matches(tenant, &policy.matches));
                all.meter(it.spec.copp.as_ref());
            }
            Object::Nat(it) => {
                it.spec.matches.iter().for_each(|it| all.matches(tenant, it));
                all.sets(tenant, &it.spec.exempt);
                all.sets(tenant, &it.spec.only_for);
            }
            _ => {}
        }
        all
    }

    fn matches(&mut self, tenant: Option<&Name>, it: &Match) {
        it.source.iter().chain(&it.destination).for_each(|it| self.peer(tenant, it));
        self.services(tenant, &it.services);
    }

    fn peer(&mut self, tenant: Option<&Name>, it: &objects::Peer) {
        self.groups.extend(groups(tenant, it));
        self.sets(tenant, &it.sets);
    }

    fn sets(&mut self, tenant: Option<&Name>, sets: &[Reference]) {
        self.sets.extend(sets.iter().map(|it| either(Kind::AddressSet, tenant, it)));
    }

    fn services(&mut self, tenant: Option<&Name>, services: &[ServiceChoice]) {
        self.services.extend(services.iter().filter_map(|it| match it {
            ServiceChoice::Named(reference) => Some(meant(Kind::Service, tenant, reference)),
            ServiceChoice::Inline(_) => None,
        }));
    }

    fn meter(&mut self, name: Option<&Name>) {
        self.meters.extend(name.map(|name| operators(Kind::Meter, name)));
    }
}

/// The groups of a peer.
fn groups(tenant: Option<&Name>, it: &objects::Peer) -> BTreeSet<Group> {
    let ports = it.ports.iter().map(|it| Group::Port(meant(Kind::LogicalPort, tenant, it)));
    let named = it.groups.iter().map(|it| Group::Named(meant(Kind::PortGroup, tenant, it)));
    let selected = it
        .selector
        .iter()
        .map(|selector| Group::Selected { tenant: tenant.cloned(), selector: selector.clone() });
    ports.chain(named).chain(selected).collect()
}

/// Writes an object's conditions in names.
pub struct Writer<'a> {
    pub tenant: Option<&'a Name>,
    /// The sets that there are, of those that it speaks of.
    pub sets: BTreeSet<Identity>,
    pub objects: &'a Objects,
}

impl Writer<'_> {
    /// A policy's rules, in the order in which they decide.
    pub fn rules(&self, rules: &[objects::Rule]) -> Vec<Rule> {
        let mut rules: Vec<_> =
            rules.iter().enumerate().map(|(at, it)| self.rule(at, it)).collect();
        rules.sort_by_key(|rule| Reverse(rule.priority));
        rules
    }

    fn rule(&self, at: usize, it: &objects::Rule) -> Rule {
        let peer = it.peer.as_ref().map(|it| self.peer(it));
        let (source, destination) = match it.direction {
            Direction::FromPort => (None, peer),
            Direction::ToPort => (peer, None),
        };
        let own = Condition {
            ethertype: it.ethertype,
            source,
            destination,
            services: self.services(&it.services),
            ..Condition::default()
        };
        let more = it.matches.as_ref().map(|it| self.condition(it));
        let conditions: Vec<_> = core::iter::once(own).chain(more).collect();
        // Connections are IP's.
        let is_ip = |it: &Condition| {
            it.ethertype.is_none_or(|it| [Ethertype::IP4, Ethertype::IP6].contains(&it))
        };
        let verdict = match it.action {
            Action::Allow => {
                Verdict::Allow { stateful: it.stateful.unwrap_or(conditions.iter().all(is_ip)) }
            }
            Action::Drop => Verdict::Drop,
            Action::Reject => Verdict::Reject,
            Action::Pass => Verdict::Pass,
        };
        let by_order = u16::MAX - u16::try_from(at).unwrap_or(u16::MAX);
        Rule {
            name: it.name.clone(),
            direction: it.direction,
            verdict,
            priority: it.priority.unwrap_or(by_order),
            conditions,
            log: it.log.clone(),
            sample: it.sample,
        }
    }

    pub fn condition(&self, it: &Match) -> Condition {
        Condition {
            ethertype: it.ethertype,
            source_macs: it.source_macs.clone(),
            destination_macs: it.destination_macs.clone(),
            source: it.source.as_ref().map(|it| self.peer(it)),
            destination: it.destination.as_ref().map(|it| self.peer(it)),
            services: self.services(&it.services),
        }
    }

    fn peer(&self, it: &objects::Peer) -> Peer {
        Peer {
            groups: groups(self.tenant, it),
            sets: self.sets(&it.sets),
            prefixes: it.prefixes.iter().map(|it| AddressRange::from(*it)).collect(),
            except: it.except.iter().map(|it| AddressRange::from(*it)).collect(),
        }
    }

    /// The sets that references mean.
    pub fn sets(&self, references: &[Reference]) -> BTreeSet<Identity> {
        let each = references.iter().filter_map(|it| {
            let names = either(Kind::AddressSet, self.tenant, it);
            names.into_iter().find(|it| self.sets.contains(it))
        });
        each.collect()
    }

    fn services(&self, choices: &[ServiceChoice]) -> Vec<Service> {
        let each = choices.iter().filter_map(|choice| match choice {
            ServiceChoice::Inline(it) => Some(Service {
                protocol: it.protocol,
                ports: it.ports.clone(),
                source_ports: it.source_ports.clone(),
                icmp_type: it.icmp_type,
                icmp_code: it.icmp_code,
            }),
            ServiceChoice::Named(reference) => {
                let found = self.objects.get(&meant(Kind::Service, self.tenant, reference))?;
                let Object::Service(it) = &*found.0 else { return None };
                Some(Service {
                    protocol: it.spec.protocol,
                    ports: it.spec.ports.clone(),
                    source_ports: it.spec.source_ports.clone(),
                    icmp_type: None,
                    icmp_code: None,
                })
            }
        });
        each.collect()
    }
}
