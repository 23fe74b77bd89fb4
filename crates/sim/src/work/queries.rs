//! Partition-Aggregate: queries that fan out over two tiers or three, and are complete with the
//! last answer.

use traffic::Distribution;

use crate::clock::Event;
use crate::events::EventList;
use crate::record::Ticket;
use crate::scenario::PartitionAggregate;
use crate::stack::Heard;
use crate::time::Time;

use super::context::{Common, Context, Place, drawn, write};

/// A client's message to an aggregator.
const ASK: u16 = 0;
/// A high-level aggregator's to a mid-level one.
const REQUEST: u16 = 1;
/// Any aggregator's to a worker.
const WORK: u16 = 2;
/// A worker's to who asked it.
const RESULT: u16 = 3;
/// A mid-level aggregator's to the high-level one.
const REPLY: u16 = 4;

#[derive(Debug)]
pub(super) struct Queries {
    aggregators: Vec<u32>,
    /// Mid-level aggregators and workers of each group; without mid-level ones, one group of
    /// workers.
    groups: Vec<Group>,
    clients: Vec<u32>,
    fan_out: Option<usize>,
    ask: u64,
    request: u64,
    reply: u64,
    gaps: Distribution,
    closed: bool,
    persistent: bool,
    left: u64,
    active: Vec<Query>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Group {
    mids: Vec<u32>,
    workers: Vec<u32>,
}

/// A query on its way.
#[derive(Debug, Default)]
struct Query {
    aggregator: u32,
    begun: Time,
    ticket: Ticket,
    /// Answers that the aggregator waits for.
    missing: u32,
    branches: Vec<Branch>,
}

/// A mid-level aggregator's part in a query.
#[derive(Debug)]
struct Branch {
    mid: u32,
    group: usize,
    missing: u32,
}

impl Queries {
    pub(super) fn new(place: &Place<'_>, it: &PartitionAggregate) -> Self {
        let workers = place.groups(&it.workers);
        let groups = match &it.mids {
            Some(mids) => place
                .groups(mids)
                .into_iter()
                .map(|(group, mids)| {
                    let workers = workers.iter().find(|(other, _)| *other == group);
                    Group {
                        mids,
                        workers: workers.map_or_else(Vec::new, |(_, workers)| workers.clone()),
                    }
                })
                .collect(),
            None => {
                let all = workers.into_iter().flat_map(|(_, workers)| workers).collect();
                vec![Group { mids: Vec::new(), workers: all }]
            }
        };
        Self {
            aggregators: place.machines(&it.aggregators),
            groups,
            clients: place.clients(),
            fan_out: it.fan_out.map(|count| count as usize),
            ask: it.query.0,
            request: it.request.0,
            reply: it.reply.0,
            gaps: it.gaps(place.scenario).expect("a checked scenario's queries have gaps"),
            closed: it.closed,
            persistent: it.persistent,
            left: it.queries.unwrap_or(u64::MAX),
            active: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn start<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
    ) {
        let thinkers = if self.closed { self.aggregators.len() } else { 1 };
        for thinker in 0..thinkers as u32 {
            self.think(common, with, thinker);
        }
    }

    /// Draws the time of the next query; of one aggregator if it thinks of the next when its last
    /// is complete.
    fn think<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        thinker: u32,
    ) {
        if self.left > 0 {
            self.left -= 1;
            let gap = drawn(self.gaps.sample(&mut common.rng));
            common.after(with, gap, thinker);
        }
    }

    pub(super) fn go_on<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        thinker: u32,
    ) {
        let place = match self.closed {
            true => thinker as usize,
            false => {
                self.think(common, with, thinker);
                common.rng.below(self.aggregators.len() as u64) as usize
            }
        };
        let aggregator = self.aggregators[place];
        let number = self.free.pop().unwrap_or_else(|| {
            self.active.push(Query::default());
            self.active.len() as u32 - 1
        });
        let query = &mut self.active[number as usize];
        query.aggregator = aggregator;
        query.missing = 0;
        query.branches.clear();
        if self.clients.is_empty() {
            self.begin(common, with, number);
        } else {
            let client = self.clients[common.rng.below(self.clients.len() as u64) as usize];
            self.send(common, with, client, aggregator, self.ask, [ASK.into(), number, 0]);
        }
    }

    /// A message: its kind, its query and its branch.
    fn send<L: EventList<Event>>(
        &self,
        common: &Common,
        with: &mut Context<'_, L>,
        from: u32,
        to: u32,
        bytes: u64,
        [step, about, branch]: [u32; 3],
    ) {
        let note = common.note(step as u16, about, branch);
        if self.persistent {
            common.tell(with, from, to, bytes, note);
        } else {
            common.tell_anew(with, from, to, bytes, note);
        }
    }

