//! Which addresses a machine can have.

use core::net::IpAddr;

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
