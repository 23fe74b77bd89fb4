//! Notices of congestion from switches: the congestion point of QCN (802.1Qau, now IEEE 802.1Q
//! clause 30; Alizadeh et al., Allerton 2008).
//!
//! Of what waits at an output, one frame in about 150 kB is sampled. If the queue is longer than it
//! should be, or grows, the sender of that frame is told how much: how far the queue is above
//! [`SET_POINT`], and twice how much it grew since the sample before. The more there is to tell,
//! the sooner the next frame is sampled.
//!
//! A frame that waits for nothing is not sampled: it tells of no congestion.

use units::Rng;

use crate::packet::Handle;

/// How long a queue should be, in bytes (`cpQSp`).
const SET_POINT: i64 = 26_000;

/// How much more growth counts than length (`cpW`).
const WEIGHT: i64 = 2;

/// The strongest feedback: 6 bits.
const MOST: i64 = 63;

/// Bytes from one sample to the next, by the feedback's first three bits (`cpSampleBase` divided by
/// the standard's table).
const BASE: [i64; 8] = [150_000, 75_000, 50_000, 37_500, 30_000, 25_000, 21_500, 18_500];

/// By how much that differs at random, in hundredths, each way.
const JITTER: i64 = 15;

/// A frame whose sender is to be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    /// The frame, which waits at its output.
    pub handle: Handle,
    /// How much congestion there is, 1 to 63.
    pub feedback: u8,
}

/// The outputs of all switches.
#[derive(Debug)]
pub(super) struct Sampling {
    /// By port and lane.
    points: Vec<Point>,
    /// The lanes whose senders are told.
    pub lanes: Vec<bool>,
    rng: Rng,
    /// The last frame that was sampled, if nobody took it yet.
    pub sampled: Option<Sampled>,
}

/// One lane of an output.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// Bytes until the next sample.
    left: i64,
    /// What waited at the last one.
    before: i64,
}

impl Sampling {
    pub(super) fn new(places: usize, lanes: Vec<bool>, seed: u64) -> Self {
        let point = Point { left: BASE[0], before: 0 };
        Self { points: vec![point; places], lanes, rng: Rng::new(seed), sampled: None }
    }

    /// A frame of so many bytes waits at an output, where so many wait with it.
    pub(super) fn see(&mut self, place: usize, handle: Handle, bytes: u32, waiting: u64) {
        let point = &mut self.points[place];
        point.left -= i64::from(bytes);
        if point.left > 0 {
            return;
        }
        let waiting = i64::try_from(waiting).unwrap_or(i64::MAX / 8);
        let feedback = feedback(waiting, point.before);
        point.before = waiting;
        let base = BASE[usize::from(feedback >> 3)];
        let part = base / 100 * JITTER;
        point.left = base - part + self.rng.below(2 * part as u64 + 1) as i64;
        if feedback > 0 {
            self.sampled = Some(Sampled { handle, feedback });
        }
    }
}

/// How much congestion a queue tells of that is so long, and was so long before.
fn feedback(waiting: i64, before: i64) -> u8 {
    let excess = waiting - SET_POINT + WEIGHT * (waiting - before);
    let most = SET_POINT * (2 * WEIGHT + 1);
    (excess.clamp(0, most) * MOST / most) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_how_long_a_queue_is_and_how_much_it_grew() {
        assert_eq!(feedback(26_000, 26_000), 0);
        assert_eq!(feedback(13_000, 0), 6, "it grew by as much as half of what it should be");
        assert_eq!(feedback(52_000, 26_000), 37);
        assert_eq!(feedback(52_000, 78_000), 0, "it shrinks already");
        assert_eq!(feedback(1_000_000, 0), 63);
    }

    #[test]
    fn the_more_there_is_to_tell_the_sooner_the_next_frame_is_sampled() {
        let samples = |waiting: u64| {
            let mut sampling = Sampling::new(1, vec![true], 7);
            let mut told = 0;
            for _ in 0..10_000 {
                sampling.see(0, Handle::NONE, 1500, waiting);
                told += u32::from(sampling.sampled.take().is_some());
            }
            told
        };
        assert_eq!(samples(20_000), 1, "it grew, once");
        // 15 MB: a sample each 150 kB, or each 18.5 kB.
        assert!((95..=105).contains(&samples(30_000)), "{}", samples(30_000));
        assert!((730..=840).contains(&samples(300_000)), "{}", samples(300_000));
    }
}
