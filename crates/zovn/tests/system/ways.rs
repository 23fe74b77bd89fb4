//! Two hosts whose agents watch the way between them: what becomes of frames when it is cut, and
//! what is told of it.

use std::fs;
use std::iter;
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use api::Client;
use kernel::joined::{self, INTERFACE};
use kernel::netlink::{LinkChange, Netlink};
use kernel::netns::Namespace;
use model::{
    AgentSettings, Attachment, Bfd, BfdState, BfdStatus, Encapsulation, HostConfig, LargeSegments,
    Member, NetworkName, NetworkSpec, PeerState, PeerStatus, PortName, PortSpec, Uplink,
    UplinkStatus,
};
use pcap_file::pcapng::PcapNgReader;
use rustix::process::{Pid, Signal, kill_process};
use units::{ClassSet, Mac, Span};

use crate::common::until;
use crate::overlay::numbered;

/// Two hosts with a cable between them, an agent on each, and a container behind each agent. All of
/// it goes with the test.
struct World {
    directory: tempfile::TempDir,
    prefix: String,
    hosts: [Namespace; 2],
    containers: [Namespace; 2],
    agents: Vec<Child>,
}

fn vtep(host: usize) -> [u8; 4] {
    [192, 0, 2, 1 + host as u8]
}

fn address(host: usize) -> [u8; 4] {
    [10, 0, 0, 1 + host as u8]
}

fn name(host: usize) -> String {
    format!("c{host}")
}

impl World {
    /// The hosts' uplinks are what `uplink` makes of the usual ones, given the host's number.
    fn new(uplink: impl Fn(usize, Uplink) -> Uplink) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("zovn-t-ways-{}-{number}", std::process::id());
        let hosts = joined::two().unwrap();
        let containers = [0, 1].map(|host| Namespace::create(&format!("{prefix}-{host}")).unwrap());
        let directory = tempfile::tempdir().unwrap();
        let mut world = Self { directory, prefix, hosts, containers, agents: Vec::new() };
        for host in 0..2 {
            let [a, b, c, d] = vtep(host);
            let prefix = format!("{a}.{b}.{c}.{d}/24").parse().unwrap();
            joined::give_address(&world.hosts[host], INTERFACE, prefix).unwrap();
            let agent = world.start(host, uplink(host, Uplink::new(IpAddr::from(vtep(host)))));
            world.agents.push(agent);
        }
        for host in 0..2 {
            until(|| {
                assert_eq!(
                    world.agents[host].try_wait().unwrap(),
                    None,
                    "the agent ended at its start"
                );
                world.client(host).ready().unwrap()
            });
        }
        world
    }

    fn start(&self, host: usize, uplink: Uplink) -> Child {
        let member = |host: usize| Member {
            mac: Mac::local(1 + host as u32),
            addresses: vec![address(host).into()],
            vtep: IpAddr::from(vtep(host)).into(),
            label: 1,
        };
        let network = NetworkName("blue".into());
        let [a, b, c, d] = address(host);
        let attach = Attachment::Container {
            netns: format!("{}-{host}", self.prefix),
            interface: INTERFACE.into(),
            mac: Some(Mac::local(1 + host as u32)),
            addresses: vec![format!("{a}.{b}.{c}.{d}/24").parse().unwrap()],
            routes: Vec::new(),
            mtu: Some(1400),
            offload: true,
        };
        let port = PortSpec {
            network: Some(network.clone()),
            label: Some(1),
            ..PortSpec::new(PortName(name(host)), attach)
        };
        let config = HostConfig {
            // However slow the machine is, nobody counts as stalled.
            agent: AgentSettings {
                socket: self.socket(host),
                udp_gate: false,
                stall_after: Span::from_secs(600),
                socket_stall_after: Span::from_secs(600),
                ..AgentSettings::default()
            },
            uplink: Some(uplink),
            networks: vec![NetworkSpec::new(network, 7, vec![member(0), member(1)])],
            ports: vec![port],
            ..HostConfig::default()
        };
        let file = self.directory.path().join(format!("host{host}.toml"));
        fs::write(&file, toml::to_string(&config).unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.arg("agent").arg("-c").arg(file).args(["--log", "warn"]);
        self.hosts[host].run(|| command.spawn()).unwrap().unwrap()
    }

    fn socket(&self, host: usize) -> String {
        self.directory.path().join(format!("{host}/agent.sock")).display().to_string()
    }

    fn client(&self, host: usize) -> Client {
        Client::new(self.socket(host)).unwrap()
    }

    fn uplink(&self, host: usize) -> UplinkStatus {
        let status = self.client(host).status().unwrap();
        assert!(status.balanced, "{:?}", status.ledger);
        status.uplink.unwrap()
    }

    /// What a host says of the other.
    fn peer(&self, host: usize) -> PeerStatus {
        let [peer] = self.uplink(host).peers.try_into().unwrap();
        assert_eq!(
            (peer.vtep, &peer.networks[..]),
            (vtep(1 - host).into(), &[NetworkName("blue".into())][..])
        );
        peer
    }

    /// What it finds of the only way there.
    fn bfd(&self, host: usize) -> Option<BfdStatus> {
        let [path] = self.peer(host).paths.try_into().unwrap();
        assert_eq!(
            [path.local, path.remote],
            [host, 1 - host].map(|host| IpAddr::from(vtep(host)))
        );
        path.bfd
    }

    /// Takes the cable out, or puts it back.
    fn plug(&self, is_in: bool) {
        let change = LinkChange { up: Some(is_in), ..Default::default() };
        Netlink::open_in(&self.hosts[1]).unwrap().change_link(INTERFACE, change).unwrap();
    }

    fn open(&self, host: usize) -> UdpSocket {
        let at = (std::net::Ipv4Addr::from(address(host)), 9000);
        self.containers[host].run(|| UdpSocket::bind(at)).unwrap().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        for host in 0..2 {
            let _ = Namespace::delete(&format!("{}-{host}", self.prefix));
        }
    }
}

