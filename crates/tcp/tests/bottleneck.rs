//! A whole connection over one slow link with a short queue.

mod world;

use std::collections::VecDeque;

use tcp::{Config, Control, Profile};
use units::{Instant, Span};

use world::{Channel, Side, World};

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
        let bytes = u64::from(departure.segment.len) + u64::from(departure.segment.header_bytes()) + 34;
        let start = leaving.back().copied().unwrap_or(departure.at).max(departure.at);
        let at = start + Span::from_nanos(bytes * 160);
        leaving.push_back(at);
        vec![(at.since(departure.at) + delay, false)]
    })
}

/// Milliseconds until so many bytes have arrived, segments sent again, and goodput in Mb/s.
fn transfer(profile: Profile, control: Control, bytes: u64) -> (f64, u32, f64) {
    let mut world = World::established(&Config { control, ..profile.config() }, bottleneck());
    let start = world.now;
    world.client.write(bytes);
    world.run_until(|world| world.server().delivered() == bytes);
    let (seconds, stats) = (world.now.since(start).as_secs_f64(), world.client.stats());
    assert_eq!(stats.timeouts, 0, "{profile} {control} {bytes}: {stats:?}");
    let dropped = world.sent_by(Side::Client).filter(|departure| departure.dropped).count();
    assert_eq!(stats.retransmitted as usize, dropped, "what was not lost is not sent again");
    (1e3 * seconds, stats.retransmitted, 8e-6 * bytes as f64 / seconds)
}

#[test]
fn reno_does_what_linux_does() {
    // Linux 6.18 over such a link: 31.8 ms; 225 to 231 ms with 176 segments sent again; 47.2 Mb/s with 214.
    let (ms, again, _) = transfer(Profile::Linux, Control::Reno, 20_000);
    assert!((31.0..32.0).contains(&ms) && again == 0, "{ms}");
    let (ms, again, _) = transfer(Profile::Linux, Control::Reno, 1_000_000);
    assert!((215.0..235.0).contains(&ms) && (155..190).contains(&again), "{ms} {again}");
    let (_, again, goodput) = transfer(Profile::Linux, Control::Reno, 180_000_000);
    assert!((47.0..48.0).contains(&goodput) && (190..240).contains(&again), "{goodput} {again}");
}

#[test]
fn everybody_fills_the_link() {
    for control in [Control::Reno, Control::Cubic, Control::Vegas] {
        let (_, _, goodput) = transfer(Profile::Linux, control, 30_000_000);
        assert!(goodput > 45.0, "{control}: {goodput}");
    }
}

#[test]
fn vegas_keeps_the_queue_short() {
    // Three segments initially: slow start ends before the queue overflows.
    assert_eq!(transfer(Profile::Linux2013, Control::Vegas, 30_000_000).1, 0);
}
