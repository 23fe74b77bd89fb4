//! What hosts are called, and their addresses.

use std::net::Ipv4Addr;

/// What the controller's host is called, where endpoints are named.
pub(crate) const CONTROLLER: &str = "controller";

/// The number of the endpoints' first virtual network in tunnels, of which NVGRE reserves the first
/// 4096.
pub(super) const NETWORK_NUMBER: u32 = 5000;

/// Of hosts' interfaces, so that none is an endpoint's.
pub(super) const FIRST_MAC: u32 = 0x00f0_0000;

/// What a host is called, by its number from 0.
pub(crate) fn host_name(host: u32) -> String {
    format!("host{}", host + 1)
}

/// A host's address in the physical network, by its number from 0.
pub(super) fn vtep(host: u32) -> Ipv4Addr {
    vtep_by(0, host)
}

/// A host's address in the physical network that its uplink of this number leads to, both from 0.
pub(super) fn vtep_by(uplink: u32, host: u32) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, uplink as u8, 1 + host as u8)
}

/// What WireGuard puts around a packet over IPv4, in bytes.
pub(super) const WIREGUARD: u32 = 60;
