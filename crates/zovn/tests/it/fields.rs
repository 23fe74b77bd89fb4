//! What can be declared is executed, or its description and docs/logical.md say that it is not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

/// The end of a field's description that nothing executes.
const NOT_YET: &str = "Not executed yet.";

/// The heading of what nothing executes.
const HEADING: &str = "### Fields that are not executed yet";

/// Where objects are read, or what is made of them is.
const READERS: &[&str] = &[
    "agent/src",
    "binding/src",
    "controller/src",
    "hypervisor/src",
    "interpreter/src",
    "logical/src/objects/envelope.rs",
    "logical/src/resolve",
    "packet/src",
    "pipeline/src",
];

fn house() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = house().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fields of the schema, as `Kind.field`, each with its description.
fn fields() -> BTreeMap<String, String> {
    let schema: Value = serde_json::from_str(&read("docs/logical.schema.json")).unwrap();
    let mut found = BTreeMap::new();
    for (name, part) in schema["$defs"].as_object().unwrap() {
        // What a controller says is not declared.
        if ["Condition", "Status"].contains(&name.as_str()) {
            continue;
        }
        let (name, part) = match name.strip_prefix("Declared_") {
            Some(kind) => (kind, &part["properties"]["spec"]),
            None => (name.as_str(), part),
        };
        for (field, value) in part["properties"].as_object().into_iter().flatten() {
            found.insert(format!("{name}.{field}"), description(value));
        }
    }
    found
}

/// What is said of a field, which may be one of several forms.
fn description(field: &Value) -> String {
    let forms = field["oneOf"].as_array().into_iter().flatten();
    let all = forms.chain([field]).filter_map(|it| it["description"].as_str());
    all.collect::<Vec<_>>().join(" ").replace('\n', " ")
}

/// The fields that docs/logical.md says nothing executes.
fn listed() -> BTreeSet<String> {
    let text = read("docs/logical.md");
    let (_, text) = text.split_once(HEADING).expect("the heading is there");
    let text = text.split("\n#").next().unwrap_or_default();
    let words = text.split('`').skip(1).step_by(2);
    words.filter(|it| it.contains('.')).map(ToOwned::to_owned).collect()
}

/// All code of a file or a folder, without comments.
fn code(path: &Path, text: &mut String) {
    if path.ends_with("tests") {
        return;
    }
    if path.is_dir() {
        let mut all: Vec<_> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all.iter().for_each(|it| code(it, text));
    } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs") {
        let all = read(path);
        let all = all.split("#[cfg(test)]").next().unwrap_or_default();
        for line in all.lines() {
            text.push_str(line.split("//").next().unwrap_or_default());
            text.push('\n');
        }
    }
}

/// A field's name as code has it.
fn snake(field: &str) -> String {
    let letter = |it: char| match it.is_ascii_uppercase() {
        true => format!("_{}", it.to_ascii_lowercase()),
        false => it.to_string(),
    };
    field.chars().map(letter).collect()
}

#[test]
fn what_is_not_executed_is_listed() {
    let marked = fields().into_iter().filter(|(_, it)| it.contains(NOT_YET)).map(|(it, _)| it);
    assert_eq!(marked.collect::<BTreeSet<_>>(), listed());
}

#[test]
fn what_is_not_listed_is_read() {
    let mut text = String::new();
    READERS.iter().for_each(|it| code(&house().join("crates").join(it), &mut text));
    let is_letter = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let words: BTreeSet<&str> = text.split(|it| !is_letter(it)).collect();
    let listed = listed();
    let unread: Vec<_> = fields()
        .into_keys()
        .filter(|it| !listed.contains(it))
        .filter(|it| !words.contains(&*snake(it.split_once('.').expect("it is a field").1)))
        .collect();
    assert!(unread.is_empty(), "nothing reads {unread:?}: execute it, or mark and list it");
}
