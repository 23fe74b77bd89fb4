//! The clocks that threads read (clock_gettime(2)), and time as the kernel takes it.

use std::mem;

use rustix::time::{ClockId, Timespec, clock_gettime};
use units::{Instant, Span};

/// The monotonic clock: the time since boot, from which every [`Instant`] on this host counts.
pub fn now() -> Instant {
    Instant::from_nanos(nanos(clock_gettime(ClockId::Monotonic)))
}

/// Time in which a thread has looked, for whoever judges silence.
///
/// A thread that is stopped, or waits long for a processor, hears of nothing in the meantime. By
/// the monotonic clock everybody has then been silent for all that time. By this clock it was
/// [`MOST_MISSED`]: the rest is [missed](Self::missed), and nobody's silence.
///
/// A thread that sleeps on its events has looked: they would have woken it. So has one that works,
/// however long that takes.
#[derive(Debug)]
pub struct Watched {
    /// When it looked last, by the monotonic clock.
    looked_at: Instant,
    missed: Span,
    /// The processor time that the thread had used, and when that was asked.
    worked: Span,
    asked_at: Instant,
}

/// The most that counts of a time in which a thread did not look: much longer than a turn of a busy
/// thread takes, and much shorter than any silence that is judged.
pub const MOST_MISSED: Span = Span::from_millis(100);

/// How often the processor time is asked for, which takes a system call.
const ASK: Span = Span::from_millis(20);

impl Watched {
    /// A clock that has missed nothing.
    pub fn new(now: Instant) -> Self {
        Self { looked_at: now, missed: Span::ZERO, worked: Span::ZERO, asked_at: Instant::ZERO }
    }

    /// The thread looks at `now`, by the monotonic clock, after it had meant to sleep for `sleep`;
    /// `None`: until an event. `work` tells how much processor time it has used in all
    /// ([`thread_time`]). Returns the time by this clock.
    pub fn look(
        &mut self,
        now: Instant,
        sleep: Option<Span>,
        work: impl FnOnce() -> Span,
    ) -> Instant {
        if now.since(self.asked_at) > ASK {
            let before = mem::replace(&mut self.worked, work());
            self.asked_at = now;
            // An event may have come at any time of it, the sleep included.
            let worked = Span::from_nanos(self.worked.as_nanos() - before.as_nanos());
            if let Some(sleep) = sleep
                && now.since(self.looked_at + sleep + worked) > MOST_MISSED
            {
                self.missed += now.since(self.looked_at + worked.max(MOST_MISSED));
            }
        }
        self.looked_at = self.looked_at.max(now);
        self.now()
    }

    /// When the thread looked last, by this clock.
    pub fn now(&self) -> Instant {
        self.looked_at - self.missed
    }

    /// How much time was missed in all: by how much this clock is behind the monotonic one.
    pub fn missed(&self) -> Span {
        self.missed
    }
}

/// The wall clock, in nanoseconds since 1970.
pub fn wall_ns() -> u64 {
    nanos(clock_gettime(ClockId::Realtime))
}

/// The processor time that the calling thread has used.
pub fn thread_time() -> Span {
    Span::from_nanos(nanos(clock_gettime(ClockId::ThreadCPUTime)))
}

/// A length of time, for the kernel.
pub fn timespec(span: Span) -> Timespec {
    let ns = span.as_nanos();
    // Both parts fit: a u64 of nanoseconds is less than 2^35 seconds.
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// Of clocks that count up from 0: both parts are positive.
fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000_000_000);

    fn after(ms: u64) -> Instant {
        START + Span::from_millis(ms)
    }

    fn idle() -> Span {
        Span::ZERO
    }

    #[test]
    fn time_in_which_nobody_looked_is_missed_and_the_sleep_with_it() {
        let mut clock = Watched::new(START);
        assert_eq!(clock.look(after(5), Some(Span::ZERO), idle), after(5));
        // It was stopped for 11 s, while it worked.
        assert_eq!(clock.look(after(11_005), Some(Span::ZERO), idle), after(105));
        assert_eq!(clock.missed(), Span::from_millis(10_900));
        // And while it slept.
        assert_eq!(clock.look(after(22_005), Some(Span::from_secs(3)), idle), after(205));
        assert_eq!(clock.now(), after(205));
    }

    #[test]
    fn work_is_no_absence() {
        let mut clock = Watched::new(START);
        let mut worked = Span::ZERO;
        for turn in 1..10 {
            worked += Span::from_millis(2950);
            let now = clock.look(after(3000 * turn), Some(Span::ZERO), || worked);
            assert_eq!(now, after(3000 * turn));
        }
        assert_eq!(clock.look(after(38_000), Some(Span::ZERO), || worked), after(27_100));
    }

    #[test]
    fn a_sleep_is_no_absence() {
        let mut clock = Watched::new(START);
        let hour = Span::from_secs(3600);
        assert_eq!(clock.look(START + hour, Some(hour), idle), START + hour);
        assert_eq!(clock.look(START + hour + hour, None, idle), START + hour + hour);
        // It woke a little late, as threads do.
        let late = START + hour + hour + Span::from_millis(1050);
        assert_eq!(clock.look(late, Some(Span::from_secs(1)), idle), late);
        assert_eq!(clock.missed(), Span::ZERO);
    }
}
