//! A load's run: whether it goes on, how much of it whoever serves the ends was busy, and for how
//! long nothing has moved.
//!
//! ```text
//!   ├─ begin ─── turn, turn, … ───┤ over ── what is still on its way ──┤ settled, silent or stuck
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::clock::Clock;

/// How long a switch that owes frames may be silent before they count as lost.
pub const SILENCE: Duration = Duration::from_millis(200);

/// How long nothing at all may move while something should.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a load came to no end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Broken {
    /// Whoever asked wants no more.
    Interrupted,
    /// The switch neither takes frames nor delivers any.
    Stuck,
}

/// A run. Times are in ticks of the clock.
#[derive(Debug)]
pub struct Run<'a> {
    clock: Clock,
    silence: u64,
    patience: u64,
    stop: &'a AtomicBool,
    began: u64,
    /// When this turn began, and when something moved.
    now: u64,
    moved: u64,
    was_busy: bool,
    busy: u64,
    /// How long the load lasted, once it is over.
    lasted: Option<u64>,
}

impl<'a> Run<'a> {
    /// Begins now, and ends early once `stop` is true.
    pub fn begin(clock: Clock, stop: &'a AtomicBool) -> Self {
        let now = Clock::now();
        let [silence, patience] = [SILENCE, PATIENCE].map(|time| clock.ticks(time));
        let (was_busy, busy, lasted) = (false, 0, None);
        Self { clock, silence, patience, stop, began: now, now, moved: now, was_busy, busy, lasted }
    }

    /// Begins a turn, and says when.
    ///
    /// # Errors
    ///
    /// [`Broken`]
    #[inline]
    pub fn turn(&mut self) -> Result<u64, Broken> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Broken::Interrupted);
        }
        let now = Clock::now();
        if now - self.moved > self.patience {
            return Err(Broken::Stuck);
        }
        if self.was_busy && self.lasted.is_none() {
            self.busy += now - self.now;
        }
        (self.now, self.was_busy) = (now, false);
        Ok(now)
    }

    /// So many frames were put or taken in this turn.
    #[inline]
    pub fn moved(&mut self, frames: usize) {
        if frames > 0 {
            (self.moved, self.was_busy) = (self.now, true);
        }
    }

    /// How long it has gone on, or how long the load lasted.
    #[inline]
    pub fn lasted(&self) -> u64 {
        self.lasted.unwrap_or(self.now - self.began)
    }

    /// No more will be put.
    pub fn end(&mut self) {
        self.lasted = Some(self.lasted());
    }

    /// Whether that is so.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.lasted.is_some()
    }

    /// How long nothing has moved.
    #[inline]
    pub fn silent(&self) -> u64 {
        self.now - self.moved
    }

    /// Whether whatever has not come will not come.
    #[inline]
    pub fn is_silent(&self) -> bool {
        self.silent() > self.silence
    }

    /// How long the load lasted, in seconds.
    pub fn seconds(&self) -> f64 {
        self.clock.seconds(self.lasted())
    }

    /// The share of that time in which there was something to put or to take.
    pub fn busy(&self) -> f64 {
        self.busy as f64 / self.lasted().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_turns_that_moved_something_before_the_end_are_busy() {
        let stop = AtomicBool::new(false);
        let mut run = Run::begin(Clock { rate: 1e12 }, &stop);
        let first = run.turn().unwrap();
        run.moved(3);
        let second = run.turn().unwrap();
        assert_eq!((run.busy, run.silent()), (second - first, second - first));
        run.turn().unwrap();
        assert_eq!(run.busy, second - first, "nothing moved");
        run.moved(1);
        run.end();
        let lasted = run.lasted();
        run.turn().unwrap();
        assert_eq!((run.busy, run.lasted(), run.is_over()), (second - first, lasted, true));
    }

    #[test]
    fn a_run_ends_when_nobody_wants_it_or_nothing_moves() {
        let stop = AtomicBool::new(true);
        let mut run = Run::begin(Clock { rate: 1e9 }, &stop);
        assert_eq!(run.turn(), Err(Broken::Interrupted));
        stop.store(false, Ordering::Relaxed);
        run.patience = 1000;
        while run.turn() == Ok(run.now) {}
        assert_eq!(run.turn(), Err(Broken::Stuck));
    }
}
