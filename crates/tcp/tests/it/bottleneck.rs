//! A whole connection over one slow link with a short queue.

use std::collections::VecDeque;

use tcp::{Config, Control, Profile};
use units::{Instant, Span};

use crate::world::{Channel, Side, World};

/// 50 Mb/s behind a queue of a hundred packets, 20 ms there and back.
fn bottleneck() -> Channel {
    let mut leaving: VecDeque<Instant> = VecDeque::new();
    Box::new(move |departure| {
        let delay = Span::from_millis(10);
        if departure.from == Side::Server {
            return vec![(delay, false)];
        }
        while leaving.front().is_some_and(|at| *at <= departure.at) {
            leaving.pop_front();
        }
        if leaving.len() > 100 {
            return vec![];
        }
        let bytes =
            u64::from(departure.segment.len) + u64::from(departure.segment.header_bytes()) + 34;
        let start = leaving.back().copied().unwrap_or(departure.at).max(departure.at);
        let at = start + Span::from_nanos(bytes * 160);
        leaving.push_back(at);
        vec![(at.since(departure.at) + delay, false)]
    })
}

fn linux(control: Control) -> Config {
    Config { control, ..Profile::Linux.config() }
}

/// Milliseconds until so many bytes have arrived, segments sent again, and goodput in Mb/s.
fn transfer(config: &Config, bytes: u64) -> (f64, u32, f64) {
    let mut world = World::established(config, bottleneck());
    let start = world.now;
    world.client.write(bytes);
    world.run_until(|world| world.server().delivered() == bytes);
    let (seconds, stats) = (world.now.since(start).as_secs_f64(), world.client.stats());
    assert_eq!(stats.timeouts, 0, "{bytes} bytes: {stats:?}");
    let dropped = world.sent_by(Side::Client).filter(|departure| departure.dropped).count();
    assert_eq!(stats.retransmitted as usize, dropped, "what was not lost is not sent again");
    (1e3 * seconds, stats.retransmitted, 8e-6 * bytes as f64 / seconds)
}

#[test]
fn reno_does_what_linux_does() {
    // Linux 6.18 over such a link: 31.8 ms, 72.4 ms, and 225 to 231 ms with 176 segments sent
    // again.
    for (kib, least, most, again) in
        [(20, 31.0, 32.0, 0..=0), (100, 70.0, 73.0, 0..=0), (1024, 225.0, 235.0, 165..=195)]
    {
        let (ms, resent, _) = transfer(&linux(Control::Reno), kib << 10);
        assert!(
            (least..most).contains(&ms) && again.contains(&resent),
            "{kib} KiB: {ms} ms, {resent} again"
        );
    }
    // In 30 s 47.2 Mb/s, with 214.
    let (_, again, goodput) = transfer(&linux(Control::Reno), 180_000_000);
    assert!((47.0..48.0).contains(&goodput) && (190..240).contains(&again), "{goodput} {again}");
}

#[test]
fn hystart_ends_slow_start_before_the_queue_overflows() {
    assert_eq!(transfer(&linux(Control::Cubic), 1 << 20).1, 0);
    let blind = Config { hystart: false, ..linux(Control::Cubic) };
    assert!(transfer(&blind, 1 << 20).1 > 100);
}

#[test]
fn everybody_fills_the_link() {
    for control in [Control::Reno, Control::Cubic, Control::Vegas] {
        let (_, _, goodput) = transfer(&linux(control), 30_000_000);
        assert!(goodput > 45.0, "{control}: {goodput}");
    }
}

#[test]
fn vegas_keeps_the_queue_short() {
    // Three segments initially: slow start ends before the queue overflows.
    let config = Config { control: Control::Vegas, ..Profile::Linux2013.config() };
    assert_eq!(transfer(&config, 30_000_000).1, 0);
}
