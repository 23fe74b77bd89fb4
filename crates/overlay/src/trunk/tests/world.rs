//! A host that sends and one that receives, each with a trunk and a socket of its own, and between
//! the sockets a fabric that loses, repeats and delays what it is given. Time is a number.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use datapath::{Network, Origin, Peer, Remote};
use lossless::{Flow, PortConfig, PortId, Reason, Refusal, Settings, Switch};
use plane::{Event, Leaving, Senders, Sent};
use port::{FrameView, Slot};
use seal::Pace;
use tunnel::message::Message;
use tunnel::outer::{Encapsulation, Received, Vteps};
use tunnel::{Counters, Data, SessionConfig, Stream};
use underlay::{Transport, Underlay};
use units::{Class, ClassSet, Instant, Mac, Rng, Span};
use wire::ecn::Ecn;
use wire::{Layout, Offload, geneve};

use super::super::config::flow_of;
use super::super::{Path, Trunk, TrunkConfig};
use super::{large, session};
use crate::downlinks::Downlinks;
use crate::shared::{Carried, Known, Networks, Shared, origin_of};
use crate::slots::{Counts, FRAMES, Owner, Slots};

/// How many flows there are: each to a receiver of its own, in a class of its own.
pub const FLOWS: usize = 3;

const VNI: u32 = 7;
const NETWORK: Network = Network::new(1).unwrap();
const PEER: Peer = Peer::new(0).unwrap();

/// Where a TCP header has its sequence number, behind Ethernet's and IPv4's.
const SEQUENCE: std::ops::Range<usize> = 38..42;

/// How long a packet is underway at most.
const LATE: Span = Span::from_millis(30);

/// By then all is over: probes come once a second, and there are a few of them in a row.
const OVER: Instant = Instant::from_nanos(120_000_000_000);

/// Of a thousand packets, how many are lost, come twice, are delayed so that others overtake them,
/// and are marked (CE).
#[derive(Clone, Copy, Debug, Default)]
pub struct Fabric {
    pub lost: u64,
    pub repeated: u64,
    pub late: u64,
    pub marked: u64,
}

/// Frames that are offered together.
#[derive(Clone, Copy, Debug)]
pub enum Offer {
    /// One that one datagram carries; so many bytes of payload.
    Small(usize),
    /// TCP segments that follow one another, cut from so many bytes of payload.
    Burst(usize),
    /// A large segment, with what is left to do for it.
    Large(usize),
    /// One that nothing is left to do for, however long it is.
    Long(usize),
}

/// A frame in its sender's memory.
struct Frame {
    port: PortId,
    flow: usize,
    bytes: Vec<u8>,
    offload: Offload,
}

/// The sender's memory, as its trunk sees it.
struct Memory<'m>(&'m BTreeMap<Slot, Frame>);

impl Senders for Memory<'_> {
    fn network(&self, _: PortId) -> Network {
        NETWORK
    }

    fn frame(&self, port: PortId, slot: Slot) -> FrameView<'_> {
        let frame = &self.0[&slot];
        assert_eq!(frame.port, port);
        FrameView::noted(&frame.bytes, &frame.offload)
    }
}

struct End {
    address: IpAddr,
    underlay: Rc<RefCell<Underlay>>,
    trunk: Trunk,
    shared: Shared,
    begun: u64,
}

/// What one incarnation of the receiver has had of a flow: the numbers of its frames.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Had {
    /// What was polled, in order.
    pub polled: Vec<usize>,
    /// What was released.
    pub taken: Vec<usize>,
}

