//! What goes with a port to another host, as bytes that only hosts read.
//!
//! ```text
//! version, 1 byte │ list of places
//!
//! place ─▶ its name, connections, flows, paths, packets in fragments, groups
//!          text: length, 2 bytes; UTF-8             list: count, 4 bytes; entries
//!          address: 4 or 6, 1 byte; the address     time that is left: nanoseconds, 8 bytes
//! ```
//!
//! Numbers are big-endian. Bytes of another version, that end early or late, or that contradict
//! themselves, are refused whole. Each entry of a list has bytes, so memory grows with what is
//! there and not with what a count claims.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt::Display;
use core::net::IpAddr;
use core::str::FromStr;

use conntrack::Record;
use logical::objects::{Direction, Identity};
use packet::fragments::Pieces;
use packet::groups::Listener;
use packet::{Piece, Tuple};
use units::Span;

use crate::handover::{Handed, Handover};
use crate::neighbours::HandedNeighbours;
use crate::rules::RuleName;

const VERSION: u8 = 1;

/// The longest time that can be left of anything here: five days.
const MOST_LEFT: Span = Span::from_secs(432_000);

/// A port, or a router that keeps flows, and what goes with it.
pub type Place = (Identity, Handover);

/// Why bytes are not read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unreadable {
    /// An agent of another version has written them.
    #[error("they are of version {0}, and version {VERSION} is read here")]
    Version(u8),
    /// No agent has written them, or not all of them have come.
    #[error("they end early or late, or contradict themselves")]
    Broken,
}

/// The bytes of places.
pub fn pack(places: &[Place]) -> Vec<u8> {
    let mut out = Writer([VERSION].to_vec());
    out.list(places, |out, (name, it)| {
        // Ports have no neighbours, and agents hand over no routers.
        let Handover { connections, flows, paths, fragments, listener, neighbours: _ } = it;
        out.text(name);
        out.list(connections, |out, Handed { record, opened, origin, rule }| {
            out.record(record);
            out.direction(*opened);
            out.optional(origin.as_ref(), |out, origin| out.text(origin));
            out.optional(rule.as_ref(), |out, RuleName { policy, rule }| {
                out.text(policy);
                out.text(rule);
            });
        });
        out.list(flows, Writer::record);
        out.list(paths, |out, (flow, (port, neighbour), left)| {
            out.tuple(flow);
            out.text(port);
            out.address(*neighbour);
            out.span(*left);
        });
        out.list(fragments, |out, (way, (number, from, to, protocol), (pieces, left))| {
            out.direction(*way);
            out.long(*number);
            out.address(*from);
            out.address(*to);
            out.byte(*protocol);
            out.tuple(&pieces.ends);
            out.flag(pieces.are_sound);
            out.list(pieces.pieces(), |out, Piece { from, end, is_last }| {
                // A packet's bytes have places below 2^17: 13 bits of offset in eights, and a
                // length.
                out.long(*from as u32);
                out.long(*end as u32);
                out.flag(*is_last);
            });
            out.span(*left);
        });
        out.optional(listener.as_ref(), |out, listener| {
            out.flag(listener.takes_all());
            let groups: Vec<_> = listener.groups().collect();
            out.list(&groups, |out, group| out.address(*group));
        });
    });
    out.0
}

/// Reads places from bytes.
///
/// # Errors
///
/// [`Unreadable`]
pub fn unpack(bytes: &[u8]) -> Result<Vec<Place>, Unreadable> {
    let mut from = Reader(bytes);
    match from.byte() {
        Some(VERSION) => {}
        Some(version) => return Err(Unreadable::Version(version)),
        None => return Err(Unreadable::Broken),
    }
    let places = from.list(place).ok_or(Unreadable::Broken)?;
    if from.0.is_empty() { Ok(places) } else { Err(Unreadable::Broken) }
}

