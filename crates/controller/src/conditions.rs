//! What is so of objects: computed for whoever reads them, of what agents have answered.
//!
//! ```text
//! object, revision ─concerns─▶ domains ─publisher─▶ how far their hosts are ─▶ conditions
//! ```
//!
//! A revision is realized in a domain once each host that has to do with it executes everything up
//! to that revision. A host that is not connected goes on with what it has: what it had before is
//! realized, and of what came later nobody knows. Tenants are told how many hosts there are, not
//! which.

use std::collections::HashMap;

use logical::objects::{
    Binding, Condition, ConditionType, Identity, Kind, Metadata, Name, Status, Truth,
};
use model::Generation;
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use southbound::{Executing, Holding};
use store::{Entry, Revision};

use crate::concerns::Domains;
use crate::counts::MEMBERS;
use crate::facts;
use crate::place;
use crate::progress::{Far, Progress, Written};

/// How many hosts a sentence names.
const NAMED: usize = 10;

/// An object, as far as conditions are of it.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Which.
    pub identity: Identity,
    /// The revision that wrote it last.
    pub revision: Revision,
    /// How often its fields have changed.
    pub generation: Option<u64>,
    /// The port that a Binding is of.
    pub port: Option<Identity>,
}

/// What of an object that is kept says what conditions are of.
#[derive(Deserialize)]
struct Kept<'a> {
    metadata: Metadata,
    #[serde(borrow)]
    spec: &'a RawValue,
}

impl Subject {
    /// An object that is kept.
    ///
    /// # Errors
    ///
    /// What is kept is no object.
    pub fn of(entry: &Entry) -> serde_json::Result<Self> {
        let no_kind = || serde_json::Error::custom("no such kind");
        let identity = place::identity(&entry.key).ok_or_else(no_kind)?;
        let Kept { metadata, spec } = serde_json::from_slice(&entry.value)?;
        let port = match identity.kind {
            Kind::Binding => {
                let Binding { port, .. } = serde_json::from_str(spec.get())?;
                Some(Identity { kind: Kind::LogicalPort, tenant: port.tenant, name: port.name })
            }
            _ => None,
        };
        let (revision, generation) = (entry.modified, metadata.generation);
        Ok(Self { identity, revision, generation, port })
    }

    /// What the domains are of that it has to do with.
    fn place(&self) -> &Identity {
        self.port.as_ref().unwrap_or(&self.identity)
    }
}

impl Progress {
    /// The conditions of objects, for who may know the names of hosts or for others.
    pub fn conditions(&self, names_hosts: bool) -> Conditions<'_> {
        Conditions { progress: self, names_hosts, known: HashMap::new() }
    }

    /// Whether what was written is realized, and the hosts that have to do with it.
    pub fn realized(&self, written: &Written, tenant: Option<&Name>) -> (Condition, Far) {
        let far = self.far(written, tenant);
        (realized(written.revision, &far, tenant.is_none()), far)
    }
}

/// Conditions of several objects: what they have in common is asked for once.
#[derive(Debug)]
pub struct Conditions<'a> {
    progress: &'a Progress,
    names_hosts: bool,
    known: HashMap<Domains, Far>,
}

impl Conditions<'_> {
    /// What is so of an object.
    pub fn of(&mut self, subject: &Subject) -> Status {
        let names_hosts = self.names_hosts;
        let accepted = (Truth::True, "Valid", "it is right beside all others".into());
        let progress = self.progress;
        let far = self.far(subject);
        let is_computed = subject.revision.0 <= far.0.0;
        let mut conditions = vec![condition(ConditionType::Accepted, accepted)];
        conditions.extend(resolved(subject, far.0, progress));
        conditions.push(compiled(subject.revision, far.0));
        conditions.push(realized(subject.revision, far, names_hosts));
        conditions.extend(degraded(far, names_hosts));
        conditions.extend(of_port(subject, progress, names_hosts).into_iter().flatten());
        for it in &mut conditions {
            it.observed_generation = subject.generation;
        }
        let mut status = Status { conditions, ..Status::default() };
        // Before, the numbers are of what was there until then.
        if is_computed {
            facts::add(&mut status, &subject.identity, progress, names_hosts);
        }
        status
    }

    /// Whether a condition of an object is `True`.
    pub fn is_so(&mut self, subject: &Subject, kind: ConditionType) -> bool {
        let all = self.of(subject).conditions;
        all.iter().any(|it| it.kind == kind && it.status == Truth::True)
    }

    /// How far the hosts are that an object has to do with.
    fn far(&mut self, subject: &Subject) -> &Far {
        let Self { progress, known, .. } = self;
        let domains = progress.domains(subject.place());
        let executing = |domains: &Domains| progress.publisher().executing(domains.as_ref());
        known.entry(domains).or_insert_with_key(executing)
    }
}

