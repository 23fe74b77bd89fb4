//! What people write as one word: which machines, how large, how far apart.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use traffic::{Cdf, Distribution};
use units::Bytes;

use super::VirtualNetwork;

/// The role that stands for every machine.
pub(super) const ANY: &str = "any";

/// Beyond this, a log-normal's mean is that of values never seen.
const MOST_SIGMA: f64 = 5.0;

/// Why a word is not what it was meant to be.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{word}` is not {wanted}: write {example}")]
pub struct ParseWordError {
    word: String,
    wanted: &'static str,
    example: &'static str,
}

impl ParseWordError {
    pub(super) fn new(word: &str, wanted: &'static str, example: &'static str) -> Self {
        Self { word: word.to_owned(), wanted, example }
    }
}

/// Some of the virtual machines: `ROLE`, `ROLE@SERVER`, `ROLE@FIRST-LAST`, each with `/N` behind it
/// for the n-th of the role on each server alone. The role `any` stands for all.
///
/// ```text
/// worker            every worker
/// worker@0-15       those on the first 16 servers
/// worker@3/0        the first on server 3
/// any/0             the first machine of every server
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Vms {
    /// Their role; every one if absent.
    pub role: Option<String>,
    /// Their servers; every one if absent.
    pub servers: Option<RangeInclusive<u32>>,
    /// Their place among those of the role on the same server, from 0; every one if absent.
    pub place: Option<u32>,
}

/// A virtual machine. Slots of a server are numbered role by role, in the alphabetical order of
/// roles.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Vm {
    /// Its server's number.
    pub server: u32,
    /// Its number on the server, from 0.
    pub slot: u32,
}

impl Vms {
    /// Every machine.
    pub const ANY: Self = Self { role: None, servers: None, place: None };

    /// The slots of each server that are meant, in rising order; `None` if there is no such role or
    /// place.
    pub fn slots(&self, network: &VirtualNetwork) -> Option<Range<u32>> {
        let (mut first, mut count) = (0u32, 0u32);
        for (role, n) in &network.vms {
            match &self.role {
                Some(wanted) if wanted == role => count = *n,
                Some(wanted) if role < wanted => first = first.saturating_add(*n),
                Some(_) => {}
                None => count = count.saturating_add(*n),
            }
        }
        match self.place {
            None => (count > 0).then(|| first..first.saturating_add(count)),
            Some(place) if place < count => {
                let slot = first.saturating_add(place);
                Some(slot..slot.saturating_add(1))
            }
            Some(_) => None,
        }
    }

    /// How many there are among `servers` servers.
    pub fn count(&self, network: &VirtualNetwork, servers: u64) -> u64 {
        self.count_on(network, 0..u32::try_from(servers).unwrap_or(u32::MAX))
    }

    /// How many there are on some of the servers.
    pub fn count_on(&self, network: &VirtualNetwork, servers: Range<u32>) -> u64 {
        let slots = self.slots(network).unwrap_or(0..0);
        (self.among(servers).len() as u64).saturating_mul(slots.len() as u64)
    }

    /// Whether some machine on some of the servers is one of both.
    pub fn meets(&self, other: &Self, network: &VirtualNetwork, servers: Range<u32>) -> bool {
        let (Some(mine), Some(theirs)) = (self.slots(network), other.slots(network)) else {
            return false;
        };
        !other.among(self.among(servers)).is_empty()
            && mine.start < theirs.end
            && theirs.start < mine.end
    }

    /// Each of them among `servers` servers, in rising order.
    pub fn iter(&self, network: &VirtualNetwork, servers: u32) -> impl Iterator<Item = Vm> + use<> {
        let slots = self.slots(network).unwrap_or(0..0);
        self.among(0..servers)
            .flat_map(move |server| slots.clone().map(move |slot| Vm { server, slot }))
    }

