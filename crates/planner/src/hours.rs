//! Traces, divided by hours of the week that are alike.

use std::str::FromStr;

use demand::{Hours, SeriesError};
use serde::Serialize;
use units::Span;

use crate::fitted::Traced;
use crate::together::Together;

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

/// Hours of the week in which traces together ask for about as much.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Period {
    /// What they are called: `busy`, `rest`.
    pub name: String,
    /// Hours of weekdays, each range from its first to the one after its last.
    pub weekdays: Vec<[usize; 2]>,
    /// Hours of Saturdays and Sundays.
    pub weekends: Vec<[usize; 2]>,
    /// How many hours of the week that is.
    pub hours_a_week: usize,
    /// How many of them no trace has: those count as busy.
    pub unseen_hours: usize,
    /// How many minutes these hours' clock is ahead of UTC.
    pub utc_offset_minutes: i32,
    /// What the traces ask for then, beside what they ask for at all times.
    pub times_mean: f64,
    /// What the traces say then of machines together, if they are of the same times.
    pub together: Option<Together>,
}

/// Why traces cannot be divided.
#[derive(Debug, thiserror::Error)]
pub enum DivideError {
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
    #[error(
        "no trace has enough samples in each class of hours, as {name} shows: take longer traces"
    )]
    Short {
        /// One of them.
        name: String,
        /// Why not.
        source: SeriesError,
    },
}

/// Traces by classes of hours, and what these are.
#[derive(Debug)]
pub struct Divided {
    /// The classes, the busiest first.
    pub periods: Vec<Period>,
    /// Of each trace, what it has in each class.
    pub traces: Vec<Vec<Traced>>,
    /// Names of traces that have too few samples in a class.
    pub left_out: Vec<(String, SeriesError)>,
}

/// Divides the hours of the week into at most `classes` by what all traces together ask for, and
/// traces by them.
///
/// # Errors
///
/// [`DivideError`]
pub fn divide(
    traces: Vec<Traced>,
    classes: usize,
    offset: UtcOffset,
) -> Result<Divided, DivideError> {
    const YEAR_NS: u64 = 365 * 24 * 3_600_000_000_000;
    let begin = |it: &Traced| it.series.samples()[0].0.as_nanos();
    if let Some(it) = traces.iter().find(|it| begin(it) < YEAR_NS) {
        return Err(DivideError::Relative { name: it.name.clone() });
    }
    let hours = Hours::find(traces.iter().map(|it| &it.series), classes, offset.since_monday());
    let classes: Vec<usize> = (0..hours.count()).rev().collect();
    let (mut mean, mut means) = (0.0, vec![0.0; classes.len()]);
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for it in traces {
        let in_class = |class: &usize| -> Result<Traced, SeriesError> {
            let series = it.series.filtered(|at| hours.class(at) == *class)?;
            let (name, doubts) = (it.name.clone(), it.doubts.clone());
            Ok(Traced { name, series, sends: it.sends, frame: it.frame, doubts })
        };
        match classes.iter().map(in_class).collect::<Result<Vec<_>, _>>() {
            Ok(parts) => {
                mean += it.series.mean();
                means.iter_mut().zip(&parts).for_each(|(sum, it)| *sum += it.series.mean());
                kept.push(parts);
            }
            Err(source) => left_out.push((it.name, source)),
        }
    }
    if kept.is_empty()
        && let Some((name, source)) = left_out.pop()
    {
        return Err(DivideError::Short { name, source });
    }
    let periods = classes.iter().zip(means).map(|(class, of_class)| {
        let [weekdays, weekends] = hours.of_class(*class);
        Period {
            name: name(*class, classes.len()),
            weekdays,
            weekends,
            hours_a_week: hours.a_week(*class),
            unseen_hours: if *class + 1 == classes.len() { hours.unseen() } else { 0 },
            utc_offset_minutes: offset.minutes,
            times_mean: if mean > 0.0 { of_class / mean } else { 1.0 },
            together: None,
        }
    });
    Ok(Divided { periods: periods.collect(), traces: kept, left_out })
}

/// What a class of hours is called, the quietest being 0.
fn name(class: usize, count: usize) -> String {
    match (count - class, count) {
        (1, _) => "busy".into(),
        (_, 2) => "rest".into(),
        (place, _) => format!("rest-{}", place - 1),
    }
}

impl Period {
    /// What is told of these hours.
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
            "{}: {} ({clock}), {} of 168 hours, when traces ask for {:.1} times their mean{unseen}",
            self.name,
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
        let (sends, frame) = (Some(0.25), Some(700));
        Traced { name: name.into(), series, sends, frame, doubts: Vec::new() }
    }

    fn is_office(hour: u64) -> bool {
        hour % 168 < 120 && (9..17).contains(&(hour % 24))
    }

    #[test]
    fn hours_are_those_of_the_clock_that_is_said() {
        let office = || traced("web", 336, |hour| if is_office(hour) { 90 } else { 10 });
        let all = divide(vec![office()], 2, UtcOffset::default()).unwrap();
        let [busy, rest] = &all.periods[..] else { panic!("two classes: {all:?}") };
        assert_eq!((busy.weekdays.as_slice(), busy.weekends.len()), (&[[9, 17]][..], 0));
        let rates = |class: usize| all.traces[0][class].series.rates().collect::<Vec<_>>();
        assert_eq!((rates(0), rates(1)), (vec![90; 80], vec![10; 256]));
        let said = all.traces[0].iter().map(|it| (it.sends, it.frame));
        assert_eq!(said.collect::<Vec<_>>(), [(Some(0.25), Some(700)); 2]);
        assert_eq!(
            busy.sentence(),
            "busy: weekdays 09:00 to 17:00 (UTC), 40 of 168 hours, when traces ask for 3.1 times \
             their mean"
        );
        assert_eq!(
            rest.sentence(),
            "rest: weekdays 00:00 to 09:00 and 17:00 to 24:00, all hours of weekends (UTC), 128 of \
             168 hours, when traces ask for 0.3 times their mean"
        );
        let west = divide(vec![office()], 2, "-08:00".parse().unwrap()).unwrap();
        assert_eq!(west.periods[0].weekdays, [[1, 9]]);
        assert!(west.periods[0].sentence().contains("weekdays 01:00 to 09:00 (UTC-08:00)"));
        assert_eq!(west.traces, all.traces);
        assert_eq!([0, 1, 2].map(|class| name(class, 3)), ["rest-2", "rest-1", "busy"]);
    }

    #[test]
    fn what_cannot_be_divided_is_told() {
        let night = traced("night", 9, |_| 5);
        let day = traced("day", 20, |hour| if is_office(hour) { 90 } else { 10 });
        let all = divide(vec![night, day], 2, UtcOffset::default()).unwrap();
        assert_eq!(all.left_out, [("night".to_owned(), SeriesError::Short { samples: 0 })]);
        // The last four hours of weekdays, and weekends.
        let unseen: Vec<_> = all.periods.iter().map(|it| it.unseen_hours).collect();
        assert_eq!(unseen, [5 * 4 + 2 * 24, 0]);
        assert!(
            all.periods[0]
                .sentence()
                .ends_with("; 68 hours of the week, which no trace has, count as busy")
        );
        let mut early = traced("early", 9, |_| 5);
        early.series = Series::from_rates(Instant::ZERO, Span::from_secs(1), &[1, 2, 3]).unwrap();
        let error = divide(vec![early], 2, UtcOffset::default()).unwrap_err();
        assert!(matches!(error, DivideError::Relative { .. }), "{error}");
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
