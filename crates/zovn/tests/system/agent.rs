//! The agent as a whole: the binary, its API, real containers, and signals.

mod capture;
mod floods;
mod ports;
mod prometheus;
mod slow;
mod trace;
mod vlans;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use agent::{Journal, Store, Worker};
use api::{Client, ClientError};
use kernel::netlink::{LinkChange, Netlink};
use kernel::netns::Namespace;
use model::{
    AgentSettings, AgentStatus, Attachment, GateStatus, HostConfig, Limits, LimitsChange, PausedBy,
    PinnedAddress, PortChange, PortName, PortSpec, PortState, RateChange, RouteSpec, Scheduling,
    SocketMode,
};
use rustix::process::{Pid, Signal, kill_process};
use units::{Bytes, Mac, Rate, Span};

use crate::common::{cpu_ns, until};

/// Containers, a directory and at most one agent of a test's own, which go with it even if it
/// fails.
struct World {
    prefix: String,
    directory: tempfile::TempDir,
    containers: Vec<Namespace>,
    agent: Option<Child>,
}

impl World {
    fn new(containers: usize) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("zovn-t-agent-{}-{number}", std::process::id());
        let directory = tempfile::tempdir().unwrap();
        let mut world = Self { prefix, directory, containers: Vec::new(), agent: None };
        for place in 0..containers {
            world.containers.push(Namespace::create(&world.container(place)).unwrap());
        }
        world
    }

    fn container(&self, place: usize) -> String {
        format!("{}-{place}", self.prefix)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("run/agent.sock")
    }

    fn client(&self) -> Client {
        Client::new(self.socket()).unwrap()
    }

    /// The port `c{place}` with address 10.9.0.{place + 1}.
    fn port(&self, place: usize) -> PortSpec {
        let attach = Attachment::Container {
            netns: self.container(place),
            interface: "eth0".into(),
            mac: None,
            addresses: vec![format!("10.9.0.{}/24", place + 1).parse().unwrap()],
            routes: Vec::new(),
            mtu: None,
            offload: true,
        };
        PortSpec::new(name(place), attach)
    }

    fn declaration(&self, ports: usize) -> HostConfig {
        HostConfig {
            // Nobody waits so long: a test that drains at all has to find another end.
            agent: AgentSettings { drain: Span::from_secs(600), ..AgentSettings::default() },
            ports: (0..ports).map(|place| self.port(place)).collect(),
            ..HostConfig::default()
        }
    }

    fn command(&self, ports: usize) -> Command {
        let file = self.directory.path().join("host.toml");
        fs::write(&file, toml::to_string(&self.declaration(ports)).unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.arg("agent").arg("-c").arg(file).arg("--socket").arg(self.socket());
        command.stderr(Stdio::piped());
        command
    }

    /// Starts an agent with the first `ports` containers attached and waits until it is ready.
    fn start(&mut self, ports: usize) -> Client {
        let command = self.command(ports);
        self.start_as(command)
    }

    fn start_as(&mut self, mut command: Command) -> Client {
        assert!(self.agent.is_none());
        self.agent = Some(command.spawn().unwrap());
        self.started()
    }

    /// Starts an agent in a container, as if that were the host.
    fn start_in(&mut self, place: usize, mut command: Command) -> Client {
        self.agent = Some(self.containers[place].run(|| command.spawn()).unwrap().unwrap());
        self.started()
    }

    fn started(&mut self) -> Client {
        let client = self.client();
        until(|| {
            let agent = self.agent.as_mut().unwrap();
            assert_eq!(agent.try_wait().unwrap(), None, "the agent ended at its start");
            client.ready().unwrap()
        });
        client
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.agent.as_ref().unwrap()), signal).unwrap();
    }

    /// Ends the agent with a signal and returns its exit code, if it has one, and its log.
    fn end(&mut self, signal: Signal) -> (Option<i32>, String) {
        self.signal(signal);
        let agent = self.agent.take().unwrap();
        let output = agent.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    /// What `zovn top` prints, not to a terminal.
    fn top(&self, flags: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(["top", "--interval", "50ms", "--socket"]).arg(self.socket()).args(flags);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn udp(&self, place: usize) -> UdpSocket {
        let address = format!("10.9.0.{}:7", place + 1);
        let mut socket = None;
        until(|| {
            socket = match self.containers[place].run(|| UdpSocket::bind(&address)).unwrap() {
                // Between fork and exec, a program that another test starts has a copy of a socket
                // that was closed.
                Err(error) if error.kind() == ErrorKind::AddrInUse => None,
                bound => Some(bound.unwrap()),
            };
            socket.is_some()
        });
        let socket = socket.unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    }

    /// One datagram there and one back.
    fn greet(&self, from: usize, to: usize) {
        let (from, to) = (self.udp(from), self.udp(to));
        let mut buffer = [0; 16];
        from.send_to(b"there", to.local_addr().unwrap()).unwrap();
        let (_, back) = to.recv_from(&mut buffer).unwrap();
        to.send_to(b"back", back).unwrap();
        assert_eq!(from.recv(&mut buffer).unwrap(), 4);
    }

    /// What the API answers to a request, as it says it.
    fn ask(&self, request: &str, body: &str) -> String {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // An answer to the head alone may come before the body is through.
        let _ = stream.write_all(body.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    fn has_interface(&self, place: usize) -> bool {
        Netlink::open_in(&self.containers[place]).unwrap().index("eth0").is_ok()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(agent) = &mut self.agent {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        for place in 0..self.containers.len() {
            let _ = Namespace::delete(&self.container(place));
        }
    }
}

fn name(place: usize) -> PortName {
    PortName(format!("c{place}"))
}

fn rate(rate: &str) -> PortChange {
    PortChange { rate: Some(RateChange::To(rate.parse().unwrap())), ..PortChange::default() }
}

fn egress_frames(frames: u32) -> PortChange {
    let egress = LimitsChange { frames: Some(frames), ..LimitsChange::default() };
    PortChange { egress, ..PortChange::default() }
}

fn refusal<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> (u16, String) {
    match outcome {
        Err(ClientError::Refused { status, problem }) => (status, problem),
        other => panic!("not refused: {other:?}"),
    }
}

fn balanced(status: &AgentStatus) -> bool {
    status.balanced && status.ledger.balances() && status.ports.iter().all(|port| port.balances())
}

#[test]
fn ports_come_change_and_go_while_frames_flow() {
    let mut world = World::new(3);
    let client = world.start(2);
    world.greet(0, 1);

    let early = PortSpec { name: PortName("a".into()), ..world.port(2) };
    client.attach(&early).unwrap();
    let ports = client.status().unwrap().ports;
    assert!(ports.iter().map(|port| &port.name).is_sorted(), "{ports:?}");
    client.detach(&early.name).unwrap();

    let port = client.attach(&world.port(2)).unwrap();
    assert_eq!((port.name, port.state), (name(2), PortState::Up));
    world.greet(0, 2);

    assert_eq!(client.change(&name(2), &rate("1gbit")).unwrap().rate, Some(Rate::from_gbit(1)));
    world.greet(2, 1);
    let lift =
        PortChange { rate: Some(RateChange::None(model::NoRate::None)), ..PortChange::default() };
    assert_eq!(client.change(&name(2), &lift).unwrap().rate, None);

    let narrow = LimitsChange { bytes: Some(Bytes(1 << 20)), ..LimitsChange::default() };
    client.change(&name(2), &PortChange { egress: narrow, ..PortChange::default() }).unwrap();
    let limits = client.change(&name(2), &egress_frames(512)).unwrap().egress_limits;
    assert_eq!(
        limits,
        Limits { frames: 512, bytes: Bytes(1 << 20) },
        "what a change does not name stays"
    );

    let last = client.detach(&name(2)).unwrap();
    assert!(last.egress.total.delivered > 0 && last.balances(), "{last:?}");
    assert!(!world.has_interface(2));
    world.greet(0, 1);
    let status = client.status().unwrap();
    assert_eq!(status.ports.len(), 2);
    assert!(balanced(&status), "{status:?}");
    assert!(
        status.ledger.delivered > 0 && status.busy_ns > 0 && status.busy_ns <= status.uptime_ns
    );
}

#[test]
fn a_port_that_is_slow_to_go_keeps_nobody_waiting() {
    let mut world = World::new(3);
    let client = world.start(3);
    world.greet(0, 1);
    client.change(&name(1), &rate("100kbit")).unwrap();
    let (from, to) = (world.udp(0), world.udp(1));
    for _ in 0..40 {
        from.send_to(&[0; 1000], to.local_addr().unwrap()).unwrap();
    }
    drop(from);
    until(|| client.status().unwrap().ledger.held > 20);
    thread::scope(|scope| {
        let last = scope.spawn(|| world.client().detach(&name(1)).unwrap());
        let mut answers = 0;
        while !last.is_finished() {
            assert!(balanced(&client.status().unwrap()));
            world.greet(0, 2);
            answers += 1;
        }
        let last = last.join().unwrap();
        assert!(answers > 5 && last.egress.total.held > 0, "{answers}, {last:?}");
    });
}

#[test]
fn a_sender_goes_on_when_the_port_that_held_it_back_is_gone() {
    let mut world = World::new(3);
    let client = world.start(3);
    world.greet(0, 1);
    world.greet(0, 2);
    client.change(&name(1), &rate("1kbit")).unwrap();
    let (slow, other) = (world.udp(1), world.udp(2));
    let from = world.udp(0);
    from.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    while from.send_to(&[0; 1000], slow.local_addr().unwrap()).is_ok() {}
    // Behind all that, in the container's queue. Nobody talks to the switch from here on.
    let sender = world.containers[0].run(|| UdpSocket::bind("10.9.0.1:0")).unwrap().unwrap();
    sender.send_to(b"there", other.local_addr().unwrap()).unwrap();
    let last = client.detach(&name(1)).unwrap();
    assert!(last.egress.total.held > 0, "{last:?}");
    assert_eq!(other.recv(&mut [0; 16]).unwrap(), 5);
}

#[test]
fn a_port_that_others_keep_sending_to_leaves_once_it_has_what_it_was_meant_to_have() {
    let mut world = World::new(2);
    let client = world.start(2);
    world.greet(0, 1);
    client.change(&name(1), &rate("100mbit")).unwrap();
    let (from, to) = (world.udp(0), world.udp(1));
    to.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let target = to.local_addr().unwrap();
    let gone = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| while to.recv(&mut [0; 1000]).is_ok() {});
        scope.spawn(|| {
            while !gone.load(Ordering::Relaxed) {
                let _ = from.send_to(&[0; 1000], target);
            }
        });
        until(|| client.status().unwrap().ledger.held > 100);
        let last = client.detach(&name(1)).unwrap();
        gone.store(true, Ordering::Relaxed);
        assert_eq!(last.egress.total.held, 0, "{last:?}");
    });
}

#[test]
fn a_shaped_backlog_leaves_though_nothing_else_happens() {
    let mut world = World::new(2);
    let client = world.start(2);
    client.change(&name(1), &rate("10mbit")).unwrap();
    // A container that still asks where its neighbour is drops what its sockets send.
    world.greet(0, 1);
    let (from, to) = (world.udp(0), world.udp(1));
    let target = to.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..400u16 {
                let mut datagram = [0; 1000];
                datagram[..2].copy_from_slice(&number.to_be_bytes());
                from.send_to(&datagram, target).unwrap();
            }
        });
        for number in 0..400u16 {
            let mut datagram = [0; 1000];
            // Its time-out fails the test.
            to.recv(&mut datagram).unwrap();
            assert_eq!(datagram[..2], number.to_be_bytes());
        }
    });
    assert!(balanced(&client.status().unwrap()));
}

