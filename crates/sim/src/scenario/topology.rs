//! What is connected to what.
//!
//! ```text
//!   fat-tree            leaf-spine        k-ary           dumbbell       star       ring
//!
//!     core               spine            core                            │          ┌─▶─┐
//!    ╱  │  ╲            ╱  │  ╲          ╱    ╲                         ──●──       ●     ●
//!  tor tor tor        leaf leaf leaf    aggregation     ──●━━━━━●──       │          └─◀─┘
//!   │ ╳ │ ╳ │          │    │    │       │ ╳ │          ──●     ●──                 routed one way
//!  chassis …          server …           edge …
//!   server …                             server …
//! ```
//!
//! A server's number says where it is: the first switch has the first servers.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use units::{Rate, Span};

use super::{Link, LinkName, Node, Tier};

/// How the links of a layer differ from `[link]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkChange {
    /// Their rate, each way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How long a bit takes from end to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
}

impl LinkChange {
    /// A link of this layer.
    pub fn of(self, link: Link) -> Link {
        Link {
            rate: self.rate.unwrap_or(link.rate),
            delay: self.delay.unwrap_or(link.delay),
            ..link
        }
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What is connected to what.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Topology {
    /// The paper's three layers (figure 4).
    FatTree(FatTree),
    /// Two layers, each leaf connected to each spine.
    LeafSpine(LeafSpine),
    /// The three layers of k-port switches (Al-Fares et al., SIGCOMM 2008).
    KAry(KAry),
    /// Two switches and the link between them.
    Dumbbell(Dumbbell),
    /// One switch.
    Star(Star),
    /// Switches in a circle, which may wait for each other.
    Ring(Ring),
}

/// The paper's three layers (figure 4): servers in chassis, chassis in racks.
///
/// A chassis' switch is connected to each top-of-rack switch of its rack. The n-th top-of-rack
/// switch of every rack is connected to each of the n-th share of the core switches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FatTree {
    /// Racks.
    pub racks: u32,
    /// Chassis in each rack, with one switch each.
    pub chassis: u32,
    /// Servers in each chassis.
    pub servers: u32,
    /// Top-of-rack switches in each rack.
    pub tors: u32,
    /// Core switches: a multiple of `tors`.
    pub cores: u32,
    /// External clients, at the core switches in turn.
    #[serde(default)]
    pub clients: u32,
    /// Links from servers to chassis' switches.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub access: LinkChange,
    /// Links from chassis' switches to top-of-rack switches.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub aggregation: LinkChange,
    /// Links from top-of-rack switches to core switches.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub core: LinkChange,
    /// The clients' links.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub uplink: LinkChange,
}

/// Two layers, each leaf connected to each spine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeafSpine {
    /// Leaf switches.
    pub leaves: u32,
    /// Spine switches.
    pub spines: u32,
    /// Servers at each leaf.
    pub servers: u32,
    /// External clients, at the spines in turn.
    #[serde(default)]
    pub clients: u32,
    /// Links from servers to leaves.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub access: LinkChange,
    /// Links from leaves to spines.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub core: LinkChange,
    /// The clients' links.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub uplink: LinkChange,
}

/// The three layers of k-port switches: k pods of k/2 edge and k/2 aggregation switches, (k/2)²
/// core switches, and k/2 servers at each edge switch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KAry {
    /// Ports of each switch: an even number.
    pub k: u32,
    /// External clients, at the core switches in turn.
    #[serde(default)]
    pub clients: u32,
    /// Links from servers to edge switches.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub access: LinkChange,
    /// Links from edge to aggregation switches.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub aggregation: LinkChange,
    /// Links from aggregation to core switches.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub core: LinkChange,
    /// The clients' links.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub uplink: LinkChange,
}

/// Two switches and the link between them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dumbbell {
    /// Servers at the first switch, from number 0.
    pub left: u32,
    /// Servers at the second switch, after them.
    pub right: u32,
    /// Links from servers to switches.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub access: LinkChange,
    /// The link between the switches.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub bottleneck: LinkChange,
}

/// One switch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Star {
    /// Servers.
    pub servers: u32,
    /// Links from servers to the switch.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub access: LinkChange,
}

