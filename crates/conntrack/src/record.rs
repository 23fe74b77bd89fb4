//! A connection as it goes to another host, with the machine whose it is.
//!
//! ```text
//!  0        1         2       3      4       8          16           52        88                     120
//!  │ version│ protocol│ phase │ bits │ mark  │ left, ns │ original   │ reply   │ ends, limits, acked, │
//!  │ 1      │         │       │      │       │          │ 36 bytes   │ 36 bytes│ windows, scales      │
//! ```
//!
//! Numbers are big-endian, tuples as in headers: addresses, IPv4's mapped, then ports.

use units::Span;

use crate::track::{Phase, Track, bit};
use crate::tuple::{Ends, Tuple};

const VERSION: u8 = 1;

/// What another table needs to go on with a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Record {
    pub(crate) original: Tuple,
    pub(crate) reply: Tuple,
    pub(crate) mark: u32,
    pub(crate) left: Span,
    pub(crate) track: Track,
}

impl Record {
    /// A record's length in bytes.
    pub const LEN: usize = 120;

    /// The tuple of packets that go as the connection's first one went.
    pub const fn original(&self) -> Tuple {
        self.original
    }

    /// How far it is.
    pub const fn phase(&self) -> Phase {
        self.track.phase
    }

    /// The tuple of packets that go the other way.
    pub const fn reply(&self) -> Tuple {
        self.reply
    }

    /// What its caller noted.
    pub const fn mark(&self) -> u32 {
        self.mark
    }

    /// The same with another mark: what a caller notes may mean something else at each host.
    #[must_use]
    pub const fn marked(mut self, mark: u32) -> Self {
        self.mark = mark;
        self
    }

    /// The same, its TCP windows not known: of a connection that goes on at the old host while this
    /// is underway, or of which the old host told late.
    #[must_use]
    pub const fn loosened(mut self) -> Self {
        self.track.loosen();
        self
    }

    /// The record's bytes.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let track = &self.track;
        let mut bytes = [0; Self::LEN];
        let kept = track.bits & !(bit::PERSISTS | bit::BLOCKED);
        bytes[..4].copy_from_slice(&[VERSION, track.protocol, track.phase as u8, kept]);
        bytes[4..8].copy_from_slice(&self.mark.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.left.as_nanos().to_be_bytes());
        bytes[16..52].copy_from_slice(&self.original.ends.to_bytes());
        bytes[52..88].copy_from_slice(&self.reply.ends.to_bytes());
        let numbers = [track.ends, track.limits, track.acked];
        for (place, number) in bytes[88..112].chunks_exact_mut(4).zip(numbers.as_flattened()) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        for (place, window) in bytes[112..116].chunks_exact_mut(2).zip(track.windows) {
            place.copy_from_slice(&window.to_be_bytes());
        }
        bytes[116] = track.scales;
        bytes
    }

    /// Reads a record's bytes. `None` if they contradict themselves, or are of another version.
    pub fn parse(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let [version, protocol, phase, bits, ..] = *bytes;
        let long = |at: usize| u32::from_be_bytes(core::array::from_fn(|i| bytes[at + i]));
        let short = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let pair = |at: usize| [long(at), long(at + 4)];
        let ends = |at: usize| {
            let ends = Ends::from_bytes(&core::array::from_fn(|i| bytes[at + i]));
            ends.are_alike().then_some(ends)
        };
        let track = Track {
            ends: pair(88),
            limits: pair(96),
            acked: pair(104),
            windows: [short(112), short(114)],
            phase: Phase::from_byte(phase)?,
            scales: bytes[116],
            bits,
            protocol,
        };
        let is_right = version == VERSION
            && bits & (bit::PERSISTS | bit::BLOCKED) == 0
            && bytes[117..] == [0; 3]
            && track.is_consistent();
        let (original, reply) = (ends(16)?, ends(52)?);
        is_right.then_some(Self {
            original: Tuple { ends: original, protocol },
            reply: Tuple { ends: reply, protocol },
            mark: long(4),
            left: Span::from_nanos(u64::from_be_bytes(core::array::from_fn(|i| bytes[8 + i]))),
            track,
        })
    }
}
