//! From a file to checked scenarios.
//!
//! ```text
//! text ─▶ tree ─┬─ [sweep] ─▶ axes ─▶ combination ─▶ repetition ─▶ cell
//!               └─ the rest ────────────▲
//! ```
//!
//! All combinations are read and checked when the plan is; a cell is made again when it is asked
//! for, so a plan is as large as its file, whatever it sweeps.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Serialize;
use toml::de::DeValue;
use toml::{Table, Value};

use super::fault::{self, Complaint, Fault, ScenarioError, Source};
use super::sweep::{Setting, Sweep};
use super::{Axis, Scenario, Shard, VERSION};

/// The largest file, in bytes; of a scenario, and of a distribution.
const MOST_TEXT: usize = 1 << 18;

/// The most distributions of one's own.
const MOST_DISTRIBUTIONS: usize = 100;

/// The largest seed: TOML's whole numbers end at 2^63 - 1, and repetitions count on from it.
pub const MOST_SEED: u64 = 1 << 62;

/// What a file says: a scenario, or a sweep of them. All of them are checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    tree: Table,
    sweep: Sweep,
    seed: Option<u64>,
    first: Scenario,
}

/// One run of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Its number, from 0.
    pub index: u64,
    /// What it is called, alone in its plan: `tcp.control=reno,network=lossy,seed=8`, or as the
    /// scenario is.
    pub name: String,
    /// Each axis with the label of its value.
    pub values: Vec<(String, String)>,
    /// Which repetition of its combination it is, from 0.
    pub repetition: u32,
    /// What is to be run.
    pub scenario: Scenario,
}

impl Plan {
    /// Reads a plan from a file. Files that it names are looked for beside it.
    ///
    /// # Errors
    ///
    /// [`ScenarioError::File`] if it cannot be read, [`ScenarioError::Faults`] if it cannot be
    /// simulated.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let text =
            text(path).map_err(|source| ScenarioError::File { path: path.to_owned(), source })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse_with(&text, |name| self::text(&folder.join(name)))
            .map_err(|faults| ScenarioError::Faults { path: path.to_owned(), faults })
    }

    /// Reads a plan from a text that names no files.
    ///
    /// # Errors
    ///
    /// What cannot be simulated, at least one thing, in the order of the text.
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        Self::parse_with(text, |_| Err(io::Error::other("this text has no folder to look in")))
    }

    fn parse_with(
        text: &str,
        file: impl Fn(&str) -> io::Result<String>,
    ) -> Result<Self, Vec<Fault>> {
        let one = |fault| vec![fault];
        if text.len() > MOST_TEXT {
            let what = format!(
                "a scenario has at most {MOST_TEXT} bytes: put long distributions into files"
            );
            return Err(one(Fault { line: 1, column: 1, field: String::new(), what, cell: None }));
        }
        let source = Source::parse(text).map_err(one)?;
        let mut tree: Table = text
            .parse()
            .map_err(|error: toml::de::Error| one(source.fault(0..0, "", error.message())))?;
        check_version(&tree).map_err(|complaint| one(source.place(complaint)))?;
        include(&mut tree, file).map_err(|complaint| one(source.place(complaint)))?;
        let sweep = match (tree.remove("sweep"), source.root().get("sweep")) {
            (None, _) | (_, None) => Sweep::none(),
            (Some(Value::Table(values)), Some(places)) if places.get_ref().is_table() => {
                let DeValue::Table(places) = places.get_ref() else { unreachable!("it was asked") };
                Sweep::parse(&source, places, &values).map_err(one)?
            }
            (Some(_), Some(place)) => {
                let what =
                    "a sweep is a table: write `[sweep]`, and below it fields with lists of values";
                return Err(one(source.fault(place.span(), "sweep", what)));
            }
        };
        let mut first = None;
        for index in 0..sweep.combinations() {
            let scenario = scenario(&tree, &sweep, index).map_err(|complaints| {
                let place = |complaint| place(&source, &sweep, index, complaint);
                let mut faults: Vec<_> = complaints.into_iter().map(place).collect();
                faults.sort_by_key(|fault| (fault.line, fault.column));
                faults
            })?;
            first.get_or_insert(scenario);
        }
        let first = first.expect("an axis without values was refused, so there is a combination");
        Ok(Self { tree, sweep, seed: None, first })
    }

    /// The same plan with another seed to begin with.
    ///
    /// # Panics
    ///
    /// If the seed is above 2^62: files cannot say it.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        assert!(seed <= MOST_SEED, "a seed is at most 2^62");
        Self { seed: Some(seed), ..self }
    }

    /// The first cell's scenario: what there is without a sweep.
    pub fn first(&self) -> &Scenario {
        &self.first
    }

    /// What the sweep varies, in order.
    pub fn axes(&self) -> &[Axis] {
        &self.sweep.axes
    }

    /// How often each combination runs.
    pub fn repeat(&self) -> u32 {
        self.sweep.repeat
    }

    /// How many cells there are: at least one.
    pub fn len(&self) -> u64 {
        self.sweep.combinations() as u64 * u64::from(self.sweep.repeat)
    }

    /// A plan is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Cell number `index`.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`len`](Self::len).
    pub fn cell(&self, index: u64) -> Cell {
        assert!(index < self.len(), "cell {index} of {}", self.len());
        let repeat = u64::from(self.sweep.repeat);
        let repetition = (index % repeat) as u32;
        let combination = (index / repeat) as usize;
        let mut scenario = scenario(&self.tree, &self.sweep, combination)
            .expect("every combination was read and checked when the plan was");
        scenario.run.seed = self.seed.unwrap_or(scenario.run.seed) + u64::from(repetition);
        let choices = self.sweep.combination(combination);
        let axes = self.sweep.axes.iter().map(|axis| axis.name.clone());
        let values: Vec<_> = axes.zip(choices.iter().map(|choice| choice.label.clone())).collect();
        let mut words: Vec<_> =
            values.iter().map(|(axis, label)| format!("{axis}={label}")).collect();
        if repeat > 1 {
            words.push(format!("seed={}", scenario.run.seed));
        }
        let name = if words.is_empty() { scenario.name.clone() } else { words.join(",") };
        Cell { index, name, values, repetition, scenario }
    }

    /// A number for all cells together: another one if a cell is called otherwise or simulates
    /// anything else ([`Scenario::digest`]). Takes as long as reading the plan.
    pub fn digest(&self) -> u64 {
        let mut text = format!("{} times", self.repeat());
        for index in (0..self.len()).step_by(self.repeat() as usize) {
            let Cell { values, scenario, .. } = self.cell(index);
            text.extend(values.iter().map(|(axis, label)| format!(",{axis}={label}")));
            text.push_str(&format!(" {:016x}", scenario.digest()));
        }
        units::hash::fnv1a_64(text.as_bytes())
    }

    /// Every cell, in order: the last axis changes faster than the one before it, the repetition
    /// fastest.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        self.shard(Shard::WHOLE)
    }

    /// A shard's cells, in order.
    pub fn shard(&self, shard: Shard) -> impl Iterator<Item = Cell> + '_ {
        (0..self.len()).filter(move |index| shard.has(*index)).map(|index| self.cell(index))
    }
}

