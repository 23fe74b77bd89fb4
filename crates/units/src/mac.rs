//! Ethernet addresses (IEEE 802 §8.2).

use core::fmt;
use core::str::FromStr;

use crate::ParseUnitError;

/// A 48-bit Ethernet address.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Everyone: `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// A group address, broadcast included: its first octet's lowest bit is set.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// The address as a number of 48 bits, first octet highest.
    pub const fn as_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// A locally administered unicast address that carries `number` in its low four octets.
    pub const fn local(number: u32) -> Self {
        let [a, b, c, d] = number.to_be_bytes();
        Self([0x02, 0, a, b, c, d])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let wrong = || ParseUnitError::new(text, "an Ethernet address", "02:00:00:00:00:01");
        let mut octets = [0; 6];
        let mut pieces = text.split(':');
        for octet in &mut octets {
            // Digits alone: a number may have a sign.
            let is_octet = |piece: &&str| {
                piece.len() == 2 && piece.bytes().all(|byte| byte.is_ascii_hexdigit())
            };
            let piece = pieces.next().filter(is_octet).ok_or_else(wrong)?;
            *octet = u8::from_str_radix(piece, 16).map_err(|_| wrong())?;
        }
        if pieces.next().is_some() {
            return Err(wrong());
        }
        Ok(Self(octets))
    }
}

#[cfg(feature = "serde")]
crate::serde_as_word!(Mac);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn an_address_prints_as_it_was_read() {
        let text = "02:00:ab:00:00:01";
        assert_eq!(text.parse::<Mac>().unwrap().to_string(), text);
        for wrong in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "02:00:00:00:00:zz",
            "02:00:00:00:00:+1",
        ] {
            assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn local_addresses_are_unicast() {
        assert!(!Mac::local(u32::MAX).is_multicast());
        assert!(Mac::BROADCAST.is_multicast());
    }
}
