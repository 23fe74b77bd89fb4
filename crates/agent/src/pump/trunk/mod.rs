//! A trunk: the port of a switch that leads to another host.
//!
//! ```text
//!                  ┌ Trunk ───────────────────────────────────────────────────┐
//!   switch ──▶ send│ cut to the MTU ─▶ session: credit, window ─▶ header ─────┼─▶ Underlay ══▶
//!          ◀── lift│ in order ◀─────── session ◀─ slot ◀────────── header ◀───┼── datagram ◀══
//!                  └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Where there is a session, a frame that was sent stays in its sender's slot until the far receiver has taken it, and is sent again
//! from there. A large segment goes in parts that fill datagrams, each with its own place in the stream, and is put together by the far
//! end: what it stands for is cut by whoever needs that. It is underway with the first part, and completed with the last.

mod frames;
mod liveness;
mod out;
mod outlook;
mod report;
mod stt;
mod ways;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::rc::Rc;

use lossless::{Flow, Network, PortId, Refusal};
use model::CONTROL;
use ports::underlay::Underlay;
use ports::{FrameView, Left, Port, PortError, Slot, Taken};
use tunnel::message::{Message, OPTION_CLASS};
use tunnel::outer::{Encapsulation, Received};
use tunnel::{Admission, Arrival, Config, Data, Era, LONGEST, Life, Part, Session, Stream};
use units::{Class, ClassMap, Dscp, Instant, Mac, Span};
use wire::Layout;
use wire::ecn::Ecn;
use wire::geneve::Draft;

pub use self::frames::Come;
use self::frames::{Frames, Kept};
pub use self::liveness::Liveness;
pub use self::out::OPTIONS_LEN;
use self::out::{DATA_LEN, Going, Out};
pub use self::report::REASONS;
pub use self::stt::STT_MTU;
use self::ways::Ways;
pub use self::ways::{Way, pair};

/// How many frames from one host may wait here: 32 MiB of memory for small ones, 64 for others.
const FRAMES: [u32; 2] = [16 << 10, 1 << 10];

/// The label of what is for all of a network's machines at a host is this and the network's number.
const FLOOD: u32 = 1 << 31;

/// The least of a part that others follow, in bytes: packets of 576 bytes, which all carry, have room for it.
const LEAST_PART: usize = 256;

/// How a trunk is.
#[derive(Clone, Debug)]
pub struct TrunkConfig {
    /// The far host, by the first of its tunnel addresses.
    pub host: IpAddr,
    /// Its address at the end of the way that the session goes by.
    pub far: IpAddr,
    /// What chooses that way: [`pair`].
    pub pair: u32,
    /// How frames are carried.
    pub encapsulation: Encapsulation,
    /// How the session is; none: frames are sent, and nothing more is heard of them.
    pub session: Option<Config>,
    /// This life of ours.
    pub life: Life,
    /// The longest payload of a datagram that the underlay carries, in bytes.
    pub most: usize,
    /// The code point of each class outside, unless it is that of the packet in a frame.
    pub dscp: Option<ClassMap<Dscp>>,
}

impl TrunkConfig {
    /// Whether what is lost of this class is sent again.
    fn repairs(&self, class: Class) -> bool {
        self.session.is_some_and(|session| session.repairs.contains(class))
    }
}

/// Which networks there are here, by the numbers that tunnels give them.
#[derive(Debug, Default)]
pub struct Networks {
    /// By the number in tunnels.
    pub by_vni: HashMap<u32, Network>,
    /// The number in tunnels.
    pub vnis: HashMap<Network, u32>,
}

/// A frame that is to leave.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// Where it came from.
    pub port: PortId,
    /// Where it lies there.
    pub slot: Slot,
    /// Whose it is.
    pub network: Network,
    /// Its class.
    pub class: Class,
    /// The frame.
    pub view: FrameView<'a>,
}

/// What became of a frame that was to leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sent {
    /// Nothing more will be heard of it.
    Gone,
    /// It is underway, with others of its flow.
    Underway,
    /// Its flow has to wait; others may pass.
    Hold,
    /// All have to wait.
    Wait,
    /// The kernel has no room; it tells nobody when it has.
    Busy,
    /// It cannot be sent: it is too long for the underlay, or nobody is there whom it could be for.
    Unfit,
}