    /// A query has come to its aggregator.
    fn begin<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        number: u32,
    ) {
        let aggregator = self.active[number as usize].aggregator;
        let query = &mut self.active[number as usize];
        query.begun = with.clock.now();
        query.ticket = with.record.begin(query.begun);
        if self.groups[0].mids.is_empty() {
            let all = &self.groups[0].workers;
            let others: Vec<u32> =
                all.iter().copied().filter(|worker| *worker != aggregator).collect();
            let chosen = choose(others, self.fan_out, common);
            self.active[number as usize].missing = chosen.len() as u32;
            for worker in chosen {
                self.send(common, with, aggregator, worker, self.request, [WORK.into(), number, 0]);
            }
        } else {
            let chosen = choose((0..self.groups.len()).collect(), self.fan_out, common);
            for group in chosen {
                let mids = &self.groups[group].mids;
                let mut mid = mids[common.rng.below(mids.len() as u64) as usize];
                if mid == aggregator {
                    let Some(other) = mids.iter().find(|other| **other != aggregator) else {
                        continue;
                    };
                    mid = *other;
                }
                let query = &mut self.active[number as usize];
                let branch = query.branches.len() as u32;
                query.branches.push(Branch { mid, group, missing: 0 });
                query.missing += 1;
                self.send(
                    common,
                    with,
                    aggregator,
                    mid,
                    self.request,
                    [REQUEST.into(), number, branch],
                );
            }
        }
        self.check(common, with, number);
    }

    pub(super) fn hear<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        Heard { note, at, end }: Heard,
    ) {
        let (number, branch) = (note.about, note.from);
        let query = &mut self.active[number as usize];
        let aggregator = query.aggregator;
        match note.step {
            ASK => self.begin(common, with, number),
            REQUEST => {
                let it = &mut query.branches[branch as usize];
                let workers: Vec<u32> = self.groups[it.group]
                    .workers
                    .iter()
                    .copied()
                    .filter(|worker| *worker != at)
                    .collect();
                it.missing = workers.len() as u32;
                for &worker in &workers {
                    self.send(
                        common,
                        with,
                        at,
                        worker,
                        self.request,
                        [WORK.into(), number, branch],
                    );
                }
                if workers.is_empty() {
                    self.send(
                        common,
                        with,
                        at,
                        aggregator,
                        self.reply,
                        [REPLY.into(), number, branch],
                    );
                }
            }
            WORK => match end {
                // By the connection that has brought the question: nobody need look for that.
                Some(end) if self.persistent => {
                    write(with, end, self.reply, common.note(RESULT, number, branch));
                }
                _ => {
                    let asker = query.branches.get(branch as usize).map_or(aggregator, |it| it.mid);
                    self.send(common, with, at, asker, self.reply, [RESULT.into(), number, branch]);
                }
            },
            RESULT => match query.branches.get_mut(branch as usize) {
                Some(it) => {
                    it.missing -= 1;
                    if it.missing == 0 {
                        self.send(
                            common,
                            with,
                            at,
                            aggregator,
                            self.reply,
                            [REPLY.into(), number, branch],
                        );
                    }
                }
                None => self.answered(common, with, number),
            },
            _ => self.answered(common, with, number),
        }
    }

    fn answered<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        number: u32,
    ) {
        self.active[number as usize].missing -= 1;
        self.check(common, with, number);
    }

    /// A query that waits for nothing more is complete.
    fn check<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        number: u32,
    ) {
        let Query { aggregator, begun, ticket, missing, .. } = self.active[number as usize];
        if missing > 0 {
            return;
        }
        with.record.query(ticket, common.number, aggregator, [begun, with.clock.now()]);
        self.free.push(number);
        if self.closed {
            let thinker =
                self.aggregators.iter().position(|other| *other == aggregator).unwrap_or(0);
            self.think(common, with, thinker as u32);
        }
    }

    /// Queries that were begun and are not complete.
    pub(super) fn unfinished(&self) -> u64 {
        (self.active.len() - self.free.len()) as u64
    }
}

/// So many of them, drawn at random (Fisher and Yates); all if not said.
pub(super) fn choose<T>(mut all: Vec<T>, count: Option<usize>, common: &mut Common) -> Vec<T> {
    let Some(count) = count.filter(|count| *count < all.len()) else { return all };
    for place in 0..count {
        let other = place + common.rng.below((all.len() - place) as u64) as usize;
        all.swap(place, other);
    }
    all.truncate(count);
    all
}
