//! What a parser's complaint about a file or a body means to who wrote it.
//!
//! Serde says what it was given and what it expected in the words of Rust. Here they become one
//! sentence: what is wrong, and what to write instead. A type says what it expects by serde's
//! `expecting`.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A complaint of serde's in plain words.
pub fn plain(message: &str) -> String {
    if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        let mut ticks = message.split('`').skip(1).step_by(2);
        let given = ticks.next().unwrap_or_default();
        return unknown(given, &ticks.collect::<Vec<_>>());
    }
    if let Some(missing) = message.strip_prefix("missing field ") {
        return format!("{missing} is missing: add it here");
    }
    // What the reader of TOML says of a value where a name should be.
    if message == "wanted string or table" {
        return "this is no word: write one in quotes".to_owned();
    }
    let wrong = ["invalid type: ", "invalid value: ", "invalid "];
    let wrong = wrong.iter().find_map(|prefix| message.strip_prefix(prefix));
    match wrong.and_then(|wrong| wrong.split_once(", expected ")) {
        Some((is, wanted)) => format!("this is {}: write {}", given(is), expected(wanted)),
        None => message.to_owned(),
    }
}

/// What a word that is not known may have been meant to be.
pub fn unknown(given: &str, known: &[&str]) -> String {
    // No word of ours is longer; the distance to one that is would take its time.
    let given: String = given.chars().take(40).collect();
    let far = |word: &str| distance(&given, word);
    let nearest =
        known.iter().min_by_key(|word| far(word)).filter(|word| far(word) <= 1 + word.len() / 5);
    match (nearest, known) {
        (Some(word), _) => format!("`{given}` is not known here: did you mean `{word}`?"),
        (None, []) => format!("`{given}` is not known here: take it out"),
        (None, known) => format!("`{given}` is not known here: write one of {}", known.join(", ")),
    }
}

/// How many letters have to be put in, taken out, changed, or swapped with the next, so that one
/// word becomes another (optimal string alignment).
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // Rows of the table: from all of `from` up to a letter, to each beginning of `to`.
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.iter().enumerate() {
        let mut next = alloc::vec![i + 1];
        for (j, wanted) in to.iter().enumerate() {
            let changed = row[j] + usize::from(letter != wanted);
            let mut least = changed.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && from[i - 1] == *wanted && to[j - 1] == *letter {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = core::mem::replace(&mut row, next);
    }
    row[to.len()]
}

/// What serde was given, as people call it.
fn given(is: &str) -> String {
    let kinds = [
        ("string ", "the word "),
        ("integer ", "the whole number "),
        ("floating point ", "the number "),
        ("boolean ", ""),
        ("sequence", "a list"),
        ("map", "a table"),
        ("length ", "a list of length "),
        ("unit variant", "no word"),
    ];
    let kind = kinds.iter().find_map(|(kind, word)| Some((word, is.strip_prefix(kind)?)));
    kind.map_or_else(|| is.to_owned(), |(word, rest)| format!("{word}{rest}"))
}

/// What serde expects, as people call it.
fn expected(wanted: &str) -> &str {
    match wanted {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0 up",
        "f64" => "a number",
        "a string" | "string only" | "variant identifier" | "string or map" => "a word in quotes",
        "a boolean" => "true or false",
        "a map" => "a table",
        "a tuple of size 2" | "fewer elements in array" => "a value and a share: `[10e3, 0.5]`",
        "a sequence" => "a list, in brackets",
        "an array of length 8" => "eight values in brackets, one for each class, class 0 first",
        wanted if wanted.starts_with("struct") || wanted.contains("enum") => "a table",
        wanted => wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_word_is_suggested_and_no_far_one() {
        let known = ["racks", "chassis", "servers"];
        assert_eq!(unknown("rack", &known), "`rack` is not known here: did you mean `racks`?");
        assert_eq!(
            unknown("chasiss", &known),
            "`chasiss` is not known here: did you mean `chassis`?"
        );
        assert!(unknown("cable", &known).ends_with("write one of racks, chassis, servers"));
    }

    #[test]
    fn a_distance_is_counted_in_letters() {
        for (from, to, letters) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("port", "ports", 1),
            ("prot", "port", 1),
            ("kitten", "sitting", 3),
            ("ä", "a", 1),
        ] {
            assert_eq!(distance(from, to), letters, "{from} {to}");
        }
    }

    #[test]
    fn a_complaint_is_a_sentence_that_says_what_to_write() {
        for (message, sentence) in [
            (
                "invalid type: integer `7`, expected VLANs, as { access = 7 }",
                "this is the whole number `7`: write VLANs, as { access = 7 }",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "this is the whole number `-1`: write a whole number from 0 to 4294967295",
            ),
            ("missing field `netns`", "`netns` is missing: add it here"),
            (
                "unknown field `ports`, expected one of `agent`, `port`",
                "`ports` is not known here: did you mean `port`?",
            ),
            ("`5` is not a rate: write it as 1gbit", "`5` is not a rate: write it as 1gbit"),
        ] {
            assert_eq!(plain(message), sentence);
        }
    }
}
