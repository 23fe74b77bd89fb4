//! GRE (RFC 2784, with the key and sequence number of RFC 2890), and NVGRE, which carries frames in
//! it (RFC 7637).
//!
//! ```text
//! │ ip │ C K S, version │ protocol │ (checksum, 0) │ (key) │ (sequence number) │ payload │
//!                                                      └ NVGRE: VSID, FlowID
//! ```

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::Sum;
use crate::ethernet::ethertype;

/// What every header begins with: 4 bytes (RFC 2784 §2.1).
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
struct Base {
    /// [`CHECKSUM`], [`KEY`] and [`SEQUENCE`]; [`FORBIDDEN`].
    flags: U16,
    protocol: U16,
}

/// "Checksum Present" (RFC 2784 §2.2).
const CHECKSUM: u16 = 0x8000;
/// "Key Present" (RFC 2890 §2).
const KEY: u16 = 0x2000;
/// "Sequence Number Present" (RFC 2890 §2).
const SEQUENCE: u16 = 0x1000;
/// Bits 1, 4 and 5, for whose sake a receiver that does not know RFC 1701 drops the packet (RFC
/// 2784 §2.3), and the version, which is 0 (§2.3.1). The other reserved bits are ignored.
const FORBIDDEN: u16 = 0x4c07;

/// What a header says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// "Protocol Type": what follows, an EtherType (RFC 2784 §2.4).
    pub protocol: u16,
    /// Over header and payload (RFC 2784 §2.5): of a packet where it is right, [`Sum`]'s checksum
    /// is 0.
    pub checksum: Option<u16>,
    /// Tells flows of one tunnel from another (RFC 2890 §2.1).
    pub key: Option<u32>,
    /// Which packet it is of those with its key (RFC 2890 §2.2).
    pub sequence: Option<u32>,
}

impl Header {
    /// The longest header's length in bytes.
    pub const LONGEST: usize = 16;

    /// The header of what `protocol` says, and nothing else.
    pub const fn new(protocol: u16) -> Self {
        Self { protocol, checksum: None, key: None, sequence: None }
    }

    /// The header and the payload that `bytes`, an IP packet's payload, are; `None` if they are cut
    /// short or must be dropped (RFC 2784 §2.3).
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (base, mut rest) = Base::ref_from_prefix(bytes).ok()?;
        let flags = base.flags.get();
        if flags & FORBIDDEN != 0 {
            return None;
        }
        let mut field = |flag| {
            if flags & flag == 0 {
                return Some(None);
            }
            let (word, behind) = U32::ref_from_prefix(rest).ok()?;
            rest = behind;
            Some(Some(word.get()))
        };
        let header = Self {
            protocol: base.protocol.get(),
            // "Reserved1" is its lower half.
            checksum: field(CHECKSUM)?.map(|word| (word >> 16) as u16),
            key: field(KEY)?,
            sequence: field(SEQUENCE)?,
        };
        Some((header, rest))
    }

    /// The same header with the checksum of itself before `payload`.
    pub fn with_checksum(mut self, payload: &[u8]) -> Self {
        self.checksum = Some(0);
        let (words, len) = self.words();
        self.checksum = Some((Sum::of(&words.as_bytes()[..len]) + Sum::of(payload)).checksum());
        self
    }

    /// Writes the header to the beginning of `buffer` and returns it; `None` if it has no room
    /// there. [`LONGEST`](Self::LONGEST) bytes suffice.
    pub fn write<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b mut [u8]> {
        let (words, len) = self.words();
        let out = buffer.get_mut(..len)?;
        out.copy_from_slice(&words.as_bytes()[..len]);
        Some(out)
    }

    /// The header in words, and its length in bytes.
    fn words(&self) -> ([U32; Self::LONGEST / 4], usize) {
        let fields = [
            (CHECKSUM, self.checksum.map(|checksum| u32::from(checksum) << 16)),
            (KEY, self.key),
            (SEQUENCE, self.sequence),
        ];
        let mut words = [U32::ZERO; Self::LONGEST / 4];
        let (mut flags, mut count) = (0, 1);
        for (flag, field) in fields {
            if let Some(field) = field {
                flags |= flag;
                words[count].set(field);
                count += 1;
            }
        }
        words[0].set(u32::from(flags) << 16 | u32::from(self.protocol));
        (words, count * 4)
    }
}

