//! What routers know of their neighbours, and what they do about them.

use alloc::format;
use core::net::Ipv4Addr;

use logical::objects::Kind;
use packet::neighbours::{MOST_ASKED, MOST_ASKED_EACH, MOST_HELD, MOST_HELD_OF_ONE, MOST_SEEN};
use units::Class;

use super::*;
use crate::onward::Onward;

fn id(kind: Kind, name: &str) -> Identity {
    Identity { kind, tenant: None, name: name.parse().unwrap() }
}

fn router() -> Identity {
    id(Kind::LogicalRouter, "r")
}

fn neighbour(number: u32) -> Neighbour {
    (id(Kind::RouterPort, "out"), Ipv4Addr::from_bits(0xc000_0200 + number).into())
}

fn port(number: usize) -> Identity {
    id(Kind::LogicalPort, &format!("p{number}"))
}

fn held(number: u32, by: &Identity) -> Held {
    let frame = number.to_be_bytes().to_vec();
    let (to, origin) = (id(Kind::RouterPort, "in"), Some(by.clone()));
    let onward = Onward { to, origin, is_networks: false, routers: 0, frame };
    Held { onward, class: Class::default() }
}

/// A packet of a port is for a neighbour. Whether it is held.
fn need(all: &mut Neighbours, number: u32, by: usize, now: Instant) -> bool {
    let (router, neighbour, by) = (router(), neighbour(number), port(by));
    let known = all.get(&router, &neighbour, Some(&by));
    let has_room = known == Known::Nothing { has_room: true };
    let held = has_room.then(|| held(number, &by));
    all.note(&router, &neighbour, About::Needed(Some(by), held), now);
    has_room
}

/// What is due, as far as there is room for so many frames. Each question goes out of one port.
fn take(all: &mut Neighbours, now: Instant, room: usize) -> Vec<Due> {
    all.take_due(now, Room { frames: room, copies: room }, |_| 1)
}

fn questions(due: &[Due]) -> usize {
    due.iter().filter(|it| matches!(it, Due::Ask { .. })).count()
}

fn packets(due: &[Due]) -> Vec<u32> {
    let packet = |it: &Due| match it {
        Due::GoOn(held) => Some(u32::from_be_bytes(*held.onward.frame.first_chunk()?)),
        Due::Ask { .. } => None,
    };
    due.iter().filter_map(packet).collect()
}

const NOW: Instant = Instant::ZERO;

#[test]
fn who_scans_a_subnet_leaves_room_for_others() {
    let mut all = Neighbours::default();
    for number in 0..1000 {
        need(&mut all, number, 0, NOW);
    }
    assert_eq!(questions(&take(&mut all, NOW, 10)), 10, "no more than there is room for");
    assert_eq!(questions(&take(&mut all, NOW, 1000)), MOST_ASKED_EACH - 10);
    for by in 1..9 {
        for number in 0..1000 {
            need(&mut all, 1000 * by + number, by as usize, NOW);
        }
    }
    assert_eq!(questions(&take(&mut all, NOW, 1000)), MOST_ASKED - MOST_ASKED_EACH);
    // All were asked in vain: any of them gives way.
    let now = NOW + Span::from_secs(4);
    (1..5).for_each(|second| drop(take(&mut all, NOW + Span::from_secs(second), usize::MAX)));
    assert_eq!(all.get(&router(), &neighbour(0), None), Known::Silent);
    assert!(need(&mut all, 20_000, 9, now));
    assert_eq!(questions(&take(&mut all, now, 1000)), 1);
    assert_ne!(all.get(&router(), &neighbour(0), None), Known::Silent);
    assert_eq!(all.tables[&router()].all.len(), MOST_ASKED);
}

#[test]
fn what_goes_on_is_held_until_there_is_room_for_it() {
    let mut all = Neighbours::default();
    let most = MOST_HELD as u32;
    let taken = (0..2 * most).filter(|it| need(&mut all, *it, (*it % 8) as usize, NOW)).count();
    assert_eq!(taken, MOST_HELD);
    let mac = Mac([2, 0, 0, 0, 0, 7]);
    for number in 0..most {
        let about = About::Heard { seen: (mac, port(0)), overrides: true };
        all.note(&router(), &neighbour(number), about, NOW);
    }
    assert!(!need(&mut all, 3 * most, 0, NOW), "nothing has left");
    assert_eq!(packets(&take(&mut all, NOW, 10)), Vec::from_iter(0..10));
    assert_eq!((all.next(0), all.next(1)), (None, Some(Instant::ZERO)));
    let more = |it: &u32| need(&mut all, 4 * most + it, (*it % 8) as usize, NOW);
    assert_eq!((0..40).filter(more).count(), 10);
    let rest = packets(&take(&mut all, NOW, 100));
    assert_eq!(rest, Vec::from_iter(10..most));
}

