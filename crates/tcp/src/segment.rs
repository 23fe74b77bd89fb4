//! What travels between endpoints: a TCP header, with the length of the payload in the payload's
//! place.

use wire::tcp::Flags;

/// The timestamps option (RFC 7323 §3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timestamps {
    /// The sender's clock.
    pub value: u32,
    /// The other side's clock, as it was last seen.
    pub echo: u32,
}

/// What only a SYN says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SynOptions {
    /// The largest segment its sender takes, in bytes of payload and options (RFC 9293 §3.7.1).
    pub mss: u16,
    /// By how many bits windows are shifted, if it can shift (RFC 7323 §2).
    pub window_scale: Option<u8>,
    /// Whether it understands selective acknowledgements (RFC 2018 §2).
    pub sack_permitted: bool,
}

/// Up to three stretches that arrived out of order, from their first number to the one behind their
/// last; three is how many fit beside timestamps (RFC 2018 §3). The first may report a duplicate
/// (RFC 2883 §4).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SackBlocks {
    blocks: [(u32, u32); 3],
    count: u8,
}

impl SackBlocks {
    /// Adds a block; `false` if there is no room.
    pub fn push(&mut self, start: u32, end: u32) -> bool {
        let Some(block) = self.blocks.get_mut(usize::from(self.count)) else { return false };
        *block = (start, end);
        self.count += 1;
        true
    }

    /// The blocks, in the order in which they were pushed.
    #[inline]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// A segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segment {
    /// The number of its first byte, or of its SYN or FIN if it has no bytes.
    pub seq: u32,
    /// The next number that its sender expects, if `flags` has [`Flags::ACK`].
    pub ack: u32,
    /// How much its sender takes from `ack` on, to be shifted unless this is a SYN.
    pub window: u16,
    /// Bytes of payload.
    pub len: u16,
    /// Control bits.
    pub flags: Flags,
    /// Whether it travels as ECN-capable, ECT(0) in its IP header (RFC 3168 §5): a queue may mark
    /// it rather than drop it.
    pub ecn_capable: bool,
    /// A SYN's options.
    pub syn: Option<SynOptions>,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgements.
    pub sack: SackBlocks,
}

impl Segment {
    /// One that says nothing.
    pub(crate) const BLANK: Self = Self {
        seq: 0,
        ack: 0,
        window: 0,
        len: 0,
        flags: Flags(0),
        ecn_capable: false,
        syn: None,
        timestamps: None,
        sack: SackBlocks { blocks: [(0, 0); 3], count: 0 },
    };

    /// The header's length in bytes as on a wire: 20, and options laid out as common stacks do, so
    /// that each begins where a word of four bytes does.
    pub const fn header_bytes(&self) -> u32 {
        let timestamps = self.timestamps.is_some();
        let options = match self.syn {
            // A SYN's options are packed and padded together: the permission for SACK takes the
            // place of the padding of timestamps.
            Some(syn) => {
                let permission = if syn.sack_permitted { 2 } else { 0 };
                let stamps = if timestamps { 10 } else { 0 };
                let scale = if syn.window_scale.is_some() { 4 } else { 0 };
                4 + next_word(permission + stamps) + scale
            }
            None => {
                let stamps = if timestamps { 12 } else { 0 };
                let sack = if self.sack.count > 0 { 4 + 8 * self.sack.count as u32 } else { 0 };
                stamps + sack
            }
        };
        20 + options
    }

    /// How many sequence numbers it takes: its bytes, its SYN and its FIN.
    #[inline]
    pub const fn sequence_len(&self) -> u32 {
        let syn = self.flags.contains(Flags::SYN) as u32;
        let fin = self.flags.contains(Flags::FIN) as u32;
        self.len as u32 + syn + fin
    }

    /// The answer of a host that has no endpoint for this segment (RFC 9293 §3.5.2); a reset has no
    /// answer.
    pub fn refusal(&self) -> Option<Self> {
        if self.flags.contains(Flags::RST) {
            return None;
        }
        Some(if self.flags.contains(Flags::ACK) {
            Self { seq: self.ack, flags: Flags::RST, ..Self::BLANK }
        } else {
            let ack = self.seq.wrapping_add(self.sequence_len());
            Self { ack, flags: Flags::RST | Flags::ACK, ..Self::BLANK }
        })
    }
}

const fn next_word(bytes: u32) -> u32 {
    bytes.next_multiple_of(4)
}

/// The position that `number`, 32 bits of it, stands for: the one closest to `near`.
///
/// Inside, positions have 64 bits and never wrap. The first is 2^32 or more, so nothing is before
/// zero.
#[inline]
pub(crate) const fn unwrap(near: u64, number: u32) -> u64 {
    near.wrapping_add_signed(number.wrapping_sub(near as u32) as i32 as i64)
}

/// The position of an initial sequence number.
pub(crate) const fn first(number: u32) -> u64 {
    (1 << 32) + number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLANK: Segment = Segment { flags: Flags::ACK, ..Segment::BLANK };

    #[test]
    fn headers_are_as_long_as_linux_makes_them() {
        let stamps = Some(Timestamps { value: 1, echo: 2 });
        let syn = SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true };
        assert_eq!(BLANK.header_bytes(), 20);
        assert_eq!(Segment { timestamps: stamps, ..BLANK }.header_bytes(), 32);
        assert_eq!(Segment { timestamps: stamps, syn: Some(syn), ..BLANK }.header_bytes(), 40);
        assert_eq!(Segment { syn: Some(syn), ..BLANK }.header_bytes(), 32);
        let mut sack = SackBlocks::default();
        for at in [10, 30, 50] {
            assert!(sack.push(at, at + 10));
        }
        assert!(!sack.push(70, 80));
        assert_eq!(Segment { timestamps: stamps, sack, ..BLANK }.header_bytes(), 60);
        assert_eq!(Segment { sack, ..BLANK }.header_bytes(), 48);
    }

    #[test]
    fn a_number_stands_for_the_closest_position() {
        let near = (7 << 32) + 5;
        assert_eq!(unwrap(near, 5), near);
        assert_eq!(unwrap(near, 100), near + 95);
        assert_eq!(unwrap(near, u32::MAX), near - 6);
        assert_eq!(unwrap((7 << 32) - 1, 3), (7 << 32) + 3);
    }

    #[test]
    fn a_refusal_would_be_accepted_by_who_is_refused() {
        let stray = Segment { seq: 7, ack: 9, len: 3, ..BLANK };
        assert_eq!(stray.refusal().map(|it| (it.seq, it.flags)), Some((9, Flags::RST)));
        let syn = Segment { seq: u32::MAX, flags: Flags::SYN, ..BLANK };
        assert_eq!(syn.refusal().map(|it| (it.ack, it.flags)), Some((0, Flags::RST | Flags::ACK)));
        assert_eq!(Segment { flags: Flags::RST, ..BLANK }.refusal(), None);
    }
}
