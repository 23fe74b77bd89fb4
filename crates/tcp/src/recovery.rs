//! What to do about losses: when to believe in one, how far the window falls, what is sent again,
//! and how all that is taken back.
//!
//! ```text
//!            marked             lost                    lost
//!     Open ─────────▶ Cwr ──────────────▶ Recovery ◀──────────── Open
//!      ▲               │                     │  │
//!      │  high is acknowledged, or it was    │  │ timeout
//!      └──────────── not needed ─────────────┘  ▼
//!      └─────────────────────────────────────  Loss ◀── timeout, anywhere
//! ```

mod repair;

use units::Instant;

use crate::Config;
use crate::rtt::ticks;

/// What the sender is busy with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// Nothing is known to be wrong.
    Open,
    /// The window falls because of a mark (RFC 3168 §6.1.2).
    Cwr,
    /// The window falls because of a loss, and what is lost is sent again.
    Recovery,
    /// A timeout: the window begins anew from one segment.
    Loss,
}

impl Phase {
    /// Whether the window is falling.
    #[inline]
    pub(crate) fn is_reducing(self) -> bool {
        matches!(self, Self::Cwr | Self::Recovery)
    }
}

/// Proportional rate reduction (RFC 6937 §3): the window falls by what is delivered.
#[derive(Clone, Copy, Debug, Default)]
struct Prr {
    delivered: u32,
    out: u32,
    /// The window before.
    size: u32,
}

/// What it takes to undo a reduction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undo {
    /// Where the stream stood when it began.
    from: u64,
    /// The window and threshold before.
    size: u32,
    threshold: u32,
    /// The clock when a segment was first sent again.
    stamp: u32,
    /// Segments that were sent again and not reported as duplicates.
    pending: u32,
    /// Whether one was sent again.
    resent: bool,
    is_possible: bool,
    /// How many reductions were undone: beside the other counters it would take another cache line.
    pub done: u32,
}

/// The state of repair.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub phase: Phase,
    /// A phase is over when this is acknowledged: SND.NXT when it began.
    high: u64,
    /// Duplicate acknowledgements, if there is no SACK.
    pub duplicates: u32,
    /// Timeouts without progress.
    pub retries: u32,
    prr: Prr,
    /// Whether a lost segment is sent whatever the window says (RFC 6675 §5, step 4.3).
    pub force: bool,
    /// Whether the one rescue retransmission of this recovery is used up.
    rescued: bool,
}

impl Recovery {
    pub(crate) fn new(first: u64) -> Self {
        Self {
            phase: Phase::Open,
            high: first,
            duplicates: 0,
            retries: 0,
            prr: Prr::default(),
            force: false,
            rescued: false,
        }
    }

    #[inline]
    pub(crate) fn note_sent(&mut self) {
        self.prr.out = self.prr.out.saturating_add(1);
    }

    fn begin(&mut self, phase: Phase, next: u64) {
        self.phase = phase;
        self.high = next;
        self.rescued = false;
    }
}

impl Undo {
    pub(crate) fn note_resent(&mut self, config: &Config, now: Instant) {
        if !self.resent {
            self.resent = true;
            self.stamp = config.timestamps.map_or(0, |tick| ticks(now, tick));
        }
        self.pending += 1;
    }

    /// A segment arrived twice: one that was sent again was not needed (RFC 3708 §2).
    fn note_duplicate(&mut self, start: u64, segments: u32) {
        if start >= self.from {
            self.pending = self.pending.saturating_sub(segments);
        }
    }

    /// Whether nothing of what was sent again had been lost.
    fn is_spurious(&self, echo: Option<u32>, advanced: bool) -> bool {
        // RFC 3522 §3.2, step 5: what is acknowledged was sent before anything was sent again.
        let original = echo.is_some_and(|echo| (echo.wrapping_sub(self.stamp) as i32) < 0);
        self.is_possible && self.resent && (self.pending == 0 || advanced && original)
    }
}
