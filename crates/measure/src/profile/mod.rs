//! What this host's switches carry before they cannot follow (Sarker et al., ICN 2016, §III): the
//! file that plans read.
//!
//! ```text
//!   sender ─▶ switch ─▶ receiver                       way `host`
//!   sender ─▶ switch ─▶ tunnel or none ═ link ═▶ switch ─▶ receiver      way `link`
//!                                          └═══▶ …                       to several far hosts
//! ```
//!
//! No delay is added anywhere: with one, a stream would measure its window over that delay. Each
//! entry says what it was that could do no more ([`Bound`]); where that was not the switch, its
//! figures are what the switch carries at least.

mod cases;
mod confined;
mod curve;
pub mod paper;
mod processors;
mod report;
mod rounds;
pub mod trial;

use lab::SwitchKind;
use units::Span;

pub use self::cases::{Load, Tunnel, Underlay, Way, is_lossless};
pub use self::confined::available;
pub use self::curve::Curve;
pub use self::processors::{Bound, Busy};
pub use self::report::{Config, Entry, Report, Step};
pub use crate::stats::{Boxplot, Quartiles};

use self::cases::{Case, Choice, What};
use self::confined::Confined;
use self::report::CONGESTION;
use self::rounds::{Rounds, Runs};
use crate::loss::check_size;
use crate::site::raise;
use crate::{Bench, Environment, MeasureError, Measurement, check_congestion, check_switches};

impl Case {
    /// What is carried of it.
    fn whats(&self, config: &Config) -> Vec<What> {
        let mut whats = Vec::new();
        if config.loads.contains(&Load::Frames) {
            whats.extend(config.sizes.iter().map(|size| What::Frames(*size)));
        }
        if config.loads.contains(&Load::Stream) {
            whats.push(What::Stream { offload: false });
            if self.takes_segments() {
                whats.push(What::Stream { offload: true });
            }
        }
        whats
    }
}

/// Makes the experiment.
///
/// # Errors
///
/// [`MeasureError`]
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    let cases = check(&config)?;
    let environment = Environment::look();
    let mut all: Vec<(Case, Vec<Rounds>)> = cases
        .into_iter()
        .map(|case| (case, case.whats(&config).into_iter().map(Rounds::new).collect()))
        .collect();
    let loads: usize = all.iter().map(|(_, loads)| loads.len()).sum();
    bench.progress.begin(loads * config.rounds as usize);
    for _ in 0..config.rounds {
        for (case, loads) in &mut all {
            for offload in [false, true] {
                let mut loads =
                    loads.iter_mut().filter(|it| it.what.offload() == offload).peekable();
                if loads.peek().is_none() {
                    continue;
                }
                bench.go_on()?;
                // The lab goes before its confinement does.
                let _confined = Confined::to(case.cores)?;
                let lab = raise(bench, &case.lab(config.senders, offload)?)?;
                let receivers = case.receivers();
                let receivers: Vec<&str> = receivers.iter().map(String::as_str).collect();
                let runs = Runs { bench, lab: &lab, receivers: &receivers, config: &config };
                let place = format!("{case}{}", on(case, &config));
                for rounds in loads {
                    bench.step(&format!("{place}: {}", rounds.what))?;
                    rounds.add(&runs)?;
                }
            }
        }
    }
    let results = all.iter().flat_map(|(case, loads)| loads.iter().filter_map(|it| it.told(case)));
    let results = results.collect();
    Ok(Measurement::new("profile", environment, config, results))
}

/// How many processors a case is measured with, where that differs.
fn on(case: &Case, config: &Config) -> String {
    match (config.cores.len(), case.cores) {
        (0 | 1, _) => String::new(),
        (_, 1) => " on 1 processor".into(),
        (_, cores) => format!(" on {cores} processors"),
    }
}

