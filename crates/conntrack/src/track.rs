//! How far a connection is, and which packets can be of it now.
//!
//! ```text
//!            SYN             SYN, ACK             ACK               FIN            FIN, both acknowledged
//!  (nothing) ───▶ opening ───────────▶ accepting ─────▶ established ───▶ closing ───────────▶ time wait
//!                  │ SYN from both         ▲                │
//!                  └──────▶ crossing ──────┘ RST from anywhere ▶ closed      SYN: a new one in its place
//! ```
//!
//! Of TCP each side is followed as in van Rooij, *Real Stateful TCP Packet Filtering in IP Filter*
//! (2001): how far it has sent, how far it may, what it has acknowledged, its largest window. A
//! segment that lies outside is of no connection. One that is inside, but that the receiver has to
//! question by RFC 5961 (a reset that is not exact, a SYN), passes and changes nothing: the
//! receiver's own answer tells the truth.

use wire::ip::protocol;
use wire::tcp::Flags;

use crate::packet::{Kind, Segment, is_first};
use crate::timeouts::Age;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Way {
    /// As the connection's first one went.
    Original,
    /// The other way.
    Reply,
}

impl Way {
    /// The place of what is the sender's of a packet that goes so, in pairs, and of what is the
    /// receiver's.
    #[inline]
    const fn sides(self) -> (usize, usize) {
        let own = self as usize & 1;
        (own, own ^ 1)
    }

    /// The other one.
    pub const fn opposite(self) -> Self {
        match self {
            Self::Original => Self::Reply,
            Self::Reply => Self::Original,
        }
    }
}

/// Why a packet is of no connection.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Why {
    /// There is none, and it cannot begin one.
    NoConnection,
    /// An ICMP error about no packet of a connection.
    Unrelated,
    /// TCP: control bits that exclude each other.
    Flags,
    /// TCP: nothing has been agreed on, and it is no answer to what was asked.
    Early,
    /// TCP: data that was not allowed, or an acknowledgment of what was not sent.
    Window,
    /// TCP: a reset that its receiver would not take.
    Reset,
    /// Its two tuples are one.
    Circular,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Phase {
    /// TCP: one side has sent a SYN.
    Opening,
    /// TCP: both have, and neither has answered (RFC 9293 §3.5, figure 8).
    Crossing,
    /// TCP: the SYN was answered.
    Accepting,
    /// TCP: the handshake is complete.
    Established,
    /// TCP: a side has sent its last, or both have.
    Closing,
    /// TCP: both have, and know it of each other.
    TimeWait,
    /// TCP: reset.
    Closed,
    /// UDP.
    Udp,
    /// UDP from or to port 53.
    Names,
    /// Echo.
    Echo,
    /// Any other protocol.
    Other,
}

impl Phase {
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Opening,
            1 => Self::Crossing,
            2 => Self::Accepting,
            3 => Self::Established,
            4 => Self::Closing,
            5 => Self::TimeWait,
            6 => Self::Closed,
            7 => Self::Udp,
            8 => Self::Names,
            9 => Self::Echo,
            10 => Self::Other,
            _ => return None,
        })
    }

    const fn is_tcp(self) -> bool {
        (self as u8) < Self::Udp as u8
    }
}

/// What becomes of a connection by a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Judged {
    /// It goes on.
    Advances,
    /// Nothing: the packet is for its receiver to question.
    Passes,
    /// It was over, and the packet begins another one.
    Reopens,
    /// The packet is not of it.
    Invalid(Why),
}

/// The bits of [`Track::bits`].
pub mod bit {
    /// The first of two, one a side: it has sent its last.
    pub const FINISHED: u8 = 1;
    /// The first of two, one a side: its numbers are known.
    pub const KNOWN: u8 = 4;
    /// Its windows are not known: nothing is refused by them.
    pub const LOOSE: u8 = 16;
    /// A reply was seen.
    pub const ANSWERED: u8 = 32;
    /// The caller's: stays although its rule says otherwise now.
    pub const PERSISTS: u8 = 64;
    /// The caller's: its rule no longer allows it.
    pub const BLOCKED: u8 = 128;
}

/// No window scale was offered.
const UNSCALED: u8 = 15;

/// How much older than the newest an acknowledgment may be, at least, in bytes: Linux's
/// `MAXACKWINCONST`.
const OLD_ACKNOWLEDGMENTS: u32 = 66_000;

/// What a connection knows of its protocol: 32 bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Track {
    /// Of each side, the number behind the last that it has sent.
    pub ends: [u32; 2],
    /// Of each side, up to where it may send. While opening, of who asked: the least acknowledgment
    /// that is an answer.
    pub limits: [u32; 2],
    /// Of each side, the highest number that it has acknowledged.
    pub acked: [u32; 2],
    /// Of each side, the largest window that it has announced, to be shifted by its scale.
    pub windows: [u16; 2],
    pub phase: Phase,
    /// The first side's window scale in the lower half, the other's in the upper.
    pub scales: u8,
    pub bits: u8,
    pub protocol: u8,
}

