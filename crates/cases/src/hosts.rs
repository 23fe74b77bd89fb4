//! Hosts in one process, each with its part of a topology's rows, between which frames go at once.
//!
//! ```text
//! send ─▶ host of the port ─▶ hosts of those it is for ─▶ Fate
//!             what has come to pass is committed at each, if anybody got the frame
//! ```

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use conntrack::{Phase, Settings, Timeouts};
use interpreter::Tuple;
use logical::objects::Identity;
use logical::topology::{Attachment, PortIndex, RouterIndex, Topology};
use pipeline::{
    Change, Copy, Down, Due, Handover, Net, Onward, Reason, Refusal, Room, Sent, State, Step, Told,
};
use units::Instant;

/// A host: its part of each domain, by the domain's name, and what it knows of frames before.
#[derive(Debug)]
struct Host {
    nets: BTreeMap<Identity, Net>,
    state: State,
}

impl Host {
    fn new() -> Self {
        let settings = Settings {
            connections: 1 << 12,
            zones: 1 << 8,
            tenants: 1 << 4,
            timeouts: Timeouts::default(),
            key: [0; 2],
        };
        Self { nets: BTreeMap::new(), state: State::new(&settings, Instant::ZERO) }
    }
}

/// Where a port is.
#[derive(Clone, Debug)]
struct Place {
    /// Its domain.
    domain: Identity,
    /// Its host. `None`: it is on each.
    host: Option<String>,
}

/// Hosts that together have all ports of a topology.
#[derive(Debug, Default)]
pub struct Hosts {
    all: BTreeMap<String, Host>,
    places: BTreeMap<Identity, Place>,
    /// Where routers keep their flows.
    homes: BTreeMap<Identity, String>,
    /// Which ports and routers are about to move, and to which hosts.
    moves: BTreeMap<Identity, String>,
    /// When they were asked last.
    now: Instant,
}

/// A frame that a port gets, and the host where it does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Got {
    /// The host.
    pub host: String,
    /// The port.
    pub port: Identity,
    /// The frame: a child's with its tag.
    pub frame: Vec<u8>,
}

/// What became of a frame.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// Who got it.
    pub delivered: Vec<Got>,
    /// What its sender was answered.
    pub answers: Vec<Got>,
    /// What was not delivered.
    pub refused: Vec<Refusal>,
    /// How it came to that, host by host.
    pub trace: Vec<Step>,
}

/// A frame's way, before anything has changed.
#[derive(Default)]
struct Made {
    fate: Fate,
    told: Vec<Told>,
    changes: Vec<(String, Vec<Change>)>,
}

impl Hosts {
    /// A port's machine, or a router that keeps flows, is about to move to a host. That has its
    /// rows and its connections with the next topology, and is its host once a topology says so.
    pub fn expect(&mut self, place: &Identity, host: &str) {
        self.moves.insert(place.clone(), host.to_owned());
    }

    /// Gives these hosts the parts of a topology that they need from now on. Connections of ports
    /// and routers that stay where they were are kept, and of those that were
    /// [expected](Self::expect) to move.
    pub fn realize(
        &mut self,
        topology: &Topology,
        hosts: impl IntoIterator<Item = String>,
        host_of: impl Fn(PortIndex) -> String,
        home_of: impl Fn(RouterIndex) -> String,
    ) {
        for host in hosts {
            self.all.entry(host).or_insert_with(Host::new);
        }
        let domains = compiler::compile(topology);
        let moves = self.expected(topology);
        let handed = self.hand_over(&moves);
        self.places.clear();
        for (index, port) in topology.ports() {
            let host = match port.attachment {
                Attachment::Local => None,
                // A child is where its parent is.
                Attachment::Child { parent, .. } => Some(host_of(parent)),
                _ => Some(host_of(index)),
            };
            let has = |it: &&Identity| domains[*it].ports.contains_key(&port.id);
            let Some(domain) = domains.keys().find(has).cloned() else { continue };
            if let Some(host) = &host {
                self.all.entry(host.clone()).or_insert_with(Host::new);
            }
            self.places.insert(port.id.clone(), Place { domain, host });
        }
        // A router translates at one host, by which all ways through it lead.
        let homes = topology.routers().map(|(index, it)| (it.id.clone(), home_of(index)));
        self.homes = homes.collect();
        for (_, port) in topology.router_ports() {
            let (router, id) = (&topology[port.router].id, port.id.clone());
            let has = |it: &&Identity| domains[*it].routers.contains_key(router);
            let Some(domain) = domains.keys().find(has).cloned() else { continue };
            let host = self.homes[router].clone();
            self.all.entry(host.clone()).or_insert_with(Host::new);
            self.places.insert(id, Place { domain, host: Some(host) });
        }
        let (places, homes) = (&self.places, &self.homes);
        for (name, host) in &mut self.all {
            let is_here = |port: &Identity| {
                let host = places.get(port).map(|it| it.host.as_ref());
                let home = homes.get(port).is_some_and(|home| home == name);
                let is_expected = moves.get(port) == Some(name);
                home || is_expected || host.is_some_and(|host| host.is_none_or(|host| host == name))
            };
            let all = places.keys().chain(homes.keys());
            let own: BTreeSet<_> = all.filter(|it| is_here(it)).cloned().collect();
            host.state.retain(is_here, |port| places.contains_key(port));
            host.nets.clear();
            for (domain, rows) in &domains {
                let net = Net::new(&rows.part(&own));
                // What is only about to move is still where it was.
                let net = net.with_routers(|router| homes.get(router) == Some(name));
                host.state.adopt(&net);
                host.nets.insert(domain.clone(), net);
            }
        }
        self.take_over(&moves, handed);
    }

