//! Partition-Aggregate: an aggregator asks workers, all answer at once, and the query is complete
//! with the last byte (zOVN §5.1, figure 6; the two-tier form, in which the aggregator asks the
//! workers directly).

use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use units::{Instant, Rng, Span};

/// What an aggregator asks for, over and over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryPlan {
    /// How many workers there are.
    pub workers: u32,
    /// How many of them each query asks: all of them, or as many drawn anew for each query.
    pub fan_out: u32,
    /// What each asked worker answers, in bytes.
    pub response_bytes: u64,
    /// How long the aggregator waits between a completed query and the next.
    pub think: Span,
    /// How many queries there are.
    pub queries: u64,
}

/// Why a plan cannot be followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// There would be nothing to wait for.
    #[error("a query needs at least one worker and one byte of response")]
    Nothing,
    /// More workers are asked than exist.
    #[error("a query cannot ask {fan_out} of {workers} workers: lower the fan-out")]
    FanOut {
        /// Workers asked by each query.
        fan_out: u32,
        /// Workers that exist.
        workers: u32,
    },
}

/// One query.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Query {
    /// Its number, from 0.
    pub id: u64,
    /// The workers it asks, in rising order, each once.
    pub workers: Vec<u32>,
    /// What each answers, in bytes.
    pub response_bytes: u64,
}

impl QueryPlan {
    /// Whether the plan can be followed.
    ///
    /// # Errors
    ///
    /// [`PlanError`] says what is missing.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.fan_out == 0 || self.response_bytes == 0 {
            return Err(PlanError::Nothing);
        }
        if self.fan_out > self.workers {
            return Err(PlanError::FanOut { fan_out: self.fan_out, workers: self.workers });
        }
        Ok(())
    }

    /// Query number `id`. `rng` decides whom it asks if it does not ask everybody.
    pub fn query(&self, id: u64, rng: &mut Rng) -> Query {
        // Selection sampling (Knuth 3.4.2 S): each worker is taken with the chance that is left for
        // it.
        let mut wanted = self.fan_out.min(self.workers);
        let mut workers = Vec::with_capacity(wanted as usize);
        for worker in 0..self.workers {
            let left = u64::from(self.workers - worker);
            if rng.below(left) < u64::from(wanted) {
                workers.push(worker);
                wanted -= 1;
            }
        }
        Query { id, workers, response_bytes: self.response_bytes }
    }
}

/// A query under way: what is still missing.
#[derive(Clone, Debug)]
pub struct Pending {
    issued: Instant,
    // By worker; 0 for one that is done or was not asked.
    missing: Vec<u64>,
    waiting_for: usize,
}

/// What an arrival meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrival {
    /// More is to come.
    Partial,
    /// This worker's response is whole; others are missing.
    Worker,
    /// The last byte: the query took this long (the flow completion time).
    Complete(Span),
    /// More bytes than this worker was asked for: not an answer to this query.
    Excess,
}

impl Pending {
    /// The query was sent at `now`.
    pub fn issue(query: &Query, now: Instant) -> Self {
        let most = query.workers.last().map_or(0, |last| *last as usize + 1);
        let mut missing = vec![0; most];
        for worker in &query.workers {
            missing[*worker as usize] = query.response_bytes;
        }
        Self { issued: now, missing, waiting_for: query.workers.len() }
    }

    /// `bytes` of `worker`'s response arrived at `now`.
    pub fn arrived(&mut self, worker: u32, bytes: u64, now: Instant) -> Arrival {
        let Some(missing) =
            self.missing.get_mut(worker as usize).filter(|missing| **missing >= bytes)
        else {
            return Arrival::Excess;
        };
        if bytes == 0 {
            return Arrival::Partial;
        }
        *missing -= bytes;
        if *missing > 0 {
            return Arrival::Partial;
        }
        self.waiting_for -= 1;
        if self.waiting_for > 0 {
            Arrival::Worker
        } else {
            Arrival::Complete(now.since(self.issued))
        }
    }

    /// Whether the last byte has arrived.
    pub fn is_complete(&self) -> bool {
        self.waiting_for == 0
    }

    /// What `worker` still owes, in bytes.
    pub fn missing(&self, worker: u32) -> u64 {
        self.missing.get(worker as usize).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    fn plan(workers: u32, fan_out: u32) -> QueryPlan {
        QueryPlan { workers, fan_out, response_bytes: 1000, think: Span::ZERO, queries: 1 }
    }

    proptest! {
        #[test]
        fn a_query_asks_distinct_workers_that_exist(workers in 1u32..50, part in 0.0f64..1.0, seed: u64) {
            let fan_out = 1 + (f64::from(workers - 1) * part) as u32;
            let query = plan(workers, fan_out).query(7, &mut Rng::new(seed));
            prop_assert_eq!(query.workers.len(), fan_out as usize);
            prop_assert!(query.workers.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(query.workers.iter().all(|worker| *worker < workers));
        }

        #[test]
        fn a_query_completes_with_its_last_byte_and_no_sooner(
            workers in 1u32..8,
            pieces in prop::collection::vec((0u32..8, 1u64..700), 1..200),
        ) {
            let query = plan(workers, workers).query(0, &mut Rng::new(1));
            let mut pending = Pending::issue(&query, Instant::from_nanos(100));
            let mut owed = u64::from(workers) * 1000;
            for (clock, (worker, bytes)) in (101u64..).zip(pieces) {
                let take = bytes.min(pending.missing(worker));
                if take == 0 {
                    continue;
                }
                owed -= take;
                let arrival = pending.arrived(worker, take, Instant::from_nanos(clock));
                prop_assert_eq!(arrival == Arrival::Complete(Span::from_nanos(clock - 100)), owed == 0);
                prop_assert_eq!(pending.is_complete(), owed == 0);
            }
        }
    }

    #[test]
    fn more_than_was_asked_for_is_told() {
        let query = Query { id: 0, workers: [1].into(), response_bytes: 10 };
        let mut pending = Pending::issue(&query, Instant::ZERO);
        assert_eq!(pending.arrived(1, 11, Instant::ZERO), Arrival::Excess);
        assert_eq!(pending.arrived(0, 1, Instant::ZERO), Arrival::Excess);
        assert_eq!(pending.arrived(9, 1, Instant::ZERO), Arrival::Excess);
        assert_eq!(
            pending.arrived(1, 10, Instant::from_nanos(5)),
            Arrival::Complete(Span::from_nanos(5))
        );
    }

    #[test]
    fn a_plan_that_asks_too_much_or_nothing_is_refused() {
        assert_eq!(plan(3, 4).check(), Err(PlanError::FanOut { fan_out: 4, workers: 3 }));
        assert_eq!(plan(0, 0).check(), Err(PlanError::Nothing));
        assert_eq!(plan(3, 3).check(), Ok(()));
    }
}