#[test]
fn what_cannot_be_done_is_refused_with_a_reason() {
    let mut world = World::new(1);
    let client = world.start(1);
    assert_eq!(refusal(client.attach(&world.port(0))).0, 409);
    let mut twin = world.port(7);
    twin.pinned = vec![PinnedAddress { mac: world.port(0).mac().unwrap(), vlan: 0 }];
    assert_eq!(refusal(client.attach(&twin)).0, 422);
    let attach = |name: &str| {
        let socket = world.directory.path().join("vm").display().to_string();
        let attach = Attachment::VhostUser {
            socket,
            mode: SocketMode::Listen,
            mac: None,
            queues: 1,
            mtu: None,
        };
        client.attach(&PortSpec::new(PortName(name.into()), attach))
    };
    attach("vm1").unwrap();
    let (status, problem) = refusal(attach("vm2"));
    assert!(status == 422 && problem.contains("`vm1`'s already"), "{problem}");
    let (status, problem) = refusal(client.attach(&world.port(7)));
    assert_eq!(status, 422);
    assert!(problem.contains(&world.container(7)), "{problem}");
    for outcome in [client.port(&name(9)), client.detach(&name(9))] {
        let (status, problem) = refusal(outcome);
        assert_eq!(status, 404);
        assert!(problem.contains("`c9`"), "{problem}");
    }
    assert_eq!(refusal(client.change(&name(0), &egress_frames(0))).0, 422);
    let ingress = LimitsChange { frames: Some(1025), ..LimitsChange::default() };
    let (status, problem) =
        refusal(client.change(&name(0), &PortChange { ingress, ..PortChange::default() }));
    assert!(status == 422 && problem.contains("memory for 1024 frames"), "{problem}");

    let ask = |request: &str, body: &str| world.ask(request, body);
    let answer = ask("POST /v1/ports", "{\"name\": \"x\", \"speed\": 3}");
    assert!(
        answer.starts_with("HTTP/1.1 400") && answer.contains("unknown field `speed`"),
        "{answer}"
    );
    assert!(ask("POST /v1/ports", &" ".repeat(70_000)).starts_with("HTTP/1.1 413"));
    assert!(ask("GET /v2", "").contains("/v1/openapi.json"));
    assert!(ask("PUT /v1/status", "").starts_with("HTTP/1.1 405"));
    let answer = ask("GET /v1/ports/%FF", "");
    assert!(
        answer.starts_with("HTTP/1.1 404") && answer.contains("{\"error\":\"no port has"),
        "{answer}"
    );
    assert!(ask("GET /v1/openapi.json", "").contains("\"openapi\":\"3.1.0\""));
}

