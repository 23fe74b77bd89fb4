//! The state of a trunk, as the API and metrics report it.

use std::collections::BTreeMap;

use lossless::Flow;
use model::{LedgerStatus, SessionStatus};
use tunnel::Counters;
use units::Instant;

use super::state::Trunk;

/// Why frames and packets of a host are refused, by the names of statuses and metrics.
pub const REASONS: [&str; 8] = [
    "malformed",
    "unknown_network",
    "no_memory",
    "incomplete",
    "credit_exceeded",
    "too_many_streams",
    "stale_incarnation",
    "unsupported_version",
];

impl Trunk {
    /// The state of the session, if there is one.
    pub fn session_status(&self, now: Instant) -> Option<SessionStatus> {
        let session = self.session.as_ref()?;
        let Counters {
            sent,
            sent_large,
            retransmitted,
            lost,
            ecn_marked,
            duplicates,
            nacked,
            unrecovered,
            resets,
            ..
        } = session.counters();
        let path = session.path();
        Some(SessionStatus {
            is_established: session.is_established(),
            unresponsive: session.unanswered_since().map(|since| now.since(since)),
            rtt: path.rtt,
            in_flight_bytes: path.in_flight,
            congestion_window_bytes: path.congestion_window,
            outstanding: session.outstanding() as u64,
            sent,
            sent_large,
            retransmitted,
            lost,
            ecn_marked,
            duplicates,
            nacked,
            unrecovered_bytes: unrecovered,
            resets,
        })
    }

    /// The ledger of frames from the far host, and how many bytes it is about.
    pub fn ingress(&self) -> (LedgerStatus, u64) {
        (self.ledger.status(), self.ledger.bytes())
    }

    /// The flows that wait for credit, or did when the switch last had frames for them.
    pub fn held_flows(&self) -> impl Iterator<Item = Flow> {
        self.held.iter().copied()
    }

    /// Why large segments leave in parts, whatever the path could carry.
    pub fn parts_because(&self, now: Instant) -> Option<&'static str> {
        let session = self.session.as_ref()?;
        match self.config.obeys_pauses {
            true => Some("pfc is declared, which those that a card cuts do not heed"),
            false => session
                .is_large_paused(now)
                .then_some("the last ones were lost on the way, or are late"),
        }
    }

    /// How much was refused on arrival, by those of [`REASONS`] that occurred.
    pub fn refusals(&self) -> BTreeMap<String, u64> {
        let Counters {
            credit_exceeded,
            no_memory,
            too_many_streams,
            stale_incarnation,
            unsupported_version,
            ..
        } = self.session.as_ref().map(tunnel::Session::counters).unwrap_or_default();
        let own = self.refused;
        let malformed = own.malformed + self.assembly.malformed();
        let no_memory = own.no_memory + no_memory;
        let counts = [
            malformed,
            own.unknown_network,
            no_memory,
            own.unfinished,
            credit_exceeded,
            too_many_streams,
            stale_incarnation,
            unsupported_version,
        ];
        let all = REASONS.into_iter().map(str::to_owned).zip(counts);
        all.filter(|(_, count)| *count > 0).collect()
    }
}