pub struct World {
    pub now: Instant,
    rng: Rng,
    fabric: Fabric,
    session: SessionConfig,
    /// The sender's, then the receiver's.
    ends: [End; 2],
    /// The sender's ports.
    pub ports: [PortId; 2],
    /// What was offered of each flow, and by which port.
    pub offered: [Vec<PortId>; FLOWS],
    /// By their bytes: which of its flow's frames it is.
    known: HashMap<Vec<u8>, (usize, usize, Offload)>,
    /// What the sender has, by slot.
    memory: BTreeMap<Slot, Frame>,
    slots: u32,
    unsent: [VecDeque<(usize, Slot)>; FLOWS],
    /// Which flows wait until the sender's trunk says that they may go on.
    is_blocked: [bool; FLOWS],
    underway: [VecDeque<(usize, Slot)>; FLOWS],
    /// What has come back. It is sent again, before all else, once none is underway.
    back: [VecDeque<(usize, Slot)>; FLOWS],
    /// How each frame that the sender has no more ended, by number.
    pub completed: [BTreeMap<usize, Option<Refusal>>; FLOWS],
    /// By incarnation of the receiver and flow.
    pub had: Vec<[Had; FLOWS]>,
    /// What was polled and not released: the receiver's slot, and which frames of which flow are in
    /// it.
    held: Vec<(Slot, usize, Vec<usize>)>,
    /// Nobody polls or releases.
    pub is_stopped: bool,
    /// The flow whose receiver takes nothing.
    pub stalled: Option<usize>,
    /// When each packet arrives, and in which order it was sent: at which end, its traffic class
    /// and its payload.
    packets: BTreeMap<(Instant, u64), (usize, u8, Vec<u8>)>,
    count: u64,
    /// How many large datagrams cards have cut.
    pub cut: u32,
    /// The traffic class of the packets in frames.
    pub traffic_class: u8,
    /// Frames are of logical networks, whose hosts have this generation, and each frame comes from
    /// the port with this label.
    pub logical: Option<Origin>,
    /// Of how many frames one is rejected by its receiver's rules; 0 for none.
    pub rejects: usize,
    /// What was rejected: flows and numbers.
    pub rejected: BTreeSet<(usize, usize)>,
    /// Receivers come and go.
    pub roams: bool,
    /// How many frames came with a mark in their packets.
    pub came_marked: u32,
}

/// A flow, as trunks know it.
fn named(flow: usize) -> Flow {
    flow_of(PEER, Stream { label: flow as u32, class: Class::from_low_bits(flow as u8) })
}

fn mac(flow: usize) -> Mac {
    Mac::local(100 + flow as u32)
}

impl End {
    fn new(now: Instant, [address, far]: [IpAddr; 2], session: SessionConfig) -> Self {
        let port = 40_000 + std::process::id() as u16 % 10_000;
        let underlay = Underlay::open(address, Transport::Udp(port), 64).unwrap();
        let underlay = Rc::new(RefCell::new(underlay));
        let trunk = trunk(now, &underlay, far, session, 1);
        Self { address, underlay, trunk, shared: shared(FRAMES), begun: 1 }
    }

    fn path(&self, far: IpAddr) -> Path {
        Path { underlay: self.underlay.clone(), far }
    }
}

/// A trunk that has begun so many times.
fn trunk(
    now: Instant,
    underlay: &Rc<RefCell<Underlay>>,
    far: IpAddr,
    session: SessionConfig,
    begun: u64,
) -> Trunk {
    let config = TrunkConfig {
        host: far,
        far,
        pair: 1,
        encapsulation: Encapsulation::Geneve,
        session: Some(session),
        seed: begun,
        most: session.datagram as usize,
        dscp: None,
        obeys_pauses: false,
    };
    let owner = Owner { peer: PEER, serial: begun };
    Trunk::new(now, owner, config, None, vec![Path { underlay: underlay.clone(), far }])
}

/// What the trunks of a host share, with memory for so many frames of each size.
pub fn shared(frames: Counts) -> Shared {
    let mut networks = Networks::default();
    networks.set(NETWORK, Some(Carried { vni: VNI, classes: ClassSet::ALL }));
    let known = None;
    let (slots, patience) = (Slots::new(frames), Span::from_secs(1_000_000));
    Shared {
        slots,
        networks,
        known,
        downlinks: Downlinks::new(None, Span::ZERO, 1, 0),
        scratch: Vec::new(),
        cut: Vec::new(),
        events: VecDeque::new(),
        patience,
        pace: Pace::default(),
    }
}

