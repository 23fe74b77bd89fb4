//! Cases on the compiled pipeline: several hosts, each with its part of the rows, between which
//! frames go at once.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::mem;

use conntrack::{Phase, Settings, Timeouts};
use logical::objects::Identity;
use logical::topology::Attachment;
use pipeline::{Copy, Net, Onward, Reason, State};
use units::{Class, Instant, Span};
use wire::ethernet::{self, Tag};

use crate::declare::Declared;
use crate::execution::{Execution, Known, Seen, Wanted};

/// What the pipeline can. It translates nothing yet, has no ports that are the same on each host,
/// and hands no connections over.
const CAN: &[&str] = &[
    "inspect",
    "arp",
    "nd",
    "ip6",
    "ipv6",
    "icmp",
    "acl",
    "stateful",
    "conntrack",
    "tiers",
    "reject",
    "router",
    "routing",
    "netpol",
    "security",
    "fragments",
    "child",
    "ecmp",
    "policy-routes",
    "dhcp",
    "dhcp6",
    "dns",
    "ra",
    "sets",
    "groups",
];

/// A host: its part of each domain, by the domain's name, and what it knows of frames before.
#[derive(Debug)]
struct Host {
    nets: BTreeMap<Identity, Net>,
    state: State,
}

impl Host {
    fn new() -> Self {
        let settings = Settings {
            connections: 1 << 16,
            zones: 1 << 10,
            tenants: 1 << 6,
            timeouts: Timeouts::default(),
            key: [0; 2],
        };
        Self { nets: BTreeMap::new(), state: State::new(&settings, Instant::ZERO) }
    }
}

/// Hosts that execute a topology's rows, and all that they have been sent.
#[derive(Debug, Default)]
pub struct OnPipeline {
    declared: Option<Declared>,
    hosts: BTreeMap<String, Host>,
    /// The host and the domain of each port.
    places: BTreeMap<Identity, (String, Identity)>,
    now: Instant,
    arrived: Vec<Seen>,
}

impl OnPipeline {
    /// Without a topology yet.
    pub fn new() -> Self {
        Self { now: Instant::from_nanos(1_000_000_000), ..Self::default() }
    }

    /// A port's frame as its machine has it: a child's without its tag.
    fn got(&mut self, name: &Identity, frame: Vec<u8>) {
        let Some(declared) = &self.declared else { return };
        let mut ports = declared.topology.ports();
        let Some((index, port)) = ports.find(|(_, port)| port.id == *name) else { return };
        let Some(name) = declared.name(index) else { return };
        let frame = match port.attachment {
            Attachment::Child { .. } => {
                ethernet::untagged(&frame).map(|(_, inner)| inner).unwrap_or_default()
            }
            _ => frame,
        };
        self.arrived.push(Seen { port: name.to_string(), frame });
    }

    /// Sends a frame at its port's host, has the hosts of those it is for decide, and commits what
    /// has come to pass.
    fn execute(&mut self, port: &Identity, frame: &[u8]) -> Result<(), String> {
        let unknown = || format!("no host has {port}");
        let (from, domain) = self.places.get(port).cloned().ok_or_else(unknown)?;
        let host = self.hosts.get(&from).ok_or_else(unknown)?;
        let net = host.nets.get(&domain).ok_or_else(unknown)?;
        let at = net.port(port).ok_or_else(unknown)?;
        let sent = net.send(&host.state, self.now, at, frame);
        let named = |net: &Net, copy: Copy| (net.name(copy.port).clone(), copy.frame);
        let mut all: Vec<_> = sent.answers.into_iter().map(|copy| named(net, copy)).collect();
        let mut changes = Vec::new();
        let mut is_delivered = false;
        for onward in &sent.onward {
            let Some((to, far)) = self.far(onward, &domain) else { continue };
            let received = far.1.receive(far.0, self.now, onward);
            match received.fate {
                Ok(copy) => {
                    is_delivered = true;
                    all.push(named(far.1, copy));
                }
                Err(refusal) if refusal.reason == Reason::Rejected => {
                    all.extend(net.rejected(at, frame).map(|copy| named(net, copy)));
                }
                Err(_) => {}
            }
            changes.push((to.to_owned(), received.changes));
        }
        let mut own = sent.changes;
        own.retain(|change| is_delivered || !change.grants());
        changes.insert(0, (from, own));
        for (host, changes) in changes {
            if let Some(host) = self.hosts.get_mut(&host) {
                host.state.commit(&changes, self.now);
            }
        }
        all.into_iter().for_each(|(name, frame)| self.got(&name, frame));
        Ok(())
    }

