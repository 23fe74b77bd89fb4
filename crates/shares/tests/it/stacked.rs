//! Two levels: networks share a link, and a network's ports share what is the network's.

use shares::{Bound, Cost, Holder, Settings, Shares, Terms, Turn};
use units::{Instant, Rate, Span};

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
