//! A machine's TCP and UDP through a router that hides it behind another address, which is at the
//! machine's host, at the server's, or at a third: kernels leave checksums and segments to their
//! cards, and what they say is right at the far kernel.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use api::Condition;
use kernel::netns::Namespace;
use model::{Attachment, ConnectionState, PortName, PortSpec, PortState, RouteSpec};
use units::Rng;

use super::world::{LONG, Machine, Plan, World};
use crate::common::until;

const NETWORK: &str = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: ExternalPool, metadata: {name: p}, spec: {prefixes: [10.0.1.0/24], tenants: [t]}}
- {kind: TransportNode, metadata: {name: h0}, spec: {vteps: [192.168.0.1]}}
- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.168.0.2]}}
- {kind: TransportNode, metadata: {name: h2}, spec: {vteps: [192.168.0.3]}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/24]}}
- {kind: LogicalSwitch, metadata: {name: u, tenant: t}, spec: {subnets: [10.0.1.0/24]}}
- {kind: LogicalPort, metadata: {name: a, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:01', addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: b, tenant: t}, spec: {switch: u, vif: {}, mac: '02:00:00:00:00:02', addresses: [10.0.1.2]}}
- {kind: Binding, metadata: {name: a}, spec: {port: t/a, node: h0}}
- {kind: Binding, metadata: {name: b}, spec: {port: t/b, node: h2}}
- {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {}}
- {kind: RouterPort, metadata: {name: rs, tenant: t}, spec: {router: r, mac: '02:00:00:00:01:00', addresses: [10.0.0.254/24]}}
- {kind: RouterPort, metadata: {name: ru, tenant: t}, spec: {router: r, mac: '02:00:00:00:01:01', addresses: [10.0.1.254/24], gateway: {nodes: [{node: HOME, priority: 1}]}}}
- {kind: LogicalPort, metadata: {name: sr, tenant: t}, spec: {switch: s, router: {routerPort: rs}}}
- {kind: LogicalPort, metadata: {name: ur, tenant: t}, spec: {switch: u, router: {routerPort: ru}}}
- {kind: Nat, metadata: {name: n, tenant: t}, spec: {kind: snat, router: r, external: 10.0.1.100, logical: 10.0.0.0/24}}
";

/// Machines of a network of the older kind: a host each.
const PLAIN: [Machine; 3] =
    [Machine::new(0, "blue", 1), Machine::new(1, "blue", 2), Machine::new(2, "blue", 3)];

/// The client and the server: name, host, address.
const ENDS: [(&str, usize, [u8; 4]); 2] = [("a", 0, [10, 0, 0, 1]), ("b", 2, [10, 0, 1, 2])];
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// What the server sees in place of the client.
const HIDDEN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, 100));

/// How much is asked for, and told: too much for any buffer on the way.
const BYTES: usize = 5 << 20;

struct Net {
    world: World,
    names: Vec<String>,
    containers: Vec<Namespace>,
}

