//! The fabric against what it promises, with hosts that obey their pauses.

mod examples;
mod fabrics;
mod world;

use std::collections::BTreeMap;

use fabric::{Buffer, DropReason, Link};
use lossless::{ClassKind, Classes, Scheduling};
use proptest::prelude::*;
use units::{Bytes, Class, ClassMap, Dscp, Instant, Rate, Span};
use wire::pfc;
use zerocopy::IntoBytes;

use world::{LONGEST, World, config, mac};

/// A host sends so many frames in a class.
#[derive(Clone, Debug)]
enum Deed {
    Send {
        from: usize,
        to: Option<usize>,
        class: u8,
        len: u32,
        count: usize,
    },
    /// A host pauses a class, perhaps for no time at all.
    Pause {
        host: usize,
        class: u8,
        quanta: u16,
    },
    /// Time passes.
    Wait {
        ns: u64,
    },
}

/// Of four hosts, or as many as there are.
fn any_deed() -> impl Strategy<Value = Deed> {
    let to = prop_oneof![9 => (0usize..4).prop_map(Some), 1 => Just(None)];
    let send = (0usize..4, to, 0u8..4, 60..=LONGEST, 1usize..200)
        .prop_map(|(from, to, class, len, count)| Deed::Send { from, to, class, len, count });
    let pause = (0usize..4, 0u8..4, 0u16..8000).prop_map(|(host, class, quanta)| Deed::Pause {
        host,
        class,
        quanta,
    });
    let wait = (0u64..300_000).prop_map(|ns| Deed::Wait { ns });
    prop_oneof![6 => send, 1 => pause, 3 => wait]
}

fn any_link() -> impl Strategy<Value = Link> {
    let rates = prop::sample::select(vec![1u64, 10, 25, 40]);
    (rates, 0u64..20_000).prop_map(|(gbit, ns)| Link {
        rate: Rate::from_gbit(gbit),
        delay: Span::from_nanos(ns),
        ..Link::default()
    })
}