fn place(from: &mut Reader<'_>) -> Option<Place> {
    let name: Identity = from.text()?;
    let handover = Handover {
        connections: from.list(|from| {
            Some(Handed {
                record: from.record()?,
                opened: from.direction()?,
                origin: from.optional(Reader::text)?,
                rule: from
                    .optional(|from| Some(RuleName { policy: from.text()?, rule: from.text()? }))?,
            })
        })?,
        flows: from.list(Reader::record)?,
        paths: from
            .list(|from| Some((from.tuple()?, (from.text()?, from.address()?), from.span()?)))?,
        fragments: from.list(|from| {
            let (way, number) = (from.direction()?, from.long()?);
            let (source, destination, protocol) = (from.address()?, from.address()?, from.byte()?);
            let (ends, are_sound) = (from.tuple()?, from.flag()?);
            let pieces = from.list(|from| {
                let (start, end) = (from.long()? as usize, from.long()? as usize);
                (start <= end).then_some(Piece { from: start, end, is_last: from.flag()? })
            })?;
            let pieces = Pieces::of_parts(ends, are_sound, pieces)?;
            Some((way, (number, source, destination, protocol), (pieces, from.span()?)))
        })?,
        listener: from
            .optional(|from| Listener::of_parts(from.flag()?, from.list(Reader::address)?))?,
        neighbours: HandedNeighbours::default(),
    };
    Some((name, handover))
}

struct Writer(Vec<u8>);

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn long(&mut self, number: u32) {
        self.0.extend(number.to_be_bytes());
    }

    fn flag(&mut self, is_so: bool) {
        self.byte(is_so.into());
    }

    fn span(&mut self, span: Span) {
        self.0.extend(span.as_nanos().to_be_bytes());
    }

    fn text(&mut self, text: &impl Display) {
        // Names have at most 63 bytes each, so this is far below 2^16.
        let text = text.to_string();
        self.0.extend((text.len() as u16).to_be_bytes());
        self.0.extend(text.as_bytes());
    }

    fn direction(&mut self, way: Direction) {
        self.flag(way == Direction::ToPort);
    }

    fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(it) => {
                self.byte(4);
                self.0.extend(it.octets());
            }
            IpAddr::V6(it) => {
                self.byte(6);
                self.0.extend(it.octets());
            }
        }
    }

    fn tuple(&mut self, tuple: &Tuple) {
        self.byte(tuple.protocol);
        for (address, port) in [tuple.source, tuple.destination] {
            self.address(address);
            self.0.extend(port.to_be_bytes());
        }
    }

    fn record(&mut self, record: &Record) {
        // A host's own mark means nothing elsewhere.
        self.0.extend(record.marked(0).to_bytes());
    }

    fn optional<T>(&mut self, it: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(it.is_some());
        if let Some(it) = it {
            write(self, it);
        }
    }

    fn list<T>(&mut self, all: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.long(all.len() as u32);
        all.iter().for_each(|it| write(self, it));
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    fn short(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn long(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn span(&mut self) -> Option<Span> {
        let span = Span::from_nanos(self.array().map(u64::from_be_bytes)?);
        (span <= MOST_LEFT).then_some(span)
    }

    fn text<T: FromStr>(&mut self) -> Option<T> {
        let len = self.short()?.into();
        core::str::from_utf8(self.take(len)?).ok()?.parse().ok()
    }

    fn direction(&mut self) -> Option<Direction> {
        Some(if self.flag()? { Direction::ToPort } else { Direction::FromPort })
    }

    fn address(&mut self) -> Option<IpAddr> {
        match self.byte()? {
            4 => self.array::<4>().map(IpAddr::from),
            6 => self.array::<16>().map(IpAddr::from),
            _ => None,
        }
    }

    fn tuple(&mut self) -> Option<Tuple> {
        let protocol = self.byte()?;
        let source = (self.address()?, self.short()?);
        let destination = (self.address()?, self.short()?);
        Some(Tuple { protocol, source, destination })
    }

    fn record(&mut self) -> Option<Record> {
        Record::parse(&self.array()?).filter(|it| it.mark() == 0)
    }

    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Some(None) }
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.long()?;
        (0..count).map(|_| read(self)).collect()
    }
}

#[cfg(test)]
mod tests;
