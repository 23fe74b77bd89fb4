//! For each ordered pair of classes of ports: which packets get from one to the other, and by whom
//! the others are refused.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use interpreter::{Reason, RuleId};
use logical::objects::Broadcast;
use logical::topology::{Port, PortIndex, Switch, Topology};
use units::Mac;

use crate::addresses::{Addresses, Family};
use crate::atoms::Atoms;
use crate::bits::Bits;
use crate::ends::Class;
use crate::frame::Packet;
use crate::security::is_open;

/// How packets get to a port.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Way {
    /// In their switch, by the port's Ethernet address.
    Direct,
    /// In their switch, by the Ethernet address of a group: this, or one that no rule names.
    Group(Option<Mac>),
    /// In their switch, by an Ethernet address that nobody has: this, or one that no rule names.
    Unknown(Option<Mac>),
    /// Through a router of their switch: its port there, and the routes that are taken.
    Routed(PortIndex, Vec<String>),
    /// Not at all.
    None,
}

/// What becomes of packets between two ports. Rules are numbers of [`Field::names`].
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Fate {
    /// They arrive. The rules at the sender's port and at the receiver's; `None`: a default.
    Arrive(Option<u32>, Option<u32>),
    /// The sender's port refuses them.
    AtSender(Reason, Option<u32>),
    /// The receiver's port refuses them.
    AtReceiver(Reason, Option<u32>),
    /// Something between refuses them: why, where, by which route. Without a reason: nothing leads
    /// there.
    Between(Option<Reason>, String, Option<String>),
}

/// Addresses at one end of packets.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Place {
    /// The port's own, of one group of its class.
    Own(u32),
    /// A set, by its number.
    Set(u32),
    /// None: they are no IP.
    None,
}

/// A set of packets between two classes of ports.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Line {
    /// Which way, by its number.
    pub way: u32,
    /// Which IP; `None`: none.
    pub family: Option<Family>,
    /// The destination, as the sender wrote it.
    pub to: Place,
    /// Of what atoms becomes what: the number of an entry of [`Field::fates`].
    pub fates: u32,
    /// Whether a hash chooses who gets them.
    pub is_chosen: bool,
    /// The Ethernet address that the sender has, by its number.
    pub mac: u32,
    /// The source.
    pub from: Place,
    /// Whether source and destination are the same address; `None`: either.
    pub is_same: Option<bool>,
}

/// What becomes of which atoms.
pub type Fates = Vec<(Fate, Bits)>;

/// All packets between all ports.
#[derive(Debug)]
pub struct Field {
    pub atoms: Atoms,
    pub names: Vec<RuleId>,
    pub classes: Vec<Class>,
    /// Of each port, its class; `None`: a router's.
    pub of: Vec<Option<u32>>,
    /// Of each port, its own addresses by group.
    pub own: Vec<Vec<Addresses>>,
    pub ways: Vec<Way>,
    pub sets: Vec<Addresses>,
    /// Ethernet addresses that senders have; `None`: the port's own.
    pub macs: Vec<Option<Mac>>,
    /// Lists of Ethernet addresses that rules have.
    pub lists: Vec<Vec<Mac>>,
    pub fates: Vec<Fates>,
    pub cells: Vec<Vec<Line>>,
    /// Of each pair of classes, its cell, by row.
    pub table: Vec<u32>,
}

impl Field {
    /// What is known of packets from a class to another.
    pub fn cell(&self, from: usize, to: usize) -> &[Line] {
        &self.cells[self.table[from * self.classes.len() + to] as usize]
    }

    /// What is known of packets from a port to another. Nothing, if one of them is a router's.
    pub fn lines(&self, from: PortIndex, to: PortIndex) -> &[Line] {
        let class = |port: PortIndex| self.of[port.place()].map(|it| it as usize);
        class(from).zip(class(to)).map_or(&[], |(from, to)| self.cell(from, to))
    }

    /// Whether every rule treats an Ethernet address as this one; `None`: as one that none names.
    fn is_like(&self, mac: Mac, other: Option<Mac>) -> bool {
        let mut lists = self.lists.iter();
        lists.all(|it| it.contains(&mac) == other.is_some_and(|other| it.contains(&other)))
    }

