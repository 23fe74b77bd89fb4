//! Where a router sends a packet.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use image::Target;
use logical::objects::{EcmpHash, Identity, Name};
use packet::{Tuple, flow_hash};
use units::{Mac, Prefix};

use crate::net::{Leads, Net, Router};
use crate::places::{PortAt, RouterPortAt, SwitchAt};
use crate::ports::Ports;
use crate::routes::{Decision, Route, To};
use crate::rules::Subject;

/// What a router does with a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// It goes to a neighbour, by a port.
    To(IpAddr, RouterPortAt),
    /// A route discards it; `reject`: and its sender is told.
    Discard { reject: bool },
    /// A route policy drops it.
    Drop,
    /// No route leads there.
    None,
}

/// Whom a packet is handed to.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    pub mac: Mac,
    /// The port that it is behind, of a neighbour that nobody declares.
    pub behind: Option<PortAt>,
}

/// Why there is nobody.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Missing {
    /// Another host asks this router's neighbours.
    Elsewhere,
    /// The packet waits until the neighbour is heard.
    Held,
    /// There is none, or it does not answer, or no more packets may wait for it.
    Unresolved,
}

/// What decided where a packet goes.
#[derive(Clone, Copy, Debug)]
pub enum By<'a> {
    /// No route.
    Nothing,
    /// A route policy of a router.
    Policy(&'a Identity, &'a Name),
    /// The network of a router's port.
    Connected(Prefix, &'a Identity),
    /// A route of a router.
    Route(Prefix, &'a Identity),
    /// The same, and the way by which the flow came that this answers.
    Back(Prefix, &'a Identity),
}

impl By<'_> {
    /// As steps tell it.
    pub fn told(self) -> Option<String> {
        Some(match self {
            Self::Nothing => return None,
            Self::Policy(router, name) => format!("{router} policy {name}"),
            Self::Connected(prefix, out) => format!("{prefix} of {out}"),
            Self::Route(prefix, router) => format!("route {prefix} of {router}"),
            Self::Back(prefix, router) => {
                format!("route {prefix} of {router}, back as its flow came")
            }
        })
    }
}

impl Net {
    /// Asks route policies, then routes. Says what decided, and on which ports that depends.
    /// `back`: where the flow came from that this answers, to which symmetric routes lead back.
    pub(crate) fn route<'a>(
        &self,
        router: &'a Router,
        tuple: Tuple,
        subject: &Subject<'_>,
        back: Option<(IpAddr, RouterPortAt)>,
    ) -> (Way, By<'a>, Ports) {
        let subject = Subject { tuple: Some(tuple), ..*subject };
        let asked = router.policies.order.ports;
        let policy = router.policies.order.first(&self.conditions, &subject);
        if let Some((name, decision)) = policy.map(|place| &router.policies.all[place]) {
            let by = By::Policy(&router.id, &name.name);
            match decision {
                Decision::Allow => {}
                Decision::Drop => return (Way::Drop, by, asked),
                Decision::Reroute(hops) => {
                    let (way, ports) = choose(router, hops.clone(), tuple);
                    return (way, by, ports.max(asked));
                }
            }
        }
        let (way, by, ports) = Self::by_routes(router, tuple, back);
        (way, by, ports.max(asked))
    }

    fn by_routes(
        router: &Router,
        tuple: Tuple,
        back: Option<(IpAddr, RouterPortAt)>,
    ) -> (Way, By<'_>, Ports) {
        let destination = tuple.destination.0;
        let best = router.routes.best(tuple.source.0, destination);
        let Some(Route { key, to, .. }) = best.first() else {
            return (Way::None, By::Nothing, Ports::None);
        };
        let by = match &key.target {
            Target::Connected { out } => By::Connected(key.prefix, out),
            _ => By::Route(key.prefix, &router.id),
        };
        if let To::Discard { reject } = *to {
            return (Way::Discard { reject }, by, Ports::None);
        }
        let hops: Vec<_> = hops(&best, destination).collect();
        let is_symmetric = best.iter().any(|it| it.symmetric);
        match back.filter(|it| is_symmetric && hops.contains(it)) {
            Some((address, out)) => {
                (Way::To(address, out), By::Back(key.prefix, &router.id), Ports::Both)
            }
            None => {
                let (way, ports) = choose(router, hops, tuple);
                (way, by, ports)
            }
        }
    }

    /// Of the neighbours to which a flow's answers would go the one that it came from, if the route
    /// there is symmetric.
    pub(crate) fn came_from(
        &self,
        router: &Router,
        tuple: Tuple,
        (at, mac): (RouterPortAt, Mac),
    ) -> Option<IpAddr> {
        let (source, destination) = (tuple.destination.0, tuple.source.0);
        let best = router.routes.best(source, destination);
        let leads = best.first().is_some_and(|it| !matches!(it.to, To::Discard { .. }));
        if !leads || !best.iter().any(|it| it.symmetric) {
            return None;
        }
        let mut hops = hops(&best, destination);
        let is_it = |(address, out): &(IpAddr, RouterPortAt)| {
            *out == at && self.neighbour(*out, *address) == Some(mac)
        };
        hops.find(is_it).map(|(address, _)| address)
    }

    /// The Ethernet address of a neighbour behind a router's port, if somebody declares it.
    pub(crate) fn neighbour(&self, out: RouterPortAt, address: IpAddr) -> Option<Mac> {
        match self.router_ports[out.at()].leads {
            Leads::Peer(peer) => Some(self.router_ports[peer.at()].row.mac),
            Leads::Switch(at) => self.neighbour_on(self.ports[at.at()].switch, address),
            Leads::Nowhere => None,
        }
    }

    /// The Ethernet address of a neighbour on a switch, if somebody declares it: a machine, a
    /// router, or a router that translates the address.
    pub(crate) fn neighbour_on(&self, switch: SwitchAt, address: IpAddr) -> Option<Mac> {
        let ports = self.switches[switch.at()].may_answer(address).map(|at| &self.ports[at.at()]);
        let mut machines = ports.filter(|it| it.station.addresses.contains(&address));
        machines.next().map(|it| it.station.mac).or_else(|| {
            self.routers_on(switch).find_map(|(_, at)| {
                let port = &self.router_ports[at.at()];
                let own = port.has(address).then_some(port.row.mac);
                own.or_else(|| self.external_mac(at, address))
            })
        })
    }
}

