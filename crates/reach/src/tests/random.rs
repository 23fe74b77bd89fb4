//! Small random networks with all that rules and routers can say, and random packets in them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use logical::Topology;
use logical::topology::{Attachment, PortIndex};
use units::{Mac, Rng};

use crate::frame::{Content, Packet};

/// A network, and what declares it.
pub struct Net {
    pub text: String,
    pub topology: Topology,
}

/// A packet at its port.
#[derive(Debug)]
pub struct Sent {
    pub port: PortIndex,
    pub packet: Packet,
}

struct Maker {
    rng: Rng,
    text: String,
}

impl Maker {
    fn one<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.rng.below(words.len() as u64) as usize]
    }

    /// Once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.rng.below(times) == 0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn say(&mut self, kind: &str, name: &str, tenant: bool, more: &str, spec: &str) {
        let tenant = if tenant { ", tenant: t" } else { "" };
        self.text += &format!(
            "- {{kind: {kind}, metadata: {{name: {name}{tenant}{more}}}, spec: {{{spec}}}}}\n"
        );
    }

    fn service(&mut self) -> String {
        match self.below(8) {
            0..=2 => {
                let protocol = self.one(&["tcp", "udp", "sctp"]);
                let ports = self.one(&["80", "443", "80-90, 100", "53", "1-1023", "1024-65535"]);
                format!("{{protocol: {protocol}, ports: [{ports}]}}")
            }
            3 => {
                let ports = self.one(&["1000", "1024-65535", "1-1000"]);
                format!("{{protocol: tcp, sourcePorts: [{ports}]}}")
            }
            4 => format!("{{protocol: {}}}", self.one(&["tcp", "udp", "icmp", "icmp6", "47"])),
            5 => format!("{{protocol: icmp, icmpType: {}}}", self.one(&["8", "3", "0"])),
            6 => "{protocol: icmp6, icmpType: 128, icmpCode: 0}".into(),
            _ => "{protocol: udp, ports: [53, 67-68], sourcePorts: [68, 53]}".into(),
        }
    }

    fn services(&mut self) -> String {
        let all: Vec<_> = (0..self.below(3)).map(|_| self.service()).collect();
        all.join(", ")
    }

    fn peer(&mut self, ports: &[String]) -> String {
        let port = ports[self.below(ports.len() as u64) as usize].clone();
        match self.below(7) {
            0 => format!("ports: [{port}]"),
            1 => format!("groups: [{}]", self.one(&["g0", "g1"])),
            2 => "sets: [s0]".into(),
            3 => format!(
                "prefixes: [{}]",
                self.one(&["10.1.0.0/24", "10.1.0.0/30", "10.0.0.0/8", "fd01::/16"])
            ),
            4 => "prefixes: [0.0.0.0/0], except: [10.1.0.0/28]".into(),
            5 => format!("selector: {{matchLabels: {{app: {}}}}}", self.one(&["a", "b"])),
            _ => format!("groups: [g0], prefixes: [{}]", self.one(&["10.2.0.0/24", "224.0.0.0/4"])),
        }
    }

    fn matches(&mut self, ports: &[String]) -> String {
        let mut all = Vec::new();
        if self.once_in(2) {
            all.push(format!("source: {{{}}}", self.peer(ports)));
        }
        if self.once_in(2) {
            all.push(format!("destination: {{{}}}", self.peer(ports)));
        }
        if self.once_in(5) {
            let way = self.one(&["sourceMacs", "destinationMacs"]);
            let macs = "'02:00:00:00:01:01', '02:00:00:00:00:fe', '01:00:5e:00:00:01'";
            all.push(format!("{way}: [{macs}]"));
        }
        if self.once_in(3) {
            all.push(format!("services: [{}]", self.services()));
        }
        all.join(", ")
    }

    fn rules(&mut self, ports: &[String], is_last: bool) -> String {
        let mut all = Vec::new();
        let has_priority = self.once_in(3);
        for i in 0..1 + self.below(4) {
            let (direction, action) = (
                self.one(&["fromPort", "toPort"]),
                self.one(&[
                    "allow",
                    "allow",
                    "drop",
                    "reject",
                    if is_last { "drop" } else { "pass" },
                ]),
            );
            let mut rule = format!("name: r{i}, direction: {direction}, action: {action}");
            if action == "allow" && self.once_in(4) {
                rule += ", stateful: false";
            }
            if has_priority {
                rule += &format!(", priority: {}", self.below(4));
            }
            if self.once_in(2) {
                rule += &format!(", peer: {{{}}}", self.peer(ports));
            }
            match self.below(8) {
                0 => rule += &format!(", ethertype: {}", self.one(&["ip4", "ip6"])),
                1 if !rule.contains("stateful") => {
                    rule += &format!(", ethertype: {}", self.one(&["35000", "arp"]));
                }
                2..=5 => rule += &format!(", services: [{}]", self.services()),
                _ => {}
            }
            if self.once_in(4) {
                rule += &format!(", match: {{{}}}", self.matches(ports));
            }
            all.push(format!("{{{rule}}}"));
        }
        all.join(", ")
    }

    fn policies(&mut self, ports: &[String]) {
        for i in 0..self.below(4) {
            let tier = self.one(&["tenant", "tenant", "tenant", "operatorFirst", "operatorLast"]);
            let is_tenants = tier == "tenant";
            let port = ports[self.below(ports.len() as u64) as usize].clone();
            let applies = match (is_tenants, self.below(4)) {
                (true, 0) => "groups: [g0]".into(),
                (true, 1) => "switches: [lan]".into(),
                (true, 2) => format!("ports: [{port}]"),
                _ => format!("selector: {{matchLabels: {{app: {}}}}}", self.one(&["a", "b"])),
            };
            let mut spec = format!(
                "tier: {tier}, level: {}, order: {}, appliesTo: {{{applies}}}",
                self.below(2),
                self.below(2)
            );
            if self.once_in(2) {
                spec += ", defaultAction: drop";
                if self.once_in(2) {
                    spec += &format!(", directions: [{}]", self.one(&["fromPort", "toPort"]));
                }
            }
            let rules = match is_tenants {
                true => self.rules(ports, false),
                // The operator names no tenant's objects here.
                false => {
                    let all = self.rules(ports, tier == "operatorLast");
                    let words = ["groups: [g0]", "groups: [g1]", "sets: [s0]"];
                    words
                        .iter()
                        .fold(all, |all, word| all.replace(word, "prefixes: [10.1.0.2/32]"))
                        .replace("ports: [p", "ports: [t/p")
                        .replace("prefixes: [10.1.0.2/32], prefixes", "prefixes")
                }
            };
            self.say(
                "Policy",
                &format!("pol{i}"),
                is_tenants,
                "",
                &format!("{spec}, rules: [{rules}]"),
            );
        }
    }

    fn switches(&mut self) -> Vec<String> {
        for (i, name) in ["lan", "wan"].into_iter().enumerate() {
            let n = i + 1;
            let mut spec = format!("subnets: [10.{n}.0.0/24, 'fd0{n}::/64']");
            for key in ["fromPort", "toPort"] {
                if self.once_in(8) {
                    spec += &format!(", defaultAction: {{{key}: drop}}");
                    break;
                }
            }
            if self.once_in(4) {
                spec += ", unknownUnicast: flood";
            }
            if self.once_in(4) {
                spec += ", broadcast: suppressed";
            }
            if self.once_in(20) {
                spec += ", enabled: false";
            }
            if name == "wan" && self.once_in(2) {
                spec += ", provider: {network: net, vlan: 7}";
                self.say("LogicalPort", "uplink", true, "", "switch: wan, provider: {}");
            }
            self.say("LogicalSwitch", name, true, "", &spec);
        }
        let mut ports = Vec::new();
        for (n, switch) in [(1, "lan"), (2, "wan")] {
            for i in 1..2 + self.below(3) {
                let name = format!("p{n}{i}");
                let mut spec = format!(
                    "switch: {switch}, vif: {{}}, mac: '02:00:00:00:0{n}:0{i}', addresses: [10.{n}.0.{i}"
                );
                if self.once_in(2) {
                    spec += &format!(", 'fd0{n}::{i}'");
                }
                if self.once_in(6) {
                    spec += &format!(", 10.{n}.0.1{i}");
                }
                spec += "]";
                match self.below(10) {
                    3 => {
                        spec += ", security: {own: false, allowed: [{prefixes: [10.1.0.128/25, 'fd01::9/128']}]}"
                    }
                    0 => spec += ", security: {mode: 'off'}",
                    1 => spec += ", security: {mode: mac}",
                    2 => {
                        spec += ", security: {allowed: [{prefixes: [10.1.0.128/25]}, {mac: '02:00:00:00:09:09', prefixes: [10.9.0.1/24, 0.0.0.0/0]}]}";
                    }
                    _ => {}
                }
                if self.once_in(5) {
                    spec += ", unknown: true";
                }
                if self.once_in(15) {
                    spec += ", enabled: false";
                }
                let labels = format!(", labels: {{app: {}}}", self.one(&["a", "b"]));
                self.say("LogicalPort", &name, true, &labels, &spec);
                ports.push(name);
            }
        }
        ports
    }

    fn router(&mut self, ports: &[String]) {
        let mut routes = Vec::new();
        for _ in 0..self.below(4) {
            let prefix = self.one(&[
                "0.0.0.0/0",
                "10.9.0.0/16",
                "10.2.0.1/32",
                "10.1.0.0/16",
                "'fd02::1/128'",
                "172.16.0.0/12",
            ]);
            let mut route = match self.below(4) {
                0 => format!("prefix: {prefix}, discard: true"),
                1 if !prefix.contains("fd") => {
                    format!(
                        "prefix: {prefix}, ecmp: [{{nextHop: 10.1.0.1}}, {{nextHop: 10.2.0.1}}]"
                    )
                }
                _ if prefix.contains("fd") => format!("prefix: {prefix}, nextHop: 'fd01::1'"),
                _ => format!(
                    "prefix: {prefix}, nextHop: {}",
                    self.one(&["10.1.0.1", "10.2.0.2", "10.2.0.77"])
                ),
            };
            if self.once_in(3) && !prefix.contains("fd") {
                route += ", source: 10.1.0.0/30";
            }
            route += &format!(", distance: {}", 1 + self.below(2));
            routes.push(format!("{{{route}}}"));
        }
        let mut policies = Vec::new();
        for i in 0..self.below(3) {
            let action = match self.below(3) {
                0 => "allow".into(),
                1 => "drop".into(),
                _ => format!(
                    "{{reroute: {{nextHops: [{{nextHop: {}}}]}}}}",
                    self.one(&["10.2.0.1", "10.1.0.1"])
                ),
            };
            let matches = self.matches(ports);
            policies.push(format!(
                "{{name: q{i}, priority: {}, match: {{{matches}}}, action: {action}}}",
                self.below(3)
            ));
        }
        let spec = format!("routes: [{}], policies: [{}]", routes.join(", "), policies.join(", "));
        self.say("LogicalRouter", "r", true, "", &spec);
        self.say(
            "RouterPort",
            "r-lan",
            true,
            "",
            "router: r, mac: '02:00:00:00:00:fe', addresses: [10.1.0.254/24, 'fd01::fe/64']",
        );
        let off = if self.once_in(15) { "enabled: false, " } else { "" };
        let spec = format!("{off}switch: lan, router: {{routerPort: r-lan}}");
        self.say("LogicalPort", "lan-r", true, "", &spec);
        if self.once_in(2) {
            let off = if self.once_in(10) { "enabled: false, " } else { "" };
            let own =
                "router: r, mac: '02:00:00:00:00:fd', addresses: [10.2.0.254/24, 'fd02::fe/64']";
            self.say("RouterPort", "r-wan", true, "", &format!("{off}{own}"));
            let off = if self.once_in(10) { "enabled: false, " } else { "" };
            let own = "switch: wan, router: {routerPort: r-wan}";
            self.say("LogicalPort", "wan-r", true, "", &format!("{off}{own}"));
        } else {
            // By another router.
            self.say("RouterPort", "r-wan", true, "", "router: r, mac: '02:00:00:00:00:fd', addresses: [10.2.0.254/24, 'fd02::fe/64'], peer: q-r");
            self.say("LogicalRouter", "q", true, "", "routes: [{prefix: 10.1.0.0/24, nextHop: 10.2.0.254, via: q-r, onlink: true}, {prefix: 'fd01::/64', nextHop: 'fd02::fe', via: q-r, onlink: true}]");
            self.say(
                "RouterPort",
                "q-r",
                true,
                "",
                "router: q, mac: '02:00:00:00:00:fc', addresses: [10.3.0.1/24], peer: r-wan",
            );
            self.say(
                "RouterPort",
                "q-wan",
                true,
                "",
                "router: q, mac: '02:00:00:00:00:fb', addresses: [10.2.0.253/24, 'fd02::fd/64']",
            );
            self.say("LogicalPort", "wan-q", true, "", "switch: wan, router: {routerPort: q-wan}");
        }
    }
}

