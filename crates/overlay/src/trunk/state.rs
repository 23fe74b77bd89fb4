//! The state of a trunk.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

use datapath::Origin;
use lossless::{Flow, PortId, Refusal};
use port::Slot;
use seal::Channel;
use tunnel::{Lane, Session, Stream};
use underlay::Underlay;
use units::{Instant, Rng, Span};

use super::assembly::{Assembly, Kept};
use super::config::TrunkConfig;
use super::liveness::Liveness;
use super::paths::{Path, Paths};
use super::segments::Segments;
use super::waiting::Waiting;
use crate::ledger::Ledger;
use crate::slots::Owner;

/// Part of a frame in flight, or all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) flow: Flow,
    /// The slot of its frame. `None` if its sender was gone.
    pub(super) from: Option<(PortId, Slot)>,
    /// Its offset in the frame. `None` if it only takes a position in the stream and has no bytes.
    pub(super) begin: Option<u32>,
    pub(super) is_last: bool,
}

/// A large segment that was sent in part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// Its slot. `None` if its sender is gone.
    pub(super) from: Option<(PortId, Slot)>,
    /// How many of its bytes were sent.
    pub(super) sent: usize,
    /// What the next part waits for.
    pub(super) waits: Halt,
    /// Whose window it is in.
    pub(super) lane: Lane,
}

/// Why a frame, or the rest of one, is not sent now, and what ends that:
///
/// | reason | its flow is in | until |
/// |---|---|---|
/// | credit | [`held`](Trunk::held) | a grant for the stream, a HELLO, a new epoch, or the end of the large segment before it |
/// | window, or a path that is down | [`waiting`](Trunk::waiting) | anything that may open the window: a report, a HELLO, a timeout, a path ([`has_changed`](Trunk::has_changed)) |
/// | the link's rate | `waiting` | the link has sent what it was given ([`waits_for_link`](Trunk::waits_for_link)) |
/// | kernel | `waiting` | there is room after a flush ([`is_tx_blocked`](Trunk::is_tx_blocked)) |
/// | paused | `waiting` | the class goes on |
///
/// All end when what is in flight is given up: then the flows are refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Halt {
    /// Its stream has no credit.
    Credit,
    /// Its lane has no window, the session no peer, or no path works.
    Window,
    /// The link pauses its class.
    Paused,
    /// The link has to send what it was given first.
    Link,
    /// The kernel has no room.
    Kernel,
    /// It cannot be sent at all.
    Unfit,
}

/// A far host.
pub struct Trunk {
    pub(super) config: TrunkConfig,
    /// Sends the session's datagrams.
    pub(super) underlay: Rc<RefCell<Underlay>>,
    pub(super) paths: Paths,
    /// The place of the path that the session uses.
    pub(super) path: usize,
    pub(super) session: Option<Session<Piece, Kept>>,
    /// What all packets go through, if hosts have a key in common.
    pub(super) channel: Option<Channel>,
    pub(super) assembly: Assembly,
    /// Arrived frames that the plane has not polled, in order.
    pub(super) ready: VecDeque<Slot>,
    /// What became of frames that the plane has polled.
    pub(super) ledger: Ledger,
    /// Frames in flight of which a part is lost and cannot be retransmitted.
    pub(super) spoiled: HashMap<(PortId, Slot), Refusal>,
    /// Where frames in flight came from that are of logical networks.
    pub(super) carried: HashMap<(u64, PortId, Slot), Origin>,
    /// Flows of which frames have come back because their port has moved, and none was sent since.
    pub(super) anew: BTreeSet<Flow>,
    /// Large segments that were sent in part. The rest goes before other frames of their flows.
    pub(super) begun: BTreeMap<Flow, Begun>,
    /// The far host is silent, and what was in flight to it is given up.
    pub(super) is_given_up: bool,
    /// Flows that are blocked until their streams have more credit.
    pub(super) held: BTreeSet<Flow>,
    /// Flows that are blocked until the session, its path or the kernel takes more.
    pub(super) waiting: Waiting,
    /// Since when flows have waited and nothing was sent.
    pub(super) stuck_since: Option<Instant>,
    /// Something has happened by which flows that wait may be able to go on, and they do not know
    /// it yet.
    pub(super) has_changed: bool,
    /// A frame found no room in the kernel.
    pub(super) is_tx_blocked: bool,
    /// A frame found the link busy.
    pub(super) waits_for_link: bool,
    /// So did the rest of one, or what is to be sent again.
    pub(super) rest_waits_for_link: bool,
    /// The bit mask of paused classes.
    pub(super) paused: u8,
    /// The switch ends, and the far host was told how far streams were consumed.
    pub(super) has_left: bool,
    pub(super) refused: Refused,
    /// Of the streams that wait for memory, the one that was checked last.
    pub(super) looked_at: Option<Stream>,
    /// The state of the best path.
    pub(super) liveness: Liveness,
    /// Frames of which some segments have arrived.
    pub(super) segments: Segments,
    /// A report has waited a turn for a frame that may carry it.
    pub(super) report_waits: bool,
    /// How many streams that contradicted themselves were logged.
    pub(super) contradictions: u64,
}

