//! The state of a trunk.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

use datapath::Network;
use lossless::{Flow, PortId, Refusal};
use plane::Sent;
use port::Slot;
use tunnel::{Incarnation, Session, Stream};
use underlay::Underlay;
use units::{Instant, Mac};

use super::config::{Networks, TrunkConfig};
use super::frames::{Counts, Frames, Kept};
use super::liveness::Liveness;
use super::paths::{Path, Paths};
use super::segments::Segments;

/// How many arrived frames of one host are stored at most: 32 MiB of memory for small ones, 64 MiB
/// for middle-sized ones, 66 MiB for the longest.
pub(super) const FRAMES: Counts = [16 << 10, 4 << 10, 1 << 10];

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
    pub(super) waits: Sent,
}

/// A far host.
pub struct Trunk {
    pub(super) config: TrunkConfig,
    /// Sends the session's datagrams.
    pub(super) underlay: Rc<RefCell<Underlay>>,
    pub(super) paths: Paths,
    /// The place of the path that the session uses.
    pub(super) path: usize,
    pub(super) networks: Rc<Networks>,
    /// The far ports' labels.
    pub(super) labels: HashMap<(Network, Mac), u32>,
    /// The networks of the far host's machines.
    pub(super) joined: BTreeSet<Network>,
    pub(super) session: Option<Session<Piece, Kept>>,
    pub(super) frames: Frames,
    /// Arrived frames that the plane has not polled, in order.
    pub(super) ready: VecDeque<Slot>,
    /// The flows of frames that are no longer in flight, in order, with the reason unless the far
    /// receiver has consumed the frame.
    pub(super) completed: VecDeque<(Flow, Option<Refusal>)>,
    /// Frames in flight of which a part is lost and cannot be retransmitted.
    pub(super) spoiled: HashMap<(PortId, Slot), Refusal>,
    /// Large segments that were sent in part. The rest goes before other frames of their flows.
    pub(super) begun: BTreeMap<Flow, Begun>,
    /// The far host is silent, and what was in flight to it is given up.
    pub(super) is_given_up: bool,
    /// Holds a contiguous copy of a frame that does not lie in one piece.
    pub(super) scratch: Vec<u8>,
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

impl Trunk {
    /// A trunk without networks, to the far host at the end of these paths. There is at least one.
    pub fn new(now: Instant, mut config: TrunkConfig, paths: Vec<Path>) -> Self {
        let paths = Paths::new(paths);
        let path = paths.of(config.pair);
        let Path { underlay, far } = paths.get(path).clone();
        config.far = far;
        let session = config.session.map(|session| Session::new(now, session, config.incarnation));
        Self {
            config,
            underlay,
            paths,
            path,
            networks: Rc::default(),
            labels: HashMap::new(),
            joined: BTreeSet::new(),
            session,
            frames: Frames::new(FRAMES),
            ready: VecDeque::new(),
            completed: VecDeque::new(),
            spoiled: HashMap::new(),
            begun: BTreeMap::new(),
            is_given_up: false,
            scratch: Vec::new(),
            paused: 0,
            has_left: false,
            refused: Refused::default(),
            looked_at: None,
            liveness: Liveness::default(),
            segments: Segments::default(),
            report_waits: false,
        }
    }

    /// Sets the networks, and the labels of the far host's members.
    pub fn set_members(&mut self, networks: Rc<Networks>, labels: HashMap<(Network, Mac), u32>) {
        self.networks = networks;
        self.joined = labels.keys().map(|(network, _)| *network).collect();
        self.labels = labels;
    }

    /// The far host, by the first of its tunnel addresses.
    pub fn host(&self) -> IpAddr {
        self.config.host
    }

    /// The incarnation of our end.
    pub fn incarnation(&self) -> Incarnation {
        self.session.as_ref().map_or(self.config.incarnation, Session::incarnation)
    }

    /// The networks of the far host's machines.
    pub fn networks(&self) -> impl Iterator<Item = Network> {
        self.joined.iter().copied()
    }

    /// How many frames, as counted on a wire, the switch holds that the far host keeps until they
    /// are acknowledged. They are not lost when this switch ends.
    pub fn repaired(&self) -> u64 {
        let session = self.session.as_ref();
        session.map_or(0, |session| self.frames.polled_of(session.reliable()))
    }
}
