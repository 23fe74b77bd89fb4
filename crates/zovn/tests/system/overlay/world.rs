//! Hosts as namespaces, with an agent each, a physical switch between them, and machines as
//! containers.
//!
//! ```text
//!   machines ── agent ── host 0 ── physical switch ── host 1 ── agent ── machines
//! ```

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use api::Client;
use kernel::joined;
use kernel::netns::Namespace;
use lab::physical::{FabricPort, FabricReport, FabricSpec};
use model::{
    AgentSettings, AgentStatus, Attachment, HostConfig, Member, NetworkName, NetworkShare,
    NetworkSpec, PortName, PortSpec, PortStatus, TunnelKey, TunnelMode, Uplink, VtepList,
};
use rustix::process::{Pid, Signal, kill_process};
use units::{Mac, Prefix, Rate, Span};

use crate::common::{bound, until};

/// No test waits so long, unless something never comes.
pub const LONG: Duration = Duration::from_secs(30);

/// A machine: its host, its network, and its number there, by which it has its addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Machine {
    pub host: usize,
    pub network: &'static str,
    pub number: u8,
}

impl Machine {
    pub const fn new(host: usize, network: &'static str, number: u8) -> Self {
        Self { host, network, number }
    }

    pub fn v4(self) -> IpAddr {
        Ipv4Addr::new(10, 9, 0, self.number).into()
    }

    pub fn v6(self) -> IpAddr {
        Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, self.number.into()).into()
    }

    pub fn at(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.v4(), port)
    }

    pub fn mac(self) -> Mac {
        Mac::local(self.number.into())
    }

    pub fn port(self) -> PortName {
        PortName(format!("{}-{}", self.network, self.number))
    }
}

/// What a world is made of.
pub struct Plan {
    pub machines: Vec<Machine>,
    pub fabric: FabricSpec,
    pub uplink: Uplink,
    pub agent: AgentSettings,
    /// The largest packet of machines' interfaces, if it is declared.
    pub mtu: Option<u32>,
    /// Two hosts are joined by a cable of the kernel's (veth), with its offloads, instead of a
    /// physical switch.
    pub is_cable: bool,
    /// The first network's number in tunnels.
    pub first_vni: u32,
    /// What each network may have of what they share.
    pub share: NetworkShare,
    /// Hosts without an agent of ours.
    pub foreign: Vec<usize>,
    /// The key of all hosts, and what it does, if they have one.
    pub key: Option<(TunnelMode, String)>,
    /// The controller that agents follow, as nodes that are called as hosts are; and the flags by
    /// which each of them shows that.
    pub controller: Option<(SocketAddr, Vec<Vec<String>>)>,
    /// What hosts' second uplinks lead to, if they have such.
    pub second: Option<FabricSpec>,
}

impl Plan {
    /// Gigabit links, whose switch drops nothing but what has no room in its buffers.
    pub fn new(machines: &[Machine]) -> Self {
        let hosts = machines.iter().map(|machine| machine.host + 1).max().unwrap();
        let port = |host| FabricPort {
            switch: String::new(),
            name: format!("h{host}"),
            netns: String::new(),
            interface: "eth0".into(),
            mac: Mac::local(0xf0_0000 + host as u32),
            addresses: vec![Prefix { address: vtep_v4(host), length: 24 }],
            mtu: 1600,
            offload: false,
            rate: Rate::from_gbit(1),
            delay: Span::from_micros(10),
            buffer: Default::default(),
            class: Default::default(),
        };
        Self {
            machines: machines.to_vec(),
            fabric: FabricSpec { ports: (0..hosts).map(port).collect(), ..FabricSpec::default() },
            uplink: Uplink::new(vtep_v4(0)),
            // Nobody waits so long: a test that drains at all has to find another end.
            agent: AgentSettings { drain: Span::from_secs(60), ..AgentSettings::default() },
            mtu: Some(1500),
            is_cable: false,
            first_vni: 7,
            share: NetworkShare::default(),
            foreign: Vec::new(),
            key: None,
            controller: None,
            second: None,
        }
    }

    /// What hosts' uplinks lead to.
    fn fabrics(&self) -> impl Iterator<Item = &FabricSpec> {
        [&self.fabric].into_iter().chain(&self.second)
    }