/// Part of a frame that is underway, or all of it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    flow: Flow,
    /// Where its frame lies; none if its sender was gone.
    from: Option<(PortId, Slot)>,
    /// Where in the frame it begins; none if it is a place without bytes.
    begin: Option<u32>,
    is_last: bool,
}

/// A large segment of which some was sent.
#[derive(Clone, Copy, Debug)]
struct Begun {
    /// Where it lies; none if its sender is gone.
    from: Option<(PortId, Slot)>,
    /// How much of it was sent, in bytes.
    sent: usize,
    /// What the next of them waits for.
    waits: Sent,
}

/// A port that leads to another host.
pub struct Trunk {
    config: TrunkConfig,
    /// What the session is sent by.
    underlay: Rc<RefCell<Underlay>>,
    ways: Ways,
    /// Which of them the session goes by.
    way: usize,
    networks: Rc<Networks>,
    /// The far ports' labels.
    labels: HashMap<(Network, Mac), u32>,
    /// The networks of the far host's machines.
    joined: BTreeSet<Network>,
    session: Option<Session<Piece, Kept>>,
    frames: Frames,
    /// What has come and was not lifted, in order.
    ready: VecDeque<Slot>,
    /// The flows of frames that are underway no more, in order: why, unless the far receivers have taken them.
    completed: VecDeque<(Flow, Option<Refusal>)>,
    /// Frames underway of which some is lost and cannot be sent again.
    spoilt: HashMap<(PortId, Slot), Refusal>,
    /// Large segments of which some were sent: the rest is to follow before anything else of their flows.
    begun: BTreeMap<Flow, Begun>,
    /// The far host is not heard, and what was underway there is given up.
    is_abandoned: bool,
    /// Where frames are put together that do not lie in one piece.
    scratch: Vec<u8>,
    /// The classes of which nothing is sent, a bit each.
    paused: u8,
    /// The switch ends: the far host has been told of all that was taken.
    has_left: bool,
    refused: Refused,
    /// That of the best way.
    liveness: Liveness,
    /// Frames of which segments have come.
    segments: stt::Segments,
}

/// What came and was not taken.
#[derive(Clone, Copy, Debug, Default)]
struct Refused {
    /// Packets that contradict themselves.
    malformed: u64,
    /// Frames of networks that are not here.
    unknown_network: u64,
    /// Frames for which there was no memory: with a session they come again.
    no_memory: u64,
    /// Frames of which segments have not come.
    unfinished: u64,
}

impl Trunk {
    /// A trunk that knows of no network, and leads to the far host by these ways, of which there is one at least.
    pub fn new(now: Instant, mut config: TrunkConfig, ways: Vec<Way>) -> Self {
        let ways = Ways::new(ways);
        let way = ways.of(config.pair);
        let Way { underlay, far } = ways.get(way).clone();
        config.far = far;
        let session = config.session.map(|session| Session::new(now, session, config.life));
        let [small, large] = FRAMES;
        Self {
            config,
            underlay,
            ways,
            way,
            networks: Rc::default(),
            labels: HashMap::new(),
            joined: BTreeSet::new(),
            session,
            frames: Frames::new(small, large),
            ready: VecDeque::new(),
            completed: VecDeque::new(),
            spoilt: HashMap::new(),
            begun: BTreeMap::new(),
            is_abandoned: false,
            scratch: Vec::new(),
            paused: 0,
            has_left: false,
            refused: Refused::default(),
            liveness: Liveness::default(),
            segments: stt::Segments::default(),
        }
    }

    /// From now on these are the networks, and the labels of the far host's machines.
    pub fn know(&mut self, networks: Rc<Networks>, labels: HashMap<(Network, Mac), u32>) {
        self.networks = networks;
        self.joined = labels.keys().map(|(network, _)| *network).collect();
        self.labels = labels;
    }

    /// The far host, by the first of its tunnel addresses.
    pub fn host(&self) -> IpAddr {
        self.config.host
    }

    /// This life of ours.
    pub fn life(&self) -> Life {
        self.session.as_ref().map_or(self.config.life, Session::life)
    }

    /// Of these classes, a bit each, nothing is sent until this is called again.
    pub fn pause(&mut self, classes: u8) {
        self.paused = classes;
    }

    /// Whether nothing of a flow's class is sent.
    pub fn is_paused(&self, flow: Flow) -> bool {
        self.paused & 1 << stream_of(flow).class.pcp() != 0
    }

    /// Whether memory for frames from the far host runs low.
    pub fn is_short(&self) -> bool {
        self.frames.is_short()
    }