/// Whether objects of a kind may have such a condition.
pub fn may_have(kind: Kind, condition: ConditionType) -> bool {
    match condition {
        ConditionType::Resolved => matches!(kind, Kind::PortGroup | Kind::Policy),
        ConditionType::Bound | ConditionType::PolicyReady => kind == Kind::LogicalPort,
        ConditionType::Accepted
        | ConditionType::Compiled
        | ConditionType::Realized
        | ConditionType::Degraded => true,
    }
}

type Said = (Truth, &'static str, String);

fn condition(kind: ConditionType, (status, reason, message): Said) -> Condition {
    Condition { kind, status, reason: reason.into(), message, observed_generation: None }
}

/// Whether a group has ports, and a policy holds for some.
fn resolved(subject: &Subject, told: Generation, progress: &Progress) -> Option<Condition> {
    let Subject { identity, revision, .. } = subject;
    let (has_ports, some, none) = match identity.kind {
        Kind::PortGroup => {
            (progress.count(identity, MEMBERS) > 0, "ports are in it", "no port is in it")
        }
        // A policy has rows where ports are that it holds for.
        Kind::Policy => {
            let none = "it holds for no port: what `appliesTo` names has none";
            (progress.domain(identity).is_some(), "it holds for ports", none)
        }
        _ => return None,
    };
    let said = match has_ports {
        _ if revision.0 > told.0 => {
            (Truth::Unknown, "Computing", "which ports it has is being computed".into())
        }
        true => (Truth::True, "HasPorts", some.into()),
        false => (Truth::False, "NoPorts", none.into()),
    };
    Some(condition(ConditionType::Resolved, said))
}

/// That hosts refuse what they are told of the domains of an object, also if that was after it.
fn degraded((_, hosts): &Far, names_hosts: bool) -> Option<Condition> {
    let refusing: Vec<_> = hosts.iter().filter(|it| it.refused.is_some()).collect();
    if refusing.is_empty() {
        return None;
    }
    let (many, some) = (hosts.len(), refusing.len());
    let those = named(&refusing, names_hosts, refusal);
    let message = format!(
        "of {many} hosts that have to do with it, {some} refuse what they are told of its domains{those}"
    );
    Some(condition(ConditionType::Degraded, (Truth::True, "Refused", message)))
}

/// Whether what hosts are to execute of a revision is computed.
pub fn compiled(revision: Revision, told: Generation) -> Condition {
    let said = match revision.0 <= told.0 {
        // Not of which revision: the next would change the conditions of all objects.
        true => (Truth::True, "Computed", "agents are told of it".into()),
        false => (
            Truth::False,
            "Computing",
            format!("revision {revision} is being computed: agents are told of revision {told}"),
        ),
    };
    condition(ConditionType::Compiled, said)
}

/// Whether hosts execute a revision.
fn realized(revision: Revision, far: &Far, names_hosts: bool) -> Condition {
    let said = match far.1.is_empty() && revision.0 <= far.0.0 {
        true => (Truth::True, "NoHosts", "no host has to do with it".into()),
        false => executed(revision, far, "have to do with it", names_hosts),
    };
    condition(ConditionType::Realized, said)
}

/// Whether these hosts execute a revision. `such`: what they have in common.
fn executed(revision: Revision, (told, hosts): &Far, such: &str, names_hosts: bool) -> Said {
    let lags: Vec<_> = hosts.iter().filter(|it| it.until.0 < revision.0).collect();
    let (many, done) = (hosts.len(), hosts.len() - lags.len());
    let executed = format!("of {many} hosts that {such}, {done} execute it");
    let all = |which: &dyn Fn(&Executing) -> bool| -> Vec<&Executing> {
        lags.iter().copied().filter(|it| which(it)).collect()
    };
    let refusing = all(&|it| it.refused.is_some());
    let behind = all(&|it| it.is_connected);
    let node = |it: &Executing| it.node.to_string();
    if revision.0 > told.0 {
        (Truth::False, "Computing", "what hosts are to execute is being computed".into())
    } else if !refusing.is_empty() {
        let (some, those) = (refusing.len(), named(&refusing, names_hosts, refusal));
        (Truth::False, "Refused", format!("{executed}, and {some} refuse it{those}"))
    } else if !behind.is_empty() {
        let (some, those) = (behind.len(), named(&behind, names_hosts, node));
        (Truth::False, "Pending", format!("{executed}, and {some} are about to{those}"))
    } else if !lags.is_empty() {
        let (some, those) = (lags.len(), named(&lags, names_hosts, node));
        (Truth::Unknown, "Unreachable", format!("{executed}, and {some} are not connected{those}"))
    } else {
        (Truth::True, "Executed", executed)
    }
}

/// Some hosts, for who may know them.
fn named(these: &[&Executing], names_hosts: bool, name: impl Fn(&Executing) -> String) -> String {
    if !names_hosts {
        return String::new();
    }
    let names: Vec<_> = these.iter().take(NAMED).map(|it| name(it)).collect();
    let more = these.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(", and {more} others") } else { String::new() };
    format!(": {}{more}", names.join(", "))
}

