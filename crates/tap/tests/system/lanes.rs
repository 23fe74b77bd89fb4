//! What is for a slow receiver waits apart from what is for others.

use std::collections::VecDeque;

use port::{Like, Port, Slot, Taken};

use super::*;

/// A switch that holds what is for UDP port 9 as long as it is told to, and has it wait apart.
struct Holding {
    from: TapPort,
    to: TapPort,
    held: VecDeque<Slot>,
    /// How many it may hold beyond [`MOST`], as [`Port::lent`] has it.
    lent: usize,
    /// How many datagrams for UDP port 9 were seen, all in order, and how many for others.
    seen: [u32; 2],
    /// Whether some may be missing.
    jumps: bool,
    /// Whether one may come early, as the interface was down: that fills all buckets.
    was_down: bool,
}

const SLOW: u16 = 9;

/// How many frames it holds at most: less than the port has memory for, so that what is lent while
/// a lane opens is there, however much was sent before.
const MOST: usize = 512;

impl Holding {
    fn new(from: TapPort, to: TapPort) -> Self {
        let held = VecDeque::new();
        Self { from, to, held, lent: 0, seen: [0; 2], jumps: false, was_down: false }
    }

    fn turn(&mut self, holds: bool) {
        let Self { from, to, held, lent, seen, jumps, was_down } = self;
        // It ends once half of what is usual is held.
        match from.lent().unwrap_or(0) as usize {
            0 if held.len() > MOST / 2 => {}
            more => *lent = more,
        }
        let room = (MOST + *lent).saturating_sub(held.len());
        let mut passing = Vec::new();
        let arrived = |slot, frame: &port::FrameView<'_>| {
            let port = frame.bytes.get(36..38).map(|port| u16::from_be_bytes([port[0], port[1]]));
            match port.filter(|_| frame.bytes[12..14] == [8, 0]) {
                Some(SLOW) => {
                    let number = u32::from_be_bytes(frame.bytes[42..46].try_into().unwrap());
                    let is_next = number == seen[0] || number > seen[0] && *jumps;
                    assert!(is_next || *was_down, "{number} instead of {}", seen[0]);
                    seen[0] = seen[0].max(number + 1);
                    held.push_back(slot);
                }
                other => {
                    seen[1] += u32::from(other.is_some());
                    passing.push(slot);
                }
            }
        };
        from.receive(room.min(64), arrived).unwrap();
        if let Some(slot) = held.back().filter(|_| holds) {
            from.divert(*slot, Like::Socket);
        }
        passing.extend(held.drain(..if holds { 0 } else { held.len() }));
        for slot in passing {
            assert_eq!(to.transmit(&from.frame(slot)).unwrap(), Taken::Yes);
            from.release(slot);
        }
        from.flush().unwrap();
        to.flush().unwrap();
    }

    /// Turns until a condition holds.
    fn until(&mut self, holds: bool, what: &str, mut done: impl FnMut(&Self) -> bool) {
        until(what, || {
            self.turn(holds);
            done(self)
        });
    }
}

/// Sends numbered datagrams from one socket.
fn send(container: &Container, port: u16, numbers: std::ops::Range<u32>) {
    let socket = container.udp("10.9.0.1:0");
    socket.connect(("10.9.0.2", port)).unwrap();
    // A test that fails ends all the same.
    socket.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut bytes = [0; 1400];
    for number in numbers {
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        socket.send(&bytes).unwrap();
    }
}

/// How many bytes the first lane's bucket has passed.
fn by_lane(container: &Container) -> u64 {
    let mut netlink = Netlink::open_in(&container.namespace).unwrap();
    let link = netlink.index("eth0").unwrap();
    let queues = netlink.qdiscs(link).unwrap();
    queues.iter().find(|queue| queue.handle == Handle(0x7a72, 0)).map_or(0, |queue| queue.bytes)
}

