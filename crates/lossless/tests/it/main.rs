//! The switch against what it promises, under random ports, sizes, classes, stalls and orders.
//!
//! Four witnesses: a naive Algorithm 1, which walks each ingress and keeps the blocked set of the
//! paper, must hand out the very same frames where no arbitration is involved; a referee checks
//! order, work conservation and the books after every step where it is; a second switch, visited
//! anew for each frame, must agree with one whose visits are long; and ten million seeded visits
//! keep the law.

mod bystanders;
mod examples;
mod flows;
mod links;
mod moves;
mod outlook;
mod sockets;
mod turns;
mod within;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;

use lossless::{
    Account, Audience, ClassKind, Classes, Departures, Destination, Flow, Limits, Offered,
    PortConfig, PortId, Reason, Refusal, Scheduling, Settings, Shaping, Size, Switch,
};
use proptest::prelude::*;
use units::{Bytes, Class, ClassMap, Instant, Rate, Rng, Span};

/// What a test's frame is: enough to check its whole way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Frame {
    number: u64,
    from: usize,
    /// Frames are parked by flow in some tests.
    flow: u64,
}

/// A frame that is offered: to one port by its place, or to all.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    frame: Frame,
    to: Option<usize>,
    class: Class,
    size: Size,
    /// Of a frame for all, those who have not asked for it: a bit each, by place.
    bystanders: u64,
}

fn arrival(frame: Frame, to: Option<usize>, class: Class, bytes: u32) -> Arrival {
    Arrival { frame, to, class, size: Size { bytes, frames: 1 }, bystanders: 0 }
}

impl Arrival {
    /// Offers it to a switch that has these ports.
    fn offer(self, switch: &mut Switch<Frame>, now: Instant, ids: &[PortId]) -> Offered<Frame> {
        self.offer_in(&mut switch.arrivals(now, ids[self.frame.from]), ids)
    }

    /// The same in a visit to its sender, after `before` if that was the last that was offered
    /// there.
    fn follow_in(
        self,
        before: Option<Self>,
        visit: &mut lossless::Arrivals<'_, Frame>,
        ids: &[PortId],
    ) -> Offered<Frame> {
        let repeats =
            before.is_some_and(|before| (before.to, before.class) == (self.to, self.class));
        match repeats && visit.repeat(self.frame, self.size) {
            true => Offered::Held,
            false => self.offer_in(visit, ids),
        }
    }

    /// The same in a visit to its sender.
    fn offer_in(self, visit: &mut lossless::Arrivals<'_, Frame>, ids: &[PortId]) -> Offered<Frame> {
        let Self { frame, to, class, size, bystanders } = self;
        let mut all = Audience::default();
        let asks_not = |(place, _): &(usize, &PortId)| bystanders & 1 << place != 0;
        let spare = ids.iter().enumerate().filter(asks_not);
        spare.for_each(|(_, id)| all.bystanders.insert(*id));
        let to = match to {
            Some(to) => Destination::One(ids[to]),
            None => {
                ids.iter().for_each(|id| all.ports.insert(*id));
                Destination::Many(&all)
            }
        };
        visit.offer(to, class, frame, size)
    }
}

/// A switch with such ports.
fn switch(settings: Settings, configs: &[PortConfig]) -> (Switch<Frame>, Vec<PortId>) {
    let mut switch = Switch::new(settings);
    let ids = configs.iter().map(|c| switch.attach(Instant::ZERO, *c).unwrap()).collect();
    (switch, ids)
}

fn quota(frames: u32) -> NonZeroU32 {
    NonZeroU32::new(frames).unwrap()
}

/// zOVN's Algorithm 1, as it is printed, for one sender: the forwarder walks the whole ingress at
/// every step.
#[derive(Default)]
struct Algorithm1 {
    ingress: VecDeque<(u64, usize, Class)>,
    egress: BTreeMap<(usize, Class), VecDeque<u64>>,
    room: usize,
}

impl Algorithm1 {
    fn forwarder(&mut self) {
        let mut blocked = BTreeSet::new();
        let walk = std::mem::take(&mut self.ingress);
        for (number, to, class) in walk {
            let queue = self.egress.entry((to, class)).or_default();
            if queue.len() >= self.room {
                blocked.insert((to, class));
            }
            if blocked.contains(&(to, class)) {
                self.ingress.push_back((number, to, class));
            } else {
                queue.push_back(number);
            }
        }
    }

