//! Hosts with nothing but an agent and a tunnel's end each, and machines that are raw frames alone:
//! what a test of networks puts together as it needs it.
//!
//! ```text
//!   zovn-7c1e-machine1      zovn-7c1e-host1           zovn-7c1e-switch          zovn-7c1e-host2
//!  ┌──────────────────┐   ┌───────────────────┐      ┌───────────────┐      ┌───────────────────┐
//!  │ frames      eth0 ├───┤ agent, tunnel eth0├──────┤ the kernel's  ├──────┤eth0 tunnel, agent │
//!  └──────────────────┘   └───────────────────┘      │ bridge        │      └───────────────────┘
//!                                                    └───────────────┘
//! ```
//!
//! An agent makes a machine's interface when it is told to attach a port there. Nothing in a
//! machine speaks but who has its [`Wire`]: no address, no IPv6, no neighbours.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use api::Client;
use kernel::netlink::{LinkChange, Netlink};
use kernel::netns::Namespace;
use model::{AgentSettings, HostConfig, LogicalSettings, Uplink};
use units::{Mac, Prefix, Span};

use crate::bridge::SWITCH;
use crate::home::PROCESSES;
use crate::hosts::host_name;
use crate::site::{Ground, open};
use crate::wire::Wire;
use crate::{Home, INTERFACE, LabError, agent, endpoint};

/// What it is called in messages.
const NAME: &str = "rack";

/// The largest packet between hosts: a machine's largest, with a tunnel around it, and room.
const MTU: u32 = 16_000;

/// Of hosts' interfaces.
const FIRST_MAC: u32 = 0x00f8_0000;

/// How many connections a host follows: its memory is taken with its first logical port.
const CONNECTIONS: u32 = 1 << 16;

/// Hosts and machines that are up. Dropped, they go down with all that was made.
#[derive(Debug)]
pub struct Rack {
    home: Home,
    id: String,
    interrupted: Arc<AtomicBool>,
    hosts: Vec<Client>,
    machines: Vec<Machine>,
}

/// A machine: a namespace in which nothing runs.
#[derive(Debug)]
pub struct Machine {
    netns: String,
    namespace: Namespace,
}

impl Rack {
    /// A rack without hosts yet. `interrupted`: whoever waits for it wants no more.
    ///
    /// # Errors
    ///
    /// [`LabError`]; nothing is left then.
    pub fn up(home: &Home, interrupted: Arc<AtomicBool>) -> Result<Self, LabError> {
        let id = home.open_books(NAME)?;
        let home = home.clone();
        // From here on, leaving early drops it and so takes down what there is of it.
        let rack = Self { home, id, interrupted, hosts: Vec::new(), machines: Vec::new() };
        let switch = endpoint::make_switch_namespace(&rack.home.switch_netns(&rack.id))?;
        let mut netlink = Netlink::open_in(&switch)?;
        netlink.add_bridge(SWITCH)?;
        netlink.change_link(SWITCH, LinkChange { up: Some(true), ..LinkChange::default() })?;
        Ok(rack)
    }

    /// The address of a host, by its number from 0, between hosts.
    pub fn address(host: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, host + 1).into()
    }

    /// The agent of a host, by its number from 0. Those up to it are made if they are not there.
    ///
    /// # Errors
    ///
    /// [`LabError`]
    pub fn host(&mut self, number: u8) -> Result<&Client, LabError> {
        while self.hosts.len() <= usize::from(number) {
            let client = self.add_host(self.hosts.len() as u8)?;
            self.hosts.push(client);
        }
        Ok(&self.hosts[usize::from(number)])
    }

    /// The agents of the hosts that there are.
    pub fn hosts(&self) -> &[Client] {
        &self.hosts
    }

    /// A machine by its number from 0. Those up to it are made if they are not there.
    ///
    /// # Errors
    ///
    /// [`LabError`]
    pub fn machine(&mut self, number: usize) -> Result<&Machine, LabError> {
        while self.machines.len() <= number {
            let netns = self.home.machine_netns(&self.id, self.machines.len());
            // What is quiet as a switch's namespace is quiet as a machine's.
            let namespace = endpoint::make_switch_namespace(&netns)?;
            self.machines.push(Machine { netns, namespace });
        }
        Ok(&self.machines[number])
    }

    fn add_host(&self, number: u8) -> Result<Client, LabError> {
        let lab = self.home.directory_of(&self.id);
        let directory = lab.join(host_name(number.into()));
        fs::create_dir(&directory).map_err(LabError::file(&directory))?;
        let ground = Ground {
            directory: directory.clone(),
            processes: lab.join(PROCESSES),
            switch: endpoint::make_host_namespace(&self.home.host_netns(&self.id, number.into()))?,
            interrupted: &self.interrupted,
        };
        ground.check_interrupted()?;
        self.plug(&ground.switch, number)?;
        agent::start(&ground, &config(number, &directory), None)
    }

    /// Lays a cable from a host to the bridge.
    fn plug(&self, host: &Namespace, number: u8) -> Result<(), LabError> {
        let mut near = Netlink::open_in(&open(&self.home.switch_netns(&self.id))?)?;
        let port = host_name(number.into());
        near.add_veth(&port, INTERFACE, 1)?;
        let there = LinkChange { namespace: Some(host), ..LinkChange::default() };
        near.change_link(INTERFACE, there)?;
        let (mtu, up) = (Some(MTU), Some(true));
        let master = Some(near.index(SWITCH)?);
        near.change_link(&port, LinkChange { mtu, master, up, ..LinkChange::default() })?;
        let mut far = Netlink::open_in(host)?;
        let mac = Some(Mac::local(FIRST_MAC + u32::from(number)));
        far.change_link(INTERFACE, LinkChange { mac, mtu, up, ..LinkChange::default() })?;
        let link = far.index(INTERFACE)?;
        Ok(far.add_address(link, Prefix { address: Self::address(number), length: 24 })?)
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        // Nobody is left to tell; what remains is found by `zovn lab down --all`.
        let _ = self.home.remove(&self.id);
    }
}

impl Machine {
    /// Its namespace's name, which an agent is told.
    pub fn netns(&self) -> &str {
        &self.netns
    }

    /// Its end of the interface that an agent has made there.
    ///
    /// # Errors
    ///
    /// [`LabError`] if there is none.
    pub fn wire(&self) -> Result<Wire, LabError> {
        Wire::at(&self.namespace)
    }
}

fn config(number: u8, directory: &Path) -> HostConfig {
    HostConfig {
        agent: AgentSettings {
            socket: agent::socket(directory).display().to_string(),
            // Machines here have no sockets, and nobody waits for what they do not take.
            udp_gate: false,
            drain: Span::from_millis(100),
            ..AgentSettings::default()
        },
        uplink: Some(Uplink::new(Rack::address(number))),
        logical: LogicalSettings { connections: CONNECTIONS, ..LogicalSettings::default() },
        ..HostConfig::default()
    }
}
