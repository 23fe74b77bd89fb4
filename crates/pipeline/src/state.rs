//! What a host remembers of the frames before.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use conntrack::{Begin, Flags, Hit, Id, Phase, Settings, Stamp, Table, Tenant, Zone};
use logical::objects::{Direction, Identity, Name};
use packet::Tuple;
use packet::groups::Listener;
use units::{Instant, Mac};

use crate::answers::Answers;
use crate::backends::Down;
use crate::change::Change;
use crate::flow::{Gated, Head, Passes, Start, Way};
use crate::fragments::Fragments;
use crate::learned::Learned;
use crate::neighbours::{Due, Neighbour, NeighbourState, Neighbours, Room, Via};
use crate::net::Net;
use crate::paths::{Path, Paths};
use crate::rules::RuleName;

/// Numbers for names, each the same for ever.
#[derive(Clone, Debug)]
pub struct Numbers<T> {
    numbers: BTreeMap<T, u32>,
    names: Vec<T>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), names: Vec::new() }
    }
}

impl<T: Clone + Ord> Numbers<T> {
    pub fn of(&mut self, name: &T) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.clone());
        self.numbers.insert(name.clone(), number);
        number
    }

    fn name(&self, number: u32) -> Option<&T> {
        self.names.get(number as usize)
    }
}

/// What is noted of a connection besides: which way its first packet went, the port that this came
/// from, and the rule that admitted it.
pub struct Note<'a> {
    pub opened: Direction,
    pub origin: Option<&'a Identity>,
    pub rule: Option<&'a RuleName>,
}

/// A connection of a port, and what is noted of it.
pub struct Followed<'a> {
    /// What is known of it.
    pub connection: conntrack::Connection,
    /// Which way its first packet went.
    pub opened: Direction,
    /// The port of its network that this came from, if it was for the port at hand and is known.
    pub origin: Option<&'a Identity>,
    /// The rule that admitted it, if one did.
    pub rule: Option<&'a RuleName>,
}

/// Marks of connections. Behind the last: the number of the port that the first packet came from.
pub mod mark {
    pub const FROM_PORT: u32 = 0;
    pub const TO_PORT: u32 = 1;
    pub const ORIGINS: u32 = 2;
}

/// What a host knows of the packets before.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) table: Table,
    zones: BTreeMap<Identity, Zone>,
    /// Of routers that translate, and of ports with load balancers.
    translating: BTreeMap<Identity, Zone>,
    tenants: BTreeMap<Option<Name>, Tenant>,
    pub(crate) origins: Numbers<Identity>,
    pub(crate) rules: Numbers<RuleName>,
    pub(crate) fragments: Fragments,
    learned: Learned,
    pub(crate) listeners: BTreeMap<Identity, Listener>,
    answers: Answers,
    /// By the ports that they come from.
    announced: Answers,
    pub(crate) paths: Paths,
    pub(crate) down: Down,
    pub(crate) neighbours: Neighbours,
}

impl State {
    /// Nothing is known yet.
    pub fn new(settings: &Settings, now: Instant) -> Self {
        Self {
            table: Table::new(settings, now),
            zones: BTreeMap::new(),
            translating: BTreeMap::new(),
            tenants: BTreeMap::new(),
            origins: Numbers::default(),
            rules: Numbers::default(),
            fragments: Fragments::default(),
            learned: Learned::default(),
            listeners: BTreeMap::new(),
            answers: Answers::default(),
            announced: Answers::default(),
            paths: Paths::default(),
            down: Down::new(),
            neighbours: Neighbours::default(),
        }
    }

    /// These backends are down from now on, and all others up. Connections stay where they are.
    pub fn set_down(&mut self, down: Down) {
        self.down = down;
    }

    /// Keeps connections of a part's own ports, as many as each may have.
    pub fn adopt(&mut self, net: &Net) {
        for port in net.own_ports().filter(|port| port.is_machine()) {
            let Some(own) = &port.own else { continue };
            let quota = own.row.connections.unwrap_or(u32::MAX);
            if let Some(zone) = self.zones.get(&port.id) {
                self.table.set_zone_quota(*zone, quota);
                continue;
            }
            let zone = self.add_zone(&port.id.tenant, quota);
            self.zones.extend(zone.map(|zone| (port.id.clone(), zone)));
        }
        for (name, quota) in net.translating() {
            if let Some(zone) = self.translating.get(name) {
                self.table.set_zone_quota(*zone, quota);
                continue;
            }
            let zone = self.add_zone(&name.tenant, quota);
            self.translating.extend(zone.map(|zone| (name.clone(), zone)));
        }
    }

    fn add_zone(&mut self, tenant: &Option<Name>, quota: u32) -> Option<Zone> {
        let known = self.tenants.get(tenant).copied();
        let made = known.or_else(|| self.table.add_tenant(u32::MAX))?;
        self.tenants.insert(tenant.clone(), made);
        self.table.add_zone(made, quota)
    }

