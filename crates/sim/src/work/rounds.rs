//! Rounds that are complete when every message has arrived: incast and all-to-all.

use crate::clock::Event;
use crate::events::EventList;
use crate::record::Ticket;
use crate::scenario::{AllToAll, Incast};
use crate::time::Time;

use super::context::{Common, Context, Place};
use super::queries::choose;

#[derive(Debug)]
pub(super) struct Rounds {
    /// Who sends to whom in a round.
    pairs: Vec<(u32, u32)>,
    /// How many of them, drawn anew each time; all if absent.
    fan_in: Option<usize>,
    bytes: u64,
    left: u64,
    gap: Time,
    begun: Time,
    ticket: Ticket,
    missing: u32,
}

impl Rounds {
    pub(super) fn incast(place: &Place<'_>, it: &Incast) -> Self {
        let receiver = place.machines(&it.receiver)[0];
        let senders = place.machines(&it.senders).into_iter().filter(|sender| *sender != receiver);
        Self::new(
            senders.map(|sender| (sender, receiver)).collect(),
            it.bytes.0,
            it.rounds,
            it.gap.into(),
        )
        .with_fan_in(it.fan_in)
    }

    pub(super) fn all_to_all(place: &Place<'_>, it: &AllToAll) -> Self {
        let all = place.machines(&it.vms);
        let pairs = all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to)));
        Self::new(
            pairs.filter(|(from, to)| from != to).collect(),
            it.bytes.0,
            it.rounds,
            Time::ZERO,
        )
    }

    fn new(pairs: Vec<(u32, u32)>, bytes: u64, left: u64, gap: Time) -> Self {
        Self {
            pairs,
            fan_in: None,
            bytes,
            left,
            gap,
            begun: Time::ZERO,
            ticket: Ticket::default(),
            missing: 0,
        }
    }

    fn with_fan_in(self, fan_in: Option<u32>) -> Self {
        Self { fan_in: fan_in.map(|count| count as usize), ..self }
    }

    pub(super) fn start<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
    ) {
        if self.left > 0 {
            common.after(with, Time::ZERO, 0);
        }
    }

    pub(super) fn go_on<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
    ) {
        self.left -= 1;
        self.begun = with.clock.now();
        self.ticket = with.record.begin(self.begun);
        let chosen = choose(self.pairs.clone(), self.fan_in, common);
        self.missing = chosen.len() as u32;
        for (from, to) in chosen {
            let note = common.note(0, 0, from);
            common.tell(with, from, to, self.bytes, note);
        }
    }

    pub(super) fn hear<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
    ) {
        self.missing -= 1;
        if self.missing > 0 {
            return;
        }
        let at = self.pairs.first().map_or(0, |(_, to)| *to);
        with.record.query(self.ticket, common.number, at, [self.begun, with.clock.now()]);
        if self.left > 0 {
            common.after(with, self.gap, 0);
        }
    }

    /// Rounds that were begun and are not complete.
    pub(super) fn unfinished(&self) -> u64 {
        u64::from(self.missing > 0)
    }
}
