//! What goes with a port, or with a router that keeps flows, to another host.
//!
//! ```text
//! old host ── hand_over, loosened ──▶ take_over     it moves: the old host still has it
//!          ── hand_over ────────────▶ take_over     it has moved: the new host has it
//! ```
//!
//! Numbers and times are a host's own, so it all goes by names, and by how much time is left.
//! Taking over replaces what was taken over of the same place before: it may be done as often as
//! there is something new to tell, until the place is here.

use alloc::vec::Vec;

use conntrack::{Flags, Record, Stamp, Zone};
use logical::objects::{Direction, Identity};
use packet::Tuple;
use packet::fragments::Pieces;
use packet::groups::Listener;
use units::{Instant, Span};

use crate::change::FragmentOf;
use crate::neighbours::HandedNeighbours;
use crate::paths::Path;
use crate::rules::RuleName;
use crate::state::{Note, State, mark};

/// A connection of a port, and what is noted of it besides.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Handed {
    pub record: Record,
    pub opened: Direction,
    pub origin: Option<Identity>,
    pub rule: Option<RuleName>,
}

/// All that a host knows of a place's packets before.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Handover {
    pub(crate) connections: Vec<Handed>,
    /// Flows that are translated.
    pub(crate) flows: Vec<Record>,
    /// By which neighbours flows came, and for how long that is remembered.
    pub(crate) paths: Vec<(Tuple, Path, Span)>,
    /// What is known of packets in fragments each way, and for how long.
    pub(crate) fragments: Vec<(Direction, FragmentOf, (Pieces, Span))>,
    pub(crate) listener: Option<Listener>,
    /// Of a router: neighbours that nobody declares. Its host alone asks for them.
    pub(crate) neighbours: HandedNeighbours,
}

impl Handover {
    /// How many connections and flows there are.
    pub const fn len(&self) -> usize {
        self.connections.len() + self.flows.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same, while its packets go on passing the old host: TCP's windows are others by the time
    /// that the new host sees any, and neighbours are asked by the old one.
    #[must_use]
    pub fn loosened(mut self) -> Self {
        self.neighbours = HandedNeighbours::default();
        let records = self.connections.iter_mut().map(|it| &mut it.record);
        records.chain(&mut self.flows).for_each(|record| *record = record.loosened());
        self
    }
}

impl State {
    /// What another host needs to go on with a port, or a router.
    pub fn hand_over(&self, place: &Identity, now: Instant) -> Handover {
        let records = |zone: Option<Zone>| {
            let all = zone.into_iter().flat_map(|zone| self.table.connections(zone, None, now));
            all.filter_map(|it| Some((self.table.export(it.id, now)?, it.mark, it.stamp)))
        };
        let handed = |(record, mark, stamp): (Record, u32, Stamp)| {
            let Note { opened, origin, rule } = self.noted(mark, stamp);
            Handed { record, opened, origin: origin.cloned(), rule: rule.cloned() }
        };
        Handover {
            connections: records(self.zone(place)).map(handed).collect(),
            flows: records(self.translating(place)).map(|(record, ..)| record).collect(),
            paths: (self.paths.of(place).into_iter())
                .filter(|(.., until)| *until > now)
                .map(|(flow, path, until)| (flow, path, until.since(now)))
                .collect(),
            fragments: (self.fragments.of(place).into_iter())
                .filter(|(.., (_, until))| *until > now)
                .map(|((_, way), of, (pieces, until))| (way, of, (pieces, until.since(now))))
                .collect(),
            listener: self.listeners.get(place).cloned(),
            neighbours: self.neighbours.hand_over(place, now),
        }
    }

    /// Goes on with a place of another host, whose rows are [adopted](Self::adopt) here. Returns
    /// how many connections and flows find no room: their packets are as if they were the first.
    pub fn take_over(&mut self, place: &Identity, from: &Handover, now: Instant) -> usize {
        let mut lost = 0;
        let zones = [self.zone(place), self.translating(place)];
        for zone in zones.into_iter().flatten() {
            self.table.forget(zone, u32::MAX);
        }
        let [zone, translating] = zones;
        for Handed { record, opened, origin, rule } in &from.connections {
            let record = record.marked(self.mark_of(*opened, origin.as_ref()));
            let stamp = self.stamp_of(rule.as_ref());
            let made = zone.map(|it| self.table.import(it, &record, stamp, Flags::NONE, now));
            lost += usize::from(!matches!(made, Some(Ok(_))));
        }
        for record in &from.flows {
            let stamp = Stamp::default();
            let made = translating.map(|it| self.table.import(it, record, stamp, Flags::NONE, now));
            lost += usize::from(!matches!(made, Some(Ok(_))));
        }
        let paths = from.paths.iter().cloned().map(|(flow, path, left)| (flow, path, now + left));
        self.paths.replace(place, paths);
        self.fragments.retain(|(port, _)| port != place);
        for (way, of, (pieces, left)) in &from.fragments {
            self.fragments.note((place.clone(), *way), *of, (pieces.clone(), now + *left), now);
        }
        match &from.listener {
            Some(listener) => self.listeners.insert(place.clone(), listener.clone()),
            None => self.listeners.remove(place),
        };
        self.neighbours.take_over(place, &from.neighbours, now);
        lost
    }

    pub(crate) fn mark_of(&mut self, opened: Direction, origin: Option<&Identity>) -> u32 {
        match (opened, origin) {
            (Direction::FromPort, _) => mark::FROM_PORT,
            (Direction::ToPort, None) => mark::TO_PORT,
            (Direction::ToPort, Some(origin)) => mark::ORIGINS + self.origins.of(origin),
        }
    }

    pub(crate) fn stamp_of(&mut self, rule: Option<&RuleName>) -> Stamp {
        Stamp { generation: 0, rule: rule.map_or(0, |rule| 1 + self.rules.of(rule)) }
    }
}
