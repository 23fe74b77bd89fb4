//! What becomes of a packet by the objects that are declared: which of them decide, and which would
//! have to be changed.
//!
//! ```text
//! question ─whose port?─▶ all objects, resolved ─reach─▶ steps, ends ─veil─▶ what who asks may see
//! ```
//!
//! All objects decide, and a tenant is told of its own. Steps at others' objects are told as one
//! that says nothing; names of others in steps at its own are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use logical::Topology;
use logical::objects::{Identity, Kind, Object};
use model::{PacketEnds, PacketOutcome, PacketRefused, PacketSent, PacketStep, PacketTrace};
use reach::{Explanation, Question, Remedy};
use serde::{Deserialize, Serialize};
use store::Revision;
use utoipa::ToSchema;

use crate::access::Principal;
use crate::catalog::{self, Catalog};
use crate::problem::Refusal;

/// What stands for the names that a tenant does not see.
const OTHERS: &str = "others' objects";

/// What becomes of a packet by the objects of a revision, and why.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// The revision.
    pub revision: u64,
    /// The steps, the ends, the objects, and what to change.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// At which hosts these objects are, as far as it is said. A tenant is not told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<ObjectHost>,
}

/// At which host an object is.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObjectHost {
    /// A port, a router, or a router's port.
    pub object: String,
    /// The TransportNode.
    pub node: String,
}

/// The objects of the revision that was asked about last: whoever asks next about the same one does
/// not have them resolved again.
#[derive(Debug, Default)]
pub struct Topologies(Mutex<Option<Arc<Known>>>);

/// All objects of a revision.
#[derive(Debug)]
struct Known {
    revision: Revision,
    topology: Topology,
    ports: BTreeSet<Identity>,
    tenants: BTreeMap<Identity, Arc<Object>>,
}

impl Topologies {
    /// Those of the newest revision.
    fn newest(&self, catalog: &Catalog) -> Result<Arc<Known>, Refusal> {
        // Others who ask meanwhile wait for the same.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = catalog.store().revision();
        if let Some(known) = last.as_ref().filter(|it| it.revision == newest) {
            return Ok(Arc::clone(known));
        }
        let known = Arc::new(Known::of(catalog)?);
        *last = Some(Arc::clone(&known));
        Ok(known)
    }
}

impl Known {
    fn of(catalog: &Catalog) -> Result<Self, Refusal> {
        let (revision, objects) = catalog.all();
        let topology = logical::resolve(objects.iter().map(|it| &**it)).map_err(|faults| {
            tracing::error!(?faults, "the objects are not right together: this is a defect");
            let problem = "the objects are not right together: look at the log";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, problem)
        })?;
        let of = |kind: Kind| objects.iter().filter(move |it| it.kind() == kind);
        let ports = of(Kind::LogicalPort).map(|it| it.identity()).collect();
        let tenants = of(Kind::Tenant).map(|it| (it.identity(), Arc::clone(it))).collect();
        Ok(Self { revision, topology, ports, tenants })
    }
}

/// Says what becomes of a packet.
pub fn explain(
    catalog: &Catalog,
    topologies: &Topologies,
    who: &Principal,
    mut asked: Question,
) -> Result<Explained, Refusal> {
    let mut ports = vec![port_of(who, &mut asked.from)?];
    if asked.to.parse::<IpAddr>().is_err() {
        ports.push(port_of(who, &mut asked.to)?);
    }
    let known = topologies.newest(catalog)?;
    let Known { revision, topology, ports: there, tenants } = &*known;
    if who.confined_to().is_some_and(|it| !catalog::has(tenants, &it)) {
        return Err(catalog::Refused::Gone.into());
    }
    if let Some(unknown) = ports.iter().find(|it| !there.contains(it)) {
        return Err(Refusal::unknown(unknown));
    }
    let no_packet = |problem| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, problem);
    let (from, frame) = asked.frame(topology).map_err(no_packet)?;
    let mut explanation = reach::explain(topology, from, &frame);
    let hosts = match who.tenant() {
        Some(_) => {
            veil(who, &mut explanation);
            Vec::new()
        }
        None => hosts(catalog, topology, &explanation.objects),
    };
    Ok(Explained { revision: revision.0, explanation, hosts })
}