    /// Whether a machine is one of them.
    pub fn contains(&self, network: &VirtualNetwork, vm: Vm) -> bool {
        self.servers.as_ref().is_none_or(|range| range.contains(&vm.server))
            && self.slots(network).is_some_and(|slots| slots.contains(&vm.slot))
    }

    /// Those of `servers` that are meant.
    fn among(&self, servers: Range<u32>) -> Range<u32> {
        match &self.servers {
            Some(range) => {
                servers.start.max(*range.start())..servers.end.min(range.end().saturating_add(1))
            }
            None => servers,
        }
    }
}

impl FromStr for Vms {
    type Err = ParseWordError;

    fn from_str(word: &str) -> Result<Self, ParseWordError> {
        let wrong = || {
            ParseWordError::new(
                word,
                "a choice of machines",
                "any, worker, worker@0-15 or worker@3/0",
            )
        };
        let (rest, place) = match word.split_once('/') {
            Some((rest, place)) => (rest, Some(number(place).ok_or_else(wrong)?)),
            None => (word, None),
        };
        let (role, servers) = match rest.split_once('@') {
            Some((role, servers)) => {
                let (first, last) = servers.split_once('-').unwrap_or((servers, servers));
                let range = number(first).ok_or_else(wrong)?..=number(last).ok_or_else(wrong)?;
                (role, Some(range))
            }
            None => (rest, None),
        };
        if !is_name(role) || servers.as_ref().is_some_and(RangeInclusive::is_empty) {
            return Err(wrong());
        }
        Ok(Self { role: (role != ANY).then(|| role.to_owned()), servers, place })
    }
}

impl fmt::Display for Vms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.role.as_deref().unwrap_or(ANY))?;
        match &self.servers {
            Some(range) if range.start() == range.end() => write!(f, "@{}", range.start())?,
            Some(range) => write!(f, "@{}-{}", range.start(), range.end())?,
            None => {}
        }
        match self.place {
            Some(place) => write!(f, "/{place}"),
            None => Ok(()),
        }
    }
}

/// How large flows are: `20kb`, `exponential(20kb)`, `log-normal(20kb, 1.5)`, or the name of a
/// distribution: a published one (`web-search`, `data-mining`, `hadoop`, `storage`) or one of the
/// scenario's own.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Always the same.
    Fixed(Bytes),
    /// Exponential.
    Exponential(Bytes),
    /// A size whose logarithm is normal.
    LogNormal {
        /// The mean of the size itself.
        mean: Bytes,
        /// The standard deviation of its logarithm.
        sigma: f64,
    },
    /// By its name.
    Named(String),
}

impl Sizes {
    /// The distribution, in bytes; `cdf` finds one by its name.
    pub fn distribution(&self, cdf: impl FnOnce(&str) -> Option<Cdf>) -> Option<Distribution> {
        Some(match self {
            Self::Fixed(bytes) => Distribution::Fixed(bytes.0 as f64),
            Self::Exponential(mean) => Distribution::Exponential { mean: mean.0 as f64 },
            Self::LogNormal { mean, sigma } => {
                Distribution::LogNormal { mean: mean.0 as f64, sigma: *sigma }
            }
            Self::Named(name) => Distribution::Cdf(cdf(name)?),
        })
    }
}

impl FromStr for Sizes {
    type Err = ParseWordError;

