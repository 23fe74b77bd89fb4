//! Flows without end between given machines, and what of them has arrived while it counts.
//!
//! ```text
//!    start ───── warm-up's end ═══════════════════ stop, or the run's end
//!                               what arrives here
//!                               is told of
//! ```

use crate::clock::Event;
use crate::events::EventList;
use crate::record::Flow as Row;
use crate::scenario::Transport;
use crate::time::Time;

use super::context::{Common, Context};

/// What is to be done at a time, if it is nothing of the workload's own: begin to count, and tell
/// what was counted.
const COUNT: u32 = u32::MAX;
const TELL: u32 = u32::MAX - 1;

#[derive(Debug)]
pub(super) struct Counted {
    pub pairs: Vec<Pair>,
    transport: Transport,
    /// When counting begins.
    since: Time,
    is_told: bool,
}

#[derive(Debug)]
pub(super) struct Pair {
    pub from: u32,
    pub to: u32,
    /// The connection's side at `from`, or the flow of datagrams; none before the start.
    pub carrier: Option<u32>,
    /// What had arrived when counting began.
    before: u64,
}

impl Counted {
    pub(super) fn new(pairs: Vec<(u32, u32)>, transport: Transport) -> Self {
        let pair = |(from, to)| Pair { from, to, carrier: None, before: 0 };
        let pairs = pairs.into_iter().map(pair).collect();
        Self { pairs, transport, since: Time::ZERO, is_told: false }
    }

    /// Sees to it that it is counted and told.
    pub(super) fn start<L: EventList<Event>>(
        &mut self,
        common: &Common,
        with: &mut Context<'_, L>,
    ) {
        self.since = common.start.max(with.record.warmup());
        if self.since > common.start {
            common.after(with, self.since - common.start, COUNT);
        }
        if common.stop < Time::NEVER {
            common.after(with, common.stop - common.start, TELL);
        }
    }

    /// Does what is to be done at a time. Whether it was something of this.
    pub(super) fn go_on<L>(
        &mut self,
        common: &Common,
        with: &mut Context<'_, L>,
        what: u32,
    ) -> bool {
        match what {
            COUNT => {
                for place in 0..self.pairs.len() {
                    self.pairs[place].before = self.arrived(with, &self.pairs[place]);
                }
            }
            TELL => self.tell(common, with, common.stop),
            _ => return false,
        }
        true
    }

    /// Tells what has arrived until now, unless that was told.
    pub(super) fn tell<L>(&mut self, common: &Common, with: &mut Context<'_, L>, now: Time) {
        if std::mem::replace(&mut self.is_told, true) || now <= self.since {
            return;
        }
        for pair in &self.pairs {
            with.record.stream(Row {
                workload: common.number,
                from: pair.from,
                to: pair.to,
                bytes: self.arrived(with, pair) - pair.before,
                begun: self.since,
                ended: now,
            });
        }
    }

    /// Payload that has arrived so far.
    fn arrived<L>(&self, with: &Context<'_, L>, pair: &Pair) -> u64 {
        pair.carrier.map_or(0, |carrier| match self.transport {
            Transport::Tcp => with.stack.arrived(carrier),
            Transport::Udp => with.stack.poured(carrier),
        })
    }
}
