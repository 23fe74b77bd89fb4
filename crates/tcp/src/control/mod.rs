//! Congestion control: how many segments may be in flight.
//!
//! The sender asks for three things: what the window becomes when data is delivered
//! ([`Algorithm::grow`]), to what it falls when some is lost or marked ([`Algorithm::on_loss`],
//! [`Algorithm::on_mark`]), and what to forget after a pause. The fall itself, gradual or at once,
//! belongs to recovery.

mod cubic;
mod dctcp;
mod hystart;
mod vegas;
mod window;

use units::Instant;

use crate::Control;
use cubic::Cubic;
use dctcp::Dctcp;
use vegas::Vegas;
use window::LEAST;

pub(crate) use window::{Progress, UNKNOWN, Window};

/// One of the algorithms, with its state, behind the byte that tells which.
#[derive(Clone, Debug)]
#[repr(u8)]
pub(crate) enum Algorithm {
    Reno,
    Cubic(Cubic),
    Vegas(Vegas),
    Dctcp(Dctcp),
}

impl Algorithm {
    pub(crate) fn new(control: Control, hystart: bool) -> Self {
        match control {
            Control::Reno => Self::Reno,
            Control::Cubic => Self::Cubic(Cubic::new(hystart)),
            Control::Vegas => Self::Vegas(Vegas::new()),
            Control::Dctcp => Self::Dctcp(Dctcp::default()),
        }
    }

    /// Sees every acknowledgement that delivers something.
    #[inline]
    pub(crate) fn observe(&mut self, window: &mut Window, progress: &Progress) {
        match self {
            Self::Reno => {}
            Self::Cubic(cubic) => {
                if window.is_slow_start() {
                    cubic.observe(window, progress);
                }
            }
            Self::Vegas(vegas) => vegas.observe(progress),
            Self::Dctcp(dctcp) => dctcp.observe(progress),
        }
    }

    /// Lets the window grow: data was acknowledged, and nothing is being reduced.
    #[inline]
    pub(crate) fn grow(&mut self, window: &mut Window, progress: &Progress) {
        match self {
            Self::Vegas(vegas) => vegas.grow(window, progress),
            _ if !window.is_limiting() => {}
            Self::Reno | Self::Dctcp(_) => window.grow_as_reno(progress.delivered),
            Self::Cubic(cubic) => cubic.grow(window, progress),
        }
    }

    /// Something was lost: the threshold from now on.
    pub(crate) fn on_loss(&mut self, window: &Window) -> u32 {
        match self {
            // RFC 8257 §3.5: a loss is a loss.
            Self::Reno | Self::Vegas(_) | Self::Dctcp(_) => (window.size / 2).max(LEAST),
            Self::Cubic(cubic) => cubic.on_loss(window),
        }
    }

    /// A mark was echoed: the threshold from now on.
    pub(crate) fn on_mark(&mut self, window: &Window) -> u32 {
        match self {
            Self::Dctcp(dctcp) => dctcp.reduced(window),
            _ => self.on_loss(window),
        }
    }

    /// A timeout: what was learned about the path is void.
    pub(crate) fn on_timeout(&mut self) {
        match self {
            Self::Reno | Self::Dctcp(_) => {}
            Self::Cubic(cubic) => cubic.on_timeout(),
            Self::Vegas(vegas) => vegas.pause(),
        }
    }

    /// Loss recovery or a reduction begins or is over.
    pub(crate) fn on_calm(&mut self, calm: bool, next: u64) {
        if let Self::Vegas(vegas) = self {
            if calm { vegas.resume(next) } else { vegas.pause() }
        }
    }

    /// The first segment leaves after nothing was in flight since `last_sent`.
    #[inline]
    pub(crate) fn on_start(&mut self, now: Instant, last_sent: Instant, next: u64) {
        match self {
            Self::Reno | Self::Dctcp(_) => {}
            Self::Cubic(cubic) => cubic.skip(now.since(last_sent)),
            Self::Vegas(vegas) => {
                *vegas = Vegas::new();
                vegas.resume(next);
            }
        }
    }

    /// Whether it needs ECN, and every segment to carry it (RFC 8257 §3).
    pub(crate) fn needs_ecn(&self) -> bool {
        matches!(self, Self::Dctcp(_))
    }
}

#[cfg(test)]
mod tests {
    use super::window::tests::full;
    use super::*;

    #[test]
    fn losses_halve_or_take_three_tenths() {
        let window = full(100, 50);
        assert_eq!(Algorithm::new(Control::Reno, false).on_loss(&window), 50);
        assert_eq!(Algorithm::new(Control::Dctcp, false).on_loss(&window), 50);
        assert_eq!(Algorithm::new(Control::Cubic, false).on_loss(&window), 70);
        assert_eq!(Algorithm::new(Control::Reno, false).on_loss(&full(3, 2)), 2);
    }
}
