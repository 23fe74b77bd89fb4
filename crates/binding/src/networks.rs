//! Which networks a host has, and which of its ports is which of theirs.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::mem;

use classifier::cells::CellId;
use datapath::Remote;
use logical::objects::Identity;
use lossless::{Audience, PortId};
use pipeline::{Change, Followed, Net, PortAt, Reason, State, Via};
use units::Instant;

use crate::answers::Answers;
use crate::flows::{Flows, Number, Site};
use crate::health::Health;
use crate::hits::{AllHits, HitAt, NetAt};
use crate::lines::{Lines, Pending};
use crate::notes::Notes;
use crate::places::Places;
use crate::refusals::Refusals;
use crate::underway::Underway;

/// What a host has for its networks.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For connections.
    pub connections: conntrack::Settings,
    /// Of how many flows of each version of IP it is remembered what was decided: some 300 bytes
    /// each, as they come.
    pub flows: u32,
    /// Nobody who can choose flows may know it.
    pub secret: [u64; 2],
}

/// A network that frames are decided by.
#[derive(Clone, Debug)]
pub struct Ready {
    pub net: Arc<Net>,
    /// What flows depend on: all but ports' rules.
    pub cell: CellId,
}

/// A port of the switch that is a port of a logical network.
#[derive(Debug)]
pub struct Bound {
    pub name: Identity,
    /// The network's rows, and its place in them. `None`: there are none that have it, and nothing
    /// goes to it or comes by it.
    pub at: Option<(Ready, PortAt)>,
    /// What flows depend on besides: what its own rules say, and since when.
    pub rules: (CellId, u64),
    /// Its number among flows' ports, if there are rows.
    pub number: Option<Number>,
    /// By which other hosts mean it; 0 if they do not know it.
    pub label: u32,
    /// How many of its frames the network itself has answered or heard.
    pub taken: u64,
    /// Where the network counts what its rules do.
    pub counts: Option<NetAt>,
    /// Which of its frames, and of those for it, were refused, and why.
    pub refusals: Refusals,
}

/// A frame whose turn has come.
#[derive(Default)]
pub struct Leaving {
    /// Its bytes, as its receiver gets them.
    pub frame: Vec<u8>,
    /// Copies for others behind the same port.
    pub copies: Vec<(PortId, Vec<u8>)>,
    /// What changes when it has left.
    pub changes: Vec<Change>,
    /// Of a frame whose flow is known: how its connections go on then.
    pub advances: Vec<conntrack::Change>,
    /// How many bytes it had when it came.
    pub bytes: usize,
    /// Which rules have decided of it, and at which ports.
    pub ruled: Vec<Pending>,
    /// The counters of the rules that let it pass as those of its flow before.
    pub counters: [Option<HitAt>; 2],
    /// That is all there is of it: nothing else here is about it.
    pub is_simple: bool,
}

/// How frames whose turn had come were decided.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Decided {
    /// As those of their flow before.
    pub known: u64,
    /// By rules and routes.
    pub anew: u64,
    /// Of how many flows it is remembered what was decided.
    pub flows: usize,
}

/// A host's logical networks.
pub struct Networks {
    /// By the number of the switch's port.
    pub(crate) bound: Vec<Option<Bound>>,
    /// Where logical ports are that are bound here, or children of those.
    pub(crate) places: BTreeMap<Identity, PortId>,
    pub(crate) state: State,
    pub(crate) answers: Answers,
    /// What becomes of the frame that was decided last at its egress.
    pub(crate) leaving: Leaving,
    /// Who is to have the frame that was decided last.
    pub(crate) audience: Audience,
    /// Where ports are on other hosts, and the port of the switch that these are behind.
    pub(crate) far: Arc<Places>,
    /// Ports that have moved while frames for them are underway to where they were.
    pub(crate) left: BTreeMap<Identity, Remote>,
    pub(crate) uplink: Option<PortId>,
    /// The port by which frames for routers here come back.
    pub(crate) turn: Option<PortId>,
    pub(crate) hits: AllHits,
    pub(crate) lines: Lines,
    /// The port of the frame that was refused last.
    pub(crate) refused_last: Option<PortId>,
    pub(crate) nets: Vec<Ready>,
    pub(crate) flows: Flows,
    pub(crate) notes: Notes,
    /// What flows depend on that go to neighbours of routers that nobody declares.
    pub(crate) vias: BTreeMap<Via, CellId>,
    /// What frames on their way to other hosts have opened.
    pub(crate) underway: Underway,
    pub(crate) health: Health,
    generation: u64,
    /// How often zones had begun when flows were told of it last.
    zones_begun: u64,
    pub(crate) decided: Decided,
}

