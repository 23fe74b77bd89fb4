//! Whether pings arrive that are to, and no others: what two hosts would do with a frame by what
//! their agents were told, against what the objects say.
//!
//! There are too many pairs to ask all. Those asked are chance: most within a switch, since those
//! across can only be refused.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use conntrack::Timeouts;
use image::{Domain, Site, Told};
use interpreter::{Arrival, decide};
use logical::Topology;
use logical::objects::{Identity, Kind};
use logical::topology::PortIndex;
use pipeline::{Net, State};
use units::{Instant, Mac, Rng};
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::ipv4;
use zerocopy::IntoBytes;

use super::agents::Agents;
use super::plan::{self, Plan, Port};
use super::process::failed;
use crate::MeasureError;

/// Pairs that are asked after a phase, and of how many one is across switches.
pub const PAIRS: u32 = 300;
const ACROSS: u64 = 6;

/// An echo request, and a datagram without a checksum (RFC 792, RFC 768).
const ECHO: [u8; 8] = [8, 0, 0xf7, 0xfd, 0, 1, 0, 1];
const DATAGRAM: [u8; 8] = [0x10, 0, 0x10, 0, 0, 8, 0, 0];

/// When it is, to hosts. No connection is known to them.
const NOW: Instant = Instant::from_nanos(1_000_000_000);

/// Asks for pairs of ports. How many answers are not as intended.
pub fn wrong(plan: &Plan, agents: &Agents, rng: &mut Rng) -> Result<u32, MeasureError> {
    let mut wrong = 0;
    for _ in 0..PAIRS {
        wrong += u32::from(!anywhere(plan, agents, rng)?);
    }
    Ok(wrong)
}

/// Asks for a pair of ports, wherever they are. Whether the answer is as intended.
pub fn anywhere(plan: &Plan, agents: &Agents, rng: &mut Rng) -> Result<bool, MeasureError> {
    let (switch, _) = plan.ports[rng.below(plan.ports.len() as u64) as usize];
    Switch::new(plan, switch, &[], rng)?.ask(agents, rng)
}

/// A switch that is asked about.
pub struct Switch {
    /// What objects say of it: with all of its ports, and before those came that come.
    intents: Vec<Topology>,
    ports: Vec<Port>,
    /// A port elsewhere, or here.
    stranger: Option<Port>,
    domain: String,
}

impl Switch {
    /// The switch of a plan, and with ports that come or go meanwhile.
    pub fn new(plan: &Plan, at: u32, more: &[Port], rng: &mut Rng) -> Result<Self, MeasureError> {
        let states: &[&[Port]] = if more.is_empty() { &[&[]] } else { &[more, &[]] };
        let intent = |more: &&[Port]| {
            logical::load(&plan.around(at, more)).map_err(|it| failed(format!("{it:?}")))
        };
        let intents = states.iter().map(intent).collect::<Result<_, _>>()?;
        let plan::Switch { tenant, ports } = plan.switches[at as usize].clone();
        let stranger = Some(plan.port(rng.below(plan.ports.len() as u64) as u32));
        let domain = format!("LogicalSwitch/{}/{}", plan::tenant(tenant), plan::switch(at));
        let ports = ports.map(|it| plan.port(it)).chain(more.iter().cloned()).collect();
        Ok(Self { intents, ports, stranger, domain })
    }

    /// Does not ask about a port: it moves, and is nowhere for a moment.
    pub fn without(mut self, name: &str) -> Self {
        self.ports.retain(|it| it.name != name);
        self.stranger = self.stranger.filter(|it| it.name != name);
        self
    }

    /// Asks for a pair of ports. Whether the answer is as intended.
    pub fn ask(&self, agents: &Agents, rng: &mut Rng) -> Result<bool, MeasureError> {
        let mut any = || self.ports.get(rng.below(self.ports.len() as u64) as usize);
        let (Some(from), Some(near)) = (any(), any()) else { return Ok(true) };
        let stranger = self.stranger.as_ref().filter(|_| rng.below(ACROSS) == 0);
        let to = stranger.unwrap_or(near);
        self.is_right(agents, [from, to], rng.below(2) == 0)
    }

    /// Whether one port reaches another as it is to by objects, those before or those after.
    fn is_right(
        &self,
        agents: &Agents,
        [from, to]: [&Port; 2],
        is_echo: bool,
    ) -> Result<bool, MeasureError> {
        let (own, whom) = (identity(from)?, identity(to)?);
        let all = &self.intents[0];
        // Whoever is in no switch with the sender has addresses that nobody there has.
        let mac = |id| place(all, id).map_or(Mac([2, 9, 9, 9, 9, 9]), |it| all[it].mac);
        let addresses = [from.address(), to.address()];
        let frame = frame([mac(&whom), mac(&own)], addresses, is_echo)?;
        let arrives =
            arrives(agents, &self.domain, [(from.host, &own), (to.host, &whom)], all, &frame)?;
        let is_intended = |it: &Topology| intends(it, [&own, &whom], &frame) == arrives;
        Ok(self.intents.iter().any(is_intended))
    }
}

