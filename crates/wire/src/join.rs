//! Joining: TCP segments made into the large one that they stand for, so that whoever takes it pays
//! for one frame.
//!
//! ```text
//! │ headers │ payload │ headers │ payload │ headers │ payl │
//!      ╲╱         ╱ size    ╱ size               ╱ rest         what differs is what segmentation makes differ
//! │ headers │ payload . . . . . . . . . . . . . . │
//! ```
//!
//! It joins what [`segments`](crate::segments) cuts into exactly these again, and nothing else:
//! Linux's rule for its receive offload (`tcp_gro_receive`). Checksums are looked at before they
//! are lost.

use crate::checksum::Sum;
use crate::cut::{FOUND, enlarge, left};
use crate::ip::{Fragment, Layout, Version, protocol};
use crate::tcp::{self, Flags};
use crate::{Offload, ipv6};

/// The longest IP packet.
const MOST: usize = 65_535;

/// What a joined frame may differ in from one segment to the next: length, number and checksum of
/// IPv4, length of IPv6.
const LENGTH4: core::ops::Range<usize> = 2..4;
const ID4: core::ops::Range<usize> = 4..6;
const CHECKSUM4: core::ops::Range<usize> = 10..12;
const LENGTH6: core::ops::Range<usize> = 4..6;

/// The same of TCP: sequence number, flags, checksum.
const SEQUENCE: core::ops::Range<usize> = 4..8;
const FLAGS: core::ops::Range<usize> = 13..14;
const CHECKSUM: core::ops::Range<usize> = 16..18;

/// Segments that are being joined. The first one's headers stay as they are until the end.
#[derive(Clone, Copy, Debug)]
pub struct Join {
    layout: Layout,
    header_len: usize,
    size: usize,
    payload_len: usize,
    count: u16,
    /// The last one's.
    flags: Flags,
    /// Others may follow.
    open: bool,
}

impl Join {
    /// Begins with a segment that others may follow: a whole one with data, of an established
    /// connection, with right checksums.
    pub fn begin(frame: &[u8]) -> Option<Self> {
        let layout = Layout::of(frame)?;
        let is_plain = layout.protocol == protocol::TCP
            && layout.fragment == Fragment::Whole
            && layout.end == frame.len()
            && is_sound(&layout, frame);
        let segment = tcp::Segment::parse(frame.get(layout.transport..)?).filter(|_| is_plain)?;
        let (flags, size) = (segment.header.flags, segment.payload.len());
        let is_data = flags.without(Flags::PSH | Flags::ECE) == Flags::ACK && size > 0;
        let header_len = frame.len() - size;
        let open = !flags.contains(Flags::PSH);
        is_data.then_some(Self {
            layout,
            header_len,
            size,
            payload_len: size,
            count: 1,
            flags,
            open,
        })
    }

    /// How many bytes there are so far.
    #[expect(clippy::len_without_is_empty, reason = "a segment has headers")]
    pub fn len(&self) -> usize {
        self.header_len + self.payload_len
    }

    /// How many segments there are so far.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The payload of a segment that follows those so far, whose headers are the first of `joined`;
    /// `None` if it does not.
    pub fn follow<'a>(&mut self, joined: &[u8], next: &'a [u8]) -> Option<&'a [u8]> {
        let Self { layout: Layout { version, network, transport, .. }, header_len, size, .. } =
            *self;
        let (ours, payload) = next.split_at_checked(header_len)?;
        let joined = joined.get(..header_len)?;
        let fits = self.len() - network + payload.len() <= MOST;
        if !self.open
            || payload.is_empty()
            || payload.len() > size
            || !fits
            || ours[..network] != joined[..network]
        {
            return None;
        }
        let (ip, first_ip) = (&ours[network..transport], &joined[network..transport]);
        let (tcp, first_tcp) = (&ours[transport..], &joined[transport..]);
        let number =
            |bytes: &[u8]| bytes.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let (length, number_is_next) = match version {
            Version::V4 => {
                let id = number(&first_ip[ID4]) as u16;
                let next = id.wrapping_add(self.count);
                (number(&ip[LENGTH4]) as usize, number(&ip[ID4]) as u16 == next)
            }
            Version::V6 => (number(&ip[LENGTH6]) as usize + ipv6::Header::LEN, true),
        };
        let alike = match version {
            Version::V4 => agree(ip, first_ip, &[LENGTH4, ID4, CHECKSUM4]),
            Version::V6 => agree(ip, first_ip, &[LENGTH6]),
        };
        let sequence = number(&first_tcp[SEQUENCE]).wrapping_add(self.payload_len as u32);
        let flags = Flags(tcp[FLAGS.start]);
        let follows = number_is_next
            && length == next.len() - network
            && alike
            && agree(tcp, first_tcp, &[SEQUENCE, FLAGS, CHECKSUM])
            && number(&tcp[SEQUENCE]) == sequence
            && flags.without(Flags::PSH | Flags::FIN) == Flags(first_tcp[FLAGS.start])
            && is_sound(&Layout { end: next.len(), ..self.layout }, next);
        if !follows {
            return None;
        }
        self.payload_len += payload.len();
        self.count += 1;
        self.flags = flags;
        self.open = payload.len() == size && !flags.any(Flags::PSH | Flags::FIN);
        Some(payload)
    }

    /// Makes the joined frame's headers right, and says what is left to do for it.
    ///
    /// # Panics
    ///
    /// If `frame` is not as long as it should be.
    pub fn finish(self, frame: &mut [u8]) -> Offload {
        assert_eq!(frame.len(), self.len(), "a joined frame is all of its segments");
        if self.count == 1 {
            return Offload { data_valid: true, ..Offload::NONE };
        }
        enlarge(frame, &self.layout, self.flags);
        left(frame, &self.layout, self.size as u16).expect(FOUND)
    }
}

