//! What a trunk says of itself.

use std::collections::BTreeMap;

use model::SessionStatus;
use tunnel::Counters;
use units::Instant;

use super::Trunk;

/// Why what came from a host is not taken, as statuses and metrics have it.
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
    /// The session as it is now, if there is one.
    pub fn session_status(&self, now: Instant) -> Option<SessionStatus> {
        let session = self.session.as_ref()?;
        let Counters {
            sent, sent_large, resent, lost, marked, repeated, turned_away, missed, resets, ..
        } = session.counters();
        let path = session.path();
        Some(SessionStatus {
            is_established: session.is_met(),
            unresponsive: session.silent_since().map(|since| now.since(since)),
            rtt: path.round_trip,
            in_flight_bytes: path.in_flight,
            congestion_window_bytes: path.window,
            outstanding: session.kept() as u64,
            sent,
            sent_large,
            retransmitted: resent,
            lost,
            ecn_marked: marked,
            duplicates: repeated,
            nacked: turned_away,
            unrecovered_bytes: missed,
            resets,
        })
    }

    /// Why large segments go in parts, whatever is on the way.
    pub fn parts_because(&self, now: Instant) -> Option<&'static str> {
        let session = self.session.as_ref()?;
        match self.config.obeys_pauses {
            true => Some("pfc is declared, which those that a card cuts do not heed"),
            false => session.pauses_large(now).then_some("the last ones were lost on the way, or are late"),
        }
    }

    /// What came and was not taken, by reason: those of [`REASONS`] that there were.
    pub fn refusals(&self) -> BTreeMap<String, u64> {
        let Counters { beyond, no_memory, refused, stale, foreign, .. } =
            self.session.as_ref().map(tunnel::Session::counters).unwrap_or_default();
        let own = self.refused;
        let malformed = own.malformed + self.frames.malformed();
        let no_memory = own.no_memory + no_memory;
        let counts =
            [malformed, own.unknown_network, no_memory, own.unfinished, beyond, refused, stale, foreign];
        let all = REASONS.into_iter().map(str::to_owned).zip(counts);
        all.filter(|(_, count)| *count > 0).collect()
    }
}