/// How much was refused on arrival.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refused {
    /// Malformed packets.
    pub(super) malformed: u64,
    /// Frames of networks that this host has not.
    pub(super) unknown_network: u64,
    /// Frames without a session that found no memory.
    pub(super) no_memory: u64,
    /// Frames that lacked segments for too long.
    pub(super) unfinished: u64,
}

/// Where a frame in flight came from, if it is a logical network's.
pub(super) fn origin_in(
    carried: &HashMap<(u64, PortId, Slot), Origin>,
    flow: Flow,
    from: Option<(PortId, Slot)>,
) -> Option<Origin> {
    if carried.is_empty() {
        return None;
    }
    let (port, slot) = from?;
    carried.get(&(flow.0, port, slot)).copied()
}

impl Trunk {
    /// A trunk to the far host at the end of these paths. There is at least one.
    pub fn new(
        now: Instant,
        owner: Owner,
        mut config: TrunkConfig,
        channel: Option<Channel>,
        paths: Vec<Path>,
    ) -> Self {
        let paths = Paths::new(paths);
        let path = paths.of(config.pair);
        let Path { underlay, far } = paths.get(path).clone();
        config.far = far;
        let session =
            config.session.map(|session| Session::new(now, session, Rng::new(config.seed)));
        Self {
            config,
            underlay,
            paths,
            path,
            session,
            channel,
            assembly: Assembly::new(owner),
            ready: VecDeque::new(),
            ledger: Ledger::default(),
            spoiled: HashMap::new(),
            carried: HashMap::new(),
            anew: BTreeSet::new(),
            begun: BTreeMap::new(),
            is_given_up: false,
            held: BTreeSet::new(),
            waiting: Waiting::default(),
            stuck_since: None,
            has_changed: false,
            is_tx_blocked: false,
            waits_for_link: false,
            rest_waits_for_link: false,
            paused: 0,
            has_left: false,
            refused: Refused::default(),
            looked_at: None,
            liveness: Liveness::default(),
            segments: Segments::default(),
            report_waits: false,
            contradictions: 0,
        }
    }

    /// The far host, by the first of its tunnel addresses.
    pub fn host(&self) -> IpAddr {
        self.config.host
    }

    /// Its number, and which host it is of all that ever were.
    pub fn owner(&self) -> Owner {
        self.assembly.owner()
    }

    /// The longest packet that a datagram to it carries, in bytes.
    pub fn most(&self) -> usize {
        self.config.most
    }

    /// Whether a frame has arrived that was not polled.
    pub fn has_arrivals(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether nothing is sent to it because it does not answer, or because nothing could be sent
    /// for so long.
    pub fn is_stalled(&self, now: Instant, patience: Span) -> bool {
        let may_any_send = || self.works() && self.waiting.is_any(|lane| self.has_window(lane));
        self.is_given_up || self.is_stuck(now, patience) && !may_any_send()
    }

    /// The same, for what a lane sends.
    pub(super) fn is_stalled_for(&self, now: Instant, patience: Span, lane: Lane) -> bool {
        let may_send = || self.works() && self.has_window(lane);
        self.is_given_up || self.is_stuck(now, patience) && !may_send()
    }

    fn is_stuck(&self, now: Instant, patience: Span) -> bool {
        self.stuck_since.is_some_and(|since| since + patience <= now)
    }

    /// How many frames, as counted on a wire, the switch holds that the far host keeps until they
    /// are acknowledged. They are not lost when this switch ends.
    pub fn repaired(&self) -> u64 {
        let session = self.session.as_ref();
        session.map_or(0, |session| self.assembly.polled_of(session.reliable()))
    }
}