/// The neighbours that routes to a destination lead to.
fn hops(best: &[&Route], destination: IpAddr) -> impl Iterator<Item = (IpAddr, RouterPortAt)> {
    best.iter().filter_map(move |it| match it.to {
        To::Out(address, out) => Some((address.unwrap_or(destination), out)),
        To::Discard { .. } => None,
    })
}

/// One of equal neighbours, by the flow, in whatever order they are declared, and the ports on
/// which that depends.
fn choose(router: &Router, mut hops: Vec<(IpAddr, RouterPortAt)>, tuple: Tuple) -> (Way, Ports) {
    hops.sort();
    hops.dedup();
    hops.truncate(router.row.ecmp.max.into());
    let number = match router.row.ecmp.hash {
        EcmpHash::L4 => flow_hash(tuple),
        EcmpHash::L3 => flow_hash(Tuple {
            source: (tuple.source.0, 0),
            destination: (tuple.destination.0, 0),
            ..tuple
        }),
    };
    let ports = match router.row.ecmp.hash {
        EcmpHash::L4 if hops.len() > 1 => Ports::Both,
        _ => Ports::None,
    };
    let place = number % (hops.len() as u64).max(1);
    match usize::try_from(place).ok().and_then(|place| hops.get(place)) {
        Some((address, out)) => (Way::To(*address, *out), ports),
        None => (Way::None, ports),
    }
}
