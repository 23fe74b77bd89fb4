//! What a switch was measured to carry: a file that `zovn measure profile --json` has written.
//!
//! A frame takes the switch the inverse of what it carried of such frames at saturation, so that a
//! mix of sizes and ways adds up to shares of its time. Between sizes that were measured, that time
//! is interpolated. Smaller frames take what the smallest take, larger ones so much a byte as the
//! largest: both are rather too much than too little.
//!
//! One plans with what was carried while next to nothing was lost, where a profile's curve has it:
//! what an entry tells itself may have lost a twentieth.
//!
//! Where a switch was measured on several numbers of processors, those with the most count; where
//! with several numbers of far hosts, those with the fewest.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use figures::percent;
use serde::{Deserialize, Serialize};

/// A switch as a profile has it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Measured {
    /// The profile's file.
    pub file: PathBuf,
    /// The switch, as that names it.
    pub switch: String,
    /// What is around frames that leave the host: `none`, or a tunnel.
    pub tunnel: String,
}

/// 8 bytes of preamble, a gap of 12, a checksum of 4 (IEEE 802.3).
pub(crate) const AROUND_FRAMES: u64 = 24;

impl Measured {
    /// The bytes that its tunnel puts around a frame: Ethernet, IPv4 and what it has itself.
    /// `None` of a tunnel that `zovn measure profile` does not have.
    pub(crate) fn outer(&self) -> Option<u64> {
        let own = match self.tunnel.as_str() {
            "none" => return Some(0),
            // A profile has zovn's tunnels by Geneve with credit and repair, whose frames carry an
            // option of 28 bytes.
            "geneve" if self.switch == "zovn" => 8 + 8 + 28,
            "geneve" | "vxlan" => 8 + 8,
            // With a key (RFC 2890).
            "gre" => 8,
            _ => return None,
        };
        Some(14 + 20 + own)
    }
}

/// What frames take of a switch's time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Costs {
    /// Where that was measured.
    pub measured: Measured,
    /// What one plans with: three of four rounds carried so much at least, and next to nothing was
    /// lost.
    pub careful: Ways,
    /// What the median round carried at most.
    pub typical: Ways,
    /// Bytes of the smallest and of the largest frame that was measured, large segments apart.
    pub frames: (u32, u32),
    /// Reasons why the switch may carry more, or less.
    pub doubts: Vec<String>,
}

/// What a frame takes of a switch's time, by its size and by where it goes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ways {
    /// From one machine to another of the same host.
    host: Cost,
    /// To another host, or from there.
    link: Cost,
}

impl Ways {
    /// The seconds that frames of so many bytes take on average, of which this share leaves the
    /// host or comes to it.
    pub fn secs(&self, size: f64, remote: f64) -> f64 {
        (1.0 - remote) * self.host.of(size) + remote * self.link.of(size)
    }
}

/// What a frame takes of a switch's time, by its size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cost {
    /// Bytes and seconds, by rising size; one at least.
    points: Vec<(f64, f64)>,
}

impl Cost {
    /// Of the seconds that frames of so many bytes take; none of no size.
    fn new(mut points: Vec<(f64, f64)>) -> Option<Self> {
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        (!points.is_empty()).then_some(Self { points })
    }

    /// The seconds that a frame of so many bytes takes.
    pub fn of(&self, size: f64) -> f64 {
        let above = self.points.partition_point(|(measured, _)| *measured < size);
        match (above.checked_sub(1).map(|below| self.points[below]), self.points.get(above)) {
            (None, first) => first.map_or(0.0, |(_, seconds)| *seconds),
            (Some((largest, seconds)), None) => seconds * size / largest,
            (Some((below, least)), Some((above, most))) => {
                least + (most - least) * (size - below) / (above - below)
            }
        }
    }
}

