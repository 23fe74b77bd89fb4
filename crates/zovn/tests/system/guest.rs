//! `zovn guest`: what runs in a virtual machine, here in containers whose sockets the agent does
//! not watch itself.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use api::Client;
use kernel::netlink::Netlink;
use kernel::netns::Namespace;
use kernel::packet;
use model::{AgentSettings, AgentStatus, Attachment, HostConfig, PortName, PortSpec};
use rustix::net::{RecvFlags, SendFlags, sockopt};
use rustix::process::{Pid, Signal, kill_process};
use udp_gate::{Heard, Teller};
use units::Mac;
use wire::room;

use crate::common::bound;

/// Two containers on an agent without a gate of its own. All of it goes with the test.
struct World {
    prefix: String,
    containers: [Namespace; 2],
    agent: Process,
    client: Client,
    place: tempfile::TempDir,
}

/// A process that ends with its owner.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `zovn guest` in the second container.
struct Guest {
    process: Process,
    lines: Lines<BufReader<ChildStdout>>,
}

/// No test takes so long, unless something never comes.
const LONG: Duration = Duration::from_secs(30);

/// How long nothing more comes where not all is expected.
const QUIET: Duration = Duration::from_millis(500);

/// What a slow reader does for each datagram.
const WORK: Duration = Duration::from_micros(20);

fn config_in(place: &Path) -> PathBuf {
    place.join("host.toml")
}

/// Where its agent listens.
fn socket_in(place: &Path) -> PathBuf {
    place.join("agent.sock")
}

/// An agent that is ready, of the configuration that is there.
fn agent_in(place: &Path, client: &Client) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.arg("agent").arg("-c").arg(config_in(place)).arg("--socket").arg(socket_in(place));
    let agent = Process(command.stderr(Stdio::null()).spawn().unwrap());
    let begun = Instant::now();
    while !client.ready().unwrap_or(false) {
        assert!(begun.elapsed() < LONG);
        thread::yield_now();
    }
    agent
}

impl World {
    fn new(name: &str) -> Self {
        let prefix = format!("zovn-t-guest-{name}-{}", std::process::id());
        let containers = [0, 1].map(|at| Namespace::create(&format!("{prefix}-{at}")).unwrap());
        let place = tempfile::tempdir().unwrap();
        let ports = (0..2).map(|at| {
            let attach = Attachment::Container {
                netns: format!("{prefix}-{at}"),
                interface: "eth0".into(),
                mac: None,
                addresses: vec![format!("10.9.0.{}/24", at + 1).parse().unwrap()],
                routes: Vec::new(),
                mtu: None,
                offload: true,
            };
            PortSpec::new(PortName(format!("c{at}")), attach)
        });
        let agent = AgentSettings { udp_gate: false, ..AgentSettings::default() };
        let config = HostConfig { agent, ports: ports.collect(), ..HostConfig::default() };
        fs::write(config_in(place.path()), toml::to_string(&config).unwrap()).unwrap();
        let client = Client::new(socket_in(place.path())).unwrap();
        let agent = agent_in(place.path(), &client);
        let world = Self { prefix, containers, agent, client, place };
        world.greet();
        world
    }

    /// One container finds the other on its new interface: while a kernel asks where somebody is,
    /// it drops what its sockets send.
    fn greet(&self) {
        let (from, to) = (self.udp(0, 7), self.udp(1, 7));
        from.send_to(b"hello", "10.9.0.2:7").unwrap();
        assert_eq!(to.recv(&mut [0; 8]).unwrap(), 5);
    }

    /// Kills the agent, and starts it anew.
    fn restart(&mut self) {
        self.agent.0.kill().unwrap();
        self.agent.0.wait().unwrap();
        self.agent = agent_in(self.place.path(), &self.client);
        self.greet();
    }

    fn udp(&self, container: usize, port: u16) -> UdpSocket {
        let address = format!("10.9.0.{}:{port}", container + 1);
        let socket = bound(&self.containers[container], || UdpSocket::bind(&address));
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket
    }

    /// Starts `zovn guest` in the second container; returns once the switch has answered.
    fn guest(&self, flags: &[&str]) -> Guest {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(["guest", "--json"]).args(flags).stdout(Stdio::piped());
        let mut process =
            Process(self.containers[1].run(move || command.spawn()).unwrap().unwrap());
        let lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        let mut guest = Guest { process, lines };
        guest.until("heard");
        guest
    }

    fn status(&self) -> AgentStatus {
        self.client.status().unwrap()
    }

    fn notes(&self) -> Vec<String> {
        self.status().ports[1].notes.clone()
    }

    /// Sends so many datagrams, as fast as it goes, to somebody who does some work for each, and
    /// waits so long for the next. How many came, of those that were sent.
    fn flood(&self, reader: &UdpSocket, count: u64, size: usize, quiet: Duration) -> u64 {
        let sender = self.udp(0, 7000);
        let to = reader.local_addr().unwrap();
        reader.set_read_timeout(Some(quiet)).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                let payload = vec![7; size];
                (0..count).for_each(|_| assert_eq!(sender.send_to(&payload, to).unwrap(), size));
            });
            let mut buffer = [0; 65_536];
            let mut read = 0;
            while read < count && reader.recv(&mut buffer).is_ok() {
                read += 1;
                let until = Instant::now() + WORK;
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
            }
            read
        })
    }

    /// What the second container's kernel counts of UDP.
    fn counter(&self, name: &str) -> u64 {
        let read = || fs::read_to_string("/proc/thread-self/net/snmp");
        let text = self.containers[1].run(read).unwrap().unwrap();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let place = names.split(' ').position(|other| other == name).unwrap();
        values.split(' ').nth(place).unwrap().parse().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.agent.0.kill();
        let _ = self.agent.0.wait();
        for at in 0..2 {
            let _ = Namespace::delete(&format!("{}-{at}", self.prefix));
        }
    }
}

