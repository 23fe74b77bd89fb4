//! IP addresses within their networks.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use crate::ParseUnitError;

/// An address and the length of its network's prefix: `10.0.0.1/24`, `fd00::1/64`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Prefix {
    /// The address.
    pub address: IpAddr,
    /// How many of its bits name the network.
    pub length: u8,
}

impl Prefix {
    /// Every IPv4 address.
    pub const ALL_V4: Self = Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), length: 0 };
    /// Every IPv6 address.
    pub const ALL_V6: Self = Self { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), length: 0 };
}

impl FromStr for Prefix {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let parse = || {
            let (address, length) = text.split_once('/')?;
            let address: IpAddr = address.parse().ok()?;
            // Digits alone: a number may have a sign.
            let digits = length.bytes().all(|byte| byte.is_ascii_digit());
            let length = length.parse().ok().filter(|_| digits)?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            (length <= most).then_some(Self { address, length })
        };
        parse().ok_or_else(|| {
            ParseUnitError::new(text, "an address with a prefix", "10.0.0.1/24 or fd00::1/64")
        })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(feature = "serde")]
crate::serde_as_word!(Prefix);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_prefix_prints_as_it_was_read() {
        for text in ["10.0.0.1/24", "fd00::1/64", "0.0.0.0/0"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "10.0.0.1",
            "10.0.0.1/33",
            "fd00::1/129",
            "10.0.0/8",
            "10.0.0.1/-1",
            "10.0.0.1/+24",
            "10.0.0.1/",
        ] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }
}
