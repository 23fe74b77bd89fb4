//! Sockets that are full: what waits for them, and when it is refused.

use super::examples::{NOW, PATIENCE, offer, park_all, small, tick};
use super::*;

/// Longer than sockets may take nothing.
const SOCKETS_PATIENCE: Span = Span::from_secs(1);

/// The gate says that the socket of the next frame's flow has room, or not: the frame is set aside
/// then, or refused if the flow is stalled. Whether it was.
fn gate(switch: &mut Switch<Frame>, now: Instant, id: PortId, flow: Flow, has_room: bool) -> bool {
    let mut visit = switch.departures(now, id);
    let mut head = visit.head().unwrap();
    match has_room {
        true => head.note_room(flow),
        false => head.note_full(flow, Some(7)),
    }
    let is_stalled = head.is_stalled(flow);
    match (has_room, is_stalled) {
        (true, _) => assert!(head.delivered().is_some()),
        (false, true) => assert!(head.refuse(Refusal::SOCKET_STALLED).is_some()),
        (false, false) => head.park(flow),
    }
    drop(visit);
    ask(switch, now, id, flow, Some(7));
    is_stalled
}

/// The gate says of a flow that is set aside that its socket is full, and was read so often.
fn ask(switch: &mut Switch<Frame>, now: Instant, id: PortId, flow: Flow, reads: Option<u32>) {
    if let Some(mut head) = switch.departures(now, id).parked_head(flow) {
        head.note_full(flow, reads);
    }
}

#[test]
fn a_socket_that_takes_nothing_is_stalled_until_it_has_room() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 16); 2]);
    let send = |switch: &mut _, number| assert!(offer(switch, &ids, number, 0, Some(1), 0));
    for number in 0..3 {
        send(&mut switch, number);
        assert!(!gate(&mut switch, NOW, ids[1], Flow(0), false));
    }
    let due = switch.deadline(NOW).unwrap();
    assert_eq!(due, NOW + SOCKETS_PATIENCE);
    assert_eq!(tick(&mut switch, due), [0, 1, 2]);
    assert_eq!(switch.stalled_flows(ids[1]).collect::<Vec<_>>(), [Flow(0)]);
    assert!(!switch.stalled(ids[1]), "the port itself is not");
    // No new wait begins, however long it goes on.
    let mut now = due;
    for number in 3..5000 {
        now += Span::from_millis(10);
        send(&mut switch, number);
        assert!(gate(&mut switch, now, ids[1], Flow(0), false), "{number}");
        assert!(tick(&mut switch, now).is_empty());
        assert!(!switch.stalled(ids[1]));
    }
    let refused = switch.total().refused[Reason::SocketStalled as usize];
    assert_eq!((refused, switch.total().refused_total()), (5000, 5000));
    send(&mut switch, 5000);
    assert!(!gate(&mut switch, now, ids[1], Flow(0), true), "it took one");
    send(&mut switch, 5001);
    assert!(!gate(&mut switch, now, ids[1], Flow(0), false), "a new wait begins");
    assert_eq!(switch.deadline(now), Some(now + SOCKETS_PATIENCE));
    switch.audit().unwrap();
}

#[test]
fn a_socket_that_is_read_now_and_then_is_never_stalled() {
    let (mut switch, ids) = switch(Settings::default(), &[small(64, 64); 2]);
    for number in 0..8 {
        offer(&mut switch, &ids, number, 0, Some(1), 0);
        gate(&mut switch, NOW, ids[1], Flow(0), false);
    }
    // Its buffer looks full for long, as the kernel gives back what was read in large parts.
    let mut now = NOW;
    for reads in 8..20 {
        now += Span::from_millis(999);
        ask(&mut switch, now, ids[1], Flow(0), Some(reads));
        assert!(tick(&mut switch, now).is_empty());
    }
    let mut visit = switch.departures(now, ids[1]);
    for number in 0..8 {
        let mut head = visit.parked_head(Flow(0)).unwrap();
        assert_eq!(head.frame().number, number);
        head.note_room(Flow(0));
        assert!(head.delivered().is_some());
    }
    drop(visit);
    assert_eq!(switch.total().delivered, 8);
}

