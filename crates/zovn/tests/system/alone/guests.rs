//! Real guests and a container on one switch: real kernels and TCP stacks.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kernel::netns::Namespace;
use lab::guest::{Features, Guest, GuestSpec, Image, Kernel, Nic, Running, Socket};
use model::{
    AgentSettings, Attachment, PortChange, PortName, PortSpec, PortState, RateChange, SocketMode,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use units::{Mac, Span};

use crate::common::until;
use crate::machines::host::Host;

/// Enough for an initramfs with zovn in it.
const MEMORY_MIB: u32 = 384;

/// Whether a test that needs guests can run. If not, it is skipped.
fn has_qemu() -> bool {
    // Cargo builds a package's programs for its own tests only.
    let agent = guest_agent();
    needs::program("qemu-system-x86_64", "qemu-system-x86")
        && needs::file(&agent, "cargo build -p lab --bin guest-agent")
}

/// What lab has run in guests.
fn guest_agent() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_zovn")).with_file_name("guest-agent")
}

fn new_image() -> Image {
    let kernel = Kernel::fetch(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    Image::new(kernel, &guest_agent()).unwrap()
}

fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(new_image)
}

/// Emulated guests need all processors there are: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a program in a guest writes, if it succeeds.
fn said(guest: &Guest, command: &[&str]) -> String {
    let output = guest.run(command).unwrap_or_else(|error| panic!("{error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A container that goes with its test.
struct Container {
    name: String,
    namespace: Namespace,
}

impl Container {
    fn new() -> Self {
        let name = format!("zovn-t-guests-{}", std::process::id());
        Self { namespace: Namespace::create(&name).unwrap(), name }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = Namespace::delete(&self.name);
    }
}

/// A counter of one of a guest's protocols (Documentation/networking/snmp_counter).
fn counter(guest: &Guest, protocol: &str, name: &str) -> u64 {
    let text = said(guest, &["grep", &format!("^{protocol}:"), "/proc/net/snmp"]);
    let [names, values] = [0, 1].map(|line| text.lines().nth(line).unwrap().split(' '));
    names.zip(values).find(|(its_name, _)| *its_name == name).unwrap().1.parse().unwrap()
}

/// Two guests, one of which the agent waits for, and both modes of rings.
fn boot(host: &Host, image: &Image) -> [Guest; 2] {
    // Its rings know neither; what is sent to it in large segments, it takes in small ones.
    let plain = Features {
        event_index: false,
        indirect_descriptors: false,
        segmentation: false,
        checksum: false,
        ..Features::default()
    };
    boot_with(host, image, [Features::default(), plain])
}

fn boot_with(host: &Host, image: &Image, features: [Features; 2]) -> [Guest; 2] {
    let sockets = [Socket::Listens(host.path("vm1")), Socket::Connects(host.path("vm2"))];
    let mut number = 0;
    let booting = sockets.map(|socket| {
        let features = features[number as usize];
        number += 1;
        let addresses = vec![format!("10.8.0.{number}/24").parse().unwrap()];
        let nic = Nic { addresses, features, ..Nic::new(Mac::local(number), socket) };
        let spec = GuestSpec {
            nics: vec![nic],
            memory_mib: MEMORY_MIB,
            ..GuestSpec::new(format!("vm{number}"))
        };
        Guest::start(image, spec).unwrap()
    });
    booting.map(|guest| guest.ready().unwrap_or_else(|error| panic!("{error}")))
}

fn machines(host: &Host) -> Vec<PortSpec> {
    vec![
        host.machine("vm1", SocketMode::Connect, Some(Mac::local(1))),
        host.machine("vm2", SocketMode::Listen, None),
    ]
}

/// Ten megabytes of TCP arrive as they were sent.
fn send_a_file(from: &Guest, to: &Guest, address: &str) {
    said(from, &["sh", "-c", "head -c 10000000 /dev/urandom >/tmp/sent"]);
    let receiver = to.spawn(&["sh", "-c", "nc -l -p 9000 | sha256sum"]);
    // Listening: state 0A at port 9000.
    said(
        to,
        &["sh", "-c", "until grep -q ':2328 .* 0A ' /proc/net/tcp /proc/net/tcp6; do :; done"],
    );
    said(from, &["sh", "-c", &format!("nc {address} 9000 </tmp/sent")]);
    let sum = said(from, &["sh", "-c", "sha256sum </tmp/sent"]);
    assert_eq!(String::from_utf8(receiver.output().unwrap().stdout).unwrap(), sum);
}

#[test]
fn guests_and_a_container_talk_through_the_agent_and_lose_nothing() {
    if !has_qemu() {
        return;
    }
    let _alone = alone();
    let mut host = Host::new();
    let container = Container::new();
    let attach = Attachment::Container {
        netns: container.name.clone(),
        interface: "eth0".into(),
        mac: None,
        addresses: vec!["10.8.0.3/24".parse().unwrap()],
        routes: Vec::new(),
        mtu: None,
        offload: true,
    };
    let mut ports = machines(&host);
    ports.push(PortSpec::new(PortName("store".into()), attach));
    // A busy machine may take longer to boot a guest than a receiver is waited for otherwise.
    let patience = Span::from_secs(600);
    let agent = AgentSettings {
        stall_after: patience,
        socket_stall_after: patience,
        ..AgentSettings::default()
    };
    let client = host.start(agent, ports);
    let [a, b] = boot(&host, image());
    until(|| client.status().unwrap().ports.iter().all(|port| port.state == PortState::Up));
    // Until the first machine is up, nobody is there to get what the container's kernel sends for
    // IPv6 by itself, some seven frames (RFC 4862 §5.4, RFC 3810, RFC 4861 §6.3.7): a solicitation
    // of its own address, reports of groups, solicitations of routers. From here on nothing is
    // refused.
    let refused = client.status().unwrap().ledger.refused_total();

    let report = said(&a, &["ping", "-c", "3", "-i", "0.1", "10.8.0.2"]);
    assert!(report.contains("3 packets transmitted, 3 packets received"), "{report}");
    send_a_file(&a, &b, "10.8.0.2");
    send_a_file(&b, &a, "10.8.0.1");

    // A guest and a container, both ways over one stream.
    let listener = container.namespace.run(|| TcpListener::bind("10.8.0.3:9001")).unwrap().unwrap();
    let echo = std::thread::spawn(move || {
        let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 3_000_000];
        stream.read_exact(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
    });
    let sums = said(
        &a,
        &[
            "sh",
            "-c",
            "head -c 3000000 /tmp/sent | sha256sum; head -c 3000000 /tmp/sent | nc 10.8.0.3 9001 | sha256sum",
        ],
    );
    let (sent, came) = sums.trim().split_once('\n').unwrap();
    assert_eq!(sent, came);
    echo.join().unwrap();

    // A slow port holds its sender back: every datagram gets there.
    let rate = PortChange {
        rate: Some(RateChange::To("10mbit".parse().unwrap())),
        ..PortChange::default()
    };
    client.change(&PortName("vm2".into()), &rate).unwrap();
    let came = |guest: &Guest| {
        ["InDatagrams", "RcvbufErrors", "NoPorts"]
            .map(|name| counter(guest, "Udp", name))
            .iter()
            .sum::<u64>()
    };
    let before = came(&b);
    let socket = container.namespace.run(|| UdpSocket::bind("10.8.0.3:0")).unwrap().unwrap();
    let send = || socket.send_to(&[7; 1000], "10.8.0.2:9").unwrap();
    // Until its neighbour's address is known, the sender's own kernel keeps some and drops the
    // rest.
    send();
    until(|| came(&b) == before + 1);
    for _ in 0..5000 {
        send();
    }
    // The container waited: of all the others, the machine has had most.
    assert!(came(&b) > before + 3000);
    until(|| came(&b) == before + 5001);
    let status = client.status().unwrap();
    assert!(status.balanced);
    assert_eq!(status.ledger.refused_total(), refused, "{:?}", status.ledger);
    assert!(status.ports.iter().all(|port| port.state == PortState::Up));
}

#[test]
fn machines_go_on_with_the_next_agent_where_nobody_keeps_their_connections() {
    if !has_qemu() {
        return;
    }
    let _alone = alone();
    let mut host = Host::new();
    host.start(AgentSettings::default(), machines(&host));
    let [a, b] = boot(&host, image());
    // Both learn who the other is.
    said(&a, &["ping", "-c", "1", "10.8.0.2"]);
    let mut ping = a.spawn(&["ping", "-c", "60", "-i", "0.1", "-W", "60", "10.8.0.2"]);
    for _ in 0..2 {
        for _ in 0..5 {
            ping.line().unwrap().unwrap();
        }
        host.end(Signal::TERM);
        // Longer than between two pings, and no more of them than a ping's own socket has room for.
        std::thread::sleep(Duration::from_millis(300));
        host.start(AgentSettings::default(), machines(&host));
    }
    let report = String::from_utf8(ping.output().unwrap().stdout).unwrap();
    // What is in a ring in the moment in which QEMU takes it back, QEMU throws away, and then what
    // follows until the next agent.
    let came = report.lines().filter(|line| line.contains(" bytes from ")).count();
    assert!(
        came >= 60 - 2 * 13,
        "only pings of the two pauses, of 1.3 s each, may be lost: {report}"
    );
    send_a_file(&a, &b, "10.8.0.2");
}

/// How many echoes one guest has sent that the other has not got, and how many answers to those
/// that it has.
fn lost(from: &Guest, to: &Guest) -> [i64; 2] {
    let count = |guest, name| counter(guest, "Icmp", name) as i64;
    [
        count(from, "OutEchos") - count(to, "InEchos"),
        count(to, "OutEchoReps") - count(from, "InEchoReps"),
    ]
}

#[test]
fn neither_guest_nor_qemu_notices_that_agents_end_that_a_manager_keeps_descriptors_of() {
    if !has_qemu() {
        return;
    }
    let _alone = alone();
    let mut host = Host::managed();
    host.start(AgentSettings::default(), machines(&host));
    // QEMU 7.2 starts packed rings at their beginning, wherever they were, if it has to start them
    // anew.
    let told = Features { status: true, ..Features::default() };
    let guests = boot_with(&host, image(), [told, Features { packed: true, ..told }]);
    let [a, b] = &guests;
    said(a, &["ping", "-c", "1", "10.8.0.2"]);
    let links = || {
        guests.each_ref().map(|guest| said(guest, &["cat", "/sys/class/net/eth0/carrier_changes"]))
    };
    let before = links();
    let ping = |to: &'static str| ["ping", "-q", "-c", "500", "-i", "0.01", "-W", "5", to];
    for signal in [Signal::TERM, Signal::KILL] {
        let before = [lost(a, b), lost(b, a)].concat();
        let mut pings = [a.spawn(&ping("10.8.0.2")), b.spawn(&ping("10.8.0.1"))];
        for _ in 0..3 {
            std::thread::sleep(Duration::from_secs(1));
            host.end(signal);
            // Some thirty more of each, which nobody takes.
            std::thread::sleep(Duration::from_millis(300));
            host.start(AgentSettings::default(), machines(&host));
        }
        for ping in &mut pings {
            // It may miss answers that come all at once: its socket is small.
            while ping.line().unwrap().is_some() {}
        }
        let after = [lost(a, b), lost(b, a)].concat();
        let lost: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        // Who is killed may have delivered what is delivered again.
        let most_twice = if signal == Signal::KILL { 3 * 128 } else { 0 };
        assert!(lost.iter().all(|lost| (-most_twice..=0).contains(lost)), "{signal:?}: {lost:?}");
    }
    assert_eq!(links(), before, "nobody was told of anything");
    send_a_file(a, b, "10.8.0.2");
}

/// A program's report, its next line.
fn report(program: &mut Running<'_>) -> Value {
    let line = program.line().unwrap().unwrap();
    serde_json::from_str::<Value>(&line).unwrap()["report"].clone()
}

/// Starts one of our small programs in a guest.
fn start<'a>(guest: &'a Guest, role: &Value) -> Running<'a> {
    let mut program = guest.spawn(&["zovn", "endpoint", &role.to_string()]);
    assert_eq!(program.line().unwrap().as_deref(), Some("\"ready\""));
    program
}

/// From each of these guests so many programs send as fast as they can to the other guest, where
/// one reads a thousand datagrams a second: how many were sent, and how many came.
fn flood(guests: &[Guest; 2], from: &[usize], senders: usize) -> (u64, u64) {
    let receive = json!({ "udp-receive": { "port": 9000, "senders": senders, "pace": 1000.0 } });
    let send = |from: usize, sender: usize| {
        let to = format!("10.8.0.{}:9000", 2 - from);
        json!({ "udp-send": { "to": to, "sender": sender, "size": 1000, "rate": null, "duration": "2s" } })
    };
    let mut readers: Vec<_> = from.iter().map(|from| start(&guests[1 - from], &receive)).collect();
    let sending = from.iter().flat_map(|from| (0..senders).map(|sender| (*from, sender)));
    let mut senders: Vec<_> =
        sending.map(|(from, sender)| start(&guests[from], &send(from, sender))).collect();
    readers.iter().chain(&senders).for_each(|program| program.write(b"\"start\"\n"));
    let sent = senders.iter_mut().map(|sender| report(sender)["sent"].as_u64().unwrap()).sum();
    readers.iter().for_each(|reader| reader.write(b"\"finish\"\n"));
    (sent, readers.iter_mut().map(|reader| report(reader)["received"].as_u64().unwrap()).sum())
}

#[test]
fn slow_readers_in_guests_lose_nothing() {
    if !has_qemu() {
        return;
    }
    let _alone = alone();
    let image = new_image().with_program(Path::new(env!("CARGO_BIN_EXE_zovn"))).unwrap();
    let mut host = Host::new();
    let client = host.start(AgentSettings::default(), machines(&host));
    let guests = &boot(&host, &image);
    said(&guests[0], &["ping", "-c", "1", "10.8.0.2"]);
    let (sent, received) = flood(guests, &[0], 1);
    let lost = counter(&guests[1], "Udp", "RcvbufErrors");
    assert!(lost > 0 && received < sent, "without `zovn guest` it would prove nothing");

    let mut programs: Vec<_> =
        guests.iter().map(|guest| guest.spawn(&["zovn", "guest", "--json"])).collect();
    for program in &mut programs {
        while !program.line().unwrap().unwrap().contains("\"heard\"") {}
    }
    let (sent, received) = flood(guests, &[0], 1);
    assert_eq!(received, sent);
    // Both ways, from more sockets than a ring has room for: each guest's words wait behind what
    // waits for the other's.
    let (sent, received) = flood(guests, &[0, 1], 5);
    assert_eq!(received, sent);
    for (guest, lost) in guests.iter().zip([0, lost]) {
        assert_eq!(counter(guest, "Udp", "RcvbufErrors"), lost);
        assert_eq!(counter(guest, "Udp", "InErrors"), lost);
    }
    let status = client.status().unwrap();
    assert!(status.balanced);
    assert!(status.ports.iter().all(|port| port.notes.is_empty()), "{:?}", status.ports);
}
