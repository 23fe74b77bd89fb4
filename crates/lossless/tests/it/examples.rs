//! The switch's promises, one by one, where what must come out is plain to see.

use super::*;

pub const NOW: Instant = Instant::ZERO;

pub fn offer(
    switch: &mut Switch<Frame>,
    ids: &[PortId],
    number: u64,
    from: usize,
    to: Option<usize>,
    pcp: u8,
) -> bool {
    let frame = Frame { number, from, flow: 0 };
    let offered = arrival(frame, to, Class::from_low_bits(pcp), 1514).offer(switch, NOW, ids);
    !matches!(offered, Offered::Full(_))
}

pub fn take(switch: &mut Switch<Frame>, id: PortId) -> Option<u64> {
    let mut visit = switch.departures(NOW, id);
    let head = visit.head()?;
    let number = head.frame().number;
    head.delivered();
    Some(number)
}

/// Longer than receivers may take nothing.
pub const PATIENCE: Span = Span::from_secs(11);

/// The frames that time has released.
pub fn tick(switch: &mut Switch<Frame>, now: Instant) -> Vec<u64> {
    let mut released = Vec::new();
    switch.tick(now, |frame| released.push(frame.frame.number));
    released
}

pub fn small(ingress: u32, egress: u32) -> PortConfig {
    PortConfig {
        ingress: Limits::frames(ingress),
        egress: Limits::frames(egress),
        ..PortConfig::default()
    }
}

#[test]
fn a_full_egress_leaves_the_frame_with_its_sender() {
    let (mut switch, ids) = switch(Settings::default(), &[small(3, 1); 2]);
    assert!((0..3).all(|number| offer(&mut switch, &ids, number, 0, Some(1), 0)));
    assert_eq!(switch.room(NOW, ids[0]), 0);
    assert!(!offer(&mut switch, &ids, 3, 0, Some(1), 0), "the offer came back");
    assert_eq!(take(&mut switch, ids[1]), Some(0));
    assert_eq!(switch.room(NOW, ids[0]), 1);
    assert_eq!(switch.total().refused_total(), 0);
}

#[test]
fn another_class_and_another_destination_pass_a_blocked_one() {
    let (mut switch, ids) = switch(Settings::default(), &[small(8, 1); 3]);
    for number in 0..4 {
        offer(&mut switch, &ids, number, 0, Some(1), 0);
    }
    offer(&mut switch, &ids, 10, 0, Some(2), 0);
    offer(&mut switch, &ids, 11, 0, Some(1), 7);
    assert_eq!(take(&mut switch, ids[2]), Some(10));
    assert_eq!(take(&mut switch, ids[1]), Some(11));
    assert_eq!(take(&mut switch, ids[1]), Some(0));
}

/// Lets all that is for a receiver far away leave.
fn depart_all(switch: &mut Switch<Frame>, id: PortId) {
    let mut visit = switch.departures(NOW, id);
    while let Some(head) = visit.head() {
        head.depart(Flow(7));
    }
}

#[test]
fn what_is_underway_uses_its_senders_share_until_it_has_arrived() {
    let (mut switch, ids) = switch(Settings::default(), &[small(3, 1); 2]);
    assert!((0..3).all(|number| offer(&mut switch, &ids, number, 0, Some(1), 0)));
    depart_all(&mut switch, ids[1]);
    assert_eq!(switch.room(NOW, ids[0]), 0);
    assert!(
        switch.holds(ids[1]) && switch.pending().is_empty(),
        "held, and nobody need look at it"
    );
    assert_eq!(switch.arrived(NOW, ids[1], Flow(8)), None, "another flow");
    assert_eq!(switch.arrived(NOW, ids[1], Flow(7)).unwrap().frame.number, 0);
    assert_eq!(switch.room(NOW, ids[0]), 1);
    assert_eq!(switch.missed(NOW, ids[1], Flow(7), Refusal::WITHDRAWN).unwrap().frame.number, 1);
    let total = switch.total();
    assert_eq!((total.delivered, total.refused[Reason::Withdrawn as usize], total.held), (1, 1, 1));
    switch.audit().unwrap();
}

