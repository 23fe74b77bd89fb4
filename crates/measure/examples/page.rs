//! Writes a page with every kind of chart, filled with made-up sample data: `cargo run --example
//! page -- out.html`. It is there to look at when the charts change. Nothing in it was measured.

use std::path::PathBuf;
use std::{env, fs, io};

use measure::page::{Axis, Bars, Cdf, Lines, Page, Table, Unit};
use units::Rng;

const SWITCHES: [&str; 4] = ["bridge", "ovs", "zovn-lossy", "zovn"];

fn main() -> io::Result<()> {
    let path =
        env::args_os().nth(1).map_or_else(|| PathBuf::from("target/page.html"), PathBuf::from);
    fs::write(path, page().render())
}

fn page() -> Page {
    Page::new("Sample page: nothing here was measured")
        .lead("Made-up numbers in every kind of chart, to see how a report looks before there is anything to report.")
        .section("Loss", "Two senders flood one receiver for ten seconds.")
        .chart(lost())
        .table(
            Table::new(["switch", "sent", "received", "lost", "of sent"])
                .row(["bridge", "9,214,550", "1,990,343", "7,224,207", "78.4 %"])
                .row(["ovs", "9,120,004", "456,000", "8,664,004", "95 %"])
                .row(["zovn-lossy", "8,950,112", "2,110,002", "6,840,110", "76.4 %"])
                .row(["zovn", "2,101,377", "2,101,377", "0", "0 %"]),
        )
        .command("zovn measure loss --switch bridge,ovs,zovn-lossy,zovn --senders 2 --duration 10s")
        .chart(lost_at())
        .section("Ramp", "The injection rate grows in steps of 20,000 frames per second.")
        .chart(received())
        .chart(loss_ratio())
        .section("Partition-Aggregate", "31 workers answer one aggregator behind a 1 Gb/s port.")
        .chart(completion())
        .chart(gain())
        .chart(distribution())
        .note("Sample data. The dashed curve is the same switch with another congestion control.")
        .section("Environment", "")
        .facts([
            ("Kernel", "6.18.0 (sample)"),
            ("Processor", "2 × sample"),
            ("zovn", "0.1.0"),
            ("Rounds", "3, interleaved"),
        ])
}

fn lost() -> Bars {
    let lost = [7_224_207.0, 8_664_004.0, 6_840_110.0, 0.0];
    SWITCHES.iter().zip(lost).fold(
        Bars::new("Lost frames by switch", Axis::linear("lost", Unit::FRAMES)).horizontal(),
        |bars, (name, lost)| bars.bar(*name, lost),
    )
}

fn lost_at() -> Bars {
    let points = [
        "sender socket",
        "sender vNIC",
        "switch in",
        "switch out",
        "receiver vNIC",
        "receiver socket",
    ];
    Bars::new("Where frames were lost", Axis::log10("lost", Unit::FRAMES))
        .groups("point", points)
        .series("bridge", [0.0, 0.0, 41_200.0, 1_204_331.0, 0.0, 5_978_676.0])
        .series("ovs", [0.0, 12.0, 8_664_004.0, 0.0, 0.0, 1.0])
        .series("zovn", [0.0; 6])
}

/// What `capacity` lets through of each injected rate.
fn ramp(capacity: f64) -> impl Iterator<Item = (f64, f64)> {
    (1..=25).map(move |step| {
        let injected = 20_000.0 * f64::from(step);
        (injected, injected.min(capacity) * (1.0 - 0.004 * f64::from(step % 3)))
    })
}

fn received() -> Lines {
    let x = Axis::linear("total injection", Unit::FRAMES_PER_SEC);
    let y = Axis::linear("received", Unit::FRAMES_PER_SEC);
    [("bridge", 180_000.0), ("ovs", 50_000.0), ("zovn", 196_000.0)].into_iter().fold(
        Lines::new("Received against injected", x, y),
        |lines, (name, capacity)| {
            lines.series(name, ramp(capacity)).mark(name, capacity, format!("{name} saturates"))
        },
    )
}

fn loss_ratio() -> Lines {
    let x = Axis::linear("total injection", Unit::FRAMES_PER_SEC);
    let y = Axis::log10("lost share of injected", Unit::SHARE).reach(1.0);
    let lines = Lines::new("Loss against injection", x, y);
    let ratio = |capacity| {
        ramp(capacity)
            .map(move |(x, _)| (x, (1.0 - capacity / x).max(if x > 60e3 { 1e-4 } else { 0.0 })))
    };
    lines
        .series("bridge", ratio(180_000.0))
        .series("ovs", ratio(50_000.0))
        .series("zovn", ramp(0.0).map(|(x, _)| (x, 0.0)))
}

const SEGMENTS: [f64; 6] = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
const BRIDGE_MS: [f64; 6] = [0.8, 13.5, 14.0, 11.0, 35.8, 238.0];

fn completion() -> Lines {
    let x = Axis::log2("response, segments", Unit::NONE);
    let y = Axis::log10("mean completion time", Unit::SECONDS);
    let at = |times: [f64; 6]| SEGMENTS.into_iter().zip(times.map(|ms| ms / 1e3));
    let ideal = SEGMENTS.map(|segments| segments * 0.382);
    Lines::new("Mean flow completion time", x, y)
        .series("bridge", at(BRIDGE_MS))
        .series("ovs", at([1.3, 18.0, 21.0, 40.0, 160.0, 260.0]))
        .series("zovn-lossy", at([0.8, 9.1, 12.0, 14.0, 45.0, 190.0]))
        .series("zovn", at(ideal.map(|ms| ms * 1.06)))
        .series("ideal", at(ideal))
}

fn gain() -> Bars {
    Bars::new("Gain over the bridge, by era of TCP", Axis::linear("gain", Unit::TIMES))
        .groups("response, segments", ["2", "4", "16", "64"])
        .series("zovn · 2013", [1.0, 31.4, 22.0, 18.5])
        .series("zovn · today", [1.0, 8.8, 1.8, 9.7])
        .series("zovn-lossy", [1.0, 1.5, f64::NAN, 1.3])
}

fn distribution() -> Cdf {
    let mut rng = Rng::new(7);
    let mut steps = |typical: f64, timeouts: f64| {
        let mut draw = |_| match rng.unit_f64() {
            slow if slow < timeouts => 0.2 + 0.06 * rng.unit_f64(),
            _ => typical * (0.9 + 0.4 * rng.unit_f64().powi(4)),
        };
        let mut samples: Vec<f64> = (0..2000).map(&mut draw).collect();
        samples.sort_by(f64::total_cmp);
        (1..=2000).zip(samples).map(|(rank, value)| (value, f64::from(rank) / 2000.0))
    };
    Cdf::new("Completion time, 32 segments", Axis::log10("completion time", Unit::SECONDS))
        .steps("bridge", steps(0.0135, 0.12))
        .steps("ovs", steps(0.021, 0.4))
        .steps("zovn", steps(0.0124, 0.0))
        .steps("zovn, reno", steps(0.0131, 0.001))
}
