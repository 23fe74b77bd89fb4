//! A tenant's two-tier network on one host, of containers: what a file declares is what they can
//! do.

mod backends;
mod provider;
mod see;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use api::Client;
use kernel::netns::Namespace;
use model::{
    AgentSettings, Attachment, Generation, HostConfig, PortName, PortSpec, PortState, PortStatus,
    RouteSpec,
};
use rustix::process::{Pid, Signal, kill_process};
use units::Span;

use crate::common::{bound, until};

const SHOP: &str = include_str!("../../../../examples/shop.yaml");

/// Rules beside those of the example: the database's machine may be pinged, and asked by UDP.
const MORE: &str = "
    - {name: ping, direction: toPort, action: allow, services: [{protocol: icmp}]}
    - {name: udp, direction: toPort, action: allow, services: [{protocol: udp, ports: [7]}]}
";

/// A machine, its address, and its router's.
struct Machine {
    name: &'static str,
    address: [u8; 4],
    router: [u8; 4],
}

const MACHINES: [Machine; 3] = [
    Machine { name: "web-1", address: [10, 0, 1, 1], router: [10, 0, 1, 254] },
    Machine { name: "web-2", address: [10, 0, 1, 2], router: [10, 0, 1, 254] },
    Machine { name: "db-1", address: [10, 0, 2, 1], router: [10, 0, 2, 254] },
];
const WEB: usize = 0;
const OTHER: usize = 1;
const DB: usize = 2;

/// An agent with a container for each machine; all of it goes with the test.
struct World {
    prefix: String,
    directory: tempfile::TempDir,
    containers: Vec<Namespace>,
    agent: Option<Child>,
}

impl World {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("zovn-t-logical-{}-{number}", std::process::id());
        let directory = tempfile::tempdir().unwrap();
        let mut world = Self { prefix, directory, containers: Vec::new(), agent: None };
        for machine in &MACHINES {
            let container = Namespace::create(&world.container(machine)).unwrap();
            world.containers.push(container);
        }
        world
    }

    fn container(&self, machine: &Machine) -> String {
        format!("{}-{}", self.prefix, machine.name)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("run/agent.sock")
    }

    fn client(&self) -> Client {
        Client::new(self.socket()).unwrap()
    }

    fn port(&self, machine: &Machine) -> PortSpec {
        let [a, b, c, d] = machine.address;
        let via = Some(machine.router.into());
        let attach = Attachment::Container {
            netns: self.container(machine),
            interface: "eth0".into(),
            mac: None,
            addresses: vec![format!("{a}.{b}.{c}.{d}/24").parse().unwrap()],
            routes: vec![RouteSpec { to: "0.0.0.0/0".parse().unwrap(), via }],
            mtu: None,
            offload: true,
        };
        let port = PortSpec::new(PortName(machine.name.into()), attach);
        PortSpec { logical: format!("shop/{}", machine.name).parse().ok(), ..port }
    }

    /// Starts an agent with these ports declared.
    fn start(&mut self, machines: &[usize]) {
        let ports = machines.iter().map(|at| self.port(&MACHINES[*at])).collect();
        self.start_with(ports, None);
    }

    /// Starts an agent with these ports, in a container if that is to be the host.
    fn start_with(&mut self, ports: Vec<PortSpec>, host: Option<usize>) {
        let config = HostConfig {
            // However slow the machine is, no socket counts as stalled.
            agent: AgentSettings {
                drain: Span::from_secs(600),
                socket_stall_after: Span::from_secs(600),
                ..AgentSettings::default()
            },
            ports,
            ..HostConfig::default()
        };
        let file = self.directory.path().join("host.toml");
        fs::write(&file, toml::to_string(&config).unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.arg("agent").arg("-c").arg(file).arg("--socket").arg(self.socket());
        let mut spawn = || command.stderr(Stdio::piped()).spawn().unwrap();
        let agent = match host {
            Some(host) => self.containers[host].run(spawn).unwrap(),
            None => spawn(),
        };
        self.agent = Some(agent);
        let client = self.client();
        until(|| {
            let agent = self.agent.as_mut().unwrap();
            assert_eq!(agent.try_wait().unwrap(), None, "the agent ended at its start");
            client.ready().unwrap()
        });
    }

    /// Ends the agent; what it has logged.
    fn end(&mut self, signal: Signal) -> String {
        kill_process(Pid::from_child(self.agent.as_ref().unwrap()), signal).unwrap();
        let output = self.agent.take().unwrap().wait_with_output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    }

    /// What a command says to this agent.
    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(words).arg("--socket").arg(self.socket()).output().unwrap()
    }

    /// What `zovn apply -f` says to a file of such text.
    fn apply(&self, text: &str, flags: &[&str]) -> Output {
        let file = self.directory.path().join("shop.yaml");
        fs::write(&file, text).unwrap();
        self.run(&[&["apply", "-f", file.to_str().unwrap()], flags].concat())
    }

    fn status(&self, at: usize) -> PortStatus {
        self.client().port(&PortName(MACHINES[at].name.into())).unwrap()
    }

    fn realized(&self, at: usize) -> Option<Generation> {
        self.status(at).logical_state.unwrap().realized
    }

    /// Whether a machine has an answer to a ping.
    fn pings(&self, from: usize, to: [u8; 4]) -> bool {
        self.pings_within("10", from, to)
    }

    /// The same within so many seconds.
    fn pings_within(&self, seconds: &str, from: usize, to: [u8; 4]) -> bool {
        let [a, b, c, d] = to;
        let mut ping = Command::new("ping");
        ping.args(["-c", "1", "-W", seconds, "-n", &format!("{a}.{b}.{c}.{d}")]);
        ping.stdout(Stdio::null());
        self.containers[from].run(|| ping.status()).unwrap().unwrap().success()
    }

    fn listen(&self, at: usize, port: u16) -> TcpListener {
        let address = SocketAddr::from((MACHINES[at].address, port));
        bound(&self.containers[at], || TcpListener::bind(address))
    }

    fn connect(&self, from: usize, to: usize, port: u16) -> Result<TcpStream, ErrorKind> {
        let address = SocketAddr::from((MACHINES[to].address, port));
        let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(30));
        self.containers[from].run(connect).unwrap().map_err(|error| error.kind())
    }

    /// So many bytes there and back again.
    fn talk(&self, from: usize, to: usize, port: u16, bytes: usize) {
        let listener = self.listen(to, port);
        let sent: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut got = vec![0; bytes];
                stream.read_exact(&mut got).unwrap();
                stream.write_all(&got).unwrap();
            });
            let mut stream = self.connect(from, to, port).unwrap();
            stream.write_all(&sent).unwrap();
            let mut got = vec![0; bytes];
            stream.read_exact(&mut got).unwrap();
            assert!(got == sent, "what came back is something else");
        });
    }

    fn udp(&self, at: usize, port: u16) -> UdpSocket {
        let address = SocketAddr::from((MACHINES[at].address, port));
        let socket = bound(&self.containers[at], || UdpSocket::bind(address));
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        socket
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(agent) = &mut self.agent {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        for machine in &MACHINES {
            let _ = Namespace::delete(&self.container(machine));
        }
    }
}

