//! The sequence numbers of one authenticated session (RFC 5880 §6.7.4, meticulous).

use units::{Instant, Span};

/// The numbers of one end.
#[derive(Debug)]
pub(super) struct Sequence {
    /// bfd.XmitAuthSeq.
    next: u32,
    /// bfd.RcvAuthSeq, and when it came; `None` while bfd.AuthSeqKnown is 0.
    received: Option<(u32, Instant)>,
}

impl Sequence {
    /// Numbers that begin with this one, which nobody guesses.
    pub(super) fn new(first: u32) -> Self {
        Self { next: first, received: None }
    }

    /// The number of the next packet.
    pub(super) fn send(&mut self) -> u32 {
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        sequence
    }

    /// Whether a packet of this number, whose digest is right, is later than those before, and not
    /// by more than `3 * multiplier`. After twice the detection time without one, any is.
    ///
    /// A packet that does not name our session (`knows_us`) may be one that was recorded before we
    /// began. It is accepted while no number is known, as the standard has it, but makes none
    /// known.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        sequence: u32,
        knows_us: bool,
        multiplier: u8,
        detection_time: Option<Span>,
    ) -> bool {
        let silence = detection_time.map_or(Span::ZERO, |time| time + time);
        let known = self.received.filter(|(_, at)| now.since(*at) < silence);
        if let Some((last, _)) = known {
            let ahead = sequence.wrapping_sub(last);
            if !(1..=3 * u32::from(multiplier)).contains(&ahead) {
                return false;
            }
        }
        if knows_us || known.is_some() {
            self.received = Some((sequence, now));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Option<Span> = Some(Span::from_millis(300));

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn numbers_go_up_and_none_is_accepted_twice() {
        let mut sequence = Sequence::new(u32::MAX);
        assert_eq!([sequence.send(), sequence.send()], [u32::MAX, 0]);
        for (sequence_number, is_accepted) in [
            (u32::MAX - 1, true),
            (u32::MAX - 1, false),
            (0, true),
            (9, true),
            (19, false),
            (8, false),
        ] {
            let accepted = sequence.accept(ms(1), sequence_number, true, 3, TIME);
            assert_eq!(accepted, is_accepted, "{sequence_number}");
        }
    }

    #[test]
    fn who_was_silent_may_have_begun_anew() {
        let mut sequence = Sequence::new(1);
        assert!(sequence.accept(ms(0), 100, true, 3, TIME));
        assert!(!sequence.accept(ms(599), 50, false, 3, TIME));
        assert!(sequence.accept(ms(600), 50, true, 3, TIME));
        assert!(!sequence.accept(ms(601), 100, true, 3, TIME));
    }

    #[test]
    fn what_may_be_a_record_makes_no_number_known() {
        let mut sequence = Sequence::new(1);
        assert!(sequence.accept(ms(0), 5000, false, 3, TIME));
        assert!(sequence.accept(ms(1), 7, true, 3, TIME));
        assert!(!sequence.accept(ms(2), 5001, false, 3, TIME));
    }
}
