//! Parses frames for both gates: which socket a frame is for, and how much room it needs.

use wire::ip::Part;
use wire::udp::Packet;

use super::fragments::{Fragments, Whole};
use super::sockets::{Datagram, Mixer, is_v4};
use super::verdict::{FlowKey, Verdict};
use port::FrameView;

/// A datagram, or its first fragment, that is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub datagram: Datagram,
    /// The most bytes of its socket's buffer that it takes. Each of its pieces is charged.
    pub need: u32,
    /// The datagram's identity, if this is a fragment.
    whole: Option<Whole>,
    /// Whether it is a first fragment, for which room is reserved when it is sent.
    pub begins: bool,
}

/// A frame between its verdict and its transmission.
#[derive(Clone, Copy, Debug)]
pub enum Passing {
    Whole { slot: u32, bytes: u32 },
    First { whole: Whole, slot: u32, bytes: u32 },
    Later { whole: Whole, last: bool },
}

impl Question {
    /// Parses a frame for the namespace, or guest, with this number. `charge` returns the most that
    /// a frame of a length is charged.
    ///
    /// # Errors
    ///
    /// The verdict, if no socket has to be checked: the frame is not a datagram, or is a later
    /// fragment.
    #[inline]
    pub fn read(
        namespace: u32,
        frame: &FrameView<'_>,
        fragments: &Fragments,
        charge: impl Fn(usize) -> usize,
    ) -> Result<Self, (Verdict, Option<Passing>)> {
        let mut scratch;
        let head = if frame.rest.is_empty() {
            frame.bytes
        } else {
            scratch = [0; HEADERS];
            frame.first(&mut scratch)
        };
        let Some(packet) = Packet::parse_head(head, frame.len(), frame.offload()) else {
            return Err((Verdict::Free, None));
        };
        let (source, destination) = (packet.source.to_bits(), packet.destination.to_bits());
        let whole_of = |part: Part| Whole {
            namespace,
            source,
            destination,
            identification: part.identification,
        };
        let whole = packet.part.map(whole_of);
        let Some(datagram) = packet.datagram else {
            let passing = whole
                .zip(packet.part)
                .map(|(whole, part)| Passing::Later { whole, last: part.last });
            let verdict = match whole.and_then(|whole| fragments.find(whole)) {
                None => Verdict::Free,
                Some((number, true)) => Verdict::Go(FlowKey(number)),
                Some((number, false)) => Verdict::Hold(FlowKey(number), None),
            };
            return Err((verdict, passing));
        };
        let begins = whole.is_some_and(|whole| fragments.may_begin(whole));
        let need = if whole.is_some() && !begins {
            1 // Not zero, so that the bell can ring for it.
        } else {
            u32::try_from(datagram.pieces * charge(datagram.piece_len)).unwrap_or(u32::MAX)
        };
        let datagram = Datagram {
            namespace,
            source,
            destination,
            source_port: datagram.source_port,
            destination_port: datagram.destination_port,
            to_all: is_to_all(head, destination),
        };
        Ok(Self { datagram, need, whole, begins })
    }

    /// What to do once the frame was sent to the socket with this slot. Records a first fragment.
    #[inline]
    pub fn passing(&self, fragments: &mut Fragments, slot: u32) -> Option<Passing> {
        let bytes = self.need;
        Some(match self.whole {
            None => Passing::Whole { slot, bytes },
            Some(whole) => {
                fragments.note(whole);
                Passing::First { whole, slot, bytes }
            }
        })
    }

    /// The flow of the datagram: all datagrams to the same address and port and, if its socket is
    /// `connected`, from the same address and port.
    #[inline]
    pub fn flow(&self, connected: bool) -> FlowKey {
        let datagram = &self.datagram;
        let mut mixer = Mixer::default();
        mixer.add(u64::from(datagram.namespace) << 16 | u64::from(datagram.destination_port));
        mixer.add(datagram.destination as u64);
        mixer.add((datagram.destination >> 64) as u64);
        if connected {
            mixer.add(u64::from(datagram.source_port));
            mixer.add(datagram.source as u64);
            mixer.add((datagram.source >> 64) as u64);
        }
        FlowKey(std::hash::Hasher::finish(&mixer))
    }
}

/// The most bytes of a frame's headers up to UDP's: Ethernet with a tag, IPv6 with extensions.
const HEADERS: usize = 256;

/// Whether a frame has a group address in either layer: bit 0 of a MAC address, 224.0.0.0/4,
/// ff00::/8.
#[inline]
fn is_to_all(frame: &[u8], destination: u128) -> bool {
    let multicast = if is_v4(destination) {
        destination as u32 >> 28 == 0xe
    } else {
        destination >> 120 == 0xff
    };
    frame[0] & 1 != 0 || multicast
}
