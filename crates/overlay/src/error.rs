//! What can go wrong when tunnels are opened.

use std::io;

/// Why the host has no place in the underlay.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The tunnels' sockets cannot be opened.
    #[error(transparent)]
    Sockets(#[from] underlay::OpenError),
    /// The link's pause frames cannot be received.
    #[error(
        "cannot hear pauses (`pfc`) of the link with this host's tunnel address: {0}; run as root, or leave out `pfc`"
    )]
    Pauses(#[source] io::Error),
}
