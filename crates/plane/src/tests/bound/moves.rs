//! Frames for a port that moves.

use wire::tcp::Flags;

use super::*;

/// A machine of each of three hosts that sends, and one that is now here and now there.
const ROAMING: &str = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/24]}}
- {kind: LogicalPort, metadata: {name: a, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:01', addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: b, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:02', addresses: [10.0.0.2]}}
- {kind: LogicalPort, metadata: {name: c, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:03', addresses: [10.0.0.3]}}
- {kind: LogicalPort, metadata: {name: m, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:09', addresses: [10.0.0.9]}}
";

/// A datagram of one of the three for the one that moves.
fn numbered(from: u8, number: u32) -> Vec<u8> {
    let body = [&[0, 9, 0, 9, 0, 12, 0, 0][..], &u32::to_be_bytes(number)].concat();
    let source = [10, 0, 0, 1 + from].into();
    let ip = wire::ipv4::Header::new(source, [10, 0, 0, 9].into(), 17, body.len());
    let mac = |last| Mac([2, 0, 0, 0, 0, last]);
    let ethernet = ethernet::Header::new(mac(9), mac(1 + from), ethernet::ethertype::IPV4);
    [ethernet.as_bytes(), ip.unwrap().as_bytes(), &body].concat()
}

/// Hosts learn one after the other where a machine is, while others send to it. It goes as soon as
/// its host knows, and may be back before others do. It gets each frame once, and those of a sender
/// in order.
fn roams(seed: u64) -> u64 {
    let mut now = Instant::from_nanos(1_000_000_000);
    let topology = logical::load(ROAMING).unwrap();
    let memory = MemoryConfig { slots: 6, slot_size: 4096 };
    let mut hosts = Hosts::new(&topology, 3, memory);
    let names: Vec<Identity> = hosts.ends.keys().cloned().collect();
    let [senders @ .., roaming] = &names[..] else { panic!("there are four") };
    assert_eq!(hosts.ends[roaming].host, 0);
    for host in 1..3 {
        let end = hosts.attach(now, host, roaming, memory);
        hosts.beside.push((roaming.clone(), end));
    }
    hosts.realize(&topology);
    let mut rng = Rng::new(seed);
    let (mut sent, mut got) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
    let take = |hosts: &mut Hosts, most, got: &mut Vec<Vec<u32>>| {
        let end = &mut hosts.ends.get_mut(roaming).unwrap().machine;
        end.receive(most, |view| {
            let number = u32::from_be_bytes(*view.bytes.last_chunk().unwrap());
            got[usize::from(view.bytes[11]) - 1].push(number);
        })
    };
    let mut behind = BTreeSet::new();
    for number in 0..400 {
        now += Span::from_micros(rng.below(2000));
        match rng.below(16) {
            0..=7 => {
                let from = rng.below(3) as usize;
                let frame = numbered(from as u8, number);
                if hosts.ends.get_mut(&senders[from]).unwrap().machine.send(&frame).is_ok() {
                    sent[from].push(number);
                }
            }
            8..=11 => {
                let plane = &mut hosts.planes[rng.below(3) as usize];
                plane.mark_all_rx_ready();
                plane.peers_mut().unwrap().0.patience = rng.below(4) as u32;
                plane.handle_peer_timeouts(now);
                plane.turn(now);
            }
            12 => drop(take(&mut hosts, 1 + rng.below(3) as usize, &mut got)),
            13 if !behind.contains(&hosts.ends[roaming].host) => {
                // What it has in its memory goes with it.
                while take(&mut hosts, 64, &mut got) > 0 {}
                let old = hosts.ends[roaming].host;
                hosts.go(roaming, (old + 1 + rng.below(2) as usize) % 3);
                behind = (0..3).filter(|host| *host != old).collect();
                hosts.realize_at(old, &topology);
            }
            _ => {
                let host = rng.below(3) as usize;
                if behind.remove(&host) {
                    hosts.realize_at(host, &topology);
                }
            }
        }
    }
    behind.into_iter().for_each(|host| hosts.realize_at(host, &topology));
    let mut idle = 0;
    while idle < 20 {
        now += Span::from_millis(5);
        hosts.planes.iter_mut().for_each(|plane| plane.handle_peer_timeouts(now));
        hosts.settle(now);
        idle = if take(&mut hosts, 64, &mut got) > 0 { 0 } else { idle + 1 };
    }
    assert_eq!(got, sent, "{seed}");
    hosts.assert_balanced();
    for plane in &hosts.planes {
        let total = plane.switch().total();
        let others = total.refusals().filter(|(reason, _)| *reason != lossless::Reason::Moved);
        assert_eq!(others.collect::<Vec<_>>(), [], "{seed}");
    }
    hosts.planes.iter().map(|plane| plane.returned()).sum()
}

#[test]
fn a_machine_that_moves_gets_each_frame_once_and_in_order() {
    let returned: u64 = (0..300).map(roams).sum();
    assert!(returned > 300, "{returned}");
}

/// A port that nobody takes frames at, although it is said to be there, counts as stalled.
#[test]
fn what_comes_back_for_too_long_is_refused() {
    let mut now = Instant::from_nanos(1_000_000_000);
    let topology = logical::load(ROAMING).unwrap();
    let mut hosts = Hosts::new(&topology, 3, MEMORY);
    let names: Vec<Identity> = hosts.ends.keys().cloned().collect();
    let (a, roaming) = (&names[0], &names[3]);
    let new = hosts.attach(now, 1, roaming, MEMORY);
    hosts.beside.push((roaming.clone(), new));
    // Its sender's host is told where it is to be, and that host is not.
    hosts.go(roaming, 1);
    hosts.realize_at(0, &topology);
    hosts.offer(a, &numbered(0, 1));
    let refused = |hosts: &Hosts| {
        let total = hosts.planes[0].switch().total();
        total.refusals().collect::<Vec<_>>()
    };
    let mut tries = 0;
    while refused(&hosts).is_empty() {
        hosts.planes[0].handle_peer_timeouts(now);
        hosts.settle(now);
        tries += 1;
        now = hosts.planes[0].peer_deadline().unwrap_or(now + Span::from_secs(20));
        assert!(tries < 10_000);
    }
    assert_eq!(refused(&hosts), [(lossless::Reason::StalledReceiver, 1)]);
    assert!(tries > 100 && hosts.planes[0].returned() > 100, "{tries}");
    hosts.assert_balanced();
}

/// Of what was for a port at a host that is lost, what had not been sent goes where the port is.
#[test]
fn what_waits_for_a_lost_host_goes_where_its_port_is() {
    let now = Instant::from_nanos(1_000_000_000);
    let topology = logical::load(ROAMING).unwrap();
    let mut hosts = Hosts::new(&topology, 3, MEMORY);
    let names: Vec<Identity> = hosts.ends.keys().cloned().collect();
    let (sender, roaming) = (&names[2], &names[3]);
    assert_eq!([hosts.ends[sender].host, hosts.ends[roaming].host], [2, 0]);
    let new = hosts.attach(now, 1, roaming, MEMORY);
    hosts.beside.push((roaming.clone(), new));
    for number in 0..5 {
        if number == 2 {
            hosts.go(roaming, 1);
            (1..3).for_each(|host| hosts.realize_at(host, &topology));
        }
        hosts.offer(sender, &numbered(2, number));
        hosts.planes[2].turn(now);
    }
    // Host 0 has taken nothing by now.
    let accepted = hosts.planes[2].switch().total().accepted;
    let peer = Peer::new(0).unwrap();
    hosts.planes[2].peers_mut().unwrap().0.lose(peer);
    let got = hosts.turn(now);
    let expected = (2..5).map(|number| (roaming.clone(), numbered(2, number)));
    assert_eq!(got, expected.collect::<Vec<_>>());
    let total = hosts.planes[2].switch().total();
    assert_eq!(total.refusals().collect::<Vec<_>>(), [(lossless::Reason::StalledReceiver, 2)]);
    assert!(total.accepted >= accepted);
    hosts.assert_balanced();
}

/// A segment between `c` and the one that moves: from which, its number and what it acknowledges.
fn segment(from: u8, [sequence, acknowledgment]: [u32; 2], flags: Flags, len: usize) -> Vec<u8> {
    let to = if from == 3 { 9 } else { 3 };
    let mut header = wire::tcp::Header::new(9, 9, sequence, flags);
    (header.acknowledgment, header.window) = (acknowledgment.into(), 0xffff.into());
    let body = [header.as_bytes(), &vec![7; len]].concat();
    let ip = wire::ipv4::Header::new([10, 0, 0, from].into(), [10, 0, 0, to].into(), 6, body.len());
    let mac = |last| Mac([2, 0, 0, 0, 0, last]);
    let ethernet = ethernet::Header::new(mac(to), mac(from), ethernet::ethertype::IPV4);
    [ethernet.as_bytes(), ip.unwrap().as_bytes(), &body].concat()
}

/// What waits at the old host when connections are handed over leaves after that, and is answered
/// where the port is by then.
#[test]
fn what_answers_a_frame_that_waited_at_the_old_host_is_of_its_connection() {
    let now = Instant::from_nanos(1_000_000_000);
    let followed = FOLLOWED.replace("ports: [b]", "ports: [m]");
    let topology = logical::load(&[ROAMING, &followed].concat()).unwrap();
    let mut hosts = Hosts::new(&topology, 3, MEMORY);
    let names: Vec<Identity> = hosts.ends.keys().cloned().collect();
    let (c, roaming) = (&names[2], &names[3]);
    assert_eq!([hosts.ends[c].host, hosts.ends[roaming].host], [2, 0]);
    let new = hosts.attach(now, 1, roaming, MEMORY);
    hosts.beside.push((roaming.clone(), new));
    hosts.realize(&topology);
    let passes = |hosts: &mut Hosts, from: &Identity, to: &Identity, frame: Vec<u8>| {
        hosts.offer(from, &frame);
        assert_eq!(hosts.turn(now), [(to.clone(), frame)]);
    };
    passes(&mut hosts, c, roaming, segment(3, [100, 0], Flags::SYN, 0));
    passes(&mut hosts, roaming, c, segment(9, [500, 101], Flags::SYN | Flags::ACK, 0));
    passes(&mut hosts, c, roaming, segment(3, [101, 501], Flags::ACK, 0));
    let exactly = hosts.planes[0].logical().unwrap().hand_over(roaming, now);
    assert_eq!(hosts.planes[0].hand_over(roaming, now), exactly, "nothing waits");

    let waits = segment(9, [501, 101], Flags::ACK, 30);
    hosts.offer(roaming, &waits);
    hosts.planes[0].peers_mut().unwrap().0.patience = 0;
    hosts.planes[0].turn(now);
    assert_eq!(hosts.held(), 1);
    let handed = hosts.planes[0].hand_over(roaming, now).unwrap();
    let taken = hosts.planes[1].logical_mut().unwrap().take_over(roaming, &handed, now);
    assert_eq!(taken, Some(Ok(0)));
    hosts.go(roaming, 1);
    hosts.realize(&topology);
    assert_eq!(hosts.turn(now), [(c.clone(), waits)]);
    passes(&mut hosts, c, roaming, segment(3, [101, 531], Flags::ACK, 0));
    hosts.assert_balanced();
}
