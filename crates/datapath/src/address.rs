//! What a table of addresses is asked for: an Ethernet address in a VLAN.

use units::Mac;

/// An address and its VLAN in one number: 48 and 12 bits.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Address(u64);

impl Address {
    #[inline]
    pub(crate) fn new(mac: Mac, vlan: u16) -> Self {
        Self(mac.as_u64() << 12 | u64::from(vlan & 0xfff))
    }

    pub(crate) fn mac(self) -> Mac {
        let [_, _, a, b, c, d, e, f] = (self.0 >> 12).to_be_bytes();
        Mac([a, b, c, d, e, f])
    }

    pub(crate) fn vlan(self) -> u16 {
        (self.0 & 0xfff) as u16
    }
}
