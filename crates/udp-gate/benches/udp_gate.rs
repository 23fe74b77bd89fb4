//! What a decision of the UDP gate costs: `cargo bench -p udp-gate --bench udp_gate`, as root.
//!
//! The datagrams are never transmitted: the sockets stay as they are, and only the look at them is
//! measured.

use std::hint::black_box;
use std::net::{Ipv4Addr, UdpSocket};

use criterion::{Criterion, criterion_group, criterion_main};
use kernel::netns::Namespace;
use port::FrameView;
use udp_gate::UdpGate;
use units::Mac;
use zerocopy::IntoBytes;

struct Named(String);

impl Drop for Named {
    fn drop(&mut self) {
        let _ = Namespace::delete(&self.0);
    }
}

fn frame(protocol: u8, port: u16) -> Vec<u8> {
    let udp = wire::udp::Header::new(7000, port, 1000).unwrap();
    let (from, to) = (Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2));
    let ip = wire::ipv4::Header::new(from, to, protocol, 1008).unwrap();
    let ethernet =
        wire::ethernet::Header::new(Mac::local(2), Mac::local(1), wire::ethernet::ethertype::IPV4);
    [ethernet.as_bytes(), ip.as_bytes(), udp.as_bytes(), &[0; 1000]].concat()
}

fn decide(c: &mut Criterion) {
    let name = Named(format!("zovn-t-ug-bench-{}", std::process::id()));
    let namespace = Namespace::create(&name.0).unwrap();
    let bind =
        |port| namespace.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))).unwrap().unwrap();
    let _sockets: Vec<_> = (10_000..11_000).map(bind).collect();
    let mut gate = UdpGate::load().unwrap();
    let inode = gate.serve(namespace).unwrap();
    assert_eq!(gate.sockets().count(), 1000);

    let mut run = |name: &str, frames: Vec<Vec<u8>>| {
        let mut frames = frames.iter().cycle();
        c.bench_function(name, |bencher| {
            bencher.iter(|| {
                let bytes = frames.next().expect("a cycle has no end");
                gate.verdict(inode, black_box(&FrameView::plain(bytes)))
            });
        });
    };
    run("a TCP segment", vec![frame(6, 10_000)]);
    run("a datagram for one socket", vec![frame(17, 10_000)]);
    run(
        "datagrams for 1,000 sockets in turn",
        (10_000..11_000).map(|port| frame(17, port)).collect(),
    );
    run("a datagram that nobody hears", vec![frame(17, 9_000)]);
}

criterion_group!(benches, decide);
criterion_main!(benches);
