//! VXLAN (RFC 7348 §5): a frame of a virtual network behind a UDP header.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The UDP port of a tunnel's end.
pub const PORT: u16 = 4789;

/// The header: 8 bytes, and a whole frame behind them.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Header {
    flags: u8,
    reserved: [u8; 3],
    vni: [u8; 3],
    reserved_too: u8,
}

impl Header {
    /// The header's length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// Says that the network's number counts.
    const HAS_VNI: u8 = 0x08;

    /// The header of a frame of network `vni`, which has 24 bits; `None` if it has more.
    pub const fn new(vni: u32) -> Option<Self> {
        let [0, a, b, c] = vni.to_be_bytes() else { return None };
        Some(Self { flags: Self::HAS_VNI, reserved: [0; 3], vni: [a, b, c], reserved_too: 0 })
    }

    /// The network's number; `None` if the header says that it does not count.
    pub const fn vni(&self) -> Option<u32> {
        let [a, b, c] = self.vni;
        if self.flags & Self::HAS_VNI == 0 { None } else { Some(u32::from_be_bytes([0, a, b, c])) }
    }

    /// The header and the frame behind it that `bytes`, a datagram's payload, are; `None` if they
    /// are too short.
    pub fn parse(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        Self::ref_from_prefix(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse_undoes_emit(vni in 0u32..1 << 24, frame: Vec<u8>) {
            let header = Header::new(vni).unwrap();
            let bytes = [header.as_bytes(), &frame].concat();
            prop_assert_eq!(Header::parse(&bytes), Some((&header, &frame[..])));
            prop_assert_eq!(header.vni(), Some(vni));
        }
    }

    #[test]
    fn a_network_has_24_bits_and_a_flag_that_says_so() {
        assert_eq!(Header::new(1 << 24), None);
        assert_eq!(Header::parse(&[0, 0, 0, 0, 0, 0, 7, 0]).unwrap().0.vni(), None);
    }
}
