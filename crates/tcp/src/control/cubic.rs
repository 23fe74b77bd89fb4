//! CUBIC (RFC 9438): after a reduction the window returns along a cube's curve, fast, then flat
//! around where it was reduced, then faster and faster.
//!
//! Windows are in segments and times in seconds, as in the RFC. Floating point here adds,
//! multiplies and divides, and the cube root is `libm`'s, so that every machine computes the same
//! bits.

use units::{Instant, Span};

use super::hystart::Hystart;
use super::window::{LEAST, Progress, Window};
use crate::NEVER;

/// How steep the curve is, in segments/s³ (§5).
const C: f64 = 0.4;
/// What remains of a window that is reduced (§4.6).
const BETA: f64 = 0.7;
/// How fast Reno's window grows that is as aggressive with this β (§4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// How fast the window grows at least while nobody knows how much the path holds, as in Linux: the
/// share of a window in a round trip. A curve that begins where slow start ended is flat there, and
/// would take seconds to find out.
const SCOUTING: f64 = 0.05;

/// One connection's curve.
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    /// When the curve began.
    epoch: Instant,
    /// Where it is flat: W_max.
    top: f64,
    /// When it gets there: K.
    top_after: f64,
    /// What the window was before it was reduced: cwnd_prior.
    prior: u32,
    /// What Reno's would be: W_est.
    reno: f64,
    /// What is due to the window, less than a segment.
    credit: f32,
    /// Whether nothing was lost yet, or a timeout made void what was learned.
    scouting: bool,
    /// What ends slow start before something is lost, if anything does.
    hystart: Option<Hystart>,
}

impl Cubic {
    pub(crate) fn new(hystart: bool) -> Self {
        let hystart = hystart.then(Hystart::new);
        let scouting = true;
        Self {
            epoch: NEVER,
            top: 0.0,
            top_after: 0.0,
            prior: 0,
            reno: 0.0,
            credit: 0.0,
            scouting,
            hystart,
        }
    }

    /// Sees every acknowledgement in slow start.
    pub(crate) fn observe(&mut self, window: &mut Window, progress: &Progress) {
        if let Some(hystart) = &mut self.hystart {
            hystart.observe(window, progress);
        }
    }

    pub(crate) fn grow(&mut self, window: &mut Window, progress: &Progress) {
        let mut left = progress.delivered;
        if window.is_slow_start() {
            left = window.slow_start(left);
        }
        if left == 0 {
            return;
        }
        let size = f64::from(window.size);
        if self.epoch == NEVER {
            self.begin(progress.now, size);
        }
        let acked = f64::from(left);
        let age = progress.now.since(self.epoch).as_secs_f64();

        // §4.3: once Reno would have caught up with where the window was, it grows as Reno does.
        let alpha = if self.reno < f64::from(self.prior) { ALPHA } else { 1.0 };
        self.reno += alpha * acked / size;
        if self.at(age) < self.reno && !self.scouting {
            if self.reno >= size + 1.0 {
                window.size = self.reno as u32;
                self.credit = 0.0;
            }
            return;
        }
        // §4.4, §4.5: towards where the curve will be in a round trip, by no more than half.
        let target = self.at(age + progress.smoothed.as_secs_f64()).clamp(size, 1.5 * size);
        let mut growth = (target - size) / size;
        if self.scouting {
            growth = growth.max(alpha / size).max(SCOUTING);
        }
        self.credit += (acked * growth) as f32;
        if self.credit >= 1.0 {
            let whole = self.credit as u32;
            window.size += whole;
            self.credit -= whole as f32;
        }
    }

    fn begin(&mut self, now: Instant, size: f64) {
        self.epoch = now;
        self.top = self.top.max(size);
        self.top_after = libm::cbrt((self.top - size) / C);
        self.reno = size;
        self.credit = 0.0;
    }

    /// W_cubic: the curve's window, `age` seconds after its beginning (§4.2).
    fn at(&self, age: f64) -> f64 {
        let from_top = age - self.top_after;
        C * from_top * from_top * from_top + self.top
    }

    pub(crate) fn on_loss(&mut self, window: &Window) -> u32 {
        let size = f64::from(window.size);
        // §4.7, fast convergence: who could not get back makes room.
        self.top = if size < self.top { size * (1.0 + BETA) / 2.0 } else { size };
        self.prior = window.size;
        self.epoch = NEVER;
        self.scouting = false;
        ((size * BETA) as u32).max(LEAST)
    }

