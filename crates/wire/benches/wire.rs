//! What the switch asks of every frame, and of a large one.

use core::hint::black_box;
use core::net::Ipv4Addr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use units::Mac;
use wire::checksum::Sum;
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::{Offload, PartialChecksum, Segment, SegmentKind, ipv4, segments, tcp, udp};
use zerocopy::IntoBytes;

fn frame(protocol: u8, transport: &[u8], payload_len: usize) -> Vec<u8> {
    let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let ip = ipv4::Header::new(from, to, protocol, transport.len() + payload_len).unwrap();
    let ethernet = ethernet::Header::new(Mac::local(1), Mac::local(2), ethertype::IPV4);
    [ethernet.as_bytes(), ip.as_bytes(), transport, &vec![0; payload_len]].concat()
}

fn every_frame(c: &mut Criterion) {
    let datagram = frame(protocol::UDP, udp::Header::new(1, 2, 18).unwrap().as_bytes(), 18);
    c.bench_function("peek", |b| b.iter(|| ethernet::peek(black_box(&datagram))));
    c.bench_function("udp", |b| b.iter(|| udp::Packet::parse(black_box(&datagram), Offload::NONE)));
    let header = Offload::NONE.emit();
    c.bench_function("offload", |b| b.iter(|| Offload::parse(black_box(&header), &datagram)));
}

fn large_frames(c: &mut Criterion) {
    let mut group = c.benchmark_group("bytes");
    let full = vec![0xab; 1500];
    group.throughput(Throughput::Bytes(1500));
    group.bench_function("checksum", |b| b.iter(|| Sum::of(black_box(&full))));

    let header = tcp::Header::new(1, 2, 3, tcp::Flags::ACK);
    let large = frame(protocol::TCP, header.as_bytes(), 64_000);
    let offload = Offload {
        checksum: Some(PartialChecksum { start: 34, offset: tcp::Header::CHECKSUM_OFFSET }),
        segment: Some(Segment { kind: SegmentKind::Tcp4, ecn: false, header_len: 54, size: 1460 }),
        data_valid: false,
    };
    let mut buffer = vec![0; 1514];
    group.throughput(Throughput::Bytes(large.len() as u64));
    group.bench_function("segments", |b| {
        b.iter(|| {
            for piece in segments(black_box(&large), offload).unwrap() {
                black_box(piece.write(&mut buffer));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, every_frame, large_frames);
criterion_main!(benches);
