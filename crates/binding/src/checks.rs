//! Checks of load balancers' backends, on their way to machines and other hosts, and what comes of
//! them.

use alloc::vec::Vec;

use logical::objects::Identity;
use lossless::PortId;
use units::Instant;

use crate::health::{Answer, Backend, BackendHealth, Due, HealthNews};
use crate::networks::Networks;
use crate::turn::for_others;
use crate::word::Word;

impl Networks {
    /// When a backend is to be checked, or a check has failed.
    pub const fn checks_due(&self) -> Option<Instant> {
        self.health.due
    }

    /// Sends the checks that are due, and has those fail that were not answered in time.
    pub fn check(&mut self, now: Instant) {
        for (backend, due) in self.health.due_by(now) {
            match due {
                Due::Check(port) => {
                    let frame = self.health.ask(now, &backend);
                    frame.into_iter().for_each(|frame| self.answers.push(port, frame));
                }
                Due::Failure => self.find_out(&backend, false),
                Due::Silence => {
                    let has_turned = self.health.fall_silent(&backend);
                    self.heed(has_turned);
                }
            }
        }
        self.health.look_ahead();
    }

    /// Whether a machine's frame answers a check: it is for nobody else then.
    pub(crate) fn hear_answer(&mut self, from: PortId, frame: &[u8]) -> bool {
        let Some((backend, Answer { is_yes, reset })) = self.health.answer(from, frame) else {
            return false;
        };
        reset.into_iter().for_each(|reset| self.answers.push(from, reset));
        self.find_out(&backend, is_yes);
        self.health.look_ahead();
        true
    }

    /// A check has succeeded or failed. The hosts are told that choose among the backends.
    fn find_out(&mut self, backend: &Backend, succeeds: bool) {
        let has_turned = self.health.note(backend, succeeds);
        self.heed(has_turned);
        let others = || self.far.choosers(&backend.0).next();
        let turn = self.turn.filter(|_| others().is_some());
        if let Some((turn, word)) = turn.zip(self.health.word(backend)) {
            let label = self.far.label(&backend.0);
            self.answers.push(turn, for_others(label, &word.written()));
        }
    }

    /// Another host says this of a load balancer's backend.
    pub(crate) fn hear_word(&mut self, now: Instant, balancer: &Identity, word: &[u8]) {
        let Some(word) = Word::read(word) else { return };
        let has_turned = self.health.hear(now, &(balancer.clone(), word.backend), word);
        self.heed(has_turned);
        self.health.look_ahead();
    }

    /// Has new connections go by what is known, if it is news.
    fn heed(&mut self, is_news: bool) {
        if is_news {
            self.state.set_down(self.health.down());
        }
    }

    /// The backends of load balancers that are checked, here or by other hosts.
    pub fn backends(&self) -> impl Iterator<Item = BackendHealth<'_>> {
        self.health.all()
    }

    /// How many checks were sent, and how many have failed.
    pub const fn checks(&self) -> (u64, u64) {
        (self.health.counts[0], self.health.counts[1])
    }

    /// Backends that have come up or gone down since this was asked last.
    pub fn take_health_news(&mut self) -> Vec<HealthNews> {
        self.health.news.drain(..).collect()
    }
}
