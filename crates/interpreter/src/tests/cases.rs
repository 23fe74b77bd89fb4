//! The corner cases that implementations get wrong, one by one.

use super::*;

/// The frame behind a VLAN's tag.
fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    wire::ethernet::tagged(frame, wire::ethernet::Tag { class: Default::default(), vlan })
}

#[test]
fn a_frame_goes_to_whoever_has_its_address_and_nobody_else() {
    let mut net = Net::new("");
    let sent = udp_of([A, B], AB, [1, 2]);
    assert_eq!(net.gets("a", &sent, "b"), sent);
    net.silently_refuses("a", &udp_of([A, C], AB, [1, 2]), Reason::Unknown);
    net.silently_refuses("a", &udp_of([A, A], AB, [1, 2]), Reason::Hairpin);
    let reserved = Mac([1, 0x80, 0xc2, 0, 0, 0x0e]);
    net.silently_refuses("a", &udp_of([A, reserved], AB, [1, 2]), Reason::Reserved);
    net.silently_refuses("a", &sent[..10], Reason::Malformed);
    net.silently_refuses("a", &sent[..30], Reason::Malformed);
}

#[test]
fn who_names_anothers_address_is_refused() {
    let mut net = Net::new("");
    net.silently_refuses("a", &udp_of([C, B], AB, [1, 2]), Reason::Spoofed);
    net.silently_refuses("a", &udp_of([A, B], ["10.1.0.9", "10.1.0.2"], [1, 2]), Reason::Spoofed);
    // A machine that is no server, and one that is no router.
    let server = udp_of([A, B], AB, [67, 68]);
    net.silently_refuses("a", &server, Reason::Spoofed);
    let link_local = "fe80::ff:fe00:1";
    let advert = [134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    let ends = [link_local, "ff02::1"];
    let mut advert = frame([A, neighbor::group_mac(neighbor::ALL_NODES)], ends, 58, &advert);
    advert[21] = 255;
    net.silently_refuses("a", &summed(advert, 2, true), Reason::Spoofed);
    let open = "- {kind: LogicalPort, metadata: {name: o, tenant: t}, spec: {switch: lan, vif: {}, security: {mode: off}}}\n";
    let mut net = Net::new(&open.replace("mode: off", "mode: 'off'"));
    net.gets("o", &udp_of([C, B], ["10.9.0.1", "10.1.0.2"], [1, 2]), "b");
}

#[test]
fn neighbours_are_answered_at_the_source_and_probes_reach_only_other_owners() {
    let mut net = Net::new("");
    let ask = |from: &str, to: &str| arp::Frame::request((A, v4(from)), v4(to)).as_bytes().to_vec();
    let answer = net.refuses("a", &ask("10.1.0.1", "10.1.0.2"), Reason::Answered).unwrap();
    assert_eq!(arp::Packet::parse(&answer).unwrap().sender, B.0);
    let answer = net.refuses("a", &ask("10.1.0.1", "10.1.0.254"), Reason::Answered).unwrap();
    assert_eq!(arp::Packet::parse(&answer).unwrap().sender, LAN.0);
    // A probe for its own address is answered by nobody, and so is an announcement.
    for own in [ask("0.0.0.0", "10.1.0.1"), ask("10.1.0.1", "10.1.0.1")] {
        assert_eq!(net.send("a", &own).answers, []);
    }
    // A probe for another's address, or an announcement of it, is not its to send.
    for anothers in [ask("0.0.0.0", "10.1.0.2"), ask("10.1.0.2", "10.1.0.2")] {
        net.silently_refuses("a", &anothers, Reason::Spoofed);
    }
    // An unicast question goes to whom it asks.
    let mut unicast = ask("10.1.0.1", "10.1.0.2");
    unicast[..6].copy_from_slice(&B.0);
    net.gets("a", &unicast, "b");
}

#[test]
fn duplicate_address_detection_is_answered_by_nobody_but_another_owner() {
    let mut net = Net::new("");
    let probe = |target: Ipv6Addr| {
        let group = neighbor::solicited_node(target);
        let body = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets()].concat();
        let ends = ["::".to_string(), group.to_string()];
        let macs = [A, neighbor::group_mac(group)];
        let mut frame = frame(macs, [&ends[0], &ends[1]], 58, &body);
        frame[21] = 255;
        summed(frame, 2, true)
    };
    assert_eq!(net.send("a", &probe("fd01::1".parse().unwrap())).answers, []);
    let answer = net.refuses("a", &probe("fd01::2".parse().unwrap()), Reason::Answered).unwrap();
    let told = neighbor::Advertisement::parse(&answer).unwrap();
    assert!(!told.is_solicited && !told.is_router && told.mac == Some(B));
    let answer = net.refuses("a", &probe("fd01::fe".parse().unwrap()), Reason::Answered).unwrap();
    assert!(neighbor::Advertisement::parse(&answer).unwrap().is_router);
}