#[test]
fn what_is_underway_ends_with_its_sender_and_with_its_receiver() {
    for gone in 0..3 {
        let (mut switch, ids) = switch(Settings::default(), &[small(8, 8); 3]);
        for number in 0..4 {
            offer(&mut switch, &ids, number, (number % 2) as usize, Some(2), 0);
        }
        depart_all(&mut switch, ids[2]);
        let mut released = Vec::new();
        switch.detach(NOW, ids[gone], |frame| released.push(frame.frame.number));
        released.sort_unstable();
        let all = [&[0, 2][..], &[1, 3], &[0, 1, 2, 3]][gone];
        assert_eq!(released, all);
        assert_eq!(switch.total().refused[Reason::Detached as usize], all.len() as u64);
        switch.audit().unwrap();
        if gone < 2 {
            let rest = [switch.arrived(NOW, ids[2], Flow(7)), switch.arrived(NOW, ids[2], Flow(7))];
            assert_eq!(
                rest.map(|frame| frame.unwrap().frame.number),
                [1 - gone as u64, 3 - gone as u64]
            );
        }
        assert_eq!(switch.total().held, 0);
    }
}

#[test]
fn flows_of_which_nothing_is_heard_are_abandoned_whole_and_others_stay() {
    // Two leave, one is set aside, and one is switched. The first is for another port, too.
    let (mut switch, ids) = switch(Settings::default(), &[small(8, 1); 3]);
    let stalled = |switch: &Switch<Frame>| switch.total().refused[Reason::StalledReceiver as usize];
    offer(&mut switch, &ids, 0, 0, None, 0);
    take(&mut switch, ids[2]);
    (1..4).for_each(|number| assert!(offer(&mut switch, &ids, number, 0, Some(1), 0)));
    let mut visit = switch.departures(NOW, ids[1]);
    visit.head().unwrap().depart(Flow(7));
    visit.head().unwrap().depart(Flow(7));
    visit.head().unwrap().park(Flow(8));
    drop(visit);
    let mut released = Vec::new();
    let mut abandon = |flows| {
        let note = |gone: lossless::Released<Frame>| released.push(gone.frame.number);
        switch.abandon_flows(NOW, ids[1], flows, Refusal::STALLED, note);
    };
    abandon(Flow(0)..=Flow(6));
    abandon(Flow(7)..=Flow(8));
    assert_eq!(released, [0, 1, 2]);
    let total = switch.total();
    assert_eq!((total.held, total.delivered, stalled(&switch)), (1, 1, 2), "one copy was taken");
    assert_eq!(switch.arrived(NOW, ids[1], Flow(7)), None, "nothing is underway");
    assert_eq!(take(&mut switch, ids[1]), Some(3));
    switch.audit().unwrap();
}

#[test]
fn ports_that_come_while_frames_wait_change_nothing_for_those() {
    let (mut switch, mut ids) = switch(Settings::default(), &[small(4, 1); 3]);
    for number in 0..4 {
        assert!(offer(&mut switch, &ids, number, 0, Some(2), 0));
        assert!(offer(&mut switch, &ids, 10 + number, 1, Some(2), 0));
    }
    let (before, room) = (switch.total(), [0, 1, 2].map(|port| switch.room(NOW, ids[port])));
    // So many that the switch moves its ports, and what it holds, several times.
    ids.extend((3..40).map(|_| switch.attach(NOW, small(4, 1)).unwrap()));
    assert_eq!(switch.audit(), Ok(()));
    assert_eq!((switch.total(), [0, 1, 2].map(|port| switch.room(NOW, ids[port]))), (before, room));
    assert!(offer(&mut switch, &ids, 20, 39, Some(2), 0), "who has come is a sender like others");
    let taken: Vec<u64> = std::iter::from_fn(|| take(&mut switch, ids[2])).collect();
    let of = |senders: std::ops::Range<u64>| {
        taken.iter().copied().filter(move |number| senders.contains(number))
    };
    assert!(
        of(0..4).eq(0..4) && of(10..14).eq(10..14) && of(20..21).count() == 1 && taken.len() == 9,
        "{taken:?}"
    );
    assert_eq!(switch.audit(), Ok(()));
}

#[test]
fn an_incast_is_served_in_equal_shares() {
    let (mut switch, ids) = switch(Settings::default(), &[small(64, 4); 9]);
    let mut served = [0u32; 8];
    let mut number = 0;
    for _ in 0..4000 {
        // The first sender is eight times as eager as the others.
        for from in (0..8).chain([0; 7]) {
            number += 1;
            offer(&mut switch, &ids, number, from, Some(8), 0);
        }
        let mut visit = switch.departures(NOW, ids[8]);
        let head = visit.head().unwrap();
        served[head.frame().from] += 1;
        head.delivered();
    }
    assert!(served.iter().all(|frames| frames.abs_diff(500) <= 20), "{served:?}");
}

