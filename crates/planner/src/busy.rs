//! Traces of the busy hours of the week alone.

use std::str::FromStr;

use demand::{Hours, SeriesError};
use serde::Serialize;
use units::Span;

use crate::fitted::Traced;

/// How far clocks are ahead of UTC where people live.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct UtcOffset {
    minutes: i32,
}

/// A word that is no offset.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("write hours and minutes as +02:00 or -08:00, at most 14 hours")]
pub struct UtcOffsetError;

impl UtcOffset {
    const MOST_MINUTES: i32 = 14 * 60;

    /// How long after a Monday's midnight the year 1970 began: on a Thursday, by UTC.
    fn since_monday(self) -> Span {
        const DAY_MINUTES: i32 = 24 * 60;
        // An offset is less than a day, so this is more than zero.
        let minutes = (3 * DAY_MINUTES + self.minutes).unsigned_abs();
        Span::from_secs(u64::from(minutes) * 60)
    }
}

impl FromStr for UtcOffset {
    type Err = UtcOffsetError;

    fn from_str(word: &str) -> Result<Self, UtcOffsetError> {
        let sign = match word.as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(UtcOffsetError),
        };
        let (hours, minutes) = word[1..].split_once(':').ok_or(UtcOffsetError)?;
        let number = |word: &str| {
            let is_number = word.len() == 2 && word.bytes().all(|it| it.is_ascii_digit());
            is_number.then(|| word.parse::<i32>().ok()).flatten().ok_or(UtcOffsetError)
        };
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        let all = 60 * hours + minutes;
        if minutes > 59 || all > Self::MOST_MINUTES {
            return Err(UtcOffsetError);
        }
        Ok(Self { minutes: sign * all })
    }
}

/// The hours of the week in which traces together ask for most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Busy {
    /// Hours of weekdays, each range from its first to the one after its last.
    pub weekdays: Vec<[usize; 2]>,
    /// Hours of Saturdays and Sundays.
    pub weekends: Vec<[usize; 2]>,
    /// How many hours of the week that is.
    pub hours_a_week: usize,
    /// How many hours of the week no trace has. They count as busy.
    pub unseen_hours: usize,
    /// How many minutes these hours' clock is ahead of UTC.
    pub utc_offset_minutes: i32,
    /// What the traces ask for then, beside what they ask for at all times.
    pub times_mean: f64,
}

/// Why there are no busy hours.
#[derive(Debug, thiserror::Error)]
pub enum BusyError {
    /// Times are not since 1970.
    #[error(
        "{name} has no hours of a week, as its times are not since 1970: take a trace with such \
         times, or leave out `--busy`"
    )]
    Relative {
        /// The trace.
        name: String,
    },
    /// No trace has enough samples.
    #[error("no trace has enough samples in the busy hours, as {name} shows: take longer traces")]
    Short {
        /// One of them.
        name: String,
        /// Why not.
        source: SeriesError,
    },
}

/// Traces of busy hours, and what they are.
#[derive(Debug)]
pub struct BusyTraces {
    /// The hours.
    pub busy: Busy,
    /// What the traces have then.
    pub traces: Vec<Traced>,
    /// Names of traces that have too few samples then.
    pub left_out: Vec<(String, SeriesError)>,
}

/// Divides the hours of the week into at most `classes` by what all traces together ask for, and
/// keeps what they have in the busiest.
///
/// # Errors
///
/// [`BusyError`]
pub fn busy(
    traces: Vec<Traced>,
    classes: usize,
    offset: UtcOffset,
) -> Result<BusyTraces, BusyError> {
    const YEAR_NS: u64 = 365 * 24 * 3_600_000_000_000;
    let begin = |it: &Traced| it.series.samples()[0].0.as_nanos();
    if let Some(it) = traces.iter().find(|it| begin(it) < YEAR_NS) {
        return Err(BusyError::Relative { name: it.name.clone() });
    }
    let hours = Hours::find(traces.iter().map(|it| &it.series), classes, offset.since_monday());
    let class = hours.count() - 1;
    let (mut mean, mut kept_mean) = (0.0, 0.0);
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for mut it in traces {
        match it.series.filtered(|at| hours.class(at) == class) {
            Ok(series) => {
                mean += it.series.mean();
                kept_mean += series.mean();
                it.series = series;
                kept.push(it);
            }
            Err(source) => left_out.push((it.name, source)),
        }
    }
    if kept.is_empty()
        && let Some((name, source)) = left_out.pop()
    {
        return Err(BusyError::Short { name, source });
    }
    let [weekdays, weekends] = hours.of_class(class);
    let busy = Busy {
        weekdays,
        weekends,
        hours_a_week: hours.a_week(class),
        unseen_hours: hours.unseen(),
        utc_offset_minutes: offset.minutes,
        times_mean: if mean > 0.0 { kept_mean / mean } else { 1.0 },
    };
    Ok(BusyTraces { busy, traces: kept, left_out })
}

