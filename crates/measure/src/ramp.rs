//! Experiment 2 (zOVN §2.3, figure 3): the injection rate rises step by step; what still arrives,
//! and from where on the switch cannot follow.

use lab::SwitchKind;
use serde::{Deserialize, Serialize};
use units::Span;

use crate::flood::{self, Flood, Sum};
use crate::loss::{check_size, gbps};
use crate::losses::both_hold;
use crate::{Bench, Environment, MeasureError, Measurement, check_switches};

/// A step is followed if this share of what was aimed at arrives.
const FOLLOWED: f64 = 0.95;

/// More steps than anybody waits for.
const MOST_STEPS: u64 = 1000;

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The switches to compare.
    pub switches: Vec<SwitchKind>,
    /// How many senders.
    pub senders: u32,
    /// How much faster each sender goes at each step, in frames a second.
    pub step: u64,
    /// Where the ramp ends: what each sender aims at last.
    pub to: u64,
    /// How long each step lasts, in each round.
    pub duration: Span,
    /// Frames a second that the receiving program takes; as fast as it can if absent.
    pub receiver_rate: Option<f64>,
    /// Bytes a frame, Ethernet header included, without checksum.
    pub size: u32,
    /// How often each switch has its turn.
    pub rounds: u32,
}

/// One switch's ramp.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ramp {
    /// The switch.
    pub switch: SwitchKind,
    /// The highest total injection, in frames a second, of which 95 % arrived, as at every step
    /// below it; none if the first step was too much.
    pub saturation_fps: Option<f64>,
    /// Whether the next step was too much for the switch. If not, its saturation lies higher.
    pub saturated: bool,
    /// Whether the next step was too much for the senders: they fell short of it though nothing was
    /// lost and they were not held back.
    pub generator_limited: bool,
    /// The steps, rising.
    pub steps: Vec<Step>,
    /// Whether the switch's own account held, port by port and class by class; none where it keeps
    /// none.
    pub balanced: Option<bool>,
}

/// One rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What all senders together aimed at, in frames a second.
    pub target_fps: f64,
    /// What they sent: less than the target if they were held back or the machine is too slow.
    pub sent_fps: f64,
    /// The share of their time that senders waited in `sendto`.
    pub sender_blocked: f64,
    /// What the receiving program read, in frames a second; none if that was less than two frames.
    pub rx_fps: Option<f64>,
    /// The same in 10⁹ bits of frames a second.
    pub rx_gbps: Option<f64>,
    /// Frames sent.
    pub sent: u64,
    /// Frames read.
    pub received: u64,
    /// The difference.
    pub lost: u64,
    /// `lost` over `sent`.
    pub loss_ratio: f64,
    /// Frames that came again.
    pub duplicates: u64,
}

/// The whole experiment.
pub type Report = Measurement<Config, Ramp>;

/// Makes the experiment.
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    check_switches(&config.switches, &SwitchKind::OF_CONTAINERS, "containers")?;
    if config.senders == 0 || config.rounds == 0 || config.duration == Span::ZERO {
        return Err(MeasureError::Config("a ramp needs a sender, a round and some time".into()));
    }
    if config.step == 0 || config.to < config.step {
        return Err(MeasureError::Config(
            "a ramp rises by a step above 0 and ends at a step or later".into(),
        ));
    }
    if config.to / config.step > MOST_STEPS {
        return Err(MeasureError::Config(format!(
            "a ramp has {MOST_STEPS} steps at most: rise by larger ones, or end sooner"
        )));
    }
    check_size(config.size)?;
    let environment = Environment::look();
    let rates: Vec<u64> =
        (1..=config.to / config.step).map(|number| number * config.step).collect();
    let mut ramps: Vec<(Ramp, Vec<Sum>)> = config
        .switches
        .iter()
        .map(|switch| (Ramp::new(*switch, &rates, &config), vec![Sum::default(); rates.len()]))
        .collect();
    bench.progress.begin(ramps.len() * rates.len() * config.rounds as usize);
    for _ in 0..config.rounds {
        for (ramp, sums) in &mut ramps {
            bench.go_on()?;
            let lab = flood::lab(bench, ramp.switch, config.senders)?;
            for ((rate, step), sum) in rates.iter().zip(&mut ramp.steps).zip(sums) {
                bench.step(&format!("{}: {} × {rate} frames/s", ramp.switch, config.senders))?;
                let Config { duration, size, receiver_rate: pace, .. } = config;
                let flood = Flood { duration, size, rate: Some(*rate as f64), pace };
                let flooded = flood.run(bench, &lab, config.senders)?;
                ramp.balanced = both_hold(ramp.balanced, flooded.losses.balanced);
                step.sent += flooded.seen.sender_socket;
                step.received += flooded.seen.receiver_socket;
                step.duplicates += flooded.received.duplicates;
                sum.add(&flooded.sent, &flooded.received);
            }
        }
    }
    let results = ramps.into_iter().map(|(mut ramp, sums)| {
        for (step, sum) in ramp.steps.iter_mut().zip(sums) {
            step.conclude(&sum, config.size);
        }
        ramp.conclude();
        ramp
    });
    let results = results.collect();
    Ok(Measurement::new("ramp", environment, config, results))
}