    /// Forgets what nobody has needed for long: at most so many connections, and all fragments'
    /// packets. Whether all that is due is done.
    pub fn expire(&mut self, now: Instant, budget: u32) -> bool {
        self.fragments.expire(now);
        self.answers.expire(now);
        self.announced.expire(now);
        self.paths.expire(now);
        self.table.expire(now, budget).is_done
    }

    /// Forgets the connections, the packets in fragments, and the groups, of ports that are here no
    /// longer, and translations and flows of routers; and the addresses seen behind ports that are
    /// known no longer, here or elsewhere.
    pub fn retain(
        &mut self,
        mut is_here: impl FnMut(&Identity) -> bool,
        is_known: impl FnMut(&Identity) -> bool,
    ) {
        self.learned.retain(is_known);
        self.listeners.retain(|port, _| is_here(port));
        self.fragments.retain(|(place, _)| is_here(place));
        self.paths.retain(&mut is_here);
        self.neighbours.retain(&mut is_here);
        let table = &mut self.table;
        for zones in [&mut self.zones, &mut self.translating] {
            zones.retain(|place, zone| {
                let is_here = is_here(place);
                if !is_here {
                    table.remove_zone(*zone);
                }
                is_here
            });
        }
        // One that still has a place is not removed.
        self.tenants.retain(|_, tenant| !table.remove_tenant(*tenant));
    }

    /// When something is to be done about neighbours of routers, if there is `room` for so many
    /// packets that were held.
    pub fn neighbours_due(&self, room: usize) -> Option<Instant> {
        self.neighbours.next(room)
    }

    /// Takes what is to be done about neighbours, as far as there is room: whoever does, does it.
    /// Routers take turns. `copies`: out of how many ports a question [goes](Net::asked_ports).
    pub fn take_neighbours_due(
        &mut self,
        now: Instant,
        room: Room,
        copies: impl Fn(&Neighbour) -> usize,
    ) -> Vec<Due> {
        self.neighbours.take_due(now, room, copies)
    }

    /// Neighbours of routers that are elsewhere now, or are to be asked whether they are still
    /// there, since this was asked last: packets for them are to be decided anew.
    pub fn take_moved(&mut self) -> impl Iterator<Item = Via> + use<> {
        self.neighbours.take_moved()
    }

