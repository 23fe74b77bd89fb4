//! Ports that are in some VLANs alone, held against 802.1Q, and against a Linux bridge with
//! `vlan_filtering` where the kernel has one (CONFIG_BRIDGE_VLAN_FILTERING).

use std::io::IoSlice;

use kernel::tun::Device;
use model::VlanMembership;
use wire::ethernet::{self, Tag};

use super::*;

/// The header that each frame of a device begins with.
const HEADER: usize = 12;

/// What frames carry: an EtherType for experiments (IEEE 802).
const EXPERIMENT: u16 = 0x88b5;

/// Each port's VLANs: as we declare them, and as `bridge vlan add` does.
fn ports() -> [(VlanMembership, &'static [&'static str]); 4] {
    let access = |vlan| VlanMembership { access: Some(vlan), ..VlanMembership::default() };
    let trunk =
        |trunk: &[u16], native| VlanMembership { access: None, trunk: trunk.into(), native };
    [
        (access(7), &["vid 7 pvid untagged"]),
        (access(8), &["vid 8 pvid untagged"]),
        (trunk(&[7, 8], None), &["vid 7", "vid 8"]),
        (trunk(&[8], Some(7)), &["vid 8", "vid 7 pvid untagged"]),
    ]
}

/// Machines with a port each, and each with its own Ethernet address.
type Machines = Vec<Device>;

fn mac(place: usize) -> Mac {
    Mac::local(0x70 + place as u32)
}

fn frame(from: usize, to: Mac, vlan: Option<u16>) -> Vec<u8> {
    let tag = vlan.map(|vlan| Tag { class: Default::default(), vlan });
    let tag = tag.map(|tag| [ethernet::ethertype::VLAN, tag.tci()].map(u16::to_be_bytes));
    let tag = tag.iter().flatten().flatten().copied();
    let rest = EXPERIMENT.to_be_bytes().into_iter().chain([0xaa; 60]);
    to.0.into_iter().chain(mac(from).0).chain(tag).chain(rest).collect()
}

/// The VLANs of the tags of what a machine has got from another's address since it was last asked.
fn got(machine: &Device, from: usize) -> Vec<Option<u16>> {
    let mut buffer = [0; 2048];
    let read =
        || rustix::io::read(machine, &mut buffer[..]).ok().map(|len| buffer[HEADER..len].to_vec());
    let ours = |frame: Vec<u8>| {
        let header = ethernet::peek(&frame).unwrap();
        (header.source() == mac(from)).then(|| header.tag().map(|tag| tag.vlan))
    };
    std::iter::from_fn(read).filter_map(ours).collect()
}

/// What each other machine sees of a frame.
type Seen = Vec<Vec<Option<u16>>>;

/// A frame: who sends it, to whom if it is not for all, and the VLAN of its tag.
type Sent = (usize, Option<usize>, Option<u16>);

/// To all and to each, with each tag and without.
fn frames() -> impl Iterator<Item = Sent> {
    let to = [None].into_iter().chain((0..4).map(Some));
    let pairs = to.flat_map(|to| (0..4).map(move |from| (from, to)));
    pairs.filter(|(from, to)| Some(*from) != *to).flat_map(|(from, to)| {
        [None, Some(0), Some(7), Some(8), Some(9)].map(|vlan| (from, to, vlan))
    })
}

/// What is seen of all these frames, one after the other. `arrived` returns when one from this port
/// has reached whom it is for.
fn seen(machines: &Machines, arrived: impl Fn(usize)) -> Vec<(Sent, Seen)> {
    let send = |(from, to, vlan): Sent| {
        let frame = frame(from, to.map_or(Mac::BROADCAST, mac), vlan);
        let header = [0; HEADER];
        machines[from].write_slices(&[IoSlice::new(&header), IoSlice::new(&frame)]).unwrap();
        arrived(from);
        others(from).map(|place| got(&machines[place], from)).collect()
    };
    frames().map(|sent| (sent, send(sent))).collect()
}

fn others(from: usize) -> impl Iterator<Item = usize> {
    (0..4).filter(move |place| *place != from)
}

/// What is to be seen of a frame (802.1Q §6.9, §8.6). Each machine has been heard in each of its
/// VLANs.
fn expected((from, to, vlan): Sent) -> Seen {
    let ports = ports().map(|(vlans, _)| vlans);
    let untagged = |place: usize| ports[place].access.or(ports[place].native);
    let carries =
        |place: usize, vlan| untagged(place) == Some(vlan) || ports[place].trunk.contains(&vlan);
    let vlan = match vlan {
        None | Some(0) => untagged(from),
        Some(vlan) => Some(vlan).filter(|vlan| carries(from, *vlan)),
    };
    let Some(vlan) = vlan else { return vec![vec![]; 3] };
    let is_for = |place| to.is_none_or(|to| to == place || !carries(to, vlan));
    let seen = |place| match carries(place, vlan) && is_for(place) {
        true => vec![Some(vlan).filter(|vlan| untagged(place) != Some(*vlan))],
        false => vec![],
    };
    others(from).map(seen).collect()
}

fn run(program: &str, words: &str) {
    let output = Command::new(program).args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "{program} {words}: {output:?}");
}

/// In a namespace nobody speaks but we.
fn hush(namespace: &Namespace) {
    let set = || fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    namespace.run(set).unwrap().unwrap();
}

