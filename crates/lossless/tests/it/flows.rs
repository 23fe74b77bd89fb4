//! Flows that are offered: receivers of their own behind one port.

use lossless::Fate;

use super::*;

const NOW: Instant = Instant::ZERO;

/// The port that all flows are behind.
const FAR: usize = 2;

fn offer(
    switch: &mut Switch<Frame>,
    ids: &[PortId],
    frame: Frame,
    class: Class,
    bytes: u32,
) -> Offered<Frame> {
    let to = Destination::Flow(ids[FAR], Flow(frame.flow));
    switch.arrivals(NOW, ids[frame.from]).offer(to, class, frame, Size { bytes, frames: 1 })
}

/// The number of the flow at this place: two are of one group.
fn flow_at(place: u64) -> u64 {
    ((place / 2) << 40) | place
}

/// Each flow is of one class.
fn class_of(flow: u64) -> Class {
    Class::from_low_bits((flow % 2) as u8)
}

/// How long a frame of the model is: short, full, or a large segment.
fn bytes_of(frame: Frame) -> u32 {
    [100, 1514, 65_000, 900, 60][(frame.number % 5) as usize]
}

/// One flow's frames, and its senders' turns by deficit round robin as it was printed, round by
/// round.
struct ModelFlow {
    /// By sender: what waits, oldest first, and the bytes that it has saved up.
    lanes: BTreeMap<usize, (VecDeque<Frame>, u32)>,
    turn: usize,
    tag: u64,
}

impl ModelFlow {
    fn len(&self) -> usize {
        self.lanes.values().map(|(frames, _)| frames.len()).sum()
    }

    fn head(&self) -> Frame {
        self.lanes[&self.turn].0[0]
    }

    fn pop(&mut self) -> Frame {
        let (frames, deficit) = self.lanes.get_mut(&self.turn).unwrap();
        let frame = frames.pop_front().unwrap();
        *deficit = deficit.saturating_sub(bytes_of(frame));
        match frames.front() {
            Some(next) if *deficit >= bytes_of(*next) => return frame,
            Some(_) => {}
            None => drop(self.lanes.remove(&self.turn)),
        }
        while !self.lanes.is_empty() {
            let later = self.lanes.keys().find(|sender| **sender > self.turn);
            self.turn = *later.or(self.lanes.keys().next()).unwrap();
            let (frames, deficit) = self.lanes.get_mut(&self.turn).unwrap();
            *deficit += 1514;
            if *deficit >= bytes_of(frames[0]) {
                break;
            }
        }
        frame
    }
}

/// Which frames are where, in queues and sets, and whose turn it is, by looking at all.
#[derive(Default)]
struct Model {
    waiting: BTreeMap<u64, ModelFlow>,
    blocked: BTreeSet<u64>,
    /// By class: the tag of the frame that left last.
    virtual_time: BTreeMap<Class, u64>,
    /// By flow: what is underway, oldest first.
    away: BTreeMap<u64, VecDeque<Frame>>,
    /// By group.
    books: BTreeMap<u32, Account>,
}

impl Model {
    fn held(&self) -> u64 {
        let waiting = self.waiting.values().map(ModelFlow::len);
        waiting.chain(self.away.values().map(VecDeque::len)).sum::<usize>() as u64
    }

    fn accept(&mut self, frame: Frame) {
        let Frame { from, flow, .. } = frame;
        let now = self.virtual_time.get(&class_of(flow)).unwrap_or(&0);
        let it = self.waiting.entry(flow).or_insert_with(|| ModelFlow {
            lanes: BTreeMap::new(),
            turn: from,
            tag: now + u64::from(bytes_of(frame)),
        });
        it.lanes.entry(from).or_default().0.push_back(frame);
        let account = self.books.entry(Flow(flow).group()).or_default();
        account.accepted += 1;
        account.held += 1;
    }

