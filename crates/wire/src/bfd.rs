//! Bidirectional forwarding detection (RFC 5880), by which the two ends of a way tell one another
//! that it works; over one hop in UDP (RFC 5881).

use core::ops::RangeInclusive;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The UDP port of control packets over one hop (RFC 5881 §4).
pub const PORT: u16 = 3784;

/// The UDP ports that they come from; a session keeps its own (RFC 5881 §4).
pub const SOURCE_PORTS: RangeInclusive<u16> = 49_152..=65_535;

/// The hops left that their IP header says when sent and, unless the session authenticates them,
/// when received: one from further away would have less (RFC 5881 §5).
pub const TTL: u8 = 255;

/// What a system makes of a session (RFC 5880 §4.1, "Sta").
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum State {
    /// Held down by its operator.
    AdminDown = 0,
    /// Nothing was heard.
    Down = 1,
    /// The other end was heard, and may not have heard us.
    Init = 2,
    /// Both ends hear one another.
    Up = 3,
}

/// Why a session's state changed last (RFC 5880 §4.1, "Diag"); 5 bits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Diagnostic(u8);

impl Diagnostic {
    /// For no reason.
    pub const NONE: Self = Self(0);
    /// Nothing was heard for the detection time.
    pub const DETECTION_TIME_EXPIRED: Self = Self(1);
    /// An echo did not come back.
    pub const ECHO_FAILED: Self = Self(2);
    /// The other end said that it is down.
    pub const NEIGHBOR_SIGNALED_DOWN: Self = Self(3);
    /// The forwarding plane was reset.
    pub const FORWARDING_PLANE_RESET: Self = Self(4);
    /// The way is known to be down by other means.
    pub const PATH_DOWN: Self = Self(5);
    /// What the way is joined to is down.
    pub const CONCATENATED_PATH_DOWN: Self = Self(6);
    /// Its operator holds it down.
    pub const ADMINISTRATIVELY_DOWN: Self = Self(7);
    /// What the way back is joined to is down.
    pub const REVERSE_CONCATENATED_PATH_DOWN: Self = Self(8);

    /// The reason with this number (IANA's registry); of more than 5 bits the lowest count.
    pub const fn from_low_bits(number: u8) -> Self {
        Self(number & 0x1f)
    }

    /// The reason's number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The reason's name in statuses; `unassigned` if nobody knows what the number means.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NONE => "none",
            Self::DETECTION_TIME_EXPIRED => "detection_time_expired",
            Self::ECHO_FAILED => "echo_failed",
            Self::NEIGHBOR_SIGNALED_DOWN => "neighbor_signaled_down",
            Self::FORWARDING_PLANE_RESET => "forwarding_plane_reset",
            Self::PATH_DOWN => "path_down",
            Self::CONCATENATED_PATH_DOWN => "concatenated_path_down",
            Self::ADMINISTRATIVELY_DOWN => "administratively_down",
            Self::REVERSE_CONCATENATED_PATH_DOWN => "reverse_concatenated_path_down",
            _ => "unassigned",
        }
    }
}

/// What a packet says yes to (RFC 5880 §4.1).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Flags {
    /// "P": answer at once.
    pub poll: bool,
    /// "F": it is the answer to a poll. Never together with one (§6.8.7).
    pub is_final: bool,
    /// "C": the sender's forwarding plane does this on its own.
    pub control_plane_independent: bool,
    /// "D": the sender wants no periodic packets while the session is up.
    pub demand: bool,
}

/// The mandatory section: 24 bytes (RFC 5880 §4.1).
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// "Vers", 3 bits: 1; "Diag", 5 bits.
    version_and_diagnostic: u8,
    /// "Sta", 2 bits; "P", "F", "C", "A", "D", "M".
    state_and_flags: u8,
    /// "Detect Mult": once so many packets in a row are missing, the session is down; never 0.
    pub detect_multiplier: u8,
    /// "Length": of the packet, in bytes.
    len: u8,
    /// "My Discriminator": the sender's number of the session; never 0.
    pub my_discriminator: U32,
    /// "Your Discriminator": the receiver's number of the session; 0 while the sender does not know
    /// it.
    pub your_discriminator: U32,
    /// "Desired Min TX Interval": no shorter time does the sender want between its packets, in
    /// microseconds.
    pub desired_min_tx: U32,
    /// "Required Min RX Interval": no shorter time can the sender take between packets, in
    /// microseconds; 0: it wants none.
    pub required_min_rx: U32,
    /// "Required Min Echo RX Interval": no shorter time can the sender take between echoes, in
    /// microseconds; 0: it sends none back.
    pub required_min_echo_rx: U32,
}

