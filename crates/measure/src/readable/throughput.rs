//! Throughput, told.

use crate::page::{Axis, Bars, Chart, Unit, count, si};
use crate::throughput::{Load, Ports, Report, Throughput};
use crate::{Environment, is_lossless};

use super::{Readable, Rows, many, repeated, unbalanced};

impl Readable for Report {
    fn title(&self) -> String {
        match self.config.ports {
            Ports::Container => "Throughput from container to container".into(),
            Ports::Memory => "Throughput of the switch alone, between ports in memory".into(),
        }
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        format!(
            "{} into one receiver, {} each, {}.",
            many(config.flows.into(), "flow"),
            config.duration,
            many(config.rounds.into(), "round")
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "switch",
            "load",
            "frame",
            "frames/s",
            "bit/s",
            "lost",
            "resent",
            "cycles a frame",
        ]);
        for one in &self.results {
            rows.row([
                one.switch.to_string(),
                load(one.load).to_owned(),
                format!("{} B", one.size),
                one.mfps.map_or("–".into(), |mfps| Unit::FRAMES_PER_SEC.brief(mfps * 1e6)),
                one.gbps.map_or("–".into(), |gbps| si(gbps * 1e9, Unit::BITS_PER_SEC)),
                count(one.lost),
                count(one.retransmits),
                one.cycles_per_frame.map_or("–".into(), |cycles| format!("{cycles:.0}")),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        match self.config.ports {
            Ports::Container => vec![
                "UDP counts whole frames, one sendto each; TCP counts payload, with what offload the switch can take."
                    .into(),
            ],
            Ports::Memory => Vec::new(),
        }
    }

    fn charts(&self) -> Vec<Chart> {
        let tcp = self.results.iter().filter(|one| one.load == Load::Tcp);
        let mut stream =
            Bars::new("TCP payload", Axis::linear("received", Unit::BITS_PER_SEC)).horizontal();
        let mut streams = false;
        for one in tcp {
            streams = true;
            stream =
                stream.bar(one.switch.to_string(), one.gbps.map_or(f64::NAN, |gbps| gbps * 1e9));
        }
        let sizes: Vec<String> = self.config.sizes.iter().map(|size| format!("{size} B")).collect();
        let mut frames = Bars::new("Frames", Axis::linear("received", Unit::FRAMES_PER_SEC))
            .groups("frame", sizes);
        for switch in &self.config.switches {
            let of = |size: &u32| {
                let mine = |one: &&Throughput| {
                    one.switch == *switch && one.size == *size && one.mfps.is_some()
                };
                self.results
                    .iter()
                    .find(mine)
                    .and_then(|one| one.mfps)
                    .map_or(f64::NAN, |mfps| mfps * 1e6)
            };
            frames = frames.series(switch.to_string(), self.config.sizes.iter().map(of));
        }
        let mut charts: Vec<Chart> = vec![frames.into()];
        if streams {
            charts.push(stream.into());
        }
        charts
    }

    fn broken(&self) -> Vec<String> {
        let lossy = self.results.iter().filter(|one| is_lossless(one.switch) && one.lost > 0);
        let lossy = lossy.map(|one| {
            format!(
                "{} lost {} of {} B ({}).",
                one.switch,
                many(one.lost, "frame"),
                one.size,
                load(one.load)
            )
        });
        let idle = self.results.iter().filter(|one| one.gbps.is_none());
        let idle = idle
            .map(|one| format!("nothing arrived through {}: that is no measurement.", one.switch));
        let unbalanced = self.results.iter().filter_map(|one| unbalanced(one.switch, one.balanced));
        let repeated = self.results.iter().filter_map(|one| repeated(one.switch, one.duplicates));
        lossy.chain(repeated).chain(idle).chain(unbalanced).collect()
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

fn load(load: Load) -> &'static str {
    match load {
        Load::Frames => "frames",
        Load::Udp => "UDP",
        Load::Tcp => "TCP",
    }
}
