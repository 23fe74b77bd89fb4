//! Virtual machines and a container on one switch: real guests, a real agent, real TCP stacks.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use api::Client;
use lab::guest::{Guest, GuestSpec, Image, Kernel, Nic, Socket};
use model::{Attachment, HostConfig, PortName, PortSpec, PortState, SocketMode};
use units::Mac;

fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        // Cargo builds a package's programs for its own tests only.
        let built =
            Command::new(env!("CARGO")).args(["build", "-q", "-p", "lab", "--bin", "guest-agent"]).status();
        assert!(built.unwrap().success());
        let agent = Path::new(env!("CARGO_BIN_EXE_zovn")).with_file_name("guest-agent");
        Image::new(Kernel::fetch(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap(), &agent).unwrap()
    })
}

/// An agent that ends with its test.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(guest: &Guest, command: &[&str]) -> String {
    let output = guest.run(command).unwrap_or_else(|error| panic!("{error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn guests_talk_through_the_agent() {
    let place = tempfile::tempdir().unwrap();
    let sockets = ["a.sock", "b.sock"].map(|name| place.path().join(name));
    let ports = [SocketMode::Connect, SocketMode::Listen].into_iter().zip(&sockets).enumerate().map(
        |(at, (mode, socket))| {
            let attach = Attachment::VhostUser {
                socket: socket.display().to_string(),
                mode,
                mac: None,
                queues: 1,
                mtu: 1500,
            };
            PortSpec::new(PortName(format!("vm{at}")), attach)
        },
    );
    let config = HostConfig { ports: ports.collect(), ..HostConfig::default() };
    let file = place.path().join("host.toml");
    std::fs::write(&file, toml::to_string(&config).unwrap()).unwrap();
    let api = place.path().join("agent.sock");
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.arg("agent").arg("-c").arg(&file).arg("--socket").arg(&api).stderr(Stdio::inherit());
    let _agent = Agent(command.spawn().unwrap());
    let client = Client::new(&api).unwrap();
    let begun = Instant::now();
    while !client.ready().unwrap_or(false) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    let specs = [Socket::Listens(sockets[0].clone()), Socket::Connects(sockets[1].clone())];
    let guests = specs.into_iter().enumerate().map(|(at, socket)| {
        let mut nic = Nic::new(Mac::local(at as u32 + 1), socket);
        nic.addresses = vec![format!("10.0.0.{}/24", at + 1).parse().unwrap()];
        Guest::start(image(), GuestSpec { nics: vec![nic], ..GuestSpec::new(format!("vm{at}")) }).unwrap()
    });
    let guests: Vec<_> = guests.collect();
    let guests: Vec<_> =
        guests.into_iter().map(|guest| guest.ready().unwrap_or_else(|error| panic!("{error}"))).collect();
    let report = said(&guests[0], &["ping", "-c", "3", "-i", "0.1", "10.0.0.2"]);
    assert!(report.contains("3 packets transmitted, 3 packets received"), "{report}");
    said(&guests[0], &["sh", "-c", "head -c 10000000 /dev/urandom >/tmp/sent"]);
    let receiver = guests[1].spawn(&["sh", "-c", "nc -l -p 9000 | sha256sum"]);
    said(&guests[1], &["sh", "-c", "until grep -q ':2328 .* 0A ' /proc/net/tcp /proc/net/tcp6; do :; done"]);
    said(&guests[0], &["sh", "-c", "nc 10.0.0.2 9000 </tmp/sent"]);
    let sum = said(&guests[0], &["sh", "-c", "sha256sum </tmp/sent"]);
    assert_eq!(String::from_utf8(receiver.output().unwrap().stdout).unwrap(), sum);
    let status = client.status().unwrap();
    assert!(status.balanced);
    assert!(status.ports.iter().all(|port| port.state == PortState::Up));
}
