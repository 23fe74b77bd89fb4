//! Geneve (RFC 8926): a frame of a virtual network behind a UDP header, with options that say more
//! of it.
//!
//! ```text
//! │ udp │ version, options' length │ O C │ protocol │ VNI │ option │ option │ … │ frame │
//!                                                          └ class, type, length, data
//! ```

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ethernet::ethertype;

/// The UDP port of a tunnel's end (RFC 8926 §3.3).
pub const PORT: u16 = 6081;

/// The most that all options of a packet have together, in bytes (RFC 8926 §3.4, "Opt Len").
pub const MOST_OPTIONS_LEN: usize = 63 * 4;

/// The most data of one option, in bytes (RFC 8926 §3.5, "Length").
pub const MOST_DATA_LEN: usize = 31 * 4;

/// The fixed part of the header: 8 bytes (RFC 8926 §3.4).
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// "Ver", 2 bits: 0; "Opt Len", 6 bits: the options' length in units of 4 bytes.
    version_and_options: u8,
    /// [`CONTROL`](Self::CONTROL), [`CRITICAL`](Self::CRITICAL), and 6 reserved bits.
    flags: u8,
    /// "Protocol Type": what follows the options, an EtherType.
    pub protocol: U16,
    /// "Virtual Network Identifier".
    vni: [u8; 3],
    /// "Reserved": 0 when sent, ignored when received.
    reserved: u8,
}

impl Header {
    /// The fixed part's length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// "O": it is a message between the tunnel's ends.
    const CONTROL: u8 = 0x80;

    /// "C": an option is critical.
    const CRITICAL: u8 = 0x40;

    /// The number of the virtual network, which has 24 bits.
    pub const fn vni(&self) -> u32 {
        let [a, b, c] = self.vni;
        u32::from_be_bytes([0, a, b, c])
    }

    /// Whether it is a control packet, for the tunnel's end itself and never to be forwarded.
    pub const fn is_control(&self) -> bool {
        self.flags & Self::CONTROL != 0
    }

    /// Whether some option is critical: who does not look at options must drop the packet.
    pub const fn has_critical(&self) -> bool {
        self.flags & Self::CRITICAL != 0
    }

    const fn options_len(&self) -> usize {
        (self.version_and_options & 0x3f) as usize * 4
    }
}

/// What begins an option: 4 bytes (RFC 8926 §3.5).
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
struct OptionHeader {
    /// "Option Class": who says what the types mean.
    class: U16,
    /// "Type", whose highest bit says that the option is critical.
    kind: u8,
    /// "R", 3 bits: 0 when sent, ignored when received; "Length", 5 bits: the data's length in
    /// units of 4 bytes.
    len: u8,
}

/// An option (RFC 8926 §3.5).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TunnelOption<'a> {
    /// Who says what the types mean (IANA's registry); from 0xff00 on, anyone for experiments.
    pub class: u16,
    /// What it is within its class, critical bit included.
    pub kind: u8,
    /// What it says, a multiple of 4 bytes.
    pub data: &'a [u8],
}

impl<'a> TunnelOption<'a> {
    /// The bit of a type that says that who does not know the option must drop the packet.
    pub const CRITICAL: u8 = 0x80;

    /// Whether who does not know the option must drop the packet.
    pub const fn is_critical(&self) -> bool {
        self.kind & Self::CRITICAL != 0
    }

    /// The option that `bytes` begin with and what follows it; `None` if it is cut short.
    fn parse(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = OptionHeader::ref_from_prefix(bytes).ok()?;
        let (data, rest) = rest.split_at_checked(usize::from(header.len & 0x1f) * 4)?;
        Some((Self { class: header.class.get(), kind: header.kind, data }, rest))
    }
}

/// The options of a packet, in their order: none of them is cut short.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// The options that `bytes` are; `None` if the last is cut short: their lengths do not add up,
    /// and the packet must be dropped (RFC 8926 §3.5).
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        while !rest.is_empty() {
            (_, rest) = TunnelOption::parse(rest)?;
        }
        Some(Self(bytes))
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = TunnelOption<'a>;

    fn next(&mut self) -> Option<TunnelOption<'a>> {
        let (option, rest) = TunnelOption::parse(self.0)?;
        self.0 = rest;
        Some(option)
    }
}

