//! What switches are to carry, one case after the other.

use lab::SwitchKind;
use ports::cycles;
use units::Span;

use super::Config;
use super::ends::RING;
use super::frames::{LONGEST, SMALLEST};
use crate::{MeasureError, check_switches};

/// One thing to carry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Case {
    pub switch: SwitchKind,
    pub senders: u16,
    pub size: u32,
    pub flows: u16,
}

/// All that a measurement has the switches carry, switch by switch.
pub fn cases(config: &Config) -> Vec<Case> {
    let mut cases = Vec::new();
    for &switch in &config.switches {
        for &senders in &config.senders {
            for &size in &config.sizes {
                cases.extend(config.flows.iter().map(|&flows| Case { switch, senders, size, flows }));
            }
        }
    }
    cases
}

/// Refuses what cannot be measured, before any switch is up.
pub fn check(config: &Config) -> Result<(), MeasureError> {
    let wrong = |what: String| Err(MeasureError::Config(what));
    let Config { sizes, flows, senders, .. } = config;
    if [sizes.is_empty(), flows.is_empty(), senders.is_empty(), config.rounds == 0].contains(&true) {
        return wrong("a measurement of throughput needs a size, a flow, a sender and a round".into());
    }
    if config.duration == Span::ZERO || config.slow_receiver == Some(0) {
        return wrong("a run lasts some time, and a slow receiver is at least as fast as 1/1".into());
    }
    if let Some(size) = sizes.iter().find(|size| !(SMALLEST..=LONGEST).contains(size)) {
        return wrong(format!(
            "a frame between virtual machines has {SMALLEST} to {LONGEST} bytes, not {size}"
        ));
    }
    if let Some(flows) = flows.iter().find(|flows| !(1..=RING).contains(flows)) {
        return wrong(format!("there are 1 to {RING} flows, one for each place in a ring, not {flows}"));
    }
    if let Some(senders) = senders.iter().find(|senders| !(1..=8).contains(*senders)) {
        return wrong(format!("1 to 8 machines send, not {senders}"));
    }
    if config.switches.contains(&SwitchKind::Testpmd) && senders.iter().any(|senders| *senders > 1) {
        return wrong(
            "`testpmd` forwards between two machines only: to have several senders choose among ovs-dpdk, zovn-lossy and \
             zovn"
                .into(),
        );
    }
    if cycles::now().is_none() {
        return wrong(
            "virtual machines' ports are measured by a time stamp counter, which this processor lacks".into(),
        );
    }
    check_switches(&config.switches, &SwitchKind::OF_MACHINES, "virtual machines")
}

#[cfg(test)]
mod tests {
    use super::super::Ports;
    use super::*;

    fn config() -> Config {
        Config {
            switches: vec![SwitchKind::ZovnLossy, SwitchKind::Zovn],
            ports: Ports::VhostUser,
            sizes: vec![64, 1500],
            flows: vec![1, 1000],
            senders: vec![1, 2],
            duration: Span::from_secs(1),
            frames: 0,
            slow_receiver: None,
            rounds: 5,
        }
    }

    #[test]
    fn a_switch_is_brought_up_once_for_all_that_it_carries_between_as_many_machines() {
        let cases = cases(&config());
        let ups: Vec<_> = cases
            .chunk_by(|a, b| (a.switch, a.senders) == (b.switch, b.senders))
            .map(|cases| (cases[0].switch, cases[0].senders, cases.len()))
            .collect();
        let (lossy, zovn) = (SwitchKind::ZovnLossy, SwitchKind::Zovn);
        assert_eq!(ups, [(lossy, 1, 4), (lossy, 2, 4), (zovn, 1, 4), (zovn, 2, 4)]);
    }

    #[test]
    fn what_cannot_be_measured_is_said_with_what_can() {
        let said = |change: &dyn Fn(&mut Config)| {
            let mut config = config();
            change(&mut config);
            check(&config).map_err(|error| error.to_string())
        };
        assert_eq!(said(&|config| config.switches = vec![SwitchKind::Zovn]), Ok(()));
        for (change, word) in [
            (
                &(|config: &mut Config| config.switches = vec![SwitchKind::Bridge]) as &dyn Fn(&mut Config),
                "ovs-dpdk",
            ),
            (&|config| config.switches = vec![SwitchKind::Zovn, SwitchKind::Zovn], "each once"),
            (&|config| config.sizes = vec![1515], "64 to 1514"),
            (&|config| config.flows = vec![1025], "1 to 1024"),
            (&|config| config.senders = vec![0], "1 to 8"),
            (&|config| config.slow_receiver = Some(0), "1/1"),
        ] {
            let error = said(change).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
