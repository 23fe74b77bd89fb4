//! The fabric's promises, one by one, where what must come out is plain to see.

use fabric::{DropReason, InvalidConfig, PortFault, Sent, mark};
use lossless::Reason;
use wire::ecn::Ecn;
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::{ipv4, pause};

use super::*;
use crate::world::bytes;

fn ns(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

/// A host of which everybody knows where it is.
fn introduced(config: fabric::Config) -> World {
    let mut world = World::new(config);
    (0..world.config.ports.len()).for_each(|host| world.queue(host, None, 0, 60));
    world.run_all();
    world.received.clear();
    world
}

fn dropped(world: &World, host: usize, pcp: u8, reason: DropReason) -> u64 {
    world.fabric.counters(host, Class::from_low_bits(pcp)).dropped(reason).frames
}

/// A packet of the first host to the second, without a tag.
fn packet(traffic_class: u8) -> Vec<u8> {
    let ip =
        ipv4::Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol::UDP, 966).unwrap();
    let ethernet = ethernet::Header::new(mac(1), mac(0), ethertype::IPV4);
    let mut frame = [ethernet.as_bytes(), ip.with_traffic_class(traffic_class).as_bytes()].concat();
    frame.resize(1000, 0);
    frame
}

#[test]
fn a_frame_takes_its_length_and_the_delay_on_each_link() {
    let mut config = config(2, ClassKind::Lossy);
    config.ports[1].link =
        Link { rate: Rate::from_gbit(1), delay: Span::from_micros(3), ..Link::default() };
    let mut world = introduced(config);
    let begun = world.now;
    (0..3).for_each(|_| world.queue(0, Some(1), 0, 1514));
    world.run_all();
    let took: Vec<_> = world.received.iter().map(|it| it.at.since(begun).as_nanos()).collect();
    // 1,538 bytes at 10 Gb/s, 500 ns, the same bytes at 1 Gb/s, 3 µs; the others follow at 1 Gb/s.
    assert_eq!(took, [1230 + 500 + 12_304 + 3000, 17_034 + 12_304, 17_034 + 2 * 12_304]);
}

#[test]
fn a_lossy_class_drops_what_its_inputs_buffer_has_no_room_for() {
    let mut config = config(2, ClassKind::Lossy);
    config.ports[1].link.rate = Rate::from_gbit(1);
    config.ports[0].buffer.frames = 10;
    let mut world = introduced(config);
    (0..40).for_each(|_| world.queue(0, Some(1), 0, 1514));
    world.run_all();
    // 40 frames come in while 4 leave; one more is in the transmitter.
    let full = dropped(&world, 0, 0, DropReason::Refused(Reason::Full));
    assert_eq!((world.received.len() as u64 + full, full), (40, 26));
}

#[test]
fn lossy_classes_share_what_they_are_left() {
    let mut config = config(3, ClassKind::Lossy);
    config.shared = bytes(15_140);
    config.ports[2].link.rate = Rate::from_gbit(1);
    let mut world = introduced(config);
    (0..40).for_each(|number| world.queue(number % 2, Some(2), 0, 1514));
    world.run_all();
    let full = |host| dropped(&world, host, 0, DropReason::Refused(Reason::Full));
    assert_eq!(world.received.len() as u64 + full(0) + full(1), 40);
    assert!(full(0) + full(1) >= 40 - 10 - 4);
}

#[test]
fn who_does_not_obey_its_pauses_loses_what_headroom_cannot_hold() {
    let mut world = introduced(config(2, ClassKind::Lossless));
    world.say(1, pause::Frame::new(mac(1), u16::MAX).as_bytes());
    world.run(world.now + Span::from_micros(10));
    let header = ethernet::Header::new(mac(1), mac(0), ethertype::ARP);
    let mut frame = header.as_bytes().to_vec();
    frame.resize(1514, 0);
    let mut room = 0;
    for _ in 0..100 {
        room += u64::from(world.fabric.has_room(0));
        world.say(0, &frame);
    }
    world.run(world.now + Span::from_millis(1));
    let counters = world.fabric.counters(0, Class::default());
    assert_eq!((counters.pauses_sent, counters.held.frames), (1, 140_000 / 1514));
    assert_eq!(counters.dropped(DropReason::Overrun).frames, 100 - 140_000 / 1514);
    // Who heeds the backstop loses nothing.
    assert_eq!(room, 140_000 / 1514);
}

