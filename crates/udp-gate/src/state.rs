//! What a gate tells of the sockets that it watches.

use std::net::SocketAddr;

/// A UDP socket as the gate sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SocketState {
    /// The inode number of its namespace.
    pub namespace: u64,
    /// Where it is bound.
    pub local: SocketAddr,
    /// Where it is connected.
    pub remote: Option<SocketAddr>,
    /// Bytes of its buffer in use, as the kernel counts: a datagram takes more than its length.
    pub occupied_bytes: u32,
    /// Bytes that its buffer may have.
    pub limit_bytes: u32,
    /// Datagrams queued since the gate knows it.
    pub queued: u64,
    /// Datagrams that found no room since then.
    pub lost: u64,
}

/// How the sockets of one namespace fare. It counts from when the namespace was served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// Sockets under watch: at most a quarter of all that can be.
    pub watched: u64,
    /// How often a socket was to be watched and too many were already: it may lose what it is sent.
    pub untracked: u64,
    /// Datagrams that found no room, at any of its sockets.
    pub lost: u64,
}
