//! A sweep: which fields take which values, and who runs which of the cells.
//!
//! ```text
//! [sweep]
//! repeat = 2                                      the last digit: it changes fastest
//! tcp.control = ["reno", "cubic"]                 an axis: a field and its values
//! network = [                                     an axis whose values are cases, each with its name
//!     { name = "lossy", flow_control.virtual = "lossy", flow_control.physical = "lossy" },
//!     { name = "lossless" },
//! ]
//! ```
//!
//! Axes count like the digits of a number, in the order in which they are written.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::fault::{Fault, Source};

/// The most combinations of values that a sweep may have: all of them are checked before the first
/// one runs.
const MOST_COMBINATIONS: usize = 4096;

/// The most repetitions.
const MOST_REPETITIONS: u32 = 10_000;

/// One thing that a sweep varies.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The field's path, or the name that its cases are called by.
    pub name: String,
    /// Its values.
    pub choices: Vec<Choice>,
}

/// One value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What it is called: the value itself, or the case's name. One of its own among the axis's.
    pub label: String,
    /// The fields that it sets.
    pub settings: Vec<Setting>,
    /// Where it is written: bytes of the file.
    pub(super) span: Range<usize>,
}

/// One field with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The field's path, key by key.
    pub path: Vec<String>,
    /// What it is set to. A table with a `kind` takes the place of what was there.
    pub value: Value,
    /// Where it is written: bytes of the file.
    pub(super) span: Range<usize>,
}

/// All that `[sweep]` says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sweep {
    pub axes: Vec<Axis>,
    pub repeat: u32,
}

impl Sweep {
    /// No sweep: one cell.
    pub fn none() -> Self {
        Self { axes: Vec::new(), repeat: 1 }
    }

    /// Reads `[sweep]`, the table `values` whose places are in `places`.
    pub fn parse(source: &Source<'_>, places: &DeTable<'_>, values: &Table) -> Result<Self, Fault> {
        let mut reader = Reader { source, axes: Vec::new(), repeat: 1 };
        reader.table(&[], places, values)?;
        reader.axes.sort_by_key(|(start, _)| *start);
        let sweep = Self {
            axes: reader.axes.into_iter().map(|(_, axis)| axis).collect(),
            repeat: reader.repeat,
        };
        sweep.check(source)?;
        Ok(sweep)
    }

    /// How many combinations there are; what is checked has no more than [`MOST_COMBINATIONS`].
    pub fn combinations(&self) -> usize {
        self.axes.iter().fold(1, |product, axis| product.saturating_mul(axis.choices.len()))
    }

    /// The choices of combination number `index`, axis by axis.
    pub fn combination(&self, index: usize) -> Vec<&Choice> {
        let mut rest = index;
        let mut choices: Vec<&Choice> = Vec::with_capacity(self.axes.len());
        for axis in self.axes.iter().rev() {
            choices.push(&axis.choices[rest % axis.choices.len()]);
            rest /= axis.choices.len();
        }
        choices.reverse();
        choices
    }

    fn check(&self, source: &Source<'_>) -> Result<(), Fault> {
        if self.combinations() > MOST_COMBINATIONS {
            let what = format!(
                "more than {MOST_COMBINATIONS} combinations: vary less, or in several files"
            );
            return Err(source.place(super::fault::Complaint::at("sweep", what)));
        }
        for (place, axis) in self.axes.iter().enumerate() {
            for (nth, choice) in axis.choices.iter().enumerate() {
                let field = format!("sweep.{}", axis.name);
                if axis.choices[..nth].iter().any(|other| other.label == choice.label) {
                    let what = format!("`{}` is there twice: take one out", choice.label);
                    return Err(source.fault(choice.span.clone(), field, what));
                }
                for setting in &choice.settings {
                    let Some(earlier) =
                        self.axes[..place].iter().find(|earlier| earlier.touches(setting))
                    else {
                        continue;
                    };
                    let what = format!(
                        "`{}` sets `{}` too: set a field along one axis only",
                        earlier.name,
                        setting.path.join(".")
                    );
                    return Err(source.fault(setting.span.clone(), field, what));
                }
            }
        }
        Ok(())
    }
}

impl Axis {
    /// Whether some choice of this axis sets the field of `other` too, or one around or inside it.
    fn touches(&self, other: &Setting) -> bool {
        self.choices
            .iter()
            .flat_map(|choice| &choice.settings)
            .any(|mine| mine.concerns(&other.path))
    }
}

impl Setting {
    /// Whether it sets the field at `path`, or one around or inside it.
    pub(super) fn concerns(&self, path: &[String]) -> bool {
        self.path.iter().zip(path).all(|(mine, theirs)| mine == theirs)
    }

    /// Sets the field in `tree`. `Err` names the key that should be a table and is not.
    pub(super) fn apply(&self, tree: &mut Table) -> Result<(), String> {
        let (last, tables) = self.path.split_last().expect("a setting has a path");
        let mut here = tree;
        for name in tables {
            let inner = here.entry(name.clone()).or_insert_with(|| Value::Table(Table::new()));
            here = inner.as_table_mut().ok_or_else(|| name.clone())?;
        }
        here.insert(last.clone(), self.value.clone());
        Ok(())
    }
}

/// What reads `[sweep]`, with the places of what it has read.
struct Reader<'s, 't> {
    source: &'s Source<'t>,
    axes: Vec<(usize, Axis)>,
    repeat: u32,
}