/// Switches in a circle. Frames may go round it, so buffers of lossless classes may wait for each
/// other in a circle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ring {
    /// Switches: three or more. Each is connected to the next, and the last to the first.
    pub switches: u32,
    /// Servers at each switch.
    pub servers: u32,
    /// Which way round frames go.
    #[serde(default)]
    pub routing: RingRouting,
    /// Links from servers to switches.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub access: LinkChange,
    /// Links between switches.
    #[serde(default, skip_serializing_if = "LinkChange::is_none")]
    pub core: LinkChange,
}

/// Which way round a ring frames go.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RingRouting {
    /// From each switch to the next in number.
    #[default]
    Clockwise,
    /// Along the line that is left when the link from the last switch to the first is not used: no
    /// circle, no deadlock.
    Line,
}

/// Links between two tiers, all alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// The topology's field that may change what they are like.
    pub name: &'static str,
    /// The tier nearer to the servers, or of the clients.
    pub lower: Tier,
    /// The tier that it is connected to.
    pub upper: Tier,
    /// How many links of this layer a node of the lower tier has.
    pub ups: u64,
    /// The most links of this layer that a node of the upper tier has.
    pub downs: u64,
    /// How many links there are.
    pub cables: u64,
    /// What each is like.
    pub link: Link,
}

/// A link between two nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cable {
    /// The end nearer to the servers, or the client; in a ring the lower number, but for the link
    /// that closes it.
    pub lower: Node,
    /// The other end.
    pub upper: Node,
    /// What it is like.
    pub link: Link,
}

impl Topology {
    /// How many servers there are; no more than 2^64 - 1 are counted.
    pub fn servers(&self) -> u64 {
        match *self {
            Self::FatTree(it) => product([it.racks, it.chassis, it.servers]),
            Self::LeafSpine(it) => product([it.leaves, it.servers]),
            Self::KAry(it) => product([it.k, it.k / 2, it.k / 2]),
            Self::Dumbbell(it) => u64::from(it.left) + u64::from(it.right),
            Self::Star(it) => it.servers.into(),
            Self::Ring(it) => product([it.switches, it.servers]),
        }
    }

    /// How many external clients there are.
    pub fn clients(&self) -> u32 {
        match *self {
            Self::FatTree(it) => it.clients,
            Self::LeafSpine(it) => it.clients,
            Self::KAry(it) => it.clients,
            Self::Dumbbell(_) | Self::Star(_) | Self::Ring(_) => 0,
        }
    }

    /// The tiers of switches and how many each has, from the servers up; no more than 2^64 - 1 are
    /// counted.
    pub fn switches(&self) -> Vec<(Tier, u64)> {
        match *self {
            Self::FatTree(it) => vec![
                (Tier::Chassis, product([it.racks, it.chassis])),
                (Tier::Tor, product([it.racks, it.tors])),
                (Tier::Core, it.cores.into()),
            ],
            Self::LeafSpine(it) => {
                vec![(Tier::Leaf, it.leaves.into()), (Tier::Spine, it.spines.into())]
            }
            Self::KAry(it) => {
                let half = it.k / 2;
                vec![
                    (Tier::Edge, product([it.k, half])),
                    (Tier::Aggregation, product([it.k, half])),
                    (Tier::Core, product([half, half])),
                ]
            }
            Self::Dumbbell(_) => vec![(Tier::Switch, 2)],
            Self::Star(_) => vec![(Tier::Switch, 1)],
            Self::Ring(it) => vec![(Tier::Switch, it.switches.into())],
        }
    }

    /// How many nodes a tier has.
    pub fn count(&self, tier: Tier) -> u64 {
        match tier {
            Tier::Server => self.servers(),
            Tier::Client => self.clients().into(),
            tier => self
                .switches()
                .into_iter()
                .find(|(listed, _)| *listed == tier)
                .map_or(0, |(_, n)| n),
        }
    }

