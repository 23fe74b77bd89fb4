//! What is wrong with a scenario, in the words of whoever wrote it.
//!
//! ```text
//! serde's message ─▶ blame: which key says that by itself ─▶ path ─▶ position: line and column
//! check's path ─────────────────────────────────────────────┘
//! ```
//!
//! Serde buffers a table that has a `kind` before it knows what to make of it, and forgets where
//! the table's parts stood. So the place is found again afterwards: the reader is asked about one
//! key at a time, and the key that draws the same message is the one.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use model::{Position, mistake};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::de::{DeString, DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::Workload;

/// Something that cannot be simulated as it is written.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Fault {
    /// Its line in the file, from 1.
    pub line: usize,
    /// Its column in the line, in characters, from 1.
    pub column: usize,
    /// The field, by its path: `topology.racks`. Empty if it is none in particular.
    pub field: String,
    /// What is wrong, and what to write instead.
    pub what: String,
    /// The cell of the sweep in which it is wrong, if there is a sweep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)?;
        if !self.field.is_empty() {
            write!(f, "`{}`: ", self.field)?;
        }
        f.write_str(&self.what)?;
        match &self.cell {
            Some(cell) => write!(f, " (in {cell})"),
            None => Ok(()),
        }
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file reads well as a text, and cannot be simulated.
    #[error("{}", told(path, faults))]
    Faults {
        /// Which file.
        path: PathBuf,
        /// What is wrong: at least one thing.
        faults: Vec<Fault>,
    },
}

fn told(path: &std::path::Path, faults: &[Fault]) -> String {
    let lines: Vec<_> = faults.iter().map(|fault| format!("{}, {fault}", path.display())).collect();
    lines.join("\n")
}

/// A fault whose place is still a path of keys; from the checks and from serde.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Complaint {
    /// Keys from the root.
    pub path: Vec<String>,
    /// What is wrong, and what to write instead.
    pub what: String,
    /// Whether the key itself is wrong, not its value.
    pub key: bool,
}

impl Complaint {
    /// About the value at a path of plain keys, `topology.racks`.
    pub fn at(path: &str, what: impl Into<String>) -> Self {
        Self { path: path.split('.').map(str::to_owned).collect(), what: what.into(), key: false }
    }
}

/// A file's text with the places of its keys.
pub(super) struct Source<'t> {
    text: &'t str,
    root: DeTable<'t>,
}

impl<'t> Source<'t> {
    /// Reads the places.
    pub fn parse(text: &'t str) -> Result<Self, Fault> {
        match DeTable::parse(text) {
            Ok(root) => Ok(Self { text, root: root.into_inner() }),
            Err(error) => {
                let what = format!("this is no TOML: {}", error.message().trim());
                Err(fault(text, error.span().unwrap_or(0..0), String::new(), what))
            }
        }
    }

    /// The table at the top.
    pub fn root(&self) -> &DeTable<'t> {
        &self.root
    }

    /// A fault at bytes of the text.
    pub fn fault(
        &self,
        span: Range<usize>,
        field: impl Into<String>,
        what: impl Into<String>,
    ) -> Fault {
        fault(self.text, span, field.into(), what.into())
    }

    /// A complaint with its place: that of its key or, if the file does not mention it, of the
    /// nearest table around.
    pub fn place(&self, complaint: Complaint) -> Fault {
        let span = self.span(&complaint.path, complaint.key);
        self.fault(span, complaint.path.join("."), complaint.what)
    }

    /// Whether the file has something at a path.
    pub fn has(&self, path: &[String]) -> bool {
        self.walk(path).len() == path.len()
    }

    fn span(&self, path: &[String], key: bool) -> Range<usize> {
        let steps = self.walk(path);
        match steps.last() {
            None => 0..0,
            Some((name, _)) if key && steps.len() == path.len() => name.span(),
            Some((name, value)) if value.get_ref().is_table() => name.span(),
            Some((_, value)) => value.span(),
        }
    }

    /// The keys on a path and their values, as far as the file has them.
    fn walk(&self, path: &[String]) -> Vec<(&Spanned<DeString<'t>>, &Spanned<DeValue<'t>>)> {
        let mut table = Some(&self.root);
        let step = |name: &String| {
            let step = table?.get_key_value(name.as_str())?;
            table = step.1.get_ref().as_table();
            Some(step)
        };
        path.iter().map_while(step).collect()
    }
}

