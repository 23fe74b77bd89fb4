//! What is counted, by port and class.

use core::ops::AddAssign;

use lossless::Reason;
use serde::{Deserialize, Serialize};

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DropReason {
    /// At random, as the configuration wants it.
    Random,
    /// A lossless class had no room: its sender went on although it was paused.
    Overrun,
    /// The host at the far end of the last link did not take it.
    Untaken,
    /// The switch refused it; [`Reason::Full`] if its input's buffer was full.
    Refused(Reason),
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = 3 + Reason::COUNT;

    /// Every reason, in the order in which they are counted.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Random, Self::Overrun, Self::Untaken]
            .into_iter()
            .chain(Reason::ALL.map(Self::Refused))
    }

    /// The reason in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Overrun => "overrun",
            Self::Untaken => "untaken",
            Self::Refused(reason) => reason.name(),
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Random => 0,
            Self::Overrun => 1,
            Self::Untaken => 2,
            Self::Refused(reason) => 3 + reason as usize,
        }
    }
}

/// Frames, as on a wire, and their bytes from the Ethernet header on, without check sequence.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// A large segment counts as those that it stands for.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, frames: u16, bytes: u32) {
        self.frames += u64::from(frames);
        self.bytes += u64::from(bytes);
    }

    pub(crate) fn remove(&mut self, frames: u16, bytes: u32) {
        self.frames -= u64::from(frames);
        self.bytes -= u64::from(bytes);
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Self) {
        self.frames += more.frames;
        self.bytes += more.bytes;
    }
}

/// One class of one port. At a trunk, the other switch stands for the host.
///
/// Of a frame that the switch floods, the first four fields count one; `sent` and `marked` count
/// each copy.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Sent by the port's host.
    pub received: Tally,
    /// Of these, taken by some host.
    pub passed: Tally,
    /// Of these, dropped, by reason: see [`dropped`](Self::dropped).
    pub(crate) dropped: [Tally; DropReason::COUNT],
    /// Of these, underway or waiting.
    pub held: Tally,
    /// Sent to the port's host.
    pub sent: Tally,
    /// Of these, marked: congestion experienced.
    pub marked: u64,
    /// How often the port's host was asked to pause, repetitions included.
    pub pauses_sent: u64,
    /// How often the port's host asked for a pause, and got it.
    pub pauses_obeyed: u64,
}

impl Counters {
    /// Frames that were dropped for this reason.
    pub fn dropped(&self, reason: DropReason) -> Tally {
        self.dropped[reason.index()]
    }

    /// Whether all that was received is accounted for.
    pub fn balances(&self) -> bool {
        let dropped = |read: fn(&Tally) -> u64| self.dropped.iter().map(read).sum::<u64>();
        self.received.frames == self.passed.frames + dropped(|it| it.frames) + self.held.frames
            && self.received.bytes == self.passed.bytes + dropped(|it| it.bytes) + self.held.bytes
    }

    pub(crate) fn receive(&mut self, frames: u16, bytes: u32) {
        self.received.add(frames, bytes);
        self.held.add(frames, bytes);
    }

    pub(crate) fn pass(&mut self, frames: u16, bytes: u32) {
        self.held.remove(frames, bytes);
        self.passed.add(frames, bytes);
    }

    pub(crate) fn drop(&mut self, reason: DropReason, frames: u16, bytes: u32) {
        self.held.remove(frames, bytes);
        self.dropped[reason.index()].add(frames, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_place() {
        let mut counters = Counters::default();
        for (number, reason) in (1..).zip(DropReason::all()) {
            counters.receive(number, 60);
            counters.drop(reason, number, 60);
        }
        let frames = DropReason::all().map(|reason| counters.dropped(reason).frames);
        assert!(frames.eq(1..=DropReason::COUNT as u64) && counters.balances());
    }
}
