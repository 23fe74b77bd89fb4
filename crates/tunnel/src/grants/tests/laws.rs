//! What holds after any events.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;
use shares::{Bound, Terms};
use units::{Instant, Rate, Span};

use crate::grants::{Downlink, Grants, LEAST, Progress};

const DATAGRAM: u32 = 1000;

impl<K: Copy + Ord> Grants<K> {
    /// Recounts what is kept as sums.
    pub(super) fn check(&self) {
        let all = || self.streams.values();
        assert_eq!(all().filter(|credit| credit.is_active).count(), self.active as usize);
        assert_eq!(all().map(|credit| credit.counted()).sum::<u64>(), self.outstanding);
        assert_eq!(all().map(|credit| credit.outstanding()).sum::<u64>(), self.all);
        let active = self.networks.iter().filter(|network| network.active > 0);
        assert_eq!(active.map(|network| network.weight()).sum::<u64>(), self.weights);
        assert_eq!(self.networks.iter().map(|network| network.active).sum::<u32>(), self.active);
        let patient = self.networks.iter().filter(|network| network.is_patient);
        assert_eq!(patient.count(), self.patient as usize);
        let queued = self.streams.values().filter(|credit| credit.is_queued).count();
        assert_eq!(self.networks.iter().map(|network| network.ring.len()).sum::<usize>(), queued);
        let watched = self.streams.values().filter(|credit| credit.is_watched).count();
        assert_eq!(self.watched.len(), watched);
        assert!(self.streams.values().all(|credit| credit.is_watched || !credit.is_active));
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Time passes.
    Wait(u64),
    /// So much of a stream's credit is used, in a hundredth.
    Use { stream: u8, part: u64, is_marked: bool },
    /// A sender asks, and says that it has sent that much of its credit.
    Ask { stream: u8, part: u64 },
    /// A datagram comes without credit.
    Unasked(u16),
    /// A network has other terms: Mb/s at least, Mb/s at most, a weight.
    Terms { network: u8, min: u64, max: Option<u64>, weight: u16 },
    /// A host begins anew: every fourth stream is its.
    Forget(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let stream = 0_u8..12;
    prop_oneof![
        3 => (0_u64..3000).prop_map(Step::Wait),
        8 => (stream.clone(), 0_u64..=100, proptest::bool::weighted(0.02))
            .prop_map(|(stream, part, is_marked)| Step::Use { stream, part, is_marked }),
        2 => (stream, 0_u64..=100).prop_map(|(stream, part)| Step::Ask { stream, part }),
        1 => (60_u16..2000).prop_map(Step::Unasked),
        1 => (0_u8..3, 0_u64..400, proptest::option::of(1_u64..900), 1_u16..9)
            .prop_map(|(network, min, max, weight)| Step::Terms { network, min, max, weight }),
        1 => (0_u8..4).prop_map(Step::Forget),
    ]
}

fn terms(min: u64, max: Option<u64>, weight: u16) -> Terms {
    let bits = |mbit: u64, burst| {
        let rate = Rate::from_bits_per_sec(mbit * 1_000_000)?;
        Some(Bound::bits(rate, burst))
    };
    Terms {
        min: bits(min, 1500).unwrap_or_default(),
        max: max.and_then(|max| bits(max, 64 << 10)).unwrap_or_default(),
        weight: weight.try_into().unwrap(),
    }
}

proptest! {
    /// Sums are what they are sums of, limits rise, nobody has more outstanding than it may, and
    /// whoever has no credit waits for something that happens.
    #[test]
    fn the_books_balance(steps in vec(step(), 1..300)) {
        let mut grants = Grants::<u8>::new(Downlink { rate: Rate::from_gbit(1), datagram: DATAGRAM, latency: Span::from_millis(5) });
        let unsolicited = u64::from(grants.unsolicited());
        let new = Progress { received: 0, limit: unsolicited };
        let mut now = Instant::ZERO + Span::from_millis(1);
        let mut known: BTreeMap<u8, Progress> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Wait(us) => now += Span::from_micros(us),
                Step::Use { stream, part, is_marked } => {
                    let progress = known.entry(stream).or_insert(new);
                    let used = (progress.limit - progress.received) * part / 100;
                    let used = used.min(DATAGRAM.into());
                    progress.received += used;
                    let link = used as u32 + 80;
                    grants.arrived(now, link, is_marked);
                    grants.received(now, stream, u16::from(stream % 3), *progress, link);
                }
                Step::Ask { stream, part } => {
                    let progress = known.entry(stream).or_insert(new);
                    progress.received += (progress.limit - progress.received) * part / 100;
                    grants.asked(now, stream, *progress);
                }
                Step::Unasked(bytes) => grants.arrived(now, bytes.into(), false),
                Step::Terms { network, min, max, weight } => {
                    grants.set_terms(now, network.into(), terms(min, max, weight));
                }
                Step::Forget(host) => {
                    grants.forget(|stream| stream % 4 == host);
                    known.retain(|stream, _| stream % 4 != host);
                }
            }
            grants.check();
            while let Some(grant) = grants.next(now) {
                let progress = known.get_mut(&grant.stream).unwrap();
                prop_assert!(grant.limit > progress.limit);
                progress.limit = grant.limit;
                grants.check();
                prop_assert!(progress.limit - progress.received <= 1 << 22);
            }
        }
        // Nobody is heard any more: all who have no credit get some, as time passes.
        let ask = known.keys().copied().collect::<Vec<_>>();
        for stream in ask {
            grants.asked(now, stream, known[&stream]);
        }
        for _ in 0..10_000 {
            while let Some(grant) = grants.next(now) {
                known.get_mut(&grant.stream).unwrap().limit = grant.limit;
            }
            let Some(at) = grants.ready_at(now) else { break };
            prop_assert!(at > now, "what is ready has a turn");
            now = at;
        }
        grants.check();
        let least = u64::from(LEAST * DATAGRAM / 2);
        prop_assert!(known.values().all(|at| at.limit - at.received >= least), "{:?}", known);
        // All come to rest.
        now += Span::from_secs(1);
        prop_assert!(grants.next(now).is_none());
        now += Span::from_secs(1);
        let _ = grants.next(now);
        prop_assert_eq!(grants.sharing(now).active, 0);
        prop_assert_eq!(grants.sharing(now).outstanding, 0);
    }
}
