//! What a channel is told when it begins.

use std::net::IpAddr;
use std::sync::Arc;

use crate::Keys;

/// What is done with packets. Both ends must have the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// They are authenticated, and anyone underway can read them.
    Integrity,
    /// They are encrypted as well.
    Encrypt,
}

impl Mode {
    /// How handshake messages name it.
    pub const fn number(self) -> u8 {
        match self {
            Self::Integrity => 1,
            Self::Encrypt => 2,
        }
    }
}

/// The two hosts of a channel, by their addresses. The one with the lower address begins
/// handshakes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ends {
    /// The lower address first, as IPv6 has it (RFC 4291 §2.5.5.2).
    addresses: [[u8; 16]; 2],
    initiates: bool,
}

impl Ends {
    /// This host and the other one; `None` if they have the same address.
    pub fn new(own: IpAddr, peer: IpAddr) -> Option<Self> {
        let [own, peer] = [own, peer].map(|address| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        });
        let addresses = if own < peer { [own, peer] } else { [peer, own] };
        (own != peer).then_some(Self { addresses, initiates: own < peer })
    }

    /// Whether this host begins handshakes.
    pub fn initiates(&self) -> bool {
        self.initiates
    }

    /// Both addresses, the lower one first.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.addresses.as_flattened()
    }
}

/// What a channel needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// What is done with packets.
    pub mode: Mode,
    /// The keys that both hosts have.
    pub keys: Arc<Keys>,
    /// Between whom it is.
    pub ends: Ends,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_address_begins_and_both_ends_have_one_order() {
        let host = |text: &str| text.parse::<IpAddr>().unwrap();
        let (a, b) = (host("10.0.0.2"), host("10.0.0.10"));
        let (from_a, from_b) = (Ends::new(a, b).unwrap(), Ends::new(b, a).unwrap());
        assert!(from_a.initiates() && !from_b.initiates());
        assert_eq!(from_a.bytes(), from_b.bytes());
        assert_eq!(Ends::new(a, a), None);
        assert_eq!(Ends::new(a, host("::ffff:10.0.0.2")), None);
    }
}