#[test]
fn a_sender_of_large_frames_is_held_back_by_its_declared_limit() {
    let mut world = World::new(2);
    let client = world.start(0);
    for place in 0..2 {
        let mut port = world.port(place);
        port.attach = port.attach.with_mtu(9000);
        port.ingress.frames = 200;
        client.attach(&port).unwrap();
    }
    world.greet(0, 1);
    client.change(&name(1), &rate("1kbit")).unwrap();
    let (from, to) = (world.udp(0), world.udp(1));
    from.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    while from.send_to(&[0; 8000], to.local_addr().unwrap()).is_ok() {}
    let held = || client.port(&name(0)).unwrap();
    until(|| held().ingress.total.held >= 199);
    assert_eq!(held().paused_by, Some(PausedBy::Ingress));
}

#[test]
fn a_quota_holds_a_sender_back_for_one_receiver() {
    let mut world = World::new(2);
    let client = world.start(2);
    world.greet(0, 1);
    client.change(&name(1), &rate("1kbit")).unwrap();
    client.change(&name(1), &egress_frames(4)).unwrap();
    let change = PortChange { quota: Some(8), ..PortChange::default() };
    assert_eq!(client.change(&name(0), &change).unwrap().quota, Some(8));
    let (from, to) = (world.udp(0), world.udp(1));
    from.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    while from.send_to(&[0; 1000], to.local_addr().unwrap()).is_ok() {}
    until(|| client.port(&name(0)).unwrap().paused_by == Some(PausedBy::Egress));
    let port = client.port(&name(0)).unwrap();
    // A burst that is being lifted may cross the quota.
    assert!((12..=4 + 8 + port::BURST as u64).contains(&port.ingress.total.held), "{port:?}");
}

