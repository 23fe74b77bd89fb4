//! The time that guarantees go by.

use units::{Instant, Span};

/// The link's own time: the caller's, without what was lost.
///
/// A guarantee of bits a second holds while the link sends. Where it stands still, or sends less
/// than all guarantees together, everybody's deadlines pass, and would be made good at others'
/// expense for as long again. So this clock lags: the first deadline is never further in the past
/// than a given patience. All guarantees then shrink alike, in proportion, and whoever comes anew
/// waits behind no more than that patience.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    lost: Span,
    patience: Span,
}

impl Clock {
    pub(crate) fn new(patience: Span) -> Self {
        Self { lost: Span::ZERO, patience }
    }

    /// What time it is on the link.
    #[inline]
    pub(crate) fn at(&self, now: Instant) -> Instant {
        now - self.lost
    }

    /// When it will be this time on the link, if no more is lost.
    #[inline]
    pub(crate) fn when(&self, time: Instant) -> Instant {
        time + self.lost
    }

    /// Loses what the first deadline is late beyond all patience.
    #[inline]
    pub(crate) fn lag(&mut self, now: Instant, first_deadline: Instant) {
        let late = self.at(now).since(first_deadline).as_nanos();
        let excess = late.saturating_sub(self.patience.as_nanos());
        self.lost += Span::from_nanos(excess);
    }

    /// How much was lost.
    pub(crate) fn lost(&self) -> Span {
        self.lost
    }

    /// How late a deadline may be.
    pub(crate) fn patience(&self) -> Span {
        self.patience
    }
}
