//! A packet that somebody asks about, and the frame that the machine sends.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use logical::Topology;
use logical::topology::{Port, PortIndex};
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use units::Mac;
use wire::ip::protocol;

use crate::frame::{Content, Packet, SCTP};
use crate::hop::next_hop;
use crate::sentence::port;

/// The first packet of a connection, as somebody asks what becomes of it.
///
/// At most one of `tcp`, `udp`, `sctp`, `icmp_type`, `protocol` and `ethertype` is there; without
/// any of them it is an echo request.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(
    feature = "serde",
    serde(default, deny_unknown_fields, expecting = "a packet, as { from: …, to: …, tcp: 80 }")
)]
pub struct Question {
    /// The logical port whose machine sends it, as `shop/web-1`.
    #[cfg_attr(feature = "openapi", schema(example = "shop/web-1"))]
    pub from: String,
    /// Whom it is for: an IP address, or a logical port, whose first address is meant.
    #[cfg_attr(feature = "openapi", schema(example = "shop/db-1"))]
    pub to: String,
    /// It opens a connection to this TCP port.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub tcp: Option<u16>,
    /// It is a datagram for this UDP port.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub udp: Option<u16>,
    /// It opens an association to this SCTP port.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub sctp: Option<u16>,
    /// It is ICMP, or ICMPv6, of this type.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub icmp_type: Option<u8>,
    /// Of this code, 0 if absent.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub icmp_code: Option<u8>,
    /// It is of this IP protocol, by its number.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub protocol: Option<u8>,
    /// It is no IP, but this, by its number.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub ethertype: Option<u16>,
    /// The port that it comes from, 40000 if absent; of an echo, its number.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub source_port: Option<u16>,
    /// The address that it comes from; the port's own if absent.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub source: Option<IpAddr>,
    /// The Ethernet address that it comes from; the port's own if absent.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub from_mac: Option<Mac>,
    /// The Ethernet address that it is for; if absent, that of whoever the machine hands it to.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub to_mac: Option<Mac>,
    /// How many bytes it carries behind its headers, at most 9000.
    #[cfg_attr(feature = "openapi", schema(maximum = 9000))]
    pub size: u16,
}

/// The port that a packet comes from, if none is named.
pub const SOURCE_PORT: u16 = 40000;

/// The most bytes that a packet carries behind its headers.
const LARGEST: u16 = 9000;

impl Question {
    /// The port that is asked about, and the frame that its machine sends.
    ///
    /// # Errors
    ///
    /// A sentence: there is no such packet.
    pub fn frame(&self, topology: &Topology) -> Result<(PortIndex, Vec<u8>), String> {
        if self.size > LARGEST {
            return Err(format!("a packet carries at most {LARGEST} bytes behind its headers"));
        }
        let from = port(topology, &self.from)?;
        let echo = self.source_port.unwrap_or(SOURCE_PORT);
        let frame = packet(topology, from, self)?.frame_of(echo, self.size.into());
        let frame = frame.ok_or("it is too long, or its two addresses are of two families")?;
        Ok((from, frame))
    }
}

/// The packet that is asked about.
fn packet(topology: &Topology, from: PortIndex, asked: &Question) -> Result<Packet, String> {
    let own = &topology[from];
    let of_ports = [(protocol::TCP, asked.tcp), (protocol::UDP, asked.udp), (SCTP, asked.sctp)];
    let mut of_ports = of_ports.into_iter().filter_map(|(kind, port)| Some((kind, port?)));
    let others = [asked.icmp_type.is_some(), asked.protocol.is_some(), asked.ethertype.is_some()];
    if of_ports.clone().count() + others.into_iter().filter(|it| *it).count() > 1 {
        return Err("it is of one protocol: say one".into());
    }
    let from_mac = asked.from_mac.unwrap_or(own.mac);
    if let Some(kind) = asked.ethertype {
        let theirs = || port(topology, &asked.to).map(|it| topology[it].mac);
        let to_mac = asked.to_mac.map_or_else(theirs, Ok)?;
        return Ok(Packet { from_mac, to_mac, content: Content::Other(kind) });
    }
    let to = address(topology, &asked.to, own)?;
    let of_family = || own.addresses.iter().find(|it| it.is_ipv4() == to.is_ipv4()).copied();
    let source = asked.source.or_else(of_family);
    let source = source.ok_or_else(|| format!("{} has no address of {to}'s family", own.id))?;
    let switch = &topology[own.switch];
    let to_mac = asked.to_mac.or_else(|| next_hop(topology, switch, to)).ok_or_else(|| {
        format!("nobody on {} has {to}, so ARP and ND would not answer", switch.id)
    })?;
    let source_port = asked.source_port.unwrap_or(SOURCE_PORT);
    let (protocol, numbers) = match (of_ports.next(), asked.protocol) {
        (Some((kind, port)), _) => (kind, [source_port, port]),
        (None, Some(kind)) => (kind, [0, 0]),
        (None, None) => {
            let (kind, echo) = match to.is_ipv4() {
                true => (protocol::ICMP, 8),
                false => (protocol::ICMPV6, 128),
            };
            let [number, code] = [(asked.icmp_type, echo), (asked.icmp_code, 0)]
                .map(|(said, default)| said.unwrap_or(default).into());
            (kind, [number, code])
        }
    };
    let content = Content::Ip { from: source, to, protocol, numbers };
    Ok(Packet { from_mac, to_mac, content })
}

/// The address that a word is: itself, or the first of a port of that name.
fn address(topology: &Topology, word: &str, like: &Port) -> Result<IpAddr, String> {
    if let Ok(address) = word.parse() {
        return Ok(address);
    }
    let port = &topology[port(topology, word)?];
    let is_of_family =
        |it: &&IpAddr| like.addresses.iter().any(|own| own.is_ipv4() == it.is_ipv4());
    let found = port.addresses.iter().find(is_of_family).or_else(|| port.addresses.first());
    found.copied().ok_or_else(|| format!("{} has no address: write one", port.id))
}
