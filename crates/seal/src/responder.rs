//! The end with the higher address: it answers handshakes.
//!
//! ```text
//!              challenge, fresh number ◀── KNOCK
//!   at rest ── NOISE1 with that number ──▶ heard ── its turn: Diffie-Hellman ──▶ answered ─┐
//!     ▲                                                  NOISE2 ──▶                        │
//!     └────────────────────────── a packet sealed by the new keys ─────────────────────────┘
//! ```

use std::collections::VecDeque;

use units::{Instant, Span};

use crate::config::Config;
use crate::counters::Refusal;
use crate::crypto::random;
use crate::handshake::{message, prologue, signed};
use crate::keys::{Fingerprint, Key};
use crate::noise::{self, Heard};
use crate::pace::Pace;
use crate::packet::{Control, Message, NoiseMessage, Step};
use crate::timer::Timer;
use crate::traffic::Traffic;

/// The least interval between two challenges that answer what anybody may have sent.
const PROMPT_INTERVAL: Span = Span::from_millis(10);

/// How many answers to KNOCKs may wait. Replayed ones may push each other out, and ours: it is sent
/// again.
const MOST_ANSWERS: usize = 8;

/// The state of the end that answers handshakes.
pub struct Responder {
    /// Our number in the next challenges.
    nonce: u64,
    answers: VecDeque<Answer>,
    /// When a challenge is due that answers no KNOCK, but asks for one.
    prompt_at: Option<Instant>,
    prompted_at: Option<Instant>,
    /// Somebody waits for keys: the initiator is asked for them.
    wanted: Option<Timer>,
    pending: Option<Pending>,
}

/// A challenge that answers a KNOCK.
struct Answer {
    nonce: u64,
    psk: Fingerprint,
    /// The keys that the initiator asks about, if we have them.
    key: u32,
}

/// A handshake whose keys the initiator has not used yet.
struct Pending {
    nonces: [u64; 2],
    psk: Fingerprint,
    state: State,
}

enum State {
    Heard {
        noise: Option<Box<Heard>>,
        /// When it is our turn for Diffie-Hellman.
        turn: Option<Instant>,
    },
    Answered {
        traffic: Box<Traffic>,
        noise2: NoiseMessage,
        /// NOISE2 is to be sent, again.
        is_due: bool,
    },
}

impl Responder {
    /// Nothing has happened.
    pub fn new() -> Self {
        Self {
            nonce: random(),
            answers: VecDeque::new(),
            prompt_at: None,
            prompted_at: None,
            wanted: None,
            pending: None,
        }
    }

    /// Whether a handshake is under way, or asked for.
    pub fn is_busy(&self) -> bool {
        self.wanted.is_some() || self.pending.is_some()
    }

    /// Somebody waits for keys.
    pub fn want(&mut self, now: Instant) {
        self.wanted.get_or_insert_with(|| Timer::new(now));
    }

    /// Nobody waits any longer.
    pub fn rest(&mut self) {
        self.wanted = None;
    }

    /// Forgets handshakes by keys that are not there any more.
    pub fn keep(&mut self, config: &Config) {
        self.pending = self.pending.take().filter(|it| config.keys.find(it.psk).is_some());
    }

    /// Somebody, who may be anyone, sent what we cannot read: asks the initiator to begin.
    pub fn prompt(&mut self, now: Instant) {
        let at = self.prompted_at.map_or(now, |at| (at + PROMPT_INTERVAL).max(now));
        self.prompt_at.get_or_insert(at);
    }

    /// KNOCK, which `psk` has authenticated. `ours` identifies our keys, if we have any.
    pub fn knock(&mut self, message: &Message, psk: &Key, ours: Option<u32>) {
        let pending = self.pending_id();
        let is_known = message.key != 0 && [ours, pending].contains(&Some(message.key));
        let key = if is_known { message.key } else { 0 };
        if self.answers.len() == MOST_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back(Answer { nonce: message.initiator, psk: psk.fingerprint(), key });
    }

    /// NOISE1, which `psk` has authenticated.
    pub fn noise1(
        &mut self,
        config: &Config,
        message: &Message,
        psk: &Key,
        ours: Option<u32>,
    ) -> Result<(), Refusal> {
        let nonces = [message.initiator, message.responder];
        if let Some(pending) = self.pending.as_mut().filter(|pending| pending.nonces == nonces) {
            if let State::Answered { is_due, .. } = &mut pending.state {
                *is_due = true;
            }
            return Ok(());
        }
        if message.responder != self.nonce {
            self.knock(message, psk, ours);
            return Err(Refusal::Stale);
        }
        let heard = noise::hear(psk.noise(), &prologue(config, nonces), &message.noise);
        let noise = Some(Box::new(heard.ok_or(Refusal::BadTag)?));
        // The number is used up: no replay of this message is heard again.
        self.nonce = random();
        // Who begins again while it waits keeps its turn.
        let turn = match self.pending.take().map(|pending| pending.state) {
            Some(State::Heard { turn, .. }) => turn,
            Some(State::Answered { .. }) | None => None,
        };
        let state = State::Heard { noise, turn };
        self.pending = Some(Pending { nonces, psk: psk.fingerprint(), state });
        Ok(())
    }

