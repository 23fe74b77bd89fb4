//! The networks of NVP's own test (Koponen et al., NSDI 2014, §6.1), at any size.
//!
//! 3,000 hosts with 21 interfaces each; 7,000 logical switches of 2 to 64 ports, 9 on average;
//! rules of their own on 49,188 ports, and rules for all ports of 1,553 switches. With fewer hosts
//! everything is less in proportion. Which ports are where is chance, the same for each seed.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::Ipv4Addr;

use units::Rng;

/// Interfaces of a host.
pub const INTERFACES: u32 = 21;

/// Ports of the paper, of which so many have rules, switches of which so many have.
const PORTS: u32 = 63_000;
const PORTS_WITH_RULES: u32 = 49_188;
const SWITCHES: u32 = 7_000;
const SWITCHES_WITH_RULES: u32 = 1_553;

/// The least and the most ports of a switch.
const LEAST: u32 = 2;
const MOST: u32 = 64;

/// Switches of a tenant, but for the first: that one has the ports of the large group.
const AROUND: usize = 10;

/// Members of the large group at the paper's size, and the rules that speak of it.
const MEMBERS: u32 = 10_000;
pub const RULES: u32 = 100;

/// A logical switch.
#[derive(Clone, Debug)]
pub struct Switch {
    pub tenant: u32,
    /// Its ports' numbers.
    pub ports: std::ops::Range<u32>,
}

/// What is declared, and where it is.
#[derive(Clone, Debug)]
pub struct Plan {
    pub hosts: u32,
    pub switches: Vec<Switch>,
    /// The switch and the host of each port.
    pub ports: Vec<(u32, u32)>,
    /// The ports of the first tenant that the large group has, but for one.
    pub members: u32,
}

impl Plan {
    /// The networks of so many hosts.
    pub fn new(hosts: u32, seed: u64) -> Self {
        let rng = &mut Rng::new(seed);
        let number = hosts * INTERFACES;
        let sizes = sizes(number, rng);
        let mut places: Vec<u32> = (0..number).map(|slot| slot / INTERFACES).collect();
        for last in (1..places.len()).rev() {
            places.swap(last, rng.below(last as u64 + 1) as usize);
        }
        let grouped = number * (MEMBERS / 10) / (PORTS / 10);
        let (mut switches, mut ports) = (Vec::new(), Vec::new());
        let (mut tenant, mut of_tenant) = (0, 0);
        for size in sizes {
            let first = ports.len() as u32;
            let is_full = if tenant == 0 { first >= grouped } else { of_tenant == AROUND };
            if is_full {
                (tenant, of_tenant) = (tenant + 1, 0);
            }
            of_tenant += 1;
            let at = switches.len() as u32;
            ports.extend((first..first + size).map(|port| (at, places[port as usize])));
            switches.push(Switch { tenant, ports: first..first + size });
        }
        Self { hosts, switches, ports, members: grouped }
    }

    /// How many tenants there are.
    pub fn tenants(&self) -> u32 {
        self.switches.last().map_or(0, |it| it.tenant + 1)
    }

    /// The ports that a host has.
    pub fn ports_of(&self) -> Vec<Vec<u32>> {
        let mut all = vec![Vec::new(); self.hosts as usize];
        for (port, (_, host)) in (0..).zip(&self.ports) {
            all[*host as usize].push(port);
        }
        all
    }

    /// The hosts that have ports of a switch.
    pub fn hosts_of(&self, switch: u32) -> BTreeSet<u32> {
        let ports = self.switches[switch as usize].ports.clone();
        ports.map(|port| self.ports[port as usize].1).collect()
    }

    /// The operator's objects, but for where ports are.
    pub fn operators(&self) -> String {
        let mut text = String::new();
        (0..self.hosts).for_each(|host| say_node(&mut text, host));
        for it in 0..self.tenants() {
            say(&mut text, "Tenant", &tenant(it), None, "{}");
        }
        listed(&text)
    }

