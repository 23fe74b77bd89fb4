//! What is declared in a world.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use logical::topology::{Attachment, PortIndex};
use logical::{Topology, load};
use units::Rng;

/// What a world may have.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Rules that keep connections.
    pub stateful: bool,
    /// Addresses that routers translate, load balancers, and routes back where flows came from.
    pub translations: bool,
    /// Switches that learn addresses.
    pub learning: bool,
    /// Routers that hand DHCP on.
    pub relay: bool,
    /// TCP that no stack speaks: segments out of the blue.
    pub stray: bool,
    /// Machines that nobody declares, which say where they are when they are asked.
    pub strangers: bool,
}

impl Options {
    /// All that there is.
    pub const ALL: Self = Self {
        stateful: true,
        translations: true,
        learning: true,
        relay: true,
        stray: true,
        strangers: false,
    };
}

/// Logical networks, and what declares them.
#[derive(Clone, Debug)]
pub struct World {
    /// The declarations, one a line.
    pub text: String,
    /// What they come to.
    pub topology: Topology,
    /// What it may have.
    pub options: Options,
}

impl World {
    /// The world of a seed, with all that a world may have.
    pub fn new(seed: u64) -> Self {
        Self::with(seed, Options::ALL)
    }

    /// The world of a seed, with some of what a world may have.
    pub fn with(seed: u64, options: Options) -> Self {
        let text = declare(seed, options);
        let topology = load(&text).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"));
        Self { text, topology, options }
    }

    /// The same world on so many nodes: each has some of the ports.
    pub fn spread(mut self, nodes: usize, rng: &mut Rng) -> Self {
        for node in 0..nodes {
            let _ = writeln!(
                self.text,
                "- {{kind: TransportNode, metadata: {{name: node{node}}}, spec: {{vteps: \
                 [192.0.2.{}]}}}}",
                node + 1
            );
        }
        let mut places: BTreeMap<PortIndex, u64> = BTreeMap::new();
        for (index, _) in self.topology.ports() {
            places.insert(index, rng.below(nodes as u64));
        }
        for (index, port) in self.topology.ports() {
            if let Attachment::Child { parent, .. } = port.attachment {
                places.insert(index, places[&parent]);
            }
        }
        for (index, port) in self.topology.ports() {
            let id = &port.id;
            let tenant = id.tenant.as_ref().map_or("", |it| it.as_str());
            if matches!(port.attachment, Attachment::Vif | Attachment::Child { .. }) {
                let _ = writeln!(
                    self.text,
                    "- {{kind: Binding, metadata: {{name: {tenant}-{0}}}, spec: {{port: \
                     {tenant}/{0}, node: node{1}}}}}",
                    id.name, places[&index]
                );
            }
        }
        let text = &self.text;
        self.topology = load(text).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"));
        self
    }

    /// The world after somebody has changed something: an object is gone, or is another. Worlds
    /// that are no good are passed over.
    pub fn edited(&self, rng: &mut Rng) -> Self {
        loop {
            let other = declare(rng.next_u64(), self.options);
            let mut lines: Vec<&str> = self.text.lines().collect();
            let place = usize::try_from(rng.below(lines.len() as u64)).unwrap_or(0);
            let name = lines[place].split(", spec:").next().unwrap_or_default();
            let name = name.split(", labels:").next().unwrap_or_default();
            match other.lines().find(|line| line.starts_with(name)) {
                Some(line) if rng.below(4) > 0 => lines[place] = line,
                _ => {
                    lines.remove(place);
                }
            }
            let text = lines.join("\n") + "\n";
            if let Ok(topology) = load(&text) {
                return Self { text, topology, options: self.options };
            }
        }
    }
}

