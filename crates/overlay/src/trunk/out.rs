//! Datagrams to a far host: frames, whole or in parts, behind their headers.

use std::net::IpAddr;
use std::num::NonZeroU16;

use tunnel::message::{self, PART};
use tunnel::outer::Encapsulation;
use tunnel::{Context, Data, Part, Report};
use underlay::{Cut, LONGEST, Len, Marking, Underlay};
use units::Class;
use wire::ecn::Ecn;
use wire::ethernet::{self, ethertype};
use wire::geneve::{self, Draft};
use wire::tcp::{self, Flags};
use wire::{Offload, Piece, SegmentKind, gre, stt, vxlan};
use zerocopy::FromBytes;

use super::assembly::say_len;
use super::channel::Sealer;
use super::config::{TrunkConfig, host_hash};

/// The most bytes of options before a frame of a session: a data option (docs/protocol.md).
pub const OPTIONS_LEN: usize = 4 + 28;

/// The bytes of a datagram before a frame of a session that no card cuts.
pub const DATA_LEN: usize = geneve::Header::LEN + 4 + 24;

/// The bytes before one that a card may cut.
const CUT_LEN: usize = geneve::Header::LEN + OPTIONS_LEN;

/// The length of the option that goes with a frame of a logical network, in bytes.
pub const CONTEXT_LEN: usize = 4 + Context::LEN;

/// The length of the option with a frame's offload, in bytes.
const OFFLOAD_LEN: usize = 4 + Offload::LEN;

/// GRE's header with a key (RFC 7637 §3.2).
const NVGRE_LEN: usize = 8;

const FITS: &str = "there is room for as many bytes as it has";
const ROOM: &str = "these options have room in one packet";