#[test]
fn only_who_is_about_to_be_refused_is_to_be_asked_again() {
    let (mut switch, ids) = switch(Settings::default(), &[small(64, 64); 2]);
    for number in 0..4 {
        let now = NOW + Span::from_millis(100 * number);
        offer(&mut switch, &ids, number, 0, Some(1), 0);
        gate(&mut switch, now, ids[1], Flow(number), false);
        assert_eq!(switch.due(now, ids[1]).count(), 0);
    }
    let now = NOW + SOCKETS_PATIENCE + Span::from_millis(100);
    assert_eq!(switch.due(now, ids[1]).collect::<Vec<_>>(), [Flow(0), Flow(1)]);
    ask(&mut switch, now, ids[1], Flow(0), Some(8));
    ask(&mut switch, now, ids[1], Flow(1), Some(7));
    assert_eq!(tick(&mut switch, now), [1], "one was read, one was not");
    assert_eq!(switch.due(now, ids[1]).count(), 0);
}

#[test]
fn thousands_of_full_sockets_are_looked_at_seldom_and_judged_all_the_same() {
    const FLOWS: u64 = 4_000;
    let (mut switch, ids) = switch(Settings::default(), &[small(16_384, 16_384); 2]);
    for number in 0..FLOWS {
        offer(&mut switch, &ids, number, 0, Some(1), 0);
        gate(&mut switch, NOW, ids[1], Flow(number), false);
    }
    let (mut now, mut looks) = (NOW, 0);
    while switch.total().held > 0 {
        now += Span::from_millis(1);
        looks += u32::from(switch.due(now, ids[1]).next().is_some());
        tick(&mut switch, now);
        assert!(switch.deadline(now).is_none_or(|due| due > now));
    }
    let late = now.since(NOW + SOCKETS_PATIENCE);
    assert!(late <= Span::from_millis(65), "{late:?}");
    assert_eq!(looks, 1);
    assert_eq!(switch.total().refused[Reason::SocketStalled as usize], FLOWS);
    switch.audit().unwrap();
}

/// A frame of a flow is next, and short: its socket has room for it all the same. Whether it went
/// to the receiver.
fn slip_through(switch: &mut Switch<Frame>, now: Instant, ids: &[PortId], number: u64) -> bool {
    let short = arrival(Frame { number, from: 2, flow: 0 }, Some(1), Class::default(), 60);
    assert_eq!(short.offer(switch, now, ids), Offered::Held);
    let mut visit = switch.departures(now, ids[1]);
    let mut head = visit.head().unwrap();
    head.note_room(Flow(0));
    let is_parked = head.is_parked(Flow(0));
    match is_parked {
        true => head.park(Flow(0)),
        false => drop(head.delivered()),
    }
    !is_parked
}

#[test]
fn a_socket_that_is_not_read_is_stalled_though_short_frames_find_room() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 16); 3]);
    let long = |switch: &mut Switch<Frame>, number| {
        let long = arrival(Frame { number, from: 0, flow: 0 }, Some(1), Class::default(), 1500);
        assert_eq!(long.offer(switch, NOW, &ids), Offered::Held);
    };
    long(&mut switch, 0);
    assert!(!gate(&mut switch, NOW, ids[1], Flow(0), false));
    let mut now = NOW;
    for number in 1..5 {
        now += Span::from_millis(200);
        assert!(!slip_through(&mut switch, now, &ids, number), "it goes behind the long one");
        ask(&mut switch, now, ids[1], Flow(0), Some(7));
        assert!(tick(&mut switch, now).is_empty());
    }
    now += Span::from_millis(200);
    assert_eq!(tick(&mut switch, now).len(), 5, "in a second nothing was read");
    // What is short goes on, and begins no new wait for what is long.
    assert!(slip_through(&mut switch, now, &ids, 5));
    long(&mut switch, 6);
    assert!(gate(&mut switch, now, ids[1], Flow(0), false), "it is refused at once");
    long(&mut switch, 7);
    assert!(!gate(&mut switch, now, ids[1], Flow(0), true), "as long a one has room");
    long(&mut switch, 8);
    assert!(!gate(&mut switch, now, ids[1], Flow(0), false), "a new wait begins");
    switch.audit().unwrap();
}

#[test]
fn a_sender_s_sockets_shorten_nobody_else_s_time() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 16); 3]);
    // One has half of its room set aside for one socket, another a frame each for four.
    let park = |switch: &mut Switch<Frame>, number, from, flow| {
        let frame = arrival(Frame { number, from, flow }, Some(1), Class::default(), 100);
        assert_eq!(frame.offer(switch, NOW, &ids), Offered::Held);
        gate(switch, NOW, ids[1], Flow(flow), false);
    };
    (0..8).for_each(|number| park(&mut switch, number, 0, 0));
    (1..5).for_each(|flow| park(&mut switch, 7 + flow, 2, flow));
    assert!(switch.at_quota(ids[0]) && !switch.at_quota(ids[2]));
    assert_eq!(switch.deadline(NOW), Some(NOW + SOCKETS_PATIENCE));
}