    /// What becomes of a packet on its way from a port to another, by the lines that speak of it.
    /// None: it does not get there.
    pub fn fares(
        &self,
        topology: &Topology,
        [from, to]: [PortIndex; 2],
        packet: &Packet,
    ) -> Vec<(&Line, &Fate)> {
        let Some(atom) = self.atoms.find(packet.asks()) else { return Vec::new() };
        let lines = self.lines(from, to).iter();
        let lines = lines.filter(|it| self.speaks_of(topology, [from, to], it, packet));
        let fated = lines.filter_map(|line| {
            let mut fates = self.fates[line.fates as usize].iter();
            let (fate, _) = fates.find(|(_, atoms)| atoms.has(atom))?;
            Some((line, fate))
        });
        fated.collect()
    }

    /// Whether a line is of ordinary packets: between ports' own addresses.
    pub fn is_ordinary(&self, line: &Line) -> bool {
        [line.from, line.to].iter().all(|it| matches!(it, Place::Own(_)))
            && !matches!(self.ways[line.way as usize], Way::None)
    }

    /// Whether a line is of a packet, but for what it asks for.
    pub fn speaks_of(
        &self,
        topology: &Topology,
        [from, to]: [PortIndex; 2],
        line: &Line,
        packet: &Packet,
    ) -> bool {
        let (sender, switch) = (&topology[from], &topology[topology[from].switch]);
        let mac = packet.to_mac;
        let has_owner = || switch.ports.iter().any(|it| topology[*it].mac == mac);
        let is_way = match &self.ways[line.way as usize] {
            Way::Direct => mac == topology[to].mac,
            Way::Group(like) => {
                mac.is_multicast() && is_for_many(switch, mac) && self.is_like(mac, *like)
            }
            Way::Unknown(like) => !mac.is_multicast() && !has_owner() && self.is_like(mac, *like),
            Way::Routed(at, _) => topology[*at].mac == mac,
            Way::None => false,
        };
        let own = mac_of(sender, self.macs[line.mac as usize]);
        // Of an open port's Ethernet addresses one stands for all that rules treat alike.
        // Where addresses are learned, none that is declared is learned anew.
        let is_anothers = || {
            let mut others = switch.ports.iter().map(|it| topology[*it].mac);
            switch.mac_learning && sender.unknown && others.any(|it| it == packet.from_mac)
        };
        let is_mac = own == packet.from_mac
            || is_open(sender) && self.is_like(packet.from_mac, Some(own)) && !is_anothers();
        let has =
            |port, place, address: Option<IpAddr>| match (self.addresses(port, place), address) {
                (Some(all), Some(address)) => all.contains(address),
                (None, None) => true,
                _ => false,
            };
        let ends = packet.ends();
        is_way
            && is_mac
            && line.is_same.is_none_or(|it| ends.is_some_and(|(one, other)| it == (one == other)))
            && has(from, line.from, ends.map(|it| it.0))
            && has(to, line.to, ends.map(|it| it.1))
    }

    /// The addresses of a place at a port.
    pub fn addresses(&self, port: PortIndex, place: Place) -> Option<&Addresses> {
        match place {
            Place::Own(group) => self.own[port.place()].get(group as usize),
            Place::Set(number) => self.sets.get(number as usize),
            Place::None => None,
        }
    }
}

/// Whether what is for a group's Ethernet address goes to everybody on a switch.
pub fn is_for_many(switch: &Switch, mac: Mac) -> bool {
    let is_reserved = mac.0[..5] == [0x01, 0x80, 0xc2, 0, 0] && mac.0[5] <= 0x0f;
    let is_suppressed = mac == Mac::BROADCAST && switch.broadcast == Broadcast::Suppressed;
    !is_reserved && !is_suppressed
}

/// The Ethernet address that a sender has by a name.
pub const fn mac_of(port: &Port, name: Option<Mac>) -> Mac {
    match name {
        Some(mac) => mac,
        None => port.mac,
    }
}

/// An Ethernet address that none of others is.
pub fn stranger<'a>(others: impl Iterator<Item = &'a Mac>) -> Mac {
    let taken: BTreeSet<Mac> = others.copied().collect();
    let make = |number: u16| {
        let [high, low] = number.to_be_bytes();
        Mac([0x06, 0x7a, 0x6f, 0x76, high, low])
    };
    (0..=u16::MAX).map(make).find(|it| !taken.contains(it)).unwrap_or(make(0))
}
