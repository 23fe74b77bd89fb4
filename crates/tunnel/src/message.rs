//! The messages of a session, as options of Geneve packets. docs/protocol.md has the layouts.
//!
//! Packet numbers and offsets are 64 bits wide; their low 32 bits are sent.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::num::{NonZeroU16, NonZeroU64};

use units::{Class, ClassSet, Rng};
use wire::Offload;
use wire::ethernet::ethertype;
use wire::geneve::{Draft, MOST_OPTIONS_LEN, Options, TunnelOption};
use wire::tcp::Flags;
use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::answer::Answer;
use crate::context::Context;

/// The class of our options: one for experiments (RFC 8926 §7).
pub const OPTION_CLASS: u16 = 0xff5a;

/// The protocol type of a packet with a part of a frame, which is no Ethernet frame.
pub const PART: u16 = ethertype::EXPERIMENTAL;

/// The newest version of the protocol that we speak.
pub const VERSION: u8 = 9;
/// The oldest.
pub const OLDEST: u8 = 8;
/// The first in which frames have a [context](Context), and are given back.
pub const WITH_CONTEXT: u8 = 9;

/// The most ranges of a report.
pub const MAX_RANGES: usize = 16;
/// The most credit grants and NACKs of a report.
pub const MAX_GRANTS: usize = 5;
/// The most window probes of a report.
pub const MAX_WINDOW_PROBES: usize = 6;
/// The most ranges of marked packets of a report.
pub const MAX_MARKS: usize = 8;
/// The most returns of a report, which has no window probes then.
pub const MAX_RETURNS: usize = 2;

/// The number of an incarnation of one end, which began with nothing remembered. It is random, so
/// that nobody guesses it who does not see the session's packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Incarnation(pub NonZeroU64);

impl Incarnation {
    /// Draws a number.
    pub fn random(rng: &mut Rng) -> Self {
        loop {
            if let Some(number) = NonZeroU64::new(rng.next_u64()) {
                return Self(number);
            }
        }
    }

    /// What packets name it by when both ends know it.
    pub fn tag(self) -> Tag {
        Tag(self.0.get() as u32)
    }
}

/// The low 32 bits of an incarnation. Packets have both ends' tags: 64 bits that nobody guesses.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Tag(pub u32);

/// A stream: the frames for one egress of the far switch in one class. They keep their order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Stream {
    /// The label of the far egress.
    pub label: u32,
    /// The class.
    pub class: Class,
}

impl Stream {
    /// None is before it.
    pub(crate) const FIRST: Self = Self { label: 0, class: Class::from_low_bits(0) };
}

/// The incarnations between which a message is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ends {
    /// The sender's.
    pub from: Tag,
    /// The receiver's.
    pub to: Tag,
}

/// A message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Message {
    /// A handshake message.
    Hello(Hello),
    /// The header of a data packet, and a piggybacked report.
    Data(Data, Option<Report>),
    /// A report: acknowledgements, credit grants, NACKs, window probes.
    Report(Report),
}

/// A HELLO: the handshake message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hello {
    /// The sender's incarnation.
    pub from: Incarnation,
    /// The receiver's incarnation, if the sender knows one.
    pub to: Option<Incarnation>,
    /// The oldest and the newest version that the sender speaks.
    pub versions: [u8; 2],
    /// The classes that the sender retransmits.
    pub reliable: ClassSet,
    /// What the sender accepts of each stream before the first grant.
    pub unsolicited: Unsolicited,
}

/// The bytes of each stream that are accepted before the first grant.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Unsolicited {
    /// Bytes, for classes that are not unlimited.
    pub bytes: u32,
    /// The classes with [`MOST`](Self::MOST).
    pub unlimited: ClassSet,
}

impl Unsolicited {
    /// The most, in bytes: the widest window of a stream.
    pub const MOST: u32 = 1 << 30;

    /// Bytes of each stream of this class.
    pub const fn of(self, class: Class) -> u32 {
        if self.unlimited.contains(class) { Self::MOST } else { self.bytes }
    }
}