#[test]
fn a_stalled_socket_that_is_read_is_waited_for_again_though_it_is_full() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 16); 2]);
    offer(&mut switch, &ids, 0, 0, Some(1), 0);
    gate(&mut switch, NOW, ids[1], Flow(0), false);
    let now = NOW + SOCKETS_PATIENCE;
    assert_eq!(tick(&mut switch, now), [0]);
    offer(&mut switch, &ids, 1, 0, Some(1), 0);
    let mut visit = switch.departures(now, ids[1]);
    let mut head = visit.head().unwrap();
    head.note_full(Flow(0), Some(8));
    assert!(!head.is_stalled(Flow(0)));
}

#[test]
fn a_flow_of_no_known_socket_is_judged_as_a_port_is() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 16); 2]);
    // A socket that has room waits for its device; of a machine's sockets no reads are seen.
    for (flow, has_room) in [(Flow(0), true), (Flow(1), false)] {
        offer(&mut switch, &ids, flow.0, 0, Some(1), 0);
        gate(&mut switch, NOW, ids[1], flow, false);
        let mut visit = switch.departures(NOW, ids[1]);
        let mut head = visit.parked_head(flow).unwrap();
        match has_room {
            true => head.note_room(flow),
            false => head.note_full(flow, None),
        }
    }
    assert!(tick(&mut switch, NOW + SOCKETS_PATIENCE).is_empty());
    assert_eq!(tick(&mut switch, NOW + PATIENCE), [0, 1]);
    assert_eq!(switch.total().refused[Reason::StalledReceiver as usize], 2);
    assert_eq!(switch.stalled_flows(ids[1]).count(), 0);
}

#[test]
fn sockets_hold_half_of_a_senders_room_and_are_judged_sooner_then() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 16); 3]);
    // Eight sockets behind two ports.
    for number in 0..8 {
        assert_eq!(switch.room(NOW, ids[0]), 16 - number as u32);
        let to = 1 + number as usize % 2;
        assert!(offer(&mut switch, &ids, number, 0, Some(to), 0));
        gate(&mut switch, NOW, ids[to], Flow(number), false);
    }
    assert_eq!((switch.room(NOW, ids[0]), switch.at_quota(ids[0])), (0, true));
    let due = switch.deadline(NOW).unwrap();
    assert_eq!(due, NOW + Span::from_millis(250), "a quarter of the time for four sockets");
    // Of one that takes a frame the sender may hold another's.
    let mut visit = switch.departures(NOW, ids[1]);
    assert!(visit.parked_head(Flow(0)).unwrap().delivered().is_some());
    drop(visit);
    assert_eq!((switch.room(NOW, ids[0]), switch.at_quota(ids[0])), (9, false));
    assert!(offer(&mut switch, &ids, 8, 0, Some(1), 0));
    gate(&mut switch, NOW, ids[1], Flow(8), false);
    assert_eq!(tick(&mut switch, due).len(), 4, "who is judged first makes room for the rest");
    assert_eq!(switch.room(due, ids[0]), 12);
    switch.audit().unwrap();
    tick(&mut switch, NOW + SOCKETS_PATIENCE);
    assert_eq!(switch.total().refused[Reason::SocketStalled as usize], 8);
    assert_eq!(switch.room(NOW, ids[0]), 16);
}

#[test]
fn the_half_for_sockets_follows_the_senders_limit() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 16); 2]);
    for number in 0..6 {
        offer(&mut switch, &ids, number, 0, Some(1), 0);
    }
    park_all(&mut switch, ids[1]);
    assert_eq!(switch.room(NOW, ids[0]), 10);
    switch.configure(NOW, ids[0], small(8, 16));
    assert_eq!(switch.room(NOW, ids[0]), 0);
    switch.configure(NOW, ids[0], small(64, 16));
    assert_eq!(switch.room(NOW, ids[0]), 58);
    switch.detach(NOW, ids[1], |_| {});
    assert_eq!((switch.room(NOW, ids[0]), switch.at_quota(ids[0])), (64, false));
}

#[test]
fn a_bounded_number_of_stalled_sockets_is_remembered() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 16); 2]);
    let mut now = NOW;
    for number in 0..5000 {
        offer(&mut switch, &ids, number, 0, Some(1), 0);
        gate(&mut switch, now, ids[1], Flow(number), false);
        now += SOCKETS_PATIENCE;
        assert_eq!(tick(&mut switch, now), [number]);
    }
    let remembered: Vec<_> = switch.stalled_flows(ids[1]).collect();
    assert!((1024..=2048).contains(&remembered.len()), "{}", remembered.len());
    assert!((5000 - 1024..5000).all(|number| remembered.contains(&Flow(number))));
}
