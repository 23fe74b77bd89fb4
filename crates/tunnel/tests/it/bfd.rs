//! Two ends that watch the way between them, and a fabric that loses, delays and is cut.

use std::collections::VecDeque;
use std::num::{NonZeroU8, NonZeroU32};

use proptest::prelude::*;
use tunnel::bfd::{Change, Config, Interval, Output, Sessions};
use units::{Instant, Rng, Span};
use wire::bfd::{Diagnostic, Header, Packet, State};
use zerocopy::IntoBytes;

/// What the fabric does to packets, whose order it keeps.
#[derive(Clone, Copy, Debug)]
struct Fabric {
    /// The most that are lost in a row.
    lost: u32,
    /// How long each takes at least.
    delay: Span,
    /// How much longer it takes at most.
    variation: Span,
}

/// Packets in one direction.
#[derive(Default)]
struct Way {
    packets: VecDeque<(Instant, [u8; Header::LEN])>,
    lost_in_a_row: u32,
    is_cut: bool,
}

/// One end, and what has become of it.
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

    /// Notes a change of state, though not one of what the other says of its own.
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
    ways: [Way; 2],
}

impl World {
    fn new(configs: [Config; 2], fabric: Fabric, seed: u64) -> Self {
        let [a, b] = configs;
        let ends = [End::new(a, seed), End::new(b, !seed)];
        Self { now: Instant::ZERO, rng: Rng::new(seed), fabric, ends, ways: Default::default() }
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
            let arrivals =
                self.ways.iter().filter_map(|way| way.packets.front().map(|(at, _)| *at));
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
        let (way, end) = (&mut self.ways[1 - to], &mut self.ends[to]);
        while let Some((_, bytes)) = way.packets.pop_front_if(|(at, _)| *at <= self.now) {
            let packet = Packet::parse(&bytes).unwrap();
            // There is one session between these two ends.
            let named = packet.header.your_discriminator.get();
            let session = if named == 0 { end.session.get() } else { named };
            end.heard = self.now;
            let change = end.sessions.handle(self.now, session, &packet).unwrap();
            change.into_iter().for_each(|change| end.note(self.now, change));
        }
    }

    fn depart(&mut self, from: usize) {
        let (way, end) = (&mut self.ways[from], &mut self.ends[from]);
        while let Some((session, output)) = end.sessions.poll(self.now) {
            assert_eq!(session, end.session);
            match output {
                Output::Changed(change) => end.note(self.now, change),
                Output::Send(_) if way.is_cut => {}
                Output::Send(_)
                    if way.lost_in_a_row < self.fabric.lost && self.rng.below(3) > 0 =>
                {
                    way.lost_in_a_row += 1;
                }
                Output::Send(header) => {
                    way.lost_in_a_row = 0;
                    let variation =
                        Span::from_nanos(self.rng.below(self.fabric.variation.as_nanos() + 1));
                    let at = self.now + self.fabric.delay + variation;
                    let at = way.packets.back().map_or(at, |(last, _)| at.max(*last));
                    way.packets.push_back((at, header.as_bytes().try_into().unwrap()));
                }
            }
        }
    }

    /// How long two ends that are up take at most to agree, if nothing is lost: one poll may be on
    /// its way for intervals that have changed since, and another one follows. How often a final is
    /// lost has no bound, as other packets get through between.
    fn two_polls(&self, configs: &[Config]) -> Span {
        let way = self.fabric.delay.as_nanos() + self.fabric.variation.as_nanos();
        Span::from_nanos(2 * (slowest(configs).as_nanos() + 2 * way))
    }

    fn states(&self) -> [State; 2] {
        self.ends.each_ref().map(End::state)
    }

    /// How long the two take at most to find one another: each of three packets, of which the last
    /// may be lost again and again, at the pace of a session that is not up.
    fn patience(&self, configs: &[Config]) -> Span {
        let pace = slowest(configs).max(Span::from_secs(1)).as_nanos();
        let packet = pace * u64::from(self.fabric.lost + 1)
            + self.fabric.delay.as_nanos()
            + self.fabric.variation.as_nanos();
        Span::from_nanos(4 * packet)
    }
}

/// The longest interval of them all.
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

/// Configurations of two ends, others that they change to, and a fabric that is good enough for all
/// of them: if a packet gets through before as many as the least multiplier says are missing, it
/// comes within the detection time. The span is the least interval of them all.
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
            // A multiplier of 1 leaves a tenth of the interval, others whole intervals that are not
            // lost.
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
    fn a_cut_is_noticed_in_time_and_heals(
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

        for (way, is_cut) in world.ways.iter_mut().zip(cut) {
            way.is_cut = is_cut;
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
            // One that still hears is told of it, or hears too little as the other has slowed down.
            if cut[1 - me] {
                prop_assert_eq!(diagnostic, Diagnostic::DETECTION_TIME_EXPIRED);
                prop_assert_eq!(when, end.heard + detection[me], "no sooner and no later");
            }
            prop_assert_ne!(end.state(), State::Up);
        }

        let changes = world.ends.each_ref().map(|end| end.changes.len());
        for way in &mut world.ways {
            way.is_cut = false;
        }
        world.run(patience);
        prop_assert_eq!(world.states(), UP);
        world.run(patience);
        for (end, before) in world.ends.iter().zip(changes) {
            // Init, or an end of it, and up.
            let ups = end.changes[before..].iter().filter(|(_, state, _)| *state == State::Up);
            prop_assert_eq!(ups.count(), 1, "it flapped: {:?}", &end.changes[before..]);
        }
    }

    #[test]
    fn new_intervals_come_into_force_without_a_flap(
        seed: u64, (configs, least, fabric) in worlds(), times in prop::collection::vec((0_usize..4, 0_u64..3_000), 1..12),
    ) {
        // A final does not say which poll it is to. So that there is no doubt, it comes before
        // there is another: after jitter has come off, intervals are 3/4 of what they are.
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
