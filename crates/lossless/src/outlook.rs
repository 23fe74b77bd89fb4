//! What would become of a frame at an egress, by the same rules as if it came, and without changing
//! anything.

use units::{Class, Instant};

use crate::account::{Load, Reason};
use crate::arrive::Size;
use crate::cells::Queue;
use crate::config::Limits;
use crate::flows::{Flow, State};
use crate::forward::Step;
use crate::id::PortId;
use crate::port::Port;
use crate::switch::Switch;

/// What would become of a frame at one egress, or in one flow that is offered there, and what is
/// there before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EgressOutlook {
    /// The port.
    pub port: PortId,
    /// The frame's class.
    pub class: Class,
    /// Where it would lie.
    pub fate: Fate,
    /// What is switched in its class and has not left; or what is in the flow.
    pub load: Load,
    /// How much may be; in a flow, how much of a lossy class.
    pub limits: Limits,
    /// Frames of its class, of all senders, that wait for room there; or that are in the flow.
    pub waiting: u32,
    /// Frames that have left for a receiver far away, and are not known to have arrived; of a flow,
    /// its own.
    pub underway: usize,
    /// The receiver is stalled.
    pub stalled: bool,
    /// The flow is [blocked](crate::Head::block).
    pub blocked: bool,
    /// When its rate allows the next frame; it may be over.
    pub ready_at: Instant,
    /// Flows that have frames there, set aside or offered.
    pub flows: usize,
}

/// What an egress would do with a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It has a place in the egress's queue.
    Switched,
    /// It waits for one, behind its sender's others; or in its flow, for its turn.
    Waits,
    /// It is refused.
    Refused(Reason),
}

impl From<Step> for Fate {
    fn from(step: Step) -> Self {
        match step {
            Step::Switched => Self::Switched,
            Step::Waits => Self::Waits,
            Step::Refused(refusal) => Self::Refused(refusal.reason()),
        }
    }
}

impl<F: Copy> Switch<F> {
    /// What would become of a frame of this class and size that is for one port, if it came now.
    pub fn outlook(&self, to: PortId, class: Class, size: Size) -> EgressOutlook {
        let egress = &self.port(to).egress;
        EgressOutlook {
            fate: self.step(to, class, load_of(size)).into(),
            load: egress.classes[class].load,
            waiting: self.waiting(to, class).map(|voq| voq.frames).sum(),
            underway: self.count(egress.away.values()),
            ..self.outlook_of_port(to, class)
        }
    }

    /// The same of a frame that comes by `from`, and is for a flow behind a port. What is there of
    /// senders with [turns of their own](Self::set_port_terms) is not before it.
    pub fn flow_outlook(
        &self,
        from: PortId,
        (to, flow): (PortId, Flow),
        class: Class,
        size: Size,
    ) -> EgressOutlook {
        let (egress, part) = (&self.port(to).egress, self.part(from, to, flow));
        let queue = egress.flows.get(part);
        let lanes = queue.iter().flat_map(|queue| queue.lanes());
        EgressOutlook {
            fate: self.step_in_flow(to, part, class, load_of(size)).into(),
            load: egress.flows.load(part),
            waiting: lanes.map(|(_, lane)| lane.frames).sum(),
            underway: self.count(egress.away.get(&flow)),
            blocked: queue.is_some_and(|queue| queue.state == State::Blocked),
            ..self.outlook_of_port(to, class)
        }
    }

    /// The same of a copy for a [bystander](crate::Audience::bystanders) that comes by `from`, and
    /// is for a port or for a flow behind it.
    pub fn copy_outlook(
        &self,
        from: PortId,
        to: (PortId, Option<Flow>),
        class: Class,
        size: Size,
    ) -> EgressOutlook {
        let (step, outlook) = match to {
            (port, None) => {
                (self.step(port, class, load_of(size)), self.outlook(port, class, size))
            }
            (port, Some(flow)) => (
                self.step_in_flow(port, self.part(from, port, flow), class, load_of(size)),
                self.flow_outlook(from, (port, flow), class, size),
            ),
        };
        let standing = self.copies_held(from);
        let fate = self.copy_step(step, (from, class), to, size.bytes, standing).into();
        EgressOutlook { fate, ..outlook }
    }

    /// What is the same for all frames of a class; the rest is empty.
    fn outlook_of_port(&self, to: PortId, class: Class) -> EgressOutlook {
        let Port { places, egress, .. } = self.port(to);
        EgressOutlook {
            port: to,
            class,
            fate: Fate::Waits,
            load: Load::NONE,
            limits: places[usize::from(self.settings.classes.lossy(class).is_some())],
            waiting: 0,
            underway: 0,
            stalled: egress.stalled,
            blocked: false,
            ready_at: egress.shaper.as_ref().map_or(Instant::ZERO, |shaper| shaper.ready_at()),
            flows: egress.flows.len(),
        }
    }

    fn count<'a>(&self, queues: impl IntoIterator<Item = &'a Queue>) -> usize {
        queues.into_iter().map(|queue| self.cells.iter(queue).count()).sum()
    }

    /// Whether a flow towards a port has frames set aside: another of that flow goes behind them.
    pub fn is_parked(&self, to: PortId, flow: Flow) -> bool {
        self.port(to).egress.flows.contains(flow)
    }
}

fn load_of(size: Size) -> Load {
    Load { frames: size.frames.into(), bytes: size.bytes.into() }
}
