//! Ports that frames are held for until it is known where those are.

use std::collections::BTreeMap;

use datapath::Remote;
use units::{Instant, Span};

/// After how long frames that a host gave back are sent there again, if the port is still said to
/// be there.
pub const AGAIN: Span = Span::from_millis(5);

/// Ports that frames are held for, by where those were sent.
#[derive(Debug, Default)]
pub struct Moves {
    /// Where they were sent.
    pub waits: BTreeMap<Remote, Wait>,
    /// How many came back.
    pub returned: u64,
}

/// Frames for a port that are held.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    /// When the first came back since one was taken there.
    pub since: Option<Instant>,
    /// It was told where ports are since the last of them was sent.
    pub is_told: bool,
    /// When they are sent there again. None is underway then.
    pub again_at: Option<Instant>,
}

impl Moves {
    /// Of a port that frames are held for, or begin to be.
    pub fn wait(&mut self, remote: Remote) -> &mut Wait {
        self.waits.entry(remote).or_default()
    }

    /// When frames are to be sent again.
    pub fn due(&self) -> Option<Instant> {
        self.waits.values().filter_map(|wait| wait.again_at).min()
    }
}