/// A packet whose lengths lie inside its bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<'a> {
    /// The fixed part of the header.
    pub header: &'a Header,
    /// What else is said of the payload.
    pub options: Options<'a>,
    /// What [`Header::protocol`] announces.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The packet that `bytes`, a datagram's payload, are; `None` if they are of an unknown
    /// version, cut short, or the options' lengths do not add up to what the header says: all of
    /// these are to be dropped (RFC 8926 §3.4, §3.5).
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = Header::ref_from_prefix(bytes).ok()?;
        let (options, payload) = rest.split_at_checked(header.options_len())?;
        let is_known = header.version_and_options >> 6 == 0;
        Some(Self { header, options: Options::parse(options)?, payload }).filter(|_| is_known)
    }

    /// The first critical option that the caller does not know by its class and type, for which the
    /// packet must be dropped (RFC 8926 §3.5, §3.5.1). Its own bit counts, whatever the header
    /// says.
    pub fn unknown_critical(&self, is_known: impl Fn(u16, u8) -> bool) -> Option<TunnelOption<'a>> {
        let mut options = self.options;
        options.find(|option| option.is_critical() && !is_known(option.class, option.kind))
    }
}

/// A header that is being written, options and all.
#[derive(Clone, Debug)]
pub struct Draft {
    header: Header,
    options: [u8; MOST_OPTIONS_LEN],
}

impl Draft {
    /// The header of a frame of network `vni`, which has 24 bits; `None` if it has more.
    pub const fn new(vni: u32) -> Option<Self> {
        let [0, a, b, c] = vni.to_be_bytes() else { return None };
        let protocol = U16::new(ethertype::BRIDGED);
        let header =
            Header { version_and_options: 0, flags: 0, protocol, vni: [a, b, c], reserved: 0 };
        Some(Self { header, options: [0; MOST_OPTIONS_LEN] })
    }

    /// The header of a control packet, which carries what `protocol` says between the tunnel's
    /// ends.
    pub const fn for_control(mut self, protocol: u16) -> Self {
        self.header.flags |= Header::CONTROL;
        self.header.protocol = U16::new(protocol);
        self
    }

    /// The header of something else than a frame: `protocol` says what.
    pub const fn carrying(mut self, protocol: u16) -> Self {
        self.header.protocol = U16::new(protocol);
        self
    }

    /// Adds an option. `false` if there is no room for it, or its data are longer than
    /// [`MOST_DATA_LEN`] or no multiple of 4 bytes.
    pub fn add(&mut self, option: TunnelOption<'_>) -> bool {
        let TunnelOption { class, kind, data } = option;
        let at = self.header.options_len();
        let len = size_of::<OptionHeader>() + data.len();
        if !data.len().is_multiple_of(4)
            || data.len() > MOST_DATA_LEN
            || len > MOST_OPTIONS_LEN - at
        {
            return false;
        }
        let header = OptionHeader { class: U16::new(class), kind, len: (data.len() / 4) as u8 };
        let (head, body) = self.options[at..at + len].split_at_mut(size_of::<OptionHeader>());
        head.copy_from_slice(header.as_bytes());
        body.copy_from_slice(data);
        self.header.version_and_options += (len / 4) as u8;
        if option.is_critical() {
            self.header.flags |= Header::CRITICAL;
        }
        true
    }

