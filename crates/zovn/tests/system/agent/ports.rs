//! Ports by the command line, and containers of a real engine.

use std::process::Output;

use model::PortStatus;

use super::*;

/// What a command says to the agent of a world.
fn run(world: &World, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args(words).arg("--socket").arg(world.socket()).output().unwrap()
}

/// What it prints.
#[track_caller]
fn said(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Why it failed.
#[track_caller]
fn complained(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_port_is_attached_changed_shown_and_detached_by_commands() {
    let mut world = World::new(2);
    let client = world.start(1);
    let netns = world.container(1);
    let attach = ["attach", "c1", "--netns", &netns, "--address", "10.9.0.2/24", "--rate", "1gbit"];
    let table = said(run(&world, &attach));
    assert!(table.starts_with("port  state  attached to"), "{table}");
    world.greet(0, 1);

    let json = said(run(&world, &["set", "c1", "--rate", "none", "--egress", "64", "--json"]));
    let port: PortStatus = serde_json::from_str(&json).unwrap();
    assert_eq!((port.rate, port.egress_limits.frames), (None, 64));
    let json = said(run(&world, &["set", "c1", "--scheduling", "1,1,1,1,2,2,4,4", "--json"]));
    let port: PortStatus = serde_json::from_str(&json).unwrap();
    assert_eq!(port.scheduling, Scheduling::Weighted([1, 1, 1, 1, 2, 2, 4, 4]));

    let done = said(run(&world, &["set", "c1", "--rate", "2gbit", "--quota", "32"]));
    assert_eq!(done, "port `c1`: rate: none → 2gbit; quota: none → 32\n");
    let done = said(run(&world, &["set", "c1", "--quota", "32"]));
    assert_eq!(done, "port `c1` is so already\n");
    let why = complained(run(&world, &["set", "c1", "--quota", "2000"]));
    assert!(why.contains("`quota` is above the `frames` of `ingress`"), "{why}");
    let shown = said(run(&world, &["get", "ports"]));
    let mac = client.port(&name(1)).unwrap().mac.expect("one is made from the port's name");
    assert_eq!(Some(mac), world.port(1).mac());
    for word in ["c1", "eth0 in", &mac.to_string(), "10.9.0.2/24"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let ports: Vec<PortStatus> =
        serde_json::from_str(&said(run(&world, &["get", "ports", "--json"]))).unwrap();
    assert_eq!(ports.len(), 2);

    let done = said(run(&world, &["detach", "c1"]));
    assert!(done.starts_with("port `c1` is detached; to it: "), "{done}");
    assert!(!world.has_interface(1));
    let routed =
        [&attach[..6], &["--route", "198.51.100.0/24,10.9.0.1", "--route", "203.0.113.0/24"]];
    said(run(&world, &routed.concat()));
    let routes = world.containers[1].run(|| Command::new("ip").args(["route"]).output().unwrap());
    let routes = String::from_utf8(routes.unwrap().stdout).unwrap();
    for route in ["198.51.100.0/24 via 10.9.0.1 dev eth0", "203.0.113.0/24 dev eth0"] {
        assert!(routes.contains(route), "{route}: {routes}");
    }
    said(run(&world, &["detach", "c1"]));
    assert!(complained(run(&world, &["detach", "c1"])).contains("there is no port `c1`"));
}

#[test]
fn a_process_names_its_network_and_the_hosts_is_refused() {
    let mut world = World::new(2);
    world.start(1);
    let mut sleep = Command::new("sleep");
    kernel::spawn::inside(&mut sleep, world.containers[1].try_clone().unwrap());
    let mut sleep = sleep.arg("600").spawn().unwrap();
    let pid = sleep.id().to_string();
    said(run(&world, &["attach", "c1", "--pid", &pid, "--address", "10.9.0.2/24"]));
    world.greet(0, 1);
    sleep.kill().unwrap();
    sleep.wait().unwrap();

    let own = std::process::id().to_string();
    let why = complained(run(&world, &["attach", "c2", "--pid", &own]));
    assert!(why.contains("has the host's network"), "{why}");
    let why = complained(run(&world, &["attach", "c2", "--pid", "4294967295"]));
    assert!(why.contains("there is no process 4294967295"), "{why}");
    // Wrong usage.
    for words in [&["attach", "c2"][..], &["attach", "--netns", "a"], &["set", "c0", "--rate", "1"]]
    {
        assert_eq!(run(&world, words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn what_is_said_of_a_port_can_be_put_back() {
    let mut world = World::new(2);
    let client = world.start(1);
    let container = PortSpec {
        rate: "1gbit".parse().ok(),
        egress: Limits { frames: 64, bytes: Bytes(1 << 20) },
        quota: Some(32),
        scheduling: Scheduling::Weighted([1, 1, 1, 1, 2, 2, 4, 4]),
        pinned: vec![PinnedAddress { mac: Mac::local(77), vlan: 7 }],
        storm: model::StormLimits::NONE,
        vlan: Some(model::VlanMembership { trunk: vec![7, 8], native: Some(9), access: None }),
        antispoof: Some(true),
        ..world.port(1)
    };
    let attach = Attachment::VhostUser {
        socket: world.directory.path().join("vm").display().to_string(),
        mode: SocketMode::Listen,
        mac: Some(Mac::local(78)),
        queues: 2,
        mtu: Some(1400),
    };
    let machine = PortSpec::new(PortName("vm".into()), attach);
    for spec in [&world.port(0), &container, &machine] {
        let path = format!("/v1/ports/{}", spec.name);
        if spec.name != name(0) {
            client.attach(spec).unwrap();
        }
        let answer = world.ask(&format!("GET {path}"), "");
        let (_, said) = answer.split_once("\r\n\r\n").unwrap();
        let put = |body: &str| world.ask(&format!("PUT {path}"), body);
        assert!(put(said).starts_with("HTTP/1.1 200"), "{}", put(said));
        assert_eq!(client.port(&spec.name).unwrap().declaration(), *spec);
        // Changed on the way, and put where nothing is.
        let slower = said.replacen("\"send_rate\":null", "\"send_rate\":\"1mbit\"", 1);
        assert!(put(&slower).starts_with("HTTP/1.1 200"), "{}", put(&slower));
        let changed = PortSpec { send_rate: "1mbit".parse().ok(), ..spec.clone() };
        assert_eq!(client.port(&spec.name).unwrap().declaration(), changed);
        client.detach(&spec.name).unwrap();
        assert!(put(said).starts_with("HTTP/1.1 201"), "{}", put(said));
        assert_eq!(client.port(&spec.name).unwrap().declaration(), *spec);
        let wrong = put(&said.replacen('{', "{\"quotta\": 7,", 1));
        assert!(
            wrong.starts_with("HTTP/1.1 400") && wrong.contains("did you mean `quota`?"),
            "{wrong}"
        );
    }
}

/// Podman with storage of its own, and a container that sleeps.
struct Podman {
    place: tempfile::TempDir,
    container: String,
}

impl Podman {
    fn start(container: String) -> Self {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name).display().to_string();
        let storage = format!(
            "[storage]\ndriver = 'vfs'\ngraphroot = '{}'\nrunroot = '{}'\n",
            path("graph"),
            path("run")
        );
        fs::write(path("storage.conf"), storage).unwrap();
        let engine = "[engine]\ncgroup_manager = 'cgroupfs'\nevents_logger = 'file'\nruntime = 'runc'\n\
                      [containers]\ndefault_ulimits = ['nofile=1024:1024', 'nproc=1024:1024']\n";
        fs::write(path("containers.conf"), engine).unwrap();
        for folder in ["bin", "proc", "sys", "dev", "etc", "run", "tmp"] {
            fs::create_dir_all(path(&format!("root/{folder}"))).unwrap();
        }
        fs::copy("/bin/busybox", path("root/bin/busybox")).unwrap();
        let root = path("root");
        let podman = Self { place, container };
        let run =
            ["run", "-d", "--name", &podman.container, "--network", "none", "--rootfs", &root];
        podman.podman(&[&run[..], &["/bin/busybox", "sleep", "600"]].concat());
        podman
    }

    /// A command that finds the storage.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let file = |name: &str| self.place.path().join(name);
        command.env("CONTAINERS_STORAGE_CONF", file("storage.conf"));
        command.env("CONTAINERS_CONF", file("containers.conf"));
        command
    }

    fn podman(&self, words: &[&str]) -> String {
        let output = self.command("podman").args(words).output().unwrap();
        assert!(output.status.success(), "podman {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn attach(&self, world: &World) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_zovn"));
        command.args(["attach", "--podman", &self.container, "--address", "10.9.0.2/24"]);
        command.arg("--socket").arg(world.socket()).output().unwrap()
    }

    fn namespace(&self) -> Namespace {
        let pid = self.podman(&["inspect", "--format", "{{.State.Pid}}", &self.container]);
        Namespace::open(&format!("/proc/{}/ns/net", pid.trim())).unwrap()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.command("podman").args(["rm", "-f", "-t", "0", &self.container]).output();
    }
}

#[test]
fn a_container_of_podman_is_attached_by_its_name_and_anew_when_it_is_started_again() {
    if !(needs::program("podman", "podman") && needs::program("runc", "runc")) {
        return;
    }
    let mut world = World::new(1);
    let client = world.start(1);
    let podman = Podman::start(format!("{}-podman", world.prefix));
    let port = PortName(podman.container.clone());
    let reach = || {
        let from = world.udp(0);
        let bind = || UdpSocket::bind("10.9.0.2:7");
        let to = podman.namespace().run(bind).unwrap().unwrap();
        to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        from.send_to(b"there", "10.9.0.2:7").unwrap();
        assert_eq!(to.recv(&mut [0; 16]).unwrap(), 5);
    };
    said(podman.attach(&world));
    reach();
    podman.podman(&["stop", "-t", "0", &podman.container]);
    let why = complained(podman.attach(&world));
    assert!(why.contains("does not run: start it first"), "{why}");
    podman.podman(&["start", &podman.container]);
    client.detach(&port).unwrap();
    said(podman.attach(&world));
    reach();
    client.detach(&port).unwrap();

    let nobody = Podman { place: tempfile::tempdir().unwrap(), container: "zovn-t-nobody".into() };
    let why = complained(nobody.attach(&world));
    assert!(why.contains("podman does not know container `zovn-t-nobody`"), "{why}");
}

#[test]
fn a_ports_sending_rate_holds_its_programs_back_and_loses_nothing() {
    let mut world = World::new(2);
    let client = world.start(2);
    world.greet(0, 1);
    said(run(&world, &["set", "c0", "--send-rate", "10mbit"]));
    let (from, to) = (world.udp(0), world.udp(1));
    const DATAGRAMS: u64 = 1500;
    let before = client.port(&name(0)).unwrap().ingress_bytes;
    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..DATAGRAMS {
                from.send_to(&[0; 1000], "10.9.0.2:7").unwrap();
            }
        });
        for _ in 0..DATAGRAMS {
            // Its time-out fails the test.
            to.recv(&mut [0; 1000]).unwrap();
        }
    });
    let bits = 8 * (client.port(&name(0)).unwrap().ingress_bytes - before);
    let rate = bits as f64 / began.elapsed().as_secs_f64();
    assert!((1e6..10.6e6).contains(&rate), "{rate:.0} bit/s");
    drop((from, to));
    // The other direction has no bound.
    world.greet(1, 0);
    let status = client.status().unwrap();
    assert!(balanced(&status) && status.ledger.refused_total() == 0, "{status:?}");
    assert_eq!(client.port(&name(0)).unwrap().send_rate, Some("10mbit".parse().unwrap()));
    said(run(&world, &["set", "c0", "--send-rate", "none"]));
    assert_eq!(client.port(&name(0)).unwrap().send_rate, None);
}
