//! A packet's flow, as refusals and lines of the log tell it.

use core::fmt;

use packet::{Fields, Tuple};
use units::Mac;
use wire::ip::protocol;

/// Whose packet it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FlowName {
    source: Mac,
    destination: Mac,
    ethertype: u16,
    tuple: Option<Tuple>,
}

impl FlowName {
    /// Of a frame; `None`: it has no headers that can be read.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let fields = Fields::of(frame)?;
        let Fields { source, destination, ethertype, ip, .. } = fields;
        Some(Self { source, destination, ethertype, tuple: ip.map(|ip| ip.tuple) })
    }
}

impl fmt::Display for FlowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, destination, ethertype, tuple } = self;
        let Some(Tuple { protocol: carried, source: from, destination: to }) = tuple else {
            return write!(f, "{source} > {destination} ethertype {ethertype:#06x}");
        };
        let name = match *carried {
            protocol::TCP => "tcp",
            protocol::UDP => "udp",
            protocol::ICMP => "icmp",
            protocol::ICMPV6 => "icmp6",
            132 => "sctp",
            other => return write!(f, "protocol {other} {} > {}", from.0, to.0),
        };
        match *carried {
            protocol::ICMP | protocol::ICMPV6 => write!(f, "{name} {} > {}", from.0, to.0),
            _ => {
                let [from, to] = [from, to].map(|it| core::net::SocketAddr::from(*it));
                write!(f, "{name} {from} > {to}")
            }
        }
    }
}
