//! Random packets in worlds.

use core::net::IpAddr;

use alloc::vec::Vec;

use logical::topology::{Attachment, PortIndex, Topology};
use units::{Mac, Rng};

use crate::frame::{Content, Packet};

/// A packet at its port.
#[derive(Debug)]
pub struct Sent {
    pub port: PortIndex,
    pub packet: Packet,
}

/// A packet at a port, often one that arrives.
pub fn packet(topology: &Topology, rng: &mut Rng) -> Sent {
    let ports: Vec<_> = topology
        .ports()
        .filter(|(_, it)| !matches!(it.attachment, Attachment::Router(_)))
        .map(|(index, _)| index)
        .collect();
    let mut one = |bound: usize| rng.below(bound as u64) as usize;
    let port = ports[one(ports.len())];
    let own = &topology[port];
    let to = ports[one(ports.len())];
    let macs: Vec<Mac> = topology[own.switch].ports.iter().map(|it| topology[*it].mac).collect();
    let listed = [
        [2, 0, 0, 0, 1, 1],
        [2, 0, 0, 0, 0, 0xfe],
        [2, 0, 0, 0, 9, 9],
        [6, 0x7a, 0x6f, 0x76, 0, 0],
    ];
    let from_mac = if one(5) > 0 { own.mac } else { Mac(listed[one(4)]) };
    let to_mac = match one(12) {
        0 => [Mac([1, 0, 0x5e, 0, 0, 1]), Mac::BROADCAST, Mac([1, 0x80, 0xc2, 0, 0, 3])][one(3)],
        1 => Mac([6, 0, 0, 0, 0, 1]),
        2..=6 if topology[to].switch == own.switch => topology[to].mac,
        _ => macs[one(macs.len())],
    };
    if one(15) == 0 {
        let kind = [35000, 0x88b5, 0x0001][one(3)];
        return Sent { port, packet: Packet { from_mac, to_mac, content: Content::Other(kind) } };
    }
    let strange = [
        "10.9.0.1",
        "10.9.0.9",
        "10.1.0.200",
        "0.0.0.0",
        "224.0.0.5",
        "172.16.0.1",
        "8.8.8.8",
        "10.2.0.77",
        "10.1.0.254",
        "255.255.255.255",
        "10.8.0.1",
        "10.2.0.100",
        "10.2.0.101",
        "10.2.0.102",
        "10.4.0.1",
        "10.6.0.1",
        "10.6.0.2",
    ];
    let strange6 = ["fd01::9", "fe80::1", "ff02::1", "fd02::1", "::1"];
    let is_v6 = one(4) == 0;
    let mut address = |own: &[IpAddr], mac: Mac| -> IpAddr {
        let of_family: Vec<_> = own.iter().copied().filter(|it| it.is_ipv6() == is_v6).collect();
        match (one(5), is_v6) {
            (0, true) => strange6[one(5)].parse().unwrap(),
            (0, false) => strange[one(strange.len())].parse().unwrap(),
            (_, true) if of_family.is_empty() || one(4) == 0 => crate::security::link_local(mac),
            _ if of_family.is_empty() => "10.1.0.1".parse().unwrap(),
            _ => of_family[one(of_family.len())],
        }
    };
    let (from, to) =
        (address(&own.addresses, own.mac), address(&topology[to].addresses, topology[to].mac));
    // Often for an address that is translated, or behind which several serve.
    let nats = topology.nats().map(|(_, it)| it.external.first());
    let outside: Vec<IpAddr> =
        nats.chain(topology.balancers().map(|(_, it)| it.vip)).filter(|_| from.is_ipv4()).collect();
    let routers = topology[own.switch].ports.iter().map(|it| &topology[*it]);
    let routers = routers.filter(|it| matches!(it.attachment, Attachment::Router(_)));
    let routers: Vec<Mac> = routers.map(|it| it.mac).collect();
    let (to, to_mac) = match one(2) == 0 && !outside.is_empty() && !routers.is_empty() {
        true => (outside[one(outside.len())], routers[one(routers.len())]),
        false => (to, to_mac),
    };
    let [from, to] = if from.is_ipv6() == to.is_ipv6() { [from, to] } else { [from, from] };
    let protocol = [6, 6, 6, 17, 17, 1, 58, 132, 47, 99][one(10)];
    let port_of = [80, 443, 8080, 53, 1000, 8080, 68, 67, 80, 65535];
    let numbers = match protocol {
        6 | 17 | 132 => [port_of[one(10)], port_of[one(10)]],
        1 if from.is_ipv4() => [[8, 3, 0, 13][one(4)], [0, 1][one(2)]],
        58 if from.is_ipv6() => [[128, 1, 129, 150][one(4)], [0, 1][one(2)]],
        _ => [0, 0],
    };
    let content = Content::Ip { from, to, protocol, numbers };
    Sent { port, packet: Packet { from_mac, to_mac, content } }
}