#[test]
fn only_what_was_asked_comes_back() {
    let closed = with_policy(
        "a",
        "defaultAction: drop, directions: [toPort],",
        "{name: out, direction: fromPort, action: allow}",
    );
    let mut net = Net::new(&[closed, only_web("b")].concat());
    // What nobody asked for.
    net.silently_refuses("b", &reply(), Reason::Policy);
    open(&mut net);
    net.gets("b", &reply(), "a");
    net.silently_refuses("a", &tcp_of([A, B], AB, [4001, 81], SYN, [1, 0]), Reason::Policy);
    net.silently_refuses("b", &tcp_of([B, A], BA, [81, 4000], SYN, [1, 0]), Reason::Policy);
    // In the middle of a connection that nobody began.
    net.silently_refuses("a", &tcp_of([A, B], AB, [9, 80], ACK, [1, 1]), Reason::Untracked);
}

#[test]
fn a_trace_changes_nothing_and_a_frame_decided_often_counts_once() {
    let net = Net::new(&only_web("b"));
    let first = net.ask("a", &syn());
    assert_eq!(net.ask("a", &syn()), first);
    assert_eq!(net.state, State::default());
    let by: Vec<_> = first.trace.iter().filter_map(|it| it.by.clone()).collect();
    assert_eq!(by, ["Policy/t/of-b/web"]);
}

#[test]
fn a_syn_that_the_receiver_refuses_leaves_nothing_for_replies() {
    let closed = "defaultAction: drop, directions: [toPort],";
    let a = with_policy("a", closed, "{name: out, direction: fromPort, action: allow}");
    let b = with_policy("b", closed, "");
    let mut net = Net::new(&[a, b].concat());
    for _ in 0..2 {
        net.silently_refuses("a", &syn(), Reason::Policy);
    }
    for flags in [ACK, SYN | ACK, RST] {
        let back = tcp_of([B, A], BA, [80, 4000], flags, [501, 101]);
        net.silently_refuses("b", &back, Reason::Policy);
    }
    assert_eq!(net.state, State::default());
}

#[test]
fn reject_tells_the_sender_once() {
    let mut net = Net::new(&policy(
        "b",
        "{name: no, direction: toPort, action: reject, services: [{protocol: tcp}, {protocol: udp}]}",
    ));
    let answer = net.refuses("a", &syn(), Reason::Rejected).unwrap();
    let told = ip(&answer).tcp.unwrap();
    // Sequence, payload and SYN are acknowledged.
    assert!(told.flags.contains(RST | ACK));
    assert_eq!((told.sequence.get(), told.acknowledgment.get()), (0, 101));
    let answer = net.refuses("a", &data(), Reason::Rejected).unwrap();
    assert_eq!(ip(&answer).tcp.unwrap().sequence.get(), 501);
    net.silently_refuses("a", &tcp_of([A, B], AB, [4000, 80], RST, [100, 0]), Reason::Rejected);
    let answer = net.refuses("a", &udp_of([A, B], AB, [1, 2]), Reason::Rejected).unwrap();
    assert_eq!((ip(&answer).icmp.unwrap().kind, ip(&answer).icmp.unwrap().code), (3, 3));
}

#[test]
fn nothing_answers_errors_groups_or_later_fragments() {
    let mut net =
        Net::new(&policy("b", "{name: no, direction: toPort, action: reject, ethertype: ip4}"));
    let quote = &udp_of([B, A], BA, [2, 1])[14..];
    net.silently_refuses("a", &error_about([A, B], AB, 3, quote), Reason::Rejected);
    let to_all = udp_of([A, Mac::BROADCAST], ["10.1.0.1", "255.255.255.255"], [1, 2]);
    let decision = net.send("a", &to_all);
    assert_eq!(decision.answers, []);
    // Of an expired packet: the first fragment is told of, later ones and errors are not.
    let mut old = udp_of([A, LAN], AC, [1, 2]);
    ttl(&mut old, 1);
    assert!(net.refuses("a", &old, Reason::TimeToLive).is_some());
    let mut old = error_about([A, LAN], AC, 3, quote);
    ttl(&mut old, 1);
    net.silently_refuses("a", &old, Reason::TimeToLive);
}

