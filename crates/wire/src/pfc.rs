//! Priority-based flow control: the frame by which a receiver pauses some classes of its sender
//! (802.1Qbb, 802.3 annex 31D).

use units::{Class, ClassMap, Mac};
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ethernet::{self, ethertype};

/// Where MAC control goes: as far as the other end of the link.
pub const DESTINATION: Mac = Mac([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);

/// The whole frame but for its check sequence: 60 bytes.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Frame {
    /// From whom, to [`DESTINATION`].
    pub header: ethernet::Header,
    opcode: U16,
    /// The classes of which it tells something, a bit each.
    enabled: U16,
    quanta: [U16; Class::COUNT],
    padding: [u8; 26],
}

impl Frame {
    /// The frame's length in bytes.
    pub const LEN: usize = size_of::<Self>();

    const OPCODE: u16 = 0x0101;

    /// A frame that pauses each class of `told` for so many quanta of 512 bit times; 0 lets it go
    /// on.
    pub fn new(source: Mac, told: &ClassMap<Option<u16>>) -> Self {
        let enabled = Class::all().filter(|class| told[*class].is_some());
        Self {
            header: ethernet::Header::new(DESTINATION, source, ethertype::MAC_CONTROL),
            opcode: U16::new(Self::OPCODE),
            enabled: U16::new(enabled.fold(0, |bits, class| bits | 1 << class.pcp())),
            quanta: told.0.map(|quanta| U16::new(quanta.unwrap_or(0))),
            padding: [0; 26],
        }
    }

    /// What it tells of each class, in quanta.
    pub fn told(&self) -> ClassMap<Option<u16>> {
        let enabled = |class: Class| self.enabled.get() & 1 << class.pcp() != 0;
        ClassMap::from_fn(|class| enabled(class).then(|| self.quanta[class.index()].get()))
    }

    /// The frame that `frame` begins with; `None` if that is not one of PFC.
    pub fn parse(frame: &[u8]) -> Option<&Self> {
        let (it, _) = Self::ref_from_prefix(frame).ok()?;
        let is_pfc =
            it.header.ethertype.get() == ethertype::MAC_CONTROL && it.opcode.get() == Self::OPCODE;
        is_pfc.then_some(it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse_undoes_emit(source: [u8; 6], quanta: [Option<u16>; 8]) {
            let frame = Frame::new(Mac(source), &ClassMap(quanta));
            let read = Frame::parse(frame.as_bytes()).unwrap();
            prop_assert_eq!((read, read.told().0), (&frame, quanta));
        }
    }

    #[test]
    fn it_is_laid_out_as_the_standard_has_it() {
        let mut told = ClassMap([None; Class::COUNT]);
        (told.0[3], told.0[5]) = (Some(0xffff), Some(0));
        let frame = Frame::new(Mac::local(1), &told);
        let bytes = frame.as_bytes();
        assert_eq!(bytes[12..18], [0x88, 0x08, 0x01, 0x01, 0x00, 0x28]);
        assert_eq!(
            (&bytes[24..26], &bytes[28..30], bytes.len()),
            (&[0xff; 2][..], &[0; 2][..], 60)
        );
    }

    #[test]
    fn another_kind_of_mac_control_is_none() {
        let mut frame = Frame::new(Mac::local(1), &ClassMap([None; Class::COUNT]));
        frame.opcode = U16::new(1); // 802.3x: everything pauses
        assert_eq!(Frame::parse(frame.as_bytes()), None);
        assert_eq!(Frame::parse(&frame.as_bytes()[..59]), None);
    }
}
