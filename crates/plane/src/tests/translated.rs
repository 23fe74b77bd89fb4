//! Known flows through a router that translates.

use logical::objects::Identity;
use logical::{Topology, load};
use units::{Instant, Mac, Span};
use wire::ip::protocol;
use wire::{Offload, PartialChecksum, whole};

use super::bound::{Hosts, MEMORY, ROUTED};

/// What `a`'s switch sends to `b`'s is from one address there.
const SOURCE: &str = "
- {kind: ExternalPool, metadata: {name: e}, spec: {prefixes: [10.0.1.0/24], tenants: [t]}}
- {kind: Nat, metadata: {name: n, tenant: t}, spec: {kind: snat, router: r, external: 10.0.1.100, logical: 10.0.0.0/24}}
";

const BEGIN: Instant = Instant::from_nanos(1_000_000_000);

type End = ([u8; 4], u16);

const A: End = ([10, 0, 0, 1], 9);
const B: End = ([10, 0, 1, 2], 9);
const OUTSIDE: End = ([10, 0, 1, 100], 9);

const fn mac(high: u8, low: u8) -> Mac {
    Mac([2, 0, 0, 0, high, low])
}

/// The Ethernet addresses of the router on both switches.
const NEAR: Mac = mac(1, 0);
const FAR: Mac = mac(1, 1);

/// A datagram, as it is sent, or as it is behind one router.
fn datagram(macs: (Mac, Mac), from: End, to: End, is_routed: bool) -> Vec<u8> {
    let [[a, b], [c, d]] = [from.1, to.1].map(u16::to_be_bytes);
    let ends = (from.0.into(), to.0.into());
    let body = [a, b, c, d, 0, 12, 0, 0, 1, 2, 3, 4];
    let mut frame = whole::packet(macs, ends, protocol::UDP, &body).unwrap();
    if is_routed {
        frame[22] -= 1;
        whole::seal(&mut frame);
    }
    frame
}

fn named(hosts: &Hosts, name: &str) -> Identity {
    hosts.ends.keys().find(|port| port.name.as_str() == name).unwrap().clone()
}

fn with(more: &str) -> Topology {
    load(&[ROUTED, more].concat()).unwrap_or_else(|faults| panic!("{faults:?}"))
}

/// Sends a frame. What is got, and how many times it was decided anew when it left.
fn send(hosts: &mut Hosts, now: Instant, from: &str, frame: &[u8]) -> (Vec<Vec<u8>>, u64) {
    let anew = |hosts: &Hosts| -> u64 {
        hosts.planes.iter().map(|plane| plane.logical().unwrap().decided().anew).sum()
    };
    let before = anew(hosts);
    let from = named(hosts, from);
    hosts.offer(&from, frame);
    let got = hosts.turn(now).into_iter().map(|(_, frame)| frame).collect();
    (got, anew(hosts) - before)
}

#[test]
fn a_known_translated_flow_is_decided_by_its_connection_as_long_as_that_is_there() {
    let mut host = Hosts::new(&with(SOURCE), 1, MEMORY);
    let out = datagram((mac(0, 1), NEAR), A, B, false);
    let arrives = datagram((FAR, mac(0, 2)), OUTSIDE, B, true);
    let answer = datagram((mac(0, 2), FAR), B, OUTSIDE, false);
    let returns = datagram((NEAR, mac(0, 1)), B, A, true);
    for now in [BEGIN, BEGIN + Span::from_secs(200)] {
        // The first begins the connection, and the second is the first of a known one.
        for anew in [1, 1, 0, 0] {
            assert_eq!(send(&mut host, now, "a", &out), (vec![arrives.clone()], anew));
        }
        for anew in [1, 0, 0] {
            assert_eq!(send(&mut host, now, "b", &answer), (vec![returns.clone()], anew));
        }
    }
    // What was sent last keeps it.
    let mut now = BEGIN + Span::from_secs(200);
    for _ in 0..10 {
        now += Span::from_secs(100);
        assert_eq!(send(&mut host, now, "a", &out), (vec![arrives.clone()], 0));
    }
}

