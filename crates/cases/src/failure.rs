//! Why a step is not as expected.

use alloc::string::{String, ToString};

/// Why a step is not as expected.
#[derive(Debug)]
pub struct Failure {
    pub expected: Option<String>,
    pub seen: Option<String>,
}

impl From<String> for Failure {
    fn from(seen: String) -> Self {
        Self { expected: None, seen: Some(seen) }
    }
}

/// Says that something is not as expected.
pub fn fail<T>(expected: impl ToString, seen: impl ToString) -> Result<T, Failure> {
    Err(Failure { expected: Some(expected.to_string()), seen: Some(seen.to_string()) })
}
