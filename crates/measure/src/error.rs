//! Why a measurement could not be made.

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// It was asked for something that cannot be.
    #[error("{0}")]
    Config(String),
    /// A lab.
    #[error(transparent)]
    Lab(#[from] lab::LabError),
    /// A program in an endpoint.
    #[error("the program in endpoint `{endpoint}` failed: {why}")]
    Program {
        /// The endpoint.
        endpoint: String,
        /// What it said.
        why: String,
    },
    /// A front-end of a switch's port.
    #[error(transparent)]
    FrontEnd(#[from] ::vhost::front::FrontError),
    /// The socket of one.
    #[error(transparent)]
    Socket(#[from] ::vhost::socket::SocketError),
    /// Somebody else on the switch's core.
    #[error("cannot disturb the switch: {0}")]
    Disturber(std::io::Error),
    /// The namespaces of two ends.
    #[error(transparent)]
    Ends(#[from] kernel::joined::JoinError),
    /// An end that does not start.
    #[error(transparent)]
    Bfd(#[from] agent::bfd::StartError),
    /// An end that does not take its paths.
    #[error(transparent)]
    Paths(#[from] agent::bfd::PathError),
    /// Sessions that do not come up.
    #[error(
        "after {seconds} s {ends} ends of sessions are not up: ask for fewer sessions or a longer interval"
    )]
    NotUp {
        /// How long they had.
        seconds: u64,
        /// How many are not.
        ends: usize,
    },
    /// A switch that has stopped.
    #[error("the switch neither takes frames nor delivers any: nothing moved for ten seconds")]
    Stuck,
    /// Something else that is measured with it.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
    /// The user wants no more.
    #[error("interrupted")]
    Interrupted,
}
