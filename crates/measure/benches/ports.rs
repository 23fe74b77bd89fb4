//! What a frame costs on its way from one memory port to another, everything included: the program
//! that sends it, both ports, the one copy, and the program that receives it, all on one processor.
//!
//! `cargo bench -p measure --bench ports`; no switch is between the ports, so this is what the
//! ports alone leave of a frame's time. Criterion reports ns a frame (its "elem"); the cycles that
//! follow are of the time stamp counter.
//!
//! It is not in crate `port`, because AddressSanitizer and Miri would build Criterion with that.

#![allow(missing_docs, reason = "criterion's macros define public items")]
#![allow(unsafe_code, reason = "reading the time stamp counter is an intrinsic")]
#![allow(clippy::print_stdout, reason = "a benchmark prints what it found")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use port::memory::{MemoryConfig, MemoryEnd, MemoryPort, pair};
use port::{Port, Slot, Taken};

const BATCH: usize = 64;
const CONFIG: MemoryConfig = MemoryConfig { slots: 512, slot_size: 2048 };

struct World {
    generator: MemoryEnd,
    ingress: MemoryPort,
    egress: MemoryPort,
    sink: MemoryEnd,
    arrived: Vec<Slot>,
}

impl World {
    fn new() -> Self {
        let (ingress, generator) = pair(CONFIG);
        let (egress, sink) = pair(CONFIG);
        Self { generator, ingress, egress, sink, arrived: Vec::with_capacity(BATCH) }
    }

    /// Carries one batch from end to end and returns how many frames the sink saw.
    fn carry(&mut self, size: usize) -> usize {
        self.generator.send_batch(BATCH, |bytes| {
            bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
            size
        });
        let arrived = &mut self.arrived;
        self.ingress
            .receive(BATCH, |slot, frame| {
                black_box(frame.bytes[0]);
                arrived.push(slot);
            })
            .expect("memory does not break");
        for slot in self.arrived.drain(..) {
            let taken =
                self.egress.transmit(&self.ingress.frame(slot)).expect("memory does not break");
            assert_eq!(taken, Taken::Yes);
            self.ingress.release(slot);
        }
        self.ingress.flush().expect("memory does not break");
        self.egress.flush().expect("memory does not break");
        self.sink.receive(BATCH, |frame| {
            black_box(frame.bytes[frame.bytes.len() - 1]);
        })
    }

    fn carry_frames(&mut self, frames: u64, size: usize) -> (Duration, u64) {
        let (begun, begun_cycles) = (Instant::now(), cycles());
        let mut seen = 0;
        while seen < frames {
            seen += self.carry(size) as u64;
        }
        (begun.elapsed(), cycles() - begun_cycles)
    }
}

fn forward(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("memory/forward");
    group.throughput(Throughput::Elements(1));
    for size in [64, 1500] {
        let mut world = World::new();
        group.bench_with_input(BenchmarkId::from_parameter(size), &size, |bencher, &size| {
            bencher.iter_custom(|frames| world.carry_frames(frames, size).0);
        });
        let best = (0..200).map(|_| world.carry_frames(64 * 256, size).1).min().unwrap_or(0);
        println!(
            "memory/forward/{size}: {:.1} cycles a frame at best",
            best as f64 / (64.0 * 256.0)
        );
    }
    group.finish();
}

#[cfg(target_arch = "x86_64")]
fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the counter, and Linux lets programs read it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn cycles() -> u64 {
    0
}

criterion_group!(benches, forward);
criterion_main!(benches);
