//! Where the switch sends each frame: by its routes where they were declared, else as a bridge
//! learns.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use datapath::{Datapath, Network, Verdict};
use lossless::{Audience, Destination, PortId, PortSet, Refusal};
use units::{Class, Instant, Mac};
use wire::ethernet::Peek;
use wire::flow;

use crate::Route;

/// How the switch knows where addresses are.
#[derive(Debug)]
pub(crate) enum Forwarding {
    /// It learns (802.1Q §8.6).
    Learns(Box<Datapath>),
    /// They were declared.
    Routes(Box<Routes>),
}

/// Ports by the addresses that they lead to.
#[derive(Debug)]
pub(crate) struct Routes {
    ports: BTreeMap<Mac, Vec<PortId>>,
    /// Those that lead to hosts: who gets what is for no declared address.
    hosts: Audience,
    /// What came by one of these leaves by none of them.
    trunks: PortSet,
    /// Some address is reached by several ports.
    has_choice: bool,
}

impl Forwarding {
    /// For a switch with these ports: each one's class, and whether it is a trunk to other switches
    /// that has hosts beside it. Only a switch with routes has trunks.
    pub fn new(routes: &[Route], ports: &[(PortId, Class, bool)]) -> Self {
        if routes.is_empty() {
            // Physical switches have room for thousands of addresses.
            let settings =
                datapath::Settings { mac_limit: 1 << 14, ..datapath::Settings::default() };
            let mut datapath = Datapath::new(settings);
            for (id, class, _) in ports {
                let config = datapath::PortConfig { class: *class, ..Default::default() };
                datapath.attach(*id, config);
            }
            return Self::Learns(Box::new(datapath));
        }
        let (mut hosts, mut trunks) = (Audience::default(), PortSet::default());
        for (id, _, is_trunk) in ports {
            if *is_trunk { &mut trunks } else { &mut hosts.ports }.insert(*id);
        }
        let ids = |route: &Route| route.ports.iter().map(|port| ports[*port].0).collect();
        let ports: BTreeMap<Mac, Vec<PortId>> =
            routes.iter().map(|route| (route.mac, ids(route))).collect();
        let has_choice = ports.values().any(|ports| ports.len() > 1);
        Self::Routes(Box::new(Routes { ports, hosts, trunks, has_choice }))
    }

    /// The hash of a frame's flow, if that is of use.
    pub fn flow(&self, head: &[u8], len: usize) -> u32 {
        match self {
            Self::Routes(routes) if routes.has_choice => flow::hash(head, len),
            _ => 0,
        }
    }

    /// For whom a frame is that came by `from`.
    ///
    /// # Errors
    ///
    /// Why it is for nobody.
    pub fn decide(
        &mut self,
        now: Instant,
        from: PortId,
        header: &Peek,
        flow: u32,
    ) -> Result<Destination<'_>, Refusal> {
        match self {
            Self::Learns(datapath) => {
                match datapath.decide(now, from, header, Network::default()).verdict {
                    Verdict::Forward(destination) => Ok(destination),
                    Verdict::Refuse(refusal) => Err(refusal),
                }
            }
            Self::Routes(routes) => routes.decide(from, header.destination(), flow),
        }
    }

    /// Forgets what is too old.
    pub fn tick(&mut self, now: Instant) {
        if let Self::Learns(datapath) = self {
            datapath.tick(now);
        }
    }
}

impl Routes {
    fn decide(&self, from: PortId, to: Mac, flow: u32) -> Result<Destination<'_>, Refusal> {
        if datapath::is_link_local(to) {
            return Err(Refusal::LINK_LOCAL);
        }
        let Some(ports) = self.ports.get(&to) else { return Ok(Destination::Many(&self.hosts)) };
        let port = ports[flow::place(flow, ports.len())];
        if port == from {
            Err(Refusal::SAME_PORT)
        } else if self.trunks.contains(port) && self.trunks.contains(from) {
            Err(Refusal::SPLIT_HORIZON)
        } else {
            Ok(Destination::One(port))
        }
    }
}
