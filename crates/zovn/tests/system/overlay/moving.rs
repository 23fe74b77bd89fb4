//! A port that moves from one host to another while a stream goes both ways.
//!
//! ```text
//!   web-1 ── host 0 ──┬── host 1 ── eth0 ┐
//!                     └── host 2 ── eth1 ┴ db-1
//! ```
//!
//! The machine keeps its namespace, as a virtual machine keeps its memory, and has an interface of
//! each of the two hosts.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use model::PortName;

use super::logical::{DB, Shop, WEB};
use super::world::{LONG, Machine, Plan};
use crate::common::until;

const HOSTS: [Machine; 3] =
    [Machine::new(0, "blue", 1), Machine::new(1, "blue", 2), Machine::new(2, "blue", 3)];

/// Bytes of a stream are the numbers of their places, modulo this.
const PERIOD: usize = 251;

/// Writes until it is told to end.
fn write(mut stream: &TcpStream, ends: &AtomicBool) {
    let chunk: Vec<u8> = (0..PERIOD * 64).map(|at| (at % PERIOD) as u8).collect();
    while !ends.load(Ordering::Relaxed) {
        stream.write_all(&chunk).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

/// Reads all, and counts it.
fn read(mut stream: &TcpStream, count: &AtomicU64) {
    let mut chunk = [0; 1 << 16];
    let mut all = 0;
    loop {
        let more = stream.read(&mut chunk).unwrap();
        if more == 0 {
            return;
        }
        let is_next = |(at, byte): (usize, &u8)| usize::from(*byte) == (all + at) % PERIOD;
        assert!(chunk[..more].iter().enumerate().all(is_next), "behind {all} comes something else");
        all += more;
        count.fetch_add(more as u64, Ordering::Relaxed);
    }
}

#[test]
fn a_stream_goes_on_while_its_port_moves_to_another_host() {
    let shop = Shop::on(Plan::new(&HOSTS));
    let node = format!(
        "- {{kind: TransportNode, metadata: {{name: h2}}, spec: {{vteps: [{}]}}}}\n",
        shop.world.vtep(2)
    );
    let text = shop.text() + &node;
    let moved = text.replace("port: shop/db-1, node: h1", "port: shop/db-1, node: h2");
    (0..3).for_each(|host| shop.apply_at(host, &text));
    shop.attach();
    shop.attach_at(2, DB, "eth1", Vec::new());
    let listener = shop.listen(DB, 5432);
    let one = shop.connect(WEB, DB, 5432).unwrap();
    let (other, _) = listener.accept().unwrap();
    for stream in [&one, &other] {
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
    }
    let (ends, counts) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
    let read_so_far = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    let more_than = |bytes: [u64; 2]| {
        until(|| read_so_far().iter().zip(bytes).all(|(now, before)| *now > before + (1 << 20)));
    };
    thread::scope(|scope| {
        let over = needs::Over(&ends);
        for (from, to, count) in [(&one, &other, &counts[0]), (&other, &one, &counts[1])] {
            scope.spawn(|| write(from, &ends));
            scope.spawn(|| read(to, count));
        }
        more_than([0; 2]);
        let port = PortName("db-1".into());
        let handed = shop.world.client(1).hand_over(&port, true).unwrap();
        shop.world.client(2).take_over(&port, handed).unwrap();
        shop.apply_at(1, &moved);
        shop.run(DB, &["ip", "route", "replace", "default", "via", "10.0.2.254", "dev", "eth1"]);
        shop.run(DB, &["ip", "route", "del", "10.0.2.0/24", "dev", "eth0"]);
        shop.apply_at(2, &moved);
        shop.apply_at(0, &moved);
        more_than(read_so_far());
        for machine in [WEB, DB] {
            let told = shop.run(machine, &["ss", "-Htin", "state", "established"]);
            assert!(!told.contains("retrans:"), "{told}");
        }
        drop(over);
    });
    let returned = shop.world.status(0).logical.map_or(0, |logical| logical.returned_frames);
    assert!(returned > 0, "some were underway");
    assert!(shop.world.refused(1, "moved") > 0);
    shop.world.assert_balanced();
}