impl fmt::Debug for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Networks")
            .field("generation", &self.generation)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

impl Networks {
    /// Without networks and ports.
    pub fn new(settings: &Settings, now: Instant) -> Self {
        Self {
            bound: Vec::new(),
            places: BTreeMap::new(),
            state: State::new(&settings.connections, now),
            answers: Answers::default(),
            leaving: Leaving::default(),
            audience: Audience::default(),
            far: Arc::default(),
            left: BTreeMap::new(),
            uplink: None,
            turn: None,
            hits: AllHits::default(),
            lines: Lines::default(),
            refused_last: None,
            nets: Vec::new(),
            flows: Flows::new(settings.flows, settings.secret),
            notes: Notes::default(),
            vias: BTreeMap::new(),
            underway: Underway::default(),
            health: Health::default(),
            generation: 0,
            zones_begun: 0,
            decided: Decided::default(),
        }
    }

    /// The generation that frames are decided by; 0 before there is one.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Puts a generation in the place of the one before, at once: no frame is decided by both. What
    /// has not changed is to be the same [`Arc`]. Connections of ports that stay are kept, those of
    /// others forgotten. Returns what was there before, so that it is freed where nobody waits.
    pub fn realize(&mut self, generation: u64, nets: Vec<Arc<Net>>) -> Vec<Arc<Net>> {
        let is_known = |port: &Identity| nets.iter().any(|net| net.port(port).is_some());
        self.state.retain(|port| nets.iter().any(|net| net.has(port)), is_known);
        nets.iter().for_each(|net| self.state.adopt(net));
        self.note_moved();
        self.generation = generation;
        let before = mem::take(&mut self.nets);
        for net in nets {
            // What is as old, and has the same routers' flows here, is the same, is known by the
            // same cell, and its flows stay.
            let is_as_old = |old: &Net| net.since() != 0 && old.since() == net.since();
            let same = before.iter().find(|Ready { net: old, .. }| {
                Arc::ptr_eq(old, &net) || is_as_old(old) && old.own_routers().eq(net.own_routers())
            });
            let cell = same.map_or_else(|| self.flows.add_cell(), |old| old.cell);
            self.nets.push(Ready { net, cell });
        }
        for old in before.iter().filter(|old| self.nets.iter().all(|it| it.cell != old.cell)) {
            self.flows.change(old.cell);
        }
        self.hits.realize(self.nets.iter().map(|ready| &ready.net));
        self.health.realize(self.nets.iter().map(|ready| &*ready.net));
        self.state.set_down(self.health.down());
        let nets = &self.nets;
        self.lines.retain(|rule| nets.iter().any(|it| it.net.rules().at(rule).is_some()));
        for bound in self.bound.iter_mut().flatten() {
            bound.find(&self.nets, &mut self.flows);
            bound.counts = bound.at.as_ref().and_then(|(ready, _)| self.hits.place(&ready.net));
        }
        self.place_all();
        before.into_iter().map(|old| old.net).collect()
    }

    /// Ports are there from now on, also those that are attached here: such a one is about to come,
    /// or has left, and nothing goes to it here. Returns what was said before, so that it is freed
    /// where nobody waits.
    pub fn locate(&mut self, places: Arc<Places>) -> Arc<Places> {
        let before = mem::replace(&mut self.far, places);
        self.place_all();
        before
    }

