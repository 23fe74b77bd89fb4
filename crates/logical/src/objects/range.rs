//! Ranges of addresses.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use units::{Prefix, serde_as_word};

use super::words::NoWord;

/// Addresses of one family, from one to another: `10.0.0.1`, `10.0.0.0/24`, `10.0.0.5-10.0.0.9`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
}

serde_as_word!(AddressRange);

impl AddressRange {
    /// From one to another. `None` if they are of two families, or in the wrong order.
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(Self { first, last })
    }

    /// The first address.
    pub const fn first(self) -> IpAddr {
        self.first
    }

    /// The last address.
    pub const fn last(self) -> IpAddr {
        self.last
    }

    /// Whether an address is one of these.
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && self.first <= address && address <= self.last
    }

    /// Whether all of the other's addresses are these, too.
    pub fn covers(self, other: Self) -> bool {
        self.contains(other.first) && self.contains(other.last)
    }

    /// Whether an address is in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.first) || other.contains(self.first)
    }

    /// How many addresses there are before one of these: its place.
    pub fn place(self, address: IpAddr) -> u128 {
        bits(address).wrapping_sub(bits(self.first))
    }

    /// The address at a place. `None` behind the last.
    pub fn at(self, place: u128) -> Option<IpAddr> {
        let bits = bits(self.first).checked_add(place)?;
        let address = match self.first {
            IpAddr::V4(_) => Ipv4Addr::from_bits(u32::try_from(bits).ok()?).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(bits).into(),
        };
        (address <= self.last).then_some(address)
    }

    /// The prefix that these are exactly, if there is one.
    fn prefix(self) -> Option<Prefix> {
        let width: u32 = if self.first.is_ipv4() { 32 } else { 128 };
        let differing = 128 - (bits(self.first) ^ bits(self.last)).leading_zeros();
        let length = u8::try_from(width - differing).ok()?;
        let prefix = Prefix { address: self.first, length };
        (Self::from(prefix) == self).then_some(prefix)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl From<IpAddr> for AddressRange {
    fn from(address: IpAddr) -> Self {
        Self { first: address, last: address }
    }
}

impl From<Prefix> for AddressRange {
    /// The network that a prefix names, whatever address in it is written.
    fn from(Prefix { address, length }: Prefix) -> Self {
        let (first, last): (IpAddr, IpAddr) = match address {
            IpAddr::V4(address) => {
                let host = u32::MAX.checked_shr(length.into()).unwrap_or(0);
                let bits = address.to_bits();
                (Ipv4Addr::from_bits(bits & !host).into(), Ipv4Addr::from_bits(bits | host).into())
            }
            IpAddr::V6(address) => {
                let host = u128::MAX.checked_shr(length.into()).unwrap_or(0);
                let bits = address.to_bits();
                (Ipv6Addr::from_bits(bits & !host).into(), Ipv6Addr::from_bits(bits | host).into())
            }
        };
        Self { first, last }
    }
}

impl FromStr for AddressRange {
    type Err = NoWord;

    fn from_str(word: &str) -> Result<Self, NoWord> {
        let wanted = "addresses: write 10.0.0.1, 10.0.0.0/24, or 10.0.0.5-10.0.0.9, of one family";
        let refused = || NoWord::new(word, wanted);
        if let Ok(prefix) = word.parse::<Prefix>() {
            let range = Self::from(prefix);
            let wanted = "a prefix: bits behind its length are set; write the network's first \
                          address before the slash";
            return match range.first == prefix.address {
                true => Ok(range),
                false => Err(NoWord::new(word, wanted)),
            };
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last) = (first.parse().ok(), last.parse().ok());
        first.zip(last).and_then(|(first, last)| Self::new(first, last)).ok_or_else(refused)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix() {
            _ if self.first == self.last => self.first.fmt(f),
            Some(prefix) => prefix.fmt(f),
            None => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn a_range_prints_as_it_was_read_and_in_the_shortest_form() {
        for word in ["10.0.0.1", "10.0.0.0/24", "10.0.0.5-10.0.0.9", "::/0", "0.0.0.0/0", "fd00::1"]
        {
            assert_eq!(word.parse::<AddressRange>().unwrap().to_string(), word);
        }
        let whole = "10.0.0.0-10.0.0.255".parse::<AddressRange>().unwrap();
        assert_eq!(whole.to_string(), "10.0.0.0/24");
        for wrong in ["", "10.0.0.1/24", "10.0.0.2-10.0.0.1", "10.0.0.1-::1", "x"] {
            assert!(wrong.parse::<AddressRange>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_place_leads_back_to_its_address(first in any::<u32>(), more in 0..1000u32) {
            let last = Ipv4Addr::from_bits(first.saturating_add(more)).into();
            let range = AddressRange::new(Ipv4Addr::from_bits(first).into(), last).unwrap();
            prop_assert_eq!(range.at(range.place(last)), Some(last));
            prop_assert_eq!(range.at(range.place(last) + 1), None);
            prop_assert_eq!(range.to_string().parse(), Ok(range));
        }
    }
}