impl Net {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let world = World::new(Plan::new(&PLAIN));
        let mut net = Self { world, names: Vec::new(), containers: Vec::new() };
        for (end, ..) in ENDS {
            let name = format!("zovn-t-nat-{}-{number}-{end}", std::process::id());
            net.containers.push(Namespace::create(&name).unwrap());
            net.names.push(name);
        }
        net
    }

    /// All hosts are told that the router is at this one.
    fn apply(&self, home: usize) {
        let source = logical::read(&NETWORK.replace("HOME", &format!("h{home}")));
        assert!(source.faults.is_empty(), "{:?}", source.faults);
        for host in 0..PLAIN.len() {
            let client = self.world.client(host);
            client.apply_if(Condition::default(), &source.objects).unwrap();
        }
    }

    fn attach(&self, end: usize, offload: bool) {
        let (name, host, [a, b, c, d]) = ENDS[end];
        let via = Some([a, b, c, 254].into());
        let attach = Attachment::Container {
            netns: self.names[end].clone(),
            interface: "eth0".into(),
            mac: None,
            addresses: vec![format!("{a}.{b}.{c}.{d}/24").parse().unwrap()],
            routes: vec![RouteSpec { to: "0.0.0.0/0".parse().unwrap(), via }],
            mtu: None,
            offload,
        };
        let port = PortSpec::new(PortName(name.into()), attach);
        let client = self.world.client(host);
        let logical = format!("t/{name}").parse().ok();
        client.attach(&PortSpec { logical, ..port }).unwrap();
        until(|| {
            let status = client.port(&PortName(name.into())).unwrap();
            status.state == PortState::Up
                && status.logical_state.is_some_and(|it| it.realized.is_some())
        });
    }

    fn detach(&self, end: usize) {
        let (name, host, _) = ENDS[end];
        self.world.client(host).detach(&PortName(name.into())).unwrap();
    }

    /// The client asks the server as a browser does: it tells much, and has as much told.
    fn fetch(&self, seed: u64) {
        let at = SocketAddr::from((ENDS[SERVER].2, 80));
        let mut rng = Rng::new(seed);
        let [question, page]: [Vec<u8>; 2] =
            [(); 2].map(|()| (0..BYTES).map(|_| rng.below(256) as u8).collect());
        let listener = self.containers[SERVER].run(|| TcpListener::bind(at)).unwrap().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (stream, peer) = listener.accept().unwrap();
                assert_eq!(peer.ip(), HIDDEN, "whom the server sees");
                stream.set_read_timeout(Some(LONG)).unwrap();
                let mut reader = BufReader::new(&stream);
                let (mut line, mut got) = (String::new(), vec![0; BYTES]);
                reader.read_line(&mut line).unwrap();
                assert_eq!(line, format!("POST / {BYTES}\r\n"));
                reader.read_exact(&mut got).unwrap();
                assert!(got == question, "what came to the server is something else");
                write!(&stream, "200 {BYTES}\r\n").unwrap();
                (&stream).write_all(&page).unwrap();
            });
            let connect = || TcpStream::connect_timeout(&at, LONG);
            let stream = self.containers[CLIENT].run(connect).unwrap().unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            write!(&stream, "POST / {BYTES}\r\n").unwrap();
            (&stream).write_all(&question).unwrap();
            let mut reader = BufReader::new(&stream);
            let (mut line, mut got) = (String::new(), Vec::new());
            reader.read_line(&mut line).unwrap();
            assert_eq!(line, format!("200 {BYTES}\r\n"));
            let told = self.world.client(ENDS[CLIENT].1);
            let told = told.connections(&PortName("t/a".into()), 10, None).unwrap().connections;
            let is_this = |it: &&model::Connection| it.ends.destination_port == 80;
            let states = told.iter().filter(is_this).map(|it| it.state);
            assert!(states.clone().any(|it| it == ConnectionState::Established), "{told:?}");
            reader.read_to_end(&mut got).unwrap();
            assert!(got == page, "what came back is something else");
        });
    }

    /// The client asks by UDP, and hears one answer.
    fn ask(&self) {
        let bind = |end: usize, port| {
            let at = SocketAddr::from((ENDS[end].2, port));
            let socket = self.containers[end].run(|| UdpSocket::bind(at)).unwrap().unwrap();
            socket.set_read_timeout(Some(LONG)).unwrap();
            socket
        };
        let (server, client) = (bind(SERVER, 7), bind(CLIENT, 0));
        client.send_to(b"question", SocketAddr::from((ENDS[SERVER].2, 7))).unwrap();
        let mut got = [0; 16];
        let (len, from) = server.recv_from(&mut got).unwrap();
        assert_eq!((&got[..len], from.ip()), (&b"question"[..], HIDDEN));
        server.send_to(b"answer", from).unwrap();
        let (len, from) = client.recv_from(&mut got).unwrap();
        assert_eq!((&got[..len], from.ip()), (&b"answer"[..], IpAddr::from(ENDS[SERVER].2)));
    }

    /// How many segments and datagrams a machine's kernel got whose checksums were wrong.
    fn wrong(&self, end: usize) -> u64 {
        let read = || fs::read_to_string("/proc/thread-self/net/snmp");
        let text = self.containers[end].run(read).unwrap().unwrap();
        let lines: Vec<_> = text.lines().collect();
        let pairs = lines.chunks_exact(2).flat_map(|pair| {
            let [names, values] = [pair[0], pair[1]].map(|it| it.split_whitespace().skip(1));
            names.zip(values)
        });
        let wrong = pairs.filter(|(name, _)| *name == "InCsumErrors");
        wrong.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
    }

    /// How many bytes a machine's interface has sent in a frame: more than a packet has, if its
    /// kernel leaves segments to the card.
    fn mean_sent(&self, end: usize) -> u64 {
        let read = || fs::read_to_string("/proc/thread-self/net/dev");
        let text = self.containers[end].run(read).unwrap().unwrap();
        let line = text.lines().find(|line| line.trim_start().starts_with("eth0:")).unwrap();
        let numbers: Vec<u64> =
            line.split_whitespace().skip(1).map(|it| it.parse().unwrap()).collect();
        numbers[8] / numbers[9].max(1)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Namespace::delete(name);
        }
    }
}

#[test]
fn what_kernels_leave_to_their_cards_is_right_behind_a_router_that_hides_one() {
    let net = Net::new();
    // Who has no offloads verifies each checksum, and cuts its own segments.
    for (number, [client, server]) in
        [[true, false], [false, true], [true, true]].iter().enumerate()
    {
        net.apply(1);
        net.attach(CLIENT, *client);
        net.attach(SERVER, *server);
        // The router is at a third host, at the client's, and at the server's.
        for home in [1, 0, 2] {
            net.apply(home);
            net.fetch(number as u64 * 3 + home as u64);
            net.ask();
        }
        for (end, offload) in [(CLIENT, client), (SERVER, server)] {
            assert_eq!(net.wrong(end), 0, "{:?}", ENDS[end]);
            let mean = net.mean_sent(end);
            assert!(!offload || mean > 1514, "{:?} sent {mean} bytes a frame", ENDS[end]);
            net.detach(end);
        }
    }
    net.world.assert_balanced();
}