fn check(config: &Config) -> Result<Vec<Case>, MeasureError> {
    let wrong = |what: String| Err(MeasureError::Config(what));
    check_switches(&config.switches, &SwitchKind::OF_CONTAINERS, "containers")?;
    if config.senders == 0 || config.rounds == 0 || config.duration == Span::ZERO {
        return wrong("a profile needs a sender, a round and some time".into());
    }
    if config.loads.is_empty() || (config.loads == [Load::Frames] && config.sizes.is_empty()) {
        return wrong("a profile needs frames of a size, or streams".into());
    }
    config.sizes.iter().try_for_each(|size| check_size(*size))?;
    let least_and_most = |counts: &[u32]| Some((*counts.iter().min()?, *counts.iter().max()?));
    match least_and_most(&config.far) {
        None | Some((0, _)) => {
            return wrong("frames go to 1 far host or more: raise `--far`".into());
        }
        Some((_, most)) if most > config.senders => {
            return wrong(format!(
                "{most} far hosts need as many senders: raise `--senders` to {most}"
            ));
        }
        Some(_) => {}
    }
    let available = available();
    match least_and_most(&config.cores) {
        None | Some((0, _)) => {
            return wrong("a lab needs 1 processor or more: raise `--cores`".into());
        }
        Some((_, most)) if most > available => {
            return wrong(format!(
                "there are no {most} processors, of which this process may use {available}: lower `--cores`"
            ));
        }
        Some(_) => {}
    }
    let Config { switches, ways, tunnels, far, cores, .. } = config;
    let cases = all(&Choice { switches, ways, tunnels, far, cores })?;
    if config.loads.contains(&Load::Stream) {
        check_congestion(CONGESTION)?;
    }
    Ok(cases)
}

/// All cases of this choice; each of its switches has one.
fn all(choice: &Choice<'_>) -> Result<Vec<Case>, MeasureError> {
    let cases = Case::all(choice);
    let is_missing = |switch: &&SwitchKind| cases.iter().all(|case| case.switch != **switch);
    match choice.switches.iter().find(is_missing) {
        None => Ok(cases),
        Some(switch) => Err(MeasureError::Config(format!(
            "`{switch}` has none of these ways and tunnels: bridge has none and vxlan, ovs gre as well, zovn-lossy vxlan \
             and gre, zovn all; more than one far host is for the tunnels of zovn-lossy and zovn"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            switches: vec![SwitchKind::Zovn],
            ways: Way::ALL.into(),
            tunnels: Tunnel::USUAL.into(),
            far: vec![1],
            cores: vec![1],
            loads: Load::ALL.into(),
            sizes: vec![64],
            senders: 1,
            duration: Span::from_millis(100),
            rounds: 1,
        }
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_measured() {
        assert_eq!(check(&config()).unwrap().len(), 4);
        for (config, word) in [
            (Config { sizes: vec![9000], ..config() }, "9000"),
            (Config { rounds: 0, ..config() }, "a round"),
            (Config { loads: vec![Load::Frames], sizes: Vec::new(), ..config() }, "of a size"),
            (
                Config {
                    switches: vec![SwitchKind::Bridge],
                    ways: vec![Way::Link],
                    tunnels: vec![Tunnel::Geneve],
                    ..config()
                },
                "`bridge` has none",
            ),
            (Config { far: vec![1, 0], ..config() }, "`--far`"),
            (Config { far: vec![1, 3], senders: 2, ..config() }, "`--senders` to 3"),
            (
                Config {
                    switches: vec![SwitchKind::Bridge],
                    ways: vec![Way::Link],
                    far: vec![2],
                    senders: 2,
                    ..config()
                },
                "more than one far host",
            ),
            (Config { cores: Vec::new(), ..config() }, "1 processor"),
            (Config { cores: vec![u32::MAX], ..config() }, "lower `--cores`"),
        ] {
            let error = check(&config).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn open_vswitch_is_handed_no_large_segments() {
        let (way, tunnel) = (Way::Host, Tunnel::None);
        let case = |switch| Case { switch, way, tunnel, far: 0, underlay: None, cores: 1 };
        let whats = |switch| case(switch).whats(&config()).len();
        assert_eq!((whats(SwitchKind::Bridge), whats(SwitchKind::Ovs)), (3, 2));
    }
}