/// Whether a sequence number is not behind another (RFC 9293 §3.4).
#[inline]
const fn at_most(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) >= 0
}

#[inline]
const fn later(a: u32, b: u32) -> u32 {
    if at_most(a, b) { b } else { a }
}

impl Track {
    /// A connection that has no packets yet.
    pub const fn new(protocol: u8, ports: (u16, u16), kind: &Kind) -> Self {
        let phase = match (protocol, kind) {
            (protocol::TCP, _) => Phase::Opening,
            (_, Kind::Ask) => Phase::Echo,
            (protocol::UDP, _) if ports.0 == 53 || ports.1 == 53 => Phase::Names,
            (protocol::UDP, _) => Phase::Udp,
            _ => Phase::Other,
        };
        Self {
            ends: [0; 2],
            limits: [0; 2],
            acked: [0; 2],
            windows: [0; 2],
            phase,
            scales: UNSCALED << 4 | UNSCALED,
            bits: 0,
            protocol,
        }
    }

    #[inline]
    pub const fn has(&self, bits: u8) -> bool {
        self.bits & bits == bits
    }

    pub const fn set(&mut self, bits: u8, is_so: bool) {
        self.bits = self.bits & !bits | if is_so { bits } else { 0 };
    }

    /// Which timeout holds.
    #[inline]
    pub const fn age(&self) -> Age {
        let is_answered = self.has(bit::ANSWERED);
        match self.phase {
            Phase::Opening | Phase::Crossing => Age::TcpOpening,
            Phase::Accepting => Age::TcpAccepting,
            Phase::Established => Age::TcpEstablished,
            Phase::Closing => Age::TcpClosing,
            Phase::TimeWait => Age::TcpTimeWait,
            Phase::Closed => Age::TcpClosed,
            Phase::Udp if is_answered => Age::UdpAnswered,
            Phase::Udp => Age::Udp,
            Phase::Names => Age::Names,
            Phase::Echo => Age::Echo,
            Phase::Other if is_answered => Age::OtherAnswered,
            Phase::Other => Age::Other,
        }
    }

    /// What a packet would make of it.
    #[inline(always)]
    pub fn judge(&self, way: Way, kind: &Kind) -> Judged {
        // What is most common, first.
        let plain = Flags::SYN | Flags::RST | Flags::ACK;
        match kind {
            Kind::Tcp(segment)
                if self.phase == Phase::Established
                    && segment.flags.0 & plain.0 == Flags::ACK.0
                    && self.fits(way, segment) =>
            {
                Judged::Advances
            }
            _ => self.judge_any(way, kind),
        }
    }

    #[inline(never)]
    fn judge_any(&self, way: Way, kind: &Kind) -> Judged {
        match kind {
            Kind::Tcp(segment) if self.phase.is_tcp() => self.judge_segment(way, segment),
            // Who asked is not answered with a question: where the identifier is 0.
            Kind::Ask if way == Way::Reply => Judged::Invalid(Why::NoConnection),
            Kind::Answer if way == Way::Original => Judged::Invalid(Why::NoConnection),
            Kind::Tcp(_) | Kind::Datagram | Kind::Ask | Kind::Answer => Judged::Advances,
            Kind::Part if self.phase.is_tcp() => Judged::Passes,
            Kind::Part => Judged::Advances,
            Kind::Error | Kind::Stray | Kind::Other => Judged::Passes,
        }
    }

    fn judge_segment(&self, way: Way, segment: &Segment) -> Judged {
        let flags = segment.flags;
        if flags.any(Flags::SYN | Flags::RST) {
            return self.judge_control(way, segment);
        }
        if !flags.contains(Flags::ACK) {
            return Judged::Invalid(Why::Flags); // RFC 9293 §3.10.7.4, fifth
        }
        let (_, other) = way.sides();
        match self.phase {
            Phase::Established | Phase::Closing | Phase::TimeWait | Phase::Accepting => {
                match self.has(bit::LOOSE) || self.fits(way, segment) {
                    true => Judged::Advances,
                    false => Judged::Invalid(Why::Window),
                }
            }
            Phase::Crossing if segment.acknowledgment == self.ends[other] => Judged::Advances,
            // Who still has an old connection says so, and is answered with a reset (RFC 9293
            // §3.5.1, figure 9).
            Phase::Opening if way == Way::Reply && segment.counts() == 0 => Judged::Passes,
            Phase::Closed => Judged::Passes,
            _ => Judged::Invalid(Why::Early),
        }
    }

    /// A side's largest window, in bytes.
    #[inline]
    const fn window(&self, side: usize) -> u32 {
        (self.windows[side] as u32) << self.scale(side)
    }