    /// Some receiver has a frame, or it was refused.
    fn end(&mut self, frame: Frame, refused: Option<Reason>) {
        let account = self.books.get_mut(&Flow(frame.flow).group()).expect("it was accepted");
        account.held -= 1;
        match refused {
            Some(reason) => account.refused[reason as usize] += 1,
            None => {
                account.delivered += 1;
                account.bytes += u64::from(bytes_of(frame));
            }
        }
    }

    /// Takes out all that is in some flows, or underway.
    fn abandon(&mut self, flows: [u64; 2]) -> Vec<Frame> {
        let waiting = self.waiting.extract_if(.., |flow, _| flows.contains(flow));
        let lanes = waiting.flat_map(|(_, flow)| flow.lanes);
        let mut gone: Vec<Frame> = lanes.flat_map(|(_, (frames, _))| frames).collect();
        let away = self.away.extract_if(.., |flow, _| flows.contains(flow));
        gone.extend(away.flat_map(|(_, frames)| frames));
        self.blocked.retain(|flow| !flows.contains(flow));
        gone
    }

    /// The frame that is next: of the highest class that has a flow that is not blocked, and there
    /// of the flow with the least tag.
    fn next(&self) -> Option<Frame> {
        let ready = self.waiting.iter().filter(|(flow, _)| !self.blocked.contains(flow));
        let order =
            |(flow, it): &(&u64, &ModelFlow)| (std::cmp::Reverse(class_of(**flow)), it.tag, **flow);
        ready.min_by_key(order).map(|(_, it)| it.head())
    }

    fn unblock(&mut self, flow: u64) {
        if self.blocked.remove(&flow) {
            let now = self.virtual_time.get(&class_of(flow)).unwrap_or(&0);
            let it = self.waiting.get_mut(&flow).unwrap();
            it.tag = it.tag.max(*now);
        }
    }

    /// The next frame of a flow leaves it. A flow without frames is forgotten.
    fn leave(&mut self, frame: Frame) {
        let it = self.waiting.get_mut(&frame.flow).unwrap();
        assert_eq!(it.pop(), frame);
        self.virtual_time.insert(class_of(frame.flow), it.tag);
        if it.lanes.is_empty() {
            self.waiting.remove(&frame.flow);
        } else {
            it.tag += u64::from(bytes_of(it.head()));
        }
    }
}

