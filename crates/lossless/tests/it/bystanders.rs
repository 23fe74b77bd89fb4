//! What is copied for those who have not asked for it holds its sender back for nobody.

use super::*;

const NOW: Instant = Instant::ZERO;

/// The sender, a receiver that keeps up, and then others.
const SENDER: usize = 0;
const EAGER: usize = 1;

/// The most frames of a visit.
const BURST: u64 = 128;

fn frame(number: u64) -> Frame {
    Frame { number, from: SENDER, flow: 0 }
}

/// Offers frames to everybody, of whom these have not asked for them. How many are held.
fn flood(switch: &mut Switch<Frame>, ids: &[PortId], frames: u64, bystanders: u64) -> u64 {
    let mut visit = switch.arrivals(NOW, ids[SENDER]);
    let offer = |number: &u64| {
        let arrival = arrival(frame(*number), None, Class::default(), 100);
        match (Arrival { bystanders, ..arrival }).offer_in(&mut visit, ids) {
            Offered::Held => true,
            Offered::Refused(_, reason) => {
                assert_eq!(reason, Reason::SlowReceiver);
                false
            }
            other => panic!("{other:?}"),
        }
    };
    (0..frames).filter(offer).count() as u64
}

/// Lets a receiver take as many as it will. How many it took.
fn take(switch: &mut Switch<Frame>, id: PortId, most: usize) -> usize {
    let mut visit = switch.departures(NOW, id);
    (0..most).map_while(|_| visit.head().map(|head| head.delivered())).count()
}

fn slow(switch: &Switch<Frame>, id: PortId) -> u64 {
    switch.egress_account(id, Class::default()).refused[Reason::SlowReceiver as usize]
}

#[test]
fn a_bystander_that_takes_nothing_leaves_its_sender_most_of_its_room() {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 3]);
    let all = u64::MAX;
    for _ in 0..100 {
        assert_eq!(flood(&mut switch, &ids, BURST, all), BURST);
        assert_eq!(take(&mut switch, ids[EAGER], usize::MAX), BURST as usize, "it keeps up");
        switch.audit().unwrap();
    }
    assert!(switch.room(NOW, ids[SENDER]) >= 1024 - 256, "{}", switch.peek_room(ids[SENDER]));
    assert!(slow(&switch, ids[2]) > 90 * BURST && slow(&switch, ids[EAGER]) == 0);
    // Once it takes frames, it gets the next.
    take(&mut switch, ids[2], usize::MAX);
    assert_eq!((switch.total().held, switch.copies_held(ids[SENDER])), (0, 0));
    flood(&mut switch, &ids, 1, all);
    assert_eq!(take(&mut switch, ids[2], usize::MAX), 1);
}

#[test]
fn who_has_asked_for_a_frame_gets_every_one() {
    let config = PortConfig { ingress: Limits::frames(64), ..PortConfig::default() };
    let (mut switch, ids) = switch(Settings::default(), &[config; 3]);
    let mut taken = 0;
    for _ in 0..50 {
        let room = u64::from(switch.room(NOW, ids[SENDER]));
        assert_eq!(flood(&mut switch, &ids, room, !(1 << EAGER)), room, "it asked for them");
        taken += take(&mut switch, ids[EAGER], 5);
        switch.audit().unwrap();
    }
    assert_eq!(switch.room(NOW, ids[SENDER]), 5, "it holds its sender back, as one alone would");
    taken += take(&mut switch, ids[EAGER], usize::MAX);
    assert_eq!((taken as u64, slow(&switch, ids[EAGER])), (switch.total().accepted, 0));
}