#[test]
fn one_port_has_a_part_of_what_is_held() {
    let mut all = Neighbours::default();
    let held = |all: &mut Neighbours, from: u32, by| {
        (from..from + 40).filter(|it| need(all, *it, by, NOW)).count()
    };
    assert_eq!(held(&mut all, 0, 0), MOST_HELD_OF_ONE);
    assert_eq!(held(&mut all, 100, 1), MOST_HELD_OF_ONE);
}

#[test]
fn questions_take_no_room_of_what_was_held() {
    let mut all = Neighbours::default();
    assert!(need(&mut all, 0, 0, NOW) && need(&mut all, 1, 0, NOW));
    let about = About::Heard { seen: (Mac([2; 6]), port(0)), overrides: true };
    all.note(&router(), &neighbour(0), about, NOW);
    assert!(matches!(take(&mut all, NOW, 1)[..], [Due::GoOn(_)]));
    assert!(matches!(take(&mut all, NOW, 1)[..], [Due::Ask { .. }]));
}

#[test]
fn what_a_router_held_that_is_elsewhere_now_goes_on() {
    let mut all = Neighbours::default();
    assert!(need(&mut all, 1, 0, NOW) && need(&mut all, 2, 0, NOW));
    let about = About::Heard { seen: (Mac([2; 6]), port(0)), overrides: true };
    all.note(&router(), &neighbour(2), about, NOW);
    all.retain(|_| false);
    assert_eq!(packets(&take(&mut all, NOW, 1)), [2]);
    assert_eq!(packets(&take(&mut all, NOW, 1)), [1]);
    assert_eq!(all.next(1), None);
}

#[test]
fn who_was_heard_longest_ago_is_forgotten_first() {
    let mut all = Neighbours::default();
    let about = || About::Heard { seen: (Mac([2; 6]), port(0)), overrides: true };
    let at = |second: u32| NOW + Span::from_secs(u64::from(second));
    let most = MOST_SEEN as u32;
    all.note(&router(), &neighbour(0), about(), at(0));
    // It is being probed, longer than others are reachable.
    all.note(&router(), &neighbour(0), About::Needed(None, None), at(31));
    for number in 1..=most {
        all.note(&router(), &neighbour(number), About::Needed(None, None), at(31));
        all.note(&router(), &neighbour(number), about(), at(31));
    }
    assert!(!all.has(&router(), &neighbour(0)) && all.has(&router(), &neighbour(1)));
}

#[test]
fn a_neighbour_whose_port_is_gone_is_asked_for_anew() {
    let mut all = Neighbours::default();
    let about = About::Heard { seen: (Mac([2; 6]), port(0)), overrides: true };
    all.note(&router(), &neighbour(0), about, NOW);
    all.note(&router(), &neighbour(0), About::Lost, NOW);
    assert!(need(&mut all, 0, 0, NOW));
    assert_eq!(questions(&take(&mut all, NOW, 1)), 1);
}

fn heard() -> About {
    About::Heard { seen: (Mac([2; 6]), port(0)), overrides: true }
}

#[test]
fn strangers_take_no_place_of_a_neighbour_that_packets_are_for() {
    let mut all = Neighbours::default();
    let at = |second: usize| NOW + Span::from_secs(second as u64);
    // One that was asked for, and one that told of itself before a packet was for it.
    assert!(need(&mut all, 0, 0, NOW));
    (0..2).for_each(|it| all.note(&router(), &neighbour(it), heard(), NOW));
    assert!(all.is_news(&router(), &neighbour(1), NOW));
    assert!(!need(&mut all, 1, 0, NOW) && !all.is_news(&router(), &neighbour(1), NOW));
    for number in 2..3 * MOST_SEEN {
        all.note(&router(), &neighbour(number as u32), heard(), at(number / 100));
    }
    assert_eq!(all.tables[&router()].all.len(), MOST_SEEN);
    assert!([0, 1].iter().all(|it| all.has(&router(), &neighbour(*it))));
    assert!(!all.has(&router(), &neighbour(2)), "the one that was heard longest ago");
    assert!(all.has(&router(), &neighbour(3 * MOST_SEEN as u32 - 1)));
}