/// A frame as a session sends it: in one datagram, or in parts that fill datagrams.
pub enum Going<'a> {
    /// A frame that one datagram carries, and that is no large segment: nothing is left to do for
    /// it.
    Whole(Piece<'a>),
    /// Any other: its offload, and the longest payload of a datagram, in bytes.
    Parts(&'a [u8], Offload, usize),
}

impl<'a> Going<'a> {
    /// A frame that lies in one piece. `None` if the offload metadata contradicts the frame, or
    /// there is none.
    pub fn new(bytes: &'a [u8], offload: Offload, most: usize) -> Option<Self> {
        let whole = wire::segments(bytes, offload).ok()?.next()?;
        if bytes.is_empty() {
            return None;
        }
        let is_whole = offload.segment.is_none() && whole.len() + DATA_LEN <= most;
        Some(if is_whole { Self::Whole(whole) } else { Self::Parts(bytes, offload, most) })
    }

    /// The same of a frame that was begun in parts: it stays so, although datagrams may have become
    /// longer.
    pub fn in_parts(bytes: &'a [u8], offload: Offload, most: usize) -> Option<Self> {
        Self::new(bytes, offload, most).map(|_| Self::Parts(bytes, offload, most))
    }

    fn len(&self) -> usize {
        match self {
            Self::Whole(piece) => piece.len(),
            Self::Parts(bytes, ..) => bytes.len(),
        }
    }

    /// The length of the part at this offset, and whether it is the last. `None` behind the last.
    pub fn part(&self, begin: usize) -> Option<(NonZeroU16, bool)> {
        let rest = self.len().checked_sub(begin)?;
        let len = rest.min(self.room(begin));
        Some((NonZeroU16::new(u16::try_from(len).ok()?)?, len == rest))
    }

    /// Whether it has so many bytes at this offset, and a datagram has room for them.
    pub fn has(&self, begin: usize, len: NonZeroU16) -> bool {
        let (len, room) = (usize::from(len.get()), self.room(begin));
        match self {
            Self::Whole(_) => begin == 0 && len == room,
            Self::Parts(bytes, ..) => begin + len <= bytes.len() && len <= room,
        }
    }

    /// How it leaves as one datagram that a card cuts, with a context or without. `None` if it
    /// cannot, or if that is not worthwhile.
    pub fn large(&self, has_context: bool) -> Option<Large> {
        let head = CUT_LEN + if has_context { CONTEXT_LEN } else { 0 };
        let Self::Parts(bytes, offload, most) = *self else { return None };
        let segment = offload.segment?;
        let kind = match segment.kind {
            SegmentKind::Tcp4 => ethertype::IPV4,
            SegmentKind::Tcp6 => ethertype::IPV6,
            SegmentKind::Udp => return None,
        };
        let size = NonZeroU16::new(segment.size)?;
        let packet = CUT_LEN + usize::from(segment.header_len) + usize::from(segment.size);
        // Many more packets than parts would burden the fabric and the receiver.
        let is_fit = (most / 2..=most).contains(&packet);
        let begin = ethernet::Header::LEN;
        let is_plain = bytes[..begin].ends_with(&kind.to_be_bytes());
        // The path may be IPv6, whose header is longer.
        let is_short = head + bytes.len() + 20 <= LONGEST;
        let len =
            NonZeroU16::new(bytes.len() as u16).filter(|len| is_short && is_large(*len, most))?;
        let tcp = tcp::Header::ref_from_prefix(&bytes[offload.checksum?.start.into()..]).ok()?.0;
        let flags = tcp.flags.without(Flags(!message::Cut::FLAGS.0));
        let told = message::Cut { sequence: tcp.sequence.get() as u16, size, flags };
        let cut = Cut { offload, frame: head as u16, packet: begin as u16 };
        (is_fit && is_plain).then_some(Large { len, told, cut })
    }

    /// How many bytes from this offset on fit into a datagram.
    fn room(&self, begin: usize) -> usize {
        match self {
            Self::Whole(piece) => piece.len(),
            Self::Parts(_, _, most) => part_len(begin, *most),
        }
    }

    /// The data message of the part at this offset.
    pub fn said(&self, data: &Data, begin: usize) -> Data {
        let more = begin + usize::from(data.len.get()) < self.len();
        let offload = match self {
            Self::Parts(bytes, offload, _) if begin == 0 => {
                let mut said = offload.emit();
                say_len(&mut said, bytes.len());
                Some(said)
            }
            _ => None,
        };
        Data { part: Part { continues: begin > 0, more }, offload, ..*data }
    }

    /// Writes the part at this offset.
    pub fn write(&self, begin: usize, to: &mut [u8]) {
        match self {
            Self::Whole(piece) => {
                piece.write(to).expect(FITS);
            }
            Self::Parts(bytes, ..) => to.copy_from_slice(&bytes[begin..begin + to.len()]),
        }
    }
}

/// A large segment that leaves as one datagram.
#[derive(Clone, Copy, Debug)]
pub struct Large {
    /// Its length in bytes.
    pub len: NonZeroU16,
    /// What the far end needs to join it.
    told: message::Cut,
    /// What the card needs to cut it.
    cut: Cut,
}

/// Whether so many bytes exceed a datagram of `most` bytes.
pub fn is_large(len: NonZeroU16, most: usize) -> bool {
    usize::from(len.get()) + DATA_LEN > most
}

/// How many bytes of a large segment from this offset on fit into a datagram of `most` bytes.
pub fn part_len(begin: usize, most: usize) -> usize {
    most.saturating_sub(DATA_LEN + if begin == 0 { OFFLOAD_LEN } else { 0 })
}

/// Where datagrams go, and how they are marked.
pub struct Out<'a> {
    /// The trunk's configuration.
    pub config: &'a TrunkConfig,
    /// The sockets.
    pub underlay: &'a mut Underlay,
    /// The network's VNI.
    pub vni: u32,
    /// DSCP and ECN of the outer packet.
    pub marking: Marking,
    /// Seals each packet, if hosts have a key in common.
    pub sealer: Option<Sealer<'a>>,
}

impl TrunkConfig {
    /// The bytes of a datagram before a frame without a session.
    pub fn plain_len(&self) -> usize {
        match self.encapsulation {
            Encapsulation::Geneve => geneve::Header::LEN,
            Encapsulation::Vxlan => vxlan::Header::LEN,
            Encapsulation::Nvgre => NVGRE_LEN,
            Encapsulation::Stt => stt::Header::LEN,
        }
    }

    /// DSCP and ECN of an outer packet with a frame of this class, of whose inner packet this
    /// traffic class may be [shown](super::super::shared::Networks::shown): its DSCP or that of the
    /// class (RFC 2983 §3.1), and its ECN field (RFC 6040 §4.1).
    pub fn marking(&self, class: Class, inner: u8) -> Marking {
        let traffic_class = self.dscp.map_or(inner, |dscp| dscp[class].within(inner));
        Marking { traffic_class, class }
    }
}