/// Sends datagrams with these numbers.
fn send(socket: &UdpSocket, numbers: std::ops::Range<u32>) {
    for number in numbers {
        socket
            .send_to(&number.to_be_bytes(), (std::net::Ipv4Addr::from(address(1)), 9000))
            .unwrap();
    }
}

/// The next datagrams have these numbers, in order, besides greetings.
fn expect(socket: &UdpSocket, numbers: std::ops::Range<u32>) {
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    for number in numbers {
        let mut heard = iter::from_fn(|| hear(socket)).skip_while(|heard| *heard == GREETING);
        assert_eq!(heard.next(), Some(number));
    }
}

/// What comes next, if anything does in time.
fn hear(socket: &UdpSocket) -> Option<u32> {
    let mut bytes = [0; 4];
    socket.recv(&mut bytes).ok().map(|_| u32::from_be_bytes(bytes))
}

/// A new interface drops what is sent by it until the kernel has noticed that it is up: it greets
/// until it is heard.
fn greet(near: &UdpSocket, far: &UdpSocket) {
    far.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    until(|| {
        send(near, GREETING..GREETING + 1);
        hear(far).is_some()
    });
}

const GREETING: u32 = 1 << 31;

/// Frames that are sent while the way is cut wait, and arrive when it works again: with sessions,
/// and without.
fn a_cut_loses_nothing(uplink: impl Fn(usize, Uplink) -> Uplink) {
    let world = World::new(uplink);
    let [near, far] = [0, 1].map(|host| world.open(host));
    greet(&near, &far);
    until(|| {
        [0, 1].iter().all(|host| world.bfd(*host).is_some_and(|bfd| bfd.state == BfdState::Up))
    });
    send(&near, 0..20);
    expect(&far, 0..20);
    until(|| world.peer(0).state == PeerState::Up);

    world.plug(false);
    until(|| world.peer(0).state == PeerState::Down);
    let bfd = world.bfd(0).unwrap();
    assert_eq!((bfd.state, &*bfd.diagnostic), (BfdState::Down, "detection_time_expired"));
    let unsent = world.uplink(0).send_errors;
    send(&near, 20..40);
    // What the container's kernel says to all its neighbours may wait as well.
    until(|| world.peer(0).egress.held >= 20);

    world.plug(true);
    expect(&far, 20..40);
    until(|| world.peer(0).egress.held == 0 && world.peer(0).state == PeerState::Up);
    let peer = world.peer(0);
    assert_eq!(peer.egress.refused_total(), 0, "{peer:?}");
    if peer.session.is_none() {
        assert_eq!(world.uplink(0).send_errors, unsent, "nothing was sent into the void");
    }
    let metrics = world.client(0).metrics().unwrap();
    assert!(
        metrics.contains("zovn_peer_path_up{peer=\"192.0.2.2\",path=\"192.0.2.2\"} 1\n"),
        "{metrics}"
    );
}

#[test]
fn what_is_sent_into_a_cut_waits_and_arrives() {
    a_cut_loses_nothing(|_, uplink| uplink);
}

#[test]
fn what_nobody_sends_again_is_not_sent_into_a_cut() {
    a_cut_loses_nothing(|_, uplink| Uplink {
        encapsulation: Encapsulation::Vxlan,
        retransmit: ClassSet::NONE,
        credit: ClassSet::NONE,
        ..uplink
    });
}

