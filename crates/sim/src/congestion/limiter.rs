//! How fast one way may send: a rate that notices make smaller, as the reaction point of QCN has it
//! (802.1Qau, now IEEE 802.1Q clause 31; Alizadeh et al., Allerton 2008).
//!
//! ```text
//!  rate │╲        ╱‾‾‾‾ ‾ ‾    target
//!       │ ╲    ╱‾
//!       │  ╲_╱‾        halfway to the target at each stage: of bytes, and of time
//!       └───▲────────────────▶
//!         notice
//! ```
//!
//! It knows neither round trips nor acknowledgements: while nothing comes back, it is faster at
//! each stage. The first five stages lead halfway to where it was (fast recovery); then the target
//! moves up by [`STEP`] (active increase), and by ever more once bytes and time both are beyond
//! five (hyper-active increase).
//!
//! Nothing here knows of packets, events or hosts. The standard's defaults are the constants.

use units::Rng;

use crate::time::Time;

/// Stages of fast recovery (`rpgThreshold`).
const RECOVERY: u32 = 5;

/// The bytes of a stage (`rpgByteReset`), and its time (`rpgTimeReset`). Beyond fast recovery both
/// are half of it.
const BYTES: u64 = 150_000;
const TIME: Time = Time::from_picos(15_000_000_000);

/// By how much a stage differs from that, at random, in hundredths, each way.
const JITTER: u64 = 15;

/// How much the target moves at a stage (`rpgAiRate`, `rpgHaiRate`), in bits a second.
const STEP: u64 = 5_000_000;
const LEAP: u64 = 50_000_000;

/// The least rate (`rpgMinRate`), in bits a second.
const LEAST: u64 = 10_000_000;

/// What a notice takes of the rate: its feedback by so much, so that the strongest, 63, takes half
/// (`rpgGd`).
const GAIN: u64 = 128;

/// A way's limiter.
#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    /// The link's rate, at which nothing is limited, in bits a second.
    link: u64,
    /// The state, since the first notice until the rate is the link's again.
    limit: Option<Limit>,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    /// In bits a second.
    rate: u64,
    target: u64,
    /// Stages since the last notice.
    by_bytes: u32,
    by_time: u32,
    /// Bytes until the next one, and when it comes at the latest.
    bytes_left: u64,
    timer_at: Time,
    /// When the next frame may leave.
    next_at: Time,
}

impl Limiter {
    /// Nothing is limited. `seed` draws how long stages are.
    pub(crate) fn new(link: u64, seed: u64) -> Self {
        Self { link, limit: None, rng: Rng::new(seed) }
    }

    /// When the next frame may leave: not before this time.
    pub(crate) fn ready_at(&mut self, now: Time) -> Time {
        while let Some(limit) = &mut self.limit
            && limit.timer_at <= now
        {
            limit.by_time += 1;
            let half = limit.by_time >= RECOVERY;
            let time = self.draw(TIME.as_picos(), half);
            if let Some(limit) = &mut self.limit {
                limit.timer_at += Time::from_picos(time);
            }
            self.increase();
        }
        self.limit.map_or(Time::ZERO, |limit| limit.next_at)
    }

    /// A frame leaves.
    pub(crate) fn send(&mut self, now: Time, len: u32) {
        let Some(limit) = &mut self.limit else { return };
        let picos = u128::from(len) * 8 * 1_000_000_000_000 / u128::from(limit.rate);
        limit.next_at = limit.next_at.max(now) + Time::from_picos(picos as u64);
        limit.bytes_left = limit.bytes_left.saturating_sub(len.into());
        if limit.bytes_left > 0 {
            return;
        }
        limit.by_bytes += 1;
        let half = limit.by_bytes >= RECOVERY;
        let bytes = self.draw(BYTES, half);
        if let Some(limit) = &mut self.limit {
            limit.bytes_left = bytes;
        }
        self.increase();
    }

    /// A switch gives notice of congestion, so much of it: 1 to 63.
    pub(crate) fn notice(&mut self, now: Time, feedback: u8) {
        let (bytes_left, time) = (self.draw(BYTES, false), self.draw(TIME.as_picos(), false));
        let before = self.limit.unwrap_or(Limit {
            rate: self.link,
            target: self.link,
            by_bytes: 0,
            by_time: 0,
            bytes_left,
            timer_at: now,
            next_at: now,
        });
        // Of several notices in a row, the first has set the target.
        let has_gone_on = before.by_bytes > 0 || before.by_time > 0;
        let rate = before.rate - before.rate * u64::from(feedback.min(63)) / GAIN;
        self.limit = Some(Limit {
            rate: rate.max(LEAST),
            target: if has_gone_on { before.rate } else { before.target },
            by_bytes: 0,
            by_time: 0,
            bytes_left,
            timer_at: now + Time::from_picos(time),
            next_at: before.next_at,
        });
    }