    /// The switch that a server is connected to, among those of its tier. Servers of one switch are
    /// a group: a three-tier query has one mid-level aggregator in each.
    pub fn group_of(&self, server: u32) -> u32 {
        match *self {
            Self::FatTree(it) => server / it.servers.max(1),
            Self::LeafSpine(it) => server / it.servers.max(1),
            Self::KAry(it) => server / (it.k / 2).max(1),
            Self::Dumbbell(it) => (server >= it.left).into(),
            Self::Star(_) => 0,
            Self::Ring(it) => server / it.servers.max(1),
        }
    }

    /// The servers of each group, group by group.
    ///
    /// Only for a topology that was checked: there may be as many groups as people write.
    pub fn groups(&self) -> Vec<Range<u32>> {
        let size = match *self {
            Self::FatTree(it) => it.servers,
            Self::LeafSpine(it) => it.servers,
            Self::KAry(it) => it.k / 2,
            Self::Dumbbell(it) => {
                return vec![0..it.left, it.left..it.left.saturating_add(it.right)];
            }
            Self::Star(it) => it.servers,
            Self::Ring(it) => it.servers,
        };
        let servers = u32::try_from(self.servers()).unwrap_or(u32::MAX);
        (0..servers)
            .step_by(size.max(1) as usize)
            .map(|first| first..first.saturating_add(size))
            .collect()
    }

    /// The layers of links, from the servers up; `link` says what their changes leave open.
    pub fn layers(&self, link: Link) -> Vec<Layer> {
        let layer =
            |name, change: LinkChange, lower: Tier, upper: Tier, ups: u64, downs: u64| Layer {
                name,
                lower,
                upper,
                ups,
                downs,
                cables: self.count(lower).saturating_mul(ups),
                link: change.of(link),
            };
        let clients_at = |switches: u32| u64::from(self.clients().div_ceil(switches.max(1)));
        let mut layers = match *self {
            Self::FatTree(it) => {
                let share = u64::from(it.cores / it.tors.max(1));
                vec![
                    layer("access", it.access, Tier::Server, Tier::Chassis, 1, it.servers.into()),
                    layer(
                        "aggregation",
                        it.aggregation,
                        Tier::Chassis,
                        Tier::Tor,
                        it.tors.into(),
                        it.chassis.into(),
                    ),
                    layer("core", it.core, Tier::Tor, Tier::Core, share, it.racks.into()),
                    layer("uplink", it.uplink, Tier::Client, Tier::Core, 1, clients_at(it.cores)),
                ]
            }
            Self::LeafSpine(it) => vec![
                layer("access", it.access, Tier::Server, Tier::Leaf, 1, it.servers.into()),
                layer("core", it.core, Tier::Leaf, Tier::Spine, it.spines.into(), it.leaves.into()),
                layer("uplink", it.uplink, Tier::Client, Tier::Spine, 1, clients_at(it.spines)),
            ],
            Self::KAry(it) => {
                let half = u64::from(it.k / 2);
                let cores = (it.k / 2).saturating_mul(it.k / 2);
                vec![
                    layer("access", it.access, Tier::Server, Tier::Edge, 1, half),
                    layer("aggregation", it.aggregation, Tier::Edge, Tier::Aggregation, half, half),
                    layer("core", it.core, Tier::Aggregation, Tier::Core, half, it.k.into()),
                    layer("uplink", it.uplink, Tier::Client, Tier::Core, 1, clients_at(cores)),
                ]
            }
            Self::Dumbbell(it) => vec![
                layer(
                    "access",
                    it.access,
                    Tier::Server,
                    Tier::Switch,
                    1,
                    it.left.max(it.right).into(),
                ),
                // One link for both switches.
                Layer {
                    cables: 1,
                    ..layer("bottleneck", it.bottleneck, Tier::Switch, Tier::Switch, 1, 0)
                },
            ],
            Self::Star(it) => {
                vec![layer("access", it.access, Tier::Server, Tier::Switch, 1, it.servers.into())]
            }
            Self::Ring(it) => vec![
                layer("access", it.access, Tier::Server, Tier::Switch, 1, it.servers.into()),
                layer("core", it.core, Tier::Switch, Tier::Switch, 1, 1),
            ],
        };
        layers.retain(|layer| layer.cables > 0);
        layers
    }

