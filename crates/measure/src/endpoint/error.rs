//! What goes wrong in a program, and what was tried when it did.

/// Why a program gave up.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The kernel refused something.
    #[error("could not {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A worker sent what nobody asked for.
    #[error("worker {worker} sent more than query {query} asked for")]
    Excess {
        /// The worker.
        worker: u32,
        /// The query's number.
        query: u64,
    },
    /// The role makes no sense.
    #[error("{0}")]
    Role(String),
}

/// Gives an I/O error the name of what was tried.
pub(super) trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T, EndpointError>;
}

impl<T, E: Into<std::io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: &'static str) -> Result<T, EndpointError> {
        self.map_err(|source| EndpointError::Io { what, source: source.into() })
    }
}