#[test]
fn a_flood_reaches_all_and_a_slow_receiver_holds_back_nobody() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 2); 4]);
    for number in 0..10 {
        assert!(offer(&mut switch, &ids, number, 0, None, 0));
        assert_eq!(take(&mut switch, ids[1]), Some(number));
        assert_eq!(take(&mut switch, ids[2]), Some(number));
    }
    assert_eq!(switch.ingress_account(ids[0], Class::default()).held, 10, "port 3 took nothing");
    for number in 0..10 {
        assert_eq!(take(&mut switch, ids[3]), Some(number));
    }
    assert_eq!(switch.total().delivered, 10);
}

#[test]
fn a_closed_port_keeps_what_it_has_and_gets_no_more_copies() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 1); 3]);
    assert!((0..3).all(|number| offer(&mut switch, &ids, number, 0, Some(1), 0)));
    switch.close(ids[1]);
    assert!(offer(&mut switch, &ids, 3, 0, None, 0));
    assert_eq!([0, 1, 2].map(Some), [0, 1, 2].map(|_| take(&mut switch, ids[1])));
    assert!(!switch.holds(ids[1]));
    assert_eq!(take(&mut switch, ids[2]), Some(3), "as if the other had gone already");
}

#[test]
fn a_sender_without_memory_is_paused_until_some_is_released() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 1); 2]);
    switch.pause(NOW, ids[0]);
    assert!(!switch.paused(NOW, ids[0]).1, "nothing is held that could be released");
    assert!((0..2).all(|number| offer(&mut switch, &ids, number, 0, Some(1), 0)));
    switch.pause(NOW, ids[0]);
    assert!(switch.paused(NOW, ids[0]).1);
    assert_eq!(take(&mut switch, ids[1]), Some(0));
    assert!(!switch.paused(NOW, ids[0]).1);
}

#[test]
fn a_quota_holds_the_sender_back_before_its_ingress_is_full() {
    let config = PortConfig { quota: quota(2), ..small(16, 1) };
    let (mut switch, ids) = switch(Settings::default(), &[config; 2]);
    for number in 0..3 {
        assert!(switch.room(NOW, ids[0]) > 0);
        offer(&mut switch, &ids, number, 0, Some(1), 0);
    }
    assert_eq!(switch.room(NOW, ids[0]), 0, "one is switched, two wait");
    take(&mut switch, ids[1]);
    assert!(switch.room(NOW, ids[0]) > 0);
}

#[test]
fn a_burst_may_cross_the_bytes_that_its_sender_may_have_held_but_the_next_may_not() {
    let config = PortConfig { ingress: Limits { frames: 16, bytes: Bytes(2000) }, ..small(16, 1) };
    let (mut switch, ids) = switch(Settings::default(), &[config; 2]);
    let room = switch.room(NOW, ids[0]);
    assert!((0..u64::from(room)).all(|number| offer(&mut switch, &ids, number, 0, Some(1), 0)));
    while switch.total().held > 1 {
        assert_eq!(switch.room(NOW, ids[0]), 0);
        take(&mut switch, ids[1]);
    }
    assert_eq!(switch.room(NOW, ids[0]), 15, "1514 bytes are held of 2000");
}

#[test]
fn a_stalled_receiver_costs_refusals_and_recovers() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 2); 3]);
    for number in 0..6 {
        offer(&mut switch, &ids, number, 0, Some(1), 0);
    }
    assert_eq!(
        tick(&mut switch, NOW + PATIENCE),
        [2, 3, 4, 5, 1],
        "the first stays, as the receiver's next"
    );
    assert!(switch.stalled(ids[1]));
    offer(&mut switch, &ids, 6, 0, Some(1), 0);
    let account = *switch.egress_account(ids[1], Class::default());
    assert_eq!(account.refused[Reason::StalledReceiver as usize], 6);
    assert_eq!(take(&mut switch, ids[1]), Some(0));
    assert!(!switch.stalled(ids[1]));
    offer(&mut switch, &ids, 7, 0, Some(1), 0);
    assert_eq!(take(&mut switch, ids[1]), Some(7));
    switch.audit().unwrap();
}

