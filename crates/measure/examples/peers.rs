//! What a peer with vhost-user ports carries, with DPDK's own front-ends: the switch on core 0,
//! they on core 1.
//!
//! ```sh
//! cargo run --release -p measure --example peers -- ovs-dpdk circle 64 one 5
//! ```
//!
//! The words are the switch (`ovs-dpdk`, `testpmd`), the load, bytes a frame, flows (`one`, `many`)
//! and how many runs of three seconds. Loads:
//!
//! - `circle`: 512 frames in either direction go round between two front-ends and the switch. Each
//!   is sent again when it has arrived, so the slowest of the three is never idle, and nothing is
//!   lost for want of room.
//! - `flood`: one front-end sends all it can to another that takes all it can; `two-to-one`: two
//!   do.
//! - `slow`: one does, to another that reads memory for each frame first.
//!
//! In the last three, senders and receiver are two programs that take turns on core 1, in the
//! scheduler's slices of milliseconds. While one side waits for its turn the other's ring runs full
//! or empty: they tell what a switch does with a receiver that is away, not what it can carry.

use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::vhost::{Forwarding, FrontEnds, OvsDpdk, PmdCounters, Port, Rig, Testpmd};
use lab::{Home, LabError};

/// Reads of memory for each frame of a slow receiver.
const SLOW_READS: u32 = 75;

const RUN: Duration = Duration::from_secs(3);

enum Peer<'a> {
    Ovs(OvsDpdk),
    Testpmd(Testpmd<'a>),
}

