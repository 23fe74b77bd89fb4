//! What it costs to find a machine among 63,000, and to answer who asks for one.
//!
//! `cargo bench -p datapath --bench directory`. One iteration is one machine, each another; or one
//! directory.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use criterion::{Criterion, criterion_group, criterion_main};
use datapath::{Directory, LONGEST_ANSWER, answer, is_question};
use model::{Member, NetworkName, NetworkSpec};
use units::{Mac, Rng};
use wire::{Offload, arp};
use zerocopy::IntoBytes;

/// 3,000 hosts with 21 machines each.
const HOSTS: u32 = 3_000;
const MACHINES: u32 = 63_000;

fn vtep(machine: u32) -> IpAddr {
    Ipv4Addr::from_bits(0xc612_0000 + machine % HOSTS).into()
}

fn address(machine: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0001 + machine)
}

/// All machines in so many networks, as many in each.
fn networks(count: u32) -> Vec<NetworkSpec> {
    let member = |machine| Member {
        mac: Mac::local(machine),
        addresses: vec![address(machine).into()],
        vtep: vtep(machine).into(),
        label: 1 + machine / HOSTS,
    };
    let network = |number| {
        let members = (0..MACHINES).filter(|machine| machine % count == number).map(member);
        let name = NetworkName(format!("network-{number}"));
        NetworkSpec::new(name, 1 + number, members.collect())
    };
    (0..count).map(network).collect()
}

fn directories(c: &mut Criterion) {
    for count in [1, 7_000] {
        let specs = networks(count);
        let mut group = c.benchmark_group(format!("63000 machines in {count}"));
        let make = || Directory::new(&specs, &vtep(0).into()).expect("they can stand");
        group.sample_size(10);
        group.bench_function("new", |b| b.iter_with_large_drop(make));
        group.sample_size(100);
        let directory = make();
        let mut rng = Rng::new(7);
        let mut machine = move || rng.below(u64::from(MACHINES)) as u32;
        group.bench_function("place", |b| {
            b.iter(|| {
                let machine = machine();
                directory
                    .network(1 + machine % count)
                    .expect("it is there")
                    .place(Mac::local(machine))
            });
        });
        let mut buffer = [0; LONGEST_ANSWER];
        group.bench_function("answer", |b| {
            b.iter(|| {
                let machine = machine();
                let request = arp::Frame::request((Mac::local(0), address(0)), address(machine));
                let network = directory.network(1 + machine % count).expect("it is there");
                let answer = answer(network, 1400, request.as_bytes(), &Offload::NONE, &mut buffer);
                black_box(answer);
            });
        });
        group.finish();
    }
    let frame = [&[2; 12], &[8, 0, 0x45][..], &[0; 1385]].concat();
    c.bench_function("is_question", |b| {
        b.iter(|| is_question(1400, black_box(&frame), frame.len(), &Offload::NONE));
    });
}

criterion_group!(benches, directories);
criterion_main!(benches);
