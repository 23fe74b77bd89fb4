//! A distribution given by points of its cumulative function.

use alloc::string::String;
use alloc::vec::Vec;

use units::Rng;

/// A cumulative distribution function, linear between its points.
///
/// ```text
///   1 ┤            ●      probability never falls, and ends at 1
///     │      ●────╯
///     │  ●──╯             a first point above 0 is reached from (0, 0)
///   0 ●─┴────────────▶    values rise strictly, in whatever unit the caller means
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf {
    points: Vec<(f64, f64)>,
}

/// Why points do not make a distribution.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CdfError {
    /// A line is not two numbers.
    #[error(
        "line {line} of the distribution is `{text}`: write a value and its probability, `10000 0.15`"
    )]
    Line {
        /// Counted from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A point lies before its predecessor, or outside the range.
    #[error(
        "point {point} of the distribution goes backwards: values rise, probabilities never fall, all from 0 up"
    )]
    Order {
        /// Counted from 1.
        point: usize,
    },
    /// The function does not reach certainty.
    #[error(
        "the distribution ends at probability {end}: its last point needs probability 1 (or 100)"
    )]
    End {
        /// The last point's probability.
        end: f64,
    },
}

impl Cdf {
    /// The distribution through `points`, each a value and the probability that a sample is at most
    /// it.
    ///
    /// # Errors
    ///
    /// [`CdfError`] if the points do not rise from 0 to probability 1.
    pub fn new(points: &[(f64, f64)]) -> Result<Self, CdfError> {
        let mut rising: Vec<(f64, f64)> = Vec::with_capacity(points.len() + 1);
        if points.first().is_some_and(|first| first.1 > 0.0) && points[0].0 > 0.0 {
            rising.push((0.0, 0.0));
        }
        for (index, &(value, probability)) in points.iter().enumerate() {
            let sane = value.is_finite() && value >= 0.0 && (0.0..=1.0).contains(&probability);
            let rises = rising.last().is_none_or(|last| value > last.0 && probability >= last.1);
            if !sane || !rises {
                return Err(CdfError::Order { point: index + 1 });
            }
            rising.push((value, probability));
        }
        match rising.last() {
            Some(&(_, 1.0)) => Ok(Self { points: rising }),
            last => Err(CdfError::End { end: last.map_or(0.0, |last| last.1) }),
        }
    }

