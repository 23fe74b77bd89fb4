//! Rates as a few levels: the partition of numbers on a line with the least squared distance to the
//! means of their parts, found exactly by dynamic programming (Wang and Song, *Ckmeans.1d.dp*,
//! 2011).

use alloc::vec;
use alloc::vec::Vec;

/// Values that lie close together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    sum: f64,
    weight: f64,
    /// The highest of them.
    last: u64,
}

/// Values as points on a line, of which there are some thousands at most. Values that are less than
/// a thousandth of the range apart, and less than a thousandth of all, are one point.
pub(crate) struct Points(Vec<Point>);

impl Points {
    /// The points of values, of which there are some.
    pub fn new(sorted: &[u64]) -> Self {
        const MOST: u64 = 1024;
        let (lowest, highest) = (sorted[0], sorted[sorted.len() - 1]);
        let wide = (highest - lowest) / MOST;
        let many = (sorted.len() as u64 / MOST) as f64;
        let mut points: Vec<Point> = Vec::new();
        let mut begins = 0;
        for &value in sorted {
            match points.last_mut() {
                Some(point)
                    if value == point.last || (value - begins <= wide && point.weight < many) =>
                {
                    point.sum += value as f64;
                    point.weight += 1.0;
                    point.last = value;
                }
                _ => {
                    points.push(Point { sum: value as f64, weight: 1.0, last: value });
                    begins = value;
                }
            }
        }
        Self(points)
    }

    /// How many points there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The point of a value.
    pub fn of(&self, value: u64) -> usize {
        self.0.partition_point(|it| it.last < value).min(self.0.len() - 1)
    }

    /// The highest value of a point.
    pub fn last(&self, point: usize) -> u64 {
        self.0[point].last
    }

    /// For each number of parts from 1 to `most`, the last point of each part. Fewer if there are
    /// fewer points.
    pub fn partitions(&self, most: usize) -> Vec<Vec<usize>> {
        let costs = Costs::new(&self.0);
        let count = self.0.len();
        // least[j]: the least cost of the first j + 1 points in so many parts; from[k][j]: where
        // the last of k + 1 parts begins then.
        let mut least: Vec<f64> = (0..count).map(|last| costs.of(0, last)).collect();
        let mut from = vec![vec![0; count]];
        let mut partitions = vec![trace_back(&from, count)];
        for parts in 1..most.min(count) {
            let (now, begins) = (vec![0.0; count], vec![0; count]);
            let mut layer = Layer { before: &least, costs: &costs, least: now, from: begins };
            layer.fill(parts, count - 1, parts, count - 1);
            let Layer { least: now, from: begins, .. } = layer;
            least = now;
            from.push(begins);
            partitions.push(trace_back(&from, count));
        }
        partitions
    }
}

/// Sums from the first point on, of distances to the mean, so that squares keep their digits.
struct Costs {
    weight: Vec<f64>,
    sum: Vec<f64>,
    square: Vec<f64>,
}

impl Costs {
    fn new(points: &[Point]) -> Self {
        let all: f64 = points.iter().map(|it| it.weight).sum();
        let mean = points.iter().map(|it| it.sum).sum::<f64>() / all.max(1.0);
        let sums = |of: &dyn Fn(f64, f64) -> f64| {
            let mut sum = 0.0;
            let mut sums = vec![0.0];
            for point in points {
                sum += of(point.weight, point.sum / point.weight - mean);
                sums.push(sum);
            }
            sums
        };
        Self {
            weight: sums(&|weight, _| weight),
            sum: sums(&|weight, value| weight * value),
            square: sums(&|weight, value| weight * value * value),
        }
    }

    /// The squared distance of the points from `first` to `last` to their mean.
    fn of(&self, first: usize, last: usize) -> f64 {
        let part = |sums: &[f64]| sums[last + 1] - sums[first];
        let sum = part(&self.sum);
        (part(&self.square) - sum * sum / part(&self.weight)).max(0.0)
    }
}

