//! Attacks what networks serve to machines: any bytes as DHCP, DHCP for IPv6, and DNS, asked for at
//! a port and at a relay.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use logical::Topology;
use logical::topology::{Profile, Zone};
use packet::relay::{self, Back};
use packet::{Fields, dhcp4, dhcp6, emit, names};
use units::{Mac, Prefix};

/// A network that serves all there is.
const DECLARED: &str = "\
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: DhcpProfile, metadata: {name: d, tenant: t}, spec: {v4: {serverId: 10.0.0.1, serverMac: '02:00:00:00:00:01', router: 10.0.0.1, lease: 3600s, dns: [10.0.0.1], search: [a.t], classlessRoutes: [{prefix: 10.0.0.0/8, router: 10.0.0.1}], bootfile: b}, v6: {serverDuidMac: '02:00:00:00:00:01', mode: stateful, dns: ['fd00::1'], search: [a.t]}}}
- {kind: DnsZone, metadata: {name: z, tenant: t}, spec: {records: {a.t: [10.0.0.2, 'fd00::2'], '2.0.0.10.in-addr.arpa': [a.t]}, ttl: 30, forward: false}}
";

const MACHINE: Mac = Mac::local(2);
const SERVER: Mac = Mac::local(1);
const V4: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))];
const V6: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
];

/// A datagram of a machine, or of a server.
fn datagram(ends: [IpAddr; 2], to: IpAddr, ports: [u16; 2], body: &[u8]) -> Option<Vec<u8>> {
    let mac = match to {
        IpAddr::V4(Ipv4Addr::BROADCAST) => Mac::BROADCAST,
        _ => SERVER,
    };
    emit::datagram(((mac, to), ports[1]), ((MACHINE, ends[0]), ports[0]), body)
}

fn verify(frame: &[u8]) {
    assert_eq!(wire::whole::fault(frame), None, "{frame:02x?}");
    let fields = Fields::of(frame).expect("an answer is a packet");
    assert_ne!(fields.destination, SERVER);
}

/// Reads `bytes` as a message of each service.
pub fn attack(bytes: &[u8]) {
    static NETWORK: LazyLock<Topology> =
        LazyLock::new(|| logical::load(DECLARED).expect("it can stand"));
    let Some((kind, body)) = bytes.split_first() else { return };
    let topology = &*NETWORK;
    let profile: &Profile = topology.profiles().next().expect("it is there").1;
    let zones: Vec<&Zone> = topology.zones().map(|(_, zone)| zone).collect();
    let subnets: [Prefix; 2] = [V4[0], V6[0]]
        .map(|address| Prefix { address, length: if address.is_ipv4() { 24 } else { 64 } });
    let addresses = [V4[0], V6[0]];
    let servers: IpAddr = "ff02::1:2".parse().expect("it is an address");
    let (ends, to, ports) = match kind % 8 {
        0 => (V4, Ipv4Addr::BROADCAST.into(), [68, 67]),
        1 => (V4, V4[1], [68, 67]),
        2 => (V6, servers, [546, 547]),
        3 => (V4, V4[1], [5353, 53]),
        4 => (V6, V6[1], [5353, 53]),
        5 => (V4, V4[1], [67, 67]),
        6 => (V6, V6[1], [547, 547]),
        _ => (V6, servers, [547, 547]),
    };
    let Some(frame) = datagram(ends, to, ports, body) else { return };
    let fields = Fields::of(&frame).expect("it was made as a packet");
    let client = dhcp4::Client { addresses: &addresses, subnets: &subnets, mtu: Some(1400) };
    if let Some(v4) = &profile.v4
        && let Some(Some(answer)) = dhcp4::serve(client, v4, &fields, &frame)
    {
        verify(&answer);
    }
    if let Some(v6) = &profile.v6
        && let Some(Some(answer)) = dhcp6::serve(&addresses, v6, &fields, &frame)
    {
        verify(&answer);
    }
    if let Some((answer, _)) = names::serve(zones.iter().copied(), &fields, &frame) {
        verify(&answer);
        let again = Fields::of(&answer).expect("an answer is a packet");
        assert!(names::serve(zones.iter().copied(), &again, &answer).is_none());
    }
    for server in [V4[1], V6[1]] {
        let router = [V4[1], V6[1]].map(|address| Prefix { address, length: 24 });
        if let Some(asked) = relay::request(SERVER, &router, server, &fields, &frame) {
            assert_eq!(wire::whole::fault(&asked), None, "{asked:02x?}");
        }
    }
    if let Some(back) = Back::parse(&fields, &frame) {
        let _ = back.is_for(MACHINE, &addresses);
        if let Some(told) = back.frame(SERVER, MACHINE) {
            assert_eq!(wire::whole::fault(&told), None, "{told:02x?}");
        }
    }
}