    /// A server's link.
    pub fn access(&self, link: Link) -> Link {
        match *self {
            Self::FatTree(FatTree { access, .. })
            | Self::LeafSpine(LeafSpine { access, .. })
            | Self::KAry(KAry { access, .. })
            | Self::Dumbbell(Dumbbell { access, .. })
            | Self::Star(Star { access, .. })
            | Self::Ring(Ring { access, .. }) => access.of(link),
        }
    }

    /// Every link, layer by layer, each layer by the number of its lower end and then of its upper.
    ///
    /// Only for a topology that was checked: there may be as many links as people write.
    pub fn cables(&self, link: Link) -> Vec<Cable> {
        let mut cables = Vec::new();
        for layer in self.layers(link) {
            let count = u32::try_from(self.count(layer.lower)).unwrap_or(u32::MAX);
            let uppers = u32::try_from(self.count(layer.upper)).unwrap_or(u32::MAX);
            for index in 0..count {
                let lower = Node { tier: layer.lower, index };
                for upper in self.above(lower, layer.upper, uppers) {
                    let upper = Node { tier: layer.upper, index: upper };
                    cables.push(Cable { lower, upper, link: layer.link });
                }
            }
        }
        cables
    }

    /// What is wrong with the name of a link; none if there is such a link.
    pub fn lacks(&self, link: LinkName) -> Option<String> {
        if self.has(link) {
            return None;
        }
        let pairs = self
            .layers(Link::default())
            .into_iter()
            .map(|it| format!("{} and {}", it.lower, it.upper));
        let pairs: Vec<_> = pairs.collect();
        Some(format!("there is no link `{link}`: links join {}, counted from 0", pairs.join(", ")))
    }

    /// Whether there is a link of this name.
    pub fn has(&self, name: LinkName) -> bool {
        let exists = |node: Node| u64::from(node.index) < self.count(node.tier);
        let joined = |lower: Node, upper: Node| {
            let uppers = u32::try_from(self.count(upper.tier)).unwrap_or(u32::MAX);
            let mut layers = self.layers(Link::default()).into_iter();
            layers.any(|layer| (layer.lower, layer.upper) == (lower.tier, upper.tier))
                && self.above(lower, upper.tier, uppers).contains(&upper.index)
        };
        let LinkName(a, b) = name;
        exists(a) && exists(b) && (joined(a, b) || joined(b, a))
    }

    /// The numbers of the nodes of the tier above that a node is connected to.
    fn above(&self, node: Node, above: Tier, uppers: u32) -> Range<u32> {
        let n = node.index;
        let one = |n: u32| n..n + 1;
        match (*self, node.tier) {
            (_, Tier::Server) => one(self.group_of(n)),
            (_, Tier::Client) => one(n % uppers),
            (Self::FatTree(it), Tier::Chassis) => {
                let rack = n / it.chassis;
                rack * it.tors..(rack + 1) * it.tors
            }
            (Self::FatTree(it), Tier::Tor) => {
                let share = it.cores / it.tors;
                let place = n % it.tors;
                place * share..(place + 1) * share
            }
            // An edge switch is connected to its whole pod's aggregation; the j-th of a pod to the
            // j-th k/2 cores.
            (Self::KAry(it), _) => {
                let half = it.k / 2;
                let block = if above == Tier::Core { n % half } else { n / half };
                block * half..(block + 1) * half
            }
            (Self::LeafSpine(_), _) => 0..uppers,
            (Self::Dumbbell(_), _) if n == 1 => 0..0,
            (Self::Dumbbell(_) | Self::Star(_) | Self::Ring(_) | Self::FatTree(_), _) => {
                one((n + 1) % uppers)
            }
        }
    }
}

