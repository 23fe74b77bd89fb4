//! How generations of logical networks come to the switch, and ports to logical ports.

use std::collections::BTreeSet;
use std::mem;

use binding::{BackendHealth, Decided, Networks};
use lossless::PortId;
use model::{
    BackendState, BackendStatus, Generation, LogicalPortName, LogicalStatus, NeighbourState,
    NeighbourStatus, PortSpec,
};

use pipeline::Heard;
use port::memory::{MemoryConfig, turned};
use units::Instant;

use super::Host;
use super::bound::memory;
use super::device::Device;
use crate::logical::{Realization, identity};

/// How many frames go around at once, and how long one may be, with what goes around before it.
const TURN: MemoryConfig = MemoryConfig { slots: 128, slot_size: (64 << 10) + 64 };

/// Which backends of load balancers serve.
fn backends(networks: &Networks) -> Vec<BackendStatus> {
    let told = |it: BackendHealth<'_>| BackendStatus {
        balancer: it.balancer.to_string(),
        address: it.backend.0,
        port: it.backend.1,
        state: if it.is_up { BackendState::Up } else { BackendState::Down },
        here: it.is_here,
    };
    networks.backends().map(told).collect()
}

/// The neighbours of routers that nobody declares.
fn neighbours(networks: &Networks, now: Instant) -> Vec<NeighbourStatus> {
    let told = |it: pipeline::NeighbourState<'_>| NeighbourStatus {
        port: it.port.to_string(),
        address: it.address,
        mac: it.mac,
        state: match it.state {
            Heard::Asked => NeighbourState::Asked,
            Heard::Reachable => NeighbourState::Reachable,
            Heard::Stale => NeighbourState::Stale,
            Heard::Probed => NeighbourState::Probed,
            Heard::Silent => NeighbourState::Silent,
        },
        held: it.held as u32,
    };
    networks.neighbours(now).map(told).collect()
}

impl Host {
    /// Has room for connections from now on, if there was none.
    pub fn set_logical(&mut self, networks: Networks) {
        if self.plane.logical().is_none() {
            self.plane.set_logical(networks);
        }
    }

    /// Whether it has room for connections of logical networks.
    pub fn has_logical(&self) -> bool {
        self.plane.logical().is_some()
    }

    /// Which logical ports this host's ports are, and those that are about to be attached.
    pub fn logical_ports(&self) -> BTreeSet<LogicalPortName> {
        self.specs().filter_map(|spec| spec.logical.clone()).collect()
    }

    /// Has frames decided by a generation from now on; no frame is decided by two. Returns the one
    /// before, so that it is freed elsewhere.
    pub fn realize(&mut self, new: Realization) -> Realization {
        let before = mem::replace(&mut self.logical, new);
        self.execute();
        self.renew(&before.facts);
        if before.facts != self.logical.facts {
            self.follow_directory();
            self.share_uplink();
        }
        before
    }

    /// Has a logical network decide about a port's frames, if it is one's.
    pub(super) fn bind(&mut self, id: PortId, spec: &PortSpec) {
        let Some(name) = spec.logical.as_ref().and_then(identity) else { return };
        if self.plane.logical().is_none() {
            // At the start, before frames flow.
            self.plane.set_logical(memory(self.room, self.now()));
            self.execute();
        }
        self.plane.bind(id, name);
    }

    /// Has the plane decide by the generation that is there.
    fn execute(&mut self) {
        if self.logical.has_routers && self.plane.logical().is_none() {
            // At the start, before frames flow: later there is room before it is asked for.
            self.plane.set_logical(memory(self.room, self.now()));
        }
        self.turn_around();
        let Realization { generation, nets, places, .. } = &self.logical;
        if let Some(networks) = self.plane.logical_mut() {
            networks.realize(generation.0, nets.clone());
            networks.locate(places.clone());
        }
        self.plane.relocate(self.now());
    }

    /// Has frames go around that other hosts hand to routers here, and what hosts say of load
    /// balancers' backends, as soon as there are such.
    fn turn_around(&mut self) {
        let is_needed = self.logical.has_routers || self.logical.has_checks;
        if !is_needed || self.plane.logical().is_none() || self.plane.turns() {
            return;
        }
        let device = Device::Turn(turned(TURN));
        let (switched, forwarding) = (Default::default(), Default::default());
        match self.plane.attach(self.now(), device, switched, forwarding) {
            Ok(id) => self.plane.bind_turn(id),
            Err(error) => tracing::error!(
                "other hosts cannot reach what routers translate here, or be told which backends serve: {error}; \
                 detach a port"
            ),
        }
    }

    /// Logical networks at this moment, if there are any.
    pub(super) fn logical_status(&self) -> Option<LogicalStatus> {
        let generation = self.logical.generation;
        let networks = self.plane.logical();
        if networks.is_none() && generation == Generation(0) {
            return None;
        }
        let (answers, limited_answers) = networks.map_or((0, 0), Networks::answered);
        let connections = networks.map_or(0, Networks::connections);
        let decided = networks.map_or(Decided::default(), Networks::decided);
        let most = if networks.is_some() { self.room.connections } else { 0 };
        Some(LogicalStatus {
            generation,
            answers,
            limited_answers,
            connections: connections as u64,
            most_connections: u64::from(most),
            known_frames: decided.known,
            decided_frames: decided.anew,
            flows: decided.flows as u64,
            returned_frames: self.plane.returned(),
            suppressed_lines: networks.map_or(0, Networks::suppressed_lines),
            checks: networks.map_or((0, 0), Networks::checks).0,
            failed_checks: networks.map_or((0, 0), Networks::checks).1,
            backends: networks.map(backends).unwrap_or_default(),
            neighbours: networks.map(|it| neighbours(it, self.now())).unwrap_or_default(),
            // Those are added up elsewhere.
            rules: Vec::new(),
            refused_guarantees: self.guarantees.refused(),
            // Who follows knows.
            silence_seconds: None,
        })
    }
}