    /// The fixed part, as it is so far.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The header's two parts, the fixed one and the options.
    pub fn parts(&self) -> [&[u8]; 2] {
        [self.header.as_bytes(), &self.options[..self.header.options_len()]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::collection::vec as vecs;
    use proptest::prelude::*;

    fn packet(draft: &Draft, payload: &[u8]) -> Vec<u8> {
        let [header, options] = draft.parts();
        [header, options, payload].concat()
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(
            vni in 0u32..1 << 24,
            control: Option<u16>,
            options in vecs((any::<u16>(), any::<u8>(), vecs(any::<[u8; 4]>(), 0..=31)), 0..8),
            payload: Vec<u8>,
        ) {
            let mut draft = Draft::new(vni).unwrap();
            if let Some(protocol) = control {
                draft = draft.for_control(protocol);
            }
            let options: Vec<_> = options
                .iter()
                .map(|(class, kind, data)| TunnelOption { class: *class, kind: *kind, data: data.as_flattened() })
                .collect();
            let fit: Vec<_> = options.into_iter().filter(|option| draft.add(*option)).collect();
            let bytes = packet(&draft, &payload);
            let packet = Packet::parse(&bytes).unwrap();
            prop_assert_eq!((packet.header.vni(), packet.payload), (vni, &payload[..]));
            prop_assert_eq!(packet.header.protocol.get(), control.unwrap_or(0x6558));
            prop_assert_eq!(packet.header.is_control(), control.is_some());
            prop_assert_eq!(packet.header.has_critical(), fit.iter().any(TunnelOption::is_critical));
            prop_assert_eq!(packet.options.collect::<Vec<_>>(), fit);
        }

        #[test]
        fn lengths_lie_inside(bytes: Vec<u8>, options in 0u8..6) {
            let bytes = [&[options, 0, 0x65, 0x58, 0, 0, 7, 0], &bytes[..]].concat();
            if let Some(packet) = Packet::parse(&bytes) {
                let read: usize = packet.options.map(|option| 4 + option.data.len()).sum();
                prop_assert_eq!(read, usize::from(options) * 4);
                prop_assert_eq!(Header::LEN + read + packet.payload.len(), bytes.len());
            }
        }
    }

    #[test]
    fn it_is_laid_out_as_the_standard_has_it() {
        let mut draft = Draft::new(0x12_3456).unwrap();
        assert!(draft.add(TunnelOption { class: 0xff01, kind: 0x82, data: &[1, 2, 3, 4] }));
        let expected = [2, 0x40, 0x65, 0x58, 0x12, 0x34, 0x56, 0, 0xff, 1, 0x82, 1, 1, 2, 3, 4];
        assert_eq!(packet(&draft, &[]), expected);
        assert_eq!(draft.for_control(0x0800).parts()[0][..4], [2, 0xc0, 8, 0]);
    }

    #[test]
    fn a_network_has_24_bits_and_options_have_room() {
        assert!(Draft::new(1 << 24).is_none());
        let option = |len| TunnelOption { class: 1, kind: 1, data: &[0; 200][..len] };
        let mut draft = Draft::new(7).unwrap();
        for (len, fits) in
            [(3, false), (MOST_DATA_LEN + 4, false), (MOST_DATA_LEN, true), (124, false)]
        {
            assert_eq!(draft.add(option(len)), fits, "{len}");
        }
        assert!(draft.add(option(120)));
        assert_eq!(draft.parts()[1].len(), MOST_OPTIONS_LEN);
        assert!(!draft.add(option(0)));
        assert!(Packet::parse(&packet(&draft, &[])).is_some());
    }

    #[test]
    fn what_must_be_dropped_is_none() {
        let good = vec![2, 0, 0x65, 0x58, 0, 0, 7, 0, 0, 1, 1, 1, 0, 0, 0, 0];
        assert!(Packet::parse(&good).is_some());
        assert!(Packet::parse(&good[..15]).is_none(), "cut short");
        assert!(Packet::parse(&good[..7]).is_none(), "cut shorter");
        for (at, byte, why) in
            [(0, 0x42, "version 1"), (11, 2, "past the options"), (0, 1, "within the option")]
        {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(Packet::parse(&bad).is_none(), "{why}");
        }
        // The reserved bits mean nothing yet.
        let mut reserved = good.clone();
        (reserved[1], reserved[7], reserved[11]) = (0x3f, 0xff, 0xe1);
        assert!(Packet::parse(&reserved).is_some());
    }

    #[test]
    fn a_critical_option_that_nobody_knows_is_told() {
        let mut draft = Draft::new(7).unwrap();
        let [harmless, known, unknown] = [(1, 2), (1, 0x83), (2, 0x83)]
            .map(|(class, kind)| TunnelOption { class, kind, data: &[] });
        for option in [harmless, known, unknown] {
            assert!(draft.add(option));
        }
        let bytes = packet(&draft, &[]);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(packet.unknown_critical(|class, _| class == 1), Some(unknown));
        assert_eq!(packet.unknown_critical(|_, kind| kind == 0x83), None);
    }
}
