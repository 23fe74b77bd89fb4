//! How a command ends.

use std::error::Error;
use std::io;
use std::process::ExitCode;

use agent::{ConfigError, LogicalStartError};
use model::InvalidConfig;

/// How a command ends: with an exit code, or with a reason why it could not go on.
pub type Outcome = Result<ExitCode, Box<dyn Error + Send + Sync>>;

/// The exit code of a command that was asked for what cannot be.
pub const USAGE: u8 = 2;

/// How a command of this program ends that could not go on: it is told in one sentence, unless a
/// reader has closed our stdout early (`… | head -1`), who has had enough.
pub fn end(program: &str, error: &(dyn Error + Send + Sync + 'static), is_usage: bool) -> ExitCode {
    if error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    {
        return ExitCode::SUCCESS;
    }
    eprintln!("{program}: {}", sentence(error));
    if is_usage { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
}

/// Whether what was asked for cannot be, as a file says what flags might.
pub fn is_usage(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    let is_wrong = matches!(
        error.downcast_ref(),
        Some(ConfigError::Wrong { .. } | ConfigError::Logical(LogicalStartError::Faults(_)))
    );
    is_wrong || error.is::<InvalidConfig>()
}

/// An error and its causes, outermost first. A cause that its parent already tells is not told
/// twice.
pub fn sentence(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open the door")]
    struct Outer(#[source] io::Error);

    #[test]
    fn an_error_is_told_with_its_causes_and_none_twice() {
        let inner = || io::Error::other("the key is lost");
        assert_eq!(sentence(&Outer(inner())), "cannot open the door: the key is lost");
        assert_eq!(sentence(&inner()), "the key is lost");
    }
}