#[test]
fn weights_and_pinned_addresses_are_kept() {
    let mut world = World::new(2);
    let client = world.start(1);
    let pinned = PinnedAddress { mac: Mac::local(0x77), vlan: 0 };
    let weighted = Scheduling::Weighted([1, 1, 1, 1, 1, 1, 1, 8]);
    let port = PortSpec { scheduling: weighted, pinned: vec![pinned], ..world.port(1) };
    assert_eq!(client.attach(&port).unwrap().scheduling, weighted);
    world.greet(0, 1);
    let strict = PortChange { scheduling: Some(Scheduling::Strict), ..PortChange::default() };
    assert_eq!(client.change(&name(1), &strict).unwrap().scheduling, Scheduling::Strict);
    world.greet(0, 1);
    let addresses = client.addresses().unwrap();
    let of = |mac: Mac| addresses.iter().find(|address| address.mac == mac).unwrap();
    assert_eq!((&of(pinned.mac).port, of(pinned.mac).age), (&name(1), None));
    assert_eq!(
        of(world.port(0).mac().unwrap()).age,
        None,
        "a port's own address is its own for good"
    );
}

#[test]
fn an_interface_that_was_set_down_is_noticed() {
    let mut world = World::new(2);
    let client = world.start(2);
    let notes = |place| client.port(&name(place)).unwrap().notes;
    let down = LinkChange { up: Some(false), ..LinkChange::default() };
    Netlink::open_in(&world.containers[0]).unwrap().change_link("eth0", down).unwrap();
    until(|| notes(0).iter().any(|note| note.contains("set down inside the container")));
    let up = LinkChange { up: Some(true), ..LinkChange::default() };
    Netlink::open_in(&world.containers[0]).unwrap().change_link("eth0", up).unwrap();
    until(|| notes(0).is_empty());
    assert!(notes(1).is_empty(), "the other was looked at in between: {:?}", notes(1));
}

#[test]
fn a_port_whose_interface_is_gone_is_detached_all_the_same() {
    let mut world = World::new(2);
    let client = world.start(2);
    Netlink::open_in(&world.containers[1]).unwrap().delete_link("eth0").unwrap();
    assert_eq!(client.detach(&name(1)).unwrap().name, name(1));
    client.attach(&world.port(1)).unwrap();
    world.greet(0, 1);
}

#[test]
fn a_detached_port_leaves_no_descriptor_behind() {
    let mut world = World::new(2);
    let client = world.start(1);
    let agent = world.agent.as_ref().unwrap().id();
    let open = || fs::read_dir(format!("/proc/{agent}/fd")).unwrap().count();
    let before = open();
    for _ in 0..3 {
        client.attach(&world.port(1)).unwrap();
        assert!(open() > before);
        client.detach(&name(1)).unwrap();
    }
    // The last to let go is the thread that looks at interfaces.
    until(|| open() <= before);
}

#[test]
fn a_port_that_goes_keeps_nobody_waiting_for_the_kernel() {
    let mut world = World::new(3);
    let client = world.start(2);
    world.greet(0, 1);
    let (from, to) = (world.udp(0), world.udp(1));
    from.connect(to.local_addr().unwrap()).unwrap();
    let gone = AtomicBool::new(false);
    let longest = thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 1];
            while let Ok((_, back)) = to.recv_from(&mut buffer)
                && buffer == [1]
            {
                to.send_to(&buffer, back).unwrap();
            }
        });
        // The longest answer during each detachment. The kernel takes 30 ms for one.
        let longest = (0..5).map(|_| {
            client.attach(&world.port(2)).unwrap();
            gone.store(false, Ordering::Relaxed);
            let detached = scope.spawn(|| {
                world.client().detach(&name(2)).unwrap();
                gone.store(true, Ordering::Relaxed);
            });
            let mut longest = Duration::ZERO;
            while !gone.load(Ordering::Relaxed) {
                let began = Instant::now();
                from.send(&[1]).unwrap();
                from.recv(&mut [0; 1]).unwrap();
                longest = longest.max(began.elapsed());
            }
            detached.join().unwrap();
            longest
        });
        let longest = longest.collect::<Vec<_>>();
        from.send(&[0]).unwrap();
        longest
    });
    // Others may have had the processor in between, but not each time.
    let best = *longest.iter().min().unwrap();
    assert!(best < Duration::from_millis(10), "{longest:?}");
}

#[test]
fn many_idle_ports_take_little_memory_and_are_gone_soon() {
    let mut world = World::new(1);
    let client = world.start(0);
    for number in 0..64 {
        let mut port = world.port(0);
        let Attachment::Container { interface, addresses, .. } = &mut port.attach else {
            unreachable!("it is a container's");
        };
        (*interface, *addresses) = (format!("e{number}"), Vec::new());
        port.name = name(number);
        client.attach(&port).unwrap();
    }
    let pid = world.agent.as_ref().unwrap().id();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = resident.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    // The agent without ports has 25 MiB, the UDP gate's tables among them.
    assert!(kib < 96 << 10, "{kib} KiB");
    let began = Instant::now();
    let (code, log) = world.end(Signal::INT);
    assert_eq!(code, Some(0), "{log}");
    // One after the other, they take more than 2 s.
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
}