#[test]
fn a_lone_copy_waits_where_others_fill_the_egress() {
    let config = PortConfig { egress: Limits::frames(2), ..PortConfig::default() };
    let (mut switch, ids) = switch(Settings::default(), &[config; 4]);
    // Two others send more to one receiver than its queue takes.
    for number in 0..100 {
        for from in [2, 3] {
            let alone = Frame { number, from, flow: 0 };
            let alone = arrival(alone, Some(EAGER), Class::default(), 100);
            assert_eq!(alone.offer(&mut switch, NOW, &ids), Offered::Held);
        }
    }
    assert_eq!(flood(&mut switch, &ids, 1, u64::MAX), 1);
    assert_eq!(slow(&switch, ids[EAGER]), 0);
    // It has its turn among theirs.
    let is_its = |switch: &mut Switch<Frame>| {
        let mut visit = switch.departures(NOW, ids[EAGER]);
        let head = visit.head().unwrap();
        let frame = head.frame();
        head.delivered();
        frame.from == SENDER
    };
    let before = (0..).take_while(|_| !is_its(&mut switch)).count();
    assert!(before < 40, "{before} frames were before it");
    switch.audit().unwrap();
}

#[test]
fn copies_that_wait_use_up_a_share_and_reach_no_quota() {
    let config = PortConfig { egress: Limits::frames(2), ..PortConfig::default() };
    let (mut busy, ids) = switch(Settings::default(), &[config; 3]);
    assert_eq!(flood(&mut busy, &ids, 1000, u64::MAX), 256);
    assert_eq!((slow(&busy, ids[EAGER]), slow(&busy, ids[2])), (744, 744));
    assert_eq!(busy.room(NOW, ids[SENDER]), 1024 - 256);

    let config = PortConfig { quota: quota(3), ..config };
    let (mut switch, ids) = switch(Settings::default(), &[config; 3]);
    assert_eq!(flood(&mut switch, &ids, 5, u64::MAX), 4, "two are switched, and two wait");
    assert!(!switch.at_quota(ids[SENDER]));
    assert_eq!((take(&mut switch, ids[EAGER], 9), slow(&switch, ids[EAGER])), (4, 1));
    switch.audit().unwrap();
}

#[test]
fn a_copy_in_a_flow_reaches_no_quota() {
    let config = PortConfig { quota: quota(1), ..PortConfig::default() };
    let (mut switch, ids) = switch(Settings::default(), &[config; 3]);
    let flows = vec![(ids[2], Flow(7))];
    let bystanders = [ids[2]].into_iter().fold(Default::default(), with);
    let audience = Audience { flows, bystanders, ..Audience::default() };
    let size = Size { bytes: 100, frames: 1 };
    let offered = switch.arrivals(NOW, ids[SENDER]).offer(
        Destination::Many(&audience),
        Class::default(),
        frame(9),
        size,
    );
    assert_eq!(offered, Offered::Refused(frame(9), Reason::SlowReceiver), "a quota of one");
    switch.audit().unwrap();
}

fn with(mut set: lossless::PortSet, id: PortId) -> lossless::PortSet {
    set.insert(id);
    set
}

#[test]
fn copies_that_are_set_aside_for_sockets_press_no_sender() {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 8]);
    for _ in 0..9 {
        flood(&mut switch, &ids, BURST, u64::MAX);
        take(&mut switch, ids[EAGER], usize::MAX);
        // Behind each of the others a socket is full.
        for id in &ids[2..] {
            let mut visit = switch.departures(NOW, *id);
            while let Some(head) = visit.head() {
                head.park(Flow(1));
            }
        }
        switch.audit().unwrap();
        assert!(!switch.at_quota(ids[SENDER]));
    }
    let parked: u32 = ids.iter().flat_map(|id| switch.aside(*id)).map(|aside| aside.frames).sum();
    assert!(parked > 512, "more than one sender may have set aside: {parked}");
    // Those that are for one socket count, and are taken back.
    for number in 0..512 {
        let alone = arrival(Frame { flow: 1, ..frame(number) }, Some(2), Class::default(), 100);
        assert_eq!(alone.offer(&mut switch, NOW, &ids), Offered::Held);
        switch.departures(NOW, ids[2]).head().unwrap().park(Flow(1));
        assert_eq!(switch.at_quota(ids[SENDER]), number == 511);
    }
    while switch.aside(ids[2]).count() > 0 {
        let mut visit = switch.departures(NOW, ids[2]);
        let _ = visit.parked_head(Flow(1)).unwrap().delivered();
    }
    assert!(!switch.at_quota(ids[SENDER]));
    switch.tick(NOW + Span::from_secs(60), drop);
    assert_eq!((switch.total().held, switch.copies_held(ids[SENDER])), (0, 0));
}

