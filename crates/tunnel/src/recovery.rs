//! What is in the fabric, what has come through, and what has not (RFC 9002 §5, §6).
//!
//! A packet's number is never used again: what is sent once more has another one, so an acknowledgement always says how long
//! a round trip took.

use alloc::collections::VecDeque;
use core::ops::RangeInclusive;

use units::{Instant, Span};

use crate::Stream;

/// How far behind the newest acknowledged packet one is lost (RFC 9002 §6.1.1).
const REORDERING: u64 = 3;

/// The finest time that a switch's thread can be relied upon to see (RFC 9002 §6.1.2, kGranularity: there 1 ms, for
/// round trips of the Internet's).
const GRANULARITY: Span = Span::from_micros(200);

/// The round trip before there is one (§6.2.2, kInitialRtt: there 333 ms).
const INITIAL: Span = Span::from_millis(10);

/// Probes are sent no less often than this.
const LONGEST: Span = Span::from_secs(1);

/// A packet in the fabric.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// When it was sent.
    pub sent_at: Instant,
    /// Whose frame it carries.
    pub stream: Stream,
    /// Where in the stream.
    pub offset: u64,
    /// Bytes, as the window counts them.
    pub len: u16,
}

/// All packets of a session that may still be acknowledged.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// By number; `None` if it is done with. Those that nobody acknowledges are none of them.
    packets: VecDeque<(u64, Option<Packet>)>,
    next: u64,
    in_flight: u64,
    largest: Option<u64>,
    rtt: Option<Rtt>,
    /// When the last packet was sent.
    last_sent: Instant,
    /// When one that others have overtaken will count as lost.
    loss_at: Option<Instant>,
    /// Probes since the last acknowledgement.
    probes: u32,
}

/// Round trips (§5).
#[derive(Clone, Copy, Debug)]
struct Rtt {
    latest: Span,
    smoothed: Span,
    variation: Span,
}

impl Recovery {
    /// Nothing was sent yet.
    pub fn new() -> Self {
        Self {
            packets: VecDeque::new(),
            next: 0,
            in_flight: 0,
            largest: None,
            rtt: None,
            last_sent: Instant::ZERO,
            loss_at: None,
            probes: 0,
        }
    }

    /// The number of the packet that is sent next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes in the fabric.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Probes since the last acknowledgement.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    /// The smoothed round trip, once there was one.
    pub fn round_trip(&self) -> Option<Span> {
        self.rtt.map(|rtt| rtt.smoothed)
    }

    /// A packet is sent. Its number.
    pub fn sent(&mut self, packet: Packet) -> u64 {
        let number = self.forgotten();
        self.in_flight += u64::from(packet.len);
        self.last_sent = packet.sent_at;
        self.packets.push_back((number, Some(packet)));
        number
    }