#[test]
fn a_rule_that_is_gone_no_longer_carries_its_connections_and_carries_them_again() {
    let out = policy("a", "{name: out, direction: fromPort, action: allow}");
    let both = [out.clone(), only_web("b")].concat();
    let shut = [out, with_policy("b", "defaultAction: drop, directions: [toPort],", "")].concat();
    let mut net = Net::new(&both);
    open(&mut net);
    net.change(&shut);
    net.silently_refuses("a", &data(), Reason::Policy);
    // A download has only replies: they stop as well.
    net.silently_refuses("b", &reply(), Reason::Revoked);
    net.change(&both);
    net.gets("b", &reply(), "a");
    net.gets("a", &data(), "b");
}

#[test]
fn what_a_persisting_rule_admitted_stays_until_the_rule_goes() {
    let persist = |rules: &str| {
        let more = "established: persist, defaultAction: drop, directions: [toPort],";
        with_policy("b", more, rules)
    };
    let rule = |port: u16| {
        format!(
            "{{name: web, direction: toPort, action: allow, services: [{{protocol: tcp, ports: [{port}]}}]}}"
        )
    };
    let mut net = Net::new(&persist(&rule(80)));
    open(&mut net);
    net.change(&persist(&rule(81)));
    net.gets("a", &data(), "b");
    net.gets("b", &reply(), "a");
    let new = tcp_of([A, B], AB, [4001, 80], SYN, [1, 0]);
    net.silently_refuses("a", &new, Reason::Policy);
    net.change(&persist(""));
    net.silently_refuses("a", &data(), Reason::Policy);
}

#[test]
fn an_unrelated_rule_changes_nothing_and_stateless_ones_keep_no_connections() {
    let rules = "{name: in, direction: toPort, action: allow, stateful: false, services: [{protocol: tcp, ports: [80]}]}";
    let closed = "defaultAction: drop,";
    let mut net = Net::new(&with_policy("b", closed, rules));
    net.gets("a", &data(), "b");
    // Its replies need a rule of their own.
    net.silently_refuses("b", &reply(), Reason::Policy);
    let id = &net.topology[net.port("b")].id;
    assert_eq!(net.state.connections(id, net.now), 0);
}

#[test]
fn resets_count_only_with_the_right_number_and_closed_ports_are_used_again() {
    let mut net = Net::new(&only_web("b"));
    open(&mut net);
    let reset = |sequence| tcp_of([A, B], AB, [4000, 80], RST, [sequence, 0]);
    net.silently_refuses("a", &reset(0x9000_0000), Reason::Untracked);
    // Within the window, but not exact: the receiver questions it, and the connection stands.
    net.gets("a", &reset(300), "b");
    net.gets("a", &data(), "b");
    net.gets("b", &reply(), "a");
    net.gets("a", &tcp_of([A, B], AB, [4000, 80], FIN | ACK, [101, 501]), "b");
    net.gets("b", &tcp_of([B, A], BA, [80, 4000], FIN | ACK, [501, 102]), "a");
    net.gets("a", &tcp_of([A, B], AB, [4000, 80], ACK, [102, 502]), "b");
    // Both ends have ended: the same ports begin anew.
    net.gets("a", &tcp_of([A, B], AB, [4000, 80], SYN, [9000, 0]), "b");
    net.gets("b", &tcp_of([B, A], BA, [80, 4000], SYN | ACK, [1, 9001]), "a");
}

#[test]
fn udp_is_established_by_a_reply_and_forgotten_in_time() {
    let closed = with_policy(
        "a",
        "defaultAction: drop, directions: [toPort],",
        "{name: out, direction: fromPort, action: allow}",
    );
    let (ask, answer) = (udp_of([A, B], AB, [1, 2]), udp_of([B, A], BA, [2, 1]));
    let mut net = Net::new(&closed);
    net.gets("a", &ask, "b");
    net.wait(31);
    net.silently_refuses("b", &answer, Reason::Policy);
    net.gets("a", &ask, "b");
    net.gets("b", &answer, "a");
    net.wait(170);
    net.gets("b", &answer, "a");
    net.wait(181);
    net.silently_refuses("b", &answer, Reason::Policy);
}

