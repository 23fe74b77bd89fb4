//! A host's tunnel addresses (VTEPs): one for each of its uplinks.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::address::is_host;

/// The most uplinks of a host.
pub const MOST_UPLINKS: usize = 8;

/// A host's tunnel addresses: one, or one for each of its uplinks.
///
/// The first address of every host is in one underlay, the second in another, and so on. A path
/// between two hosts is a pair of addresses at the same index of both lists. The first address
/// identifies the host.
///
/// It is written as `"192.0.2.1"`, or as `["192.0.2.1", "198.51.100.1"]`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct VtepList {
    first: IpAddr,
    rest: Vec<IpAddr>,
}

/// Its form in JSON and TOML.
#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "write an address, as `\"192.0.2.1\"`, or one for each uplink, as `[\"192.0.2.1\", \"198.51.100.1\"]`"
)]
enum Written {
    One(IpAddr),
    Several(Vec<IpAddr>),
}

/// A list of tunnel addresses that has none.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a host without a tunnel address is in no underlay: write one, or one for each uplink")]
pub struct NoVtep;

impl VtepList {
    /// The address that identifies the host.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// All addresses, by underlay.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> {
        core::iter::once(self.first).chain(self.rest.iter().copied())
    }

    /// What is invalid about them, if anything.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if self.rest.len() >= MOST_UPLINKS {
            return Some(
                "`vtep` has more than 8 addresses: leave some out, as a host has 8 uplinks at most",
            );
        }
        if !self.iter().all(is_host) {
            return Some(
                "`vtep` is no machine's address: write the one that its host has in the underlay",
            );
        }
        let apart: BTreeSet<_> = self.iter().collect();
        (apart.len() <= self.rest.len())
            .then_some("`vtep` has an address twice: each uplink has its own")
    }

    /// The first pair of addresses at the same index that differ in family: IPv4 and IPv6 have no
    /// path between them.
    pub(crate) fn family_fault(&self, other: &Self) -> Option<[IpAddr; 2]> {
        let mut pairs = self.iter().zip(other.iter());
        pairs.find(|(one, other)| one.is_ipv4() != other.is_ipv4()).map(|(one, other)| [one, other])
    }
}

impl From<IpAddr> for VtepList {
    fn from(first: IpAddr) -> Self {
        Self { first, rest: Vec::new() }
    }
}

impl TryFrom<Vec<IpAddr>> for VtepList {
    type Error = NoVtep;

    fn try_from(addresses: Vec<IpAddr>) -> Result<Self, NoVtep> {
        let (first, rest) = addresses.split_first().ok_or(NoVtep)?;
        Ok(Self { first: *first, rest: rest.into() })
    }
}

impl TryFrom<Written> for VtepList {
    type Error = NoVtep;

    fn try_from(written: Written) -> Result<Self, NoVtep> {
        match written {
            Written::One(address) => Ok(address.into()),
            Written::Several(addresses) => addresses.try_into(),
        }
    }
}

impl From<VtepList> for Written {
    fn from(list: VtepList) -> Self {
        match list.rest.is_empty() {
            true => Self::One(list.first),
            false => Self::Several(list.iter().collect()),
        }
    }
}

impl fmt::Display for VtepList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, address) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{address}")?;
        }
        Ok(())
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for VtepList {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};

        let one = || ObjectBuilder::new().schema_type(Type::String);
        let several =
            ArrayBuilder::new().items(one()).min_items(Some(1)).max_items(Some(MOST_UPLINKS));
        let said = "A host's tunnel address, or one for each of its uplinks.";
        OneOfBuilder::new()
            .item(one())
            .item(several)
            .description(Some(said))
            .examples(["192.0.2.1"])
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for VtepList {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn list(addresses: &[&str]) -> VtepList {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        addresses.try_into().unwrap()
    }

    #[test]
    fn what_cannot_be_a_hosts_addresses_is_said() {
        assert_eq!(VtepList::try_from(Vec::new()), Err(NoVtep));
        let right = list(&["192.0.2.1", "198.51.100.1", "2001:db8::1"]);
        assert_eq!(right.fault(), None);
        assert_eq!(right.to_string(), "192.0.2.1, 198.51.100.1, 2001:db8::1");
        let many: Vec<_> = (1..=9).map(|last| IpAddr::from([192, 0, 2, last])).collect();
        for (wrong, word) in [
            (many.try_into().unwrap(), "more than 8"),
            (list(&["192.0.2.1", "0.0.0.0"]), "no machine's"),
            (list(&["192.0.2.1", "198.51.100.1", "192.0.2.1"]), "twice"),
        ] {
            assert!(wrong.fault().is_some_and(|fault| fault.contains(word)), "{wrong}");
        }
    }
}