/// A device that a test has in a namespace, up.
fn device(namespace: &Namespace, name: &str, link: &str) -> Device {
    let (device, _) = namespace.run(|| Device::open(link, HEADER)).unwrap().unwrap();
    run("ip", &format!("-n {name} link set {link} up"));
    device
}

/// Machines at a bridge that filters VLANs, if the kernel has one.
fn at_bridge(namespace: &Namespace, name: &str) -> Option<Machines> {
    hush(namespace);
    let words = format!("-n {name} link add br0 type bridge vlan_filtering 1 vlan_default_pvid 0");
    if !Command::new("ip").args(words.split(' ')).output().unwrap().status.success() {
        return None;
    }
    run("ip", &format!("-n {name} link set br0 up"));
    let machine = |(place, (_, vlans)): (usize, (_, &[&str]))| {
        let link = format!("m{place}");
        let machine = device(namespace, name, &link);
        run("ip", &format!("-n {name} link set {link} master br0"));
        for words in vlans {
            run("bridge", &format!("-n {name} vlan add dev {link} {words}"));
        }
        machine
    };
    Some(ports().into_iter().enumerate().map(machine).collect())
}

#[test]
fn frames_look_as_at_a_bridge_that_filters_vlans() {
    let expected: Vec<_> = frames().map(|sent| (sent, expected(sent))).collect();
    let other = World::new(1);
    if let Some(machines) = at_bridge(&other.containers[0], &other.container(0)) {
        assert_eq!(seen(&machines, |_| {}), expected);
    }
    // Behind the switch's ports, bridges that look at no tag and learn nothing pass everything on.
    let mut world = World::new(4);
    world.containers.iter().for_each(hush);
    let client = world.start(0);
    let machines = ports().into_iter().enumerate().map(|(place, (vlan, _))| {
        let spec = PortSpec { vlan: Some(vlan), ..world.port(place) };
        client.attach(&spec).unwrap();
        let name = world.container(place);
        let machine = device(&world.containers[place], &name, "m0");
        run("ip", &format!("-n {name} link add br0 type bridge ageing_time 0"));
        run("ip", &format!("-n {name} link set br0 up"));
        run("ip", &format!("-n {name} link set eth0 master br0"));
        run("ip", &format!("-n {name} link set m0 master br0"));
        machine
    });
    let machines: Machines = machines.collect();
    let accepted = |place| client.port(&name(place)).unwrap().ingress.total.accepted;
    let sent = std::cell::RefCell::new([0, 1, 2, 3].map(accepted));
    let at_switch = seen(&machines, |from| {
        let expected = &mut sent.borrow_mut()[from];
        *expected += 1;
        until(|| accepted(from) >= *expected && client.status().unwrap().ledger.held == 0);
    });
    assert_eq!(at_switch, expected);
    assert!(balanced(&client.status().unwrap()));
}

#[test]
fn an_address_may_be_in_each_vlan_and_a_port_stays_in_its_own() {
    let mut world = World::new(4);
    let client = world.start(0);
    for (place, address, vlan) in [(0, 1, 7), (1, 2, 7), (2, 1, 8), (3, 2, 8)] {
        let netns = world.container(place);
        let address = format!("10.9.1.{address}/24");
        let (port, vlan) = (format!("v{place}"), format!("{vlan}"));
        let words = ["attach", &port, "--netns", &netns, "--address", &address, "--vlan", &vlan];
        let socket = world.socket();
        let zovn = Command::new(env!("CARGO_BIN_EXE_zovn"))
            .args(words)
            .arg("--socket")
            .arg(&socket)
            .output()
            .unwrap();
        assert!(zovn.status.success(), "{zovn:?}");
    }
    for (place, to) in [(0, 1), (2, 3)] {
        let ping = || Command::new("ping").args(["-c1", "-W9", "10.9.1.2"]).output().unwrap();
        assert!(world.containers[place].run(ping).unwrap().status.success());
        let heard = client.port(&PortName(format!("v{to}"))).unwrap();
        assert!(heard.egress.total.delivered > 0, "{heard:?}");
    }
    let of = |place: usize| client.port(&PortName(format!("v{place}"))).unwrap();
    let vlan = |place| of(place).vlan.unwrap().access;
    assert_eq!([0, 1, 2, 3].map(vlan), [7, 7, 8, 8].map(Some));
    let answer = world.ask("PATCH /v1/ports/v0", r#"{"vlan": {"access": 8}}"#);
    assert!(answer.starts_with("HTTP/1.1 422"), "{answer}");
    assert!(answer.contains("`vlan` stays while a port is attached: detach"), "{answer}");
    let attach = serde_json::to_string(&of(0).attach).unwrap();
    let body = format!(r#"{{"name": "v0", "attach": {attach}, "vlan": {{"access": 8}}}}"#);
    let answer = world.ask("PUT /v1/ports/v0", &body);
    assert!(answer.starts_with("HTTP/1.1 409"), "{answer}");
    assert!(answer.contains("`vlan`, which stays"), "{answer}");
    let trace = model::TraceSpec {
        port: PortName("v2".into()),
        to: Some("10.9.1.2".into()),
        class: None,
        size: 60,
        vlan: None,
        may_fragment: false,
        udp: None,
    };
    let verdict = client.trace(&trace).unwrap().verdict;
    assert!(verdict.contains("v3"), "{verdict}");
}
