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

/// How many frames from one host may wait here: 32 MiB of memory for small ones, 64 for middle-sized ones, 66 for the longest.
pub(super) const FRAMES: Counts = [16 << 10, 4 << 10, 1 << 10];

/// Part of a frame that is underway, or all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) flow: Flow,
    /// Where its frame lies; none if its sender was gone.
    pub(super) from: Option<(PortId, Slot)>,
    /// Where in the frame it begins; none if it is a place without bytes.
    pub(super) begin: Option<u32>,
    pub(super) is_last: bool,
}

/// A large segment of which some was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// Where it lies; none if its sender is gone.
    pub(super) from: Option<(PortId, Slot)>,
    /// How much of it was sent, in bytes.
    pub(super) sent: usize,
    /// What the next of them waits for.
    pub(super) waits: Sent,
}

/// A far host.
pub struct Trunk {
    pub(super) config: TrunkConfig,
    /// What the session is sent by.
    pub(super) underlay: Rc<RefCell<Underlay>>,
    pub(super) paths: Paths,
    /// Which of them the session goes by.
    pub(super) path: usize,
    pub(super) networks: Rc<Networks>,
    /// The far ports' labels.
    pub(super) labels: HashMap<(Network, Mac), u32>,
    /// The networks of the far host's machines.
    pub(super) joined: BTreeSet<Network>,
    pub(super) session: Option<Session<Piece, Kept>>,
    pub(super) frames: Frames,
    /// What has come and was not lifted, in order.
    pub(super) ready: VecDeque<Slot>,
    /// The flows of frames that are underway no more, in order: why, unless the far receivers have taken them.
    pub(super) completed: VecDeque<(Flow, Option<Refusal>)>,
    /// Frames underway of which some is lost and cannot be sent again.
    pub(super) spoilt: HashMap<(PortId, Slot), Refusal>,
    /// Large segments of which some were sent: the rest is to follow before anything else of their flows.
    pub(super) begun: BTreeMap<Flow, Begun>,
    /// The far host is silent, and what was in flight to it is given up.
    pub(super) is_given_up: bool,
    /// Where frames are put together that do not lie in one piece.
    pub(super) scratch: Vec<u8>,
    /// The classes of which nothing is sent, a bit each.
    pub(super) paused: u8,
    /// The switch ends: the far host has been told how far streams were taken.
    pub(super) has_left: bool,
    pub(super) refused: Refused,
    /// Of the streams that wait for memory, the one that was looked at last.
    pub(super) looked_at: Option<Stream>,
    /// That of the best way.
    pub(super) liveness: Liveness,
    /// Frames of which segments have come.
    pub(super) segments: Segments,
    /// A report has waited for a frame that it may ride with.
    pub(super) news_waits: bool,
}

/// What came and was not taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refused {
    /// Packets that contradict themselves.
    pub(super) malformed: u64,
    /// Frames of networks that are not here.
    pub(super) unknown_network: u64,
    /// Frames of no session for which there was no memory.
    pub(super) no_memory: u64,
    /// Frames of which segments have not come.
    pub(super) unfinished: u64,
}

impl Trunk {
    /// A trunk that knows of no network, and leads to the far host by these ways, of which there is one at least.
    pub fn new(now: Instant, mut config: TrunkConfig, paths: Vec<Path>) -> Self {
        let paths = Paths::new(paths);
        let path = paths.of(config.pair);
        let Path { underlay, far } = paths.get(path).clone();
        config.far = far;
        let session = config.session.map(|session| Session::new(now, session, config.life));
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
            spoilt: HashMap::new(),
            begun: BTreeMap::new(),
            is_given_up: false,
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
        self.session.as_ref().map_or(self.config.life, Session::incarnation)
    }

    /// The networks of the far host's machines.
    pub fn networks(&self) -> impl Iterator<Item = Network> {
        self.joined.iter().copied()
    }

    /// How many frames the switch has, as a wire has them, that the far host keeps until it knows that they were taken: so they are not
    /// lost when this switch ends.
    pub fn repaired(&self) -> u64 {
        let session = self.session.as_ref();
        session.map_or(0, |session| self.frames.lifted_of(session.reliable()))
    }
}