impl Ramp {
    fn new(switch: SwitchKind, rates: &[u64], config: &Config) -> Self {
        let target = |rate: &u64| *rate as f64 * f64::from(config.senders);
        let steps =
            rates.iter().map(|rate| Step { target_fps: target(rate), ..Step::default() }).collect();
        Self {
            switch,
            saturation_fps: None,
            saturated: false,
            generator_limited: false,
            steps,
            balanced: None,
        }
    }

    fn conclude(&mut self) {
        let followed =
            |step: &Step| step.rx_fps.is_some_and(|fps| fps >= FOLLOWED * step.target_fps);
        let end = self.steps.iter().position(|step| !followed(step)).unwrap_or(self.steps.len());
        self.saturation_fps = self.steps[..end].last().map(|step| step.target_fps);
        let fell_short = |step: &Step| step.lost == 0 && step.sender_blocked < 1.0 - FOLLOWED;
        self.generator_limited = self.steps.get(end).is_some_and(fell_short);
        self.saturated = end < self.steps.len() && !self.generator_limited;
    }
}

impl Step {
    fn conclude(&mut self, sum: &Sum, size: u32) {
        self.sent_fps = sum.sent_fps();
        self.sender_blocked = sum.blocked();
        self.rx_fps = sum.rx_fps();
        self.rx_gbps = self.rx_fps.map(|fps| gbps(fps, size));
        self.lost = self.sent.saturating_sub(self.received);
        self.loss_ratio = self.lost as f64 / self.sent.max(1) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(rx_fps: &[f64]) -> Ramp {
        let config = Config {
            switches: vec![SwitchKind::Bridge],
            senders: 2,
            step: 10,
            to: 30,
            duration: Span::from_secs(1),
            receiver_rate: None,
            size: 1514,
            rounds: 1,
        };
        let mut ramp = Ramp::new(SwitchKind::Bridge, &[10, 20, 30], &config);
        for (step, rx) in ramp.steps.iter_mut().zip(rx_fps) {
            step.rx_fps = Some(*rx);
            step.lost = u64::from(*rx < step.target_fps);
        }
        ramp
    }

    #[test]
    fn saturation_is_the_last_step_before_the_first_that_is_not_followed() {
        let told = |rx: &[f64]| {
            let mut ramp = ramp(rx);
            ramp.conclude();
            (ramp.saturation_fps, ramp.saturated)
        };
        assert_eq!(told(&[20.0, 39.0, 40.0]), (Some(40.0), true));
        assert_eq!(told(&[20.0, 40.0, 60.0]), (Some(60.0), false));
        assert_eq!(told(&[10.0, 40.0, 60.0]), (None, true));
    }

    #[test]
    fn senders_that_fall_short_by_themselves_tell_nothing_of_the_switch() {
        let told = |blocked| {
            let mut ramp = ramp(&[20.0, 30.0, 30.0]);
            ramp.steps[1].lost = 0;
            ramp.steps[1].sender_blocked = blocked;
            ramp.conclude();
            (ramp.saturation_fps, ramp.saturated, ramp.generator_limited)
        };
        assert_eq!(told(0.0), (Some(20.0), false, true));
        assert_eq!(told(0.3), (Some(20.0), true, false));
    }
}