#[test]
fn time_in_which_the_agent_was_stopped_is_nobodys_silence() {
    let mut world = World::new(2);
    let command = world.command(2);
    let file = world.directory.path().join("host.toml");
    let mut declared = world.declaration(2);
    declared.agent.stall_after = Span::from_secs(1);
    fs::write(&file, toml::to_string(&declared).unwrap()).unwrap();
    let client = world.start_as(command);
    world.greet(0, 1);
    // A receiver that takes nothing.
    let mut netlink = Netlink::open_in(&world.containers[1]).unwrap();
    let mut set_up = |up| {
        netlink.change_link("eth0", LinkChange { up: Some(up), ..LinkChange::default() }).unwrap();
    };
    let (from, to) = (world.udp(0), world.udp(1));
    set_up(false);
    for number in 0..50 {
        from.send_to(&[number], to.local_addr().unwrap()).unwrap();
    }
    until(|| client.status().unwrap().ledger.held >= 50);
    world.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(1500));
    world.signal(Signal::CONT);
    assert!(client.status().unwrap().ledger.held >= 50, "by the first answer after that");
    set_up(true);
    let mut buffer = [0; 8];
    for number in 0..50 {
        assert_eq!((to.recv(&mut buffer).unwrap(), buffer[0]), (1, number));
    }
    let (_, log) = world.end(Signal::TERM);
    assert!(log.contains("it blames nobody for silence"), "{log}");
}

#[test]
fn an_agent_whose_ports_have_taken_every_descriptor_still_answers() {
    let mut world = World::new(24);
    let mut limited = Command::new("sh");
    let command = world.command(0);
    limited.args(["-c", "ulimit -n 100 && exec \"$@\"", "sh"]);
    limited.arg(command.get_program()).args(command.get_args()).stderr(Stdio::piped());
    let client = world.start_as(limited);
    let mut attached = 0;
    let (status, problem) = loop {
        match client.attach(&world.port(attached)) {
            Ok(_) => attached += 1,
            refused => break refusal(refused),
        }
    };
    assert!(status == 422 && problem.contains("Too many open files"), "{problem}");
    // Whoever holds connections open does not keep others out.
    let silent: Vec<_> = (0..8).map(|_| UnixStream::connect(world.socket()).unwrap()).collect();
    let before = client.status().unwrap().ports.len();
    assert!(before == attached && attached > 5, "{attached}");
    drop(silent);
    // What is free goes to connections first.
    for place in 0..3 {
        client.detach(&name(place)).unwrap();
    }
    client.attach(&world.port(0)).unwrap();
    world.greet(0, 3);
}

#[test]
fn a_gate_that_is_off_is_seen_everywhere() {
    let mut world = World::new(0);
    let command = world.command(0);
    fs::write(world.directory.path().join("host.toml"), "[agent]\nudp_gate = false\n").unwrap();
    let client = world.start_as(command);
    let GateStatus::Off(why) = client.status().unwrap().udp_gate else { panic!("it is on") };
    assert!(client.metrics().unwrap().contains("zovn_udp_gate{} 0\n"));
    let table = world.top(&["--once"]);
    assert!(table.contains("UDP gate off") && table.contains(&why), "{table}");
}

/// Starts an agent without ports, of whose polling its file says one thing and its flag another.
fn start_polling(world: &mut World, file: &str, flag: &str) -> u32 {
    let mut command = world.command(0);
    command.args(["--poll", flag]);
    fs::write(world.directory.path().join("host.toml"), format!("[agent]\npolling = '{file}'\n"))
        .unwrap();
    world.start_as(command);
    world.agent.as_ref().unwrap().id()
}

#[test]
fn a_flag_has_it_poll_whatever_the_file_says() {
    let mut world = World::new(0);
    let pid = start_polling(&mut world, "adaptive", "always");
    // An agent that sleeps takes minutes for that.
    until(|| cpu_ns(pid) > 1_000_000_000);
}

#[test]
fn a_flag_has_it_sleep_whatever_the_file_says() {
    let mut world = World::new(0);
    let pid = start_polling(&mut world, "always", "adaptive");
    let sleeps = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).unwrap();
        status.starts_with("Name:\tzovn-switch\n") && status.contains("\nState:\tS")
    };
    until(|| fs::read_dir(format!("/proc/{pid}/task")).unwrap().any(|task| sleeps(task.unwrap())));
}

#[test]
fn metrics_tell_what_the_status_tells() {
    let mut world = World::new(2);
    let client = world.start(2);
    world.greet(0, 1);
    let page = client.metrics().unwrap();
    assert!(page.ends_with("# EOF\n"));
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    for sample in samples {
        let (labelled, value) = sample.rsplit_once(' ').unwrap();
        assert!(labelled.starts_with("zovn_"), "{sample}");
        assert!(value.parse::<f64>().is_ok(), "{sample}");
    }
    let delivered = "zovn_delivered_frames_total{port=\"c1\",direction=\"egress\",class=\"0\"} ";
    let delivered = page.lines().find_map(|line| line.strip_prefix(delivered)).unwrap();
    assert!(delivered.parse::<u64>().unwrap() > 0);
    let refused = "zovn_refused_frames_total{port=\"c0\",direction=\"ingress\",reason=\"stalled_receiver\"} 0\n";
    assert!(page.contains(refused), "{page}");
    assert!(
        page.contains("zovn_ledger_balanced{} 1\n") && page.contains("zovn_ports{} 2\n"),
        "{page}"
    );
}