/// The declarations of a seed.
fn declare(seed: u64, options: Options) -> String {
    let mut it = Maker { rng: Rng::new(seed), text: String::new(), options };
    it.say("ProviderNetwork", "net", false, "", "mtu: 1500");
    it.say("Meter", "slow", false, "", "rate: 10, burst: 20, unit: pps");
    it.say("QosProfile", "gold", false, "", "limit: 1gbit, dscp: 46");
    let mut operators = Vec::new();
    it.tenant(&mut operators);
    let mut text = core::mem::take(&mut it.text);
    // Another tenant with the very same names and addresses.
    let twin = it.once_in(3).then(|| {
        let own = text.lines().filter(|line| line.contains("tenant: t"));
        own.fold(String::new(), |mut twin, line| {
            let _ = writeln!(twin, "{}", line.replace("tenant: t", "tenant: u"));
            twin
        })
    });
    for tenant in ["t", "u"] {
        let pools = "prefixes: [10.2.0.0/16, 10.8.0.0/16, 10.4.0.0/24]";
        let terms = ["", ", guarantee: 10mbit", ", guarantee: 5mbit, limit: 1gbit"];
        let terms = terms[usize::try_from(seed % 3).unwrap_or(0)];
        let spec = format!("allowProvider: [net], quota: {{connectionsPerPort: 8}}{terms}");
        it.say("Tenant", tenant, false, "", &spec);
        it.say("ExternalPool", tenant, false, "", &format!("{pools}, tenants: [{tenant}]"));
    }
    text += &twin.unwrap_or_default();
    it.text.push_str(&text);
    for (name, spec) in operators {
        it.say("Policy", &name, false, "", &spec);
    }
    it.text
}

struct Maker {
    rng: Rng,
    text: String,
    options: Options,
}