/// What NVGRE makes of GRE's key (RFC 7637 §3.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VirtualSubnet {
    /// "Virtual Subnet ID": the number of the virtual network, of 24 bits. Those up to 0xfff and
    /// the highest are reserved.
    vsid: u32,
    /// "FlowID": the same for all frames of a flow, so that they take one way; 0 if nobody says.
    pub flow_id: u8,
}

impl VirtualSubnet {
    /// A flow of network `vsid`, which has 24 bits; `None` if it has more.
    pub const fn new(vsid: u32, flow_id: u8) -> Option<Self> {
        if vsid < 1 << 24 { Some(Self { vsid, flow_id }) } else { None }
    }

    /// The number of the virtual network.
    pub const fn vsid(&self) -> u32 {
        self.vsid
    }

    /// The header of a frame of this network.
    pub const fn header(&self) -> Header {
        let key = self.vsid << 8 | self.flow_id as u32;
        Header { key: Some(key), ..Header::new(ethertype::BRIDGED) }
    }

    /// What a header says of a frame's network; `None` if it is none of NVGRE, which has a key and
    /// neither of the other fields.
    pub const fn of(header: &Header) -> Option<Self> {
        let Header { protocol: ethertype::BRIDGED, checksum: None, key: Some(key), sequence: None } =
            *header
        else {
            return None;
        };
        Some(Self { vsid: key >> 8, flow_id: key as u8 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn packet(header: &Header, payload: &[u8]) -> Vec<u8> {
        let mut buffer = [0; Header::LONGEST];
        [header.write(&mut buffer).unwrap(), payload].concat()
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(
            protocol: u16, key: Option<u32>, sequence: Option<u32>, has_checksum: bool, payload: Vec<u8>,
        ) {
            let mut header = Header { key, sequence, ..Header::new(protocol) };
            if has_checksum {
                header = header.with_checksum(&payload);
            }
            let bytes = packet(&header, &payload);
            prop_assert_eq!(Header::parse(&bytes), Some((header, &payload[..])));
            prop_assert!(!has_checksum || Sum::of(&bytes).checksum() == 0);
            let header_len = bytes.len() - payload.len();
            for len in 0..header_len {
                prop_assert_eq!(Header::parse(&bytes[..len]), None);
                prop_assert!(header.write(&mut [0; Header::LONGEST][..len]).is_none());
            }
        }

        #[test]
        fn a_virtual_subnet_is_its_key(vsid in 0u32..1 << 24, flow_id: u8) {
            let subnet = VirtualSubnet::new(vsid, flow_id).unwrap();
            prop_assert_eq!(VirtualSubnet::of(&subnet.header()), Some(subnet));
            prop_assert_eq!(subnet.vsid(), vsid);
        }
    }

    #[test]
    fn it_is_laid_out_as_the_standards_have_it() {
        let subnet = VirtualSubnet::new(0x12_3456, 0x78).unwrap();
        let expected = [0x20, 0, 0x65, 0x58, 0x12, 0x34, 0x56, 0x78];
        assert_eq!(packet(&subnet.header(), &[]), expected);
        let all =
            Header { checksum: Some(0xabcd), key: Some(1), sequence: Some(2), protocol: 0x0800 };
        assert_eq!(packet(&all, &[]), [0xb0, 0, 8, 0, 0xab, 0xcd, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]);
    }

    #[test]
    fn a_network_has_24_bits_and_nvgre_a_key_alone() {
        assert_eq!(VirtualSubnet::new(1 << 24, 0), None);
        let header = VirtualSubnet::new(7, 0).unwrap().header();
        for other in [
            Header { key: None, ..header },
            Header { sequence: Some(1), ..header },
            header.with_checksum(&[]),
            Header { protocol: ethertype::IPV4, ..header },
        ] {
            assert_eq!(VirtualSubnet::of(&other), None);
        }
    }

    #[test]
    fn what_must_be_dropped_is_none_and_the_rest_is_ignored() {
        for bit in 0..16 {
            let bytes = [&(1u16 << bit).to_be_bytes()[..], &[0x65, 0x58], &[0; 4]].concat();
            // RFC 2784 numbers the bits from the highest: routing, 4 and 5, and the version's
            // three.
            let dropped = [14, 11, 10, 2, 1, 0].contains(&bit);
            assert_eq!(Header::parse(&bytes).is_none(), dropped, "bit {bit}");
        }
    }
}