/// What one run found.
#[derive(Clone, Copy, Debug)]
struct Found {
    sent: u64,
    received: u64,
    mfps: f64,
    /// Frames that the switch says it dropped.
    dropped: u64,
    /// Cycles a frame, and the share of its time that the switch was not idle, where it tells.
    cycles: Option<f64>,
    busy: Option<f64>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [peer, load, size, flows, runs] = &words[..] else {
        return Err("say SWITCH LOAD BYTES FLOWS RUNS: ovs-dpdk circle 64 one 5".into());
    };
    let (size, many, runs) = (size.parse()?, flows == "many", runs.parse()?);
    let mut found = Vec::new();
    for _ in 0..runs {
        let one = run(peer, load, size, many)?;
        eprintln!("{one:?}");
        found.push(one);
    }
    let median = |read: &dyn Fn(&Found) -> f64| {
        let mut all: Vec<_> = found.iter().map(read).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let mfps = median(&|one| one.mfps);
    writeln!(
        std::io::stdout(),
        "{peer} {load} {size} B {flows}: {mfps:.2} Mfps {:.1} Gb/s, {:.0} cycles, {:.0} % busy, sent {} received {} lost {} \
         (dropped {}, {:.3} %)",
        mfps * f64::from(size) * 8e-3,
        median(&|one| one.cycles.unwrap_or(f64::NAN)),
        median(&|one| 100.0 * one.busy.unwrap_or(f64::NAN)),
        median(&|one| one.sent as f64),
        median(&|one| one.received as f64),
        median(&|one| (one.sent - one.received) as f64),
        median(&|one| one.dropped as f64),
        median(&|one| 100.0 * (one.sent - one.received) as f64 / one.sent.max(1) as f64),
    )?;
    Ok(())
}

fn run(peer: &str, load: &str, size: u32, many: bool) -> Result<Found, LabError> {
    let go_on = AtomicBool::new(false);
    let rig = Rig::up(&Home::system(), 0, OvsDpdk::pages(3) + 3 * Testpmd::PAGES, &go_on)?;
    let ports = rig.ports(if load == "two-to-one" { 3 } else { 2 });
    let peer = match (peer, &ports[..]) {
        ("testpmd", [left, right]) => {
            Peer::Testpmd(Testpmd::switch(&rig, &[left.clone(), right.clone()])?)
        }
        _ => Peer::Ovs(OvsDpdk::up(&rig, &ports, false)?),
    };
    let ends = |name, ports, peers, reads| {
        let ends = FrontEnds { name, core: 1, ports, peers, size, many_flows: many, reads };
        Testpmd::front_ends(&rig, &ends)
    };
    let connected = || -> Result<(), LabError> {
        let begun = Instant::now();
        while !peer.is_connected()? {
            if begun.elapsed() > Duration::from_secs(20) {
                let said = "front-ends do not connect".to_owned();
                return Err(LabError::Program { program: "the switch".to_owned(), said });
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    };
    let macs: Vec<_> = ports.iter().map(|port: &Port| port.mac).collect();
    let found = if load == "circle" {
        let mut ends = ends("front-ends", &ports, &[macs[1], macs[0]], 0)?;
        connected()?;
        ends.circulate(16)?;
        sleep(Duration::from_millis(300));
        let (before, busy) = (carried(&ends, 2)?, peer.threads()?);
        let begun = Instant::now();
        sleep(RUN);
        let (after, elapsed, busier) = (carried(&ends, 2)?, begun.elapsed(), peer.threads()?);
        ends.stop()?;
        ends.forward(Forwarding::Receive)?;
        let (sent, received) = settled(|| carried(&ends, 2))?;
        found(sent, received, after.1 - before.1, elapsed, busier.since(busy), peer.dropped()?)
    } else {
        let (sink, senders) = ports.split_last().expect("there are two");
        let to = vec![sink.mac; senders.len()];
        let reads = if load == "slow" { SLOW_READS } else { 0 };
        let mut receiver = ends("receiver", std::slice::from_ref(sink), &[], reads)?;
        let mut sender = ends("senders", senders, &to, 0)?;
        connected()?;
        receiver.forward(if reads > 0 { Forwarding::Noisy } else { Forwarding::Receive })?;
        let busy = peer.threads()?;
        let begun = Instant::now();
        sender.forward(Forwarding::Send)?;
        sleep(RUN);
        sender.stop()?;
        let (elapsed, on_time) = (begun.elapsed(), carried(&receiver, 1)?.1);
        let busier = peer.threads()?;
        let both = || Ok((carried(&sender, senders.len())?.0, carried(&receiver, 1)?.1));
        let (sent, received) = settled(both)?;
        found(sent, received, on_time, elapsed, busier.since(busy), peer.dropped()?)
    };
    drop(peer);
    rig.down()?;
    Ok(found)
}

fn found(
    sent: u64,
    received: u64,
    in_time: u64,
    elapsed: Duration,
    threads: PmdCounters,
    dropped: u64,
) -> Found {
    let mfps = in_time as f64 / elapsed.as_secs_f64() / 1e6;
    let cycles = threads.processing_cycles + threads.idle_cycles;
    let busy = (cycles > 0).then(|| threads.processing_cycles as f64 / cycles as f64);
    Found { sent, received, mfps, dropped, cycles: threads.cycles_per_frame(), busy }
}

impl Peer<'_> {
    fn threads(&self) -> Result<PmdCounters, LabError> {
        match self {
            Self::Ovs(switch) => switch.threads(),
            Self::Testpmd(_) => Ok(PmdCounters::default()),
        }
    }

    fn is_connected(&self) -> Result<bool, LabError> {
        match self {
            Self::Ovs(switch) => switch.is_connected(),
            Self::Testpmd(switch) => switch.is_connected(),
        }
    }

    fn dropped(&self) -> Result<u64, LabError> {
        Ok(match self {
            Self::Ovs(switch) => {
                switch.ports()?.iter().map(|port| port.own["ovs_tx_failure_drops"]).sum()
            }
            Self::Testpmd(switch) => switch.switched()?.iter().map(|port| port.tx_dropped).sum(),
        })
    }
}

/// Frames that so many devices have sent and received.
fn carried(ends: &Testpmd<'_>, devices: usize) -> Result<(u64, u64), LabError> {
    let mut sum = (0, 0);
    for device in 0..devices {
        let counters = ends.counters(device)?;
        sum = (sum.0 + counters.tx_packets, sum.1 + counters.rx_packets);
    }
    Ok(sum)
}

/// What is counted once every frame has arrived, or none has for three seconds: a busy machine may
/// keep a program from its core for long.
fn settled(
    mut count: impl FnMut() -> Result<(u64, u64), LabError>,
) -> Result<(u64, u64), LabError> {
    let mut last = (count()?, Instant::now());
    loop {
        let now = count()?;
        if now.0 == now.1 || (now == last.0 && last.1.elapsed() > Duration::from_secs(3)) {
            return Ok(now);
        }
        if now != last.0 {
            last = (now, Instant::now());
        }
        sleep(Duration::from_millis(50));
    }
}
