//! A tenant's two-tier network on two hosts, whose agents have the same file: what it says holds
//! between them.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use api::Condition;
use kernel::netns::Namespace;
use logical::objects::Object;
use model::{Attachment, PortName, PortSpec, PortState, RouteSpec};

use super::world::{LONG, Machine, Plan, World, run, udp};
use crate::common::{bound, until};

pub const SHOP: &str = include_str!("../../../../../examples/shop.yaml");

/// Rules beside those of the example, and where its machines are.
const MORE: &str = "
    - {name: ping, direction: toPort, action: allow, services: [{protocol: icmp}]}
---
- {kind: TransportNode, metadata: {name: h0}, spec: {vteps: [VTEP0]}}
- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [VTEP1]}}
- {kind: Binding, metadata: {name: web-1}, spec: {port: shop/web-1, node: h0}}
- {kind: Binding, metadata: {name: web-2}, spec: {port: shop/web-2, node: h1}}
- {kind: Binding, metadata: {name: db-1}, spec: {port: shop/db-1, node: h1}}
";

/// What is beside these if the router has a host of its own, where it gives web servers another
/// address.
const EDGE: &str = "
- {kind: TransportNode, metadata: {name: h2}, spec: {vteps: [VTEP2]}}
- {kind: ExternalPool, metadata: {name: outside}, spec: {prefixes: [10.0.2.0/24], tenants: [shop]}}
- {kind: Nat, metadata: {name: out, tenant: shop}, spec: {kind: snat, router: edge, external: 10.0.2.100, logical: 10.0.1.0/24}}
";

/// A container: its host, its address, and its router's.
pub struct Container {
    pub name: &'static str,
    pub host: usize,
    pub address: [u8; 4],
    router: [u8; 4],
}

pub const CONTAINERS: [Container; 3] = [
    Container { name: "web-1", host: 0, address: [10, 0, 1, 1], router: [10, 0, 1, 254] },
    Container { name: "web-2", host: 1, address: [10, 0, 1, 2], router: [10, 0, 1, 254] },
    Container { name: "db-1", host: 1, address: [10, 0, 2, 1], router: [10, 0, 2, 254] },
];
pub const WEB: usize = 0;
pub const OTHER: usize = 1;
pub const DB: usize = 2;

/// Hosts, the first two with the tenant's containers; all of it goes with the test.
pub struct Shop {
    pub world: World,
    names: Vec<String>,
    containers: Vec<Namespace>,
}

impl Shop {
    /// On the hosts that these machines of a network of the older kind are on.
    fn beside(plain: &[Machine]) -> Self {
        Self::on(Plan::new(plain))
    }