const POLL: u8 = 0x20;
const FINAL: u8 = 0x10;
const CONTROL_PLANE_INDEPENDENT: u8 = 0x08;
const AUTHENTICATED: u8 = 0x04;
const DEMAND: u8 = 0x02;
const MULTIPOINT: u8 = 0x01;

impl Header {
    /// The mandatory section's length in bytes.
    pub const LEN: usize = size_of::<Self>();

    const VERSION: u8 = 1;

    /// A packet without authentication of session `my_discriminator`, with a multiplier of 1 and
    /// all else 0.
    pub const fn new(
        state: State,
        diagnostic: Diagnostic,
        flags: Flags,
        my_discriminator: u32,
    ) -> Self {
        let Flags { poll, is_final, control_plane_independent, demand } = flags;
        Self {
            version_and_diagnostic: Self::VERSION << 5 | diagnostic.0,
            state_and_flags: (state as u8) << 6
                | if poll { POLL } else { 0 }
                | if is_final { FINAL } else { 0 }
                | if control_plane_independent { CONTROL_PLANE_INDEPENDENT } else { 0 }
                | if demand { DEMAND } else { 0 },
            detect_multiplier: 1,
            len: Self::LEN as u8,
            my_discriminator: U32::new(my_discriminator),
            your_discriminator: U32::ZERO,
            desired_min_tx: U32::ZERO,
            required_min_rx: U32::ZERO,
            required_min_echo_rx: U32::ZERO,
        }
    }

    /// The same packet, followed by a section of [`KeyedSha1`].
    #[must_use]
    pub const fn authenticated(mut self) -> Self {
        self.state_and_flags |= AUTHENTICATED;
        self.len = (Self::LEN + KeyedSha1::LEN) as u8;
        self
    }

    /// What the sender makes of the session.
    pub const fn state(&self) -> State {
        match self.state_and_flags >> 6 {
            0 => State::AdminDown,
            1 => State::Down,
            2 => State::Init,
            _ => State::Up,
        }
    }

    /// Why that changed last.
    pub const fn diagnostic(&self) -> Diagnostic {
        Diagnostic::from_low_bits(self.version_and_diagnostic)
    }

    /// What else it says.
    pub const fn flags(&self) -> Flags {
        Flags {
            poll: self.has(POLL),
            is_final: self.has(FINAL),
            control_plane_independent: self.has(CONTROL_PLANE_INDEPENDENT),
            demand: self.has(DEMAND),
        }
    }

    const fn has(&self, flag: u8) -> bool {
        self.state_and_flags & flag != 0
    }

    /// Whether nothing about the mandatory section alone forbids it (RFC 5880 §6.8.6).
    const fn is_valid(&self) -> bool {
        let knows_us = self.your_discriminator.get() != 0;
        self.version_and_diagnostic >> 5 == Self::VERSION
            && self.detect_multiplier != 0
            && !self.has(MULTIPOINT)
            && self.my_discriminator.get() != 0
            && (knows_us || matches!(self.state(), State::Down | State::AdminDown))
    }
}

/// The authentication section of meticulous keyed SHA1 (RFC 5880 §4.4, §6.7.4).
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct KeyedSha1 {
    kind: u8,
    len: u8,
    /// "Auth Key ID": which key it is.
    pub key: u8,
    reserved: u8,
    /// "Sequence Number": one more than that of the packet before.
    pub sequence: U32,
    /// "Auth Key/Hash": SHA1 of the packet with the key in this place.
    pub digest: [u8; 20],
}

impl KeyedSha1 {
    /// The section's length in bytes.
    pub const LEN: usize = size_of::<Self>();

    const METICULOUS: u8 = 5;

    /// A section by this key, with what is in the place of the digest.
    pub const fn new(key: u8, sequence: u32, digest: [u8; 20]) -> Self {
        let len = Self::LEN as u8;
        let sequence = U32::new(sequence);
        Self { kind: Self::METICULOUS, len, key, reserved: 0, sequence, digest }
    }

    /// The same section with this in the place of the digest.
    #[must_use]
    pub const fn with_digest(self, digest: [u8; 20]) -> Self {
        Self { digest, ..self }
    }

    /// The section, if it is of this type.
    pub fn parse(section: &[u8]) -> Option<&Self> {
        let section = Self::ref_from_bytes(section).ok()?;
        (section.kind == Self::METICULOUS && usize::from(section.len) == Self::LEN)
            .then_some(section)
    }
}

/// A control packet whose lengths lie inside its bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<'a> {
    /// The mandatory section.
    pub header: &'a Header,
    /// The authentication section: its type, its length in bytes, and the rest (RFC 5880 §4.2 to
    /// §4.4); `None` if "A" says that there is none.
    pub authentication: Option<&'a [u8]>,
}