impl Out<'_> {
    /// Whether a datagram has room for a report beside so many bytes of a frame.
    pub fn may_piggyback(&self, data: &Data) -> bool {
        let len = data.len;
        !self.config.obeys_pauses
            && data.context.map_or(0, |_| CONTEXT_LEN)
                + DATA_LEN
                + OFFLOAD_LEN
                + Report::MOST_LEN
                + usize::from(len.get())
                <= self.config.most
    }

    /// Sends the part of a session's frame at this offset, with a report if [there is
    /// room](Self::may_piggyback).
    pub fn put(&mut self, data: &Data, report: Option<&Report>, going: &Going<'_>, begin: usize) {
        self.mark(data);
        let data = going.said(data, begin);
        let draft = Draft::new(self.vni).expect("a network's number has 24 bits");
        let mut draft = if data.part == Part::WHOLE { draft } else { draft.carrying(PART) };
        let has_room =
            data.write(&mut draft) && report.is_none_or(|report| report.write(&mut draft));
        debug_assert!(has_room, "{ROOM}");
        self.put_draft(&draft, data.len.get().into(), |bytes| going.write(begin, bytes));
    }

    /// Sends a frame's position in the stream without its bytes.
    pub fn put_place(&mut self, data: &Data) {
        self.mark(data);
        let mut draft =
            Draft::new(self.vni).expect("a network's number has 24 bits").for_control(0);
        let has_room = data.write(&mut draft);
        debug_assert!(has_room, "{ROOM}");
        self.put_draft(&draft, 0, |_| {});
    }

    /// Sends all of a large segment of a session.
    pub fn put_large(&mut self, data: &Data, bytes: &[u8], large: Large) {
        self.mark(data);
        let mut draft = Draft::new(self.vni).expect("a network's number has 24 bits");
        let has_room = Data { cut: Some(large.told), ..*data }.write(&mut draft);
        debug_assert!(has_room, "{ROOM}");
        let ([fixed, options], far) = (draft.parts(), self.config.far);
        self.underlay.send_large(
            far,
            host_hash(far),
            self.marking,
            large.cut,
            [fixed, options, bytes],
        );
    }

    /// Marks reliable frames as ECN-capable: the session reacts to marks, whatever the inner
    /// transport does.
    fn mark(&mut self, data: &Data) {
        let traffic_class = &mut self.marking.traffic_class;
        if Ecn::of(*traffic_class) == Ecn::NotEct && self.config.is_reliable(data.stream.class) {
            *traffic_class = Ecn::Ect0.within(*traffic_class);
        }
    }

    /// Sends a packet of the underlay: these headers, and what `write` puts behind them.
    pub fn put_draft(&mut self, draft: &Draft, len: usize, write: impl FnOnce(&mut [u8])) {
        let [fixed, options] = draft.parts();
        let header_len = fixed.len() + options.len();
        let Self { config, underlay, marking, sealer, .. } = self;
        // One socket for all of a session: packets that overtake each other look lost.
        let (to, flow, room) = (config.far, host_hash(config.far), room(sealer));
        underlay.send(to, flow, *marking, Len::AtLeast(room + header_len + len), |bytes| {
            let (header, rest) = bytes[room..].split_at_mut(header_len);
            header[..fixed.len()].copy_from_slice(fixed);
            header[fixed.len()..].copy_from_slice(options);
            write(rest);
            sealer.iter_mut().for_each(|sealer| sealer.seal(bytes));
        });
    }

    /// The length in bytes of the longest frame that a datagram without a session carries.
    pub fn longest_plain(&self) -> usize {
        self.config.most.saturating_sub(self.config.plain_len())
    }

    /// Sends a frame of `len` bytes without a session, behind this header if it is STT's. It is no
    /// longer than the [longest](Self::longest_plain).
    pub fn put_plain(
        &mut self,
        to: IpAddr,
        flow: u32,
        stt: &stt::Header,
        len: usize,
        write: impl FnOnce(&mut [u8]),
    ) {
        use zerocopy::IntoBytes;

        let Self { config, underlay, vni, marking, sealer } = self;
        let (geneve, vxlan);
        let mut nvgre = [0; NVGRE_LEN];
        let header = match config.encapsulation {
            Encapsulation::Vxlan => {
                vxlan = vxlan::Header::new(*vni).expect("a network's number has 24 bits");
                vxlan.as_bytes()
            }
            Encapsulation::Nvgre => {
                let subnet = gre::VirtualSubnet::new(*vni, (flow >> 24) as u8);
                let header = subnet.expect("a network's number has 24 bits").header();
                header.write(&mut nvgre).expect("a key is all it has")
            }
            Encapsulation::Stt => stt.as_bytes(),
            Encapsulation::Geneve => {
                geneve = Draft::new(*vni).expect("a network's number has 24 bits");
                geneve.parts()[0]
            }
        };
        debug_assert_eq!(header.len(), config.plain_len());
        let (room, len) = (room(sealer), header.len() + len);
        underlay.send(to, flow, *marking, Len::Exactly(room + len), |bytes| {
            let (head, rest) = bytes[room..].split_at_mut(header.len());
            head.copy_from_slice(header);
            write(rest);
            sealer.iter_mut().for_each(|sealer| sealer.seal(bytes));
        });
    }
}

