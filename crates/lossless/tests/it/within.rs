//! Ports that have terms of their own at an egress that owners share, within their owner's.

use lossless::{LinkConfig, Owner};
use shares::{Bound, Terms};

use super::links::terms;
use super::*;

/// The port that all flows are behind; two owners have three others each.
const FAR: usize = 6;

/// What the link spends on a frame besides its bytes.
const AROUND: u32 = 100;

/// What a full frame takes of it.
const FULL: u64 = 1514 + AROUND as u64;

const NOW: Instant = Instant::ZERO;

fn rate() -> Rate {
    Rate::from_gbit(1)
}

fn mbit(mbit: u64) -> Rate {
    Rate::from_bits_per_sec(mbit * 1_000_000).unwrap()
}

fn guaranteed(rate: Rate) -> Terms {
    Terms { min: Bound::bits(rate, FULL as u32), ..Terms::default() }
}

fn at_most(rate: Rate) -> Terms {
    Terms { max: Bound::bits(rate, 4 * FULL as u32), ..Terms::default() }
}

fn world() -> (Switch<Frame>, Vec<PortId>) {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); FAR + 1]);
    for (port, id) in ids.iter().enumerate().take(FAR) {
        switch.set_owner(*id, Owner((port / 3) as u16));
    }
    switch.share(ids[FAR], LinkConfig { rate: rate(), frame: FULL as u32, around: AROUND });
    (switch, ids)
}

/// A link that sends what it is given: its time goes on by that.
struct Wire {
    switch: Switch<Frame>,
    ids: Vec<PortId>,
    now: Instant,
    number: u64,
    /// What each port has sent, as the link counts.
    sent: [u64; FAR],
}

impl Wire {
    fn new(owners: [Terms; 2]) -> Self {
        let (mut switch, ids) = world();
        for (owner, terms) in (0..).zip(owners) {
            switch.set_terms(NOW, ids[FAR], Owner(owner), terms);
        }
        Self { switch, ids, now: NOW, number: 0, sent: [0; FAR] }
    }

    fn set(&mut self, port: usize, terms: Option<Terms>) {
        self.switch.set_port_terms(self.now, self.ids[FAR], self.ids[port], terms);
        assert_eq!(self.switch.audit(), Ok(()));
    }

    /// A full frame waits, or so many do. All ports of an owner send to one far port.
    fn offer(&mut self, port: usize, frames: usize) {
        for _ in 0..frames {
            let frame = Frame { number: self.number, from: port, flow: (port / 3) as u64 };
            self.number += 1;
            let to = Destination::Flow(self.ids[FAR], Flow(frame.flow));
            let size = Size { bytes: 1514, frames: 1 };
            let mut visit = self.switch.arrivals(self.now, self.ids[port]);
            assert_eq!(visit.offer(to, Class::default(), frame, size), Offered::Held);
        }
    }

    /// Sends a frame. Whose it was.
    fn send(&mut self) -> Option<usize> {
        let mut visit = self.switch.departures(self.now, self.ids[FAR]);
        let head = visit.flow_head()?;
        let from = head.frame().from;
        let _ = head.delivered();
        drop(visit);
        self.now += rate().time_for(FULL);
        self.sent[from] += FULL;
        Some(from)
    }

    /// Sends for so long, or lets the time pass. Whoever has sent has as many frames again.
    fn run(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            match self.send() {
                Some(from) => self.offer(from, 1),
                None => {
                    let at = self.switch.deadline(self.now).expect("somebody has something");
                    assert!(at > self.now);
                    self.now = at.min(end);
                }
            }
        }
    }

    /// How many Mb/s each port has sent of late.
    fn mbits(&mut self, span: Span) -> [f64; FAR] {
        let before = self.sent;
        self.run(span);
        std::array::from_fn(|port| {
            (self.sent[port] - before[port]) as f64 * 8.0 / span.as_secs_f64() / 1e6
        })
    }
}

const LONG: Span = Span::from_millis(200);

#[track_caller]
fn near(mbits: f64, exact: f64) {
    assert!((mbits - exact).abs() <= 0.03 * exact + 0.5, "{mbits} Mb/s, not {exact}");
}

