//! Switches under test whose ports are vhost-user sockets, and DPDK's own front-ends for them.
//!
//! ```text
//!   front-end ── virtqueues in its huge pages ──┐              ┌── front-end
//!       └───────── p0.sock (vhost-user) ───── switch ───── p1.sock ────┘
//!                                         one core of its own
//! ```
//!
//! There are no namespaces and no kernel between them: a frame lies in its sender's memory until
//! the switch copies it into its receiver's. Who brings a [`Rig`] up owns it; dropped, it goes down
//! with every program, page, socket and file that it had. What a killed process leaves behind is
//! found as labs are: see [`Home`].
//!
//! docs/peers.md tells how each switch is configured, and why that is fair to it.

mod away;
mod ovs_dpdk;
mod telemetry;
mod testpmd;
mod zovn;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use model::NetworkName;
use units::Mac;

use crate::endpoint::make_switch_namespace;
use crate::home::{HUGEPAGES, PROCESSES};
use crate::hugepages::Hugepages;
use crate::site::Ground;
use crate::{Home, LabError};

use away::Away;

pub use ovs_dpdk::{OvsDpdk, PmdCounters, VhostCounters};
pub use testpmd::{Forwarding, FrontEnds, Testpmd};
pub use zovn::{Tenants, Zovn};

/// Where one switch under test stands with its front-ends.
#[derive(Debug)]
pub struct Rig<'a> {
    // Dropped first: it takes down all that the others stand for.
    entry: Entry,
    ground: Ground<'a>,
    core: usize,
    _hugepages: Hugepages,
    _away: Away,
}

/// What is in a home's books, and removed with all that belongs to it when this value is dropped.
#[derive(Debug)]
struct Entry {
    home: Home,
    id: String,
}

/// A port of the switch under test, and the address of whoever is on its other side.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Port {
    /// What the switch calls it.
    pub name: String,
    /// The front-end's address.
    pub mac: Mac,
    /// Its vhost-user socket, on which the front-end listens.
    pub socket: PathBuf,
    /// The virtual network that it is in; all ports without one are in one.
    pub network: Option<NetworkName>,
}

/// The networks of ports, each once, in the order in which they come.
fn networks(ports: &[Port]) -> Vec<&NetworkName> {
    let mut networks = Vec::new();
    for network in ports.iter().filter_map(|port| port.network.as_ref()) {
        if !networks.contains(&network) {
            networks.push(network);
        }
    }
    networks
}

impl<'a> Rig<'a> {
    /// Opens a rig for a switch that has `core` for itself, with so many huge pages for all its
    /// programs, unless `interrupted` becomes true before that is done. Until the rig is dropped
    /// the calling thread, and what it starts, keeps off that core: a switch that polls leaves
    /// nothing of it.
    ///
    /// # Errors
    ///
    /// [`LabError`], [`LabError::Hugepages`] and [`LabError::Interrupted`] among them; nothing of
    /// the rig is left then.
    pub fn up(
        home: &Home,
        core: usize,
        pages: u64,
        interrupted: &'a AtomicBool,
    ) -> Result<Self, LabError> {
        let away = Away::from(core)?;
        let entry = Entry { home: home.clone(), id: home.open_books("vhost")? };
        let directory = home.directory_of(&entry.id);
        // A switch that makes devices makes them where they are nobody else's.
        let switch = make_switch_namespace(&home.switch_netns(&entry.id))?;
        let hugepages = Hugepages::reserve(&directory.join(HUGEPAGES), pages, interrupted)?;
        let processes = directory.join(PROCESSES);
        let ground = Ground { directory, processes, switch, interrupted };
        Ok(Self { entry, ground, core, _hugepages: hugepages, _away: away })
    }

    /// Takes the rig down with all that runs on it.
    ///
    /// # Errors
    ///
    /// The first thing that could not be removed.
    pub fn down(self) -> Result<(), LabError> {
        // What is dropped next finds nothing left.
        self.entry.home.remove(&self.entry.id)
    }

    /// Describes so many ports: `p0`, `p1`, … with an address each. They are made by the switch
    /// that is given them.
    pub fn ports(&self, count: u32) -> Vec<Port> {
        let port = |number: u32| {
            let name = format!("p{number}");
            Port {
                socket: self.ground.directory.join(&name),
                name,
                mac: Mac::local(number + 1),
                network: None,
            }
        };
        (0..count).map(port).collect()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // Nobody is left to tell; what remains is found by `zovn lab down --all`.
        let _ = self.home.remove(&self.id);
    }
}
