//! Objects by their fields, as queries say it.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// How many fields a query may name, in how many bytes.
const MOST: usize = 8;
const MOST_BYTES: usize = 1024;

/// A field, and the value that it has to have or not to have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Field {
    path: Vec<String>,
    value: String,
    is_so: bool,
}

/// Reads fields: `spec.switch=web,spec.mtu!=1400`. All of it has to hold; `!=` holds for an object
/// without such a field, too.
pub fn fields(text: &str) -> Option<Vec<Field>> {
    let field = |word: &str| {
        let (path, value) = word.split_once('=')?;
        let (path, is_so) = path.strip_suffix('!').map_or((path, true), |path| (path, false));
        let path: Vec<_> = path.split('.').map(ToOwned::to_owned).collect();
        let is_right = matches!(&path[..], [first, rest @ ..] if !rest.is_empty()
            && matches!(first.as_str(), "metadata" | "spec")
            && rest.iter().all(|it| !it.is_empty()));
        is_right.then(|| Field { path, value: value.to_owned(), is_so })
    };
    let fields: Option<Vec<_>> = text.split(',').map(field).collect();
    fields.filter(|it| it.len() <= MOST && text.len() <= MOST_BYTES)
}

impl Field {
    /// Whether it holds for an object that is kept as this JSON.
    pub fn holds(&self, object: &str) -> bool {
        let found = find(object, &self.path);
        found.is_some_and(|it| self.is_value(&it)) == self.is_so
    }

    /// Whether this is the value, or a list that has it.
    fn is_value(&self, found: &Value) -> bool {
        match found {
            Value::String(it) => *it == self.value,
            Value::Number(it) => it.to_string() == self.value,
            Value::Bool(it) => it.to_string() == self.value,
            Value::Array(all) => all.iter().any(|it| !it.is_array() && self.is_value(it)),
            Value::Null | Value::Object(_) => false,
        }
    }
}

/// The value at a path of a JSON object. Nothing beside the path is kept: lists may be long.
fn find(json: &str, path: &[String]) -> Option<Value> {
    let Some((word, rest)) = path.split_first() else { return serde_json::from_str(json).ok() };
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(json).ok()?;
    find(fields.get(word)?.get(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_said_has_to_hold() {
        let object = r#"{"kind":"LogicalPort","metadata":{"name":"web-1","labels":{"app":"shop"}},
            "spec":{"switch":"web","vif":{},"mtu":1400,"enabled":false,"addresses":["10.0.0.1","fd00::1"]}}"#;
        for (text, is_so) in [
            ("spec.switch=web", true),
            ("spec.switch=we", false),
            ("spec.switch!=web", false),
            ("spec.switch=web,spec.mtu=1400", true),
            ("spec.switch=web,spec.mtu!=1400", false),
            ("spec.enabled=false", true),
            ("spec.addresses=fd00::1", true),
            ("spec.addresses!=10.0.0.2", true),
            ("spec.addresses!=10.0.0.1", false),
            ("metadata.labels.app=shop", true),
            ("spec.vif=", false),
            ("spec.child.parent=a", false),
            ("spec.child.parent!=a", true),
        ] {
            let fields = fields(text).unwrap();
            assert_eq!(fields.iter().all(|it| it.holds(object)), is_so, "{text}");
        }
        let many = ["spec.a=b"; MOST + 1].join(",");
        let long = format!("spec.a={}", "b".repeat(MOST_BYTES));
        for wrong in
            ["", "spec", "spec=a", "kind=a", "status.a=b", "spec.=a", "spec.a", ",", &many, &long]
        {
            assert_eq!(fields(wrong), None, "{wrong}");
        }
    }
}
