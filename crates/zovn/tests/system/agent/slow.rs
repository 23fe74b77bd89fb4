//! Receivers that take nothing, or little: what becomes of what else their sender sends.

use std::thread::JoinHandle;

use rustix::net::sockopt::set_socket_recv_buffer_size;

use model::TraceOutcome;

use super::*;

/// Datagrams that go to and fro between two containers until somebody has seen enough.
struct Echo {
    from: UdpSocket,
    over: std::sync::Arc<AtomicBool>,
    other: Option<JoinHandle<()>>,
}

impl Echo {
    fn start(world: &World, from: usize, to: usize) -> Self {
        let bind = |place: usize| {
            let address = format!("10.9.0.{}:0", place + 1);
            world.containers[place].run(|| UdpSocket::bind(address)).unwrap().unwrap()
        };
        let (from, to) = (bind(from), bind(to));
        from.connect(to.local_addr().unwrap()).unwrap();
        from.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        to.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let over = std::sync::Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let other = thread::spawn(move || {
            let mut buffer = [0; 16];
            while !until.load(Ordering::Relaxed) {
                if let Ok((len, back)) = to.recv_from(&mut buffer) {
                    to.send_to(&buffer[..len], back).unwrap();
                }
            }
        });
        Self { from, over, other: Some(other) }
    }

    /// One there and back: how long that took. Its time-out fails the test.
    fn round_trip(&self) -> Duration {
        let began = Instant::now();
        self.from.send(b"there").unwrap();
        self.from.recv(&mut [0; 16]).unwrap();
        began.elapsed()
    }

    /// The longest of all until a condition holds.
    fn longest_until(&self, mut condition: impl FnMut() -> bool) -> Duration {
        let mut longest = Duration::ZERO;
        until(|| {
            longest = longest.max(self.round_trip());
            condition()
        });
        longest
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.other.take().map(JoinHandle::join);
    }
}

/// The longest that others wait in a world is less than this: they may find no processor, but not
/// each time.
fn others_wait_less(than: Duration, longest_in_a_world: fn() -> Duration) {
    assert!((0..5).any(|_| longest_in_a_world() < than), "others wait for {than:?}, each time");
}

/// What a port's sockets did not take.
fn refused(client: &Client, place: usize) -> u64 {
    let port = client.port(&name(place)).unwrap();
    let refused = &port.egress.total.refused;
    let stalled = refused.get("socket_stalled").copied().unwrap_or(0);
    let all: u64 = refused.values().sum();
    assert_eq!(all, stalled, "nothing is refused for another reason: {refused:?}");
    stalled
}

