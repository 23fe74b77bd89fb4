//! What is told of many numbers: medians, fairness.

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
}
