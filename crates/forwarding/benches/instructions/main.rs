//! How many instructions a frame costs, and whether that is still as few as it was.
//!
//! `cargo bench -p forwarding --bench instructions`; generators and sinks count, where there are
//! any.

mod machines;

use std::process::ExitCode;

use datapath::{Datapath, Decision, Network, Verdict};
use forwarding::{Flows, World};
use lossless::{ClassKind, Classes, Limits, Offered, PortConfig, PortId, Settings, Size, Switch};
use units::{Instant, Mac};
use wire::ethernet::Peek;

use machines::Machines;

const CASES: [callgrind::Case<'_>; 8] = [
    ("core lossless", 79.6),
    ("core lossy", 79.6),
    ("core incast", 321.4),
    ("memory lossless", 364.6),
    ("memory lossy", 364.6),
    ("memory incast", 522.1),
    ("machines lossless", 860.1),
    ("machines lossy", 860.1),
];

fn main() -> ExitCode {
    callgrind::main("frame", &CASES, 128_000, carry)
}

fn carry(case: &str, frames: u64) -> u64 {
    let (layer, load) = case.split_once(' ').expect("a case is two words");
    let kind = if load == "lossy" { ClassKind::Lossy } else { ClassKind::Lossless };
    let incast = load == "incast";
    let mut round: Box<dyn FnMut(Instant) -> u64> = if layer == "core" {
        let mut core = Core::new(kind, if incast { 8 } else { 1 });
        Box::new(move |now| core.round(now))
    } else if layer == "machines" {
        let directory =
            tempfile::tempdir_in("/dev/shm").expect("a directory on tmpfs for sockets and records");
        let mut machines = Machines::new(kind, 64, directory.path());
        Box::new(move |now| {
            let _ = &directory;
            machines.round(now)
        })
    } else {
        let flows = if incast { Flows::Incast(8) } else { Flows::Pairs(1) };
        let mut world = World::new(kind, 64, flows).expect("a fair run");
        Box::new(move |now| world.round(now))
    };
    let mut carried = 0;
    while carried < frames {
        carried += round(Instant::from_nanos(carried));
    }
    carried
}

/// A switch, and what decides for it, that are offered frames from nobody's memory. An incast's
/// receiver has room for four of them.
struct Core {
    datapath: Datapath,
    switch: Switch<u32>,
    bursts: Vec<(PortId, Vec<Peek>)>,
    receiver: PortId,
}

impl Core {
    fn new(kind: ClassKind, senders: u32) -> Self {
        let mut switch =
            Switch::new(Settings { classes: Classes::all(kind), ..Settings::default() });
        let mut datapath = Datapath::new(datapath::Settings::default());
        let room = if senders == 1 { 1024 } else { 4 };
        let config = PortConfig { egress: Limits::frames(room), ..PortConfig::default() };
        let mut attach = |number| {
            let id = switch.attach(Instant::ZERO, config).expect("few ports");
            datapath.attach(id, datapath::PortConfig::default());
            datapath.pin(id, Mac::local(number), 0);
            id
        };
        let receiver = attach(0);
        let bursts = (1..=senders).map(|sender| {
            let header = Peek::new(Mac::local(0), Mac::local(sender), None);
            (attach(sender), vec![header; 64 / senders as usize])
        });
        let bursts = bursts.collect();
        Self { datapath, switch, bursts, receiver }
    }

    fn round(&mut self, now: Instant) -> u64 {
        for (sender, burst) in &self.bursts {
            let mut decisions = self.datapath.visit(now, *sender);
            let mut visit = self.switch.arrivals(now, *sender);
            for (frame, header) in (0..).zip(burst) {
                let size = Size { bytes: 64, frames: 1 };
                if decisions.repeats(header, Network::default()) && visit.repeat(frame, size) {
                    continue;
                }
                let Decision { class, verdict } = decisions.decide(header, Network::default());
                let Verdict::Forward(to) = verdict else { panic!("the receiver is known") };
                let offered = visit.offer(to, class, frame, size);
                assert_eq!(offered, Offered::Held);
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
