//! What would become of a frame, by the same rules as if it came, and without changing anything.

use alloc::vec::Vec;

use units::{Class, Instant};
use wire::ethernet::Peek;

use crate::forward::{self, Destination};
use crate::heading::Heading;
use crate::{Flow, Limits, Load, Network, PortId, Reason, Switch};

/// What would become of a frame that came now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outlook {
    /// The class that it would be of.
    pub class: Class,
    /// How many frames its sender may still have held. With none it is not taken over before there is room.
    pub room: u32,
    /// As many of its sender's frames as may be wait for one receiver.
    pub at_quota: bool,
    /// Where it would go once it is taken over.
    pub way: Way,
}

/// Where a frame would go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Way {
    /// Nowhere.
    Refused(Reason),
    /// To this port alone.
    One(EgressOutlook),
    /// To each of these: it is flooded.
    Many(Vec<EgressOutlook>),
}

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
    /// What would become of a frame of `network` with this header, of so many bytes and frames on a wire, if it came by `from` now.
    ///
    /// Its sender's address is not learned before it is asked where the frame goes: give one that is known.
    pub fn outlook(&self, from: PortId, header: &Peek, network: Network, bytes: u32, frames: u16) -> Outlook {
        let heading = Heading::of(header, network);
        let port = self.port(from);
        let (class, vlan) = port.class_and_vlan(&self.settings.priorities, heading.tag());
        let load = Load { frames: frames.into(), bytes: bytes.into() };
        let egress = self.table.egress(heading, vlan, from.0);
        let way = match self.destination(from, heading, egress) {
            Destination::Nobody(refusal) => Way::Refused(refusal.reason()),
            Destination::One(to) => Way::One(self.egress_outlook(to, class, load)),
            Destination::Many(audience) => {
                Way::Many(audience.iter().map(|to| self.egress_outlook(to, class, load)).collect())
            }
        };
        let room = port.ingress.room(&port.config);
        Outlook { class, room, at_quota: port.ingress.at_quota > 0, way }
    }

    fn egress_outlook(&self, to: PortId, class: Class, load: Load) -> EgressOutlook {
        let port = self.port(to);
        let fate = match self.way(to, class, load) {
            forward::Way::Switched => Fate::Switched,
            forward::Way::Waits => Fate::Waits,
            forward::Way::Refused(refusal) => Fate::Refused(refusal.reason()),
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
            parked_flows: egress.parked.len(),
        }
    }

    /// Whether a flow towards a port has frames set aside: another of that flow goes behind them.
    pub fn is_parked(&self, to: PortId, flow: Flow) -> bool {
        self.port(to).egress.parked.contains_key(&flow)
    }
}
