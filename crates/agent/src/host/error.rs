//! What can go wrong when a host starts, and when its ports are attached, changed and detached.

use std::io;

use lossless::TooManyPorts;
use model::{InvalidConfig, LogicalPortName, NetworkName, PortName};
use plane::taps::MOST_TAPS;

use crate::keys::KeyFileError;

/// Why the switch cannot start.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot make an event queue, or a thread that looks at interfaces: {0}; raise the limits on open files and threads"
)]
pub struct StartError(#[from] io::Error);

/// Why the host has no place in the underlay.
#[derive(Debug, thiserror::Error)]
pub enum UplinkError {
    /// The uplinks cannot be opened.
    #[error(transparent)]
    Open(#[from] overlay::OpenError),
    /// An interface is slower than its declared rate: which, and what to do.
    #[error("{0}")]
    Slow(String),
    /// The keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// The switch is full.
    #[error(transparent)]
    TooMany(#[from] TooManyPorts),
    /// Their events cannot be waited for.
    #[error("cannot wait for other hosts' datagrams: {0}; raise the limit on open files")]
    Events(#[source] io::Error),
}

/// Why a port cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Another port has its name.
    #[error("port `{0}` is attached already: detach it first, or choose another name")]
    NameTaken(PortName),
    /// Its declaration cannot stand.
    #[error(transparent)]
    Invalid(#[from] InvalidConfig),
    /// Its interface cannot be made.
    #[error(transparent)]
    Interface(#[from] tap::AttachError),
    /// The host's interface cannot be a port.
    #[error(transparent)]
    Nic(#[from] nic::AttachError),
    /// A virtual machine cannot be waited for.
    #[error(transparent)]
    Vhost(#[from] vhost::port::AttachError),
    /// The switch is full.
    #[error(transparent)]
    TooMany(#[from] TooManyPorts),
    /// As many networks are in use as there are numbers for.
    #[error("65,534 networks are in use on this host: `{0}` would be one too many")]
    TooManyNetworks(NetworkName),
    /// Its events cannot be waited for.
    #[error("cannot wait for its events: {0}; raise the limit on open files")]
    Events(#[source] io::Error),
}

impl AttachError {
    /// Whether nothing is wrong but the time: its container, or its interface, is not there yet.
    pub(super) fn is_too_early(&self) -> bool {
        match self {
            Self::Interface(error) => error.is_too_early(),
            Self::Nic(error) => error.is_too_early(),
            _ => false,
        }
    }
}

/// Why a port cannot be detached.
#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    /// There is none of that name.
    #[error("there is no port `{0}`: `zovn top --once` lists those there are")]
    UnknownPort(PortName),
    /// Its interface may remain.
    #[error("the port is detached, but its interface may remain: {0}")]
    Interface(#[from] port::PortError),
}

/// Why a port cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// There is none of that name.
    #[error("there is no port `{0}`: `zovn top --once` lists those there are")]
    UnknownPort(PortName),
    /// The port cannot be so.
    #[error(transparent)]
    Invalid(#[from] InvalidConfig),
    /// Its memory is made once.
    #[error(
        "port `{port}` has memory for {slots} frames of its sender: for a larger `ingress`, attach it anew"
    )]
    Memory {
        /// The port.
        port: PortName,
        /// How many it was attached with.
        slots: u32,
    },
}

/// Why nothing is captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// There is none of that name.
    #[error("there is no port `{0}`: `zovn top --once` lists those there are")]
    UnknownPort(PortName),
    /// It is on another host, or nowhere, or behind another port's VLAN.
    #[error("logical port {0} is no port of this host: `zovn get logical` says what is here")]
    NotHere(LogicalPortName),
    /// Each costs memory.
    #[error("{MOST_TAPS} captures are under way already: end one first")]
    TooMany,
}