    /// A stage is over.
    fn increase(&mut self) {
        let Some(limit) = &mut self.limit else { return };
        let Limit { by_bytes, by_time, .. } = *limit;
        if by_bytes.min(by_time) > RECOVERY {
            limit.target += LEAP * u64::from(by_bytes.min(by_time) - RECOVERY);
        } else if by_bytes.max(by_time) > RECOVERY {
            limit.target += STEP;
        }
        limit.target = limit.target.min(self.link);
        limit.rate = (limit.rate + limit.target).div_ceil(2);
        // Halfway to the link's rate for ever would be no end.
        if limit.rate >= self.link - self.link / 1000 {
            self.limit = None;
        }
    }

    /// The length of a stage, or of half a one.
    fn draw(&mut self, whole: u64, half: bool) -> u64 {
        let whole = if half { whole / 2 } else { whole };
        let part = whole / 100;
        whole - JITTER * part + self.rng.below(2 * JITTER * part + 1)
    }

    /// The rate in bits a second.
    #[cfg(test)]
    fn rate(&self) -> u64 {
        self.limit.map_or(self.link, |limit| limit.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: u64 = 10_000_000_000;

    /// Sends frames of 1,500 bytes for so long.
    fn run(limiter: &mut Limiter, from: Time, until: Time) -> Time {
        let mut now = from;
        while now < until {
            now = limiter.ready_at(now).max(now + Time::from_picos(1_200_000));
            limiter.send(now, 1500);
        }
        now
    }

    #[test]
    fn nothing_is_limited_until_there_is_a_notice() {
        let mut limiter = Limiter::new(LINK, 1);
        run(&mut limiter, Time::ZERO, Time::from_picos(1_000_000_000));
        assert_eq!(limiter.ready_at(Time::ZERO), Time::ZERO);
        assert_eq!(limiter.rate(), LINK);
    }

    #[test]
    fn the_strongest_notice_takes_half_and_five_stages_give_it_back() {
        let mut limiter = Limiter::new(LINK, 1);
        limiter.notice(Time::ZERO, 63);
        assert_eq!(limiter.rate(), LINK - LINK * 63 / 128);
        // A stage is 150 kB: five take 1.1 ms at 5 to 10 Gb/s.
        run(&mut limiter, Time::ZERO, Time::from_picos(1_200_000_000));
        assert!(limiter.rate() > LINK - LINK / 30, "{}", limiter.rate());
        run(&mut limiter, Time::from_picos(1_200_000_000), Time::from_picos(4_000_000_000));
        assert_eq!(limiter.rate(), LINK);
    }

    #[test]
    fn notices_in_a_row_take_ever_more_and_leave_the_least_rate() {
        let mut limiter = Limiter::new(LINK, 1);
        (0..100).for_each(|_| limiter.notice(Time::ZERO, 63));
        assert_eq!(limiter.rate(), LEAST);
        let limit = limiter.limit.unwrap();
        assert_eq!(limit.target, LINK, "the first has set it");
        // Time alone leads on: who sends nothing is let go all the same.
        limiter.ready_at(Time::from_picos(20_000_000_000));
        assert!(limiter.rate() > LINK / 3, "{}", limiter.rate());
    }

    #[test]
    fn a_rate_is_kept() {
        let mut limiter = Limiter::new(LINK, 1);
        (0..8).for_each(|_| limiter.notice(Time::ZERO, 32));
        let rate = limiter.rate();
        limiter.ready_at(Time::ZERO);
        let mut now = Time::ZERO;
        for _ in 0..50 {
            now = limiter.ready_at(now).max(now);
            limiter.send(now, 1500);
        }
        let expected = 50 * 1500 * 8 * 1_000_000_000_000 / u128::from(rate);
        let took = u128::from(limiter.ready_at(now).as_picos());
        assert!(took.abs_diff(expected) < 1000, "{took}, not {expected}");
    }
}