/// One more part than the layer before.
struct Layer<'a> {
    before: &'a [f64],
    costs: &'a Costs,
    least: Vec<f64>,
    from: Vec<usize>,
}

impl Layer<'_> {
    /// Fills `first` to `last`, whose last parts begin between `lowest` and `highest`: where the
    /// last part begins never moves back as points are added, so the middle divides both ranges.
    fn fill(&mut self, first: usize, last: usize, lowest: usize, highest: usize) {
        let middle = first + (last - first) / 2;
        let cost = |begin: usize| self.before[begin - 1] + self.costs.of(begin, middle);
        let (mut best, mut least) = (lowest, cost(lowest));
        for begin in lowest + 1..=highest.min(middle) {
            let cost = cost(begin);
            if cost < least {
                (best, least) = (begin, cost);
            }
        }
        (self.least[middle], self.from[middle]) = (least, best);
        if middle > first {
            self.fill(first, middle - 1, lowest, best);
        }
        if middle < last {
            self.fill(middle + 1, last, best, highest);
        }
    }
}

fn trace_back(from: &[Vec<usize>], count: usize) -> Vec<usize> {
    let mut ends = Vec::with_capacity(from.len());
    let mut next = count;
    for begins in from.iter().rev() {
        ends.push(next - 1);
        next = begins[next - 1];
    }
    ends.reverse();
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    /// The highest value of each part.
    fn partitions(sorted: &[u64], most: usize) -> Vec<Vec<u64>> {
        let points = Points::new(sorted);
        let values = |ends: Vec<usize>| ends.into_iter().map(|it| points.last(it)).collect();
        points.partitions(most).into_iter().map(values).collect()
    }

    #[test]
    fn levels_that_are_apart_are_found() {
        let mut values = Vec::new();
        for (level, count) in [(0, 50), (1_000, 30), (5_000, 20), (5_400, 20)] {
            values.extend((0..count).map(|place| level + place));
        }
        let found = partitions(&values, 8);
        assert_eq!(found[0], [5_419]);
        assert_eq!(found[2], [49, 1_029, 5_419]);
        assert_eq!(found[3], [49, 1_029, 5_019, 5_419]);
    }

    #[test]
    fn there_are_no_more_parts_than_values() {
        assert_eq!(partitions(&[7, 7, 7], 8), [[7]]);
        assert_eq!(partitions(&[3, 7, 7], 8), [vec![7], vec![3, 7]]);
    }

    #[test]
    fn a_value_is_found_at_its_point() {
        let points = Points::new(&[3, 7, 7, 20]);
        assert_eq!([3, 7, 20].map(|it| points.of(it)), [0, 1, 2]);
        assert_eq!(points.count(), 3);
    }

    #[test]
    fn no_other_partition_is_closer() {
        let mut rng = Rng::new(5);
        for _ in 0..50 {
            let mut values: Vec<u64> = (0..9).map(|_| rng.below(100)).collect();
            values.sort_unstable();
            let cost = |part: &[u64]| {
                let mean = part.iter().sum::<u64>() as f64 / part.len() as f64;
                part.iter().map(|it| (*it as f64 - mean) * (*it as f64 - mean)).sum::<f64>()
            };
            // Every partition into three, by its two cuts.
            let mut least = f64::INFINITY;
            for one in 1..8 {
                for other in one + 1..9 {
                    let parts = [&values[..one], &values[one..other], &values[other..]];
                    least = least.min(parts.iter().map(|part| cost(part)).sum());
                }
            }
            let Some(found) = partitions(&values, 3).get(2).cloned() else { continue };
            let mut begin = 0;
            let ours: f64 = found
                .iter()
                .map(|end| {
                    let part = &values[begin..values.partition_point(|it| it <= end)];
                    begin += part.len();
                    cost(part)
                })
                .sum();
            assert!(ours <= least + 1e-9, "{values:?} {found:?} {ours} {least}");
        }
    }
}