    /// The networks of the far host's machines.
    pub fn networks(&self) -> impl Iterator<Item = Network> {
        self.joined.iter().copied()
    }

    /// What a frame shares its fate with: others for the same far egress in the same class. `None` if there is no session;
    /// [`Sent::Unfit`] if nobody is there whom it could be for.
    pub fn flow(&self, leaving: &Leaving<'_>) -> Result<Option<Flow>, Sent> {
        if self.session.is_none() {
            return Ok(None);
        }
        let destination = wire::ethernet::peek(leaving.view.bytes).ok_or(Sent::Unfit)?.destination();
        let label = if destination.is_multicast() {
            FLOOD | self.networks.vnis.get(&leaving.network).ok_or(Sent::Unfit)?
        } else {
            *self.labels.get(&(leaving.network, destination)).ok_or(Sent::Unfit)?
        };
        Ok(Some(flow_of(Stream { label, class: leaving.class })))
    }

    /// Sends a frame of this flow, or as much of it as may go now: then it is underway, and [`Self::go_on`] sends the rest.
    pub fn send(&mut self, now: Instant, flow: Option<Flow>, leaving: &Leaving<'_>) -> Sent {
        if self.liveness == Liveness::Down {
            return Sent::Wait;
        }
        let Some(flow) = flow.filter(|_| self.session.is_some()) else { return self.send_plain(leaving) };
        // Whoever waits for the fabric has its turn first.
        let going = self.begun.iter().filter(|(flow, _)| !self.is_paused(**flow));
        let mut waiting = going.map(|(_, begun)| begun.waits);
        if let Some(waits) = waiting.find(|waits| matches!(waits, Sent::Wait | Sent::Busy)) {
            return waits;
        }
        if self.begun.contains_key(&flow) {
            return Sent::Hold;
        }
        let Leaving { port, slot, .. } = *leaving;
        match self.send_from(now, flow, leaving, 0) {
            Ok(()) if self.config.repairs(stream_of(flow).class) => Sent::Underway,
            Ok(()) => Sent::Gone,
            Err((0, waits)) => waits,
            Err((sent, waits)) => {
                self.begun.insert(flow, Begun { from: Some((port, slot)), sent, waits });
                Sent::Underway
            }
        }
    }

    /// Sends a frame of no session.
    fn send_plain(&mut self, leaving: &Leaving<'_>) -> Sent {
        let Self { config, ways, networks, scratch, .. } = self;
        let Some(&vni) = networks.vnis.get(&leaving.network) else { return Sent::Unfit };
        let bytes = whole(&leaving.view, scratch);
        let (stt, left) = stt::begin(config, vni, bytes, leaving.view.offload());
        let Ok(pieces) = wire::segments(bytes, left) else { return Sent::Unfit };
        let flow = wire::flow::hash(bytes, bytes.len());
        let Way { underlay, far } = ways.get(ways.of(flow));
        let mut underlay = underlay.borrow_mut();
        let marking = config.marking(leaving.class, traffic_class(bytes));
        let mut out = Out { config, underlay: &mut underlay, vni, marking };
        if !out.underlay.has_room(flow) {
            return Sent::Busy;
        }
        for piece in pieces {
            if !out.put_plain(*far, flow, &piece, &stt) {
                return Sent::Unfit;
            }
        }
        Sent::Gone
    }

    /// Sends a frame of a session from the part on that begins at `first`. If not all of it goes now: where the next part begins, and
    /// what it waits for.
    fn send_from(
        &mut self,
        now: Instant,
        flow: Flow,
        leaving: &Leaving<'_>,
        first: usize,
    ) -> Result<(), (usize, Sent)> {
        let Self { config, underlay, networks, session: Some(session), scratch, .. } = self else {
            return Err((first, Sent::Unfit));
        };
        let Leaving { port, slot, network, view, .. } = *leaving;
        let bytes = whole(&view, scratch);
        let (vni, going) = (networks.vnis.get(&network), Going::new(bytes, view.offload(), config.most));
        let (Some(&vni), Some(going)) = (vni, going) else { return Err((first, Sent::Unfit)) };
        let mut underlay = underlay.borrow_mut();
        let stream = stream_of(flow);
        let marking = config.marking(stream.class, traffic_class(bytes));
        let mut out = Out { config, underlay: &mut underlay, vni, marking };
        let mut begin = first;
        while let Some((len, is_last)) = going.part(begin) {
            may_send(session, out.underlay, config.far, stream, len, begin > 0)
                .map_err(|waits| (begin, waits))?;
            let handle = Piece { flow, from: Some((port, slot)), begin: Some(begin as u32), is_last };
            let data = session.send(now, stream, len, handle);
            out.put(&data, Some((&going, begin)));
            begin += usize::from(len.get());
        }
        if first < begin { Ok(()) } else { Err((first, Sent::Unfit)) }
    }