impl Guest {
    /// Reads until it tells of this event.
    fn until(&mut self, event: &str) {
        let wanted = format!("{{\"event\":\"{event}\"");
        let lines = self.lines.by_ref().map_while(Result::ok);
        assert!(
            lines.into_iter().any(|line| line.starts_with(&wanted)),
            "it ended without `{event}`"
        );
    }
}

fn a_slow_reader_loses_nothing(name: &str, flags: &[&str]) {
    const COUNT: u64 = 20_000;
    let world = World::new(name);
    let reader = world.udp(1, 5000);
    assert!(
        world.flood(&reader, COUNT, 1000, QUIET) < COUNT,
        "without `zovn guest` it would prove nothing"
    );
    let before = world.counter("RcvbufErrors");
    assert!(before > 0);

    let _guest = world.guest(flags);
    for size in [1000, 10, 1472] {
        assert_eq!(world.flood(&reader, COUNT, size, LONG), COUNT);
    }
    // One that has room for two at most.
    let small = world.udp(1, 5001);
    sockopt::set_socket_recv_buffer_size(&small, 1).unwrap();
    assert_eq!(world.flood(&small, 2000, 1000, LONG), 2000);
    // Nor with larger datagrams, in fragments.
    assert_eq!(world.flood(&reader, 500, 9000, LONG), 500);
    assert_eq!((world.counter("RcvbufErrors"), world.counter("InErrors")), (before, before));
    assert_eq!(world.notes(), [""; 0]);
    assert!(world.status().balanced);
}

#[test]
fn who_takes_leave_is_not_waited_for() {
    let world = World::new("leave");
    let reader = world.udp(1, 5000);
    let mut guest = world.guest(&[]);
    kill_process(Pid::from_child(&guest.process.0), Signal::TERM).unwrap();
    guest.until("ended");
    assert!(guest.process.0.wait().unwrap().success());
    assert!(world.flood(&reader, 20_000, 1000, QUIET) < 20_000, "nothing is held any more");
    assert_eq!(world.notes(), [""; 0]);
}

#[test]
fn what_one_container_says_reaches_the_switch_and_nobody_else() {
    let world = World::new("spoof");
    let link = |container: usize| {
        world.containers[container]
            .run(|| {
                packet::socket(Netlink::open().unwrap().index("eth0").unwrap(), room::ETHERTYPE)
            })
            .unwrap()
            .unwrap()
    };
    let links = [link(0), link(1)];
    let mut liar = Teller::new(Mac::local(9), 1, 4096);
    let hello = liar.hello(0);
    rustix::net::send(&links[0], hello.frame(), SendFlags::empty()).unwrap();
    // It is answered, to the one who spoke.
    let mut frame = [0; room::LONGEST];
    let (_, length) = rustix::net::recv(&links[0], &mut frame, RecvFlags::empty()).unwrap();
    assert_eq!(liar.hear(&frame[..length]), Heard::Asked);
    // What went before a datagram has come before it.
    let (from, to) = (world.udp(0, 7), world.udp(1, 7));
    from.send_to(b"fence", "10.9.0.2:7").unwrap();
    to.recv(&mut [0; 8]).unwrap();
    let heard = rustix::net::recv(&links[1], &mut frame, RecvFlags::DONTWAIT);
    assert_eq!(heard.unwrap_err(), rustix::io::Errno::AGAIN);
    // It is in no books, but for what only looks like it.
    assert_eq!(world.status().ports[0].ingress.total.refused_total(), 0);
    let mut other = hello.frame().to_vec();
    other[14..18].copy_from_slice(b"else");
    rustix::net::send(&links[0], &other, SendFlags::empty()).unwrap();
    from.send_to(b"fence", "10.9.0.2:7").unwrap();
    to.recv(&mut [0; 8]).unwrap();
    assert_eq!(world.status().ports[0].ingress.total.refused["link_local"], 1);
}

#[test]
fn a_slow_reader_loses_nothing_where_bpf_tells() {
    a_slow_reader_loses_nothing("bpf", &[]);
}

#[test]
fn a_slow_reader_loses_nothing_where_sockets_are_listed() {
    a_slow_reader_loses_nothing("list", &["--list"]);
}

#[test]
fn a_switch_that_returns_hears_the_program_again() {
    let mut world = World::new("again");
    let reader = world.udp(1, 5000);
    let mut guest = world.guest(&[]);
    assert_eq!(world.flood(&reader, 20_000, 1000, LONG), 20_000);
    world.restart();
    guest.until("heard");
    assert_eq!(world.flood(&reader, 20_000, 1000, LONG), 20_000);
}