/// The header of a data packet: a frame, or a part of one. Each part has its own position in the
/// stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Data {
    /// The incarnations.
    pub ends: Ends,
    /// The packet number, its low 32 bits.
    pub number: u32,
    /// The stream.
    pub stream: Stream,
    /// The offset in the stream, its low 32 bits.
    pub offset: u32,
    /// The length in bytes. If no payload follows, the frame was withdrawn, and the packet holds
    /// its position.
    pub len: NonZeroU16,
    /// Which part of its frame this is.
    pub part: Part,
    /// The frame's offload metadata (virtio 1.2, 5.1.6), if there is any. The first part has it.
    pub offload: Option<[u8; Offload::LEN]>,
    /// What goes with a frame of a logical network. The first part has it.
    pub context: Option<Context>,
    /// What is needed to reassemble a TCP segment that a network card may cut.
    pub cut: Option<Cut>,
}

/// What is needed to reassemble a large TCP segment that a network card has cut (LSO).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cut {
    /// The low 16 bits of its first sequence number. No frame is longer than they count.
    pub sequence: u16,
    /// The payload of each packet in bytes, except the last (MSS).
    pub size: NonZeroU16,
    /// The last packet's PSH and FIN flags; no other packet has them.
    pub flags: Flags,
}

impl Cut {
    /// The flags that only the last packet has.
    pub const FLAGS: Flags = Flags(Flags::PSH.0 | Flags::FIN.0);

    fn read(shape: u16, record: &CutRecord) -> Option<Self> {
        let flag = |bit, flag| if shape & bit != 0 { flag } else { Flags(0) };
        let flags = flag(LAST_HAS_PSH, Flags::PSH) | flag(LAST_HAS_FIN, Flags::FIN);
        Some(Self {
            sequence: record.sequence.get(),
            size: NonZeroU16::new(record.size.get())?,
            flags,
        })
    }

    fn shape(self) -> u16 {
        bit(self.flags.contains(Flags::PSH), LAST_HAS_PSH)
            | bit(self.flags.contains(Flags::FIN), LAST_HAS_FIN)
    }

    fn record(self) -> CutRecord {
        CutRecord { sequence: U16::new(self.sequence), size: U16::new(self.size.get()) }
    }
}

/// The position of a part in its frame.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Part {
    /// It continues the frame of the part before it.
    pub continues: bool,
    /// The next part in the stream continues its frame.
    pub more: bool,
}

impl Part {
    /// A whole frame.
    pub const WHOLE: Self = Self { continues: false, more: false };
}

/// A report.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// The incarnations.
    pub ends: Ends,
    /// The number of marked packets received, its low 32 bits.
    pub marked: u32,
    /// The packet numbers received: the first and last of each range of at most 65,536, the highest
    /// range first.
    pub came: Vec<[u32; 2]>,
    /// The numbers of packets that came marked since the report before, as far as there is room for
    /// them: ranges as above.
    pub marks: Vec<[u32; 2]>,
    /// Credit grants.
    pub grants: Vec<CreditGrant>,
    /// NACKs of streams that are granted credit in the same report.
    pub nacks: Vec<Nack>,
    /// Window probes.
    pub window_probes: Vec<WindowProbe>,
    /// Frames that are given back.
    pub returns: Vec<Return>,
}

/// A credit grant: how far a stream is consumed and may be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CreditGrant {
    /// The stream.
    pub stream: Stream,
    /// All before this offset is consumed.
    pub consumed: u32,
    /// The limit: the stream may be sent up to this offset.
    pub limit: u32,
}

/// A NACK: frames that found no memory, to be retransmitted when credit allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Nack {
    /// The stream.
    pub stream: Stream,
    /// The highest packet number of those that found no memory.
    pub number: u32,
    /// The lowest offset.
    pub from: u32,
    /// They have memory: what decided them is not known here yet.
    pub is_early: bool,
}

/// Frames of a stream that are given back, all for the same reason.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Return {
    /// The stream.
    pub stream: Stream,
    /// Where the first of them begins.
    pub from: u32,
    /// Where the last of them ends.
    pub until: u32,
    /// Why.
    pub answer: Answer,
}

/// A window probe: asks for a credit grant of a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WindowProbe {
    /// The stream.
    pub stream: Stream,
    /// How far the stream was sent.
    pub sent: u32,
}

