//! Where frames go: examples.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use datapath::{Datapath, Network, PortConfig, Remote, Settings, StormLimits, Verdict, Vlans};
use lossless::{Destination, Reason};
use units::{Class, ClassSet, Mac, Span};
use wire::ethernet::{Peek, Tag};
use zerocopy::IntoBytes;

use super::common::*;

#[test]
fn a_number_that_stands_for_no_network_is_none() {
    assert_eq!(Network::new(0), Some(Network::default()));
    assert_eq!(Network::new(0xfffe).map(Network::number), Some(0xfffe));
    assert_eq!(Network::new(0xffff), None);
}

/// Ports 0 and 1 in network 1, and port 2 in network 2. Both networks have machines on two hosts.
fn two_networks() -> Datapath {
    let mut datapath = Datapath::new(Settings::default());
    for (number, of) in [1, 1, 2].into_iter().enumerate() {
        datapath.attach(port(number), local(of));
    }
    datapath.set_uplink(port(UPLINK), Class::default());
    for number in [1, 2] {
        let machines = BTreeMap::from([(7, (0, 7)), (8, (1, 8))]);
        datapath.declare(network(number), Some(Arc::new(declared(number, &machines))));
    }
    datapath
}

fn at_ports(numbers: &[usize]) -> impl Iterator<Item = Receiver> {
    numbers.iter().map(|number| Receiver::Port(port(*number)))
}

/// All machines of a network on these far hosts.
fn on_hosts(number: u16, hosts: &[u32]) -> impl Iterator<Item = Receiver> {
    let vni = u32::from(number) + 100;
    hosts.iter().map(move |host| Receiver::Far(Remote::flood(peer(*host), vni)))
}

/// Who gets a frame of a network that comes in by `from`, from its own address.
fn heard(datapath: &mut Datapath, from: usize, number: u16, to: Option<usize>) -> Outcome {
    let header = Peek::new(to.map_or(Mac::BROADCAST, mac), mac(from), None);
    outcome(datapath.decide(NOW, port(from), &header, network(number)).verdict)
}

fn ports(numbers: &[usize]) -> Outcome {
    Ok(at_ports(numbers).collect())
}

#[test]
fn a_group_is_reached_on_far_hosts_and_an_unknown_address_is_not_looked_for_there() {
    let mut it = two_networks();
    let all = at_ports(&[1]).chain(on_hosts(1, &[0, 1])).collect();
    assert_eq!(heard(&mut it, 0, 1, None), Ok(all));
    assert_eq!(heard(&mut it, 0, 1, Some(1)), ports(&[1]));
    assert_eq!(heard(&mut it, UPLINK, 1, None), ports(&[0, 1]));
    assert_eq!(heard(&mut it, UPLINK, 1, Some(1)), ports(&[0, 1]), "not known yet");
    assert_eq!(heard(&mut it, 2, 2, None), Ok(on_hosts(2, &[0, 1]).collect()));
    let one = declared(2, &BTreeMap::from([(7, (0, 7))]));
    it.declare(network(2), Some(Arc::new(one)));
    assert_eq!(heard(&mut it, 2, 2, None), Ok(on_hosts(2, &[0]).collect()));
}

#[test]
fn an_address_in_two_networks_is_two_entries() {
    let mut it = two_networks();
    it.pin(port(1), mac(9), 0);
    it.pin(port(2), mac(9), 0);
    assert_eq!(heard(&mut it, 0, 1, Some(9)), ports(&[1]));
    assert_eq!(heard(&mut it, UPLINK, 2, Some(9)), ports(&[2]));
    it.close(port(2));
    let left: Vec<_> = it
        .addresses()
        .iter()
        .filter(|entry| entry.mac == mac(9))
        .map(|entry| entry.network)
        .collect();
    assert_eq!(left, [network(1)], "forgotten with the port");
}