fn identity(port: &Port) -> Result<Identity, MeasureError> {
    let tenant = plan::tenant(port.tenant).parse().ok();
    let name = port.name.parse().map_err(failed)?;
    Ok(Identity { kind: Kind::LogicalPort, tenant, name })
}

/// Where a port is in what objects say.
fn place(intent: &Topology, id: &Identity) -> Option<PortIndex> {
    intent.port(id.tenant.as_ref()?.as_str(), id.name.as_str())
}

/// Whether objects have a frame of one port arrive at another.
fn intends(intent: &Topology, [own, whom]: [&Identity; 2], frame: &[u8]) -> bool {
    let Some(port) = place(intent, own) else { return false };
    let arrival = Arrival { port, node: None, frame };
    let decided = decide(intent, &interpreter::State::default(), NOW, arrival);
    decided.delivered.iter().any(|it| intent[it.port].id == *whom)
}

/// Whether a frame arrives by what both hosts were told.
fn arrives(
    agents: &Agents,
    domain: &str,
    [(sender, own), (receiver, whom)]: [(u32, &Identity); 2],
    intent: &Topology,
    frame: &[u8],
) -> Result<bool, MeasureError> {
    let timeouts = Timeouts::default();
    let settings =
        conntrack::Settings { connections: 64, zones: 8, tenants: 2, timeouts, key: [1, 2] };
    let state = State::new(&settings, NOW);
    let Some((net, sites)) = host(agents, sender, domain, own)? else { return Ok(false) };
    let Some(port) = net.own_port(own) else { return Ok(false) };
    let sent = net.send(&state, NOW, port, frame);
    let Some(onward) = sent.onward.into_iter().find(|it| it.to == *whom) else { return Ok(false) };
    let node = place(intent, whom).and_then(|it| intent[it].node);
    let site = sites.iter().find(|(id, _)| id == whom).map(|(_, site)| site);
    if site != node.map(|it| &intent[it].node.vteps) {
        return Ok(false);
    }
    let Some((net, _)) = host(agents, receiver, domain, whom)? else { return Ok(false) };
    Ok(net.receive(&state, NOW, &onward).fate.is_ok())
}

/// A host's part of a domain, and where ports are.
type Host = (Net, Vec<(Identity, Site)>);

/// A host's part of a domain with a port of its, by what its agent was told.
fn host(
    agents: &Agents,
    host: u32,
    domain: &str,
    port: &Identity,
) -> Result<Option<Host>, MeasureError> {
    let Some(told) = agents.rows(host, domain) else { return Ok(None) };
    let (mut rows, mut sites) = (Domain::default(), Vec::new());
    for (key, row) in told.rows() {
        match Told::decode(key, Some(row)).map_err(failed)? {
            Told::Row(change) => rows.apply(change),
            Told::Site(id, site) => sites.extend(site.map(|it| (id, it))),
            Told::Label(..) => {}
        }
    }
    let net = Net::new(&rows.part(&BTreeSet::from([port.clone()])));
    Ok(Some((net, sites)))
}

/// A frame to and from these Ethernet addresses, from and to these IP addresses.
fn frame(
    [to, from]: [Mac; 2],
    [source, destination]: [Ipv4Addr; 2],
    is_echo: bool,
) -> Result<Vec<u8>, MeasureError> {
    let (carried, body) = if is_echo { (protocol::ICMP, ECHO) } else { (protocol::UDP, DATAGRAM) };
    let packet = ipv4::Header::new(source, destination, carried, body.len())
        .ok_or_else(|| failed("a packet of eight bytes is too long"))?;
    let ethernet = ethernet::Header::new(to, from, ethertype::IPV4);
    Ok([ethernet.as_bytes(), packet.as_bytes(), &body].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_wrong_that_agrees_neither_with_what_was_nor_with_what_is_to_be() {
        let (plan, mut rng) = (Plan::new(10, 1), Rng::new(1));
        // Nobody tells them anything, so nothing arrives.
        let agents = Agents::start(&plan, "127.0.0.1:1".parse().unwrap(), None).unwrap();
        let first = plan.port(0);
        let new = Port { name: "new".into(), number: 64, host: 9, ..first };
        let switch = Switch::new(&plan, 0, &[new], &mut rng).unwrap();
        let [one, other, .., new] = &switch.ports[..] else { panic!() };
        let is_right = |pair| switch.is_right(&agents, pair, true).unwrap();
        assert!(!is_right([one, other]));
        assert!(is_right([one, new]) && is_right([new, one]), "it comes, and is not yet there");
        let switch = Switch::new(&plan, 0, &[], &mut rng).unwrap();
        let [one, other, ..] = &switch.ports[..] else { panic!() };
        assert!(!switch.is_right(&agents, [one, other], true).unwrap());
        let names: Vec<_> = switch.without("p1").ports.into_iter().map(|it| it.name).collect();
        assert!(names.contains(&"p0".into()) && !names.contains(&"p1".into()));
    }
}