    /// Goes on with large segments of which some was sent, as far as they may go now. `frame_of` tells of a frame that is underway,
    /// by its port and slot. Whether anything was sent.
    pub fn go_on<'f>(
        &mut self,
        now: Instant,
        network_of: impl Fn(PortId) -> Network,
        frame_of: impl Fn(PortId, Slot) -> FrameView<'f>,
    ) -> bool {
        let mut moved = false;
        if self.liveness == Liveness::Down {
            return false;
        }
        let flows: Vec<_> = self.begun.keys().copied().filter(|flow| !self.is_paused(*flow)).collect();
        for flow in flows {
            let Begun { from, sent, .. } = self.begun[&flow];
            let outcome = match from {
                None => Err((sent, Sent::Unfit)),
                Some((port, slot)) => {
                    let (view, class) = (frame_of(port, slot), stream_of(flow).class);
                    let leaving = Leaving { port, slot, network: network_of(port), class, view };
                    self.send_from(now, flow, &leaving, sent)
                }
            };
            let outcome = match outcome {
                // A guest has taken away the memory of the rest, or its network is gone, or it is itself.
                Err((sent, Sent::Unfit)) => {
                    if let Some(from) = from {
                        self.spoilt.insert(from, why_unfit(&frame_of(from.0, from.1)));
                    }
                    self.end(now, flow, from).map_err(|waits| (sent, waits))
                }
                outcome => outcome,
            };
            match outcome {
                Ok(()) => {
                    moved = true;
                    self.begun.remove(&flow);
                    if let Some(from) = from
                        && !self.config.repairs(stream_of(flow).class)
                    {
                        self.completed.push_back((flow, self.spoilt.remove(&from)));
                    }
                }
                Err((now_sent, waits)) => {
                    moved |= now_sent > sent;
                    self.begun.insert(flow, Begun { from, sent: now_sent, waits });
                }
            }
        }
        moved
    }

    /// Ends a large segment early: a place without a frame is its last. Its sender, if it is there still, has it back then.
    fn end(&mut self, now: Instant, flow: Flow, from: Option<(PortId, Slot)>) -> Result<(), Sent> {
        let Self { config, underlay, session: Some(session), .. } = self else { return Ok(()) };
        let stream = stream_of(flow);
        let mut underlay = underlay.borrow_mut();
        may_send(session, &underlay, config.far, stream, NonZeroU16::MIN, true)?;
        let handle = Piece { flow, from, begin: None, is_last: from.is_some() };
        let data = session.send(now, stream, NonZeroU16::MIN, handle);
        let marking = config.marking(stream.class, 0);
        Out { config, underlay: &mut underlay, vni: 0, marking }.put(&data, None);
        Ok(())
    }

    /// Gives up what is underway, if nothing was heard of the far host for so long although it owes an answer, and remembers that.
    /// Whether that is [so](Self::is_abandoned).
    pub fn abandon_after(&mut self, now: Instant, patience: Span) -> bool {
        let Some(session) = &mut self.session else { return false };
        let is_silent = session.silent_since().is_some_and(|since| since + patience <= now);
        if is_silent && !self.is_abandoned {
            session.abandon(None, |_| {});
            self.begun.values_mut().for_each(|begun| begun.from = None);
            self.spoilt.clear();
        }
        self.is_abandoned = is_silent;
        is_silent
    }

    /// Whether the far host is not heard, and what was underway there is given up.
    pub fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    /// Whether the kernel has room for what is to be said.
    pub fn has_room(&self) -> bool {
        self.underlay.borrow().has_room(way_to(self.config.far))
    }

    /// Sends again what was lost, as far as it may go now. `frame_of` tells of a frame that is underway, by its port and slot.
    /// Whether anything was sent.
    pub fn repair<'f>(
        &mut self,
        now: Instant,
        network_of: impl Fn(PortId) -> Network,
        frame_of: impl Fn(PortId, Slot) -> FrameView<'f>,
    ) -> bool {
        let Self { config, underlay, networks, session: Some(session), scratch, spoilt, .. } = self else {
            return false;
        };
        // What is lost in one class waits for all of them: links that pause lose little.
        if self.paused != 0 || self.liveness == Liveness::Down {
            return false;
        }
        let mut underlay = underlay.borrow_mut();
        let mut moved = false;
        while underlay.has_room(way_to(config.far))
            && let Some((handle, data)) = session.resend(now)
        {
            moved = true;
            let marking = config.marking(data.stream.class, 0);
            let mut out = Out { config, underlay: &mut underlay, vni: 0, marking };
            let Some(Piece { from: Some((port, slot)), begin: Some(begin), .. }) = handle else {
                out.put(&data, None);
                continue;
            };
            let view = frame_of(port, slot);
            let bytes = whole(&view, scratch);
            out.vni = networks.vnis.get(&network_of(port)).copied().unwrap_or(0);
            out.marking = config.marking(data.stream.class, traffic_class(bytes));
            let going = Going::new(bytes, view.offload(), config.most);
            let going = going.filter(|going| going.has(begin as usize, data.len));
            // A guest that takes away the memory of what it sent leaves a place, and so does a part for which datagrams have
            // become too short.
            if going.is_none() {
                spoilt.insert((port, slot), why_unfit(&view));
            }
            out.put(&data, going.as_ref().map(|going| (going, begin as usize)));
        }
        moved
    }

    /// A sender has gone: what it had underway is not to be sent again.
    pub fn forget(&mut self, port: PortId) {
        let is_gone = |from: Option<(PortId, Slot)>| from.is_some_and(|(it, _)| it == port);
        self.begun.values_mut().filter(|begun| is_gone(begun.from)).for_each(|begun| begun.from = None);
        self.spoilt.retain(|(it, _), _| *it != port);
        if let Some(session) = &mut self.session {
            session.withdraw(|piece| is_gone(piece.from));
        }
    }

    /// The flow of the next frame that is underway no more: its far receiver has taken it, or this is why not.
    pub fn completed(&mut self) -> Option<(Flow, Option<Refusal>)> {
        self.completed.pop_front()
    }

    /// A datagram has come from the far host. Whether something else is known of ways because of that: [`Self::settle`].
    pub fn handle(&mut self, now: Instant, received: &Received<'_>, payload: &[u8]) -> bool {
        let message = match received.encapsulation {
            Encapsulation::Geneve => Message::parse(received.options),
            _ => None,
        };
        let Self { session, frames, completed, spoilt, ways, .. } = self;
        match (message, session) {
            (Some(Message::Hello(hello)), Some(session)) => {
                let (resets, era) = (session.counters().resets, session.era());
                session.handle_hello(now, &hello, |kept| frames.forget(kept));
                end_era(frames, session, era);
                if session.counters().resets > resets {
                    ways.begin_anew();
                    return true;
                }
            }
            (Some(Message::Report(report)), Some(session)) => {
                session.handle_report(now, &report, |Piece { flow, from, is_last, .. }| {
                    if is_last {
                        completed.push_back((flow, from.and_then(|from| spoilt.remove(&from))));
                    }
                });
            }
            (Some(Message::Data(data)), Some(_)) => self.handle_data(now, received, &data, payload),
            (None, _) if !received.is_control && !received.is_part && !is_of_session(received) => {
                if let Ok(slot) = self.keep(received, payload) {
                    self.ready.push_back(slot);
                }
            }
            // A far end that speaks of sessions where none was declared.
            _ => self.refused.malformed += 1,
        }
        false
    }

    fn handle_data(&mut self, now: Instant, received: &Received<'_>, data: &Data, payload: &[u8]) {
        let frame = match received.is_control {
            true => None,
            false if !is_as_said(received, data) => {
                self.refused.malformed += 1;
                return;
            }
            false => match self.keep_data(received, payload, data) {
                Ok(kept) => Some(kept),
                // It is refused, and its place taken: it would come again and again otherwise.
                Err(NoPlace::Network) => None,
                Err(NoPlace::Memory) => return,
            },
        };
        let Self { session: Some(session), frames, ready, .. } = self else { return };
        let is_marked = Ecn::of(received.traffic_class) == Ecn::Ce;
        session.handle_data(now, data, is_marked, frame, |arrival| settle(frames, ready, arrival));
        bury(frames, session);
    }

    /// Puts a frame that has come into memory.
    fn keep(&mut self, received: &Received<'_>, payload: &[u8]) -> Result<Slot, NoPlace> {
        let network = self.network(received)?;
        let (frame, class) = (&payload[received.frame.clone()], received.tag.map(|tag| tag.class));
        let kept = self.frames.keep(frame, network, class, received.offload);
        let slot = kept.ok_or_else(|| self.refused.no_memory())?;
        self.remark(received, slot);
        Ok(slot)
    }

    /// Puts what a session has brought into memory.
    fn keep_data(&mut self, received: &Received<'_>, payload: &[u8], data: &Data) -> Result<Kept, NoPlace> {
        let network = self.network(received)?;
        let is_marked = Ecn::of(received.traffic_class) == Ecn::Ce;
        let is_next = self.session.as_ref().is_some_and(|session| session.is_next(data));
        let bytes = &payload[received.frame.start..][..data.len.get().into()];
        let kept = self.frames.keep_data(data, is_marked, is_next, bytes, network);
        let kept = kept.ok_or_else(|| self.refused.no_memory())?;
        if let Kept::Alone(slot) = kept {
            self.remark(received, slot);
        }
        Ok(kept)
    }

    /// The network of what has come.
    fn network(&mut self, received: &Received<'_>) -> Result<Network, NoPlace> {
        let network = self.networks.by_vni.get(&received.vni.number()).copied();
        network.ok_or_else(|| {
            self.refused.unknown_network += 1;
            NoPlace::Network
        })
    }

    /// Has a frame's packet say what the fabric has marked.
    fn remark(&mut self, received: &Received<'_>, slot: Slot) {
        let frame = self.frames.bytes_mut(slot);
        if let Some(class) = received.remark
            && let Some(layout) = Layout::of(frame)
        {
            // It was read from this very header.
            let _ = layout.set_traffic_class(frame, class);
        }
    }

    /// Lifts the next frame that has come.
    pub fn lift(&mut self) -> Option<(Slot, Come)> {
        let slot = self.frames.next(&mut self.ready)?;
        Some((slot, *self.frames.get(slot)))
    }

    /// Whether anything that has come was not lifted.
    pub fn is_wet(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Does what time asks for, and says what there is to be said, as far as the kernel has room.
    pub fn speak(&mut self, now: Instant) {
        let Self { config, underlay, session: Some(session), frames, ready, .. } = self else { return };
        let era = session.era();
        session.handle_deadline(now, |arrival| settle(frames, ready, arrival));
        bury(frames, session);
        end_era(frames, session, era);
        let mut underlay = underlay.borrow_mut();
        let marking = config.marking(CONTROL, 0);
        while underlay.has_room(way_to(config.far))
            && let Some(message) = session.poll(now)
        {
            let mut draft = Draft::new(0).expect("the number has 24 bits").for_control(0);
            let is_whole = message.write(&mut draft);
            debug_assert!(is_whole, "a message has room in a packet of its own");
            Out { config, underlay: &mut underlay, vni: 0, marking }.put_draft(&draft, 0, |_| {});
        }
    }

    /// How many frames the switch has, as a wire has them, that the far host keeps until it knows that they were taken: so they are not
    /// lost when this switch ends.
    pub fn repaired(&self) -> u64 {
        let session = self.session.as_ref();
        session.map_or(0, |session| self.frames.lifted_of(session.repaired(), session.era()))
    }

    /// Before the switch ends: the far host hears of all that was taken. The rest it will send to the next switch.
    pub fn leave(&mut self, now: Instant) {
        if let Some(session) = &mut self.session {
            session.hurry();
        }
        self.speak(now);
        self.has_left = true;
    }

    /// When something falls due although nothing is heard.
    pub fn deadline(&self) -> Option<Instant> {
        self.session.as_ref().and_then(Session::deadline)
    }
}

