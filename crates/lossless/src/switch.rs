//! The switch as a whole: what it is made of, and what can be asked of it.

use alloc::vec::Vec;
use core::mem::offset_of;

use units::{Class, Instant, Span};

use crate::account::{Account, Load, Reason};
use crate::books::Retired;
use crate::cells::Cells;
use crate::config::Settings;
use crate::id::PortId;
use crate::port::Port;
use crate::ports::Ports;
use crate::set::PortSet;
use crate::voqs::{Voq, VoqId, Voqs};

/// A switch over frames that it knows by a handle `F`. Each frame looks at the first 32 bytes, the
/// ports, and one that passes straight through at no others, as a rule.
#[derive(Debug)]
#[repr(C)]
pub struct Switch<F> {
    pub(crate) ports: Ports,
    pub(crate) cells: Cells<F>,
    pub(crate) voqs: Voqs,
    /// Those whose egress holds something, in its queue or set aside; now and then one more.
    pub(crate) pending: PortSet,
    pub(crate) settings: Settings,
    /// The books of ports that were detached.
    pub(crate) retired: Retired,
    /// What was refused of late, while somebody wants to know.
    pub(crate) refused: Option<Vec<Refused<F>>>,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(offset_of!(Switch<u32>, ports) == 0 && offset_of!(Switch<u32>, cells) == 32);

/// A frame that the switch is done with: its sender may have its handle, and its memory, back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Released<F> {
    /// The port that offered it.
    pub port: PortId,
    /// The handle.
    pub frame: F,
    /// `None` if some receiver had it; if not, why the last egress that was done with it refused
    /// it.
    pub refused: Option<Reason>,
}

/// What became of a frame that was offered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "a frame that is not held is its sender's again"]
pub enum Offered<F> {
    /// It is held.
    Held,
    /// The receiver at this port has it ([`Switch::pass`]).
    Through(PortId),
    /// It was refused at once, for this reason, and is in the books. Here is its handle back.
    Refused(F, Reason),
    /// The sender has as much in the switch as it may. The frame is not accepted, is in no books,
    /// and stays where it is.
    Full(F),
}

/// A frame that was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused<F> {
    /// The sender's handle.
    pub frame: F,
    /// The port that it came by.
    pub ingress: PortId,
    /// The port that was to have it; `None` if it was for no other port.
    pub egress: Option<PortId>,
    /// Why.
    pub reason: Reason,
}

