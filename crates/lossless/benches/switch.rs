//! The core by itself: what a decision costs, without memory to move.
//!
//! `cargo bench -p lossless`. One iteration is a burst of 64 frames, from offer to release.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lossless::{
    ClassKind, Classes, Destination, Limits, Offered, PortConfig, PortId, Settings, Size, Switch,
};
use units::{Class, Instant};

const BURST: u32 = 64;

fn switch(kind: ClassKind, ports: usize, egress: u32) -> (Switch<u32>, Vec<PortId>) {
    let mut switch = Switch::new(Settings { classes: Classes::all(kind), ..Settings::default() });
    let config = PortConfig { egress: Limits::frames(egress), ..PortConfig::default() };
    let ids: Vec<_> =
        (0..ports).map(|_| switch.attach(Instant::ZERO, config).expect("few ports")).collect();
    (switch, ids)
}

const SIZE: Size = Size { bytes: 64, frames: 1 };

fn drain(switch: &mut Switch<u32>, now: Instant, id: PortId) -> u32 {
    let mut taken = 0;
    let mut visit = switch.departures(now, id);
    while let Some(head) = visit.head() {
        taken += u32::from(head.delivered().is_some());
    }
    taken
}

fn one_to_one(c: &mut Criterion) {
    let mut group = c.benchmark_group("one to one");
    group.throughput(Throughput::Elements(u64::from(BURST)));
    for (name, kind) in [("lossless", ClassKind::Lossless), ("lossy", ClassKind::Lossy)] {
        let (mut switch, ids) = switch(kind, 2, 1024);
        let now = Instant::from_nanos(1);
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut visit = switch.arrivals(now, ids[0]);
                for frame in 0..BURST {
                    let offered =
                        visit.offer(Destination::One(ids[1]), Class::default(), frame, SIZE);
                    assert_eq!(offered, Offered::Held);
                }
                drop(visit);
                drain(&mut switch, now, ids[1])
            });
        });
    }
    group.finish();
}

/// Eight senders, a receiver with room for four frames: every frame waits its turn.
fn incast(c: &mut Criterion) {
    let mut group = c.benchmark_group("incast");
    group.throughput(Throughput::Elements(u64::from(BURST)));
    let (mut switch, ids) = switch(ClassKind::Lossless, 9, 4);
    let now = Instant::from_nanos(1);
    group.bench_function("8 to 1, waiting", |b| {
        b.iter(|| {
            for id in &ids[..8] {
                let mut visit = switch.arrivals(now, *id);
                for frame in 0..BURST / 8 {
                    let offered =
                        visit.offer(Destination::One(ids[8]), Class::default(), frame, SIZE);
                    assert_eq!(offered, Offered::Held);
                }
            }
            drain(&mut switch, now, ids[8])
        });
    });
    group.finish();
}

criterion_group!(benches, one_to_one, incast);
criterion_main!(benches);
