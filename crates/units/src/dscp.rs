//! The differentiated services code points of packets (RFC 2474).

use core::fmt;

/// A code point, 0 to 63, by which a network chooses how it treats a packet: the six highest bits
/// of its traffic class.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Dscp(u8);

impl Dscp {
    /// How many there are.
    pub const COUNT: usize = 64;

    /// Class selector 6, of which network control is (RFC 4594 §3.1).
    pub const CS6: Self = Self(0b11_0000);

    /// The code point of this number; `None` above 63.
    pub const fn new(number: u8) -> Option<Self> {
        if number < Self::COUNT as u8 { Some(Self(number)) } else { None }
    }

    /// That of a traffic class.
    pub const fn of(traffic_class: u8) -> Self {
        Self(traffic_class >> 2)
    }

    /// The same traffic class with this code point: its ECN field stays (RFC 3168 §5).
    pub const fn within(self, traffic_class: u8) -> u8 {
        self.0 << 2 | traffic_class & 0b11
    }

    /// Its number, 0 to 63.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its place in a table of all.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Dscp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Dscp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let what = "a code point, from 0 to 63";
        let number = crate::word::deserialize_number(deserializer, 63, what)?;
        Self::new(number).ok_or_else(|| serde::de::Error::custom(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_point_is_the_six_highest_bits_and_leaves_the_others() {
        for class in 0..=u8::MAX {
            assert_eq!(Dscp::of(class).within(class), class);
            let set = Dscp::CS6.within(class);
            assert_eq!((Dscp::of(set), set & 0b11), (Dscp::CS6, class & 0b11));
        }
        assert_eq!((Dscp::new(63).map(Dscp::number), Dscp::new(64)), (Some(63), None));
    }
}