/// Why a profile says nothing of a switch.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{}:{}:{} is no profile: {source}; write one by `zovn measure profile --json`",
        path.display(),
        source.line(),
        source.column()
    )]
    Json { path: PathBuf, source: serde_json::Error },
    #[error(
        "{} is a measurement of `{experiment}`: write a profile by `zovn measure profile --json`",
        path.display()
    )]
    Other { path: PathBuf, experiment: String },
    #[error("{} has no `{switch}`: it has {known}", path.display())]
    Switch { path: PathBuf, switch: String, known: String },
    #[error(
        "{} has no frames of `{switch}` within the host: measure `--ways host` with `--loads frames`",
        path.display()
    )]
    Host { path: PathBuf, switch: String },
    #[error(
        "{} has no frames of `{switch}` by the link with tunnel `{tunnel}`: it has {known}",
        path.display()
    )]
    Tunnel { path: PathBuf, switch: String, tunnel: String, is_said: bool, known: String },
    #[error("{}: results/{place} carries nothing: measure it again", path.display())]
    Nothing { path: PathBuf, place: usize },
}

impl ProfileError {
    /// The field of a plan's `profile` that has to change, if one does alone.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Switch { .. } => "/switch",
            Self::Tunnel { is_said: true, .. } => "/tunnel",
            Self::Tunnel { .. } | Self::Host { .. } => "",
            _ => "/file",
        }
    }
}

/// The part of the file that says what is carried; the rest is for people.
#[derive(Deserialize)]
struct Profile {
    results: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    switch: String,
    way: Way,
    tunnel: String,
    /// How many far hosts frames went to, and how many processors there were: not said by profiles
    /// that have one number of each.
    #[serde(default)]
    far: u32,
    #[serde(default)]
    cores: u32,
    load: Load,
    offload: bool,
    size: u32,
    fps: Quartiles,
    bound_by: String,
    at_least: bool,
    #[serde(default)]
    curve: Vec<Step>,
    /// Frames that did not arrive.
    #[serde(default)]
    lost: u64,
}

/// What was carried of some rate.
#[derive(Clone, Copy, Deserialize)]
struct Step {
    carried_fps: Quartiles,
    loss_ratio: f64,
}

/// What an entry may have lost of what it says was carried.
const TOLERATED_LOSS: f64 = 0.05;

/// A switch that still carries so much of its most, whatever it is asked for, does not collapse.
const KEPT: f64 = 0.95;

/// What a switch may lose that follows what it is asked for.
const NEGLIGIBLE_LOSS: f64 = 0.001;

impl Entry {
    /// The step of which most was carried, among those that lost no more than this.
    fn best(&self, loss: f64) -> Option<Step> {
        let steps = self.curve.iter().filter(|it| it.loss_ratio <= loss && it.carried_fps.q1 > 0.0);
        let by_carried = |one: &&Step, other: &&Step| {
            one.carried_fps.median.total_cmp(&other.carried_fps.median)
        };
        steps.max_by(by_carried).copied()
    }

    /// The step up to which the switch follows, where it carried more by losing some.
    fn followed(&self) -> Option<Step> {
        let best = self.best(TOLERATED_LOSS)?;
        if best.loss_ratio > NEGLIGIBLE_LOSS { self.best(NEGLIGIBLE_LOSS) } else { None }
    }

    /// What is carried at the last step, at which senders send what they can, as a share of the
    /// most that any step carried.
    fn kept(&self) -> f64 {
        let carried = |it: &Step| it.carried_fps.median;
        let most = self.curve.iter().map(carried).fold(0.0, f64::max);
        self.curve.last().filter(|_| most > 0.0).map_or(1.0, |it| carried(it) / most)
    }

    /// What one plans with, in frames a second.
    fn careful_fps(&self) -> f64 {
        self.followed().map_or(self.fps.q1, |it| it.carried_fps.q1.min(self.fps.q1))
    }

    /// The share that was lost of what one plans with: at most so much.
    fn loss(&self) -> f64 {
        match (self.followed(), self.best(TOLERATED_LOSS)) {
            (Some(step), _) | (None, Some(step)) => step.loss_ratio,
            // A stream takes back what its frames ask for until nothing is lost.
            (None, None) if self.lost > 0 && self.load == Load::Frames => TOLERATED_LOSS,
            (None, None) => 0.0,
        }
    }
}

#[derive(Clone, Copy, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Way {
    Host,
    Link,
}

#[derive(Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Load {
    Frames,
    Stream,
}

/// One plans with the lower one: what three of four rounds carried at least.
#[derive(Clone, Copy, Deserialize)]
struct Quartiles {
    q1: f64,
    median: f64,
}

