//! What two trunks promise together, whatever the fabric between them does.

mod world;

use std::net::Ipv4Addr;

use datapath::Origin;
use lossless::Refusal;
use proptest::collection::vec;
use proptest::prelude::*;
use tunnel::message::Message;
use tunnel::{MAX_FRAME_LEN, SessionConfig};
use units::{ClassSet, Mac, Span};
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::tcp::{self, Flags};
use wire::{Offload, PartialChecksum, Segment, SegmentKind, ipv4};
use zerocopy::IntoBytes;

use self::world::{FLOWS, Fabric, Had, Offer, World};
use crate::slots::Counts;

/// A session that sends again what was lost.
pub fn session() -> SessionConfig {
    SessionConfig {
        unsolicited: 3000,
        is_granted: false,
        stream_window: 1 << 20,
        max_in_flight: 1 << 20,
        max_frames: 400,
        max_streams: 8,
        datagram: 1400,
        reliable: ClassSet::ALL,
        credit: ClassSet::ALL,
    }
}

/// A large segment with so many bytes of payload, and what is left to do for it.
pub fn large(len: usize, traffic_class: u8) -> (Vec<u8>, Offload) {
    let mut frame =
        ethernet::Header::new(Mac::local(1), Mac::local(2), ethertype::IPV4).as_bytes().to_vec();
    let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut ip = ipv4::Header::new(from, to, protocol::TCP, tcp::Header::LEN + len).unwrap();
    ip.set_traffic_class(traffic_class);
    frame.extend_from_slice(ip.as_bytes());
    let start = frame.len() as u16;
    frame.extend_from_slice(tcp::Header::new(1, 2, 3, Flags::ACK).as_bytes());
    frame.extend((0..len).map(|at| (at ^ at >> 8) as u8));
    wire::cut::restore(&mut frame, Flags::ACK).expect("it is TCP");
    let segment = Segment {
        kind: SegmentKind::Tcp4,
        ecn: false,
        header_len: start + tcp::Header::LEN as u16,
        size: 1000,
    };
    let checksum = PartialChecksum { start, offset: tcp::Header::CHECKSUM_OFFSET };
    (frame, Offload { checksum: Some(checksum), segment: Some(segment), data_valid: false })
}

/// Memory for so many frames of each size: more than there are.
const ENOUGH: Counts = [1 << 10, 128, 128];

fn fabric() -> impl Strategy<Value = Fabric> {
    (0..300_u64, 0..200_u64, 0..500_u64, 0..50_u64)
        .prop_map(|(lost, repeated, late, marked)| Fabric { lost, repeated, late, marked })
}

fn offer() -> impl Strategy<Value = Offer> {
    prop_oneof![
        3 => (1..1300_usize).prop_map(Offer::Small),
        1 => (1000..6000_usize).prop_map(Offer::Burst),
        1 => (1..10_000_usize).prop_map(Offer::Large),
        1 => (10_000..65_000_usize).prop_map(Offer::Large),
        1 => (1300..10_000_usize).prop_map(Offer::Long),
    ]
}

/// By which flow, from which port, what.
fn offers() -> impl Strategy<Value = Vec<(usize, usize, Offer)>> {
    vec((0..FLOWS, 0..2_usize, offer()), 1..30)
}

fn most() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1450_usize), Just(8900)]
}

fn window() -> impl Strategy<Value = u32> {
    prop_oneof![Just(MAX_FRAME_LEN), Just(1 << 20)]
}

/// A world in which all this was offered.
fn world(
    place: u8,
    (seed, fabric, most, window): (u64, Fabric, usize, u32),
    frames: Counts,
    offers: &[(usize, usize, Offer)],
) -> World {
    let mut world = World::new(place, seed, fabric, most, window, frames);
    offers.iter().for_each(|(flow, port, offer)| world.offer(*flow, *port, *offer));
    world
}

fn how() -> impl Strategy<Value = (u64, Fabric, usize, u32)> {
    (any::<u64>(), fabric(), most(), window())
}