    /// A switch, its ports, where they are, and their rules.
    pub fn switch(&self, at: u32) -> String {
        let Switch { tenant, ports } = self.switches[at as usize].clone();
        let mut text = String::new();
        let name = switch(at);
        say(&mut text, "LogicalSwitch", &name, Some(tenant), r#"{"subnets":["10.0.0.0/24"]}"#);
        if is_one_of(at, SWITCHES_WITH_RULES, SWITCHES) {
            let spec = format!(
                r#"{{"order":1,"appliesTo":{{"switches":["{name}"]}},"rules":[{{"name":"telnet","direction":"toPort","action":"drop","services":[{{"protocol":"tcp","ports":[23]}}]}}]}}"#
            );
            say(&mut text, "Policy", &name, Some(tenant), &spec);
        }
        ports.for_each(|number| self.port(number).say(&mut text));
        text
    }

    /// A port that is declared, by its number.
    pub fn port(&self, number: u32) -> Port {
        let (switch, host) = self.ports[number as usize];
        let Switch { tenant, ports } = &self.switches[switch as usize];
        Port {
            name: port(number),
            tenant: *tenant,
            switch,
            number: number - ports.start,
            host,
            has_rules: is_one_of(number, PORTS_WITH_RULES, PORTS),
            round: None,
        }
    }

    /// A switch with more ports, and all that it needs to stand by itself.
    pub fn around(&self, at: u32, more: &[Port]) -> String {
        let mut text = String::new();
        say(&mut text, "Tenant", &tenant(self.switches[at as usize].tenant), None, "{}");
        let mut hosts = self.hosts_of(at);
        hosts.extend(more.iter().map(|it| it.host));
        hosts.into_iter().for_each(|host| say_node(&mut text, host));
        text += &self.switch(at);
        more.iter().for_each(|it| it.say(&mut text));
        listed(&text)
    }

    /// The path of the large group, and the JSON patch by which its last member comes or goes.
    pub fn member(&self, comes: bool) -> (String, String) {
        let last = self.members - 1;
        let patch = match comes {
            true => format!(r#"[{{"op":"add","path":"/spec/ports/-","value":"{}"}}]"#, port(last)),
            false => format!(r#"[{{"op":"remove","path":"/spec/ports/{last}"}}]"#),
        };
        (format!("/v1/tenants/{}/port-groups/everybody", tenant(0)), patch)
    }

    /// The large group with its last member or without, and, at first, the rules that speak of it.
    pub fn group(&self, is_whole: bool, with_rules: bool) -> String {
        let members = self.members - u32::from(!is_whole);
        let ports: Vec<_> = (0..members).map(|it| format!(r#""{}""#, port(it))).collect();
        let mut text = String::new();
        let spec = format!(r#"{{"ports":[{}]}}"#, ports.join(","));
        say(&mut text, "PortGroup", "everybody", Some(0), &spec);
        if with_rules {
            let rule = |it: u32| {
                format!(
                    r#"{{"name":"r{it}","direction":"toPort","action":"allow","peer":{{"groups":["everybody"]}},"services":[{{"protocol":"tcp","ports":[{}]}}]}}"#,
                    10_000 + it
                )
            };
            let rules: Vec<_> = (0..RULES).map(rule).collect();
            let spec = format!(
                r#"{{"appliesTo":{{"ports":["{}"]}},"rules":[{}]}}"#,
                port(0),
                rules.join(",")
            );
            say(&mut text, "Policy", "members", Some(0), &spec);
        }
        listed(&text)
    }
}

/// A machine's port, where it is, and its rules.
#[derive(Clone, Debug)]
pub struct Port {
    pub name: String,
    pub tenant: u32,
    pub switch: u32,
    /// Its number in the switch.
    pub number: u32,
    pub host: u32,
    pub has_rules: bool,
    /// What all that comes and goes together is labelled with.
    pub round: Option<u32>,
}

impl Port {
    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::from(0x0a00_0001 + self.number)
    }

    pub fn say(&self, text: &mut String) {
        let Self { name, tenant, round, .. } = self;
        let spec = format!(
            r#"{{"switch":"{}","vif":{{}},"addresses":["{}"]}}"#,
            switch(self.switch),
            self.address()
        );
        let mut say = |kind, tenant, spec: &str| labelled(text, kind, name, tenant, *round, spec);
        say("LogicalPort", Some(*tenant), &spec);
        say("Binding", None, &bound(*tenant, name, self.host));
        if self.has_rules {
            let spec = format!(
                r#"{{"appliesTo":{{"ports":["{name}"]}},"defaultAction":"drop","directions":["toPort"],"rules":[{{"name":"https","direction":"toPort","action":"allow","services":[{{"protocol":"tcp","ports":[443]}}]}},{{"name":"near","direction":"toPort","action":"allow","peer":{{"prefixes":["10.0.0.0/24"]}},"services":[{{"protocol":"icmp"}}]}}]}}"#
            );
            say("Policy", Some(*tenant), &spec);
        }
    }
}

/// Where a port is: the Binding of its name.
pub fn binding(tenant: u32, name: &str, host: u32) -> String {
    let mut text = String::new();
    say(&mut text, "Binding", name, None, &bound(tenant, name, host));
    listed(&text)
}

fn bound(tenant_: u32, port: &str, host: u32) -> String {
    format!(r#"{{"port":"{}/{port}","node":"{}"}}"#, tenant(tenant_), node(host))
}

/// The names of things by their numbers.
pub fn node(host: u32) -> String {
    format!("h{host}")
}

pub fn tenant(number: u32) -> String {
    format!("t{number}")
}

pub fn switch(number: u32) -> String {
    format!("s{number}")
}

pub fn port(number: u32) -> String {
    format!("p{number}")
}

/// Objects as a list.
pub fn listed(objects: &str) -> String {
    format!("[{}]", objects.trim_end_matches(",\n"))
}

fn say_node(text: &mut String, host: u32) {
    let address = Ipv4Addr::from(0xac10_0001 + host);
    say(text, "TransportNode", &node(host), None, &format!(r#"{{"vteps":["{address}"]}}"#));
}

fn say(text: &mut String, kind: &str, name: &str, tenant: Option<u32>, spec: &str) {
    labelled(text, kind, name, tenant, None, spec);
}

fn labelled(
    text: &mut String,
    kind: &str,
    name: &str,
    of: Option<u32>,
    round: Option<u32>,
    spec: &str,
) {
    let of = of.map(|it| format!(r#","tenant":"{}""#, tenant(it))).unwrap_or_default();
    let round = round.map(|it| format!(r#","labels":{{"round":"r{it}"}}"#)).unwrap_or_default();
    let _ = writeln!(
        text,
        r#"{{"kind":"{kind}","metadata":{{"name":"{name}"{of}{round}}},"spec":{spec}}},"#
    );
}

/// Whether a thing is one of so many of so many, spread evenly.
fn is_one_of(number: u32, some: u32, all: u32) -> bool {
    let before = |it: u32| u64::from(it) * u64::from(some) / u64::from(all);
    before(number + 1) > before(number)
}

/// How many ports switches have that have so many together, 9 on average.
fn sizes(ports: u32, rng: &mut Rng) -> Vec<u32> {
    let mean = PORTS / SWITCHES;
    let mut size = || {
        // Exponential: most switches are small, a few are large.
        let chance = (rng.below(1 << 32) as f64 + 1.0) / (1u64 << 32) as f64;
        let more = -chance.ln() * (f64::from(mean - LEAST) + 0.5);
        (LEAST + more as u32).min(MOST)
    };
    let mut sizes: Vec<u32> = (0..ports.div_ceil(mean)).map(|_| size()).collect();
    let mut sum: u32 = sizes.iter().sum();
    while sum != ports {
        let one = rng.below(sizes.len() as u64) as usize;
        let one = &mut sizes[one];
        if sum < ports && *one < MOST {
            (*one, sum) = (*one + 1, sum + 1);
        } else if sum > ports && *one > LEAST {
            (*one, sum) = (*one - 1, sum - 1);
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_networks_are_as_large_as_it_says() {
        let plan = Plan::new(3_000, 1);
        assert_eq!((plan.ports.len(), plan.switches.len()), (63_000, 7_000));
        let sizes: Vec<_> = plan.switches.iter().map(|it| it.ports.len()).collect();
        assert!(sizes.iter().all(|it| (2..=64).contains(it)));
        assert!(sizes.iter().filter(|it| **it > 40).count() > 10, "some are large");
        let count = |all, some, of| (0..all).filter(|it| is_one_of(*it, some, of)).count();
        assert_eq!(count(PORTS, PORTS_WITH_RULES, PORTS), 49_188);
        assert_eq!(count(SWITCHES, SWITCHES_WITH_RULES, SWITCHES), 1_553);
        assert!(plan.ports_of().iter().all(|it| it.len() == 21));
        assert_eq!(plan.members, 10_000);
        let first = plan.switches.iter().filter(|it| it.tenant == 0).map(|it| it.ports.len());
        assert!(first.sum::<usize>() >= 10_000);
    }

    #[test]
    fn what_is_declared_stands_together() {
        let plan = Plan::new(6, 3);
        let all = (0..plan.switches.len() as u32).map(|it| listed(&plan.switch(it)));
        let groups = [plan.group(true, true)];
        let texts: Vec<_> = [plan.operators()].into_iter().chain(all).chain(groups).collect();
        let topology = logical::load(&texts.join("\n---\n")).unwrap_or_else(|it| panic!("{it:#?}"));
        assert_eq!(topology.ports().count(), 6 * 21);
        assert!(topology.ports().all(|(_, port)| port.node.is_some()));
    }
}
