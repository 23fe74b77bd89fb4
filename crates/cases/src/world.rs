//! A network as it stands in a case, its machines, and what carries their frames.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::Deserialize;
use tree::Node;
use units::Mac;

use crate::declare::{Declared, declare};
use crate::edit::Op;
use crate::execution::{Execution, Seen, Wanted};
use crate::guest::{Guest, Guests, Leg};
use crate::network::Network;
use crate::values;

/// How many frames machines may exchange until they have to be quiet.
const MOST_FRAMES: usize = 100_000;

/// A network, its machines, and what executes it.
pub struct World<'a> {
    /// As it is told, changes made.
    pub tree: Node,
    pub network: Network,
    pub declared: Declared,
    pub guests: Guests,
    pub on: &'a mut dyn Execution,
}

/// A tree as a network: words that stand for values have them.
fn read(tree: &Node) -> Result<(Network, Declared), String> {
    let mut resolved = tree.clone();
    values::resolve(tree, &mut resolved)?;
    let network = Network::deserialize(&resolved).map_err(|misfit| {
        let at = misfit.at.map_or_else(String::new, |at| format!(" (line {})", at.line));
        format!("topology{}{at}: {}", misfit.path(), model::mistake::plain(&misfit.message))
    })?;
    let declared = declare(&network)?;
    Ok((network, declared))
}

impl<'a> World<'a> {
    /// What executing a topology takes that not everything can.
    pub fn needs(tree: &Node) -> Result<Vec<&'static str>, String> {
        let mut tree = tree.clone();
        values::give_macs(&mut tree);
        Ok(read(&tree)?.0.needs().collect())
    }

    /// Has a topology executed.
    pub fn new(mut tree: Node, on: &'a mut dyn Execution) -> Result<Self, String> {
        values::give_macs(&mut tree);
        let (network, declared) = read(&tree)?;
        on.realize(Wanted { network: &network, declared: &declared, op: None })?;
        let mut world = Self { tree, network, declared, guests: Guests::new(), on };
        world.meet();
        Ok(world)
    }

    /// Makes a change, everywhere.
    pub fn change(&mut self, op: &Op) -> Result<(), String> {
        let mut tree = self.tree.clone();
        op.apply(&mut tree)?;
        values::give_macs(&mut tree);
        let (network, declared) = read(&tree)?;
        self.on.realize(Wanted { network: &network, declared: &declared, op: Some(op) })?;
        (self.tree, self.network, self.declared) = (tree, network, declared);
        self.meet();
        Ok(())
    }

    /// Machines at the ports that there are now. Those that were there keep their connections.
    fn meet(&mut self) {
        let network = &self.network;
        let mut known = core::mem::take(&mut self.guests);
        for (name, port) in &network.ports {
            let legs: Vec<Leg> = network
                .routers
                .values()
                .flat_map(|router| router.ports.values())
                .filter(|leg| leg.switch.as_ref() == Some(&port.switch))
                .map(|leg| Leg { mac: leg.mac.unwrap_or_default(), addresses: leg.ips.clone() })
                .collect();
            let (mac, addresses) = (port.mac.unwrap_or_default(), port.ips.clone());
            let names = match port.local {
                true => network.hosts.iter().map(|host| format!("{name}@{host}")).collect(),
                false => alloc::vec![name.clone()],
            };
            for name in names {
                let guest = match known.remove(&name) {
                    Some(mut guest) => {
                        guest.changed_to(mac, addresses.clone(), legs.clone());
                        guest
                    }
                    None => Guest::new(mac, addresses.clone(), legs.clone()),
                };
                self.guests.insert(name, guest);
            }
        }
    }

    /// The tree with its words resolved in a part of a case.
    pub fn resolve(&self, node: &Node) -> Result<Node, String> {
        let mut node = node.clone();
        values::resolve(&self.tree, &mut node)?;
        Ok(node)
    }

    /// The Ethernet address of whoever is called so: a port, a router's port, or an address itself.
    pub fn mac(&self, name: &str) -> Option<Mac> {
        let of_place = || values::place(&self.tree, name).and_then(values::mac);
        let of_address = || {
            let address: IpAddr = name.parse().ok()?;
            let ports = self.network.ports.values();
            let port = ports.filter(|port| port.ips.contains(&address)).find_map(|port| port.mac);
            let legs = self.network.routers.values().flat_map(|router| router.ports.values());
            let is_its =
                |leg: &&crate::network::Leg| leg.ips.iter().any(|it| it.address == address);
            port.or_else(|| legs.filter(is_its).find_map(|leg| leg.mac))
        };
        name.parse().ok().or_else(of_place).or_else(of_address)
    }

    /// The addresses of whoever is called so.
    pub fn addresses(&self, name: &str) -> Vec<IpAddr> {
        if let Ok(address) = name.parse() {
            return alloc::vec![address];
        }
        values::place(&self.tree, name)
            .map(|it| values::addresses(it).collect())
            .unwrap_or_default()
    }

    /// Sends frames of a machine.
    pub fn send(&mut self, from: &str, frames: Vec<Vec<u8>>) -> Result<(), String> {
        frames.iter().try_for_each(|frame| self.on.send(from, frame))
    }

    /// Has machines answer each other until all is quiet. What they got.
    pub fn pump(&mut self) -> Result<Vec<Seen>, String> {
        let mut all = Vec::new();
        loop {
            let seen = self.on.receive()?;
            if seen.is_empty() {
                return Ok(all);
            }
            for Seen { port, frame } in seen {
                let answers = self.guests.get_mut(&port).map(|guest| guest.react(&frame));
                all.push(Seen { port: port.clone(), frame });
                self.send(&port, answers.unwrap_or_default())?;
            }
            if all.len() > MOST_FRAMES {
                return Err(format!("machines have exchanged {MOST_FRAMES} frames and go on"));
            }
        }
    }

    /// A machine by its port's name.
    pub fn guest(&mut self, name: &str) -> Result<&mut Guest, String> {
        self.guests.get_mut(name).ok_or_else(|| format!("no port is called `{name}`"))
    }

    /// The name of the port whose machine has served a flow, newest first.
    pub fn serving(
        &self,
        is_it: impl Fn(&interpreter::Tuple) -> bool,
    ) -> Option<(String, interpreter::Tuple)> {
        self.guests.iter().find_map(|(name, guest)| {
            let tuple = guest.served.iter().rev().find(|it| is_it(it))?;
            Some((name.clone(), *tuple))
        })
    }

    /// Which host a port is at.
    pub fn host(&self, port: &str) -> Option<&str> {
        self.network.ports.get(port)?.at.as_deref()
    }

    /// The parent and the tag of a port that is behind one.
    pub fn parent(&self, port: &str) -> Option<(&str, u16)> {
        let port = self.network.ports.get(port)?;
        port.child_of.as_deref().zip(port.tag)
    }
}
