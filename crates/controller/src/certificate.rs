//! The certificate that the other end of a connection has shown, and whether it is to be trusted.
//!
//! Signatures are not verified with each request: an answer counts for some seconds, as long as
//! nobody has changed who may sign.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tls::{Chain, Server};

/// How long an answer counts.
const COUNTS: Duration = Duration::from_secs(5);

/// A certificate that was trusted when its connection began, with those that it leads by.
#[derive(Debug)]
pub struct Shown {
    chain: Chain,
    judged: Mutex<Option<Judged>>,
}

/// What was said of it last.
#[derive(Clone, Copy, Debug)]
struct Judged {
    /// By which version of who may sign.
    version: u64,
    at: Instant,
    is_trusted: bool,
}

impl Shown {
    /// Of a connection.
    pub fn new(chain: Chain) -> Self {
        Self { chain, judged: Mutex::default() }
    }

    /// The certificate, then those that it leads by.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Whether it is to be trusted now, by those who sign for this end. It may have expired some
    /// seconds ago.
    pub fn is_trusted(&self, clients: &Server) -> bool {
        // Asked for before it is judged: whatever changes meanwhile has it judged anew.
        self.judged(clients.version(), Instant::now(), || clients.trusts(&self.chain))
    }

    fn judged(&self, version: u64, now: Instant, judge: impl FnOnce() -> bool) -> bool {
        let last = *self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        let counts =
            |it: &Judged| it.version == version && now.saturating_duration_since(it.at) < COUNTS;
        if let Some(last) = last.filter(counts) {
            return last.is_trusted;
        }
        let is_trusted = judge();
        let judged = Some(Judged { version, at: now, is_trusted });
        *self.judged.lock().unwrap_or_else(PoisonError::into_inner) = judged;
        is_trusted
    }
}

impl PartialEq for Shown {
    fn eq(&self, other: &Self) -> bool {
        self.chain == other.chain
    }
}

impl Eq for Shown {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_judged_anew_after_a_while_and_when_others_may_sign() {
        let (shown, begin) = (Shown::new(Chain::new()), Instant::now());
        let almost = begin + COUNTS - Duration::from_nanos(1);
        let later = begin + COUNTS;
        // What is said then: `None` if it is not asked for.
        for (version, now, said, is_trusted) in [
            (0, begin, Some(true), true),
            (0, almost, None, true),
            (1, almost, Some(false), false),
            (1, later, None, false),
            (2, later, Some(true), true),
            (2, later + COUNTS, Some(false), false),
        ] {
            let mut is_asked = false;
            let judge = || {
                is_asked = true;
                said.unwrap_or_default()
            };
            assert_eq!(shown.judged(version, now, judge), is_trusted, "{version} {now:?}");
            assert_eq!(is_asked, said.is_some(), "{version} {now:?}");
        }
    }
}