#[track_caller]
fn said(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The example with the rules that the tests need.
fn shop() -> String {
    SHOP.trim_end().to_owned() + MORE
}

#[test]
fn machines_reach_what_a_file_says_and_nothing_before() {
    let mut world = World::new();
    world.start(&[WEB, DB]);
    assert_eq!(world.realized(WEB), None);
    assert!(
        !world.pings_within("1", WEB, MACHINES[WEB].router),
        "nothing decides about its frames"
    );
    let note = world.status(WEB).notes.concat();
    assert!(note.contains("no logical network here has the machine's port shop/web-1"), "{note}");
    world.client().attach(&world.port(&MACHINES[OTHER])).unwrap();

    let planned = said(world.apply(&shop(), &["--dry-run"]));
    assert!(planned.contains("+ LogicalSwitch/shop/web\n"), "{planned}");
    assert!(planned.ends_with("a dry run: generation 0 stays\n"), "{planned}");
    assert_eq!(world.realized(WEB), None);
    let applied = said(world.apply(&shop(), &[]));
    assert!(applied.contains("\ndomain LogicalSwitch/shop/db: rows put: "), "{applied}");
    assert!(applied.contains("\ngeneration 1 (objects: "), "{applied}");
    assert_eq!([WEB, OTHER, DB].map(|at| world.realized(at)), [Some(Generation(1)); 3]);

    // Interfaces that came before it have other addresses than it says: they are made anew.
    until(|| [WEB, OTHER, DB].iter().all(|at| world.status(*at).state == PortState::Up));
    assert_eq!(world.status(WEB).mac.unwrap().to_string(), "02:00:00:00:01:01");
    assert!(world.status(WEB).notes.is_empty(), "{:?}", world.status(WEB).notes);

    assert!(world.pings(WEB, MACHINES[WEB].router), "the router answers");
    assert!(world.pings(WEB, MACHINES[OTHER].address), "in one switch");
    assert!(world.pings(OTHER, MACHINES[DB].address), "through the router");
    world.talk(WEB, DB, 5432, 3 << 20);
    world.talk(OTHER, DB, 5432, 1);
    let _listener = world.listen(DB, 5433);
    assert_eq!(world.connect(WEB, DB, 5433).err(), Some(ErrorKind::ConnectionRefused));
    let refused = world.status(DB).logical_state.unwrap().refused;
    assert!(refused["rejected"] >= 1, "{refused:?}");

    let shown = said(world.run(&["get", "logical"]));
    let line = shown.lines().find(|line| line.starts_with("shop/db-1")).unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words[..4], ["shop/db-1", "db-1", "up", "1"], "{shown}");
    assert!(line.contains("rejected "), "{shown}");
    let metrics = world.client().metrics().unwrap();
    for sample in [
        "zovn_logical_generation{} 1\n",
        "zovn_logical_port_realized{port=\"web-1\"} 1\n",
        "zovn_logical_port_refused_frames_total{port=\"db-1\",reason=\"rejected\"} ",
        "zovn_network_ports{network=\"logical/shop\"} 3\n",
    ] {
        assert!(metrics.contains(sample), "{sample}: {metrics}");
    }
    let status = world.client().status().unwrap();
    assert!(status.balanced && status.ledger.balances(), "{status:?}");
    let logical = status.logical.unwrap();
    assert!(logical.connections > 0 && logical.answers > 0, "{logical:?}");
}

