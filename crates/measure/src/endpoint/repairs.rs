//! What TCP did about losses on the connections of a program.

use std::net::TcpStream;
use std::ops::AddAssign;

use kernel::tcp::{Resent, resent};
use serde::{Deserialize, Serialize};

use super::error::{Doing, EndpointError};

/// What connections sent again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Repairs {
    /// Segments that were sent again.
    pub retransmits: u64,
    /// Retransmission timers that fired; none if the kernel does not tell, or there was no
    /// connection.
    pub timeouts: Option<u64>,
}

impl Repairs {
    /// What `stream` has sent again since it had sent `before`.
    pub(super) fn since(before: Resent, stream: &TcpStream) -> Result<Self, EndpointError> {
        Ok(Self::between(before, look(stream)?))
    }

    fn between(before: Resent, after: Resent) -> Self {
        // The kernel's counters wrap.
        let timeouts = after
            .timeouts
            .zip(before.timeouts)
            .map(|(after, before)| after.wrapping_sub(before).into());
        Self { retransmits: after.segments.wrapping_sub(before.segments).into(), timeouts }
    }
}

impl AddAssign for Repairs {
    fn add_assign(&mut self, other: Self) {
        self.retransmits += other.retransmits;
        self.timeouts =
            [self.timeouts, other.timeouts].into_iter().flatten().reduce(|one, two| one + two);
    }
}

/// What `stream` has sent again so far.
pub(super) fn look(stream: &TcpStream) -> Result<Resent, EndpointError> {
    resent(stream).doing("ask a connection what it sent again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sent_again_meanwhile_counts() {
        let resent = |segments, timeouts| Resent { segments, timeouts };
        let mut sum = Repairs::between(resent(3, Some(u16::MAX)), resent(10, Some(1)));
        assert_eq!(sum, Repairs { retransmits: 7, timeouts: Some(2) });
        sum += Repairs::between(resent(0, None), resent(1, None));
        assert_eq!(sum, Repairs { retransmits: 8, timeouts: Some(2) });
    }
}
