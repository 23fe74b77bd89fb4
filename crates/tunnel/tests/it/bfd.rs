//! Two ends of a session, and a fabric that loses and delays their packets and is cut.

use std::collections::VecDeque;
use std::num::{NonZeroU8, NonZeroU32};

use proptest::prelude::*;
use tunnel::bfd::{Change, Config, Interval, Output, Sessions};
use units::{Instant, Rng, Span};
use wire::bfd::{Diagnostic, Header, Packet, State};
use zerocopy::IntoBytes;

/// What the fabric does to packets. It keeps their order.
#[derive(Clone, Copy, Debug)]
struct Fabric {
    /// The most packets lost in a row.
    lost: u32,
    /// The minimum delay.
    delay: Span,
    /// The maximum additional delay.
    variation: Span,
}

/// The packets in one direction.
#[derive(Default)]
struct Direction {
    packets: VecDeque<(Instant, [u8; Header::LEN])>,
    lost_in_a_row: u32,
    is_cut: bool,
}

/// One end, and its changes of state.
struct End {
    sessions: Sessions,
    session: NonZeroU32,
    heard: Instant,
    changes: Vec<(Instant, State, Diagnostic)>,
}

impl End {
    fn new(config: Config, seed: u64) -> Self {
        let mut sessions = Sessions::new(1, seed);
        let session = sessions.open(config).unwrap();
        Self { sessions, session, heard: Instant::ZERO, changes: Vec::new() }
    }

    /// Records a change of our state; changes of the far end's diagnostic do not count.
    fn note(&mut self, now: Instant, Change { from, to }: Change) {
        if from.state != to.state {
            self.changes.push((now, to.state, to.diagnostic));
        }
    }

    fn state(&self) -> State {
        self.sessions.get(self.session.get()).unwrap().state()
    }
}

struct World {
    now: Instant,
    rng: Rng,
    fabric: Fabric,
    ends: [End; 2],
    /// From each end.
    directions: [Direction; 2],
}

impl World {
    fn new(configs: [Config; 2], fabric: Fabric, seed: u64) -> Self {
        let [a, b] = configs;
        let ends = [End::new(a, seed), End::new(b, !seed)];
        Self {
            now: Instant::ZERO,
            rng: Rng::new(seed),
            fabric,
            ends,
            directions: Default::default(),
        }
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            for to in 0..2 {
                self.arrive(to);
            }
            for from in 0..2 {
                self.depart(from);
            }
            let arrivals = self
                .directions
                .iter()
                .filter_map(|direction| direction.packets.front().map(|(at, _)| *at));
            let deadlines = self.ends.iter().filter_map(|end| end.sessions.deadline());
            let next = arrivals.chain(deadlines).min();
            match next {
                Some(at) if at <= end => self.now = at,
                _ => break,
            }
        }
        self.now = end;
    }

    fn arrive(&mut self, to: usize) {
        let (direction, end) = (&mut self.directions[1 - to], &mut self.ends[to]);
        while let Some((_, bytes)) = direction.packets.pop_front_if(|(at, _)| *at <= self.now) {
            let packet = Packet::parse(&bytes).unwrap();
            // There is only one session between these ends.
            let named = packet.header.your_discriminator.get();
            let session = if named == 0 { end.session.get() } else { named };
            end.heard = self.now;
            let change = end.sessions.handle(self.now, session, &packet).unwrap();
            change.into_iter().for_each(|change| end.note(self.now, change));
        }
    }

    fn depart(&mut self, from: usize) {
        let (direction, end) = (&mut self.directions[from], &mut self.ends[from]);
        while let Some((session, output)) = end.sessions.poll(self.now) {
            assert_eq!(session, end.session);
            match output {
                Output::Changed(change) => end.note(self.now, change),
                Output::Send(_) if direction.is_cut => {}
                Output::Send(_)
                    if direction.lost_in_a_row < self.fabric.lost && self.rng.below(3) > 0 =>
                {
                    direction.lost_in_a_row += 1;
                }
                Output::Send(header) => {
                    direction.lost_in_a_row = 0;
                    let variation =
                        Span::from_nanos(self.rng.below(self.fabric.variation.as_nanos() + 1));
                    let at = self.now + self.fabric.delay + variation;
                    let at = direction.packets.back().map_or(at, |(last, _)| at.max(*last));
                    direction.packets.push_back((at, header.as_bytes().try_into().unwrap()));
                }
            }
        }
    }

    /// The longest time in which two ends that are up agree on new intervals if nothing is lost. A
    /// Poll for older intervals may still be in flight; then another follows. There is no bound if
    /// packets are lost: other packets may arrive while each Final is lost.
    fn two_polls(&self, configs: &[Config]) -> Span {
        let one_way = self.fabric.delay.as_nanos() + self.fabric.variation.as_nanos();
        Span::from_nanos(2 * (slowest(configs).as_nanos() + 2 * one_way))
    }

    fn states(&self) -> [State; 2] {
        self.ends.each_ref().map(End::state)
    }

    /// The longest time in which the two ends come up: three packets, each lost as often as the
    /// fabric loses packets in a row, at the interval of a session that is not up.
    fn patience(&self, configs: &[Config]) -> Span {
        let pace = slowest(configs).max(Span::from_secs(1)).as_nanos();
        let packet = pace * u64::from(self.fabric.lost + 1)
            + self.fabric.delay.as_nanos()
            + self.fabric.variation.as_nanos();
        Span::from_nanos(4 * packet)
    }
}