    /// Health checks have found these backends down, and all others up: every host knows.
    pub fn set_down(&mut self, down: &Down) {
        self.all.values_mut().for_each(|host| host.state.set_down(down.clone()));
    }

    /// The host of a port, or of a router that keeps flows; `None` if each has it, or none.
    pub fn host_of(&self, place: &Identity) -> Option<&str> {
        let home = self.homes.get(place);
        home.or_else(|| self.places.get(place)?.host.as_ref()).map(String::as_str)
    }

    /// What is about to move, with the children of ports.
    fn expected(&self, topology: &Topology) -> BTreeMap<Identity, String> {
        let mut all = self.moves.clone();
        for (_, port) in topology.ports() {
            if let Attachment::Child { parent, .. } = port.attachment
                && let Some(to) = self.moves.get(&topology[parent].id)
            {
                all.insert(port.id.clone(), to.clone());
            }
        }
        all
    }

    /// What the hosts say of all that is about to move from them.
    fn hand_over(&self, moves: &BTreeMap<Identity, String>) -> Vec<(Identity, Handover)> {
        let handed = |place: &Identity| {
            let host = self.all.get(self.host_of(place)?)?;
            Some((place.clone(), host.state.hand_over(place, self.now)))
        };
        moves.keys().filter_map(handed).collect()
    }

    /// Hands it to those that it moves to. What is still where it was goes on there meanwhile.
    fn take_over(&mut self, moves: &BTreeMap<Identity, String>, handed: Vec<(Identity, Handover)>) {
        for (place, handover) in handed {
            let Some(to) = moves.get(&place) else { continue };
            let has_moved = self.host_of(&place) == Some(to);
            let handover = if has_moved { handover } else { handover.loosened() };
            if let Some(host) = self.all.get_mut(to) {
                host.state.take_over(&place, &handover, self.now);
            }
            if has_moved {
                self.moves.remove(&place);
            }
        }
    }

    /// Sends a frame at its port, has the hosts of those it is for decide, and commits what has
    /// come to pass. `host`: of a port that each host has, which. `None`: there is no such port.
    pub fn send(
        &mut self,
        now: Instant,
        port: &Identity,
        host: Option<&str>,
        frame: &[u8],
    ) -> Option<Fate> {
        self.now = now;
        let Place { domain, host: own } = self.places.get(port)?.clone();
        let from = own.or_else(|| host.map(ToOwned::to_owned))?;
        let Host { nets, state } = self.all.get(&from)?;
        let net = nets.get(&domain)?;
        let at = net.own_port(port)?;
        let mut made = Made::default();
        self.follow(now, &from, &domain, net.send(state, now, at, frame), &mut made);
        let Made { mut fate, told, changes } = made;
        for told in told {
            fate.answers.extend(net.tell(at, frame, told).map(|it| got(&from, net, it)));
        }
        let Some(Host { state, .. }) = self.all.get_mut(&from) else { return Some(fate) };
        fate.answers.retain(|it| state.may_answer(&it.port, now));
        self.commit(now, &fate, changes);
        Some(fate)
    }

    /// Makes the changes of a frame that somebody got, or that is held as if somebody had; of
    /// another those that let nobody in.
    fn commit(&mut self, now: Instant, fate: &Fate, changes: Vec<(String, Vec<Change>)>) {
        let is_held = fate.refused.iter().any(|it| it.reason == Reason::Held);
        let is_lost = fate.delivered.is_empty() && !is_held;
        for (host, mut changes) in changes {
            changes.retain(|change| !is_lost || !change.grants());
            if let Some(host) = self.all.get_mut(&host) {
                host.state.commit(&changes, now);
            }
        }
    }

