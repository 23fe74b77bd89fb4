//! What would become of a packet of a logical port now: its network decides, and nothing changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use binding::{AllHits, Count, Hits};
use logical::objects::{Direction, Identity, Name};
use logical::topology::Verdict;
use model::{
    FrameCount, Generation, LogicalPortName, PacketEnds, PacketRefused, PacketSent, PacketStep,
    PacketTrace, PacketTraceSpec, PortName, RuleHits, RuleTotals,
};
use pipeline::{Net, RuleName};

use super::Host;
use crate::logical::identity;

/// What rules have done until now. It is added up where nobody waits.
pub(crate) struct RulesNow {
    hits: AllHits,
    /// Of these rows only rules of these policies.
    only: Option<(Arc<Net>, BTreeSet<Identity>)>,
}

const fn count(it: Count) -> FrameCount {
    FrameCount { frames: it.frames, bytes: it.bytes }
}

impl RulesNow {
    /// What each rule has done, by name; the same policy in several domains is one.
    pub fn told(&self) -> Vec<RuleHits> {
        let mut all: BTreeMap<&RuleName, RuleHits> = BTreeMap::new();
        for (net, rule, Hits { admitted, refused }) in self.hits.all() {
            let holds = |(rows, policies): &(Arc<Net>, BTreeSet<Identity>)| {
                Arc::ptr_eq(rows, net) && policies.contains(&rule.name.policy)
            };
            if !self.only.as_ref().is_none_or(holds) {
                continue;
            }
            let new = || RuleHits {
                policy: rule.name.policy.to_string(),
                rule: rule.name.rule.to_string(),
                direction: match rule.direction {
                    Direction::FromPort => "fromPort".into(),
                    Direction::ToPort => "toPort".into(),
                },
                action: match rule.verdict {
                    Verdict::Allow { .. } => "allow".into(),
                    Verdict::Drop => "drop".into(),
                    Verdict::Reject => "reject".into(),
                    Verdict::Pass => "pass".into(),
                },
                admitted: FrameCount::default(),
                refused: FrameCount::default(),
            };
            let own = all.entry(&rule.name).or_insert_with(new);
            for (own, more) in [(&mut own.admitted, admitted), (&mut own.refused, refused)] {
                own.frames += more.frames;
                own.bytes += more.bytes;
            }
        }
        all.into_values().collect()
    }

    /// The same of all rules of each tenant.
    pub fn totals(&self) -> Vec<RuleTotals> {
        let totals = self.hits.totals().into_iter();
        let total = |(tenant, Hits { admitted, refused }): (Option<Name>, Hits)| RuleTotals {
            tenant: tenant.map(|it| it.to_string()),
            admitted: count(admitted),
            refused: count(refused),
        };
        totals.map(total).collect()
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PacketTraceError {
    /// There is none of that name.
    #[error("there is no port `{0}`: `zovn get ports` lists those there are")]
    UnknownPort(PortName),
    /// It is on another host, or nowhere.
    #[error("logical port {0} is not on this host: `zovn get logical` says what is here")]
    NotHere(LogicalPortName),
    /// No logical network decides about its frames.
    #[error(
        "port `{0}` is no logical port: `zovn trace` with its address and length asks the switch"
    )]
    NotLogical(PortName),
    /// There is nothing to decide by.
    #[error("no logical network here has logical port {0}: `zovn apply -f` one that has it")]
    NotRealized(LogicalPortName),
}

impl Host {
    /// What would become of a packet that came now. Nothing changes.
    ///
    /// # Errors
    ///
    /// [`PacketTraceError`]
    pub(crate) fn trace_packet(
        &self,
        spec: &PacketTraceSpec,
    ) -> Result<PacketTrace, PacketTraceError> {
        let name = self.logical_name(&spec.port)?;
        let networks = self.plane.logical();
        let here = || networks.zip(identity(&name)).is_some_and(|(it, name)| it.is_here(&name));
        let trace = networks
            .zip(identity(&name))
            .and_then(|(networks, from)| networks.trace(self.now(), &from, &spec.frame.0));
        let Some(trace) = trace else {
            return Err(match here() {
                true => PacketTraceError::NotRealized(name),
                false => PacketTraceError::NotHere(name),
            });
        };
        let names = |all: &[Identity]| all.iter().map(ToString::to_string).collect();
        let sent = |(to, remote): &(Identity, datapath::Remote)| {
            let peers = self.plane.peers();
            let trunk = peers.and_then(|peers| peers.trunk(remote.peer));
            let host = trunk.map_or_else(|| "another host".into(), |it| it.host().to_string());
            PacketSent { to: to.to_string(), host }
        };
        let refused = |it: &pipeline::Refusal| PacketRefused {
            reason: it.reason.name().into(),
            at: it.at.to_string(),
            by: it.by.as_ref().map(ToString::to_string),
        };
        let ends = PacketEnds {
            delivered: names(&trace.delivered),
            sent: trace.sent.iter().map(sent).collect(),
            answered: names(&trace.answered),
            refused: trace.refused.iter().map(refused).collect(),
        };
        let step = |it: pipeline::Step| PacketStep {
            at: it.at.to_string(),
            stage: it.stage.into(),
            what: it.what,
            by: it.by,
        };
        let steps = trace.steps.into_iter().map(step).collect();
        let generation = Some(Generation(trace.generation));
        Ok(PacketTrace { generation, ..PacketTrace::new(ends, steps) })
    }

    /// What rules have done, and, of a port, which policies hold for it.
    ///
    /// # Errors
    ///
    /// [`PacketTraceError`]: there is no such port.
    pub(crate) fn rules(&self, port: Option<&PortName>) -> Result<RulesNow, PacketTraceError> {
        let hits = self.plane.logical().map(|it| it.hits().clone()).unwrap_or_default();
        let Some(port) = port else { return Ok(RulesNow { hits, only: None }) };
        let name = self.logical_name(port)?;
        let networks = self.plane.logical();
        let Some((networks, id)) = networks.zip(identity(&name)).filter(|(it, id)| it.is_here(id))
        else {
            return Err(PacketTraceError::NotHere(name));
        };
        let policies = |net: &Arc<Net>| {
            let at = net.own_port(&id)?;
            Some((net.clone(), net.policies(at).cloned().collect()))
        };
        let only = networks.rows_of(&id).and_then(policies);
        only.map(|only| RulesNow { hits, only: Some(only) })
            .ok_or(PacketTraceError::NotRealized(name))
    }

    /// The logical port that a port of the host is, or that a word names.
    pub(super) fn logical_name(
        &self,
        port: &PortName,
    ) -> Result<LogicalPortName, PacketTraceError> {
        if let Ok(name) = port.0.parse() {
            return Ok(name);
        }
        let unknown = |_| PacketTraceError::UnknownPort(port.clone());
        let place = self.find(port).map_err(unknown)?;
        let logical = self.attached[place].spec.logical.clone();
        logical.ok_or_else(|| PacketTraceError::NotLogical(port.clone()))
    }
}
