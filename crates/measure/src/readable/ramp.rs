//! Experiment 2, told.

use crate::page::{Axis, Chart, Lines, Unit, count, percent, si};
use crate::ramp::{Ramp, Report, Step};
use crate::{Environment, is_lossless};

use super::{Readable, Rows, many, repeated, unbalanced};

impl Readable for Report {
    fn title(&self) -> String {
        format!("Ramp: {} inject more and more", many(self.config.senders.into(), "sender"))
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        format!(
            "{} B frames; every {} each sender goes {} frames a second faster, up to {}; {}.",
            config.size,
            config.duration,
            count(config.step),
            count(config.to),
            many(config.rounds.into(), "round"),
        )
    }

    fn rows(&self) -> Rows {
        let mut rows =
            Rows::new(["switch", "aimed at", "injected", "received", "", "lost", "of sent"]);
        for ramp in &self.results {
            for step in &ramp.steps {
                rows.row([
                    ramp.switch.to_string(),
                    fps(step.target_fps),
                    fps(step.sent_fps),
                    step.rx_fps.map_or("–".into(), fps),
                    step.rx_gbps.map_or("–".into(), |gbps| si(gbps * 1e9, Unit::BITS_PER_SEC)),
                    count(step.lost),
                    percent(step.loss_ratio),
                ]);
            }
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        self.results.iter().map(saturation).collect()
    }

    fn charts(&self) -> Vec<Chart> {
        let axis = || Axis::linear("total injection aimed at", Unit::FRAMES_PER_SEC);
        let mut received = Lines::new(
            "Received against injected",
            axis(),
            Axis::linear("received", Unit::FRAMES_PER_SEC),
        );
        let mut lost = Lines::new(
            "Lost against injected",
            axis(),
            Axis::log10("lost, of sent", Unit::SHARE).reach(1.0),
        );
        for ramp in &self.results {
            let name = ramp.switch.to_string();
            let points =
                |y: fn(&Step) -> f64| ramp.steps.iter().map(move |step| (step.target_fps, y(step)));
            received =
                received.series(name.as_str(), points(|step| step.rx_fps.unwrap_or(f64::NAN)));
            lost = lost.series(name.as_str(), points(|step| step.loss_ratio));
            if let (true, Some(at)) = (ramp.saturated, ramp.saturation_fps) {
                received = received.mark(name.as_str(), at, format!("{name} follows to here"));
            }
        }
        vec![received.into(), lost.into()]
    }

    fn broken(&self) -> Vec<String> {
        let lost = |ramp: &&Ramp| ramp.steps.iter().map(|step| step.lost).sum::<u64>();
        let lossy = self.results.iter().filter(|ramp| is_lossless(ramp.switch) && lost(ramp) > 0);
        let lossy =
            lossy.map(|ramp| format!("{} lost {}.", ramp.switch, many(lost(&ramp), "frame")));
        let unbalanced =
            self.results.iter().filter_map(|ramp| unbalanced(ramp.switch, ramp.balanced));
        let idle = |ramp: &&Ramp| ramp.steps.iter().any(|step| step.received == 0);
        let idle = self.results.iter().filter(idle);
        let idle = idle.map(|ramp| {
            format!("nothing arrived through {}: that is no measurement.", ramp.switch)
        });
        let duplicates = |ramp: &Ramp| ramp.steps.iter().map(|step| step.duplicates).sum();
        let repeated =
            self.results.iter().filter_map(|ramp| repeated(ramp.switch, duplicates(ramp)));
        lossy.chain(repeated).chain(unbalanced).chain(idle).collect()
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

fn saturation(ramp: &Ramp) -> String {
    let Ramp { switch, .. } = ramp;
    match (ramp.saturation_fps, ramp.generator_limited) {
        (None, true) => {
            format!("The senders do not follow even the first step: nothing is told of {switch}.")
        }
        (Some(at), true) => format!(
            "{switch} follows up to {} frames a second, beyond which the senders do not: its limit lies higher.",
            fps(at)
        ),
        (None, false) => format!("{switch} does not follow even the first step."),
        (Some(at), false) if ramp.saturated => {
            format!("{switch} follows up to {} frames a second.", fps(at))
        }
        (Some(_), false) => {
            format!("{switch} follows to the end of the ramp: its limit lies higher.")
        }
    }
}

fn fps(value: f64) -> String {
    count(value.round() as u64)
}