    /// Other hosts are behind this port of the switch.
    pub const fn set_uplink(&mut self, uplink: PortId) {
        self.uplink = Some(uplink);
    }

    /// Frames for routers here leave by this port of the switch, and come back by it.
    pub const fn set_turn(&mut self, turn: PortId) {
        self.turn = Some(turn);
    }

    /// A port of the switch is a port of a logical network from now on, as soon as a generation has
    /// that. Until then nothing goes to it or comes by it.
    pub fn bind(&mut self, port: PortId, name: Identity) {
        if self.bound.len() <= port.index() {
            self.bound.resize_with(port.index() + 1, || None);
        }
        let rules = (self.flows.add_cell(), 0);
        let (counts, refusals) = (None, Refusals::default());
        let (number, label, taken) = (None, 0, 0);
        let mut bound = Bound { name, at: None, rules, number, label, taken, counts, refusals };
        bound.find(&self.nets, &mut self.flows);
        bound.counts = bound.at.as_ref().and_then(|(ready, _)| self.hits.place(&ready.net));
        self.bound[port.index()] = Some(bound);
        self.place_all();
    }

    /// A port of the switch is about to be detached.
    pub fn unbind(&mut self, port: PortId) {
        if let Some(place) = self.bound.get_mut(port.index()) {
            *place = None;
        }
        self.answers.forget(port);
        self.notes.forget(port);
        self.underway.forget(port);
        self.place_all();
    }

    /// Whether a port is one of a logical network.
    pub fn has(&self, port: PortId) -> bool {
        self.bound.get(port.index()).is_some_and(Option::is_some)
    }

    /// Whether a port of a logical network is where others reach it: on this host, or a child of
    /// one that is.
    pub fn is_here(&self, name: &Identity) -> bool {
        self.places.contains_key(name)
    }

    /// Which port of a logical network a port is, and whether a generation has it.
    pub fn name(&self, port: PortId) -> Option<(&Identity, bool)> {
        let bound = self.bound.get(port.index())?.as_ref()?;
        Some((&bound.name, bound.at.is_some()))
    }

