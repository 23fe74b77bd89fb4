//! What may follow TCP's fixed header: the options that we know (IANA's registry).

use core::iter;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An option.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Choice<'a> {
    /// A byte that fills (RFC 9293 §3.1).
    Nop,
    /// The largest segment that the sender takes (RFC 9293 §3.7.1).
    MaxSegment(u16),
    /// By how many bits windows are shifted (RFC 7323 §2).
    WindowScale(u8),
    /// The sender understands selective acknowledgements (RFC 2018 §2).
    SackPermitted,
    /// What has arrived out of order (RFC 2018 §3).
    Sack(&'a [Block]),
    /// The sender's clock, and the other side's as it was last seen (RFC 7323 §3).
    Timestamps {
        /// The sender's.
        value: u32,
        /// The other side's.
        echo: u32,
    },
}

/// A stretch of sequence numbers that has arrived.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Block {
    /// The first.
    pub start: U32,
    /// The one behind the last.
    pub end: U32,
}

/// The kinds by which options are told apart.
mod kind {
    pub const END: u8 = 0;
    pub const NOP: u8 = 1;
    pub const MAX_SEGMENT: u8 = 2;
    pub const WINDOW_SCALE: u8 = 3;
    pub const SACK_PERMITTED: u8 = 4;
    pub const SACK: u8 = 5;
    pub const TIMESTAMPS: u8 = 8;
}

/// Options as they are laid out: 40 bytes at most.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    bytes: [u8; 40],
    len: usize,
}

impl Options {
    /// None.
    pub const NONE: Self = Self { bytes: [0; 40], len: 0 };

    /// Adds one more; `None` if there is no room for it.
    #[must_use]
    pub fn with(self, choice: Choice<'_>) -> Option<Self> {
        match choice {
            Choice::Nop => self.put(&[&[kind::NOP]]),
            Choice::MaxSegment(bytes) => self.put(&[&[kind::MAX_SEGMENT, 4], &bytes.to_be_bytes()]),
            Choice::WindowScale(bits) => self.put(&[&[kind::WINDOW_SCALE, 3, bits]]),
            Choice::SackPermitted => self.put(&[&[kind::SACK_PERMITTED, 2]]),
            Choice::Sack(blocks) => {
                let blocks = blocks.as_bytes();
                self.put(&[&[kind::SACK, u8::try_from(blocks.len() + 2).ok()?], blocks])
            }
            Choice::Timestamps { value, echo } => {
                self.put(&[&[kind::TIMESTAMPS, 10], &value.to_be_bytes(), &echo.to_be_bytes()])
            }
        }
    }

    fn put(mut self, pieces: &[&[u8]]) -> Option<Self> {
        for piece in pieces {
            let end = self.len + piece.len();
            self.bytes.get_mut(self.len..end)?.copy_from_slice(piece);
            self.len = end;
        }
        Some(self)
    }

    /// What follows a header that claims so many bytes of options.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The options in the bytes behind a header that we know, up to the end or what contradicts itself.
pub fn parse(mut bytes: &[u8]) -> impl Iterator<Item = Choice<'_>> {
    iter::from_fn(move || {
        loop {
            let (&kind, rest) = bytes.split_first()?;
            if kind == kind::END {
                return None;
            }
            if kind == kind::NOP {
                bytes = rest;
                return Some(Choice::Nop);
            }
            let len = usize::from(*rest.first()?);
            let value = bytes.get(2..len)?;
            bytes = &bytes[len..];
            let word =
                |place: usize| value[place..].first_chunk().map(|four| u32::from_be_bytes(*four));
            return Some(match (kind, value.len()) {
                (kind::MAX_SEGMENT, 2) => {
                    Choice::MaxSegment(u16::from_be_bytes([value[0], value[1]]))
                }
                (kind::WINDOW_SCALE, 1) => Choice::WindowScale(value[0]),
                (kind::SACK_PERMITTED, 0) => Choice::SackPermitted,
                (kind::SACK, _) => Choice::Sack(<[Block]>::ref_from_bytes(value).ok()?),
                (kind::TIMESTAMPS, 8) => Choice::Timestamps { value: word(0)?, echo: word(4)? },
                _ => continue,
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn emit(choices: &[Choice<'_>]) -> Option<Options> {
        choices.iter().try_fold(Options::NONE, |options, choice| options.with(*choice))
    }

    fn block(start: u32, end: u32) -> Block {
        Block { start: U32::new(start), end: U32::new(end) }
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(
            max: u16, bits: u8, clocks: [u32; 2], blocks in proptest::collection::vec(any::<[u32; 2]>(), 0..=1),
            order in Just([0, 1, 2, 3, 4, 5]).prop_shuffle(),
        ) {
            let blocks: Vec<Block> = blocks.into_iter().map(|[start, end]| block(start, end)).collect();
            let all = [
                Choice::Nop,
                Choice::MaxSegment(max),
                Choice::WindowScale(bits),
                Choice::SackPermitted,
                Choice::Sack(&blocks),
                Choice::Timestamps { value: clocks[0], echo: clocks[1] },
            ];
            let choices = order.map(|place| all[place]);
            let options = emit(&choices).unwrap();
            prop_assert_eq!(parse(options.as_bytes()).collect::<Vec<_>>(), choices);
        }
    }

    #[test]
    fn forty_bytes_are_enough_for_what_is_sent_together() {
        let stamps = Choice::Timestamps { value: 1, echo: 2 };
        let blocks = [block(1, 2), block(3, 4), block(5, 6), block(7, 8)];
        let data = [
            Choice::Nop,
            Choice::Nop,
            stamps,
            Choice::Nop,
            Choice::Nop,
            Choice::Sack(&blocks[..3]),
        ];
        assert_eq!(emit(&data).unwrap().as_bytes().len(), 40);
        assert_eq!(emit(&[stamps, Choice::Sack(&blocks)]), None);
    }

    #[test]
    fn what_is_unknown_is_passed_over_and_nonsense_is_the_end() {
        let read = |bytes: &[u8]| {
            parse(bytes).map(|choice| matches!(choice, Choice::SackPermitted)).collect::<Vec<_>>()
        };
        assert_eq!(read(&[254, 4, 9, 9, 4, 2]), [true], "an experiment comes first");
        assert_eq!(read(&[4, 2, 0, 4, 2]), [true], "behind the end lies nothing");
        for nonsense in [&[4][..], &[4, 0], &[4, 1], &[8, 10, 0], &[5, 9, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(read(nonsense), [], "{nonsense:?}");
        }
    }
}
