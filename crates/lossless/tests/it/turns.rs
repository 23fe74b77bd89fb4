//! Senders take turns for what a receiver has no room for yet.

use super::examples::{offer, take};
use super::*;

const NOW: Instant = Instant::ZERO;

/// How many frames of senders that have as much as they may hold leave before the one of a sender
/// that comes last.
fn before_a_newcomer(senders: usize, config: PortConfig) -> usize {
    let (mut switch, ids) = switch(Settings::default(), &vec![config; senders + 2]);
    let newcomer = senders + 1;
    let mut number = 0;
    for sender in 1..=senders {
        while switch.room(NOW, ids[sender]) > 0 {
            assert!(offer(&mut switch, &ids, number, sender, Some(0), 0));
            number += 1;
        }
    }
    assert!(offer(&mut switch, &ids, number, newcomer, Some(0), 0));
    core::iter::from_fn(|| take(&mut switch, ids[0])).position(|taken| taken == number).unwrap()
}

#[test]
fn who_has_little_to_send_waits_for_what_is_switched_and_no_more() {
    for senders in [1_usize, 8] {
        let before = before_a_newcomer(senders, PortConfig::default());
        assert!(before >= 1024, "all permits are taken");
        let gbit = |gbit| Shaping { rate: Rate::from_gbit(gbit), burst: 1514 };
        for (rate, most) in [(1, 4), (10, 16), (100, 128)] {
            let permits = gbit(rate).permits();
            assert_eq!(permits.frames, most);
            let before =
                before_a_newcomer(senders, PortConfig { permits, ..PortConfig::default() });
            // Who else has just come goes first, with a frame each.
            let most = most as usize;
            assert!(
                (most..most + senders).contains(&before),
                "{before} before it, {senders} senders, {rate} Gb/s"
            );
        }
    }
}

#[test]
fn who_sends_one_frame_at_a_time_gets_no_more_than_its_share() {
    let config = PortConfig { permits: Limits::frames(4), ..PortConfig::default() };
    for most_of_others in 1..=4 {
        let (mut switch, ids) = switch(Settings::default(), &[config; 5]);
        // Of 1 and 2 something always waits. Of 3 and 4 one comes when one has left.
        let most = [0, 100, 100, most_of_others, most_of_others];
        let (mut sent, mut left) = ([0; 5], [0; 5]);
        for _ in 0..4000 {
            for sender in 1..5 {
                while sent[sender] - left[sender] < most[sender] {
                    let number = 10_000 * sender as u64 + sent[sender];
                    assert!(offer(&mut switch, &ids, number, sender, Some(0), 0));
                    sent[sender] += 1;
                }
            }
            left[take(&mut switch, ids[0]).unwrap() as usize / 10_000] += 1;
        }
        assert!(left[3..].iter().all(|left| *left <= 1010), "{most_of_others}: {left:?}");
        assert!(left[1].abs_diff(left[2]) <= 10, "{most_of_others}: {left:?}");
    }
}