    /// A timeout: the next curve begins at its top, wherever the window will be then (§4.8).
    pub(crate) fn on_timeout(&mut self) {
        *self = Self { prior: self.prior, ..Self::new(self.hystart.is_some()) };
    }

    /// Nothing was sent for so long: the curve waits (§5.8).
    pub(crate) fn skip(&mut self, pause: Span) {
        if self.epoch != NEVER {
            self.epoch += pause;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::progress;
    use super::super::window::tests::full;
    use super::*;

    /// Runs a full window for so long, at so many milliseconds a round trip.
    fn run(cubic: &mut Cubic, window: &mut Window, round_trip: usize, from_ms: u64, until_ms: u64) {
        for ms in (from_ms..until_ms).step_by(round_trip) {
            // One acknowledgement for every segment, a round trip later.
            let now = Instant::from_nanos(ms * 1_000_000);
            let smoothed = Span::from_millis(round_trip as u64);
            for _ in 0..window.size {
                cubic.grow(window, &Progress { smoothed, ..progress(now, 1) });
            }
        }
    }

    #[test]
    fn the_window_follows_the_curve() {
        let mut cubic = Cubic::new(false);
        let mut window = full(1000, 500);
        window.size = cubic.on_loss(&window);
        window.threshold = window.size;
        assert_eq!(window.size, 700);
        // K = cbrt(1000 * 0.3 / 0.4) = 9.086 s. W(t) = 0.4 (t - K)³ + 1000: 788.5 after 1 s, 972.7
        // after 5 s, 1000 at K, 1009.9 after 12 s. At 100 ms a round trip Reno would be slower all
        // the while.
        let mut from = 0;
        for (second, wanted) in [(1, 788.5_f64), (5, 972.7), (9, 1000.0), (12, 1009.9)] {
            run(&mut cubic, &mut window, 100, from, second * 1000);
            from = second * 1000;
            let apart = f64::from(window.size) - wanted;
            assert!(apart.abs() < 6.0, "after {second} s: {} and not {wanted}", window.size);
        }
    }

    #[test]
    fn short_round_trips_grow_as_reno_does() {
        // 10 segments at 10 ms: Reno gets back long before the curve, which needs cbrt(3 / 0.4) = 2
        // s.
        let mut cubic = Cubic::new(false);
        let mut window = full(10, 5);
        window.size = cubic.on_loss(&window);
        window.threshold = window.size;
        // 0.53 a round trip from 7.
        run(&mut cubic, &mut window, 10, 0, 50);
        assert_eq!(window.size, 9);
        // Above 10, which is in the next, one a round trip.
        run(&mut cubic, &mut window, 10, 50, 60);
        assert_eq!(window.size, 10);
        run(&mut cubic, &mut window, 10, 60, 160);
        assert_eq!(window.size, 20);
    }

    #[test]
    fn an_unknown_path_is_tried_by_a_twentieth_each_round_trip() {
        // The curve would need cbrt(50 / 0.4) = 5 s for half a window more; 100 * 1.05^8 = 147.7,
        // less what whole segments leave over.
        let mut cubic = Cubic::new(false);
        let mut window = full(100, 100);
        run(&mut cubic, &mut window, 10, 0, 80);
        assert!((142..=148).contains(&window.size), "{}", window.size);
        // After a loss the path is known.
        let before = window.size;
        window.size = cubic.on_loss(&window);
        window.threshold = window.size;
        run(&mut cubic, &mut window, 10, 80, 160);
        assert!(window.size < before * 8 / 10, "{}", window.size);
    }

    #[test]
    fn who_could_not_get_back_makes_room() {
        let mut cubic = Cubic::new(false);
        assert_eq!(cubic.on_loss(&full(100, 1)), 70);
        assert_eq!(cubic.top, 100.0);
        assert_eq!(cubic.on_loss(&full(80, 1)), 56);
        assert_eq!(cubic.top, 68.0);
        assert_eq!(cubic.on_loss(&full(2, 1)), 2);
    }

    #[test]
    fn a_pause_does_not_count() {
        let (mut idle, mut busy) = (Cubic::new(false), Cubic::new(false));
        let mut windows = [full(1000, 500), full(1000, 500)];
        for (cubic, window) in [&mut idle, &mut busy].into_iter().zip(&mut windows) {
            window.size = cubic.on_loss(window);
            window.threshold = window.size;
            run(cubic, window, 10, 0, 1000);
        }
        idle.skip(Span::from_secs(100));
        run(&mut idle, &mut windows[0], 10, 101_000, 102_000);
        run(&mut busy, &mut windows[1], 10, 1000, 2000);
        assert_eq!(windows[0].size, windows[1].size);
    }
}
