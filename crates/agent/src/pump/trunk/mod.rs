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
//! from there. A large segment goes whole where a card can cut it, or in parts that fill datagrams, each with its own place in the stream,
//! and is put together by the far end: what it stands for is cut by whoever needs that. It is underway with the first part, and completed with the last.

mod cut;
mod frames;
mod liveness;
mod out;
mod outlook;
mod receive;
mod report;
mod segments;
mod send;
mod stt;
#[cfg(test)]
pub(super) mod tests;
mod ways;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

use datapath::Network;
use lossless::{Flow, PortId, Refusal};
use model::CONTROL;
use port::{FrameView, Left, Port, PortError, Slot, Taken};
use tunnel::outer::Encapsulation;
use tunnel::{Incarnation, Session, SessionConfig, Stream};
use underlay::Underlay;
use units::{Class, ClassMap, Dscp, Instant, Mac, Span};
use wire::geneve::Draft;

pub use self::frames::Come;
use self::frames::{Counts, Frames, Kept};
pub use self::liveness::Liveness;
pub use self::out::OPTIONS_LEN;
use self::out::{DATA_LEN, Out};
pub use self::report::REASONS;
use self::segments::Segments;
pub use self::stt::STT_MTU;
use self::ways::Ways;
pub use self::ways::{Way, pair};

/// How many frames from one host may wait here: 32 MiB of memory for small ones, 64 for middle-sized ones, 66 for the longest.
const FRAMES: Counts = [16 << 10, 4 << 10, 1 << 10];

/// The label of what is for all of a network's machines at a host is this and the network's number.
const FLOOD: u32 = 1 << 31;

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
    pub session: Option<SessionConfig>,
    /// This life of ours.
    pub life: Incarnation,
    /// The longest payload of a datagram that the underlay carries, in bytes.
    pub most: usize,
    /// The code point of each class outside, unless it is that of the packet in a frame.
    pub dscp: Option<ClassMap<Dscp>>,
    /// The link may have a class be silent. So cards cut no large segments, as what they are handed for that has not its class for the
    /// kernel; and reports do not ride, as they would wait with frames that they do not tell of.
    pub obeys_pauses: bool,
}

impl TrunkConfig {
    /// Whether what is lost of this class is sent again.
    fn is_reliable(&self, class: Class) -> bool {
        self.session.is_some_and(|session| session.reliable.contains(class))
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
    /// The switch ends: the far host has been told how far streams were taken.
    has_left: bool,
    refused: Refused,
    /// Of the streams that wait for memory, the one that was looked at last.
    looked_at: Option<Stream>,
    /// That of the best way.
    liveness: Liveness,
    /// Frames of which segments have come.
    segments: Segments,
    /// A report has waited for a frame that it may ride with.
    news_waits: bool,
}

/// What came and was not taken.
#[derive(Clone, Copy, Debug, Default)]
struct Refused {
    /// Packets that contradict themselves.
    malformed: u64,
    /// Frames of networks that are not here.
    unknown_network: u64,
    /// Frames of no session for which there was no memory.
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
        Self {
            config,
            underlay,
            ways,
            way,
            networks: Rc::default(),
            labels: HashMap::new(),
            joined: BTreeSet::new(),
            session,
            frames: Frames::new(FRAMES),
            ready: VecDeque::new(),
            completed: VecDeque::new(),
            spoilt: HashMap::new(),
            begun: BTreeMap::new(),
            is_abandoned: false,
            scratch: Vec::new(),
            paused: 0,
            has_left: false,
            refused: Refused::default(),
            looked_at: None,
            liveness: Liveness::default(),
            segments: Segments::default(),
            news_waits: false,
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
    pub fn life(&self) -> Incarnation {
        self.session.as_ref().map_or(self.config.life, Session::incarnation)
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

    /// Gives up what is underway, if nothing was heard of the far host for so long although it owes an answer, and remembers that.
    /// Whether that is [so](Self::is_abandoned).
    pub fn abandon_after(&mut self, now: Instant, patience: Span) -> bool {
        let Some(session) = &mut self.session else { return false };
        let is_silent = session.unanswered_since().is_some_and(|since| since + patience <= now);
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

    /// A sender has gone: what it had underway is not to be sent again. What was [completed](Self::completed) is told of before, as flows
    /// are counted by their frames.
    pub fn forget(&mut self, port: PortId) {
        debug_assert!(
            self.completed.is_empty(),
            "{} frames were completed and not told of",
            self.completed.len()
        );
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

    /// Says what there is to be said, as far as the kernel has room. If receivers here have just been `handed` frames, a report waits once:
    /// what they answer may take it along. Whether one waits.
    pub fn speak(&mut self, now: Instant, handed: bool) -> bool {
        let Self { config, underlay, session: Some(session), news_waits, .. } = self else { return false };
        let mut underlay = underlay.borrow_mut();
        let marking = config.marking(CONTROL, 0);
        *news_waits = handed && !*news_waits && !config.obeys_pauses && session.may_piggyback();
        let poll = if *news_waits { Session::poll_urgent } else { Session::poll_transmit };
        while underlay.has_room(way_to(config.far))
            && let Some(message) = poll(session, now)
        {
            let mut draft = Draft::new(0).expect("the number has 24 bits").for_control(0);
            let is_whole = message.write(&mut draft);
            debug_assert!(is_whole, "a message has room in a packet of its own");
            Out { config, underlay: &mut underlay, vni: 0, marking }.put_draft(&draft, 0, |_| {});
        }
        *news_waits
    }

    /// How many frames the switch has, as a wire has them, that the far host keeps until it knows that they were taken: so they are not
    /// lost when this switch ends.
    pub fn repaired(&self) -> u64 {
        let session = self.session.as_ref();
        session.map_or(0, |session| self.frames.lifted_of(session.reliable()))
    }

    /// Before the switch ends: the far host hears how far each stream was taken. The rest it will send to the next switch, also what was
    /// taken behind a frame that waits for one of several receivers. Whether all is said; if not, there is more to say once the
    /// underlay has room.
    pub fn leave(&mut self, now: Instant) -> bool {
        if let Some(session) = &mut self.session {
            session.hurry();
        }
        self.speak(now, false);
        self.has_left = true;
        self.has_room()
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
        let Self { frames, session, has_left, looked_at, .. } = self;
        let mut session = session.as_mut().filter(|_| !*has_left);
        frames.release(slot, |(stream, from, offset)| {
            session.iter_mut().for_each(|session| session.consumed(stream, from, offset));
        });
        if let Some(session) = session {
            *looked_at = session.next_nacking(*looked_at);
            looked_at.iter().for_each(|stream| receive::invite(frames, session, *stream));
        }
    }

    fn transmit(&mut self, _: &FrameView<'_>) -> Result<Taken, PortError> {
        Ok(Taken::Unfit)
    }

    fn flush(&mut self) -> Result<bool, PortError> {
        Ok(true)
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