    /// On hosts of this kind.
    pub fn on(plan: Plan) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let world = World::new(plan);
        let mut shop = Self { world, names: Vec::new(), containers: Vec::new() };
        for container in &CONTAINERS {
            let name = format!("zovn-t-two-{}-{number}-{}", std::process::id(), container.name);
            shop.containers.push(Namespace::create(&name).unwrap());
            shop.names.push(name);
        }
        shop
    }

    pub fn text(&self) -> String {
        let more = MORE.replace("VTEP0", &self.world.vtep(0).to_string());
        SHOP.trim_end().to_owned() + &more.replace("VTEP1", &self.world.vtep(1).to_string())
    }

    /// All hosts are told this.
    pub fn apply(&self, text: &str) {
        (0..self.world.hosts()).for_each(|host| self.apply_at(host, text));
    }

    /// One host is told this.
    pub fn apply_at(&self, host: usize, text: &str) {
        let source = logical::read(text);
        assert!(source.faults.is_empty(), "{:?}", source.faults);
        let objects: Vec<Object> = source.objects;
        self.world.client(host).apply_if(Condition::default(), &objects).unwrap();
    }

    pub fn attach(&self) {
        (0..CONTAINERS.len()).for_each(|number| self.attach_one(number));
    }

    /// Attaches a container's port to its host.
    pub fn attach_one(&self, number: usize) {
        let Container { host, router, .. } = CONTAINERS[number];
        let routes = vec![RouteSpec { to: "0.0.0.0/0".parse().unwrap(), via: Some(router.into()) }];
        self.attach_at(host, number, "eth0", routes);
    }

    /// Attaches a container's port to a host, by an interface of this name.
    pub fn attach_at(&self, host: usize, number: usize, interface: &str, routes: Vec<RouteSpec>) {
        let Container { name, address: [a, b, c, d], .. } = CONTAINERS[number];
        let attach = Attachment::Container {
            netns: self.names[number].clone(),
            interface: interface.into(),
            mac: None,
            addresses: vec![format!("{a}.{b}.{c}.{d}/24").parse().unwrap()],
            routes,
            mtu: None,
            offload: true,
        };
        let port = PortSpec::new(PortName(name.into()), attach);
        let logical = format!("shop/{name}").parse().ok();
        let client = self.world.client(host);
        client.attach(&PortSpec { logical, ..port }).unwrap();
        until(|| {
            let status = client.port(&PortName(name.into())).unwrap();
            status.state == PortState::Up
                && status.logical_state.is_some_and(|it| it.realized.is_some())
        });
    }

    /// What a program prints that runs in a container.
    pub fn run(&self, number: usize, words: &[&str]) -> String {
        let output = run(&self.containers[number], words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn pings(&self, from: usize, to: [u8; 4]) -> bool {
        let [a, b, c, d] = to;
        let to = format!("{a}.{b}.{c}.{d}");
        let words = ["ping", "-n", "-c", "1", "-W", "10", &to];
        run(&self.containers[from], &words).status.success()
    }

    pub fn listen(&self, at: usize, port: u16) -> TcpListener {
        let address = SocketAddr::from((CONTAINERS[at].address, port));
        bound(&self.containers[at], || TcpListener::bind(address))
    }

    /// A socket in a container; port 0 for any.
    pub fn udp(&self, at: usize, port: u16) -> UdpSocket {
        udp(&self.containers[at], SocketAddr::from((CONTAINERS[at].address, port)))
    }

    pub fn connect(&self, from: usize, to: usize, port: u16) -> Result<TcpStream, ErrorKind> {
        let address = SocketAddr::from((CONTAINERS[to].address, port));
        let connect = || TcpStream::connect_timeout(&address, LONG);
        self.containers[from].run(connect).unwrap().map_err(|error| error.kind())
    }

    /// So many bytes there and back again.
    pub fn talk(&self, from: usize, to: usize, port: u16, bytes: usize) {
        let listener = self.listen(to, port);
        let sent: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut got = vec![0; bytes];
                stream.read_exact(&mut got).unwrap();
                stream.write_all(&got).unwrap();
            });
            let mut stream = self.connect(from, to, port).unwrap();
            stream.write_all(&sent).unwrap();
            let mut got = vec![0; bytes];
            stream.read_exact(&mut got).unwrap();
            assert!(got == sent, "what came back is something else");
        });
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Namespace::delete(name);
        }
    }
}

/// Machines of a network of the older kind, which goes on beside it.
const PLAIN: [Machine; 2] = [Machine::new(0, "blue", 1), Machine::new(1, "blue", 2)];

#[test]
fn what_one_file_says_holds_between_two_hosts() {
    let shop = Shop::beside(&PLAIN);
    shop.apply(&shop.text());
    shop.attach();
    assert!(shop.pings(WEB, CONTAINERS[OTHER].address), "in one switch, on another host");
    assert!(shop.pings(WEB, CONTAINERS[DB].address), "through the router, to another host");
    shop.talk(WEB, DB, 5432, 3 << 20);
    shop.talk(OTHER, DB, 5432, 1000);
    let _listener = shop.listen(DB, 5433);
    let begun = std::time::Instant::now();
    assert_eq!(shop.connect(WEB, DB, 5433).err(), Some(ErrorKind::ConnectionRefused));
    assert!(begun.elapsed() < LONG, "the far host's refusal has come back");
    shop.world.ping(PLAIN[0], PLAIN[1].v4());
    shop.world.assert_balanced();
}

