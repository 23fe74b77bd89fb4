//! Two levels: networks share a link, and a network's ports share what is the network's.

use std::num::NonZeroU16;

use proptest::prelude::*;
use shares::{Bound, Cost, Holder, Settings, Shares, Terms, Turn};
use units::{Instant, Rate, Span};

use crate::fluid;
use crate::world::FRAME;

fn mbit(mbit: u64) -> Rate {
    Rate::from_bits_per_sec(mbit * 1_000_000).unwrap()
}

fn min(rate: Rate) -> Terms {
    Terms { min: Bound::bits(rate, FRAME), ..Terms::default() }
}

fn max(rate: Rate) -> Terms {
    Terms { max: Bound::bits(rate, 8 * FRAME), ..Terms::default() }
}

struct Network {
    holder: Holder,
    ports: Shares,
    /// What each port has to send first.
    heads: Vec<Cost>,
    /// What the network has, as the link was told.
    head: Cost,
}

/// What the owner of both levels does.
struct Stack {
    link: Shares,
    networks: Vec<Network>,
}

impl Stack {
    fn add_network(&mut self, settings: Settings, terms: Terms) -> usize {
        let holder = self.link.add(terms);
        let (ports, heads) = (Shares::new(settings), Vec::new());
        self.networks.push(Network { holder, ports, heads, head: Cost::default() });
        self.networks.len() - 1
    }

    fn add_port(&mut self, network: usize, terms: Terms) -> Holder {
        self.networks[network].heads.push(Cost::default());
        self.networks[network].ports.add(terms)
    }

    fn wake(&mut self, now: Instant, network: usize, port: Holder, head: Cost) {
        let it = &mut self.networks[network];
        it.heads[port.index()] = head;
        it.ports.wake(now, port, head);
        it.head = head;
        self.link.wake(now, it.holder, head);
    }

    /// A network's turn, and its port's.
    fn next(&mut self, now: Instant) -> Option<(usize, Turn, Turn)> {
        loop {
            let turn = self.link.next(now)?;
            let network = turn.holder().index();
            let it = &mut self.networks[network];
            match it.ports.next(now) {
                None => {
                    let until = it.ports.ready_at().expect("somebody waits, who is held");
                    self.link.hold(now, it.holder, until);
                }
                Some(port) => {
                    let head = it.heads[port.holder().index()];
                    if it.head == head {
                        return Some((network, turn, port));
                    }
                    // Another frame than the link was told of: maybe it has to wait.
                    it.head = head;
                    self.link.wake(now, it.holder, head);
                }
            }
        }
    }

    fn took(&mut self, now: Instant, turns: (usize, Turn, Turn), cost: Cost, next: Option<Cost>) {
        let (network, turn, port) = turns;
        let it = &mut self.networks[network];
        if let Some(head) = next {
            it.heads[port.holder().index()] = head;
        }
        it.ports.took(now, port, cost, next);
        let head = it.ports.ready_at().map(|_| it.head);
        self.link.took(now, turn, cost, head);
    }
}

#[test]
fn a_ports_guarantee_holds_within_its_network_and_the_networks_on_the_link() {
    let rate = Rate::from_gbit(1);
    let settings = Settings::of_link(rate, FRAME);
    let mut stack = Stack { link: Shares::new(settings), networks: Vec::new() };
    let blue = stack.add_network(settings, Terms { max: max(mbit(500)).max, ..min(mbit(400)) });
    let sparse = stack.add_port(blue, min(mbit(100)));
    let capped = stack.add_port(blue, max(mbit(50)));
    let greedy = stack.add_port(blue, Terms::default());
    let red = stack.add_network(settings, min(mbit(300)));
    let others: Vec<_> = (0..4).map(|_| stack.add_port(red, Terms::default())).collect();

    let start = Instant::from_nanos(1_000);
    let mut now = start;
    let frame = Cost::frame(FRAME);
    for port in [capped, greedy] {
        stack.wake(now, blue, port, Cost::frame(1_000));
    }
    for port in &others {
        stack.wake(now, red, *port, frame);
    }
    let gap = mbit(90).time_for(FRAME.into());
    let (mut comes, mut waits, mut longest) = (now, None, Span::ZERO);
    let mut sent = [vec![0u64; 3], vec![0; 4]];
    let span = Span::from_millis(300);
    while now.since(start) < span {
        if comes <= now {
            if waits.is_none() {
                waits = Some(comes);
                stack.wake(comes, blue, sparse, frame);
            }
            comes += gap;
        }
        let turns = stack.next(now).expect("red always has something");
        let (network, port) = (turns.0, turns.2.holder());
        let cost = stack.networks[network].heads[port.index()];
        let is_sparse = network == blue && port == sparse;
        stack.took(now, turns, cost, (!is_sparse).then_some(cost));
        sent[network][port.index()] += u64::from(cost.bytes);
        now += rate.time_for(cost.bytes.into());
        if is_sparse {
            longest = longest.max(now.since(waits.take().expect("it had a frame")));
        }
    }
    let mbits = |bytes: u64| bytes as f64 * 8.0 / span.as_secs_f64() / 1e6;
    let near =
        |bytes: u64, exact: f64| assert!((mbits(bytes) / exact - 1.0).abs() < 0.02, "{sent:?}");
    // Blue has its maximum: 400 of its guarantee and 100 of the rest.
    near(sent[blue].iter().sum(), 500.0);
    near(sent[blue][sparse.index()], 90.0);
    near(sent[blue][capped.index()], 50.0);
    near(sent[blue][greedy.index()], 360.0);
    for port in &others {
        near(sent[red][port.index()], 125.0);
    }
    // A frame in service, blue's frame before it, red's between them at most twice, and its own.
    assert!(longest <= Span::from_micros(12 * 7), "{longest}");
}

