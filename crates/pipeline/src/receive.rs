//! The walk of a frame at its receiver's host: what its port may be sent, and what its rules say.

use alloc::string::ToString;
use alloc::vec::Vec;

use logical::objects::{Direction, Identity};
use packet::Fields;
use units::Instant;

use crate::gate::{Gate, Seen};
use crate::guard::Guard;
use crate::net::Net;
use crate::outcome::{Copy, Onward, Reason, Received, Refusal, Step};
use crate::rules::{RuleName, Subject};
use crate::state::State;

impl Net {
    /// Decides whether a frame arrives at its port. Nothing changes by that.
    pub fn receive(&self, state: &State, now: Instant, onward: &Onward) -> Received {
        let mut received = Received {
            fate: Err(Refusal {
                reason: Reason::Unknown,
                at: onward.to.clone(),
                by: None,
                to: Some(onward.to.clone()),
            }),
            trace: Vec::new(),
            changes: Vec::new(),
        };
        let fate = self.arrive(state, now, onward, &mut received);
        let mut step = |what: &str, by: Option<&RuleName>| {
            received.trace.push(Step {
                at: onward.to.clone(),
                stage: "verdict",
                by: by.map(RuleName::to_string),
                what: what.to_string(),
            });
        };
        received.fate = fate.map_err(|(reason, by)| {
            step(&alloc::format!("refused: {}", reason.name()), by.as_ref());
            Refusal { reason, at: onward.to.clone(), by, to: Some(onward.to.clone()) }
        });
        if received.fate.is_ok() {
            let delivered = Step {
                at: onward.to.clone(),
                stage: "verdict",
                by: None,
                what: "delivered".to_string(),
            };
            received.trace.push(delivered);
        }
        received
    }

    fn arrive(
        &self,
        state: &State,
        now: Instant,
        onward: &Onward,
        received: &mut Received,
    ) -> Result<Copy, (Reason, Option<RuleName>)> {
        let at = self.port(&onward.to).ok_or((Reason::Unknown, None))?;
        let port = &self.ports[at.at()];
        let own = port.own.as_ref().filter(|_| port.station.enabled);
        let own = own.ok_or((Reason::Disabled, None))?;
        let fields = Fields::of(&onward.frame).ok_or((Reason::Malformed, None))?;
        let seen = Seen { id: &port.id, way: Direction::ToPort, now };
        let (tuple, change) = seen.ends(state, &fields).map_err(|reason| (reason, None))?;
        received.changes.extend(change);
        // A port that this host does not know is in none of its groups.
        let origin = onward.origin.as_ref().map(|name| self.groups_of(name));
        let subject = Subject {
            ethertype: fields.ethertype,
            source_mac: fields.source,
            destination_mac: fields.destination,
            tuple,
            icmp: fields.ip.and_then(|ip| ip.icmp).map(|icmp| (icmp.kind, icmp.code)),
            origin: origin.as_ref(),
            target: Some(&port.groups),
            is_control: fields.is_control() || onward.is_networks,
        };
        let gate = Gate { list: own.list(Direction::ToPort), conditions: &self.conditions };
        let by = gate.pass(&subject)?;
        received.trace.push(Step {
            at: port.id.clone(),
            stage: "to-port rules",
            by: by.map(|it| it.to_string()),
            what: "allowed".to_string(),
        });
        if let Some(guard) = Guard::new(&own.row, &port.station).filter(|_| port.is_machine()) {
            guard.check_received(&fields).map_err(|reason| (reason, None))?;
        }
        Ok(self.wrap(at, onward.frame.clone()))
    }

    fn groups_of(&self, name: &Identity) -> alloc::collections::BTreeSet<u32> {
        match self.port(name) {
            Some(at) => self.ports[at.at()].groups.clone(),
            None => self.conditions.groups_of(name),
        }
    }
}
