//! Hours of the week that are alike: demand is not the same at night and at noon.

use alloc::vec;
use alloc::vec::Vec;

use units::{Instant, Span};

use crate::clusters::Points;
use crate::series::Series;

/// The hours of a week, divided into classes from quiet to busy: the same classes for all machines,
/// because what adds up is what happens at one time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hours {
    /// The class of each hour of the week.
    class_of: Vec<u8>,
    count: usize,
    /// How many hours of the week no trace has.
    unseen: usize,
    /// How long after a Monday's midnight [`Instant::ZERO`] is.
    zero: Span,
}

const WEEK: usize = 168;
const DAY: usize = 24;
/// From Saturday on.
const WEEKEND: usize = 5 * DAY;

impl Hours {
    /// Divides the week into at most `most` classes by what all traces together send, by hour of
    /// the day, on weekdays and at weekends. [`Instant::ZERO`] is `zero` after a Monday's midnight,
    /// in the time by which people live.
    ///
    /// Hours that no trace has count as busy.
    pub fn find<'a>(traces: impl IntoIterator<Item = &'a Series>, most: usize, zero: Span) -> Self {
        // Weekdays' hours, then those of weekends: the sum over traces of each one's mean.
        let mut demand = [0.0; 2 * DAY];
        let mut seen = [false; 2 * DAY];
        for trace in traces {
            let mut sums = [(0.0, 0.0); 2 * DAY];
            for (at, rate) in trace.samples() {
                let (sum, count) = &mut sums[of_day(hour_of_week(zero, *at))];
                (*sum, *count) = (*sum + *rate as f64, *count + 1.0);
            }
            for (place, (sum, count)) in sums.iter().enumerate().filter(|(_, it)| it.1 > 0.0) {
                demand[place] += sum / count;
                seen[place] = true;
            }
        }
        // Weekdays' hours weigh as much as there are of them.
        let mut levels: Vec<u64> = (0..WEEK)
            .map(of_day)
            .filter(|place| seen[*place])
            .map(|place| libm::round(demand[place]) as u64)
            .collect();
        levels.sort_unstable();
        if levels.is_empty() {
            return Self { class_of: vec![0; WEEK], count: 1, unseen: WEEK, zero };
        }
        let points = Points::new(&levels);
        let ends = points.partitions(most.max(1)).pop().expect("one part is one partition");
        let ends: Vec<u64> = ends.into_iter().map(|it| points.last(it)).collect();
        let class = |hour: usize| {
            let place = of_day(hour);
            let level = libm::round(demand[place]) as u64;
            let class = ends.iter().take_while(|end| level > **end).count();
            if seen[place] { class as u8 } else { ends.len() as u8 - 1 }
        };
        Self {
            class_of: (0..WEEK).map(class).collect(),
            count: ends.len(),
            unseen: (0..WEEK).filter(|hour| !seen[of_day(*hour)]).count(),
            zero,
        }
    }

    /// How many classes there are, the quietest being 0.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many hours of the week no trace has.
    pub fn unseen(&self) -> usize {
        self.unseen
    }

    /// The class of a time.
    pub fn class(&self, at: Instant) -> usize {
        usize::from(self.class_of[hour_of_week(self.zero, at)])
    }

    /// The hours of the day that are of a class, on weekdays and at weekends: ranges from their
    /// first hour to the one after their last.
    pub fn of_class(&self, class: usize) -> [Vec<[usize; 2]>; 2] {
        [0, WEEKEND].map(|first| {
            let mut ranges: Vec<[usize; 2]> = Vec::new();
            for hour in 0..DAY {
                if usize::from(self.class_of[first + hour]) != class {
                    continue;
                }
                match ranges.last_mut() {
                    Some([_, end]) if *end == hour => *end += 1,
                    _ => ranges.push([hour, hour + 1]),
                }
            }
            ranges
        })
    }

    /// How many hours of the week are of a class.
    pub fn a_week(&self, class: usize) -> usize {
        self.class_of.iter().filter(|it| usize::from(**it) == class).count()
    }
}

fn hour_of_week(zero: Span, at: Instant) -> usize {
    const HOUR_NS: u64 = 3_600_000_000_000;
    const WEEK_NS: u64 = WEEK as u64 * HOUR_NS;
    let since_monday = at.as_nanos() % WEEK_NS + zero.as_nanos() % WEEK_NS;
    (since_monday / HOUR_NS % WEEK as u64) as usize
}

fn of_day(hour: usize) -> usize {
    if hour < WEEKEND { hour % DAY } else { DAY + hour % DAY }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn week(rate: impl Fn(usize) -> u64) -> Series {
        let rates: Vec<u64> = (0..WEEK).map(rate).collect();
        Series::from_rates(Instant::ZERO, Span::from_secs(3600), &rates).unwrap()
    }

    #[test]
    fn office_hours_are_a_class() {
        let busy = |hour: usize| hour < WEEKEND && (9..17).contains(&(hour % DAY));
        let trace = week(|hour| if busy(hour) { 500 } else { 20 });
        let hours = Hours::find([&trace], 2, Span::ZERO);
        assert_eq!((hours.count(), hours.unseen()), (2, 0));
        for (place, (at, _)) in trace.samples().iter().enumerate() {
            assert_eq!(hours.class(*at), usize::from(busy(place)));
        }
        assert_eq!((hours.of_class(1), hours.a_week(1)), ([vec![[9, 17]], vec![]], 40));
        assert_eq!(
            (hours.of_class(0), hours.a_week(0)),
            ([vec![[0, 9], [17, 24]], vec![[0, 24]]], 128)
        );
    }

    #[test]
    fn a_week_begins_when_people_say() {
        // The trace begins on a Sunday, at 22 h.
        let zero = Span::from_secs((7 * 24 - 2) * 3600);
        let busy = |hour: usize| hour < WEEKEND && (9..17).contains(&(hour % DAY));
        let trace = week(|hour| if busy((hour + WEEK - 2) % WEEK) { 500 } else { 20 });
        let hours = Hours::find([&trace], 2, zero);
        assert_eq!(hours.of_class(1), [vec![[9, 17]], vec![]]);
        let classes = trace.samples().iter().map(|(at, rate)| (hours.class(*at), *rate));
        assert!(classes.clone().all(|it| it == (0, 20) || it == (1, 500)), "{hours:?}");
    }

    #[test]
    fn hours_that_nobody_saw_are_busy() {
        let rates: Vec<u64> = (0..DAY as u64).map(|hour| hour / 12).collect();
        let trace = Series::from_rates(Instant::ZERO, Span::from_secs(3600), &rates).unwrap();
        let hours = Hours::find([&trace], 2, Span::ZERO);
        assert_eq!((hours.count(), hours.unseen()), (2, 48));
        assert_eq!(hours.class(Instant::from_nanos(WEEKEND as u64 * 3_600_000_000_000)), 1);
        let none = Hours::find([], 3, Span::ZERO);
        assert_eq!((none.count(), none.unseen(), none.a_week(0)), (1, WEEK, WEEK));
    }
}
