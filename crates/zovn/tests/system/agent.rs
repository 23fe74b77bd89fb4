//! The agent as a whole: the binary, its API, real containers, and signals.

mod calibration;
mod capture;
mod floods;
mod interfaces;
mod leaving;
mod nic;
mod ports;
mod process;
mod prometheus;
mod resources;
mod slow;
mod trace;
mod vlans;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use api::{Client, ClientError};
use kernel::netlink::{LinkChange, Netlink};
use kernel::netns::Namespace;
use model::{
    AgentSettings, AgentStatus, Attachment, GateStatus, HostConfig, Limits, LimitsChange, PausedBy,
    PinnedAddress, PortChange, PortName, PortSpec, PortState, RateChange, Scheduling, SocketMode,
};
use rustix::process::{Pid, Signal, kill_process};
use units::{Bytes, Mac, Rate, Span};

use crate::common::{bound, until};

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
        self.command_of(&self.declaration(ports))
    }

    fn command_of(&self, declaration: &HostConfig) -> Command {
        let file = self.directory.path().join("host.toml");
        fs::write(&file, toml::to_string(declaration).unwrap()).unwrap();
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
        let socket = bound(&self.containers[place], || UdpSocket::bind(&address));
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
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
        answer.starts_with("HTTP/1.1 400") && answer.contains("`speed` is not known here"),
        "{answer}"
    );
    assert!(ask("POST /v1/ports", &" ".repeat(70_000)).starts_with("HTTP/1.1 413"));
    assert!(ask("GET /v2", "").contains("/v1/openapi.json"));
    assert!(ask("PUT /v1/status", "").starts_with("HTTP/1.1 405"));
    let answer = ask("GET /v1/ports/%FF", "");
    assert!(
        answer.starts_with("HTTP/1.1 404") && answer.contains("{\"error\":\"no port "),
        "{answer}"
    );
    assert!(ask("GET /v1/openapi.json", "").contains("\"openapi\":\"3.1.0\""));
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
