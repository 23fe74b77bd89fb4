//! A port that is an interface of the host, and what is behind it.

use std::process::Output;

use kernel::joined::{self, INTERFACE};

use super::*;

/// A world whose agent runs in a namespace (1) from which a cable leads to a machine that is no
/// port (2), with a container (0).
fn world() -> World {
    let world = World::new(3);
    joined::lay_cable([&world.containers[1], &world.containers[2]]).unwrap();
    joined::give_address(&world.containers[2], INTERFACE, "10.9.0.3/24".parse().unwrap()).unwrap();
    world
}

/// The port of the host's interface.
fn interface() -> PortSpec {
    let attach = Attachment::Interface { interface: INTERFACE.into(), vlan: None, mtu: None };
    PortSpec::new(PortName("out".into()), attach)
}

fn attach(world: &World, interface: &str) -> Output {
    let words = ["attach", "out", "--host-interface", interface, "--socket"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args(words).arg(world.socket()).output().unwrap()
}

#[test]
fn what_is_behind_an_interface_of_the_host_is_on_the_switch() {
    let mut world = world();
    let command = world.command(1);
    let client = world.start_in(1, command);
    let refused = attach(&world, "lo");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let attached = attach(&world, INTERFACE);
    assert!(attached.status.success(), "{attached:?}");
    world.greet(0, 2);
    world.greet(2, 0);
    until(|| client.port(&PortName("out".into())).unwrap().missed == Some(0));
    let mut shown = Command::new(env!("CARGO_BIN_EXE_zovn"));
    let shown = shown.args(["get", "ports", "--socket"]).arg(world.socket()).output().unwrap();
    let table = String::from_utf8(shown.stdout).unwrap();
    assert!(table.lines().next().unwrap().trim_end().ends_with("missed"), "{table}");
    assert!(client.metrics().unwrap().contains("zovn_missed_frames_total{port=\"out\"} 0\n"));

    let error = String::from_utf8(attach(&world, INTERFACE).stderr).unwrap();
    assert!(error.contains("`out` is attached already"), "{error}");
    let second = PortSpec { name: PortName("in".into()), ..interface() };
    let error = client.attach(&second).unwrap_err().to_string();
    assert!(error.contains("interface eth0 is port `out`'s already"), "{error}");

    client.detach(&PortName("out".into())).unwrap();
    let far = &world.containers[1];
    assert!(Netlink::open_in(far).unwrap().link(INTERFACE).unwrap().up, "it is left as it was");
    let (code, log) = world.end(Signal::TERM);
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn an_interface_goes_down_and_away_and_comes_back() {
    let mut world = world();
    let mut declared = world.declaration(1);
    declared.ports.push(interface());
    let command = world.command_of(&declared);
    let client = world.start_in(1, command);
    let out = || client.port(&PortName("out".into())).unwrap();
    let note = || out().notes.first().cloned().unwrap_or_default();
    world.greet(0, 2);
    let up = |up| LinkChange { up: Some(up), ..LinkChange::default() };
    let mut netlink = Netlink::open_in(&world.containers[1]).unwrap();
    netlink.change_link(INTERFACE, up(false)).unwrap();
    until(|| out().state == PortState::Down && note().contains("ip link set eth0 up"));
    netlink.change_link(INTERFACE, up(true)).unwrap();
    until(|| out().state == PortState::Up && note().is_empty());
    world.greet(2, 0);

    netlink.delete_link(INTERFACE).unwrap();
    until(|| out().state == PortState::Down && note().contains("waited for"));
    joined::lay_cable([&world.containers[1], &world.containers[2]]).unwrap();
    joined::give_address(&world.containers[2], INTERFACE, "10.9.0.3/24".parse().unwrap()).unwrap();
    until(|| out().state == PortState::Up);
    world.greet(2, 0);
    world.greet(0, 2);
}
