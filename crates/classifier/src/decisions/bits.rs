//! Rules as bits, and the rules that name a set.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::class::SetId;

/// A bit for each rule, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits(Box<[u64]>);

/// The bits of a word that stand for rules, of which there are so many.
#[inline]
pub(crate) const fn used(word: u32, rules: u32) -> u64 {
    match rules - word * 64 {
        0..64 => (1 << (rules - word * 64)) - 1,
        _ => u64::MAX,
    }
}

impl Bits {
    /// Of so many rules, none.
    pub(crate) fn none(rules: u32) -> Self {
        Self(alloc::vec![0; rules.div_ceil(64) as usize].into())
    }

    /// Of so many rules, all.
    pub(crate) fn all(rules: u32) -> Self {
        let mut words: Box<[u64]> = alloc::vec![u64::MAX; rules.div_ceil(64) as usize].into();
        if let Some(last) = words.last_mut() {
            *last = used((rules - 1) / 64, rules);
        }
        Self(words)
    }

    /// The first from a place on.
    pub(crate) fn first(&self, from: u32) -> Option<u32> {
        let begin = from as usize / 64;
        let words = self.0.get(begin..)?;
        let of = |at: usize, word: u64| if at == 0 { word & u64::MAX << (from % 64) } else { word };
        let mut words = words.iter().enumerate().map(|(at, word)| (at, of(at, *word)));
        let (at, word) = words.find(|(_, word)| *word != 0)?;
        Some((begin + at) as u32 * 64 + word.trailing_zeros())
    }

    /// Only those that another has, too.
    pub(crate) fn keep(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }

    #[inline]
    pub(crate) fn word(&self, at: u32) -> u64 {
        self.0.get(at as usize).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, rule: u32) {
        self.0[rule as usize / 64] |= 1 << (rule % 64);
    }

    fn unset(&mut self, rule: u32) {
        self.0[rule as usize / 64] &= !(1 << (rule % 64));
    }

    /// Those of another, too.
    pub(crate) fn include(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// Those that another has not, too.
    pub(crate) fn include_not(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= !other);
    }

    fn exclude(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= !other);
    }
}

/// The rules that name each set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// While it is made.
    pairs: Vec<(SetId, u32)>,
    /// In ascending order.
    sets: Vec<SetId>,
    rules: Vec<Rules>,
}

/// Rules, in whatever form takes less.
#[derive(Clone, Debug)]
enum Rules {
    Few(Box<[u32]>),
    Many(Bits),
}

impl Index {
    pub(crate) fn add(&mut self, set: SetId, rule: u32) {
        self.pairs.push((set, rule));
    }

    /// To be called once, when all of so many rules have been added.
    pub(crate) fn finish(&mut self, rules: u32) {
        let mut pairs = core::mem::take(&mut self.pairs);
        pairs.sort_unstable();
        pairs.dedup();
        for of_set in pairs.chunk_by(|one, next| one.0 == next.0) {
            self.sets.push(of_set[0].0);
            // As many words of 64 bits as there would be numbers of 32.
            self.rules.push(if of_set.len() as u32 <= rules / 32 {
                Rules::Few(of_set.iter().map(|(_, rule)| *rule).collect())
            } else {
                let mut bits = Bits::none(rules);
                of_set.iter().for_each(|(_, rule)| bits.set(*rule));
                Rules::Many(bits)
            });
        }
    }

    /// Whether no set is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    fn find<'a>(&'a self, sets: &'a [SetId]) -> impl Iterator<Item = &'a Rules> {
        let places = sets.iter().filter_map(|set| self.sets.binary_search(set).ok());
        places.map(|place| &self.rules[place])
    }

    /// Includes the rules that name one of these sets.
    pub(crate) fn include(&self, sets: &[SetId], into: &mut Bits) {
        for rules in self.find(sets) {
            match rules {
                Rules::Few(rules) => rules.iter().for_each(|rule| into.set(*rule)),
                Rules::Many(bits) => into.include(bits),
            }
        }
    }

    /// Excludes the rules that name one of these sets.
    pub(crate) fn exclude(&self, sets: &[SetId], from: &mut Bits) {
        for rules in self.find(sets) {
            match rules {
                Rules::Few(rules) => rules.iter().for_each(|rule| from.unset(*rule)),
                Rules::Many(bits) => from.exclude(bits),
            }
        }
    }
}
