//! The agent as a process: how it starts, fails to start, ends and is started again; signals,
//! systemd and the packaged unit.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use agent::{Journal, Store, Worker};
use model::RouteSpec;

use super::*;

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
    let worker = Worker::start(world.declaration(1), None, Store::default(), journal).unwrap();
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
fn time_in_which_the_agent_was_stopped_is_nobodys_silence() {
    let mut world = World::new(2);
    let command = world.command(2);
    let file = world.directory.path().join("host.toml");
    let mut declared = world.declaration(2);
    declared.agent.stall_after = Span::from_secs(4);
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
    thread::sleep(Duration::from_secs(6));
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