fn product<const N: usize>(counts: [u32; N]) -> u64 {
    counts.into_iter().fold(1, |product, count| product.saturating_mul(count.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const NONE: LinkChange = LinkChange { rate: None, delay: None };

    fn all() -> Vec<Topology> {
        let [access, aggregation, core, uplink, bottleneck] = [NONE; 5];
        vec![
            Topology::FatTree(FatTree {
                racks: 4,
                chassis: 4,
                servers: 16,
                tors: 4,
                cores: 16,
                clients: 20,
                access,
                aggregation,
                core,
                uplink,
            }),
            Topology::LeafSpine(LeafSpine {
                leaves: 5,
                spines: 3,
                servers: 7,
                clients: 2,
                access,
                core,
                uplink,
            }),
            Topology::KAry(KAry { k: 4, clients: 1, access, aggregation, core, uplink }),
            Topology::Dumbbell(Dumbbell { left: 2, right: 5, access, bottleneck }),
            Topology::Star(Star { servers: 9, access }),
            Topology::Ring(Ring {
                switches: 4,
                servers: 2,
                routing: RingRouting::Clockwise,
                access,
                core,
            }),
        ]
    }

    #[test]
    fn layers_count_what_cables_are() {
        for topology in all() {
            let cables = topology.cables(Link::default());
            let layers = topology.layers(Link::default());
            assert_eq!(cables.len() as u64, layers.iter().map(|layer| layer.cables).sum::<u64>());
            let ends: BTreeSet<_> = cables.iter().map(|cable| (cable.lower, cable.upper)).collect();
            assert_eq!(ends.len(), cables.len(), "{topology:?}: no link twice");
            assert!(cables.iter().all(|cable| topology.has(LinkName(cable.upper, cable.lower))));
            let nodes =
                |tier| (0..topology.count(tier) as u32).map(move |index| Node { tier, index });
            let (servers, upper) = (nodes(Tier::Server), cables[0].upper.tier);
            let named =
                servers.flat_map(|server| nodes(upper).map(move |node| LinkName(server, node)));
            assert_eq!(named.filter(|name| topology.has(*name)).count() as u64, topology.servers());
            for layer in layers {
                let of = |node: Node, lower: bool| {
                    let mine = |cable: &&Cable| {
                        (cable.lower.tier, cable.upper.tier) == (layer.lower, layer.upper)
                            && (if lower { cable.lower } else { cable.upper }) == node
                    };
                    cables.iter().filter(mine).count() as u64
                };
                let most = |tier: Tier, lower: bool| {
                    (0..topology.count(tier))
                        .map(|n| of(Node { tier, index: n as u32 }, lower))
                        .max()
                        .unwrap_or(0)
                };
                assert_eq!(most(layer.lower, true), layer.ups, "{topology:?}");
                if !matches!(topology, Topology::Dumbbell(_)) || layer.lower == Tier::Server {
                    assert_eq!(most(layer.upper, false), layer.downs, "{topology:?}");
                }
            }
        }
    }

    #[test]
    fn groups_are_the_servers_of_one_switch() {
        for topology in all() {
            let groups = topology.groups();
            let listed: Vec<u32> = groups.iter().cloned().flatten().collect();
            assert_eq!(listed, (0..topology.servers() as u32).collect::<Vec<_>>(), "{topology:?}");
            for (group, servers) in groups.into_iter().enumerate() {
                assert!(
                    servers.into_iter().all(|server| topology.group_of(server) == group as u32)
                );
            }
        }
    }

    #[test]
    fn every_node_is_reached() {
        for topology in all() {
            let mut reached = BTreeSet::from([Node { tier: Tier::Server, index: 0 }]);
            let cables = topology.cables(Link::default());
            loop {
                let before = reached.len();
                for cable in &cables {
                    if reached.contains(&cable.lower) || reached.contains(&cable.upper) {
                        reached.extend([cable.lower, cable.upper]);
                    }
                }
                if reached.len() == before {
                    break;
                }
            }
            let switches: u64 = topology.switches().iter().map(|(_, count)| count).sum();
            let nodes = topology.servers() + u64::from(topology.clients()) + switches;
            assert_eq!(reached.len() as u64, nodes, "{topology:?}");
        }
    }

    #[test]
    fn a_k_ary_tree_uses_every_port() {
        let cables = all()[2].cables(Link::default());
        for (tier, count) in all()[2].switches() {
            for index in 0..count as u32 {
                let node = Node { tier, index };
                let is_switch = |other: Node| other.tier != Tier::Client;
                let ports = cables.iter().filter(|cable| {
                    is_switch(cable.lower) && (cable.lower == node || cable.upper == node)
                });
                assert_eq!(ports.count(), 4, "{node}");
            }
        }
    }
}
