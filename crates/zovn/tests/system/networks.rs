//! The virtual networks of an agent: its file, its API and the commands.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use api::{Client, ClientError};
use kernel::netlink::{Netlink, Prefix};
use kernel::{joined, spawn};
use model::{
    Attachment, Generation, Member, NetworkName, NetworkSpec, NetworksStatus, PortName, PortSpec,
    SocketMode,
};
use units::Mac;

use crate::common::until;

const VTEP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// An agent in a directory of its own, which goes with it.
struct World {
    directory: tempfile::TempDir,
    agent: Child,
}

impl World {
    /// Starts an agent that is told this, and waits until it is ready.
    fn new(declaration: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("host.toml");
        fs::write(&file, format!("agent.udp_gate = false\n{declaration}")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.arg("agent").arg("-c").arg(file).args(["--log", "warn", "--socket"]);
        // The underlay, as far as this host is it: each test has its own.
        let underlay = joined::alone().unwrap();
        let mut netlink = Netlink::open_in(&underlay).unwrap();
        let link = netlink.index(joined::LOOPBACK).unwrap();
        netlink.add_address(link, Prefix { address: VTEP, length: 32 }).unwrap();
        spawn::inside(&mut command, underlay);
        let agent = command.arg(directory.path().join("agent.sock")).spawn().unwrap();
        let mut world = Self { directory, agent };
        until(|| {
            assert_eq!(world.agent.try_wait().unwrap(), None, "the agent ended at its start");
            world.client().ready().unwrap()
        });
        world
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("agent.sock")
    }

    fn client(&self) -> Client {
        Client::new(self.socket()).unwrap()
    }

    /// What a command says to this agent.
    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(words).arg("--socket").arg(self.socket()).output().unwrap()
    }

    /// What `zovn apply` says to a file of such text.
    fn apply(&self, text: &str) -> Output {
        self.apply_so(text, &[])
    }

    fn apply_so(&self, text: &str, flags: &[&str]) -> Output {
        let file = self.directory.path().join("networks.toml");
        fs::write(&file, text).unwrap();
        self.run(&[&["apply", file.to_str().unwrap()], flags].concat())
    }

