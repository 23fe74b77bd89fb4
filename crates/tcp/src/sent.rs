//! A segment that was sent, and what has become of it.

use units::Instant;

/// What has become of a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// Sent, and not heard of.
    InFlight,
    /// It has arrived, beyond a gap.
    Sacked,
    /// Given up; to be sent again.
    Lost,
}

/// A segment that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Where it begins.
    pub seq: u64,
    /// When it was last sent.
    pub sent_at: Instant,
    /// Bytes of payload.
    pub len: u16,
    /// Whether it ends the stream.
    pub fin: bool,
    /// Whether it was sent more than once.
    pub again: bool,
    pub fate: Fate,
}

impl Sent {
    /// A segment that leaves for the first time.
    #[inline]
    pub(crate) fn new(seq: u64, sent_at: Instant, len: u16, fin: bool) -> Self {
        Self { seq, sent_at, len, fin, again: false, fate: Fate::InFlight }
    }

    /// The position behind it.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.seq + u64::from(self.len) + u64::from(self.fin)
    }
}
