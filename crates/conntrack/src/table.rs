//! The table of connections.

use alloc::vec::Vec;
use core::iter;

use units::{Instant, Span};

use crate::entry::{Entry, Flags, Stamp};
use crate::hash::Key;
use crate::index::{self, Index};
use crate::packet::{Kind, Packet};
use crate::record::Record;
use crate::timeouts::{Clock, Timeouts};
use crate::track::{Judged, Phase, Track, Way, Why, bit};
use crate::tuple::Tuple;
use crate::wheel::Wheel;
use crate::zones::{Full, Tenant, Zone, Zones};

/// How large a table is, and how long it remembers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The most connections; more than 268,435,454 are not had.
    pub connections: u32,
    /// The most zones; more than 1,048,576 are not had.
    pub zones: u32,
    /// The most tenants; more than 1,048,576 are not had.
    pub tenants: u32,
    /// How long connections are remembered.
    pub timeouts: Timeouts,
    /// Nobody who can choose tuples may know it.
    pub key: [u64; 2],
}

/// A connection, for as long as it is remembered. One that comes later has another id.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Id {
    place: u32,
    life: u32,
}

impl Id {
    /// Two numbers that say which one it is, for whoever is far from the table.
    pub const fn parts(self) -> (u32, u32) {
        (self.place, self.life)
    }

    /// The connection with these [numbers](Self::parts), if there is one.
    pub const fn of_parts((place, life): (u32, u32)) -> Self {
        Self { place, life }
    }
}

/// What a packet is to the connections of a zone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It can begin a connection: [`Begin`].
    New,
    /// It is of a connection, and goes as its first packet went.
    Request(Hit),
    /// It is of a connection, and goes the other way.
    Reply(Hit),
    /// It is an ICMP error about a packet of a connection. The hit says which way the error goes.
    Related(Hit),
    /// It is of no connection, and cannot begin one.
    Invalid {
        /// Why.
        why: Why,
        /// The connection whose flow it has, if there is one.
        hit: Option<Hit>,
    },
    /// It is nothing that connections are kept of.
    Untracked,
}

/// A packet's connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hit {
    /// Which one.
    pub id: Id,
    /// Which way the packet goes.
    pub way: Way,
    /// What its caller noted.
    pub stamp: Stamp,
    /// What else its caller noted.
    pub mark: u32,
    /// What is so of it.
    pub flags: Flags,
}

impl Hit {
    #[inline]
    fn of(entry: &Entry, place: u32, way: Way) -> Self {
        let (id, stamp, mark) = (Id { place, life: entry.life }, entry.stamp, entry.mark);
        Self { id, way, stamp, mark, flags: entry.flags() }
    }

    /// What the packet changes, once it has left.
    #[inline]
    pub const fn change(&self, packet: &Packet) -> Change {
        Change::Advance { id: self.id, way: self.way, kind: packet.kind }
    }
}

/// A connection that is to begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Begin {
    /// Whose it is.
    pub zone: Zone,
    /// Its first packet.
    pub packet: Packet,
    /// The tuple of replies: the packet's reversed, unless the zone translates.
    pub reply: Tuple,
    /// Which rule admits it.
    pub stamp: Stamp,
    /// The caller's own.
    pub mark: u32,
    /// [`Flags::PERSISTS`] and [`Flags::BLOCKED`], as is so; others are not looked at.
    pub flags: Flags,
}

impl Begin {
    /// A connection that is not translated.
    #[inline]
    pub const fn new(zone: Zone, packet: Packet, stamp: Stamp) -> Self {
        let reply = packet.tuple.reversed();
        Self { zone, packet, reply, stamp, mark: 0, flags: Flags::NONE }
    }
}

/// What a packet changes, once it has left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// A connection begins.
    Begin(Begin),
    /// A connection goes on by a packet.
    Advance {
        /// Which one.
        id: Id,
        /// Which way the packet goes.
        way: Way,
        /// What it is.
        kind: Kind,
    },
}

/// Why a change was not made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Denied {
    /// There is no room for one more.
    Full(Full),
    /// Another connection of the zone has the tuple of its replies.
    Taken,
    /// The connection, or the zone, is no more.
    Gone,
    /// The packet is not, or no longer, of the connection.
    Invalid(Why),
}

