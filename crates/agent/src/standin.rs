//! A pump without ports.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use model::{AgentSettings, AgentStatus, PortChange, PortName, PortSpec, PortStatus};
use rustix::event::epoll;
use units::Instant;

/// No pump.
#[derive(Debug, thiserror::Error)]
#[error("no pump")]
pub struct PumpError(#[from] io::Error);

/// No port.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Taken.
    #[error("the name `{0}` is taken")]
    NameTaken(PortName),
    /// Not here.
    #[error("no ports here")]
    Nothing,
}

/// No port.
#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    /// Unknown.
    #[error("there is no port `{0}`")]
    UnknownPort(PortName),
}

/// No port.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Unknown.
    #[error("there is no port `{0}`")]
    UnknownPort(PortName),
}

/// Nothing.
pub struct Pump {
    epoll: OwnedFd,
}

#[allow(missing_docs, clippy::missing_errors_doc)]
impl Pump {
    pub fn new(_settings: &AgentSettings) -> Result<Self, PumpError> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)? })
    }
    pub fn attach(&mut self, _spec: &PortSpec) -> Result<(), AttachError> {
        Err(AttachError::Nothing)
    }
    pub fn detach(&mut self, name: &PortName) -> Result<PortStatus, DetachError> {
        Err(DetachError::UnknownPort(name.clone()))
    }
    pub fn change(&mut self, name: &PortName, _change: &PortChange) -> Result<(), ChangeError> {
        Err(ChangeError::UnknownPort(name.clone()))
    }
    pub fn status(&self) -> AgentStatus {
        AgentStatus {
            version: String::new(),
            uptime_ns: 0,
            busy_ns: 0,
            ports: vec![],
            ledger: Default::default(),
            balanced: true,
        }
    }
    pub fn turn(&mut self, _now: Instant) -> bool {
        false
    }
    pub fn deadline(&self) -> Option<Instant> {
        None
    }
    pub fn events(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
    pub fn wake(&mut self) -> io::Result<()> {
        Ok(())
    }
    pub fn stop_receiving(&mut self) {}
    pub fn drained(&self) -> bool {
        true
    }
}
