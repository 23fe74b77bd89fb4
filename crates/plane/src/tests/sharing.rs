//! Networks that share the thread, which costs what devices say.

use std::cell::Cell;
use std::num::NonZeroU16;

use proptest::prelude::*;
use units::Ticks;

use super::*;
use crate::{ThreadTerms, ThreadUse};

thread_local! {
    /// Nanoseconds that all devices of a test have taken.
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// A clock that devices move on.
#[derive(Default)]
struct Fake;

impl Ticks for Fake {
    fn now(&self) -> u64 {
        NOW.get()
    }

    fn per_second(&self) -> u64 {
        1_000_000_000
    }
}

fn passes(ns: u64) {
    NOW.set(NOW.get() + ns);
}

type World = Plane<Costly, NoPeers, NoResponder, crate::NoGate, Fake>;

/// A device that takes time.
#[derive(Clone, Default)]
struct Costly {
    /// The frame that it sends: so many, or as many as anybody takes.
    frame: Vec<u8>,
    left: Option<u32>,
    /// When frames came that are still to be received.
    came: Vec<u64>,
    /// By slot, when its frame came.
    slots: Vec<u64>,
    /// What a frame costs that is received, one that is transmitted, and a flush.
    costs: [u64; 3],
    /// It looks at its time after so many frames.
    look: u32,
    taken: u64,
    longest_wait: u64,
    is_touched: bool,
}

impl Port for Costly {
    fn receive(
        &mut self,
        most: usize,
        mut arrived: impl FnMut(Slot, &FrameView<'_>),
    ) -> Result<Left, PortError> {
        for _ in 0..most {
            let came = match &mut self.left {
                Some(0) if self.came.is_empty() => return Ok(Left::Nothing),
                Some(0) => self.came.remove(0),
                Some(left) => {
                    *left -= 1;
                    NOW.get()
                }
                None => NOW.get(),
            };
            passes(self.costs[0]);
            self.slots.push(came);
            self.is_touched = true;
            arrived(Slot(self.slots.len() as u32 - 1), &FrameView::plain(&self.frame));
        }
        Ok(Left::More)
    }

    fn frame(&self, _: Slot) -> FrameView<'_> {
        FrameView::plain(&self.frame)
    }

    fn release(&mut self, Slot(slot): Slot) {
        let waited = NOW.get() - self.slots[slot as usize];
        self.longest_wait = self.longest_wait.max(waited);
    }

    fn frames_a_look(&self) -> u32 {
        self.look
    }

    fn transmit(&mut self, _: &FrameView<'_>) -> Result<Taken, PortError> {
        passes(self.costs[1]);
        self.taken += 1;
        Ok(Taken::Yes)
    }

    fn flush(&mut self) -> Result<bool, PortError> {
        if std::mem::take(&mut self.is_touched) {
            passes(self.costs[2]);
        }
        Ok(true)
    }
}

fn network(number: u16) -> Network {
    Network::new(number).unwrap()
}

/// A frame from one machine to another.
fn frame(to: u32, from: u32) -> Vec<u8> {
    let mut frame = FRAME.to_vec();
    frame[..6].copy_from_slice(&Mac::local(to).0);
    frame[6..12].copy_from_slice(&Mac::local(from).0);
    frame
}

fn attach(plane: &mut World, network: Network, number: u32, device: Costly) -> PortId {
    let config = PortConfig { permits: crate::PERMITS, ..PortConfig::default() };
    let forwarding = datapath::PortConfig { network, ..Default::default() };
    let id = plane.attach(Instant::ZERO, device, config, forwarding).unwrap();
    plane.datapath_mut().pin(id, Mac::local(number), 0);
    id
}

/// Senders of a network to one receiver, each with these costs: without end, or none for now.
fn senders(
    plane: &mut World,
    number: u16,
    count: u32,
    costs: [u64; 3],
    left: Option<u32>,
) -> (Vec<PortId>, PortId) {
    let device = Costly { costs, look: 1, left: Some(0), ..Costly::default() };
    let base = u32::from(number) * 1000;
    let receiver = attach(plane, network(number), base, device.clone());
    let sender = |from| Costly { frame: frame(base, base + from), left, ..device.clone() };
    let senders = (1..=count).map(|from| {
        let device = sender(from);
        attach(plane, network(number), base + from, device)
    });
    (senders.collect(), receiver)
}

fn plane() -> World {
    NOW.set(1_000_000);
    Plane::with_stages(
        Settings::default(),
        datapath::Settings::default(),
        NoResponder,
        crate::NoGate,
    )
}

fn terms(all: &[(u16, u64, u16)]) -> Option<Vec<ThreadTerms>> {
    let mut terms = vec![ThreadTerms::default(); 16];
    for &(number, min_ms, weight) in all {
        let weight = NonZeroU16::new(weight).unwrap();
        terms[usize::from(number)] = ThreadTerms { min: Span::from_millis(min_ms), weight };
    }
    Some(terms)
}

fn turn(plane: &mut World) -> bool {
    let moved = plane.turn(Instant::from_nanos(NOW.get()));
    plane.settle(moved);
    moved
}

fn had(plane: &World, number: u16) -> ThreadUse {
    plane.thread_use().get(usize::from(number)).copied().unwrap_or_default()
}

/// Has somebody offer a frame each so many nanoseconds, for so long. Returns the longest wait.
fn offer(plane: &mut World, sender: PortId, every: u64, ns: u64) -> u64 {
    let (mut next, end) = (NOW.get(), NOW.get() + ns);
    while NOW.get() < end {
        while next <= NOW.get() {
            plane.device_mut(sender).came.push(next);
            plane.mark_rx_ready(sender.index());
            next += every;
        }
        if !turn(plane) {
            NOW.set(next);
        }
    }
    plane.device(sender).longest_wait
}

/// 50,000 frames a second of 3 µs each are guaranteed, and 40,000 are offered.
fn victims_wait(with_terms: bool, adversaries: u32, costs: [u64; 3]) -> u64 {
    let mut plane = plane();
    let (sender, receiver) = senders(&mut plane, 1, 1, [1_000, 2_000, 0], Some(0));
    senders(&mut plane, 2, adversaries, costs, None);
    if with_terms {
        plane.share_thread(terms(&[(1, 150, 1)]));
    }
    let longest = offer(&mut plane, sender[0], 25_000, 100_000_000);
    let taken = plane.device(receiver).taken;
    if with_terms {
        assert!(taken >= 3_990, "{taken} of 4000 frames");
    }
    longest
}

#[test]
fn whoever_is_guaranteed_frames_waits_for_no_more_than_bursts_a_visit_and_a_turn() {
    // The bursts of the network and of control, a visit that is under way, one that ends a turn of
    // the plane, each a frame longer; and its own frame.
    let bound = |frame: u64| 4 * 25_000 + 2 * frame + 3_000;
    for adversaries in [1, 8, 64] {
        // 64-byte frames that flow through long rules of a firewall, and others.
        for costs in [[1_000, 20_000, 16_000], [1_000, 2_500, 0], [100, 100, 0]] {
            let longest = costs.into_iter().max().unwrap();
            let waits = victims_wait(true, adversaries, costs);
            assert!(waits <= bound(longest), "{waits} ns beside {adversaries} with {costs:?}");
        }
    }
    assert!(victims_wait(false, 64, [1_000, 2_500, 0]) > 1_000_000, "without terms");
}

#[test]
fn what_one_network_does_not_use_others_have() {
    let mut plane = plane();
    let (idle, _) = senders(&mut plane, 1, 1, [1_000, 2_000, 0], Some(0));
    senders(&mut plane, 2, 3, [1_000, 2_000, 5_000], None);
    plane.share_thread(terms(&[(1, 800, 9)]));
    let begun = NOW.get();
    while NOW.get() < begun + 50_000_000 {
        assert!(turn(&mut plane), "somebody has frames");
    }
    assert_eq!(had(&plane, 2).used, Span::from_nanos(NOW.get() - begun));
    // And who comes back has its guarantee at once.
    let waits = offer(&mut plane, idle[0], 10_000, 10_000_000);
    assert!(waits < 120_000, "{waits} ns");
}

#[test]
fn whose_frames_cost_little_waits_for_no_ports_whose_frames_cost_much() {
    // A broadcast to as many containers with a hundred sockets each.
    let mut plane = plane();
    let (idle, _) = senders(&mut plane, 1, 1, [1_000, 2_000, 0], Some(0));
    senders(&mut plane, 2, 32, [1_000, 20_000, 5_000], None);
    plane.share_thread(terms(&[]));
    assert!((0..1_000).all(|_| turn(&mut plane)));
    let waits = offer(&mut plane, idle[0], 100_000, 100_000_000);
    assert!(waits < 200_000, "{waits} ns");
}

#[test]
fn busy_networks_have_the_thread_as_their_terms_say_whatever_they_do_with_it() {
    let mut plane = plane();
    senders(&mut plane, 1, 1, [100, 100, 0], None);
    senders(&mut plane, 2, 7, [1_000, 2_500, 16_000], None);
    senders(&mut plane, 3, 20, [500, 40_000, 0], None);
    // A tenth is guaranteed; of the rest one has a quarter, one a half, and one a quarter.
    plane.share_thread(terms(&[(1, 100, 1), (2, 0, 2), (3, 0, 1)]));
    let until = |plane: &mut World, ms: u64| {
        let end = NOW.get() + ms * 1_000_000;
        while NOW.get() < end {
            assert!(turn(plane));
        }
        [1, 2, 3].map(|number| had(plane, number).used.as_nanos() as f64)
    };
    let before = until(&mut plane, 10);
    let after = until(&mut plane, 100);
    let expected = [0.1 + 0.9 / 4.0, 0.9 / 2.0, 0.9 / 4.0];
    for ((before, after), expected) in before.iter().zip(after).zip(expected) {
        let share = (after - before) / 1e8;
        assert!((share - expected).abs() < 0.03 * expected, "{share}, not {expected}");
    }
    // A visit is as long as it may be, and a frame.
    let longest = [1, 2, 3].map(|number| had(&plane, number).longest.as_nanos());
    assert!(longest[0] <= 25_100 && longest[1] <= 27_500 && longest[2] <= 65_000, "{longest:?}");
}

#[test]
fn terms_change_while_frames_flow_and_go() {
    let mut plane = plane();
    for number in [1, 2] {
        senders(&mut plane, number, 2, [1_000, 2_000, 0], None);
    }
    let share = |plane: &mut World| {
        let before = [1, 2].map(|number| had(plane, number).used.as_nanos());
        let end = NOW.get() + 50_000_000;
        while NOW.get() < end {
            turn(plane);
        }
        let after = [1, 2].map(|number| had(plane, number).used.as_nanos());
        let [one, two] = [0, 1].map(|place| (after[place] - before[place]) as f64);
        one / (one + two)
    };
    plane.share_thread(terms(&[(1, 500, 1)]));
    assert!((share(&mut plane) - 0.75).abs() < 0.02);
    plane.share_thread(terms(&[(2, 500, 1)]));
    assert!((share(&mut plane) - 0.25).abs() < 0.02);
    plane.share_thread(None);
    assert!((share(&mut plane) - 0.5).abs() < 0.02, "each has as many ports");
}

#[test]
fn a_ports_time_is_its_networks_and_stays_so_when_it_goes() {
    let mut plane = plane();
    let (sender, receiver) = senders(&mut plane, 5, 1, [1_000, 2_000, 7_000], Some(10));
    while turn(&mut plane) {}
    let all = ThreadUse {
        used: Span::from_nanos(10 * 3_000 + 7_000),
        longest: Span::from_nanos(20_000),
        frames: 10,
    };
    assert_eq!(had(&plane, 5), all);
    assert_eq!(plane.port_use(sender[0]), Span::from_nanos(17_000));
    for id in [sender[0], receiver] {
        plane.detach(Instant::ZERO, id);
    }
    assert_eq!(had(&plane, 5), all);
    // Another port has its number.
    attach(&mut plane, network(6), 1, Costly { left: Some(0), ..Costly::default() });
    assert_eq!(had(&plane, 6), ThreadUse::default());
    plane.forget_network(network(5));
    assert_eq!(had(&plane, 5), ThreadUse::default());
    // What its owner does beside is control's, if something came of it.
    passes(100);
    plane.book(crate::Work::Control);
    plane.settle(false);
    assert_eq!(plane.control_use().used, Span::ZERO);
    passes(100);
    plane.book(crate::Work::Sleep);
    passes(10);
    plane.book(crate::Work::Control);
    plane.settle(true);
    assert_eq!(plane.control_use().used, Span::from_nanos(10));
}

proptest! {
    /// Whoever has something is visited until it has nothing: then the thread may sleep.
    #[test]
    fn nobody_is_forgotten(
        ports in prop::collection::vec((0u16..4, 0u32..300, 0u64..40_000, 0u64..40_000, 1u32..20), 2..24),
        mins in prop::collection::vec(0u64..200, 4),
    ) {
        let mut plane = plane();
        let of = |number: u16| ports.iter().filter(move |port| port.0 == number).count();
        let mut sent = [0u64; 4];
        let mut ids = Vec::new();
        for (number, &(of_network, left, receive, transmit, look)) in (0..).zip(&ports) {
            // To the next port of its network, if there is one.
            let peers = (0..ports.len() as u32).filter(|it| ports[*it as usize].0 == of_network);
            let peers: Vec<_> = peers.collect();
            let place = peers.iter().position(|it| *it == number).unwrap();
            let to = peers[(place + 1) % peers.len()];
            let device = Costly {
                frame: frame(to, number),
                left: Some(left),
                costs: [receive, transmit, 1_000],
                look,
                ..Costly::default()
            };
            ids.push(attach(&mut plane, network(of_network), number, device));
            if of(of_network) > 1 {
                sent[usize::from(of_network)] += u64::from(left);
            }
        }
        let min = |number: u16| (number, mins[usize::from(number)], 1);
        plane.share_thread(terms(&[(9, 1, 1), min(0), min(1), min(2), min(3)]));
        let mut turns = 0;
        while turn(&mut plane) {
            turns += 1;
            prop_assert!(turns < 100_000, "it never ends");
        }
        for number in 0..4 {
            let taken = ids.iter().zip(&ports).filter(|(_, port)| port.0 == number);
            let taken: u64 = taken.map(|(id, _)| plane.device(*id).taken).sum();
            prop_assert_eq!(taken, sent[usize::from(number)], "of network {}", number);
        }
        prop_assert_eq!(plane.switch().total().held, 0);
        prop_assert_eq!(plane.switch().audit(), Ok(()));
    }
}

#[test]
fn a_receiver_without_room_is_tried_again_although_others_had_their_turn_since() {
    let now = Instant::ZERO;
    let mut plane: Plane<Granting, NoPeers, NoResponder, crate::NoGate, Slow> = Plane::with_stages(
        Settings::default(),
        datapath::Settings::default(),
        NoResponder,
        crate::NoGate,
    );
    let mut port = |number, frames, busy| {
        let device = Granting { frames, busy, ..Granting::default() };
        let forwarding = datapath::PortConfig { network: network(number), ..Default::default() };
        plane.attach(now, device, PortConfig::default(), forwarding).unwrap()
    };
    let [_, busy] = [port(1, 3, false), port(1, 0, true)];
    let others = [(); 20].map(|()| port(2, 0, false));
    plane.share_thread(terms(&[(1, 100, 1)]));
    while plane.turn(now) {}
    assert!(plane.is_tx_blocked(busy) && !plane.arm(), "it makes no event");
    // Turns that end before it is looked at again do not forget it.
    for other in others {
        plane.device_mut(other).frames = 200;
        plane.mark_rx_ready(other.index());
        while plane.turn(now) {
            assert!(plane.is_tx_blocked(busy));
        }
        assert!(plane.is_tx_blocked(busy));
    }
    plane.device_mut(busy).busy = false;
    while plane.turn(now) {}
    assert!(!plane.is_any_tx_blocked());
    assert_eq!(plane.device(busy).taken, 3);
}

/// A clock by which each look takes a while.
#[derive(Default)]
struct Slow(Cell<u64>);

impl Ticks for Slow {
    fn now(&self) -> u64 {
        self.0.update(|now| now + 3_000);
        self.0.get()
    }

    fn per_second(&self) -> u64 {
        1_000_000_000
    }
}

#[test]
fn all_flows_are_asked_about_before_anybody_sleeps_also_where_the_thread_is_shared() {
    const FLOWS: u16 = 300;
    let (now, gate) = (Instant::ZERO, OneMayGo { flow: u64::MAX, asked: 0 });
    let mut plane: Plane<Numbered, NoPeers, _, _, Slow> =
        Plane::with_stages(Settings::default(), datapath::Settings::default(), NoResponder, gate);
    let frames = (0..FLOWS).map(|flow| {
        let mut frame = FRAME.to_vec();
        frame[14..16].copy_from_slice(&flow.to_be_bytes());
        frame
    });
    let sender = Numbered { frames: frames.collect(), ..Numbered::default() };
    let [_, receiver] = [sender, Numbered::default()].map(|device| {
        let config = PortConfig { ingress: Limits::frames(2048), ..PortConfig::default() };
        let forwarding = datapath::PortConfig { network: network(1), ..Default::default() };
        let id = plane.attach(now, device, config, forwarding).unwrap();
        plane.mark_all_rx_ready();
        id
    });
    plane.share_thread(terms(&[(1, 100, 1)]));
    while plane.turn(now) {}
    assert_eq!(plane.switch().flows(receiver).len(), usize::from(FLOWS), "all are set aside");
    for flow in [299, 0, 150, 17, 16, 15] {
        (plane.gate_mut().flow, plane.gate_mut().asked) = (flow, 0);
        while plane.turn(now) {}
        assert!(!plane.switch().flows(receiver).any(|it| it == Flow(flow)), "{flow}");
    }
    assert_eq!(plane.device(receiver).taken, 6);
    // And so when it is shared no more.
    plane.share_thread(None);
    for flow in [8, 200] {
        plane.gate_mut().flow = flow;
        while plane.turn(now) {}
    }
    assert_eq!(plane.device(receiver).taken, 8);
}
