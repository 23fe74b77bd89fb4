//! Sharing as if what is sent were a fluid: everybody at once, each at a rate.

use shares::Terms;

/// The rates in bits a second at which senders that always have something to send are served by a
/// fluid link: each has its minimum, what is left is divided by weights, and what somebody's
/// maximum leaves goes to the others.
pub fn rates(link: f64, frame: u32, terms: &[Terms]) -> Vec<f64> {
    let bound = |bound: shares::Bound, none: f64| {
        let bits = bound.bits.map(|it| it.rate.bits_per_sec() as f64);
        let frames = bound.frames.map(|it| f64::from(it.per_second.get()) * f64::from(frame) * 8.0);
        bits.into_iter().chain(frames).reduce(f64::min).unwrap_or(none)
    };
    let max: Vec<f64> = terms.iter().map(|it| bound(it.max, f64::INFINITY)).collect();
    let min: Vec<f64> =
        terms.iter().zip(&max).map(|(it, max)| bound(it.min, 0.0).min(*max)).collect();
    // The level to which what is left rises, by bisection: all rates grow with it.
    let at = |level: f64| -> Vec<f64> {
        let rate = |place: usize| {
            (min[place] + level * f64::from(terms[place].weight.get())).min(max[place])
        };
        (0..terms.len()).map(rate).collect()
    };
    let (mut low, mut high) = (0.0, link);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if at(middle).iter().sum::<f64>() > link { high = middle } else { low = middle }
    }
    at(low)
}