#[test]
fn errors_are_allowed_as_their_connection_is() {
    let closed = with_policy(
        "a",
        "defaultAction: drop, directions: [toPort],",
        "{name: out, direction: fromPort, action: allow}",
    );
    let mut net = Net::new(&closed);
    let ask = udp_of([A, B], AB, [1, 2]);
    net.gets("a", &ask, "b");
    // Quotes may be cut at eight bytes, and their lengths may lie.
    let quote = &ask[14..14 + 28];
    net.gets("b", &error_about([B, A], BA, 3, quote), "a");
    let strange = &udp_of([A, B], AB, [7, 8])[14..];
    net.silently_refuses("b", &error_about([B, A], BA, 3, strange), Reason::Policy);
    net.silently_refuses("b", &error_about([B, A], BA, 3, &quote[..20]), Reason::Policy);
    // Without a connection a stateful rule takes no error, a stateless one does.
    let rule = |stateful| {
        policy(
            "a",
            &format!(
                "{{name: icmp, direction: toPort, action: allow, stateful: {stateful}, services: [{{protocol: icmp}}]}}"
            ),
        )
    };
    let error = error_about([B, A], BA, 3, strange);
    Net::new(&rule(true)).silently_refuses("b", &error, Reason::Untracked);
    Net::new(&rule(false)).gets("b", &error, "a");
}

#[test]
fn who_has_too_many_connections_begins_none() {
    let quota =
        WORLD.replace("{name: t}, spec: {}", "{name: t}, spec: {quota: {connectionsPerPort: 1}}");
    let text = [&quota[..], &only_web("b")].concat();
    let mut net = Net::new("");
    net.topology = logical::load(&text).unwrap();
    open(&mut net);
    net.silently_refuses(
        "a",
        &tcp_of([A, B], AB, [4001, 80], SYN, [1, 0]),
        Reason::ConnectionsFull,
    );
    net.gets("b", &reply(), "a");
    // One that nobody has answered makes room.
    let mut net = Net { topology: net.topology, state: State::default(), now: net.now };
    net.gets("a", &syn(), "b");
    net.gets("a", &tcp_of([A, B], AB, [4001, 80], SYN, [1, 0]), "b");
}

#[test]
fn tiers_decide_in_turn() {
    let tier = |tier: &str, name: &str, tenant: &str, action: &str| {
        format!(
            "- {{kind: Policy, metadata: {{name: {name}{tenant}}}, spec: {{tier: {tier}, appliesTo: {{selector: {{}}}}, \
             rules: [{{name: r, direction: toPort, action: {action}}}]}}}}\n"
        )
    };
    let first = |action| tier("operatorFirst", "first", "", action);
    let own = |action| tier("tenant", "own", ", tenant: t", action);
    let last = |action| tier("operatorLast", "last", "", action);
    let sent = udp_of([A, B], AB, [1, 2]);
    Net::new(&[first("drop"), own("allow")].concat()).silently_refuses("a", &sent, Reason::Policy);
    Net::new(&[first("allow"), own("drop")].concat()).gets("a", &sent, "b");
    Net::new(&[first("pass"), own("allow"), last("drop")].concat()).gets("a", &sent, "b");
    Net::new(&[own("pass"), last("drop")].concat()).silently_refuses("a", &sent, Reason::Policy);
    Net::new(&[first("pass"), own("pass")].concat()).gets("a", &sent, "b");
}

#[test]
fn a_tiers_levels_decide_in_turn() {
    let level = |level: u8, action: &str| {
        format!(
            "- {{kind: Policy, metadata: {{name: l{level}, tenant: t}}, spec: {{level: {level}, appliesTo: {{ports: [b]}}, \
             rules: [{{name: r, direction: toPort, action: {action}, priority: {level}}}]}}}}\n"
        )
    };
    let sent = udp_of([A, B], AB, [1, 2]);
    let all = |actions: [&str; 4]| -> Net {
        let levels = (0..).zip(actions).filter(|(_, action)| !action.is_empty());
        Net::new(&levels.map(|(number, action)| level(number, action)).collect::<String>())
    };
    all(["allow", "drop", "", ""]).gets("a", &sent, "b");
    all(["pass", "drop", "allow", ""]).silently_refuses("a", &sent, Reason::Policy);
    all(["pass", "pass", "pass", "drop"]).silently_refuses("a", &sent, Reason::Policy);
    all(["", "pass", "", "pass"]).gets("a", &sent, "b");
    // What a level isolates is not asked of the next.
    let first = with_policy("b", "defaultAction: drop,", "");
    let net = [first, level(1, "allow")].concat();
    Net::new(&net).silently_refuses("a", &sent, Reason::Policy);
}