impl Costs {
    /// What frames take of this switch's time, by the profile in a file. Without a tunnel they
    /// cross the link as they are.
    pub fn read(path: &Path, switch: &str, tunnel: Option<&str>) -> Result<Self, ProfileError> {
        let owned = || path.to_owned();
        let text = fs::read_to_string(path)
            .map_err(|source| ProfileError::Read { path: owned(), source })?;
        let profile = parse(path, &text)?;
        let known = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
        let of_switch: Vec<&Entry> =
            profile.results.iter().filter(|it| it.switch == switch).collect();
        if of_switch.is_empty() {
            let known = known(profile.results.iter().map(|it| it.switch.as_str()).collect());
            return Err(ProfileError::Switch { path: owned(), switch: switch.into(), known });
        }
        let on = |way, tunnel: &str| {
            let there = || of_switch.iter().filter(|it| it.way == way && it.tunnel == tunnel);
            let cores = there().map(|it| it.cores).max();
            let far = there().map(|it| it.far).min();
            let there = there().filter(|it| (Some(it.cores), Some(it.far)) == (cores, far));
            // Frames, and what large segments are in their place; segments of the MTU are frames.
            there.filter(|it| it.load == Load::Frames || it.offload).copied().collect::<Vec<_>>()
        };
        let cost = |entries: &[&Entry], of: fn(&Entry) -> f64| {
            let has_frames = entries.iter().any(|it| it.load == Load::Frames);
            let points = entries.iter().map(|it| (f64::from(it.size), 1.0 / of(it)));
            Cost::new(points.collect()).filter(|_| has_frames)
        };
        let both = |entries: &[&Entry]| {
            Some((cost(entries, Entry::careful_fps)?, cost(entries, |it| it.fps.median)?))
        };
        let (is_said, tunnel) = (tunnel.is_some(), tunnel.unwrap_or("none"));
        let within = on(Way::Host, "none");
        let beyond = on(Way::Link, tunnel);
        let Some((host, typical_host)) = both(&within) else {
            return Err(ProfileError::Host { path: owned(), switch: switch.into() });
        };
        let Some((link, typical_link)) = both(&beyond) else {
            let tunnels = of_switch.iter().filter(|it| it.way == Way::Link);
            let known = match known(tunnels.map(|it| it.tunnel.as_str()).collect()) {
                none if none.is_empty() => "nothing by the link".into(),
                known => known,
            };
            let (switch, tunnel) = (switch.into(), tunnel.into());
            return Err(ProfileError::Tunnel { path: owned(), switch, tunnel, is_said, known });
        };
        let used: Vec<_> = within.into_iter().chain(beyond).collect();
        let sizes = || used.iter().filter(|it| it.load == Load::Frames).map(|it| it.size);
        Ok(Self {
            measured: Measured { file: owned(), switch: switch.into(), tunnel: tunnel.into() },
            careful: Ways { host, link },
            typical: Ways { host: typical_host, link: typical_link },
            frames: (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0)),
            doubts: doubts(path, switch, &used),
        })
    }
}

fn parse(path: &Path, text: &str) -> Result<Profile, ProfileError> {
    #[derive(Deserialize)]
    struct Kind {
        experiment: String,
    }
    let not_json = |source| ProfileError::Json { path: path.to_owned(), source };
    let Kind { experiment } = serde_json::from_str(text).map_err(not_json)?;
    if experiment != "profile" {
        return Err(ProfileError::Other { path: path.to_owned(), experiment });
    }
    let profile: Profile = serde_json::from_str(text).map_err(not_json)?;
    let is_some = |fps: f64| fps > 0.0 && fps.is_finite();
    let is_nothing = |it: &Entry| !(is_some(it.fps.q1) && is_some(it.fps.median) && it.size > 0);
    match profile.results.iter().position(is_nothing) {
        Some(place) => Err(ProfileError::Nothing { path: path.to_owned(), place }),
        None => Ok(profile),
    }
}

