//! What holds over any channel that lets something through.
//!
//! Seeds make channels that lose, copy, delay, reorder and mark, and applications that write, read
//! and close when they please. The referee in `world` looks at every segment; here it is asked that
//! everything arrives and everything ends. `PROPTEST_CASES=60000 cargo test -p tcp --test it laws`
//! looks harder.

use proptest::prelude::*;
use tcp::{Config, Control, Flags, Nagle, Profile, SackBlocks, Segment, State, Timestamps};
use units::{Rng, Span};

use crate::world::{Channel, Side, World};

/// What a channel does, in thousandths of its segments.
#[derive(Clone, Debug)]
struct Weather {
    lost: u64,
    copied: u64,
    marked: u64,
    /// Segments that take up to `late` more than the others, and so are overtaken.
    overtaken: u64,
    late: Span,
    delay: Span,
    seed: u64,
}

impl Weather {
    fn channel(&self) -> Channel {
        let weather = self.clone();
        let mut rng = Rng::new(self.seed);
        Box::new(move |_| {
            let mut passage = Vec::new();
            let copies = 1 + u64::from(rng.below(1000) < weather.copied);
            for _ in 0..copies {
                if rng.below(1000) < weather.lost {
                    continue;
                }
                let late = rng.below(1000) < weather.overtaken;
                let extra = if late { rng.below(weather.late.as_nanos() + 1) } else { 0 };
                let delay = weather.delay + Span::from_nanos(extra);
                passage.push((delay, rng.below(1000) < weather.marked));
            }
            passage
        })
    }
}

fn weather() -> impl Strategy<Value = Weather> {
    let rates = (0..250u64, 0..100u64, 0..300u64, 0..300u64);
    (rates, 1..20_000u64, 1..30_000u64, any::<u64>()).prop_map(
        |(rates, delay_us, late_us, seed)| Weather {
            lost: rates.0,
            copied: rates.1,
            marked: rates.2,
            overtaken: rates.3,
            late: Span::from_micros(late_us),
            delay: Span::from_micros(delay_us),
            seed,
        },
    )
}

fn config() -> impl Strategy<Value = Config> {
    let profile = prop::sample::select(vec![Profile::Linux, Profile::Linux2013, Profile::FreeBsd9]);
    let control =
        prop::sample::select(vec![Control::Reno, Control::Cubic, Control::Vegas, Control::Dctcp]);
    let nagle = prop::sample::select(vec![Nagle::Off, Nagle::Classic, Nagle::Minshall]);
    let buffer = prop::sample::select(vec![1_000u32, 5_000, 20_000, 65_535, 65_536, 1 << 20]);
    let bits = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (profile, control, nagle, buffer, bits, 64..2000u16).prop_map(
        |(profile, control, nagle, receive_buffer, bits, mss)| {
            let base = profile.config();
            Config {
                mss,
                control,
                nagle,
                receive_buffer,
                timestamps: base.timestamps.filter(|_| bits.0),
                prr: bits.1,
                undo: bits.2,
                ecn: bits.3,
                auto_read: bits.4,
                time_wait: Span::from_secs(1),
                ..base
            }
        },
    )
}

/// A message, and whether the next one waits until it has arrived.
fn messages() -> impl Strategy<Value = Vec<(bool, u64, bool)>> {
    prop::collection::vec((any::<bool>(), 1..30_000u64, any::<bool>()), 0..8)
}

fn world(configs: &[Config; 2], weather: &Weather, isns: [u32; 2]) -> World {
    let mut world = World::between(&configs[0], &configs[1], isns, weather.channel());
    world.read_every = Some(Span::from_millis(3));
    world
}

/// Every message arrives whole, and in the end nobody holds anything.
fn converse(world: &mut World, messages: &[(bool, u64, bool)]) {
    let (mut up, mut down) = (0, 0);
    world.run_until(|world| world.server.is_some());
    for &(is_up, bytes, waits) in messages {
        if is_up {
            assert_eq!(world.client.write(bytes), bytes);
            up += bytes;
        } else {
            assert_eq!(world.server().write(bytes), bytes);
            down += bytes;
        }
        if waits {
            world.run_until(|world| {
                world.server().delivered() == up && world.client.delivered() == down
            });
        }
    }
    world.run_until(|world| world.server().delivered() == up && world.client.delivered() == down);
    world.settle();
    assert_eq!((world.client.acknowledged(), world.server().acknowledged()), (up, down));
    assert_eq!(world.client.stats().in_flight, 0);
}

