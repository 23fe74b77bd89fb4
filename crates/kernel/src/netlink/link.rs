//! Links: devices, their settings and counters.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, InfoVeth, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo,
    LinkMessage, Stats64,
};
use units::Mac;

use super::{Netlink, NetlinkError, failed};
use crate::netns::Namespace;

/// A device as the kernel describes it.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its number in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What somebody has written on it, for people and programs that look for it; empty if nobody
    /// has.
    pub alias: String,
    /// Its Ethernet address, if it has one.
    pub mac: Option<Mac>,
    /// Its largest packet in bytes.
    pub mtu: u32,
    /// How many packets its transmit queue holds.
    pub tx_queue_len: u32,
    /// Whether it is set up.
    pub up: bool,
    /// Whether it is in operation: set up, with a far end that is up as well (IFF_RUNNING,
    /// RFC 2863).
    pub carrier: bool,
    /// The number of the bridge that it belongs to, if it does.
    pub master: Option<u32>,
    /// What the kernel counted on it.
    pub counters: LinkCounters,
}

/// What the kernel counted on a device, as seen from its own namespace.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LinkCounters {
    /// Packets that came in through it.
    pub rx_packets: u64,
    /// Bytes that came in through it.
    pub rx_bytes: u64,
    /// Packets dropped on their way in.
    pub rx_dropped: u64,
    /// Packets that went out through it.
    pub tx_packets: u64,
    /// Bytes that went out through it.
    pub tx_bytes: u64,
    /// Packets dropped on their way out, by the device itself: its queueing discipline counts
    /// apart.
    pub tx_dropped: u64,
}

/// What to change of a device; what is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkChange<'a> {
    /// Set it up or down.
    pub up: Option<bool>,
    /// Its largest packet in bytes.
    pub mtu: Option<u32>,
    /// Its Ethernet address.
    pub mac: Option<Mac>,
    /// How many packets its transmit queue holds.
    pub tx_queue_len: Option<u32>,
    /// At most so many segments make one large packet.
    pub gso_max_segs: Option<u32>,
    /// The longest packet that stands for several and is taken as one, in bytes; longer ones are
    /// cut before.
    pub gso_max_size: Option<u32>,
    /// Its new name. Older kernels want the device down for that.
    pub name: Option<&'a str>,
    /// What to write on it.
    pub alias: Option<&'a str>,
    /// The bridge to put it into; 0 takes it out.
    pub master: Option<u32>,
    /// The namespace to move it to. It arrives down and without addresses.
    pub namespace: Option<&'a Namespace>,
}

/// The kernel's end of a VXLAN tunnel from one host to one other (RFC 7348), at the usual port.
#[derive(Clone, Copy, Debug)]
pub struct Vxlan {
    /// The network's number, of 24 bits.
    pub vni: u32,
    /// Our address.
    pub local: Ipv4Addr,
    /// The far end's.
    pub remote: Ipv4Addr,
}

