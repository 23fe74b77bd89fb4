//! A provider's network: a machine that no host of ours has, behind an interface of the host.

use kernel::joined::{self, INTERFACE};
use kernel::netlink::{LinkChange, Netlink};
use kernel::packet;
use model::NeighbourState;
use units::Mac;

use super::*;

const OUTSIDE: &str = include_str!("../../../../../examples/outside.yaml");

/// The tenant's machine, the agent's host, and the machine outside: by their containers.
const VM: usize = 0;
const HOST: usize = 1;
const FAR: usize = 2;

const FAR_MAC: Mac = Mac([2, 0, 0, 0, 9, 9]);

/// A port of the host's interface that stands for the provider's network in a VLAN.
fn provider(name: &str, vlan: u16) -> PortSpec {
    let attach = Attachment::Interface { interface: INTERFACE.into(), vlan: Some(vlan), mtu: None };
    let port = PortSpec::new(PortName(name.into()), attach);
    PortSpec { logical: format!("ops/{name}").parse().ok(), ..port }
}

/// All of it, with the example applied.
fn world(out: PortSpec) -> World {
    let mut world = World::new();
    let [_, host, far] = &world.containers[..] else { unreachable!("there are three") };
    joined::lay_cable([host, far]).unwrap();
    let mac = LinkChange { mac: Some(FAR_MAC), ..LinkChange::default() };
    Netlink::open_in(far).unwrap().change_link(INTERFACE, mac).unwrap();
    joined::give_address(far, INTERFACE, "198.51.100.9/24".parse().unwrap()).unwrap();
    let machine = Machine { name: "web-1", address: [10, 0, 1, 1], router: [10, 0, 1, 254] };
    let vm = PortSpec { logical: "ops/vm".parse().ok(), ..world.port(&machine) };
    world.start_with(vec![vm, out, provider("out-7", 7)], Some(HOST));
    said(world.apply(OUTSIDE, &[]));
    until(|| world.status(VM).state == PortState::Up);
    world
}

fn port(world: &World, name: &str) -> PortStatus {
    world.client().port(&PortName(name.into())).unwrap()
}

/// So many bytes from one machine to an address at another, and back. Returns who the client is to
/// the server.
fn talk(from: &Namespace, at: &Namespace, listens: &str, to: &str, bytes: usize) -> SocketAddr {
    let listener = bound(at, || TcpListener::bind(listens));
    let sent: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let (mut stream, client) = listener.accept().unwrap();
            let mut got = vec![0; bytes];
            stream.read_exact(&mut got).unwrap();
            stream.write_all(&got).unwrap();
            client
        });
        let to: SocketAddr = to.parse().unwrap();
        let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(30));
        let mut stream = from.run(connect).unwrap().unwrap();
        stream.write_all(&sent).unwrap();
        let mut got = vec![0; bytes];
        stream.read_exact(&mut got).unwrap();
        assert!(got == sent, "what came back is something else");
        server.join().unwrap()
    })
}

#[test]
fn a_machine_and_a_physical_network_reach_each_other_by_a_floating_address() {
    let world = world(provider("out", 0));
    let [vm, far] = [&world.containers[VM], &world.containers[FAR]];
    assert!(world.pings(VM, [198, 51, 100, 9]), "to the outside");
    assert!(world.pings(FAR, [198, 51, 100, 50]), "from the outside");
    assert!(world.pings(FAR, [198, 51, 100, 1]), "the router");
    let client = talk(vm, far, "198.51.100.9:7", "198.51.100.9:7", 8 << 20);
    assert_eq!(client.ip().to_string(), "198.51.100.50");
    let client = talk(far, vm, "10.0.1.1:7", "198.51.100.50:7", 8 << 20);
    assert_eq!(client.ip().to_string(), "198.51.100.9");

    let known = world.client().status().unwrap().logical.unwrap().neighbours;
    let [known] = &known[..] else { panic!("one is known: {known:?}") };
    assert_eq!((known.mac, known.state), (Some(FAR_MAC), NeighbourState::Reachable));
    let out = port(&world, "out");
    assert!(out.logical_state.unwrap().realized.is_some() && out.notes.is_empty());
    until(|| port(&world, "out").missed == Some(0));
    let shown = said(world.run(&["get", "logical"]));
    assert!(shown.lines().any(|line| line.starts_with("ops/out ")), "{shown}");
    let status = world.client().status().unwrap();
    assert!(status.balanced && status.ledger.balances(), "{status:?}");
}

/// Asks from the outside, in a VLAN, who has the address of the router's port there.
fn question(vlan: u16) -> Vec<u8> {
    let [from, to] = [[203, 0, 113, 9], [203, 0, 113, 1]];
    let tag = [[0x81, 0], vlan.to_be_bytes()].concat();
    // RFC 826: of Ethernet and IPv4, a request.
    let fixed = [0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1];
    let mac = FAR_MAC.0;
    [&[0xff; 6][..], &mac, &tag, &fixed, &mac, &from, &[0; 6], &to].concat()
}

#[test]
fn vlans_of_an_interface_are_ports_of_different_switches() {
    let world = world(provider("out", 0));
    let far = &world.containers[FAR];
    let link = Netlink::open_in(far).unwrap().index(INTERFACE).unwrap();
    let wire = far.run(|| packet::tap(link)).unwrap().unwrap();
    let send = |frame: &[u8]| {
        rustix::net::send(&wire, frame, rustix::net::SendFlags::empty()).unwrap();
    };
    // In VLAN 8 nobody of ours is.
    let mut answers = Vec::new();
    until(|| {
        [8, 7].iter().for_each(|vlan| send(&question(*vlan)));
        while let Some(frame) = packet::receive(&wire).unwrap() {
            let is_answer = frame[..6] == FAR_MAC.0 && frame[16..18] == [0x08, 0x06];
            answers.extend(is_answer.then_some(frame));
        }
        !answers.is_empty()
    });
    for answer in answers {
        assert_eq!(answer[6..12], [2, 0, 0, 0, 7, 1], "it is the router's");
        assert_eq!(answer[12..16], [0x81, 0, 0, 7], "in its VLAN");
        assert_eq!(answer[24..26], [0, 2], "a reply");
    }
    assert!(port(&world, "out-7").notes.is_empty());
}

#[test]
fn a_port_of_another_vlan_than_its_switchs_says_so() {
    let world = world(provider("out", 8));
    let notes = port(&world, "out").notes.concat();
    assert!(notes.contains("stands for VLAN 0") && notes.contains("`vlan = 0`"), "{notes}");
}
