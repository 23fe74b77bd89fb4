//! The round of senders that wait for room in one class of an egress: deficit round robin
//! (Shreedhar and Varghese, SIGCOMM 1995), which a sender that had nothing waiting joins at its
//! front.
//!
//! ```text
//!        front ─▶ newcomers, once a round ─▶ 1st ─▶ 2nd ─▶ … ─▶ last: behind it, the next round
//!                                            ▲                             │
//!                                            └──── its deficit is spent ───┘
//! ```
//!
//! So who has little to send waits for no more than what is switched already, as with the new flows
//! of Linux's fq (tc-fq(8)). The advance is one quantum, and counts: the first time that it is
//! spent, nothing is added. Who comes again in the same round joins at the end, so nobody gains by
//! sending one frame at a time.

use alloc::boxed::Box;

use crate::flows::QUANTUM;
use crate::set::PortSet;
use crate::voqs::{VoqId, Voqs};

/// Who waits for room in one class of an egress: the first and the last of the round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub first: VoqId,
    pub last: VoqId,
}

impl Waiting {
    pub(crate) const NOBODY: Self = Self { first: VoqId::NONE, last: VoqId::NONE };
}

/// What is known of a round while several wait.
#[derive(Debug, Default)]
pub(crate) struct Round(Option<Box<Inner>>);

#[derive(Debug)]
struct Inner {
    /// Who has joined at the front since the round began.
    newcomers: PortSet,
    /// The last of them that is still there.
    newest: VoqId,
    /// With this one's turn the round ends.
    last: VoqId,
}

impl Round {
    /// Puts the VOQ of a sender that had nothing waiting into the round: at its front, if it may.
    pub(crate) fn join(
        &mut self,
        waiting: &mut Waiting,
        voqs: &mut Voqs,
        id: VoqId,
        may_pass: bool,
    ) {
        if waiting.first == VoqId::NONE {
            // There is nobody to go before. With the next turn a round begins.
            if let Some(inner) = &mut self.0 {
                inner.last = id;
            }
            return join_last(waiting, voqs, id);
        }
        if !may_pass {
            return join_last(waiting, voqs, id);
        }
        let begin = || {
            let (newcomers, newest) = (PortSet::default(), VoqId::NONE);
            Box::new(Inner { newcomers, newest, last: waiting.last })
        };
        let inner = self.0.get_or_insert_with(begin);
        let from = voqs[id].ingress();
        if inner.newcomers.contains(from) {
            return join_last(waiting, voqs, id);
        }
        inner.newcomers.insert(from);
        let before = core::mem::replace(&mut inner.newest, id);
        let place = match before {
            VoqId::NONE => &mut waiting.first,
            before => &mut voqs[before].next,
        };
        let next = core::mem::replace(place, id);
        if next == VoqId::NONE {
            waiting.last = id;
        }
        let voq = &mut voqs[id];
        (voq.deficit, voq.is_advanced, voq.next) = (QUANTUM, true, next);
    }

    /// The turn of the first is over: it goes to the end, with a quantum for its next turn.
    pub(crate) fn rotate(&mut self, waiting: &mut Waiting, voqs: &mut Voqs) {
        let ends = self.0.as_ref().is_some_and(|inner| inner.last == waiting.first);
        let Some(first) = self.leave(waiting, voqs) else { return };
        let voq = &mut voqs[first];
        if !core::mem::take(&mut voq.is_advanced) {
            voq.deficit += QUANTUM;
        }
        join_last(waiting, voqs, first);
        if let Some(inner) = self.0.as_mut().filter(|_| ends) {
            inner.last = first;
        }
    }

    /// Takes the first out of the round.
    #[inline]
    pub(crate) fn leave(&mut self, waiting: &mut Waiting, voqs: &Voqs) -> Option<VoqId> {
        let first = waiting.first;
        if first == VoqId::NONE {
            return None;
        }
        waiting.first = voqs[first].next;
        if waiting.first == VoqId::NONE {
            waiting.last = VoqId::NONE;
        }
        if let Some(inner) = &mut self.0 {
            if inner.newest == first {
                inner.newest = VoqId::NONE;
            }
            if inner.last == first {
                (inner.newcomers, inner.last) = (PortSet::default(), waiting.last);
            }
        }
        Some(first)
    }

    /// Takes one out, wherever it stands.
    pub(crate) fn withdraw(&mut self, waiting: &mut Waiting, voqs: &mut Voqs, id: VoqId) {
        let (mut before, mut at) = (VoqId::NONE, waiting.first);
        while at != id {
            assert_ne!(at, VoqId::NONE, "a VOQ that holds a frame is in its round");
            (before, at) = (at, voqs[at].next);
        }
        let next = voqs[id].next;
        if before == VoqId::NONE {
            waiting.first = next;
        } else {
            voqs[before].next = next;
        }
        if next == VoqId::NONE {
            waiting.last = before;
        }
        let Some(inner) = &mut self.0 else { return };
        // Newcomers are at the front, one behind the other.
        if inner.newest == id {
            inner.newest = before;
        }
        if inner.last == id {
            inner.last = before;
            if before == VoqId::NONE {
                (inner.newcomers, inner.last) = (PortSet::default(), waiting.last);
            }
        }
    }
}

/// Puts a VOQ at the end of the round.
#[inline]
fn join_last(waiting: &mut Waiting, voqs: &mut Voqs, id: VoqId) {
    voqs[id].next = VoqId::NONE;
    let last = core::mem::replace(&mut waiting.last, id);
    if last == VoqId::NONE {
        waiting.first = id;
    } else {
        voqs[last].next = id;
    }
}
