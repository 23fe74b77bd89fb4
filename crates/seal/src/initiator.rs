//! The end with the lower address: it begins handshakes.
//!
//! ```text
//!            keys wanted, or doubted
//!   at rest ────────────────────────▶ knocking ── challenge ──▶ challenged ── its turn ──▶ begun
//!     ▲  ▲                               │                          ▲   Diffie-Hellman      │ │
//!     │  └───── doubted, and the ────────┘                          └──── challenge ────────┘ │
//!     │         peer has our keys                                                             │
//!     └──────────────────────────────── NOISE2: new keys ─────────────────────────────────────┘
//! ```

use units::{Instant, Span};

use crate::config::Config;
use crate::counters::Refusal;
use crate::crypto::random;
use crate::handshake::{message, prologue, signed};
use crate::keys::{Fingerprint, Key};
use crate::noise::{self, Begun, Outcome};
use crate::pace::Pace;
use crate::packet::{Control, Message, NoiseMessage, Step};
use crate::timer::Timer;

/// The least interval between two questions whether the peer has our keys.
const DOUBT_INTERVAL: Span = Span::from_millis(100);

/// After so long without NOISE2 the handshake begins again: the peer may have lost a key.
const PATIENCE: Span = Span::from_secs(3);

/// The state of the end that begins handshakes.
#[derive(Default)]
pub struct Initiator {
    attempt: Option<Attempt>,
    /// Our number in the handshake that gave keys last.
    done: Option<u64>,
    doubted_at: Option<Instant>,
}

enum Attempt {
    Knocking {
        nonce: u64,
        /// The peer is asked whether it has our keys. If it has, no others are needed.
        doubts: bool,
        knocks: u32,
        timer: Timer,
    },
    Challenged {
        nonces: [u64; 2],
        psk: Fingerprint,
        /// When it is our turn for Diffie-Hellman.
        turn: Option<Instant>,
    },
    Begun {
        nonces: [u64; 2],
        psk: Fingerprint,
        noise: Box<Begun>,
        noise1: NoiseMessage,
        timer: Timer,
        since: Instant,
    },
}

impl Attempt {
    fn nonce(&self) -> u64 {
        match self {
            Self::Knocking { nonce, .. } => *nonce,
            Self::Challenged { nonces, .. } | Self::Begun { nonces, .. } => nonces[0],
        }
    }
}

/// What NOISE2 brought.
pub enum Noise2 {
    /// New keys.
    Done(Outcome, Fingerprint),
    /// The peer has not noticed yet that we have them.
    Again,
}

impl Initiator {
    /// Whether a handshake is under way.
    pub fn is_busy(&self) -> bool {
        self.attempt.is_some()
    }

    /// New keys are needed.
    pub fn begin(&mut self, now: Instant) {
        match &mut self.attempt {
            None => self.attempt = Some(knocking(now, false)),
            Some(Attempt::Knocking { doubts, .. }) => *doubts = false,
            Some(Attempt::Challenged { .. } | Attempt::Begun { .. }) => {}
        }
    }

    /// Asks the peer whether it has our keys, unless it was asked just now.
    pub fn doubt(&mut self, now: Instant) {
        let is_early = self.doubted_at.is_some_and(|at| now < at + DOUBT_INTERVAL);
        if self.attempt.is_none() && !is_early {
            self.attempt = Some(knocking(now, true));
            self.doubted_at = Some(now);
        }
    }

    /// Gives the handshake up: the keys that it goes by have changed, or nobody needs it.
    pub fn rest(&mut self) {
        self.attempt = None;
    }

    /// CHALLENGE, which `psk` has authenticated. `ours` identifies our keys, if we have any.
    /// Whether the peer has been found to have them.
    pub fn challenge(
        &mut self,
        message: &Message,
        psk: &Key,
        ours: Option<u32>,
    ) -> Result<bool, Refusal> {
        let attempt = self.attempt.as_ref().filter(|it| it.nonce() == message.initiator);
        let attempt = attempt.ok_or(Refusal::Stale)?;
        match attempt {
            Attempt::Knocking { doubts: true, .. } if ours == Some(message.key) => {
                self.attempt = None;
                return Ok(true);
            }
            Attempt::Challenged { nonces, .. } | Attempt::Begun { nonces, .. }
                if nonces[1] == message.responder =>
            {
                return Err(Refusal::Stale);
            }
            _ => {}
        }
        let nonces = [message.initiator, message.responder];
        self.attempt = Some(Attempt::Challenged { nonces, psk: psk.fingerprint(), turn: None });
        Ok(false)
    }

    /// NOISE2, authenticated.
    pub fn noise2(&mut self, message: &Message) -> Result<Noise2, Refusal> {
        let got = [message.initiator, message.responder];
        match &mut self.attempt {
            Some(Attempt::Begun { nonces, psk, noise, .. }) if *nonces == got => {
                let psk = *psk;
                let outcome = noise.finish(&message.noise).ok_or(Refusal::BadTag)?;
                self.attempt = None;
                self.done = Some(message.initiator);
                Ok(Noise2::Done(outcome, psk))
            }
            _ if self.done == Some(message.initiator) => Ok(Noise2::Again),
            _ => Err(Refusal::Stale),
        }
    }

    /// When [`poll`](Self::poll) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        Some(match self.attempt.as_ref()? {
            Attempt::Knocking { timer, .. } | Attempt::Begun { timer, .. } => timer.deadline(),
            Attempt::Challenged { turn, .. } => turn.unwrap_or(Instant::ZERO),
        })
    }

    /// The message to send now. `ours` identifies our keys, if we have any.
    pub fn poll(
        &mut self,
        now: Instant,
        config: &Config,
        pace: &mut Pace,
        ours: Option<u32>,
    ) -> Option<Control> {
        match &mut self.attempt {
            None => return None,
            Some(Attempt::Challenged { nonces, psk, turn }) => {
                if now < *turn.get_or_insert_with(|| pace.turn(now)) {
                    return None;
                }
                let (nonces, psk) = (*nonces, *psk);
                let begun = config
                    .keys
                    .find(psk)
                    .and_then(|psk| noise::begin(psk.noise(), &prologue(config, nonces)));
                self.attempt = Some(match begun {
                    Some((noise, noise1)) => {
                        let (noise, timer, since) = (Box::new(noise), Timer::new(now), now);
                        Attempt::Begun { nonces, psk, noise, noise1, timer, since }
                    }
                    None => knocking(now, false),
                });
            }
            Some(Attempt::Begun { since, .. }) if now.since(*since) >= PATIENCE => {
                self.attempt = Some(knocking(now, false));
            }
            Some(Attempt::Knocking { .. } | Attempt::Begun { .. }) => {}
        }
        let key = ours.unwrap_or(0);
        match self.attempt.as_mut()? {
            Attempt::Knocking { nonce, knocks, timer, .. } => timer.is_due(now).then(|| {
                let psk = config.keys.turn(*knocks);
                *knocks += 1;
                signed(config, psk, &message(config, Step::Knock, [*nonce, 0], key))
            }),
            Attempt::Begun { nonces, psk, noise1, timer, .. } => {
                let psk = config.keys.find(*psk)?;
                let message = message(config, Step::Noise1, *nonces, key);
                let message = Message { noise: *noise1, ..message };
                timer.is_due(now).then(|| signed(config, psk, &message))
            }
            Attempt::Challenged { .. } => None,
        }
    }
}

fn knocking(now: Instant, doubts: bool) -> Attempt {
    Attempt::Knocking { nonce: random(), doubts, knocks: 0, timer: Timer::new(now) }
}
