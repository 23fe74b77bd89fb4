//! One class of one input: its buffer, and the pauses that its sender is asked for.

use lossless::Reason;
use units::Instant;

use crate::{Buffer, DropReason, Tally, Thresholds};

/// What the buffer promises.
#[derive(Clone, Copy, Debug)]
enum Promise {
    Lossy(Buffer),
    Lossless(Thresholds),
}

#[derive(Debug)]
pub(crate) struct Input {
    promise: Promise,
    /// In bytes.
    longest: u64,
    /// On the link to it.
    pub underway_bytes: u64,
    held: Tally,
    /// The sender is to be paused.
    pausing: bool,
    /// The sender has yet to be told.
    pub news: bool,
    /// When it is to be told again, so that the pause goes on.
    renew_at: Instant,
}

/// No time at all.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Input {
    pub fn lossy(buffer: Buffer) -> Self {
        Self::new(Promise::Lossy(buffer), 0)
    }

    pub fn lossless(thresholds: Thresholds, longest: u32) -> Self {
        Self::new(Promise::Lossless(thresholds), longest.into())
    }

    fn new(promise: Promise, longest: u64) -> Self {
        let held = Tally::default();
        Self {
            promise,
            longest,
            underway_bytes: 0,
            held,
            pausing: false,
            news: false,
            renew_at: NEVER,
        }
    }

    pub fn is_lossless(&self) -> bool {
        matches!(self.promise, Promise::Lossless(_))
    }

    /// Whether the longest frame finds room if it is sent now, whatever became of pauses.
    pub fn has_room(&self) -> bool {
        match self.promise {
            Promise::Lossy(_) => true,
            Promise::Lossless(Thresholds { xoff, headroom, .. }) => {
                self.held.bytes + self.underway_bytes + self.longest <= xoff + headroom
            }
        }
    }

    /// Takes memory for what has arrived, and has the sender paused where memory runs short.
    pub fn hold(&mut self, frames: u16, bytes: u32) -> Result<(), DropReason> {
        let mut held = self.held;
        held.add(frames, bytes);
        match self.promise {
            Promise::Lossy(buffer) => {
                if held.frames > u64::from(buffer.frames) || held.bytes > buffer.bytes.0 {
                    return Err(DropReason::Refused(Reason::Full));
                }
            }
            Promise::Lossless(Thresholds { xoff, headroom, .. }) => {
                if held.bytes > xoff + headroom {
                    return Err(DropReason::Overrun);
                }
                // Frames are booked whole: the one that would cross the threshold is not there yet.
                if held.bytes + self.longest > xoff && !self.pausing {
                    (self.pausing, self.news) = (true, true);
                }
            }
        }
        self.held = held;
        Ok(())
    }

    /// Gives memory back, and lets the sender go on where there is enough of it.
    pub fn release(&mut self, frames: u16, bytes: u32) {
        self.held.remove(frames, bytes);
        if let Promise::Lossless(Thresholds { xon, .. }) = self.promise
            && self.pausing
            && self.held.bytes <= xon
        {
            (self.pausing, self.news, self.renew_at) = (false, true, NEVER);
        }
    }

    /// When it has something to tell without anything else happening, if it has nothing now.
    pub fn renew_at(&self) -> Option<Instant> {
        (self.renew_at != NEVER).then_some(self.renew_at)
    }

    /// Time has passed.
    pub fn renew(&mut self, now: Instant) {
        if self.renew_at <= now {
            (self.news, self.renew_at) = (true, NEVER);
        }
    }

    /// What the sender is told, if it is news: for how many quanta it pauses. If for any, it is
    /// told again at `renew_at`.
    pub fn tell(&mut self, quanta: u16, renew_at: Instant) -> Option<u16> {
        if !core::mem::take(&mut self.news) {
            return None;
        }
        if self.pausing {
            self.renew_at = renew_at;
            return Some(quanta);
        }
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    const THRESHOLDS: Thresholds = Thresholds { xoff: 10_000, xon: 7000, headroom: 5000 };

    #[test]
    fn a_sender_is_paused_before_its_buffer_is_full_and_again_until_there_is_room() {
        let mut input = Input::lossless(THRESHOLDS, 1500);
        let at = Instant::from_nanos;
        for _ in 0..5 {
            input.hold(1, 1500).unwrap();
            assert_eq!(input.tell(9, at(100)), None);
        }
        input.hold(1, 1500).unwrap();
        assert_eq!((input.tell(9, at(100)), input.tell(9, at(100))), (Some(9), None));
        input.renew(at(99));
        assert_eq!((input.news, input.renew_at()), (false, Some(at(100))));
        input.renew(at(100));
        assert_eq!(input.tell(9, at(200)), Some(9));
        input.release(1, 1500);
        assert!(!input.news);
        input.release(1, 1500);
        assert_eq!((input.tell(9, at(300)), input.renew_at()), (Some(0), None));
    }

    #[test]
    fn a_lossless_class_drops_only_what_its_headroom_has_no_room_for() {
        let mut input = Input::lossless(THRESHOLDS, 1500);
        assert!((0..10).all(|_| input.hold(1, 1500).is_ok()) && !input.has_room());
        assert_eq!(input.hold(1, 1500), Err(DropReason::Overrun));
    }

    #[test]
    fn a_lossy_class_drops_what_finds_it_full_and_pauses_nobody() {
        let mut input = Input::lossy(Buffer { frames: 3, bytes: Bytes(3000) });
        assert_eq!(input.hold(1, 3001), Err(DropReason::Refused(Reason::Full)));
        (0..3).for_each(|_| input.hold(1, 60).unwrap());
        assert_eq!(input.hold(1, 60), Err(DropReason::Refused(Reason::Full)));
        input.release(1, 60);
        assert!(input.hold(1, 60).is_ok() && input.has_room() && !input.news);
    }
}