#[test]
fn a_host_pauses_exactly_the_classes_it_names_for_exactly_its_quanta() {
    let mut world = introduced(config(2, ClassKind::Lossless));
    let mut told = ClassMap([None; 8]);
    told.0[5] = Some(1000);
    world.say(1, pfc::Frame::new(mac(1), &told).as_bytes());
    // 84 bytes at 10 Gb/s and the delay.
    world.run(world.now + Span::from_nanos(67 + 500));
    let begun = world.now;
    world.queue(0, Some(1), 5, 1514);
    world.queue(0, Some(1), 3, 1514);
    world.run_all();
    let got: Vec<_> = world
        .received
        .iter()
        .map(|it| (it.frame.class.pcp(), it.at.since(begun).as_nanos()))
        .collect();
    // 1,000 quanta are 51.2 µs. Class 3 is behind class 5 on its way to the switch, or before it,
    // and waits for nothing there.
    assert_eq!(got[1], (5, 51_200 + 1230 + 500));
    assert!(got[0].0 == 3 && got[0].1 <= 3 * 1231 + 2 * 500, "{got:?}");
    assert_eq!(world.fabric.counters(1, Class::from_low_bits(5)).pauses_obeyed, 1);
}

#[test]
fn a_packet_without_a_tag_is_paused_as_the_class_of_its_code_point() {
    let mut config = config(2, ClassKind::Lossless);
    config.dscp = Some(ClassMap::from_fn(|class| Dscp::new(8 * class.pcp()).unwrap()));
    config.ports[0].class = Class::from_low_bits(1);
    let mut world = introduced(config);
    let mut told = ClassMap([None; 8]);
    told.0[3] = Some(1000);
    world.say(1, pfc::Frame::new(mac(1), &told).as_bytes());
    world.run(world.now + Span::from_micros(10));
    let [of_three, of_two, of_none] = [24, 16, 25].map(|dscp| packet(dscp << 2 | Ecn::Ect0 as u8));
    [&of_three, &of_two, &of_none].into_iter().for_each(|frame| world.say(0, frame));
    // A tag says more than a code point.
    world.queue(0, Some(1), 5, 1000);
    world.run(world.now + Span::from_micros(10));
    let counted = |world: &World, class| {
        let counters = world.fabric.counters(0, Class::from_low_bits(class));
        (counters.passed.frames, counters.held.frames)
    };
    let classes = [1, 2, 3, 5];
    assert_eq!(classes.map(|class| counted(&world, class)), [(1, 0), (1, 0), (0, 1), (1, 0)]);
    world.run_all();
    assert_eq!(counted(&world, 3), (1, 0));
}

#[test]
fn a_pause_is_renewed_while_it_is_needed_and_ended_when_it_is_not() {
    let mut world = introduced(config(2, ClassKind::Lossless));
    let quiet = |world: &mut World, quanta| {
        world.say(1, pause::Frame::new(mac(1), quanta).as_bytes());
        world.run(world.now + Span::from_millis(2));
    };
    (0..200).for_each(|_| world.queue(0, Some(1), 0, 1514));
    (0..5).for_each(|_| quiet(&mut world, u16::MAX));
    let paused = world.fabric.counters(0, Class::default()).pauses_sent;
    // Some 10 ms, and each pause is of 3.36 ms, renewed after half.
    assert!((5..8).contains(&paused), "{paused}");
    assert_eq!(world.received.len(), 0);
    let begun = world.now;
    quiet(&mut world, 0);
    world.run_all();
    assert_eq!(world.received.len(), 200);
    let took = world.received[199].at.since(begun);
    assert!(took < Span::from_micros(300), "its end was told, not waited for: {took}");
}

#[test]
fn what_leaves_before_a_long_queue_is_marked_if_its_transport_reacts() {
    let mut config = config(2, ClassKind::Lossy);
    config.ecn = bytes(3 * 1000);
    config.ports[1].link.rate = Rate::from_gbit(1);
    let mut world = introduced(config);
    let packet = |ecn: Ecn| packet(ecn as u8);
    for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::NotEct, Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ect0] {
        world.say(0, &packet(ecn));
    }
    world.run_all();
    // The first leaves before the others have come. Behind the second to the fourth wait five, four
    // and three.
    let marked: Vec<_> = world.received.iter().map(|it| it.mark).collect();
    assert_eq!(marked, [false, true, false, true, false, false, false]);
    assert_eq!(world.fabric.counters(1, Class::default()).marked, 2);

    let mut frame = packet(Ecn::Ect0);
    mark(&mut frame);
    assert_eq!(frame, packet(Ecn::Ce));
    let mut other = vec![7; 60];
    mark(&mut other);
    assert_eq!(other, [7; 60]);
}