impl World {
    /// Both hosts, at addresses that only this `place` has, with datagrams' payloads of so many
    /// bytes at most, and credit for so many bytes of each stream. The receiver has memory for so
    /// many frames of each size.
    pub fn new(
        place: u8,
        seed: u64,
        fabric: Fabric,
        most: usize,
        window: u32,
        frames: Counts,
    ) -> Self {
        let session = SessionConfig { stream_window: window, datagram: most as u32, ..session() };
        Self::of(place, seed, fabric, session, frames)
    }

    /// The same, with such sessions.
    pub fn of(
        place: u8,
        seed: u64,
        fabric: Fabric,
        session: SessionConfig,
        frames: Counts,
    ) -> Self {
        let now = Instant::ZERO + Span::from_micros(1);
        let address = |end| IpAddr::V4(Ipv4Addr::new(127, 13, place, end));
        let ends = [[address(1), address(2)], [address(2), address(1)]];
        let mut switch = Switch::<Slot>::new(Settings::default());
        let mut world = Self {
            now,
            rng: Rng::new(seed),
            fabric,
            session,
            ends: ends.map(|ends| End::new(now, ends, session)),
            ports: [(); 2].map(|()| switch.attach(now, PortConfig::default()).unwrap()),
            offered: Default::default(),
            known: HashMap::new(),
            memory: BTreeMap::new(),
            slots: 0,
            unsent: Default::default(),
            is_blocked: [false; FLOWS],
            underway: Default::default(),
            back: Default::default(),
            completed: Default::default(),
            had: vec![Default::default()],
            held: Vec::new(),
            is_stopped: false,
            stalled: None,
            packets: BTreeMap::new(),
            count: 0,
            cut: 0,
            traffic_class: 0,
            logical: None,
            rejects: 0,
            roams: false,
            rejected: BTreeSet::new(),
            came_marked: 0,
        };
        world.ends[1].shared = shared(frames);
        world
    }

    /// A port of the sender has frames of a flow.
    pub fn offer(&mut self, flow: usize, port: usize, offer: Offer) {
        let (Offer::Small(len) | Offer::Burst(len) | Offer::Large(len) | Offer::Long(len)) = offer;
        let (mut bytes, offload) = large(len, self.traffic_class);
        bytes[..6].copy_from_slice(&mac(flow).0);
        // No two frames are alike.
        bytes[SEQUENCE].copy_from_slice(&(self.known.len() as u32 * 70_000).to_be_bytes());
        match offer {
            Offer::Small(_) | Offer::Long(_) => self.offer_frame(flow, port, bytes, Offload::NONE),
            Offer::Large(_) => self.offer_frame(flow, port, bytes, offload),
            Offer::Burst(_) => {
                pieces(&bytes, offload)
                    .into_iter()
                    .for_each(|piece| self.offer_frame(flow, port, piece, Offload::NONE));
            }
        }
    }

    fn offer_frame(&mut self, flow: usize, port: usize, bytes: Vec<u8>, offload: Offload) {
        let (number, slot, port) = (self.offered[flow].len(), Slot(self.slots), self.ports[port]);
        self.slots += 1;
        self.offered[flow].push(port);
        self.known.insert(bytes.clone(), (flow, number, offload));
        self.memory.insert(slot, Frame { port, flow, bytes, offload });
        self.unsent[flow].push_back((number, slot));
    }

