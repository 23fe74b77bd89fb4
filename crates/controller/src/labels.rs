//! Objects by their labels, as queries say it.

use logical::objects::{Metadata, Operator, Requirement, Selector};
use serde::Deserialize;

/// Reads a selector: `app=shop,tier!=db,has`. All of it has to hold; `tier!=db` holds for who has
/// no such label, too.
pub fn selector(text: &str) -> Option<Selector> {
    let requirement = |word: &str| {
        let (key, operator, value) = match word.split_once('=') {
            None => (word, Operator::Exists, None),
            Some((key, value)) => match key.strip_suffix('!') {
                Some(key) => (key, Operator::NotIn, Some(value)),
                None => (key, Operator::In, Some(value)),
            },
        };
        let is_sign = |it: char| it.is_ascii_alphanumeric() || "-_./".contains(it);
        let is_word = |it: &str| it.chars().all(is_sign);
        let is_right = !key.is_empty() && is_word(key) && value.is_none_or(is_word);
        let values = value.map(ToOwned::to_owned).into_iter().collect();
        is_right.then(|| Requirement { key: key.into(), operator, values })
    };
    let match_expressions = text.split(',').map(requirement).collect::<Option<_>>()?;
    Some(Selector { match_expressions, ..Selector::default() })
}

/// What is looked at of an object.
#[derive(Deserialize)]
struct Labelled {
    metadata: Metadata,
}

/// Whether an object, as it is kept, is meant.
pub fn selects(selector: Option<&Selector>, kept: &[u8]) -> bool {
    selector.is_none_or(|selector| {
        let object: Option<Labelled> = serde_json::from_slice(kept).ok();
        object.is_some_and(|it| selector.selects(&it.metadata.labels))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_said_has_to_hold() {
        let holds = |text: &str, labels: &str| {
            let metadata =
                format!(r#"{{"metadata":{{"name":"a","labels":{{{labels}}}}},"spec":{{}}}}"#);
            selects(Some(&selector(text).unwrap()), metadata.as_bytes())
        };
        let both = r#""app":"shop","tier":"web""#;
        for (text, is_so) in [
            ("app=shop", true),
            ("app=shop,tier!=db", true),
            ("app=shop,tier!=web", false),
            ("tier", true),
            ("zone", false),
            ("zone!=a,app", true),
            ("app=", false),
        ] {
            assert_eq!(holds(text, both), is_so, "{text}");
        }
        assert!(selects(None, b""));
        for wrong in ["", ",", "=a", "!=a", "a,", "a b=c", "a=b=c", "!a"] {
            assert!(selector(wrong).is_none(), "{wrong}");
        }
    }
}