#[test]
fn where_packets_are_for_all_a_stranger_is_not_remembered_and_one_more_of_them_is() {
    let mut all = Neighbours::default();
    let most = MOST_SEEN as u32;
    for number in 0..most {
        all.note(&router(), &neighbour(number), heard(), NOW);
        need(&mut all, number, 0, NOW);
    }
    let now = NOW + Span::from_secs(1);
    all.note(&router(), &neighbour(most), heard(), now);
    assert!(!all.has(&router(), &neighbour(most)) && all.has(&router(), &neighbour(0)));
    assert!(need(&mut all, most, 0, now), "it is asked");
    all.note(&router(), &neighbour(most), heard(), now);
    let known = all.get(&router(), &neighbour(most), None);
    assert_eq!(known, Known::At(Mac([2; 6]), &port(0)));
    assert!(!all.has(&router(), &neighbour(0)), "the one that was heard longest ago");
    assert_eq!(all.tables[&router()].all.len(), MOST_SEEN);
}

/// A router with a thousand ports outside has many questions, and others have one each.
#[test]
fn routers_take_turns_to_ask_and_a_question_for_many_ports_goes_out_bit_by_bit() {
    let mut all = Neighbours::default();
    let routers = ["a", "b", "c"].map(|name| id(Kind::LogicalRouter, name));
    let behind = |name: &str| (id(Kind::RouterPort, name), Ipv4Addr::new(192, 0, 2, 9).into());
    let own = [behind("a"), behind("b"), behind("c")];
    for (router, neighbour) in routers.iter().zip(&own) {
        all.note(router, neighbour, About::Needed(None, None), NOW);
    }
    for number in 0..50 {
        all.note(&routers[0], &neighbour(number), About::Needed(None, None), NOW);
    }
    let copies = |it: &Neighbour| if [&own[1], &own[2]].contains(&it) { 2 } else { 1000 };
    let room = Room { frames: 256, copies: 64 };
    let mut asked: BTreeMap<Neighbour, Vec<usize>> = BTreeMap::new();
    let mut takes = 0;
    while all.next(256).is_some_and(|due| due <= NOW) {
        let due = all.take_due(NOW, room, copies);
        let mut sent = 0;
        for due in due {
            let Due::Ask { neighbour, ports, .. } = due else { panic!("nothing was held") };
            sent += ports.len();
            asked.entry(neighbour).or_default().extend(ports);
        }
        takes += 1;
        assert!((1..=64).contains(&sent), "{sent}");
        assert!(takes < 2 || own[1..].iter().all(|it| asked[it].len() == 2), "the second time");
    }
    assert_eq!(asked.len(), 53);
    for (neighbour, ports) in asked {
        assert_eq!(ports, Vec::from_iter(0..copies(&neighbour)), "each port once");
    }
    assert_eq!(takes, (51 * 1000_usize + 2 * 2).div_ceil(64));
}

#[test]
fn what_is_due_next_is_known_without_asking_each_router() {
    let mut all = Neighbours::default();
    let mut random = units::Rng::new(7);
    let mut now = NOW;
    for step in 0..20_000 {
        now += Span::from_millis(random.below(400));
        let router = id(Kind::LogicalRouter, &format!("r{}", random.below(20)));
        let neighbour = neighbour(random.below(40) as u32);
        let by = port(random.below(3) as usize);
        match random.below(8) {
            0 => all.note(&router, &neighbour, heard(), now),
            1 => all.note(&router, &neighbour, About::Lost, now),
            2..6 => {
                let known = all.get(&router, &neighbour, Some(&by));
                let held = (known == Known::Nothing { has_room: true }).then(|| held(step, &by));
                all.note(&router, &neighbour, About::Needed(Some(by), held), now);
            }
            6 => {
                let room = Room { frames: 1 + random.below(4) as usize, copies: 1 };
                all.take_due(now, room, |_| 3);
            }
            _ => {
                let handed = all.hand_over(&router, now);
                if random.below(2) == 0 {
                    all.retain(|it| *it != router);
                }
                all.take_over(&router, &handed, now);
            }
        }
        let due = all.tables.iter().filter_map(|(router, it)| Some((it.next()?, router.clone())));
        assert_eq!(all.due, due.collect(), "step {step}");
        assert!(all.tables.values().all(|it| !it.is_empty()), "step {step}");
    }
}
