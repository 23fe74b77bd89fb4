//! Places in memory for what comes, and who may have them.

use alloc::collections::BTreeMap;

use crate::Stream;

/// Who wants a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Claim {
    /// A frame that its sender keeps until it is taken: it may come again.
    Repaired(Stream),
    /// Another such, and others wait for it, which came before it.
    Awaited(Stream),
    /// A frame that will not come again.
    Unrepaired,
}

/// So many places, each for one frame.
///
/// - No stream that is repaired has more than are left to all others of them (dynamic thresholds: Choudhury and Hahne, "Dynamic queue
///   length thresholds for shared-memory packet switches", 1998). So receivers that take nothing do not take the memory of others,
///   however many they are.
/// - A sixteenth is left to frames that others wait for.
/// - What is repaired leaves a quarter to what is not, and so does that: its sender has to be stopped before, by
///   [`is_short`](Self::is_short).
#[derive(Clone, Debug)]
pub struct Places {
    all: u32,
    free: u32,
    /// How many each stream has that is repaired.
    held: BTreeMap<Stream, u32>,
    /// How many they have together.
    repaired: u32,
}

impl Places {
    /// So many, and all are free.
    pub fn new(all: u32) -> Self {
        Self { all, free: all, held: BTreeMap::new(), repaired: 0 }
    }

    /// Whether there is a place for this.
    pub fn has_for(&self, claim: Claim) -> bool {
        self.free > 0
            && match claim {
                Claim::Repaired(stream) => self.held(stream) < self.shared(),
                Claim::Awaited(_) => self.repaired < self.most(),
                Claim::Unrepaired => self.unrepaired() < self.most(),
            }
    }

    /// Whether a stream of which something was turned away may have so many places that it is worth while to ask for more. What is
    /// `appended` to a frame that is here already needs none.
    pub fn welcomes(&self, stream: Stream, appended: bool) -> bool {
        2 * self.held(stream).saturating_sub(appended.into()) < self.shared()
    }

    /// Whether what is not repaired will soon find no place.
    pub fn is_short(&self) -> bool {
        let unrepaired = self.unrepaired();
        unrepaired > self.all / 2 || unrepaired > 0 && self.free < self.all / 8
    }

    /// A place is taken that [there is](Self::has_for).
    pub fn take(&mut self, claim: Claim) {
        self.free -= 1;
        if let Claim::Repaired(stream) | Claim::Awaited(stream) = claim {
            *self.held.entry(stream).or_default() += 1;
            self.repaired += 1;
        }
    }

    /// A place is free again that a stream had which is repaired, or what is not.
    ///
    /// # Panics
    ///
    /// If it had none.
    pub fn put(&mut self, stream: Option<Stream>) {
        self.free += 1;
        if let Some(stream) = stream {
            let held = self.held.get_mut(&stream).expect("who has a place is known");
            *held -= 1;
            self.repaired -= 1;
            if *held == 0 {
                self.held.remove(&stream);
            }
        }
    }

    /// How many are free.
    pub fn free(&self) -> u32 {
        self.free
    }

    fn held(&self, stream: Stream) -> u32 {
        self.held.get(&stream).copied().unwrap_or(0)
    }

    fn unrepaired(&self) -> u32 {
        self.all - self.free - self.repaired
    }

    /// The most that those have which are repaired, and those which are not.
    fn most(&self) -> u32 {
        self.all - self.all / 4
    }

    /// How many are left to all streams that are repaired.
    fn shared(&self) -> u32 {
        self.most().saturating_sub(self.all.div_ceil(16) + self.repaired).min(self.free)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::Class;

    use super::*;

    fn stream(label: u32) -> Stream {
        Stream { label, class: Class::default() }
    }

    fn take_all(places: &mut Places, claim: Claim) -> u32 {
        let mut taken = 0;
        while places.has_for(claim) {
            places.take(claim);
            taken += 1;
        }
        taken
    }

    #[test]
    fn each_stream_leaves_as_many_as_it_has() {
        let mut places = Places::new(1600);
        // Three quarters but for a sixteenth: 1,100.
        let taken = [1, 2, 3].map(|label| take_all(&mut places, Claim::Repaired(stream(label))));
        assert_eq!(taken, [550, 275, 138]);
        assert!(!places.welcomes(stream(3), false) && places.welcomes(stream(4), false));
        assert!(!places.is_short(), "what may come again stops no link");
        assert_eq!(take_all(&mut places, Claim::Awaited(stream(1))), 1200 - 963);
        assert_eq!(take_all(&mut places, Claim::Unrepaired), 400);
        assert!(places.is_short() && places.free() == 0);
    }

    #[test]
    fn what_is_not_repaired_leaves_a_quarter() {
        let mut places = Places::new(1600);
        while !places.is_short() {
            places.take(Claim::Unrepaired);
        }
        assert_eq!(take_all(&mut places, Claim::Unrepaired), 1200 - 801, "until links have paused");
        assert_eq!(take_all(&mut places, Claim::Repaired(stream(1))), 200);
        assert!(places.welcomes(stream(2), false));
    }

    #[test]
    fn a_frame_that_grows_where_it_lies_is_no_reason_to_wait() {
        let mut places = Places::new(16);
        take_all(&mut places, Claim::Repaired(stream(1)));
        while places.has_for(Claim::Repaired(stream(2))) {
            places.take(Claim::Repaired(stream(2)));
        }
        let last = stream(3);
        assert!(places.has_for(Claim::Repaired(last)));
        places.take(Claim::Repaired(last));
        places.put(Some(stream(2)));
        assert!(!places.welcomes(last, false) && places.welcomes(last, true));
    }

    proptest! {
        #[test]
        fn whoever_has_nothing_finds_a_place_or_is_one_of_very_many(
            all in 32_u32..2000, streams in 1_u32..10, unrepaired in 0_u32..2000,
        ) {
            let mut places = Places::new(all);
            for _ in 0..unrepaired.min(all - all / 4) {
                places.take(Claim::Unrepaired);
            }
            for label in 0..streams {
                take_all(&mut places, Claim::Repaired(stream(label)));
            }
            let fair = (all / 4).saturating_sub(all.div_ceil(16) * 2) >> streams;
            prop_assert!(fair == 0 || places.has_for(Claim::Repaired(stream(streams))));
        }
    }
}