    /// The sender's trunk sends what it may, and again what was lost; its frames are its own again
    /// once it says so.
    fn send(&mut self) {
        let Self {
            ends, memory, unsent, is_blocked, underway, back, completed, now, logical, ..
        } = self;
        let origin = *logical;
        let [End { trunk, shared, .. }, _] = ends;
        let senders = Memory(memory);
        let mut ended = Vec::new();
        for event in shared.events.drain(..) {
            match event {
                Event::Completed(named, missed) => {
                    let flow = Remote::of_flow(named).0.label as usize;
                    let (number, slot) =
                        underway[flow].pop_front().expect("what is completed was underway");
                    ended.push((flow, number, slot, missed));
                }
                Event::Returned(named) => {
                    let flow = Remote::of_flow(named).0.label as usize;
                    back[flow].extend(underway[flow].pop_front());
                }
                Event::Unblocked(named) => {
                    is_blocked[Remote::of_flow(named).0.label as usize] = false;
                }
                Event::Resent(..) => {}
                other => panic!("{other:?}"),
            }
        }
        for (flow, unsent) in unsent.iter_mut().enumerate() {
            if !back[flow].is_empty() {
                if !underway[flow].is_empty() {
                    continue;
                }
                back[flow].append(unsent);
                *unsent = std::mem::take(&mut back[flow]);
            }
            while !is_blocked[flow]
                && let Some((number, slot)) = unsent.front().copied()
            {
                let port = memory[&slot].port;
                let class = Class::from_low_bits(flow as u8);
                let view = senders.frame(port, slot);
                let leaving = Leaving { port, slot, network: NETWORK, class, view, origin };
                match trunk.send(*now, shared, named(flow), &leaving) {
                    Sent::Underway => underway[flow].push_back((number, slot)),
                    Sent::Refused(refusal) => ended.push((flow, number, slot, Some(refusal))),
                    Sent::Blocked => {
                        is_blocked[flow] = true;
                        break;
                    }
                    Sent::Gone => ended.push((flow, number, slot, None)),
                }
                unsent.pop_front();
            }
        }
        // As a plane does, after what is new: see [`Trunk::maintain`].
        trunk.retransmit_lost(*now, shared, &senders);
        trunk.resume_begun(*now, shared, &senders);
        trunk.unblock_waiting(shared);
        for (flow, number, slot, missed) in ended {
            assert_eq!(memory.remove(&slot).unwrap().flow, flow);
            assert_eq!(completed[flow].insert(number, missed), None);
        }
    }

    /// The receiver's switch polls what has arrived, and its receivers consume some of it.
    fn receive(&mut self) {
        if self.is_stopped {
            return;
        }
        let Self {
            ends: [_, End { trunk, shared: Shared { slots, .. }, .. }],
            known,
            had,
            held,
            rng,
            stalled,
            came_marked,
            logical,
            ..
        } = self;
        let had = had.last_mut().unwrap();
        while let Some(slot) = trunk.poll_arrival(slots) {
            if let Some(context) = slots.context(slot)
                && let Some(answer) = trunk.behind_moved(slots, slot, context)
            {
                trunk.give_back(slots, slot, Reason::Moved, answer);
                continue;
            }
            let come = *slots.get(slot);
            let booked = (come.network, come.is_orphan);
            let of = if logical.is_some() { (Network::default(), true) } else { (NETWORK, false) };
            let origin = slots.context(slot).map(origin_of);
            let origin = origin.map(|origin| Origin { is_anew: false, ..origin });
            assert_eq!((booked, origin), (of, *logical));
            let view = slots.view(slot);
            let mut bytes = view.bytes.to_vec();
            let layout = Layout::of(&bytes).unwrap();
            let class = layout.traffic_class(&bytes).unwrap();
            if Ecn::of(class) == Ecn::Ce {
                *came_marked += 1;
                layout.set_traffic_class(&mut bytes, Ecn::Ect0.within(class)).unwrap();
            }
            let (flow, numbers) = match known.get(&bytes) {
                Some((flow, number, offload)) => {
                    assert_eq!(view.offload(), *offload);
                    (*flow, vec![*number])
                }
                // What came one by one may have been joined.
                None => {
                    let pieces = pieces(&bytes, view.offload());
                    let pieces: Vec<_> = pieces.iter().map(|piece| known[piece]).collect();
                    assert!(pieces.iter().all(|(flow, _, offload)| {
                        (*flow, *offload) == (pieces[0].0, Offload::NONE)
                    }));
                    (pieces[0].0, pieces.into_iter().map(|(_, number, _)| number).collect())
                }
            };
            assert_eq!(come.class, Some(Class::from_low_bits(flow as u8)));
            had[flow].polled.extend(&numbers);
            held.push((slot, flow, numbers));
        }
        // Receivers are as quick as they are.
        for _ in 0..rng.below(held.len() as u64 + 1) {
            let place = rng.below(held.len() as u64) as usize;
            if Some(held[place].1) == *stalled {
                continue;
            }
            let (slot, flow, numbers) = held.swap_remove(place);
            if self.roams && rng.below(4) == 0 {
                trunk.release(slots, slot, Some(Reason::Moved));
                trunk.offer_memory(slots);
                continue;
            }
            let is_one = |number: &usize| number.is_multiple_of(self.rejects.max(1));
            if self.rejects > 0 && numbers.iter().any(is_one) {
                self.rejected.extend(numbers.iter().map(|number| (flow, *number)));
                trunk.release(slots, slot, Some(Reason::Rejected));
            } else {
                trunk.release(slots, slot, None);
            }
            trunk.offer_memory(slots);
            had[flow].taken.extend(numbers);
        }
    }

