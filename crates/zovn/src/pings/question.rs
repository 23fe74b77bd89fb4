//! What a machine asks another: the first packet of a connection, which says which one it is.

use std::fmt;
use std::net::IpAddr;

use interpreter::Fields;
use units::Mac;
use wire::ip::protocol;
use wire::{tcp, udp, whole};
use zerocopy::IntoBytes;

/// What a packet asks for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Service {
    /// An echo of ICMP, or of ICMPv6.
    Echo,
    /// A connection to a port of TCP.
    Tcp(u16),
    /// A port of UDP.
    Udp(u16),
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Echo => f.write_str("echo"),
            Self::Tcp(port) => write!(f, "tcp {port}"),
            Self::Udp(port) => write!(f, "udp {port}"),
        }
    }
}

impl serde::Serialize for Service {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A packet of one machine for another, both by number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Question {
    /// Who sends it.
    pub from: usize,
    /// Whom it is for.
    pub to: usize,
    /// What it asks for.
    pub service: Service,
    /// Its source and its destination.
    pub ends: (IpAddr, IpAddr),
    /// The Ethernet addresses of its sender, and of whom that hands it to.
    pub macs: (Mac, Mac),
}

/// Which packet of all that were sent one is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Token {
    /// The run, so that none of another is taken for one of this.
    pub run: u64,
    /// The round.
    pub round: u32,
    /// The question's number.
    pub question: u32,
}

/// What packets carry before their token.
const MAGIC: [u8; 8] = *b"zovnping";

/// How many bytes packets carry behind their headers.
const LEN: usize = MAGIC.len() + 16;

impl Question {
    /// Its frame, whose connection is known by this source port, or echo's identifier. `None` if
    /// its ends are of two families.
    pub fn frame(&self, source: u16, token: Token) -> Option<Vec<u8>> {
        let Token { run, round, question } = token;
        let numbers = [round.to_be_bytes(), question.to_be_bytes()].concat();
        let data = [&MAGIC[..], &run.to_be_bytes(), &numbers].concat();
        let (carried, header) = match self.service {
            Service::Tcp(port) => {
                let header = tcp::Header::new(source, port, 0, tcp::Flags::SYN);
                (protocol::TCP, header.as_bytes().to_vec())
            }
            Service::Udp(port) => {
                (protocol::UDP, udp::Header::new(source, port, LEN)?.as_bytes().to_vec())
            }
            Service::Echo => {
                let (carried, kind) = match self.ends.0 {
                    IpAddr::V4(_) => (protocol::ICMP, 8),
                    IpAddr::V6(_) => (protocol::ICMPV6, 128),
                };
                let ([a, b], [_, _, c, d]) = (source.to_be_bytes(), round.to_be_bytes());
                (carried, vec![kind, 0, 0, 0, a, b, c, d])
            }
        };
        whole::packet(self.macs, self.ends, carried, &[header, data].concat())
    }
}

/// Which packet a frame is that has arrived; answers, and errors that quote one, are none.
pub fn token(frame: &[u8]) -> Option<Token> {
    let ip = Fields::of(frame)?.ip.filter(|ip| ip.begins() && !ip.is_error())?;
    let data = frame.get(ip.layout.end.checked_sub(LEN)?..ip.layout.end)?;
    let (run, rest) = data.strip_prefix(&MAGIC)?.split_first_chunk()?;
    let (round, rest) = rest.split_first_chunk()?;
    let question = rest.first_chunk()?;
    let [round, question] = [round, question].map(|it| u32::from_be_bytes(*it));
    Some(Token { run: u64::from_be_bytes(*run), round, question })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_known_again_and_its_answers_are_not() {
        let token_of = Token { run: 7, round: 70_000, question: 3 };
        let macs = (Mac::local(1), Mac::local(2));
        for ends in [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]] {
            let [from, to] = ends.map(|it| it.parse().unwrap());
            for service in [Service::Echo, Service::Tcp(80), Service::Udp(53)] {
                let question = Question { from: 0, to: 1, service, ends: (from, to), macs };
                let frame = question.frame(40_000, token_of).unwrap();
                assert_eq!(token(&frame), Some(token_of), "{service}");
                assert!(frame.len() >= 60, "no port pads it");
                let kind = frame.len() - LEN - 8;
                if service == Service::Echo {
                    let mut answer = frame;
                    answer[kind] = if from.is_ipv4() { 0 } else { 129 };
                    assert_eq!(token(&answer), None);
                }
            }
        }
        assert_eq!(token(&[0; 20]), None);
    }
}