#[test]
fn a_stalled_receiver_leaves_its_senders_their_share_for_others() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 16); 3]);
    for number in 0..16 {
        offer(&mut switch, &ids, number, 0, Some(1), 0);
    }
    assert_eq!(switch.room(NOW, ids[0]), 0);
    tick(&mut switch, NOW + PATIENCE);
    assert_eq!(switch.room(NOW + PATIENCE, ids[0]), 15);
    offer(&mut switch, &ids, 16, 0, Some(2), 0);
    assert_eq!(take(&mut switch, ids[2]), Some(16));
}

#[test]
fn time_in_debt_is_no_stall_for_a_flow_that_was_set_aside_either() {
    // A frame a minute: longer than any receiver may take.
    let rate = Rate::from_bits_per_sec(1514 * 8 / 60).unwrap();
    let config = PortConfig { shaping: Some(Shaping { rate, burst: 0 }), ..small(16, 16) };
    let (mut switch, ids) = switch(Settings::default(), &[config; 2]);
    for number in 0..3 {
        offer(&mut switch, &ids, number, 0, Some(1), 0);
    }
    assert_eq!(take(&mut switch, ids[1]), Some(0));
    let mut now = switch.deadline(NOW).unwrap();
    for _ in 0..2 {
        if let Some(head) = switch.departures(now, ids[1]).head() {
            head.park(Flow(0));
        }
    }
    assert!(switch.departures(now, ids[1]).parked_head(Flow(0)).unwrap().delivered().is_some());
    assert!(now.since(NOW) > PATIENCE);
    let due = switch.deadline(now).unwrap();
    assert!(tick(&mut switch, due).is_empty(), "it may leave now, and could not before");
    now = due;
    assert!(switch.departures(now, ids[1]).parked_head(Flow(0)).is_some());
}

#[test]
fn who_waited_goes_on_when_limits_are_raised() {
    let (mut switch, ids) = switch(Settings::default(), &[small(2, 1); 2]);
    offer(&mut switch, &ids, 0, 0, Some(1), 0);
    offer(&mut switch, &ids, 1, 0, Some(1), 0);
    assert_eq!(switch.room(NOW, ids[0]), 0);
    switch.configure(NOW, ids[0], small(3, 1));
    assert_eq!(switch.paused(NOW, ids[0]), (Span::ZERO, false));
    switch.configure(NOW, ids[1], small(2, 2));
    assert_eq!(switch.egress_load(ids[1], Class::default()).frames, 2);
}

#[test]
fn a_flow_that_is_set_aside_lets_others_pass_and_keeps_its_order() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 2); 2]);
    for number in 0..6 {
        offer(&mut switch, &ids, number, 0, Some(1), 0);
    }
    let flow = |number: u64| Flow(number % 2);
    let mut visit = switch.departures(NOW, ids[1]);
    for number in 0..6 {
        let head = visit.head().unwrap();
        assert_eq!(head.frame().number, number);
        match flow(number) {
            Flow(0) => head.park(Flow(0)),
            _ => assert!(head.delivered().is_some()),
        }
    }
    drop(visit);
    assert_eq!(switch.flows(ids[1]).collect::<Vec<_>>(), [Flow(0)]);
    let mut order = Vec::new();
    let mut visit = switch.departures(NOW, ids[1]);
    while let Some(head) = visit.parked_head(Flow(0)) {
        order.push(head.frame().number);
        head.delivered();
    }
    drop(visit);
    assert_eq!(order, [0, 2, 4]);
    assert_eq!(switch.total().held, 0);
}

/// Sets aside all that waits for a receiver.
pub fn park_all(switch: &mut Switch<Frame>, id: PortId) {
    let mut visit = switch.departures(NOW, id);
    while let Some(head) = visit.head() {
        head.park(Flow(0));
    }
}

#[test]
fn who_waits_for_whom_is_told_the_most_first() {
    let (mut switch, ids) = switch(Settings::default(), &[small(64, 2); 4]);
    for (number, from, to) in
        [(0, 0, 2), (1, 0, 1), (2, 0, 1), (3, 0, 1), (4, 3, 1), (5, 0, 2), (6, 3, 2)]
    {
        assert!(offer(&mut switch, &ids, number, from, Some(to), 0));
    }
    assert!(offer(&mut switch, &ids, 7, 0, None, 0), "what is for all waits for nobody alone");
    let mut senders = lossless::PortSet::default();
    senders.insert(ids[0]);
    let (found, looked_at) = switch.waiting_of(senders);
    assert!(looked_at >= 8, "what others have waiting costs as much: {looked_at}");
    let found = found.iter().map(|it| (it.from, it.frames, it.frame.number));
    assert_eq!(found.collect::<Vec<_>>(), [(ids[0], 3, 3), (ids[0], 2, 5)]);
}