#[test]
fn what_came_from_a_far_host_goes_to_none_and_teaches_nothing() {
    let mut it = two_networks();
    assert_eq!(heard(&mut it, UPLINK, 1, Some(7)), Err(Reason::SplitHorizon));
    assert_eq!(heard(&mut it, UPLINK, 1, None), ports(&[0, 1]));
    assert!(it.addresses().is_empty());
}

#[test]
fn a_network_is_closed_to_ports_that_are_no_members() {
    let mut it = two_networks();
    for (from, number, to) in [(2, 1, None), (0, 2, Some(2)), (UPLINK, 3, None)] {
        assert_eq!(heard(&mut it, from, number, to), Err(Reason::NotMember));
    }
}

#[test]
fn what_never_crosses_a_bridge_is_refused_by_name() {
    let mut it = two_networks();
    let pause = Peek::new(Mac([0x01, 0x80, 0xc2, 0, 0, 0x01]), mac(0), None);
    assert_eq!(
        outcome(it.decide(NOW, port(0), &pause, network(1)).verdict),
        Err(Reason::LinkLocal)
    );
    assert_eq!(heard(&mut it, 0, 1, Some(0)), Err(Reason::SamePort));
}

#[test]
fn what_no_machine_may_send_is_malformed() {
    let mut it = two_networks();
    let tag = |vlan| Some(Tag { class: Class::default(), vlan });
    let control = Peek { tci: Peek::CONTROL, ..Peek::new(mac(1), mac(0), None) };
    let bad = [
        Peek::new(mac(1), Mac::BROADCAST, None),
        Peek::new(Mac::BROADCAST, Mac([3, 0, 0, 0, 0, 1]), None),
        Peek::new(mac(1), Mac([0; 6]), None),
        Peek::new(mac(1), mac(0), tag(0xfff)),
        control,
        Peek { tci: Peek::CONTROL, ..Peek::new(Mac::BROADCAST, mac(0), None) },
    ];
    for header in bad {
        let fate = outcome(it.decide(NOW, port(0), &header, network(1)).verdict);
        assert_eq!(fate, Err(Reason::Malformed), "{header:?}");
        let explained = it.explain(NOW, port(0), &header, network(1)).fate;
        assert_eq!(outcome_of(&explained), fate);
        let fate = outcome(it.decide(NOW, port(UPLINK), &header, network(1)).verdict);
        assert_eq!(fate, Err(Reason::Malformed), "from another host: {header:?}");
    }
    assert!(it.addresses().is_empty(), "nothing is learned of it");
    let pause = Peek { tci: Peek::CONTROL, ..Peek::new(LINK_LOCAL, mac(0), None) };
    let fate = outcome(it.decide(NOW, port(0), &pause, network(1)).verdict);
    assert_eq!(fate, Err(Reason::LinkLocal), "it never crosses a bridge");
}

#[test]
fn spanning_tree_crosses_if_it_is_to() {
    for forward_bpdus in [false, true] {
        let mut it = Datapath::new(Settings { forward_bpdus, ..Settings::default() });
        (0..3).for_each(|number| it.attach(port(number), local(0)));
        let mut to = |last| {
            let header = Peek::new(Mac([0x01, 0x80, 0xc2, 0, 0, last]), mac(0), None);
            outcome(it.decide(NOW, port(0), &header, network(0)).verdict)
        };
        assert_eq!(to(0), if forward_bpdus { ports(&[1, 2]) } else { Err(Reason::LinkLocal) });
        assert_eq!(to(1), Err(Reason::LinkLocal), "pauses are for the link alone");
    }
}

