//! Far hosts at the ends of cables: what is sent has arrived.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use datapath::{Origin, Remote};
use lossless::{Flow, PortId, Reason, Refusal};
use port::{FrameView, Slot};
use units::{Class, Instant};
use wire::Offload;

use crate::{Arrival, Event, Leaving, Peers, Senders, Sent};

/// A frame, for the port with this label, and where it came from.
struct Cabled {
    label: u32,
    class: Class,
    origin: Option<Origin>,
    frame: Vec<u8>,
    /// What is left to do with it.
    note: Option<Offload>,
    /// Who is told what becomes of it, and of which flow it is there.
    sender: (usize, Flow),
}

/// What has arrived at a host, and what has become of what it sent.
#[derive(Default)]
struct Inbox {
    frames: VecDeque<Cabled>,
    completed: VecDeque<(Flow, Option<Refusal>)>,
}

type Shared = Rc<RefCell<Inbox>>;

/// One host's end of the cables between hosts.
pub struct Cables {
    /// What has arrived at each host, by its number.
    inboxes: Vec<Shared>,
    own: usize,
    held: BTreeMap<u32, Cabled>,
    next: u32,
    /// How many frames it sends before the next has to wait once.
    pub patience: u32,
    events: VecDeque<Event>,
}

/// So many hosts' ends.
pub fn between(hosts: usize) -> Vec<Cables> {
    let inboxes: Vec<Shared> = (0..hosts).map(|_| Shared::default()).collect();
    let end = |own| Cables {
        inboxes: inboxes.clone(),
        own,
        held: BTreeMap::new(),
        next: 0,
        patience: u32::MAX,
        events: VecDeque::new(),
    };
    (0..hosts).map(end).collect()
}

impl Peers for Cables {
    fn poll_arrival(&mut self) -> Option<(Slot, Arrival)> {
        let arrived = self.inboxes[self.own].borrow_mut().frames.pop_front()?;
        let logical = arrived.origin.map(|origin| (arrived.label, origin));
        let arrival = Arrival { network: None, class: Some(arrived.class), logical };
        self.next += 1;
        self.held.insert(self.next, arrived);
        Some((Slot(self.next), arrival))
    }

    fn has_arrivals(&self) -> bool {
        !self.inboxes[self.own].borrow().frames.is_empty()
    }

    fn frame(&self, slot: Slot) -> FrameView<'_> {
        let Cabled { frame, note, .. } = &self.held[&slot.0];
        FrameView { note: note.as_ref(), ..FrameView::plain(frame) }
    }

    fn logical(&self, slot: Slot) -> Option<(u32, Origin)> {
        let held = &self.held[&slot.0];
        held.origin.map(|origin| (held.label, origin))
    }

    fn release(&mut self, slot: Slot, refused: Option<Reason>) {
        let Cabled { sender: (host, flow), origin, .. } =
            self.held.remove(&slot.0).expect("it is held");
        let opens = origin.is_some_and(|origin| origin.opens);
        let missed = match refused {
            Some(Reason::Rejected) => Some(Refusal::REJECTED),
            Some(Reason::LogicalNetwork) if opens => Some(Refusal::LOGICAL_NETWORK),
            _ => None,
        };
        let completed = (flow, missed);
        self.inboxes[host].borrow_mut().completed.push_back(completed);
    }

    fn send(&mut self, _: Instant, flow: Flow, leaving: &Leaving<'_>) -> Sent {
        if self.patience == 0 {
            self.patience = 1;
            self.events.push_back(Event::Unblocked(flow));
            return Sent::Blocked;
        }
        self.patience -= 1;
        let (Remote { peer, label }, class) = Remote::of_flow(flow);
        let (frame, note) = (leaving.view.bytes.to_vec(), leaving.view.note.copied());
        let sender = (self.own, flow);
        let cabled = Cabled { label, class, origin: leaving.origin, frame, note, sender };
        self.inboxes[peer.index()].borrow_mut().frames.push_back(cabled);
        Sent::Underway
    }

    fn maintain(&mut self, _: Instant, _: bool, _: &impl Senders) -> bool {
        false
    }

    fn needs_maintenance(&self) -> bool {
        false
    }

    fn is_tx_blocked(&self) -> bool {
        false
    }

    fn poll_event(&mut self) -> Option<Event> {
        let completed = self.inboxes[self.own].borrow_mut().completed.pop_front();
        let completed = completed.map(|(flow, refused)| Event::Completed(flow, refused));
        self.events.pop_front().or(completed)
    }

    fn forget_sender(&mut self, _: PortId) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn handle_timeouts(&mut self, _: Instant) {}
}
