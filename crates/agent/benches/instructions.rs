//! How many instructions a frame costs, and whether that is still as few as it was.
//!
//! `cargo bench -p agent --bench instructions`. Time varies with whatever else the machine does; the number of
//! instructions hardly does. So each case runs under callgrind twice, a long run and a short one, and their difference
//! is what the frames alone cost. It fails if a case costs a tenth more than its bound says.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it found")]

use std::io;
use std::process::{Command, ExitCode};

use agent::bench::{ClassKind, Flows, World};
use lossless::{Arrival, Classes, Limits, PortConfig, PortId, Settings, Switch};
use units::{Instant, Mac};
use wire::ethernet::Peek;

/// What is counted, and how many instructions a frame may cost: as many as it did when it was last improved.
const CASES: [(&str, f64); 6] = [
    ("core lossless", 82.0),
    ("core lossy", 82.0),
    ("core incast", 309.0),
    ("memory lossless", 327.0),
    ("memory lossy", 327.0),
    ("memory incast", 511.0),
];

const SHORT: u64 = 128_000;
const LONG: u64 = 2 * SHORT;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, flag, case, frames] = &args[..]
        && flag == "--carry"
    {
        carry(case, frames.parse().expect("the number that `count` wrote"));
        return ExitCode::SUCCESS;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: skipped; install valgrind (Debian's package of that name) to count them");
        return ExitCode::SUCCESS;
    }
    let mut worst = ExitCode::SUCCESS;
    for (case, bound) in CASES {
        match count(case) {
            Ok(cost) if cost <= 1.1 * bound => println!("{case:16} {cost:6.1} instructions a frame"),
            Ok(cost) => {
                println!("{case:16} {cost:6.1} instructions a frame: more than {bound} and a tenth");
                worst = ExitCode::FAILURE;
            }
            Err(error) => {
                println!("{case}: cannot count: {error}");
                worst = ExitCode::FAILURE;
            }
        }
    }
    worst
}

/// Instructions a frame, with generators and sinks where there are any.
fn count(case: &str) -> io::Result<f64> {
    let (short, long) = (callgrind(case, SHORT)?, callgrind(case, LONG)?);
    Ok((long - short) as f64 / (LONG - SHORT) as f64)
}

fn callgrind(case: &str, frames: u64) -> io::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["--carry", case, &frames.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    collected
        .and_then(|(_, count)| count.trim().parse().ok())
        .ok_or_else(|| io::Error::other(said.into_owned()))
}

fn carry(case: &str, frames: u64) {
    let (layer, load) = case.split_once(' ').expect("a case is two words");
    let kind = if load == "lossy" { ClassKind::Lossy } else { ClassKind::Lossless };
    let incast = load == "incast";
    let mut round: Box<dyn FnMut(Instant) -> u64> = if layer == "core" {
        let mut core = Core::new(kind, if incast { 8 } else { 1 });
        Box::new(move |now| core.round(now))
    } else {
        let flows = if incast { Flows::Incast(8) } else { Flows::Pairs(1) };
        let mut world = World::new(kind, 64, flows).expect("a fair run");
        Box::new(move |now| world.round(now))
    };
    let mut carried = 0;
    while carried < frames {
        carried += round(Instant::from_nanos(carried));
    }
}

/// A switch that is offered frames from nobody's memory. An incast's receiver has room for four of them.
struct Core {
    switch: Switch<u32>,
    bursts: Vec<(PortId, Vec<Arrival<u32>>)>,
    receiver: PortId,
}

impl Core {
    fn new(kind: ClassKind, senders: u32) -> Self {
        let mut switch = Switch::new(Settings { classes: Classes::all(kind), ..Settings::default() });
        let room = if senders == 1 { 1024 } else { 4 };
        let config = PortConfig { egress: Limits::frames(room), ..PortConfig::default() };
        let mut attach = |number| {
            let id = switch.attach(Instant::ZERO, config).expect("few ports");
            switch.pin(Mac::local(number), 0, id);
            id
        };
        let receiver = attach(0);
        let bursts = (1..=senders).map(|sender| {
            let (source, destination) = (Mac::local(sender), Mac::local(0));
            let header = Peek { destination, source, tag: None };
            let arrival = |frame| Arrival { frame, header, bytes: 64, frames: 1 };
            (attach(sender), (0..64 / senders).map(arrival).collect())
        });
        Self { bursts: bursts.collect(), receiver, switch }
    }

    fn round(&mut self, now: Instant) -> u64 {
        for (sender, burst) in &self.bursts {
            let mut visit = self.switch.arrivals(now, *sender);
            for arrival in burst {
                visit.offer(*arrival).expect("there is room");
            }
        }
        let mut taken = 0;
        let mut visit = self.switch.departures(now, self.receiver);
        while let Some(head) = visit.head() {
            taken += u64::from(head.delivered().is_some());
        }
        taken
    }
}
