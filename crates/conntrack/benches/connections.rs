//! How long packets of connections take, cache misses and all.
//!
//! `cargo bench -p conntrack --bench connections`. One core, one thread. `make`, `look` and `hit`
//! are those of the benchmark `instructions`.

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
        for (name, is_made) in [("make", true), ("look", false)] {
            group.bench_function(format!("{name} at {flows}"), |b| {
                b.iter(|| {
                    next = next.wrapping_add(1);
                    let flow = next.wrapping_mul(7919) % flows;
                    if is_made { world.make(flow) } else { world.look(flow, at(next.into())) }
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
    let (mut next, mut now) = (900_000_u32, 0_u64);
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
