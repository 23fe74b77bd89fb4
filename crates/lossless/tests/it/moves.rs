//! Receivers that move between far hosts and this one while frames for them wait and are underway:
//! each frame gets to its receiver once, and those of a sender in order.

use lossless::Redirected;

use super::*;

const NOW: Instant = Instant::ZERO;

/// The port that far hosts are behind. The first two are senders'.
const FAR: usize = 2;
/// The first of the ports that receivers have if they are here.
const HERE: usize = 3;
const RECEIVERS: usize = 3;

/// Where a receiver is: at a far host, by its number, or here.
type Place = Option<u64>;

/// A switch, far hosts, and receivers.
struct World {
    switch: Switch<Frame>,
    ids: Vec<PortId>,
    /// By receiver: where it is, where the switch's owner knows it to be, and where it was as long
    /// as frames are underway there.
    are: [Place; RECEIVERS],
    known: [Place; RECEIVERS],
    left: [Option<u64>; RECEIVERS],
    /// By flow, what has departed and was neither taken nor given back.
    wire: BTreeMap<u64, VecDeque<Frame>>,
    /// By receiver and sender: what was sent, and what has got there.
    sent: BTreeMap<(usize, usize), Vec<u64>>,
    got: BTreeMap<(usize, usize), Vec<u64>>,
}

fn class_of(receiver: usize) -> Class {
    Class::from_low_bits((receiver % 2) as u8)
}

/// The flow to a receiver at a far host.
fn flow(host: u64, receiver: usize) -> Flow {
    Flow(host << 40 | receiver as u64)
}

impl World {
    fn new(quota: u32) -> Self {
        let config = PortConfig {
            quota: super::quota(quota),
            egress: Limits::frames(2),
            ..PortConfig::default()
        };
        let (switch, ids) = switch(Settings::default(), &[config; HERE + RECEIVERS]);
        let (are, known) = ([Some(0); RECEIVERS], [Some(0); RECEIVERS]);
        let (wire, sent, got) = Default::default();
        Self { switch, ids, are, known, left: [None; RECEIVERS], wire, sent, got }
    }

    /// Where frames for a receiver go that is known to be there.
    fn way(&self, receiver: usize, place: Place) -> (PortId, Option<Flow>) {
        match place {
            Some(host) => (self.ids[FAR], Some(flow(host, receiver))),
            None => (self.ids[HERE + receiver], None),
        }
    }

    fn offer(&mut self, number: u64, from: usize, receiver: usize) {
        // As long as frames are underway to where it was, others wait behind them.
        let place = self.left[receiver].map_or(self.known[receiver], Some);
        let to = match self.way(receiver, place) {
            (port, Some(flow)) => Destination::Flow(port, flow),
            (port, None) => Destination::One(port),
        };
        let (frame, size) =
            (Frame { number, from, flow: receiver as u64 }, Size { bytes: 100, frames: 1 });
        let mut visit = self.switch.arrivals(NOW, self.ids[from]);
        assert_eq!(visit.offer(to, class_of(receiver), frame, size), Offered::Held);
        drop(visit);
        self.sent.entry((receiver, from)).or_default().push(number);
    }

    /// The next frame for a far host departs, or its flow is blocked.
    fn depart(&mut self, blocks: bool) -> bool {
        let mut visit = self.switch.departures(NOW, self.ids[FAR]);
        let Some(head) = visit.flow_head() else { return false };
        let (frame, flow) = (head.frame(), head.flow().unwrap());
        if blocks {
            head.block();
        } else {
            head.depart(flow);
            self.wire.entry(flow.0).or_default().push_back(frame);
        }
        true
    }

    /// The first frame underway to a far host gets there: its receiver takes it, or is gone.
    fn arrive(&mut self, host: u64, receiver: usize) -> bool {
        let way = flow(host, receiver);
        let Some(frame) = self.wire.get_mut(&way.0).and_then(VecDeque::pop_front) else {
            return false;
        };
        if self.are[receiver] == Some(host) {
            let arrived = self.switch.arrived(NOW, self.ids[FAR], way).unwrap();
            assert_eq!(arrived.frame, frame);
            self.take(receiver, frame);
        } else {
            let back = self.switch.returned(NOW, self.ids[FAR], way);
            assert_eq!(back, Some((self.ids[frame.from], frame)));
        }
        self.go_on(receiver);
        true
    }

    fn take(&mut self, receiver: usize, frame: Frame) {
        assert_eq!(frame.flow, receiver as u64);
        self.got.entry((receiver, frame.from)).or_default().push(frame.number);
    }

    /// A receiver here takes a frame.
    fn receive(&mut self, receiver: usize) -> bool {
        if self.are[receiver].is_some() {
            return false;
        }
        let mut visit = self.switch.departures(NOW, self.ids[HERE + receiver]);
        let Some(frame) = visit.head().map(|head| (head.frame(), head.delivered()).0) else {
            return false;
        };
        drop(visit);
        self.take(receiver, frame);
        true
    }

    /// A receiver moves. A host that has given frames back takes it again once all of them have
    /// come.
    fn go(&mut self, receiver: usize, to: Place) {
        let is_clear = |host| self.wire.get(&flow(host, receiver).0).is_none_or(VecDeque::is_empty);
        if to.is_none_or(is_clear) {
            self.are[receiver] = to;
        }
    }

    /// The switch's owner learns where a receiver is.
    fn learn(&mut self, receiver: usize) {
        let (before, now) = (self.known[receiver], self.are[receiver]);
        self.known[receiver] = now;
        match (self.left[receiver], before) {
            _ if before == now => {}
            // What is for it waits until nothing is underway to where it was first.
            (Some(_), _) => {}
            (None, Some(host)) => {
                self.switch.hold_flow(NOW, self.ids[FAR], flow(host, receiver));
                self.left[receiver] = Some(host);
            }
            (None, None) => {
                let (to, port) = (self.way(receiver, now), self.ids[HERE + receiver]);
                let to = Redirected::To(to.0, to.1);
                self.switch.redirect_port(NOW, port, |_, _, _| to, |_| panic!("it is taken"));
            }
        }
        self.go_on(receiver);
    }

