//! Some of the eight classes.

use crate::Class;

/// A set of classes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClassSet(u8);

impl ClassSet {
    /// All eight.
    pub const ALL: Self = Self(u8::MAX);

    /// None of them.
    pub const NONE: Self = Self(0);

    /// The classes whose bits are set, that of class 0 being the lowest.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// A bit for each class, that of class 0 being the lowest.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether a class is among them.
    pub const fn contains(self, class: Class) -> bool {
        self.0 & 1 << class.index() != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All that are not among them.
    #[must_use]
    pub const fn others(self) -> Self {
        Self(!self.0)
    }

    /// The classes, lowest first.
    pub fn iter(self) -> impl Iterator<Item = Class> {
        Class::all().filter(move |class| self.contains(*class))
    }
}

impl From<bool> for ClassSet {
    fn from(all: bool) -> Self {
        if all { Self::ALL } else { Self::NONE }
    }
}

impl FromIterator<Class> for ClassSet {
    fn from_iter<I: IntoIterator<Item = Class>>(classes: I) -> Self {
        Self(classes.into_iter().fold(0, |bits, class| bits | 1 << class.index()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_in_the_set_or_among_the_others() {
        for set in (0..=u8::MAX).map(ClassSet::from_bits) {
            assert_eq!((set.iter().collect(), set.is_empty()), (set, set == ClassSet::NONE));
            assert!(Class::all().all(|class| set.contains(class) != set.others().contains(class)));
        }
    }
}