#[test]
fn a_network_whose_ports_are_all_held_is_held_and_woken() {
    let rate = Rate::from_gbit(1);
    let settings = Settings::of_link(rate, FRAME);
    let mut stack = Stack { link: Shares::new(settings), networks: Vec::new() };
    let blue = stack.add_network(settings, Terms::default());
    let capped = stack.add_port(blue, max(mbit(100)));
    let free = stack.add_port(blue, Terms::default());
    let frame = Cost::frame(FRAME);
    let mut now = Instant::from_nanos(5);
    stack.wake(now, blue, capped, frame);
    let mut sent = 0;
    while now < Instant::from_nanos(100_000_000) {
        match stack.next(now) {
            Some(turns) => {
                stack.took(now, turns, frame, Some(frame));
                sent += 1;
                now += rate.time_for(FRAME.into());
            }
            None => {
                let ready = stack.link.ready_at().expect("it is held, and will be ready");
                assert!(ready > now);
                now = ready;
            }
        }
    }
    let exact = mbit(100).bytes_in(Span::from_millis(100)) / u64::from(FRAME);
    assert!(exact.abs_diff(sent) <= 12, "{sent} frames, not {exact}");
    // Another port that comes while the network is held need not wait.
    while let Some(turns) = stack.next(now) {
        stack.took(now, turns, frame, Some(frame));
    }
    stack.wake(now, blue, free, frame);
    let (_, _, turn) = stack.next(now).expect("it has no maximum");
    assert_eq!(turn.holder(), free);
}

/// Networks with their ports, all in Mb/s: what a network is guaranteed and may have, if it is
/// bounded, and its weight; the same of each port. Guarantees fit.
type Drawn = Vec<((u64, Option<u64>, u16), Vec<(u64, Option<u64>, u16)>)>;

fn drawn() -> impl Strategy<Value = Drawn> {
    let port = (0..100u64, prop::option::weighted(0.3, 1..300u64), 1..9u16);
    let network = (0..300u64, prop::option::weighted(0.3, 1..500u64), 1..9u16);
    let network = (network, prop::collection::vec(port, 1..5));
    prop::collection::vec(network, 1..5).prop_map(|mut drawn| {
        // No more than 900 of the link, nor than the network's.
        let all: u64 = drawn.iter().map(|((min, ..), _)| *min).sum();
        for ((min, max, _), ports) in &mut drawn {
            *min = *min * 900 / all.max(900);
            *max = max.map(|max| max + *min);
            let of_ports: u64 = ports.iter().map(|(min, ..)| *min).sum();
            for (port, max, _) in ports {
                *port = *port * *min / of_ports.max(*min).max(1);
                *max = max.map(|max| max + *port);
            }
        }
        drawn
    })
}

fn terms_of((min, max, weight): (u64, Option<u64>, u16)) -> Terms {
    let bound = |rate: u64, burst| match rate {
        0 => Bound::default(),
        rate => Bound::bits(mbit(rate), burst),
    };
    Terms {
        min: bound(min, FRAME),
        max: max.map_or_else(Bound::default, |max| bound(max, 20 * FRAME)),
        weight: NonZeroU16::new(weight).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whoever_always_sends_is_served_as_by_two_fluid_levels(drawn in drawn()) {
        let rate = Rate::from_gbit(1);
        let settings = Settings::of_link(rate, FRAME);
        let mut stack = Stack { link: Shares::new(settings), networks: Vec::new() };
        let frame = Cost::frame(FRAME);
        let mut now = Instant::from_nanos(1_000);
        for (network, ports) in &drawn {
            let place = stack.add_network(settings, terms_of(*network));
            for port in ports {
                let port = stack.add_port(place, terms_of(*port));
                stack.wake(now, place, port, frame);
            }
        }
        let mut run = |span: Span| {
            let mut sent: Vec<Vec<u64>> = drawn.iter().map(|(_, it)| vec![0; it.len()]).collect();
            let end = now + span;
            while now < end {
                match stack.next(now) {
                    Some(turns) => {
                        sent[turns.0][turns.2.holder().index()] += u64::from(FRAME);
                        stack.took(now, turns, frame, Some(frame));
                        now += rate.time_for(FRAME.into());
                    }
                    None => now = stack.link.ready_at().expect("all always have something"),
                }
            }
            sent
        };
        // Until the bursts of the maxima are over.
        run(Span::from_millis(100));
        let span = Span::from_millis(200);
        let sent = run(span);
        // A network whose ports are all bounded is bounded by what they are together.
        let networks: Vec<_> = drawn
            .iter()
            .map(|((min, max, weight), ports)| {
                let all: Option<u64> = ports.iter().map(|(_, max, _)| *max).sum();
                let max = [*max, all].into_iter().flatten().min();
                terms_of((*min, max, *weight))
            })
            .collect();
        for (place, network) in fluid::rates(1e9, FRAME, &networks).into_iter().enumerate() {
            let ports: Vec<_> = drawn[place].1.iter().map(|port| terms_of(*port)).collect();
            for (port, rate) in fluid::rates(network, FRAME, &ports).into_iter().enumerate() {
                let fluid = rate * span.as_secs_f64() / 8.0;
                let sent = sent[place][port] as f64;
                // A fiftieth, and some frames.
                let allowed = fluid / 50.0 + 12.0 * f64::from(FRAME);
                prop_assert!(
                    (sent - fluid).abs() <= allowed,
                    "{place}.{port}: {sent} bytes instead of {fluid}",
                );
            }
        }
    }
}