    /// A packet is sent that nobody acknowledges. Its number.
    pub fn forgotten(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// These have come. `came` is told of each that was not known to; returns the newest, if it is among them.
    pub fn acknowledged(
        &mut self,
        now: Instant,
        ranges: impl Iterator<Item = RangeInclusive<u64>>,
        mut came: impl FnMut(u64, Packet),
    ) -> Option<Packet> {
        let before = self.largest;
        let mut newest = None;
        for range in ranges {
            let first = self.packets.partition_point(|(number, _)| number < range.start());
            for (number, place) in self.packets.range_mut(first..) {
                if *number > *range.end() {
                    break;
                }
                let (number, Some(packet)) = (*number, place.take()) else { continue };
                self.in_flight -= u64::from(packet.len);
                self.largest = self.largest.max(Some(number));
                if newest.is_none_or(|(highest, _)| number > highest) {
                    newest = Some((number, packet));
                }
                came(number, packet);
            }
        }
        self.forget();
        let (number, packet) = newest?;
        self.probes = 0;
        if before < Some(number) {
            self.sample(now.since(packet.sent_at));
        }
        Some(packet)
    }

    /// §5.3. Acknowledgements are not delayed on purpose.
    fn sample(&mut self, latest: Span) {
        let part = |span: Span, of: u64, whole: u64| Span::from_nanos(span.as_nanos() / whole * of);
        self.rtt = Some(match self.rtt {
            None => Rtt { latest, smoothed: latest, variation: part(latest, 1, 2) },
            Some(Rtt { smoothed, variation, .. }) => {
                let apart = Span::from_nanos(smoothed.as_nanos().abs_diff(latest.as_nanos()));
                Rtt {
                    latest,
                    smoothed: part(smoothed, 7, 8) + part(latest, 1, 8),
                    variation: part(variation, 3, 4) + part(apart, 1, 4),
                }
            }
        });
    }

    /// Tells of each packet that others have overtaken by too far, in numbers or in time (§6.1).
    pub fn find_lost(&mut self, now: Instant, mut lost: impl FnMut(u64, Packet)) {
        self.loss_at = None;
        let Some(largest) = self.largest else { return };
        let Some(rtt) = self.rtt else { return };
        let longest = rtt.smoothed.max(rtt.latest);
        let patience = (longest + Span::from_nanos(longest.as_nanos() / 8)).max(GRANULARITY);
        for (number, place) in &mut self.packets {
            if *number >= largest {
                break;
            }
            let Some(packet) = place else { continue };
            let due = packet.sent_at + patience;
            if *number + REORDERING <= largest || due <= now {
                self.in_flight -= u64::from(packet.len);
                lost(*number, *packet);
                *place = None;
            } else {
                self.loss_at = Some(self.loss_at.map_or(due, |at| at.min(due)));
            }
        }
        self.forget();
    }

    /// Whatever is in the fabric will not come: `lost` is told of each packet. What is sent next begins with a fresh count of probes, and of round trips.
    pub fn give_up(&mut self, mut lost: impl FnMut(u64, Packet)) {
        for (number, packet) in self.packets.drain(..) {
            packet.into_iter().for_each(|packet| lost(number, packet));
        }
        (self.in_flight, self.loss_at, self.probes, self.rtt) = (0, None, 0, None);
    }

    fn forget(&mut self) {
        while let Some((_, None)) = self.packets.front() {
            self.packets.pop_front();
        }
    }

    /// When to look again: for packets that were overtaken, or to probe, as nothing was heard (§6.2).
    pub fn deadline(&self) -> Option<Instant> {
        if self.loss_at.is_some() || self.packets.is_empty() {
            return self.loss_at;
        }
        let pace = self.rtt.map_or(INITIAL + INITIAL, |rtt| {
            let margin = Span::from_nanos(4 * rtt.variation.as_nanos());
            rtt.smoothed + margin.max(GRANULARITY)
        });
        let backed_off = Span::from_nanos(pace.as_nanos() << self.probes.min(16));
        Some(self.last_sent + backed_off.min(LONGEST))
    }

    /// Time has come to probe: the frame of the oldest packet that `is_wanted` is to be sent once more, though the packet may
    /// still be acknowledged. Older ones, whose frames came by others or were sent once more, are forgotten: so however
    /// long nothing is heard, there is one packet more than frames at the most.
    pub fn probe(&mut self, now: Instant, mut is_wanted: impl FnMut(u64, Packet) -> bool) {
        self.probes += 1;
        self.last_sent = now;
        while let Some((number, place)) = self.packets.front() {
            if let Some(packet) = *place {
                if is_wanted(*number, packet) {
                    return;
                }
                self.in_flight -= u64::from(packet.len);
            }
            self.packets.pop_front();
        }
    }

    /// Whether it is for overtaken packets that time has come.
    pub fn is_overtaken(&self) -> bool {
        self.loss_at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use units::Class;

    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Span::from_micros(us)
    }

    fn sent(recovery: &mut Recovery, us: u64) -> u64 {
        let stream = Stream { label: 1, class: Class::from_low_bits(0) };
        recovery.sent(Packet { sent_at: at(us), stream, offset: 0, len: 100 })
    }

    fn lost(recovery: &mut Recovery, us: u64) -> Vec<u64> {
        let mut lost = Vec::new();
        recovery.find_lost(at(us), |number, _| lost.push(number));
        lost
    }

    #[test]
    fn who_was_overtaken_by_three_is_lost_and_by_fewer_after_a_while() {
        let mut recovery = Recovery::new();
        (0..6).for_each(|number| assert_eq!(sent(&mut recovery, number), number));
        assert!(recovery.acknowledged(at(1000), [2..=2, 4..=4].into_iter(), |_, _| ()).is_some());
        assert_eq!(lost(&mut recovery, 1000), [0, 1]);
        assert_eq!(recovery.in_flight(), 200);
        // 3 was overtaken by one: 9/8 of a round trip after it was sent it is lost. 5 was not overtaken.
        let due = recovery.deadline().unwrap();
        assert_eq!(due, at(3) + Span::from_nanos(996_000 / 8 * 9));
        assert_eq!(lost(&mut recovery, 2000), [3]);
        assert_eq!(recovery.in_flight(), 100);
    }

    #[test]
    fn what_nobody_acknowledges_has_a_number_and_nothing_else() {
        let mut recovery = Recovery::new();
        assert_eq!((sent(&mut recovery, 0), sent(&mut recovery, 0)), (0, 1));
        assert!((2..100).all(|number| recovery.forgotten() == number));
        assert_eq!((recovery.packets.len(), recovery.in_flight(), sent(&mut recovery, 1)), (2, 200, 100));
        // Whoever has it says so of it as of the others.
        let mut came = Vec::new();
        recovery.acknowledged(at(1000), [1..=100].into_iter(), |number, _| came.push(number));
        assert_eq!((came, lost(&mut recovery, 1000)), (alloc::vec![1, 100], alloc::vec![0]));
    }

    #[test]
    fn silence_is_probed_ever_less_often() {
        let mut recovery = Recovery::new();
        sent(&mut recovery, 0);
        let mut waits = Vec::new();
        let mut now = at(0);
        for _ in 0..9 {
            let due = recovery.deadline().unwrap();
            waits.push(due.since(now).as_nanos() / 1_000_000);
            now = due;
            let mut probed = 0;
            recovery.probe(now, |_, _| {
                probed += 1;
                true
            });
            assert_eq!(probed, 1);
        }
        assert_eq!(waits, [20, 40, 80, 160, 320, 640, 1000, 1000, 1000]);
        // The first answer ends that.
        recovery.acknowledged(now, [0..=0].into_iter(), |_, _| ());
        assert_eq!((recovery.probes(), recovery.deadline()), (0, None));
    }

    #[test]
    fn what_was_never_sent_cannot_be_acknowledged() {
        let mut recovery = Recovery::new();
        assert!(recovery.acknowledged(at(1), [0..=u64::MAX].into_iter(), |_, _| panic!()).is_none());
        sent(&mut recovery, 2);
        let mut came = 0;
        recovery.acknowledged(at(3), [0..=u64::MAX, 0..=5].into_iter(), |_, _| came += 1);
        assert_eq!(came, 1);
    }
}
