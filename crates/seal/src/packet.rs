//! The wire format: sealed packets and handshake messages. docs/protocol.md has the layouts.

use std::ops::Range;

use tunnel::message::OPTION_CLASS;
use wire::ethernet::ethertype;
use wire::geneve::{Draft, Header, Packet, TunnelOption};
use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::crypto::TAG_LEN;

/// The version of the handshake and of sealed packets.
pub const VERSION: u8 = 1;

/// The bytes that sealing puts before a packet.
pub const OVERHEAD: usize = size_of::<SealedHeader>();

const SEALED: u8 = TunnelOption::CRITICAL | 8;

/// What a sealed packet begins with: Geneve's header and that of its option. These bytes are always
/// the same, and so need no authentication.
const BEGINNING: [u8; 12] = {
    let [a, b] = ethertype::EXPERIMENTAL.to_be_bytes();
    let [c, d] = OPTION_CLASS.to_be_bytes();
    let words = (OVERHEAD - 12) as u8 / 4;
    // "C", an option is critical; the network is 0.
    [words + 1, 0x40, a, b, 0, 0, 0, 0, c, d, SEALED, words]
};

/// Where what is authenticated begins.
const AUTHENTICATED: usize = BEGINNING.len() + TAG_LEN;

/// What sealing puts before a packet.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct SealedHeader {
    beginning: [u8; 12],
    tag: [u8; TAG_LEN],
    key: U32,
    len: U16,
    unused: U16,
    number: U64,
}

const _: () = assert!(OVERHEAD == 44);

/// The header of a sealed packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sealed {
    /// The identifier of the keys.
    pub key: u32,
    /// The packet's number.
    pub number: u64,
    /// The tag of all that is authenticated.
    pub tag: [u8; TAG_LEN],
    /// The length of the packet inside.
    len: u16,
}

impl Sealed {
    /// The header that a sealed packet has; `None` if it is cut short.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let (header, rest) = SealedHeader::ref_from_prefix(packet).ok()?;
        let len = header.len.get();
        (rest.len() >= len.into()).then_some(Self {
            key: header.key.get(),
            number: header.number.get(),
            tag: header.tag,
            len,
        })
    }

    /// The bytes of the packet inside.
    pub fn inside(&self) -> Range<usize> {
        OVERHEAD..OVERHEAD + usize::from(self.len)
    }

    /// Splits a sealed packet into the part of its header that is authenticated, and the packet
    /// inside.
    pub fn parts<'p>(&self, packet: &'p mut [u8]) -> (&'p [u8], &'p mut [u8]) {
        let (header, inside) = packet[AUTHENTICATED..self.inside().end].split_at_mut(16);
        (header, inside)
    }

    /// Both parts in one piece.
    pub fn whole<'p>(&self, packet: &'p [u8]) -> &'p [u8] {
        &packet[AUTHENTICATED..self.inside().end]
    }
}

/// Writes the header before the packet inside, with a tag of zeros. `None` if there is no room for
/// it, or the packet is longer than its header can say.
pub fn begin_sealed(key: u32, number: u64, packet: &mut [u8]) -> Option<Sealed> {
    let len = u16::try_from(packet.len().checked_sub(OVERHEAD)?).ok()?;
    let header = SealedHeader {
        beginning: BEGINNING,
        tag: [0; TAG_LEN],
        key: U32::new(key),
        len: U16::new(len),
        unused: U16::ZERO,
        number: U64::new(number),
    };
    packet[..OVERHEAD].copy_from_slice(header.as_bytes());
    Some(Sealed { key, number, tag: header.tag, len })
}

/// Writes the tag into the header.
pub fn set_tag(packet: &mut [u8], tag: &[u8; TAG_LEN]) {
    packet[BEGINNING.len()..AUTHENTICATED].copy_from_slice(tag);
}

/// What a datagram's payload is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A sealed packet.
    Sealed,
    /// A handshake message.
    Handshake,
    /// Anything else.
    Unsealed,
}

impl Kind {
    /// What it is by its header. Nothing is verified yet.
    pub fn of(packet: &[u8]) -> Self {
        if packet.starts_with(&BEGINNING) {
            return Self::Sealed;
        }
        match Packet::parse(packet).and_then(|packet| { packet.options }.next()) {
            Some(option) if option.class == OPTION_CLASS && Step::of(option.kind).is_some() => {
                Self::Handshake
            }
            _ => Self::Unsealed,
        }
    }
}

