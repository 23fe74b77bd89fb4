//! Which addresses a machine can have, and how they are read.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;

use serde::{Deserialize, Deserializer};
use units::deserialize_word;

/// An address as it is read: without a prefix.
struct Address(IpAddr);

impl FromStr for Address {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        word.parse().map(Self).map_err(|_| {
            format!("`{word}` is not an address without a prefix: write it as 10.0.0.1 or fd00::1")
        })
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_word(deserializer)
    }
}

/// An address and a port as they are read.
struct Place(SocketAddr);

impl FromStr for Place {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        word.parse().map(Self).map_err(|_| {
            format!(
                "`{word}` is not an address and a port: write it as 127.0.0.1:9109 or [::1]:9109"
            )
        })
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_word(deserializer)
    }
}

/// Reads addresses.
pub fn read_all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpAddr>, D::Error> {
    let addresses = Vec::<Address>::deserialize(deserializer)?;
    Ok(addresses.into_iter().map(|Address(address)| address).collect())
}

/// Reads an address, if there is one.
pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IpAddr>, D::Error> {
    Ok(Option::<Address>::deserialize(deserializer)?.map(|Address(address)| address))
}

/// Reads an address and a port, if they are there.
pub fn read_place<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    Ok(Option::<Place>::deserialize(deserializer)?.map(|Place(place)| place))
}

/// Whether an address can be one machine's on a link (RFC 1122 §3.2.1.3, RFC 4291 §2.5). IPv4
/// within IPv6 is not: it is to be written as what it is.
pub fn is_host(address: IpAddr) -> bool {
    let is_one = !address.is_unspecified() && !address.is_loopback() && !address.is_multicast();
    is_one
        && match address {
            // 0.0.0.0/8 is "this network", 240.0.0.0/4 is reserved, its last address everyone's.
            IpAddr::V4(v4) => matches!(v4.octets()[0], 1..240),
            IpAddr::V6(v6) => v6.to_ipv4_mapped().is_none(),
        }
}
