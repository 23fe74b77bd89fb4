//! Keeps what leaves by an uplink to its link's rate, where that is declared.
//!
//! What is sent faster than the link carries it waits below us, in a queue that is first come,
//! first served. So no more is handed to the kernel than the link sends meanwhile, and what waits
//! does so where its turn can be chosen.

use std::net::IpAddr;

use units::{Gcra, Instant, Rate, Span};
use wire::{ethernet, ipv4, ipv6, udp};

use super::batch::LONGEST;

/// The part of the rate that is used, in hundredths: the rest is for what is not counted here, as
/// BFD's packets and what the kernel asks neighbours, and for a clock that differs from the link's.
const USED: u64 = 99;

/// What the link spends on a packet besides its bytes: check sequence, preamble and gap (802.3
/// §3.1.1, §4.4.2).
pub const AROUND: usize = 4 + 8 + 12;

/// The shortest frame without its check sequence (802.3 §4.4.2).
const SHORTEST: usize = 60;

/// The packet that the bucket is made for: a link with longer ones needs no deeper one.
const MTU: u32 = 1500;

/// How long one system call may keep the link busy: it is not interrupted.
const BATCH: Span = Span::from_micros(10);

/// How long the link may be busy with what lies in a socket's buffer.
const BUFFERED: Span = Span::from_micros(200);
const LEAST_BUFFER: u64 = 64 << 10;

/// How long a large segment that a card cuts may keep the link busy.
const LARGE: Span = Span::from_micros(25);

/// What is about to be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Turn {
    /// A frame.
    New,
    /// The rest of a frame that was begun, or what is sent again: it goes before new frames.
    Rest,
}

/// A link's token bucket.
#[derive(Debug)]
pub struct Pace {
    rate: Rate,
    bucket: Gcra,
    /// How much earlier a rest may go than a new frame.
    ahead: Span,
    now: Instant,
    sent_bytes: u64,
}

impl Pace {
    /// For a link of this rate, of which almost all is used.
    pub fn new(link: Rate) -> Self {
        let used = u128::from(link.bits_per_sec()) * u128::from(USED) / 100;
        let rate = u64::try_from(used).ok().and_then(Rate::from_bits_per_sec).unwrap_or(link);
        let depth = rate.bucket_bytes(MTU);
        Self {
            rate,
            bucket: Gcra::of_bytes(rate, depth),
            ahead: rate.time_for(depth.into()),
            now: Instant::ZERO,
            sent_bytes: 0,
        }
    }

    /// The rate that is kept.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The bytes that were sent, as the link counts them.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// It is `now`, until this is called again.
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// When the next datagram may go; in the past if it may now.
    pub fn ready_at(&self, turn: Turn) -> Instant {
        let at = self.bucket.ready_at();
        match turn {
            Turn::New => at,
            Turn::Rest => Instant::from_nanos(at.as_nanos().saturating_sub(self.ahead.as_nanos())),
        }
    }

    /// Whether the next datagram may go now.
    pub fn is_ready(&self, turn: Turn) -> bool {
        self.ready_at(turn) <= self.now
    }

    /// A payload of so many bytes is sent in so many packets, each with a header of the transport
    /// that is so long.
    pub fn charge(&mut self, to: IpAddr, header: usize, packets: usize, bytes: usize) {
        let ip = if to.is_ipv4() { ipv4::Header::LEN } else { ipv6::Header::LEN };
        let each = ethernet::Header::LEN + ip + header;
        let frames = (bytes + packets * each).max(packets * SHORTEST);
        let bytes = (frames + packets * AROUND) as u64;
        self.bucket.take(self.now, bytes);
        self.sent_bytes += bytes;
    }

    /// As [`charge`](Self::charge), of one datagram of UDP.
    pub fn charge_datagram(&mut self, to: IpAddr, bytes: usize) {
        self.charge(to, udp::Header::LEN, 1, bytes);
    }

    /// The most bytes that one system call sends, unless a datagram alone has more.
    pub fn batch(&self) -> usize {
        (self.rate.bytes_in(BATCH) as usize).min(LONGEST)
    }

    /// The size of a socket's send buffer.
    pub fn send_buffer(&self) -> usize {
        self.rate.bytes_in(BUFFERED).clamp(LEAST_BUFFER, i32::MAX as u64 / 2) as usize
    }

    /// Whether a large segment may be sent whole: others wait for all of it.
    pub fn takes_large(&self) -> bool {
        self.rate.bytes_in(LARGE) >= 64 << 10
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const TO: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    /// Sends packets with payloads of so many bytes for a second, as soon as each may go. Returns
    /// how many.
    fn in_a_second(pace: &mut Pace, turn: Turn, payload: usize) -> u64 {
        let (begin, mut count) = (Instant::from_nanos(5_000_000_000), 0);
        pace.set_now(begin);
        loop {
            let at = pace.ready_at(turn).max(pace.now);
            if at.since(begin) >= Span::from_secs(1) {
                return count;
            }
            pace.set_now(at);
            pace.charge_datagram(TO, payload);
            count += 1;
        }
    }

    #[test]
    fn a_link_is_never_given_more_than_it_carries() {
        for (rate, payload) in [("250mbit", 1472), ("1gbit", 1472), ("10gbit", 8972), ("1gbit", 1)]
        {
            let rate: Rate = rate.parse().unwrap();
            let mut pace = Pace::new(rate);
            let packet = (payload + 8 + 20 + 14).max(60) + 24;
            let carried = in_a_second(&mut pace, Turn::New, payload) * packet as u64 * 8;
            assert!(carried < rate.bits_per_sec(), "{carried} at {rate}");
            assert!(carried > rate.bits_per_sec() / 100 * 98, "{carried} at {rate}");
            assert_eq!(pace.sent_bytes() * 8, carried);
        }
    }

    #[test]
    fn a_rest_goes_while_new_frames_wait_and_no_faster_than_the_rate() {
        let rate = Rate::from_gbit(1);
        let mut pace = Pace::new(rate);
        pace.set_now(Instant::from_nanos(1_000_000_000));
        while pace.is_ready(Turn::New) {
            pace.charge_datagram(TO, 1472);
        }
        assert!(pace.is_ready(Turn::Rest));
        let bits = in_a_second(&mut pace, Turn::Rest, 1472) * 1538 * 8;
        assert!(bits < rate.bits_per_sec(), "{bits}");
        assert!(!pace.is_ready(Turn::New), "it waits as long as there is a rest");
    }

    #[test]
    fn what_is_below_grows_with_the_rate() {
        let of = |rate: &str| {
            let pace = Pace::new(rate.parse().unwrap());
            (pace.batch(), pace.send_buffer(), pace.takes_large())
        };
        assert_eq!(of("250mbit"), (309, 64 << 10, false));
        assert_eq!(of("10gbit"), (12_375, 247_500, false));
        assert_eq!(of("25gbit"), (30_937, 618_750, true));
        assert_eq!(of("400gbit").0, LONGEST);
    }
}