    /// What the agent's API answers.
    fn ask(&self, request: &str, headers: &str, body: &str) -> String {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        let length = body.len();
        let head = format!("{request} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}");
        let rest = format!("content-length: {length}\r\n\r\n{body}");
        stream.write_all((head + &rest).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// A machine's port in `blue`.
    fn port(&self, label: u32) -> PortSpec {
        let attach = Attachment::VhostUser {
            socket: self.directory.path().join(format!("{label}.sock")).display().to_string(),
            mode: SocketMode::Listen,
            mac: Some(Mac::local(label)),
            queues: 1,
            mtu: None,
        };
        let spec = PortSpec::new(PortName(format!("vm{label}")), attach);
        PortSpec { network: Some(NetworkName("blue".into())), label: Some(label), ..spec }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

/// Where a port's machine is if it is here.
fn member(label: u32) -> Member {
    let address = Ipv4Addr::from_bits(0x0a00_0000 + label).into();
    Member { mac: Mac::local(label), addresses: vec![address], vtep: VTEP.into(), label }
}

fn network(name: &str, vni: u32, members: Vec<Member>) -> NetworkSpec {
    NetworkSpec::new(NetworkName(name.into()), vni, members)
}

const UPLINK: &str = "[uplink]\nvtep = '192.0.2.1'\n";

const BLUE: &str = "[[network]]\nname = 'blue'\nvni = 7\n[[network.member]]\nmac = '02:00:00:00:00:01'\n\
                    addresses = ['10.0.0.1']\nvtep = '192.0.2.1'\nlabel = 1\n";

fn refusal<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> String {
    match outcome {
        Err(ClientError::Refused { status: 422, problem }) => problem,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_file_is_applied_whole_and_shown() {
    let world = World::new(&format!("{UPLINK}{BLUE}"));
    let blue = network("blue", 7, vec![member(1)]);
    let status = world.client().networks().unwrap();
    assert_eq!(
        status,
        NetworksStatus { generation: Generation(1), vtep: Some(VTEP.into()), networks: vec![blue] }
    );

    let red =
        BLUE.replace("blue", "red").replace("vni = 7", "vni = 8").replace("label = 1", "label = 2");
    let applied = world.apply(&format!("{BLUE}{red}"));
    assert_eq!(
        String::from_utf8(applied.stdout).unwrap(),
        "generation 2 (networks: 2, members: 2)\n"
    );
    let shown = String::from_utf8(world.run(&["get", "networks"]).stdout).unwrap();
    assert!(shown.ends_with("\ngeneration 2\n"), "{shown}");
    assert!(shown.contains("\nred ") && shown.contains(" 02:00:00:00:00:01 "), "{shown}");
    let json = world.run(&["get", "networks", "--json"]).stdout;
    let status: NetworksStatus = serde_json::from_slice(&json).unwrap();
    assert_eq!((status.generation, status.networks.len()), (Generation(2), 2));

    // Wrong in itself, and wrong on this host alone: the agent's own sentence.
    let wrong = world.apply(&format!("{BLUE}{}", red.replace("label = 2", "label = 1")));
    let sentence = String::from_utf8(wrong.stderr).unwrap();
    assert!(
        sentence.contains("networks.toml:9: ") && sentence.contains("`label` 1 at 192.0.2.1"),
        "{sentence}"
    );
    let wrong = world.apply_so(&BLUE.replace("192.0.2.1", "2001:db8::1"), &["--prune"]);
    let sentence = String::from_utf8(wrong.stderr).unwrap();
    assert!(!wrong.status.success() && sentence.contains("of two families"), "{sentence}");
    assert_eq!(world.client().networks().unwrap(), status, "nothing has changed");
}

/// A command's output and its errors.
fn words(output: Output) -> (String, String) {
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).into()
}

#[test]
fn a_file_does_not_remove_networks_by_saying_nothing_of_them() {
    let world = World::new(&format!("{UPLINK}{BLUE}[[network]]\nname = 'empty'\nvni = 9\n"));
    let before = world.client().networks().unwrap();
    for (text, why) in [
        ("", "would remove network `blue` (members: 1)"),
        ("[[network]]\nname = 'red'\nvni = 8\n", "would remove network `blue` (members: 1)"),
        (UPLINK, "networks.toml:1: `[uplink]`: a file of networks has"),
        ("[[networks]]\nname = 'red'\n", "`networks` is not known here: did you mean `network`?"),
    ] {
        let refused = world.apply(text);
        assert!(!refused.status.success());
        let (said, error) = words(refused);
        assert!(said.is_empty() && error.contains(why), "{text}: {error}");
        assert_eq!(world.client().networks().unwrap(), before);
    }
    // One that nobody is in goes without a question.
    let (said, _) = words(world.apply(BLUE));
    assert_eq!(said, "generation 2 (networks: 1, members: 1)\n");
    let (said, _) = words(world.apply_so("", &["--prune"]));
    assert_eq!(said, "generation 3 (networks: 0, members: 0)\n");
}

#[test]
fn a_dry_run_says_what_would_change_and_whether_it_can() {
    let world = World::new(&format!("{UPLINK}{BLUE}"));
    let client = world.client();
    client.attach(&world.port(1)).unwrap();
    let before = client.networks().unwrap();
    let red = "[[network]]\nname = 'red'\nvni = 8\n";
    let moved = BLUE.replace("10.0.0.1", "10.0.0.7");
    let (said, _) = words(world.apply_so(&format!("{moved}{red}"), &["--dry-run"]));
    assert_eq!(
        said,
        "~ blue (vni 7, members: 1): 0 added, 1 changed, 0 removed\n+ red (vni 8, members: 0)\n\
         a dry run: generation 1 stays; applied, there are networks: 2, members: 1\n"
    );
    let json = world.apply_so(&moved, &["--dry-run", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((&json["generation"], &json["dry_run"]), (&1.into(), &true.into()), "{json}");
    assert_eq!(json["changes"][0]["members_changed"], 1, "{json}");
    // A port is in it.
    let refused = world.apply_so(red, &["--dry-run", "--prune"]);
    assert!(!refused.status.success());
    assert!(words(refused).1.contains("port `vm1`: network `blue` is not declared"));
    assert_eq!(client.networks().unwrap(), before);
}

#[test]
fn one_network_is_removed_by_a_command_and_no_other() {
    let world = World::new(&format!("{UPLINK}{BLUE}[[network]]\nname = 'red'\nvni = 9\n"));
    let client = world.client();
    client.attach(&world.port(1)).unwrap();
    let names = || client.networks().unwrap().networks.into_iter().map(|it| it.name.0);
    let (_, error) = words(world.run(&["delete", "network", "blue"]));
    assert!(error.contains("port `vm1`: network `blue` is not declared"), "{error}");
    let (_, error) = words(world.run(&["delete", "network", "red", "--if-match", "7"]));
    assert!(error.contains("generation 1 now: look at them (`zovn get networks`)"), "{error}");
    let (said, _) = words(world.run(&["delete", "network", "red", "--dry-run"]));
    assert_eq!(said, "a dry run: network `red` stays (generation 1)\n");
    assert!(names().eq(["blue", "red"]));
    let (said, _) = words(world.run(&["delete", "network", "red", "--if-match", "1"]));
    assert_eq!(said, "network `red` is removed (generation 2)\n");
    assert!(names().eq(["blue"]));
    let (_, error) = words(world.run(&["delete", "network", "red"]));
    assert!(error.contains("there is no network `red`"), "{error}");
}

#[test]
fn networks_are_replaced_only_as_they_were_seen() {
    let world = World::new(&format!("{UPLINK}{BLUE}"));
    let refused = world.apply_so(BLUE, &["--if-match", "7"]);
    assert!(words(refused).1.contains("the networks are of generation 1 now"));
    assert!(world.apply_so(BLUE, &["--if-match", "1"]).status.success());

    let answer = world.ask("GET /v1/networks", "", "");
    assert!(answer.contains("etag: \"2\"\r\n"), "{answer}");
    let put = |tags: &str| {
        let headers = format!("if-match: {tags}\r\n");
        world.ask("PUT /v1/networks/red", &headers, r#"{"name": "red", "vni": 8}"#)
    };
    for stale in ["\"1\"", "\"7\", \"8\"", "W/\"2\"", "2", "\"\""] {
        let answer = put(stale);
        assert!(
            answer.starts_with("HTTP/1.1 412") && answer.contains("generation 2 now"),
            "{answer}"
        );
    }
    for (fresh, tag) in [("\"2\"", 3), ("\"1\", \"3\"", 4), ("*", 5)] {
        let answer = put(fresh);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains(&format!("etag: \"{tag}\"\r\n")), "{answer}");
    }
    let answer = world.ask("DELETE /v1/networks/red", "if-match: \"1\"\r\n", "");
    assert!(answer.starts_with("HTTP/1.1 412"), "{answer}");
    let answer = world.ask("DELETE /v1/networks/red?dry_run=true", "", "");
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("{\"generation\":5}"),
        "{answer}"
    );
    let answer = world.ask("DELETE /v1/networks/red?dryrun=true", "", "");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[test]
fn what_is_wrong_by_itself_is_told_whatever_generation_is_asked_for() {
    let world = World::new(&format!("{UPLINK}{BLUE}"));
    let red = r#"{"name": "red", "vni": 8}"#;
    let [no_vni, no_member, same_vni] = [("8", "0"), ("}", r#", "member": [{}]}"#), ("8", "7")]
        .map(|(from, to)| red.replace(from, to));
    let unknown = r#"{"name": "red x", "vni": 8}"#;
    let requests = [
        ("PUT /v1/networks", red, 400),
        ("PUT /v1/networks", &format!("[{red}, {red}]"), 422),
        ("PUT /v1/networks", &format!("[{no_vni}]"), 422),
        ("PUT /v1/networks?dry_run=true", &format!("[{no_vni}]"), 422),
        ("PUT /v1/networks", &format!("[{red}]"), 412),
        ("PUT /v1/networks/red", &no_member, 400),
        ("PUT /v1/networks/blue", red, 400),
        ("PUT /v1/networks/%FF", red, 400),
        ("PUT /v1/networks/red", &no_vni, 422),
        ("PUT /v1/networks/red?dry_run=true", &no_vni, 422),
        ("PUT /v1/networks/red%20x", unknown, 422),
        ("PUT /v1/networks/red", red, 412),
        // Whether another network is in the way depends on the generation.
        ("PUT /v1/networks/red", &same_vni, 412),
        ("DELETE /v1/networks/%FF", "", 404),
        ("DELETE /v1/networks/red", "", 404),
        ("DELETE /v1/networks/blue", "", 412),
    ];
    for (request, body, status) in requests {
        let answer = world.ask(request, "if-match: \"7\"\r\n", body);
        let head = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&head), "{request} {body}: {answer}");
        assert!(answer.contains("{\"error\":"), "{request} {body}: {answer}");
    }
    assert_eq!(world.client().networks().unwrap().generation, Generation(1));
}

#[test]
fn networks_may_come_from_another_program() {
    let world = World::new(UPLINK);
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args(["apply", "-", "--socket"]).arg(world.socket());
    let mut apply = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    apply.stdin.take().unwrap().write_all(BLUE.as_bytes()).unwrap();
    let (said, _) = words(apply.wait_with_output().unwrap());
    assert_eq!(said, "generation 2 (networks: 1, members: 1)\n");
}

#[test]
fn what_the_page_shows_can_be_applied() {
    let page = include_str!("../../../../docs/overlay.md");
    let mut blocks =
        page.split("```toml\n").skip(1).map(|block| block.split("```").next().unwrap());
    let (networks, uplink) = (blocks.next().unwrap(), blocks.next().unwrap());
    let world = World::new(uplink);
    let applied = String::from_utf8(world.apply(networks).stdout).unwrap();
    assert!(page.contains(applied.trim_end()) && !applied.is_empty(), "{applied}");
    world.client().attach(&world.port(1)).unwrap();
}

#[test]
fn ports_and_networks_have_to_fit_together() {
    let world = World::new(UPLINK);
    let client = world.client();
    let problem = refusal(client.attach(&world.port(1)));
    assert!(problem.contains("network `blue` is not declared"), "{problem}");
    client.set_networks(&[network("blue", 7, vec![member(1)])]).unwrap();
    let port = client.attach(&world.port(1)).unwrap();
    assert_eq!((port.network, port.label), (Some(NetworkName("blue".into())), Some(1)));
    let problem = refusal(client.attach(&world.port(2)));
    assert!(
        problem.contains("no member 02:00:00:00:00:02 with `label` 2 at 192.0.2.1"),
        "{problem}"
    );

    // Others may change while it is attached, but not go.
    let more = [network("blue", 9, vec![member(1), member(2)]), network("red", 7, vec![])];
    assert_eq!(client.set_networks(&more).unwrap().generation, Generation(3));
    client.attach(&world.port(2)).unwrap();
    let problem = refusal(client.set_networks(&more[1..]));
    assert!(problem.starts_with("port `vm1`: network `blue` is not declared"), "{problem}");
    client.detach(&PortName("vm1".into())).unwrap();
    client.detach(&PortName("vm2".into())).unwrap();
    assert_eq!(client.set_networks(&[]).unwrap().generation, Generation(4));
}

#[test]
fn a_host_without_an_uplink_has_no_networks() {
    let world = World::new("");
    let status = world.client().networks().unwrap();
    assert_eq!(status, NetworksStatus { generation: Generation(1), vtep: None, networks: vec![] });
    let problem = refusal(world.client().set_networks(&[network("blue", 7, vec![])]));
    assert!(problem.contains("`[uplink]`"), "{problem}");
}

#[test]
fn a_large_site_fits_into_one_request() {
    let world = World::new(UPLINK);
    let member = |machine| {
        let here = member(machine);
        let (v6, host) = (
            format!("fd00::{machine:x}").parse().unwrap(),
            Ipv4Addr::from_bits(0xc612_0000 + machine / 21),
        );
        Member { addresses: vec![here.addresses[0], v6], vtep: IpAddr::from(host).into(), ..here }
    };
    // NVP §6.1: 3,000 hosts with 21 ports, 7,000 networks.
    let networks: Vec<_> = (0..7_000)
        .map(|number| {
            let members = (1 + 9 * number..=9 * (number + 1)).map(member).collect();
            network(&format!("network-{number}"), 1 + number, members)
        })
        .collect();
    let client = world.client();
    assert_eq!(client.set_networks(&networks).unwrap().generation, Generation(2));
    assert!(client.networks().unwrap().networks == networks);
}

#[test]
fn what_networks_are_promised_together_is_what_the_uplink_has_or_nothing_changes() {
    let world = World::new(&format!("{UPLINK}rate = '1gbit'\n"));
    let share = |name: &str, vni, share: &str| {
        let machine = BLUE.replace("'blue'", &format!("'{name}'"));
        let machine = machine.replace("vni = 7", &format!("vni = {vni}"));
        let machine = machine.replace("label = 1", &format!("label = {vni}"));
        machine.replace("[[network.member]]", &format!("share = {share}\n[[network.member]]"))
    };
    let said = |output: Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let (blue, red) =
        (share("blue", 7, "{ min = '500mbit' }"), share("red", 8, "{ min = '440mbit' }"));
    assert!(world.apply(&format!("{blue}{red}")).status.success());
    let before = world.client().networks().unwrap();
    // One network more, one that wants more, and both at once.
    let green = share("green", 9, "{ min = '1mbit' }");
    let text = said(world.apply(&format!("{blue}{red}{green}")));
    assert!(
        text.contains(
            "`min` of all networks is 94.10 % of the uplink's 1gbit, and may be 94.05 % beside control; most have `blue` \
             (500mbit), `red` (440mbit), control (49500kbit): lower a network's"
        ),
        "{text}"
    );
    let mut more = before.networks[0].clone();
    more.share.min = "501mbit".parse().ok();
    assert!(refusal(world.client().set_network(&more)).contains("94.10 %"));
    more.share.min = "400mbit".parse().ok();
    more.share.burst = "700kb".parse().ok();
    let problem = refusal(world.client().set_network(&more));
    assert!(problem.contains("`latency`") && problem.contains("`blue` (700kb)"), "{problem}");
    let memory =
        [("blue", 7), ("red", 8)].map(|(name, vni)| share(name, vni, "{ memory = '100mib' }"));
    let text = said(world.apply(&memory.concat()));
    let words = ["`memory` of all networks is 200mib", "most have `blue` (100mib), `red` (100mib)"];
    assert!(words.iter().all(|words| text.contains(words)), "{text}");
    // Terms that contradict themselves: all of it is said at once.
    let text = said(world.apply(&share("blue", 7, "{ min = '2gbit', max = '1gbit', weight = 0 }")));
    assert!(
        text.contains("`min` 2gbit is above `max` 1gbit") && text.contains("`weight` is 0"),
        "{text}"
    );
    for (wrong, words) in [
        ("{ min = nan }", "`NaN` is not a rate: write it as 1gbit"),
        ("{ min = '0mbit' }", "rate"),
        ("{ min = '1gb' }", "rate"),
        ("{ max = 5 }", "`5` is not a rate: write it as 1gbit"),
    ] {
        let text = said(world.apply(&share("blue", 7, wrong)));
        assert!(text.contains(words) && text.trim().lines().count() <= 2, "{text}");
    }
    assert_eq!(world.client().networks().unwrap(), before);
    // Of an uplink without a rate nothing can be promised.
    let world = World::new(UPLINK);
    let text = said(world.apply(&blue));
    assert!(text.contains("`blue`") && text.contains("declare `rate` in [uplink]"), "{text}");
    // Nor is it kept to a maximum; frames and parts of the thread have nothing to do with it.
    let max = share("blue", 7, "{ max = '1gbit' }");
    let text = said(world.apply(&max));
    let words =
        "`max` of `blue` is of an uplink whose rate is not known: declare `rate` in [uplink]";
    assert!(text.contains(words), "{text}");
    assert!(world.apply(&share("blue", 7, "{ min_packets = 1000, weight = 2 }")).status.success());
}
