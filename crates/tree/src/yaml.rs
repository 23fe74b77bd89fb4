//! YAML and JSON as trees of nodes that know their place.
//!
//! JSON is a part of YAML 1.2, so one parser reads both. Scalars are what the core schema says
//! (YAML 1.2.2 §10.3.2). Anchors, aliases and tags are refused: a declaration is read by people and
//! programs of several languages, and a few bytes of aliases can stand for gigabytes.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use granit_parser::{Event, Parser, ScalarStyle, Span};

use crate::node::{Key, Node, Value};
use crate::position::Position;

/// How deep lists and maps may be within each other.
const DEEPEST: usize = 32;

/// What is no YAML, or is more than declarations may use.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NotYaml {
    /// Where the reader stopped.
    pub at: Position,
    /// Why.
    pub message: String,
}

/// Reads every document of a text. Empty documents are left out.
pub fn documents(text: &str) -> Result<Vec<Node>, NotYaml> {
    let mut documents = Vec::new();
    // What is open, the innermost last.
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| NotYaml {
            at: Position { line: error.marker().line(), column: error.marker().col() + 1 },
            message: error.info().to_string(),
        })?;
        let at = begin(&span);
        let refuse = |message: &str| Err(NotYaml { at, message: message.to_owned() });
        let value = match event {
            Event::Scalar(text, style, anchor, tag) => {
                if anchor != 0 || tag.is_some() {
                    return refuse("anchors and tags are not read here: take it out");
                }
                if matches!(style, ScalarStyle::Plain) {
                    plain(&text)
                } else {
                    Value::Text(text.into_owned())
                }
            }
            Event::SequenceStart(.., anchor, tag) | Event::MappingStart(.., anchor, tag)
                if anchor != 0 || tag.is_some() =>
            {
                return refuse("anchors and tags are not read here: take it out");
            }
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() == DEEPEST => {
                return refuse("this is deeper than any declaration: take a level out");
            }
            Event::SequenceStart(..) => {
                open.push(Open { at, what: What::List(Vec::new()) });
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open { at, what: What::Map(Vec::new(), None) });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(done) = open.pop() else {
                    return refuse("this ends nothing: take it out");
                };
                let value = match done.what {
                    What::List(items) => Value::List(items),
                    What::Map(entries, _) => Value::Map(entries),
                };
                place(&mut open, &mut documents, Node { at: done.at, value })?;
                continue;
            }
            Event::Alias(_) => return refuse("aliases are not read here: write it out"),
            _ => continue,
        };
        place(&mut open, &mut documents, Node { at, value })?;
    }
    documents.retain(|node| node.value != Value::Null);
    Ok(documents)
}

/// A list or a map that has not ended.
struct Open {
    at: Position,
    what: What,
}

enum What {
    List(Vec<(usize, Node)>),
    /// Entries, and the key whose value is next.
    Map(Vec<(Key, Node)>, Option<Key>),
}

/// Puts a node where it belongs: into what is open, or among the documents.
fn place(open: &mut [Open], documents: &mut Vec<Node>, node: Node) -> Result<(), NotYaml> {
    match open.last_mut().map(|open| &mut open.what) {
        None => documents.push(node),
        Some(What::List(items)) => items.push((items.len(), node)),
        Some(What::Map(entries, key)) => match key.take() {
            Some(key) => entries.push((key, node)),
            None => {
                let at = node.at;
                let text = match node.value {
                    Value::Text(text) => text,
                    Value::Unsigned(number) => number.to_string(),
                    Value::Bool(value) => value.to_string(),
                    _ => {
                        let message = "a key is a word: write one here".to_owned();
                        return Err(NotYaml { at, message });
                    }
                };
                if entries.iter().any(|(other, _)| other.text == text) {
                    let message = format!("`{text}` is written twice here: keep one");
                    return Err(NotYaml { at, message });
                }
                *key = Some(Key { at, text });
            }
        },
    }
    Ok(())
}

fn begin(span: &Span) -> Position {
    Position { line: span.start.line(), column: span.start.col() + 1 }
}

/// What a scalar without quotes is.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let unsigned = match (text.strip_prefix("0x"), text.strip_prefix("0o")) {
        (Some(digits), _) => u64::from_str_radix(digits, 16).ok(),
        (_, Some(digits)) => u64::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    };
    if let Some(number) = unsigned {
        return Value::Unsigned(number);
    }
    if let Ok(number) = text.parse() {
        return Value::Signed(number);
    }
    // Rust reads words such as `inf` and `nan` as numbers, which YAML does not.
    let numeric = text.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    match text.parse() {
        Ok(number) if numeric => Value::Float(number),
        _ => Value::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn json_and_yaml_are_the_same_tree_at_other_places() {
        let yaml = documents("a: [1, x]\nb:\n  c: true\n").unwrap();
        let json = documents("{\"a\": [1, \"x\"],\n \"b\": {\"c\": true}}").unwrap();
        let same = |node: &Node| format!("{:?}", node.plain());
        assert_eq!(same(&yaml[0]), same(&json[0]));
        assert_eq!(yaml[0].locate("/b/c"), Position { line: 3, column: 6 });
        assert_eq!(json[0].locate("/b/c"), Position { line: 2, column: 13 });
    }

    #[test]
    fn scalars_are_what_the_core_schema_says() {
        for (text, value) in [
            ("02:00:00:00:00:01", Value::Text("02:00:00:00:00:01".into())),
            ("10.0.0.1", Value::Text("10.0.0.1".into())),
            ("10.0.0.0/24", Value::Text("10.0.0.0/24".into())),
            ("7", Value::Unsigned(7)),
            ("-7", Value::Signed(-7)),
            ("0x10", Value::Unsigned(16)),
            ("1.5", Value::Float(1.5)),
            ("nan", Value::Text("nan".into())),
            ("no", Value::Text("no".into())),
            ("'7'", Value::Text("7".into())),
        ] {
            assert_eq!(documents(text).unwrap()[0].value, value, "{text}");
        }
    }

    #[test]
    fn what_can_grow_without_end_is_refused() {
        for text in ["a: &x 1", "a: &x [1]\nb: *x", "!!str 7", "a: 1\na: 2", "[a]: 1", "a: ["] {
            assert!(documents(text).is_err(), "{text}");
        }
        assert!(documents(&"[".repeat(200)).is_err());
        let deep = "[".repeat(40) + &"]".repeat(40);
        assert!(documents(&deep).unwrap_err().message.contains("deeper"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[-\\[\\]{}:,a-c0-9 \\n'\"&*!|>#?~]{0,60}") {
            let _ = documents(&text);
        }
    }
}