/// Whether two headers are the same but in these places.
fn agree(one: &[u8], other: &[u8], but: &[core::ops::Range<usize>]) -> bool {
    let mut from = 0;
    let same = but.iter().all(|place| {
        let between = from..place.start;
        from = place.end;
        one[between.clone()] == other[between]
    });
    same && one[from..] == other[from..]
}

/// Whether a TCP packet's checksums are right.
fn is_sound(layout: &Layout, frame: &[u8]) -> bool {
    let transport = &frame[layout.transport..];
    let sum = layout.pseudo_header(frame, transport.len()) + Sum::of(transport);
    let header = &frame[layout.network..layout.transport];
    sum.checksum() == 0 && (layout.version == Version::V6 || Sum::of(header).checksum() == 0)
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;
    use zerocopy::FromBytes;
    use zerocopy::network_endian::U16;

    use super::*;
    use crate::cut::tests::{cut, large};

    /// Joins all of them that follow the first: how many, the frame, and what is left to do.
    fn join(frames: &[Vec<u8>]) -> Option<(usize, Vec<u8>, Offload)> {
        let mut join = Join::begin(&frames[0])?;
        let mut joined = frames[0].clone();
        for next in &frames[1..] {
            let Some(payload) = join.follow(&joined, next) else { break };
            joined.extend_from_slice(payload);
        }
        let count = join.count().into();
        let offload = join.finish(&mut joined);
        Some((count, joined, offload))
    }

    /// Segments of a stream, as they are on a wire.
    fn stream(version: Version, flags: Flags, size: u16, payload: &[u8]) -> Vec<Vec<u8>> {
        let (frame, offload) = large(version, flags, size, payload);
        cut(&frame, offload)
    }

    fn streams() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let version = prop_oneof![Just(Version::V4), Just(Version::V6)];
        let flags = prop_oneof![
            Just(Flags::ACK),
            Just(Flags::ACK | Flags::PSH),
            Just(Flags::ACK | Flags::FIN | Flags::PSH),
            Just(Flags::ACK | Flags::ECE),
            Just(Flags::ACK | Flags::CWR),
            Just(Flags::SYN),
        ];
        (version, flags, 1..1500_u16, prop::collection::vec(any::<u8>(), 1..9000))
            .prop_map(|(version, flags, size, payload)| stream(version, flags, size, &payload))
    }

    proptest! {
        #[test]
        fn what_is_joined_is_cut_into_the_same_again(
            frames in streams(),
            change in prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..=255_u8)),
        ) {
            let mut frames = frames;
            let clean = change.is_none();
            if let Some((frame, byte, by)) = change {
                let frame = frame.index(frames.len());
                let byte = byte.index(frames[frame].len());
                frames[frame][byte] ^= by;
            }
            let Some((count, joined, offload)) = join(&frames) else {
                let flags = Flags(frames[0][14 + if frames[0][12] == 8 { 20 } else { 40 } + 13]);
                prop_assert!(!clean || flags.without(Flags::ECE | Flags::PSH) != Flags::ACK);
                return Ok(());
            };
            prop_assert!(!clean || count == frames.len());
            // What is left to do is told as a device would.
            prop_assert_eq!(Offload::parse(&offload.emit(), &joined), Ok(offload));
            prop_assert_eq!(cut(&joined, offload), &frames[..count]);
        }
    }

    #[test]
    fn no_packet_becomes_longer_than_one_can_be() {
        let mut frames = stream(Version::V6, Flags::ACK, 1448, &vec![7; 45 * 1448]);
        // One more like them, behind them.
        let mut more = frames[44].clone();
        let transport = 14 + ipv6::Header::LEN;
        let (tcp, _) = tcp::Header::mut_from_prefix(&mut more[transport..]).unwrap();
        tcp.sequence.set(tcp.sequence.get().wrapping_add(1448));
        tcp.checksum = U16::ZERO;
        let layout = Layout::of(&more).unwrap();
        let sum = layout.pseudo_header(&more, more.len() - transport) + Sum::of(&more[transport..]);
        more[transport..][CHECKSUM].copy_from_slice(&sum.checksum().to_be_bytes());
        frames.push(more);
        assert_eq!(join(&frames).unwrap().0, 45);
        assert_eq!(join(&frames[1..]).unwrap().0, 45, "it follows where there is room");
    }
}
