//! Names that are kept for a while, so that they are not of any length.

use serde::de::{self, Deserialize, Deserializer};

/// A name of a machine, at most 256 bytes: Kubernetes' have 253, and UUIDs 36.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Word(pub String);

const MOST_BYTES: usize = 256;

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        if word.len() > MOST_BYTES {
            let length = word.len();
            let message = format!("a name has {length} bytes, and {MOST_BYTES} are the most");
            return Err(de::Error::custom(message));
        }
        Ok(Self(word))
    }
}
