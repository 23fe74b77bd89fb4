//! How long packets of connections take, cache misses and all.
//!
//! `cargo bench -p measure --bench connections`. One core, one thread. `make`, `recall`, `look`
//! and `hit` are those of the benchmark `instructions` of crate `conntrack`. It is not there,
//! because `make count` would build Criterion with that.

#[path = "../../conntrack/benches/common/mod.rs"]
mod common;

use std::time::Duration;

use common::{World, at};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

fn connections(c: &mut Criterion) {
    let mut group = c.benchmark_group("connections");
    group.throughput(Throughput::Elements(1)).warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(3)).sample_size(20);
    for flows in [1000, 1_000_000] {
        let mut world = World::new(1_000_000);
        world.fill(flows);
        let mut next = 0_u32;
        let cache = world.cache(flows);
        for name in ["make", "recall", "look"] {
            group.bench_function(format!("{name} at {flows}"), |b| {
                b.iter(|| {
                    next = next.wrapping_add(1);
                    let flow = next.wrapping_mul(7919) % flows;
                    match name {
                        "make" => world.make(flow),
                        "look" => world.look(flow, at(next.into())),
                        _ => world.recall(flow, cache[flow as usize], at(next.into())),
                    }
                });
            });
        }
        group.bench_function(format!("hit at {flows}"), |b| {
            b.iter(|| {
                next = next.wrapping_add(1);
                world.hit(next.wrapping_mul(7919) % flows, at(next.into()));
            });
        });
    }
    // Handshakes and their ends among 900,000 others: what is over is forgotten meanwhile.
    let mut world = World::new(1_000_000);
    world.fill(900_000);
    // They move on in the wheel, to where established ones are.
    let (mut next, mut now) = (900_000_u32, 100_000_000_u64);
    world.table.expire(at(now), u32::MAX);
    group.sample_size(10).bench_function("begin, accept, close, expire at 1000000", |b| {
        b.iter_batched(
            || (),
            |()| {
                next = next.wrapping_add(1);
                // No more than 100,000 are in TIME_WAIT at once.
                now += 2_000;
                world.ask(next, at(now));
                world.accept(next, at(now));
                world.close(next, at(now));
                world.table.expire(at(now), 8);
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, connections);
criterion_main!(benches);
