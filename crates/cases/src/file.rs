//! A file of cases: a category, its topologies, and what is to be seen in them.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tree::{Node, Position, Value};

/// The format that is read here.
const FORMAT: &str = "zovn-semantics/1";

/// What a file says.
#[derive(Clone, Debug)]
pub struct File {
    /// What its cases are about.
    pub category: String,
    pub(crate) topologies: BTreeMap<String, Node>,
    /// The cases, in their order.
    pub cases: Vec<Case>,
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, one of its own in its file.
    pub name: String,
    /// Where it stands.
    pub at: Position,
    /// Capabilities without which it cannot be run.
    pub needs: Vec<String>,
    /// Whether it does not count against the product.
    pub optional: bool,
    /// What it follows: a section of a standard, or another public source.
    pub source: Option<String>,
    /// What is noted of it. One that begins with `ours:` says what no source does.
    pub note: Option<String>,
    pub(crate) topology: String,
    pub(crate) with: Vec<Node>,
    pub(crate) steps: Vec<Node>,
    /// Why it cannot be read, if so: it fails.
    pub(crate) fault: Option<String>,
}

/// Why a file is none of cases.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}:{}: {message}", at.line, at.column)]
pub struct NoCases {
    /// Where.
    pub at: Position,
    /// Why, and what to write instead.
    pub message: String,
}

/// Fields of a case.
const FIELDS: [&str; 9] =
    ["name", "topology", "source", "needs", "optional", "with", "note", "steps", "tags"];

impl File {
    /// Reads a file.
    pub fn read(text: &str) -> Result<Self, NoCases> {
        let start = Position { line: 1, column: 1 };
        let documents = tree::documents(text)
            .map_err(|tree::NotYaml { at, message }| NoCases { at, message })?;
        let Some(node) = documents.first() else {
            return Err(NoCases { at: start, message: "this file says nothing".to_owned() });
        };
        let wrong = |at: Position, message: String| Err(NoCases { at, message });
        match node.get("format").and_then(Node::text) {
            Some(FORMAT) => {}
            Some(other) => {
                return wrong(
                    node.locate("/format"),
                    format!("this is of format `{other}`: {FORMAT} is read here"),
                );
            }
            None => {
                return wrong(node.at, format!("`format` is missing: write `format: {FORMAT}`"));
            }
        }
        let category = node.get("category").and_then(Node::text).unwrap_or("none").to_owned();
        let topologies = match node.get("topologies").map(|it| &it.value) {
            Some(Value::Map(entries)) => {
                entries.iter().map(|(key, value)| (key.text.clone(), value.clone())).collect()
            }
            None => BTreeMap::new(),
            Some(_) => {
                return wrong(node.locate("/topologies"), "`topologies` is a map by name".into());
            }
        };
        let cases = match node.get("cases").map(|it| &it.value) {
            Some(Value::List(items)) => items.iter().map(|(i, it)| Case::read(*i, it)).collect(),
            None => Vec::new(),
            Some(_) => return wrong(node.locate("/cases"), "`cases` is a list".into()),
        };
        Ok(Self { category, topologies, cases })
    }
}

impl Case {
    /// Reads a case. What is wrong with it is its own fault, not its file's.
    fn read(place: usize, node: &Node) -> Self {
        let text = |key: &str| node.get(key).and_then(Node::text).map(ToOwned::to_owned);
        let list = |key: &str| match node.get(key).map(|it| &it.value) {
            Some(Value::List(items)) => items.iter().map(|(_, it)| it.clone()).collect(),
            Some(Value::Map(_)) => node.get(key).cloned().into_iter().collect(),
            _ => Vec::new(),
        };
        let mut fault = None;
        if let Value::Map(entries) = &node.value {
            let unknown = entries.iter().find(|(key, _)| !FIELDS.contains(&key.text.as_str()));
            if let Some((key, _)) = unknown {
                fault = Some(format!("a case has no `{}`: write {}", key.text, FIELDS.join(", ")));
            }
        }
        let steps = list("steps");
        if steps.is_empty() {
            fault = Some("it has no `steps`: write what is sent, and what is expected".to_owned());
        }
        Self {
            name: text("name").unwrap_or_else(|| place.to_string()),
            at: node.at,
            needs: node.get("needs").map(crate::edit::words).unwrap_or_default(),
            optional: node.get("optional").is_some_and(|it| it.value == Value::Bool(true)),
            source: text("source"),
            note: text("note"),
            topology: text("topology").unwrap_or_default(),
            with: list("with"),
            steps,
            fault,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_file_is_told_with_its_place() {
        for (text, told) in [
            ("", "1:1: this file says nothing"),
            ("category: a", "1:1: `format` is missing: write `format: zovn-semantics/1`"),
            ("format: x/2", "1:9: this is of format `x/2`: zovn-semantics/1 is read here"),
            ("format: zovn-semantics/1\ncases: 7", "2:8: `cases` is a list"),
        ] {
            assert_eq!(File::read(text).unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn a_case_that_cannot_be_read_is_its_own_fault() {
        let text = "format: zovn-semantics/1\ncategory: a\ncases:\n- {name: x, stepps: []}\n- {name: y, steps: [{send: {from: a}}]}\n";
        let file = File::read(text).unwrap();
        assert!(file.cases[0].fault.is_some());
        assert_eq!((file.cases[1].name.as_str(), file.cases[1].fault.as_ref()), ("y", None));
    }
}
