//! What a run finds out: a row for each query, flow and stream that counts.

use std::collections::VecDeque;

use crate::confidence::mean_error;
use crate::excess::Excess;
use crate::scenario::Run;
use crate::time::Time;

/// A query, or a round, that is complete.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Which of those that count it is, in the order in which they began.
    pub number: u64,
    /// Which workload's, by its place in the scenario.
    pub workload: u16,
    /// The machine that asked.
    pub at: u32,
    /// When it began.
    pub begun: Time,
    /// When its last answer had arrived.
    pub ended: Time,
}

/// A flow that has arrived; or what of a stream has.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Which workload's, by its place in the scenario.
    pub workload: u16,
    /// The machine that sent it.
    pub from: u32,
    /// The machine that it was for.
    pub to: u32,
    /// Its payload; of a stream, what arrived between `begun` and `ended`.
    pub bytes: u64,
    /// When it began; of a stream, when it began to count.
    pub begun: Time,
    /// When its last byte had arrived; of a stream, when it stopped or the run ended.
    pub ended: Time,
}

/// What a query that begins is given, and shows when it is complete: its number, if it counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ticket(Option<u64>);

/// The rows of a run, in the order in which they ended.
#[derive(Clone, Debug)]
pub struct Record {
    warmup: Time,
    /// How many queries are enough.
    wanted: u64,
    /// How well their mean has to be known to be enough, as a share of it.
    precision: Option<f64>,
    /// How many queries that count have to be complete, all that began before them too, until the
    /// mean is looked at again.
    look_at: u64,
    /// Whether it was known well enough when it was last looked at.
    was_precise: bool,
    /// Whether what there is was enough.
    enough: bool,
    /// The first queries that count, all of which are complete.
    settled: u64,
    /// Whether the queries that began behind them are.
    behind: VecDeque<bool>,
    queries: Vec<Query>,
    flows: Vec<Flow>,
    streams: Vec<Flow>,
    excess: Excess,
}

/// Queries of which a mean may be known well enough; less could be by chance.
const FIRST_LOOK: u64 = 500;

impl Record {
    /// A record of what a run wants to know.
    pub(crate) fn new(run: &Run) -> Self {
        Self {
            warmup: run.warmup.into(),
            wanted: run.queries.unwrap_or(u64::MAX),
            precision: run.precision,
            look_at: run.precision.map_or(u64::MAX, |_| FIRST_LOOK),
            was_precise: false,
            enough: false,
            settled: 0,
            behind: VecDeque::new(),
            queries: Vec::new(),
            flows: Vec::new(),
            streams: Vec::new(),
            excess: Excess::new(run.warmup.into()),
        }
    }

    /// A query begins.
    pub(crate) fn begin(&mut self, now: Time) -> Ticket {
        if now < self.warmup {
            return Ticket(None);
        }
        self.behind.push_back(false);
        Ticket(Some(self.settled + self.behind.len() as u64 - 1))
    }

    /// A query is complete.
    pub(crate) fn query(
        &mut self,
        ticket: Ticket,
        workload: u16,
        at: u32,
        [begun, ended]: [Time; 2],
    ) {
        let Some(number) = ticket.0 else { return };
        self.queries.push(Query { number, workload, at, begun, ended });
        self.behind[(number - self.settled) as usize] = true;
        while self.behind.front() == Some(&true) {
            self.behind.pop_front();
            self.settled += 1;
        }
    }

    /// Closes the record once the first queries that count are complete, and are as many as were
    /// wanted, or tell their mean as well as was wanted: whether they do. Those that began later
    /// count no more then: the quick of them are complete, and the slow are not.
    pub(crate) fn close_if_enough(&mut self) -> bool {
        self.enough =
            self.settled >= self.wanted || self.settled >= self.look_at && self.is_precise();
        if self.enough {
            let first = self.settled.min(self.wanted);
            self.queries.retain(|it| it.number < first);
        }
        self.enough
    }

    /// Whether queries were as many as was wanted, or their mean known as well; none if nothing was
    /// wanted.
    pub fn enough(&self) -> Option<bool> {
        (self.wanted < u64::MAX || self.precision.is_some()).then_some(self.enough)
    }

