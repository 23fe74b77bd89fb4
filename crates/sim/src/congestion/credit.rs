//! What a way may send by what its receiver grants, and when its sender asks for more.
//!
//! ```text
//!            sent                        limit
//!  may leave ──▶ │ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ │      the sender's
//!      │ ▪ ▪ ▪ ▪ │                                    received, as far as is known
//!    arrived                           granted        the receiver's
//! ```
//!
//! Nothing is lost between them, so offsets are bytes of frames, counted at both ends. Limits never
//! fall. Nothing here knows of packets, events or hosts.

use tunnel::grants::Progress;

use crate::time::Time;

/// How long the next frame waits until the sender asks: at first, and at most. It doubles.
const ASK: [Time; 2] = [Time::from_picos(1_000_000_000), Time::from_picos(50_000_000_000)];

/// Both ends' books of a way.
#[derive(Clone, Debug)]
pub(crate) struct Credit {
    sent: u64,
    limit: u64,
    /// Since when the next frame waits for a grant, or since it last asked.
    waits: Option<Time>,
    patience: Time,
    /// Whether it is looked at later.
    is_watched: bool,
    arrived: u64,
    received: u64,
    granted: u64,
}

/// Whether a frame may leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Allowed {
    /// At once.
    Now,
    /// Once there is a grant.
    Later,
    /// The same, and the sender is to [look](Credit::look) again then.
    LookAt(Time),
}

/// What a sender does who has waited for a while.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Look {
    /// It does not wait any more.
    Rest,
    /// It looks again then.
    Again(Time),
    /// It asks, having sent so far, and looks again then.
    Ask { sent: u64, again: Time },
}

impl Credit {
    /// A way that may be sent so far without a grant.
    pub(crate) fn new(unsolicited: u64) -> Self {
        Self {
            sent: 0,
            limit: unsolicited,
            waits: None,
            patience: ASK[0],
            is_watched: false,
            arrived: 0,
            received: 0,
            granted: unsolicited,
        }
    }

    /// Whether a frame of so many bytes may leave.
    pub(crate) fn allows(&mut self, now: Time, len: u32) -> Allowed {
        if self.sent + u64::from(len) <= self.limit {
            return Allowed::Now;
        }
        let since = *self.waits.get_or_insert(now);
        match std::mem::replace(&mut self.is_watched, true) {
            true => Allowed::Later,
            false => Allowed::LookAt(since + self.patience),
        }
    }

    /// A frame leaves.
    pub(crate) fn send(&mut self, len: u32) {
        self.sent += u64::from(len);
    }

    /// The receiver has told a limit.
    pub(crate) fn raise(&mut self, limit: u64) {
        if limit > self.limit {
            (self.limit, self.waits, self.patience) = (limit, None, ASK[0]);
        }
    }

    /// The time has come at which the sender wanted to look.
    pub(crate) fn look(&mut self, now: Time) -> Look {
        let Some(since) = self.waits else {
            self.is_watched = false;
            return Look::Rest;
        };
        if now < since + self.patience {
            return Look::Again(since + self.patience);
        }
        self.patience = (self.patience + self.patience).min(ASK[1]);
        self.waits = Some(now);
        Look::Ask { sent: self.sent, again: now + self.patience }
    }

    /// A frame has come to the receiver.
    pub(crate) fn arrive(&mut self, len: u32) -> Progress {
        self.arrived += u64::from(len);
        self.hear(self.arrived)
    }

    /// The receiver hears that so much was sent: some of it may be under way.
    pub(crate) fn hear(&mut self, sent: u64) -> Progress {
        self.received = self.received.max(sent);
        Progress { received: self.received, limit: self.granted }
    }

    /// The receiver grants so much.
    pub(crate) fn grant(&mut self, limit: u64) {
        debug_assert!(limit > self.granted, "limits rise");
        self.granted = limit;
    }

    /// What it has granted.
    pub(crate) fn granted(&self) -> u64 {
        self.granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_picos(ms * 1_000_000_000)
    }

    #[test]
    fn what_is_not_granted_waits_and_is_asked_for_ever_less_often() {
        let mut credit = Credit::new(3000);
        for _ in 0..2 {
            assert_eq!(credit.allows(at(0), 1500), Allowed::Now);
            credit.send(1500);
        }
        assert_eq!(credit.allows(at(0), 1), Allowed::LookAt(at(1)));
        assert_eq!(credit.allows(at(0), 1), Allowed::Later);
        assert_eq!(credit.look(at(1)), Look::Ask { sent: 3000, again: at(3) });
        assert_eq!(credit.look(at(3)), Look::Ask { sent: 3000, again: at(7) });
        credit.raise(4500);
        assert_eq!(credit.look(at(7)), Look::Rest);
        assert_eq!(credit.allows(at(8), 1500), Allowed::Now);
        credit.send(1500);
        assert_eq!(credit.allows(at(9), 1500), Allowed::LookAt(at(10)));
        // A limit that comes and goes between two looks is no reason to ask.
        credit.raise(6000);
        assert_eq!(credit.allows(at(9), 1500), Allowed::Now);
        credit.send(1500);
        assert_eq!(credit.allows(at(9), 1500), Allowed::Later);
        assert_eq!(credit.look(at(9)), Look::Again(at(10)));
    }

    #[test]
    fn a_receiver_counts_what_it_hears_of_and_what_has_come_once() {
        let mut credit = Credit::new(3000);
        assert_eq!(credit.arrive(1000), Progress { received: 1000, limit: 3000 });
        assert_eq!(credit.hear(3000), Progress { received: 3000, limit: 3000 });
        credit.grant(5000);
        assert_eq!(credit.arrive(1000), Progress { received: 3000, limit: 5000 });
        assert_eq!(credit.arrive(2000), Progress { received: 4000, limit: 5000 });
    }
}