proptest! {
    #[test]
    fn flows_hold_what_a_naive_model_holds(
        quota in 1u32..6,
        steps in prop::collection::vec((0u8..12, 0usize..2, 0u64..5), 1..300),
    ) {
        let config = PortConfig { quota: super::quota(quota), ..PortConfig::default() };
        let (mut switch, ids) = switch(Settings::default(), &[config; 3]);
        let mut model = Model::default();
        for (number, (kind, from, place)) in (0u64..).zip(steps) {
            let flow = flow_at(place);
            let frame = Frame { number, from, flow };
            match kind {
                0..=4 => {
                    let (class, bytes) = (class_of(flow), bytes_of(frame));
                    let size = Size { bytes, frames: 1 };
                    let outlook = switch.flow_outlook(ids[from], (ids[FAR], Flow(flow)), class, size);
                    let waiting = model.waiting.get(&flow).map_or(0, ModelFlow::len);
                    prop_assert_eq!((outlook.fate, outlook.waiting), (Fate::Waits, waiting as u32));
                    let underway = model.away.get(&flow).map_or(0, VecDeque::len);
                    prop_assert_eq!(outlook.underway, underway);
                    prop_assert_eq!(outlook.blocked, model.blocked.contains(&flow));
                    prop_assert_eq!(outlook.flows, model.waiting.len());
                    let offered = offer(&mut switch, &ids, frame, class, bytes);
                    prop_assert_eq!(offered, Offered::Held);
                    model.accept(frame);
                }
                5..=8 => {
                    let next = model.next();
                    let mut visit = switch.departures(NOW, ids[FAR]);
                    let Some(head) = visit.flow_head() else {
                        prop_assert_eq!(next, None);
                        continue;
                    };
                    let frame = head.frame();
                    prop_assert_eq!((Some(frame), head.flow()), (next, Some(Flow(frame.flow))));
                    prop_assert_eq!(head.class(), class_of(frame.flow));
                    match kind {
                        5 => {
                            head.block();
                            model.blocked.insert(frame.flow);
                        }
                        6 => {
                            prop_assert_eq!(head.refuse(Refusal::UNFIT).map(|released| released.frame), Some(frame));
                            model.leave(frame);
                            model.end(frame, Some(Reason::Unfit));
                        }
                        7 => {
                            head.depart(Flow(frame.flow));
                            model.leave(frame);
                            model.away.entry(frame.flow).or_default().push_back(frame);
                        }
                        _ => {
                            prop_assert_eq!(head.delivered(), Some(frame));
                            model.leave(frame);
                            model.end(frame, None);
                        }
                    }
                }
                9 => {
                    switch.unblock(NOW, ids[FAR], Flow(flow));
                    model.unblock(flow);
                }
                10 => {
                    let first = model.away.get_mut(&flow).and_then(VecDeque::pop_front);
                    let (ended, refused) = match from {
                        0 => (switch.arrived(NOW, ids[FAR], Flow(flow)), None),
                        _ => {
                            let missed = switch.missed(NOW, ids[FAR], Flow(flow), Refusal::UNFIT);
                            (missed, Some(Reason::Unfit))
                        }
                    };
                    prop_assert_eq!(ended.map(|gone| gone.frame), first);
                    first.into_iter().for_each(|frame| model.end(frame, refused));
                }
                _ => {
                    let flows = [flow, flow_at(place + 1)];
                    let [first, last] = flows.map(Flow);
                    let why = Some(Reason::StalledReceiver);
                    let mut gone = BTreeSet::new();
                    switch.abandon_flows(NOW, ids[FAR], first..=last, Refusal::STALLED, |released| {
                        assert_eq!(released.refused, why);
                        gone.insert(released.frame.number);
                    });
                    let abandoned = model.abandon(flows);
                    prop_assert_eq!(gone, abandoned.iter().map(|frame| frame.number).collect());
                    abandoned.into_iter().for_each(|frame| model.end(frame, why));
                }
            }
            switch.audit().unwrap();
            prop_assert_eq!(switch.total().held, model.held());
            for group in 0..3 {
                prop_assert_eq!(switch.group_account(ids[FAR], group), model.books.get(&group));
            }
            for (from, id) in ids[..2].iter().enumerate() {
                let lanes = model.waiting.values().filter_map(|flow| flow.lanes.get(&from));
                let mut counts = lanes.map(|(frames, _)| frames.len() as u32);
                let is_at_quota = counts.any(|frames| frames >= quota);
                prop_assert_eq!(switch.at_quota(*id), is_at_quota, "of sender {}", from);
            }
        }
    }
}

#[test]
fn flows_of_a_class_take_turns_in_bytes() {
    let config = PortConfig { ingress: Limits::frames(8192), ..PortConfig::default() };
    let (mut switch, ids) = switch(Settings::default(), &[config; 3]);
    let mut number = 0;
    // The first flow sends short frames, the second full ones, the third full ones from two
    // senders, the fourth large segments.
    let mut fill = |switch: &mut Switch<Frame>, flow, from, bytes, count| {
        for _ in 0..count {
            number += 1;
            let frame = Frame { number, from, flow };
            assert_eq!(offer(switch, &ids, frame, Class::default(), bytes), Offered::Held);
        }
    };
    for (flow, from, bytes, count) in [
        (0, 0, 100, 5000),
        (1, 0, 1500, 400),
        (2, 0, 1500, 200),
        (2, 1, 1500, 200),
        (3, 0, 65_000, 9),
    ] {
        fill(&mut switch, flow, from, bytes, count);
    }
    let mut bytes = [0u32; 4];
    let mut visit = switch.departures(NOW, ids[FAR]);
    while bytes.iter().sum::<u32>() < 1_600_000 {
        let head = visit.flow_head().unwrap();
        bytes[head.frame().flow as usize] += head.bytes();
        head.delivered();
        // Two flows' shares differ by the longest frame of each at the most.
        let [least, most] = [bytes.iter().min().unwrap(), bytes.iter().max().unwrap()];
        assert!(most - least <= 65_000 + 1_500, "{bytes:?}");
    }
    assert!(bytes[0].abs_diff(bytes[1]).max(bytes[1].abs_diff(bytes[2])) <= 3_000, "{bytes:?}");
}