#[test]
fn what_is_lent_to_a_sender_is_taken_back_once_it_holds_little() {
    let (mut switch, ids) = switch(Settings::default(), &[small(8, 64); 2]);
    let flood = |switch: &mut Switch<Frame>, most: u64| {
        let offered = (0..most).take_while(|number| {
            let fits = switch.room(NOW, ids[0]) > 0 && offer(switch, &ids, *number, 0, Some(1), 0);
            park_all(switch, ids[1]);
            fits
        });
        offered.count()
    };
    assert_eq!(flood(&mut switch, 100), 4, "half of its room may be set aside");
    assert!(switch.lend(NOW, ids[0], 10));
    assert_eq!(flood(&mut switch, 100), 10);
    assert_eq!(switch.room(NOW, ids[0]), 0);
    // It is not asked to return what it has.
    assert!(switch.lend(NOW, ids[0], 0));
    let mut visit = switch.departures(NOW, ids[1]);
    for _ in 0..12 {
        visit.parked_head(Flow(0)).unwrap().delivered();
    }
    drop(visit);
    assert!(!switch.lend(NOW, ids[0], 0));
    assert_eq!(flood(&mut switch, 100), 2);
    switch.audit().unwrap();
}

#[test]
fn senders_take_turns_in_a_flow_that_was_set_aside() {
    let (mut switch, ids) = switch(Settings::default(), &[small(64, 64); 4]);
    // The first has set aside a whole window before the others come.
    for (from, frames) in [(0, 40), (2, 20), (3, 20)] {
        for number in 0..frames {
            offer(&mut switch, &ids, number, from, Some(1), 0);
        }
        park_all(&mut switch, ids[1]);
    }
    let mut shares = [0; 4];
    let mut visit = switch.departures(NOW, ids[1]);
    for _ in 0..60 {
        let head = visit.parked_head(Flow(0)).unwrap();
        let frame = head.frame();
        assert_eq!(frame.number, shares[frame.from], "in its sender's order");
        shares[frame.from] += 1;
        assert!(head.delivered().is_some());
        let [first, _, second, third] = shares;
        assert!(first.abs_diff(second).max(second.abs_diff(third)) <= 1, "{shares:?}");
    }
    drop(visit);
    assert_eq!(shares, [20, 0, 20, 20]);
    switch.close(ids[0]);
    switch.detach(NOW, ids[0], |released| assert_eq!(released.port, ids[0]));
    switch.audit().unwrap();
    assert_eq!(switch.total().held, 0);
    assert_eq!(switch.flows(ids[1]).len(), 0);
}

#[test]
fn the_others_go_on_when_the_sender_whose_turn_it_is_leaves() {
    for leaving in [0, 2, 3] {
        let (mut switch, ids) = switch(Settings::default(), &[small(64, 64); 4]);
        for from in [0, 2, 3] {
            for number in 0..10 {
                offer(&mut switch, &ids, number, from, Some(1), 0);
            }
        }
        park_all(&mut switch, ids[1]);
        let mut turn = || {
            let mut visit = switch.departures(NOW, ids[1]);
            let head = visit.parked_head(Flow(0)).unwrap();
            let from = head.frame().from;
            head.delivered();
            from
        };
        while turn() != leaving {}
        switch.close(ids[leaving]);
        switch.detach(NOW, ids[leaving], |_| {});
        switch.audit().unwrap();
        let mut visit = switch.departures(NOW, ids[1]);
        let mut senders = Vec::new();
        while let Some(head) = visit.parked_head(Flow(0)) {
            senders.push(head.frame().from);
            head.delivered();
        }
        assert!(senders.len() >= 18, "{senders:?}");
        assert!(senders[..16].windows(2).all(|pair| pair[0] != pair[1]), "{senders:?}");
        assert!(!senders.contains(&leaving));
    }
}