/// How many bytes are before a packet that is sealed.
fn room(sealer: &Option<Sealer<'_>>) -> usize {
    if sealer.is_some() { seal::OVERHEAD } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;
    use tunnel::message::Ends;
    use tunnel::outer::{Received, Vteps};
    use tunnel::{SessionConfig, Stream, Tag};
    use underlay::{Sent, Transport};
    use units::{ClassMap, ClassSet, Dscp};
    use wire::ethernet::{self, ethertype};
    use wire::{Layout, ipv4};
    use zerocopy::IntoBytes;

    use super::super::tests::session;
    use super::*;

    /// An address that no other process's test has.
    fn here() -> Ipv4Addr {
        let [.., high, low] = std::process::id().to_be_bytes();
        Ipv4Addr::new(127, 3, high, low)
    }

    fn config(session: Option<SessionConfig>, dscp: Option<ClassMap<Dscp>>) -> TrunkConfig {
        TrunkConfig {
            host: here().into(),
            far: here().into(),
            pair: 0,
            encapsulation: Encapsulation::Geneve,
            session,
            seed: 1,
            most: 1400,
            dscp,
            obeys_pauses: false,
        }
    }

    /// A frame whose packet has this traffic class.
    fn frame(traffic_class: u8) -> Vec<u8> {
        let ip =
            ipv4::Header::new(here(), here(), 253, 0).unwrap().with_traffic_class(traffic_class);
        let ethernet =
            ethernet::Header::new(units::Mac::local(1), units::Mac::local(2), ethertype::IPV4);
        [ethernet.as_bytes(), ip.as_bytes()].concat()
    }

    proptest! {
        #[test]
        fn the_class_is_outside_and_the_packet_inside_keeps_its_own_code_point(
            class in 0..8_u8,
            inner: u8,
            dscp in prop::option::of(prop::array::uniform8(0..64_u8)),
            reliable: Option<u8>,
        ) {
            if !needs::root() {
                return Ok(());
            }
            let class = Class::from_low_bits(class);
            let code_points = dscp.map(|dscp| ClassMap(dscp.map(|number| Dscp::new(number).unwrap())));
            let session = |bits| SessionConfig { reliable: ClassSet::from_bits(bits), ..session() };
            let config = config(reliable.map(session), code_points);
            let bytes = frame(inner);
            let mut underlay = Underlay::open(here().into(), Transport::Udp(geneve::PORT), 64).unwrap();
            let marking = config.marking(class, inner);
            let mut out =
                Out { config: &config, underlay: &mut underlay, vni: 7, marking, sealer: None };
            let going = Going::new(&bytes, Offload::NONE, config.most).unwrap();
            if reliable.is_some() {
                let stream = Stream { label: 1, class };
                let (len, _) = going.part(0).unwrap();
                let ends = Ends { from: Tag(1), to: Tag(2) };
                let data = Data { ends, number: 0, stream, offset: 0, len, part: Part::WHOLE, offload: None, context: None, cut: None };
                out.put(&data, None, &going, 0);
            } else {
                let (header, _) = super::super::stt::begin(&config, 7, &bytes, Offload::NONE);
                out.put_plain(here().into(), 0, &header, bytes.len(), |to| to.copy_from_slice(&bytes));
            }
            let mut seen = None;
            underlay.flush_telling(|Sent { traffic_class, payload, .. }| {
                let vteps = Vteps::new(here().into(), here().into()).unwrap();
                let received = Received::of_datagram(Encapsulation::Geneve, vteps, traffic_class, payload);
                let received = received.unwrap();
                let layout = Layout::of(&payload[received.frame.clone()]).unwrap();
                let carried = layout.traffic_class(&payload[received.frame]);
                seen = Some((traffic_class, carried, received.remark));
            });
            let (outer, carried, remark) = seen.unwrap();
            let expected = dscp.map_or(inner >> 2, |dscp| dscp[class.index()]);
            prop_assert_eq!((outer >> 2, carried), (expected, Some(inner)));
            // RFC 6040 §4.1, but that a session reacts to marks of what it repairs, whatever is in
            // it.
            let ecn = match Ecn::of(inner) {
                Ecn::NotEct if config.is_reliable(class) => Ecn::Ect0,
                ecn => ecn,
            };
            prop_assert_eq!(Ecn::of(outer), ecn);
            prop_assert_eq!(remark, None, "nothing comes in that was not marked on the way");
        }
    }
}
