//! How many frames a second of one port are flooded, by kind.
//!
//! What nobody asked for is copied to everybody, so it costs the switch and its receivers more than
//! it costs its sender; and where a port's owner connects two of its ports, each copy comes back as
//! a frame, whether it was asked for or not. A token bucket for each kind bounds that. A frame that
//! is copied to many receivers counts several times, so that the work of a second is bounded
//! however many ports there are.

use core::num::NonZeroU32;

use lossless::Refusal;
use units::{Gcra, Instant, Mac};

/// How many receivers a frame may have that counts once.
const RECEIVERS: u32 = 32;

/// How many frames a second of one port may be flooded, of each kind; as many as come if absent. As
/// many may come at once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StormLimits {
    /// To everybody.
    pub broadcast: Option<NonZeroU32>,
    /// To groups of which nobody has said that it is in them; and to any, from an address that
    /// belongs to another port or moves to and fro, as it does in a loop.
    pub multicast: Option<NonZeroU32>,
    /// To single addresses of which nobody knows where they are.
    pub unknown: Option<NonZeroU32>,
}

/// What kind of frame is flooded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Broadcast,
    Multicast,
    Unknown,
}

impl Kind {
    fn of(destination: Mac) -> Self {
        match destination {
            Mac::BROADCAST => Self::Broadcast,
            group if group.is_multicast() => Self::Multicast,
            _ => Self::Unknown,
        }
    }

    fn refusal(self) -> Refusal {
        match self {
            Self::Broadcast => Refusal::BROADCAST_LIMIT,
            Self::Multicast => Refusal::MULTICAST_LIMIT,
            Self::Unknown => Refusal::UNKNOWN_LIMIT,
        }
    }
}

/// The buckets of one port.
#[derive(Debug, Default)]
pub(crate) struct Storm([Option<Gcra>; 3]);

impl Storm {
    pub(crate) fn new(limits: &StormLimits) -> Self {
        let bucket = |rate: NonZeroU32| Gcra::per_second(rate, rate.get());
        let StormLimits { broadcast, multicast, unknown } = *limits;
        Self([broadcast, multicast, unknown].map(|limit| limit.map(bucket)))
    }

    /// Why a frame for this destination is not flooded now, if so. However many receivers it has:
    /// those before it have paid for theirs.
    pub(crate) fn refusal(&self, now: Instant, to: Mac) -> Option<Refusal> {
        let kind = Kind::of(to);
        let bucket = self.0[kind as usize].as_ref()?;
        (bucket.ready_for(1) > now).then_some(kind.refusal())
    }

    /// Counts a frame that is flooded, and has so many receivers.
    pub(crate) fn take(&mut self, now: Instant, to: Mac, receivers: usize) {
        if let Some(bucket) = &mut self.0[Kind::of(to) as usize] {
            bucket.take(now, cost(receivers).into());
        }
    }
}

/// What a frame with so many receivers counts as.
fn cost(receivers: usize) -> u32 {
    (receivers as u32).div_ceil(RECEIVERS).max(1)
}

#[cfg(test)]
mod tests {
    use units::Span;

    use super::*;

    const GROUP: Mac = Mac([0x01, 0, 0x5e, 1, 2, 3]);

    /// How many of a thousand frames pass at once.
    fn passes(storm: &mut Storm, now: Instant, to: Mac, receivers: usize) -> usize {
        let passes = |_: &u32| {
            let passes = storm.refusal(now, to).is_none();
            if passes {
                storm.take(now, to, receivers);
            }
            passes
        };
        (0..1000).filter(passes).count()
    }

    #[test]
    fn a_second_s_worth_passes_at_once_and_then_its_rate() {
        let limits = StormLimits {
            broadcast: NonZeroU32::new(100),
            unknown: NonZeroU32::new(200),
            multicast: None,
        };
        let mut storm = Storm::new(&limits);
        let now = Instant::ZERO + Span::from_secs(9);
        assert_eq!(passes(&mut storm, now, Mac::BROADCAST, 3), 100);
        assert_eq!(storm.refusal(now, Mac::BROADCAST), Some(Refusal::BROADCAST_LIMIT));
        assert_eq!(passes(&mut storm, now, Mac::local(1), 3), 200, "each kind has its own");
        assert_eq!(storm.refusal(now, Mac::local(1)), Some(Refusal::UNKNOWN_LIMIT));
        assert_eq!(passes(&mut storm, now, GROUP, 3), 1000, "and one has none");
        let later = now + Span::from_millis(500);
        assert_eq!(passes(&mut storm, later, Mac::BROADCAST, 3), 50);
    }

    #[test]
    fn a_frame_for_many_receivers_counts_several_times() {
        let limits = StormLimits { multicast: NonZeroU32::new(100), ..StormLimits::default() };
        let now = Instant::ZERO + Span::from_secs(9);
        for (receivers, expected) in [(0, 100), (32, 100), (33, 50), (320, 10), (32_000, 1)] {
            let mut storm = Storm::new(&limits);
            assert_eq!(passes(&mut storm, now, GROUP, receivers), expected, "{receivers}");
        }
    }
}
