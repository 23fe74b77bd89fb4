//! What a plan's file says, before its names are looked up.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use units::{Bytes, Rate, Span};

use crate::columns::Columns;
use crate::settings::{Prefer, UnknownHosts};

/// A file. Several make a plan: what each section has is put together.
#[derive(serde::Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct File {
    pub goal: Option<Goal>,
    /// Classes of hours, and how many hours of the week are of each.
    pub periods: Entries<u32>,
    pub types: Entries<HostType>,
    pub hosts: Entries<Hosts>,
    pub models: Entries<Model>,
    pub vms: Entries<Machines>,
    pub clusters: Entries<Cluster>,
    pub placement: Entries<Entries<u32>>,
    pub serve: Option<Serve>,
}

/// How schedulers are answered.
#[derive(serde::Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Serve {
    /// The models that machines may name.
    pub models: Vec<String>,
    /// The model of those that name none of these.
    pub default: Option<String>,
    /// How long an answer counts as a placement.
    pub assume: Option<Span>,
    pub prefer: Prefer,
    pub unknown_hosts: UnknownHosts,
    /// Where agents of hosts show their metrics: `h-1: 192.0.2.1:9100`.
    pub agents: Entries<String>,
    /// How often they are read.
    pub every: Option<Span>,
    /// Which of their ports are which machines: `"web-*": web`.
    pub ports: Entries<String>,
}

#[derive(serde::Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(crate) struct Goal {
    /// The share of time in which a host may be asked for more than it carries.
    pub epsilon: f64,
    #[serde(default)]
    pub least: Least,
    #[serde(default)]
    pub periods: Counts,
}

/// What counts of the overload in several classes of hours.
#[derive(serde::Deserialize, Clone, Copy, Debug, Default, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Counts {
    /// That of the worst.
    #[default]
    Worst,
    /// The mean, in which each weighs as many hours as it has.
    Mean,
}

/// What a placement has as little of as possible.
#[derive(serde::Deserialize, Clone, Copy, Debug, Default, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Least {
    /// Hosts.
    #[default]
    Hosts,
    /// What hosts cost.
    Price,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostType {
    pub cores: u32,
    pub memory: Bytes,
    /// What the card carries in each direction.
    pub nic: Option<Rate>,
    /// What each frame takes on the wire beside itself: tunnel headers, preamble, gap, checksum. If
    /// not said, that of a profile's tunnel.
    pub overhead: Option<Bytes>,
    /// What the switch carries, by how many cores it has.
    #[serde(default)]
    pub switch: Vec<Switch>,
    pub price: Option<u64>,
    pub watts: Option<u64>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Switch {
    /// Cores that machines do not get.
    #[serde(default)]
    pub cores: u32,
    pub carries: Option<Rate>,
    /// Frames a second.
    pub frames: Option<u64>,
    /// How many tunnels it has, which figure 9 of the paper compares.
    pub tunnels: Option<u32>,
    /// What was measured of such a switch.
    pub profile: Option<Profile>,
}

/// What to look up in a profile.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// What `zovn measure profile --json` wrote, beside the plan's file.
    pub file: PathBuf,
    pub switch: String,
    /// What is around frames that leave the host; nothing if not said.
    pub tunnel: Option<String>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hosts {
    #[serde(rename = "type")]
    pub kind: String,
    /// So many hosts, whose names are numbered.
    pub count: Option<u32>,
    pub rack: Option<String>,
    /// Which of the type's switches; the first, if nothing is said.
    pub switch_cores: Option<u32>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    /// The same at all times.
    pub rate: Option<Speed>,
    /// Equation 1 of the paper.
    pub on: Option<Speed>,
    pub on_for: Option<Span>,
    pub off_for: Option<Span>,
    /// Equation 2.
    pub rates: Option<Vec<Speed>>,
    pub hold: Option<Vec<Span>>,
    pub jump: Option<Vec<Vec<f64>>>,
    /// One of these for each class of hours.
    #[serde(default)]
    pub periods: Entries<Rates>,
    /// A trace that states are fitted to, beside the file.
    pub trace: Option<PathBuf>,
    #[serde(default)]
    pub columns: Columns,
    /// The mean size of its frames. A trace may say it itself.
    pub frame: Option<Bytes>,
    /// The share of its traffic that it sends; the rest it receives. A trace says itself.
    pub sends: Option<f64>,
    /// The share of its traffic that leaves the host.
    #[serde(default = "all")]
    pub remote: f64,
    /// Machines of models with this word move together.
    pub together: Option<String>,
}

impl Model {
    /// What it says of rates at all times.
    pub fn always(&self) -> Rates {
        let Self { rate, on, on_for, off_for, rates, hold, jump, .. } = self;
        let (rates, hold, jump) = (rates.clone(), hold.clone(), jump.clone());
        Rates { rate: *rate, on: *on, on_for: *on_for, off_for: *off_for, rates, hold, jump }
    }
}

/// A model's rates, written as those of [`Model`].
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rates {
    pub rate: Option<Speed>,
    pub on: Option<Speed>,
    pub on_for: Option<Span>,
    pub off_for: Option<Span>,
    pub rates: Option<Vec<Speed>>,
    pub hold: Option<Vec<Span>>,
    pub jump: Option<Vec<Vec<f64>>>,
}

impl Rates {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.rate.is_none() && self.on.is_none() && self.rates.is_none()
    }
}

/// The bytes of a frame if nothing says them.
pub(crate) const FULL_FRAME: u64 = 1500;

fn all() -> f64 {
    1.0
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machines {
    pub model: String,
    #[serde(default = "one")]
    pub count: u32,
    pub cores: u32,
    pub memory: Bytes,
    pub apart: Option<Apart>,
    pub cluster: Option<String>,
    /// How fast a machine changes its memory, which a migration has to send again.
    pub dirty: Option<Rate>,
}

fn one() -> u32 {
    1
}

#[derive(serde::Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Apart {
    Host,
    Rack,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cluster {
    /// What each machine may send to the others.
    pub hose: Rate,
}

/// Named things, in the order in which they are written.
pub(crate) struct Entries<T>(pub Vec<(String, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Named<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Named<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names, each with what it is")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Named(PhantomData))
    }
}

/// A rate that may be 0.
#[derive(Clone, Copy)]
pub(crate) struct Speed(pub u64);

impl<'de> Deserialize<'de> for Speed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;

        impl Visitor<'_> for Word {
            type Value = Speed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rate as 1gbit, 100mbit or 2.5gbit, or 0")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Speed, E> {
                if number == 0 {
                    return Ok(Speed(0));
                }
                Err(E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Speed, E> {
                word.parse::<Rate>().map(|it| Speed(it.bits_per_sec())).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Word)
    }
}