    fn receive(&mut self, to: usize) -> Option<u64> {
        let highest = self
            .egress
            .iter_mut()
            .rev()
            .find(|((egress, _), queue)| *egress == to && !queue.is_empty());
        let number = highest?.1.pop_front();
        self.forwarder();
        number
    }
}

proptest! {
    #[test]
    fn one_sender_is_served_exactly_as_algorithm_1_says(
        room in 1usize..6,
        visits in prop::collection::vec((0u8..3, prop::collection::vec((1usize..5, 0u8..8), 1..8)), 1..100),
    ) {
        let config = PortConfig { egress: Limits::frames(room as u32), ..PortConfig::default() };
        let (mut switch, ids) = switch(Settings::default(), &[config; 5]);
        let mut naive = Algorithm1 { room, ..Algorithm1::default() };
        let (now, mut number) = (Instant::ZERO, 0);
        for (kind, frames) in visits {
            if kind < 2 {
                let mut visit = switch.arrivals(now, ids[0]);
                for (port, pcp) in frames {
                    let class = Class::from_low_bits(pcp);
                    let frame = Frame { number, from: 0, flow: 0 };
                    let offered = arrival(frame, Some(port), class, 100).offer_in(&mut visit, &ids);
                    prop_assert_eq!(offered, Offered::Held);
                    naive.ingress.push_back((number, port, class));
                    naive.forwarder();
                    number += 1;
                }
            } else {
                let port = frames[0].0;
                let mut visit = switch.departures(now, ids[port]);
                for _ in frames {
                    let got = visit.head().map(|head| head.delivered().unwrap().number);
                    prop_assert_eq!(got, naive.receive(port));
                }
            }
            switch.audit().unwrap();
        }
    }
}

/// Follows every frame of a switch and objects to whatever breaks a promise.
struct Referee {
    /// What each (sender, receiver, class, flow) has still to see, in order.
    expected: BTreeMap<(usize, usize, Class, u64), VecDeque<u64>>,
    copies: BTreeMap<u64, usize>,
    offered: u64,
    released: u64,
}

impl Referee {
    fn new() -> Self {
        Self { expected: BTreeMap::new(), copies: BTreeMap::new(), offered: 0, released: 0 }
    }

    fn accepted(&mut self, frame: Frame, to: &[usize], class: Class) {
        self.offered += 1;
        self.copies.insert(frame.number, to.len());
        for to in to {
            self.expected
                .entry((frame.from, *to, class, frame.flow))
                .or_default()
                .push_back(frame.number);
        }
    }

    fn delivered(&mut self, frame: Frame, to: usize, class: Class) {
        let expected = self
            .expected
            .get_mut(&(frame.from, to, class, frame.flow))
            .and_then(VecDeque::pop_front);
        assert_eq!(expected, Some(frame.number), "order within ingress, egress and class");
        *self.copies.get_mut(&frame.number).unwrap() -= 1;
    }

    fn released(&mut self, frame: Frame) {
        assert_eq!(
            self.copies.remove(&frame.number),
            Some(0),
            "released once, after its last copy"
        );
        self.released += 1;
    }

    fn finish(&self) {
        assert!(self.expected.values().all(VecDeque::is_empty), "every copy arrived");
        assert_eq!((self.offered, self.copies.len()), (self.released, 0));
    }
}

#[derive(Clone, Debug)]
struct World {
    ports: Vec<PortConfig>,
    steps: Vec<(u8, usize, usize, u8, u32)>,
}

fn port() -> impl Strategy<Value = PortConfig> {
    let scheduling = prop_oneof![
        Just(Scheduling::Strict),
        prop::array::uniform8(0u32..4).prop_map(Scheduling::Weighted),
    ];
    (1u32..8, 1u32..8, 1u32..8, 200u64..9000, scheduling, prop::option::of(1u64..20)).prop_map(
        |(ingress, frames, egress, bytes, scheduling, gbit)| PortConfig {
            ingress: Limits::frames(ingress),
            quota: quota(frames),
            egress: Limits { frames: egress, bytes: Bytes(bytes) },
            scheduling,
            shaping: gbit.map(|gbit| Shaping { rate: Rate::from_gbit(gbit), burst: 3028 }),
            permits: Limits::frames(1 + bytes as u32 % 3),
        },
    )
}