/// What came of [`Table::expire`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Expiry {
    /// How many connections were forgotten.
    pub forgotten: u32,
    /// Whether all that is due is done.
    pub is_done: bool,
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Connection {
    /// Which one.
    pub id: Id,
    /// Whose it is.
    pub zone: Zone,
    /// The tuple of packets that go as its first one went.
    pub original: Tuple,
    /// The tuple of those that go the other way.
    pub reply: Tuple,
    /// What its caller noted.
    pub stamp: Stamp,
    /// What else its caller noted.
    pub mark: u32,
    /// What is so of it.
    pub flags: Flags,
    /// How far it is.
    pub phase: Phase,
    /// How long it is remembered if no packet comes.
    pub left: Span,
}

impl Connection {
    /// The tuple that a packet of the connection has once it is translated.
    pub const fn translated(&self, way: Way) -> Tuple {
        match way {
            Way::Original => self.reply.reversed(),
            Way::Reply => self.original.reversed(),
        }
    }
}

/// Connections of all zones.
#[derive(Clone, Debug)]
pub struct Table {
    entries: Vec<Entry>,
    most: u32,
    len: u32,
    /// The first of the places that were used and are free. Each has the next in its mark.
    free: Option<u32>,
    lives: u32,
    index: Index,
    zones: Zones,
    wheel: Wheel,
    clock: Clock,
    key: Key,
}

