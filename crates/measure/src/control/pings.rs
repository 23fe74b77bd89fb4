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
use pipeline::{Net, State};
use units::{Instant, Mac, Rng};
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::ipv4;
use zerocopy::IntoBytes;

use super::agents::Agents;
use super::plan::{self, Plan};
use super::process::failed;
use crate::MeasureError;

/// Pairs that are asked each time, and of how many one is across switches.
pub const PAIRS: u32 = 300;
const ACROSS: u64 = 6;

/// An echo request, and a datagram without a checksum (RFC 792, RFC 768).
const ECHO: [u8; 8] = [8, 0, 0xf7, 0xfd, 0, 1, 0, 1];
const DATAGRAM: [u8; 8] = [0x10, 0, 0x10, 0, 0, 8, 0, 0];

/// Asks for pairs of ports. How many answers are not as intended.
pub fn wrong(plan: &Plan, agents: &Agents, rng: &mut Rng) -> Result<u32, MeasureError> {
    let mut wrong = 0;
    for _ in 0..PAIRS {
        let from = rng.below(plan.ports.len() as u64) as u32;
        let (switch, _) = plan.ports[from as usize];
        let own = plan.switches[switch as usize].ports.clone();
        let to = match rng.below(ACROSS) {
            0 => rng.below(plan.ports.len() as u64) as u32,
            _ => own.start + rng.below(u64::from(own.end - own.start)) as u32,
        };
        let is_echo = rng.below(2) == 0;
        wrong += u32::from(!is_right(plan, agents, from, to, is_echo)?);
    }
    Ok(wrong)
}

fn is_right(
    plan: &Plan,
    agents: &Agents,
    from: u32,
    to: u32,
    is_echo: bool,
) -> Result<bool, MeasureError> {
    let [(switch, sender), (other, receiver)] = [from, to].map(|it| plan.ports[it as usize]);
    let intent = logical::load(&plan.around(switch)).map_err(|it| failed(format!("{it:?}")))?;
    let [own, whom] = [(from, switch), (to, other)].map(|(port, switch)| {
        let tenant = plan::tenant(plan.switches[switch as usize].tenant).parse().ok();
        let name = plan::port(port).parse().map_err(failed)?;
        Ok::<_, MeasureError>(Identity { kind: Kind::LogicalPort, tenant, name })
    });
    let (own, whom) = (own?, whom?);
    let place = |id: &Identity| intent.port(id.tenant.as_ref()?.as_str(), id.name.as_str());
    let Some(port) = place(&own) else { return Ok(false) };
    // Whoever is in no switch with the sender has addresses that nobody there has.
    let mac = place(&whom).map_or(Mac([2, 9, 9, 9, 9, 9]), |it| intent[it].mac);
    let of_switch = |port: u32, switch: u32| port - plan.switches[switch as usize].ports.start;
    let [source, destination] =
        [of_switch(from, switch), of_switch(to, other)].map(|it| Ipv4Addr::from(0x0a00_0001 + it));
    let frame = frame([mac, intent[port].mac], [source, destination], is_echo)?;
    let now = Instant::from_nanos(1_000_000_000);
    let arrival = Arrival { port, node: None, frame: &frame };
    let decided = decide(&intent, &interpreter::State::default(), now, arrival);
    let is_intended = decided.delivered.iter().any(|it| intent[it.port].id == whom);

    let domain = format!(
        "LogicalSwitch/{}/{}",
        plan::tenant(plan.switches[switch as usize].tenant),
        plan::switch(switch)
    );
    let arrives =
        arrives(agents, &domain, [(sender, &own), (receiver, &whom)], &intent, &frame, now)?;
    Ok(arrives == is_intended)
}

/// Whether a frame arrives by what both hosts were told.
fn arrives(
    agents: &Agents,
    domain: &str,
    [(sender, own), (receiver, whom)]: [(u32, &Identity); 2],
    intent: &Topology,
    frame: &[u8],
    now: Instant,
) -> Result<bool, MeasureError> {
    let timeouts = Timeouts::default();
    let settings =
        conntrack::Settings { connections: 64, zones: 8, tenants: 2, timeouts, key: [1, 2] };
    let state = State::new(&settings, now);
    let Some((net, sites)) = host(agents, sender, domain, own)? else { return Ok(false) };
    let Some(port) = net.own_port(own) else { return Ok(false) };
    let sent = net.send(&state, now, port, frame);
    let Some(onward) = sent.onward.into_iter().find(|it| it.to == *whom) else { return Ok(false) };
    let node = intent.port(whom.tenant.as_ref().map_or("", |it| it.as_str()), whom.name.as_str());
    let node = node.and_then(|it| intent[it].node);
    let site = sites.iter().find(|(id, _)| id == whom).map(|(_, site)| site);
    if site != node.map(|it| &intent[it].node.vteps) {
        return Ok(false);
    }
    let Some((net, _)) = host(agents, receiver, domain, whom)? else { return Ok(false) };
    Ok(net.receive(&state, now, &onward).fate.is_ok())
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