#[test]
fn turns_in_a_flow_that_was_set_aside_are_counted_in_bytes() {
    // Short frames beside full ones, and beside large segments, which take many turns each.
    for (longest, frames, each) in [(1000, 90, 1), (66_616, 6, 44)] {
        let (mut switch, ids) = switch(Settings::default(), &[small(4096, 4096); 3]);
        for (from, count, bytes, frames) in [(2, 2000, 100, 1), (0, frames, longest, each)] {
            for number in 0..count {
                let frame = Frame { number, from, flow: 0 };
                let size = Size { bytes, frames };
                let frame = Arrival { size, ..arrival(frame, Some(1), Class::default(), bytes) };
                assert_eq!(frame.offer(&mut switch, NOW, &ids), Offered::Held);
            }
        }
        park_all(&mut switch, ids[1]);
        let mut bytes = [0u32; 3];
        let mut visit = switch.departures(NOW, ids[1]);
        while bytes.iter().sum::<u32>() < 140_000 {
            let head = visit.parked_head(Flow(0)).unwrap();
            bytes[head.frame().from] += head.bytes();
            head.delivered();
        }
        assert!(bytes[0].abs_diff(bytes[2]) <= longest + 1514, "{bytes:?}");
    }
}

#[test]
fn a_lossy_class_refuses_what_a_lossless_one_holds() {
    let classes = Classes(ClassMap::from_fn(|class| match class.pcp() {
        0 => ClassKind::Lossy,
        _ => ClassKind::Lossless,
    }));
    let (mut switch, ids) = switch(Settings { classes, ..Settings::default() }, &[small(16, 2); 2]);
    for number in 0..5 {
        offer(&mut switch, &ids, number, 0, Some(1), 0);
        offer(&mut switch, &ids, 100 + number, 0, Some(1), 1);
    }
    let refused = |switch: &Switch<Frame>, pcp| {
        switch.egress_account(ids[1], Class::from_low_bits(pcp)).refused[Reason::Full as usize]
    };
    assert_eq!((refused(&switch, 0), refused(&switch, 1)), (3, 0));
    assert_eq!(switch.total().held, 7);
}

#[test]
fn weights_share_an_egress_in_bytes() {
    let mut weights = [1; 8];
    weights[5] = 3;
    let config = PortConfig { scheduling: Scheduling::Weighted(weights), ..small(64, 64) };
    let (mut switch, ids) = switch(Settings::default(), &[config; 2]);
    let mut served = [0; 8];
    for number in 0..400 {
        offer(&mut switch, &ids, number, 0, Some(1), 0);
        offer(&mut switch, &ids, 1000 + number, 0, Some(1), 5);
        let mut visit = switch.departures(NOW, ids[1]);
        let head = visit.head().unwrap();
        served[head.class().index()] += 1;
        head.delivered();
    }
    assert!((95..=105).contains(&served[0]), "{served:?}");
}

#[test]
fn what_is_refused_before_it_is_offered_is_in_the_books() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 2); 2]);
    switch.arrivals(NOW, ids[0]).refuse(Class::default(), 60, Refusal::LINK_LOCAL);
    let frame = Frame { number: 0, from: 0, flow: 0 };
    let home = arrival(frame, Some(0), Class::default(), 60);
    assert_eq!(home.offer(&mut switch, NOW, &ids), Offered::Refused(frame, Reason::SamePort));
    let refusals: Vec<_> = switch.total().refusals().collect();
    assert_eq!(refusals, [(Reason::SamePort, 1), (Reason::LinkLocal, 1)]);
    assert_eq!((switch.total().bytes, switch.audit()), (120, Ok(())));
}

#[test]
fn a_frame_repeats_only_one_that_was_held() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 16); 2]);
    let frame = |number| Frame { number, from: 0, flow: 0 };
    let size = Size { bytes: 60, frames: 1 };
    // What repeats is written down where a frame that is gone was.
    (0..4).for_each(|number| assert!(offer(&mut switch, &ids, number, 0, Some(1), 0)));
    while take(&mut switch, ids[1]).is_some() {}
    let mut visit = switch.arrivals(NOW, ids[0]);
    assert!(!visit.repeat(frame(0), size), "nothing was offered");
    let first = arrival(frame(1), Some(1), Class::default(), 60);
    assert_eq!(first.offer_in(&mut visit, &ids), Offered::Held);
    assert!(visit.repeat(frame(2), size));
    assert!(
        !visit.repeat(frame(3), Size { bytes: 3000, frames: 2 }),
        "of another size on the wire"
    );
    visit.refuse(Class::default(), 60, Refusal::LINK_LOCAL);
    assert!(!visit.repeat(frame(4), size), "the last was refused");
    drop(visit);
    assert_eq!(switch.egress_load(ids[1], Class::default()).frames, 2);
}