impl<'a> Packet<'a> {
    /// The packet that `bytes`, a datagram's payload, are; `None` if it must be dropped for what it
    /// says itself (RFC 5880 §6.8.6). Whether there is such a session, and whether it
    /// authenticates, is the caller's to know.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, _) = Header::ref_from_prefix(bytes).ok()?;
        let rest = bytes.get(Header::LEN..usize::from(header.len))?;
        let authentication = header.has(AUTHENTICATED).then_some(rest);
        let is_valid = header.is_valid() && authentication.is_none_or(|section| section.len() >= 2);
        is_valid.then_some(Self { header, authentication })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const STATES: [State; 4] = [State::AdminDown, State::Down, State::Init, State::Up];

    proptest! {
        #[test]
        fn parse_undoes_emit(
            state in 0usize..4,
            diagnostic in 0u8..32,
            flags: [bool; 4],
            detect_multiplier in 1u8..,
            discriminators in (1u32.., 1u32..),
            intervals: [u32; 3],
            padding: Vec<u8>,
        ) {
            let [poll, is_final, control_plane_independent, demand] = flags;
            let flags = Flags { poll, is_final, control_plane_independent, demand };
            let (state, diagnostic) = (STATES[state], Diagnostic::from_low_bits(diagnostic));
            let [desired_min_tx, required_min_rx, required_min_echo_rx] = intervals.map(U32::new);
            let header = Header {
                detect_multiplier,
                your_discriminator: U32::new(discriminators.1),
                desired_min_tx,
                required_min_rx,
                required_min_echo_rx,
                ..Header::new(state, diagnostic, flags, discriminators.0)
            };
            let bytes = [header.as_bytes(), &padding].concat();
            prop_assert_eq!(Packet::parse(&bytes), Some(Packet { header: &header, authentication: None }));
            prop_assert_eq!((header.state(), header.diagnostic(), header.flags()), (state, diagnostic, flags));
        }
    }

    fn down() -> Vec<u8> {
        Header::new(State::Down, Diagnostic::PATH_DOWN, Flags { poll: true, ..Flags::default() }, 7)
            .as_bytes()
            .to_vec()
    }

    #[test]
    fn it_is_laid_out_as_the_standard_has_it() {
        let expected = [&[0x25, 0x60, 1, 24, 0, 0, 0, 7][..], &[0; 16]].concat();
        assert_eq!(down(), expected);
    }

    #[test]
    fn what_must_be_dropped_is_none() {
        let mut good = down();
        good.push(0);
        assert!(Packet::parse(&good).is_some());
        assert!(Packet::parse(&good[..23]).is_none(), "cut short");
        for (at, byte, why) in [
            (0, 0x05, "version 0"),
            (0, 0x45, "version 2"),
            (1, 0x41, "multipoint"),
            (1, 0xc0, "up, and knows nobody"),
            (1, 0x80, "hears us, and knows nobody"),
            (2, 0, "no multiplier"),
            (3, 23, "shorter than a packet"),
            (3, 26, "longer than its datagram"),
            (7, 0, "no session"),
            (1, 0x44, "authenticated, by nothing"),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(Packet::parse(&bad).is_none(), "{why}");
        }
    }

    #[test]
    fn a_section_of_keyed_sha1_is_read_as_it_was_written() {
        let header = Header::new(State::Up, Diagnostic::NONE, Flags::default(), 7);
        let header = Header { your_discriminator: U32::new(9), ..header }.authenticated();
        let section = KeyedSha1::new(3, 0x0102_0304, [5; 20]);
        let mut bytes = [header.as_bytes(), section.as_bytes()].concat();
        assert_eq!(bytes[24..32], [5, 28, 3, 0, 1, 2, 3, 4]);
        let read = |bytes: &[u8]| {
            let packet = Packet::parse(bytes)?;
            packet.authentication.and_then(KeyedSha1::parse).copied()
        };
        assert_eq!(read(&bytes), Some(section));
        for (at, byte) in [(24, 4), (25, 27)] {
            let before = core::mem::replace(&mut bytes[at], byte);
            assert_eq!(read(&bytes), None);
            bytes[at] = before;
        }
    }

    #[test]
    fn an_authentication_section_is_there_if_it_says_so() {
        let mut bytes = [&down()[..], &[1, 5, 9, b'p', b'w', 0xff]].concat();
        (bytes[1], bytes[3]) = (0x44, 29);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(packet.authentication, Some(&[1, 5, 9, b'p', b'w'][..]));
        bytes[1] = 0x40;
        assert_eq!(Packet::parse(&bytes).unwrap().authentication, None);
    }
}