#[test]
fn a_flow_that_was_blocked_has_the_turn_that_it_missed_and_no_more() {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 3]);
    for number in 0..12 {
        let frame = Frame { number, from: 0, flow: number % 2 };
        let offered = offer(&mut switch, &ids, frame, Class::default(), 65_000);
        assert_eq!(offered, Offered::Held);
    }
    let take = |switch: &mut Switch<Frame>| {
        let mut visit = switch.departures(NOW, ids[FAR]);
        visit.flow_head().unwrap().delivered().unwrap().number
    };
    switch.departures(NOW, ids[FAR]).flow_head().unwrap().block();
    assert_eq!([(); 3].map(|()| take(&mut switch)), [1, 3, 5]);
    switch.unblock(NOW, ids[FAR], Flow(0));
    assert_eq!([(); 4].map(|()| take(&mut switch)), [0, 2, 7, 4]);
}

#[test]
fn frames_of_no_length_take_turns_too() {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 3]);
    for number in 0..6 {
        let frame = Frame { number, from: 0, flow: number % 2 };
        assert_eq!(offer(&mut switch, &ids, frame, Class::default(), 0), Offered::Held);
    }
    let mut visit = switch.departures(NOW, ids[FAR]);
    let order: Vec<_> =
        std::iter::from_fn(|| Some(visit.flow_head()?.delivered()?.number)).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_blocked_flow_holds_back_nobody_and_is_refused_in_the_end() {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 3]);
    for number in 0..4 {
        let frame = Frame { number, from: 0, flow: number % 2 };
        assert_eq!(offer(&mut switch, &ids, frame, Class::default(), 100), Offered::Held);
    }
    let mut visit = switch.departures(NOW, ids[FAR]);
    visit.flow_head().unwrap().block();
    let passed: Vec<_> =
        std::iter::from_fn(|| Some(visit.flow_head()?.delivered()?.number)).collect();
    drop(visit);
    assert_eq!(passed, [1, 3]);
    let due = switch.deadline(NOW).unwrap();
    assert_eq!(due, NOW + Span::from_secs(10));
    let mut refused = Vec::new();
    switch.tick(due, |released| refused.push(released.frame.number));
    assert_eq!((refused, switch.total().held), (vec![0, 2], 0));
    assert_eq!(switch.total().refused[Reason::StalledReceiver as usize], 2);
    switch.audit().unwrap();
}

#[test]
fn who_is_blocked_again_and_again_is_refused_all_the_same() {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 3]);
    let frame = Frame { number: 0, from: 0, flow: 0 };
    assert_eq!(offer(&mut switch, &ids, frame, Class::default(), 100), Offered::Held);
    let mut now = NOW;
    let mut refused = 0;
    for _ in 0..12 {
        switch.departures(now, ids[FAR]).flow_head().into_iter().for_each(lossless::Head::block);
        now += Span::from_secs(1);
        switch.tick(now, |_| refused += 1);
        switch.unblock(now, ids[FAR], Flow(0));
    }
    assert_eq!((refused, switch.total().held), (1, 0));
}

#[test]
fn who_is_unblocked_at_last_has_all_the_time_of_a_receiver() {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 3]);
    let frame = |number, flow| Frame { number, from: 0, flow };
    assert_eq!(offer(&mut switch, &ids, frame(0, 0), Class::default(), 100), Offered::Held);
    switch.departures(NOW, ids[FAR]).flow_head().unwrap().block();
    let late = NOW + Span::from_millis(9_900);
    switch.unblock(late, ids[FAR], Flow(0));
    switch.tick(late + Span::from_millis(200), |_| panic!("it was ready for 0.2 s"));
    assert_eq!(switch.total().held, 1);
    switch.audit().unwrap();
}

