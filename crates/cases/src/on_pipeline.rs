//! Cases on the compiled pipeline: several hosts, each with its part of the rows, between which
//! frames go at once.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::mem;

use conntrack::Phase;
use logical::topology::Attachment;
use units::{Class, Instant, Span};
use wire::ethernet::{self, Tag};

use crate::declare::{Declared, plain};
use crate::edit::Op;
use crate::execution::{Execution, Known, Seen, Wanted};
use crate::hosts::{Got, Hosts};

/// What the pipeline can.
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
    "nat",
    "snat",
    "dnat",
    "floating",
    "lb",
    "routing",
    "netpol",
    "security",
    "fragments",
    "child",
    "local",
    "ecmp",
    "policy-routes",
    "dhcp",
    "dhcp6",
    "dns",
    "ra",
    "sets",
    "groups",
    "learn",
    "learning",
    "lb-arp",
    "health",
    "limits",
    "symmetric",
    "move",
    "neighbours",
];

/// Hosts that execute a topology's rows, and all that they have been sent.
#[derive(Debug, Default)]
pub struct OnPipeline {
    declared: Option<Declared>,
    hosts: Hosts,
    now: Instant,
    arrived: Vec<Seen>,
}

impl OnPipeline {
    /// Without a topology yet.
    pub fn new() -> Self {
        Self { now: Instant::from_nanos(1_000_000_000), ..Self::default() }
    }

    /// What routers have to do about their neighbours until then, in its time.
    fn attend(&mut self, until: Instant) {
        while let Some(due) = self.hosts.due().filter(|due| *due <= until) {
            let fates = self.hosts.attend(due.max(self.now));
            fates.into_iter().flat_map(|it| it.delivered).for_each(|it| self.got(it));
        }
    }

    /// A port's frame as its machine has it: a child's without its tag.
    fn got(&mut self, Got { host, port, frame }: Got) {
        let Some(declared) = &self.declared else { return };
        let mut ports = declared.topology.ports();
        let Some((index, own)) = ports.find(|(_, it)| it.id == port) else { return };
        let Some(name) = declared.name(index) else { return };
        let (port, frame) = match own.attachment {
            Attachment::Local => (format!("{name}@{host}"), frame),
            Attachment::Child { .. } => {
                let inner = ethernet::untagged(&frame).map(|(_, inner)| inner);
                (name.to_string(), inner.unwrap_or_default())
            }
            _ => (name.to_string(), frame),
        };
        self.arrived.push(Seen { port, frame });
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
        let (network, declared) = (wanted.network, wanted.declared);
        let places: BTreeMap<&str, &String> = (network.ports.iter())
            .filter_map(|(name, port)| Some((name.as_str(), port.at.as_ref()?)))
            .collect();
        if let Some(Op::Move(it)) = wanted.op
            && let Some(index) = declared.port(&it.port)
        {
            self.hosts.expect(&declared.topology[index].id, &it.to);
        }
        let all = network.hosts.iter().cloned();
        self.hosts.realize(
            &declared.topology,
            all,
            |index| {
                let host = declared.name(index).and_then(|name| places.get(name).copied());
                host.cloned().unwrap_or_default()
            },
            |router| {
                let ports = &declared.topology[router].ports;
                let gateway = ports.iter().flat_map(|it| &declared.topology[*it].gateway).next();
                let node = gateway.map(|node| declared.topology[*node].id.name.as_str());
                let mut all = network.hosts.iter();
                let home = all.find(|it| node.is_none_or(|node| node == plain(it)));
                home.cloned().unwrap_or_default()
            },
        );
        self.hosts.set_down(&declared.down);
        self.declared = Some(declared.clone());
        Ok(())
    }

    fn send(&mut self, port: &str, frame: &[u8]) -> Result<(), String> {
        let Some(declared) = &self.declared else { return Err("nothing is declared".to_owned()) };
        let (name, host) = port.split_once('@').map_or((port, None), |(a, b)| (a, Some(b)));
        let index = declared.port(name).ok_or_else(|| format!("no port is called `{name}`"))?;
        let own = &declared.topology[index];
        let (id, sent) = match own.attachment {
            // A machine behind another's tag is asked for by its own name.
            Attachment::Child { parent, vlan } => {
                let tag = Tag { class: Class::default(), vlan };
                (declared.topology[parent].id.clone(), ethernet::tagged(frame, tag))
            }
            _ => (own.id.clone(), frame.to_vec()),
        };
        let fate = self.hosts.send(self.now, &id, host, &sent);
        let fate = fate.ok_or_else(|| format!("no host has {id}"))?;
        fate.answers.into_iter().chain(fate.delivered).for_each(|it| self.got(it));
        self.attend(self.now);
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<Seen>, String> {
        Ok(mem::take(&mut self.arrived))
    }

    fn wait(&mut self, span: Span) {
        self.attend(self.now + span);
        self.now += span;
        self.hosts.expire(self.now);
    }

    fn connections(&self, port: &str) -> Result<Vec<Known>, String> {
        let Some(declared) = &self.declared else { return Ok(Vec::new()) };
        let index = declared.port(port).ok_or_else(|| format!("no port is called `{port}`"))?;
        let known = self.hosts.connections(&declared.topology[index].id, self.now).into_iter();
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
