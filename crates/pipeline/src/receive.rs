//! The walk of a frame at its receiver's host: what its port may be sent, and what its rules say.

use alloc::string::ToString;
use alloc::vec::Vec;

use logical::objects::{Direction, Multicast};
use packet::{Fields, groups};
use units::{Instant, Mac};

use crate::change::Change;
use crate::flow::{Gated, Head};
use crate::gate::{Gate, Passed, Refused};
use crate::guard::Guard;
use crate::net::Net;
use crate::onward::Onward;
use crate::outcome::{Copy, Reason, Received, Refusal, Ruled, Step};
use crate::places::PortAt;
use crate::rules::{RuleName, Subject};
use crate::state::State;

/// Is told steps, if anybody asks for them.
pub type Tell<'a> = &'a mut dyn FnMut(&dyn Fn() -> Step);

impl Net {
    /// Decides whether a frame arrives at its port. Nothing changes by that.
    pub fn receive(&self, state: &State, now: Instant, onward: &Onward) -> Received {
        let mut trace = Vec::new();
        let received = self.judge(state, now, onward, &mut |step| trace.push(step()));
        let (what, by) = match &received.fate {
            Ok(_) => ("delivered".to_string(), None),
            Err(refusal) => {
                (alloc::format!("refused: {}", refusal.reason.name()), refusal.by.as_ref())
            }
        };
        trace.push(Step::new(&onward.to, "verdict", by.map(RuleName::to_string), what));
        Received { trace, ..received }
    }

    /// The same, and it is not told how it came to that.
    pub fn receive_quietly(&self, state: &State, now: Instant, onward: &Onward) -> Received {
        self.judge(state, now, onward, &mut |_| ())
    }

    fn judge(&self, state: &State, now: Instant, onward: &Onward, tell: Tell<'_>) -> Received {
        let (mut changes, mut gate, mut ruled) = (Vec::new(), None, None);
        let by = (&mut gate, &mut ruled);
        let fate = self.arrive(state, now, onward, tell, &mut changes, by);
        if fate.is_err() {
            changes.retain(|change| !change.grants());
        }
        let fate = fate.map_err(|(reason, by)| Refusal {
            reason,
            at: onward.to.clone(),
            by,
            to: Some(onward.to.clone()),
        });
        let is_flow = fate.is_ok() && Head::of(0, onward.frame[..].into()).is_some();
        Received { fate, trace: Vec::new(), changes, gate: gate.filter(|_| is_flow), ruled }
    }

    /// An address that nobody declared is behind the port of another host that it comes from.
    fn seen_from(&self, onward: &Onward, mac: Mac, at: PortAt) -> Option<Change> {
        let from = &self.ports[self.port(onward.origin.as_ref()?)?.at()];
        let switch = &self.switches[from.switch.at()];
        let is_near = from.switch == self.ports[at.at()].switch && from.own.is_none();
        let is_learned = switch.row.mac_learning && from.station.unknown;
        let is_owned = self.owner(from.switch, mac).is_some();
        (is_near && is_learned && !is_owned)
            .then(|| Change::Learned(switch.id.clone(), mac, from.id.clone()))
    }

    fn arrive(
        &self,
        state: &State,
        now: Instant,
        onward: &Onward,
        tell: Tell<'_>,
        changes: &mut Vec<Change>,
        (gated, ruled): (&mut Option<Gated>, &mut Option<Ruled>),
    ) -> Result<Copy, (Reason, Option<RuleName>)> {
        let at = self.port(&onward.to).ok_or((Reason::Unknown, None))?;
        let port = &self.ports[at.at()];
        let own = port.own.as_ref().filter(|_| port.station.enabled);
        let own = own.ok_or((Reason::Disabled, None))?;
        let mut fields = Fields::of(&onward.frame).ok_or((Reason::Malformed, None))?;
        if let Some(group) = groups::of_listeners(&fields)
            && self.switches[port.switch.at()].row.multicast == Multicast::Snoop
            && port.is_machine()
            && !state.wants(&port.id, group)
        {
            return Err((Reason::NotJoined, None));
        }
        let place = (state, now);
        let back = fields.ip.and_then(|ip| self.unbalance(place, port, &onward.frame, &ip, tell));
        let is_back = back.is_some();
        let (frame, change) = back.unwrap_or_else(|| (onward.frame.clone(), None));
        if is_back {
            fields = Fields::of(&frame).ok_or((Reason::Malformed, None))?;
        }
        changes.extend(change);
        let (groups, way) = (self.groups[at.at()], Direction::ToPort);
        let gate = Gate { net: self, state, now, port, groups, own, way };
        let (tuple, change) = gate.ends(&fields);
        changes.extend(change);
        let tuple = tuple.map_err(|reason| (reason, None))?;
        let origin = onward.origin.as_ref().map(|name| self.groups_of(name));
        let subject = Subject {
            ethertype: fields.ethertype,
            source_mac: fields.source,
            destination_mac: fields.destination,
            tuple,
            icmp: fields.ip.and_then(|ip| ip.icmp).map(|icmp| (icmp.kind, icmp.code)),
            sender: onward.origin.as_ref(),
            origin,
            target: Some(groups),
            is_control: fields.is_control() || onward.is_networks,
        };
        let passage = gate.pass(&fields, &frame, &subject);
        *ruled = passage.as_ref().map_or_else(Refused::ruled, Passed::ruled);
        match passage {
            Ok(Passed { by, what, gated: its, changes: made }) => {
                changes.extend(made);
                *gated = its;
                tell(&|| {
                    let by = by.map(|it| self.rule(it).to_string());
                    Step::new(&port.id, "to-port rules", by, what)
                });
            }
            Err(Refused { reason, by, changes: made }) => {
                changes.extend(made);
                return Err((reason, by.map(|it| self.rule(it).clone())));
            }
        }
        if let Some(guard) = Guard::new(&own.row, &port.station).filter(|_| port.is_machine()) {
            guard.check_received(&fields).map_err(|reason| (reason, None))?;
        }
        let seen = self.seen_from(onward, fields.source, at);
        // What is learned is learned of each packet, a child's has a tag, and a client of load
        // balancers may have asked one.
        let balances = !self.switches[port.switch.at()].balancers.is_empty();
        gated.take_if(|_| seen.is_some() || own.parent.is_some() || balances);
        changes.extend(seen);
        Ok(self.wrap(at, frame))
    }
}