    /// The same, with a second uplink of the first `hosts`, to another physical switch.
    pub fn with_two_uplinks(mut self, hosts: usize) -> Self {
        let mut second = self.fabric.clone();
        second.ports.truncate(hosts);
        for (host, port) in second.ports.iter_mut().enumerate() {
            port.interface = "eth1".into();
            port.addresses =
                vec![Prefix { address: [192, 168, 1, host as u8 + 1].into(), length: 24 }];
        }
        self.second = Some(second);
        self
    }

    /// The same, whose hosts wait for sockets as long as a test lasts: a reader may find no
    /// processor.
    pub fn patient(mut self) -> Self {
        self.agent.socket_stall_after = Span::from_secs(600);
        self
    }

    /// The same, over IPv6.
    pub fn over_v6(mut self) -> Self {
        for (host, port) in self.fabric.ports.iter_mut().enumerate() {
            port.addresses = vec![Prefix { address: vtep_v6(host), length: 64 }];
        }
        self
    }
}

pub fn vtep_v4(host: usize) -> IpAddr {
    Ipv4Addr::new(192, 168, 0, host as u8 + 1).into()
}

pub fn vtep_v6(host: usize) -> IpAddr {
    Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, host as u16 + 1).into()
}

/// All of it goes with the test.
pub struct World {
    prefix: String,
    directory: tempfile::TempDir,
    plan: Plan,
    pub hosts: Vec<Namespace>,
    machines: Vec<Namespace>,
    agents: Vec<Option<Child>>,
    switches: Vec<Switch>,
}