const HELLO: u8 = TunnelOption::CRITICAL | 1;
const DATA: u8 = TunnelOption::CRITICAL | 2;
const REPORT: u8 = TunnelOption::CRITICAL | 3;
const GRANTS: u8 = TunnelOption::CRITICAL | 4;
const WINDOW_PROBES: u8 = TunnelOption::CRITICAL | 5;
const OFFLOAD: u8 = TunnelOption::CRITICAL | 6;
const MARKS: u8 = TunnelOption::CRITICAL | 7;
// From 8 to 12 are those of sealed packets.
const CONTEXT: u8 = TunnelOption::CRITICAL | 13;
const RETURNS: u8 = TunnelOption::CRITICAL | 14;

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct EndsRecord {
    from: U32,
    to: U32,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct StreamRecord {
    label: U32,
    class: u8,
    /// Of a credit grant, [`NACK`] and [`NOT_YET`]; otherwise unused.
    flags: u8,
    unused: [u8; 2],
}

/// The record is a NACK: `consumed` holds its packet number, and `limit` its offset.
const NACK: u8 = 1 << 0;
/// Of a NACK: it is not memory that is missing.
const NOT_YET: u8 = 1 << 1;

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct HelloRecord {
    from: U64,
    /// 0 for unknown.
    to: U64,
    versions: [u8; 2],
    /// A bit for each class.
    reliable: u8,
    /// A bit for each class.
    unlimited: u8,
    unsolicited: U32,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct DataRecord {
    ends: EndsRecord,
    number: U32,
    offset: U32,
    label: U32,
    /// The class in the lowest bits, and [flags](CONTINUES).
    shape: U16,
    len: U16,
}

/// The bits of a shape that hold the class.
const CLASS: u16 = 7;
const CONTINUES: u16 = 1 << 3;
const MORE: u16 = 1 << 4;
/// Flags of a frame that a network card may cut.
const LAST_HAS_PSH: u16 = 1 << 5;
const LAST_HAS_FIN: u16 = 1 << 6;

/// The end of a data option whose frame a network card may cut.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct CutRecord {
    sequence: U16,
    size: U16,
}

const fn bit(is_set: bool, bit: u16) -> u16 {
    if is_set { bit } else { 0 }
}

/// The beginning of a report; ranges follow.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ReportRecord {
    ends: EndsRecord,
    marked: U32,
    /// The highest number of the first range.
    largest: U32,
}

/// A range (RFC 9000 §19.3.1), counted downwards: the numbers missing above it, less one, and its
/// length, less one. For the first range, `missing` is 0.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RangeRecord {
    missing: U16,
    len: U16,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct GrantRecord {
    stream: StreamRecord,
    consumed: U32,
    limit: U32,
}

