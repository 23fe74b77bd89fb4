//! The credit of one stream.

use shares::Holder;
use units::{Instant, Span};

use super::round_trip::Sample;
use crate::config::MAX_FRAME_LEN;

/// How often it is seen how much of its credit a stream uses, in round trips and the slack of each.
pub(super) const REVIEW: u64 = 2;

/// Where a stream is, as its receiver knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Progress {
    /// How far it was sent: the end of what was received, or of what its sender says it sent.
    pub received: u64,
    /// How far it may be sent.
    pub limit: u64,
}

/// What is known of a stream.
#[derive(Clone, Debug)]
pub(super) struct Credit {
    pub(super) network: Holder,
    /// How far it was sent.
    pub(super) received: u64,
    /// How far it may be sent.
    pub(super) limit: u64,
    /// It uses its credit, or waits for more.
    pub(super) is_active: bool,
    /// It is in its network's ring.
    pub(super) is_queued: bool,
    /// It is in the queue of those that may come to rest.
    pub(super) is_watched: bool,
    /// How far it was sent when its use of credit was last reviewed, and how much it used in a
    /// round between the last two times.
    reviewed: u64,
    in_use: u64,
    /// When it last used credit, or was granted some that it waited for.
    pub(super) used_at: Instant,
    /// How much it used last, at once: what its next frame may be as long as.
    frame: u64,
    /// When its round began, in which so much was delivered; and in the one before.
    began: Instant,
    delivered: u64,
    delivered_before: u64,
    /// What it may need beside its width, because it asks and does not use what it has: its next
    /// frame may be longer than that.
    pressed: u64,
    pub(super) sample: Option<Sample>,
}

/// What bounds the credit of a stream, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Width {
    /// For its part of the link.
    pub(super) fair: u64,
    /// For its part of what its network is guaranteed.
    pub(super) guaranteed: u64,
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Credit {
    pub(super) fn new(now: Instant, network: Holder, at: Progress) -> Self {
        Self {
            network,
            received: at.received,
            limit: at.limit.max(at.received),
            is_active: false,
            is_queued: false,
            is_watched: false,
            reviewed: at.received,
            in_use: 0,
            used_at: now,
            frame: 0,
            began: now,
            delivered: 0,
            delivered_before: 0,
            pressed: 0,
            sample: None,
        }
    }

    /// What it was granted and has not used.
    pub(super) fn outstanding(&self) -> u64 {
        self.limit - self.received
    }

    /// As much of that as is likely to be used soon: nothing if the next frame does not fit.
    pub(super) fn counted(&self) -> u64 {
        if !self.is_active || self.is_short() {
            return 0;
        }
        self.outstanding().min(self.in_use.max(self.received - self.reviewed))
    }

    /// Whether its next frame may have to wait for credit.
    pub(super) fn is_short(&self) -> bool {
        self.outstanding() < self.frame.max(1)
    }

    /// It has been active for a while since this was called last.
    pub(super) fn review(&mut self) {
        let used = self.received - self.reviewed;
        self.in_use = (used / REVIEW).max(used.min(self.frame));
        self.reviewed = self.received;
    }

    /// What it may have outstanding.
    pub(super) fn width(&self, Width { fair, guaranteed, least, most }: Width) -> u64 {
        let delivered = self.delivered.max(self.delivered_before);
        (2 * delivered).max(fair).min(most).max(guaranteed).max(least + self.pressed)
    }

    /// It was sent so far. Hosts are no later than so long. Returns the grant if it was waited for.
    pub(super) fn advance(
        &mut self,
        now: Instant,
        to: u64,
        round: Span,
        late: Span,
    ) -> Option<Sample> {
        let used = to - self.received;
        self.received = to;
        self.limit = self.limit.max(to);
        if now >= self.began + round {
            let is_next = now < self.began + round + round + late;
            self.delivered_before = if is_next { self.delivered } else { 0 };
            (self.began, self.delivered) = (now, 0);
        }
        self.delivered += used;
        self.frame = used;
        (self.used_at, self.pressed) = (now, 0);
        self.sample.take_if(|sample| sample.limit < to)
    }

    /// Its sender says that it was sent so far: some of that may be on its way, or lost.
    pub(super) fn hear(&mut self, now: Instant, to: u64, datagram: u32) {
        if to > self.received {
            self.received = to;
            self.limit = self.limit.max(to);
            self.pressed = 0;
        } else if self.outstanding() >= u64::from(datagram) {
            let more = (2 * self.pressed).max(2 * u64::from(datagram));
            self.pressed = more.min(u64::from(MAX_FRAME_LEN));
        }
        self.used_at = now;
    }

    /// It was granted so many bytes, when so many had arrived of all.
    pub(super) fn grant(&mut self, now: Instant, bytes: u64, arrivals: u64) {
        let (was_short, limit) = (self.is_short(), self.limit);
        if was_short {
            (self.used_at, self.in_use) = (now, self.in_use.max(bytes));
        }
        self.sample.get_or_insert(Sample { granted_at: now, limit, arrivals, was_short });
        self.limit += bytes;
    }
}