#[test]
fn what_may_be_named_can_be_all_others_than_the_ports_own() {
    let port = |security: &str| {
        format!(
            "- {{kind: LogicalPort, metadata: {{name: o, tenant: t}}, spec: {{switch: lan, vif: {{}}, \
             mac: '02:00:00:00:00:07', addresses: [10.1.0.7], security: {{{security}}}}}}}\n"
        )
    };
    let own = Mac([2, 0, 0, 0, 0, 7]);
    let from = |mac, address| udp_of([mac, B], [address, "10.1.0.2"], [1, 2]);
    let to = |address| udp_of([B, own], ["10.1.0.2", address], [1, 2]);
    let listed = "own: false, allowed: [{mac: '02:00:00:00:00:07', prefixes: [10.1.0.8/24]}, {mac: '02:00:00:00:00:08'}]";
    let mut net = Net::new(&port(listed));
    net.silently_refuses("o", &from(own, "10.1.0.7"), Reason::Spoofed);
    net.silently_refuses("o", &from(own, "10.1.0.9"), Reason::Spoofed);
    net.gets("o", &from(own, "10.1.0.8"), "b");
    net.gets("o", &from(Mac([2, 0, 0, 0, 0, 8]), "10.9.9.9"), "b");
    net.silently_refuses("b", &to("10.1.0.7"), Reason::NotItsAddress);
    net.gets("b", &to("10.1.0.255"), "o");
    let mut net = Net::new(&port("own: false, allowed: [{mac: '02:00:00:00:00:08'}]"));
    net.silently_refuses("o", &from(own, "10.1.0.7"), Reason::Spoofed);
}

#[test]
fn peers_are_known_by_their_port_and_defaults_leave_neighbours_alone() {
    let rule = "{name: from-a, direction: toPort, action: allow, peer: {ports: [a]}}";
    let mut net = Net::new(&with_policy("b", "defaultAction: drop,", rule));
    net.gets("a", &udp_of([A, B], AB, [1, 2]), "b");
    net.silently_refuses("c", &udp_of([C, WAN], ["10.2.0.3", "10.1.0.2"], [1, 2]), Reason::Policy);
    let mut ask = arp::Frame::request((B, v4("10.1.0.2")), v4("10.1.0.1")).as_bytes().to_vec();
    ask[..6].copy_from_slice(&A.0);
    net.gets("b", &ask, "a");
    let no_arp = policy("b", "{name: no, direction: fromPort, action: drop, ethertype: arp}");
    Net::new(&no_arp).silently_refuses("b", &ask, Reason::Policy);
}

#[test]
fn groups_are_never_established() {
    let out = policy("a", "{name: out, direction: fromPort, action: allow}");
    let mut net = Net::new(&out);
    let group = Mac([1, 0, 0x5e, 0, 0, 9]);
    let decision = net.send("a", &udp_of([A, group], ["10.1.0.1", "239.0.0.9"], [1, 2]));
    assert_eq!(decision.delivered.len(), 1);
    assert_eq!(net.state.connections(&net.topology[net.port("a")].id, net.now), 0);
}

#[test]
fn a_router_takes_one_hop_and_answers_for_itself() {
    let mut net = Net::new("");
    let got = net.gets("a", &udp_of([A, LAN], AC, [1, 2]), "c");
    assert_eq!(ip(&got).ttl, 63);
    assert_eq!(&got[..12], [C.0, WAN.0].concat());
    for (ends, kind) in [(["10.1.0.1", "10.2.0.254"], 8), (["fd01::1", "fd01::fe"], 128)] {
        let mut ping = echo([A, LAN], ends, kind);
        // Who is reached needs no hop more.
        if kind == 8 {
            ttl(&mut ping, 1);
        }
        let answer = net.refuses("a", &ping, Reason::ToRouter).unwrap();
        assert_eq!(ip(&answer).tuple.source.0.to_string(), ends[1]);
        assert!(matches!(ip(&answer).icmp.unwrap().kind, 0 | 129));
    }
    let answer =
        net.refuses("a", &udp_of([A, LAN], ["10.1.0.1", "10.1.0.254"], [1, 2]), Reason::ToRouter);
    assert_eq!(ip(&answer.unwrap()).icmp.unwrap().code, 3);
    let answer = net.refuses(
        "a",
        &tcp_of([A, LAN], ["10.1.0.1", "10.1.0.254"], [1, 2], SYN, [7, 0]),
        Reason::ToRouter,
    );
    assert_eq!(ip(&answer.unwrap()).tcp.unwrap().acknowledgment.get(), 8);
    let mut old = udp_of([A, LAN], AC, [1, 2]);
    ttl(&mut old, 1);
    let answer = net.refuses("a", &old, Reason::TimeToLive).unwrap();
    assert_eq!(
        (ip(&answer).icmp.unwrap().kind, ip(&answer).tuple.source.0),
        (11, v4("10.1.0.254").into())
    );
    assert_eq!(ip(&answer).icmp.unwrap().quoted, Some(ip(&old).tuple));
}

