//! What would become of a packet of a logical port now: its network decides, and nothing changes.

use logical::objects::Identity;
use model::{
    Generation, LogicalPortName, PacketEnds, PacketRefused, PacketSent, PacketStep, PacketTrace,
    PacketTraceSpec, PortName,
};

use super::Host;
use crate::logical::identity;

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

    /// The logical port that a port of the host is, or that a word names.
    fn logical_name(&self, port: &PortName) -> Result<LogicalPortName, PacketTraceError> {
        if let Ok(name) = port.0.parse() {
            return Ok(name);
        }
        let unknown = |_| PacketTraceError::UnknownPort(port.clone());
        let place = self.find(port).map_err(unknown)?;
        let logical = self.attached[place].spec.logical.clone();
        logical.ok_or_else(|| PacketTraceError::NotLogical(port.clone()))
    }
}