/// A trunk's frames lie in its memory as other ports' do. What comes is lifted ([`Trunk::lift`]) with what is known of it, and what
/// leaves is sent ([`Trunk::send`]): by these two ways here, nothing comes or goes.
impl Port for Trunk {
    fn receive(&mut self, _: usize, _: impl FnMut(Slot, &FrameView<'_>)) -> Result<Left, PortError> {
        Ok(Left::Nothing)
    }

    fn frame(&self, slot: Slot) -> FrameView<'_> {
        self.frames.view(slot)
    }

    fn release(&mut self, slot: Slot) {
        let Self { frames, session, has_left, .. } = self;
        frames.release(slot, |(stream, from, offset)| {
            session.iter_mut().filter(|_| !*has_left).for_each(|session| session.took(stream, from, offset));
        });
    }

    fn transmit(&mut self, _: &FrameView<'_>) -> Result<Taken, PortError> {
        Ok(Taken::Unfit)
    }

    fn flush(&mut self) -> Result<bool, PortError> {
        Ok(true)
    }
}

/// Whether a packet says that it belongs to a session, whatever else it says.
fn is_of_session(received: &Received<'_>) -> bool {
    received.options.clone().any(|option| option.class == OPTION_CLASS)
}

impl Refused {
    /// There is no memory for a frame.
    fn no_memory(&mut self) -> NoPlace {
        self.no_memory += 1;
        NoPlace::Memory
    }
}

