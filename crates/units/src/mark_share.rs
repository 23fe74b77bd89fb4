//! DCTCP's estimate of congestion (RFC 8257 §3.3).

/// The weight of the latest window in α (g, §4.2).
const GAIN: f64 = 1.0 / 16.0;

/// The share of packets that are marked, smoothed: α. Packets stand for bytes.
#[derive(Clone, Debug)]
pub struct MarkShare {
    alpha: f64,
    /// Of this window: packets delivered, and those of them that were marked.
    delivered: u32,
    marked: u32,
}

impl Default for MarkShare {
    /// The worst is assumed until there is evidence (§4.2): α is 1.
    fn default() -> Self {
        Self { alpha: 1.0, delivered: 0, marked: 0 }
    }
}

impl MarkShare {
    /// Counts packets that were acknowledged, and those of them whose marks were echoed.
    #[inline]
    pub fn count(&mut self, delivered: u32, marked: u32) {
        self.delivered += delivered;
        self.marked += marked;
    }

    /// Ends a window (steps 4 to 7). Returns its share of marks, from 0 to 1; `None` if nothing was
    /// delivered in it.
    #[inline]
    pub fn end_window(&mut self) -> Option<f64> {
        if self.delivered == 0 {
            return None;
        }
        let share = f64::from(self.marked) / f64::from(self.delivered);
        self.alpha = (1.0 - GAIN) * self.alpha + GAIN * share;
        (self.delivered, self.marked) = (0, 0);
        Some(share)
    }

    /// What remains of a congestion window that marks reduce (step 9).
    #[inline]
    pub fn reduced(&self, window: f64) -> f64 {
        window * (1.0 - self.alpha / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_decays_by_a_sixteenth_for_each_window_without_marks() {
        let mut share = MarkShare::default();
        assert_eq!((share.end_window(), share.reduced(100.0)), (None, 50.0));
        for alpha in [15.0 / 16.0, 225.0 / 256.0] {
            share.count(10, 0);
            assert_eq!((share.end_window(), share.alpha), (Some(0.0), alpha));
        }
    }

    #[test]
    fn alpha_follows_the_share_of_marks() {
        let mut share = MarkShare::default();
        for _ in 0..400 {
            share.count(15, 0);
            share.count(5, 5);
            assert_eq!(share.end_window(), Some(0.25));
        }
        assert!((share.reduced(80.0) - 70.0).abs() < 1e-6);
    }
}
