//! Packets in flight: acknowledgement, loss detection, probe timeouts (RFC 9002 §5, §6).
//!
//! A packet number is never reused: a retransmission has a new one, so each acknowledgement gives
//! an unambiguous round-trip time.

use alloc::collections::VecDeque;
use core::ops::{Range, RangeInclusive};

use units::{ClassMap, Instant, RttEstimate, Span};

use crate::exchange::Lane;
use crate::message::Stream;

/// The packet threshold of loss detection (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: usize = 3;

/// The timer granularity of a switch's thread (RFC 9002 §6.1.2, kGranularity: 1 ms there, for the
/// Internet's round trips).
const GRANULARITY: Span = Span::from_micros(200);

/// The round-trip time before the first sample (§6.2.2, kInitialRtt: 333 ms there).
const INITIAL_RTT: Span = Span::from_millis(10);

/// The longest interval between two probes.
const MAX_PROBE_INTERVAL: Span = Span::from_secs(1);

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// When it was sent.
    pub sent_at: Instant,
    /// The stream of its frame.
    pub stream: Stream,
    /// Whose window it is in.
    pub lane: Lane,
    /// The frame's offset.
    pub offset: u64,
    /// Its size in bytes, for the congestion window.
    pub len: u16,
    /// Whether a network card cuts it.
    pub is_large: bool,
}

/// All packets of a session that may still be acknowledged.
#[derive(Clone, Debug)]
pub struct Recovery {
    classes: ClassMap<Flight>,
    /// The next packet number.
    next: u64,
    /// `None` before the first round trip.
    rtt: Option<Rtt>,
    /// The oldest packet in flight at the first probe since the last acknowledgement.
    unacknowledged_from: Option<u64>,
}

/// Packets of one class. The fabric may delay one class more than another, so a packet is not lost
/// for being overtaken by other classes. (RFC 9002 §3 has packet number spaces for this; here all
/// classes share one.)
#[derive(Clone, Debug, Default)]
struct Flight {
    /// By number; `None` once acknowledged or lost. Packets that are never acknowledged are not
    /// here.
    packets: VecDeque<(u64, Option<Packet>)>,
    /// The highest number acknowledged.
    largest: Option<u64>,
    /// When a packet was last sent, acknowledged or probed for.
    last_event_at: Instant,
    /// When the next overtaken packet will count as lost.
    loss_at: Option<Instant>,
    /// Probes since the last acknowledgement in this class.
    probes: u32,
    /// Probes since the last acknowledgement in any class.
    unanswered: u32,
}

/// The round-trip time (§5).
#[derive(Clone, Copy, Debug)]
struct Rtt {
    latest: Span,
    estimate: RttEstimate,
}

impl Recovery {
    /// Nothing was sent.
    pub fn new() -> Self {
        Self {
            classes: ClassMap::from_fn(|_| Flight::default()),
            next: 0,
            rtt: None,
            unacknowledged_from: None,
        }
    }

    /// The next packet number.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The numbers from the oldest packet in flight at the first probe since the last
    /// acknowledgement.
    pub fn unacknowledged(&self) -> Range<u64> {
        self.unacknowledged_from.unwrap_or(self.next)..self.next
    }

    /// The smoothed round-trip time; `None` before the first sample.
    pub fn smoothed_rtt(&self) -> Option<Span> {
        self.rtt.map(|rtt| rtt.estimate.smoothed())
    }

    /// Records a packet that is sent. Returns its number.
    pub fn sent(&mut self, packet: Packet) -> u64 {
        let number = self.skip_number();
        let flight = &mut self.classes[packet.stream.class];
        flight.last_event_at = packet.sent_at;
        flight.packets.push_back((number, Some(packet)));
        number
    }

    /// The number of a packet that will not be acknowledged.
    pub fn skip_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Handles acknowledged ranges. `came` has each packet that is newly acknowledged. Returns
    /// whether there was one.
    pub fn acknowledged(
        &mut self,
        now: Instant,
        ranges: impl Iterator<Item = RangeInclusive<u64>>,
        mut came: impl FnMut(u64, Packet),
    ) -> bool {
        let before = self.classes.0.each_ref().map(|flight| flight.largest);
        let mut newest = None;
        for range in ranges {
            for flight in &mut self.classes.0 {
                let first = flight.packets.partition_point(|(number, _)| number < range.start());
                for (number, place) in flight.packets.range_mut(first..) {
                    if *number > *range.end() {
                        break;
                    }
                    let (number, Some(packet)) = (*number, place.take()) else { continue };
                    flight.largest = flight.largest.max(Some(number));
                    (flight.probes, flight.last_event_at) = (0, now);
                    if newest.is_none_or(|(highest, _)| number > highest) {
                        newest = Some((number, packet));
                    }
                    came(number, packet);
                }
            }
        }
        let Some((number, packet)) = newest else { return false };
        self.unacknowledged_from = None;
        for flight in &mut self.classes.0 {
            flight.unanswered = 0;
            flight.forget();
        }
        if before[packet.stream.class.index()] < Some(number) {
            self.sample(now.since(packet.sent_at));
        }
        true
    }