#[test]
fn a_seed_loses_the_same_frames_again() {
    let run = |seed| {
        let mut config = config(2, ClassKind::Lossless);
        (config.loss, config.seed) = (0.1, seed);
        let mut world = World::new(config);
        (0..1000).for_each(|_| world.queue(0, Some(1), 0, 100));
        world.run_all();
        let lost = dropped(&world, 0, 0, DropReason::Random);
        assert_eq!(world.received.len() as u64 + lost, 1000);
        world.received.iter().map(|it| it.frame.number).collect::<Vec<_>>()
    };
    let (one, again, other) = (run(1), run(1), run(2));
    assert_eq!(one, again);
    assert_ne!(one, other);
    // A hundred, and five standard deviations of 9.5.
    assert!((850..950).contains(&one.len()), "{}", one.len());
}

#[test]
fn addresses_are_learned_and_what_is_unknown_goes_to_everybody_else() {
    let mut world = World::new(config(3, ClassKind::Lossless));
    let mut send = |from, to| {
        world.received.clear();
        world.queue(from, Some(to), 0, 60);
        world.run_all();
        world.received.iter().map(|it| it.host).collect::<Vec<_>>()
    };
    assert_eq!(send(0, 1), [1, 2]);
    assert_eq!(send(1, 0), [0]);
    assert_eq!(send(0, 1), [1]);
    assert_eq!(world.fabric.counters(0, Class::default()).passed.frames, 2);
}

#[test]
fn a_host_that_pauses_for_good_costs_refusals_by_name() {
    let mut config = config(2, ClassKind::Lossless);
    config.stall_after = Span::from_millis(10);
    let mut world = introduced(config);
    for _ in 0..200 {
        world.say(1, pause::Frame::new(mac(1), u16::MAX).as_bytes());
        world.queue(0, Some(1), 0, 1514);
        world.run(world.now + Span::from_millis(1));
    }
    assert!(dropped(&world, 0, 0, DropReason::Refused(Reason::StalledReceiver)) > 90);
    assert_eq!(world.received.len(), 0);
}

#[test]
fn what_a_host_does_not_take_and_what_is_no_frame_is_counted() {
    let mut world = introduced(config(2, ClassKind::Lossless));
    world.say(0, &[1, 2, 3]);
    let header = ethernet::Header::new(mac(1), mac(0), ethertype::ARP);
    world.say(0, header.as_bytes());
    let later = world.now + Span::from_millis(1);
    world.fabric.run(later);
    world.fabric.deliver(later, |_, _| false);
    assert_eq!(dropped(&world, 0, 0, DropReason::Refused(Reason::Malformed)), 1);
    assert_eq!(dropped(&world, 0, 0, DropReason::Untaken), 1);
    assert!(world.fabric.balances());
}

#[test]
fn a_large_segment_counts_what_it_stands_for() {
    let mut world = introduced(config(2, ClassKind::Lossy));
    let begun = world.now;
    let head = ethernet::Header::new(mac(1), mac(0), ethertype::ARP);
    let handle =
        world::Frame { number: 0, from: 0, to: Some(1), class: Class::default(), len: 15_140 };
    let sent = Sent { handle, head: head.as_bytes(), len: 14_600, frames: 10, bytes: 15_140 };
    world.fabric.send(begun, 0, sent);
    world.run_all();
    assert_eq!(world.received[0].at, ns(begun.as_nanos() + 2 * (12_304 + 500)));
    let [came, went] = [0, 1].map(|host| *world.fabric.counters(host, Class::default()));
    assert_eq!((came.passed.frames - 1, went.sent.frames - 1), (10, 10));
}

#[test]
fn what_cannot_be_is_named() {
    let fault = |change: fn(&mut fabric::Config)| {
        let mut config = config(2, ClassKind::Lossless);
        change(&mut config);
        config.check().unwrap_err()
    };
    assert_eq!(fault(|it| it.loss = f64::NAN).to_string().split(':').next(), Some("`loss` is NaN"));
    assert_eq!(fault(|it| it.ports = vec![it.ports[0]; 1025]), InvalidConfig::TooManyPorts(1025));
    let of_second = |fault| InvalidConfig::Port { port: 1, fault };
    assert_eq!(
        fault(|it| it.ports[1].buffer.bytes.0 = 1000),
        of_second(PortFault::Buffer(LONGEST))
    );
    let far = fault(|it| it.ports[1].link.delay = Span::from_millis(1));
    let InvalidConfig::Port { port: 1, fault: PortFault::Headroom(needed) } = far else {
        panic!("{far}")
    };
    let mut config = config(2, ClassKind::Lossless);
    config.ports[1].link.delay = Span::from_millis(1);
    config.ports[1].buffer.bytes = Bytes(needed);
    assert_eq!(config.check(), Ok(()));
    config.pfc.expiry = Some(Span::from_micros(1));
    let short = config.check().unwrap_err();
    assert!(
        matches!(short, InvalidConfig::Port { port: 0, fault: PortFault::Expiry { .. } }),
        "{short}"
    );
}
