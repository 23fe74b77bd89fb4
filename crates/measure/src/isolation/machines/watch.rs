//! What becomes of the victim's frames, one by one.

use super::super::tally::WINDOW;
use crate::vhost::arrivals::Arrivals;
use crate::vhost::clock::Clock;
use crate::vhost::delays::Delays;

/// If the generator was away for longer, what it saw then tells of itself and not of the switch.
const AWAY_NS: f64 = 20_000.0;

/// The part of the time that does not count then, and the next one.
const PART_NS: f64 = 1_000_000.0;

/// What came of the victim under one load.
#[derive(Debug)]
pub struct Watch {
    begin: u64,
    window: u64,
    part: u64,
    away: u64,
    arrivals: Arrivals,
    delays: Delays,
    /// Frames that were due in each window.
    due: Vec<u64>,
    /// Those of them that came within one.
    in_time: Vec<u64>,
    /// Frames that came in each window.
    came: Vec<u64>,
    now: Part,
    /// When the generator looked last.
    looked: u64,
    marked: u64,
}

/// A part of the time.
#[derive(Debug, Default)]
struct Part {
    number: u64,
    is_marked: bool,
    was_marked: bool,
    /// Delays that count if it is not.
    delays: Vec<u64>,
}

/// What is told of it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Different frames that came.
    pub received: u64,
    /// Frames that came again.
    pub duplicates: u64,
    /// How long they were on their way from when they were due, in ticks.
    pub delays: Delays,
    /// Frames whose time does not count.
    pub marked: u64,
    /// Frames that were due in each window, and those that came within one of that.
    pub due: Vec<u64>,
    pub in_time: Vec<u64>,
    /// Frames that came in each window.
    pub came: Vec<u64>,
}

impl Watch {
    /// Watches from now on, for so many ticks, what is sent from this number on.
    pub fn new(clock: Clock, begin: u64, lasts: u64, first: u64) -> Self {
        let ticks = |ns: f64| ((ns * clock.rate / 1e9) as u64).max(1);
        let window = ticks(WINDOW as f64);
        let windows = vec![0; (lasts / window) as usize];
        Self {
            begin,
            window,
            part: ticks(PART_NS),
            away: ticks(AWAY_NS),
            arrivals: Arrivals::new(1, first),
            delays: Delays::default(),
            due: windows.clone(),
            in_time: windows.clone(),
            came: windows,
            now: Part::default(),
            looked: begin,
            marked: 0,
        }
    }

    /// The generator looks at the victim's rings now.
    #[inline]
    pub fn look(&mut self, now: u64) {
        self.turn(now);
        if now - self.looked > self.away {
            self.now.is_marked = true;
        }
        self.looked = now;
    }

    /// A frame was due, and is sent now or as soon as there is room.
    #[inline]
    pub fn send(&mut self, due: u64) {
        count(&mut self.due, due.saturating_sub(self.begin) / self.window);
    }

    /// A frame came that was due then.
    #[inline]
    pub fn take(&mut self, sequence: u64, due: u64, now: u64) {
        self.arrivals.book(0, sequence);
        let delay = now.saturating_sub(due);
        self.now.delays.push(delay);
        if delay <= self.window {
            count(&mut self.in_time, due.saturating_sub(self.begin) / self.window);
        }
        count(&mut self.came, now.saturating_sub(self.begin) / self.window);
    }

    /// Different frames that have come.
    pub fn received(&self) -> u64 {
        self.arrivals.received
    }

    /// Ends the part that is over by now.
    #[inline]
    fn turn(&mut self, now: u64) {
        let number = now.saturating_sub(self.begin) / self.part;
        if number != self.now.number {
            self.close(number);
        }
    }

    fn close(&mut self, next: u64) {
        let Part { number, is_marked, was_marked, delays } = &mut self.now;
        if *is_marked || *was_marked {
            self.marked += delays.len() as u64;
        } else {
            delays.iter().for_each(|delay| self.delays.book(*delay));
        }
        delays.clear();
        (*was_marked, *is_marked) = (*is_marked && next == *number + 1, false);
        *number = next;
    }

    /// What was seen.
    pub fn seen(mut self) -> Seen {
        self.close(u64::MAX);
        Seen {
            received: self.arrivals.received,
            duplicates: self.arrivals.duplicates,
            delays: self.delays,
            marked: self.marked,
            due: self.due,
            in_time: self.in_time,
            came: self.came,
        }
    }
}

#[inline]
fn count(windows: &mut [u64], number: u64) {
    if let Some(count) = usize::try_from(number).ok().and_then(|place| windows.get_mut(place)) {
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tick is a nanosecond.
    const CLOCK: Clock = Clock { rate: 1e9 };
    const MS: u64 = 1_000_000;

    #[test]
    fn what_the_generator_slept_through_does_not_count() {
        let mut watch = Watch::new(CLOCK, 0, 200 * MS, 0);
        let mut sequence = 0;
        for now in (0..20 * MS).step_by(10_000) {
            // Away for 90 us of the fifth millisecond.
            if (5 * MS..5 * MS + 90_000).contains(&now) {
                continue;
            }
            watch.look(now);
            watch.send(now);
            watch.take(sequence, now.saturating_sub(3_000), now);
            sequence += 1;
        }
        let seen = watch.seen();
        assert_eq!(seen.received, sequence);
        // That part and the next.
        assert_eq!(seen.marked, 191);
        assert!(seen.delays.quantile(1.0).unwrap() < 3_200);
    }

    #[test]
    fn windows_tell_what_was_due_and_what_came_of_it_in_time() {
        let mut watch = Watch::new(CLOCK, 1_000, 100 * MS, 7);
        for (sequence, due, now) in
            [(7, 0, 1), (8, 20 * MS, 21 * MS), (9, 40 * MS, 95 * MS), (10, 60 * MS, 61 * MS)]
        {
            watch.send(due + 1_000);
            watch.take(sequence, due + 1_000, now + 1_000);
        }
        let Seen { due, in_time, came, received, .. } = watch.seen();
        assert_eq!((&due[..], &in_time[..], &came[..]), (&[3, 1][..], &[2, 1][..], &[2, 2][..]));
        assert_eq!(received, 4);
    }
}