/// Every frame of every flow came once and in order, and its sender heard so.
fn is_all_there(world: &World) -> bool {
    let [had] = &world.had[..] else { panic!("there was one incarnation") };
    had.iter().zip(&world.offered).zip(&world.completed).all(|((had, offered), completed)| {
        let all = 0..offered.len();
        had.polled.iter().copied().eq(all.clone())
            && completed.iter().map(|(at, missed)| (*at, *missed)).eq(all.map(|at| (at, None)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn frames_come_whole_and_once_and_in_order(how in how(), offers in offers()) {
        if !needs::root() {
            return Ok(());
        }
        let mut world = world(1, how, ENOUGH, &offers);
        world.run();
        prop_assert!(is_all_there(&world), "{:?} {:?} {:?} {:?}", world.had, world.completed, world.counters(), world.cut);
    }

    /// What says where frames of logical networks came from comes with each, whatever becomes of
    /// their packets; who rejects one has its sender told; and what comes early waits.
    #[test]
    fn frames_of_logical_networks_come_with_their_origin_and_go_back_when_they_are_rejected(
        how in how(),
        offers in offers(),
        (label, generation, is_networks, opens) in
            (any::<u32>(), 2..1000_u32, any::<bool>(), any::<bool>()),
        rejects in 0..5_usize,
        is_behind: bool,
    ) {
        if !needs::root() {
            return Ok(());
        }
        let mut world = World::new(31, how.0, how.1, how.2, how.3, ENOUGH);
        world.logical = Some(Origin { label, is_networks, opens, is_anew: false, generation, routers: 3 });
        world.rejects = rejects;
        world.know(1, !is_behind);
        offers.iter().for_each(|(flow, port, offer)| world.offer(*flow, *port, *offer));
        if is_behind {
            world.run_for(Span::from_millis(40));
            let is_any_polled = world.had[0].iter().any(|had| !had.polled.is_empty());
            prop_assert!(!is_any_polled && world.early() > 0 || how.1.lost > 0);
            world.know(u64::from(generation), true);
        }
        world.run();
        for (flow, completed) in world.completed.iter().enumerate() {
            prop_assert_eq!(completed.len(), world.offered[flow].len());
            let had: Vec<_> = completed.keys().copied().collect();
            prop_assert_eq!(&world.had[0][flow].polled, &had);
            for (number, missed) in completed {
                let rejected = world.rejected.contains(&(flow, *number));
                prop_assert_eq!(*missed, rejected.then_some(Refusal::REJECTED));
            }
        }
    }

    /// Frames whose receiver is not there go back, and are sent again: each is taken once.
    #[test]
    fn frames_whose_receiver_has_gone_come_again(how in how(), offers in offers()) {
        if !needs::root() {
            return Ok(());
        }
        let mut world = World::new(32, how.0, how.1, how.2, how.3, ENOUGH);
        world.logical = Some(Origin { label: 7, ..Origin::default() });
        world.know(1, true);
        world.roams = true;
        offers.iter().for_each(|(flow, port, offer)| world.offer(*flow, *port, *offer));
        world.run();
        for (flow, completed) in world.completed.iter().enumerate() {
            let mut taken = world.had[0][flow].taken.to_vec();
            taken.sort_unstable();
            prop_assert!(taken.into_iter().eq(0..world.offered[flow].len()));
            prop_assert!(completed.len() == world.offered[flow].len());
            prop_assert!(completed.values().all(Option::is_none));
        }
    }

    /// Flows that wait for a small window go on by what their trunk says, and by nothing else.
    #[test]
    fn what_waits_for_the_window_goes_on(how in how(), offers in vec((0..FLOWS, 0..2_usize, offer()), 30..80)) {
        if !needs::root() {
            return Ok(());
        }
        let (seed, fabric, most, window) = how;
        let session = SessionConfig {
            stream_window: window,
            datagram: most as u32,
            max_in_flight: 20_000,
            ..session()
        };
        let mut world = World::of(24, seed, fabric, session, ENOUGH);
        offers.iter().for_each(|(flow, port, offer)| world.offer(*flow, *port, *offer));
        world.run();
        prop_assert!(is_all_there(&world));
    }

    #[test]
    fn what_cards_cut_is_had_again_at_once(
        seed: u64,
        late in prop_oneof![Just(0_u64), Just(200)],
        marked in prop_oneof![Just(0_u64), Just(100)],
        lens in vec(2000..62_000_usize, 20..40),
    ) {
        if !needs::root() {
            return Ok(());
        }
        let fabric = Fabric { late, marked, ..Fabric::default() };
        let mut world = World::new(21, seed, fabric, 1450, 1 << 20, ENOUGH);
        world.traffic_class = 2;
        lens.iter().for_each(|len| world.offer(0, 0, Offer::Large(*len)));
        world.run();
        prop_assert!(is_all_there(&world));
        // Of so many packets some were marked, and of frames that have many of them more than some.
        prop_assert_eq!(world.came_marked > 0, marked > 0);
        if late + marked == 0 {
            prop_assert!(world.cut > 0 && world.counters()[0].retransmitted == 0);
        }
    }

    #[test]
    fn what_was_not_taken_is_sent_to_the_next_incarnation(
        how in how(), offers in offers(), polled in 0..40_usize, leaves: bool,
    ) {
        if !needs::root() {
            return Ok(());
        }
        let mut world = world(2, how, ENOUGH, &offers);
        world.run_until_polled(polled);
        world.restart(leaves);
        world.run();
        let [first, second] = &world.had[..] else { panic!("there were two incarnations") };
        for ((first, second), offered) in first.iter().zip(second).zip(&world.offered) {
            prop_assert!(first.polled.iter().copied().eq(0..first.polled.len()));
            let missed = (0..offered.len()).find(|number| !first.taken.contains(number));
            let again = second.polled.first().copied().unwrap_or(offered.len());
            prop_assert!(again <= missed.unwrap_or(offered.len()));
            prop_assert!(second.polled.iter().copied().eq(again..offered.len()));
        }
        for (completed, offered) in world.completed.iter().zip(&world.offered) {
            prop_assert!(completed.len() == offered.len() && completed.values().all(Option::is_none));
        }
    }

    #[test]
    fn a_sender_that_goes_takes_nothing_of_others_with_it(how in how(), offers in offers(), polled in 0..40_usize) {
        if !needs::root() {
            return Ok(());
        }
        let mut world = world(3, how, ENOUGH, &offers);
        world.run_until_polled(polled);
        world.forget(1);
        world.run();
        let stays = world.ports[0];
        for (flow, Had { polled, .. }) in world.had[0].iter().enumerate() {
            let is_stays = |number: &usize| world.offered[flow][*number] == stays;
            prop_assert!(polled.is_sorted_by(|a, b| a < b));
            let all = (0..world.offered[flow].len()).filter(is_stays);
            prop_assert!(polled.iter().copied().filter(is_stays).eq(all.clone()));
            let completed = &world.completed[flow];
            prop_assert!(all.clone().all(|number| completed.get(&number) == Some(&None)));
        }
    }

    #[test]
    fn what_does_not_fit_into_a_datagram_any_more_comes_in_parts(
        how in how(), offers in offers(), polled in 0..40_usize, other in 600..1400_usize, longer: bool,
    ) {
        if !needs::root() {
            return Ok(());
        }
        let mut world = world(4, how, ENOUGH, &offers);
        world.run_until_polled(polled);
        world.limit_datagrams(other);
        if longer {
            world.run_until_polled(polled * 2);
            world.limit_datagrams(8900);
        }
        world.run();
        prop_assert!(is_all_there(&world), "{:?} {:?}", world.had, world.completed);
    }

    #[test]
    fn a_receiver_without_memory_has_all_once_there_is_some(how in how(), lens in vec(1000..65_000_usize, 48)) {
        if !needs::root() {
            return Ok(());
        }
        let offers = lens.iter().enumerate().map(|(place, len)| match place % 4 {
            0 => (place % FLOWS, 0, Offer::Burst(*len)),
            _ => (place % FLOWS, 0, Offer::Large(*len)),
        });
        let (seed, fabric, most, _) = how;
        let mut world = world(5, (seed, fabric, most, 1 << 20), [32, 16, 16], &offers.collect::<Vec<_>>());
        world.is_stopped = true;
        world.run_for(Span::from_secs(30));
        let [_, receiver] = world.counters();
        prop_assert!(receiver.nacked > 0);
        world.is_stopped = false;
        world.run();
        prop_assert!(is_all_there(&world));
    }
}

/// What it holds of memory, when it takes nothing, others do without: frames that are so short, or
/// so few bytes too long, that they need far more memory than they have bytes; and short ones that
/// are joined.
#[test]
fn a_receiver_that_takes_nothing_leaves_memory_to_others() {
    if !needs::root() {
        return;
    }
    for (place, offer) in [(7, Offer::Small(1)), (8, Offer::Small(2000)), (9, Offer::Burst(1010))] {
        let mut world = World::new(place, 1, Fabric::default(), 8900, 1 << 20, [128, 64, 64]);
        world.stalled = Some(1);
        for _ in 0..150 {
            world.offer(1, 0, offer);
            world.run_for(Span::from_millis(2));
        }
        (0..300).for_each(|number| world.offer(number % 2 * 2, 0, Offer::Small(3000)));
        world.run_for(Span::from_secs(1));
        assert_eq!([0, 2].map(|flow| world.completed[flow].len()), [150; 2], "{offer:?}");
        let [sender, receiver] = world.counters();
        assert!(receiver.nacked > 0 && sender.lost == 0, "{offer:?}: {sender:?}, {receiver:?}");
        world.run_for(Span::from_secs(1));
        assert_eq!(
            world.counters()[0].retransmitted,
            sender.retransmitted,
            "{offer:?}: what finds no memory goes round"
        );
        world.stalled = None;
        // Who waits for memory is told when there is some, and not when it asks.
        world.run_for(Span::from_millis(3));
        assert!(is_all_there(&world), "{offer:?}");
        world.run();
    }
}

/// So it is with one of whose class nothing comes again.
#[test]
fn a_receiver_of_what_is_not_repaired_leaves_memory_to_what_is() {
    if !needs::root() {
        return;
    }
    let session = SessionConfig { reliable: ClassSet::from_bits(0b110), ..session() };
    let mut world = World::of(10, 1, Fabric::default(), session, [128, 64, 64]);
    world.stalled = Some(0);
    (0..120).for_each(|_| world.offer(0, 0, Offer::Small(1)));
    world.run_for(Span::from_millis(200));
    let [_, receiver] = world.counters();
    assert_eq!(receiver.no_memory, 120 - 86, "eight ninths of three quarters are its network's");
    (0..300).for_each(|number| world.offer(1 + number % 2, 0, Offer::Small(1)));
    world.run_for(Span::from_secs(1));
    assert_eq!([1, 2].map(|flow| world.completed[flow].len()), [150; 2]);
    let [sender, _] = world.counters();
    world.run_for(Span::from_secs(1));
    assert_eq!(
        world.counters()[0].retransmitted,
        sender.retransmitted,
        "what finds no memory goes round"
    );
}

/// What is taken for lost may have arrived: then nothing is in flight, and no report will come that
/// opens the window. A flow that asked before that was known goes on all the same.
#[test]
fn flows_go_on_although_nothing_that_counted_as_lost_is_sent_again() {
    if !needs::root() {
        return;
    }
    let session = SessionConfig { max_in_flight: 20_000, ..session() };
    for turns in 1..40 {
        let mut world = World::of(25, 1, Fabric::default(), session, ENOUGH);
        // The handshake.
        world.offer(0, 0, Offer::Small(100));
        world.run();
        (0..20).for_each(|_| world.offer(0, 0, Offer::Large(5000)));
        world.run_for(Span::from_micros(10 * turns));
        world.change_path_in_vain();
        world.offer(1, 0, Offer::Small(100));
        world.run();
        assert!(is_all_there(&world));
    }
}

#[test]
fn who_leaves_is_followed_by_what_it_has_not_taken() {
    if !needs::root() {
        return;
    }
    let mut world = World::new(6, 1, Fabric::default(), 1450, 1 << 20, ENOUGH);
    (0..40).for_each(|number| world.offer(number % FLOWS, 0, Offer::Large(5000)));
    world.run_until_polled(20);
    world.restart(true);
    world.run();
    for (flow, offered) in world.offered.iter().enumerate() {
        let [first, second] = [0, 1].map(|incarnation| &world.had[incarnation][flow]);
        let missed = (0..offered.len()).find(|number| !first.taken.contains(number));
        assert_eq!(second.polled.first().copied(), missed);
    }
}

#[test]
fn a_report_rides_with_what_answers_or_goes_a_turn_later() {
    if !needs::root() {
        return;
    }
    // So many answers, how long, and whether links pause; how many of them go without the report,
    // and whether it goes by itself.
    let cases = [
        (0, 0, false, 0, true),
        (1, 100, false, 0, false),
        (2, 100, false, 1, false),
        (1, 1300, false, 1, true),
        (1, 100, true, 1, true),
    ];
    for (place, (answers, len, pauses, without, is_alone)) in (11..).zip(cases) {
        let mut world = World::new(place, 1, Fabric::default(), 1450, 1 << 20, ENOUGH);
        world.offer(0, 0, Offer::Small(100));
        world.run();
        world.offer(0, 0, Offer::Small(100));
        if pauses {
            world.obey_pauses();
        }
        let said = world.answer(answers, len);
        let (plain, reports): (Vec<_>, Vec<_>) =
            said.into_iter().partition(|message| matches!(message, Message::Data(_, None)));
        assert_eq!(plain.len(), without);
        let report = match &reports[..] {
            [Message::Report(report)] if is_alone => report,
            [Message::Data(_, Some(report))] if !is_alone => report,
            _ => panic!("{answers} answers: {reports:?}"),
        };
        let [room] = &report.grants[..] else { panic!("{report:?}") };
        assert_eq!((&report.came[..], room.consumed), (&[[0, 1]][..], 2 * 154));
    }
}
