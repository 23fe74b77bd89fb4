//! DCTCP (RFC 8257): the window falls by as much as there were marks.

use super::window::{LEAST, Progress, Window};

/// How much of α a window's marks are (§3.3, §4.2).
const G: f64 = 1.0 / 16.0;

/// One sender's estimate of congestion.
#[derive(Clone, Debug)]
pub(crate) struct Dctcp {
    /// The share of segments that are marked, smoothed: α.
    alpha: f64,
    /// Segments delivered in this window, and those of them whose acknowledgement echoed a mark.
    delivered: u32,
    marked: u32,
    /// This window ends when this is acknowledged.
    window_end: u64,
}

impl Dctcp {
    /// The worst is assumed, until there is evidence (§4.2).
    pub(crate) fn new() -> Self {
        Self { alpha: 1.0, delivered: 0, marked: 0, window_end: 0 }
    }

    #[inline]
    pub(crate) fn observe(&mut self, progress: &Progress) {
        self.delivered += progress.delivered;
        if progress.marked {
            self.marked += progress.delivered;
        }
        // §3.3, steps 3 to 8; segments stand for bytes.
        if progress.una > self.window_end && self.delivered > 0 {
            let share = f64::from(self.marked) / f64::from(self.delivered);
            self.alpha = (1.0 - G) * self.alpha + G * share;
            self.delivered = 0;
            self.marked = 0;
            self.window_end = progress.next;
        }
    }

    /// What remains of the window (§3.3, step 9).
    pub(crate) fn reduced(&self, window: &Window) -> u32 {
        let size = f64::from(window.size);
        ((size * (1.0 - self.alpha / 2.0)) as u32).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::progress;
    use super::super::window::tests::full;
    use super::*;
    use units::Instant;

    #[test]
    fn alpha_follows_the_share_of_marks() {
        let mut dctcp = Dctcp::new();
        assert_eq!(dctcp.reduced(&full(100, 1)), 50);
        let mut wanted = 1.0;
        for round in 1..=40u64 {
            // A quarter of each window of 20 is marked.
            for segment in 1..=20u64 {
                let una = round * 20 + segment;
                let marked = segment % 4 == 0;
                dctcp.observe(&Progress {
                    una,
                    next: una + 19,
                    marked,
                    ..progress(Instant::ZERO, 1)
                });
            }
            wanted = wanted * 15.0 / 16.0 + 0.25 / 16.0;
        }
        assert!((dctcp.alpha - wanted).abs() < 0.02, "{} and not {wanted}", dctcp.alpha);
        assert_eq!(dctcp.reduced(&full(100, 1)), 84);
    }

    #[test]
    fn without_marks_alpha_decays_by_a_sixteenth() {
        let mut dctcp = Dctcp::new();
        dctcp.observe(&Progress { una: 1, next: 10, ..progress(Instant::ZERO, 1) });
        assert_eq!(dctcp.alpha, 15.0 / 16.0);
        dctcp.observe(&Progress { una: 10, next: 20, ..progress(Instant::ZERO, 1) });
        assert_eq!(dctcp.alpha, 15.0 / 16.0);
        dctcp.observe(&Progress { una: 11, next: 20, ..progress(Instant::ZERO, 1) });
        assert_eq!(dctcp.alpha, 225.0 / 256.0);
    }
}