impl Net {
    /// A network by a seed.
    pub fn new(seed: u64) -> Self {
        let mut it = Maker { rng: Rng::new(seed), text: String::new() };
        it.say("Tenant", "t", false, "", "allowProvider: [net]");
        it.say(
            "ProviderNetwork",
            "net",
            false,
            "",
            "vlanRanges: [{network: x, first: 1, last: 4094}]",
        );
        it.text = it.text.replace("vlanRanges: [{network: x, first: 1, last: 4094}]", "");
        it.say(
            "ExternalPool",
            "pool",
            false,
            "",
            "prefixes: [10.2.0.0/16, 10.8.0.0/16], tenants: [t]",
        );
        let ports = it.switches();
        it.router(&ports);
        let [a, b] = [0, 1].map(|_| ports[it.below(ports.len() as u64) as usize].clone());
        it.say("PortGroup", "g0", true, "", &format!("ports: [{a}]"));
        it.say("PortGroup", "g1", true, "", &format!("ports: [{b}], include: [g0]"));
        it.say(
            "AddressSet",
            "s0",
            true,
            "",
            "addresses: [10.2.0.1, 10.1.0.0-10.1.0.3, 'fd02::/96']",
        );
        it.policies(&ports);
        let text = it.text;
        let topology = logical::load(&text).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"));
        Self { text, topology }
    }

