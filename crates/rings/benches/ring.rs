//! How fast values pass through a ring from one processor to another, by the size of a batch.
//!
//! Both sides spin, so the two processors must be otherwise idle: `cargo bench -p rings --bench ring`.

#![allow(missing_docs, reason = "criterion's macros define public items")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rings::ring::ring;

const CAPACITY: u32 = 1024;

fn across_threads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ring/two threads");
    group.throughput(Throughput::Elements(1));
    for batch in [1, 32, 256] {
        group.bench_with_input(BenchmarkId::from_parameter(batch), &batch, |bencher, &batch| {
            bencher.iter_custom(|values| pass(values, batch));
        });
    }
    group.finish();
}

fn within_a_thread(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ring/one thread");
    let (mut producer, mut consumer) = ring(CAPACITY).expect("a power of two");
    let values: Vec<u64> = (0..256).collect();
    for batch in [1, 32, 256] {
        group.throughput(Throughput::Elements(batch as u64));
        group.bench_with_input(BenchmarkId::from_parameter(batch), &batch, |bencher, &batch| {
            bencher.iter(|| {
                producer.push_slice(&values[..batch]);
                producer.publish();
                while let Some(value) = consumer.pop() {
                    black_box(value);
                }
                consumer.release();
            });
        });
    }
    group.finish();
}

/// How long it takes until `count` values have arrived, pushed and popped in batches.
fn pass(count: u64, batch: u32) -> Duration {
    let (mut producer, mut consumer) = ring(CAPACITY).expect("a power of two");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = 0;
            while next < count {
                for _ in 0..producer.room(batch).min((count - next) as u32) {
                    let _ = producer.push(next);
                    next += 1;
                }
                producer.publish();
                if producer.room(1) == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < count {
            for _ in 0..consumer.ready(batch) {
                assert_eq!(consumer.pop(), Some(next));
                next += 1;
            }
            consumer.release();
            if consumer.ready(1) == 0 {
                std::thread::yield_now();
            }
        }
    });
    begun.elapsed()
}

criterion_group!(benches, across_threads, within_a_thread);
criterion_main!(benches);
