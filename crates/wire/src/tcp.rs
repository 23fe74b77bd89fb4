//! TCP headers (RFC 9293 §3.1).

pub mod options;

use core::ops::{BitOr, BitOrAssign};

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The control bits.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    PartialEq,
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// The sequence number is the first.
    pub const SYN: Self = Self(0x02);
    /// The connection is void.
    pub const RST: Self = Self(0x04);
    /// Hand the data over now.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment number counts.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x20);
    /// Congestion was seen (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// The congestion window was reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    pub const fn any(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// These flags but `flags`.
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, flags: Self) {
        self.0 |= flags.0;
    }
}

/// The fixed part of the header: 20 bytes.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// From which port.
    pub source: U16,
    /// To which port.
    pub destination: U16,
    /// The number of the first byte of data.
    pub sequence: U32,
    /// The number of the byte expected next.
    pub acknowledgment: U32,
    words: u8,
    /// The control bits.
    pub flags: Flags,
    /// How much the sender would take, unscaled.
    pub window: U16,
    /// Over pseudo-header, header, options and data.
    pub checksum: U16,
    /// Where urgent data ends.
    pub urgent: U16,
}

impl Header {
    /// The fixed part's length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// Where the checksum lies in the header.
    pub const CHECKSUM_OFFSET: u16 = 16;

    /// A header without options that acknowledges nothing, all else zero.
    pub const fn new(source: u16, destination: u16, sequence: u32, flags: Flags) -> Self {
        Self {
            source: U16::new(source),
            destination: U16::new(destination),
            sequence: U32::new(sequence),
            acknowledgment: U32::ZERO,
            words: 5 << 4,
            flags,
            window: U16::ZERO,
            checksum: U16::ZERO,
            urgent: U16::ZERO,
        }
    }

    /// The length of header and options in bytes, as the header claims.
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    pub const fn len(&self) -> usize {
        (self.words >> 4) as usize * 4
    }

    /// The same header, claiming `options_len` bytes of options; `None` unless that is a multiple
    /// of 4 up to 40.
    pub const fn with_options(mut self, options_len: usize) -> Option<Self> {
        if options_len > 40 || !options_len.is_multiple_of(4) {
            return None;
        }
        self.words = ((Self::LEN + options_len) as u8 / 4) << 4;
        Some(self)
    }
}

/// A segment whose lengths lie inside its bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segment<'a> {
    /// The fixed header.
    pub header: &'a Header,
    /// Options, a multiple of 4 bytes.
    pub options: &'a [u8],
    /// Data.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// The segment that `bytes`, an IP packet's payload, are; `None` if it is cut short or
    /// contradicts itself.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, _) = Header::ref_from_prefix(bytes).ok()?;
        let options = bytes.get(Header::LEN..header.len())?;
        let payload = bytes.get(header.len()..)?;
        Some(Self { header, options, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse_undoes_emit(
            ports: [u16; 2], sequence: u32, flags: u8, words in 0usize..=10, payload: Vec<u8>,
        ) {
            let options = alloc::vec![1; words * 4];
            let header = Header::new(ports[0], ports[1], sequence, Flags(flags));
            let header = header.with_options(options.len()).unwrap();
            let bytes = [header.as_bytes(), &options, &payload].concat();
            let segment = Segment { header: &header, options: &options, payload: &payload };
            prop_assert_eq!(Segment::parse(&bytes), Some(segment));
        }
    }

    #[test]
    fn an_offset_into_the_header_or_past_the_end_is_malformed() {
        let header = Header::new(1, 2, 3, Flags::SYN);
        assert!(Segment::parse(header.as_bytes()).is_some());
        assert!(Segment::parse(header.with_options(4).unwrap().as_bytes()).is_none());
        assert!(Segment::parse(Header { words: 4 << 4, ..header }.as_bytes()).is_none());
        assert_eq!(header.with_options(3), None);
        assert_eq!(header.with_options(44), None);
    }
}
