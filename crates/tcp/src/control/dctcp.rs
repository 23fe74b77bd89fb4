//! DCTCP (RFC 8257): the window falls by as much as there were marks.

use units::MarkShare;

use super::window::{LEAST, Progress, Window};

/// One sender's estimate of congestion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dctcp {
    share: MarkShare,
    /// This window ends when this is acknowledged.
    window_end: u64,
}

impl Dctcp {
    #[inline]
    pub(crate) fn observe(&mut self, progress: &Progress) {
        self.share.count(progress.delivered, if progress.marked { progress.delivered } else { 0 });
        // §3.3, steps 3 to 8
        if progress.una > self.window_end && self.share.end_window().is_some() {
            self.window_end = progress.next;
        }
    }

    /// What remains of the window (§3.3, step 9).
    pub(crate) fn reduced(&self, window: &Window) -> u32 {
        (self.share.reduced(f64::from(window.size)) as u32).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::progress;
    use super::super::window::tests::full;
    use super::*;
    use units::Instant;

    #[test]
    fn the_window_falls_by_half_of_the_share_of_marks() {
        let mut dctcp = Dctcp::default();
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
        let reduced = f64::from(dctcp.reduced(&full(1_000_000, 1)));
        let wanted = 1e6 * (1.0 - wanted / 2.0);
        assert!((reduced - wanted).abs() < 1e4, "{reduced} and not {wanted}");
    }

    #[test]
    fn a_window_ends_once_what_was_sent_after_its_beginning_is_acknowledged() {
        let mut dctcp = Dctcp::default();
        let reduced = |dctcp: &Dctcp| dctcp.reduced(&full(1 << 20, 1));
        // Without marks alpha decays by a sixteenth in each window: 15/16, 225/256.
        dctcp.observe(&Progress { una: 1, next: 10, ..progress(Instant::ZERO, 1) });
        assert_eq!(reduced(&dctcp), (1 << 15) * 17);
        dctcp.observe(&Progress { una: 10, next: 20, ..progress(Instant::ZERO, 1) });
        assert_eq!(reduced(&dctcp), (1 << 15) * 17);
        dctcp.observe(&Progress { una: 11, next: 20, ..progress(Instant::ZERO, 1) });
        assert_eq!(reduced(&dctcp), (1 << 11) * 287);
    }
}
