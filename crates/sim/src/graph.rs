//! The network as the engine has it: nodes and ports by number, and which ports lead where.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use units::{Rng, hash};

use crate::scenario::{Cable, Link, Node, RingRouting, Scenario, Tier, Topology};

/// Nodes, their ports and the ways between them. Hosts come first, servers before clients, then
/// switches, tier by tier.
#[derive(Debug)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    pub servers: u32,
    /// Servers and clients.
    pub hosts: u32,
    /// A node's ports are neighbours.
    pub ports: Vec<Range<u32>>,
    /// By port.
    pub ends: Vec<End>,
    /// By host: the switch that it is connected to, and that switch's port.
    access: Vec<(u32, u32)>,
    routes: Routes,
    /// What flows' hashes are salted with.
    salt: u32,
}

/// One end of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub node: u32,
    /// The other end's port.
    pub peer: u32,
    pub link: Link,
}

/// Which ports lead from each switch to each switch by a shortest way.
#[derive(Debug)]
struct Routes {
    switches: usize,
    /// A set of ports for each switch and each switch to be reached.
    choice: Vec<u32>,
    /// Where each set lies in `members`.
    sets: Vec<Range<u32>>,
    members: Vec<u32>,
}

impl Graph {
    /// The network of a scenario that was checked.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let topology = &scenario.topology;
        let count = |tier: Tier| topology.count(tier) as u32;
        let tiers = [Tier::Server, Tier::Client].into_iter();
        let tiers = tiers.chain(topology.switches().into_iter().map(|(tier, _)| tier));
        let nodes: Vec<Node> = tiers
            .flat_map(|tier| (0..count(tier)).map(move |index| Node { tier, index }))
            .collect();
        let number: HashMap<Node, u32> = nodes.iter().copied().zip(0..).collect();
        let cables = topology.cables(scenario.link);

        let mut degree = vec![0; nodes.len()];
        for cable in &cables {
            degree[number[&cable.lower] as usize] += 1;
            degree[number[&cable.upper] as usize] += 1;
        }
        let mut next = 0;
        let ports: Vec<Range<u32>> = degree
            .iter()
            .map(|count| {
                next += count;
                next - count..next
            })
            .collect();
        let mut free: Vec<u32> = ports.iter().map(|range| range.start).collect();
        let mut ends = vec![End { node: 0, peer: 0, link: scenario.link }; next as usize];
        let mut ways = Vec::new();
        for cable in &cables {
            let [lower, upper] = [number[&cable.lower], number[&cable.upper]];
            let [down, up] = [lower, upper].map(|node| {
                let port = free[node as usize];
                free[node as usize] += 1;
                port
            });
            ends[down as usize] = End { node: lower, peer: up, link: cable.link };
            ends[up as usize] = End { node: upper, peer: down, link: cable.link };
            let [there, back] = ways_of(topology, cable);
            ways.extend(there.then_some(down));
            ways.extend(back.then_some(up));
        }
        let (servers, hosts) = (count(Tier::Server), count(Tier::Server) + count(Tier::Client));
        let routes = Routes::new(hosts, nodes.len() as u32, &ends, &ways);
        let access = (0..hosts as usize).map(|host| {
            let port = ends[ports[host].start as usize].peer;
            (ends[port as usize].node, port)
        });
        let access = access.collect();
        let salt = Rng::new(scenario.run.seed ^ scenario.fabric.ecmp_seed.rotate_left(32))
            .next_u64() as u32;
        Self { nodes, servers, hosts, ports, ends, access, routes, salt }
    }

    pub(crate) fn name(&self, node: u32) -> Node {
        self.nodes[node as usize]
    }

    /// What a port is called: by its node, and the one that it sends to.
    pub(crate) fn link_name(&self, port: u32) -> String {
        let end = &self.ends[port as usize];
        format!("{}-{}", self.name(end.node), self.name(self.ends[end.peer as usize].node))
    }

    /// The only port of a host.
    #[inline]
    pub(crate) fn nic(&self, host: u32) -> u32 {
        self.ports[host as usize].start
    }

    /// The port by which a packet with this hash of its flow leaves `switch` for `host`.
    #[inline]
    pub(crate) fn route(&self, switch: u32, host: u32, flow: u32) -> u32 {
        let (last, port) = self.access[host as usize];
        if last == switch {
            return port;
        }
        let [from, to] = [switch, last].map(|node| (node - self.hosts) as usize);
        let Range { start, end } =
            self.routes.sets[self.routes.choice[from * self.routes.switches + to] as usize];
        let members = &self.routes.members[start as usize..end as usize];
        let [only] = members else {
            // Each switch draws anew from the hash, or all flows of one way would take one way from
            // there on.
            let drawn = hash::murmur32(flow ^ self.salt ^ hash::fibonacci32(switch));
            return members[((u64::from(drawn) * members.len() as u64) >> 32) as usize];
        };
        *only
    }
}

/// Whether frames may take a cable up, and down.
fn ways_of(topology: &Topology, cable: &Cable) -> [bool; 2] {
    let between_switches = cable.lower.tier == Tier::Switch;
    match topology {
        Topology::Ring(ring) if between_switches => match ring.routing {
            RingRouting::Clockwise => [true, false],
            // The one that closes the ring is the only one that leads from a higher number to a
            // lower.
            RingRouting::Line => [cable.lower.index < cable.upper.index; 2],
        },
        _ => [true; 2],
    }
}

impl Routes {
    /// All shortest ways between switches that leave nodes by the ports `ways`.
    fn new(hosts: u32, nodes: u32, ends: &[End], ways: &[u32]) -> Self {
        let switches = (nodes - hosts) as usize;
        // By the switch that is reached: the ports that lead there.
        let mut into = vec![Vec::new(); switches];
        for &port in ways {
            let End { node, peer, .. } = ends[port as usize];
            let to = ends[peer as usize].node;
            if node >= hosts && to >= hosts {
                into[(to - hosts) as usize].push(port);
            }
        }
        let from = |port: u32| (ends[port as usize].node - hosts) as usize;
        let mut routes = Self {
            switches,
            choice: vec![0; switches * switches],
            sets: Vec::new(),
            members: Vec::new(),
        };
        let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
        for to in 0..switches {
            let mut distance = vec![u32::MAX; switches];
            let mut best: Vec<Vec<u32>> = vec![Vec::new(); switches];
            let mut reached = VecDeque::from([to]);
            distance[to] = 0;
            while let Some(node) = reached.pop_front() {
                for &port in &into[node] {
                    let before = from(port);
                    if distance[before] == u32::MAX {
                        distance[before] = distance[node] + 1;
                        reached.push_back(before);
                    }
                    if distance[before] == distance[node] + 1 {
                        best[before].push(port);
                    }
                }
            }
            for (node, mut ports) in
                best.into_iter().enumerate().filter(|(_, ports)| !ports.is_empty())
            {
                ports.sort_unstable();
                let set = *known.entry(ports).or_insert_with_key(|ports| {
                    let start = routes.members.len() as u32;
                    routes.members.extend(ports);
                    routes.sets.push(start..routes.members.len() as u32);
                    routes.sets.len() as u32 - 1
                });
                routes.choice[node * switches + to] = set;
            }
        }
        routes
    }
}