    /// What is held for a receiver goes where it is known to be.
    fn go_on(&mut self, receiver: usize) {
        let far = self.ids[FAR];
        let Some(host) = self.left[receiver].or(self.known[receiver]) else { return };
        let held = flow(host, receiver);
        let is_back = self.are[receiver] == self.known[receiver];
        if self.switch.is_held(far, held)
            && !self.switch.is_underway(far, held)
            && (self.left[receiver].is_some() || is_back)
        {
            let to = self.way(receiver, self.known[receiver]);
            self.switch.redirect(NOW, (far, held), |_| to, |_| panic!("it is taken"));
            self.left[receiver] = None;
        }
    }

    /// Everybody learns where receivers are, and all arrives.
    fn finish(&mut self) {
        let mut moved = true;
        while moved {
            moved = false;
            for receiver in 0..RECEIVERS {
                self.learn(receiver);
                moved |= self.receive(receiver);
                for host in 0..3 {
                    self.switch.unblock(NOW, self.ids[FAR], flow(host, receiver));
                    moved |= self.arrive(host, receiver);
                }
            }
            moved |= self.depart(false);
            self.switch.audit().unwrap();
        }
    }
}

proptest! {
    #[test]
    fn whoever_moves_gets_each_frame_once_and_in_order(
        quota in 1u32..6,
        steps in prop::collection::vec((0u8..16, 0usize..RECEIVERS, 0u64..4), 1..300),
    ) {
        let mut world = World::new(quota);
        for (number, (kind, receiver, choice)) in (0u64..).zip(steps) {
            match kind {
                0..=4 => world.offer(number, (choice % 2) as usize, receiver),
                5..=7 => drop(world.depart(choice == 3)),
                8 => world.switch.unblock(NOW, world.ids[FAR], flow(choice % 3, receiver)),
                9..=11 => drop(world.arrive(choice % 3, receiver)),
                12 => drop(world.receive(receiver)),
                13 => world.go(receiver, (choice < 3).then_some(choice)),
                _ => world.learn(receiver),
            }
            world.switch.audit().unwrap();
        }
        world.finish();
        prop_assert_eq!(&world.got, &world.sent);
        prop_assert_eq!(world.switch.total().held, 0);
    }
}

/// What is back goes before what waits, and nothing leaves before all is back.
#[test]
fn a_flow_is_held_until_nothing_of_it_is_underway() {
    let mut world = World::new(9);
    let (far, old) = (world.ids[FAR], flow(0, 0));
    (0..5).for_each(|number| world.offer(number, 0, 0));
    assert!((0..3).all(|_| world.depart(false)));
    assert!(world.arrive(0, 0));
    world.go(0, Some(1));
    assert!(world.arrive(0, 0) && !world.depart(false), "it is held by what is back");
    world.switch.unblock(NOW, far, old);
    world.learn(0);
    assert!(!world.depart(false) && world.switch.is_underway(far, old));
    assert!(world.arrive(0, 0) && !world.switch.is_held(far, old));
    let sent: Vec<_> = (0..4).map(|_| (world.depart(false), world.arrive(1, 0))).collect();
    assert_eq!(sent, [(true, true); 4]);
    assert_eq!(world.got[&(0, 0)], [0, 1, 2, 3, 4]);
    let old = world.switch.group_account(far, 0).unwrap();
    let moved = old.refused[Reason::Moved as usize];
    assert_eq!((old.accepted, old.delivered, moved), (5, 1, 4), "nothing is taken back");
    world.switch.audit().unwrap();
}

#[test]
#[should_panic = "frames underway"]
fn what_may_come_back_is_not_overtaken() {
    let mut world = World::new(9);
    (0..2).for_each(|number| world.offer(number, 0, 0));
    world.depart(false);
    let to = (world.ids[HERE], None);
    world.switch.redirect(NOW, (world.ids[FAR], flow(0, 0)), |_| to, |_| {});
}

/// What its owner has taken is no refusal to its sender, and the receiver that it waited for had
/// it not.
#[test]
fn what_the_owner_takes_is_refused_to_nobody() {
    let mut world = World::new(9);
    world.known[0] = None;
    (0..5).for_each(|number| world.offer(number, 0, 0));
    let (mut released, mut number) = (Vec::new(), 0);
    let redirected = |_, _, _| {
        number += 1;
        match number {
            1..=3 => Redirected::Taken,
            _ => Redirected::Refused(Refusal::LOGICAL_NETWORK),
        }
    };
    let port = world.ids[HERE];
    world.switch.redirect_port(NOW, port, redirected, |it| released.push(it.refused));
    let refused = Some(Reason::LogicalNetwork);
    assert_eq!(released, [None, None, None, refused, refused]);
    let class = class_of(0);
    let sender = world.switch.ingress_account(world.ids[0], class);
    let refusals = |it: &Account| it.refusals().collect::<Vec<_>>();
    assert_eq!((sender.accepted, sender.delivered, sender.held), (5, 3, 0));
    assert_eq!(refusals(sender), [(Reason::LogicalNetwork, 2)]);
    let receiver = world.switch.egress_account(port, class);
    assert_eq!((receiver.accepted, receiver.delivered, receiver.held), (5, 0, 0));
    assert_eq!(refusals(receiver), [(Reason::LogicalNetwork, 2), (Reason::Moved, 3)]);
    world.switch.audit().unwrap();
}