    /// Reads one point a line, `value probability`, as the files of published traffic studies have
    /// it.
    ///
    /// Empty lines and what follows a `#` are skipped. Probabilities may count to 1 or to 100; of a
    /// line with more than two columns the first and the last count (some files carry an index
    /// between them).
    ///
    /// # Errors
    ///
    /// [`CdfError`] names the line or the point that is wrong.
    pub fn parse(text: &str) -> Result<Self, CdfError> {
        let mut points = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let wrong = || CdfError::Line { line: index + 1, text: line.into() };
            let mut columns = line.split_ascii_whitespace().map(|column| column.parse::<f64>());
            let value = columns.next().and_then(Result::ok).ok_or_else(wrong)?;
            let probability = columns.next_back().and_then(Result::ok).ok_or_else(wrong)?;
            points.push((value, probability));
        }
        if points.last().is_some_and(|last| last.1 > 1.0) {
            for point in &mut points {
                point.1 /= 100.0;
            }
        }
        Self::new(&points)
    }

    /// Its points, values and probabilities, rising.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The value that a share `p` of all samples does not exceed; `p` is held to 0 to 1.
    pub fn quantile(&self, p: f64) -> f64 {
        let p = p.clamp(0.0, 1.0);
        let above = self.points.partition_point(|point| point.1 < p);
        let Some(before) = above.checked_sub(1) else { return self.points[0].0 };
        let ((low, from), (high, to)) = (self.points[before], self.points[above]);
        low + (high - low) * (p - from) / (to - from)
    }

    /// The share of samples that do not exceed `value`.
    pub fn probability(&self, value: f64) -> f64 {
        let above = self.points.partition_point(|point| point.0 <= value);
        let Some(before) = above.checked_sub(1) else { return 0.0 };
        let Some(&(high, to)) = self.points.get(above) else { return 1.0 };
        let (low, from) = self.points[before];
        from + (to - from) * (value - low) / (high - low)
    }

    /// The mean, exactly: every piece is uniform, so its own mean is its middle.
    pub fn mean(&self) -> f64 {
        let first = self.points[0].0 * self.points[0].1;
        let pieces = self
            .points
            .windows(2)
            .map(|pair| (pair[1].1 - pair[0].1) * (pair[0].0 + pair[1].0) / 2.0);
        first + pieces.sum::<f64>()
    }

    /// One value, drawn by inversion.
    pub fn sample(&self, rng: &mut Rng) -> f64 {
        self.quantile(rng.unit_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, proptest};

    /// Points that rise strictly in both coordinates, so that the function has an inverse.
    fn rising() -> impl Strategy<Value = Cdf> {
        prop::collection::vec((1u32..1000, 1u32..1000), 1..20).prop_map(|steps| {
            let total: u32 = steps.iter().map(|step| step.1).sum();
            let (mut value, mut weight) = (0, 0);
            let mut points = Vec::new();
            for step in steps {
                value += step.0;
                weight += step.1;
                points.push((f64::from(value), f64::from(weight) / f64::from(total)));
            }
            Cdf::new(&points).unwrap()
        })
    }

    proptest! {
        #[test]
        fn probability_undoes_quantile(cdf in rising(), p in 0.0f64..=1.0) {
            prop_assert!((cdf.probability(cdf.quantile(p)) - p).abs() < 1e-9);
        }

        #[test]
        fn quantiles_never_fall(cdf in rising(), p in 0.0f64..1.0, more in 0.0f64..1.0) {
            prop_assert!(cdf.quantile(p) <= cdf.quantile(p + more * (1.0 - p)));
        }

        #[test]
        fn the_sampled_mean_is_the_mean(cdf in rising(), seed: u64) {
            let mut rng = Rng::new(seed);
            let sampled = (0..20_000).map(|_| cdf.sample(&mut rng)).sum::<f64>() / 20_000.0;
            // The widest spread a distribution on [0, end] can have is end/2: six of its standard
            // errors.
            prop_assert!((sampled - cdf.mean()).abs() < 6.0 * cdf.quantile(1.0) / 2.0 / 141.0);
        }

        #[test]
        fn any_text_is_a_distribution_or_an_error(text in "[0-9. #\n-]{0,60}") {
            if let Ok(cdf) = Cdf::parse(&text) {
                prop_assert!(cdf.mean() >= 0.0);
                prop_assert_eq!(cdf.probability(f64::MAX), 1.0);
            }
        }
    }

    #[test]
    fn a_file_may_count_to_a_hundred_and_carry_comments() {
        let percent = Cdf::parse("# size  %\n0 0\n100 50\n\n300 100 # all\n").unwrap();
        assert_eq!(percent, Cdf::parse("100 0.5\n300 1").unwrap());
        assert_eq!(percent.mean(), 125.0);
        assert_eq!(percent.quantile(0.75), 200.0);
    }

    #[test]
    fn points_that_go_backwards_or_stop_short_are_refused() {
        assert_eq!(Cdf::parse("100 0.5\n90 1"), Err(CdfError::Order { point: 2 }));
        assert_eq!(Cdf::parse("100 0.5\n200 0.4"), Err(CdfError::Order { point: 2 }));
        assert_eq!(Cdf::parse("100 0.5\n200 0.9"), Err(CdfError::End { end: 0.9 }));
        assert_eq!(Cdf::parse(""), Err(CdfError::End { end: 0.0 }));
        assert_eq!(Cdf::parse("100"), Err(CdfError::Line { line: 1, text: "100".into() }));
    }

    #[test]
    fn mass_may_sit_on_the_first_value() {
        let cdf = Cdf::new(&[(0.0, 0.5), (100.0, 1.0)]).unwrap();
        assert_eq!((cdf.quantile(0.3), cdf.probability(0.0), cdf.mean()), (0.0, 0.5, 25.0));
    }
}