#[test]
fn a_port_has_its_minimum_beside_others_of_its_network_that_flood_the_same_far_port() {
    let mut wire = Wire::new([guaranteed(mbit(400)), Terms::default()]);
    wire.set(0, Some(guaranteed(mbit(300))));
    (0..FAR).for_each(|port| wire.offer(port, 8));
    let mbits = wire.mbits(LONG);
    // The owner has its guarantee and half of the rest, and of that the port has its own and half:
    // those without terms are one.
    near(mbits[..3].iter().sum(), 700.0);
    near(mbits[0], 500.0);
    near(mbits[1] + mbits[2], 200.0);
    let used = wire.switch.port_link_use(wire.ids[FAR], wire.ids[0]).unwrap();
    assert_eq!(used.bytes, wire.sent[0]);
    near(used.guaranteed_bytes as f64 * 8.0 / LONG.as_secs_f64() / 1e6, 300.0);
    assert_eq!(wire.switch.port_link_use(wire.ids[FAR], wire.ids[1]), None);
}

#[test]
fn a_frame_within_its_ports_minimum_waits_for_few_however_many_the_others_have() {
    let mut wire = Wire::new([guaranteed(mbit(400)), guaranteed(mbit(300))]);
    for port in 0..3 {
        wire.set(port, Some(if port == 0 { guaranteed(mbit(100)) } else { Terms::default() }));
    }
    (1..FAR).for_each(|port| wire.offer(port, 50));
    let mut longest = Span::ZERO;
    for _ in 0..300 {
        wire.offer(0, 1);
        let before = wire.now;
        loop {
            match wire.send().expect("the others have many") {
                0 => break,
                from => wire.offer(from, 1),
            }
        }
        longest = longest.max(wire.now.since(before));
        // 65 Mb/s.
        while wire.now.since(before) < Span::from_micros(200) {
            let from = wire.send().expect("the others have many");
            wire.offer(from, 1);
        }
    }
    // A frame in service, the owner's frame before it, the other's between them at most twice, and
    // its own.
    assert!(longest <= Span::from_nanos(7 * rate().time_for(FULL).as_nanos()), "{longest}");
}

#[test]
fn maxima_of_a_port_and_of_all_its_network_hold_at_once() {
    let mut wire = Wire::new([at_most(mbit(500)), Terms::default()]);
    wire.set(0, Some(at_most(mbit(100))));
    wire.set(1, Some(Terms { weight: 3.try_into().unwrap(), ..Terms::default() }));
    (0..3).for_each(|port| wire.offer(port, 8));
    wire.mbits(LONG);
    let mbits = wire.mbits(LONG);
    near(mbits[0], 100.0);
    // What it leaves is shared by weight.
    near(mbits[1], 300.0);
    near(mbits[2], 100.0);
    // One that is held does not hold others; and if all are, the switch says until when.
    wire.set(1, Some(at_most(mbit(50))));
    wire.set(2, Some(at_most(mbit(20))));
    wire.mbits(LONG);
    let mbits = wire.mbits(LONG);
    near(mbits[0], 100.0);
    near(mbits[1], 50.0);
    near(mbits[2], 20.0);
}

#[test]
fn terms_come_change_and_go_while_frames_wait_and_those_stay_in_order() {
    let mut wire = Wire::new([Terms::default(); 2]);
    (0..2).for_each(|port| wire.offer(port, 40));
    let mut last = [None; 2];
    let mut took = |wire: &mut Wire, frames: usize| {
        for _ in 0..frames {
            let mut visit = wire.switch.departures(wire.now, wire.ids[FAR]);
            let head = visit.flow_head().expect("both have many");
            let Frame { number, from, .. } = head.frame();
            assert!(last[from].replace(number) < Some(number), "{from}: {number} after {last:?}");
            let _ = head.delivered();
            drop(visit);
            wire.now += rate().time_for(FULL);
        }
    };
    took(&mut wire, 10);
    wire.set(0, Some(guaranteed(mbit(100))));
    took(&mut wire, 10);
    wire.set(0, Some(guaranteed(mbit(900))));
    took(&mut wire, 10);
    wire.set(1, Some(Terms::default()));
    took(&mut wire, 10);
    wire.set(0, None);
    took(&mut wire, 10);
    wire.set(1, None);
    took(&mut wire, 30);
    assert_eq!(wire.send(), None);
}