/// Whether what has come is what is said of it; there may be more bytes behind it. A part that others follow fills a datagram, so that it
/// is never tiny.
fn is_as_said(received: &Received<'_>, data: &Data) -> bool {
    let len = usize::from(data.len.get());
    len <= received.frame.len()
        && received.is_part == (data.part != Part::WHOLE)
        && (!data.part.more || len >= LEAST_PART)
}

/// Why a frame that has come is not put into memory.
enum NoPlace {
    /// Its network is not here.
    Network,
    /// There is no memory.
    Memory,
}

/// Whether a frame may be sent on a stream; if not, what it waits for.
fn may_send(
    session: &mut Session<Piece, Kept>,
    underlay: &Underlay,
    far: IpAddr,
    stream: Stream,
    len: NonZeroU16,
    continues: bool,
) -> Result<(), Sent> {
    match session.admit_part(stream, len, continues) {
        _ if !underlay.has_room(way_to(far)) => Err(Sent::Busy),
        Admission::Go => Ok(()),
        Admission::NoCredit => Err(Sent::Hold),
        Admission::Alone | Admission::NoWindow => Err(Sent::Wait),
    }
}

/// Does with a frame that has come what the session says.
fn settle(frames: &mut Frames, ready: &mut VecDeque<Slot>, arrival: Arrival<Kept>) {
    match arrival {
        Arrival::Deliver { stream, from, offset, frame } => {
            ready.extend(frames.turn(frame, (stream, from, offset)));
        }
        Arrival::Release(frame) => frames.forget(frame),
        Arrival::Gap { stream } => frames.tear(stream),
    }
}

