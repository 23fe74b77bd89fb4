//! Receive memory: slots for frames, and which stream and which groups of streams may take how
//! many.

use alloc::collections::BTreeMap;

/// A claim to a slot, of a stream `K`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Claim<K> {
    /// A frame of a reliable class: its sender retransmits it.
    Reliable(K),
    /// A frame of a reliable class that others of its stream wait for.
    NextInOrder(K),
    /// A frame of an unreliable class.
    Unreliable,
}

impl<K> Claim<K> {
    /// The stream, in a reliable class.
    pub fn whose(self) -> Option<K> {
        match self {
            Self::Reliable(stream) | Self::NextInOrder(stream) => Some(stream),
            Self::Unreliable => None,
        }
    }

    /// The same claim of a stream under another name.
    pub fn map<L>(self, name: impl FnOnce(K) -> L) -> Claim<L> {
        match self {
            Self::Reliable(stream) => Claim::Reliable(name(stream)),
            Self::NextInOrder(stream) => Claim::NextInOrder(name(stream)),
            Self::Unreliable => Claim::Unreliable,
        }
    }
}

/// A number of slots, one for each frame, of streams `K`. Each frame is of two groups `G`.
///
/// - No reliable stream takes more slots than are left to all other reliable ones (dynamic
///   thresholds: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet
///   switches", 1998), except for a sixteenth of all that is left to frames that others wait for.
///   So receivers that consume nothing do not take the memory of others, however many they are.
/// - No group takes more than eight times what is left to others, by the same rule: a group with
///   very many streams leaves a ninth to other groups.
/// - Reliable streams leave a quarter to unreliable ones, and always an eighth of all. When memory
///   [is short](Self::is_short), an eighth is free for what is in flight until senders stop.
/// - Unreliable streams leave a quarter to reliable ones.
/// - What a group [keeps](Self::keep) nobody else takes, and none of these bounds is its own there:
///   each stream leaves as much of it as it has to the group's other streams.
#[derive(Clone, Debug)]
pub struct Quota<K, G> {
    all: u32,
    free: u32,
    /// Slots of each reliable stream.
    held: BTreeMap<K, u32>,
    /// Slots of all reliable streams.
    reliable: u32,
    /// Slots of each group.
    groups: BTreeMap<G, Held>,
    /// How many slots are each group's alone, of those that have some.
    kept: BTreeMap<G, u32>,
    /// How many of these are free, of all groups.
    unused: u32,
}

/// Slots of a group.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Held {
    reliable: u32,
    unreliable: u32,
}

impl Held {
    fn side(&mut self, is_reliable: bool) -> &mut u32 {
        if is_reliable { &mut self.reliable } else { &mut self.unreliable }
    }

    fn all(self) -> u32 {
        self.reliable + self.unreliable
    }
}

/// How many times what is left to others a group may take.
const GROUP_SHARE: u32 = 8;

impl<K: Copy + Ord, G: Copy + Ord> Quota<K, G> {
    /// All slots are free.
    pub fn new(all: u32) -> Self {
        Self {
            all,
            free: all,
            held: BTreeMap::new(),
            reliable: 0,
            groups: BTreeMap::new(),
            kept: BTreeMap::new(),
            unused: 0,
        }
    }

    /// Keeps so many slots for a group from now on; 0 for none. What others have of them already is
    /// the group's once it is free.
    pub fn keep(&mut self, group: G, slots: u32) {
        self.unused -= self.unused_of(group);
        match slots {
            0 => drop(self.kept.remove(&group)),
            _ => drop(self.kept.insert(group, slots)),
        }
        self.unused += self.unused_of(group);
    }

    /// How many slots a group has.
    pub fn held_by(&self, group: G) -> u32 {
        self.groups.get(&group).map_or(0, |held| held.all())
    }

    /// How many of the slots that are kept for a group are free.
    fn unused_of(&self, group: G) -> u32 {
        self.kept.get(&group).map_or(0, |kept| kept.saturating_sub(self.held_by(group)))
    }

