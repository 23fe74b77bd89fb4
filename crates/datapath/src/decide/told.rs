//! What a datapath is told: which ports there are, and who is in which network.

use alloc::boxed::Box;
use alloc::sync::Arc;

use lossless::PortId;
use units::{Class, ClassSet, Mac};

use super::{Datapath, Member, PortConfig, learned_of};
use crate::address::Address;
use crate::cache::Entry;
use crate::l2::{Place, Segment};
use crate::storm::{Storm, StormLimits};
use crate::vlan::Vlans;
use crate::{Declared, Network};

impl Datapath {
    /// Frames come by this port from now on. It is a member of its network.
    pub fn attach(&mut self, port: PortId, config: PortConfig) {
        self.segment_mut(config.network).locals.insert(port);
        self.add(port, config);
    }

    fn add(&mut self, port: PortId, config: PortConfig) {
        if self.members.len() <= port.index() {
            self.members.resize_with(port.index() + 1, || None);
        }
        self.in_some_vlans += usize::from(config.vlans != Vlans::All);
        let storm = Storm::new(&config.storm);
        let member =
            Member { last: Entry::NONE, config, storm, learned: 0, moves: 0, machine: None };
        self.members[port.index()] = Some(Box::new(member));
    }

    /// Changes the class of a port's untagged frames, and those that its frames' tags may choose.
    pub fn set_class(&mut self, port: PortId, class: Class, classes: Option<ClassSet>) {
        let config = &mut self.member_mut(port).config;
        if (config.class, config.classes) == (class, classes) {
            return;
        }
        (config.class, config.classes) = (class, classes);
        let network = config.network;
        // What was decided of its frames had the old class.
        self.segment_mut(network);
    }

    /// Changes how much of what a port sends is flooded.
    pub fn set_storm_limits(&mut self, port: PortId, limits: StormLimits) {
        let member = self.member_mut(port);
        if member.config.storm != limits {
            member.config.storm = limits;
            member.storm = Storm::new(&limits);
        }
    }

    /// Before a port is taken away: frames to its addresses go where they would go if it had gone
    /// already.
    pub fn close(&mut self, port: PortId) {
        let network = self.config(port).network;
        let Self { members, segments, generation, .. } = self;
        let Some(segment) = segments.get_mut(network.index()).and_then(Option::as_mut) else {
            return;
        };
        segment.groups.forget(port);
        let before = segment.addresses.len();
        segment.addresses.retain(|_, place| {
            let goes = place.port == port;
            if goes && place.seen.is_some() {
                *learned_of(members, port) -= 1;
            }
            !goes
        });
        if segment.addresses.len() < before {
            *generation += 1;
            segment.generation = *generation;
        }
    }

    /// Takes a port away, with its addresses.
    pub fn detach(&mut self, port: PortId) {
        self.close(port);
        if self.uplink == Some(port) {
            self.segments.iter_mut().flatten().for_each(|segment| segment.groups.forget(port));
            self.uplink = None;
            self.touch_declared();
        } else {
            let network = self.config(port).network;
            self.segment_mut(network).locals.remove(port);
        }
        self.in_some_vlans -= usize::from(self.config(port).vlans != Vlans::All);
        self.members[port.index()] = None;
        self.flaps.forget(port);
        self.drop_empty();
    }

    /// From now on all far hosts are behind this port. It is a member of every network that is
    /// [declared](Self::declare).
    pub fn set_uplink(&mut self, port: PortId, class: Class) {
        assert!(self.uplink.is_none(), "a host's datapath has one uplink");
        self.add(port, PortConfig { class, network: Network::NONE, ..PortConfig::default() });
        self.uplink = Some(port);
        self.touch_declared();
    }

    /// From now on the machines of a network on other hosts are these; none if the network is this
    /// host's alone. What was decided in it is decided anew. This is all that a change of a
    /// network's members costs the thread that forwards. Who is declared no more is in no group.
    pub fn declare(&mut self, network: Network, declared: Option<Arc<Declared>>) {
        let uplink = self.uplink;
        let segment = self.segment_mut(network);
        segment.declared = declared;
        if let Some(uplink) = uplink {
            let Segment { groups, declared, .. } = segment;
            let is_there = |mac| declared.as_ref().is_some_and(|it| it.place(mac).is_some());
            groups.retain_machines(uplink, is_there);
        }
        if segment.is_empty() {
            self.segments[network.index()] = None;
        }
    }

    /// What is declared of a network.
    pub fn declared(&self, network: Network) -> Option<&Arc<Declared>> {
        self.segment(network)?.declared.as_ref()
    }

    /// Sets an address of a port for good: it neither ages nor moves.
    pub fn pin(&mut self, port: PortId, mac: Mac, vlan: u16) {
        let network = self.config(port).network;
        let place = Place { port, seen: None };
        let before = self.segment_mut(network).addresses.insert(Address::new(mac, vlan), place);
        if let Some(Place { port, seen: Some(_) }) = before {
            self.member_mut(port).learned -= 1;
        }
    }

    /// Pins the address of the machine that is declared behind a port, in place of the one before.
    /// One that is [pinned](Self::pin) stays where it is.
    pub fn set_machine(&mut self, port: PortId, machine: Option<Mac>) {
        let network = self.config(port).network;
        let pinned_at = |it: &Self, mac: Mac| match it.segment(network)?.at(mac, 0)? {
            Place { port, seen: None } => Some(*port),
            Place { .. } => None,
        };
        let before = self.member(port).machine;
        if before != machine {
            self.member_mut(port).machine = None;
            if let Some(before) = before.filter(|mac| pinned_at(self, *mac) == Some(port)) {
                self.segment_mut(network).addresses.remove(&Address::new(before, 0));
            }
        }
        let Some(mac) = machine else { return };
        match pinned_at(self, mac) {
            // It was the machine of that port, which is told later of its own.
            Some(at) if at != port && self.member(at).machine == Some(mac) => {
                self.member_mut(at).machine = None;
            }
            Some(_) => return,
            None => {}
        }
        self.pin(port, mac, 0);
        self.member_mut(port).machine = Some(mac);
    }
}