/// Sends small datagrams to these, one after the other, without ever waiting, until told to end.
fn pester(world: &World, targets: &[std::net::SocketAddr], over: &AtomicBool) {
    let socket = world.containers[0].run(|| UdpSocket::bind("10.9.0.1:0")).unwrap().unwrap();
    socket.set_nonblocking(true).unwrap();
    for target in targets.iter().cycle() {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let _ = socket.send_to(&[0; 20], target);
        thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_socket_that_is_never_read_stops_nobody_else_and_is_named() {
    others_wait_less(Duration::from_millis(1500), beside_a_socket_that_is_never_read);
}

fn beside_a_socket_that_is_never_read() -> Duration {
    let mut world = World::new(3);
    let client = world.start(3);
    world.greet(0, 1);
    world.greet(0, 2);
    let (silent, echo) = (world.udp(1), Echo::start(&world, 0, 2));
    let (target, over) = (silent.local_addr().unwrap(), AtomicBool::new(false));
    let longest = thread::scope(|scope| {
        let raised = needs::Over(&over);
        scope.spawn(|| pester(&world, &[target], &over));
        let longest = echo.longest_until(|| refused(&client, 1) > 3000);
        let port = client.port(&name(1)).unwrap();
        let metrics = client.metrics().unwrap();
        let table = world.top(&["--once"]);
        // It reads what it has: then it gets more.
        silent.set_nonblocking(true).unwrap();
        let mut buffer = [0; 32];
        until(|| {
            while silent.recv(&mut buffer).is_ok() {}
            client.port(&name(1)).unwrap().stalled_flows == 0
        });
        drop(raised);
        let [held] = &port.held_sockets[..] else { panic!("{port:?}") };
        assert_eq!((held.socket, held.stalled, held.held), (target, true, 0));
        assert_eq!((port.state, port.held_flows, port.stalled_flows), (PortState::Up, 0, 1));
        let sample =
            "zovn_held_udp_socket_frames{port=\"c1\",socket=\"10.9.0.2:7\",stalled=\"true\"} 0";
        assert!(metrics.contains(sample), "{metrics}");
        assert!(table.contains("c1: UDP socket 10.9.0.2:7 takes nothing"), "{table}");
        longest
    });
    assert!(balanced(&client.status().unwrap()));
    longest
}

/// Sends to a container's silent socket until what is for it is refused, and ends.
fn stall(world: &World, client: &Client, target: std::net::SocketAddr) {
    let (over, before) = (AtomicBool::new(false), refused(client, 1));
    thread::scope(|scope| {
        let raised = needs::Over(&over);
        scope.spawn(|| pester(world, &[target], &over));
        until(|| refused(client, 1) > before);
        drop(raised);
    });
    until(|| client.port(&name(1)).unwrap().held_flows == 0);
    assert_eq!(client.port(&name(1)).unwrap().stalled_flows, 1);
}

#[test]
fn a_stalled_socket_is_named_until_it_is_read_or_closed() {
    let mut world = World::new(2);
    let client = world.start(2);
    world.greet(0, 1);
    let to_socket = ["--port", "c0", "--to", "10.9.0.2", "--udp", "7"];
    let ends = |end: &dyn Fn(UdpSocket)| {
        let silent = world.udp(1);
        stall(&world, &client, silent.local_addr().unwrap());
        let (code, report) = world.trace(&to_socket);
        assert_eq!((code, report.outcome), (Some(3), TraceOutcome::Refused), "{report:?}");
        let said = "refused for `c1`: socket_stalled: its UDP socket takes nothing";
        assert_eq!(report.verdict, said);
        let (code, report) = world.trace(&to_socket[..4]);
        assert_eq!((code, report.outcome), (Some(0), TraceOutcome::Delivered), "{report:?}");
        let but = "; what is for UDP socket 10.9.0.2:7 there is refused, as it takes nothing";
        assert!(report.verdict.contains(but), "{report:?}");
        // Nobody sends any more: its end is seen all the same.
        end(silent);
        until(|| client.port(&name(1)).unwrap().stalled_flows == 0);
        assert_eq!(client.port(&name(1)).unwrap().held_sockets, []);
        let (code, report) = world.trace(&to_socket);
        assert_eq!((code, report.verdict.as_str()), (Some(0), "delivered to `c1`"));
    };
    ends(&|silent| {
        silent.set_nonblocking(true).unwrap();
        while silent.recv(&mut [0; 32]).is_ok() {}
    });
    ends(&drop);
}

#[test]
fn a_stray_datagram_is_worth_no_note() {
    let mut world = World::new(2);
    let client = world.start(2);
    world.greet(0, 1);
    let from = world.udp(0);
    let send = || from.send_to(&[0; 20], "10.9.0.2:4").map(drop);
    // Who listens nowhere is known after all sockets were looked at.
    until(|| {
        let _ = send();
        client.port(&name(1)).unwrap().udp_sockets.unwrap().unseen > 0
    });
    assert_eq!(client.port(&name(1)).unwrap().notes, [""; 0]);
    // The kernel tells the sender that nobody is there: every other call fails.
    (0..300).for_each(|_| drop(send()));
    until(|| {
        let notes = client.port(&name(1)).unwrap().notes;
        notes.iter().any(|note| note.contains("for no UDP socket that is seen"))
    });
}

#[test]
fn nobody_stops_a_sender_by_opening_many_sockets() {
    others_wait_less(Duration::from_millis(500), beside_many_sockets);
}

fn beside_many_sockets() -> Duration {
    const SOCKETS: usize = 900;
    let mut world = World::new(3);
    let client = world.start(3);
    world.greet(0, 1);
    world.greet(0, 2);
    let silent: Vec<UdpSocket> = (0..SOCKETS)
        .map(|_| {
            let socket = world.containers[1].run(|| UdpSocket::bind("10.9.0.2:0"));
            let socket = socket.unwrap().unwrap();
            set_socket_recv_buffer_size(&socket, 0).unwrap();
            socket
        })
        .collect();
    let targets: Vec<_> = silent.iter().map(|socket| socket.local_addr().unwrap()).collect();
    let (echo, over) = (Echo::start(&world, 0, 2), AtomicBool::new(false));
    let longest = thread::scope(|scope| {
        let raised = needs::Over(&over);
        scope.spawn(|| pester(&world, &targets, &over));
        let mut most = 0;
        let longest = echo.longest_until(|| {
            most = most.max(client.port(&name(0)).unwrap().ingress.total.held);
            refused(&client, 1) > 3 * SOCKETS as u64
        });
        drop(raised);
        // Half of 1,024, and what may come that was sent before its socket was diverted.
        assert!(most <= 512 + 8192, "{most} frames are held");
        longest
    });
    // What was lent is taken back.
    until(|| client.port(&name(0)).unwrap().ingress.total.held <= 512 + port::BURST as u64);
    let port = client.port(&name(1)).unwrap();
    assert_eq!(port.held_sockets.len(), 16, "of many, some are named");
    longest
}

/// Its kernel gives back what was read in quarters of the buffer: 69 of these datagrams. Until
/// then, the socket looks as full as before.
#[test]
fn a_socket_that_is_read_forty_times_a_second_loses_nothing() {
    let mut world = World::new(2);
    let client = world.start(2);
    world.greet(0, 1);
    let (reader, over) = (world.udp(1), AtomicBool::new(false));
    thread::scope(|scope| {
        let raised = needs::Over(&over);
        scope.spawn(|| {
            let sender = world.containers[0].run(|| UdpSocket::bind("10.9.0.1:0")).unwrap();
            let sender = sender.unwrap();
            sender.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
            let mut number = 0u32;
            while !over.load(Ordering::Relaxed) {
                number += u32::from(sender.send_to(&number.to_be_bytes(), "10.9.0.2:7").is_ok());
            }
        });
        let mut next = Instant::now();
        for number in 0..100u32 {
            next += Duration::from_millis(25);
            thread::sleep(next.saturating_duration_since(Instant::now()));
            let mut datagram = [0; 4];
            reader.recv(&mut datagram).unwrap();
            assert_eq!(u32::from_be_bytes(datagram), number);
        }
        let port = client.port(&name(1)).unwrap();
        drop(raised);
        assert!(port.held_flows == 1 && port.stalled_flows == 0, "{port:?}");
        assert_eq!(refused(&client, 1), 0);
    });
}

/// Starts an agent that waits for sockets as long as a test lasts: a reader may find no processor.
fn start_patient(world: &mut World, ports: usize) -> Client {
    let mut declared = world.declaration(ports);
    declared.agent.socket_stall_after = Span::from_secs(600);
    let command = world.command_of(&declared);
    world.start_as(command)
}

/// Sends numbered datagrams as fast as it may, until told to end.
fn flood(world: &World, over: &AtomicBool) {
    let sender = world.containers[0].run(|| UdpSocket::bind("10.9.0.1:0")).unwrap().unwrap();
    sender.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut number = 0u32;
    while !over.load(Ordering::Relaxed) {
        number += u32::from(sender.send_to(&number.to_be_bytes(), "10.9.0.2:7").is_ok());
    }
}

/// How many datagrams of a flood are read, in order, while others make one round trip, once the
/// flood waits apart from them: half of 6,000 are read in round trips with no more.
fn read_in_a_round_trip(world: &World, read: impl Fn(&UdpSocket, &mut [u8]) + Sync) -> u32 {
    let (reader, over, done) = (world.udp(1), AtomicBool::new(false), AtomicU32::new(0));
    let echo = Echo::start(world, 0, 2);
    let so_far = || done.load(Ordering::Relaxed);
    thread::scope(|scope| {
        let raised = needs::Over(&over);
        scope.spawn(|| flood(world, &over));
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let mut datagram = [0; 4];
                read(&reader, &mut datagram);
                assert_eq!(u32::from_be_bytes(datagram), done.fetch_add(1, Ordering::Relaxed));
            }
        });
        let round_trip = || {
            let before = so_far();
            echo.round_trip();
            so_far() - before
        };
        // In one queue, each would wait for hundreds of datagrams.
        until(|| round_trip() < 250 && so_far() > 600);
        let end = so_far() + 6000;
        let rounds = std::iter::from_fn(|| (so_far() < end).then(round_trip));
        let mut rounds: Vec<_> = rounds.collect();
        drop(raised);
        rounds.sort_unstable();
        let (all, mut passed) = (rounds.iter().sum::<u32>(), 0);
        let is_half = |read: &u32| {
            passed += read;
            passed >= all / 2
        };
        rounds.into_iter().find(is_half).expect("others make round trips")
    })
}