    /// What an end has to send reaches its own socket's far end, and from there on it is the
    /// fabric's.
    fn carry(&mut self, from: usize) {
        let mut sent = 0;
        assert!(
            self.ends[from].underlay.borrow_mut().flush_telling(|_| sent += 1),
            "loopback has room"
        );
        let Self { ends, fabric, session, rng, packets, count, cut, now, .. } = self;
        let (mut came, mut tries) = (0, 0);
        while came < sent {
            ends[1 - from].underlay.borrow_mut().receive(|datagram| {
                came += 1;
                let is_long = datagram.payload.len() > session.datagram as usize;
                let pieces = cut_by_card(datagram.payload).filter(|_| is_long && rng.below(2) == 0);
                *cut += u32::from(pieces.is_some());
                for packet in pieces.unwrap_or_else(|| vec![datagram.payload.to_vec()]) {
                    let mut is = |thousandths: u64| rng.below(1000) < thousandths;
                    let (is_lost, is_repeated) = (is(fabric.lost), is(fabric.repeated));
                    let copies = match (is_lost, is_repeated) {
                        (true, _) => 0,
                        (_, is_repeated) => 1 + usize::from(is_repeated),
                    };
                    for _ in 0..copies {
                        let is_late = rng.below(1000) < fabric.late;
                        let late = if is_late { rng.below(LATE.as_nanos()) } else { 0 };
                        let at = *now + Span::from_micros(20) + Span::from_nanos(late);
                        *count += 1;
                        let is_marked = rng.below(1000) < fabric.marked;
                        let ecn = if is_marked { Ecn::Ce } else { Ecn::of(datagram.traffic_class) };
                        let class = ecn.within(datagram.traffic_class);
                        packets.insert((at, *count), (1 - from, class, packet.clone()));
                    }
                }
            });
            tries += 1;
            assert!(tries < 1_000_000, "{came} of {sent} datagrams came by the loopback");
        }
    }

    /// A packet arrives.
    fn arrive(&mut self, end: usize, traffic_class: u8, payload: &[u8]) {
        let vteps = Vteps::new(self.ends[end].address, self.ends[1 - end].address).unwrap();
        let received =
            Received::of_datagram(Encapsulation::Geneve, vteps, traffic_class, payload).unwrap();
        let End { trunk, shared, .. } = &mut self.ends[end];
        if trunk.handle(self.now, shared, &received, payload) {
            trunk.settle(self.now);
        }
    }

    /// Both ends do what there is to do now, and time goes on to the next event; `false` if there
    /// is none before `until`.
    fn step(&mut self, until: Instant) -> bool {
        for End { trunk, shared, .. } in &mut self.ends {
            if trunk.deadline(shared.patience).is_some_and(|at| at <= self.now) {
                trunk.handle_timeout(self.now, shared);
            }
        }
        self.receive();
        self.send();
        let has_events = !self.ends[0].shared.events.is_empty();
        let mut waits = has_events.then_some(self.now);
        for end in 0..2 {
            let delivered = self.rng.below(2) == 0;
            let trunk = &mut self.ends[end].trunk;
            trunk.transmit_control(self.now, delivered);
            let is_due = trunk.report_waits || trunk.is_tx_blocked();
            waits = is_due.then_some(self.now).or(waits);
            self.carry(end);
        }
        // Receivers take more in a while.
        let busy =
            (!self.held.is_empty() && !self.is_stopped).then(|| self.now + Span::from_micros(50));
        let due = self.ends.iter().filter_map(|end| end.trunk.deadline(end.shared.patience));
        let due = due.chain(busy).chain(waits);
        let next = due.chain(self.packets.keys().next().map(|(at, _)| *at)).min();
        let Some(next) = next.filter(|next| *next <= until) else { return false };
        // Whatever is late is due now, and time goes on.
        self.now = next.max(self.now + Span::from_nanos(1));
        while let Some(entry) = self.packets.first_entry()
            && entry.key().0 <= self.now
        {
            let (end, traffic_class, payload) = entry.remove();
            self.arrive(end, traffic_class, &payload);
        }
        true
    }

