//! The state of a trunk, as the API and metrics report it.

use std::collections::BTreeMap;

use lossless::Flow;
use model::{ChannelStatus, LedgerStatus, SessionStatus};
use seal::State;
use tunnel::Counters;
use units::Instant;

use super::state::Trunk;

/// Why frames and packets of a host are refused, by the names of statuses and metrics.
pub const REASONS: [&str; 16] = [
    "malformed",
    "unknown_network",
    "no_memory",
    "incomplete",
    "credit_exceeded",
    "too_many_streams",
    "stale_incarnation",
    "unsupported_version",
    "unsealed",
    "unknown_key",
    "replayed",
    "bad_tag",
    "other_key",
    "other_mode",
    "other_version",
    "stale_handshake",
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
            contradictions,
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
            contradictions,
        })
    }

    /// The state of the channel, if there is one.
    pub fn channel_status(&self, now: Instant) -> Option<ChannelStatus> {
        let channel = self.channel.as_ref()?;
        let (since, psk) = match channel.state() {
            State::Open { since, psk, .. } => (Some(now.since(since)), Some(psk.to_string())),
            State::Opening | State::Closed => (None, None),
        };
        Some(ChannelStatus {
            is_open: channel.is_open(),
            pre_shared_key: psk,
            since,
            handshakes: channel.counters().handshakes,
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
        if self.config.obeys_pauses {
            return Some("pfc is declared, which those that a card cuts do not heed");
        }
        if self.channel.is_some() {
            return Some("packets are sealed, which a card would change");
        }
        session.is_large_paused(now).then_some("the last ones were lost on the way, or are late")
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
        let channel = self.channel.as_ref().map(seal::Channel::counters).copied();
        let channel = channel.unwrap_or_default();
        let malformed = own.malformed + self.assembly.malformed();
        let malformed = malformed + channel.refused(seal::Refusal::Malformed);
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
            channel.refused(seal::Refusal::Unsealed),
            channel.refused(seal::Refusal::UnknownKey),
            channel.refused(seal::Refusal::Replayed),
            channel.refused(seal::Refusal::BadTag),
            channel.refused(seal::Refusal::OtherKey),
            channel.refused(seal::Refusal::OtherMode),
            channel.refused(seal::Refusal::OtherVersion),
            channel.refused(seal::Refusal::Stale),
        ];
        let all = REASONS.into_iter().map(str::to_owned).zip(counts);
        all.filter(|(_, count)| *count > 0).collect()
    }
}
