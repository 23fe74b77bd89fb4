//! PAUSE: the frame by which a receiver pauses all that its sender sends (802.3 annex 31B).
//! [`pfc`](crate::pfc) is its kin that tells classes apart.

use units::Mac;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ethernet::{self, ethertype};
use crate::pfc::DESTINATION;

/// The whole frame but for its check sequence: 60 bytes (802.3 §31.4.1).
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Frame {
    /// From whom, to [`DESTINATION`].
    pub header: ethernet::Header,
    opcode: U16,
    /// For how long, in quanta of 512 bit times (802.3 §31B.2); 0 lets the sender go on.
    pub quanta: U16,
    padding: [u8; 42],
}

const _: () = assert!(size_of::<Frame>() == 60);

impl Frame {
    const OPCODE: u16 = 0x0001;

    /// A frame that pauses everything for so many quanta.
    pub const fn new(source: Mac, quanta: u16) -> Self {
        Self {
            header: ethernet::Header::new(DESTINATION, source, ethertype::MAC_CONTROL),
            opcode: U16::new(Self::OPCODE),
            quanta: U16::new(quanta),
            padding: [0; 42],
        }
    }

    /// The frame that `frame` begins with; `None` if that is no PAUSE.
    pub fn parse(frame: &[u8]) -> Option<&Self> {
        let (it, _) = Self::ref_from_prefix(frame).ok()?;
        let says = (it.header.ethertype.get(), it.opcode.get());
        (says == (ethertype::MAC_CONTROL, Self::OPCODE)).then_some(it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pfc;
    use proptest::prelude::*;
    use units::ClassMap;

    proptest! {
        #[test]
        fn parse_undoes_emit(source: [u8; 6], quanta: u16) {
            let frame = Frame::new(Mac(source), quanta);
            prop_assert_eq!(Frame::parse(frame.as_bytes()), Some(&frame));
            prop_assert_eq!(frame.quanta.get(), quanta);
        }
    }

    #[test]
    fn it_is_laid_out_as_the_standard_has_it() {
        let frame = Frame::new(Mac::local(1), 0x1234);
        let expected =
            [&[1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 8, 0, 1, 0x12, 0x34][..], &[0; 42]];
        assert_eq!(frame.as_bytes(), expected.concat());
    }

    #[test]
    fn the_two_kinds_of_pauses_are_told_apart() {
        let (all, some) =
            (Frame::new(Mac::local(1), 1), pfc::Frame::new(Mac::local(1), &ClassMap([None; 8])));
        assert_eq!(Frame::parse(some.as_bytes()), None);
        assert_eq!(pfc::Frame::parse(all.as_bytes()), None);
        assert_eq!(Frame::parse(&all.as_bytes()[..59]), None);
    }
}