/// A host, and why it does not take something.
fn refusal(host: &Executing) -> String {
    let why = host.refused.as_ref().map_or_else(String::new, ToString::to_string);
    format!("{} ({why})", host.node)
}

/// Whether a machine's port is at a host, and its rules are.
fn of_port(
    Subject { identity, revision, .. }: &Subject,
    progress: &Progress,
    names_hosts: bool,
) -> Option<[Condition; 2]> {
    let tenant = identity.tenant.as_ref().filter(|_| identity.kind == Kind::LogicalPort)?;
    let called = format!("{tenant}/{}", identity.name);
    let publisher = progress.publisher();
    let (holding, far) = (publisher.holding(&called)?, publisher.executing_port(&called)?);
    let are_nodes = holding.holders.iter().all(|it| progress.has_node(it));
    let bound = attached(&holding, are_nodes, &called, names_hosts);
    let ready = ready(*revision, &far, names_hosts);
    Some([condition(ConditionType::Bound, bound), condition(ConditionType::PolicyReady, ready)])
}

/// Whether the hosts that have a port execute it, with all that was written before it: other hosts
/// that have to do with it do not count.
fn ready(revision: Revision, far: &Far, names_hosts: bool) -> Said {
    match far.1.is_empty() {
        true => (Truth::False, "Nowhere", "no host has it".into()),
        false => executed(revision, far, "have it", names_hosts),
    }
}

/// What is told of who has a port. `are_nodes`: whether there is a TransportNode of each.
fn attached(
    Holding { holders, others, is_found }: &Holding,
    are_nodes: bool,
    port: &str,
    names_hosts: bool,
) -> Said {
    let (status, reason, mut message) = match holders.as_slice() {
        [] => {
            let message = format!("no connected host has it: `zovn attach … --logical {port}`");
            (Truth::False, "Nowhere", message)
        }
        nodes => {
            let who = if names_hosts { listed(nodes) } else { "a host".into() };
            match is_found {
                true if !are_nodes => {
                    let message = format!(
                        "{who} has it, and is no TransportNode: other hosts are not told where it is"
                    );
                    (Truth::False, "NoTransportNode", message)
                }
                true => (Truth::True, "Discovered", format!("{who} has it, without a Binding")),
                false => (Truth::True, "Attached", format!("{who} has it")),
            }
        }
    };
    if names_hosts && !others.is_empty() {
        message += &format!("; {} says that it has it, and may not", listed(others));
    }
    (status, reason, message)
}

/// Some nodes, of which there may be as many as there are hosts.
fn listed(nodes: &[replica::Name]) -> String {
    let named = nodes[..nodes.len().min(NAMED)].join(" and ");
    match nodes.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} others"),
    }
}

#[cfg(test)]
mod tests {
    use replica::Reason;

    use super::*;

    fn host(node: &str, until: u64, is_connected: bool, refused: Option<Reason>) -> Executing {
        Executing { node: node.into(), until: Generation(until), is_connected, refused }
    }

    /// What is told of revision 7 where agents are told of revision 9: reason and message.
    fn told(hosts: Vec<Executing>, names_hosts: bool) -> (Truth, String, String) {
        let it = realized(Revision(7), &(Generation(9), hosts), names_hosts);
        (it.status, it.reason, it.message)
    }