#[test]
fn a_signal_ends_it_and_leaves_interfaces_to_the_next_or_removes_them() {
    let mut world = World::new(2);
    for signal in [Signal::TERM, Signal::INT] {
        world.start(2);
        world.greet(0, 1);
        let (code, log) = world.end(signal);
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("balanced=true"), "{log}");
        assert!(!world.socket().exists());
        // After SIGTERM there may be another agent, after SIGINT there is none.
        let is_left = signal == Signal::TERM;
        assert_eq!([0, 1].map(|place| world.has_interface(place)), [is_left; 2]);
    }
}

#[test]
fn a_second_signal_does_not_wait_for_what_is_held() {
    let mut world = World::new(2);
    let client = world.start(2);
    world.greet(0, 1);
    client.change(&name(1), &rate("1kbit")).unwrap();
    let (from, to) = (world.udp(0), world.udp(1));
    for _ in 0..50 {
        from.send_to(&[0; 1000], to.local_addr().unwrap()).unwrap();
    }
    until(|| client.status().unwrap().ledger.held > 40);
    world.signal(Signal::TERM);
    until(|| !client.ready().unwrap());
    assert_eq!(refusal(client.detach(&name(0))).0, 503);
    let (code, log) = world.end(Signal::TERM);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("balanced=true") && !log.contains("ledger.held=0 "), "{log}");
    assert!(!world.socket().exists());
}

#[test]
fn a_switch_that_nobody_can_order_leaves_nothing_behind() {
    let world = World::new(1);
    let journal = Arc::new(Journal::open(&world.socket()));
    let worker = Worker::start(world.declaration(1), Store::default(), journal).unwrap();
    assert!(world.has_interface(0));
    drop(worker);
    until(|| !world.has_interface(0));
}

#[test]
fn systemd_is_told_of_each_step() {
    let mut world = World::new(0);
    let path = world.directory.path().join("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let told = |what: &str| {
        let mut buffer = [0; 256];
        until(|| {
            let len = systemd.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..len]).lines().any(|line| line == what)
        });
    };
    let mut command = world.command(0);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
    world.start_as(command);
    told("READY=1");
    told("WATCHDOG=1");
    world.signal(Signal::TERM);
    told("STOPPING=1");
}

/// The packaged unit.
fn unit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/zovn-agent.service")
}

#[test]
fn the_unit_exposes_little() {
    if !needs::program("systemd-analyze", "systemd") {
        return;
    }
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--threshold=45"]).arg(unit());
    let output = analyze.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn it_needs_no_more_than_the_unit_allows() {
    if !needs::program("setpriv", "util-linux") {
        return;
    }
    let unit = fs::read_to_string(unit()).unwrap();
    let allowed =
        unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let allowed = allowed.to_lowercase().replace("cap_", "+").replace(' ', ",");
    let mut world = World::new(2);
    let agent = world.command(2);
    let mut command = Command::new("setpriv");
    command.args(["--no-new-privs", "--bounding-set", &format!("-all,{allowed}")]);
    command.arg(agent.get_program()).args(agent.get_args()).stderr(Stdio::piped());
    let client = world.start_as(command);
    world.greet(0, 1);
    let status = client.status().unwrap();
    assert_eq!(status.udp_gate, GateStatus::On);
    assert!(status.ports.iter().all(|port| port.notes.is_empty()), "{status:?}");
    let (code, log) = world.end(Signal::TERM);
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("may have to wait for others"), "{log}");
}

#[test]
fn a_killed_agent_is_started_again_in_its_own_place() {
    let mut world = World::new(2);
    world.start(2);
    world.greet(0, 1);
    assert_eq!(world.end(Signal::KILL).0, None);
    assert!(world.socket().exists());
    world.start(2);
    world.greet(0, 1);
}

#[test]
fn ports_that_were_attached_through_the_api_are_there_after_a_restart() {
    let mut world = World::new(3);
    let client = world.start(1);
    let mut port = world.port(1);
    let Attachment::Container { routes, .. } = &mut port.attach else {
        unreachable!("it is a container's");
    };
    let via = Some("10.9.0.254".parse().unwrap());
    routes.push(RouteSpec { to: "192.0.2.0/24".parse().unwrap(), via });
    client.attach(&port).unwrap();
    client.change(&name(1), &rate("1gbit")).unwrap();
    client.attach(&world.port(2)).unwrap();
    client.detach(&name(2)).unwrap();
    // What the container adds by itself.
    let added = "10.9.1.1/32".parse().unwrap();
    let mut netlink = Netlink::open_in(&world.containers[1]).unwrap();
    let link = netlink.index("eth0").unwrap();
    netlink.add_address(link, added).unwrap();
    let far = "192.0.2.7".parse().unwrap();
    let hop = netlink.next_hop(added.address, far).unwrap();
    assert_eq!(hop.map(|hop| hop.address), via);
    for signal in [Signal::TERM, Signal::KILL] {
        world.end(signal);
        let client = world.start(1);
        assert_eq!(client.status().unwrap().ports.len(), 2);
        assert_eq!(client.port(&name(1)).unwrap().rate, Some(Rate::from_gbit(1)));
        world.greet(0, 1);
        assert_eq!(netlink.index("eth0").unwrap(), link);
        assert_eq!(netlink.next_hop(added.address, far).unwrap(), hop, "{signal:?}");
    }
    world.end(Signal::INT);
    assert_eq!(world.start(1).status().unwrap().ports.len(), 1);
}