/// A range of marked packets: its highest number, and its length, less one.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct MarkRecord {
    last: U32,
    len: U16,
    unused: U16,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct WindowProbeRecord {
    stream: StreamRecord,
    sent: U32,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ReturnRecord {
    label: U32,
    class: u8,
    kind: u8,
    code: U16,
    from: U32,
    until: U32,
    new_label: U32,
    host: [u8; 16],
}

impl ReturnRecord {
    fn of(it: &Return) -> Self {
        let (kind, code, new_label, host) = it.answer.parts();
        Self {
            label: U32::new(it.stream.label),
            class: it.stream.class.pcp(),
            kind,
            code: U16::new(code),
            from: U32::new(it.from),
            until: U32::new(it.until),
            new_label: U32::new(new_label),
            host,
        }
    }

    fn read(&self) -> Option<Return> {
        let parts = (self.kind, self.code.get(), self.new_label.get(), self.host);
        let stream = Stream { label: self.label.get(), class: Class::new(self.class)? };
        let [from, until] = [&self.from, &self.until].map(|offset| offset.get());
        Some(Return { stream, from, until, answer: Answer::of(parts)? })
    }
}

impl Message {
    /// Parses a packet's options. `None` if none are ours, or they are malformed.
    pub fn parse(options: Options<'_>) -> Option<Self> {
        let mut ours = options.filter(|option| option.class == OPTION_CLASS);
        let first = ours.next()?;
        match first.kind {
            HELLO => Hello::parse(first.data).map(Self::Hello),
            DATA => {
                let mut rest = ours.peekable();
                let offload = rest.next_if(|option| option.kind == OFFLOAD);
                let context = rest.next_if(|option| option.kind == CONTEXT);
                let [offload, context] = [offload, context].map(|it| it.map(|it| it.data));
                let data = Data::parse(first.data, offload, context)?;
                let report = match rest.next() {
                    None => None,
                    // A network card would copy the report to each packet that it cuts.
                    Some(option) if option.kind == REPORT && data.cut.is_none() => {
                        Some(Report::parse(option.data, rest)?)
                    }
                    Some(_) => return None,
                };
                Some(Self::Data(data, report))
            }
            REPORT => Report::parse(first.data, ours).map(Self::Report),
            _ => None,
        }
    }

    /// Whether an option of our class has a known type.
    pub fn knows(kind: u8) -> bool {
        matches!(kind, HELLO..=MARKS | CONTEXT | RETURNS)
    }

    /// Adds the message to a packet. `false` if it does not fit; it always fits in a packet without
    /// other options.
    pub fn write(&self, draft: &mut Draft) -> bool {
        match self {
            Self::Hello(hello) => hello.write(draft),
            Self::Data(data, report) => {
                data.write(draft) && report.as_ref().is_none_or(|report| report.write(draft))
            }
            Self::Report(report) => report.write(draft),
        }
    }
}

/// The length of an option with so many bytes of data.
const fn option_len(data: usize) -> usize {
    4 + data
}

const _: () = assert!(
    option_len(size_of::<DataRecord>())
        + option_len(Offload::LEN)
        + option_len(Context::LEN)
        + Report::MOST_LEN
        <= MOST_OPTIONS_LEN,
    "a report may go with any frame"
);

const _: () = assert!(
    Report::MOST_LEN + option_len(MAX_RETURNS * size_of::<ReturnRecord>()) <= MOST_OPTIONS_LEN,
    "returns may go with any report that has no window probes"
);

fn add(draft: &mut Draft, kind: u8, data: &[u8]) -> bool {
    draft.add(TunnelOption { class: OPTION_CLASS, kind, data })
}

impl Hello {
    fn parse(data: &[u8]) -> Option<Self> {
        let record = HelloRecord::ref_from_bytes(data).ok()?;
        let unlimited = ClassSet::from_bits(record.unlimited);
        Some(Self {
            from: incarnation(record.from)?,
            to: incarnation(record.to),
            versions: record.versions,
            reliable: ClassSet::from_bits(record.reliable),
            unsolicited: Unsolicited { bytes: record.unsolicited.get(), unlimited },
        })
    }

    fn write(&self, draft: &mut Draft) -> bool {
        let record = HelloRecord {
            from: U64::new(self.from.0.get()),
            to: U64::new(self.to.map_or(0, |to| to.0.get())),
            versions: self.versions,
            reliable: self.reliable.bits(),
            unlimited: self.unsolicited.unlimited.bits(),
            unsolicited: U32::new(self.unsolicited.bytes),
        };
        add(draft, HELLO, record.as_bytes())
    }
}

impl Data {
    /// The header of a whole frame without offload metadata.
    pub const fn whole(
        ends: Ends,
        number: u32,
        stream: Stream,
        offset: u32,
        len: NonZeroU16,
    ) -> Self {
        Self {
            ends,
            number,
            stream,
            offset,
            len,
            part: Part::WHOLE,
            offload: None,
            context: None,
            cut: None,
        }
    }

    fn parse(data: &[u8], offload: Option<&[u8]>, context: Option<&[u8]>) -> Option<Self> {
        let (record, cut) = DataRecord::ref_from_prefix(data).ok()?;
        let offload = offload.map(|offload| offload.try_into()).transpose().ok()?;
        let context = match context {
            None => None,
            Some(context) => Some(Context::parse(context)?),
        };
        let shape = record.shape.get();
        let cut = match cut {
            [] => None,
            _ if offload.is_some() => return None,
            cut => Some(Cut::read(shape, CutRecord::ref_from_bytes(cut).ok()?)?),
        };
        Some(Self {
            ends: record.ends.read(),
            number: record.number.get(),
            stream: Stream {
                label: record.label.get(),
                class: Class::from_low_bits((shape & CLASS) as u8),
            },
            offset: record.offset.get(),
            len: NonZeroU16::new(record.len.get())?,
            part: Part { continues: shape & CONTINUES != 0, more: shape & MORE != 0 },
            offload,
            context,
            cut,
        })
    }

    /// Adds the header to a packet. `false` if it does not fit.
    pub fn write(&self, draft: &mut Draft) -> bool {
        let part = bit(self.part.continues, CONTINUES) | bit(self.part.more, MORE);
        let cut = self.cut.map_or(0, Cut::shape);
        let record = DataRecord {
            ends: EndsRecord::of(self.ends),
            number: U32::new(self.number),
            offset: U32::new(self.offset),
            label: U32::new(self.stream.label),
            shape: U16::new(u16::from(self.stream.class.pcp()) | part | cut),
            len: U16::new(self.len.get()),
        };
        let mut data = [0; size_of::<DataRecord>() + size_of::<CutRecord>()];
        let (fixed, rest) = data.split_at_mut(size_of::<DataRecord>());
        fixed.copy_from_slice(record.as_bytes());
        let mut len = fixed.len();
        if let Some(cut) = self.cut {
            rest.copy_from_slice(cut.record().as_bytes());
            len += rest.len();
        }
        add(draft, DATA, &data[..len])
            && self.offload.is_none_or(|offload| add(draft, OFFLOAD, &offload))
            && self.context.is_none_or(|context| add(draft, CONTEXT, &context.emit()))
    }
}

impl Report {
    /// The longest options of a report without window probes, in bytes.
    pub const MOST_LEN: usize =
        option_len(size_of::<ReportRecord>() + MAX_RANGES * size_of::<RangeRecord>())
            + option_len(MAX_GRANTS * size_of::<GrantRecord>());

    fn parse<'a>(data: &'a [u8], rest: impl Iterator<Item = TunnelOption<'a>>) -> Option<Self> {
        let (record, ranges) = ReportRecord::ref_from_prefix(data).ok()?;
        let mut next = record.largest.get();
        let mut came = Vec::new();
        for (place, range) in <[RangeRecord]>::ref_from_bytes(ranges).ok()?.iter().enumerate() {
            let last = if place == 0 {
                next
            } else {
                next.wrapping_sub(u32::from(range.missing.get()) + 2)
            };
            next = last.wrapping_sub(range.len.get().into());
            came.push([next, last]);
        }
        let mut report = Self {
            ends: record.ends.read(),
            marked: record.marked.get(),
            came,
            marks: Vec::new(),
            grants: Vec::new(),
            nacks: Vec::new(),
            window_probes: Vec::new(),
            returns: Vec::new(),
        };
        for option in rest {
            match option.kind {
                GRANTS => {
                    for GrantRecord { stream, consumed, limit } in
                        <[GrantRecord]>::ref_from_bytes(option.data).ok()?
                    {
                        let [is_again, is_early] =
                            [NACK, NOT_YET].map(|flag| stream.flags & flag != 0);
                        let (stream, first, second) = (stream.read()?, consumed.get(), limit.get());
                        if is_again {
                            report.nacks.push(Nack {
                                stream,
                                number: first,
                                from: second,
                                is_early,
                            });
                        } else {
                            report.grants.push(CreditGrant {
                                stream,
                                consumed: first,
                                limit: second,
                            });
                        }
                    }
                }
                WINDOW_PROBES => {
                    for WindowProbeRecord { stream, sent } in
                        <[WindowProbeRecord]>::ref_from_bytes(option.data).ok()?
                    {
                        report
                            .window_probes
                            .push(WindowProbe { stream: stream.read()?, sent: sent.get() });
                    }
                }
                MARKS => {
                    for MarkRecord { last, len, .. } in
                        <[MarkRecord]>::ref_from_bytes(option.data).ok()?
                    {
                        let last = last.get();
                        report.marks.push([last.wrapping_sub(len.get().into()), last]);
                    }
                }
                RETURNS => {
                    for record in <[ReturnRecord]>::ref_from_bytes(option.data).ok()? {
                        report.returns.push(record.read()?);
                    }
                }
                _ => return None,
            }
        }
        let grants = report.grants.len() + report.nacks.len();
        let fits = grants <= MAX_GRANTS
            && report.window_probes.len() <= MAX_WINDOW_PROBES
            && report.marks.len() <= MAX_MARKS
            && report.returns.len() <= MAX_RETURNS;
        fits.then_some(report)
    }

    /// Whether the report says that the packet of this number came marked.
    pub fn names_marked(&self, number: u64) -> bool {
        let number = number as u32;
        self.marks
            .iter()
            .any(|[first, last]| number.wrapping_sub(*first) <= last.wrapping_sub(*first))
    }

    /// How many ranges of marked packets go with the rest, which goes with any frame.
    fn room_for_marks(&self) -> usize {
        let ranges = self.came.len().min(MAX_RANGES);
        let grants = self.grants.len() + self.nacks.len();
        let len = option_len(size_of::<ReportRecord>() + ranges * size_of::<RangeRecord>())
            + option_len(grants * size_of::<GrantRecord>());
        let room = Self::MOST_LEN.saturating_sub(len + option_len(0));
        MAX_MARKS.min(room / size_of::<MarkRecord>())
    }

    /// Adds the report to a packet. `false` if it does not fit. It fits behind a data option if it
    /// has neither window probes nor returns, and in a packet of its own if it has only one kind of
    /// these.
    pub fn write(&self, draft: &mut Draft) -> bool {
        let mut data = Vec::with_capacity(size_of::<ReportRecord>() + 4 * MAX_RANGES);
        let largest = self.came.first().map_or(0, |[_, last]| *last);
        let head = ReportRecord {
            ends: EndsRecord::of(self.ends),
            marked: U32::new(self.marked),
            largest: U32::new(largest),
        };
        data.extend_from_slice(head.as_bytes());
        let mut above = None;
        for [first, last] in self.came.iter().take(MAX_RANGES) {
            let missing = above.map_or(0, |above: u32| above.wrapping_sub(*last).wrapping_sub(2));
            let len = last.wrapping_sub(*first);
            // Ranges so far apart, or so long, were acknowledged earlier.
            let (Ok(missing), Ok(len)) = (u16::try_from(missing), u16::try_from(len)) else {
                break;
            };
            data.extend_from_slice(
                RangeRecord { missing: U16::new(missing), len: U16::new(len) }.as_bytes(),
            );
            above = Some(*first);
        }
        let grant = |grant: &CreditGrant| GrantRecord {
            stream: StreamRecord::of(grant.stream),
            consumed: U32::new(grant.consumed),
            limit: U32::new(grant.limit),
        };
        let window_probe = |window_probe: &WindowProbe| WindowProbeRecord {
            stream: StreamRecord::of(window_probe.stream),
            sent: U32::new(window_probe.sent),
        };
        let nack = |nack: &Nack| GrantRecord {
            stream: StreamRecord {
                flags: NACK | if nack.is_early { NOT_YET } else { 0 },
                ..StreamRecord::of(nack.stream)
            },
            consumed: U32::new(nack.number),
            limit: U32::new(nack.from),
        };
        let grants: Vec<_> =
            self.nacks.iter().map(nack).chain(self.grants.iter().map(grant)).collect();
        let window_probes: Vec<_> = self.window_probes.iter().map(window_probe).collect();
        let mark = |[first, last]: &[u32; 2]| MarkRecord {
            last: U32::new(*last),
            len: U16::new(u16::try_from(last.wrapping_sub(*first)).unwrap_or(u16::MAX)),
            unused: U16::ZERO,
        };
        let room = if self.marks.is_empty() { 0 } else { self.room_for_marks() };
        let marks: Vec<_> = self.marks.iter().take(room).map(mark).collect();
        let returns: Vec<_> = self.returns.iter().map(ReturnRecord::of).collect();
        add(draft, REPORT, &data)
            && (marks.is_empty() || add(draft, MARKS, marks.as_bytes()))
            && (grants.is_empty() || add(draft, GRANTS, grants.as_bytes()))
            && (window_probes.is_empty() || add(draft, WINDOW_PROBES, window_probes.as_bytes()))
            && (returns.is_empty() || add(draft, RETURNS, returns.as_bytes()))
    }
}

impl EndsRecord {
    fn of(ends: Ends) -> Self {
        Self { from: U32::new(ends.from.0), to: U32::new(ends.to.0) }
    }

    fn read(&self) -> Ends {
        Ends { from: Tag(self.from.get()), to: Tag(self.to.get()) }
    }
}

impl StreamRecord {
    fn of(stream: Stream) -> Self {
        Self { label: U32::new(stream.label), class: stream.class.pcp(), flags: 0, unused: [0; 2] }
    }

    fn read(&self) -> Option<Stream> {
        Some(Stream { label: self.label.get(), class: Class::new(self.class)? })
    }
}

fn incarnation(number: U64) -> Option<Incarnation> {
    NonZeroU64::new(number.get()).map(Incarnation)
}