#[test]
fn what_is_too_long_is_told_with_the_mtu() {
    let mut net = Net::new("");
    let body = alloc::vec![0; 1401 - 20];
    let answer = net.refuses("a", &frame([A, LAN], AC, 253, &body), Reason::TooLong).unwrap();
    let message = &answer[34..];
    assert_eq!(icmp::FragmentationNeeded::parse(message).unwrap().0.mtu.get(), 1400);
    let ends = ["fd01::1", "fd02::3"];
    let answer = net.refuses("a", &frame([A, LAN], ends, 253, &body), Reason::TooLong).unwrap();
    assert_eq!(icmp::PacketTooBig::parse(&answer[54..]).unwrap().0.mtu.get(), 1400);
    net.gets("a", &frame([A, LAN], AC, 253, &body[1..]), "c");
}

#[test]
fn routes_are_asked_for_the_longest_prefix() {
    let routed = WORLD.replace("{name: r, tenant: t}, spec: {}", "{name: r, tenant: t}, spec: {routes: [
        {prefix: 0.0.0.0/0, nextHop: 10.2.0.3}, {prefix: 10.9.0.0/16, discard: true},
        {prefix: 10.9.8.0/24, nextHop: 10.2.0.3, distance: 2}, {prefix: 10.9.9.0/24, discard: true, reject: true}],
        policies: [{name: none, priority: 1, match: {destination: {prefixes: [10.7.0.0/16]}}, action: drop}]}");
    let mut net = Net::new("");
    net.silently_refuses(
        "a",
        &udp_of([A, LAN], ["10.1.0.1", "127.0.0.1"], [1, 2]),
        Reason::NotForRouter,
    );
    let answer =
        net.refuses("a", &udp_of([A, LAN], ["10.1.0.1", "10.8.0.1"], [1, 2]), Reason::NoRoute);
    assert_eq!(ip(&answer.unwrap()).icmp.unwrap().code, 0);
    let answer =
        net.refuses("a", &udp_of([A, LAN], ["10.1.0.1", "10.2.0.77"], [1, 2]), Reason::Unresolved);
    assert_eq!(ip(&answer.unwrap()).icmp.unwrap().code, 1);
    // `c` forwards for others.
    let routed = routed.replace(
        "addresses: [10.2.0.3, 'fd02::3']",
        "addresses: [10.2.0.3, 'fd02::3'], security: {mode: mac}",
    );
    net.topology = logical::load(&routed).unwrap();
    let to = |address: &str| udp_of([A, LAN], ["10.1.0.1", address], [1, 2]);
    net.gets("a", &to("10.8.0.1"), "c");
    net.gets("a", &to("10.9.8.1"), "c");
    net.silently_refuses("a", &to("10.9.0.1"), Reason::Discarded);
    assert!(net.refuses("a", &to("10.9.9.1"), Reason::Discarded).is_some());
    net.silently_refuses("a", &to("10.7.0.1"), Reason::Policy);
}

#[test]
fn sources_are_translated_and_replies_come_back() {
    let mut net = Net::new(SNAT);
    let got = net.gets("a", &udp_of([A, LAN], AC, [4000, 53]), "c");
    assert_eq!(ip(&got).tuple.source, (v4("10.2.0.100").into(), 4000));
    // The same port of another machine is another port outside.
    let got = net.gets("b", &udp_of([B, LAN], ["10.1.0.2", "10.2.0.3"], [4000, 53]), "c");
    assert_eq!(ip(&got).tuple.source, (v4("10.2.0.100").into(), 4001));
    let got = net.gets("c", &udp_of([C, WAN], ["10.2.0.3", "10.2.0.100"], [53, 4001]), "b");
    assert_eq!(ip(&got).tuple.destination, (v4("10.1.0.2").into(), 4000));
    // Nobody asked for this.
    let stray = udp_of([C, WAN], ["10.2.0.3", "10.2.0.100"], [53, 9]);
    assert_eq!(net.send("c", &stray).delivered, []);
    // A router in the way says that the reply's sender is not there: un-NATed, quote and all.
    let sent = udp_of([WAN, C], ["10.2.0.100", "10.2.0.3"], [4001, 53]);
    let error = error_about([C, WAN], ["10.2.0.3", "10.2.0.100"], 3, &sent[14..]);
    let got = net.gets("c", &error, "b");
    let quoted = ip(&got).icmp.unwrap().quoted.unwrap();
    assert_eq!(quoted.source, (v4("10.1.0.2").into(), 4000));
    assert!(is_right_quote(&got));
}