/// One combination's scenario, or what is wrong with it.
fn scenario(tree: &Table, sweep: &Sweep, combination: usize) -> Result<Scenario, Vec<Complaint>> {
    let mut tree = tree.clone();
    for setting in sweep.combination(combination).iter().flat_map(|choice| &choice.settings) {
        if let Err(name) = setting.apply(&mut tree) {
            let what = format!("`{name}` is no table, so nothing inside it can be set");
            return Err(vec![Complaint { path: setting.path.clone(), what, key: false }]);
        }
    }
    let scenario: Scenario = fault::read(tree).map_err(|complaint| vec![complaint])?;
    let complaints = scenario.complaints();
    if complaints.is_empty() { Ok(scenario) } else { Err(complaints) }
}

/// A complaint's place: that of the sweep's value, if the sweep set what it is about.
fn place(source: &Source<'_>, sweep: &Sweep, combination: usize, complaint: Complaint) -> Fault {
    let choices = sweep.combination(combination);
    let settings = choices.iter().flat_map(|choice| &choice.settings);
    // What only a sweep mentions may be wrong as a whole because of what the sweep sets in it.
    let only_swept = !source.has(&complaint.path);
    let sets = |setting: &&Setting| {
        complaint.path.starts_with(&setting.path) || only_swept && setting.concerns(&complaint.path)
    };
    let setting = settings.into_iter().find(sets);
    let is_swept = setting.is_some();
    let fault = match setting {
        Some(setting) => {
            source.fault(setting.span.clone(), complaint.path.join("."), complaint.what)
        }
        None => source.place(complaint),
    };
    // What is wrong in the first combination is wrong in others as well, unless the sweep says it.
    if !is_swept && combination == 0 {
        return fault;
    }
    let axes = sweep.axes.iter().zip(choices);
    let words: Vec<_> =
        axes.map(|(axis, choice)| format!("{}={}", axis.name, choice.label)).collect();
    Fault { cell: Some(words.join(",")), ..fault }
}

/// What a file says, if it is not too long to be a scenario.
fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(MOST_TEXT as u64 + 1).read_to_string(&mut text)?;
    if read > MOST_TEXT {
        return Err(io::Error::other(format!("it has more than {MOST_TEXT} bytes")));
    }
    Ok(text)
}

fn check_version(tree: &Table) -> Result<(), Complaint> {
    match tree.get("version") {
        Some(Value::Integer(version)) if *version == i64::from(VERSION) => Ok(()),
        Some(other) => {
            let what = format!("this program reads version {VERSION} of the schema, not {other}");
            Err(Complaint::at("version", what))
        }
        None => {
            let what =
                format!("a scenario says which schema it is written in: add `version = {VERSION}`");
            Err(Complaint { path: Vec::new(), what, key: false })
        }
    }
}

/// Puts the points of files in the place of their names.
fn include(tree: &mut Table, file: impl Fn(&str) -> io::Result<String>) -> Result<(), Complaint> {
    let Some(Value::Table(distributions)) = tree.get_mut("distribution") else { return Ok(()) };
    if distributions.len() > MOST_DISTRIBUTIONS {
        let what =
            format!("a scenario has at most {MOST_DISTRIBUTIONS} distributions: take some out");
        return Err(Complaint::at("distribution", what));
    }
    for (name, distribution) in distributions {
        let Value::Table(fields) = distribution else { continue };
        // Points and a file: the reader of points does not know what a file is, and says so.
        if fields.contains_key("points") {
            continue;
        }
        let Some(Value::String(path)) = fields.get("file") else { continue };
        let wrong = |what: String| Complaint {
            path: ["distribution", name, "file"].map(str::to_owned).into(),
            what,
            key: false,
        };
        let text =
            file(path).map_err(|error| wrong(format!("`{path}` cannot be read: {error}")))?;
        let cdf =
            traffic::Cdf::parse(&text).map_err(|error| wrong(format!("`{path}`: {error}")))?;
        let point = |&(value, share): &(f64, f64)| Value::Array(vec![value.into(), share.into()]);
        let points = Value::Array(cdf.points().iter().map(point).collect());
        fields.remove("file");
        fields.insert("points".to_owned(), points);
    }
    Ok(())
}
