//! What is done when, and about how long it takes.

use units::Bytes;

use super::report::Config;

/// How many downloads of each size share a lab.
const IN_A_TURN: u32 = 10;

/// How long the programs of a download take beside it, in seconds.
const PROGRAMS_S: f64 = 0.1;

/// Weights of steps are tenths of a second.
const A_SECOND: f64 = 10.0;

/// What a trial says of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// How long a lab takes to come and to go, in seconds.
    lab_s: f64,
    /// What a download has, in bits a second.
    bits_per_s: f64,
}

/// One lab's work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The place of the case.
    pub case: usize,
    /// What is done.
    pub work: Work,
    /// About how long it takes.
    pub seconds: f64,
}

/// What is done in a lab.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Work {
    /// All streams.
    Streams,
    /// Some downloads of each size; `done` were made before.
    Downloads { done: u32, count: u32 },
}

impl Estimate {
    /// Of a trial that took so long, with one download of this size.
    pub fn of(seconds: f64, size: Bytes, bits_per_s: f64) -> Self {
        let bits_per_s = bits_per_s.max(1.0);
        let lab_s = seconds - size.0 as f64 * 8.0 / bits_per_s;
        Self { lab_s: lab_s.max(0.0), bits_per_s }
    }

    fn seconds(&self, work: Work, config: &Config) -> f64 {
        let work_s = match work {
            Work::Streams => config.duration.as_secs_f64(),
            Work::Downloads { count, .. } => {
                let bytes: u64 = config.downloads.iter().map(|size| size.0).sum();
                let programs_s = PROGRAMS_S * config.downloads.len() as f64;
                f64::from(count) * (bytes as f64 * 8.0 / self.bits_per_s + programs_s)
            }
        };
        self.lab_s + work_s
    }
}

/// All that is done, in its order: each case's streams, then downloads, each case in its turn.
pub fn steps(estimates: &[Estimate], config: &Config) -> Vec<Step> {
    let turns = (0..config.rounds)
        .step_by(IN_A_TURN as usize)
        .map(|done| Work::Downloads { done, count: IN_A_TURN.min(config.rounds - done) });
    let all = std::iter::once(Work::Streams).chain(turns);
    let of = |work: Work| {
        let cases = estimates.iter().enumerate();
        cases.map(move |(case, estimate)| Step {
            case,
            work,
            seconds: estimate.seconds(work, config),
        })
    };
    all.flat_map(of).collect()
}

impl Step {
    /// How many steps of a progress it counts for.
    pub fn weight(&self) -> usize {
        (self.seconds * A_SECOND).ceil().max(1.0) as usize
    }
}

impl Work {
    /// What is being done.
    pub fn doing(self, config: &Config) -> String {
        match self {
            Self::Streams => format!("streams for {}", config.duration),
            Self::Downloads { done, count } => {
                format!("downloads {} to {} of {}", done + 1, done + count, config.rounds)
            }
        }
    }
}

/// A time as people say it.
pub fn words(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        _ if seconds < 100.0 => format!("{} s", seconds.ceil() as u64),
        0..100 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Tunnel, Way};
    use super::*;
    use units::Span;

    fn config(rounds: u32) -> Config {
        Config {
            switches: Vec::new(),
            ways: Way::ALL.into(),
            tunnels: Tunnel::ALL.into(),
            offload: true,
            streams: 4,
            duration: Span::from_secs(300),
            downloads: vec![Bytes(10_000_000), Bytes(90_000_000)],
            rounds,
        }
    }

    #[test]
    fn cases_take_turns_with_their_downloads() {
        let estimate = Estimate::of(3.0, Bytes(10_000_000), 80e6);
        assert_eq!(estimate, Estimate { lab_s: 2.0, bits_per_s: 80e6 });
        let steps = steps(&[estimate, estimate], &config(12));
        let order: Vec<_> = steps.iter().map(|step| (step.case, step.work)).collect();
        let turn = |done, count| Work::Downloads { done, count };
        let expected = [
            (0, Work::Streams),
            (1, Work::Streams),
            (0, turn(0, 10)),
            (1, turn(0, 10)),
            (0, turn(10, 2)),
            (1, turn(10, 2)),
        ];
        assert_eq!(order, expected);
        // 100 MB at 80 Mbit/s are ten seconds, and there are four programs.
        let seconds = [steps[0].seconds, steps[2].seconds, steps[4].seconds];
        let near = |(one, other): (f64, f64)| (one - other).abs() < 1e-9;
        assert!(seconds.into_iter().zip([302.0, 104.0, 22.4]).all(near), "{seconds:?}");
        assert_eq!(steps[0].weight(), 3020);
        assert_eq!(steps[4].work.doing(&config(12)), "downloads 11 to 12 of 12");
    }

    #[test]
    fn a_time_is_said_in_few_words() {
        let told = [0.0, 99.5, 100.0, 5400.0, 6000.0, 12_000.0].map(words);
        assert_eq!(told, ["0 s", "100 s", "2 min", "90 min", "1 h 40 min", "3 h 20 min"]);
    }
}
