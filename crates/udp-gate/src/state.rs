//! The status of watched sockets.

use std::net::SocketAddr;

/// A UDP socket as the gate sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SocketState {
    /// The inode number of its namespace.
    pub namespace: u64,
    /// The address that it is bound to.
    pub local: SocketAddr,
    /// The address that it is connected to.
    pub remote: Option<SocketAddr>,
    /// Used bytes of its buffer, as the kernel counts them: a datagram takes more than its length.
    pub occupied_bytes: u32,
    /// The size of its buffer in bytes.
    pub limit_bytes: u32,
    /// Datagrams queued since the gate has known it.
    pub queued: u64,
    /// Datagrams that found no room since then.
    pub lost: u64,
}

/// The counters of one namespace, since it was served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// Watched sockets: at most a quarter of the gate's maximum.
    pub watched: u64,
    /// How often a socket could not be watched because there were too many. It may lose datagrams.
    pub untracked: u64,
    /// Datagrams that found no room, at any of its sockets.
    pub lost: u64,
}