#[test]
fn a_port_can_be_put_again_and_again() {
    let mut world = World::new(1);
    world.start(0);
    let put = |port: &PortSpec| {
        let body = serde_json::to_string(port).unwrap();
        let answer = world.ask(&format!("PUT /v1/ports/{}", port.name), &body);
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    let port = world.port(0);
    assert_eq!([put(&port), put(&port)], [201, 200]);
    let slow = PortSpec { rate: Some(Rate::from_gbit(1)), ..world.port(0) };
    assert_eq!(put(&slow), 200);
    assert_eq!(world.client().port(&name(0)).unwrap().rate, slow.rate);
    assert_eq!(put(&port), 200);
    assert_eq!(world.client().port(&name(0)).unwrap().rate, None);
    let mut other = world.port(0);
    let Attachment::Container { interface, .. } = &mut other.attach else {
        unreachable!("it is a container's");
    };
    *interface = "eth1".into();
    assert_eq!(put(&other), 409);
}

#[test]
fn a_start_that_fails_leaves_what_it_found_and_nothing_else() {
    let mut world = World::new(2);
    world.start(1);
    world.end(Signal::TERM);
    let command = world.command(2);
    let mut declared = world.declaration(2);
    let vm = |name: &str, socket: &str| {
        let attach =
            serde_json::json!({ "kind": "vhost-user", "socket": socket, "mode": "listen" });
        PortSpec::new(PortName(name.into()), serde_json::from_value(attach).unwrap())
    };
    let folder = world.directory.path().display();
    declared.ports.push(vm("good", &format!("{folder}/run/good.sock")));
    declared.ports.push(vm("bad", &format!("{folder}/missing/bad.sock")));
    let file = world.directory.path().join("host.toml");
    fs::write(file, toml::to_string(&declared).unwrap()).unwrap();
    let mut command = command;
    let failed = command.output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(said.contains("cannot attach port `bad`"), "{said}");
    assert!(world.has_interface(0) && !world.has_interface(1));
    let left = fs::read_dir(world.directory.path().join("run")).unwrap();
    let left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_second_agent_leaves_the_first_alone() {
    let mut world = World::new(1);
    let client = world.start(1);
    let second = world.command(0).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("an agent already listens on"), "{said}");
    assert!(client.ready().unwrap());
}

#[test]
fn an_agent_that_cannot_attach_all_attaches_none() {
    let world = World::new(2);
    // An interface of another kind.
    let mut netlink = Netlink::open_in(&world.containers[1]).unwrap();
    netlink.add_bridge("eth0").unwrap();
    let failed = world.command(2).output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(said.contains("cannot attach port `c1`"), "{said}");
    assert!(!world.has_interface(0) && !world.socket().exists());
}

#[test]
fn a_container_may_come_later_and_go_and_come_back() {
    let mut world = World::new(1);
    let client = world.start(2);
    let state = || client.port(&name(1)).unwrap();
    let metric = |state: &str, value: u8| {
        let line = format!("zovn_port_state{{port=\"c1\",state=\"{state}\"}} {value}\n");
        assert!(client.metrics().unwrap().contains(&line), "{line}");
    };
    assert_eq!(
        (client.port(&name(0)).unwrap().state, state().state),
        (PortState::Up, PortState::Down)
    );
    assert!(state().notes[0].contains("cannot open network namespace"), "{:?}", state().notes);
    metric("down", 1);
    let device = |container: &Namespace| {
        let number = container.inode().unwrap();
        (fs::metadata("/proc/self/ns/net").unwrap().dev(), number)
    };
    for _ in 0..2 {
        world.containers.truncate(1);
        world.containers.push(Namespace::create(&world.container(1)).unwrap());
        until(|| state().state == PortState::Up);
        metric("up", 1);
        world.greet(0, 1);
        Namespace::delete(&world.container(1)).unwrap();
        let gone = device(&world.containers.pop().unwrap());
        until(|| state().state == PortState::Down);
        assert!(state().notes[0].contains("its container "), "{:?}", state().notes);
        // The agent held the last descriptor of it.
        let agent = world.agent.as_ref().unwrap().id();
        let holds = |file: fs::DirEntry| {
            fs::metadata(file.path()).is_ok_and(|file| (file.dev(), file.ino()) == gone)
        };
        until(|| !fs::read_dir(format!("/proc/{agent}/fd")).unwrap().any(|it| holds(it.unwrap())));
    }
    // A port that waits for its container can go as any other.
    client.detach(&name(1)).unwrap();
    let status = client.status().unwrap();
    assert_eq!(status.ports.len(), 1);
    assert!(balanced(&status), "{status:?}");
}

#[test]
fn an_interface_that_was_renamed_is_found_and_one_that_was_moved_away_is_down() {
    let mut world = World::new(2);
    let client = world.start(1);
    let port = || client.port(&name(0)).unwrap();
    let mut netlink = Netlink::open_in(&world.containers[0]).unwrap();
    let down = LinkChange { up: Some(false), ..LinkChange::default() };
    netlink.change_link("eth0", down).unwrap();
    let renamed = LinkChange { name: Some("wan"), ..LinkChange::default() };
    netlink.change_link("eth0", renamed).unwrap();
    until(|| port().state == PortState::Down);
    netlink.change_link("wan", LinkChange { up: Some(true), ..LinkChange::default() }).unwrap();
    until(|| port().state == PortState::Up);
    assert!(port().notes[0].contains("renamed to `wan`"), "{:?}", port().notes);
    let away = LinkChange { namespace: Some(&world.containers[1]), ..LinkChange::default() };
    netlink.change_link("wan", away).unwrap();
    until(|| port().state == PortState::Down);
    assert!(port().notes[0].contains("was moved out of the container"), "{:?}", port().notes);
}

#[test]
fn what_happens_to_a_port_is_in_the_log() {
    let mut world = World::new(2);
    let mut command = world.command(1);
    let path = world.directory.path().join("log");
    command.stderr(fs::File::create(&path).unwrap());
    let client = world.start_as(command);
    let told = |what: &str| {
        until(|| {
            let log = fs::read_to_string(&path).unwrap();
            log.lines().any(|line| line.contains("port=c0") && line.contains(what))
        });
    };
    told("port attached");
    // Nobody else is there to take what this asks.
    world.udp(0).send_to(b"?", "10.9.0.9:7").unwrap();
    told("reason=\"no_egress\"");
    let mut netlink = Netlink::open_in(&world.containers[0]).unwrap();
    let mut set_up = |up| {
        netlink.change_link("eth0", LinkChange { up: Some(up), ..LinkChange::default() }).unwrap();
    };
    set_up(false);
    told("the port is down");
    set_up(true);
    told("the port is up");
    client.detach(&name(0)).unwrap();
    told("port detached");
}

#[test]
fn a_host_gets_its_address_in_the_underlay_later() {
    let mut world = World::new(1);
    let command = world.command(0);
    let declared = "[uplink]\nvtep = \"192.0.2.77\"\n";
    fs::write(world.directory.path().join("host.toml"), declared).unwrap();
    let host = &world.containers[0];
    let mut netlink = Netlink::open_in(host).unwrap();
    netlink.change_link("lo", LinkChange { up: Some(true), ..LinkChange::default() }).unwrap();
    let link = netlink.index("lo").unwrap();
    let client = world.start_in(0, command);
    let notes = || client.status().unwrap().uplink.unwrap().notes;
    assert!(notes()[0].contains("does not have its address 192.0.2.77 yet"), "{:?}", notes());
    netlink.add_address(link, "192.0.2.77/24".parse().unwrap()).unwrap();
    until(|| !notes().iter().any(|note| note.contains("does not have its address")));
    let (code, log) = world.end(Signal::TERM);
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn a_file_that_says_what_cannot_be_is_wrong_usage_and_a_missing_one_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("wrong.toml");
    fs::write(&file, "nonsense = 1\n").unwrap();
    let code = |command: &[&str], file: &Path| {
        let status = Command::new(env!("CARGO_BIN_EXE_zovn"))
            .args(command)
            .arg(file)
            .stderr(Stdio::null())
            .status();
        status.unwrap().code()
    };
    for command in [&["agent", "--check", "-c"][..], &["lab", "up"]] {
        assert_eq!(code(command, &file), Some(2), "{command:?}");
        assert_eq!(code(command, &directory.path().join("missing.toml")), Some(1), "{command:?}");
    }
}

#[test]
fn an_idle_agent_with_32_ports_costs_less_than_a_hundredth_of_a_core() {
    let mut world = World::new(32);
    let client = world.start(32);
    // Containers that have just come up have something to say of themselves; wait until they have
    // said it.
    let mut accepted = u64::MAX;
    until(|| {
        thread::sleep(Duration::from_secs(1));
        let before = std::mem::replace(&mut accepted, client.status().unwrap().ledger.accepted);
        before == accepted
    });
    let pid = world.agent.as_ref().unwrap().id();
    let (began, used) = (Instant::now(), cpu_ns(pid));
    // Not for anything to happen: this is the time over which the agent's share is taken.
    thread::sleep(Duration::from_secs(3));
    let share = (cpu_ns(pid) - used) as f64 / began.elapsed().as_nanos() as f64;
    assert!(share < 0.01, "an idle agent uses {:.2} % of a core", share * 100.0);
}

#[test]
fn top_shows_every_port_once() {
    let mut world = World::new(3);
    let client = world.start(2);
    let long = PortSpec { name: PortName("x".repeat(63)), ..world.port(2) };
    client.attach(&long).unwrap();
    // Where there is no terminal, it is `--once`.
    let table = world.top(&[]);
    assert!(table.contains(&format!("\n{} up", long.name)), "{table}");
    assert!(table.contains("accepted = ") && table.contains("✔ balanced"), "{table}");
    assert!(table.contains("\nc0 ") && table.contains("\nc1 "), "{table}");
    let status: AgentStatus = serde_json::from_str(&world.top(&["--once", "--json"])).unwrap();
    assert_eq!(status.ports.len(), 3);
}
