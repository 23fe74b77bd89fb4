//! What a controller says of objects, as people read it.

use std::error::Error;
use std::io::{self, Write};

use api::{Refused, RemoteError};
use serde_json::Value;

/// Why a command failed.
pub type Failure = Box<dyn Error + Send + Sync>;

/// An object's name, as `LogicalPort/shop/web-1`.
pub fn name(object: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // One that is gone is told without what it was.
    let metadata = object.get("metadata").unwrap_or(object);
    let parts = [&object["kind"], &metadata["tenant"], &metadata["name"]].map(word);
    plain(&parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/"))
}

/// What somebody else wrote, without what would have a terminal do anything else than show it.
pub fn plain(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// Tells all that a controller has said against something, and that it failed.
pub fn refusable<T>(answered: Result<T, RemoteError>) -> Result<T, Failure> {
    answered.map_err(|error| match error {
        RemoteError::Refused(refused) => complain(&refused, |line| format!("line {line}: ")),
        error => error.into(),
    })
}

/// Tells all that a controller has said against something, a line each, with lines of what was sent
/// in these words; and what it says of the whole.
pub fn complain(refused: &Refused, place: impl Fn(u64) -> String) -> Failure {
    let mut out = io::stderr().lock();
    for it in &refused.errors {
        let line = it.line.map_or_else(String::new, &place);
        let told = plain(&format!("{}{}: {}", it.object, it.path, it.message));
        if let Err(error) = writeln!(out, "{line}{told}") {
            return error.into();
        }
    }
    plain(&refused.detail).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_others_wrote_moves_a_terminals_cursor() {
        assert_eq!(plain("a\u{1b}[2Jb\u{9b}"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
