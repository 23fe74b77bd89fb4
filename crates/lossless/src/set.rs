//! A set of ports, so that nobody has to visit those that have nothing.

use crate::id::MAX_PORTS;
use crate::id::PortId;

const WORD: usize = u64::BITS as usize;

/// A set of one switch's ports.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PortSet {
    words: [u64; MAX_PORTS / WORD],
    /// The words that are not zero, a bit each.
    used: u16,
}

const _: () = assert!(MAX_PORTS / WORD <= u16::BITS as usize, "each word has a bit");

impl PortSet {
    /// Puts a port in.
    #[inline]
    pub fn insert(&mut self, PortId(port): PortId) {
        let port = usize::from(port);
        self.words[port / WORD] |= 1 << (port % WORD);
        self.used |= 1 << (port / WORD);
    }

    /// Takes a port out.
    #[inline]
    pub fn remove(&mut self, PortId(port): PortId) {
        let port = usize::from(port);
        self.words[port / WORD] &= !(1 << (port % WORD));
        if self.words[port / WORD] == 0 {
            self.used &= !(1 << (port / WORD));
        }
    }

    /// Puts in all that are in another.
    pub fn extend(&mut self, others: &Self) {
        self.words.iter_mut().zip(others.words).for_each(|(word, other)| *word |= other);
        self.used |= others.used;
    }

    /// Those that are in another as well.
    #[must_use]
    pub fn within(&self, others: &Self) -> Self {
        let mut both = Self::default();
        let mut used = self.used & others.used;
        while used != 0 {
            let word = used.trailing_zeros() as usize;
            used &= used - 1;
            both.words[word] = self.words[word] & others.words[word];
            both.used |= u16::from(both.words[word] != 0) << word;
        }
        both
    }

    /// Those that are not in another.
    #[must_use]
    pub fn without(&self, others: &Self) -> Self {
        let mut rest = *self;
        let mut used = self.used & others.used;
        while used != 0 {
            let word = used.trailing_zeros() as usize;
            used &= used - 1;
            rest.words[word] &= !others.words[word];
            rest.used &= !(u16::from(rest.words[word] == 0) << word);
        }
        rest
    }

    /// Takes the port with the lowest number out.
    #[inline]
    pub fn pop_first(&mut self) -> Option<PortId> {
        let word = (self.used != 0).then(|| self.used.trailing_zeros() as usize)?;
        let port = PortId((word * WORD) as u16 + self.words[word].trailing_zeros() as u16);
        self.remove(port);
        Some(port)
    }

    /// Whether a port is in it.
    #[inline]
    pub fn contains(&self, PortId(port): PortId) -> bool {
        let port = usize::from(port);
        self.words[port / WORD] & 1 << (port % WORD) != 0
    }

    /// Whether there is nobody in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The ports, by number.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = PortId> + use<> {
        let Self { words, mut used } = *self;
        let (mut word, mut base) = (0, 0);
        core::iter::from_fn(move || {
            if word == 0 {
                let next = (used != 0).then(|| used.trailing_zeros() as u16)?;
                used &= used - 1;
                (word, base) = (words[usize::from(next)], next * WORD as u16);
            }
            let port = base + word.trailing_zeros() as u16;
            word &= word - 1;
            Some(PortId(port))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_not_taken_out() {
        let mut set = PortSet::default();
        assert!(set.is_empty());
        for port in [1023, 0, 64, 63, 64] {
            set.insert(PortId(port));
        }
        assert_eq!(
            set.iter().map(PortId::index).collect::<alloc::vec::Vec<_>>(),
            [0, 63, 64, 1023]
        );
        [0, 63, 5].into_iter().for_each(|port| set.remove(PortId(port)));
        assert_eq!(set.iter().collect::<alloc::vec::Vec<_>>(), [PortId(64), PortId(1023)]);
        assert!(!set.is_empty() && set.contains(PortId(64)) && !set.contains(PortId(0)));
        let mut others = PortSet::default();
        [64, 700].into_iter().for_each(|port| others.insert(PortId(port)));
        set.extend(&others);
        assert_eq!(
            set.iter().collect::<alloc::vec::Vec<_>>(),
            [PortId(64), PortId(700), PortId(1023)]
        );
        [3, 65, 1023].into_iter().for_each(|port| others.insert(PortId(port)));
        let both = set.within(&others);
        assert_eq!(
            both.iter().collect::<alloc::vec::Vec<_>>(),
            [PortId(64), PortId(700), PortId(1023)]
        );
        others.remove(PortId(64));
        assert_eq!(others.within(&set).iter().next(), Some(PortId(700)));
        assert_eq!(set.without(&others).iter().collect::<alloc::vec::Vec<_>>(), [PortId(64)]);
        assert_eq!(set.without(&set), PortSet::default());
        let mut first = || set.pop_first();
        assert_eq!(
            [first(), first(), first(), first()],
            [Some(PortId(64)), Some(PortId(700)), Some(PortId(1023)), None]
        );
        assert_eq!(set, PortSet::default());
    }
}