fn fault(text: &str, span: Range<usize>, field: String, what: String) -> Fault {
    let Position { line, column, .. } = Position::of(text, span.start);
    Fault { line, column, field, what, cell: None }
}

/// Reads a `T` from a tree, or says what is wrong and at which path.
pub(super) fn read<T: DeserializeOwned>(tree: Table) -> Result<T, Complaint> {
    T::deserialize(tree.clone()).map_err(|error| {
        let message = error.message().trim();
        let path = blame::<T>(&tree, message);
        let what = plain(message, &path);
        Complaint { path, what, key: message.starts_with("unknown field") }
    })
}

/// The path of the key for which reading a `T` from `tree` gives `message`.
fn blame<T: DeserializeOwned>(tree: &Table, message: &str) -> Vec<String> {
    let is_missing = message.starts_with("missing field");
    let mut path = Vec::new();
    // Of each table on the way down, what decides how it is read.
    let mut kinds: Vec<Option<Value>> = Vec::new();
    let mut here = tree;
    let says = |path: &[String], kinds: &[Option<Value>], leaf: Table| {
        let mut inner = leaf;
        for (name, kind) in path.iter().zip(kinds).rev() {
            inner = with_kind(kind.as_ref(), Some((name, Value::Table(inner))));
        }
        T::deserialize(inner).err().is_some_and(|error| error.message().trim() == message)
    };
    loop {
        let kind = here.get("kind");
        // The table is wrong without any other of its keys: something is missing, or it is the
        // kind.
        if says(&path, &kinds, with_kind(kind, None)) {
            path.extend(kind.filter(|_| !is_missing).map(|_| "kind".to_owned()));
            return path;
        }
        // Nothing is missing in what is no table: alone it only makes the next field the first that
        // is missing.
        let is_suspect =
            |name: &str, value: &Value| name != "kind" && (value.is_table() || !is_missing);
        let culprit =
            here.iter().filter(|(name, value)| is_suspect(name, value)).find(|(name, value)| {
                says(&path, &kinds, with_kind(kind, Some((name, (*value).clone()))))
            });
        let Some((name, value)) = culprit else { return path };
        path.push(name.clone());
        kinds.push(kind.cloned());
        match value {
            Value::Table(inner) => here = inner,
            _ => return path,
        }
    }
}

/// A table of its kind and one more entry.
fn with_kind(kind: Option<&Value>, entry: Option<(&String, Value)>) -> Table {
    let kind = kind.map(|kind| ("kind".to_owned(), kind.clone()));
    kind.into_iter().chain(entry.map(|(name, value)| (name.clone(), value))).collect()
}

/// Serde's message in plain words.
fn plain(message: &str, path: &[String]) -> String {
    let mut ticks = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        let given = ticks.next().unwrap_or_default();
        let mut known: Vec<&str> = ticks.collect();
        if matches!(path, [section, _, _] if section == "workload")
            && message.starts_with("unknown field")
        {
            known.extend(Workload::COMMON);
        }
        if path.len() == 1 && message.starts_with("unknown field") {
            known.extend((given != "sweep").then_some("sweep"));
        }
        return mistake::unknown(given, &known);
    }
    match message.strip_prefix("missing field ") {
        Some("`topology`") => "a scenario has a network: add `[topology]`".to_owned(),
        _ => mistake::plain(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let text = "é = 1\n\u{1F600} x";
        assert_eq!(fault(text, 12..13, String::new(), String::new()).column, 3);
        assert_eq!(fault(text, 1..2, String::new(), String::new()).column, 1);
        assert_eq!(fault(text, 99..99, String::new(), String::new()).line, 2);
    }
}