    /// The host that a frame goes on to.
    fn far(&self, onward: &Onward, domain: &Identity) -> Option<(&str, (&State, &Net))> {
        let (name, _) = self.places.get(&onward.to)?;
        let host = self.hosts.get(name)?;
        Some((name, (&host.state, host.nets.get(domain)?)))
    }
}

impl Execution for OnPipeline {
    fn name(&self) -> &'static str {
        "pipeline"
    }

    fn can(&self, need: &str) -> bool {
        CAN.contains(&need)
    }

    fn realize(&mut self, wanted: Wanted<'_>) -> Result<(), String> {
        let topology = &wanted.declared.topology;
        let hosts: BTreeMap<&str, &str> = (wanted.network.ports.iter())
            .filter_map(|(name, port)| Some((name.as_str(), port.at.as_deref()?)))
            .collect();
        let domains = compiler::compile(topology);
        self.places.clear();
        for (index, port) in topology.ports() {
            // A child is where its parent is.
            let at = match port.attachment {
                Attachment::Child { parent, .. } => parent,
                _ => index,
            };
            let host = wanted.declared.name(at).and_then(|name| hosts.get(name)).unwrap_or(&"");
            let has = |it: &&Identity| domains[*it].ports.contains_key(&port.id);
            if let Some(domain) = domains.keys().find(has) {
                self.places.insert(port.id.clone(), ((*host).to_owned(), domain.clone()));
                self.hosts.entry((*host).to_owned()).or_insert_with(Host::new);
            }
        }
        for (name, host) in &mut self.hosts {
            let places = &self.places;
            let is_here = |port: &Identity| places.get(port).is_some_and(|(at, _)| at == name);
            let own: BTreeSet<_> = places.keys().filter(|it| is_here(it)).cloned().collect();
            host.state.retain(is_here);
            host.nets.clear();
            for (domain, rows) in &domains {
                let net = Net::new(&rows.part(&own));
                host.state.adopt(&net);
                host.nets.insert(domain.clone(), net);
            }
        }
        self.declared = Some(wanted.declared.clone());
        Ok(())
    }

    fn send(&mut self, port: &str, frame: &[u8]) -> Result<(), String> {
        let Some(declared) = &self.declared else { return Err("nothing is declared".to_owned()) };
        let index = declared.port(port).ok_or_else(|| format!("no port is called `{port}`"))?;
        let own = &declared.topology[index];
        let (id, sent) = match own.attachment {
            // A machine behind another's tag is asked for by its own name.
            Attachment::Child { parent, vlan } => {
                let tag = Tag { class: Class::default(), vlan };
                (declared.topology[parent].id.clone(), ethernet::tagged(frame, tag))
            }
            _ => (own.id.clone(), frame.to_vec()),
        };
        self.execute(&id, &sent)
    }

    fn receive(&mut self) -> Vec<Seen> {
        mem::take(&mut self.arrived)
    }

    fn wait(&mut self, span: Span) {
        self.now += span;
        for host in self.hosts.values_mut() {
            host.state.expire(self.now, u32::MAX);
        }
    }

    fn connections(&self, port: &str) -> Result<Vec<Known>, String> {
        let Some(declared) = &self.declared else { return Ok(Vec::new()) };
        let index = declared.port(port).ok_or_else(|| format!("no port is called `{port}`"))?;
        let id = &declared.topology[index].id;
        let Some(host) = self.places.get(id).and_then(|(host, _)| self.hosts.get(host)) else {
            return Ok(Vec::new());
        };
        let known = host.state.connections(id, self.now);
        Ok(known.map(|(tuple, phase)| Known { tuple, state: word(phase) }).collect())
    }

    fn end(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// How far a connection is, as cases say it.
const fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Opening | Phase::Crossing => "new",
        Phase::Closing => "closing",
        Phase::TimeWait | Phase::Closed => "closed",
        Phase::Accepting
        | Phase::Established
        | Phase::Udp
        | Phase::Names
        | Phase::Echo
        | Phase::Other => "established",
    }
}