#[test]
fn a_socket_that_is_read_slowly_holds_up_its_senders_alone() {
    let mut world = World::new(3);
    let client = start_patient(&mut world, 3);
    world.greet(0, 1);
    world.greet(0, 2);
    let read = read_in_a_round_trip(&world, |reader, datagram| {
        thread::sleep(Duration::from_micros(500));
        reader.recv(datagram).unwrap();
    });
    assert!(read < 250, "in a round trip of others, {read} datagrams are read");
    assert_eq!(refused(&client, 1), 0);
    assert!(client.port(&name(0)).unwrap().notes.is_empty());
}

#[test]
fn a_port_that_is_slow_holds_up_its_senders_alone() {
    let mut world = World::new(3);
    let mut slow = world.port(1);
    // A small datagram is 42 bytes more on the wire: 2,000 a second.
    slow.rate = Rate::from_bits_per_sec(1_600_000);
    let client = start_patient(&mut world, 1);
    client.attach(&slow).unwrap();
    client.attach(&world.port(2)).unwrap();
    world.greet(0, 1);
    world.greet(0, 2);
    let read = read_in_a_round_trip(&world, |reader, datagram| {
        assert_eq!(reader.recv(datagram).unwrap(), 4)
    });
    assert!(read < 250, "in a round trip of others, {read} datagrams are read");
    // Of what containers' kernels tell all others, a slow port may miss something.
    let refused = &client.port(&name(1)).unwrap().egress.total.refused;
    assert!(refused.keys().all(|reason| reason == "slow_receiver"), "{refused:?}");
}