impl Maker {
    fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn one<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[usize::try_from(self.below(words.len() as u64)).unwrap_or(0)]
    }

    /// Once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn say(&mut self, kind: &str, name: &str, is_tenants: bool, more: &str, spec: &str) {
        let tenant = if is_tenants { ", tenant: t" } else { "" };
        let _ = writeln!(
            self.text,
            "- {{kind: {kind}, metadata: {{name: {name}{tenant}{more}}}, spec: {{{spec}}}}}"
        );
    }

    /// All that a tenant declares, and what the operator says of its ports.
    fn tenant(&mut self, operators: &mut Vec<(String, String)>) {
        self.say(
            "DhcpProfile",
            "d",
            true,
            "",
            "v4: {serverId: 10.1.0.253, serverMac: '02:00:00:00:00:53', router: 10.1.0.254, lease: \
             3600s}, v6: {serverDuidMac: '02:00:00:00:00:53', mode: stateful}",
        );
        let forward = self.one(&["true", "false"]);
        self.say(
            "DnsZone",
            "z",
            true,
            "",
            &format!("records: {{web.t: [10.1.0.1, 'fd01::1']}}, ttl: 30, forward: {forward}"),
        );
        let ports = self.switches();
        self.routers(&ports);
        let [a, b] = [0, 1].map(|_| self.port(&ports));
        self.say("PortGroup", "g0", true, "", &format!("ports: [{a}]"));
        self.say("PortGroup", "g1", true, "", &format!("ports: [{b}], include: [g0]"));
        let third = self.one(&["10.1.0.0-10.1.0.3", "10.1.0.2"]);
        let addresses = format!("addresses: [10.2.0.1, {third}, 'fd02::/96']");
        self.say("AddressSet", "s0", true, "", &addresses);
        self.say("Service", "web", true, "", "protocol: tcp, ports: [80, 443]");
        self.policies(&ports, operators);
        if self.options.translations {
            self.translations();
            self.balancers(&ports);
        }
    }

    fn port(&mut self, ports: &[String]) -> String {
        ports[usize::try_from(self.below(ports.len() as u64)).unwrap_or(0)].clone()
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

    fn services(&mut self, is_tenants: bool) -> String {
        let mut all: Vec<_> = (0..self.below(3)).map(|_| self.service()).collect();
        if is_tenants && self.once_in(5) {
            all.push("web".into());
        }
        all.join(", ")
    }

    fn peer(&mut self, ports: &[String], is_tenants: bool) -> String {
        let port = self.port(ports);
        let prefixes =
            self.one(&["10.1.0.0/24", "10.1.0.0/30", "10.0.0.0/8", "'fd01::/16'", "224.0.0.0/4"]);
        match self.below(if is_tenants { 7 } else { 3 }) {
            0 => format!("prefixes: [{prefixes}]"),
            1 => "prefixes: [0.0.0.0/0], except: [10.1.0.0/28]".into(),
            2 => format!("selector: {{matchLabels: {{app: {}}}}}", self.one(&["a", "b"])),
            3 => format!("groups: [{}]", self.one(&["g0", "g1"])),
            4 => "sets: [s0]".into(),
            5 => format!("groups: [g0], prefixes: [{prefixes}]"),
            _ => format!("ports: [{port}]"),
        }
    }

    fn matches(&mut self, ports: &[String], is_tenants: bool) -> String {
        let mut all = Vec::new();
        if self.once_in(2) {
            all.push(format!("source: {{{}}}", self.peer(ports, is_tenants)));
        }
        if self.once_in(2) {
            all.push(format!("destination: {{{}}}", self.peer(ports, is_tenants)));
        }
        if self.once_in(5) {
            all.push("sourceMacs: ['02:00:00:00:01:01', '02:00:00:00:00:fe']".into());
        }
        if self.once_in(8) {
            all.push("destinationMacs: ['02:00:00:00:01:02', '02:00:00:00:00:fe']".into());
        }
        if self.once_in(3) {
            all.push(format!("services: [{}]", self.services(is_tenants)));
        }
        all.join(", ")
    }

    fn rule(&mut self, name: u64, ports: &[String], tier: &str, priority: Option<u64>) -> String {
        let is_tenants = tier == "tenant";
        let last = if tier == "operatorLast" { "drop" } else { "pass" };
        let direction = self.one(&["fromPort", "toPort"]);
        let action = self.one(&["allow", "allow", "allow", "drop", "reject", last]);
        let mut rule = format!("name: r{name}, direction: {direction}, action: {action}");
        let is_stateless = action == "allow" && (!self.options.stateful || self.once_in(4));
        if is_stateless {
            rule += ", stateful: false";
        }
        if let Some(priority) = priority {
            let _ = write!(rule, ", priority: {priority}");
        }
        if self.once_in(2) {
            let _ = write!(rule, ", peer: {{{}}}", self.peer(ports, is_tenants));
        }
        match self.below(8) {
            0 => {
                let _ = write!(rule, ", ethertype: {}", self.one(&["ip4", "ip6"]));
            }
            1 if !is_stateless => {
                let _ = write!(rule, ", ethertype: {}", self.one(&["35000", "arp"]));
            }
            2..=5 => {
                let _ = write!(rule, ", services: [{}]", self.services(is_tenants));
            }
            _ => {}
        }
        if self.once_in(4) {
            let _ = write!(rule, ", match: {{{}}}", self.matches(ports, is_tenants));
        }
        if self.once_in(6) {
            rule += ", log: {severity: info, meter: slow}";
        }
        format!("{{{rule}}}")
    }

    fn rules(&mut self, ports: &[String], tier: &str) -> String {
        let has_priority = self.once_in(3);
        let all: Vec<_> = (0..1 + self.below(4))
            .map(|name| {
                let priority = has_priority.then(|| self.below(4));
                self.rule(name, ports, tier, priority)
            })
            .collect();
        all.join(", ")
    }

    fn policies(&mut self, ports: &[String], operators: &mut Vec<(String, String)>) {
        for i in 0..self.below(4) {
            let tier = self.one(&["tenant", "tenant", "tenant", "operatorFirst", "operatorLast"]);
            let is_tenants = tier == "tenant";
            let port = self.port(ports);
            let applies = match (is_tenants, self.below(4)) {
                (true, 0) => "groups: [g0]".into(),
                (true, 1) => "switches: [lan]".into(),
                (true, 2) => format!("ports: [{port}]"),
                _ => format!("selector: {{matchLabels: {{app: {}}}}}", self.one(&["a", "b"])),
            };
            let (level, order) = (self.below(2), self.below(2));
            let mut spec =
                format!("tier: {tier}, level: {level}, order: {order}, appliesTo: {{{applies}}}");
            if self.once_in(3) {
                spec += ", established: persist";
            }
            if self.once_in(3) {
                spec += ", defaultAction: drop";
                // What is isolated in one direction tracks what it begins in the other.
                if self.options.stateful && self.once_in(2) {
                    let direction = self.one(&["fromPort", "toPort"]);
                    let _ = write!(spec, ", directions: [{direction}]");
                }
            }
            let _ = write!(spec, ", rules: [{}]", self.rules(ports, tier));
            if is_tenants {
                self.say("Policy", &format!("pol{i}"), true, "", &spec);
            } else {
                operators.push((format!("pol{i}"), spec));
            }
        }
    }

    fn switches(&mut self) -> Vec<String> {
        for (n, name) in [(1, "lan"), (2, "wan"), (3, "far")] {
            let mut spec = format!("subnets: [10.{n}.0.0/24, 'fd0{n}::/64'], dns: [z]");
            if self.once_in(5) {
                let key = self.one(&["fromPort", "toPort"]);
                let _ = write!(spec, ", defaultAction: {{{key}: drop}}");
            }
            for (times, more) in [
                (4, ", unknownUnicast: flood"),
                (if self.options.learning { 4 } else { u64::MAX }, ", macLearning: true"),
                (8, ", broadcast: suppressed"),
                (20, ", enabled: false"),
                (6, ", mtu: 1280"),
                (8, ", qos: gold"),
                (4, ", multicast: snoop"),
            ] {
                if self.once_in(times) {
                    spec += more;
                }
            }
            if name == "wan" && self.once_in(3) {
                spec += ", provider: {network: net, vlan: 7}";
                self.say("LogicalPort", "uplink", true, "", "switch: wan, provider: {}");
            }
            self.say("LogicalSwitch", name, true, "", &spec);
        }
        let mut ports = Vec::new();
        for (n, switch) in [(1, "lan"), (2, "wan"), (3, "far")] {
            for i in 1..2 + self.below(3) {
                let name = format!("p{n}{i}");
                self.machine(&name, switch, n, i, "vif: {}");
                ports.push(name);
            }
        }
        if self.once_in(2) {
            self.machine("k17", "lan", 1, 7, "child: {parent: p11, vlan: 7}");
            ports.push("k17".into());
        }
        if self.once_in(3) {
            self.machine("l18", "lan", 1, 8, "local: {}");
            ports.push("l18".into());
        }
        ports
    }

    fn machine(&mut self, name: &str, switch: &str, n: u64, i: u64, stands_for: &str) {
        let mut spec = format!(
            "switch: {switch}, {stands_for}, mac: '02:00:00:00:0{n}:0{i}', addresses: [10.{n}.0.{i}"
        );
        if self.once_in(2) {
            let _ = write!(spec, ", 'fd0{n}::{i}'");
        }
        if self.once_in(6) {
            let _ = write!(spec, ", 10.{n}.0.1{i}");
        }
        spec += "]";
        spec += match self.below(9) {
            0 => ", security: {mode: 'off'}",
            1 => ", security: {mode: mac}",
            2 => {
                ", security: {allowed: [{prefixes: [10.1.0.128/25]}, {mac: '02:00:00:00:09:09', \
                 prefixes: [10.9.0.1/24, 0.0.0.0/0]}]}"
            }
            3 => ", security: {own: false, allowed: [{prefixes: [10.1.0.0/25]}]}",
            _ => "",
        };
        for (times, more) in [
            (5, ", unknown: true"),
            (15, ", enabled: false"),
            (3, ", dhcp4: d"),
            (3, ", dhcp6: d"),
            (6, ", qos: gold"),
        ] {
            if self.once_in(times) {
                spec += more;
            }
        }
        let labels = format!(", labels: {{app: {}}}", self.one(&["a", "b"]));
        self.say("LogicalPort", name, true, &labels, &spec);
    }

    fn route(&mut self) -> String {
        let prefix = self.one(&[
            "0.0.0.0/0",
            "10.9.0.0/16",
            "10.2.0.1/32",
            "10.1.0.0/16",
            "'fd02::1/128'",
            "172.16.0.0/12",
        ]);
        let is_v6 = prefix.contains("fd");
        let mut route = format!("prefix: {prefix}");
        route += match self.below(4) {
            0 => ", discard: true",
            1 if !is_v6 && self.options.translations => self.one(&[
                ", ecmp: [{nextHop: 10.1.0.1}, {nextHop: 10.2.0.1}]",
                ", ecmp: [{nextHop: 10.1.0.1}, {nextHop: 10.2.0.1}], symmetric: true",
                ", ecmp: [{nextHop: 10.1.0.1}, {nextHop: 10.2.0.1}], symmetric: true",
            ]),
            1 if !is_v6 => ", ecmp: [{nextHop: 10.1.0.1}, {nextHop: 10.2.0.1}]",
            _ if is_v6 => ", nextHop: 'fd01::1'",
            _ => self.one(&[
                ", nextHop: 10.1.0.1",
                ", nextHop: 10.2.0.2",
                ", nextHop: 10.2.0.77",
                ", discard: true, reject: true",
            ]),
        };
        if self.once_in(3) && !is_v6 {
            route += ", source: 10.1.0.0/30";
        }
        let _ = write!(route, ", distance: {}", 1 + self.below(2));
        format!("{{{route}}}")
    }

    fn route_policy(&mut self, name: u64, ports: &[String]) -> String {
        let action = match self.below(3) {
            0 => "allow".into(),
            1 => "drop".into(),
            _ => {
                let hop = self.one(&["10.2.0.1", "10.1.0.1"]);
                format!("{{reroute: {{nextHops: [{{nextHop: {hop}}}]}}}}")
            }
        };
        let (priority, matches) = (self.below(3), self.matches(ports, true));
        format!("{{name: q{name}, priority: {priority}, match: {{{matches}}}, action: {action}}}")
    }

    /// `lan` and `wan` by a router, or by two behind each other; `far` by another, or by none.
    fn routers(&mut self, ports: &[String]) {
        let routes: Vec<_> = (0..self.below(4)).map(|_| self.route()).collect();
        let policies: Vec<_> =
            (0..self.below(3)).map(|name| self.route_policy(name, ports)).collect();
        let (routes, policies) = (routes.join(", "), policies.join(", "));
        let more =
            self.one(&["", "", "", ", ecmp: {max: 2}", ", ecmp: {hash: l3}", ", copp: slow"]);
        let spec = format!("routes: [{routes}], policies: [{policies}]{more}");
        self.say("LogicalRouter", "r", true, "", &spec);
        let more = match self.below(4) {
            0 => ", ra6: {mode: slaac}",
            1 if self.options.relay => ", dhcpRelay: {servers: [10.2.0.1]}",
            _ => "",
        };
        self.interface("lan", "r", "fe", "10.1.0.254/24, 'fd01::fe/64'", more);
        let wan = "10.2.0.254/24, 'fd02::fe/64'";
        if self.once_in(2) {
            self.interface("wan", "r", "fd", wan, "");
        } else {
            // By another router.
            let spec =
                format!("router: r, mac: '02:00:00:00:00:fd', addresses: [{wan}], peer: q-r");
            self.say("RouterPort", "r-wan", true, "", &spec);
            self.say(
                "LogicalRouter",
                "q",
                true,
                "",
                "routes: [{prefix: 10.1.0.0/24, nextHop: 10.2.0.254, via: q-r, onlink: true}, \
                 {prefix: 'fd01::/64', nextHop: 'fd02::fe', via: q-r, onlink: true}]",
            );
            self.say(
                "RouterPort",
                "q-r",
                true,
                "",
                "router: q, mac: '02:00:00:00:00:fc', addresses: [10.5.0.1/24], peer: r-wan",
            );
            self.interface("wan", "q", "fb", "10.2.0.253/24, 'fd02::fd/64'", "");
        }
        match self.below(3) {
            0 => self.interface("far", "r", "fa", "10.3.0.254/24, 'fd03::fe/64'", ""),
            1 => {
                self.say("LogicalRouter", "s", true, "", "");
                self.interface("far", "s", "fa", "10.3.0.254/24, 'fd03::fe/64'", "");
            }
            _ => {}
        }
    }

    /// A router's port to a switch.
    fn interface(&mut self, switch: &str, router: &str, mac: &str, addresses: &str, more: &str) {
        let enabled = if self.once_in(20) { ", enabled: false" } else { "" };
        let spec = format!(
            "router: {router}, mac: '02:00:00:00:00:{mac}', addresses: [{addresses}]{more}{enabled}"
        );
        self.say("RouterPort", &format!("{router}-{switch}"), true, "", &spec);
        let enabled = if self.once_in(20) { ", enabled: false" } else { "" };
        let spec = format!("switch: {switch}, router: {{routerPort: {router}-{switch}}}{enabled}");
        self.say("LogicalPort", &format!("{switch}-{router}"), true, "", &spec);
    }

    fn translations(&mut self) {
        let more = self.one(&[
            "",
            ", protocol: tcp",
            ", exempt: [s0]",
            ", onlyFor: [s0]",
            ", match: {services: [{protocol: udp}]}",
        ]);
        for (times, name, spec) in [
            (3, "n0", "kind: snat, router: r, external: 10.2.0.100, logical: 10.1.0.0/24"),
            (4, "n1", "kind: floating, router: r, external: 10.2.0.101, logical: 10.1.0.1"),
            (
                4,
                "n2",
                "kind: dnat, router: r, external: 10.2.0.102, logical: 10.1.0.2, port: 80, externalPorts: 8080",
            ),
            (8, "n3", "kind: floating, router: r, external: 10.4.0.0/29, logical: 10.1.0.0/29"),
        ] {
            if self.once_in(times) {
                let priority = self.below(2);
                // A port is translated only of a protocol that has some.
                let more = if name == "n2" { ", protocol: tcp" } else { more };
                self.say("Nat", name, true, "", &format!("{spec}{more}, priority: {priority}"));
            }
        }
    }

    fn balancers(&mut self, ports: &[String]) {
        let [a, b] = [0, 1].map(|_| self.port(ports));
        for (name, vip, attach) in
            [("b0", "10.6.0.1", "{switch: lan}"), ("b1", "10.6.0.2", "{router: r}")]
        {
            if !self.once_in(4) {
                continue;
            }
            let port = self.one(&["", ", port: 80"]);
            let inner = if port.is_empty() { "" } else { ", port: 81" };
            let backends = match self.below(4) {
                0 => String::new(),
                1 => format!("{{logicalPort: {a}{inner}}}"),
                _ => format!("{{logicalPort: {a}{inner}}}, {{logicalPort: {b}, weight: 2}}"),
            };
            let more =
                self.one(&["", ", reject: true", ", affinity: clientIp", ", hairpinSnat: true"]);
            let spec = format!(
                "vip: {vip}{port}, protocol: tcp, backends: [{backends}], attach: [{attach}]{more}"
            );
            self.say("LoadBalancer", name, true, "", &spec);
        }
    }
}