#[test]
fn a_host_that_does_not_speak_bfd_is_reached() {
    let world = World::new(|host, uplink| Uplink { bfd: (host == 0).then(Bfd::default), ..uplink });
    let [near, far] = [0, 1].map(|host| world.open(host));
    greet(&near, &far);
    send(&near, 0..20);
    expect(&far, 0..20);
    until(|| world.peer(0).session.unwrap().outstanding == 0);
    let peer = world.peer(0);
    assert_eq!((peer.state, world.bfd(0).unwrap().state), (PeerState::Up, BfdState::Down));
    let session = peer.session.unwrap();
    assert!(session.is_established && session.sent >= 20 && session.rtt.is_some(), "{session:?}");
    assert_eq!(world.bfd(1), None);
}

/// Carries so many bytes each way between the containers, and says how many large segments went
/// through the first host's device for them.
fn carry(world: &World, bytes: usize) -> u64 {
    // A port of its own each time: a process that another test is about to start may still have the
    // last listener.
    let any = (std::net::Ipv4Addr::from(address(1)), 0);
    let listener = world.containers[1].run(|| TcpListener::bind(any)).unwrap().unwrap();
    let at = listener.local_addr().unwrap();
    let near = world.containers[0].run(|| TcpStream::connect(at)).unwrap().unwrap();
    let (far, _) = listener.accept().unwrap();
    let count = || {
        let mut netlink = Netlink::open_in(&world.hosts[0]).unwrap();
        netlink.link("zovn-up0").map_or(0, |link| link.counters.rx_packets)
    };
    let before = count();
    numbered::exchange(&[near, far], bytes);
    assert!(world.peer(0).refused.values().all(|count| *count == 0));
    count() - before
}

/// What the first host says becomes of large segments, and how many went whole.
fn large_segments(world: &World) -> (LargeSegments, u64) {
    let peer = world.peer(0);
    let [path] = peer.paths.try_into().unwrap();
    (path.large_segments.unwrap(), peer.session.unwrap().sent_large)
}

/// Large segments go whole where the card on their way cuts them, and in parts from when it does
/// not.
#[test]
fn large_segments_go_whole_as_far_as_a_card_that_cuts_them() {
    let world = World::new(|_, uplink| uplink);
    let went = carry(&world, 30_000_000);
    assert!(went > 300, "{went} large segments of 30 MB");
    // Where they are late, there may be a pause.
    until(|| large_segments(&world) == (LargeSegments::Nic, went));

    kernel::ethtool::leave_cutting_to_kernel(&world.hosts[0], INTERFACE).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(carry(&world, 3_000_000), 0);
    let reason = format!("{INTERFACE} does not cut what tunnels carry (ethtool -k {INTERFACE})");
    assert_eq!(large_segments(&world), (LargeSegments::Parts { reason }, went));
}

/// Who captures is told of them, too, though they wait for nothing else.
#[test]
fn a_capture_has_each_large_segment() {
    let world = World::new(|_, uplink| uplink);
    assert!(carry(&world, 3_000_000) > 0);
    let file = world.directory.path().join("captured.pcapng");
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args([
        "capture",
        "--uplink",
        "--direction",
        "out",
        "--snap",
        "64",
        "--socket",
        &world.socket(0),
        "-w",
    ]);
    let mut capture = command.arg(&file).stderr(Stdio::null()).spawn().unwrap();
    until(|| fs::metadata(&file).is_ok_and(|file| file.len() > 0));
    let went = carry(&world, 3_000_000) as usize;
    assert!(went > 0);
    let large = || {
        let mut blocks = PcapNgReader::new(fs::File::open(&file).unwrap()).unwrap();
        let mut large = 0;
        // The last block may be underway.
        while let Some(Ok(block)) = blocks.next_block() {
            let packet = block.0.into_enhanced_packet();
            large += usize::from(packet.is_some_and(|packet| packet.original_len > 1_514));
        }
        large
    };
    until(|| large() >= went);
    kill_process(Pid::from_child(&capture), Signal::INT).unwrap();
    assert!(capture.wait().unwrap().success());
    assert_eq!(large(), went);
    assert!(carry(&world, 3_000_000) > 0);
}

/// A host that lets nothing pass that it would have to forward loses nothing by that, and is asked
/// ever less often to.
#[test]
fn a_host_that_forwards_nothing_sends_parts() {
    let world = World::new(|_, uplink| uplink);
    let strict = || fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "1");
    world.hosts[0].run(strict).unwrap().unwrap();
    let went = carry(&world, 30_000_000);
    assert!((1..20).contains(&went), "{went} large segments");
    assert!(world.peer(0).session.unwrap().retransmitted >= went);
    // The more were lost, the longer none is sent.
    let reason = "the last ones were lost on the way, or are late".to_owned();
    until(|| {
        carry(&world, 3_000_000);
        large_segments(&world).0 == LargeSegments::Parts { reason: reason.clone() }
    });
}
