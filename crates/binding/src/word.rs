//! What hosts say to each other of load balancers' backends.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use units::Span;

/// An Ethernet header of nobody's addresses, locally administered, and an experimental EtherType
/// (802, clause 9.2.4).
const NOBODY: [u8; 14] = [0x02, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0x88, 0xb5];

/// What a host says of a backend.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Word {
    pub backend: (IpAddr, u16),
    pub is_up: bool,
    /// How long it counts.
    pub patience: Span,
}

impl Word {
    /// How long one is: an Ethernet header of nobody's addresses, what it is, whether the backend
    /// is up, its port, for how many milliseconds that counts, its address.
    const LEN: usize = 14 + 24;
    /// What says that it is one.
    const KIND: u8 = 1;

    pub fn written(&self) -> Vec<u8> {
        let (address, port) = self.backend;
        let millis = u32::try_from(self.patience.as_nanos().div_ceil(1_000_000));
        let address = match address {
            IpAddr::V4(it) => it.to_ipv6_mapped(),
            IpAddr::V6(it) => it,
        };
        let mut made = Vec::with_capacity(Self::LEN);
        made.extend(NOBODY);
        made.extend([Self::KIND, u8::from(self.is_up)]);
        made.extend(port.to_be_bytes());
        made.extend(millis.unwrap_or(u32::MAX).to_be_bytes());
        made.extend(address.octets());
        made
    }

    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        let [kind, is_up, high, low, millis @ ..] = bytes[14..22].first_chunk::<8>()?;
        let address = Ipv6Addr::from(*bytes[22..].first_chunk::<16>()?);
        (*kind == Self::KIND).then(|| Self {
            backend: (IpAddr::V6(address).to_canonical(), u16::from_be_bytes([*high, *low])),
            is_up: *is_up != 0,
            patience: Span::from_millis(u32::from_be_bytes(*millis).into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_it_was_made_of() {
        for (address, is_up) in [("10.0.0.1", true), ("fd00::1", false)] {
            let backend = (address.parse().unwrap(), 8080);
            let word = Word { backend, is_up, patience: Span::from_millis(25_000) };
            let bytes = word.written();
            assert_eq!((bytes.len(), Word::read(&bytes)), (Word::LEN, Some(word)));
            assert_eq!(Word::read(&bytes[1..]), None);
        }
    }
}