#[test]
fn a_flow_that_has_to_wait_does_so_for_all_its_senders_and_goes_on_for_all() {
    let mut wire = Wire::new([Terms::default(); 2]);
    wire.set(0, Some(Terms::default()));
    (0..2).for_each(|port| wire.offer(port, 2));
    let mut visit = wire.switch.departures(wire.now, wire.ids[FAR]);
    visit.flow_head().expect("both have some").block();
    assert!(visit.flow_head().is_none());
    drop(visit);
    // Who comes only now waits, too.
    wire.set(2, Some(Terms::default()));
    wire.offer(2, 1);
    assert_eq!(wire.switch.audit(), Ok(()));
    assert_eq!(wire.send(), None);
    wire.switch.unblock(wire.now, wire.ids[FAR], Flow(0));
    assert_eq!(wire.switch.audit(), Ok(()));
    let mut sent: Vec<_> = std::iter::from_fn(|| wire.send()).collect();
    sent.sort_unstable();
    assert_eq!(sent, [0, 0, 1, 1, 2]);
}

#[test]
fn a_port_that_is_taken_away_has_no_terms_and_leaves_nobody_waiting() {
    let mut wire = Wire::new([Terms::default(); 2]);
    (0..2).for_each(|port| wire.set(port, Some(at_most(mbit(100)))));
    (0..3).for_each(|port| wire.offer(port, 5));
    for port in 0..2 {
        let Wire { switch, ids, now, .. } = &mut wire;
        let mut released = 0;
        switch.detach(*now, ids[port], |_| released += 1);
        assert_eq!(released, 5);
        assert_eq!(switch.audit(), Ok(()));
    }
    assert_eq!(std::iter::from_fn(|| wire.send()).collect::<Vec<_>>(), [2; 5]);
    // Its number is another's, which begins without.
    wire.switch.attach(wire.now, PortConfig::default()).unwrap();
    assert_eq!(wire.switch.port_link_use(wire.ids[FAR], wire.ids[0]), None);
}

