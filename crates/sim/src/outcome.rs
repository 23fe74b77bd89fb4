//! What comes of a run.

use crate::record::Record;
use crate::time::Time;

/// Why a run ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ending {
    /// As many queries as were wanted are complete, or their mean is known as well as was wanted,
    /// the time is over, or there is nothing left to do.
    Done,
    /// Its owner has stopped it.
    Stopped,
    /// Ports wait for each other in a circle, each named by the link that it cannot use.
    Deadlock(Vec<String>),
}

/// A run's outcome.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Why it ended.
    pub ending: Ending,
    /// The simulated time.
    pub time: Time,
    /// Rows.
    pub record: Record,
    /// Events that happened.
    pub events: u64,
    /// Frames over links, each link counted.
    pub hops: u64,
    /// What is known of each class, in the order of priorities.
    pub classes: Vec<ClassOutcome>,
    /// Queries and flows that were begun and are not complete.
    pub unfinished: u64,
    /// TCP segments sent.
    pub segments: u64,
    /// Of them, those sent again.
    pub retransmitted: u64,
    /// Of these, tail loss probes. An answer that takes more than two round trips sets one off,
    /// too: no loss needs to stand behind it (RFC 8985 §7.2).
    pub probes: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// UDP datagrams sent.
    pub datagrams: u64,
    /// Defects: books that do not balance, frames lost in a class that promises not to lose any.
    /// Each a sentence.
    pub defects: Vec<String>,
}

/// What is known of a class.
#[derive(Clone, Debug)]
pub struct ClassOutcome {
    /// Its name.
    pub name: String,
    /// Frames lost by virtual switches and NICs of machines.
    pub lost_virtual: u64,
    /// Frames lost by physical switches and servers' NICs.
    pub lost_physical: u64,
    /// Frames that were marked.
    pub marked: u64,
    /// How long physical transmitters were paused, all together.
    pub paused: Time,
}