#[test]
fn a_sender_that_goes_leaves_the_flows_to_the_others() {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 3]);
    for (number, (from, flow)) in (0..).zip([(0, 0), (1, 0), (0, 1), (1, 2)]) {
        let frame = Frame { number, from, flow };
        assert_eq!(offer(&mut switch, &ids, frame, Class::default(), 100), Offered::Held);
    }
    switch.detach(NOW, ids[0], |_| {});
    switch.audit().unwrap();
    let mut visit = switch.departures(NOW, ids[FAR]);
    let left: Vec<_> =
        std::iter::from_fn(|| Some(visit.flow_head()?.delivered()?.number)).collect();
    assert_eq!(left, [1, 3]);
}

#[test]
fn a_copy_goes_to_each_flow_of_an_audience() {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 3]);
    let mut audience = Audience::default();
    ids[..2].iter().for_each(|id| audience.ports.insert(*id));
    audience.flows = vec![(ids[FAR], Flow(7)), (ids[FAR], Flow(9))];
    let frame = Frame { number: 1, from: 0, flow: 0 };
    let size = Size { bytes: 100, frames: 1 };
    let to = Destination::Many(&audience);
    assert_eq!(
        switch.arrivals(NOW, ids[0]).offer(to, Class::default(), frame, size),
        Offered::Held
    );
    let mut visit = switch.departures(NOW, ids[FAR]);
    for flow in [7, 9] {
        let head = visit.flow_head().unwrap();
        assert_eq!((head.frame(), head.flow()), (frame, Some(Flow(flow))));
        assert_eq!(head.delivered(), None, "others have yet to take it");
    }
    drop(visit);
    assert_eq!(switch.departures(NOW, ids[1]).head().unwrap().delivered(), Some(frame));
    assert_eq!((switch.total().delivered, switch.audit()), (1, Ok(())));
}

#[test]
fn a_groups_books_are_kept_whatever_ends_its_frames() {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 3]);
    let frame = |number, from| Frame { number, from, flow: 3 << 40 };
    let mut number = 0;
    let mut offer = |switch: &mut Switch<Frame>, from| {
        number += 1;
        offer(switch, &ids, frame(number, from), Class::default(), 100)
    };
    let books = |switch: &Switch<Frame>, reason: Reason| {
        let account = switch.group_account(ids[FAR], 3).unwrap();
        (account.held, account.refused[reason as usize])
    };
    // Blocked for too long.
    assert_eq!(offer(&mut switch, 0), Offered::Held);
    switch.departures(NOW, ids[FAR]).flow_head().unwrap().block();
    switch.tick(NOW + Span::from_secs(10), |_| {});
    assert_eq!(books(&switch, Reason::StalledReceiver), (0, 1));
    // Its sender goes, while one waits and one is underway.
    assert!((0..2).all(|_| offer(&mut switch, 1) == Offered::Held));
    switch.departures(NOW, ids[FAR]).flow_head().unwrap().depart(Flow(3 << 40));
    assert_eq!(books(&switch, Reason::Detached), (2, 0));
    switch.detach(NOW, ids[1], |_| {});
    assert_eq!(books(&switch, Reason::Detached), (0, 2));
    // All behind its port are given up.
    assert_eq!(offer(&mut switch, 0), Offered::Held);
    switch.abandon_flows(NOW, ids[FAR], Flow(0)..=Flow(u64::MAX), Refusal::STALLED, |_| {});
    assert_eq!(books(&switch, Reason::StalledReceiver), (0, 2));
    assert_eq!((switch.audit(), switch.group_account(ids[FAR], 2)), (Ok(()), None));
    switch.forget_group(ids[FAR], 3);
    assert_eq!(switch.group_account(ids[FAR], 3), None);
}