/// Which of the handshake's messages it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// The initiator asks for a challenge.
    Knock,
    /// The responder challenges, or asks the initiator to begin.
    Challenge,
    /// The first message of Noise.
    Noise1,
    /// The second message of Noise.
    Noise2,
}

impl Step {
    const fn kind(self) -> u8 {
        SEALED + 1 + self as u8
    }

    fn of(kind: u8) -> Option<Self> {
        [Self::Knock, Self::Challenge, Self::Noise1, Self::Noise2]
            .into_iter()
            .find(|step| step.kind() == kind)
    }

    const fn has_noise(self) -> bool {
        matches!(self, Self::Noise1 | Self::Noise2)
    }
}

/// A message of Noise without a payload: a public key and a tag.
pub const NOISE_LEN: usize = 32 + TAG_LEN;

/// A message of Noise.
pub type NoiseMessage = [u8; NOISE_LEN];

/// What begins each handshake message.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Record {
    code: [u8; TAG_LEN],
    /// At this place in every version.
    version: u8,
    mode: u8,
    unused: U16,
    initiator: U64,
    responder: U64,
    key: U32,
}

/// A handshake message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message {
    /// Which one it is.
    pub step: Step,
    /// The number of the sender's mode.
    pub mode: u8,
    /// The initiator's fresh number, or 0.
    pub initiator: u64,
    /// The responder's fresh number, or 0.
    pub responder: u64,
    /// The identifier of the sender's keys, or 0.
    pub key: u32,
    /// What Noise says, in its messages; otherwise zeros.
    pub noise: NoiseMessage,
}

/// A handshake message as it was received.
#[derive(Clone, Copy)]
pub struct Received<'p> {
    step: Step,
    record: &'p [u8],
}

impl<'p> Received<'p> {
    /// The message in a packet; `None` if it is none, or is cut short.
    pub fn parse(packet: &'p [u8]) -> Option<Self> {
        let packet = Packet::parse(packet).filter(|packet| packet.header.is_control())?;
        let mut options = packet.options;
        let option = options.next().filter(|option| option.class == OPTION_CLASS)?;
        let step = Step::of(option.kind)?;
        let is_whole = options.next().is_none() && option.data.len() > TAG_LEN;
        is_whole.then_some(Self { step, record: option.data })
    }

    /// The version of the sender.
    pub fn version(&self) -> u8 {
        self.record[TAG_LEN]
    }

    /// The code that authenticates it, and of what it is the code: [`Message::authenticated`].
    pub fn code(&self) -> (&'p [u8; TAG_LEN], u8, &'p [u8]) {
        let (code, rest) = self.record.split_first_chunk().expect("it was found to be longer");
        (code, self.step.kind(), rest)
    }

    /// What it says, in our version; `None` if it has another length.
    pub fn read(&self) -> Option<Message> {
        let (record, noise) = Record::ref_from_prefix(self.record).ok()?;
        let noise = match (self.step.has_noise(), noise) {
            (true, noise) => noise.try_into().ok()?,
            (false, []) => [0; NOISE_LEN],
            (false, _) => return None,
        };
        Some(Message {
            step: self.step,
            mode: record.mode,
            initiator: record.initiator.get(),
            responder: record.responder.get(),
            key: record.key.get(),
            noise,
        })
    }
}

impl Message {
    /// The packet that says it. `code` authenticates: its arguments are the option's type, and all
    /// of its data behind the code.
    pub fn write(&self, code: impl FnOnce(u8, &[u8]) -> [u8; TAG_LEN]) -> Control {
        let kind = self.step.kind();
        let record = Record {
            code: [0; TAG_LEN],
            version: VERSION,
            mode: self.mode,
            unused: U16::ZERO,
            initiator: U64::new(self.initiator),
            responder: U64::new(self.responder),
            key: U32::new(self.key),
        };
        let mut data = [0; size_of::<Record>() + NOISE_LEN];
        let (head, noise) = data.split_at_mut(size_of::<Record>());
        head.copy_from_slice(record.as_bytes());
        noise.copy_from_slice(&self.noise);
        let len = if self.step.has_noise() { data.len() } else { size_of::<Record>() };
        let data = &mut data[..len];
        let code = code(kind, &data[TAG_LEN..]);
        data[..TAG_LEN].copy_from_slice(&code);
        let draft = Draft::new(0).expect("it has 24 bits");
        let mut draft = draft.for_control(ethertype::EXPERIMENTAL);
        let fits = draft.add(TunnelOption { class: OPTION_CLASS, kind, data });
        assert!(fits, "an option of {len} bytes fits");
        let mut control = Control { bytes: [0; Control::LONGEST], len: 0 };
        draft.parts().into_iter().for_each(|part| control.push(part));
        control
    }
}