#[derive(Clone, Debug)]
enum Step {
    Offer { port: usize, flow: u64 },
    Serve { fate: u8 },
    Unblock { flow: u64 },
    Owner { owner: u16, terms: Terms },
    Port { port: usize, terms: Option<Terms> },
    Wait { us: u64 },
    Abandon { flow: u64 },
    Withdraw { port: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let (port, flow) = (0..FAR, 0..3_u64);
    prop_oneof![
        8 => (port.clone(), flow.clone()).prop_map(|(port, flow)| Step::Offer { port, flow }),
        8 => (0..10_u8).prop_map(|fate| Step::Serve { fate }),
        3 => flow.clone().prop_map(|flow| Step::Unblock { flow }),
        1 => (0..2_u16, terms()).prop_map(|(owner, terms)| Step::Owner { owner, terms }),
        2 => (port.clone(), prop::option::of(terms()))
            .prop_map(|(port, terms)| Step::Port { port, terms }),
        4 => (0..200_u64).prop_map(|us| Step::Wait { us }),
        1 => flow.prop_map(|flow| Step::Abandon { flow }),
        1 => port.prop_map(|port| Step::Withdraw { port }),
    ]
}

/// Flows of one owner: two of a class, and one of a higher.
fn flow_of(port: usize, flow: u64) -> (Flow, Class) {
    (Flow((port / 3) as u64 * 4 + flow), Class::from_low_bits((flow / 2) as u8))
}

fn bytes_of(number: u64) -> u32 {
    [100, 1514, 900, 65_000, 60][(number % 5) as usize]
}

proptest! {
    #[test]
    fn whatever_terms_ports_have_the_law_and_the_order_hold_and_all_that_may_go_goes(
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let (mut switch, ids) = world();
        let mut now = NOW;
        // By sender and flow: what is to come, in order; and which flows are blocked.
        let mut queues: BTreeMap<(usize, u64), VecDeque<u64>> = BTreeMap::new();
        let mut blocked: BTreeSet<u64> = BTreeSet::new();
        let mut bounded: BTreeSet<usize> = BTreeSet::new();
        let mut owners_bounded = false;
        let serve = |switch: &mut Switch<Frame>, now, fate: u8| {
            let mut visit = switch.departures(now, ids[FAR]);
            let head = visit.flow_head()?;
            let frame = head.frame();
            match fate {
                0..=5 => assert_eq!(head.delivered(), Some(frame)),
                6 => head.depart(Flow(frame.flow)),
                7 => head.block(),
                8 => drop(head.refuse(Refusal::WITHDRAWN)),
                _ => {}
            }
            Some(frame)
        };
        for (number, step) in (0..).zip(steps) {
            match step {
                Step::Offer { port, flow } => {
                    let (flow, class) = flow_of(port, flow);
                    let frame = Frame { number, from: port, flow: flow.0 };
                    let to = Destination::Flow(ids[FAR], flow);
                    let size = Size { bytes: bytes_of(number), frames: 1 };
                    let offered = switch.arrivals(now, ids[port]).offer(to, class, frame, size);
                    prop_assert_eq!(offered, Offered::Held);
                    queues.entry((port, flow.0)).or_default().push_back(number);
                }
                Step::Serve { fate } => match serve(&mut switch, now, fate) {
                    Some(Frame { number, from, flow }) => {
                        prop_assert!(!blocked.contains(&flow));
                        let queue = queues.get_mut(&(from, flow)).unwrap();
                        prop_assert_eq!(queue.front(), Some(&number));
                        if fate == 7 {
                            blocked.insert(flow);
                        } else if fate < 9 {
                            queue.pop_front();
                        }
                    }
                    // Nobody is held who has no maximum.
                    None => {
                        let all_held = queues.iter().all(|((from, flow), it)| {
                            it.is_empty() || blocked.contains(flow) || bounded.contains(from)
                        });
                        prop_assert!(owners_bounded || all_held);
                    }
                },
                Step::Unblock { flow } => {
                    for owner in 0..2 {
                        let (flow, _) = flow_of(3 * owner, flow);
                        switch.unblock(now, ids[FAR], flow);
                        blocked.remove(&flow.0);
                    }
                }
                Step::Owner { owner, terms } => {
                    owners_bounded |= terms.max != Bound::default();
                    switch.set_terms(now, ids[FAR], Owner(owner), terms);
                }
                Step::Port { port, terms } => {
                    switch.set_port_terms(now, ids[FAR], ids[port], terms);
                    match terms.is_some_and(|terms| terms.max != Bound::default()) {
                        true => bounded.insert(port),
                        false => bounded.remove(&port),
                    };
                }
                Step::Wait { us } => now += Span::from_micros(us),
                Step::Abandon { flow } => {
                    let (flow, _) = flow_of(0, flow);
                    switch.abandon_flows(now, ids[FAR], flow..=flow, Refusal::STALLED, |_| {});
                    queues.iter_mut().filter(|((_, it), _)| *it == flow.0).for_each(|(_, queue)| {
                        queue.clear();
                    });
                    blocked.remove(&flow.0);
                }
                Step::Withdraw { port } => {
                    switch.withdraw_all(now, ids[port], |_| {});
                    queues.iter_mut().filter(|((from, _), _)| *from == port).for_each(|(_, queue)| {
                        queue.clear();
                    });
                }
            }
            // A flow that holds nothing is forgotten, and with it that it is blocked.
            blocked.retain(|flow| queues.iter().any(|((_, it), queue)| it == flow && !queue.is_empty()));
            prop_assert_eq!(switch.audit(), Ok(()));
        }
        // All that is not blocked leaves, as fast as maxima let it.
        let mut waits = 0;
        while waits < 10_000 {
            if let Some(Frame { number, from, flow }) = serve(&mut switch, now, 0) {
                prop_assert_eq!(queues.get_mut(&(from, flow)).unwrap().pop_front(), Some(number));
                continue;
            }
            let soon = |at: &Instant| at.since(now) < Span::from_secs(5);
            let Some(at) = switch.deadline(now).filter(soon) else { break };
            now = at.max(now + Span::from_nanos(1));
            waits += 1;
        }
        for ((_, flow), queue) in &queues {
            prop_assert!(queue.is_empty() || blocked.contains(flow), "{queue:?} of {flow}");
        }
    }
}