impl<F: Copy> Switch<F> {
    /// A switch with no ports.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ports: Ports::default(),
            pending: PortSet::default(),
            cells: Cells::new(),
            voqs: Voqs::new(),
            retired: Retired::default(),
            refused: None,
        }
    }

    /// What the switch was told.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many frames may be offered by this port now, whatever their class, without one being
    /// turned away.
    ///
    /// Zero says that the sender is held back; its paused time runs from here until there is room
    /// again.
    pub fn room(&mut self, now: Instant, port: PortId) -> u32 {
        let port = self.port_mut(port);
        let room = port.ingress.room(&port.config);
        if room == 0 {
            port.ingress.pause(now);
        }
        room
    }

    /// The same; looking does not begin a pause.
    pub fn peek_room(&self, port: PortId) -> u32 {
        let port = self.port(port);
        port.ingress.room(&port.config)
    }

    /// Lets so many more frames of a port's sender be held, and set aside, than its limits say.
    /// With 0, that ends once at most half of what the limits say is held. Whether something is
    /// lent.
    pub fn lend(&mut self, now: Instant, port: PortId, frames: u32) -> bool {
        let Port { config, ingress, .. } = self.port_mut(port);
        if frames > 0 || ingress.is_usual(config) {
            ingress.lend(now, frames, config);
        }
        ingress.lent > 0
    }

    /// Whether a port gets no more copies of what is for many, as it is [about to go](Self::close).
    pub fn is_closed(&self, port: PortId) -> bool {
        self.port(port).egress.closed
    }

    /// Whether [nobody is there](Self::set_absent) to take frames at a port.
    pub fn is_absent(&self, port: PortId) -> bool {
        self.port(port).egress.absent
    }

    /// How many frames of one class may be offered by this port now: for a sender whose classes
    /// wait apart. As [`Switch::room`], zero says that the sender is held back.
    pub(crate) fn room_in(&mut self, now: Instant, port: PortId, class: Class) -> u32 {
        let port = self.port_mut(port);
        let room = port.ingress.room_in(&port.config, class);
        if room == 0 {
            port.ingress.pause(now);
        }
        room
    }

    /// What a port's sender has held uses up the port's own memory: its paused time runs until some
    /// of it is released.
    pub fn pause(&mut self, now: Instant, port: PortId) {
        let ingress = &mut self.port_mut(port).ingress;
        if ingress.accounts().any(|account| account.held > 0) {
            ingress.pause(now);
        }
    }

    /// How long a port's sender has been held back, and whether it is now.
    pub fn paused(&self, now: Instant, port: PortId) -> (Span, bool) {
        let ingress = &self.port(port).ingress;
        (ingress.paused_by(now), ingress.paused_since.is_some())
    }

    /// Whether as many of a port's frames as may be wait for one receiver.
    pub fn at_quota(&self, port: PortId) -> bool {
        self.port(port).ingress.at_quota > 0
    }

    /// Whether a port's receiver is stalled.
    pub fn stalled(&self, port: PortId) -> bool {
        self.port(port).egress.stalled
    }

    /// Whether anything from this port or for it is held.
    pub fn holds(&self, port: PortId) -> bool {
        let port = self.port(port);
        let held = |account: &Account| account.held > 0;
        port.ingress.accounts().any(held) || port.egress.accounts().any(held)
    }

    /// What came in at a port in a class.
    pub fn ingress_account(&self, port: PortId, class: Class) -> &Account {
        &self.port(port).ingress.classes[class].account
    }

    /// What was meant for a port in a class; each copy of a flooded frame counts.
    pub fn egress_account(&self, port: PortId, class: Class) -> &Account {
        &self.port(port).egress.classes[class].account
    }

    /// What was meant for the flows of one [group](crate::Flow::group) that are offered behind a
    /// port, in all classes; `None` if nothing was, since it was [forgotten](Self::forget_group).
    pub fn group_account(&self, port: PortId, group: u32) -> Option<&Account> {
        self.port(port).egress.groups.get(group)
    }

    /// A group's number is about to mean another: its account is forgotten, once nothing is held.
    pub fn forget_group(&mut self, port: PortId, group: u32) {
        let groups = &mut self.port_mut(port).egress.groups;
        groups.forget(group);
        debug_assert!(groups.get(group).is_none(), "group {group} holds frames: {groups:?}");
    }

    /// What is switched and waits for a port's receiver in a class, parked frames aside.
    pub fn egress_load(&self, port: PortId, class: Class) -> Load {
        self.port(port).egress.classes[class].load
    }

    /// Everything that ever came in, by ports that are attached and ports that were.
    pub fn total(&self) -> Account {
        let mut total = self.retired.ingress();
        for account in self.ports.iter().flat_map(|(_, port)| port.ingress.accounts()) {
            total.merge(account);
        }
        total
    }

    /// The ports whose receivers may have something to take; the others have nothing, and need no
    /// visit.
    #[inline]
    pub fn pending(&self) -> PortSet {
        self.pending
    }

    /// The VOQs in which frames wait for an egress, in the order of its round.
    pub(crate) fn waiting(&self, egress: PortId, class: Class) -> impl Iterator<Item = &Voq> {
        let voq = |id: VoqId| (id != VoqId::NONE).then(|| &self.voqs[id]);
        core::iter::successors(
            voq(self.port(egress).egress.classes[class].waiting.first),
            move |last| voq(last.next),
        )
    }

    #[inline]
    pub(crate) fn port(&self, port: PortId) -> &Port {
        &self.ports[port]
    }

    #[inline]
    pub(crate) fn port_mut(&mut self, port: PortId) -> &mut Port {
        &mut self.ports[port]
    }
}