/// The longest of all intervals.
fn slowest(configs: &[Config]) -> Span {
    let intervals = configs.iter().flat_map(|it| [it.desired_min_tx, it.required_min_rx]);
    intervals.max().expect("there is a configuration").span()
}

fn config(multiplier: u8) -> impl Strategy<Value = Config> {
    let interval =
        || (10_000_u64..500_000).prop_map(|us| Interval::new(Span::from_micros(us)).unwrap());
    (interval(), interval(), 0_u8..3).prop_map(move |(desired_min_tx, required_min_rx, more)| {
        Config {
            desired_min_tx,
            required_min_rx,
            multiplier: NonZeroU8::new(multiplier + more).unwrap(),
            is_passive: false,
        }
    })
}

/// The interval of packets from one end to the other.
fn interval(from: &Config, to: &Config) -> Span {
    from.desired_min_tx.span().max(to.required_min_rx.span())
}

/// Configurations of two ends, others to change to, and a fabric that is good enough for all of
/// them: it loses fewer packets in a row than the smallest multiplier, and delays them by so little
/// that one always arrives within the detection time. The span is the shortest of all intervals.
fn worlds() -> impl Strategy<Value = ([Config; 4], Span, Fabric)> {
    (1_u8..5, 0_u64..300_000)
        .prop_flat_map(|(multiplier, delay_us)| {
            let configs =
                [config(multiplier), config(multiplier), config(multiplier), config(multiplier)];
            (configs, Just(multiplier), 0..multiplier, Just(delay_us), 0_u64..=1000)
        })
        .prop_map(|(configs, multiplier, lost, delay_us, variation)| {
            let directions =
                [[0, 1], [0, 3], [2, 1], [2, 3]].into_iter().flat_map(|[a, b]| [[a, b], [b, a]]);
            let least =
                directions.map(|[from, to]| interval(&configs[from], &configs[to])).min().unwrap();
            // With a multiplier of 1 only the jitter of a tenth is left for delay; with others, the
            // intervals whose packets are not lost.
            let slack = match multiplier {
                1 => least.as_nanos() / 10,
                _ => least.as_nanos() * u64::from(multiplier - 1 - lost),
            };
            (
                configs,
                least,
                Fabric {
                    lost: lost.into(),
                    delay: Span::from_micros(delay_us + 1),
                    variation: Span::from_nanos(slack / 1000 * variation),
                },
            )
        })
}