    /// Whether the mean is known well enough, and was when it was last looked at: once may be by
    /// chance.
    #[cold]
    fn is_precise(&mut self) -> bool {
        self.look_at = self.settled + self.settled / 10;
        let mut times = self.times();
        times.truncate(self.settled as usize);
        let mean = times.iter().map(|ns| *ns as f64).sum::<f64>() / times.len() as f64;
        let known = mean_error(&times)
            .zip(self.precision)
            .is_some_and(|(error, share)| error <= share * mean);
        std::mem::replace(&mut self.was_precise, known) && known
    }

    /// The completion times of queries that count in nanoseconds, in the order in which they began.
    pub(crate) fn times(&self) -> Vec<u64> {
        let mut queries: Vec<&Query> = self.queries.iter().collect();
        queries.sort_unstable_by_key(|it| it.number);
        queries.into_iter().map(|it| (it.ended - it.begun).as_nanos()).collect()
    }

    pub(crate) fn flow(&mut self, flow: Flow) {
        if flow.begun >= self.warmup {
            self.flows.push(flow);
        }
    }

    pub(crate) fn stream(&mut self, stream: Flow) {
        self.streams.push(stream);
    }

    /// What sources ask for, and what of it is too much.
    pub(crate) fn excess(&mut self) -> &mut Excess {
        &mut self.excess
    }

    /// What sources have asked for that go through states, if there are any.
    pub fn overload(&self) -> Option<Excess> {
        (self.excess.counted() > Time::ZERO).then_some(self.excess)
    }

    /// What begins before does not count.
    pub(crate) fn warmup(&self) -> Time {
        self.warmup
    }

    /// The queries and rounds that count.
    pub fn queries(&self) -> &[Query] {
        &self.queries
    }

    /// The flows that count.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// What streams have brought while it counted.
    pub fn streams(&self) -> &[Flow] {
        &self.streams
    }
}

#[cfg(test)]
mod tests {
    use units::Span;

    use super::*;

    fn us(us: u64) -> Time {
        Time::from_picos(1_000_000 * us)
    }

    #[test]
    fn the_first_queries_count_however_long_they_take() {
        let mut record = Record::new(&Run { queries: Some(2), ..Run::default() });
        let tickets: Vec<Ticket> = (0..3).map(|_| record.begin(us(1))).collect();
        for (ticket, ended) in [(tickets[2], 2), (tickets[1], 3)] {
            record.query(ticket, 0, 0, [us(1), us(ended)]);
            assert!(!record.close_if_enough(), "the first is on its way");
        }
        record.query(tickets[0], 0, 0, [us(1), us(9)]);
        assert!(record.close_if_enough());
        assert_eq!(
            record.times(),
            [8000, 2000],
            "those that began first, not those that ended first"
        );
    }

    #[test]
    fn queries_of_the_warm_up_do_not_count() {
        let mut record =
            Record::new(&Run { queries: Some(1), warmup: Span::from_micros(1), ..Run::default() });
        let early = record.begin(us(0));
        record.query(early, 0, 0, [us(0), us(5)]);
        assert!(!record.close_if_enough() && record.queries().is_empty());
        let counted = record.begin(us(1));
        record.query(counted, 0, 0, [us(1), us(5)]);
        assert!(record.close_if_enough());
    }

    #[test]
    fn a_mean_is_enough_once_it_is_known_well() {
        let enough = |precision, spread: u64| {
            let mut record = Record::new(&Run { precision: Some(precision), ..Run::default() });
            (1..=5000).find(|n| {
                let ticket = record.begin(us(1));
                // The golden ratio's multiples are spread evenly, and no batch is like its
                // neighbour.
                let more = (n * 0x9e37_79b9) % (1 << 32) * spread / (1 << 32);
                record.query(ticket, 0, 0, [us(1), us(101 + more)]);
                record.close_if_enough()
            })
        };
        assert_eq!(enough(0.05, 0), Some(FIRST_LOOK + FIRST_LOOK / 10), "they are all alike");
        let [well, better] = [0.002, 0.001].map(|precision| enough(precision, 100).unwrap());
        assert!(FIRST_LOOK < well && well < better && better < 5000, "{well}, {better}");
        assert!(enough(1e-9, 100).is_none());
    }
}