    /// So much time goes by.
    pub fn run_for(&mut self, long: Span) {
        let until = self.now + long;
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Until the receiver's switch was shown so many frames in this incarnation, or all is over.
    pub fn run_until_polled(&mut self, count: usize) {
        let polled = |world: &Self| {
            world.had.last().unwrap().iter().map(|had| had.polled.len()).sum::<usize>()
        };
        while polled(self) < count && !self.is_done() && self.step(OVER) {}
    }

    /// Until the sender has all its frames back, and nothing is underway. Then nobody has anything
    /// left.
    pub fn run(&mut self) {
        while !self.is_done() && self.step(OVER) {}
        assert!(self.is_done(), "it stands still: {}", self.left());
        assert!(self.ends[0].trunk.spoiled.is_empty());
        assert!(self.ends[0].trunk.carried.is_empty());
        assert!(self.underway.iter().all(VecDeque::is_empty));
        let End { trunk, shared, .. } = &self.ends[1];
        assert!(trunk.ready.is_empty() && trunk.assembly.is_empty() && shared.slots.is_all_free());
    }

    fn is_done(&self) -> bool {
        let End { trunk, .. } = &self.ends[0];
        let is_all_sent =
            trunk.begun.is_empty() && trunk.session.as_ref().unwrap().outstanding() == 0;
        is_all_sent && self.memory.is_empty() && self.packets.is_empty() && self.held.is_empty()
    }

    fn left(&self) -> String {
        let numbers =
            |queues: &[VecDeque<(usize, Slot)>; FLOWS]| queues.each_ref().map(VecDeque::len);
        format!(
            "{:?} unsent, {:?} underway, {} held, {:?}",
            numbers(&self.unsent),
            numbers(&self.underway),
            self.held.len(),
            self.counters(),
        )
    }

    /// The receiver begins another incarnation. If it `leaves`, it tells the sender before of what
    /// was taken.
    pub fn restart(&mut self, leaves: bool) {
        let far = self.ends[0].address;
        if leaves {
            assert!(self.ends[1].trunk.leave(self.now));
            self.carry(1);
        }
        let Self { ends: [_, end], now, session, had, held, .. } = self;
        end.begun += 1;
        end.trunk = trunk(*now, &end.underlay, far, *session, end.begun);
        // The next incarnation has the memory of none before.
        end.shared = shared(end.shared.slots.counts());
        had.push(Default::default());
        held.clear();
    }

    /// A port of the sender is gone, with its memory.
    pub fn forget(&mut self, port: usize) {
        self.send();
        while !self.ends[0].shared.events.is_empty() {
            self.send();
        }
        let gone = self.ports[port];
        self.ends[0].trunk.forget_sender(gone);
        let Self { memory, unsent, underway, .. } = self;
        for queue in unsent.iter_mut().chain(underway) {
            queue.retain(|(_, slot)| memory[slot].port != gone);
        }
        memory.retain(|_, frame| frame.port != gone);
    }

    /// From now on datagrams have no more than so many bytes.
    pub fn limit_datagrams(&mut self, most: usize) {
        let paths = vec![self.ends[0].path(self.ends[1].address)];
        self.ends[0].trunk.set_paths(self.now, paths, Some(most));
    }

    /// What was offered is sent, and taken at once. What leaves by the receiver's trunk in the next
    /// turn, if so many frames with this payload answer it.
    pub fn answer(&mut self, frames: u32, len: usize) -> Vec<Message> {
        self.ends[1].trunk.transmit_control(self.now, false);
        self.send();
        (0..2).for_each(|end| self.carry(end));
        while let Some((_, (end, traffic_class, payload))) = self.packets.pop_first() {
            self.arrive(end, traffic_class, &payload);
        }
        let Self { ends: [_, End { trunk, underlay, shared, .. }], ports, now, .. } = self;
        while let Some(slot) = trunk.poll_arrival(&mut shared.slots) {
            trunk.release(&mut shared.slots, slot, None);
        }
        if !trunk.config.obeys_pauses {
            trunk.transmit_control(*now, true);
            let is_waiting = trunk.report_waits && underlay.borrow().queued() == 0;
            assert!(is_waiting, "it waits for an answer");
        }
        let (mut bytes, _) = large(len, 0);
        bytes[..6].copy_from_slice(&mac(0).0);
        for number in 0..frames {
            let view = FrameView::noted(&bytes, &Offload::NONE);
            let (slot, class) = (Slot(number), Class::from_low_bits(0));
            let leaving =
                Leaving { port: ports[0], slot, network: NETWORK, class, view, origin: None };
            assert_eq!(trunk.send(*now, shared, named(0), &leaving), Sent::Underway);
        }
        // More may have been delivered meanwhile.
        trunk.transmit_control(*now, true);
        let mut left = Vec::new();
        underlay.borrow_mut().flush_telling(|sent| {
            left.extend(Message::parse(geneve::Packet::parse(sent.payload).unwrap().options));
        });
        left
    }

    /// The sender's session takes what is in flight for lost. It arrives all the same, and the
    /// sender is told so before it sends anything again.
    pub fn change_path_in_vain(&mut self) {
        let session = self.ends[0].trunk.session.as_mut().expect("there is one");
        session.change_path(self.now);
        while !self.packets.is_empty() || !self.held.is_empty() {
            while let Some((_, (end, traffic_class, payload))) = self.packets.pop_first() {
                self.arrive(end, traffic_class, &payload);
            }
            self.receive();
            self.ends[1].trunk.transmit_control(self.now, false);
            self.carry(1);
            self.now += Span::from_micros(20);
        }
    }

    /// The receiver's host has this generation from now on, in which labels mean ports: those of
    /// the flows, or none.
    pub fn know(&mut self, generation: u64, is_all: bool) {
        let End { trunk, shared, .. } = &mut self.ends[1];
        let labels = if is_all { (0..FLOWS as u32).collect() } else { Default::default() };
        shared.known = Some(Known { generation, labels });
        trunk.look_again();
    }

    /// How many frames came early.
    pub fn early(&self) -> u64 {
        self.counters()[1].not_yet
    }

    /// The receiver's link may pause classes from now on.
    pub fn obey_pauses(&mut self) {
        self.ends[1].trunk.config.obeys_pauses = true;
    }

    /// How each end's session has fared.
    pub fn counters(&self) -> [Counters; 2] {
        self.ends.each_ref().map(|end| end.trunk.session.as_ref().unwrap().counters())
    }
}

/// What a card makes of a large datagram: each segment of the frame in it behind the same headers.
/// `None` if the datagram does not say how it may be cut.
fn cut_by_card(datagram: &[u8]) -> Option<Vec<Vec<u8>>> {
    let packet = geneve::Packet::parse(datagram)?;
    let Message::Data(Data { cut: Some(cut), .. }, _) = Message::parse(packet.options)? else {
        return None;
    };
    let headers = &datagram[..datagram.len() - packet.payload.len()];
    let offload = wire::cut::offload(packet.payload, cut.size.get()).unwrap();
    let pieces = pieces(packet.payload, offload);
    Some(pieces.iter().map(|piece| [headers, piece].concat()).collect())
}

/// What a frame is cut into.
fn pieces(bytes: &[u8], offload: Offload) -> Vec<Vec<u8>> {
    let pieces = wire::segments(bytes, offload).unwrap();
    let write = |piece: wire::Piece<'_>| {
        let mut bytes = vec![0; piece.len()];
        piece.write(&mut bytes).unwrap();
        bytes
    };
    pieces.map(write).collect()
}
