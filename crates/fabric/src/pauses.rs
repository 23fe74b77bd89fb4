//! The pauses that a host asks for.

use units::{Class, ClassMap, Instant};

use crate::Link;

/// Until when each class is paused by the host at the link's far end.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    until: ClassMap<Instant>,
}

impl Pauses {
    /// The host tells of some classes for how many quanta they are paused; 0 lets a class go on
    /// (802.3 §31B.3, §31D.3).
    pub fn obey(&mut self, now: Instant, link: Link, told: &ClassMap<Option<u16>>) {
        for (class, quanta) in told.iter() {
            if let Some(quanta) = quanta {
                // A quantum is 512 bit times, which are 64 bytes.
                self.until[class] = now + link.rate.time_for(u64::from(*quanta) * 64);
            }
        }
    }

    /// When a class may be sent.
    pub fn until(&self, class: Class) -> Instant {
        self.until[class]
    }

    /// The classes that are paused, a bit each.
    pub fn paused(&self, now: Instant) -> u8 {
        let paused = Class::all().filter(|class| self.until[*class] > now);
        paused.fold(0, |bits, class| bits | 1 << class.pcp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_paused_for_its_quanta_or_until_it_may_go_on() {
        let (mut pauses, link) = (Pauses::default(), Link::default());
        let at = Instant::from_nanos;
        let mut told = ClassMap([None; 8]);
        (told.0[3], told.0[5]) = (Some(1000), Some(10));
        pauses.obey(at(100), link, &told);
        // 51.2 ns a quantum at 10 Gb/s.
        assert_eq!((pauses.paused(at(611)), pauses.paused(at(612))), (0b10_1000, 0b1000));
        told = ClassMap([None; 8]);
        told.0[3] = Some(0);
        pauses.obey(at(700), link, &told);
        assert_eq!(pauses.paused(at(700)), 0);
    }
}