#[test]
fn far_bystanders_hold_nobody_either_and_are_counted_by_host() {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 2]);
    let uplink = ids[1];
    // Two ports each of two far hosts; the second host takes what it is sent.
    let host = |number: u64| Flow(number << 40 | 1);
    let flows = vec![(uplink, host(1)), (uplink, host(2))];
    let audience =
        Audience { flows, bystanders: with(Default::default(), uplink), ..Audience::default() };
    let size = Size { bytes: 100, frames: 1 };
    for number in 0..2000 {
        let to = Destination::Many(&audience);
        let offered =
            switch.arrivals(NOW, ids[SENDER]).offer(to, Class::default(), frame(number), size);
        assert_eq!(offered, Offered::Held);
        let mut visit = switch.departures(NOW, uplink);
        while let Some(head) = visit.flow_head() {
            let flow = head.flow().unwrap();
            head.depart(flow);
        }
        drop(visit);
        // It is released where the first host was not to have it.
        let _ = switch.arrived(NOW, uplink, host(2));
        switch.audit().unwrap();
    }
    let account = |number| *switch.group_account(uplink, number).unwrap();
    assert_eq!((account(2).delivered, account(2).held), (2000, 0));
    assert!(account(1).held < 256 && account(1).balances(), "{:?}", account(1));
    assert!(switch.peek_room(ids[SENDER]) > 1024 - 256);
    let mut released = 0;
    switch.abandon_flows(NOW, uplink, host(1)..=host(1), Refusal::STALLED, |_| released += 1);
    assert_eq!((switch.copies_held(ids[SENDER]), switch.total().held), (0, 0));
    assert!(released > 0);
}

#[test]
fn who_is_absent_gets_no_copy_until_it_is_there_again() {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 3]);
    switch.set_absent(ids[2], true);
    assert_eq!(flood(&mut switch, &ids, 4, 0), 4);
    let meant = |switch: &Switch<Frame>| switch.egress_account(ids[2], Class::default()).accepted;
    assert_eq!((meant(&switch), switch.is_absent(ids[2])), (0, true));
    // A frame for it alone waits there, and tells when it is back.
    let alone = arrival(frame(9), Some(2), Class::default(), 100);
    assert_eq!(alone.offer(&mut switch, NOW, &ids), Offered::Held);
    assert_eq!(take(&mut switch, ids[2], 1), 1);
    assert!(!switch.is_absent(ids[2]));
    flood(&mut switch, &ids, 1, 0);
    assert_eq!(meant(&switch), 2);
}

proptest! {
    /// Receivers that take what they like, and one that keeps up.
    #[test]
    fn however_others_take_their_copies_their_sender_keeps_half_its_room(
        visits in prop::collection::vec((1u64..=BURST, prop::collection::vec(0usize..200, 6)), 1..60),
    ) {
        let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 8]);
        let mut kept = 0;
        for (frames, taken) in visits {
            flood(&mut switch, &ids, frames, u64::MAX);
            kept += take(&mut switch, ids[EAGER], usize::MAX);
            // Most take nothing in most turns.
            for (id, most) in ids[2..].iter().zip(taken) {
                take(&mut switch, *id, most.saturating_sub(120));
            }
            switch.audit().unwrap();
            prop_assert!(switch.peek_room(ids[SENDER]) >= 512);
        }
        let meant = switch.total().accepted;
        prop_assert_eq!(kept as u64 + slow(&switch, ids[EAGER]), meant);
    }
}
