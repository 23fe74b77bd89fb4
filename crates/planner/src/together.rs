//! What traces of the same times say of machines together: whether they are as independent as a
//! plan takes them for.

use demand::{Aligned, Dependence, Series};
use figures::{Unit, percent, si};
use serde::Serialize;

use crate::fitted::Fitted;

/// Traces, added up one by one.
#[derive(Debug, Default)]
pub struct Sum(Aligned);

/// The sum of traces beside what it would be of independent machines. Rates are bits a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Together {
    /// How many traces there are.
    pub traces: usize,
    /// How many samples they have at the same times, and how many independent ones those are worth.
    pub samples: usize,
    /// See `samples`.
    pub effective_samples: f64,
    /// The share of time in which the sum may be above the rates that follow.
    pub share: f64,
    /// The rate that the sum of the traces is above for that share of time.
    pub observed: u64,
    /// The rate that it would be above if machines were independent, as their models are.
    pub independent: u64,
    /// The variance of the sum, as a multiple of what it would be of independent machines.
    pub variance: f64,
    /// Whether machines move together.
    pub is_dependent: bool,
}

/// Fewer independent samples than this tell nothing of machines together.
const LEAST_EFFECTIVE: f64 = 30.0;

impl Sum {
    /// Adds a trace.
    pub fn push(&mut self, series: &Series) {
        self.0.push(series);
    }

    /// Compares the sum with that of the models, which were fitted to the same traces. `None` of a
    /// single trace, or if no half of a trace has times that all have.
    pub fn compare(&self, fits: &[&Fitted], share: f64) -> Option<Together> {
        let (traces, samples) = (self.0.traces(), self.0.samples());
        if fits.iter().any(|it| it.samples > 2 * samples) {
            return None;
        }
        let sources: Vec<_> = fits.iter().map(|it| it.fit.model.source()).collect();
        let of_common =
            |it: &&Fitted| it.fit.effective_samples * samples as f64 / it.samples as f64;
        let found = self.0.compare(&sources, share)?;
        let Dependence { predicted, observed, variance } = found;
        Some(Together {
            traces,
            samples,
            effective_samples: fits.iter().map(of_common).fold(f64::INFINITY, f64::min),
            share,
            observed,
            independent: predicted,
            variance,
            is_dependent: found.is_dependent(),
        })
    }
}

impl Together {
    /// What is told of it; `is_divided` if the traces are of one class of hours.
    pub fn sentence(&self, is_divided: bool) -> String {
        let rate = |rate: u64| si(rate as f64, Unit::BITS_PER_SEC);
        let sum = format!(
            "the sum of the {} traces is above {} for {} of the time; of independent machines it \
             would be above {}",
            self.traces,
            rate(self.observed),
            percent(self.share),
            rate(self.independent),
        );
        let effective = self.effective_samples;
        if effective < LEAST_EFFECTIVE {
            return format!(
                "{sum}. {effective:.0} independent samples are too few to tell whether machines \
                 are independent"
            );
        }
        if !self.is_dependent {
            return format!("{sum}. It varies as much as theirs");
        }
        let first = if is_divided { "" } else { "divide hours (`--busy`), or " };
        format!(
            "{sum}. It varies {:.1} times as much as theirs: {first}name machines that move \
             together (`together`)",
            self.variance
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fitted::Traced;
    use demand::FitSettings;
    use units::{Instant, Rng, Span};

    /// Traces of machines that send at 100 Mbit/s for a quarter of the time, drawn anew each ten
    /// samples; those with the same seed alike.
    fn compared(seeds: &[u64], samples: usize, begins: &[u64]) -> Option<Together> {
        let (mut sum, mut fits) = (Sum::default(), Vec::new());
        for (seed, begin) in seeds.iter().zip(begins) {
            let (mut rng, mut rate) = (Rng::new(*seed), 0);
            let draw = |place: usize| {
                if place.is_multiple_of(10) {
                    rate = 100_000_000 * u64::from(rng.below(4) == 0);
                }
                rate
            };
            let rates: Vec<u64> = (0..samples).map(draw).collect();
            let begin = Instant::from_nanos(*begin);
            let series = Series::from_rates(begin, Span::from_secs(1), &rates).unwrap();
            sum.push(&series);
            let traced =
                Traced { name: "m".into(), series, sends: None, frame: None, doubts: Vec::new() };
            fits.push(traced.fit(&FitSettings::default()));
        }
        sum.compare(&fits.iter().collect::<Vec<_>>(), 0.01)
    }

    #[test]
    fn machines_that_move_together_are_told() {
        let apart = compared(&[1, 2, 3, 4], 20_000, &[0; 4]).unwrap();
        assert!(!apart.is_dependent && apart.effective_samples > 500.0, "{apart:?}");
        assert_eq!((apart.observed, apart.independent), (300_000_000, 300_000_000));
        assert_eq!(
            apart.sentence(false),
            "the sum of the 4 traces is above 300 Mbit/s for 1 % of the time; of independent \
             machines it would be above 300 Mbit/s. It varies as much as theirs"
        );
        let alike = compared(&[1, 1, 1, 1], 20_000, &[0; 4]).unwrap();
        assert_eq!((alike.observed, alike.independent), (400_000_000, 300_000_000));
        let told = alike.sentence(false);
        assert!(told.contains("It varies 4.0 times as much as theirs: divide hours "), "{told}");
        let told = alike.sentence(true);
        assert!(told.contains("It varies 4.0 times as much as theirs: name machines "), "{told}");
    }

    #[test]
    fn too_little_tells_nothing() {
        let short = compared(&[1, 2], 20, &[0; 2]).unwrap();
        assert!(
            short.sentence(false).contains(" independent samples are too few to tell "),
            "{short:?}"
        );
        assert_eq!(compared(&[1], 1000, &[0]), None);
        // Of other times, or of hardly any that both have.
        assert_eq!(compared(&[1, 2], 1000, &[0, 7]), None);
        assert_eq!(compared(&[1, 2], 1000, &[0, 600_000_000_000]), None);
    }
}