#[test]
fn a_rule_that_is_taken_away_stops_a_flow_between_hosts() {
    let shop = Shop::beside(&PLAIN);
    shop.apply(&shop.text());
    shop.attach();
    let listener = shop.listen(DB, 5432);
    let mut stream = shop.connect(WEB, DB, 5432).unwrap();
    let (mut other, _) = listener.accept().unwrap();
    stream.write_all(b"before").unwrap();
    let mut got = [0; 6];
    other.read_exact(&mut got).unwrap();
    shop.apply(
        &shop.text().replace("services: [postgres]", "services: [{protocol: tcp, ports: [1]}]"),
    );
    let _ = stream.write_all(b"behind");
    other.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    assert!(!matches!(other.read(&mut got), Ok(1..)), "the flow went on");
    let refused =
        |host| shop.world.refused(host, "rejected") + shop.world.refused(host, "logical_network");
    until(|| refused(1) > 0);
    shop.world.assert_balanced();
}

/// A port's profile is its terms at the uplink, from when it is declared until it is not.
#[test]
fn a_profile_holds_at_the_uplink() {
    let mut plan = Plan::new(&PLAIN);
    plan.uplink.rate = "200mbit".parse().ok();
    let shop = Shop::on(plan);
    shop.apply(&shop.text());
    shop.attach();
    let bits = 8_000_000;
    let takes = || {
        let begun = std::time::Instant::now();
        shop.talk(WEB, DB, 5432, bits / 8);
        begun.elapsed()
    };
    let port = || shop.world.client(0).port(&PortName("web-1".into())).unwrap();
    let shares = || {
        let sharing = shop.world.status(0).uplink.unwrap().sharing.unwrap();
        let its = sharing.networks.into_iter().find(|it| it.network.0 == "logical/shop");
        its.unwrap().ports
    };
    takes();
    assert_eq!((port().class.pcp(), shares()), (0, Vec::new()));

    let slow = "- {kind: QosProfile, metadata: {name: slow, tenant: shop}, spec: {limit: 10mbit, class: 1}}\n";
    let limited = shop
        .text()
        .replace("mac: \"02:00:00:00:01:01\",", "mac: \"02:00:00:00:01:01\", qos: slow,");
    shop.apply(&(limited + slow));
    assert_eq!((port().class.pcp(), port().share.max), (1, "10mbit".parse().ok()));
    let elapsed = takes();
    assert!(elapsed.as_secs_f64() > 0.6 * bits as f64 / 10e6, "{elapsed:?}");
    let [web] = &shares()[..] else { panic!("one port has a share: {:?}", shares()) };
    assert!(web.sent_bytes > 1_000_000 && web.max == "10mbit".parse().ok(), "{web:?}");

    shop.apply(&shop.text());
    assert_eq!((port().class.pcp(), shares()), (0, Vec::new()));
    takes();
    shop.world.assert_balanced();
}

#[test]
fn what_a_router_translates_at_a_third_host_arrives_at_full_speed() {
    let shop = Shop::beside(&[PLAIN[0], PLAIN[1], Machine::new(2, "blue", 3)]);
    let edge = EDGE.replace("VTEP2", &shop.world.vtep(2).to_string());
    let router = "mac: \"02:00:00:00:02:fe\", addresses: [10.0.2.254/24]";
    let at = router.to_owned() + ", gateway: {nodes: [{node: h2}]}";
    let text = shop
        .text()
        .replace(router, &at)
        .replace("groups: [web-servers]", "prefixes: [10.0.2.100/32]");
    shop.apply(&(text.trim_end().to_owned() + &edge));
    shop.attach();
    until(|| shop.pings(WEB, CONTAINERS[DB].address));
    shop.talk(WEB, DB, 5432, 3 << 20);
    assert_eq!(shop.world.refused(2, "malformed"), 0, "large segments go around whole");
    let listener = shop.listen(DB, 5432);
    let _stream = shop.connect(WEB, DB, 5432).unwrap();
    assert_eq!(listener.accept().unwrap().1.ip(), IpAddr::from([10, 0, 2, 100]));
    shop.world.assert_balanced();
}
