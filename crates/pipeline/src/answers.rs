//! How often the network itself answers each port: who asks for more gets no answer, asks again,
//! and delays nobody else's.
//!
//! What is decided does not depend on it. An answer is taken from its port's token bucket when it
//! is given, so that a frame that is decided ten times counts once.

use alloc::collections::BTreeMap;
use core::num::NonZeroU32;

use logical::objects::Identity;
use packet::answer::MOST_A_SECOND;
use units::{Gcra, Instant};

/// The token buckets of ports that were answered lately.
#[derive(Clone, Debug, Default)]
pub struct Answers(BTreeMap<Identity, Gcra>);

impl Answers {
    /// Takes an answer from a port's bucket. Whether it had one.
    pub fn take(&mut self, port: &Identity, now: Instant) -> bool {
        if let Some(bucket) = self.0.get_mut(port) {
            return bucket.try_take(now);
        }
        let rate = NonZeroU32::new(MOST_A_SECOND).unwrap_or(NonZeroU32::MIN);
        let mut bucket = Gcra::per_second(rate, MOST_A_SECOND);
        let has_one = bucket.try_take(now);
        self.0.insert(port.clone(), bucket);
        has_one
    }

    /// Forgets buckets that are full again.
    pub fn expire(&mut self, now: Instant) {
        self.0.retain(|_, bucket| bucket.ready_for(MOST_A_SECOND) > now);
    }
}

#[cfg(test)]
mod tests {
    use logical::objects::Kind;
    use units::Span;

    use super::*;

    fn port(name: &str) -> Identity {
        Identity { kind: Kind::LogicalPort, tenant: None, name: name.parse().unwrap() }
    }

    #[test]
    fn each_port_has_its_own_measure_and_forgetting_forgives_nothing() {
        let mut answers = Answers::default();
        let now = Instant::from_nanos(1_000_000_000);
        let (a, b) = (port("a"), port("b"));
        assert!((0..MOST_A_SECOND).all(|_| answers.take(&a, now)));
        answers.expire(now);
        assert!(!answers.take(&a, now));
        assert!(answers.take(&b, now));
        let later = now + Span::from_millis(500);
        answers.expire(later);
        let given = (0..MOST_A_SECOND).filter(|_| answers.take(&a, later)).count();
        assert_eq!((answers.0.len(), given), (1, MOST_A_SECOND as usize / 2));
        answers.expire(later + Span::from_secs(1));
        assert!(answers.0.is_empty());
    }
}
