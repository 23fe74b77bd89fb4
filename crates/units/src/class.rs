//! The eight traffic classes of IEEE 802.1p, which are also the eight priorities of PFC (802.1Qbb).

use core::fmt;
use core::ops::{Index, IndexMut};

/// One of the eight classes: a priority code point, 0 to 7.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Class(u8);

impl Class {
    /// How many classes there are.
    pub const COUNT: usize = 8;

    /// The class of priority code point `pcp`; `None` above 7.
    pub const fn new(pcp: u8) -> Option<Self> {
        if pcp < 8 { Some(Self(pcp)) } else { None }
    }

    /// The class in the low three bits of `bits`, as in a VLAN tag's TCI once shifted down.
    #[inline]
    pub const fn from_low_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    /// The priority code point, 0 to 7.
    #[inline]
    pub const fn pcp(self) -> u8 {
        self.0
    }

    /// This class's place in a table of eight.
    #[inline]
    pub const fn index(self) -> usize {
        // It is below eight already; so the compiler knows too.
        (self.0 & 7) as usize
    }

    /// All eight, lowest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..8).map(Self)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Something for each of the eight classes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClassMap<T>(pub [T; Class::COUNT]);

impl<T> ClassMap<T> {
    /// Each class with its value, lowest class first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Class, &T)> {
        Class::all().zip(&self.0)
    }

    /// Builds each class's value from the class.
    pub fn from_fn(value: impl FnMut(Class) -> T) -> Self {
        let mut value = value;
        Self(core::array::from_fn(|pcp| value(Class(pcp as u8))))
    }
}

impl<T> Index<Class> for ClassMap<T> {
    type Output = T;

    #[inline]
    fn index(&self, class: Class) -> &T {
        &self.0[class.index()]
    }
}

impl<T> IndexMut<Class> for ClassMap<T> {
    #[inline]
    fn index_mut(&mut self, class: Class) -> &mut T {
        &mut self.0[class.index()]
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Class {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Class {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pcp = crate::word::deserialize_number(deserializer, 7, "a class, from 0 to 7")?;
        Ok(Self::from_low_bits(pcp))
    }
}