    /// The same of these groups.
    fn own(&self, groups: [G; 2]) -> u32 {
        if self.kept.is_empty() {
            0
        } else {
            groups.map(|group| self.unused_of(group)).iter().sum()
        }
    }

    /// Whether there is a slot for this claim, of a frame of these groups.
    pub fn has_for(&self, claim: Claim<K>, groups: [G; 2]) -> bool {
        let may = |held: fn(Held) -> u32, left: u32| {
            let of = |group| held(self.groups.get(&group).copied().unwrap_or_default());
            groups.into_iter().all(|group| of(group) < left.saturating_mul(GROUP_SHARE))
        };
        let own = self.own(groups);
        if own > 0 {
            let leaves_as_much = |stream| self.held(stream) < own;
            let may = match claim {
                Claim::Reliable(stream) => leaves_as_much(stream),
                Claim::NextInOrder(_) | Claim::Unreliable => true,
            };
            if may && self.free > self.unused - own {
                return true;
            }
        }
        // A bound above all that is taken is above what any stream or group has of it: memory that
        // is mostly free asks nobody.
        self.open() > 0
            && match claim {
                Claim::Reliable(stream) => {
                    let shared = self.shared();
                    self.reliable < shared
                        || self.held(stream) < shared && may(|held| held.reliable, shared)
                }
                Claim::NextInOrder(stream) => {
                    let shared = self.shared() + self.reserve();
                    self.left() > 0 && (self.reliable < shared || self.held(stream) < shared)
                }
                Claim::Unreliable => {
                    let left = self.most().saturating_sub(self.unreliable());
                    self.unreliable() < left || may(|held| held.unreliable, left)
                }
            }
    }

    /// Whether there is a slot for this claim that does not make memory [short](Self::is_short).
    pub fn can_spare(&self, claim: Claim<K>, groups: [G; 2]) -> bool {
        let stops_nobody = || self.unreliable() < self.all / 8 * 3 && self.open() > self.all / 8;
        self.has_for(claim, groups) && (claim.whose().is_some() || stops_nobody())
    }

    /// Whether a stream that is being NACKed may take enough slots to be worth asking for more. Its
    /// groups are left out of account if they are not known.
    pub fn welcomes(&self, stream: K, groups: Option<[G; 2]>) -> bool {
        let shared = self.shared();
        let most = shared.saturating_mul(GROUP_SHARE);
        let mut known = groups.iter().flatten().filter_map(|group| self.groups.get(group));
        2 * self.held(stream) < shared && known.all(|held| 2 * held.reliable < most)
    }

    /// Whether unreliable streams will soon find no slot. Reliable ones make memory short only if
    /// unreliable ones have more than an eighth.
    pub fn is_short(&self) -> bool {
        self.unreliable() > self.all / 2 || self.open() < self.all / 8
    }

    /// Takes a slot that [there is](Self::has_for).
    pub fn take(&mut self, claim: Claim<K>, groups: [G; 2]) {
        self.free -= 1;
        let stream = claim.whose();
        if let Some(stream) = stream {
            *self.held.entry(stream).or_default() += 1;
            self.reliable += 1;
        }
        let own = self.own(groups);
        for group in groups {
            *self.groups.entry(group).or_default().side(stream.is_some()) += 1;
        }
        self.unused -= own - self.own(groups);
    }

    /// Frees a slot of a frame of these groups: of a reliable stream, or of the unreliable ones.
    ///
    /// # Panics
    ///
    /// If it had none.
    pub fn put(&mut self, stream: Option<K>, groups: [G; 2]) {
        self.free += 1;
        if let Some(stream) = stream {
            let held = self.held.get_mut(&stream).expect("who has a place is known");
            *held -= 1;
            self.reliable -= 1;
            if *held == 0 {
                self.held.remove(&stream);
            }
        }
        let own = self.own(groups);
        for group in groups {
            let held = self.groups.get_mut(&group).expect("who has a place is known");
            *held.side(stream.is_some()) -= 1;
            if *held == Held::default() {
                self.groups.remove(&group);
            }
        }
        self.unused += self.own(groups) - own;
    }

    /// Free slots.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Slots of a reliable stream.
    pub fn held(&self, stream: K) -> u32 {
        self.held.get(&stream).copied().unwrap_or(0)
    }

