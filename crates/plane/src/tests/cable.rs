//! Far hosts at the ends of cables: what is sent has arrived.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use datapath::{Origin, Peer, Remote};
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
    ended: VecDeque<Event>,
}

type Shared = Rc<RefCell<Inbox>>;

/// One host's end of the cables between hosts.
pub struct Cables {
    /// What has arrived at each host, by its number.
    inboxes: Vec<Shared>,
    own: usize,
    held: BTreeMap<u32, Cabled>,
    next: u32,
    /// Flows of which frames were given back, and none that begins anew has come since.
    moved: BTreeSet<(usize, Flow)>,
    /// Flows of which frames came back, and none was sent since.
    anew: BTreeSet<Flow>,
    /// How many frames it sends before the next has to wait once.
    pub patience: u32,
    events: VecDeque<Event>,
}

impl Cables {
    /// Nothing is heard of another host, and what it has not taken is lost.
    pub fn lose(&mut self, peer: Peer) {
        let lost = |cabled: &Cabled| cabled.sender.0 == self.own;
        self.inboxes[peer.index()].borrow_mut().frames.retain(|cabled| !lost(cabled));
        self.events.push_back(Event::Abandoned(peer.flows(), Refusal::STALLED));
    }
}

/// So many hosts' ends.
pub fn between(hosts: usize) -> Vec<Cables> {
    let inboxes: Vec<Shared> = (0..hosts).map(|_| Shared::default()).collect();
    let end = |own| Cables {
        inboxes: inboxes.clone(),
        own,
        held: BTreeMap::new(),
        next: 0,
        moved: BTreeSet::new(),
        anew: BTreeSet::new(),
        patience: u32::MAX,
        events: VecDeque::new(),
    };
    (0..hosts).map(end).collect()
}

impl Peers for Cables {
    fn poll_arrival(&mut self) -> Option<(Slot, Arrival)> {
        let arrived = loop {
            let arrived = self.inboxes[self.own].borrow_mut().frames.pop_front()?;
            let (host, flow) = arrived.sender;
            if arrived.origin.is_some_and(|origin| origin.is_anew) {
                self.moved.remove(&arrived.sender);
            }
            if !self.moved.contains(&arrived.sender) {
                break arrived;
            }
            self.inboxes[host].borrow_mut().ended.push_back(Event::Returned(flow));
        };
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
        let ended = match refused {
            Some(Reason::Moved) => {
                self.moved.insert((host, flow));
                Event::Returned(flow)
            }
            _ => Event::Completed(flow, missed),
        };
        self.inboxes[host].borrow_mut().ended.push_back(ended);
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
        let is_anew = self.anew.remove(&flow);
        let origin = leaving.origin.map(|origin| Origin { is_anew, ..origin });
        let cabled = Cabled { label, class, origin, frame, note, sender };
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
        let ended = self.inboxes[self.own].borrow_mut().ended.pop_front();
        if let Some(Event::Returned(flow)) = ended {
            self.anew.insert(flow);
        }
        self.events.pop_front().or(ended)
    }

    fn forget_sender(&mut self, _: PortId) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn handle_timeouts(&mut self, _: Instant) {}
}
