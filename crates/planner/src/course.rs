//! What machines do for a while, drawn of their models: at which rate, for how long, at which then.
//!
//! Whoever draws knows at each moment how much of a switch's time all of them ask for, so that what
//! a switch does in a while can be held against what was asked of it in just that while.

use demand::{Model, State};
use units::{Rng, Span};

/// Rates in bits a second, one after the other, and how long each is kept.
pub type Course = Vec<(u64, Span)>;

/// Draws what a machine does for so long, with holding times that are `faster` times shorter.
///
/// It begins in a state by the shares of time, and stays in each for an exponential time.
pub fn course(model: &Model, faster: f64, lasts: Span, rng: &mut Rng) -> Course {
    let states = model.states();
    let mut state = drawn(model.shares().iter().copied(), rng);
    let mut course = Course::new();
    let mut left = lasts.as_nanos();
    while left > 0 {
        let State { rate, hold } = states[state];
        let mean = hold.as_nanos() as f64 / faster;
        let drawn_ns = -(1.0 - rng.unit_f64()).ln() * mean;
        let ns = if states.len() == 1 { left } else { (drawn_ns as u64).clamp(1, left) };
        course.push((rate, Span::from_nanos(ns)));
        left -= ns;
        state = drawn((0..states.len()).map(|to| model.jump(state, to)), rng);
    }
    course
}

/// A place by these shares, which sum to 1 but for rounding; the last one's of no shares.
fn drawn(shares: impl ExactSizeIterator<Item = f64>, rng: &mut Rng) -> usize {
    let last = shares.len() - 1;
    let quantile = rng.unit_f64();
    let mut below = 0.0;
    let mut found = None;
    for (place, share) in shares.enumerate() {
        below += share;
        if share > 0.0 && found.is_none() && quantile < below {
            found = Some(place);
        }
    }
    found.unwrap_or(last)
}

/// A while in which nobody changes state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// How long it is.
    pub lasts: Span,
    /// What is asked for of the switch's time: 1 is all of it.
    pub load: f64,
    /// How many frames are asked for, a second.
    pub frames_per_sec: f64,
}

/// What machines ask for together, piece by piece. Of each: its course, the bits of a frame, and
/// the seconds that a frame takes the switch.
pub fn pieces(machines: &[(&Course, f64, f64)]) -> Vec<Piece> {
    // All changes of all machines, in order: when, who, and which rate is next.
    let mut changes: Vec<(u64, usize, u64)> = Vec::new();
    let mut end = 0;
    for (machine, (course, ..)) in machines.iter().enumerate() {
        let mut at = 0;
        for (rate, lasts) in *course {
            changes.push((at, machine, *rate));
            at += lasts.as_nanos();
        }
        end = end.max(at);
        changes.push((at, machine, 0));
    }
    changes.sort_unstable();
    let mut rates = vec![0u64; machines.len()];
    let mut pieces = Vec::new();
    for (place, (at, machine, rate)) in changes.iter().enumerate() {
        rates[*machine] = *rate;
        let next = changes.get(place + 1).map_or(end, |(at, ..)| *at);
        if next == *at {
            continue;
        }
        let frames = |machine: usize| rates[machine] as f64 / machines[machine].1;
        let all = 0..machines.len();
        pieces.push(Piece {
            lasts: Span::from_nanos(next - at),
            load: all.clone().map(|it| frames(it) * machines[it].2).sum(),
            frames_per_sec: all.map(frames).sum(),
        });
    }
    pieces
}

/// The share of the time of all pieces in which the load is above this.
pub fn share_above(pieces: &[Piece], load: f64) -> f64 {
    let secs = |piece: &Piece| piece.lasts.as_secs_f64();
    let all: f64 = pieces.iter().map(secs).sum();
    if all == 0.0 {
        return 0.0;
    }
    pieces.iter().filter(|it| it.load > load).map(secs).sum::<f64>() / all
}

/// Frames a second, on average: what is asked for, and what is carried of it by a switch that has
/// senders wait for what is beyond its time.
pub fn asked_and_carried(pieces: &[Piece]) -> (f64, f64) {
    let (mut secs, mut asked, mut carried) = (0.0, 0.0, 0.0);
    for Piece { lasts, load, frames_per_sec } in pieces {
        let lasts = lasts.as_secs_f64();
        secs += lasts;
        asked += lasts * frames_per_sec;
        carried += lasts * frames_per_sec / load.max(1.0);
    }
    if secs == 0.0 { (0.0, 0.0) } else { (asked / secs, carried / secs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: Span = Span::from_secs(1);

    #[test]
    fn a_course_has_the_models_shares_of_time() {
        let model = Model::on_off(8000, Span::from_secs(30), Span::from_secs(90)).unwrap();
        let all = Span::from_secs(10_000);
        let drawn = course(&model, 100.0, all, &mut Rng::new(7));
        let ns = |it: &[(u64, Span)]| it.iter().map(|(_, lasts)| lasts.as_nanos()).sum::<u64>();
        assert_eq!(ns(&drawn), all.as_nanos());
        let on: Course = drawn.iter().filter(|(rate, _)| *rate > 0).copied().collect();
        let share = ns(&on) as f64 / all.as_nanos() as f64;
        assert!((share - 0.25).abs() < 0.02, "{share}");
        // Holding times are a hundredth of the model's.
        let mean = ns(&on) as f64 / 1e9 / on.len() as f64;
        assert!((mean - 0.3).abs() < 0.03, "{mean}");
        // States take turns, and the same seed draws the same.
        assert!(drawn.windows(2).all(|pair| pair[0].0 != pair[1].0));
        assert_eq!(course(&model, 100.0, all, &mut Rng::new(7)), drawn);
        assert_ne!(course(&model, 100.0, all, &mut Rng::new(8)), drawn);
    }

    #[test]
    fn a_constant_rate_is_one_visit() {
        let drawn = course(&Model::constant(5), 3.0, SEC, &mut Rng::new(1));
        assert_eq!(drawn, [(5, SEC)]);
    }

    #[test]
    fn pieces_add_up_what_machines_ask_for() {
        let one: Course = vec![(1000, SEC), (0, SEC), (2000, SEC)];
        let other: Course = vec![(0, SEC + SEC), (2000, SEC)];
        // A frame of each has 100 bits; one takes 0.05 s, the other 0.04 s.
        let pieces = pieces(&[(&one, 100.0, 0.05), (&other, 100.0, 0.04)]);
        let told: Vec<_> = pieces.iter().map(|it| (it.load, it.frames_per_sec)).collect();
        assert_eq!(told, [(0.5, 10.0), (0.0, 0.0), (1.8, 40.0)]);
        assert!(pieces.iter().all(|it| it.lasts == SEC));
        assert_eq!(
            [0.0, 0.5, 1.0, 2.0].map(|load| share_above(&pieces, load) * 3.0),
            [2.0, 1.0, 1.0, 0.0]
        );
        let (asked, carried) = asked_and_carried(&pieces);
        assert!((asked - 50.0 / 3.0).abs() < 1e-9, "{asked}");
        assert!((carried - (10.0 + 40.0 / 1.8) / 3.0).abs() < 1e-9, "{carried}");
    }
}
