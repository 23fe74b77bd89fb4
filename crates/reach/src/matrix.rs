//! Who reaches whom, as people and programs read it.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use logical::objects::Identity;
use logical::topology::{Attachment, PortIndex, Topology};

use crate::addresses::Family;
use crate::area::Services;
use crate::field::{Fate, Field, Line, Place, Way};
use crate::frame::Packet;
use crate::maker::field;
use crate::translate::unable;

/// An object as people name it: `tenant/name`.
pub fn name(id: &Identity) -> String {
    match &id.tenant {
        Some(tenant) => alloc::format!("{tenant}/{}", id.name),
        None => id.name.to_string(),
    }
}

/// Ports that every rule and route treats alike.
#[derive(Clone, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Ports {
    /// They, as `tenant/name`, in order.
    pub ports: Vec<String>,
    /// Their switch, as `tenant/name`.
    pub switch: String,
    /// Whether they lead outside: to a provider's network or a gateway's VLAN.
    pub outside: bool,
}

impl fmt::Display for Ports {
    /// The first, and how many more there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.ports.first().map_or("", String::as_str);
        match self.ports.len() {
            0 | 1 => f.write_str(first),
            more => write!(f, "{first} and {} more", more - 1),
        }
    }
}

/// How packets get from one port to another.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Path {
    /// In their switch, by the port's Ethernet address.
    Direct,
    /// In their switch, by the Ethernet address of a group.
    Group,
    /// In their switch, by an Ethernet address that nobody has.
    Unknown,
    /// Through routers.
    Routed,
    /// Not at all.
    None,
}

impl Path {
    pub(crate) const fn of(way: &Way) -> Self {
        match way {
            Way::Direct => Self::Direct,
            Way::Group(_) => Self::Group,
            Way::Unknown(_) => Self::Unknown,
            Way::Routed(..) => Self::Routed,
            Way::None => Self::None,
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Group => "group",
            Self::Unknown => "unknown",
            Self::Routed => "routed",
            Self::None => "none",
        })
    }
}

/// Addresses at one end.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Whose {
    /// The port's own.
    Own,
    /// These.
    Listed(String),
    /// None: the packets are no IP.
    None,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("own"),
            Self::Listed(all) => f.write_str(all),
            Self::None => f.write_str("-"),
        }
    }
}

/// What becomes of packets, and who says so. Rules are named as `Policy/tenant/policy/rule`; what
/// no rule decides is `default`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Outcome {
    /// They arrive.
    Reached {
        /// The rule at the sender's port.
        from: String,
        /// The rule at the receiver's port.
        to: String,
    },
    /// They do not.
    Refused {
        /// Where: `sender`, `receiver`, or the object between.
        at: String,
        /// Why, as the interpreter calls it.
        reason: String,
        /// The rule or the route that refuses them.
        by: String,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reached { from, to } => write!(f, "reached, by {from} and {to}"),
            Self::Refused { at, reason, by } if by.is_empty() => write!(f, "{reason} at {at}"),
            Self::Refused { at, reason, by } => write!(f, "{reason} at {at}, by {by}"),
        }
    }
}

/// Packets between two classes of ports, and what becomes of them.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Entry {
    /// How they get there.
    pub path: Path,
    /// The routes that they take.
    pub routes: Vec<String>,
    /// Which IP; `None`: none.
    pub family: Option<Family>,
    /// Their sources.
    pub source: Whose,
    /// Their destinations, as their senders write them.
    pub destination: Whose,
    /// What they ask for.
    pub services: Services,
    /// What becomes of them.
    pub outcome: Outcome,
    /// Whether the hash of each packet decides if it gets there.
    pub by_hash: bool,
    /// Whether they are from the address that they are for; `None`: either.
    pub same: Option<bool>,
}

impl Entry {
    /// Whether they are ordinary packets: between own addresses, and for nobody else.
    pub fn is_ordinary(&self) -> bool {
        let is_own = self.destination == Whose::Own && self.source == Whose::Own;
        is_own || self.path == Path::None
    }
}

/// A line of a table.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Row<'a> {
    /// Who sends.
    pub from: &'a Ports,
    /// Who gets it, or does not.
    pub to: &'a Ports,
    /// What.
    pub entry: Entry,
}

/// Who reaches whom, for all packets.
#[derive(Debug)]
pub struct Matrix {
    pub(crate) field: Field,
    ports: Vec<Ports>,
}

/// Why a topology cannot be looked at.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{object} has an Ethernet address of its own, which is not followed yet: take out `at` and \
     `externalMac` to ask the rest"
)]
pub struct Unable {
    /// The translation.
    pub object: String,
}

/// Looks at every packet between any two ports of a topology.
pub fn matrix(topology: &Topology) -> Result<Matrix, Unable> {
    match unable(topology) {
        Some(object) => Err(Unable { object }),
        None => Ok(Matrix::of(topology, field(topology))),
    }
}