    #[inline]
    const fn scale(&self, side: usize) -> u8 {
        self.scales >> (4 * side) & 15
    }

    /// Whether a segment is within both windows.
    #[inline(always)]
    const fn fits(&self, way: Way, segment: &Segment) -> bool {
        let (own, other) = way.sides();
        let end = segment.end();
        let acknowledgment = segment.acknowledgment;
        let oldest = self.ends[own].wrapping_sub(self.window(other)).wrapping_sub(1);
        let late = self.window(own);
        let late = if late > OLD_ACKNOWLEDGMENTS { late } else { OLD_ACKNOWLEDGMENTS };
        // One number more: a FIN, which not all stacks have room for, or a byte that asks whether a
        // closed window is open again (RFC 9293 §3.8.6.1).
        at_most(end, self.limits[own].wrapping_add(1))
            & at_most(oldest, end)
            & at_most(acknowledgment, self.ends[other])
            // RFC 5961 §5.2
            & at_most(self.acked[own].wrapping_sub(late), acknowledgment)
    }

    /// What a SYN or a reset would make of it.
    fn judge_control(&self, way: Way, segment: &Segment) -> Judged {
        let flags = segment.flags;
        let (own, other) = way.sides();
        let [syn, ack, rst, fin] =
            [Flags::SYN, Flags::ACK, Flags::RST, Flags::FIN].map(|flag| flags.contains(flag));
        if (syn && (rst || fin)) || (rst && fin) {
            return Judged::Invalid(Why::Flags);
        }
        if rst {
            return self.judge_reset(way, segment);
        }
        let is_again = segment.end() == self.ends[own];
        let advances = match self.phase {
            // RFC 9293 §3.6.1, RFC 6191: whether it may is for its receiver to say.
            Phase::Closed | Phase::TimeWait if is_first(flags) => return Judged::Reopens,
            Phase::Opening if way == Way::Original && ack => return Judged::Invalid(Why::Early),
            Phase::Opening if way == Way::Reply && ack => self.answers(segment),
            Phase::Opening => true,
            Phase::Crossing => is_again && (!ack || segment.acknowledgment == self.ends[other]),
            Phase::Accepting => is_again,
            // RFC 5961 §4.2
            _ => false,
        };
        if advances { Judged::Advances } else { Judged::Passes }
    }

    /// Whether a segment acknowledges what was asked, all or, where data was with it, a part (RFC
    /// 7413 §4.2).
    const fn answers(&self, segment: &Segment) -> bool {
        at_most(self.limits[0], segment.acknowledgment)
            && at_most(segment.acknowledgment, self.ends[0])
    }

    fn judge_reset(&self, way: Way, segment: &Segment) -> Judged {
        let (own, other) = way.sides();
        let sequence = segment.sequence;
        let is_next = sequence == self.ends[own];
        match (self.phase, way) {
            (Phase::Closed, _) => Judged::Passes,
            // RFC 9293 §3.10.7.3: it has to acknowledge what was asked.
            (Phase::Opening, Way::Reply) => {
                match segment.flags.contains(Flags::ACK) && self.answers(segment) {
                    true => Judged::Advances,
                    false => Judged::Invalid(Why::Reset),
                }
            }
            (Phase::Opening, Way::Original) if is_next => Judged::Advances,
            (Phase::Opening, Way::Original) => Judged::Passes,
            _ if self.has(bit::LOOSE) && !self.has(3 * bit::KNOWN) => Judged::Passes,
            // RFC 5961 §3.2: only the exact number resets; others are for the receiver to question.
            _ if is_next || sequence == self.acked[other] => Judged::Advances,
            _ if self.has(bit::LOOSE) => Judged::Passes,
            _ => {
                match at_most(self.acked[other], sequence) && at_most(sequence, self.limits[own]) {
                    true => Judged::Passes,
                    false => Judged::Invalid(Why::Reset),
                }
            }
        }
    }

    /// Takes note of a packet that [advances](Judged::Advances) it.
    #[inline]
    pub fn advance(&mut self, way: Way, kind: &Kind) {
        if way == Way::Reply {
            self.bits |= bit::ANSWERED;
        }
        if let Kind::Tcp(segment) = kind
            && self.phase.is_tcp()
        {
            if segment.flags.any(Flags::SYN | Flags::RST) {
                self.advance_by_control(way, segment);
            } else {
                self.advance_by(way, segment);
            }
        }
    }