/// A short packet that a channel sends by itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Control {
    bytes: [u8; Self::LONGEST],
    len: usize,
}

impl Control {
    /// The longest: Geneve's header, an option's, a record and a message of Noise.
    pub const LONGEST: usize = Header::LEN + 4 + size_of::<Record>() + NOISE_LEN;

    /// As many zeros as a sealed packet's header has bytes.
    pub(crate) fn room() -> Self {
        Self { bytes: [0; Self::LONGEST], len: OVERHEAD }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    fn push(&mut self, part: &[u8]) {
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages() -> impl Strategy<Value = Message> {
        let step =
            prop::sample::select(vec![Step::Knock, Step::Challenge, Step::Noise1, Step::Noise2]);
        let noise = any::<[u8; 32]>();
        (step, any::<u8>(), any::<[u64; 2]>(), any::<u32>(), noise).prop_map(
            |(step, mode, [initiator, responder], key, bytes)| {
                let mut noise = [0; NOISE_LEN];
                if step.has_noise() {
                    noise[..32].copy_from_slice(&bytes);
                }
                Message { step, mode, initiator, responder, key, noise }
            },
        )
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(message in messages(), code: [u8; TAG_LEN], padding in 0..9_usize) {
            let mut authenticated = Vec::new();
            let control = message.write(|kind, rest| {
                authenticated = [&[kind], rest].concat();
                code
            });
            let bytes = [control.bytes(), &vec![0; padding]].concat();
            prop_assert_eq!(Kind::of(&bytes), Kind::Handshake);
            let received = Received::parse(&bytes).unwrap();
            let (read_code, kind, rest) = received.code();
            prop_assert_eq!((*read_code, [&[kind], rest].concat()), (code, authenticated));
            prop_assert_eq!((received.version(), received.read()), (VERSION, Some(message)));
        }

        #[test]
        fn any_bytes_are_something(bytes: Vec<u8>, at in 0..60_usize, byte: u8, message in messages()) {
            let mut damaged = message.write(|_, _| [0; TAG_LEN]).bytes().to_vec();
            if let Some(place) = damaged.get_mut(at) {
                *place = byte;
            }
            for bytes in [&bytes, &damaged] {
                let _ = (Kind::of(bytes), Sealed::parse(bytes));
                let received = Received::parse(bytes);
                let _ = received.map(|it| (it.version(), it.code(), it.read()));
            }
        }
    }

    #[test]
    fn a_sealed_packet_is_geneve_with_one_critical_option() {
        let mut packet = [7; OVERHEAD + 3];
        let sealed = begin_sealed(0x0102_0304, 0x0a0b, &mut packet).unwrap();
        set_tag(&mut packet, &[9; TAG_LEN]);
        assert_eq!(Kind::of(&packet), Kind::Sealed);
        assert_eq!(Sealed::parse(&packet), Some(Sealed { tag: [9; TAG_LEN], ..sealed }));
        assert_eq!(sealed.whole(&packet), &packet[28..]);
        assert_eq!(sealed.parts(&mut packet.clone()), (&packet[28..44], &mut [7; 3][..]));
        let geneve = Packet::parse(&packet).unwrap();
        assert_eq!((geneve.header.vni(), geneve.header.is_control()), (0, false));
        assert!(geneve.header.has_critical());
        assert_eq!(geneve.header.protocol.get(), ethertype::EXPERIMENTAL);
        let expected = [&[9; 16][..], &[1, 2, 3, 4, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 10, 11]].concat();
        let options: Vec<_> = geneve.options.collect();
        assert_eq!(options, [TunnelOption { class: OPTION_CLASS, kind: 0x88, data: &expected }]);
        assert_eq!(geneve.payload, [7; 3]);
        assert_eq!(Sealed::parse(&packet[..OVERHEAD + 2]), None, "cut short");
        assert!(begin_sealed(1, 1, &mut [0; OVERHEAD - 1]).is_none());
        assert!(begin_sealed(1, 1, &mut vec![0; OVERHEAD + 65_536]).is_none());
    }

    #[test]
    fn types_are_as_documented() {
        let kinds = [Step::Knock, Step::Challenge, Step::Noise1, Step::Noise2].map(Step::kind);
        assert_eq!(kinds, [0x89, 0x8a, 0x8b, 0x8c]);
        assert_eq!(Control::LONGEST, 100);
    }
}
