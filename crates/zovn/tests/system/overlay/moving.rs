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
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use model::{HandoverTaken, PortName};

use super::controller::Followed;
use super::logical::{CONTAINERS, DB, Shop, WEB};
use super::numbered::{Tally, exchange, send};
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

/// A machine's sockets have had all segments in the order in which they were sent: none before the
/// last was lost. What was sent again says nothing of that: a sender that hears nothing for two
/// round trips asks by one segment (RFC 8985, section 7), and is told that it was there already. Of
/// several that come while a program has the socket it is told of the last (RFC 2883, section 4).
fn assert_in_order(shop: &Shop, machine: usize) {
    let told = shop.run(machine, &["ss", "-Htin", "state", "established"]);
    assert!(told.contains("bytes_received:") && !told.contains("rcv_ooopack:"), "{told}");
}

/// The objects of a shop, and a third host.
fn with_third(shop: &Shop) -> String {
    let vtep = shop.world.vtep(2);
    let node =
        format!("- {{kind: TransportNode, metadata: {{name: h2}}, spec: {{vteps: [{vtep}]}}}}\n");
    shop.text() + &node
}

/// The second host hands the database's connections over to the third, as its operator has it do.
fn hand_over(shop: &Shop, how: &str) {
    let script = format!(
        "\"$0\" hand-over db-1 {how} --socket \"$1\" | \"$0\" take-over db-1 - --json --socket \"$2\""
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_zovn")]);
    let output = command.args([1, 2].map(|host| shop.world.socket(host))).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let taken: HandoverTaken = serde_json::from_slice(&output.stdout).unwrap();
    assert!(taken.connections > 0 && taken.lost == 0, "{taken:?}");
}

/// The database sends by its interface at the third host.
fn go(shop: &Shop) {
    shop.run(DB, &["ip", "route", "replace", "default", "via", "10.0.2.254", "dev", "eth1"]);
    shop.run(DB, &["ip", "route", "del", "10.0.2.0/24", "dev", "eth0"]);
}

#[test]
fn a_stream_goes_on_while_its_port_moves_to_another_host() {
    let shop = Shop::on(Plan::new(&HOSTS));
    let text = with_third(&shop);
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
        hand_over(&shop, "--stays");
        shop.apply_at(1, &moved);
        // What comes there is given back, and what has come from there has arrived.
        let returned = || shop.world.status(0).logical.map_or(0, |it| it.returned_frames);
        until(|| returned() > 0 && shop.world.refused(1, "moved") > 0);
        let port = || shop.world.client(1).port(&PortName("db-1".into())).unwrap();
        until(|| port().ingress.total.held == 0);
        go(&shop);
        shop.apply_at(2, &moved);
        shop.apply_at(0, &moved);
        more_than(read_so_far());
        [WEB, DB].into_iter().for_each(|machine| assert_in_order(&shop, machine));
        drop(over);
    });
    shop.world.assert_balanced();
}

/// The controller tells all hosts at once, in no order. Neither of the two that the port moves
/// between has another port of its networks: they are told of these by the Binding alone. Datagrams
/// come all the while; the connection is quiet, as that of a machine that is stopped.
#[test]
fn a_port_moves_by_a_controller_with_its_frames_and_its_connection() {
    let followed = Followed::by_three();
    let shop = &followed.shop;
    let other = "- {kind: Binding, metadata: {name: web-2}, spec: {port: shop/web-2, node: h1}}\n";
    let services = "services: [postgres, {protocol: udp, ports: [5000]}]";
    let text = with_third(shop).replace(other, "").replace("services: [postgres]", services);
    // Until all hosts that have to do with it execute that it is so.
    let bind = |said: &str| {
        followed.apply(&text.replace("shop/db-1, node: h1", &format!("shop/db-1, {said}")));
        followed.zovn(&["wait", "Binding/db-1", "--timeout", "60s"]);
    };
    followed.apply(&text);
    shop.attach_one(WEB);
    shop.attach_one(DB);
    bind("node: h1, migration: {to: h2}");
    shop.attach_at(2, DB, "eth1", Vec::new());
    let listener = shop.listen(DB, 5432);
    let one = shop.connect(WEB, DB, 5432).unwrap();
    let connection = [one, listener.accept().unwrap().0];
    for stream in &connection {
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
    }
    exchange(&connection, 1 << 16);

    let [sender, receiver] = [(WEB, 0), (DB, 5000)].map(|(at, port)| shop.udp(at, port));
    receiver.set_read_timeout(Some(LONG)).unwrap();
    let to = SocketAddr::from((CONTAINERS[DB].address, 5000));
    let (ends, came) = (AtomicBool::new(false), AtomicU32::new(0));
    let more = || {
        let before = came.load(Ordering::Relaxed);
        until(|| came.load(Ordering::Relaxed) > before + 1000);
    };
    thread::scope(|scope| {
        let over = needs::Over(&ends);
        let sends = scope.spawn(|| {
            let mut sent = 0;
            while !ends.load(Ordering::Relaxed) {
                send(&sender, to, 0, sent..sent + 1, 900);
                sent += 1;
            }
            // Whoever takes this has all that came before it.
            send(&sender, to, 1, 0..1, 900);
            sent
        });
        let takes = scope.spawn(|| {
            let mut tally = Tally::default();
            while tally.next[1] == 0 {
                tally.take(&receiver);
                came.store(tally.next[0], Ordering::Relaxed);
            }
            tally
        });
        more();
        hand_over(shop, "--stays");
        hand_over(shop, "");
        bind("node: h2, migration: {to: h1}");
        go(shop);
        more();
        drop(over);
        let (sent, tally) = (sends.join().unwrap(), takes.join().unwrap());
        assert_eq!((tally.next[0], tally.again), (sent, 0));
    });
    exchange(&connection, 1 << 20);
    shop.world.client(1).detach(&PortName("db-1".into())).unwrap();
    bind("node: h2");
    exchange(&connection, 1 << 20);
    // The host that was left is told no more of the port's networks.
    let domains = |host| shop.world.client(host).logical().unwrap().domains.len();
    until(|| [0, 1, 2].map(domains) == [1, 0, 1]);
    shop.world.assert_balanced();
}