const UP: [State; 2] = [State::Up; 2];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_cut_is_detected_in_time_and_the_session_comes_up_again(
        seed: u64, (configs, _, fabric) in worlds(), cut in prop::sample::select(vec![[true, true], [true, false], [false, true]]),
        phase_us in 0_u64..2_000_000,
    ) {
        let pair = [configs[0], configs[1]];
        let mut world = World::new(pair, fabric, seed);
        let patience = world.patience(&pair);
        world.run(patience);
        prop_assert_eq!(world.states(), UP);
        world.run(patience + Span::from_micros(phase_us));
        let changes = world.ends.each_ref().map(|end| end.changes.len());
        prop_assert!(changes.iter().all(|changes| *changes <= 2), "it flapped: {:?}", changes);

        for (direction, is_cut) in world.directions.iter_mut().zip(cut) {
            direction.is_cut = is_cut;
        }
        let detection = [0, 1].map(|me| {
            let (ours, theirs) = (&pair[me], &pair[1 - me]);
            Span::from_nanos(interval(theirs, ours).as_nanos() * u64::from(theirs.multiplier.get()))
        });
        let longest = detection[0].max(detection[1]) + fabric.delay + fabric.variation;
        world.run(longest + patience);
        for me in 0..2 {
            let end = &world.ends[me];
            let (when, state, diagnostic) = end.changes[changes[me]];
            prop_assert_eq!(state, State::Down);
            // An end that still receives goes down because the other says so, or because the other
            // sends too slowly after it went down.
            if cut[1 - me] {
                prop_assert_eq!(diagnostic, Diagnostic::DETECTION_TIME_EXPIRED);
                prop_assert_eq!(when, end.heard + detection[me], "no sooner and no later");
            }
            prop_assert_ne!(end.state(), State::Up);
        }

        let changes = world.ends.each_ref().map(|end| end.changes.len());
        for direction in &mut world.directions {
            direction.is_cut = false;
        }
        world.run(patience);
        prop_assert_eq!(world.states(), UP);
        world.run(patience);
        for (end, before) in world.ends.iter().zip(changes) {
            // Perhaps Init or Down first, then Up.
            let ups = end.changes[before..].iter().filter(|(_, state, _)| *state == State::Up);
            prop_assert_eq!(ups.count(), 1, "it flapped: {:?}", &end.changes[before..]);
        }
    }

    #[test]
    fn new_intervals_take_effect_without_a_flap(
        seed: u64, (configs, least, fabric) in worlds(), times in prop::collection::vec((0_usize..4, 0_u64..3_000), 1..12),
    ) {
        // A Final does not say which Poll it answers. Here it arrives before the next Poll, so
        // there is no ambiguity: with jitter, intervals are at least 3/4 of their length.
        let longest = Span::from_nanos(least.as_nanos() * 3 / 8 / 2);
        let fabric =
            Fabric { delay: fabric.delay.min(longest), variation: fabric.variation.min(longest), ..fabric };
        let mut world = World::new([configs[0], configs[1]], fabric, seed);
        let patience = world.patience(&configs);
        world.run(patience);
        prop_assert_eq!(world.states(), UP);
        let mut last = [configs[0], configs[1]];
        for (which, ms) in times {
            last[which % 2] = configs[which];
            let end = &mut world.ends[which % 2];
            end.sessions.with(end.session.get(), |session| session.configure(configs[which])).unwrap();
            world.run(Span::from_millis(ms));
        }
        world.fabric.lost = 0;
        world.run(world.two_polls(&configs));
        for (me, end) in world.ends.iter().enumerate() {
            prop_assert!(end.changes.len() <= 2, "it flapped: {:?}", end.changes);
            let session = end.sessions.get(end.session.get()).unwrap();
            let (ours, theirs) = (&last[me], &last[1 - me]);
            prop_assert_eq!(session.interval(), interval(ours, theirs));
            let detection = interval(theirs, ours).as_nanos() * u64::from(theirs.multiplier.get());
            prop_assert_eq!(session.detection_time(), Some(Span::from_nanos(detection)));
        }
    }
}
