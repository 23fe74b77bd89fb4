//! Models that machines say they have and the plan does not list, so that they count as the default
//! or are not judged: somebody has mistyped a name, or forgotten to list it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// More names than this are not told: whoever may create machines may make names up.
const MOST_NAMES: usize = 100;

/// As much of a name is told.
const MOST_CHARS: usize = 64;

/// The names that were told. Clones are of one memory.
#[derive(Clone, Debug, Default)]
pub struct Unlisted(Arc<Mutex<BTreeSet<String>>>);

impl Unlisted {
    /// The beginning of a name, if it is to be told: once, and of no more than some names.
    pub fn note(&self, name: &str) -> Option<String> {
        let name: String = name.chars().take(MOST_CHARS).collect();
        let mut told = self.0.lock().unwrap_or_else(|it| it.into_inner());
        (told.len() < MOST_NAMES && told.insert(name.clone())).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_once_and_no_more_than_some_are() {
        let unlisted = Unlisted::default();
        assert_eq!(unlisted.note("wbe").as_deref(), Some("wbe"));
        assert_eq!(unlisted.clone().note("wbe"), None);
        assert_eq!(unlisted.note(&"ü".repeat(1000)), Some("ü".repeat(MOST_CHARS)));
        let told = (0..1000).filter(|number| unlisted.note(&number.to_string()).is_some()).count();
        assert_eq!(told, MOST_NAMES - 2);
    }
}
