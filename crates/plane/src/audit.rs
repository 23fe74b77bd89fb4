//! The proof of the law, a few ports at a time, beside the forwarding of frames.
//!
//! A slice counts some ports' egresses whole. What that is beyond the budget of a tick, the next
//! ticks pay before another slice begins: on average a tick counts [`BUDGET`] frames, about ten
//! microseconds.

use lossless::{Defect, PortId, Switch};
use port::Slot;
use units::Class;

/// How many frames are counted a step, on average. A slice ends once it has counted as many.
const BUDGET: u64 = 256;

/// How many ports a slice visits at most.
const PORTS: usize = 16;

/// Rounds through all ports, a slice at a time.
#[derive(Debug, Default)]
pub struct Audit {
    /// The number of the port that is next.
    next: usize,
    /// Frames that were counted beyond the budget of their steps.
    owed: u64,
    /// The first that was ever found: the law stays broken.
    defect: Option<Defect>,
    /// It was [told](Self::take_news).
    is_told: bool,
}

impl Audit {
    /// Audits the next few of these ports, which are by number, unless the last slice has not been
    /// paid for.
    pub fn step(
        &mut self,
        switch: &Switch<Slot>,
        ports: impl ExactSizeIterator<Item = Option<PortId>>,
    ) {
        self.owed = self.owed.saturating_sub(BUDGET);
        if self.owed > 0 {
            return;
        }
        let (mut next, mut counted, count) = (self.next, 0, ports.len());
        for (number, port) in ports.enumerate().skip(next).take(PORTS) {
            if counted >= BUDGET {
                break;
            }
            next = number + 1;
            if let Some(id) = port {
                if let Err(defect) = switch.audit_port(id) {
                    self.defect.get_or_insert(defect);
                }
                counted +=
                    Class::all().map(|class| switch.egress_account(id, class).held).sum::<u64>();
            }
        }
        self.owed = counted;
        self.next = if next >= count { 0 } else { next };
    }

    /// Whether no defect was ever found.
    pub fn is_balanced(&self) -> bool {
        self.defect.is_none()
    }

    /// The defect that was found, once.
    pub fn take_news(&mut self) -> Option<&Defect> {
        let defect = self.defect.as_ref().filter(|_| !self.is_told)?;
        self.is_told = true;
        Some(defect)
    }
}

#[cfg(test)]
mod tests {
    use lossless::{Destination, Offered, PortConfig, Settings, Size};
    use units::Instant;

    use super::*;

    #[test]
    fn a_slice_that_counts_much_is_paid_for_before_the_next() {
        let now = Instant::ZERO;
        let mut switch = Switch::new(Settings::default());
        let ids = [(); 3].map(|()| switch.attach(now, PortConfig::default()).unwrap());
        let mut visit = switch.arrivals(now, ids[0]);
        for slot in 0..1000 {
            let size = Size { bytes: 64, frames: 1 };
            let offered = visit.offer(Destination::One(ids[1]), Class::default(), Slot(slot), size);
            assert_eq!(offered, Offered::Held);
        }
        drop(visit);
        let mut audit = Audit::default();
        // The egress with 1,000 frames ends the first slice, and three steps more pay for it.
        let next: Vec<_> = (0..6)
            .map(|_| {
                audit.step(&switch, ids.map(Some).into_iter());
                audit.next
            })
            .collect();
        assert_eq!(next, [2, 2, 2, 2, 0, 2]);
        assert!(audit.is_balanced() && audit.take_news().is_none());
    }

    #[test]
    fn ports_that_are_gone_are_passed_over() {
        let mut switch = Switch::new(Settings::default());
        let id = switch.attach(Instant::ZERO, PortConfig::default()).unwrap();
        let mut audit = Audit::default();
        audit.step(&switch, [None, Some(id), None].into_iter());
        assert_eq!((audit.next, audit.is_balanced()), (0, true));
    }
}
