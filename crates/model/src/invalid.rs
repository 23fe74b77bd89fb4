//! Why a declaration cannot stand.

use alloc::boxed::Box;
use alloc::string::String;
use core::net::IpAddr;

use units::{Class, Mac};

use crate::{InvalidNetwork, LogicalPortName, NetworkName, PortName, VtepList};

/// Why a declaration cannot stand.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidConfig {
    /// Two ports share a name.
    #[error("port `{0}` is declared twice: give each port its own name")]
    DuplicatePort(PortName),
    /// Two ports share an Ethernet address.
    #[error(
        "port `{port}`: Ethernet address {mac} is port `{owner}`'s already: keep it for one of them"
    )]
    DuplicateMac {
        /// The later port.
        port: PortName,
        /// The address.
        mac: Mac,
        /// The earlier port.
        owner: PortName,
    },
    /// Two ports of a network share an IP address.
    #[error(
        "port `{port}`: address {address} is port `{owner}`'s already: keep it for one of them"
    )]
    DuplicateAddress {
        /// The later port.
        port: PortName,
        /// The address.
        address: IpAddr,
        /// The earlier port.
        owner: PortName,
    },
    /// Two ports share a container's interface.
    #[error(
        "port `{port}`: interface {interface} in {netns} is port `{owner}`'s already: each port has its own"
    )]
    DuplicateInterface {
        /// The later port.
        port: PortName,
        /// The container's network namespace.
        netns: String,
        /// The interface.
        interface: String,
        /// The earlier port.
        owner: PortName,
    },
    /// Two ports share an interface of the host.
    #[error(
        "port `{port}`: the host's interface {interface} is port `{owner}`'s already: give each of them a `vlan` of its \
         own, or an interface"
    )]
    DuplicateHostInterface {
        /// The later port.
        port: PortName,
        /// The interface.
        interface: String,
        /// The earlier port.
        owner: PortName,
    },
    /// Two ports share a virtual machine's socket.
    #[error(
        "port `{port}`: socket {socket} is port `{owner}`'s already: each virtual machine has its own"
    )]
    DuplicateSocket {
        /// The later port.
        port: PortName,
        /// The socket's path.
        socket: String,
        /// The earlier port.
        owner: PortName,
    },
    /// Two ports share a label.
    #[error("port `{port}`: `label` {label} is port `{owner}`'s already: each port has its own")]
    DuplicateLabel {
        /// The later port.
        port: PortName,
        /// The label.
        label: u32,
        /// The earlier port.
        owner: PortName,
    },
    /// There are virtual networks, and no way out of the host.
    #[error(
        "virtual networks need this host's address in the underlay, where tunnels reach it: declare it in host.toml, which an agent reads at its start, as `[uplink]` with `vtep = \"192.0.2.1\"`"
    )]
    NoUplink,
    /// The end of the tunnels is wrong by itself: what is wrong, and what to write instead.
    #[error("uplink: {0}")]
    Uplink(&'static str),
    /// A virtual network cannot stand.
    #[error(transparent)]
    Network(#[from] InvalidNetwork),
    /// Networks are promised more than this host has, all together.
    #[error("networks: {what}")]
    Promises {
        /// The one whose share is to be lowered first; `None` if what the host has is not declared.
        network: Option<NetworkName>,
        /// Which sum, and whose.
        what: String,
    },
    /// A network's ports are promised more than the network is, all together.
    #[error("ports: {what}")]
    PortPromises {
        /// The one whose share is to be lowered first.
        port: PortName,
        /// Which sum, and whose.
        what: String,
    },
    /// A port is in a network that there is not.
    #[error(
        "port `{port}`: network `{network}` is not declared: declare it first, or name another"
    )]
    UnknownNetwork {
        /// The port.
        port: PortName,
        /// The network.
        network: NetworkName,
    },
    /// A port is in a network without being its member: nobody would find it.
    #[error(
        "port `{port}`: network `{network}` has no member {mac} with `label` {label} at {vtep}: declare one, or give the port \
         a member's `mac` and `label`"
    )]
    NoMember {
        /// The port.
        port: PortName,
        /// The network.
        network: NetworkName,
        /// The port's Ethernet address.
        mac: Mac,
        /// This host's addresses in the underlay.
        vtep: Box<VtepList>,
        /// The port's label.
        label: u32,
    },
    /// A port's frames are of a class that its network may not use.
    #[error(
        "port `{port}`: `class` {class} is not among `share.classes` of network `{network}`: give the port one of those, or \
         the network that class"
    )]
    PortClass {
        /// The port.
        port: PortName,
        /// Its class.
        class: Class,
        /// The network.
        network: NetworkName,
    },
    /// A port has the IP address of another machine of its network.
    #[error(
        "port `{port}`: address {address} is that of member {owner} of network `{network}`: give the port its own"
    )]
    MemberAddress {
        /// The port.
        port: PortName,
        /// The network.
        network: NetworkName,
        /// The address.
        address: IpAddr,
        /// The machine.
        owner: Mac,
    },
    /// Two ports are one logical port.
    #[error(
        "port `{port}`: logical port {logical} is port `{owner}` already: a logical port is in one place"
    )]
    DuplicateLogical {
        /// The later port.
        port: PortName,
        /// The logical port.
        logical: Box<LogicalPortName>,
        /// The earlier port.
        owner: PortName,
    },
    /// There are more ports than a switch has.
    #[error("port `{port}` is one too many: this host may have {most}")]
    TooManyPorts {
        /// The first of those that are too many.
        port: PortName,
        /// How many this host may have.
        most: usize,
    },
    /// The agent's settings are wrong by themselves: what is wrong, and what to write instead.
    #[error("agent: {0}")]
    Agent(&'static str),
    /// What is said of logical networks is wrong by itself: what is wrong, and what to write
    /// instead.
    #[error("logical: {0}")]
    Logical(&'static str),
    /// A port is wrong by itself.
    #[error("port `{port}`: {what}")]
    Port {
        /// Which port.
        port: PortName,
        /// What is wrong, and what to write instead.
        what: &'static str,
    },
}