/// Whether a quoted IPv4 header's checksum is right, and its UDP's.
fn is_right_quote(frame: &[u8]) -> bool {
    let quote = [&frame[..14], &frame[42..]].concat();
    wire::whole::fault(&quote).is_none()
}

#[test]
fn what_has_no_checksum_has_none_behind_translation() {
    let mut net = Net::new(SNAT);
    let mut sent = udp_of([A, LAN], AC, [4000, 53]);
    sent[40..42].fill(0);
    let got = net.gets("a", &sent, "c");
    assert_eq!(got[40..42], [0, 0]);
}

#[test]
fn no_port_of_an_address_serves_two_flows() {
    let mut net = Net::new(&SNAT.replace("kind: snat,", "kind: snat, externalPorts: 5000-5001,"));
    for port in [1, 2] {
        net.gets("a", &udp_of([A, LAN], AC, [port, 53]), "c");
    }
    net.silently_refuses("a", &udp_of([A, LAN], AC, [3, 53]), Reason::NatFull);
    // Those that have one keep it.
    net.gets("a", &udp_of([A, LAN], AC, [1, 53]), "c");
}

#[test]
fn floating_addresses_go_both_ways() {
    let mut net = Net::new(&[FLOATING, SNAT].concat());
    let got = net.gets("c", &udp_of([C, WAN], ["10.2.0.3", "10.2.0.101"], [1, 2]), "a");
    assert_eq!(ip(&got).tuple.destination.0, v4("10.1.0.1"));
    let got = net.gets("a", &udp_of([A, LAN], AC, [2, 1]), "c");
    assert_eq!(ip(&got).tuple.source.0, v4("10.2.0.101"));
    // Whoever asks outside is answered by the router.
    let ask = arp::Frame::request((C, v4("10.2.0.3")), v4("10.2.0.101"));
    let answer = net.refuses("c", ask.as_bytes(), Reason::Answered).unwrap();
    assert_eq!(arp::Packet::parse(&answer).unwrap().sender, WAN.0);
}

#[test]
fn from_inside_an_external_address_is_reached_and_answers() {
    let mut net = Net::new(DNAT);
    let open = tcp_of([A, LAN], ["10.1.0.1", "10.2.0.102"], [4000, 8080], SYN, [1, 0]);
    let got = net.gets("a", &open, "b");
    let tuple = ip(&got).tuple;
    assert_eq!(
        (tuple.source.0, tuple.destination),
        (v4("10.2.0.102").into(), (v4("10.1.0.2").into(), 80))
    );
    let ends = ["10.1.0.2", "10.2.0.102"];
    let answer = tcp_of([B, LAN], ends, [80, tuple.source.1], SYN | ACK, [9, 2]);
    let got = net.gets("b", &answer, "a");
    assert_eq!(ip(&got).tuple.source, (v4("10.2.0.102").into(), 8080));
    assert_eq!(ip(&got).tuple.destination, (v4("10.1.0.1").into(), 4000));
}

#[test]
fn a_load_balancer_chooses_and_its_answers_come_from_its_address() {
    let lb = "- {kind: LoadBalancer, metadata: {name: lb, tenant: t}, spec: {vip: 10.3.0.1, port: 80, protocol: tcp, backends: [{logicalPort: c, port: 8080}], attach: [{switch: lan}]}}\n";
    let mut net = Net::new(lb);
    let open = tcp_of([A, LAN], ["10.1.0.1", "10.3.0.1"], [4000, 80], SYN, [1, 0]);
    let got = net.gets("a", &open, "c");
    assert_eq!(ip(&got).tuple.destination, (v4("10.2.0.3").into(), 8080));
    let answer = tcp_of([C, WAN], ["10.2.0.3", "10.1.0.1"], [8080, 4000], SYN | ACK, [9, 2]);
    let got = net.gets("c", &answer, "a");
    assert_eq!(ip(&got).tuple.source, (v4("10.3.0.1").into(), 80));
    let nobody =
        lb.replace("{logicalPort: c, port: 8080}", "").replace("attach", "reject: true, attach");
    let answer = Net::new(&nobody).refuses("a", &open, Reason::NoBackend);
    assert!(ip(&answer.unwrap()).tcp.unwrap().flags.contains(RST));
}