/// Large frames take slots of which there are few.
#[test]
fn what_waits_for_a_slow_port_leaves_room_for_others() {
    others_wait_less(Duration::from_millis(500), beside_what_waits_for_a_slow_port);
}

fn beside_what_waits_for_a_slow_port() -> Duration {
    let mut world = World::new(3);
    let client = world.start(0);
    for place in 0..3 {
        let mut port = world.port(place);
        port.attach = port.attach.with_mtu(9000);
        port.ingress.frames = 200;
        client.attach(&port).unwrap();
    }
    world.greet(0, 1);
    world.greet(0, 2);
    client.change(&name(1), &rate("1mbit")).unwrap();
    let (from, to, echo) = (world.udp(0), world.udp(1), Echo::start(&world, 0, 2));
    let to = to.local_addr().unwrap();
    from.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut most = 0;
    let mut held = || {
        let port = client.port(&name(0)).unwrap();
        most = most.max(port.ingress.total.held);
        port
    };
    while from.send_to(&[0; 8000], to).is_ok() {
        held();
    }
    let began = Instant::now();
    let longest = echo
        .longest_until(|| held().paused_by.is_none() && began.elapsed() > Duration::from_secs(1));
    // What is declared, and what the ring had when its receiver was diverted: 2 × 256 KiB.
    assert!(most <= 200 + 65, "{most} frames are held");
    // Its sender waits.
    until(|| from.send_to(&[0; 8000], to).is_err_and(|it| it.kind() == ErrorKind::WouldBlock));
    longest
}
