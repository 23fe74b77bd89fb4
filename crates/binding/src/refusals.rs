//! What a port was refused: counted by reason, and the last ones with all that is known of them.

use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;

use logical::objects::Identity;
use pipeline::{Reason, RuleName};
use units::Instant;

use crate::flow_name::FlowName;

/// How many of the last are remembered of each port.
const REMEMBERED: usize = 16;

/// A frame that was refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused {
    /// When.
    pub at: Instant,
    /// Why.
    pub reason: Reason,
    /// At which object, if that is known.
    pub object: Option<Identity>,
    /// By which rule, if by one.
    pub by: Option<RuleName>,
    /// Whose it was, if that can be read.
    pub flow: Option<FlowName>,
    /// By which generation.
    pub generation: u64,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason.name())?;
        self.object.as_ref().map_or(Ok(()), |it| write!(f, " at {it}"))?;
        self.by.as_ref().map_or(Ok(()), |it| write!(f, " by {it}"))?;
        write!(f, ", generation {}", self.generation)
    }
}

/// What a port was refused.
#[derive(Debug, Default)]
pub struct Refusals {
    pub counts: BTreeMap<Reason, u64>,
    /// The last one last.
    pub last: VecDeque<Refused>,
}

impl Refusals {
    /// One more.
    pub fn note(&mut self, refused: Refused) {
        *self.counts.entry(refused.reason).or_default() += 1;
        if self.last.len() == REMEMBERED {
            self.last.pop_front();
        }
        self.last.push_back(refused);
    }
}