/// What was bound by something else than the switch, what was lost, and whether more is lost when
/// more is asked for.
fn doubts(path: &Path, switch: &str, used: &[&Entry]) -> Vec<String> {
    let some_of = |some: usize| {
        format!("{some} of {} entries that are used of {}", used.len(), path.display())
    };
    let mut doubts = Vec::new();
    let lower: Vec<_> = used.iter().filter(|it| it.at_least).collect();
    if !lower.is_empty() {
        let by: BTreeSet<&str> = lower.iter().map(|it| it.bound_by.as_str()).collect();
        let by = by.into_iter().collect::<Vec<_>>().join(", ");
        let some = some_of(lower.len());
        doubts.push(format!("{some} were bound by {by}: {switch} carries so much at least"));
    }
    let losses = used.iter().map(|it| it.loss()).filter(|loss| *loss > NEGLIGIBLE_LOSS);
    let losses: Vec<f64> = losses.collect();
    if !losses.is_empty() {
        let most = percent(losses.iter().copied().fold(0.0, f64::max));
        let some = some_of(losses.len());
        doubts.push(format!(
            "{some} have no rate that is known to be without loss: up to {most} of what {switch} is \
             said to carry is lost"
        ));
    }
    let kept: Vec<f64> = used.iter().map(|it| it.kept()).filter(|kept| *kept < KEPT).collect();
    if !kept.is_empty() {
        let least = percent(kept.iter().copied().fold(1.0, f64::min));
        let some = some_of(kept.len());
        doubts.push(format!(
            "{some} carried less when asked for more, down to {least} of the most: while {switch} is asked \
             for too much, it loses more than the plan tells"
        ));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(one: f64, other: f64) {
        assert!((one / other - 1.0).abs() < 1e-12, "{one} is not {other}");
    }

    #[test]
    fn times_are_interpolated_between_sizes_and_large_frames_take_theirs_by_the_byte() {
        let cost = Cost::new(vec![(1500.0, 8e-6), (64.0, 4e-6)]).unwrap();
        near(cost.of(20.0), 4e-6);
        near(cost.of(64.0), 4e-6);
        near(cost.of(782.0), 6e-6);
        near(cost.of(1500.0), 8e-6);
        near(cost.of(3000.0), 16e-6);
        assert_eq!(Cost::new(Vec::new()), None);
    }

    /// An entry of 64 bytes that carried 100 frames a second, with these steps: what three of four
    /// rounds carried, and what was lost.
    fn stepped(steps: &[(f64, f64)], lost: u64) -> Entry {
        let step = |(q1, loss): &(f64, f64)| {
            let carried = serde_json::json!({"q1": q1, "median": q1 + 1.0});
            serde_json::json!({"carried_fps": carried, "loss_ratio": loss})
        };
        let entry = serde_json::json!({
            "switch": "ovs", "way": "host", "tunnel": "none", "load": "frames", "offload": false,
            "size": 64, "fps": {"q1": 100.0, "median": 101.0}, "bound_by": "switch",
            "at_least": false, "lost": lost,
            "curve": steps.iter().map(step).collect::<Vec<_>>(),
        });
        serde_json::from_value(entry).unwrap()
    }

    #[test]
    fn what_was_carried_by_losing_some_is_not_planned_with() {
        let doubts = |it: &Entry| doubts(Path::new("host.json"), "ovs", &[it]);
        let lossy = stepped(&[(50.0, 0.0), (80.0, 0.0005), (100.0, 0.04), (98.0, 0.3)], 10);
        assert_eq!((lossy.careful_fps(), doubts(&lossy)), (80.0, vec![]));
        // Where senders wait, steps are rounds of one rate: what each round carried at most counts.
        let lossless = stepped(&[(50.0, 0.0), (98.0, 0.0), (99.0, 0.0)], 0);
        assert_eq!((lossless.careful_fps(), doubts(&lossless)), (100.0, vec![]));
        for (entry, most) in
            [(stepped(&[(50.0, 0.02), (100.0, 0.04)], 10), "4 %"), (stepped(&[], 10), "5 %")]
        {
            let doubt = format!(
                "1 of 1 entries that are used of host.json have no rate that is known to be \
                 without loss: up to {most} of what ovs is said to carry is lost"
            );
            assert_eq!((entry.careful_fps(), doubts(&entry)), (100.0, vec![doubt]));
        }
        assert_eq!(doubts(&stepped(&[], 0)), Vec::<String>::new());
    }

    #[test]
    fn a_switch_that_collapses_is_told() {
        // What it carries is 100 frames a second; asked for what senders can, it carries 25.
        let entry = stepped(&[(50.0, 0.0), (99.0, 0.0), (24.0, 0.8)], 10);
        let told = doubts(Path::new("host.json"), "bridge", &[&entry]);
        let expected = "1 of 1 entries that are used of host.json carried less when asked for more, down \
                        to 25 % of the most: while bridge is asked for too much, it loses more than the \
                        plan tells";
        assert_eq!(told, [expected]);
    }

    #[test]
    fn a_profile_says_what_frames_take_of_a_switch() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.json");
        let entry = |switch: &str, way: &str, tunnel: &str, load: &str, size: u32, q1: f64| {
            serde_json::json!({
                "switch": switch, "way": way, "tunnel": tunnel, "load": load,
                "offload": size > 1514, "size": size, "fps": {"q1": q1, "median": 2.0 * q1},
                "bound_by": "processors", "at_least": way == "link",
            })
        };
        let write = |results: serde_json::Value| {
            let profile = serde_json::json!({"experiment": "profile", "results": results});
            fs::write(&path, profile.to_string()).unwrap();
        };
        let told = |switch, tunnel| Costs::read(&path, switch, tunnel).unwrap_err().to_string();
        let name = path.display();
        write(serde_json::json!([
            entry("zovn", "host", "none", "frames", 64, 200e3),
            entry("zovn", "host", "none", "stream", 1514, 1.0),
            entry("zovn", "host", "none", "stream", 40_000, 50e3),
            entry("zovn", "link", "geneve", "frames", 64, 100e3),
            entry("bridge", "host", "none", "stream", 1514, 1.0),
        ]));
        let costs = Costs::read(&path, "zovn", Some("geneve")).unwrap();
        near(costs.careful.secs(64.0, 0.0), 5e-6);
        near(costs.careful.secs(40_000.0, 0.0), 20e-6);
        near(costs.careful.secs(64.0, 1.0), 10e-6);
        near(costs.careful.secs(64.0, 0.5), 7.5e-6);
        near(costs.typical.secs(64.0, 0.0), 2.5e-6);
        assert_eq!((costs.frames, costs.measured.tunnel.as_str()), ((64, 64), "geneve"));
        let doubt = format!(
            "1 of 3 entries that are used of {name} were bound by processors: zovn carries so much at \
             least"
        );
        assert_eq!(costs.doubts, [doubt]);
        assert_eq!(told("ovs", None), format!("{name} has no `ovs`: it has bridge, zovn"));
        let expected =
            format!("{name} has no frames of `zovn` by the link with tunnel `none`: it has geneve");
        assert_eq!(told("zovn", None), expected);
        assert!(told("bridge", None).contains("has no frames of `bridge` within the host"));

        let with = |mut entry: serde_json::Value, cores: u32, far: u32| {
            (entry["cores"], entry["far"]) = (cores.into(), far.into());
            entry
        };
        write(serde_json::json!([
            with(entry("zovn", "host", "none", "frames", 64, 200e3), 2, 0),
            with(entry("zovn", "host", "none", "frames", 64, 90e3), 1, 0),
            with(entry("zovn", "link", "geneve", "frames", 64, 70e3), 2, 4),
            with(entry("zovn", "link", "geneve", "frames", 64, 60e3), 1, 1),
            with(entry("zovn", "link", "geneve", "frames", 64, 100e3), 2, 1),
        ]));
        let costs = Costs::read(&path, "zovn", Some("geneve")).unwrap();
        near(costs.careful.secs(64.0, 0.0), 5e-6);
        near(costs.careful.secs(64.0, 1.0), 10e-6);
        assert!(costs.doubts[0].starts_with("1 of 2 entries"), "{:?}", costs.doubts);

        write(serde_json::json!([entry("zovn", "host", "none", "frames", 64, 0.0)]));
        let expected = format!("{name}: results/0 carries nothing: measure it again");
        assert_eq!(told("zovn", None), expected);
        fs::write(&path, "{\"experiment\": \"ramp\"}").unwrap();
        assert!(told("zovn", None).contains("is a measurement of `ramp`"));
        fs::write(&path, "{\n1}").unwrap();
        assert!(told("zovn", None).starts_with(&format!("{name}:2:1 is no profile: ")));
        fs::remove_file(&path).unwrap();
        assert!(told("zovn", None).starts_with(&format!("cannot read {name}: ")));
    }
}