impl Busy {
    /// What is told of the hours.
    pub fn sentence(&self) -> String {
        let ranges = |days: &str, ranges: &[[usize; 2]]| match ranges {
            [] => None,
            [[0, 24]] => Some(format!("all hours of {days}")),
            ranges => {
                let each = ranges.iter().map(|[from, to]| format!("{from:02}:00 to {to:02}:00"));
                Some(format!("{days} {}", each.collect::<Vec<_>>().join(" and ")))
            }
        };
        let days = [ranges("weekdays", &self.weekdays), ranges("weekends", &self.weekends)];
        let days: Vec<_> = days.into_iter().flatten().collect();
        let clock = match self.utc_offset_minutes {
            0 => "UTC".to_owned(),
            minutes => {
                let sign = if minutes < 0 { '-' } else { '+' };
                let minutes = minutes.abs();
                format!("UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        };
        let unseen = match self.unseen_hours {
            0 => String::new(),
            hours => format!("; {hours} hours of the week, which no trace has, count as busy"),
        };
        format!(
            "fitted to busy hours alone: {} ({clock}), {} of 168 hours, when traces ask for {:.1} \
             times their mean{unseen}",
            days.join(", "),
            self.hours_a_week,
            self.times_mean,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use demand::Series;
    use units::Instant;

    const HOUR_SECS: u64 = 3600;
    /// A Monday's midnight, by UTC: the fifth of January 2026.
    const MONDAY: u64 = 1_767_571_200;

    /// Hourly rates from a Monday's midnight on.
    fn traced(name: &str, hours: u64, rate: impl Fn(u64) -> u64) -> Traced {
        let rates: Vec<u64> = (0..hours).map(rate).collect();
        let begin = Instant::from_nanos(MONDAY * 1_000_000_000);
        let series = Series::from_rates(begin, Span::from_secs(HOUR_SECS), &rates).unwrap();
        Traced { name: name.into(), series, sends: None, doubts: Vec::new() }
    }

    fn is_office(hour: u64) -> bool {
        hour % 168 < 120 && (9..17).contains(&(hour % 24))
    }

    #[test]
    fn busy_hours_are_those_of_the_clock_that_is_said() {
        let office = || traced("web", 336, |hour| if is_office(hour) { 90 } else { 10 });
        let all = busy(vec![office()], 2, UtcOffset::default()).unwrap();
        assert_eq!((all.busy.weekdays.as_slice(), all.busy.weekends.len()), (&[[9, 17]][..], 0));
        assert_eq!(all.traces[0].series.rates().collect::<Vec<_>>(), [90; 80]);
        assert_eq!(
            all.busy.sentence(),
            "fitted to busy hours alone: weekdays 09:00 to 17:00 (UTC), 40 of 168 hours, when \
             traces ask for 3.1 times their mean"
        );
        let west = busy(vec![office()], 2, "-08:00".parse().unwrap()).unwrap();
        assert_eq!(west.busy.weekdays, [[1, 9]]);
        assert!(west.busy.sentence().contains("weekdays 01:00 to 09:00 (UTC-08:00)"));
        assert_eq!(west.traces, all.traces);
    }

    #[test]
    fn what_cannot_be_divided_is_told() {
        let night = traced("night", 9, |_| 5);
        let day = traced("day", 20, |hour| if is_office(hour) { 90 } else { 10 });
        let all = busy(vec![night, day], 2, UtcOffset::default()).unwrap();
        assert_eq!(all.left_out, [("night".to_owned(), SeriesError::Short { samples: 0 })]);
        // The last four hours of weekdays, and weekends.
        assert_eq!(all.busy.unseen_hours, 5 * 4 + 2 * 24);
        assert!(
            all.busy
                .sentence()
                .ends_with("; 68 hours of the week, which no trace has, count as busy")
        );
        let mut early = traced("early", 9, |_| 5);
        early.series = Series::from_rates(Instant::ZERO, Span::from_secs(1), &[1, 2, 3]).unwrap();
        let error = busy(vec![early], 2, UtcOffset::default()).unwrap_err();
        assert!(matches!(error, BusyError::Relative { .. }), "{error}");
    }

    #[test]
    fn offsets_are_hours_and_minutes() {
        let minutes = |word: &str| word.parse::<UtcOffset>().map(|it| it.minutes);
        assert_eq!(["+00:00", "+05:30", "-08:00"].map(minutes), [Ok(0), Ok(330), Ok(-480)]);
        for wrong in ["", "2", "+2", "02:00", "+2:00", "+02:60", "+14:01", "+-1:00", "+é:00"] {
            assert_eq!(minutes(wrong), Err(UtcOffsetError), "{wrong}");
        }
    }
}
