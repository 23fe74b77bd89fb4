//! The switch between ports in its own memory, generators and sinks included.
//!
//! `cargo bench -p measure --bench memory`. One iteration is a round: a burst of 64 frames from
//! each sender, a turn of the switch, and all that the receivers were given. Criterion's "elem" is
//! a frame. It is not in crate `forwarding`, because `make count` would build Criterion with that.

#![allow(missing_docs, reason = "criterion's macros define public items")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forwarding::{ClassKind, Flows, World};
use units::Instant;

const BURST: u64 = 64;

fn memory(c: &mut Criterion) {
    let mut group = c.benchmark_group("memory ports");
    let kinds = [("lossless", ClassKind::Lossless), ("lossy", ClassKind::Lossy)];
    for (name, kind) in kinds {
        for size in [64, 1500] {
            bench(&mut group, format!("{name} 1 to 1"), kind, size, Flows::Pairs(1), BURST);
        }
    }
    bench(
        &mut group,
        "lossless 4 to 4".into(),
        ClassKind::Lossless,
        64,
        Flows::Pairs(4),
        4 * BURST,
    );
    // The receiver takes a burst in a round, whatever waits.
    bench(&mut group, "lossless 8 to 1".into(), ClassKind::Lossless, 64, Flows::Incast(8), BURST);
    group.finish();
}

fn bench(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    name: String,
    kind: ClassKind,
    size: u32,
    flows: Flows,
    frames: u64,
) {
    let mut world = World::new(kind, size, flows).expect("a fair run");
    let mut ns = 0;
    group.throughput(Throughput::Elements(frames));
    group.bench_function(BenchmarkId::new(name, size), |b| {
        b.iter(|| {
            ns += 1_000;
            world.round(Instant::from_nanos(ns))
        });
    });
}

criterion_group!(benches, memory);
criterion_main!(benches);
