//! Reverse ARP (RFC 903), by which a network learns where a machine has moved to.

use core::net::Ipv4Addr;

use units::Mac;

use crate::arp::{Frame, Packet, operation};
use crate::ethernet::{Header, ethertype};

/// What the machine with this address would ask for itself: the request for its protocol address.
/// Nobody need answer: every switch that sees it knows from then on where the address is.
pub const fn request(mac: Mac) -> Frame {
    let machine = (mac, Ipv4Addr::UNSPECIFIED);
    let header = Header::new(Mac::BROADCAST, mac, ethertype::RARP);
    Frame::new(header, Packet::new(operation::REVERSE_REQUEST, machine, machine))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    #[test]
    fn a_request_is_what_the_kernel_sends() {
        let mac = [2, 0, 0, 0, 0, 7];
        let expected = [
            &[0xff; 6][..],
            &mac,
            &[0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3],
            &mac,
            &[0; 4],
            &mac,
            &[0; 22],
        ];
        assert_eq!(request(Mac(mac)).as_bytes(), expected.concat());
    }
}