impl Table {
    /// An empty table, all its memory reserved.
    pub fn new(settings: &Settings, now: Instant) -> Self {
        let most = settings.connections.min(index::MOST - 1);
        Self {
            entries: Vec::with_capacity(most as usize),
            most,
            len: 0,
            free: None,
            lives: 0,
            index: Index::new(2 * most),
            zones: Zones::new(settings.tenants, settings.zones, most),
            wheel: Wheel::new(most),
            clock: Clock::new(&settings.timeouts, now),
            key: Key::new(settings.key),
        }
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many connections a zone has.
    pub fn zone_len(&self, zone: Zone) -> u32 {
        self.zones.zone_len(zone)
    }

    /// How often a zone got a connection that had none. As long as that stays, zones without
    /// connections remain so.
    pub const fn zones_begun(&self) -> u64 {
        self.zones.begun()
    }

    /// How many connections a tenant has.
    pub fn tenant_len(&self, tenant: Tenant) -> u32 {
        self.zones.tenant_len(tenant)
    }

    /// Adds a tenant that may have so many connections. `None` if there is no room for it.
    pub fn add_tenant(&mut self, quota: u32) -> Option<Tenant> {
        self.zones.add_tenant(quota)
    }

    /// Removes a tenant that has no zones; `false` if it has, or is not there.
    pub fn remove_tenant(&mut self, tenant: Tenant) -> bool {
        self.zones.remove_tenant(tenant)
    }

    /// Sets how many connections a tenant may have. Those that it has stay. `false` if it is not
    /// there.
    pub fn set_tenant_quota(&mut self, tenant: Tenant, quota: u32) -> bool {
        self.zones.set_tenant_quota(tenant, quota)
    }

    /// Adds a zone that may have so many connections. `None` if the tenant is not there, or there
    /// is no room for it.
    pub fn add_zone(&mut self, tenant: Tenant, quota: u32) -> Option<Zone> {
        self.zones.add_zone(tenant, quota)
    }

    /// Removes a zone and its connections, however many. `false` if it is not there. Who minds how
    /// long that takes [forgets](Self::forget) some at a time before.
    pub fn remove_zone(&mut self, zone: Zone) -> bool {
        self.forget(zone, u32::MAX);
        self.zones.remove_zone(zone)
    }

    /// Sets how many connections a zone may have. Those that it has stay. `false` if it is not
    /// there.
    pub fn set_zone_quota(&mut self, zone: Zone, quota: u32) -> bool {
        self.zones.set_zone_quota(zone, quota)
    }

    /// Forgets connections of a zone, at most so many; how many.
    pub fn forget(&mut self, zone: Zone, most: u32) -> u32 {
        let mut count = 0;
        while count < most
            && let Some(place) = self.zones.first(zone)
        {
            self.clear(place);
            count += 1;
        }
        count
    }

    /// Has the processor fetch what [`lookup`](Self::lookup) reads first: worth it some packets
    /// ahead, where there are many connections.
    pub fn fetch(&self, zone: Zone, packet: &Packet) {
        self.index.fetch(self.hash(zone, &packet.tuple));
    }

    /// What a packet is to a zone's connections. Changes nothing.
    #[inline]
    pub fn lookup(&self, zone: Zone, packet: &Packet, now: Instant) -> Verdict {
        let tick = self.clock.tick(now);
        let hash = self.hash(zone, &packet.tuple);
        match self.seek(hash, zone, &packet.tuple) {
            Some((place, way, entry)) if entry.deadline > tick => {
                Self::verdict(place, way, entry, packet)
            }
            _ => Self::absent(packet),
        }
    }

    /// As [`lookup`](Self::lookup), for who remembers whose a flow's packets are: of a datagram or
    /// a segment that goes this way of a connection, by its zone and tuple. Finding it is spared.
    /// `None` if the connection is no more, or does not take it; then `lookup` tells.
    #[inline]
    pub fn recall(&self, id: Id, way: Way, kind: &Kind, now: Instant) -> Option<Hit> {
        let entry = self.entries.get(id.place as usize)?;
        let is_it =
            entry.life == id.life && entry.zone != 0 && entry.deadline > self.clock.tick(now);
        let takes = || match kind {
            Kind::Tcp(_) | Kind::Datagram => {
                matches!(entry.track.judge(way, kind), Judged::Advances | Judged::Passes)
            }
            _ => false,
        };
        (is_it && takes()).then(|| Hit::of(entry, id.place, way))
    }

    /// Whether a connection is still there.
    #[inline]
    pub fn has(&self, id: Id, now: Instant) -> bool {
        self.place(id).is_some_and(|place| self.is_live(place, self.clock.tick(now)))
    }

    #[inline(always)]
    fn verdict(place: u32, way: Way, entry: &Entry, packet: &Packet) -> Verdict {
        let hit = Hit::of(entry, place, way);
        match entry.track.judge(way, &packet.kind) {
            Judged::Advances | Judged::Passes => match (packet.kind, way) {
                (Kind::Error, _) => Verdict::Related(hit),
                (Kind::Other | Kind::Stray, _) => Self::absent(packet),
                (_, Way::Original) => Verdict::Request(hit),
                (_, Way::Reply) => Verdict::Reply(hit),
            },
            Judged::Reopens => Verdict::New,
            Judged::Invalid(why) => Verdict::Invalid { why, hit: Some(hit) },
        }
    }

    #[cold]
    fn absent(packet: &Packet) -> Verdict {
        match packet.kind {
            Kind::Other => Verdict::Untracked,
            Kind::Error | Kind::Stray => Self::invalid(Why::Unrelated),
            _ if packet.begins() && packet.tuple.ends == packet.tuple.ends.reversed() => {
                Self::invalid(Why::Circular)
            }
            _ if packet.begins() => Verdict::New,
            _ => Self::invalid(Why::NoConnection),
        }
    }

    const fn invalid(why: Why) -> Verdict {
        Verdict::Invalid { why, hit: None }
    }

    /// Whether a zone has room for one more connection, if need be in the place of its oldest one
    /// that nobody has answered.
    pub fn room(&self, zone: Zone) -> Result<(), Full> {
        match self.own_room(zone) {
            Ok(()) => Ok(()),
            Err((_, true)) if self.zones.oldest_half_open(zone).is_some() => Ok(()),
            Err((full, _)) => Err(full),
        }
    }

    /// Whether there is a free place for one more. `Err(is_helped)`: whether one less would help.
    fn own_room(&self, zone: Zone) -> Result<(), (Full, bool)> {
        self.zones.room(zone)?;
        if self.len >= self.most { Err((Full::Table, true)) } else { Ok(()) }
    }

    /// Whether no connection of a zone has this tuple: where a translation looks for a free port.
    pub fn is_free(&self, zone: Zone, tuple: &Tuple, now: Instant) -> bool {
        let found = self.find(zone, tuple);
        !found.is_some_and(|(place, _)| self.is_live(place, self.clock.tick(now)))
    }

    /// Makes a packet's change, once the packet has left: whose connection it is.
    ///
    /// It is judged again, for others may have left in between. A connection that begins twice
    /// begins once, and goes on by the second packet.
    ///
    /// # Errors
    ///
    /// [`Denied`]. Nothing has changed then, but that connections which had to make room are gone.
    #[inline]
    pub fn commit(&mut self, change: &Change, now: Instant) -> Result<Id, Denied> {
        match change {
            Change::Begin(begin) => self.begin(begin, now),
            Change::Advance { id, way, kind } => {
                let place = self.place(*id).ok_or(Denied::Gone)?;
                self.advance(place, *way, kind, self.clock.tick(now))
            }
        }
    }

    fn begin(&mut self, begin: &Begin, now: Instant) -> Result<Id, Denied> {
        let Begin { zone, packet, reply, .. } = begin;
        if !self.zones.has(*zone) {
            return Err(Denied::Gone);
        }
        let tick = self.clock.tick(now);
        let hashes = [self.hash(*zone, &packet.tuple), self.hash(*zone, reply)];
        let mut replaced = None;
        if let Some((place, way, _)) = self.seek(hashes[0], *zone, &packet.tuple) {
            let judged = self.entries[place as usize].track.judge(way, &packet.kind);
            if self.is_live(place, tick) && judged != Judged::Reopens {
                return self.advance(place, way, &packet.kind, tick);
            }
            replaced = Some(place);
        }
        if !packet.begins() {
            return Err(Denied::Invalid(Why::NoConnection));
        }
        let mut entry = self.blank(*zone, &packet.tuple, reply)?;
        if let Some((place, ..)) = self.seek(hashes[1], *zone, reply)
            && Some(place) != replaced
        {
            if self.is_live(place, tick) {
                return Err(Denied::Taken);
            }
            self.clear(place);
        }
        if let Some(place) = replaced {
            self.clear(place);
        }
        let ports = (packet.tuple.ends.source_port(), packet.tuple.ends.destination_port());
        entry.track = Track::new(packet.tuple.protocol, ports, &packet.kind);
        entry.track.bits = begin.flags.0 & (bit::PERSISTS | bit::BLOCKED);
        entry.track.advance(Way::Original, &packet.kind);
        (entry.stamp, entry.mark) = (begin.stamp, begin.mark);
        entry.deadline = self.clock.deadline(tick, entry.age());
        self.add(&mut entry, hashes)
    }

    /// An entry that is in no list yet.
    fn blank(&self, zone: Zone, original: &Tuple, reply: &Tuple) -> Result<Entry, Denied> {
        let is_odd = original.ends == reply.ends || original.protocol != reply.protocol;
        if is_odd {
            return Err(Denied::Invalid(Why::Circular));
        }
        Ok(Entry {
            original: original.ends,
            reply: reply.ends,
            zone: zone.0,
            deadline: 0,
            stamp: Stamp::default(),
            life: 0,
            mark: 0,
            track: Track::new(original.protocol, (0, 0), &Kind::Datagram),
        })
    }

    /// Gives an entry a place. `hashes`: its tuples'.
    fn add(&mut self, entry: &mut Entry, hashes: [u64; 2]) -> Result<Id, Denied> {
        let zone = Zone(entry.zone);
        if let Err((full, is_helped)) = self.own_room(zone) {
            let oldest = self.zones.oldest_half_open(zone).filter(|_| is_helped);
            self.clear(oldest.ok_or(Denied::Full(full))?);
        }
        let place = self.take_place(entry);
        self.lives = self.lives.wrapping_add(1);
        entry.life = self.lives;
        let [original, reply] = hashes;
        let mut is_placed = self.index.insert(original, place, Way::Original);
        if is_placed && !self.index.insert(reply, place, Way::Reply) {
            self.index.remove(original, place, Way::Original);
            is_placed = false;
        }
        if !is_placed {
            self.give_place(place);
            return Err(Denied::Full(Full::Table));
        }
        self.entries[place as usize] = *entry;
        self.zones.enter(zone, place, entry.is_answered());
        self.wheel.insert(place, entry.deadline);
        Ok(Id { place, life: entry.life })
    }

    #[inline]
    fn advance(&mut self, place: u32, way: Way, kind: &Kind, tick: u32) -> Result<Id, Denied> {
        let entry = &mut self.entries[place as usize];
        let id = Id { place, life: entry.life };
        match entry.track.judge(way, kind) {
            Judged::Advances => {}
            Judged::Passes => return Ok(id),
            Judged::Reopens => return Err(Denied::Gone),
            Judged::Invalid(why) => return Err(Denied::Invalid(why)),
        }
        let was_answered = entry.is_answered();
        entry.track.advance(way, kind);
        let deadline = self.clock.deadline(tick, entry.age());
        // What is put off stays where it is in the wheel until its slot comes.
        if deadline < entry.deadline {
            self.wheel.remove(place);
            self.wheel.insert(place, deadline);
        }
        entry.deadline = deadline;
        if entry.is_answered() && !was_answered {
            let zone = Zone(entry.zone);
            self.zones.answered(zone, place);
        }
        Ok(id)
    }

    /// Stamps a connection anew: its rules were asked again. `flags`: [`Flags::PERSISTS`] and
    /// [`Flags::BLOCKED`], as is so now. `false` if it is no more.
    pub fn restamp(&mut self, id: Id, stamp: Stamp, flags: Flags) -> bool {
        let Some(place) = self.place(id) else { return false };
        let entry = &mut self.entries[place as usize];
        entry.stamp = stamp;
        entry.track.set(bit::PERSISTS, flags.persists());
        entry.track.set(bit::BLOCKED, flags.is_blocked());
        true
    }

    /// Forgets a connection; `false` if it is no more.
    pub fn remove(&mut self, id: Id) -> bool {
        self.place(id).map(|place| self.clear(place)).is_some()
    }

    /// What is known of a connection; `None` if it is no more.
    pub fn get(&self, id: Id, now: Instant) -> Option<Connection> {
        let place = self.place(id).filter(|it| self.is_live(*it, self.clock.tick(now)))?;
        let entry = &self.entries[place as usize];
        Some(Connection {
            id,
            zone: Zone(entry.zone),
            original: entry.tuple(Way::Original),
            reply: entry.tuple(Way::Reply),
            stamp: entry.stamp,
            mark: entry.mark,
            flags: entry.flags(),
            phase: entry.track.phase,
            left: self.clock.left(entry.deadline, now),
        })
    }

    /// A zone's connections, from the one behind `after` on: `None`, or one that is no more, is
    /// from the first. Who goes on later, with any number at a time, meets each that stays at least
    /// once.
    pub fn connections(
        &self,
        zone: Zone,
        after: Option<Id>,
        now: Instant,
    ) -> impl Iterator<Item = Connection> {
        let after = after.and_then(|id| self.place(id));
        let after = after.filter(|it| self.entries[*it as usize].zone == zone.0);
        let next = move |place: u32| {
            self.zones.next(zone, place, self.entries[place as usize].is_answered())
        };
        let first = after.map_or_else(|| self.zones.first(zone), next);
        let places = iter::successors(first, move |place| next(*place));
        places.filter_map(move |place| {
            self.get(Id { place, life: self.entries[place as usize].life }, now)
        })
    }

    /// What another table needs to go on with a connection; `None` if it is no more.
    pub fn export(&self, id: Id, now: Instant) -> Option<Record> {
        let Connection { original, reply, mark, left, .. } = self.get(id, now)?;
        let track = self.entries[id.place as usize].track;
        Some(Record { original, reply, mark, left, track })
    }

    /// Takes over a connection of another table, which may have been taken over before: then it is
    /// replaced. The caller's notes, but the mark, are its own.
    ///
    /// # Errors
    ///
    /// [`Denied`], and then another connection of the zone has one of its tuples, or it was there
    /// before and is no more.
    pub fn import(
        &mut self,
        zone: Zone,
        record: &Record,
        stamp: Stamp,
        flags: Flags,
        now: Instant,
    ) -> Result<Id, Denied> {
        if !self.zones.has(zone) {
            return Err(Denied::Gone);
        }
        let tick = self.clock.tick(now);
        let mut entry = self.blank(zone, &record.original, &record.reply)?;
        for (way, tuple) in [(Way::Original, &record.original), (Way::Reply, &record.reply)] {
            let Some((place, found)) = self.find(zone, tuple) else { continue };
            let is_same = found == way && self.entries[place as usize].original == entry.original;
            if self.is_live(place, tick) && !is_same {
                return Err(Denied::Taken);
            }
            self.clear(place);
        }
        entry.track = record.track;
        entry.track.set(bit::PERSISTS, flags.persists());
        entry.track.set(bit::BLOCKED, flags.is_blocked());
        (entry.stamp, entry.mark) = (stamp, record.mark);
        let latest = self.clock.deadline(tick, entry.age());
        entry.deadline = self.clock.deadline_in(tick, record.left).min(latest);
        let hashes = [&record.original, &record.reply].map(|tuple| self.hash(zone, tuple));
        self.add(&mut entry, hashes)
    }

    /// Forgets connections whose time is over. `budget`: how many are looked at, at most.
    ///
    /// A connection is looked at some five times in its life, whether or not its time is over: who
    /// lets ten be looked at for each that begins never has more than a few that are late. Late
    /// ones are not found, but they have their place and count for quotas.
    pub fn expire(&mut self, now: Instant, budget: u32) -> Expiry {
        let until = self.clock.tick(now);
        let mut forgotten = 0;
        for _ in 0..budget {
            let Some(place) = self.wheel.pop(until) else {
                return Expiry { forgotten, is_done: true };
            };
            let deadline = self.entries[place as usize].deadline;
            if deadline <= self.wheel.now() {
                self.clear(place);
                forgotten += 1;
            } else {
                self.wheel.insert(place, deadline);
            }
        }
        Expiry { forgotten, is_done: false }
    }

    /// When [`expire`](Self::expire) has something to do next; it may be less than it seems.
    /// `None`: never.
    pub fn expires_at(&self) -> Option<Instant> {
        self.wheel.next().map(|tick| self.clock.begin_of(tick))
    }

    #[inline]
    fn hash(&self, zone: Zone, tuple: &Tuple) -> u64 {
        self.key.hash(zone.0, tuple.protocol, &tuple.ends)
    }

    /// Whose place a tuple is, whether or not its time is over.
    fn find(&self, zone: Zone, tuple: &Tuple) -> Option<(u32, Way)> {
        let found = self.seek(self.hash(zone, tuple), zone, tuple);
        found.map(|(place, way, _)| (place, way))
    }

    /// The same by the tuple's hash, with what is there.
    #[inline]
    fn seek(&self, hash: u64, zone: Zone, tuple: &Tuple) -> Option<(u32, Way, &Entry)> {
        self.index.find(hash, |place, way| {
            let entry = &self.entries[place as usize];
            let is_it = *entry.ends(way) == tuple.ends
                && entry.zone == zone.0
                && entry.track.protocol == tuple.protocol;
            is_it.then_some((place, way, entry))
        })
    }

    #[inline]
    fn is_live(&self, place: u32, tick: u32) -> bool {
        self.entries[place as usize].deadline > tick
    }

    /// A connection's place, if it is still there.
    #[inline]
    fn place(&self, id: Id) -> Option<u32> {
        let entry = self.entries.get(id.place as usize)?;
        (entry.zone != 0 && entry.life == id.life).then_some(id.place)
    }

    /// Forgets what is at a place.
    fn clear(&mut self, place: u32) {
        let entry = self.entries[place as usize];
        for way in [Way::Original, Way::Reply] {
            let hash = self.key.hash(entry.zone, entry.track.protocol, entry.ends(way));
            self.index.remove(hash, place, way);
        }
        self.zones.leave(Zone(entry.zone), place);
        self.wheel.remove(place);
        self.give_place(place);
    }

    /// A free place. `entry`: what a new one has.
    fn take_place(&mut self, entry: &Entry) -> u32 {
        self.len += 1;
        if let Some(place) = self.free {
            let next = self.entries[place as usize].mark;
            self.free = (next != place).then_some(next);
            return place;
        }
        self.entries.push(*entry);
        self.zones.add_item();
        self.wheel.add_item();
        self.entries.len() as u32 - 1
    }

    /// A place is free again.
    fn give_place(&mut self, place: u32) {
        self.len -= 1;
        let entry = &mut self.entries[place as usize];
        entry.zone = 0;
        // The last one names itself.
        entry.mark = self.free.unwrap_or(place);
        self.free = Some(place);
    }
}
