//! Reverse ARP (RFC 903), by which a network learns where a machine has moved to.

use units::Mac;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ethernet::{Header, ethertype};

/// A request for the protocol address of an Ethernet address, as a whole frame of the least length, 60 bytes (802.3
/// §4A.4.2, without the check sequence).
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Request {
    header: Header,
    /// 1, Ethernet.
    hardware: U16,
    protocol: U16,
    /// Bytes of a hardware and of a protocol address.
    lengths: [u8; 2],
    /// 3, "request reverse".
    operation: U16,
    source: [u8; 6],
    source_protocol: [u8; 4],
    target: [u8; 6],
    target_protocol: [u8; 4],
    padding: [u8; 18],
}

impl Request {
    /// What the machine with this address would ask for itself. Nobody need answer: every switch that sees it knows from
    /// then on where the address is.
    pub const fn new(mac: Mac) -> Self {
        Self {
            header: Header::new(Mac::BROADCAST, mac, ethertype::RARP),
            hardware: U16::new(1),
            protocol: U16::new(ethertype::IPV4),
            lengths: [6, 4],
            operation: U16::new(3),
            source: mac.0,
            source_protocol: [0; 4],
            target: mac.0,
            target_protocol: [0; 4],
            padding: [0; 18],
        }
    }
}

const _: () = assert!(size_of::<Request>() == 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_the_kernel_sends() {
        let mac = [2, 0, 0, 0, 0, 7];
        let expected =
            [&[0xff; 6][..], &mac, &[0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3], &mac, &[0; 4], &mac, &[0; 22]];
        assert_eq!(Request::new(Mac(mac)).as_bytes(), expected.concat());
    }
}