fn world() -> impl Strategy<Value = World> {
    let ports = prop::collection::vec(port(), 2..7);
    let steps = prop::collection::vec((0u8..10, 0usize..7, 0usize..8, 0u8..8, 60u32..1515), 1..600);
    (ports, steps).prop_map(|(ports, steps)| World { ports, steps })
}

proptest! {
    #[test]
    fn nothing_is_lost_reordered_or_left_standing(world in world()) {
        let (mut switch, ids) = switch(Settings::default(), &world.ports);
        let ports = ids.len();
        let mut referee = Referee::new();
        let mut now = Instant::ZERO;
        for (number, (kind, a, b, pcp, bytes)) in (0u64..).zip(world.steps) {
            let (from, class) = (a % ports, Class::from_low_bits(pcp));
            now += Span::from_nanos(u64::from(bytes) * 10);
            match kind {
                0..=4 => {
                    let to = (b < ports).then_some(b);
                    let targets: Vec<_> = (0..ports).filter(|port| to.map_or(*port != from, |to| to == *port)).collect();
                    let frame = Frame { number, from, flow: u64::from(pcp % 2) };
                    let room = switch.room(now, ids[from]);
                    match arrival(frame, to, class, bytes).offer(&mut switch, now, &ids) {
                        Offered::Held => referee.accepted(frame, &targets, class),
                        Offered::Refused(back, reason) => {
                            prop_assert_eq!((back, Some(from), reason), (frame, to, Reason::SamePort));
                        }
                        Offered::Full(_) => prop_assert_eq!(room, 0, "there was room"),
                        Offered::Through(_) => prop_assert!(false, "nobody was asked to take it"),
                    }
                }
                5 => {
                    let mut visit = switch.departures(now, ids[from]);
                    while deliver(&mut visit, from, &mut referee) {}
                }
                6 => if let Some(head) = switch.departures(now, ids[from]).head() {
                    let flow = Flow(head.frame().flow);
                    head.park(flow);
                },
                7 => {
                    let mut visit = switch.departures(now, ids[from]);
                    while depart(&mut visit, from, &mut referee) {}
                }
                8 => arrive(&mut switch, ids[from], now, &mut referee),
                _ => unpark(&mut switch, ids[from], from, now, &mut referee),
            }
            switch.audit().unwrap();
        }
        drain(&mut switch, &ids, &mut now, &mut referee);
        referee.finish();
        prop_assert_eq!(switch.total().held, 0);
        prop_assert_eq!(switch.total().refused[Reason::Full as usize], 0);
    }
}

/// Lets a receiver take its next frame, or sets it aside behind those of its flow that are; false
/// if there is none.
fn deliver(visit: &mut Departures<'_, Frame>, port: usize, referee: &mut Referee) -> bool {
    let seen = visit.head().map(|head| (head.frame(), head.class()));
    let Some((frame, class)) = seen else { return false };
    let head = visit.head().expect("asking twice gives the same answer");
    assert_eq!(head.frame(), frame);
    if head.is_parked(Flow(frame.flow)) {
        head.park(Flow(frame.flow));
    } else {
        referee.delivered(frame, port, class);
        head.delivered().into_iter().for_each(|released| referee.released(released));
    }
    true
}

/// Lets the next frame leave for a receiver far away; false if there is none, or it is to wait
/// behind others.
fn depart(visit: &mut Departures<'_, Frame>, port: usize, referee: &mut Referee) -> bool {
    let Some(head) = visit.head() else { return false };
    let (frame, class) = (head.frame(), head.class());
    if head.is_parked(Flow(frame.flow)) {
        return false;
    }
    referee.delivered(frame, port, class);
    head.depart(Flow(frame.flow));
    true
}

/// The first frame of each flow that is underway has arrived.
fn arrive(switch: &mut Switch<Frame>, id: PortId, now: Instant, referee: &mut Referee) {
    for flow in 0..2 {
        if let Some(released) = switch.arrived(now, id, Flow(flow)) {
            assert_eq!(released.frame.flow, flow);
            referee.released(released.frame);
        }
    }
}