    /// When something is to be done about neighbours of routers.
    pub fn due(&self) -> Option<Instant> {
        self.all.values().filter_map(|it| it.state.neighbours_due(usize::MAX)).min()
    }

    /// Has routers ask their neighbours, and what was held go on.
    pub fn attend(&mut self, now: Instant) -> Vec<Fate> {
        let names: Vec<String> = self.all.keys().cloned().collect();
        let mut fates = Vec::new();
        for name in names {
            // No question is cut into several.
            let due = self.all.get_mut(&name);
            let due = due.map(|it| it.state.take_neighbours_due(now, Room::ALL, |_| 1));
            for due in due.into_iter().flatten() {
                // What a router held that has left goes on at its new host, which was handed it.
                let Some(made) = self.do_due(now, &name, &due) else { continue };
                self.commit(now, &made.fate, made.changes);
                fates.push(made.fate);
            }
        }
        fates
    }

    fn do_due(&self, now: Instant, here: &str, due: &Due) -> Option<Made> {
        let mut made = Made::default();
        let Host { nets, state } = self.all.get(here)?;
        match due {
            Due::Ask { neighbour, to, .. } => {
                let (domain, net) = nets.iter().find(|(_, net)| net.resumes(&neighbour.0))?;
                for onward in net.ask(neighbour, *to, 0..usize::MAX) {
                    self.arrive(now, here, domain, &onward, &mut made);
                }
            }
            Due::GoOn(held) => {
                let (domain, net) = nets.iter().find(|(_, net)| net.resumes(&held.onward.to))?;
                let sent = net.resume(state, now, &held.onward);
                self.follow(now, here, domain, sent, &mut made);
                for told in mem::take(&mut made.told) {
                    if let Some(answer) = net.answer(&held.onward, told) {
                        self.arrive(now, here, domain, &answer, &mut made);
                    }
                }
            }
        }
        Some(made)
    }

    /// Goes where a frame goes on to.
    fn follow(&self, now: Instant, here: &str, domain: &Identity, sent: Sent, made: &mut Made) {
        let Some(net) = self.all.get(here).and_then(|it| it.nets.get(domain)) else { return };
        let Sent { onward, answers, told, refused, trace, changes, .. } = sent;
        made.told.extend(told);
        made.fate.answers.extend(answers.into_iter().map(|it| got(here, net, it)));
        made.fate.refused.extend(refused);
        made.fate.trace.extend(trace);
        made.changes.push((here.to_owned(), changes));
        for onward in onward {
            self.arrive(now, here, domain, &onward, made);
        }
    }

    fn arrive(
        &self,
        now: Instant,
        here: &str,
        domain: &Identity,
        onward: &Onward,
        made: &mut Made,
    ) {
        let Some(place) = self.places.get(&onward.to) else { return };
        let there = place.host.as_deref().unwrap_or(here);
        let Some(host) = self.all.get(there) else { return };
        let Some(net) = host.nets.get(domain) else { return };
        if onward.is_to_router() {
            let mut sent = net.resume(&host.state, now, onward);
            // What says where a neighbour is has been answered where it came.
            sent.refused.retain(|it| it.reason != Reason::Answered);
            return self.follow(now, there, domain, sent, made);
        }
        let received = net.receive(&host.state, now, onward);
        made.fate.trace.extend(received.trace);
        made.changes.push((there.to_owned(), received.changes));
        match received.fate {
            Ok(copy) => made.fate.delivered.push(got(there, net, copy)),
            Err(refusal) => {
                made.told.extend((refusal.reason == Reason::Rejected).then_some(Told::Rejected));
                made.fate.refused.push(refusal);
            }
        }
    }

    /// Forgets all that is over. Whether that is done.
    pub fn expire(&mut self, now: Instant) -> bool {
        self.now = now;
        let all = self.all.values_mut().map(|host| host.state.expire(now, u32::MAX));
        all.fold(true, |all, is_done| all & is_done)
    }

    /// A port's connections: their first packets' ends, and how far each is.
    pub fn connections(&self, port: &Identity, now: Instant) -> Vec<(Tuple, Phase)> {
        let host = self.host_of(port).and_then(|host| self.all.get(host));
        host.into_iter().flat_map(|host| host.state.connections(port, now)).collect()
    }
}

fn got(host: &str, net: &Net, copy: Copy) -> Got {
    Got { host: host.to_owned(), port: net.name(copy.port).clone(), frame: copy.frame }
}