    fn from_str(word: &str) -> Result<Self, ParseWordError> {
        let wrong = || {
            let example =
                "20kb, exponential(20kb), log-normal(20kb, 1.5), or a distribution's name";
            ParseWordError::new(word, "a distribution of sizes", example)
        };
        let bytes = |text: &str| text.parse::<Bytes>().map_err(|_| wrong());
        match call(word) {
            Some(("exponential", [mean, ""])) => Ok(Self::Exponential(bytes(mean)?)),
            Some(("log-normal", [mean, deviation])) => Ok(Self::LogNormal {
                mean: bytes(mean)?,
                sigma: sigma(deviation).ok_or_else(wrong)?,
            }),
            Some(_) => Err(wrong()),
            None if word.starts_with(|c: char| c.is_ascii_digit()) => Ok(Self::Fixed(bytes(word)?)),
            None if is_name(word) => Ok(Self::Named(word.to_owned())),
            None => Err(wrong()),
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(bytes) => bytes.fmt(f),
            Self::Exponential(mean) => write!(f, "exponential({mean})"),
            Self::LogNormal { mean, sigma } => write!(f, "log-normal({mean}, {sigma})"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// How gaps are spread around their mean: `fixed`, `poisson`, `log-normal(2)`, or the name of one
/// of the scenario's distributions, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Arrivals {
    /// All alike.
    Fixed,
    /// As in a Poisson process.
    #[default]
    Poisson,
    /// Gaps whose logarithm is normal, with this standard deviation: heavier bursts, longer pauses.
    LogNormal(f64),
    /// By its name. It has a mean of its own, and is stretched to another if one is given.
    Named(String),
}

impl Arrivals {
    /// The distribution of gaps, in nanoseconds, around `mean_ns`; `cdf` finds one by its name.
    /// `None` if there is no such distribution, or neither a mean.
    pub fn distribution(
        &self,
        mean_ns: Option<f64>,
        cdf: impl FnOnce(&str) -> Option<Cdf>,
    ) -> Option<Distribution> {
        Some(match self {
            Self::Fixed => Distribution::Fixed(mean_ns?),
            Self::Poisson => Distribution::Exponential { mean: mean_ns? },
            Self::LogNormal(sigma) => Distribution::LogNormal { mean: mean_ns?, sigma: *sigma },
            Self::Named(name) => {
                let own = cdf(name)?;
                let stretch = mean_ns.map_or(1.0, |mean| mean / own.mean());
                let stretched: Vec<_> =
                    own.points().iter().map(|(gap, p)| (gap * stretch, *p)).collect();
                Distribution::Cdf(Cdf::new(&stretched).ok()?)
            }
        })
    }
}

impl FromStr for Arrivals {
    type Err = ParseWordError;

    fn from_str(word: &str) -> Result<Self, ParseWordError> {
        let wrong = || {
            let example = "poisson, fixed, log-normal(2), or a distribution's name";
            ParseWordError::new(word, "a way to arrive", example)
        };
        match (call(word), word) {
            (Some(("log-normal", [deviation, ""])), _) => {
                Ok(Self::LogNormal(sigma(deviation).ok_or_else(wrong)?))
            }
            (Some(_), _) => Err(wrong()),
            (None, "fixed") => Ok(Self::Fixed),
            (None, "poisson") => Ok(Self::Poisson),
            (None, name) if is_name(name) => Ok(Self::Named(name.to_owned())),
            (None, _) => Err(wrong()),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed => f.write_str("fixed"),
            Self::Poisson => f.write_str("poisson"),
            Self::LogNormal(sigma) => write!(f, "log-normal({sigma})"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

units::serde_as_word!(Vms, Sizes, Arrivals);

/// Whether it may be the name of a role, a class, a workload or a distribution: a lowercase letter,
/// then lowercase letters, digits, `-` and `_`.
pub(super) fn is_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b))
}

/// `name(a, b)` as a name and its arguments, of which the second is empty if there is none.
fn call(word: &str) -> Option<(&str, [&str; 2])> {
    let (name, rest) = word.strip_suffix(')')?.split_once('(')?;
    let (a, b) = rest.split_once(',').unwrap_or((rest, ""));
    Some((name.trim(), [a.trim(), b.trim()]))
}

fn sigma(text: &str) -> Option<f64> {
    text.parse().ok().filter(|sigma| (0.0..=MOST_SIGMA).contains(sigma))
}

/// Digits alone: no sign.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn network() -> VirtualNetwork {
        let vms = [("hla", 1), ("mla", 2), ("worker", 3)].map(|(role, n)| (role.to_owned(), n));
        VirtualNetwork { vms: BTreeMap::from(vms), ..VirtualNetwork::default() }
    }

    #[test]
    fn words_print_as_they_were_read() {
        for word in ["any", "worker", "worker@3", "worker@0-15", "worker@3/0", "any/1"] {
            assert_eq!(word.parse::<Vms>().unwrap().to_string(), word);
        }
        for word in ["20kb", "exponential(20kb)", "log-normal(20kb, 1.5)", "web-search"] {
            assert_eq!(word.parse::<Sizes>().unwrap().to_string(), word);
        }
        for word in ["fixed", "poisson", "log-normal(2)", "measured"] {
            assert_eq!(word.parse::<Arrivals>().unwrap().to_string(), word);
        }
    }

    #[test]
    fn other_words_are_refused() {
        for word in [
            "",
            "@3",
            "worker@",
            "worker@5-3",
            "worker@-3",
            "worker/",
            "worker@+3",
            "Worker",
            "a/b/c",
        ] {
            assert!(word.parse::<Vms>().is_err(), "{word}");
        }
        for word in [
            "",
            "20",
            "20 apples",
            "normal(3kb)",
            "log-normal(20kb)",
            "log-normal(20kb, NaN)",
            "a b",
        ] {
            assert!(word.parse::<Sizes>().is_err(), "{word}");
        }
        for word in ["", "log-normal(-1)", "log-normal(inf)", "log-normal(2, 3)", "fixed(1)"] {
            assert!(word.parse::<Arrivals>().is_err(), "{word}");
        }
    }

    #[test]
    fn a_choice_is_counted_as_it_is_listed() {
        let cases: [(&str, &[(u32, u32)]); 6] = [
            ("mla@1", &[(1, 1), (1, 2)]),
            ("worker@2-9/1", &[(2, 4), (3, 4)]),
            ("hla", &[(0, 0), (1, 0), (2, 0), (3, 0)]),
            ("any@3", &[(3, 0), (3, 1), (3, 2), (3, 3), (3, 4), (3, 5)]),
            ("nobody", &[]),
            ("mla@7", &[]),
        ];
        for (word, expected) in cases {
            let vms: Vms = word.parse().unwrap();
            let listed: Vec<_> = vms.iter(&network(), 4).map(|vm| (vm.server, vm.slot)).collect();
            assert_eq!(listed, expected, "{word}");
            assert_eq!(vms.count(&network(), 4), expected.len() as u64, "{word}");
        }
    }

    #[test]
    fn choices_meet_where_they_have_a_machine_in_common() {
        let words =
            ["any", "hla", "mla", "mla/1", "any/1", "any@1-2", "mla@2-9", "worker@0/2", "nobody"];
        for (a, b) in words.iter().flat_map(|a| words.iter().map(move |b| (*a, *b))) {
            let (these, those): (Vms, Vms) = (a.parse().unwrap(), b.parse().unwrap());
            for servers in [0..4, 0..2, 1..3, 3..3] {
                let here = |vm: &Vm| servers.contains(&vm.server);
                let mut listed = these.iter(&network(), 4).filter(here);
                let meet = listed.any(|vm| those.contains(&network(), vm));
                assert_eq!(
                    these.meets(&those, &network(), servers.clone()),
                    meet,
                    "{a} {b} {servers:?}"
                );
            }
        }
    }

    #[test]
    fn named_gaps_are_stretched_to_their_mean() {
        let own = |_: &str| Cdf::new(&[(0.0, 0.5), (100.0, 1.0)]).ok();
        let named = Arrivals::Named("own".into());
        assert_eq!(named.distribution(None, own).unwrap().mean(), 25.0);
        assert!((named.distribution(Some(1000.0), own).unwrap().mean() - 1000.0).abs() < 1e-9);
        assert_eq!(Arrivals::Poisson.distribution(None, own), None);
    }
}