/// Lets a receiver take what was set aside.
fn unpark(
    switch: &mut Switch<Frame>,
    id: PortId,
    port: usize,
    now: Instant,
    referee: &mut Referee,
) {
    let flows: Vec<_> = switch.flows(id).collect();
    let mut visit = switch.departures(now, id);
    for flow in flows {
        while let Some(head) = visit.parked_head(flow) {
            referee.delivered(head.frame(), port, head.class());
            head.delivered().into_iter().for_each(|released| referee.released(released));
        }
    }
}

/// Lets every receiver take everything.
fn drain(switch: &mut Switch<Frame>, ids: &[PortId], now: &mut Instant, referee: &mut Referee) {
    while switch.total().held > 0 {
        *now += Span::from_micros(10);
        for (port, id) in ids.iter().enumerate() {
            unpark(switch, *id, port, *now, referee);
            arrive(switch, *id, *now, referee);
            let mut visit = switch.departures(*now, *id);
            while deliver(&mut visit, port, referee) {}
        }
    }
}

proptest! {
    #[test]
    fn a_frame_that_passes_is_one_that_was_offered_and_taken(
        ports in prop::collection::vec(port(), 2..6),
        steps in prop::collection::vec((0usize..6, 0usize..6, 0u8..3, 60u32..1515, any::<bool>()), 1..200),
    ) {
        let (mut one, ids) = switch(Settings::default(), &ports);
        let (mut two, _) = switch(Settings::default(), &ports);
        let mut now = Instant::ZERO;
        // Frames and bytes that are held of each sender and class. None is ever taken that did not
        // pass.
        let mut all_held: BTreeMap<(usize, u8), (u32, u64)> = BTreeMap::new();
        for (number, (from, to, pcp, bytes, takes)) in (0u64..).zip(steps) {
            let (from, to, class) = (from % ids.len(), to % ids.len(), Class::from_low_bits(pcp));
            now += Span::from_nanos(u64::from(bytes) * 5);
            let frame = Frame { number, from, flow: 0 };
            let held = Class::all().map(|class| two.egress_account(ids[to], class).held).sum::<u64>()
                + two.ingress_account(ids[from], class).held;
            let was_empty = held == 0;
            let it = arrival(frame, Some(to), class, bytes);
            let passed = one.pass(now, ids[from], ids[to], class, frame, it.size, || takes);
            let limits = two.config(ids[from]).ingress;
            let (held_frames, held_bytes) = all_held.entry((from, pcp)).or_default();
            let has_room = *held_frames < limits.frames.max(1) && *held_bytes < limits.bytes.0;
            let offered = match has_room && !two.at_quota(ids[from]) {
                true => it.offer(&mut two, now, &ids),
                false => Offered::Full(frame),
            };
            match (passed, offered) {
                (Offered::Through(port), Offered::Held) => {
                    prop_assert!(takes && was_empty && port == ids[to]);
                    let mut visit = two.departures(now, ids[to]);
                    let head = visit.head().expect("nothing was before it");
                    prop_assert_eq!(head.frame(), frame);
                    prop_assert_eq!(head.delivered(), Some(frame));
                }
                (Offered::Held, Offered::Held) => {
                    *held_frames += 1;
                    *held_bytes += u64::from(bytes);
                    let next = two.departures(now, ids[to]).head().map(|head| head.frame());
                    prop_assert!(!takes || !was_empty || next != Some(frame));
                }
                (Offered::Refused(..) | Offered::Full(_), other) => prop_assert_eq!(passed, other),
                other => prop_assert!(false, "{:?}", other),
            }
            one.audit().unwrap();
            for id in &ids {
                for class in Class::all() {
                    prop_assert_eq!(one.ingress_account(*id, class), two.ingress_account(*id, class));
                    prop_assert_eq!(one.egress_account(*id, class), two.egress_account(*id, class));
                }
                prop_assert_eq!(one.room(now, *id), two.room(now, *id));
            }
        }
    }
}

/// One port's visit, as drawn.
#[derive(Clone, Debug)]
enum Visit {
    /// To whom, in which class, how long.
    Arrivals(usize, Vec<(usize, u8, u32)>),
    /// What becomes of each head, by number.
    Departures(usize, Vec<u8>),
}

