//! What machines do: workloads, and what becomes of their queries and flows.

mod context;
mod counted;
mod flows;
mod markov;
mod queries;
mod rounds;
mod steady;
mod streams;

use units::{Rng, hash};

use self::context::{Common, Place};
use crate::clock::{Event, Maker};
use crate::events::EventList;
use crate::graph::Graph;
use crate::host::Hosts;
use crate::scenario::{Scenario, Workload, WorkloadKind};
use crate::stack::Heard;
use crate::time::Time;

pub(crate) use self::context::{Context, Lines};

/// A workload at work.
#[derive(Debug)]
pub(crate) struct Work {
    common: Common,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Queries(queries::Queries),
    Rounds(rounds::Rounds),
    Flows(flows::Flows),
    Steady(steady::Steady),
    Streams(streams::Streams),
    Markov(markov::Markov),
}

impl Work {
    /// The `number`-th workload of a scenario that was checked.
    pub(crate) fn new(
        scenario: &Scenario,
        graph: &Graph,
        hosts: &Hosts,
        workload: &Workload,
        number: u16,
        lane: u8,
    ) -> Self {
        // Every workload has randomness of its own: what one draws does not depend on the others.
        let seed = scenario.run.seed ^ hash::fibonacci(u64::from(number) + 1);
        let mut common = Common {
            number,
            maker: Maker(graph.ports.len() as u32 + u32::from(number)),
            lane,
            start: workload.start.into(),
            stop: workload.stop.map_or(Time::NEVER, Time::from),
            rng: Rng::new(seed),
            stack_delay: scenario.virtual_network.stack_delay.into(),
        };
        let place = Place { scenario, graph, hosts };
        let kind = match &workload.kind {
            WorkloadKind::PartitionAggregate(it) => {
                Kind::Queries(queries::Queries::new(&place, it))
            }
            WorkloadKind::Incast(it) => Kind::Rounds(rounds::Rounds::incast(&place, it)),
            WorkloadKind::AllToAll(it) => Kind::Rounds(rounds::Rounds::all_to_all(&place, it)),
            WorkloadKind::Flows(it) => Kind::Flows(flows::Flows::new(&place, it)),
            WorkloadKind::Permutation(it) => {
                let pairs = steady::pairs(&place, it, &mut common.rng.clone());
                match it.bytes {
                    Some(bytes) => {
                        Kind::Steady(steady::Steady::new(pairs, it.transport, bytes.0, &place))
                    }
                    None => Kind::Streams(streams::Streams::new(pairs, it.transport, &place)),
                }
            }
            WorkloadKind::Stream(it) => Kind::Streams(streams::Streams::of(&place, it)),
            WorkloadKind::Markov(it) => {
                Kind::Markov(markov::Markov::new(&place, it, &mut common.rng))
            }
        };
        Self { common, kind }
    }

    /// Begins.
    pub(crate) fn start<L: EventList<Event>>(&mut self, with: &mut Context<'_, L>) {
        match &mut self.kind {
            Kind::Queries(it) => it.start(&mut self.common, with),
            Kind::Rounds(it) => it.start(&mut self.common, with),
            Kind::Flows(it) => it.start(&mut self.common, with),
            Kind::Steady(it) => it.start(&mut self.common, with),
            Kind::Streams(it) => it.start(&mut self.common, with),
            Kind::Markov(it) => it.start(&mut self.common, with),
        }
    }

    /// A time has come that it asked for.
    pub(crate) fn go_on<L: EventList<Event>>(&mut self, with: &mut Context<'_, L>, what: u32) {
        match &mut self.kind {
            Kind::Queries(it) => it.go_on(&mut self.common, with, what),
            Kind::Rounds(it) => it.go_on(&mut self.common, with),
            Kind::Flows(it) => it.go_on(&mut self.common, with, what),
            Kind::Steady(it) => it.go_on(&mut self.common, with, what),
            Kind::Streams(it) => it.go_on(&mut self.common, with, what),
            Kind::Markov(it) => it.go_on(&mut self.common, with, what),
        }
    }

    /// A message has arrived.
    pub(crate) fn hear<L: EventList<Event>>(&mut self, with: &mut Context<'_, L>, heard: Heard) {
        match &mut self.kind {
            Kind::Queries(it) => it.hear(&mut self.common, with, heard),
            Kind::Rounds(it) => it.hear(&mut self.common, with),
            Kind::Flows(it) => it.hear(&mut self.common, with, heard),
            Kind::Steady(it) => it.hear(&mut self.common, with, heard),
            Kind::Streams(it) => it.hear(&mut self.common, with, heard),
            Kind::Markov(_) => unreachable!("a source's flow has no end"),
        }
    }

    /// The run ends: tells what has no end of its own.
    pub(crate) fn end<L>(&mut self, with: &mut Context<'_, L>, now: Time) {
        match &mut self.kind {
            Kind::Streams(it) => it.tell(&self.common, with, now),
            Kind::Markov(it) => it.end(&self.common, with, now),
            Kind::Queries(_) | Kind::Rounds(_) | Kind::Flows(_) | Kind::Steady(_) => {}
        }
    }
}

impl Work {
    /// Queries and flows that were begun and are not complete.
    pub(crate) fn unfinished(&self) -> u64 {
        match &self.kind {
            Kind::Queries(it) => it.unfinished(),
            Kind::Rounds(it) => it.unfinished(),
            Kind::Flows(it) => it.unfinished(),
            Kind::Steady(it) => it.unfinished(),
            Kind::Streams(_) | Kind::Markov(_) => 0,
        }
    }
}