impl Netlink {
    /// Adds a VXLAN device.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`], among others if the name is taken.
    pub fn add_vxlan(&mut self, name: &str, vxlan: Vxlan) -> Result<(), NetlinkError> {
        let Vxlan { vni, local, remote } = vxlan;
        let data = vec![
            InfoVxlan::Id(vni),
            InfoVxlan::Local(local),
            InfoVxlan::Group(remote),
            InfoVxlan::Port(wire::vxlan::PORT),
        ];
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Vxlan),
                LinkInfo::Data(InfoData::Vxlan(data)),
            ]),
        ];
        self.create("add VXLAN device", name, message)
    }

    /// Adds a pair of connected devices, each with `queues` queues to send and as many to receive.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`], among others if one of the names is taken.
    pub fn add_veth(&mut self, name: &str, peer: &str, queues: u32) -> Result<(), NetlinkError> {
        let end = |name: &str| {
            vec![
                LinkAttribute::IfName(name.into()),
                LinkAttribute::NumTxQueues(queues),
                LinkAttribute::NumRxQueues(queues),
            ]
        };
        let mut other = LinkMessage::default();
        other.attributes = end(peer);
        let mut message = LinkMessage::default();
        message.attributes = end(name);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
        ]));
        self.create("add veth pair", &format!("{name} and {peer}"), message)
    }

    /// Adds a bridge without ports. It floods multicast to all of them instead of asking who
    /// listens.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`], among others if the name is taken.
    pub fn add_bridge(&mut self, name: &str) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Bridge),
                LinkInfo::Data(InfoData::Bridge(vec![InfoBridge::MulticastSnooping(false)])),
            ]),
        ];
        self.create("add bridge", name, message)
    }

    /// Deletes a device; of a veth pair both ends go.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`] if there is none, or it cannot be deleted.
    pub fn delete_link(&mut self, name: &str) -> Result<(), NetlinkError> {
        let message = self.message_for(name)?;
        self.ask("delete link", name, 0, RouteNetlinkMessage::DelLink(message))
    }

    /// Changes a device's settings.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`]; a change of several settings may then be half done.
    pub fn change_link(&mut self, name: &str, change: LinkChange<'_>) -> Result<(), NetlinkError> {
        let mut message = self.message_for(name)?;
        if let Some(up) = change.up {
            message.header.change_mask = LinkFlags::Up;
            message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        }
        let attributes = [
            change.mtu.map(LinkAttribute::Mtu),
            change.mac.map(|mac| LinkAttribute::Address(mac.0.to_vec())),
            change.tx_queue_len.map(LinkAttribute::TxQueueLen),
            change.gso_max_segs.map(LinkAttribute::GsoMaxSegs),
            change.gso_max_size.map(LinkAttribute::GsoMaxSize),
            change.name.map(|name| LinkAttribute::IfName(name.into())),
            change.alias.map(|alias| LinkAttribute::IfAlias(alias.into())),
            change.master.map(LinkAttribute::Controller),
            change.namespace.map(|namespace| LinkAttribute::NetNsFd(namespace.as_raw_fd())),
        ];
        message.attributes.extend(attributes.into_iter().flatten());
        self.ask("change link", name, 0, RouteNetlinkMessage::SetLink(message))
    }

    /// A device's number.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`] if there is none of that name.
    pub fn index(&mut self, name: &str) -> Result<u32, NetlinkError> {
        Ok(self.link(name)?.index)
    }

    /// One device with its counters.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`] if there is none of that name.
    pub fn link(&mut self, name: &str) -> Result<Link, NetlinkError> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.into()));
        self.find(name, message)
    }

    /// One device with its counters, by its number.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`] if there is none of that number.
    pub fn link_at(&mut self, index: u32) -> Result<Link, NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.find(&index.to_string(), message)
    }

    fn find(&mut self, object: &str, message: LinkMessage) -> Result<Link, NetlinkError> {
        let mut found = None;
        self.list(
            "find link",
            object,
            NLM_F_ACK,
            RouteNetlinkMessage::GetLink(message),
            |answer| {
                found = link_of(answer);
            },
        )?;
        found.ok_or_else(|| failed("find link", object)(std::io::ErrorKind::NotFound.into()))
    }

    /// Every device with its counters.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`] if the kernel will not list them.
    pub fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        let mut links = Vec::new();
        let everything = RouteNetlinkMessage::GetLink(LinkMessage::default());
        self.list("list", "links", NLM_F_DUMP, everything, |answer| links.extend(link_of(answer)))?;
        Ok(links)
    }

    fn create(
        &mut self,
        operation: &'static str,
        object: &str,
        message: LinkMessage,
    ) -> Result<(), NetlinkError> {
        self.ask(
            operation,
            object,
            NLM_F_CREATE | NLM_F_EXCL,
            RouteNetlinkMessage::NewLink(message),
        )
    }

    /// A request about the device of that name.
    fn message_for(&mut self, name: &str) -> Result<LinkMessage, NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = self.index(name)?;
        Ok(message)
    }
}

fn link_of(answer: RouteNetlinkMessage) -> Option<Link> {
    let RouteNetlinkMessage::NewLink(message) = answer else { return None };
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        alias: String::new(),
        mac: None,
        mtu: 0,
        tx_queue_len: 0,
        up: message.header.flags.contains(LinkFlags::Up),
        carrier: message.header.flags.contains(LinkFlags::Running),
        master: None,
        counters: LinkCounters::default(),
    };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::IfAlias(alias) => link.alias = alias,
            LinkAttribute::Address(octets) => link.mac = octets.try_into().ok().map(Mac),
            LinkAttribute::Mtu(mtu) => link.mtu = mtu,
            LinkAttribute::TxQueueLen(packets) => link.tx_queue_len = packets,
            LinkAttribute::Controller(master) => link.master = Some(master),
            LinkAttribute::Stats64(counters) => link.counters = counters.into(),
            _ => {}
        }
    }
    Some(link)
}

impl From<Stats64> for LinkCounters {
    fn from(counters: Stats64) -> Self {
        Self {
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            rx_dropped: counters.rx_dropped,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            tx_dropped: counters.tx_dropped,
        }
    }
}
