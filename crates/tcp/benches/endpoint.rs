//! What an endpoint costs, over a channel that loses nothing and takes no time.
//!
//! `cargo bench -p tcp`. One element is one segment, data or acknowledgement, sent by one endpoint
//! and handled by the other.

use std::collections::VecDeque;
use std::mem::size_of;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tcp::{Config, Control, Endpoint, Segment};
use units::{Instant, Span};

/// Two endpoints and what flies between them.
struct Pair {
    now: Instant,
    client: Endpoint,
    server: Endpoint,
    flying: [VecDeque<Segment>; 2],
    handled: u64,
}

impl Pair {
    fn new(config: &Config) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut client = Endpoint::connect(config, 1);
        let syn = client.poll_transmit(now).expect("a SYN is due");
        let server = Endpoint::accept(config, 2, &syn);
        let mut pair =
            Self { now, client, server, flying: [VecDeque::new(), VecDeque::new()], handled: 0 };
        pair.flush();
        pair.run();
        assert!(pair.client.is_established() && pair.server.is_established());
        pair
    }

    fn flush(&mut self) {
        while let Some(segment) = self.client.poll_transmit(self.now) {
            self.flying[0].push_back(segment);
        }
        while let Some(segment) = self.server.poll_transmit(self.now) {
            self.flying[1].push_back(segment);
        }
    }

    /// Until nothing flies. Every hop takes 10 µs.
    fn run(&mut self) {
        loop {
            self.now += Span::from_micros(10);
            let (there, back) = (self.flying[0].len(), self.flying[1].len());
            if there + back == 0 {
                return;
            }
            for _ in 0..there {
                let segment = self.flying[0].pop_front().expect("counted");
                self.server.handle(self.now, &segment, false);
                while let Some(segment) = self.server.poll_transmit(self.now) {
                    self.flying[1].push_back(segment);
                }
                std::hint::black_box(self.server.next_deadline());
            }
            for _ in 0..back {
                let segment = self.flying[1].pop_front().expect("counted");
                self.client.handle(self.now, &segment, false);
                while let Some(segment) = self.client.poll_transmit(self.now) {
                    self.flying[0].push_back(segment);
                }
                std::hint::black_box(self.client.next_deadline());
            }
            self.handled += (there + back) as u64;
        }
    }

    /// Sends so many bytes to the server and waits for the last acknowledgement.
    fn send(&mut self, bytes: u64) {
        let before = self.client.acknowledged();
        self.client.write(bytes);
        self.flush();
        while self.client.acknowledged() < before + bytes {
            self.run();
            if let Some(deadline) = self.server.next_deadline() {
                self.now = self.now.max(deadline);
                self.server.handle_deadline(self.now);
                self.flush();
            }
        }
    }
}

/// How many segments one call takes, at rest.
fn count(pair: &mut Pair, bytes: u64) -> u64 {
    let before = pair.handled;
    pair.send(bytes);
    pair.handled - before
}

fn transfers(c: &mut Criterion) {
    eprintln!("Endpoint {} bytes, Segment {} bytes", size_of::<Endpoint>(), size_of::<Segment>());
    let bulk = Config { receive_buffer: 128 * 1448, ..Config::default() };
    for (name, bytes) in [("bulk", 1448 * 20_000), ("message", 20_000)] {
        let mut group = c.benchmark_group(name);
        for control in [Control::Reno, Control::Cubic, Control::Vegas, Control::Dctcp] {
            let config = Config { control, slow_start_after_idle: false, ..bulk };
            let mut pair = Pair::new(&config);
            pair.send(bytes);
            let segments = count(&mut pair, bytes);
            group.throughput(Throughput::Elements(segments));
            group.bench_function(BenchmarkId::from_parameter(control), |b| {
                b.iter(|| pair.send(bytes))
            });
        }
        group.finish();
    }
}

criterion_group!(benches, transfers);
criterion_main!(benches);
