//! What is told of many numbers: medians, quartiles, box plots, fairness.

use serde::{Deserialize, Serialize};

/// Jain's fairness index: 1 if all shares are equal, 1/n if one of n has all (Jain, Chiu and Hawe
/// 1984). 1 of nothing at all: nobody was preferred.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// The lowest fairness among senders over any `window` neighbouring bins; `None` if there are fewer
/// bins.
///
/// `bins` are counts of each sender in equal lengths of time.
pub fn worst_fairness(bins: &[Vec<u32>], window: usize) -> Option<f64> {
    let fairness = |bins: &[Vec<u32>]| {
        let senders = bins.first().map_or(0, Vec::len);
        let shares: Vec<f64> = (0..senders)
            .map(|sender| bins.iter().map(|bin| f64::from(bin[sender])).sum())
            .collect();
        jain(&shares)
    };
    bins.windows(window).map(fairness).min_by(f64::total_cmp)
}

/// The middle one, or the mean of both; none of nothing.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some((values[low] + values[high]) / 2.0)
}

/// What numbers lie between: the extremes, the quartiles and the middle one. Of an even number of
/// them, or in between, it is interpolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quartiles {
    /// The smallest.
    pub min: f64,
    /// A quarter is smaller.
    pub q1: f64,
    /// Half are smaller.
    pub median: f64,
    /// A quarter is larger.
    pub q3: f64,
    /// The largest.
    pub max: f64,
}

impl Quartiles {
    /// Of some numbers; none of nothing.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        let [min, q1, median, q3, max] = [0.0, 0.25, 0.5, 0.75, 1.0].map(at);
        Some(Self { min, q1, median, q3, max })
    }
}

/// How far a whisker reaches from its quartile at most, by the distance between the quartiles.
const REACH: f64 = 1.5;

/// What a box plot shows of numbers (Tukey, *Exploratory Data Analysis*, 1977).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Boxplot {
    /// The box, the line in it, and the extremes.
    #[serde(flatten)]
    pub quartiles: Quartiles,
    /// The end of the lower whisker: the smallest number that is at most 1.5 times the distance
    /// between the quartiles below the first.
    pub low: f64,
    /// The end of the upper whisker: the largest that is at most that above the third.
    pub high: f64,
    /// The numbers beyond the whiskers, from the smallest.
    pub outliers: Vec<f64>,
    /// The mean of all.
    pub mean: f64,
    /// How many they are.
    pub count: usize,
}

impl Boxplot {
    /// Of some numbers; none of nothing.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let quartiles = Quartiles::of(values.iter().copied())?;
        let reach = REACH * (quartiles.q3 - quartiles.q1);
        let (least, most) = (quartiles.q1 - reach, quartiles.q3 + reach);
        let is_near = |value: &f64| (least..=most).contains(value);
        let near = || values.iter().copied().filter(is_near);
        // Quartiles lie between numbers: one may have none near on its side of the box.
        let low = near().fold(quartiles.q1, f64::min);
        let high = near().fold(quartiles.q3, f64::max);
        let outliers = values.iter().copied().filter(|value| !is_near(value)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Self { quartiles, low, high, outliers, mean, count: values.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_runs_from_one_of_many_to_one() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), 1.0);
        assert_eq!(jain(&[9.0, 0.0, 0.0]), 1.0 / 3.0);
        assert_eq!(jain(&[0.0, 0.0]), 1.0);
    }

    #[test]
    fn the_worst_window_counts() {
        let bins = [vec![4, 4], vec![8, 0], vec![4, 4], vec![4, 4]];
        assert_eq!(worst_fairness(&bins, 1), Some(0.5));
        assert_eq!(worst_fairness(&bins, 2), Some(0.8));
        assert_eq!(worst_fairness(&bins, 5), None);
    }

    #[test]
    fn the_median_of_two_lies_between_them() {
        assert_eq!(median([3.0, 1.0].into_iter()), Some(2.0));
        assert_eq!(median([3.0, 1.0, 9.0].into_iter()), Some(3.0));
        assert_eq!(median([].into_iter()), None);
    }

    #[test]
    fn quartiles_are_interpolated() {
        let five = Quartiles::of([5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!(five, Quartiles { min: 1.0, q1: 2.0, median: 3.0, q3: 4.0, max: 5.0 });
        let two = Quartiles::of([8.0, 4.0]).unwrap();
        assert_eq!([two.min, two.q1, two.median, two.q3, two.max], [4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!(Quartiles::of([]), None);
    }

    #[test]
    fn whiskers_end_at_the_last_numbers_that_are_near() {
        // As R's `quantile(type = 7)` has the quartiles, and as `boxplot` of matplotlib has it all.
        let ten = (1..10).map(f64::from).chain([30.0]);
        let plot = Boxplot::of(ten).unwrap();
        let Quartiles { min, q1, median, q3, max } = plot.quartiles;
        assert_eq!([min, q1, median, q3, max], [1.0, 3.25, 5.5, 7.75, 30.0]);
        assert_eq!((plot.low, plot.high), (1.0, 9.0));
        assert_eq!((plot.outliers, plot.mean, plot.count), (vec![30.0], 7.5, 10));
        // 7.75 + 1.5 · 4.5 is 14.5: what lies there is near, what lies beyond is not.
        let at = |last: f64| Boxplot::of((1..10).map(f64::from).chain([last])).unwrap();
        assert_eq!((at(14.5).high, at(14.5).outliers), (14.5, vec![]));
        assert_eq!((at(14.6).high, at(14.6).outliers), (9.0, vec![14.6]));
    }

    #[test]
    fn a_box_without_numbers_near_has_no_whisker() {
        // The quartiles are 7.5 and 10, and 0 is too far from them.
        let plot = Boxplot::of([10.0, 0.0, 10.0, 10.0]).unwrap();
        assert_eq!((plot.low, plot.high, plot.outliers), (7.5, 10.0, vec![0.0]));
        let one = Boxplot::of([4.0]).unwrap();
        assert_eq!((one.low, one.high, one.outliers.len(), one.count), (4.0, 4.0, 0, 1));
        assert_eq!(Boxplot::of([]), None);
    }
}
