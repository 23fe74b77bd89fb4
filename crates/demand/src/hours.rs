//! Hours of the week that are alike: demand is not the same at night and at noon.

use alloc::vec;
use alloc::vec::Vec;

use units::Instant;

use crate::bracket::Bracket;
use crate::clusters::Points;
use crate::series::Series;

/// The hours of a week, divided into classes from quiet to busy. A model is fitted for each class,
/// the same classes for all machines, because what adds up is what happens at one time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hours {
    /// The class of each hour of the week.
    class_of: Vec<u8>,
    count: usize,
    /// How many hours of the week no trace has.
    unseen: usize,
}

const WEEK: usize = 168;
const DAY: usize = 24;
/// From Saturday on.
const WEEKEND: usize = 5 * DAY;

impl Hours {
    /// All hours in one class.
    pub fn alike() -> Self {
        Self { class_of: vec![0; WEEK], count: 1, unseen: 0 }
    }

    /// Divides the week into at most `most` classes by what all traces together send, by hour of
    /// the day, on weekdays and at weekends. [`Instant::ZERO`] is a Monday's midnight, in the time
    /// by which people live.
    ///
    /// Hours that no trace has count as busy.
    pub fn find<'a>(traces: impl IntoIterator<Item = &'a Series>, most: usize) -> Self {
        // Weekdays' hours, then those of weekends: the sum over traces of each one's mean.
        let mut demand = [0.0; 2 * DAY];
        let mut seen = [false; 2 * DAY];
        for trace in traces {
            let mut sums = [(0.0, 0.0); 2 * DAY];
            for (at, rate) in trace.samples() {
                let (sum, count) = &mut sums[of_day(hour_of_week(*at))];
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
            return Self { unseen: WEEK, ..Self::alike() };
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
        usize::from(self.class_of[hour_of_week(at)])
    }

    /// The share of time of a class.
    pub fn share(&self, class: usize) -> f64 {
        let hours = self.class_of.iter().filter(|it| usize::from(**it) == class).count();
        hours as f64 / WEEK as f64
    }

    /// The overload over the whole week, from that of each class.
    pub fn mean(&self, of_class: &[Bracket]) -> Bracket {
        let part = |(class, it): (usize, &Bracket)| (self.share(class), *it);
        let none = Bracket { low: 0.0, high: 0.0 };
        of_class.iter().enumerate().map(part).fold(none, |sum, (share, it)| Bracket {
            low: sum.low + share * it.low,
            high: sum.high + share * it.high,
        })
    }

    /// The overload of the worst class.
    pub fn worst(of_class: &[Bracket]) -> Bracket {
        let none = Bracket { low: 0.0, high: 0.0 };
        of_class.iter().fold(none, |worst, it| Bracket {
            low: worst.low.max(it.low),
            high: worst.high.max(it.high),
        })
    }
}

fn hour_of_week(at: Instant) -> usize {
    const HOUR_NS: u64 = 3_600_000_000_000;
    (at.as_nanos() / HOUR_NS % WEEK as u64) as usize
}

fn of_day(hour: usize) -> usize {
    if hour < WEEKEND { hour % DAY } else { DAY + hour % DAY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    fn week(rate: impl Fn(usize) -> u64) -> Series {
        let rates: Vec<u64> = (0..WEEK).map(rate).collect();
        Series::from_rates(Instant::ZERO, Span::from_secs(3600), &rates).unwrap()
    }

    #[test]
    fn office_hours_are_a_class() {
        let busy = |hour: usize| hour < WEEKEND && (9..17).contains(&(hour % DAY));
        let trace = week(|hour| if busy(hour) { 500 } else { 20 });
        let hours = Hours::find([&trace], 2);
        assert_eq!((hours.count(), hours.unseen()), (2, 0));
        for (place, (at, _)) in trace.samples().iter().enumerate() {
            assert_eq!(hours.class(*at), usize::from(busy(place)));
        }
        assert_eq!(hours.share(1), 40.0 / 168.0);
        let of_class = [Bracket { low: 0.0, high: 0.0 }, Bracket { low: 0.1, high: 0.2 }];
        assert_eq!(Hours::worst(&of_class), of_class[1]);
        assert!((hours.mean(&of_class).high - 0.2 * 40.0 / 168.0).abs() < 1e-15);
    }

    #[test]
    fn hours_that_nobody_saw_are_busy() {
        let rates: Vec<u64> = (0..DAY as u64).map(|hour| hour / 12).collect();
        let trace = Series::from_rates(Instant::ZERO, Span::from_secs(3600), &rates).unwrap();
        let hours = Hours::find([&trace], 2);
        assert_eq!((hours.count(), hours.unseen()), (2, 48));
        assert_eq!(hours.class(Instant::from_nanos(WEEKEND as u64 * 3_600_000_000_000)), 1);
        assert_eq!(Hours::find([], 3), Hours { unseen: WEEK, ..Hours::alike() });
    }
}
