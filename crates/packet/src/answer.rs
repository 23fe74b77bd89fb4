//! What the network itself answers: errors, resets, echoes.
//!
//! An answer is about the frame as its sender wrote it, and goes to that sender alone. Nothing
//! answers an error, a group, a later fragment, or who cannot be one sender (RFC 1122 §3.2.2, RFC
//! 4443 §2.4 (e)).

use alloc::vec::Vec;
use core::net::IpAddr;

use units::Mac;
use wire::ip::{Fragment, Version, protocol};
use wire::{icmp, ipv4, ipv6, tcp};
use zerocopy::IntoBytes;
use zerocopy::network_endian::U32;

use crate::emit::packet;
use crate::fields::{Fields, Ip};

/// How many answers a port gets in a second, and how many at once: whatever asks for more is no
/// machine that needs them (RFC 4443 §2.4 (f), RFC 1812 §4.3.2.8, RFC 5961 §10).
pub const MOST_A_SECOND: u32 = 256;

/// What is told of a packet that does not arrive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Error {
    /// No route leads there.
    NoRoute,
    /// Nobody there has the address.
    NoHost,
    /// Nobody serves the protocol there.
    NoProtocol,
    /// Nobody serves the port there, or a rule rejects it.
    NoPort,
    /// It has been routed as often as it may be.
    TimeToLive,
    /// It is longer than this.
    TooLong(u16),
}

impl Error {
    /// Type, code, and the word behind the checksum (RFC 792, RFC 1191 §4).
    const fn v4(self) -> (u8, u8, u32) {
        match self {
            Self::NoRoute => (3, 0, 0),
            Self::NoHost => (3, 1, 0),
            Self::NoProtocol => (3, 2, 0),
            Self::NoPort => (3, 3, 0),
            Self::TooLong(mtu) => (3, 4, mtu as u32),
            Self::TimeToLive => (11, 0, 0),
        }
    }

    /// The same (RFC 4443 §3).
    const fn v6(self) -> (u8, u8, u32) {
        match self {
            Self::NoRoute => (1, 0, 0),
            Self::NoHost => (1, 3, 0),
            Self::NoPort => (1, 4, 0),
            // The next header is not known; where in the packet that is said.
            Self::NoProtocol => (4, 1, 6),
            Self::TooLong(mtu) => (2, 0, mtu as u32),
            Self::TimeToLive => (3, 0, 0),
        }
    }
}

/// Whether anything may be answered to a packet's sender.
fn may_answer(fields: &Fields, ip: &Ip) -> bool {
    let (source, destination) = (ip.tuple.source.0, ip.tuple.destination.0);
    let is_everybody = matches!(destination, IpAddr::V4(it) if it.is_broadcast());
    let is_one = !source.is_unspecified() && !source.is_multicast() && !source.is_loopback();
    let is_for_many = fields.destination.is_multicast() || destination.is_multicast();
    is_one
        && !is_for_many
        && !is_everybody
        && !fields.source.is_multicast()
        && ip.layout.fragment != Fragment::Later
}

/// The frame by which `from` tells a packet's sender of an error. `None` if nothing may be told.
pub fn error(frame: &[u8], error: Error, from: (Mac, IpAddr)) -> Option<Vec<u8>> {
    let fields = Fields::of(frame)?;
    let ip = fields.ip?;
    let is_redirect = ip.layout.version == Version::V6 && ip.icmp.is_some_and(|it| it.kind == 137);
    if !may_answer(&fields, &ip) || ip.is_error() || is_redirect {
        return None;
    }
    let quote = &frame[ip.layout.network..ip.layout.end];
    let ((kind, code, word), longest) = match ip.layout.version {
        Version::V4 => (error.v4(), icmp::LONGEST_V4 - ipv4::Header::LEN),
        Version::V6 => (error.v6(), icmp::LONGEST_V6 - ipv6::Header::LEN),
    };
    let mut message = alloc::vec![kind, code, 0, 0];
    message.extend_from_slice(&word.to_be_bytes());
    message.extend_from_slice(&quote[..quote.len().min(longest - 8)]);
    packet((fields.source, ip.tuple.source.0), from, protocol::ICMP, message)
}

/// What tells a packet's sender that a rule rejects it, or that nobody serves: a reset of TCP, an
/// error of all else, from whom the packet was for.
pub fn reject(frame: &[u8]) -> Option<Vec<u8>> {
    let fields = Fields::of(frame)?;
    let ip = fields.ip?;
    let from = (fields.destination, ip.tuple.destination.0);
    match ip.tcp {
        Some(header) => reset(&fields, &ip, &header, from),
        None => error(frame, Error::NoPort, from),
    }
}

/// A reset (RFC 9293 §3.5.2, group 1): of its own number if the segment acknowledges something, of
/// 0 and acknowledging all of the segment if not. None answers a reset.
fn reset(fields: &Fields, ip: &Ip, header: &tcp::Header, from: (Mac, IpAddr)) -> Option<Vec<u8>> {
    let sets = |flag| header.flags.contains(flag);
    if sets(tcp::Flags::RST) || !may_answer(fields, ip) {
        return None;
    }
    let (source, destination) = (header.destination.get(), header.source.get());
    let answer = if sets(tcp::Flags::ACK) {
        tcp::Header::new(source, destination, header.acknowledgment.get(), tcp::Flags::RST)
    } else {
        let payload = (ip.layout.end - ip.layout.transport).saturating_sub(header.len());
        let counts = usize::from(sets(tcp::Flags::SYN)) + usize::from(sets(tcp::Flags::FIN));
        let all = header.sequence.get().wrapping_add((payload + counts) as u32);
        let flags = tcp::Flags::RST | tcp::Flags::ACK;
        let mut answer = tcp::Header::new(source, destination, 0, flags);
        answer.acknowledgment = U32::new(all);
        answer
    };
    let body = answer.as_bytes().to_vec();
    packet((fields.source, ip.tuple.source.0), from, protocol::TCP, body)
}

/// The answer of a router to what is for itself: an echo, a reset, an error.
pub fn to_self(frame: &[u8], from: (Mac, IpAddr)) -> Option<Vec<u8>> {
    let fields = Fields::of(frame)?;
    let ip = fields.ip?;
    match (ip.tcp, ip.icmp, ip.tuple.protocol) {
        (Some(header), ..) => reset(&fields, &ip, &header, from),
        (_, Some(icmp), _) => {
            let answers = match ip.layout.version {
                Version::V4 => (icmp.kind == 8).then_some(0),
                Version::V6 => (icmp.kind == 128).then_some(129),
            };
            let kind = answers.filter(|_| may_answer(&fields, &ip))?;
            let mut message = frame[ip.layout.transport..ip.layout.end].to_vec();
            message[..4].copy_from_slice(&[kind, 0, 0, 0]);
            packet((fields.source, ip.tuple.source.0), from, protocol::ICMP, message)
        }
        (_, _, protocol::UDP) => error(frame, Error::NoPort, from),
        _ => error(frame, Error::NoProtocol, from),
    }
}