#[test]
fn what_is_for_nobody_else_is_refused() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 2); 2]);
    switch.close(ids[1]);
    let frame = Frame { number: 0, from: 0, flow: 0 };
    let to_all = arrival(frame, None, Class::default(), 60);
    assert_eq!(to_all.offer(&mut switch, NOW, &ids), Offered::Refused(frame, Reason::NoEgress));
    assert_eq!(switch.audit(), Ok(()));
}

#[test]
fn a_class_that_the_receiver_pauses_stays_and_the_others_pass() {
    for scheduling in [Scheduling::Strict, Scheduling::Weighted([1; 8])] {
        let (mut switch, ids) =
            switch(Settings::default(), &[PortConfig { scheduling, ..small(64, 64) }; 2]);
        for (number, pcp) in [(0, 5), (1, 3), (2, 5), (3, 3)] {
            offer(&mut switch, &ids, number, 0, Some(1), pcp);
        }
        switch.pause_classes(ids[1], 1 << 5);
        let taken: Vec<_> = std::iter::from_fn(|| take(&mut switch, ids[1])).collect();
        assert_eq!(taken, [1, 3]);
        let frame = Frame { number: 4, from: 0, flow: 0 };
        let (class, size) = (Class::from_low_bits(5), Size { bytes: 60, frames: 1 });
        assert_eq!(switch.pass(NOW, ids[0], ids[1], class, frame, size, || true), Offered::Held);
        switch.pause_classes(ids[1], 0);
        let taken: Vec<_> = std::iter::from_fn(|| take(&mut switch, ids[1])).collect();
        assert_eq!((taken, switch.audit()), (vec![0, 2, 4], Ok(())));
    }
}

#[test]
fn a_shaped_egress_says_when_to_come_back() {
    let config = PortConfig {
        shaping: Some(Shaping { rate: Rate::from_gbit(1), burst: 0 }),
        ..small(16, 16)
    };
    let (mut switch, ids) = switch(Settings::default(), &[config; 2]);
    offer(&mut switch, &ids, 0, 0, Some(1), 0);
    offer(&mut switch, &ids, 1, 0, Some(1), 0);
    assert_eq!(take(&mut switch, ids[1]), Some(0));
    assert_eq!(take(&mut switch, ids[1]), None);
    let due = switch.deadline(NOW).unwrap();
    assert_eq!(due.as_nanos(), 12_112);
    assert!(switch.departures(due, ids[1]).head().is_some());
}

#[test]
fn a_large_segment_passes_a_small_queue_alone() {
    let (mut switch, ids) = switch(Settings::default(), &[small(16, 8); 2]);
    for number in 0..2 {
        let frame = Frame { number, from: 0, flow: 0 };
        let size = Size { frames: 44, bytes: 66_616 };
        let large = Arrival { size, ..arrival(frame, Some(1), Class::default(), 0) };
        assert_eq!(large.offer(&mut switch, NOW, &ids), Offered::Held);
    }
    assert_eq!(switch.egress_load(ids[1], Class::default()).frames, 44);
    assert_eq!((take(&mut switch, ids[1]), take(&mut switch, ids[1])), (Some(0), Some(1)));
}

#[test]
fn who_gets_a_frame_back_is_told_whether_some_receiver_had_it() {
    let (mut switch, ids) = switch(Settings::default(), &[small(8, 8); 3]);
    offer(&mut switch, &ids, 0, 0, Some(1), 0);
    // For both others, of which the first takes it; then for both, of which none does.
    offer(&mut switch, &ids, 1, 0, None, 0);
    let mut visit = switch.departures(NOW, ids[1]);
    visit.head().unwrap().depart(Flow(7));
    assert!(visit.head().unwrap().delivered().is_none());
    drop(visit);
    offer(&mut switch, &ids, 2, 0, None, 0);
    let arrived = switch.arrived(NOW, ids[1], Flow(7)).unwrap();
    assert_eq!((arrived.frame.number, arrived.refused), (0, None));
    depart_all(&mut switch, ids[1]);
    assert_eq!(switch.missed(NOW, ids[1], Flow(7), Refusal::UNFIT), None, "another may have it");
    let mut released = Vec::new();
    switch.detach(NOW, ids[2], |gone| released.push((gone.frame.number, gone.refused)));
    assert_eq!(released, [(1, None), (2, Some(Reason::Detached))]);
}