fn visit() -> impl Strategy<Value = Visit> {
    let arrivals = prop::collection::vec((0usize..8, 0u8..2, 60u32..1515), 1..12);
    // Frames of one heading follow one another more often than chance has it.
    let arrivals =
        (arrivals, prop::option::of((0usize..8, 0u8..2))).prop_map(|(mut frames, same)| {
            if let Some((to, pcp)) = same {
                frames.iter_mut().for_each(|frame| (frame.0, frame.1) = (to, pcp));
            }
            frames
        });
    prop_oneof![
        (0usize..7, arrivals).prop_map(|(port, frames)| Visit::Arrivals(port, frames)),
        (0usize..7, prop::collection::vec(0u8..16, 1..12))
            .prop_map(|(port, fates)| Visit::Departures(port, fates)),
    ]
}

/// Hands out a head, which may be parked, and says what came of it.
fn decide(visit: &mut Departures<'_, Frame>, fate: u8) -> Option<(Frame, Option<Frame>)> {
    let head = match fate {
        0 => visit.parked_head(Flow(0))?,
        _ => visit.head()?,
    };
    let frame = head.frame();
    let released = match fate {
        1 => {
            head.park(Flow(0));
            None
        }
        2 => head.refuse(Refusal::UNFIT).map(|released| released.frame),
        3 => {
            head.depart(Flow(0));
            None
        }
        _ => head.delivered(),
    };
    Some((frame, released))
}

proptest! {
    #[test]
    fn a_long_visit_does_what_a_visit_for_each_frame_would(
        ports in prop::collection::vec(port(), 2..7),
        lossy in any::<bool>(),
        visits in prop::collection::vec(visit(), 1..60),
    ) {
        let mut settings = Settings::default();
        settings.classes.0.0[1] = if lossy { ClassKind::Lossy } else { ClassKind::Lossless };
        let (mut long, ids) = switch(settings, &ports);
        let (mut short, _) = switch(settings, &ports);
        let (mut now, mut number) = (Instant::ZERO, 0);
        for visit in visits {
            now += Span::from_nanos(700);
            match visit {
                Visit::Arrivals(port, frames) => {
                    let from = port % ids.len();
                    let mut visit = long.arrivals(now, ids[from]);
                    let mut before = None;
                    for (to, pcp, bytes) in frames {
                        number += 1;
                        let frame = Frame { number, from, flow: 0 };
                        let to = (to < ids.len()).then_some(to);
                        let arrival = arrival(frame, to, Class::from_low_bits(pcp), bytes);
                        let once = arrival.offer(&mut short, now, &ids);
                        prop_assert_eq!(arrival.follow_in(before, &mut visit, &ids), once);
                        before = Some(arrival);
                    }
                }
                Visit::Departures(port, fates) => {
                    let to = ids[port % ids.len()];
                    prop_assert_eq!(long.arrived(now, to, Flow(0)), short.arrived(now, to, Flow(0)));
                    let mut visit = long.departures(now, to);
                    for fate in fates {
                        prop_assert_eq!(decide(&mut visit, fate), decide(&mut short.departures(now, to), fate));
                    }
                }
            }
            long.audit().unwrap();
            for id in &ids {
                for class in Class::all() {
                    prop_assert_eq!(long.ingress_account(*id, class), short.ingress_account(*id, class));
                    prop_assert_eq!(long.egress_account(*id, class), short.egress_account(*id, class));
                    prop_assert_eq!(long.egress_load(*id, class), short.egress_load(*id, class));
                }
                prop_assert_eq!(long.room(now, *id), short.room(now, *id));
                prop_assert_eq!(long.paused(now, *id), short.paused(now, *id));
            }
            prop_assert_eq!(long.deadline(now), short.deadline(now));
        }
    }
}