/// The port that a word names, which is written in full then.
fn port_of(who: &Principal, word: &mut String) -> Result<Identity, Refusal> {
    if let (Some(own), false) = (who.tenant(), word.contains('/')) {
        *word = format!("{own}/{word}");
    }
    let identity = format!("{}/{word}", Kind::LogicalPort).parse::<Identity>().ok();
    let identity = identity.filter(|it| it.tenant.is_some()).ok_or_else(|| {
        Refusal::bad(format!("`{word}` is no port: write its tenant and its name, as shop/web-1"))
    })?;
    who.reads(&identity)?;
    Ok(identity)
}

/// At which nodes objects are.
fn hosts(catalog: &Catalog, topology: &Topology, objects: &[String]) -> Vec<ObjectHost> {
    let sites = compiler::sites(topology);
    let host = |object: &String| {
        let identity = object.parse().ok()?;
        let bound = sites.get(&identity).map(|node| topology[*node].id.name.clone());
        let node = bound.or_else(|| catalog.found_at(&identity))?.to_string();
        Some(ObjectHost { object: object.clone(), node })
    };
    objects.iter().filter_map(host).collect()
}

/// Leaves of an explanation what a tenant may see. What becomes of the packet at others' objects is
/// theirs to know: it goes there, and no more is said.
fn veil(who: &Principal, explanation: &mut Explanation) {
    let Explanation { trace, objects, remedy } = explanation;
    let (mut ends, mut goes_on) = (PacketEnds::default(), false);
    for port in trace.delivered.drain(..) {
        if sees(who, &port) { ends.delivered.push(port) } else { goes_on = true }
    }
    for refused in trace.refused.drain(..) {
        let by = refused.by.map(|it| shown(who, &it));
        if sees(who, &refused.at) {
            ends.refused.push(PacketRefused { by, ..refused })
        } else {
            goes_on = true
        }
    }
    ends.answered = trace.answered.drain(..).filter(|it| sees(who, it)).collect();
    if goes_on {
        let host = "a host that is not told".into();
        ends.sent.push(PacketSent { to: OTHERS.into(), host });
    }
    let mut steps: Vec<_> = trace.steps.drain(..).map(|it| step(who, it)).collect();
    steps.dedup();
    *trace = PacketTrace::new(ends, steps);
    objects.retain(|it| sees(who, it));
    *remedy =
        remedy.take().filter(|_| trace.outcome == PacketOutcome::Refused).map(|it| {
            match sees(who, &it.object) {
                true => Remedy { what: shown(who, &it.what), ..it },
                false => Remedy {
                    object: OTHERS.into(),
                    what: "they decide it: ask the operator".into(),
                },
            }
        });
}

fn step(who: &Principal, it: PacketStep) -> PacketStep {
    if sees(who, &it.at) {
        let (what, by) = (shown(who, &it.what), it.by.map(|by| shown(who, &by)));
        return PacketStep { what, by, ..it };
    }
    PacketStep { at: OTHERS.into(), stage: "–".into(), what: "not told".into(), by: None }
}

/// A sentence, without names of others.
fn shown(who: &Principal, text: &str) -> String {
    let is_shown = |word: &str| reach::named(word).is_none_or(|it| who.sees(&it));
    text.split(' ').map(|it| if is_shown(it) { it } else { OTHERS }).collect::<Vec<_>>().join(" ")
}

/// Whether they see an object, or the word names none.
fn sees(who: &Principal, object: &str) -> bool {
    !object.parse::<Identity>().is_ok_and(|it| !who.sees(&it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;

    #[test]
    fn no_sentence_names_what_is_not_seen() {
        let who = Principal::new("p", Role::TenantViewer { tenant: "a".parse().unwrap() });
        for (text, told) in [
            ("route 10.0.0.0/8 of LogicalRouter/a/r", "route 10.0.0.0/8 of LogicalRouter/a/r"),
            ("by RouterPort/b/r to 10.0.0.1", "by others' objects to 10.0.0.1"),
            ("LogicalPort/b/x, LogicalPort/a/x", "others' objects LogicalPort/a/x"),
            ("Policy/a/in/web", "Policy/a/in/web"),
            ("Policy/b/in/web", "others' objects"),
            // The operator's, of the tenant's name.
            ("Policy/a/web", "others' objects"),
            ("first of a connection", "first of a connection"),
        ] {
            assert_eq!(shown(&who, text), told);
        }
    }
}
