//! How fast frames go through two container ports and the smallest switch between them.
//!
//!     cargo run --release -p tap --example forward -- tcp MTU [on|off]      offload
//!     cargo run --release -p tap --example forward -- udp SIZE [on|off]
//!     cargo run --release -p tap --example forward -- ping|idle
//!
//! The switch has the second core to itself; sender and receiver share the first.

#![allow(clippy::print_stdout, reason = "an example prints its figures")]

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/system/common.rs"]
mod common;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use common::{Container, Forwarder, Wire, config};
use rustix::thread::{CpuSet, sched_setaffinity};
use tap::TapPort;

const LONG: Duration = Duration::from_secs(4);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let word = |place: usize| arguments.get(place).map(String::as_str);
    let containers = [Container::new("one"), Container::new("two")];
    let mut configs = [config(&containers[0], 1), config(&containers[1], 2)];
    for config in &mut configs {
        config.mtu = word(1)
            .filter(|_| word(0) == Some("tcp"))
            .map_or(1500, |mtu| mtu.parse().expect("an MTU"));
        config.offload = word(2) != Some("off");
    }
    let ports = configs.map(|config| TapPort::attach(&config).expect("a port"));
    // A thread stays where the one that starts it was: the switch has a core to itself.
    stay_on(1);
    let forwarder = Forwarder::start(Wire::new(ports), 0);
    stay_on(0);
    match word(0) {
        Some("tcp") => tcp(&containers),
        Some("udp") => udp(
            &containers,
            word(1).map_or(64, |size| size.parse().expect("a frame's size")),
            &forwarder,
        ),
        Some("ping") => ping(&containers),
        _ => thread::sleep(LONG),
    }
    // It notes its time when it goes to sleep.
    thread::sleep(Duration::from_millis(200));
    let before = forwarder.processor_time();
    let frames = forwarder.seen(0) + forwarder.seen(1);
    println!(
        "the switch: {frames} frames, {:.0} ns each",
        before.as_nanos() as f64 / frames.max(1) as f64
    );
    thread::sleep(Duration::from_secs(2));
    println!(
        "idle: {:.3} % of a core",
        (forwarder.processor_time() - before).as_secs_f64() / 2.0 * 100.0
    );
    let wire = forwarder.stop();
    for port in &wire.ports {
        let mut inspector = port.inspector().expect("an inspector");
        println!("{:?} {:?}", inspector.counters().expect("counters"), inspector.look().notes);
    }
    wire.detach();
}

fn stay_on(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    // A machine with one core has nowhere else to go.
    let _ = sched_setaffinity(None, &cores);
}

fn tcp(containers: &[Container; 2]) {
    let listener = containers[1].listen("10.9.0.2:5001");
    let mut sender = containers[0].connect("10.9.0.2:5001");
    let (mut receiver, _) = listener.accept().expect("a connection");
    let sending = thread::spawn(move || {
        let begun = Instant::now();
        let bytes = vec![7; 256 << 10];
        while begun.elapsed() < LONG {
            sender.write_all(&bytes).expect("sent");
        }
    });
    let mut buffer = vec![0; 256 << 10];
    let (mut bytes, begun) = (0, Instant::now());
    loop {
        match receiver.read(&mut buffer).expect("received") {
            0 => break,
            more => bytes += more,
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    sending.join().expect("the sender ends");
    let again = containers[0].counter("Tcp", "RetransSegs");
    println!("tcp: {:.2} Gb/s, {again} retransmissions", bytes as f64 * 8e-9 / seconds);
}

fn udp(containers: &[Container; 2], size: usize, forwarder: &Forwarder) {
    let sender = containers[0].udp("10.9.0.1:0");
    sender.connect("10.9.0.2:9").expect("an address");
    let receiver = containers[1].udp("10.9.0.2:9");
    let stop = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let bytes = vec![0; size - 42];
            let mut sent = 0u64;
            while !stop.load(Relaxed) {
                sent += u64::from(sender.send(&bytes).is_ok());
            }
            sent
        });
        thread::sleep(LONG);
        stop.store(true, Relaxed);
        sending.join().expect("the sender ends")
    });
    drop(receiver);
    let frames = forwarder.seen(0);
    println!("udp {size} B: {:.0} frames/s sent, {frames} seen", sent as f64 / LONG.as_secs_f64());
}

fn ping(containers: &[Container; 2]) {
    let [one, two] = [containers[0].udp("10.9.0.1:7"), containers[1].udp("10.9.0.2:7")];
    one.connect("10.9.0.2:7").expect("an address");
    two.connect("10.9.0.1:7").expect("an address");
    thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok(len) = two.recv(&mut buffer) {
            let _ = two.send(&buffer[..len]);
            if len == 1 {
                return;
            }
        }
    });
    let (mut count, begun) = (0u64, Instant::now());
    while begun.elapsed() < LONG {
        one.send(&[0; 32]).expect("sent");
        one.recv(&mut [0; 64]).expect("answered");
        count += 1;
    }
    one.send(&[0]).expect("sent");
    println!("ping: {:.1} µs there and back", begun.elapsed().as_secs_f64() * 1e6 / count as f64);
}
