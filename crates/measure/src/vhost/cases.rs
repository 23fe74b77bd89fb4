//! What switches are to carry, one case after the other.

use kernel::cycles;
use lab::SwitchKind;
use lab::vhost::OvsDpdk;
use units::Span;

use super::ends::most_flows;
use super::frames::{Kind, LONGEST, LONGEST_DATAGRAM, SMALLEST};
use super::report::Config;
use crate::{MeasureError, check_switches};

/// One thing to carry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Case {
    pub switch: SwitchKind,
    pub senders: u16,
    pub size: u32,
    pub flows: u16,
    /// One more machine is sent to, and takes nothing.
    pub stalled: bool,
}

impl Case {
    /// What its frames are.
    pub fn kind(&self) -> Kind {
        Kind::of(self.size)
    }

    /// Whether a switch that is up for this one can carry the other as well.
    pub fn goes_with(&self, other: &Self) -> bool {
        let needs = |case: &Self| (case.switch, case.senders, case.kind());
        needs(self) == needs(other)
    }
}

/// All that a measurement has the switches carry, switch by switch.
pub fn cases(config: &Config) -> Vec<Case> {
    let mut cases = Vec::new();
    for &switch in &config.switches {
        for &senders in &config.senders {
            for &size in &config.sizes {
                for &flows in &config.flows {
                    let case = |&stalled| Case { switch, senders, size, flows, stalled };
                    cases.extend(config.times().iter().map(case));
                }
            }
        }
    }
    cases
}

/// Refuses what cannot be measured, before any switch is up.
pub fn check(config: &Config) -> Result<(), MeasureError> {
    let wrong = |what: String| Err(MeasureError::Config(what));
    let Config { sizes, flows, senders, .. } = config;
    if [sizes.is_empty(), flows.is_empty(), senders.is_empty(), config.rounds == 0].contains(&true)
    {
        return wrong(
            "a measurement of throughput needs a size, a flow, a sender and a round".into(),
        );
    }
    if config.duration == Span::ZERO || config.slow_receiver == Some(0) {
        return wrong(
            "a run lasts some time, and a slow receiver is at least as fast as 1/1".into(),
        );
    }
    if let Some(size) = sizes.iter().find(|size| !(SMALLEST..=LONGEST).contains(size)) {
        return wrong(format!(
            "a frame between virtual machines has {SMALLEST} to {LONGEST} bytes, not {size}"
        ));
    }
    if config.disturb.is_some_and(|share| !(share > 0.0 && share < 1.0)) {
        return wrong("a disturber wants more than nothing of the core and less than all".into());
    }
    for &size in sizes {
        let most = most_flows(Kind::of(size), config.stalled);
        if let Some(flows) = flows.iter().find(|flows| !(1..=most).contains(flows)) {
            return wrong(format!(
                "there are 1 to {most} flows of {size} B, one for each place in a ring for the receiver, not {flows}"
            ));
        }
    }
    if let Some(senders) = senders.iter().find(|senders| !(1..=8).contains(*senders)) {
        return wrong(format!("1 to 8 machines send, not {senders}"));
    }
    let is_pair = !config.stalled && senders.iter().all(|senders| *senders == 1);
    if config.switches.contains(&SwitchKind::Testpmd) && !is_pair {
        return wrong(
            "`testpmd` forwards between two machines only: to have several senders, or a stalled receiver, choose among \
             ovs-dpdk, zovn-lossy and zovn"
                .into(),
        );
    }
    for switch in &config.switches {
        let most = longest(*switch);
        if let Some(size) = sizes.iter().find(|size| **size > most) {
            return wrong(format!(
                "`{switch}` carries at most {most} bytes a frame between virtual machines: leave it out, or {size}"
            ));
        }
    }
    if cycles::now().is_none() {
        return wrong(
            "virtual machines' ports are measured by a time stamp counter, which this processor lacks".into(),
        );
    }
    check_switches(&config.switches, &SwitchKind::OF_MACHINES, "virtual machines")
}

/// The longest frame that a switch carries between virtual machines, in bytes.
fn longest(switch: SwitchKind) -> u32 {
    match switch {
        // It does not offer its machines to leave anything undone.
        SwitchKind::Testpmd => LONGEST_DATAGRAM,
        SwitchKind::OvsDpdk => OvsDpdk::LONGEST,
        SwitchKind::Zovn | SwitchKind::ZovnLossy | SwitchKind::Bridge | SwitchKind::Ovs => LONGEST,
    }
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
            stalled: false,
            disturb: None,
            rounds: 5,
        }
    }

    #[test]
    fn a_switch_is_brought_up_once_for_all_that_it_carries_between_as_many_machines() {
        let ups = |sizes: &[u32]| {
            let cases = cases(&Config { sizes: sizes.to_vec(), ..config() });
            let ups = cases.chunk_by(Case::goes_with);
            ups.map(|cases| (cases[0].switch, cases[0].senders, cases.len())).collect::<Vec<_>>()
        };
        let (lossy, zovn) = (SwitchKind::ZovnLossy, SwitchKind::Zovn);
        assert_eq!(ups(&[64, 1500]), [(lossy, 1, 4), (lossy, 2, 4), (zovn, 1, 4), (zovn, 2, 4)]);
        let config = Config { stalled: true, ..config() };
        let cases = cases(&config);
        assert!(cases[0].goes_with(&cases[1]) && !cases[0].stalled && cases[1].stalled);
        // Other cards, with other features and more memory.
        assert_eq!(ups(&[64, 1500, 65_549])[..3], [(lossy, 1, 4), (lossy, 1, 2), (lossy, 2, 4)]);
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
                &(|config: &mut Config| config.switches = vec![SwitchKind::Bridge])
                    as &dyn Fn(&mut Config),
                "ovs-dpdk",
            ),
            (&|config| config.switches = vec![SwitchKind::Zovn, SwitchKind::Zovn], "each once"),
            (&|config| config.sizes = vec![65_550], "64 to 65549"),
            (&|config| config.flows = vec![1025], "1 to 1024"),
            (&|config| (config.sizes, config.flows) = (vec![1515], vec![257]), "1 to 256"),
            (
                &|config| {
                    (config.switches, config.sizes) = (vec![SwitchKind::Testpmd], vec![1515]);
                    (config.senders, config.flows) = (vec![1], vec![1]);
                },
                "leave it out",
            ),
            (
                &|config| {
                    (config.switches, config.sizes, config.flows) =
                        (vec![SwitchKind::OvsDpdk], vec![65_369], vec![1])
                },
                "65368",
            ),
            (
                &|config| {
                    (config.switches, config.stalled, config.senders, config.flows) =
                        (vec![SwitchKind::Testpmd], true, vec![1], vec![1])
                },
                "two machines",
            ),
            (&|config| (config.stalled, config.flows) = (true, vec![961]), "1 to 960"),
            (&|config| config.senders = vec![0], "1 to 8"),
            (&|config| config.disturb = Some(1.0), "less than all"),
            (&|config| config.slow_receiver = Some(0), "1/1"),
        ] {
            let error = said(change).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