#[test]
fn a_rule_that_is_taken_away_stops_a_flow_at_once_and_nothing_accepted_is_lost() {
    let mut world = World::new();
    let files = world.directory.path().join("first.yaml");
    fs::write(&files, shop()).unwrap();
    world.start(&[]);
    said(world.run(&["apply", "-f", files.to_str().unwrap()]));
    [WEB, DB].iter().for_each(|at| drop(world.client().attach(&world.port(&MACHINES[*at]))));
    let (from, to) = (world.udp(WEB, 7), world.udp(DB, 7));
    from.connect(to.local_addr().unwrap()).unwrap();
    // Until it knows its router's address, the sender's kernel keeps so many datagrams and no more.
    until(|| {
        from.send(&[0; 4]).unwrap();
        to.recv(&mut [0; 4]).is_ok()
    });
    let (stop, mark) = (AtomicBool::new(false), u32::MAX.to_be_bytes());
    let received = thread::scope(|scope| {
        let over = needs::Over(&stop);
        let receiver = scope.spawn(|| {
            let (mut got, mut buffer) = (Vec::new(), [0; 4]);
            loop {
                match to.recv(&mut buffer) {
                    Ok(_) => got.push(u32::from_be_bytes(buffer)),
                    Err(_) if stop.load(Ordering::Relaxed) => return got,
                    Err(_) => {}
                }
            }
        });
        let sender = scope.spawn(|| {
            let mut number = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                from.send(&number.to_be_bytes()).unwrap();
                number += 1;
            }
        });
        until(|| world.status(DB).egress.total.delivered > 2000);
        let without = shop().replace(
            "name: udp, direction: toPort, action: allow",
            "name: udp, direction: toPort, action: drop",
        );
        let changed = said(world.apply(&without, &["--diff"]));
        assert!(changed.contains("~ Policy/shop/db-in\n"), "{changed}");
        assert!(changed.contains("/action: \"allow\" → \"drop\"\n"), "{changed}");
        // What is sent from here on was never allowed.
        for _ in 0..100 {
            from.send(&mark).unwrap();
        }
        drop(over);
        sender.join().unwrap();
        receiver.join().unwrap()
    });
    assert!(received.len() > 2000, "{}", received.len());
    assert!(!received.contains(&u32::MAX), "the flow went on");
    // Before the first there may be zeros that were sent while the router was asked for.
    let numbers = received.iter().skip_while(|number| **number == 0);
    assert!((1..).zip(numbers).all(|(next, number)| next == *number), "one is missing");
    until(|| world.client().status().unwrap().ledger.held == 0);
    let status = world.client().status().unwrap();
    assert!(status.balanced, "{status:?}");
    assert!(status.ledger.refused.keys().all(|why| why == "logical_network"), "{status:?}");
    assert!(world.status(DB).logical_state.unwrap().refused["policy"] > 0);
}

#[test]
fn what_was_applied_is_there_after_a_restart_and_what_is_wrong_changes_nothing() {
    let mut world = World::new();
    world.start(&[]);
    said(world.apply(&shop(), &[]));
    [WEB, DB].iter().for_each(|at| drop(world.client().attach(&world.port(&MACHINES[*at]))));
    world.talk(WEB, DB, 5432, 1000);
    for signal in [Signal::TERM, Signal::KILL] {
        let log = world.end(signal);
        assert!(log.contains("logical networks applied") || signal == Signal::KILL, "{log}");
        world.start(&[]);
        assert_eq!(world.realized(DB), Some(Generation(1)));
        world.talk(WEB, DB, 5432, 1000);
    }
    let broken = shop().replace("protocol: tcp, ports: [5432]", "protocol: tcp, ports: [0]");
    let broken = broken.replace("switch: db, vif", "switch: nowhere, vif");
    let wrong = world.apply(&broken, &[]);
    assert_eq!(wrong.status.code(), Some(2));
    let told = String::from_utf8(wrong.stderr).unwrap();
    assert!(told.lines().count() >= 2 && told.contains("shop.yaml:"), "{told}");
    world.talk(WEB, DB, 5432, 1000);
    let stale = world.apply(&shop(), &["--if-match", "7"]);
    assert!(String::from_utf8(stale.stderr).unwrap().contains("generation 1 now"));
    assert_eq!(world.client().logical().unwrap().generation, Generation(1));
    world.end(Signal::INT);
    world.start(&[]);
    assert_eq!(world.client().logical().unwrap().generation, Generation(0));
}
