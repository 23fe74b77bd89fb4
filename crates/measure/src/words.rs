//! Choices as words on a command line.

use std::fmt::Display;

/// The one that is called so, or which there are.
pub fn one_of<T: Display, const N: usize>(all: [T; N], word: &str) -> Result<T, String> {
    let words = all.each_ref().map(ToString::to_string).join(", ");
    let found = all.into_iter().find(|it| it.to_string() == word);
    found.ok_or_else(|| format!("write one of {words}"))
}