#[test]
fn what_was_set_aside_is_in_no_groups_books() {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); 3]);
    for number in 0..2 {
        let frame = Frame { number, from: 0, flow: 0 };
        let offered =
            arrival(frame, Some(FAR), Class::default(), 100).offer(&mut switch, NOW, &ids);
        assert_eq!(offered, Offered::Held);
    }
    let mut visit = switch.departures(NOW, ids[FAR]);
    visit.head().unwrap().park(Flow(0));
    visit.head().unwrap().depart(Flow(0));
    visit.parked_head(Flow(0)).unwrap().depart(Flow(0));
    drop(visit);
    assert_eq!((switch.audit(), switch.group_account(ids[FAR], 0)), (Ok(()), None));
}

#[test]
fn a_lossy_class_has_no_more_in_a_flow_than_its_egress_may_hold() {
    let mut settings = Settings::default();
    settings.classes.0.0[1] = ClassKind::Lossy;
    let egress = Limits { frames: 3, bytes: Bytes(2000) };
    let (mut switch, ids) = switch(settings, &[PortConfig { egress, ..PortConfig::default() }; 3]);
    let [lossless, lossy] = [0, 1].map(Class::from_low_bits);
    let mut number = 0;
    let mut takes = |switch: &mut Switch<Frame>, from, flow, class, bytes| {
        number += 1;
        let frame = Frame { number, from, flow };
        let size = Size { bytes, frames: 1 };
        let fate = switch.flow_outlook(ids[from], (ids[FAR], Flow(flow)), class, size).fate;
        let takes = fate == Fate::Waits;
        let offered = match fate {
            Fate::Waits => Offered::Held,
            _ => Offered::Refused(frame, Reason::Full),
        };
        assert_eq!(offer(switch, &ids, frame, class, bytes), offered);
        takes
    };
    // By frames, by bytes, and one that is longer than all that may wait. Others have their own.
    assert_eq!([(); 4].map(|()| takes(&mut switch, 0, 1, lossy, 60)), [true, true, true, false]);
    assert_eq!([(); 3].map(|()| takes(&mut switch, 0, 2, lossy, 1000)), [true, true, false]);
    assert_eq!([(); 2].map(|()| takes(&mut switch, 0, 3, lossy, 9000)), [true, false]);
    assert!((0..9).all(|_| takes(&mut switch, 0, 4, lossless, 1000)));
    // What leaves makes room, and so does what a sender takes along.
    switch.departures(NOW, ids[FAR]).flow_head().unwrap().depart(Flow(1));
    assert_eq!([(); 2].map(|()| takes(&mut switch, 1, 1, lossy, 60)), [true, false]);
    switch.detach(NOW, ids[0], |_| {});
    assert_eq!([(); 3].map(|()| takes(&mut switch, 1, 1, lossy, 60)), [true, true, false]);
    let account = switch.group_account(ids[FAR], 0).unwrap();
    assert_eq!((account.refused[Reason::Full as usize], account.held), (5, 3));
    switch.audit().unwrap();
}

#[test]
fn a_frame_may_be_for_more_than_65_536_and_wait_at_as_many_quotas() {
    const MANY: u64 = 70_000;
    let config = PortConfig { quota: quota(1), ..PortConfig::default() };
    let (mut switch, ids) = switch(Settings::default(), &[config; 3]);
    let flows = (0..MANY).map(|flow| (ids[FAR], Flow(flow))).collect();
    let audience = Audience { flows, ..Audience::default() };
    let frame = Frame { number: 1, from: 0, flow: 0 };
    let (to, size) = (Destination::Many(&audience), Size { bytes: 100, frames: 1 });
    let offered = switch.arrivals(NOW, ids[0]).offer(to, Class::default(), frame, size);
    assert_eq!(offered, Offered::Held);
    for left in (0..MANY).rev() {
        assert!(switch.at_quota(ids[0]));
        let released = switch.departures(NOW, ids[FAR]).flow_head().unwrap().delivered();
        assert_eq!(released, (left == 0).then_some(frame));
    }
    assert!(!switch.at_quota(ids[0]));
    switch.audit().unwrap();
}