#[test]
fn a_slow_socket_holds_back_its_senders_alone_and_loses_no_order() {
    const DATAGRAMS: u32 = 20_000;
    let ([a, b], [from, to]) = pair("lanes", |_| {});
    a.knows(2);
    // A socket that nobody reads refuses nothing: the kernel drops what it has no room for.
    let _sockets = [b.udp("10.9.0.2:9"), b.udp("10.9.0.2:10")];
    let mut switch = Holding::new(from, to);
    let send = |port, numbers| send(&a, port, numbers);
    thread::scope(|scope| {
        scope.spawn(|| send(SLOW, 0..DATAGRAMS));
        switch.until(true, "something is held", |switch| switch.held.len() > 100);
        scope.spawn(|| send(10, 0..DATAGRAMS));
        switch.until(true, "others pass", |switch| switch.seen[1] >= DATAGRAMS);
        assert!(switch.seen[0] < DATAGRAMS / 2, "its sender is held back: {:?}", switch.seen);
        switch.until(false, "all pass", |switch| switch.seen[0] == DATAGRAMS);
    });
    assert!(by_lane(&a) > 0);
    // What is not held up any more waits with all else again.
    let again = Instant::now() + Duration::from_millis(1500);
    switch.until(false, "it is quiet", |_| Instant::now() > again);
    send(10, 0..1);
    switch.until(false, "one more", |switch| switch.seen[1] > DATAGRAMS);
    let before = by_lane(&a);
    send(SLOW, DATAGRAMS..DATAGRAMS + 50);
    switch.until(false, "it passes", |switch| switch.seen[0] == DATAGRAMS + 50);
    assert_eq!(by_lane(&a), before);
    assert_nothing_dropped(&switch.from);
    switch.from.detach().unwrap();
    switch.to.detach().unwrap();
}

#[test]
fn lanes_that_a_switch_has_left_keep_nobody_waiting() {
    const DATAGRAMS: u32 = 5_000;
    let ([a, b], [from, to]) = pair("lanes-left", |_| {});
    a.knows(2);
    let _sockets = [b.udp("10.9.0.2:9"), b.udp("10.9.0.2:10")];
    let a = &a;
    let mut switch = thread::scope(|scope| {
        let mut switch = Holding::new(from, to);
        let sender = scope.spawn(|| send(a, SLOW, 0..DATAGRAMS));
        switch.until(true, "something is held", |switch| switch.held.len() > 100);
        // Others pass, so what is slow waits in its lane.
        send(a, 10, 0..20);
        switch.until(true, "others pass", |switch| switch.seen[1] == 20);
        assert!(!sender.is_finished());
        let Holding { from, to, seen, .. } = switch;
        drop(from);
        let from = attach(&config(a, 1));
        assert_eq!((from.is_adopted(), from.without_lanes()), (true, None));
        // What that one held, and what was sent while there was none, is lost.
        let mut switch = Holding { seen, jumps: true, ..Holding::new(from, to) };
        switch.until(false, "its sender goes on", |_| sender.is_finished());
        switch
    });
    // Its interface was without a carrier, and forgot where others are.
    a.knows(2);
    send(a, SLOW, DATAGRAMS..DATAGRAMS + 50);
    switch.until(false, "all pass", |switch| switch.seen[0] == DATAGRAMS + 50);
    switch.from.detach().unwrap();
    switch.to.detach().unwrap();
}

#[test]
fn an_interface_with_another_queue_is_adopted_without_lanes() {
    let container = Container::new("lanes-none");
    let config = config(&container, 1);
    drop(attach(&config));
    let mut netlink = Netlink::open_in(&container.namespace).unwrap();
    let link = netlink.index("eth0").unwrap();
    let kind = QdiscKind::Fifo { packets: 1000 };
    let parent = Handle(0x7a6f, 1);
    netlink.set_qdisc(link, Qdisc { parent, handle: Handle(1, 0), kind }).unwrap();
    let port = attach(&config);
    let why = port.without_lanes().expect("what waits there must not be lost");
    assert!(why.contains("left by an agent"), "{why}");
    port.detach().unwrap();
    // One that is made anew has them.
    let port = attach(&config);
    assert_eq!(port.without_lanes(), None);
    port.detach().unwrap();
}

