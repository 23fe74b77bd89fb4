//! Backends of load balancers are checked by their own hosts, and all hosts know what these found.

use interpreter::Fields;
use wire::ip::protocol;
use wire::tcp::{Flags, Header};
use wire::whole;

use super::*;

/// `c` asks 10.0.0.100, which `a` and `b` serve: `a` is at its own host, `b` at another.
const FARM: &str = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/24]}}
- {kind: LogicalPort, metadata: {name: a, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:01', addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: b, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:02', addresses: [10.0.0.2]}}
- {kind: LogicalPort, metadata: {name: c, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:03', addresses: [10.0.0.3]}}
- {kind: LoadBalancer, metadata: {name: l, tenant: t}, spec: {vip: 10.0.0.100, port: 80, protocol: tcp, attach: [{switch: s}], backends: [{logicalPort: b, port: 8080}, {ip: 10.0.0.1, port: 8080}], healthCheck: {interval: 1s, timeout: 500ms, failures: 2, successes: 2}}}
";

/// Who asks where no router is.
const BALANCER: Mac = Mac([2, 0x7a, 0x6f, 0x76, 0, 1]);

/// What a machine does with a check.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Does {
    Serve,
    Refuse,
    Nothing,
}

struct Farm {
    hosts: Hosts,
    now: Instant,
    ports: u16,
}

impl Farm {
    fn new() -> Self {
        let hosts = Hosts::new(&logical::load(FARM).unwrap(), 2, MEMORY);
        Self { hosts, now: Instant::from_nanos(1_000_000_000), ports: 1000 }
    }

    /// Half a second goes by: `b` and `a` do so with what they are asked. The hosts that still
    /// check are those of `checking`.
    fn go_on(&mut self, b: Does, a: Does, checking: &[usize]) {
        self.now += Span::from_millis(500);
        for host in checking {
            self.hosts.planes[*host].logical_mut().unwrap().check(self.now);
        }
        for (name, frame) in self.hosts.turn(self.now) {
            let does = if name.name.as_str() == "b" { b } else { a };
            let fields = Fields::of(&frame).unwrap();
            let (ip, asked) = (fields.ip.unwrap(), fields.ip.unwrap().tcp.unwrap());
            assert_eq!((asked.flags.0, fields.source), (Flags::SYN.0, BALANCER));
            assert_eq!(whole::fault(&frame), None);
            let (source, destination) = (ip.tuple.destination, ip.tuple.source);
            let (flags, number) = match does {
                Does::Serve => (Flags::SYN | Flags::ACK, 77),
                Does::Refuse => (Flags::RST | Flags::ACK, 0),
                Does::Nothing => continue,
            };
            let mut segment = Header::new(source.1, destination.1, number, flags);
            segment.acknowledgment = (asked.sequence.get() + 1).into();
            let macs = (fields.destination, fields.source);
            let ends = (source.0, destination.0);
            let answer = whole::packet(macs, ends, protocol::TCP, segment.as_bytes()).unwrap();
            self.hosts.offer(&name, &answer);
            let got = self.hosts.turn(self.now);
            assert_eq!(got.len(), usize::from(does == Does::Serve), "a connection is reset");
            if let Some((to, frame)) = got.first() {
                let reset = Fields::of(frame).unwrap().ip.unwrap().tcp.unwrap();
                assert_eq!((to, reset.flags.0), (&name, Flags::RST.0));
                assert_eq!(reset.sequence.get(), asked.sequence.get() + 1);
            }
        }
        self.hosts.assert_balanced();
    }

    /// What each host says of `a` and of `b`.
    fn states(&self) -> [[bool; 2]; 2] {
        [0, 1].map(|host| {
            let logical = self.hosts.planes[host].logical().unwrap();
            let all: Vec<_> = logical.backends().map(|it| it.is_up).collect();
            all.try_into().unwrap()
        })
    }

    /// Who serves new connections of `c`, of a few.
    fn serving(&mut self) -> BTreeSet<String> {
        let c = self.hosts.ends.keys().find(|it| it.name.as_str() == "c").unwrap().clone();
        let mut all = BTreeSet::new();
        for _ in 0..20 {
            self.ports += 1;
            let segment = Header::new(self.ports, 80, 1, Flags::SYN);
            let macs = (Mac([2, 0, 0, 0, 0, 3]), BALANCER);
            let ends = ([10, 0, 0, 3].into(), [10, 0, 0, 100].into());
            let frame = whole::packet(macs, ends, protocol::TCP, segment.as_bytes()).unwrap();
            self.hosts.offer(&c, &frame);
            let got = self.hosts.turn(self.now);
            all.extend(got.iter().map(|(name, _)| name.name.to_string()));
        }
        all
    }
}

const BOTH: &[usize] = &[0, 1];

#[test]
fn who_does_not_serve_is_down_at_all_hosts_and_up_once_it_does() {
    let mut farm = Farm::new();
    let set = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    (0..4).for_each(|_| farm.go_on(Does::Serve, Does::Serve, BOTH));
    assert_eq!(farm.states(), [[true; 2]; 2]);
    assert_eq!(farm.serving(), set(&["a", "b"]));
    for does in [Does::Nothing, Does::Refuse] {
        farm.go_on(does, Does::Serve, BOTH);
        farm.go_on(does, Does::Serve, BOTH);
        assert_eq!(farm.states(), [[true; 2]; 2], "once is not often enough");
        (0..3).for_each(|_| farm.go_on(does, Does::Serve, BOTH));
        assert_eq!(farm.states(), [[true, false]; 2]);
        assert_eq!(farm.serving(), set(&["a"]));
        farm.go_on(Does::Serve, Does::Serve, BOTH);
        (0..4).for_each(|_| farm.go_on(Does::Serve, Does::Serve, BOTH));
        assert_eq!(farm.states(), [[true; 2]; 2]);
        assert_eq!(farm.serving(), set(&["a", "b"]));
    }
    (0..6).for_each(|_| farm.go_on(Does::Refuse, Does::Nothing, BOTH));
    assert_eq!(farm.states(), [[false; 2]; 2]);
    assert_eq!(farm.serving(), set(&[]));
}

#[test]
fn the_backends_of_a_host_that_falls_silent_are_down() {
    let mut farm = Farm::new();
    (0..4).for_each(|_| farm.go_on(Does::Serve, Does::Serve, BOTH));
    assert_eq!(farm.states()[0], [true; 2]);
    // Its last word was half a second ago, and counts for three and a half.
    (0..5).for_each(|_| farm.go_on(Does::Serve, Does::Serve, &[0]));
    assert_eq!(farm.states()[0], [true; 2], "it may still be there");
    (0..2).for_each(|_| farm.go_on(Does::Serve, Does::Serve, &[0]));
    assert_eq!(farm.states()[0], [true, false]);
    (0..3).for_each(|_| farm.go_on(Does::Serve, Does::Serve, BOTH));
    assert_eq!(farm.states()[0], [true; 2], "its word is heard again");
}

#[test]
fn what_is_known_of_backends_outlasts_a_generation_that_has_them() {
    let mut farm = Farm::new();
    (0..6).for_each(|_| farm.go_on(Does::Nothing, Does::Serve, BOTH));
    assert_eq!(farm.states(), [[true, false]; 2]);
    farm.hosts.realize(&logical::load(FARM).unwrap());
    assert_eq!(farm.states(), [[true, false]; 2]);
    assert_eq!(farm.serving().into_iter().collect::<Vec<_>>(), ["a"]);
    let without = FARM
        .replace(", healthCheck: {interval: 1s, timeout: 500ms, failures: 2, successes: 2}", "");
    farm.hosts.realize(&logical::load(&without).unwrap());
    assert_eq!(farm.serving().len(), 2, "who is not checked is up");
}
