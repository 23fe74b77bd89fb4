//! The first packet of a connection, as a machine would send it, or as it is told to.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use logical::Topology;
use logical::objects::{Ethertype, Protocol};
use reach::{Content, Counterexample, Question, SOURCE_PORT, next_hop};
use units::Mac;
use wire::ip::protocol;

use crate::number::within;

/// An ICMP type and code, as `8` or `3/1`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Icmp(u8, u8);

impl FromStr for Icmp {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let (kind, code) = word.split_once('/').unwrap_or((word, "0"));
        let both = kind.parse().ok().zip(code.parse().ok());
        both.map(|(kind, code)| Self(kind, code)).ok_or("write a type as 8, or with a code as 3/1")
    }
}

/// Who sends what.
#[derive(clap::Args)]
pub struct Words {
    /// The port whose machine sends it, as `web-1` or `shop/web-1`.
    #[arg(long, value_name = "PORT")]
    from: String,
    #[command(flatten)]
    sent: Sent,
}

/// What is sent, and to whom.
#[derive(clap::Args)]
pub struct Sent {
    /// Whom it is for: an IP address, or a port, whose first address is meant.
    #[arg(long, value_name = "IP|PORT")]
    to: String,
    /// It is a datagram for this UDP port. Without any of these, it is an echo.
    #[arg(long, value_name = "PORT", group = "asks")]
    udp: Option<u16>,
    #[command(flatten)]
    asks: Asks,
    /// How many bytes it carries behind its headers.
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = within(0..=9000u16))]
    size: u16,
}

/// What a packet asks for, and by whose addresses.
#[derive(clap::Args)]
#[group(skip)]
pub struct Asks {
    /// It opens a connection to this TCP port.
    #[arg(long, value_name = "PORT", group = "asks")]
    tcp: Option<u16>,
    /// It opens an association to this SCTP port.
    #[arg(long, value_name = "PORT", group = "asks")]
    sctp: Option<u16>,
    /// It is ICMP of this type and code.
    #[arg(long, value_name = "TYPE[/CODE]", group = "asks")]
    icmp: Option<Icmp>,
    /// It is of this protocol.
    #[arg(long, value_name = "PROTOCOL", group = "asks")]
    protocol: Option<Protocol>,
    /// It is no IP, but this.
    #[arg(long, value_name = "ETHERTYPE", group = "asks")]
    ethertype: Option<Ethertype>,
    /// The port that it comes from, 40000 if left out; of an echo, its number.
    #[arg(long, value_name = "PORT")]
    source_port: Option<u16>,
    /// The address that it comes from: without, the port's own.
    #[arg(long, value_name = "IP")]
    source: Option<IpAddr>,
    /// The Ethernet address that it comes from: without, the port's own.
    #[arg(long, value_name = "MAC")]
    from_mac: Option<Mac>,
    /// The Ethernet address that it is for: without, that of whoever the machine hands it to.
    #[arg(long, value_name = "MAC")]
    to_mac: Option<Mac>,
}

impl Words {
    /// What is asked about the packet.
    pub fn question(&self) -> Question {
        self.sent.question(&self.from)
    }
}

impl Sent {
    /// What is asked about the packet of a port's machine.
    pub fn question(&self, from: &str) -> Question {
        let Self { to, udp, asks, size } = self;
        Question { size: *size, ..asks.question(from, to, *udp) }
    }
}

impl Asks {
    /// Whether nothing is asked.
    pub const fn is_empty(&self) -> bool {
        let Self { tcp, sctp, icmp, protocol, ethertype, source_port, source, from_mac, to_mac } =
            self;
        tcp.is_none()
            && sctp.is_none()
            && icmp.is_none()
            && protocol.is_none()
            && ethertype.is_none()
            && source_port.is_none()
            && source.is_none()
            && from_mac.is_none()
            && to_mac.is_none()
    }

    /// What is asked about a packet of a port's machine to whom a word means.
    pub fn question(&self, from: &str, to: &str, udp: Option<u16>) -> Question {
        let Self { tcp, sctp, icmp, protocol, ethertype, source_port, source, from_mac, to_mac } =
            *self;
        Question {
            from: from.into(),
            to: to.into(),
            tcp,
            udp,
            sctp,
            icmp_type: icmp.map(|Icmp(kind, _)| kind),
            icmp_code: icmp.map(|Icmp(_, code)| code),
            protocol: protocol.map(|it| it.0),
            ethertype: ethertype.map(|it| it.0),
            source_port,
            source,
            from_mac,
            to_mac,
            size: 0,
        }
    }
}

/// The words that have [`Words`] make a packet.
pub struct Command<'a>(pub &'a Topology, pub &'a Counterexample);

impl fmt::Display for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(topology, Counterexample { from, to, packet }) = self;
        let port = &topology[*from];
        write!(f, "--from {}", reach::name(&port.id))?;
        let mut hop = None;
        match packet.content {
            Content::Other(kind) => {
                let to = to.map(|it| &topology[it]);
                hop = to.map(|it| it.mac);
                let to = to.map_or_else(String::new, |it| reach::name(&it.id));
                write!(f, " --to {to} --ethertype {}", Ethertype(kind))?;
            }
            Content::Ip { from: source, to, protocol: carried, numbers: [a, b] } => {
                write!(f, " --to {to}")?;
                let is_echo =
                    |kind| carried == kind && (a, b) == (if kind == 1 { 8 } else { 128 }, 0);
                match (carried, to) {
                    (protocol::TCP, _) => write!(f, " --tcp {b}")?,
                    (protocol::UDP, _) => write!(f, " --udp {b}")?,
                    (132, _) => write!(f, " --sctp {b}")?,
                    (protocol::ICMP, IpAddr::V4(_)) | (protocol::ICMPV6, IpAddr::V6(_)) => {
                        if !is_echo(carried) {
                            write!(f, " --icmp {a}/{b}")?;
                        }
                    }
                    (other, _) => write!(f, " --protocol {other}")?,
                }
                if Protocol(carried).has_ports() && a != SOURCE_PORT {
                    write!(f, " --source-port {a}")?;
                }
                let own = port.addresses.iter().find(|it| it.is_ipv4() == to.is_ipv4());
                if own != Some(&source) {
                    write!(f, " --source {source}")?;
                }
                hop = hop.or_else(|| next_hop(topology, &topology[port.switch], to));
            }
        }
        if packet.from_mac != port.mac {
            write!(f, " --from-mac {}", packet.from_mac)?;
        }
        if hop != Some(packet.to_mac) {
            write!(f, " --to-mac {}", packet.to_mac)?;
        }
        Ok(())
    }
}
