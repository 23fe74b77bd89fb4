//! The cost of BFD with 5,000 hosts, at two packets a second each.
//!
//! `cargo bench -p tunnel --bench bfd`. One iteration is one packet.
//!
//! On two virtual cores of a server that was busy with other things, receiving a packet took 15 ns
//! and sending one 100 ns. With jitter that is 11,400 packets a second in each direction, which
//! take 1.3 ms of every second.

use core::num::NonZeroU8;

use criterion::{Criterion, criterion_group, criterion_main};
use tunnel::bfd::{Config, Interval, Output, Sessions};
use units::{Instant, Span};
use wire::bfd::{Diagnostic, Flags, Header, Packet, State};

const SESSIONS: u32 = 5_000;

const INTERVAL: Span = Span::from_millis(500);

/// Sessions that are all up, and for each a packet from its far end.
fn sessions() -> (Sessions, Vec<Header>) {
    let interval = Interval::new(INTERVAL).expect("it is some microseconds");
    let config = Config {
        desired_min_tx: interval,
        required_min_rx: interval,
        multiplier: NonZeroU8::new(3).expect("it is not 0"),
        is_passive: false,
    };
    let mut sessions = Sessions::new(SESSIONS, 7);
    let mut packets = Vec::new();
    for _ in 0..SESSIONS {
        let ours = sessions.open(config).expect("there is room").get();
        let packet = |state, is_final| {
            let flags = Flags { is_final, ..Flags::default() };
            let mut header = Header::new(state, Diagnostic::NONE, flags, 9);
            header.detect_multiplier = 3;
            header.your_discriminator.set(ours);
            // The detection time is hours long.
            header.desired_min_tx.set(u32::MAX);
            header.required_min_rx.set(500_000);
            header
        };
        hear(&mut sessions, Instant::ZERO, &packet(State::Init, false));
        while sessions.poll(Instant::ZERO).is_some() {}
        hear(&mut sessions, Instant::ZERO, &packet(State::Up, true));
        packets.push(packet(State::Up, false));
    }
    (sessions, packets)
}

fn hear(sessions: &mut Sessions, now: Instant, header: &Header) {
    let packet = Packet { header, authentication: None };
    sessions.handle(now, header.your_discriminator.get(), &packet).expect("it is for a session");
}

fn packets(c: &mut Criterion) {
    let mut group = c.benchmark_group("5,000 sessions");
    let (mut sessions, packets) = sessions();
    let mut now = Instant::ZERO;
    // From the far ends in random order, so that caches do not help.
    let mut order = (0..).map(|count: usize| count * 2_741 % packets.len());
    group.bench_function("packet in", |b| {
        b.iter(|| hear(&mut sessions, now, &packets[order.next().expect("it has no end")]));
    });
    let mut heard = now;
    group.bench_function("packet out", |b| {
        b.iter(|| {
            loop {
                if let Some((_, Output::Send(header))) = sessions.poll(now) {
                    return header;
                }
                now = sessions.deadline().expect("all are up");
                if now.since(heard) > Span::from_secs(3_600) {
                    packets.iter().for_each(|header| hear(&mut sessions, now, header));
                    heard = now;
                }
            }
        });
    });
    group.finish();
}

criterion_group!(benches, packets);
criterion_main!(benches);