#[test]
fn a_checksum_that_is_left_to_a_receiver_is_of_the_ends_that_it_gets() {
    let mut host = Hosts::new(&with(SOURCE), 1, MEMORY);
    let partial = PartialChecksum { start: 34, offset: 6 };
    let note = Offload { checksum: Some(partial), segment: None, data_valid: false };
    let seeded = |mut frame: Vec<u8>| {
        let sum = wire::checksum::pseudo_header(&frame[26..34], 17, 12);
        frame[40..42].copy_from_slice(&(!sum.checksum()).to_be_bytes());
        frame
    };
    let out = seeded(datagram((mac(0, 1), NEAR), A, B, false));
    let arrives = seeded(datagram((FAR, mac(0, 2)), OUTSIDE, B, true));
    let a = named(&host, "a");
    for number in 0..4 {
        let end = &mut host.ends.get_mut(&a).unwrap().machine;
        end.send_frame(port::FrameView::noted(&out, &note)).unwrap();
        host.planes[0].mark_all_rx_ready();
        let got: Vec<_> = host.turn(BEGIN).into_iter().map(|(_, frame)| frame).collect();
        assert_eq!(got.concat(), arrives, "{number}");
    }
    assert_eq!(host.known(), 2);
}

/// An address stands for `a`, and all others of its switch share it.
const SHARED: &str = "
- {kind: LogicalPort, metadata: {name: c, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:03', addresses: [10.0.0.3]}}
- {kind: ExternalPool, metadata: {name: e}, spec: {prefixes: [10.0.1.0/24], tenants: [t]}}
- {kind: Nat, metadata: {name: f, tenant: t}, spec: {kind: floating, router: r, external: 10.0.1.100, logical: 10.0.0.1}}
- {kind: Nat, metadata: {name: n, tenant: t}, spec: {kind: snat, router: r, external: 10.0.1.100, logical: 10.0.0.0/24}}
";

#[test]
fn what_is_translated_by_addresses_alone_is_a_connections_as_soon_as_that_has_its_ends() {
    let mut host = Hosts::new(&with(SHARED), 1, MEMORY);
    let asks = datagram((mac(0, 2), FAR), B, OUTSIDE, false);
    let to_a = datagram((NEAR, mac(0, 1)), B, A, true);
    for anew in [1, 0, 0] {
        assert_eq!(send(&mut host, BEGIN, "b", &asks), (vec![to_a.clone()], anew));
    }
    let c = ([10, 0, 0, 3], 9);
    let out = datagram((mac(0, 3), NEAR), c, B, false);
    let arrives = datagram((FAR, mac(0, 2)), OUTSIDE, B, true);
    assert_eq!(send(&mut host, BEGIN, "c", &out), (vec![arrives], 1));
    let to_c = datagram((NEAR, mac(0, 3)), B, c, true);
    for anew in [1, 0] {
        assert_eq!(send(&mut host, BEGIN, "b", &asks), (vec![to_c.clone()], anew));
    }
    // It is over, and the address is `a`'s alone again.
    let later = BEGIN + Span::from_secs(200);
    for anew in [1, 0] {
        assert_eq!(send(&mut host, later, "b", &asks), (vec![to_a.clone()], anew));
    }
}

/// What comes from `a` does not get to `b`.
const APART: &str = "
- {kind: Policy, metadata: {name: p, tenant: t}, spec: {appliesTo: {ports: [b]}, rules: [{name: r, direction: toPort, action: drop, peer: {ports: [a]}}]}}
";

#[test]
fn a_far_host_is_not_told_from_which_port_a_known_translated_flow_is() {
    let mut hosts = Hosts::new(&with(&[SOURCE, APART].concat()), 2, MEMORY);
    assert_ne!(hosts.ends[&named(&hosts, "a")].host, hosts.ends[&named(&hosts, "b")].host);
    let out = datagram((mac(0, 1), NEAR), A, B, false);
    let arrives = datagram((FAR, mac(0, 2)), OUTSIDE, B, true);
    // Both hosts decide anew, first.
    for anew in [2, 1, 0, 0] {
        assert_eq!(send(&mut hosts, BEGIN, "a", &out), (vec![arrives.clone()], anew));
    }
}

#[test]
fn a_router_that_keeps_its_flows_elsewhere_translates_nothing_here() {
    let mut host = Hosts::new(&with(SHARED), 1, MEMORY);
    let asks = datagram((mac(0, 2), FAR), B, OUTSIDE, false);
    let to_a = datagram((NEAR, mac(0, 1)), B, A, true);
    for anew in [1, 0] {
        assert_eq!(send(&mut host, BEGIN, "b", &asks), (vec![to_a.clone()], anew));
    }
    // Nothing else has changed.
    host.homeless = true;
    host.realize(&with(SHARED));
    assert_eq!(send(&mut host, BEGIN, "b", &asks).0, Vec::<Vec<u8>>::new());
}