/// Ten million visits of one seed: offers, floods, departures, parking, receivers far away, ports
/// that come and go, limits that change, time that passes. The books are checked as they run, and
/// proven from the queues now and then.
#[test]
fn ten_million_visits_keep_the_law() {
    const VISITS: u64 = 10_000_000;
    const PORTS: usize = 6;
    let mut rng = Rng::new(0x7a6f_766e);
    let mut classes = Classes::default();
    classes.0.0[2] = ClassKind::Lossy;
    let mut switch = Switch::new(Settings {
        classes,
        stall_after: Span::from_micros(900),
        socket_stall_after: Span::from_micros(300),
    });
    let config = |rng: &mut Rng| PortConfig {
        ingress: Limits::frames(1 + rng.below(40) as u32),
        quota: quota(1 + rng.below(20) as u32),
        egress: Limits::frames(1 + rng.below(20) as u32),
        permits: Limits::frames(1 + rng.below(8) as u32),
        shaping: (rng.below(2) == 0).then(|| Shaping {
            rate: Rate::from_gbit(1 + rng.below(40)),
            burst: rng.below(5000) as u32,
        }),
        ..PortConfig::default()
    };
    let mut now = Instant::ZERO;
    let mut ids: Vec<PortId> =
        (0..PORTS).map(|_| switch.attach(now, config(&mut rng)).unwrap()).collect();
    let (mut accepted, mut released) = (0u64, 0u64);
    for number in 0..VISITS {
        now += Span::from_nanos(rng.below(400));
        let from = rng.below(PORTS as u64) as usize;
        match rng.below(1000) {
            0..=549 => {
                let mut visit = switch.arrivals(now, ids[from]);
                let (mut to, mut class) = (None, Class::default());
                for piece in 0..1 + rng.below(4) {
                    // A frame often goes where the one before went.
                    if piece == 0 || rng.below(2) == 0 {
                        to = Some(rng.below(PORTS as u64 + 1) as usize).filter(|to| *to < PORTS);
                        class = Class::from_low_bits(rng.below(4) as u8);
                    }
                    let frame = Frame { number, from, flow: 0 };
                    let bytes = 60 + rng.below(1455) as u32;
                    let bystanders = rng.below(1 << PORTS);
                    let arrival = Arrival { bystanders, ..arrival(frame, to, class, bytes) };
                    match arrival.offer_in(&mut visit, &ids) {
                        Offered::Held => accepted += 1,
                        Offered::Refused(..) => (accepted, released) = (accepted + 1, released + 1),
                        Offered::Full(_) => {}
                        Offered::Through(_) => panic!("nobody was asked to take it"),
                    }
                }
            }
            550..=979 => {
                let mut visit = switch.departures(now, ids[from]);
                for _ in 0..1 + rng.below(4) {
                    let Some(head) = visit.head() else { break };
                    match rng.below(100) {
                        0 | 1 => head.park(Flow(rng.below(3))),
                        2 => released += u64::from(head.refuse(Refusal::UNFIT).is_some()),
                        3..=9 => head.depart(Flow(rng.below(3))),
                        _ => released += u64::from(head.delivered().is_some()),
                    }
                }
            }
            980..=994 => {
                let flow = Flow(rng.below(3));
                let mut visit = switch.departures(now, ids[from]);
                while let Some(head) = visit.parked_head(flow) {
                    released += u64::from(head.delivered().is_some());
                }
            }
            995 => switch.tick(now, |_| released += 1),
            996 => {
                for flow in (0..30).map(|turn| Flow(turn % 3)) {
                    let ended = match rng.below(10) {
                        0 => switch.missed(now, ids[from], flow, Refusal::UNFIT),
                        _ => switch.arrived(now, ids[from], flow),
                    };
                    released += u64::from(ended.is_some());
                }
            }
            997 => {
                let flows = Flow(0)..=Flow(rng.below(3));
                let released = |_| released += 1;
                switch.abandon_flows(now, ids[from], flows, Refusal::STALLED, released);
            }
            998 => {
                let config = config(&mut rng);
                switch.configure(now, ids[from], config);
            }
            _ => {
                if rng.below(10) == 0 {
                    switch.detach(now, ids[from], |_| released += 1);
                    ids[from] = switch.attach(now, config(&mut rng)).unwrap();
                }
            }
        }
        if number % 65_536 == 0 {
            switch.audit().unwrap();
        }
    }
    switch.audit().unwrap();
    let total = switch.total();
    assert!(total.balances());
    assert_eq!((total.accepted, total.held), (accepted, accepted - released));
    for id in &ids {
        for class in Class::all().filter(|class| class.pcp() != 2) {
            assert_eq!(switch.egress_account(*id, class).refused[Reason::Full as usize], 0);
        }
    }
}