/// IGMP's report of version 2 of a group by a machine.
fn joins(group: Ipv4Addr) -> Vec<u8> {
    let mut message = [0x16, 0, 0, 0, 0, 0, 0, 0];
    message[4..].copy_from_slice(&group.octets());
    let sum = wire::checksum::Sum::of(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let from = Ipv4Addr::new(10, 0, 0, 1);
    let mut ip = wire::ipv4::Header::new(from, group, wire::ip::protocol::IGMP, 8).unwrap();
    ip.ttl = 1;
    let ethernet = wire::ethernet::Header::new(
        wire::membership::group_mac_v4(group),
        mac(0),
        wire::ethernet::ethertype::IPV4,
    );
    [ethernet.as_bytes(), ip.as_bytes(), &message].concat()
}

#[test]
fn who_has_joined_a_group_is_no_bystander() {
    let mut it = two_networks();
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let header = Peek::new(wire::membership::group_mac_v4(group), mac(0), None);
    let bystanders = |it: &mut Datapath, header: &Peek| match it
        .decide(NOW, port(0), header, network(1))
        .verdict
    {
        Verdict::Forward(Destination::Many(audience)) => {
            assert!(audience.ports.contains(port(1)) && audience.flows.len() == 2);
            [1, UPLINK].map(|number| audience.bystanders.contains(port(number)))
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(bystanders(&mut it, &header), [true, true], "nobody has asked for it");
    let report = joins(group);
    let heard = wire::ethernet::peek(&report).unwrap();
    it.visit(NOW, port(1)).overhear(&heard, network(1), &report);
    assert_eq!(bystanders(&mut it, &header), [false, true]);
    it.visit(NOW, port(UPLINK)).overhear(&heard, network(1), &report);
    assert_eq!(bystanders(&mut it, &header), [false, false], "somebody on another host has");
    let other = Peek::new(Mac::BROADCAST, mac(0), None);
    assert_eq!(bystanders(&mut it, &other), [true, true]);
    // Who is no member of a network joins none of its groups; and who goes leaves all.
    it.visit(NOW, port(2)).overhear(&heard, network(1), &report);
    it.close(port(1));
    assert_eq!(bystanders(&mut it, &header), [true, false]);
}

#[test]
fn a_far_machine_is_in_no_group_once_it_is_not_declared_any_more() {
    let mut it = two_networks();
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let header = Peek::new(wire::membership::group_mac_v4(group), mac(1), None);
    let is_bystander = |it: &mut Datapath| match it
        .decide(NOW, port(0), &header, network(1))
        .verdict
    {
        Verdict::Forward(Destination::Many(audience)) => audience.bystanders.contains(port(UPLINK)),
        other => panic!("{other:?}"),
    };
    let mut report = joins(group);
    report[6..12].copy_from_slice(&mac(7).0);
    let heard = wire::ethernet::peek(&report).unwrap();
    it.visit(NOW, port(UPLINK)).overhear(&heard, network(1), &report);
    let before = it.declared(network(1)).unwrap().clone();
    for (declared, stays) in [(Some(before), true), (Some(Arc::default()), false)] {
        it.declare(network(1), declared);
        assert_eq!(is_bystander(&mut it), !stays);
    }
    it.visit(NOW, port(UPLINK)).overhear(&heard, network(1), &report);
    [0, 1].into_iter().for_each(|number| it.detach(port(number)));
    it.declare(network(1), None);
    assert!(format!("{it:?}").contains("segments: [None, None,"), "nothing is left of it");
}

#[test]
fn more_than_is_flooded_of_a_port_is_refused_by_kind() {
    let mut it = Datapath::new(Settings::default());
    let limit = |frames| std::num::NonZeroU32::new(frames);
    let storm = StormLimits { broadcast: limit(3), multicast: limit(4), unknown: limit(5) };
    let config = PortConfig { storm, ..local(0) };
    it.attach(port(0), config);
    (1..3).for_each(|number| it.attach(port(number), local(0)));
    let group = Mac([0x01, 0, 0x5e, 1, 2, 3]);
    let (now, later) = (NOW + Span::from_secs(9), NOW + Span::from_secs(10));
    for (to, most, reason) in [
        (Mac::BROADCAST, 3, Reason::BroadcastLimit),
        (group, 4, Reason::MulticastLimit),
        (mac(7), 5, Reason::UnknownLimit),
    ] {
        let header = Peek::new(to, mac(0), None);
        let mut ask = |now| outcome(it.decide(now, port(0), &header, network(0)).verdict);
        (0..most).for_each(|_| assert_eq!(ask(now), ports(&[1, 2])));
        assert_eq!(ask(now), Err(reason));
        let explained = it.explain(now, port(0), &header, network(0)).fate;
        assert_eq!(outcome_of(&explained), Err(reason));
        let mut ask = |now| outcome(it.decide(now, port(0), &header, network(0)).verdict);
        assert_eq!(ask(later), ports(&[1, 2]));
    }
    // Who is known is not flooded to, and what a member has asked for is no storm.
    assert!(heard(&mut it, 1, 0, None).is_ok());
    let report = joins(Ipv4Addr::new(239, 1, 2, 3));
    let heard = wire::ethernet::peek(&report).unwrap();
    it.visit(NOW, port(1)).overhear(&heard, network(0), &report);
    for to in [mac(1), group] {
        let header = Peek::new(to, mac(0), None);
        for _ in 0..100 {
            assert!(outcome(it.decide(now, port(0), &header, network(0)).verdict).is_ok());
        }
    }
}

#[test]
fn what_may_go_round_in_circles_is_bounded_though_it_was_asked_for() {
    let mut it = Datapath::new(Settings::default());
    let storm = StormLimits { multicast: std::num::NonZeroU32::new(4), ..Default::default() };
    for number in 0..3 {
        it.attach(port(number), PortConfig { storm, ..local(0) });
    }
    let report = joins(Ipv4Addr::new(239, 1, 2, 3));
    let heard = wire::ethernet::peek(&report).unwrap();
    it.visit(NOW, port(2)).overhear(&heard, network(0), &report);
    let now = NOW + Span::from_secs(9);
    let passed = |it: &mut Datapath, from, source| {
        let header = Peek::new(heard.destination(), source, None);
        let mut ask = || outcome(it.decide(now, port(from), &header, network(0)).verdict);
        (0..100).filter(|_| ask().is_ok()).count()
    };
    it.pin(port(0), mac(0), 0);
    assert_eq!(passed(&mut it, 0, mac(0)), 100, "its own frames");
    assert_eq!(passed(&mut it, 1, mac(0)), 4, "what was sent comes back by another port");
    for turn in 0..9 {
        it.decide(NOW, port(turn % 2), &Peek::new(mac(0), mac(9), None), network(0));
    }
    assert_eq!(passed(&mut it, 0, mac(9)), 4, "an address that moves to and fro");
}

#[test]
fn an_address_that_moves_to_and_fro_is_named() {
    let mut it = Datapath::new(Settings::default());
    (0..3).for_each(|number| it.attach(port(number), local(0)));
    let broadcast = Peek::new(Mac::BROADCAST, mac(9), None);
    // A machine that moves once, or is stood in for.
    for turn in 0..4 {
        it.decide(NOW, port(turn % 2), &broadcast, network(0));
    }
    assert_eq!(it.flaps(NOW).count(), 0);
    for turn in 0..20 {
        it.decide(NOW, port(turn % 2), &broadcast, network(0));
    }
    let flaps: Vec<_> = it.flaps(NOW).map(|flap| (flap.mac, flap.ports, flap.moves)).collect();
    assert_eq!(flaps, [(mac(9), [port(1), port(0)], 23)]);
    assert_eq!([0, 1, 2].map(|number| it.moves(port(number))), [11, 12, 0]);
    assert_eq!(it.flaps(NOW + Span::from_secs(61)).count(), 0, "it is over");
    it.detach(port(1));
    assert_eq!(it.flaps(NOW).count(), 0);
}

#[test]
fn a_pinned_address_that_is_seen_elsewhere_is_named_and_stays_where_it_is() {
    let mut it = Datapath::new(Settings::default());
    (0..3).for_each(|number| it.attach(port(number), local(0)));
    it.pin(port(0), mac(9), 0);
    let broadcast = Peek::new(Mac::BROADCAST, mac(9), None);
    // Its own frames, and one that came back once.
    for _ in 0..50 {
        it.decide(NOW, port(0), &broadcast, network(0));
    }
    it.decide(NOW, port(1), &broadcast, network(0));
    assert_eq!((it.flaps(NOW).count(), it.moves(port(1))), (0, 1));
    // What goes round in circles is one frame, of which the caches know what to do.
    let mut now = NOW;
    for _ in 0..1000 {
        now += Span::from_millis(1);
        it.decide(now, port(1), &broadcast, network(0));
    }
    let flaps: Vec<_> = it.flaps(now).map(|flap| (flap.mac, flap.ports, flap.is_pinned)).collect();
    assert_eq!(flaps, [(mac(9), [port(1), port(0)], true)]);
    assert_eq!([0, 1, 2].map(|number| it.moves(port(number))), [0, 11, 0]);
    let back = it.decide(now, port(2), &Peek::new(mac(9), mac(3), None), network(0));
    assert_eq!(outcome(back.verdict), ports(&[0]), "it is where it is pinned");
    assert_eq!(it.flaps(now + Span::from_secs(61)).count(), 0, "it is over");
}

#[test]
fn an_address_that_is_another_s_is_not_spoken_from() {
    let mut it = two_networks();
    let wary = PortConfig { antispoof: true, ..local(1) };
    it.attach(port(5), wary);
    it.pin(port(5), mac(5), 0);
    it.pin(port(1), mac(1), 0);
    let fate = |it: &mut Datapath, from, source: usize| {
        let header = Peek::new(mac(0), mac(source), None);
        outcome(it.decide(NOW, port(from), &header, network(1)).verdict)
    };
    assert_eq!(fate(&mut it, 5, 1), Err(Reason::Spoofed), "another port's");
    assert_eq!(fate(&mut it, 5, 7), Err(Reason::Spoofed), "a machine's on another host");
    assert!(fate(&mut it, 5, 5).is_ok() && fate(&mut it, 5, 20).is_ok(), "its own, or nobody's");
    assert!(fate(&mut it, 0, 1).is_ok(), "who is not compared");
}

#[test]
fn a_declared_machine_s_address_is_its_port_s_for_good() {
    let mut it = two_networks();
    it.attach(port(5), PortConfig { antispoof: true, ..local(1) });
    let fate = |it: &mut Datapath, from, source: usize| {
        let header = Peek::new(Mac::BROADCAST, mac(source), None);
        outcome(it.decide(NOW, port(from), &header, network(1)).verdict)
    };
    let place = |it: &Datapath, address: usize| {
        let places = it.addresses();
        places.iter().find(|place| place.mac == mac(address)).map(|place| (place.port, place.seen))
    };
    fate(&mut it, 5, 11).unwrap();
    assert_eq!(place(&it, 11), Some((port(5), Some(NOW))), "learned");
    it.set_machine(port(1), Some(mac(11)));
    assert_eq!(fate(&mut it, 5, 11), Err(Reason::Spoofed));
    assert_eq!(place(&it, 11), Some((port(1), None)));
    // Two that change places, one after the other.
    it.set_machine(port(5), Some(mac(12)));
    it.set_machine(port(1), Some(mac(12)));
    it.set_machine(port(5), Some(mac(11)));
    assert_eq!(
        [11, 12].map(|it_is| place(&it, it_is)),
        [Some((port(5), None)), Some((port(1), None))]
    );
    // What an operator has pinned stays.
    it.pin(port(1), mac(13), 0);
    it.set_machine(port(5), Some(mac(13)));
    assert_eq!([11, 13].map(|it_is| place(&it, it_is)), [None, Some((port(1), None))]);
    it.set_machine(port(1), None);
    assert_eq!([12, 13].map(|it_is| place(&it, it_is)), [None, Some((port(1), None))]);
    assert!(fate(&mut it, 5, 12).is_ok(), "it is nobody's any more");
}

/// Ports of all VLANs, of 7 alone, of 7 and 8, and of 8 with 7 as the native one.
fn of_vlans() -> Datapath {
    let mut it = Datapath::new(Settings::default());
    let all =
        [Vlans::All, Vlans::access(7), Vlans::trunk([7, 8], None), Vlans::trunk([8], Some(7))];
    for (number, vlans) in all.into_iter().enumerate() {
        it.attach(port(number), PortConfig { vlans, ..local(0) });
    }
    it
}

#[test]
fn a_frame_stays_in_its_vlan() {
    let mut it = of_vlans();
    let mut fate = |from, to: Mac, source: usize, vlan: Option<u16>| {
        let tag = vlan.map(|vlan| Tag { class: Class::default(), vlan });
        let header = Peek::new(to, mac(source), tag);
        let explained = outcome_of(&it.explain(NOW, port(from), &header, network(0)).fate);
        let fate = outcome(it.decide(NOW, port(from), &header, network(0)).verdict);
        assert_eq!(explained, fate);
        fate
    };
    let all = Mac::BROADCAST;
    assert_eq!(fate(0, all, 0, None), ports(&[]), "of no VLAN");
    assert_eq!(fate(0, all, 0, Some(7)), ports(&[1, 2, 3]));
    assert_eq!(fate(0, all, 0, Some(8)), ports(&[2, 3]));
    assert_eq!(fate(1, all, 1, None), ports(&[0, 2, 3]));
    assert_eq!(fate(1, all, 1, Some(8)), Err(Reason::NotInVlan));
    assert_eq!(fate(2, all, 2, None), Err(Reason::NotInVlan));
    assert_eq!(fate(3, all, 3, None), ports(&[0, 1, 2]));
    assert_eq!(fate(2, mac(3), 2, Some(7)), ports(&[3]), "learned in the native VLAN");
    assert_eq!(fate(2, mac(3), 2, Some(8)), ports(&[0, 3]), "and in no other");
}

#[test]
fn a_declared_address_is_known_in_its_ports_vlans() {
    let mut it = of_vlans();
    it.pin(port(3), mac(3), 0);
    it.pin(port(1), mac(1), 0);
    it.pin(port(1), mac(9), 8);
    let fate = |it: &mut Datapath, to, source, vlan| {
        let tag = Some(Tag { class: Class::default(), vlan });
        let header = Peek::new(mac(to), mac(source), tag);
        outcome(it.decide(NOW, port(2), &header, network(0)).verdict)
    };
    for vlan in [7, 8] {
        assert_eq!(fate(&mut it, 3, 2, vlan), ports(&[3]));
    }
    assert_eq!(fate(&mut it, 1, 2, 7), ports(&[1]));
    assert_eq!(fate(&mut it, 1, 2, 8), ports(&[0, 3]), "that port is not in it");
    assert_eq!(fate(&mut it, 9, 2, 8), Err(Reason::NotInVlan), "pinned where its port is not");
    // Nobody else is learned to have it.
    fate(&mut it, 1, 3, 8).unwrap();
    assert_eq!(fate(&mut it, 3, 2, 8), ports(&[3]));
}

#[test]
fn a_tag_chooses_among_the_classes_of_its_network_and_between_hosts_among_declared_ones() {
    const OWN: Class = Class::from_low_bits(2);
    let mut it = Datapath::new(Settings::default());
    for number in [0, 1] {
        it.attach(port(number), PortConfig { class: OWN, ..local(1) });
        it.pin(port(number), mac(number), 0);
    }
    it.set_uplink(port(UPLINK), Class::default());
    let machines = BTreeMap::from([(7, (0, 7))]);
    // To a port, to a machine on another host, and to all, who are here and there; and what comes
    // from there.
    let seen = |it: &mut Datapath, pcp: Option<u8>, vlan| {
        let tag = pcp.map(|pcp| Tag { class: Class::from_low_bits(pcp), vlan });
        let mut class = |from, source, to| {
            let header = Peek::new(to, mac(source), tag);
            let explained = it.explain(NOW, port(from), &header, network(1)).class;
            let class = it.decide(NOW, port(from), &header, network(1)).class;
            assert_eq!(explained, class);
            class.pcp()
        };
        let [here, there] = [1, 7].map(|to| class(0, 0, mac(to)));
        [here, there, class(0, 0, Mac::BROADCAST), class(UPLINK, 7, mac(0))]
    };
    let some = ClassSet::from_iter([1, 2, 3].map(Class::from_low_bits));
    for (classes, pcp, expected) in [
        (None, None, [2, 2, 2, 0]),
        (None, Some(7), [7, 2, 2, 7]),
        (None, Some(0), [0, 2, 2, 0]),
        (Some(some), None, [2, 2, 2, 1]),
        (Some(some), Some(3), [3, 3, 3, 3]),
        (Some(some), Some(7), [2, 2, 2, 1]),
        (Some(some), Some(0), [2, 2, 2, 1]),
    ] {
        it.declare(network(1), Some(Arc::new(declared_with(1, &machines, classes))));
        (0..2).for_each(|number| it.set_class(port(number), OWN, classes));
        assert_eq!(seen(&mut it, pcp, 0), expected, "{classes:?} {pcp:?}");
    }
    // Of a network without machines elsewhere, nothing that is flooded leaves the host.
    it.declare(network(1), None);
    (0..2).for_each(|number| it.set_class(port(number), OWN, None));
    assert_eq!(seen(&mut it, Some(5), 0)[2], 5);
}

#[test]
fn addresses_are_learned_move_and_age() {
    let mut it = Datapath::new(Settings::default());
    (0..3).for_each(|number| it.attach(port(number), local(0)));
    assert_eq!(heard(&mut it, 0, 0, Some(1)), ports(&[1, 2]), "unknown: to everybody");
    assert_eq!(heard(&mut it, 1, 0, Some(0)), ports(&[0]), "learned from the first frame");
    assert_eq!(heard(&mut it, 0, 0, Some(1)), ports(&[1]));
    it.tick(NOW + Span::from_secs(400));
    assert!(it.addresses().is_empty());
    assert_eq!(heard(&mut it, 0, 0, Some(1)), ports(&[1, 2]));
}

#[test]
fn who_fills_the_table_fills_it_for_nobody_else() {
    let mut it = Datapath::new(Settings { mac_limit: 4, ..Settings::default() });
    (0..3).for_each(|number| it.attach(port(number), local(0)));
    let mut say = |from: usize, source: Mac| {
        it.decide(NOW, port(from), &Peek::new(Mac::BROADCAST, source, None), network(0));
    };
    for number in 100..120 {
        say(0, Mac::local(number));
    }
    say(1, mac(1));
    // Not even somebody else's address.
    say(0, mac(1));
    let of = |number| it.addresses().iter().filter(|entry| entry.port == port(number)).count();
    assert_eq!((of(0), of(1)), (4, 1));
}

#[test]
fn an_address_that_is_pinned_leaves_its_place_to_one_that_is_learned() {
    let mut it = Datapath::new(Settings { mac_limit: 1, ..Settings::default() });
    it.attach(port(0), local(0));
    for (source, known) in [(1, 1), (2, 1)] {
        it.decide(NOW, port(0), &Peek::new(Mac::BROADCAST, mac(source), None), network(0));
        assert_eq!(it.addresses().len(), known);
    }
    it.pin(port(0), mac(1), 0);
    it.decide(NOW, port(0), &Peek::new(Mac::BROADCAST, mac(2), None), network(0));
    assert_eq!(it.addresses().len(), 2);
}

#[test]
fn a_machine_that_moves_is_reached_where_it_is_now() {
    let mut it = two_networks();
    let ask = |it: &mut Datapath| {
        let header = Peek::new(mac(9), mac(0), None);
        outcome(it.decide(NOW, port(0), &header, network(1)).verdict)
    };
    let at = |host, label| Some(Arc::new(declared(1, &BTreeMap::from([(9, (host, label))]))));
    let far = |host, label| Ok(BTreeSet::from([Receiver::Far(Remote { peer: peer(host), label })]));
    it.declare(network(1), at(3, 5));
    assert_eq!(ask(&mut it), far(3, 5));
    it.declare(network(1), at(4, 6));
    assert_eq!(ask(&mut it), far(4, 6));
    // What somebody here says with its address teaches nothing.
    it.decide(NOW, port(1), &Peek::new(Mac::BROADCAST, mac(9), None), network(1));
    assert_eq!(ask(&mut it), far(4, 6));
    it.pin(port(1), mac(9), 0);
    assert_eq!(ask(&mut it), Ok(BTreeSet::from([Receiver::Port(port(1))])), "it is here now");
    it.close(port(1));
    assert_eq!(ask(&mut it), far(4, 6));
    it.detach(port(UPLINK));
    assert_eq!(ask(&mut it), Err(Reason::NoEgress));
    it.set_uplink(port(UPLINK), Class::default());
    assert_eq!(ask(&mut it), far(4, 6), "at once");
}

#[test]
fn a_change_in_one_network_leaves_what_is_cached_of_another() {
    // Two ports of network 1 claim one address in turn; network 2 has its own generation.
    let mut it = two_networks();
    assert_eq!(heard(&mut it, 2, 2, None), Ok(on_hosts(2, &[0, 1]).collect()));
    let before = it.decided();
    for turn in 0..100 {
        let header = Peek::new(Mac::BROADCAST, mac(9), None);
        it.decide(NOW, port(turn % 2), &header, network(1));
    }
    let claims = it.decided();
    assert_eq!(claims - before, 100);
    assert_eq!(heard(&mut it, 2, 2, None), Ok(on_hosts(2, &[0, 1]).collect()));
    assert_eq!(it.decided(), claims, "it was at hand");
}

#[test]
fn a_claimed_address_leaves_what_is_cached_of_another_vlan() {
    // Two ports of VLAN 7 claim one address in turn; two others talk in VLAN 8.
    let mut it = Datapath::new(Settings::default());
    for (number, vlan) in [7, 7, 8, 8].into_iter().enumerate() {
        it.attach(port(number), PortConfig { vlans: Vlans::access(vlan), ..local(0) });
    }
    for (from, to) in [(2, 3), (3, 2), (2, 3)] {
        heard(&mut it, from, 0, Some(to)).unwrap();
    }
    let before = it.decided();
    for turn in 0..100 {
        let header = Peek::new(Mac::BROADCAST, mac(9), None);
        it.decide(NOW, port(turn % 2), &header, network(0));
        assert_eq!(heard(&mut it, 2, 0, Some(3)), ports(&[3]));
    }
    assert_eq!(it.decided() - before, 100, "only the claims were decided");
    // What is declared concerns all VLANs.
    it.pin(port(2), mac(3), 0);
    assert_eq!(heard(&mut it, 2, 0, Some(3)), Err(Reason::SamePort));
}

#[test]
fn flows_of_one_network_drive_none_of_another_out_of_the_cache() {
    let mut it = two_networks();
    let answers = |it: &mut Datapath| {
        for to in [7, 8, 7, 8] {
            heard(it, 2, 2, Some(to)).unwrap();
        }
    };
    answers(&mut it);
    let before = it.decided();
    // Nobody knows where these are.
    for to in 0..10_000 {
        let header = Peek::new(mac(1000 + to), mac(0), None);
        it.decide(NOW, port(0), &header, network(1));
    }
    let strangers = it.decided();
    assert_eq!(strangers - before, 10_000);
    answers(&mut it);
    assert_eq!(it.decided(), strangers, "they were at hand");
}

#[test]
fn a_machine_that_was_here_and_is_declared_elsewhere_is_reached_there() {
    let mut it = two_networks();
    assert_eq!(heard(&mut it, 1, 1, Some(0)), ports(&[0]));
    assert_eq!(heard(&mut it, 0, 1, Some(1)), ports(&[1]), "it was learned");
    it.declare(network(1), Some(Arc::new(declared(1, &BTreeMap::from([(1, (3, 5))])))));
    let far = Receiver::Far(Remote { peer: peer(3), label: 5 });
    assert_eq!(heard(&mut it, 0, 1, Some(1)), Ok(BTreeSet::from([far])));
}