impl Reader<'_, '_> {
    /// Reads a table of axes whose names begin with `path`.
    fn table(
        &mut self,
        path: &[String],
        places: &DeTable<'_>,
        values: &Table,
    ) -> Result<(), Fault> {
        for (key, place) in places {
            let name: &str = key.get_ref();
            let Some(value) = values.get(name) else { continue };
            let path = extended(path, name);
            let wrong = |what: &str| {
                Err(self.source.fault(place.span(), format!("sweep.{}", path.join(".")), what))
            };
            match (place.get_ref(), value) {
                _ if path == ["repeat"] => match value
                    .as_integer()
                    .and_then(|n| u32::try_from(n).ok())
                {
                    Some(repeat @ 1..=MOST_REPETITIONS) => self.repeat = repeat,
                    _ => return wrong("write how often each combination runs, from 1 to 10000"),
                },
                (DeValue::Table(places), Value::Table(values)) => {
                    self.table(&path, places, values)?
                }
                (DeValue::Array(places), Value::Array(values)) if !values.is_empty() => {
                    let mut choices = Vec::with_capacity(values.len());
                    for (place, value) in places.iter().zip(values) {
                        choices.push(self.choice(&path, place.span(), place.get_ref(), value)?);
                    }
                    self.axes.push((key.span().start, Axis { name: path.join("."), choices }));
                }
                _ => {
                    return wrong(
                        "a field of a sweep is a list of its values: write `[value, value]`",
                    );
                }
            }
        }
        Ok(())
    }

    fn choice(
        &self,
        axis: &[String],
        span: Range<usize>,
        place: &DeValue<'_>,
        value: &Value,
    ) -> Result<Choice, Fault> {
        let wrong = |what: &str| {
            Err(self.source.fault(span.clone(), format!("sweep.{}", axis.join(".")), what))
        };
        match (place, value) {
            (DeValue::Table(places), Value::Table(values)) => {
                let label = match values.get("name").and_then(Value::as_str) {
                    Some(name) if is_label(name) => name.to_owned(),
                    _ => {
                        return wrong(
                            "a case has a `name`: letters, digits, `-`, `_`, `.` and `+`",
                        );
                    }
                };
                let mut settings = Vec::new();
                self.case(&[], places, values, &mut settings);
                Ok(Choice { label, settings, span })
            }
            (_, Value::Array(_) | Value::Datetime(_)) => wrong(
                "a value is a word, a number, true or false, or a case: a table with a `name`",
            ),
            _ => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let settings =
                    vec![Setting { path: axis.to_vec(), value: value.clone(), span: span.clone() }];
                Ok(Choice { label: label(&text), settings, span })
            }
        }
    }

    /// What a case sets: its tables are merged into the scenario's, but one with a `kind` takes the
    /// place of another.
    fn case(&self, path: &[String], places: &DeTable<'_>, values: &Table, into: &mut Vec<Setting>) {
        for (key, place) in places {
            let name: &str = key.get_ref();
            let Some(value) = values.get(name) else { continue };
            if path.is_empty() && name == "name" {
                continue;
            }
            let path = extended(path, name);
            match (place.get_ref(), value) {
                (DeValue::Table(places), Value::Table(values)) if !values.contains_key("kind") => {
                    self.case(&path, places, values, into);
                }
                _ => into.push(Setting { path, value: value.clone(), span: place.span() }),
            }
        }
    }
}

/// A path and one key more, which may itself be written as a path in quotes.
fn extended(path: &[String], key: &str) -> Vec<String> {
    path.iter().cloned().chain(key.split('.').map(str::to_owned)).collect()
}

/// A value as part of a cell's name, which may be a file's name.
fn label(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.+".contains(c) { c } else { '-' };
    let text: String = text.chars().map(plain).take(60).collect();
    let text = text.trim_matches('-');
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

fn is_label(text: &str) -> bool {
    (1..=60).contains(&text.len()) && label(text) == text
}

/// A share of a sweep's cells: `2/3` is the second of three.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shard {
    /// Which, from 1.
    pub number: u64,
    /// Of how many.
    pub of: u64,
}

impl Shard {
    /// All cells.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// Whether it has cell number `index`. Cells are dealt in turn, so that shards take about as
    /// long as each other.
    pub fn has(self, index: u64) -> bool {
        index % self.of == self.number - 1
    }
}

/// Why a word is no shard.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is no shard: write 1/4 for the first of four")]
pub struct ParseShardError(String);

impl FromStr for Shard {
    type Err = ParseShardError;

    fn from_str(word: &str) -> Result<Self, ParseShardError> {
        let numbers =
            word.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err(ParseShardError(word.to_owned())),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_deal_every_cell_once() {
        let shards: Vec<Shard> =
            ["1/3", "2/3", "3/3"].iter().map(|word| word.parse().unwrap()).collect();
        for index in 0..10 {
            assert_eq!(shards.iter().filter(|shard| shard.has(index)).count(), 1);
        }
        for word in ["0/3", "4/3", "1", "1/0", "a/b", ""] {
            assert!(word.parse::<Shard>().is_err(), "{word}");
        }
    }

    #[test]
    fn labels_may_be_names_of_files() {
        assert_eq!(label("log-normal(20kb, 1.5)"), "log-normal-20kb--1.5");
        assert_eq!(label("0.1"), "0.1");
        assert_eq!(label("../x"), "..-x");
        assert_eq!(label("日"), "-");
    }
}