    /// §5.3. Acknowledgements are not delayed on purpose.
    fn sample(&mut self, latest: Span) {
        let estimate = RttEstimate::after(self.rtt.map(|rtt| rtt.estimate), latest);
        self.rtt = Some(Rtt { latest, estimate });
    }

    /// Finds lost packets: later ones of their class were acknowledged, by the packet or the time
    /// threshold (§6.1).
    pub fn find_lost(&mut self, now: Instant, mut lost: impl FnMut(u64, Packet)) {
        let Some(rtt) = self.rtt else { return };
        let longest = rtt.estimate.smoothed().max(rtt.latest);
        let loss_delay = (longest + Span::from_nanos(longest.as_nanos() / 8)).max(GRANULARITY);
        for flight in &mut self.classes.0 {
            flight.find_lost(now, loss_delay, &mut lost);
        }
    }

    /// Counts all packets in flight as lost; `lost` has each. Probe counts and the estimator are
    /// reset.
    pub fn abandon_all(&mut self, mut lost: impl FnMut(u64, Packet)) {
        for flight in &mut self.classes.0 {
            for (number, packet) in flight.packets.drain(..) {
                packet.into_iter().for_each(|packet| lost(number, packet));
            }
            (flight.loss_at, flight.probes, flight.unanswered) = (None, 0, 0);
        }
        (self.rtt, self.unacknowledged_from) = (None, None);
    }

    /// When the loss timer or a probe timeout expires (§6.2).
    pub fn deadline(&self) -> Option<Instant> {
        let probe_timeout = self.probe_timeout();
        let due = |flight: &Flight| flight.loss_at.or_else(|| flight.probe_at(probe_timeout));
        self.classes.0.iter().filter_map(due).min()
    }

    /// Whether the loss timer has expired.
    pub fn is_loss_due(&self, now: Instant) -> bool {
        self.classes.0.iter().any(|flight| flight.loss_at.is_some_and(|at| at <= now))
    }

    /// The probe timeout, before it is backed off.
    fn probe_timeout(&self) -> Span {
        self.rtt.map_or(INITIAL_RTT + INITIAL_RTT, |rtt| rtt.estimate.timeout(GRANULARITY))
    }

    /// Probes each class whose timeout has expired: `probe` is asked of its oldest packet, and of
    /// the next one as long as it says no, with the number of this probe since the last
    /// acknowledgement in the class. It may have the packet's frame retransmitted, though the
    /// packet may still be acknowledged. Packets to which it says no, whose frames were received or
    /// retransmitted by others, are forgotten: so there is never more than one packet more than
    /// frames, but for probes without a frame. Returns the largest number of unanswered probes
    /// among the classes probed.
    pub fn probe(&mut self, now: Instant, mut probe: impl FnMut(u32, u64, Packet) -> bool) -> u32 {
        let probe_timeout = self.probe_timeout();
        let mut most = 0;
        let oldest = self
            .classes
            .0
            .iter()
            .filter_map(|flight| flight.packets.front())
            .map(|(number, _)| *number)
            .min();
        for flight in &mut self.classes.0 {
            if flight.loss_at.is_some() || flight.probe_at(probe_timeout).is_none_or(|at| at > now)
            {
                continue;
            }
            flight.probes += 1;
            flight.unanswered += 1;
            flight.last_event_at = now;
            most = most.max(flight.unanswered);
            self.unacknowledged_from = self.unacknowledged_from.or(oldest);
            while let Some((number, place)) = flight.packets.front() {
                if place.is_some_and(|packet| probe(flight.probes, *number, packet)) {
                    break;
                }
                flight.packets.pop_front();
            }
        }
        most
    }
}