/// If streams are counted anew since that era, all parts of what was not whole will come again.
fn end_era(frames: &mut Frames, session: &mut Session<Piece, Kept>, era: Era) {
    if session.era() != era {
        frames.tear_all();
        bury(frames, session);
    }
}

/// Nobody will take what was not put together.
fn bury(frames: &mut Frames, session: &mut Session<Piece, Kept>) {
    while let Some((stream, from, offset)) = frames.torn() {
        session.took(stream, from, offset);
    }
}

/// A number for the way to a host.
fn way_to(far: IpAddr) -> u32 {
    match far {
        IpAddr::V4(far) => far.to_bits().wrapping_mul(0x9e37_79b9),
        IpAddr::V6(far) => ((far.to_bits() >> 64) as u32 ^ far.to_bits() as u32).wrapping_mul(0x9e37_79b9),
    }
}

fn flow_of(stream: Stream) -> Flow {
    Flow(u64::from(stream.label) | u64::from(stream.class.pcp()) << 32)
}

fn stream_of(Flow(number): Flow) -> Stream {
    Stream { label: number as u32, class: Class::from_low_bits((number >> 32) as u8) }
}

/// Why a frame cannot be sent any further.
fn why_unfit(view: &FrameView<'_>) -> Refusal {
    if view.bytes.is_empty() { Refusal::WITHDRAWN } else { Refusal::UNFIT }
}

/// All of a frame's bytes: where they are, or in `scratch`.
fn whole<'a>(view: &FrameView<'a>, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if !view.rest.is_empty() {
        scratch.resize(LONGEST as usize, 0);
    }
    view.first(scratch)
}

/// The traffic class of the packet in a frame; 0 if there is none.
fn traffic_class(frame: &[u8]) -> u8 {
    Layout::of(frame).and_then(|layout| layout.traffic_class(frame)).unwrap_or(0)
}