    fn pending_id(&self) -> Option<u32> {
        match &self.pending.as_ref()?.state {
            State::Answered { traffic, .. } => Some(traffic.id),
            State::Heard { .. } => None,
        }
    }

    /// The new keys, if these are theirs: the first packet may have come.
    pub fn traffic(&mut self, id: u32) -> Option<&mut Traffic> {
        match &mut self.pending.as_mut()?.state {
            State::Answered { traffic, .. } if traffic.id == id => Some(traffic),
            _ => None,
        }
    }

    /// Takes the new keys: the initiator uses them.
    pub fn take(&mut self) -> Option<Box<Traffic>> {
        match self.pending.take()?.state {
            State::Answered { traffic, .. } => Some(traffic),
            State::Heard { .. } => None,
        }
    }

    /// When [`poll`](Self::poll) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let answer = (!self.answers.is_empty()).then_some(Instant::ZERO);
        let pending = self.pending.as_ref().and_then(|pending| match &pending.state {
            State::Heard { turn, .. } => Some(turn.unwrap_or(Instant::ZERO)),
            State::Answered { is_due, .. } => is_due.then_some(Instant::ZERO),
        });
        let wanted = self.wanted.map(|timer| timer.deadline());
        [answer, pending, wanted, self.prompt_at].into_iter().flatten().min()
    }

    /// The message to send now. `taken` are the identifiers of keys that live.
    pub fn poll(
        &mut self,
        now: Instant,
        config: &Config,
        pace: &mut Pace,
        taken: [Option<u32>; 2],
    ) -> Option<Control> {
        if self.wanted.as_mut().is_some_and(|timer| timer.is_due(now)) {
            match self.pending.as_mut().map(|pending| &mut pending.state) {
                Some(State::Answered { is_due, .. }) => *is_due = true,
                Some(State::Heard { .. }) => {}
                None => self.prompt_at = Some(now),
            }
        }
        while let Some(Answer { nonce, psk, key }) = self.answers.pop_front() {
            if let Some(psk) = config.keys.find(psk) {
                return Some(self.challenge(config, psk, nonce, key));
            }
        }
        if self.prompt_at.is_some_and(|at| at <= now) {
            (self.prompt_at, self.prompted_at) = (None, Some(now));
            return Some(self.challenge(config, config.keys.turn(0), 0, 0));
        }
        self.answer(now, config, pace, taken)
    }

    fn challenge(&self, config: &Config, psk: &Key, nonce: u64, key: u32) -> Control {
        signed(config, psk, &message(config, Step::Challenge, [nonce, self.nonce], key))
    }

    /// Does Diffie-Hellman if it is its turn, and sends NOISE2.
    fn answer(
        &mut self,
        now: Instant,
        config: &Config,
        pace: &mut Pace,
        taken: [Option<u32>; 2],
    ) -> Option<Control> {
        let pending = self.pending.as_mut()?;
        let psk = config.keys.find(pending.psk)?;
        if let State::Heard { noise, turn } = &mut pending.state {
            if now < *turn.get_or_insert_with(|| pace.turn(now)) {
                return None;
            }
            let answered = noise.take().and_then(|noise| noise.answer());
            let answered = answered.filter(|(outcome, _)| !is_taken(outcome.id, taken));
            let Some((outcome, noise2)) = answered else {
                // The initiator repeats NOISE1, and is challenged anew.
                self.pending = None;
                return None;
            };
            let traffic = Traffic::new(now, &outcome, pending.psk, config.mode, false);
            pending.state = State::Answered { traffic: Box::new(traffic), noise2, is_due: true };
        }
        match &mut pending.state {
            State::Answered { traffic, noise2, is_due: is_due @ true } => {
                *is_due = false;
                let message = message(config, Step::Noise2, pending.nonces, traffic.id);
                Some(signed(config, psk, &Message { noise: *noise2, ..message }))
            }
            _ => None,
        }
    }
}

/// Whether new keys cannot have this identifier: living keys have it, or it says that there are
/// none.
pub fn is_taken(id: u32, taken: [Option<u32>; 2]) -> bool {
    id == 0 || taken.contains(&Some(id))
}