    /// A packet at a port, often one that arrives.
    pub fn packet(&self, rng: &mut Rng) -> Sent {
        let ports: Vec<_> = self
            .topology
            .ports()
            .filter(|(_, it)| !matches!(it.attachment, Attachment::Router(_)))
            .map(|(index, _)| index)
            .collect();
        let mut one = |bound: usize| rng.below(bound as u64) as usize;
        let port = ports[one(ports.len())];
        let own = &self.topology[port];
        let to = ports[one(ports.len())];
        let macs: Vec<Mac> =
            self.topology[own.switch].ports.iter().map(|it| self.topology[*it].mac).collect();
        let listed = [
            [2, 0, 0, 0, 1, 1],
            [2, 0, 0, 0, 0, 0xfe],
            [2, 0, 0, 0, 9, 9],
            [6, 0x7a, 0x6f, 0x76, 0, 0],
        ];
        let from_mac = if one(5) > 0 { own.mac } else { Mac(listed[one(4)]) };
        let to_mac = match one(12) {
            0 => {
                [Mac([1, 0, 0x5e, 0, 0, 1]), Mac::BROADCAST, Mac([1, 0x80, 0xc2, 0, 0, 3])][one(3)]
            }
            1 => Mac([6, 0, 0, 0, 0, 1]),
            2..=6 if self.topology[to].switch == own.switch => self.topology[to].mac,
            _ => macs[one(macs.len())],
        };
        if one(15) == 0 {
            let kind = [35000, 0x88b5, 0x0001][one(3)];
            return Sent {
                port,
                packet: Packet { from_mac, to_mac, content: Content::Other(kind) },
            };
        }
        let strange = [
            "10.9.0.1",
            "10.9.0.9",
            "10.1.0.200",
            "0.0.0.0",
            "224.0.0.5",
            "172.16.0.1",
            "8.8.8.8",
            "10.2.0.77",
            "10.1.0.254",
            "255.255.255.255",
            "10.8.0.1",
            "10.2.0.100",
        ];
        let strange6 = ["fd01::9", "fe80::1", "ff02::1", "fd02::1", "::1"];
        let is_v6 = one(4) == 0;
        let mut address = |own: &[IpAddr], mac: Mac| -> IpAddr {
            let of_family: Vec<_> =
                own.iter().copied().filter(|it| it.is_ipv6() == is_v6).collect();
            match (one(5), is_v6) {
                (0, true) => strange6[one(5)].parse().unwrap(),
                (0, false) => strange[one(strange.len())].parse().unwrap(),
                (_, true) if of_family.is_empty() || one(4) == 0 => {
                    crate::security::link_local(mac)
                }
                _ if of_family.is_empty() => "10.1.0.1".parse().unwrap(),
                _ => of_family[one(of_family.len())],
            }
        };
        let (from, to) = (
            address(&own.addresses, own.mac),
            address(&self.topology[to].addresses, self.topology[to].mac),
        );
        let [from, to] = if from.is_ipv6() == to.is_ipv6() { [from, to] } else { [from, from] };
        let protocol = [6, 6, 6, 17, 17, 1, 58, 132, 47, 99][one(10)];
        let port_of = [80, 443, 85, 53, 1000, 1024, 68, 67, 100, 65535];
        let numbers = match protocol {
            6 | 17 | 132 => [port_of[one(10)], port_of[one(10)]],
            1 if from.is_ipv4() => [[8, 3, 0, 13][one(4)], [0, 1][one(2)]],
            58 if from.is_ipv6() => [[128, 1, 129, 150][one(4)], [0, 1][one(2)]],
            _ => [0, 0],
        };
        let content = Content::Ip { from, to, protocol, numbers };
        Sent { port, packet: Packet { from_mac, to_mac, content } }
    }
}

/// Names of everything that is said of a topology here, for those who read a failure.
impl core::fmt::Display for Net {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.text.to_string())
    }
}