/// A physical switch.
struct Switch {
    program: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Switch {
    /// Starts one, and waits until it is ready.
    fn start(file: PathBuf, spec: &FabricSpec) -> Self {
        fs::write(&file, toml::to_string(spec).unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command
            .arg("fabric")
            .arg("--config")
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut program = command.spawn().unwrap();
        let (stdin, stdout) = (program.stdin.take().unwrap(), program.stdout.take().unwrap());
        let mut switch = Self { program, stdin, lines: BufReader::new(stdout).lines() };
        assert_eq!(switch.lines.next().unwrap().unwrap(), r#"{"ready":true}"#);
        switch
    }

    /// What it has counted.
    fn report(&mut self) -> FabricReport {
        writeln!(self.stdin, "counters").unwrap();
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }
}

impl World {
    /// Makes it, and waits until every agent is ready.
    pub fn new(plan: Plan) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("zovn-t-over-{}-{number}", std::process::id());
        let directory = tempfile::tempdir().unwrap();
        let make = |kind, at| Namespace::create(&format!("{prefix}-{kind}{at}")).unwrap();
        let hosts: Vec<_> = (0..plan.fabric.ports.len()).map(|host| make("h", host)).collect();
        let machines = (0..plan.machines.len()).map(|place| make("m", place)).collect();
        let agents = hosts.iter().map(|_| None).collect();
        let mut world =
            Self { prefix, directory, plan, hosts, machines, agents, switches: Vec::new() };
        match world.plan.is_cable {
            true => world.lay_cable(),
            false => world.start_switches(),
        }
        for host in 0..world.hosts.len() {
            fs::create_dir(world.folder(host)).unwrap();
            if let Some((_, key)) = &world.plan.key {
                world.set_key(host, key);
            }
            if !world.plan.foreign.contains(&host) {
                world.start(host);
            }
        }
        world
    }

    /// Joins the hosts by a cable.
    fn lay_cable(&self) {
        let [one, other] = &self.hosts[..] else { panic!("a cable has two ends") };
        joined::lay_cable([one, other]).unwrap();
        for (host, port) in self.hosts.iter().zip(&self.plan.fabric.ports) {
            joined::give_address(host, joined::INTERFACE, port.addresses[0]).unwrap();
        }
    }

    /// Joins the hosts by physical switches.
    fn start_switches(&mut self) {
        let Self { plan, prefix, directory, switches, .. } = self;
        for (place, fabric) in plan.fabrics().enumerate() {
            let mut fabric = fabric.clone();
            for (host, port) in fabric.ports.iter_mut().enumerate() {
                port.netns = format!("{prefix}-h{host}");
            }
            let file = directory.path().join(format!("fabric{place}.toml"));
            switches.push(Switch::start(file, &fabric));
        }
    }

    fn folder(&self, host: usize) -> PathBuf {
        self.directory.path().join(format!("h{host}"))
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// A host's address in the underlay: the first, if it has several.
    pub fn vtep(&self, host: usize) -> IpAddr {
        self.vteps(host).first()
    }

    /// All of them.
    fn vteps(&self, host: usize) -> VtepList {
        let addresses: Vec<_> = self
            .plan
            .fabrics()
            .filter_map(|fabric| Some(fabric.ports.get(host)?.addresses[0].address))
            .collect();
        addresses.try_into().unwrap()
    }

    fn place(&self, machine: Machine) -> usize {
        self.plan.machines.iter().position(|other| *other == machine).unwrap()
    }

    /// The networks, as every host is told.
    fn networks(&self) -> Vec<NetworkSpec> {
        let mut networks: Vec<NetworkSpec> = Vec::new();
        for (machine, label) in self.plan.machines.iter().zip(1..) {
            let member = Member {
                mac: machine.mac(),
                addresses: vec![machine.v4(), machine.v6()],
                vtep: self.vteps(machine.host),
                label,
            };
            let name = NetworkName(machine.network.into());
            match networks.iter_mut().find(|network| network.name == name) {
                Some(network) => network.members.push(member),
                None => {
                    let vni = networks.len() as u32 + self.plan.first_vni;
                    let share = self.plan.share;
                    networks.push(NetworkSpec { name, vni, share, members: vec![member] });
                }
            }
        }
        networks
    }

    fn port(&self, machine: Machine) -> PortSpec {
        let place = self.place(machine);
        let attach = Attachment::Container {
            netns: format!("{}-m{place}", self.prefix),
            interface: "eth0".into(),
            mac: Some(machine.mac()),
            addresses: vec![
                Prefix { address: machine.v4(), length: 24 },
                Prefix { address: machine.v6(), length: 64 },
            ],
            routes: Vec::new(),
            mtu: self.plan.mtu,
            offload: true,
        };
        let spec = PortSpec::new(machine.port(), attach);
        PortSpec {
            network: Some(NetworkName(machine.network.into())),
            label: Some(place as u32 + 1),
            ..spec
        }
    }

    /// The file with a host's keys.
    fn key_file(&self, host: usize) -> PathBuf {
        self.folder(host).join("tunnel.key")
    }

    /// Gives a host these keys. Its agent reads them again, if it runs.
    pub fn set_key(&self, host: usize, keys: &str) {
        let file = self.key_file(host);
        fs::write(&file, keys).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        if let Some(agent) = &self.agents[host] {
            kill_process(Pid::from_child(agent), Signal::HUP).unwrap();
        }
    }

    /// Starts a host's agent with all its machines, and waits until it is ready.
    pub fn start(&mut self, host: usize) {
        let here = self.plan.machines.iter().filter(|machine| machine.host == host);
        let key = self.plan.key.as_ref().map(|(mode, _)| {
            let file = self.key_file(host).to_str().unwrap().into();
            TunnelKey { file, mode: *mode }
        });
        let config = HostConfig {
            agent: self.plan.agent.clone(),
            uplink: Some(Uplink { vtep: self.vteps(host), key, ..self.plan.uplink.clone() }),
            networks: self.networks(),
            ports: here.map(|machine| self.port(*machine)).collect(),
            ..HostConfig::default()
        };
        let file = self.folder(host).join("host.toml");
        fs::write(&file, toml::to_string(&config).unwrap()).unwrap();
        let log = File::create(self.folder(host).join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.arg("agent").arg("-c").arg(file).arg("--socket").arg(self.socket(host));
        if let Some((controller, proofs)) = &self.plan.controller {
            let kept = self.folder(host).join("kept");
            command.args(["--controller", &controller.to_string(), "--node", &format!("h{host}")]);
            command.arg("--kept").arg(kept).args(&proofs[host]);
        }
        command.stderr(log);
        assert!(self.agents[host].is_none());
        self.agents[host] = Some(self.hosts[host].run(|| command.spawn()).unwrap().unwrap());
        let client = self.client(host);
        until(|| {
            let agent = self.agents[host].as_mut().unwrap();
            let log = || fs::read_to_string(self.directory.path().join(format!("h{host}/log")));
            assert_eq!(
                agent.try_wait().unwrap(),
                None,
                "the agent ended at its start: {:?}",
                log()
            );
            client.ready().unwrap()
        });
    }

    /// Ends a host's agent with a signal and returns its log.
    pub fn end(&mut self, host: usize, signal: Signal) -> String {
        let mut agent = self.agents[host].take().unwrap();
        kill_process(Pid::from_child(&agent), signal).unwrap();
        let status = agent.wait().unwrap();
        let log = self.log(host);
        assert_eq!(status.code(), (signal != Signal::KILL).then_some(0), "{log}");
        log
    }

    /// What a host's agent has logged.
    pub fn log(&self, host: usize) -> String {
        fs::read_to_string(self.folder(host).join("log")).unwrap()
    }

    /// Where a host's agent listens.
    pub fn socket(&self, host: usize) -> PathBuf {
        self.folder(host).join("agent.sock")
    }

    pub fn client(&self, host: usize) -> Client {
        Client::new(self.socket(host)).unwrap()
    }

    pub fn status(&self, host: usize) -> AgentStatus {
        self.client(host).status().unwrap()
    }

    /// What a machine's port is.
    pub fn status_of(&self, machine: Machine) -> PortStatus {
        self.client(machine.host).port(&machine.port()).unwrap()
    }

    /// Waits until a machine is held back, however little of its frames the switch has let in:
    /// nobody takes what it sends.
    pub fn until_held_back(&self, machine: Machine) {
        let mut before = None;
        until(|| {
            thread::sleep(Duration::from_millis(20));
            let total = self.status_of(machine).ingress.total;
            total.held > 0 && before.replace(total.accepted) == Some(total.accepted)
        });
    }

    /// What a host has refused, by reason, of all that came in there.
    pub fn refused(&self, host: usize, reason: &str) -> u64 {
        self.status(host).ledger.refused.get(reason).copied().unwrap_or(0)
    }

    /// Every agent's books are in order.
    pub fn assert_balanced(&self) {
        for host in (0..self.hosts.len()).filter(|host| self.agents[*host].is_some()) {
            let status = self.status(host);
            assert!(status.balanced && status.ledger.balances(), "{status:?}");
        }
    }

    /// What the physical switch has counted: the first, if there are several.
    pub fn fabric(&mut self) -> FabricReport {
        self.switches[0].report()
    }

    /// What all physical switches have counted.
    pub fn all_fabrics(&mut self) -> Vec<FabricReport> {
        self.switches.iter_mut().map(Switch::report).collect()
    }

    /// The machine's namespace.
    pub fn netns(&self, machine: Machine) -> &Namespace {
        &self.machines[self.place(machine)]
    }

    /// A socket of a machine, at its address of IPv4.
    pub fn udp(&self, machine: Machine, port: u16) -> UdpSocket {
        udp(self.netns(machine), machine.at(port))
    }

    /// What a program says in a machine.
    pub fn run(&self, machine: Machine, words: &[&str]) -> Output {
        run(self.netns(machine), words)
    }

    /// One machine hears another.
    pub fn ping(&self, from: Machine, to: IpAddr) {
        let output = self.run(from, &["ping", "-n", "-c", "1", "-W", "20", &to.to_string()]);
        assert!(output.status.success(), "{from:?} to {to}: {output:?}");
    }

    /// A connection from one machine to another.
    pub fn connect(&self, from: Machine, to: Machine, port: u16) -> [TcpStream; 2] {
        connect([self.netns(from), self.netns(to)], to.at(port))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let agents = self.agents.iter_mut().flatten();
        for child in agents.chain(self.switches.iter_mut().map(|switch| &mut switch.program)) {
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            for host in 0..self.hosts.len() {
                let log = fs::read_to_string(self.folder(host).join("log")).unwrap_or_default();
                eprintln!("--- host {host}\n{log}");
            }
        }
        for (kind, count) in [("h", self.hosts.len()), ("m", self.machines.len())] {
            for at in 0..count {
                let _ = Namespace::delete(&format!("{}-{kind}{at}", self.prefix));
            }
        }
    }
}

/// A socket in a namespace, which waits as long as a test does.
pub fn udp(netns: &Namespace, at: SocketAddr) -> UdpSocket {
    let socket = bound(netns, || UdpSocket::bind(at));
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

/// What a program says in a namespace.
pub fn run(netns: &Namespace, words: &[&str]) -> Output {
    netns.run(|| Command::new(words[0]).args(&words[1..]).output()).unwrap().unwrap()
}

/// A connection between two namespaces.
pub fn connect([from, to]: [&Namespace; 2], at: SocketAddr) -> [TcpStream; 2] {
    let listener = bound(to, || TcpListener::bind(at));
    let one = from.run(|| TcpStream::connect(at)).unwrap().unwrap();
    let (other, _) = listener.accept().unwrap();
    for stream in [&one, &other] {
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
    }
    [one, other]
}
