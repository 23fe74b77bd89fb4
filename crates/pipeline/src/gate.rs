//! What a port lets pass.

use logical::objects::{Direction, Identity};
use packet::{Fields, Tuple};
use units::{Instant, Span};
use wire::ip::Fragment;

use crate::outcome::{Change, Reason};
use crate::rules::{Conditions, List, RuleName, Ruling, Subject};
use crate::state::{FragmentOf, State};

/// How long a packet's ends are remembered for its later fragments.
const FRAGMENTS: Span = Span::from_secs(5);

/// Rules of a port.
pub struct Gate<'a> {
    pub list: &'a List,
    pub conditions: &'a Conditions,
}

impl Gate<'_> {
    /// Asks the rules.
    pub fn pass(
        &self,
        subject: &Subject<'_>,
    ) -> Result<Option<RuleName>, (Reason, Option<RuleName>)> {
        match self.list.ask(self.conditions, subject) {
            Ruling::Allow { by, .. } => Ok(by),
            Ruling::Drop(by) => Err((Reason::Policy, by)),
            Ruling::Reject(by) => Err((Reason::Rejected, by)),
        }
    }
}

/// A port that sees a packet, and when.
pub struct Seen<'a> {
    pub id: &'a Identity,
    pub way: Direction,
    pub now: Instant,
}

impl Seen<'_> {
    /// The ends of a packet as rules see them, and what is to be remembered of a first fragment: a
    /// later one has its first's.
    pub fn ends(
        &self,
        state: &State,
        fields: &Fields,
    ) -> Result<(Option<Tuple>, Option<Change>), Reason> {
        let Some(ip) = fields.ip else { return Ok((None, None)) };
        let ends = ip.tuple;
        let of: FragmentOf = (
            self.id.clone(),
            self.way,
            ip.identification,
            ends.source.0,
            ends.destination.0,
            ends.protocol,
        );
        match ip.layout.fragment {
            Fragment::Whole => Ok((Some(ends), None)),
            Fragment::First => {
                Ok((Some(ends), Some(Change::Fragment(of, ends, self.now + FRAGMENTS))))
            }
            Fragment::Later => {
                let known = state.fragment(&of, self.now).ok_or(Reason::Fragment)?;
                Ok((Some(known), None))
            }
        }
    }
}