    /// How many frames of a port, and for it, were refused, by why.
    pub fn refused(&self, port: PortId) -> impl Iterator<Item = (Reason, u64)> + '_ {
        let bound = self.bound.get(port.index()).and_then(Option::as_ref);
        let counts = bound.into_iter().flat_map(|it| &it.refusals.counts);
        counts.map(|(reason, count)| (*reason, *count))
    }

    /// How many frames of a port its network itself has answered or heard.
    pub fn taken(&self, port: PortId) -> u64 {
        self.bound.get(port.index()).and_then(Option::as_ref).map_or(0, |it| it.taken)
    }

    /// How many answers machines were given, and how many they were not as their ports asked too
    /// much.
    pub const fn answered(&self) -> (u64, u64) {
        (self.answers.given, self.answers.rate_limited)
    }

    /// How frames were decided.
    pub const fn decided(&self) -> Decided {
        Decided { flows: self.flows.len(), ..self.decided }
    }

    /// Of how many flows of each version of IP it can be remembered what was decided, if memory is
    /// short of as many as [`Settings::flows`] says.
    pub fn short_of_flows(&self) -> Option<usize> {
        self.flows.short()
    }

    /// How many connections are followed.
    pub fn connections(&self) -> usize {
        self.state.len()
    }

    /// The connections of a logical port that is here, from the one behind `after` on.
    pub fn followed(
        &self,
        port: &Identity,
        after: Option<conntrack::Id>,
        now: Instant,
    ) -> impl Iterator<Item = Followed<'_>> {
        self.state.followed(port, after, now)
    }

    /// Forgets what nobody has needed for long: at most so many connections. Whether all that is
    /// due is done.
    pub fn expire(&mut self, now: Instant, budget: u32) -> bool {
        self.state.expire(now, budget)
    }

    /// Hands out what networks answer to machines. `transmit` returns whether an answer is done
    /// with; if not, it and what is behind it for the same port go on waiting.
    pub fn poll_transmit(&mut self, transmit: impl FnMut(PortId, &[u8]) -> bool) {
        self.answers.poll_transmit(transmit);
    }

    /// Makes the changes of a frame that has left.
    pub(crate) fn commit(&mut self, changes: &[Change], now: Instant) {
        self.state.commit(changes, now);
        self.note_zones();
        if changes.iter().any(Change::is_of_neighbours) {
            self.note_moved();
        }
    }

    /// Connections may have begun: flows whose frames changed nothing as there was no connection at
    /// their ports may do so now.
    pub(crate) fn note_zones(&mut self) {
        let begun = self.state.zones_begun();
        if mem::replace(&mut self.zones_begun, begun) != begun {
            self.flows.tick();
        }
    }

    pub(crate) fn place_all(&mut self) {
        let Self { bound, places, far, .. } = self;
        places.clear();
        for (number, bound) in (0..).zip(bound) {
            let (Some(bound), Some(port)) = (bound, PortId::new(number)) else { continue };
            if far.far(&bound.name).is_some() {
                continue;
            }
            places.insert(bound.name.clone(), port);
            if let Some((Ready { net, .. }, at)) = &bound.at {
                let children = net.children(*at).map(|child| net.name(child).clone());
                places.extend(children.map(|child| (child, port)));
            }
        }
        let Self { bound, places, far, left, flows, health, .. } = self;
        health.place(places);
        let site = |name: &Identity| site(places, far, left, name);
        flows.place(site);
        for bound in bound.iter_mut().flatten() {
            let is_known = bound.at.is_some();
            bound.number = is_known.then(|| flows.number(&bound.name, site));
            bound.label = far.label(&bound.name);
        }
    }

    pub(crate) fn bound_to(&self, port: PortId) -> Option<&Bound> {
        self.bound.get(port.index())?.as_ref()
    }

    /// A port's number among those that flows name.
    pub(crate) fn number(&mut self, name: &Identity) -> Number {
        if self.flows.is_full() {
            self.flows.forget();
            self.place_all();
        }
        let Self { places, far, left, flows, .. } = self;
        flows.number(name, |name| site(places, far, left, name))
    }

    /// Where frames for a port go.
    pub(crate) fn site(&self, name: &Identity) -> Site {
        site(&self.places, &self.far, &self.left, name)
    }

    /// Where a port is.
    pub(crate) fn known_site(&self, name: &Identity) -> Site {
        site(&self.places, &self.far, &BTreeMap::new(), name)
    }
}

impl Bound {
    /// What flows depend on that come from it, or go to it.
    pub fn cells(&self) -> impl Iterator<Item = CellId> + use<> {
        let network = self.at.as_ref().map(|(ready, _)| ready.cell);
        network.into_iter().chain([self.rules.0])
    }

    /// Looks for the rows that have it as a port of this host.
    fn find(&mut self, nets: &[Ready], flows: &mut Flows) {
        let before = self.at.take();
        let find = |it: &Ready| Some((it.clone(), it.net.own_port(&self.name)?));
        self.at = nets.iter().find_map(find);
        let since = self.at.as_ref().map_or(0, |(it, at)| it.net.rules_since(*at));
        let is_same = match (&before, &self.at) {
            (Some((before, _)), Some((now, _))) => Arc::ptr_eq(&before.net, &now.net),
            _ => false,
        };
        if !is_same && (since == 0 || since != self.rules.1) {
            flows.change(self.rules.0);
        }
        self.rules.1 = since;
    }
}

/// Where frames for a port go: to where it was, as long as any are underway there.
fn site(
    here: &BTreeMap<Identity, PortId>,
    far: &Places,
    left: &BTreeMap<Identity, Remote>,
    name: &Identity,
) -> Site {
    if let Some(remote) = left.get(name) {
        return Site::There(*remote);
    }
    match here.get(name) {
        Some(port) => Site::Here(*port),
        None => far.far(name).map_or(Site::Nowhere, Site::There),
    }
}