    #[test]
    fn hosts_are_named_to_those_who_may_know_them() {
        let full = Reason::Refused("a quota is used up".into());
        let done = || host("h1", 7, false, None);
        let behind = || host("h2", 6, true, None);
        let away = || host("h3", 0, false, None);
        let refusing = || host("h4", 6, true, Some(full.clone()));
        for (hosts, status, reason, message, names) in [
            (vec![], Truth::True, "NoHosts", "no host has to do with it", ""),
            (
                vec![done()],
                Truth::True,
                "Executed",
                "of 1 hosts that have to do with it, 1 execute it",
                "",
            ),
            (
                vec![done(), behind(), away()],
                Truth::False,
                "Pending",
                "of 3 hosts that have to do with it, 1 execute it, and 1 are about to",
                ": h2",
            ),
            (
                vec![done(), away()],
                Truth::Unknown,
                "Unreachable",
                "of 2 hosts that have to do with it, 1 execute it, and 1 are not connected",
                ": h3",
            ),
            (
                vec![behind(), refusing()],
                Truth::False,
                "Refused",
                "of 2 hosts that have to do with it, 0 execute it, and 1 refuse it",
                ": h4 (a quota is used up)",
            ),
        ] {
            let of_tenant = (status, reason.into(), message.into());
            assert_eq!(told(hosts.clone(), false), of_tenant);
            let of_operator = (status, reason.into(), format!("{message}{names}"));
            assert_eq!(told(hosts, true), of_operator);
        }
        let many: Vec<_> = (0..12).map(|it| host(&format!("n{it}"), 0, true, None)).collect();
        assert!(told(many, true).2.ends_with("n9, and 2 others"));
        let hosts = |hosts| ready(Revision(7), &(Generation(9), hosts), false);
        let (status, reason, message) = hosts(vec![done()]);
        let one = (Truth::True, "Executed", "of 1 hosts that have it, 1 execute it");
        assert_eq!((status, reason, message.as_str()), one);
        let [nowhere, pending] = [vec![], vec![behind()]].map(hosts);
        assert_eq!((nowhere.0, nowhere.1), (Truth::False, "Nowhere"));
        assert_eq!((pending.0, pending.1), (Truth::False, "Pending"));
        let early = realized(Revision(10), &(Generation(9), Vec::new()), true);
        assert_eq!((early.status, early.reason.as_str()), (Truth::False, "Computing"));
        let [one, next] = [9, 10].map(|told| compiled(Revision(9), Generation(told)));
        assert_eq!(one, next, "another's revision changes nothing of this one");
    }

    #[test]
    fn who_has_a_port_and_who_says_so_is_told_of() {
        let told = |holders: &[&str], others: &[&str], is_found, names_hosts| {
            let names = |all: &[&str]| all.iter().map(|it| (*it).into()).collect();
            let holding = Holding { holders: names(holders), others: names(others), is_found };
            let (status, reason, message) = attached(&holding, true, "shop/web-1", names_hosts);
            (status == Truth::True, reason, message)
        };
        let is = |reason, message: &str| (reason != "Nowhere", reason, message.to_owned());
        assert_eq!(told(&["h1"], &[], false, true), is("Attached", "h1 has it"));
        let alone = is("Discovered", "a host has it, without a Binding");
        assert_eq!(told(&["h1"], &["h2"], true, false), alone);
        let both = "h1 has it, without a Binding; h2 says that it has it, and may not";
        assert_eq!(told(&["h1"], &["h2"], true, true), is("Discovered", both));
        let nowhere = "no connected host has it: `zovn attach … --logical shop/web-1`";
        assert_eq!(told(&[], &[], true, true), is("Nowhere", nowhere));
        let refused = format!("{nowhere}; h2 says that it has it, and may not");
        assert_eq!(told(&[], &["h2"], false, true), is("Nowhere", &refused));
        let unknown = Holding { holders: vec!["h1".into()], is_found: true, ..Holding::default() };
        let (status, reason, message) = attached(&unknown, false, "shop/web-1", false);
        assert_eq!((status, reason), (Truth::False, "NoTransportNode"));
        assert!(message.starts_with("a host has it, and is no TransportNode"), "{message}");
        let every = told(&["h"; 3000], &[], false, true).2;
        assert!(every.starts_with("h and h") && every.ends_with(" and 2990 others has it"));
    }
}
