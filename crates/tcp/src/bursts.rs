//! What is in flight while nothing is amiss: equal segments that left together are one burst, and a
//! message is a few.
//!
//! ```text
//!   acknowledged │ 8 × 1,448 │ 5 × 1,448 │ 1 × 1,176 │ not sent yet
//!              start
//! ```

use units::Instant;

use crate::sent::Sent;

/// How many bursts are told apart: those of a cache line.
const MOST: usize = 4;

/// Segments of one length, each sent once and not heard of, that left at the same time. None of
/// them ends the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    /// When they were sent.
    pub sent_at: Instant,
    /// Bytes of payload in each; at least one.
    pub len: u16,
    /// How many there are.
    pub segments: u16,
}

/// A few bursts, which cover the stream without gaps.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Bursts {
    ring: [Burst; MOST],
    /// Where the first begins.
    start: u64,
    /// Where in the ring it is.
    first: u8,
    /// How many bursts there are.
    len: u8,
}

impl Default for Bursts {
    fn default() -> Self {
        let none = Burst { sent_at: Instant::ZERO, len: 0, segments: 0 };
        Self { ring: [none; MOST], start: 0, first: 0, len: 0 }
    }
}

impl Bursts {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A segment leaves behind all others. Whether it has found a place among them.
    #[inline]
    pub(crate) fn push(&mut self, sent: &Sent) -> bool {
        let Sent { seq, sent_at, len, .. } = *sent;
        if sent.fin || len == 0 {
            return false;
        }
        if self.len == 0 {
            self.start = seq;
        } else {
            let last = &mut self.ring[self.place(self.len - 1)];
            if last.sent_at == sent_at && last.len == len && last.segments < u16::MAX {
                last.segments += 1;
                return true;
            }
        }
        if usize::from(self.len) == MOST {
            return false;
        }
        self.ring[self.place(self.len)] = Burst { sent_at, len, segments: 1 };
        self.len += 1;
        true
    }

    /// Takes what ends at `una` or below out of the first burst, as one: where it begins, and what
    /// it is. `None` if there is nothing.
    #[inline]
    pub(crate) fn take(&mut self, una: u64) -> Option<(u64, Burst)> {
        if self.len == 0 {
            return None;
        }
        let first = &mut self.ring[usize::from(self.first)];
        let (len, start) = (u64::from(first.len), self.start);
        let covered = una.saturating_sub(start);
        // Most often all of it is acknowledged: that takes no division.
        let is_all = covered >= len * u64::from(first.segments);
        let segments = if is_all { first.segments } else { (covered / len) as u16 };
        if segments == 0 {
            return None;
        }
        let taken = Burst { segments, ..*first };
        first.segments -= segments;
        self.start = start + len * u64::from(segments);
        if first.segments == 0 {
            self.first = (self.first + 1) % MOST as u8;
            self.len -= 1;
        }
        Some((start, taken))
    }

    /// Whether the first begins below `una`, which is within it.
    #[inline]
    pub(crate) fn is_cut(&self, una: u64) -> bool {
        self.len > 0 && self.start < una
    }

    /// Takes all of them out, as segments.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Sent> {
        core::iter::from_fn(|| {
            let end = self.start + u64::from(self.ring[usize::from(self.first)].len);
            let (seq, Burst { sent_at, len, .. }) = self.take(end)?;
            Some(Sent::new(seq, sent_at, len, false))
        })
    }

    /// Where in the ring the n-th is.
    #[inline]
    fn place(&self, n: u8) -> usize {
        usize::from(self.first + n) % MOST
    }
}
