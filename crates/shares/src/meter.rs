//! A bound as it is used up: a token bucket for each thing that it bounds.

use units::{Gcra, Instant};

use crate::terms::{Bound, Cost};

/// The buckets of a [`Bound`]. All of them have to allow what goes.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    bytes: Option<Gcra>,
    frames: Option<Gcra>,
}

impl Meter {
    /// Full buckets.
    pub(crate) fn new(bound: Bound) -> Self {
        Self {
            bytes: bound.bits.map(|it| Gcra::of_bytes(it.rate, it.burst)),
            frames: bound.frames.map(|it| Gcra::per_second(it.per_second, it.burst)),
        }
    }

    /// Another bound, which forgives nothing of what was used up of this one.
    pub(crate) fn rebind(&mut self, now: Instant, bound: Bound) {
        let keep = |new: Option<Gcra>, old: &Option<Gcra>| {
            new.map(|mut new| match old {
                Some(old) => new.full_with(old),
                None => {
                    new.overflow(now);
                    new
                }
            })
        };
        let new = Self::new(bound);
        self.bytes = keep(new.bytes, &self.bytes);
        self.frames = keep(new.frames, &self.frames);
    }

    /// Whether nothing is bounded.
    #[inline]
    pub(crate) fn is_unbounded(&self) -> bool {
        self.bytes.is_none() && self.frames.is_none()
    }

    /// When no bucket is in debt.
    #[inline]
    pub(crate) fn ready_at(&self) -> Instant {
        self.ready_for(Cost::default())
    }

    /// When so much may go without debt.
    #[inline]
    pub(crate) fn ready_for(&self, cost: Cost) -> Instant {
        let ready = |bucket: &Option<Gcra>, units: u32| {
            bucket.as_ref().map_or(Instant::ZERO, |bucket| bucket.ready_for(units))
        };
        ready(&self.bytes, cost.bytes).max(ready(&self.frames, cost.frames))
    }

    /// How much may go now without debt.
    #[inline]
    pub(crate) fn holds(&self, now: Instant) -> Cost {
        let holds =
            |bucket: &Option<Gcra>| bucket.as_ref().map_or(u32::MAX, |bucket| bucket.holds(now));
        Cost { bytes: holds(&self.bytes), frames: holds(&self.frames) }
    }

    /// Lets go of what the buckets could not hold by now.
    #[inline]
    pub(crate) fn overflow(&mut self, now: Instant) {
        for bucket in [&mut self.bytes, &mut self.frames].into_iter().flatten() {
            bucket.overflow(now);
        }
    }

    /// So much went, of all that has come since the buckets last overflowed.
    #[inline]
    pub(crate) fn spend(&mut self, cost: Cost) {
        if let Some(bytes) = &mut self.bytes {
            bytes.spend(cost.bytes.into());
        }
        if let Some(frames) = &mut self.frames {
            frames.spend(cost.frames.into());
        }
    }
}
