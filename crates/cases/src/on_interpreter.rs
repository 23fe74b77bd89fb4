//! Cases on the interpreter: objects alone decide, and what leaves is committed at once.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::mem;

use interpreter::{Arrival, Decision, State, attend, decide};
use logical::topology::Attachment;
use units::{Class, Instant, Span};
use wire::ethernet::{self, Tag};

use crate::declare::{Declared, plain};
use crate::execution::{Execution, Known, Seen, Wanted};

/// What the interpreter can.
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
    "nat",
    "snat",
    "dnat",
    "floating",
    "lb",
    "netpol",
    "security",
    "fragments",
    "child",
    "local",
    "ecmp",
    "policy-routes",
    "learn",
    "learning",
    "dhcp",
    "dhcp6",
    "dns",
    "ra",
    "sets",
    "groups",
    "move",
    "symmetric",
    "limits",
    "lb-arp",
    "health",
    "neighbours",
];

/// The interpreter, and all that it has been sent.
#[derive(Debug, Default)]
pub struct OnInterpreter {
    declared: Option<Declared>,
    /// Where each port is.
    hosts: BTreeMap<String, String>,
    state: State,
    now: Instant,
    arrived: Vec<Seen>,
}

impl OnInterpreter {
    /// Without a topology yet.
    pub fn new() -> Self {
        Self { now: Instant::from_nanos(1_000_000_000), ..Self::default() }
    }

    /// What came of a frame at a host.
    fn got(&mut self, decision: Decision, host: Option<&str>) {
        let Some(declared) = &self.declared else { return };
        let topology = &declared.topology;
        for copy in decision.delivered.into_iter().chain(decision.answers) {
            let Some(name) = declared.name(copy.port) else { continue };
            let (port, frame) = match topology[copy.port].attachment {
                Attachment::Local => {
                    let host = host.unwrap_or_default();
                    (format!("{name}@{host}"), copy.frame)
                }
                Attachment::Child { .. } => {
                    let inner = ethernet::untagged(&copy.frame).map(|(_, inner)| inner);
                    (name.to_string(), inner.unwrap_or_default())
                }
                _ => (name.to_string(), copy.frame),
            };
            self.arrived.push(Seen { port, frame });
        }
    }

    /// What routers have to do about their neighbours until then, in its time.
    fn attend(&mut self, until: Instant) {
        while let Some(due) = self.state.neighbours_due().filter(|due| *due <= until)
            && let Some(declared) = &self.declared
        {
            let now = due.max(self.now);
            let decisions = attend(&declared.topology, &mut self.state, now);
            decisions.into_iter().for_each(|it| self.got(it, None));
        }
    }
}

impl Execution for OnInterpreter {
    fn name(&self) -> &'static str {
        "interpreter"
    }

    fn can(&self, need: &str) -> bool {
        CAN.contains(&need)
    }

    fn realize(&mut self, wanted: Wanted<'_>) -> Result<(), String> {
        self.declared = Some(wanted.declared.clone());
        let at = |(name, port): (&String, &crate::network::Port)| {
            Some((name.clone(), port.at.clone().filter(|_| !port.local)?))
        };
        self.hosts = wanted.network.ports.iter().filter_map(at).collect();
        let topology = &wanted.declared.topology;
        self.state.set_down(wanted.declared.down.clone());
        self.state.retain(|port| topology.ports().any(|(_, it)| it.id == *port));
        Ok(())
    }

    fn send(&mut self, port: &str, frame: &[u8]) -> Result<(), String> {
        let Some(declared) = &self.declared else { return Err("nothing is declared".to_owned()) };
        let (name, host) = port.split_once('@').map_or((port, None), |(a, b)| (a, Some(b)));
        let unknown = || format!("no port is called `{name}`");
        let index = declared.port(name).ok_or_else(unknown)?;
        let topology = &declared.topology;
        let host = host.or_else(|| self.hosts.get(name).map(String::as_str)).map(ToOwned::to_owned);
        let node = host.as_deref().and_then(|host| {
            topology.nodes().find(|(_, it)| it.id.name.as_str() == plain(host)).map(|it| it.0)
        });
        // A machine behind another's tag is asked for by its own name.
        let tag = match topology[index].attachment {
            Attachment::Child { vlan, .. } => Some(vlan),
            _ => None,
        };
        let sent = match tag {
            Some(vlan) => ethernet::tagged(frame, Tag { class: Class::default(), vlan }),
            None => frame.to_vec(),
        };
        let decision =
            decide(topology, &self.state, self.now, Arrival { port: index, node, frame: &sent });
        self.state.commit(&decision.changes, self.now);
        self.got(decision, host.as_deref());
        self.attend(self.now);
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<Seen>, String> {
        Ok(mem::take(&mut self.arrived))
    }

    fn wait(&mut self, span: Span) {
        self.attend(self.now + span);
        self.now += span;
    }

    fn connections(&self, port: &str) -> Result<Vec<Known>, String> {
        let Some(declared) = &self.declared else { return Ok(Vec::new()) };
        let index = declared.port(port).ok_or_else(|| format!("no port is called `{port}`"))?;
        let known = self.state.of(&declared.topology[index].id, self.now);
        Ok(known.map(|(tuple, state)| Known { tuple, state }).collect())
    }

    fn end(&mut self) -> Result<(), String> {
        Ok(())
    }
}
