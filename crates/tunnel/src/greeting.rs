//! When an end says who it is.

use units::{Instant, Span};

/// How soon a hello of which nothing is heard is said again, at first and at last.
const PAUSE: [Span; 2] = [Span::from_millis(10), Span::from_secs(1)];

/// Answers are no closer together than this, whatever is heard.
const CALM: Span = Span::from_millis(1);

/// The next hello.
#[derive(Clone, Copy, Debug)]
pub struct Greeting {
    at: Option<Instant>,
    pause: Span,
    said: Option<Instant>,
}

impl Greeting {
    /// One is due at once.
    pub fn new(now: Instant) -> Self {
        Self { at: Some(now), pause: PAUSE[0], said: None }
    }

    /// When it is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Somebody is to be answered.
    pub fn answer(&mut self, now: Instant) {
        let at = self.said.map_or(now, |at| (at + CALM).max(now));
        self.at = Some(self.at.map_or(at, |sooner| sooner.min(at)));
    }

    /// Somebody was met, and is to know at once.
    pub fn meet(&mut self, now: Instant) {
        (self.at, self.pause) = (Some(now), PAUSE[0]);
    }

    /// Somebody else is greeted than before: should no answer come, it is said again soon.
    pub fn begin_anew(&mut self) {
        self.pause = PAUSE[0];
    }

    /// Whoever is greeted may not have heard it for a reason that is over.
    pub fn hurry(&mut self, now: Instant) {
        (self.at, self.pause) = (self.at.map(|at| at.min(now)), PAUSE[0]);
    }

    /// Whoever was greeted knows us.
    pub fn rest(&mut self) {
        (self.at, self.pause) = (None, PAUSE[0]);
    }

    /// Whether to say it now. If so it is said, and once more after a pause if nobody `knows_us`.
    pub fn is_due(&mut self, now: Instant, knows_us: bool) -> bool {
        if self.at.is_none_or(|at| at > now) {
            return false;
        }
        self.said = Some(now);
        self.at = (!knows_us).then(|| now + self.pause);
        self.pause = (self.pause + self.pause).min(PAUSE[1]);
        true
    }
}