    /// The neighbours of routers that nobody declares.
    pub fn neighbours(&self, now: Instant) -> impl Iterator<Item = NeighbourState<'_>> {
        self.neighbours.all(now)
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// How many connections a port has, by their first packets' ends, and how far each is.
    pub fn connections(
        &self,
        port: &Identity,
        now: Instant,
    ) -> impl Iterator<Item = (Tuple, Phase)> + '_ {
        let zone = self.zone(port);
        zone.into_iter().flat_map(move |zone| self.table.connections(zone, None, now)).map(|it| {
            let (original, phase) = (it.original, it.phase);
            let (source, destination) = (original.source(), original.destination());
            (Tuple { protocol: original.protocol(), source, destination }, phase)
        })
    }

    /// The connections of a port, and flows that load balancers of its switch translate for it,
    /// from the one behind `after` on: `None`, or one that is no more, is from the first. Who goes
    /// on later meets each that stays at least once.
    pub fn followed(
        &self,
        port: &Identity,
        after: Option<Id>,
        now: Instant,
    ) -> impl Iterator<Item = Followed<'_>> {
        let zones = [self.zone(port), self.translating(port)].into_iter().flatten();
        let begin = after.and_then(|id| self.table.get(id, now)).map(|it| it.zone);
        let begin = begin.filter(|zone| zones.clone().any(|it| it == *zone));
        let zones = zones.skip_while(move |zone| begin.is_some_and(|begin| begin != *zone));
        zones.flat_map(move |zone| {
            let after = after.filter(|_| begin == Some(zone));
            let all = self.table.connections(zone, after, now);
            all.map(|connection| {
                let Note { opened, origin, rule } = self.noted(connection.mark, connection.stamp);
                Followed { connection, opened, origin, rule }
            })
        })
    }

    pub(crate) fn zone(&self, port: &Identity) -> Option<Zone> {
        self.zones.get(port).copied()
    }

    /// Where a router, or a port's load balancers, keep their flows.
    pub(crate) fn translating(&self, place: &Identity) -> Option<Zone> {
        self.translating.get(place).copied()
    }

    pub(crate) fn note(&self, hit: &Hit) -> Note<'_> {
        self.noted(hit.mark, hit.stamp)
    }

    pub(crate) fn noted(&self, mark: u32, stamp: Stamp) -> Note<'_> {
        let origin = mark.checked_sub(mark::ORIGINS);
        Note {
            opened: match mark {
                mark::FROM_PORT => Direction::FromPort,
                _ => Direction::ToPort,
            },
            origin: origin.and_then(|it| self.origins.name(it)),
            rule: stamp.rule.checked_sub(1).and_then(|it| self.rules.name(it)),
        }
    }

    /// Whether one more packet of a flow passes a port. What it [changes](Self::advance) once it
    /// has left is put to the advances.
    #[inline(always)]
    pub fn again(
        &self,
        gate: &Gated,
        frame: Start<'_>,
        now: Instant,
        advances: &mut Vec<conntrack::Change>,
    ) -> Passes {
        gate.again(&self.table, frame, now, advances)
    }

    /// Whether a packet of a flow would still take its way: whether the router that translates on
    /// it knows the flow.
    #[inline]
    pub fn leads(&self, way: &Way, head: &Head, frame: Start<'_>, now: Instant) -> bool {
        way.leads(&self.table, head, frame, now)
    }

    /// The same of one that is about to leave. What it [changes](Self::advance) once it has left is
    /// put to the advances.
    #[inline]
    pub fn takes_again(
        &self,
        way: &Way,
        frame: Start<'_>,
        now: Instant,
        advances: &mut Vec<conntrack::Change>,
    ) -> bool {
        way.again(&self.table, frame, now, advances)
    }

    /// Whether a flow's packets pass a port whatever they are to connections, and change nothing:
    /// as long as [`zones_begun`](Self::zones_begun) stays.
    pub fn passes_alone(&self, gate: &Gated) -> bool {
        gate.passes_alone(&self.table)
    }

    /// How often a port or router got a connection that had none.
    #[inline]
    pub const fn zones_begun(&self) -> u64 {
        self.table.zones_begun()
    }

    /// A packet of a connection has left.
    #[inline]
    pub fn advance(&mut self, change: &conntrack::Change, now: Instant) {
        // Of a connection that is no more since there is nothing to be changed.
        let _ = self.table.commit(change, now);
    }

    /// Whether one more frame of a port tells a router at another host where a neighbour is.
    /// Whoever hands it on asks once, as it comes.
    pub fn may_announce(&mut self, port: &Identity, now: Instant) -> bool {
        self.announced.take(port, now)
    }

    /// Whether a port gets one more answer of the network's own, here or at another host. Whoever
    /// gives it asks once, as it is given.
    pub fn may_answer(&mut self, port: &Identity, now: Instant) -> bool {
        self.answers.take(port, now)
    }

    /// Makes the changes of a frame that has left.
    pub fn commit(&mut self, changes: &[Change], now: Instant) {
        for change in changes {
            self.make(change, now);
        }
    }

    /// The same of a frame of which it is not known yet whether it arrives: the connections that it
    /// opens.
    pub fn open(&mut self, changes: &[Change], now: Instant) -> Vec<Id> {
        changes.iter().filter_map(|change| self.make(change, now)).collect()
    }

    /// The frame that opened a connection has not arrived: unless that was answered, it is no more.
    pub fn take_back(&mut self, id: Id, now: Instant) {
        if self.table.get(id, now).is_some_and(|it| !it.flags.is_answered()) {
            self.table.remove(id);
        }
    }

    /// Makes a change. The connection that it opens, if it does.
    fn make(&mut self, change: &Change, now: Instant) -> Option<Id> {
        match change {
            Change::Begin { zone, packet, opened, origin, rule } => {
                let mark = self.mark_of(*opened, origin.as_ref());
                let stamp = self.stamp_of(rule.as_ref());
                let begin = Begin { mark, flags: Flags::NONE, ..Begin::new(*zone, *packet, stamp) };
                // Where others were faster there may be no room now; the frame has left.
                return self.table.commit(&conntrack::Change::Begin(begin), now).ok();
            }
            Change::Translate(begin) => {
                return self.table.commit(&conntrack::Change::Begin(*begin), now).ok();
            }
            Change::Advance(change) => self.advance(change, now),
            Change::End(id) => {
                self.table.remove(*id);
            }
            Change::Fragment(place, of, pieces, until) => {
                self.fragments.note(place.clone(), *of, (pieces.clone(), *until), now);
            }
            Change::Learned(switch, mac, port) => {
                self.learned.note(switch.clone(), *mac, port.clone());
            }
            Change::Path(router, flow, path) => {
                self.paths.note(router, *flow, path.clone(), now);
            }
            Change::Overheard(port, told) => {
                self.listeners.entry(port.clone()).or_default().hear(*told);
            }
            Change::Neighbour(router, neighbour, about) => {
                self.neighbours.note(router, neighbour, about.clone(), now);
            }
        }
        None
    }

    /// Whether a port's machine listens to a group.
    pub(crate) fn wants(&self, port: &Identity, group: core::net::IpAddr) -> bool {
        self.listeners.get(port).is_some_and(|it| it.wants(group))
    }

    /// Where a flow came into a router.
    pub(crate) fn path(&self, router: &Identity, flow: Tuple, now: Instant) -> Option<&Path> {
        self.paths.get(router, flow, now)
    }

    pub(crate) fn learned(&self, switch: &Identity, mac: Mac) -> Option<&Identity> {
        self.learned.get(switch, mac)
    }
}
