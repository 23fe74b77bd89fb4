//! What the switch's thread is told, and what both sides see.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::SystemTime;

use binding::Networks as LogicalNetworks;
use datapath::{CannotReach, Directory};
use model::{
    AddressStatus, AgentStatus, CaptureSpec, ConnectionsPage, Generation, HandoverTaken,
    InvalidConfig, LogicalPortName, PacketTrace, PacketTraceSpec, PortChange, PortName, PortSpec,
    PortStatus, TraceReport, TraceSpec, VtepList,
};
use overlay::{Delta, Topology};
use pipeline::Place;
use plane::taps::Reader;
use seal::Keys;
use tokio::sync::{Mutex, oneshot, watch};

use crate::bell::Bell;
use crate::host::{
    AttachError, CaptureError, ChangeError, ConnectionsAsked, DetachError, Ending, HandoverError,
    PacketTraceError, Proof, Room, RulesNow, TraceError, UplinkError,
};
use crate::journal::Journal;
use crate::logical::{Kept, Logical, Realization};
use crate::networks::{Capacity, Networks};

/// What both sides see.
#[derive(Debug)]
pub struct Shared {
    pub bell: Bell,
    /// The host's own address in the underlay.
    pub vtep: Option<VtepList>,
    /// What the host has for networks.
    pub capacity: Capacity,
    /// How many turns the thread has taken.
    pub turns: AtomicU64,
    /// The far hosts that the thread knows, and what it was told of networks.
    pub topology: Mutex<Topology>,
    /// The thread has no place in the underlay, as this host does not have its address yet.
    pub is_unconnected: AtomicBool,
    /// The ports that were attached through the API, for the next agent.
    pub journal: Arc<Journal>,
    /// The logical networks that were applied last.
    pub logical: Mutex<Arc<Logical>>,
    /// Where those are kept for the next agent.
    pub kept: Kept,
    /// How many of their connections may be followed.
    pub room: Room,
    /// Whether a controller says which there are.
    pub follows: bool,
    /// The logical ports that are to be attached when their networks are known; told of whenever
    /// those that are attached are others, too.
    pub expected: watch::Sender<BTreeSet<LogicalPortName>>,
    /// What a controller has said last that is executed.
    pub executed: watch::Sender<Generation>,
    /// When a controller was heard last.
    pub heard: watch::Sender<Option<Heard>>,
    pub stopping: AtomicBool,
    pub at_once: AtomicBool,
}

/// When a controller was heard.
#[derive(Clone, Copy, Debug)]
pub enum Heard {
    /// Its session lasts.
    Now,
    /// Its session ended then; or, of one that an agent before this one followed, it changed
    /// something then.
    At(SystemTime),
}

/// Where frames go from now on, and how that differs from before.
#[derive(Debug)]
pub struct Tunnels {
    /// The networks that are declared, and what tunnels carry for logical ones.
    pub directory: Arc<Directory>,
    pub delta: Delta,
}

impl Tunnels {
    /// What tunnels are to carry for both kinds of networks.
    ///
    /// # Errors
    ///
    /// [`CannotReach`] if they contradict one another.
    pub fn advance(
        topology: &mut Topology,
        networks: &Networks,
        logical: &Logical,
    ) -> Result<Self, CannotReach> {
        let labelled = logical.labelled();
        let directory = match labelled.is_empty() {
            true => networks.directory().clone(),
            false => Arc::new(networks.directory().with_labelled(labelled.to_vec())?),
        };
        let delta = topology.advance(&directory);
        Ok(Self { directory, delta })
    }
}

/// What is asked of the thread, and where its answer goes.
pub enum Order {
    Status(Proof, oneshot::Sender<AgentStatus>),
    Port(PortName, oneshot::Sender<Option<PortStatus>>),
    Spec(PortName, oneshot::Sender<Option<PortSpec>>),
    Addresses(oneshot::Sender<Vec<AddressStatus>>),
    Attach(Box<PortSpec>, oneshot::Sender<Result<PortStatus, AttachError>>),
    Detach(PortName, oneshot::Sender<Result<PortStatus, DetachError>>),
    Change(PortName, PortChange, oneshot::Sender<Result<PortStatus, ChangeError>>),
    Connect(Delta, oneshot::Sender<Result<(), UplinkError>>),
    Networks(oneshot::Sender<(Generation, Arc<Networks>)>),
    Capture(CaptureSpec, oneshot::Sender<Result<Reader, CaptureError>>),
    Trace(TraceSpec, oneshot::Sender<Result<TraceReport, TraceError>>),
    Rules(Option<PortName>, oneshot::Sender<Result<RulesNow, PacketTraceError>>),
    Connections(ConnectionsAsked, oneshot::Sender<Result<ConnectionsPage, PacketTraceError>>),
    HandOver(PortName, oneshot::Sender<Result<Vec<Place>, HandoverError>>),
    TakeOver(PortName, Vec<Place>, oneshot::Sender<Result<HandoverTaken, HandoverError>>),
    TracePacket(PacketTraceSpec, oneshot::Sender<Result<PacketTrace, PacketTraceError>>),
    Check(Arc<Networks>, oneshot::Sender<Result<(), InvalidConfig>>),
    Replace(
        Arc<Networks>,
        Tunnels,
        oneshot::Sender<Result<(Generation, Arc<Networks>), InvalidConfig>>,
    ),
    LogicalPorts(oneshot::Sender<BTreeSet<LogicalPortName>>),
    HasLogical(oneshot::Sender<bool>),
    SetLogical(Box<LogicalNetworks>, oneshot::Sender<()>),
    Realize(Box<(Realization, Tunnels)>, oneshot::Sender<Realization>),
    SetKeys(Arc<Keys>, oneshot::Sender<()>),
    Stop(Ending, oneshot::Sender<AgentStatus>),
}
