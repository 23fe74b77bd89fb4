//! What would become of a frame at an egress, by the same rules as if it came, and without changing
//! anything.

use units::{Class, Instant};

use crate::account::{Load, Reason};
use crate::config::Limits;
use crate::flows::Flow;
use crate::forward::{Size, Step};
use crate::id::PortId;
use crate::switch::Switch;

/// What would become of a frame at one egress, and what is there before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EgressOutlook {
    /// The port.
    pub port: PortId,
    /// The frame's class.
    pub class: Class,
    /// Where it would lie.
    pub fate: Fate,
    /// What is switched in its class and has not left.
    pub load: Load,
    /// How much may be.
    pub limits: Limits,
    /// Frames of its class, of all senders, that wait for room there.
    pub waiting: u32,
    /// Frames that have left for a receiver far away, and are not known to have arrived.
    pub underway: usize,
    /// The receiver is stalled.
    pub stalled: bool,
    /// When its rate allows the next frame; it may be over.
    pub ready_at: Instant,
    /// Flows that are set aside there.
    pub parked_flows: usize,
}

/// What an egress would do with a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It has a place in the egress's queue.
    Switched,
    /// It waits for one, behind its sender's others.
    Waits,
    /// It is refused.
    Refused(Reason),
}

impl<F: Copy> Switch<F> {
    /// What would become of a frame of this class and size that is for one port, if it came now.
    pub fn outlook(&self, to: PortId, class: Class, size: Size) -> EgressOutlook {
        let load = Load { frames: size.frames.into(), bytes: size.bytes.into() };
        let port = self.port(to);
        let fate = match self.step(to, class, load) {
            Step::Switched => Fate::Switched,
            Step::Waits => Fate::Waits,
            Step::Refused(refusal) => Fate::Refused(refusal.reason()),
        };
        let egress = &port.egress;
        EgressOutlook {
            port: to,
            class,
            fate,
            load: egress.classes[class].load,
            limits: port.config.egress,
            waiting: self.waiting(to, class).map(|voq| voq.frames).sum(),
            underway: egress.away.values().map(|queue| self.cells.iter(queue).count()).sum(),
            stalled: egress.stalled,
            ready_at: egress.shaper.as_ref().map_or(Instant::ZERO, |shaper| shaper.ready_at()),
            parked_flows: egress.flows.len(),
        }
    }

    /// Whether a flow towards a port has frames set aside: another of that flow goes behind them.
    pub fn is_parked(&self, to: PortId, flow: Flow) -> bool {
        self.port(to).egress.flows.contains(flow)
    }
}