#[test]
fn more_slow_sockets_than_lanes_share_them_and_lose_no_order() {
    const SOCKETS: u16 = 12;
    const FIRST: u16 = 100;
    const DATAGRAMS: u32 = 2_000;
    let ([a, b], [mut from, mut to]) = pair("lanes-many", |_| {});
    a.knows(2);
    let ports = FIRST..FIRST + SOCKETS;
    let _sockets: Vec<_> = ports.clone().map(|port| b.udp(&format!("10.9.0.2:{port}"))).collect();
    let (mut seen, mut held) = ([0; SOCKETS as usize], VecDeque::new());
    thread::scope(|scope| {
        for port in ports {
            let a = &a;
            scope.spawn(move || send(a, port, 0..DATAGRAMS));
        }
        let slow_until = Instant::now() + Duration::from_secs(2);
        let mut taken_at = Instant::now();
        until("all pass", || {
            let arrived = |slot, frame: &port::FrameView<'_>| {
                let port =
                    frame.bytes.get(36..38).map(|port| u16::from_be_bytes([port[0], port[1]]));
                let place = port.and_then(|port| port.checked_sub(FIRST)).map(usize::from);
                if let Some(seen) = place.and_then(|place| seen.get_mut(place)) {
                    let number = u32::from_be_bytes(frame.bytes[42..46].try_into().unwrap());
                    assert_eq!(number, *seen, "port {port:?}");
                    *seen += 1;
                }
                held.push_back(slot);
            };
            from.receive(64, arrived).unwrap();
            let is_slow = Instant::now() < slow_until;
            // Each has its own receiver, which takes a frame now and then.
            held.iter().rev().take(16).for_each(|slot| {
                from.divert(*slot, Like::Socket);
            });
            let is_early = is_slow && taken_at.elapsed() < Duration::from_millis(1);
            let takes = if is_early {
                0
            } else if is_slow {
                held.len().min(8)
            } else {
                held.len()
            };
            taken_at = if is_early { taken_at } else { Instant::now() };
            for slot in held.drain(..takes) {
                assert_eq!(to.transmit(&from.frame(slot)).unwrap(), Taken::Yes);
                from.release(slot);
            }
            from.flush().unwrap();
            to.flush().unwrap();
            seen.iter().all(|seen| *seen == DATAGRAMS)
        });
    });
    assert!(by_lane(&a) > 0);
    assert_nothing_dropped(&from);
    from.detach().unwrap();
    to.detach().unwrap();
}

#[test]
fn a_lane_whose_mark_was_lost_opens_all_the_same() {
    const DATAGRAMS: u32 = 2_000;
    let ([a, b], [from, to]) = pair("lanes-down", |_| {});
    a.knows(2);
    let _sockets = [b.udp("10.9.0.2:9"), b.udp("10.9.0.2:10")];
    let mut switch = Holding { jumps: true, ..Holding::new(from, to) };
    let a = &a;
    // As long as the interface is down, nothing can be sent.
    let send = |port, numbers: std::ops::Range<u32>| {
        let socket = a.udp("10.9.0.1:0");
        let mut bytes = [0; 1400];
        for number in numbers {
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            until("it is sent", || socket.send_to(&bytes, ("10.9.0.2", port)).is_ok());
        }
    };
    thread::scope(|scope| {
        let senders = [SLOW, 10].map(|port| scope.spawn(move || send(port, 0..DATAGRAMS)));
        switch.until(true, "something is held", |switch| switch.held.len() > 10);
        // Nothing is read, so its mark waits behind an empty bucket.
        let opened = Instant::now() + Duration::from_millis(300);
        until("its lane opens", || {
            switch.from.flush().unwrap();
            Instant::now() > opened
        });
        switch.was_down = true;
        let mut netlink = Netlink::open_in(&a.namespace).unwrap();
        for up in [false, true] {
            let change = LinkChange { up: Some(up), ..LinkChange::default() };
            netlink.change_link("eth0", change).unwrap();
        }
        a.knows(2);
        switch.until(false, "its sender goes on", |_| senders.iter().all(|it| it.is_finished()));
    });
    switch.was_down = false;
    send(SLOW, DATAGRAMS..DATAGRAMS + 50);
    switch.until(false, "all pass", |switch| switch.seen[0] == DATAGRAMS + 50);
    assert!(by_lane(a) > 0);
    switch.from.detach().unwrap();
    switch.to.detach().unwrap();
}