#[test]
fn later_fragments_follow_the_first() {
    let mut net = Net::new(&policy(
        "b",
        "{name: no, direction: toPort, action: drop, services: [{protocol: udp, ports: [9]}]}",
    ));
    let fragment = |port: u16, offset: u16, more: bool| {
        let mut whole = udp_of([A, B], AB, [1, port]);
        let bits = (offset / 8) | if more { 0x2000 } else { 0 };
        whole[18..20].copy_from_slice(&port.to_be_bytes());
        whole[20..22].copy_from_slice(&bits.to_be_bytes());
        ttl(&mut whole, 64);
        whole
    };
    net.silently_refuses("a", &fragment(2, 16, false), Reason::Fragment);
    net.gets("a", &fragment(2, 0, true), "b");
    net.gets("a", &fragment(2, 16, false), "b");
    net.silently_refuses("a", &fragment(9, 0, true), Reason::Policy);
    net.silently_refuses("a", &fragment(9, 16, false), Reason::Policy);
    // A first fragment that is too short to have ports.
    let mut tiny = fragment(3, 0, true)[..38].to_vec();
    tiny[16..18].copy_from_slice(&24u16.to_be_bytes());
    ttl(&mut tiny, 64);
    net.silently_refuses("a", &tiny, Reason::Malformed);
}

#[test]
fn equal_tenants_do_not_meet() {
    let twin = WORLD.replace("tenant: t}", "tenant: u}").replace("{name: t}", "{name: u}");
    let pool = twin.lines().find(|line| line.contains("ExternalPool")).unwrap().to_string();
    let twin = twin.replace(&pool, "");
    let text = [WORLD, &twin].concat();
    let mut net = Net::new("");
    net.topology = logical::load(&text).unwrap_or_else(|faults| panic!("{faults:#?}"));
    net.gets("a", &udp_of([A, B], AB, [1, 2]), "b");
    net.gets("a", &udp_of([A, LAN], AC, [1, 2]), "c");
    let everybody = net.send("a", &udp_of([A, Mac::BROADCAST], ["10.1.0.1", "10.1.0.255"], [1, 2]));
    assert!(everybody.delivered.iter().all(|it| it.port == net.port("b")));
}

#[test]
fn children_are_behind_their_parents_tags() {
    let child = "- {kind: LogicalPort, metadata: {name: k, tenant: t}, spec: {switch: lan, child: {parent: c, vlan: 7}, mac: '02:00:00:00:00:07', addresses: [10.1.0.7]}}\n";
    let mut net = Net::new(child);
    let own = udp_of([Mac([2, 0, 0, 0, 0, 7]), B], ["10.1.0.7", "10.1.0.2"], [1, 2]);
    let got = net.gets("c", &tagged(&own, 7), "b");
    assert_eq!(got, own);
    net.silently_refuses("c", &tagged(&own, 8), Reason::Vlan);
    let back = udp_of([B, Mac([2, 0, 0, 0, 0, 7])], ["10.1.0.2", "10.1.0.7"], [2, 1]);
    assert_eq!(net.gets("b", &back, "k"), tagged(&back, 7));
}

proptest::proptest! {
    /// No frame makes it panic, and what it makes of one is read again.
    #[test]
    fn any_frame_is_decided(
        mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
        kind in 0..4usize,
        to in 0..3usize,
    ) {
        let net = Net::new(&[SNAT, FLOATING, DNAT, &only_web("b")].concat());
        if let Some(head) = bytes.get_mut(..14) {
            head[..6].copy_from_slice(&[B, LAN, Mac::BROADCAST][to].0);
            head[6..12].copy_from_slice(&A.0);
            let kinds = [ethertype::IPV4, ethertype::IPV6, ethertype::ARP, ethertype::VLAN];
            head[12..].copy_from_slice(&kinds[kind].to_be_bytes());
        }
        let arrival = Arrival { port: net.port("a"), node: None, frame: &bytes };
        let _ = decide(&net.topology, &net.state, net.now, arrival);
    }

    /// A good frame of which some bytes are changed neither.
    #[test]
    fn any_damage_is_decided(at in 12..60usize, byte: u8, which in 0..4usize) {
        let net = Net::new(&[SNAT, FLOATING, DNAT].concat());
        let quote = udp_of([A, B], AC, [1, 2]);
        let mut frame = match which {
            0 => udp_of([A, LAN], AC, [1, 2]),
            1 => tcp_of([A, LAN], AC, [1, 2], SYN, [1, 0]),
            2 => error_about([A, LAN], AC, 3, &quote[14..]),
            _ => echo([A, LAN], ["fd01::1", "fd02::3"], 128),
        };
        if let Some(place) = frame.get_mut(at) {
            *place = byte;
        }
        let arrival = Arrival { port: net.port("a"), node: None, frame: &frame };
        let _ = decide(&net.topology, &net.state, net.now, arrival);
    }
}
