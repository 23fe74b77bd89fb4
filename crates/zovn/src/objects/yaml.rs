//! Objects as YAML: a field a line, so that people read it and what differs is told by lines.
//!
//! Words stand without quotes where readers of YAML 1.1 and 1.2 alike take them for words.

use serde_json::Value;

/// The lines of a value.
pub fn text(value: &Value) -> String {
    let mut text = String::new();
    if is_block(value) {
        put(&mut text, value, 0);
    } else {
        text = leaf(value) + "\n";
    }
    text
}

/// Several values, a document each; `[]` if there are none.
pub fn documents<'a>(all: impl IntoIterator<Item = &'a Value>) -> String {
    let texts: Vec<_> = all.into_iter().map(text).collect();
    if texts.is_empty() { "[]\n".into() } else { texts.join("---\n") }
}

/// An object as a file declares it: without what the controller writes of it.
pub fn declared(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|name, _| ["kind", "metadata", "spec"].contains(&name.as_str()));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["uid", "revision", "generation", "createdAt"] {
            metadata.remove(name);
        }
    }
    object
}

/// Whether a value has lines of its own.
fn is_block(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    }
}

/// The lines of a list or a map, which is not empty, behind so many blanks.
fn put(text: &mut String, value: &Value, indent: usize) {
    let blanks = " ".repeat(indent);
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                *text += &format!("{blanks}{}:", key_word(key));
                if is_block(value) {
                    text.push('\n');
                    put(text, value, indent + 2);
                } else {
                    *text += &format!(" {}\n", leaf(value));
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                if is_block(item) {
                    let dash = text.len() + indent;
                    put(text, item, indent + 2);
                    // Its first line stands behind the dash.
                    text.replace_range(dash..=dash, "-");
                } else {
                    *text += &format!("{blanks}- {}\n", leaf(item));
                }
            }
        }
        _ => unreachable!("only lists and maps have lines"),
    }
}

/// What stands in one line.
fn leaf(value: &Value) -> String {
    match value {
        Value::String(word) if is_plain(word) => word.clone(),
        Value::String(word) => quoted(word),
        // Numbers, `true`, `false`, `null`, `[]` and `{}` are the same in JSON.
        value => value.to_string(),
    }
}

fn key_word(key: &str) -> String {
    if is_plain(key) && !key.contains(':') { key.into() } else { quoted(key) }
}

/// Whether everybody takes it for a word when it has no quotes.
fn is_plain(word: &str) -> bool {
    let has_only =
        |these: &str| word.chars().all(|it| it.is_ascii_alphanumeric() || these.contains(it));
    match word.chars().next() {
        // An address or a range of them. YAML 1.1 has times and dates, too.
        Some('0'..='9') => {
            let is_address = word.chars().all(|it| it.is_ascii_digit() || "./-".contains(it));
            is_address && word.contains(['.', '/']) && word.parse::<f64>().is_err()
        }
        Some('A'..='Z' | 'a'..='z') => {
            const TAKEN: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
            let is_taken = TAKEN.iter().any(|it| it.eq_ignore_ascii_case(word));
            // `inf` and `nan` are numbers to some.
            has_only("-_./:") && !word.ends_with(':') && !is_taken && word.parse::<f64>().is_err()
        }
        _ => false,
    }
}

/// With quotes, and what no terminal shows as a number (YAML 1.2.2 §5.7).
fn quoted(word: &str) -> String {
    let mut text = String::from('"');
    for letter in word.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            // Line ends to YAML 1.1, and the mark of an encoding.
            '\u{2028}' | '\u{2029}' | '\u{feff}' => text += &number(letter),
            letter if letter.is_control() => text += &number(letter),
            letter => text.push(letter),
        }
    }
    text.push('"');
    text
}

fn number(letter: char) -> String {
    format!("\\u{:04x}", u32::from(letter))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_a_line() {
        let value = json!({
            "kind": "Policy",
            "spec": {
                "rules": [
                    {"name": "in", "match": {"ports": [80, "1000-2000"], "from": []}},
                    [["nested"]],
                ],
                "addresses": ["10.0.0.0/24", "2001:db8::1"],
                "note": "",
            },
        });
        assert_eq!(
            text(&value),
            "\
kind: Policy
spec:
  addresses:
    - 10.0.0.0/24
    - \"2001:db8::1\"
  note: \"\"
  rules:
    - match:
        from: []
        ports:
          - 80
          - \"1000-2000\"
      name: in
    - - - nested
"
        );
        assert_eq!(text(&json!({})), "{}\n");
        assert_eq!(documents([]), "[]\n");
    }

    /// An object that has a word in each place that takes any word.
    fn with(word: &str) -> Value {
        json!({
            "kind": "Tenant",
            "metadata": {"name": "shop", "annotations": {"x": word, word: "y"}},
            "spec": {},
        })
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let words = [
            "",
            "~",
            "null",
            "True",
            "no",
            "y",
            "7",
            "-7",
            "0x10",
            "0o7",
            "1.5",
            "1e3",
            "inf",
            ".nan",
            "a: b",
            "a:",
            ":a",
            "a #b",
            "#",
            "- a",
            "-",
            "?",
            "&a",
            "*a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a`",
            "'",
            "\"",
            "\\",
            "{a}",
            "[a]",
            "a,b",
            " a",
            "a ",
            "a\nb",
            "a\r\nb",
            "\t",
            "\u{0}\u{7f}\u{85}\u{9b}\u{2028}\u{feff}",
            "…",
            "🦀",
            "---",
            "...",
            "02:00:00:00:00:01",
            "2026-11-29",
            "10.0.0.1",
            "1.2",
            "10.0.0.0/24",
            "fd00::2",
            "<<",
            "=",
        ];
        for word in words {
            let value = with(word);
            let text = text(&value);
            let read = logical::read(&text);
            assert!(read.faults.is_empty(), "{text}{:?}", read.faults);
            assert_eq!(serde_json::to_value(&read.objects).unwrap(), json!([value]), "{text}");
            assert!(!text.replace('\n', "").contains(char::is_control), "{text:?}");
        }
    }

    #[test]
    fn examples_are_the_same_after_it() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let read = |text: &str| {
            let read = logical::read(text);
            assert!(read.faults.is_empty(), "{:?}", read.faults);
            serde_json::to_value(read.objects).unwrap()
        };
        for name in ["shop.yaml", "outside.yaml"] {
            let objects = read(&fs::read_to_string(format!("{folder}/{name}")).unwrap());
            let written = documents(objects.as_array().unwrap());
            assert_eq!(read(&written), objects);
        }
    }
}