    fn unreliable(&self) -> u32 {
        self.all - self.free - self.reliable
    }

    /// The most slots of all reliable streams, and of all unreliable ones.
    fn most(&self) -> u32 {
        self.all - self.all / 4
    }

    /// How many more slots reliable streams may take.
    fn left(&self) -> u32 {
        self.most().saturating_sub(self.reliable).min(self.open().saturating_sub(self.all / 8))
    }

    /// Free slots that are kept for nobody.
    fn open(&self) -> u32 {
        self.free.saturating_sub(self.unused)
    }

    /// The slots reserved for frames that others wait for.
    fn reserve(&self) -> u32 {
        self.all.div_ceil(16)
    }

    /// The slots left to all other reliable streams.
    fn shared(&self) -> u32 {
        self.left().saturating_sub(self.reserve())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// Streams are numbers, and each is a group of its own.
    type Quota = super::Quota<u32, u32>;

    fn stream(label: u32) -> u32 {
        label
    }

    /// The next of many groups that have only unreliable streams, twice.
    fn group(claim: Claim<u32>, count: u32) -> [u32; 2] {
        [claim.whose().unwrap_or(1000 + count); 2]
    }

    fn take_all(places: &mut Quota, claim: Claim<u32>) -> u32 {
        let mut consumed = 0;
        while places.has_for(claim, group(claim, consumed)) {
            places.take(claim, group(claim, consumed));
            consumed += 1;
        }
        consumed
    }

    #[test]
    fn each_stream_leaves_as_many_as_it_has() {
        let mut places = Quota::new(1600);
        // Three quarters, less a sixteenth: 1,100.
        let consumed = [1, 2, 3].map(|label| take_all(&mut places, Claim::Reliable(stream(label))));
        assert_eq!(consumed, [550, 275, 138]);
        assert!(!places.welcomes(stream(3), None) && places.welcomes(stream(4), None));
        assert!(!places.is_short(), "what may come again stops no link");
        // Stream 1 has more than that already; stream 4 may take the reserve as well.
        let awaited = [1, 4].map(|label| take_all(&mut places, Claim::NextInOrder(stream(label))));
        assert_eq!(awaited, [0, 119]);
        assert_eq!(take_all(&mut places, Claim::Unreliable), 1600 - 963 - 119);
        assert!(places.is_short() && places.free() == 0);
    }

    #[test]
    fn what_is_not_repaired_leaves_a_quarter_and_is_left_an_eighth() {
        let mut places = Quota::new(1600);
        while !places.is_short() {
            places.take(Claim::Unreliable, [0; 2]);
        }
        let reliable = (0..100)
            .map(|label| take_all(&mut places, Claim::Reliable(stream(label))))
            .sum::<u32>();
        assert_eq!((reliable, places.free()), (499, 300));
        take_all(&mut places, Claim::NextInOrder(stream(100)));
        assert_eq!(places.free(), 200, "for what is underway until links have paused");
        assert_eq!(take_all(&mut places, Claim::Unreliable), 200);
        let mut places = Quota::new(1600);
        assert_eq!(take_all(&mut places, Claim::Unreliable), 1200);
        assert!(
            places.welcomes(stream(1), None)
                && take_all(&mut places, Claim::Reliable(stream(1))) == 50
        );
    }

    #[test]
    fn nobody_is_stopped_for_what_can_do_without() {
        for (streams, free) in [(0, 1000), (8, 200)] {
            let mut places = Quota::new(1600);
            (0..streams)
                .for_each(|label| _ = take_all(&mut places, Claim::Reliable(stream(label))));
            while places.can_spare(Claim::Unreliable, [0; 2]) {
                places.take(Claim::Unreliable, [0; 2]);
            }
            assert!(!places.is_short() && places.free() == free);
        }
    }

    proptest! {
        #[test]
        fn whoever_has_nothing_finds_a_place_or_is_one_of_very_many(
            all in 32_u32..2000, streams in 1_u32..10, unreliable in 0_u32..2000,
        ) {
            let mut places = Quota::new(all);
            for _ in 0..unreliable.min(all - all / 4) {
                places.take(Claim::Unreliable, [0; 2]);
            }
            for label in 0..streams {
                take_all(&mut places, Claim::Reliable(stream(label)));
            }
            let fair = (all / 4).saturating_sub(all / 8 + all.div_ceil(16)) >> streams;
            prop_assert!(fair == 0 || places.has_for(Claim::Reliable(stream(streams)), [streams; 2]));
        }
    }

    /// All that anybody may take, of so many streams of this group, is taken.
    fn fill(places: &mut Quota, group: u32, of: fn(u32) -> Claim<u32>) -> u32 {
        let mut taken = 0;
        for label in 0..500 {
            let claim = of(1000 * group + label);
            // Each is of another second group.
            while places.has_for(claim, [group, 1_000_000 * group + taken]) {
                places.take(claim, [group, 1_000_000 * group + taken]);
                taken += 1;
            }
        }
        taken
    }

    #[test]
    fn what_is_kept_for_a_group_is_there_whoever_has_taken_all_else() {
        let claims = [Claim::Reliable as fn(u32) -> Claim<u32>, |_| Claim::Unreliable];
        for others in claims {
            let mut places = Quota::new(1600);
            places.keep(1, 300);
            (2..200).for_each(|group| _ = fill(&mut places, group, others));
            for of in claims {
                let mut places = places.clone();
                // Of many streams, all of it; of one, half, as others of its group may come.
                let claim = of(1000);
                let mut taken = 0;
                while places.has_for(claim, [1, 9]) {
                    places.take(claim, [1, 9]);
                    taken += 1;
                }
                assert!(taken >= 150, "{taken}");
                assert!(taken + fill(&mut places, 1, of) >= 300);
            }
        }
    }

    #[test]
    fn what_is_kept_no_more_is_everybodys() {
        let mut places = Quota::new(1600);
        places.keep(1, 300);
        places.keep(2, 100);
        places.take(Claim::Reliable(1), [1, 9]);
        places.put(Some(1), [1, 9]);
        assert_eq!((places.open(), places.free()), (1200, 1600));
        places.keep(1, 0);
        places.keep(2, 0);
        assert_eq!(places.open(), 1600);
    }

    proptest! {
        #[test]
        fn free_slots_that_are_kept_are_counted(
            steps in prop::collection::vec((0_u8..4, 0_u32..4, 0_u32..400), 0..200),
        ) {
            let mut places = Quota::new(400);
            let mut taken: Vec<(Option<u32>, [u32; 2])> = Vec::new();
            for (what, group, number) in steps {
                let claim = match number % 3 {
                    0 => Claim::Unreliable,
                    1 => Claim::Reliable(group),
                    _ => Claim::NextInOrder(group),
                };
                match what {
                    0 => places.keep(group, number),
                    1 if !taken.is_empty() => {
                        let (stream, groups) = taken.swap_remove(number as usize % taken.len());
                        places.put(stream, groups);
                    }
                    _ => for _ in 0..number {
                        if places.has_for(claim, [group, 100 + group]) {
                            places.take(claim, [group, 100 + group]);
                            taken.push((claim.whose(), [group, 100 + group]));
                        }
                    }
                }
                let unused: u32 = (0..4).map(|group| places.unused_of(group)).sum();
                prop_assert_eq!(places.unused, unused);
                prop_assert_eq!(places.free() as usize, 400 - taken.len());
                let held: u32 = (0..4).map(|group| places.held_by(group)).sum();
                prop_assert_eq!(held as usize, taken.len());
            }
        }
    }

    #[test]
    fn a_group_of_very_many_streams_leaves_memory_to_other_groups() {
        for of in [Claim::Reliable as fn(u32) -> Claim<u32>, |_| Claim::Unreliable] {
            let mut places = Quota::new(1600);
            let mut take = |group| fill(&mut places, group, of);
            let [first, second, third] = [1, 2, 3].map(&mut take);
            assert!(
                first > 8 * second && second > 4 * third && third > 0,
                "{first} {second} {third}"
            );
        }
    }
}
