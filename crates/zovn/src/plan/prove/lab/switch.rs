//! The switch of a plan's profile, as a lab builds it: where and how it was measured.

use std::error::Error;
use std::fs;

use measure::profile::trial::Setup;
use measure::profile::{Report, Tunnel, Underlay, Way};
use measure::{Environment, SwitchKind};
use planner::Measured;
use planner::mixes::Mix;

/// Why a lab says nothing.
pub type Unmade = Box<dyn Error + Send + Sync>;

/// The switch that is built.
pub struct Switch {
    pub profile: Report,
    pub kind: SwitchKind,
    pub tunnel: Tunnel,
    underlay: Underlay,
    cores: u32,
}

impl Switch {
    /// The switch of a plan's profile, which has to be one of this machine.
    pub fn of(measured: &Measured) -> Result<Self, Unmade> {
        let file = measured.file.display();
        let text = fs::read_to_string(&measured.file)
            .map_err(|error| format!("cannot read {file}: {error}"))?;
        let profile: Report = serde_json::from_str(&text).map_err(|error| {
            format!(
                "{file} is no whole profile: {error}; write one by `zovn measure profile --json`"
            )
        })?;
        differs(&profile.environment, &Environment::look()).map_err(|what| {
            format!(
                "{file} was measured on another machine ({what}), and a lab is on this one: measure here by \
                 `zovn measure profile --json`"
            )
        })?;
        if !rustix::process::geteuid().is_root() {
            return Err("a lab needs root: run this by sudo".into());
        }
        let kind = measured.switch.parse()?;
        let tunnel = measured.tunnel.parse()?;
        let (underlay, cores) = place(&profile, kind, tunnel).map_err(|what| {
            format!("a lab cannot be what {file} was measured on: {what}; measure again by `zovn measure profile --json`")
        })?;
        Ok(Self { profile, kind, tunnel, underlay, cores })
    }

    /// A lab of it, whose sockets have so much room.
    pub fn setup(&self, room: Option<u32>) -> Setup {
        let Self { kind, tunnel, underlay, cores, .. } = *self;
        Setup { switch: kind, tunnel, underlay, cores, room }
    }

    /// What is carried of a mix by the curves of its senders' frames, in frames a second.
    pub fn expected_fps(&self, mix: &Mix) -> f64 {
        let (way, tunnel) =
            if mix.is_far { (Way::Link, self.tunnel) } else { (Way::Host, Tunnel::None) };
        let carried = |frame| {
            let curve = self.profile.curve(self.kind, way, tunnel, frame);
            curve.map_or(mix.load.min(1.0), |it| it.carried(mix.load))
        };
        let demands = mix.demands.iter();
        demands.map(|it| it.frames_per_sec * carried(it.frame) / mix.load).sum()
    }
}

/// Whether two machines are the same as far as a profile counts; if not, what differs.
fn differs(there: &Environment, here: &Environment) -> Result<(), String> {
    let words = |it: &Environment| format!("{}, {} cores, Linux {}", it.cpu, it.cores, it.kernel);
    match (words(there), words(here)) {
        (there, here) if there == here => Ok(()),
        (there, here) => Err(format!("{there}; this one has {here}")),
    }
}

/// What was between hosts, and how many processors there were, for the entries of a profile that
/// one plans with; if no lab has that for all of them, why.
fn place(profile: &Report, kind: SwitchKind, tunnel: Tunnel) -> Result<(Underlay, u32), String> {
    let first = |way, tunnel| profile.planned(kind, way, tunnel).into_iter().next();
    let (Some(host), Some(link)) = (first(Way::Host, Tunnel::None), first(Way::Link, tunnel))
    else {
        return Err(format!("it has no frames of {kind} both within the host and by the link"));
    };
    if host.cores != link.cores {
        return Err(format!(
            "within the host {kind} had {} processors, and by the link {}",
            host.cores, link.cores
        ));
    }
    if link.far != 1 {
        return Err(format!("frames by the link went to {} far hosts, and not to one", link.far));
    }
    Ok((link.underlay.unwrap_or(Underlay::Cable), host.cores))
}

#[cfg(test)]
mod tests {
    use measure::profile::Config;
    use units::Span;

    use super::*;

    #[test]
    fn a_lab_is_what_the_entries_were_measured_on_that_one_plans_with() {
        let report = |results| Report {
            zovn: String::new(),
            experiment: "profile".into(),
            environment: Environment::default(),
            config: Config {
                switches: Vec::new(),
                ways: Vec::new(),
                tunnels: Vec::new(),
                far: Vec::new(),
                cores: Vec::new(),
                loads: Vec::new(),
                sizes: Vec::new(),
                senders: 1,
                duration: Span::from_secs(1),
                rounds: 1,
            },
            results,
        };
        let entry = |way: Way, cores: u32, far: u32| {
            let is_far = way == Way::Link;
            let quartiles = serde_json::json!({"min": 1, "q1": 1, "median": 1, "q3": 1, "max": 1});
            serde_json::json!({
                "switch": "zovn", "way": way, "load": "frames", "offload": false, "size": 64,
                "tunnel": if is_far { "geneve" } else { "none" }, "far": far, "cores": cores,
                "underlay": is_far.then_some("bridge"), "fps": quartiles, "gbps": quartiles,
                "bound_by": "switch", "at_least": false, "switch_ns_per_frame": null,
                "busy": {"switch": 1.0, "sender": 0.5, "receiver": 0.5, "machine": 1.0},
                "curve": [], "lost": 0, "duplicates": 0, "balanced": true,
            })
        };
        let placed = |entries: &[serde_json::Value]| {
            let entries = entries.iter().map(|it| serde_json::from_value(it.clone()).unwrap());
            place(&report(entries.collect()), SwitchKind::Zovn, Tunnel::Geneve)
        };
        let (one, two) = (entry(Way::Host, 1, 0), entry(Way::Host, 2, 0));
        let near = entry(Way::Link, 1, 1);
        assert_eq!(placed(&[one.clone(), near.clone()]), Ok((Underlay::Bridge, 1)));
        // The most processors and the fewest far hosts count.
        let (several, best) = (entry(Way::Link, 2, 2), entry(Way::Link, 2, 1));
        let all = [one.clone(), two.clone(), near.clone(), several, best];
        assert_eq!(placed(&all), Ok((Underlay::Bridge, 2)));
        let why = |entries: &[serde_json::Value]| placed(entries).unwrap_err();
        assert!(why(&[two, near]).contains("had 2 processors, and by the link 1"));
        assert!(why(&[one.clone(), entry(Way::Link, 1, 3)]).contains("3 far hosts"));
        assert!(why(&[one]).contains("no frames of zovn"));
    }

    #[test]
    fn a_profile_of_another_machine_is_told_from_one_of_this() {
        let here = Environment {
            cpu: "X".into(),
            cores: 2,
            kernel: "6.1".into(),
            ..Environment::default()
        };
        let later = Environment { date: "tomorrow".into(), ..here.clone() };
        assert_eq!(differs(&later, &here), Ok(()));
        let there = Environment { cores: 4, ..here.clone() };
        let what = differs(&there, &here).unwrap_err();
        assert_eq!(what, "X, 4 cores, Linux 6.1; this one has X, 2 cores, Linux 6.1");
    }
}