    /// By an ordinary segment.
    #[inline]
    fn advance_by(&mut self, way: Way, segment: &Segment) {
        let (own, other) = way.sides();
        let (end, window) = (segment.end(), segment.window);
        let is_known = self.has(bit::KNOWN << own);
        let is_new = !is_known || !at_most(segment.acknowledgment, self.acked[own]);
        let limit = segment.acknowledgment.wrapping_add(u32::from(window) << self.scale(own));
        let is_plain = is_known && !segment.is_part && !segment.flags.contains(Flags::FIN);
        if is_known {
            self.ends[own] = later(self.ends[own], end);
            self.acked[own] = later(self.acked[own], segment.acknowledgment);
            self.windows[own] = self.windows[own].max(window);
            self.limits[other] = later(self.limits[other], limit);
        } else {
            self.ends[own] = end;
            self.acked[own] = segment.acknowledgment;
            self.windows[own] = window;
            self.limits[other] = limit;
            self.bits |= bit::KNOWN << own;
        }
        if is_plain && self.phase == Phase::Established {
            return;
        }
        if segment.is_part {
            // How long it is, nobody knows here.
            self.bits |= bit::LOOSE;
        }
        if segment.flags.contains(Flags::FIN) {
            self.bits |= bit::FINISHED << own;
        }
        self.phase = match self.phase {
            Phase::Opening | Phase::Closed => self.phase,
            // Until who asked acknowledges the other's SYN, too.
            Phase::Accepting if way == Way::Reply || !is_new => Phase::Accepting,
            Phase::Crossing if self.acked[other] != self.ends[own] => Phase::Crossing,
            _ if self.bits & (3 * bit::FINISHED) == 0 => Phase::Established,
            _ if self.has(3 * bit::FINISHED) && self.is_all_acknowledged() => Phase::TimeWait,
            _ => Phase::Closing,
        };
    }

    const fn is_all_acknowledged(&self) -> bool {
        at_most(self.ends[1], self.acked[0]) && at_most(self.ends[0], self.acked[1])
    }

    fn advance_by_control(&mut self, way: Way, segment: &Segment) {
        let own = way as usize;
        if segment.flags.contains(Flags::RST) {
            self.phase = Phase::Closed;
            return;
        }
        let (sequence, end) = (segment.sequence, segment.end());
        let scale = segment.scale.map_or(UNSCALED, |bits| bits.min(14)); // RFC 7323 §2.3
        match (self.phase, way) {
            (Phase::Opening, Way::Original) => {
                self.ends[0] = end;
                self.limits[0] = sequence.wrapping_add(1);
                self.windows[0] = segment.window;
                self.scales = self.scales & 0xf0 | scale;
                self.bits |= bit::KNOWN;
            }
            (Phase::Opening, Way::Reply) => {
                self.ends[1] = end;
                self.windows[1] = segment.window;
                self.scales = self.scales & 0x0f | scale << 4;
                self.bits |= bit::KNOWN << 1;
                let (asked, first) = (self.limits[0].wrapping_sub(1), u32::from(self.windows[0]));
                self.agree_on_scales();
                self.acked = [sequence, asked];
                self.limits[1] = sequence.wrapping_add(1).wrapping_add(first);
                let window = u32::from(segment.window);
                if segment.flags.contains(Flags::ACK) {
                    self.acked[1] = segment.acknowledgment;
                    self.limits[0] = segment.acknowledgment.wrapping_add(window);
                    self.phase = Phase::Accepting;
                } else {
                    self.limits[0] = self.ends[0].wrapping_add(window);
                    self.phase = Phase::Crossing;
                }
            }
            // Both have asked, and a side answers with its SYN once more.
            (Phase::Crossing, _) if segment.flags.contains(Flags::ACK) => {
                self.acked[own] = segment.acknowledgment;
                let other = way.opposite() as usize;
                if self.acked[other] == self.ends[own] {
                    self.phase = Phase::Established;
                }
            }
            _ => {}
        }
    }

    /// Windows are shifted if both sides have offered it (RFC 7323 §2.2). Those of the SYNs
    /// themselves were not.
    fn agree_on_scales(&mut self) {
        let scales = [self.scale(0), self.scale(1)];
        if scales.contains(&UNSCALED) {
            self.scales = 0;
            return;
        }
        for (window, scale) in self.windows.iter_mut().zip(scales) {
            *window = u32::from(*window).div_ceil(1 << scale) as u16;
        }
    }

    /// Whether its parts fit together, as those of a record that came from elsewhere may not.
    pub const fn is_consistent(&self) -> bool {
        let is_tcp = self.protocol == protocol::TCP;
        // A scale is at most 14, or not offered as long as nobody has answered.
        let most = if self.phase as u8 == Phase::Opening as u8 { UNSCALED } else { 14 };
        let is_scaled = self.scale(0) <= most && self.scale(1) <= most;
        is_tcp == self.phase.is_tcp() && (is_scaled || !is_tcp)
    }

    /// Forgets how far both sides are: the next packet of each tells.
    pub const fn loosen(&mut self) {
        self.set(bit::LOOSE, true);
        self.set(3 * bit::KNOWN, false);
    }
}