/// Both sides close and the connection is over, for both.
fn part(world: &mut World, first: Side, waits: bool) {
    let close = |world: &mut World, side| match side {
        Side::Client => world.client.close(),
        Side::Server => world.server().close(),
    };
    close(world, first);
    let second = if first == Side::Client { Side::Server } else { Side::Client };
    if waits {
        world.run_until(|world| match second {
            Side::Client => world.client.peer_closed(),
            Side::Server => world.server().peer_closed(),
        });
    }
    close(world, second);
    world.run_until(|world| world.client.is_closed() && world.server().is_closed());
    assert!(world.client.peer_closed() || world.client.was_reset());
    assert!(world.server().peer_closed() || world.server().was_reset());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_once_and_in_order(
        client in config(),
        server in config(),
        weather in weather(),
        messages in messages(),
        isns in any::<[u32; 2]>(),
        client_is_first in any::<bool>(),
        waits in any::<bool>(),
    ) {
        let mut world = world(&[client, server], &weather, isns);
        converse(&mut world, &messages);
        part(&mut world, if client_is_first { Side::Client } else { Side::Server }, waits);
    }

    #[test]
    fn numbers_wrap(config in config(), weather in weather(), before in any::<[u16; 2]>()) {
        let isns = before.map(|before| u32::MAX - u32::from(before) / 2);
        let mut world = world(&[config, config], &weather, isns);
        converse(&mut world, &[(true, 100_000, false), (false, 50_000, true), (true, 10_000, true)]);
    }

    #[test]
    fn data_and_end_may_be_written_before_there_is_a_connection(
        config in config(),
        weather in weather(),
        bytes in 0..20_000u64,
    ) {
        let mut world = world(&[config, config], &weather, [7, 8]);
        prop_assert_eq!(world.client.write(bytes), bytes);
        world.client.close();
        prop_assert_eq!(world.client.write(1), 0);
        world.run_until(|world| world.server.as_ref().is_some_and(|server| server.peer_closed()));
        prop_assert_eq!(world.server().delivered(), bytes);
        world.server().close();
        world.run_until(|world| world.client.is_closed() && world.server().is_closed());
    }

    #[test]
    fn a_channel_that_only_delays_makes_nobody_repeat_himself(
        config in config(),
        delay_us in 1..50_000u64,
        messages in messages(),
    ) {
        let delay = Span::from_micros(delay_us);
        let weather =
            Weather { lost: 0, copied: 0, marked: 0, overtaken: 0, late: Span::ZERO, delay, seed: 0 };
        let mut world = world(&[config, config], &weather, [1, 2]);
        converse(&mut world, &messages);
        for stats in [world.client.stats(), world.server().stats()] {
            prop_assert_eq!((stats.timeouts, stats.fast_recoveries), (0, 0));
            // A probe may be faster than a delayed acknowledgement; it is not a loss.
            prop_assert_eq!(stats.retransmitted, stats.tail_probes);
        }
        prop_assert_eq!(world.client.state(), State::Established);
        // At rest no timer runs.
        prop_assert_eq!((world.client.next_deadline(), world.server().next_deadline()), (None, None));
    }
}

/// A segment that makes some sense where the connection stands.
fn nonsense(rng: &mut Rng, seen: &[Segment]) -> Segment {
    let mut segment = seen[rng.below(seen.len() as u64) as usize];
    let mut near = |number: u32| match rng.below(4) {
        0 => number,
        1 => number.wrapping_add(rng.below(10_000) as u32).wrapping_sub(5_000),
        2 => number.wrapping_add(rng.below(3) as u32).wrapping_sub(1),
        _ => rng.next_u64() as u32 >> rng.below(32),
    };
    segment.seq = near(segment.seq);
    segment.ack = near(segment.ack);
    let mut sack = SackBlocks::default();
    for _ in 0..3 {
        let start = near(segment.ack);
        sack.push(start, near(start));
    }
    segment.timestamps =
        segment.timestamps.map(|it| Timestamps { value: near(it.value), echo: near(it.echo) });
    if rng.below(2) == 0 {
        segment.sack = sack;
    }
    match rng.below(8) {
        0 => segment.len = rng.below(65_536) as u16,
        1 => segment.window = rng.below(65_536) as u16,
        2 => segment.flags = Flags(rng.next_u64() as u8 & !Flags::RST.0),
        3 => segment.timestamps = None,
        4 => segment.syn = None,
        _ => {}
    }
    segment
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nonsense_is_survived(config in config(), seed in any::<u64>()) {
        let mut world = World::established(&config, crate::world::steady(crate::world::DELAY));
        world.read_every = Some(Span::from_millis(1));
        world.client.write(5_000);
        world.settle();
        let mut seen: Vec<Segment> = world.log.iter().map(|departure| departure.segment).collect();
        let (mut end, mut now) = (world.client, world.now);
        let mut rng = Rng::new(seed);
        for _ in 0..300 {
            match rng.below(8) {
                0 => drop(end.write(rng.below(20_000))),
                1 => end.read(rng.below(5_000)),
                2 => now += Span::from_nanos(rng.next_u64() >> (30 + rng.below(30))),
                3 => now = end.next_deadline().unwrap_or(now).max(now),
                4 if rng.below(20) == 0 => end.close(),
                _ => end.handle(now, &nonsense(&mut rng, &seen), rng.below(4) == 0),
            }
            end.handle_deadline(now);
            let mut count = 0;
            while let Some(segment) = end.poll_transmit(now) {
                seen.push(segment);
                count += 1;
                prop_assert!(count < 100_000);
            }
            let stats = end.stats();
            prop_assert!(stats.cwnd > 0);
            prop_assert!(end.next_deadline().is_none_or(|at| at > now), "{:?} at {now:?}", end.next_deadline());
            prop_assert!(end.acknowledged() + end.unacknowledged() <= 5_000 + 300 * 20_000);
        }
    }
}

#[test]
fn a_blackout_is_survived() {
    for profile in [Profile::Linux, Profile::Linux2013, Profile::FreeBsd9] {
        let mut config = profile.config();
        config.mss = 1000;
        let mut world = World::established(&config, crate::world::steady(crate::world::DELAY));
        world.client.write(1_000_000);
        world.run_for(Span::from_millis(25));
        world.set_channel(Box::new(|_| vec![]));
        world.run_for(Span::from_secs(1000));
        assert!(world.client.stats().timeouts >= 9, "{:?}", world.client.stats());
        world.set_channel(crate::world::steady(crate::world::DELAY));
        world.settle();
        assert_eq!(world.server().delivered(), 1_000_000);
    }
}
