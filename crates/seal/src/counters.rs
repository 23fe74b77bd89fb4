//! Why packets are refused, and what is counted.

use thiserror::Error;

/// Why a packet was not opened.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum Refusal {
    /// It is neither sealed nor a handshake message.
    #[error("it is not sealed")]
    Unsealed,
    /// Its lengths or fields contradict each other.
    #[error("it is malformed")]
    Malformed,
    /// It was sealed by keys that this end does not have: the peer's may be older.
    #[error("its keys are not known")]
    UnknownKey,
    /// It was opened before, or is so old that this is not known.
    #[error("it is a replay")]
    Replayed,
    /// Somebody changed or made it who does not have the keys.
    #[error("its tag is wrong")]
    BadTag,
    /// A handshake message of a peer that has none of our pre-shared keys, or a forged one.
    #[error("the peer has another pre-shared key")]
    OtherKey,
    /// A handshake message of a peer in the other mode.
    #[error("the peer has another mode")]
    OtherMode,
    /// A handshake message of another version of the protocol.
    #[error("the peer speaks another version")]
    OtherVersion,
    /// A handshake message that answers nothing: it is late, a duplicate or a replay.
    #[error("it is an old handshake message")]
    Stale,
}

impl Refusal {
    /// All of them, as they are counted.
    pub const ALL: [Self; 9] = [
        Self::Unsealed,
        Self::Malformed,
        Self::UnknownKey,
        Self::Replayed,
        Self::BadTag,
        Self::OtherKey,
        Self::OtherMode,
        Self::OtherVersion,
        Self::Stale,
    ];

    /// Its name in reports and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsealed => "unsealed",
            Self::Malformed => "malformed",
            Self::UnknownKey => "unknown_key",
            Self::Replayed => "replayed",
            Self::BadTag => "bad_tag",
            Self::OtherKey => "other_key",
            Self::OtherMode => "other_mode",
            Self::OtherVersion => "other_version",
            Self::Stale => "stale",
        }
    }
}

/// Why a packet was not sealed.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum NotSealed {
    /// There are no keys yet, or those that there are were used up. A handshake begins.
    #[error("there are no keys yet")]
    NoKeys,
    /// It has no room for the header, or is longer than 16 bits count.
    #[error("it is too short or too long to be sealed")]
    Length,
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Handshakes that gave keys.
    pub handshakes: u64,
    /// Packets refused, in the order of [`Refusal::ALL`].
    refused: [u64; Refusal::ALL.len()],
}

impl Counters {
    /// How many packets were refused for this reason.
    pub fn refused(&self, why: Refusal) -> u64 {
        self.refused[why as usize]
    }

    pub(crate) fn refuse(&mut self, why: Refusal) {
        self.refused[why as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_counted_by_itself() {
        for (place, why) in Refusal::ALL.into_iter().enumerate() {
            let mut counters = Counters::default();
            counters.refuse(why);
            let counts = Refusal::ALL.map(|it| counters.refused(it));
            assert!(counts.iter().enumerate().all(|(at, count)| *count == u64::from(at == place)));
        }
    }
}