impl Matrix {
    pub(crate) fn of(topology: &Topology, field: Field) -> Self {
        let names: Vec<String> = topology.ports().map(|(_, port)| name(&port.id)).collect();
        let ports = field.classes.iter().map(|class| {
            let first = class.ports.first().map(|it| &topology[*it]);
            Ports {
                ports: class.ports.iter().map(|it| names[it.place()].clone()).collect(),
                switch: first.map(|it| name(&topology[it.switch].id)).unwrap_or_default(),
                outside: first.is_some_and(|it| {
                    matches!(it.attachment, Attachment::Provider | Attachment::L2Gateway { .. })
                }),
            }
        });
        Self { ports: ports.collect(), field }
    }

    /// The classes of ports, by number.
    pub fn ports(&self) -> &[Ports] {
        &self.ports
    }

    /// What becomes of packets from ports of one class to those of another. Packets that no entry
    /// speaks of do not get there.
    pub fn entries(&self, from: usize, to: usize) -> Vec<Entry> {
        let mut all = self.cell(self.field.table[from * self.ports.len() + to] as usize);
        all.sort_unstable();
        all.dedup();
        all
    }

    fn cell(&self, number: usize) -> Vec<Entry> {
        self.field.cells[number].iter().flat_map(|it| self.of_line(it)).collect()
    }

    fn of_line(&self, line: &Line) -> impl Iterator<Item = Entry> {
        let way = &self.field.ways[line.way as usize];
        let routes = match way {
            Way::Routed(_, routes) => routes.clone(),
            _ => Vec::new(),
        };
        let fates = &self.field.fates[line.fates as usize];
        fates.iter().map(move |(fate, atoms)| Entry {
            path: Path::of(way),
            routes: routes.clone(),
            family: line.family,
            source: self.whose(line.from),
            destination: self.whose(line.to),
            services: self.field.atoms.services(line.family, atoms),
            outcome: self.outcome(fate),
            by_hash: line.is_chosen,
            same: line.is_same,
        })
    }

    fn whose(&self, place: Place) -> Whose {
        match place {
            Place::Own(_) => Whose::Own,
            Place::Set(number) => Whose::Listed(self.field.sets[number as usize].to_string()),
            Place::None => Whose::None,
        }
    }

    /// A rule's name; what none decides is the default.
    pub(crate) fn rule(&self, rule: Option<u32>) -> String {
        rule.map_or("default".into(), |it| self.field.names[it as usize].to_string())
    }

    pub(crate) fn outcome(&self, fate: &Fate) -> Outcome {
        let refused = |at: &str, reason: String, by| Outcome::Refused { at: at.into(), reason, by };
        match fate {
            Fate::Arrive(from, to) => {
                Outcome::Reached { from: self.rule(*from), to: self.rule(*to) }
            }
            Fate::AtSender(reason, by) => {
                refused("sender", alloc::format!("{reason:?}"), self.rule(*by))
            }
            Fate::AtReceiver(reason, by) => {
                refused("receiver", alloc::format!("{reason:?}"), self.rule(*by))
            }
            Fate::Between(reason, at, by) => {
                let reason = reason.map_or("NoWay".into(), |it| alloc::format!("{it:?}"));
                refused(at, reason, by.clone().unwrap_or_default())
            }
        }
    }

    /// Every entry of every pair.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let pairs = self.ports.iter().enumerate().flat_map(|(i, from)| {
            self.ports.iter().enumerate().map(move |(j, to)| (i, from, j, to))
        });
        pairs.flat_map(|(i, from, j, to)| {
            self.entries(i, j).into_iter().map(move |entry| Row { from, to, entry })
        })
    }

    /// What becomes of one packet from a port to another: an entry, or several of which the hash of
    /// the packet chooses. None: it does not get there.
    pub fn fares(
        &self,
        topology: &Topology,
        from: PortIndex,
        to: PortIndex,
        packet: &Packet,
    ) -> Vec<Entry> {
        let found = self.field.fares(topology, [from, to], packet);
        let atoms = |fate: &Fate, line: &Line| {
            let fates = &self.field.fates[line.fates as usize];
            fates.iter().position(|(it, _)| it == fate)
        };
        let entry = |(line, fate)| self.of_line(line).nth(atoms(fate, line)?);
        found.into_iter().filter_map(entry).collect()
    }

    /// A port's class. `None`: it is a router's.
    pub fn class(&self, port: PortIndex) -> Option<usize> {
        self.field.of[port.place()].map(|it| it as usize)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Matrix {
    /// `ports`: the classes; `cells`: each distinct list of entries; `table`: for each class that
    /// sends, by each that receives, the number of its cell.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let mut all = serializer.serialize_struct("Matrix", 3)?;
        all.serialize_field("ports", &self.ports)?;
        let cells: Vec<_> = (0..self.field.cells.len()).map(|it| self.cell(it)).collect();
        all.serialize_field("cells", &cells)?;
        let rows = self.field.table.chunks(self.ports.len().max(1));
        all.serialize_field("table", &rows.collect::<Vec<_>>())?;
        all.end()
    }
}