/// The frames that one host sends another in a class.
type Streams<T> = BTreeMap<(usize, usize, Class), T>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Classes 0 and 1 are lossy, 2 and 3 lossless.
    #[test]
    fn what_comes_in_goes_out_or_is_dropped_by_name_and_a_lossless_class_drops_nothing(
        links in prop::collection::vec(any_link(), 2..5),
        buffer in 230_000u64..400_000,
        response in 0u64..20_000,
        weighted: bool,
        deeds in prop::collection::vec(any_deed(), 1..30),
    ) {
        let mut config = config(links.len(), ClassKind::Lossless);
        config.classes = Classes(ClassMap::from_fn(|class| match class.pcp() {
            0 | 1 => ClassKind::Lossy,
            _ => ClassKind::Lossless,
        }));
        for (port, link) in config.ports.iter_mut().zip(links) {
            port.link = link;
            port.buffer = Buffer { frames: 150, bytes: Bytes(buffer) };
        }
        config.pfc.response = Bytes(response);
        config.scheduling = if weighted { Scheduling::Weighted([2; 8]) } else { Scheduling::Strict };
        let hosts = config.ports.len();
        let mut world = World::new(config);
        let mut sent: Vec<u64> = Vec::new();
        // By sender: the frames for everybody.
        let mut for_all = vec![ClassMap([0; 8]); hosts];
        for deed in deeds {
            match deed {
                Deed::Send { from, to, class, len, count } => (0..count).for_each(|_| {
                    sent.push(sent.len() as u64);
                    let to = to.map(|to| to % hosts);
                    // What is for an address that the switch has not seen yet is for all, too.
                    let is_seen = |to: usize| {
                        Class::all().any(|it| world.fabric.counters(to, it).passed.frames > 0)
                    };
                    let is_for_all = !to.is_some_and(is_seen);
                    for_all[from % hosts].0[usize::from(class)] += u64::from(is_for_all);
                    world.queue(from % hosts, to, class, len);
                }),
                Deed::Pause { host, class, quanta } => {
                    let mut told = ClassMap([None; 8]);
                    told.0[usize::from(class)] = Some(quanta);
                    let host = host % hosts;
                    world.say(host, pfc::Frame::new(mac(host), &told).as_bytes());
                }
                Deed::Wait { ns } => world.run(world.now + Span::from_nanos(ns)),
            }
        }
        world.run_all();

        // Every handle comes back once; what was said to the switch has no number.
        world.released.retain(|frame| frame.number != u64::MAX);
        let mut released: Vec<u64> = world.released.iter().map(|frame| frame.number).collect();
        released.sort_unstable();
        prop_assert_eq!(&released, &sent);

        let (mut received, mut dropped) = (0, 0);
        for (host, class) in (0..hosts).flat_map(|host| Class::all().map(move |class| (host, class))) {
            let counters = world.fabric.counters(host, class);
            let refused: u64 = DropReason::all().map(|reason| counters.dropped(reason).frames).sum();
            prop_assert_eq!(counters.held.frames, 0);
            prop_assert_eq!(counters.received.frames, counters.passed.frames + refused);
            received += counters.received.frames;
            dropped += refused;
            if class.pcp() > 1 {
                // Who talks to itself is told so. What is for all waits for nobody who is slow.
                let own = counters.dropped(DropReason::Refused(lossless::Reason::SamePort)).frames;
                let slow = DropReason::Refused(lossless::Reason::SlowReceiver);
                let slow = counters.dropped(slow).frames;
                prop_assert_eq!(refused, own + slow);
                prop_assert!(slow <= for_all[host][class]);
            } else {
                prop_assert_eq!(counters.pauses_sent, 0);
            }
        }
        prop_assert_eq!(received, sent.len() as u64);
        let mut passed: Vec<u64> = world.received.iter().map(|it| it.frame.number).collect();
        passed.sort_unstable();
        passed.dedup();
        prop_assert_eq!(passed.len() as u64 + dropped, received);

        let mut last: Streams<u64> = Streams::new();
        for it in &world.received {
            let before = last.insert((it.frame.from, it.host, it.frame.class), it.frame.number);
            prop_assert!(before.is_none_or(|before| before < it.frame.number), "a frame passes another");
        }
    }

    /// The worst of headroom: nothing leaves, and its sender goes on as long as it may.
    #[test]
    fn headroom_is_enough_and_not_much_more(
        link in any_link(),
        response in 0u64..20_000,
        len in 1000..=LONGEST,
    ) {
        let mut config = config(2, ClassKind::Lossless);
        config.pfc.response = Bytes(response);
        for port in &mut config.ports {
            port.link = link;
            port.buffer.bytes = Bytes(300_000);
        }
        let headroom = config.pfc.headroom(link, u64::from(LONGEST) + 4);
        let least = headroom.saturating_sub(u64::from(3 * LONGEST) + 300) * 9 / 10;
        let xoff = 300_000 - headroom;
        let mut world = World::new(config);
        let mut told = ClassMap([None; 8]);
        told.0[3] = Some(u16::MAX);
        // The first frame tells where the receiver is.
        world.queue(1, None, 0, 60);
        world.run_all();
        world.say(1, pfc::Frame::new(mac(1), &told).as_bytes());
        world.run_all();
        (0..400).for_each(|_| world.queue(0, Some(1), 3, len));
        // A pause lasts no shorter at the fastest link.
        world.run(world.now + Span::from_micros(800));
        let counters = world.fabric.counters(0, Class::from_low_bits(3));
        prop_assert_eq!(counters.dropped(DropReason::Overrun).frames, 0);
        if link.rate >= Rate::from_gbit(10) {
            prop_assert!(counters.pauses_sent > 0);
            let above = (counters.held.bytes + u64::from(2 * LONGEST)).saturating_sub(xoff);
            prop_assert!(above >= least, "{above} of {headroom} bytes were needed");
        }
    }
}