impl Flight {
    /// Finds lost packets: three later ones were acknowledged, or one was, and `loss_delay` has
    /// passed. Only the second holds for a large packet: network cards may send it later than
    /// others.
    fn find_lost(&mut self, now: Instant, loss_delay: Span, mut lost: impl FnMut(u64, Packet)) {
        self.loss_at = None;
        let Some(largest) = self.largest else { return };
        let overtaken = self.packets.partition_point(|(number, _)| *number < largest);
        for (place, (number, packet)) in self.packets.range_mut(..overtaken).enumerate() {
            let Some(Packet { sent_at, is_large, .. }) = packet else { continue };
            let due = *sent_at + loss_delay;
            if !*is_large && place + PACKET_THRESHOLD <= overtaken || due <= now {
                packet.take().into_iter().for_each(|packet| lost(*number, packet));
            } else {
                self.loss_at = Some(self.loss_at.map_or(due, |at| at.min(due)));
            }
        }
        self.forget();
    }

    fn forget(&mut self) {
        while let Some((_, None)) = self.packets.front() {
            self.packets.pop_front();
        }
    }

    /// When the probe timeout expires; it doubles with each probe.
    fn probe_at(&self, probe_timeout: Span) -> Option<Instant> {
        let backed_off = Span::from_nanos(probe_timeout.as_nanos() << self.probes.min(16));
        (!self.packets.is_empty()).then(|| self.last_event_at + backed_off.min(MAX_PROBE_INTERVAL))
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
        let lane = Lane::default();
        recovery.sent(Packet {
            sent_at: at(us),
            stream,
            lane,
            offset: 0,
            len: 100,
            is_large: false,
        })
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
        assert!(recovery.acknowledged(at(1000), [2..=2, 4..=4].into_iter(), |_, _| ()));
        assert_eq!(lost(&mut recovery, 1000), [0, 1]);
        // 3 was overtaken by one packet: it is lost 9/8 of a round trip after it was sent. 5 was
        // not overtaken.
        let due = recovery.deadline().unwrap();
        assert_eq!(due, at(3) + Span::from_nanos(996_000 / 8 * 9));
        assert_eq!(lost(&mut recovery, 2000), [3]);
    }

    #[test]
    fn what_nobody_acknowledges_has_a_number_and_nothing_else() {
        let mut recovery = Recovery::new();
        assert_eq!((sent(&mut recovery, 0), sent(&mut recovery, 0)), (0, 1));
        assert!((2..100).all(|number| recovery.skip_number() == number));
        let packets = recovery.classes[Class::default()].packets.len();
        assert_eq!((packets, sent(&mut recovery, 1)), (2, 100));
        // The receiver acknowledges these numbers as all others.
        let mut came = Vec::new();
        recovery.acknowledged(at(1000), [1..=100].into_iter(), |number, _| came.push(number));
        assert_eq!((came, lost(&mut recovery, 2000)), (alloc::vec![1, 100], alloc::vec![0]));
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
            recovery.probe(now, |_, _, _| {
                probed += 1;
                true
            });
            assert_eq!(probed, 1);
        }
        assert_eq!(waits, [20, 40, 80, 160, 320, 640, 1000, 1000, 1000]);
        // The first acknowledgement resets the backoff.
        recovery.acknowledged(now, [0..=0].into_iter(), |_, _| ());
        assert_eq!(recovery.deadline(), None);
    }

    #[test]
    fn who_is_answered_is_not_silent() {
        let mut recovery = Recovery::new();
        assert_eq!([0; 3].map(|us| sent(&mut recovery, us)), [0, 1, 2]);
        assert_eq!(recovery.deadline(), Some(at(20_000)));
        let probe_timeout =
            |recovery: &Recovery, us| recovery.deadline().unwrap().since(at(us)).as_nanos() / 1000;
        recovery.acknowledged(at(800), [0..=0].into_iter(), |_, _| ());
        // 800 µs, and four times half of that.
        assert_eq!(probe_timeout(&recovery, 800), 2400);
        // An older acknowledgement is no sample.
        recovery.acknowledged(at(900), [0..=0].into_iter(), |_, _| ());
        assert_eq!(probe_timeout(&recovery, 800), 2400);
        recovery.acknowledged(at(1000), [0..=1].into_iter(), |_, _| ());
        assert_eq!(probe_timeout(&recovery, 1000), 825 + 4 * 350);
    }

    #[test]
    fn what_was_never_sent_cannot_be_acknowledged() {
        let mut recovery = Recovery::new();
        assert!(!recovery.acknowledged(at(1), [0..=u64::MAX].into_iter(), |_, _| panic!()));
        sent(&mut recovery, 2);
        let mut came = 0;
        recovery.acknowledged(at(3), [0..=u64::MAX, 0..=5].into_iter(), |_, _| came += 1);
        assert_eq!(came, 1);
    }
}
