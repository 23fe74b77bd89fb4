//! Logical ports that go to another host with their connections, or come from one.

use binding::OfAnother;
use logical::objects::Identity;
use model::{HandoverTaken, PortName};
use pipeline::Place;

use super::Host;
use super::packet::PacketTraceError;
use crate::logical::identity;

/// Why a port is not handed over, or taken over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandoverError {
    /// There is no such port, or nothing is known of it.
    #[error(transparent)]
    Port(#[from] PacketTraceError),
    /// It is another port's.
    #[error("this is not of that port: {0}")]
    OfAnother(#[from] OfAnother),
}

impl Host {
    /// What another host needs to go on with a logical port.
    ///
    /// # Errors
    ///
    /// [`HandoverError`]
    pub(crate) fn hand_over(&self, port: &PortName) -> Result<Vec<Place>, HandoverError> {
        let name = self.logical_name(port)?;
        let id = self.logical_here(port)?;
        let handed = self.plane.hand_over(&id, self.now());
        handed.ok_or_else(|| PacketTraceError::NotRealized(name).into())
    }

    /// Goes on with a logical port as another host had it.
    ///
    /// # Errors
    ///
    /// [`HandoverError`], and then nothing has changed.
    pub(crate) fn take_over(
        &mut self,
        port: &PortName,
        from: &[Place],
    ) -> Result<HandoverTaken, HandoverError> {
        let name = self.logical_name(port)?;
        let id = self.logical_here(port)?;
        let now = self.now();
        let taken = self.plane.logical_mut().and_then(|it| it.take_over(&id, from, now));
        let lost = taken.ok_or(PacketTraceError::NotRealized(name))?? as u64;
        let handed: usize = from.iter().map(|(_, it)| it.len()).sum();
        Ok(HandoverTaken { connections: handed as u64 - lost, lost })
    }

    /// A logical port that is attached to this host.
    fn logical_here(&self, port: &PortName) -> Result<Identity, PacketTraceError> {
        let name = self.logical_name(port)?;
        let is_attached = |id: &Identity| self.plane.logical().is_some_and(|it| it.is_attached(id));
        identity(&name).filter(is_attached).ok_or(PacketTraceError::NotHere(name))
    }
}
