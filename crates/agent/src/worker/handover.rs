//! How logical ports go to other hosts: their bytes are made and read away from the switch's
//! thread.

use axum::body::Bytes;
use model::{HandoverTaken, PortName};
use pipeline::Unreadable;
use tokio::task::spawn_blocking;

use super::handle::{Handle, Stopped};
use super::order::Order;
use crate::host::HandoverError;

/// Why a port is not taken over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeOverError {
    /// The bytes are none that an agent has written, or one of another version has.
    #[error("this is no handover that this agent can read: {0}")]
    Unreadable(#[from] Unreadable),
    /// The host cannot.
    #[error(transparent)]
    Host(#[from] HandoverError),
}

impl Handle {
    /// What another host needs to go on with a logical port, as bytes for it. `stays`: the port's
    /// packets go on passing this host meanwhile.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why there is nothing to hand over.
    pub(crate) async fn hand_over(
        &self,
        port: PortName,
        stays: bool,
    ) -> Result<Result<Vec<u8>, HandoverError>, Stopped> {
        let mut places = match self.order(|reply| Order::HandOver(port, reply)).await? {
            Ok(places) => places,
            Err(error) => return Ok(Err(error)),
        };
        let packed = spawn_blocking(move || {
            if stays {
                places = places.into_iter().map(|(name, it)| (name, it.loosened())).collect();
            }
            pipeline::pack(&places)
        });
        packed.await.map(Ok).map_err(|_| Stopped)
    }

    /// Goes on with a logical port by another host's bytes.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why it does not. Then nothing has changed.
    pub(crate) async fn take_over(
        &self,
        port: PortName,
        bytes: Bytes,
    ) -> Result<Result<HandoverTaken, TakeOverError>, Stopped> {
        let read = spawn_blocking(move || pipeline::unpack(&bytes)).await.map_err(|_| Stopped)?;
        let places = match read {
            Ok(places) => places,
            Err(error) => return Ok(Err(error.into())),
        };
        let taken = self.order(|reply| Order::TakeOver(port, places, reply)).await?;
        Ok(taken.map_err(TakeOverError::Host))
    }
}
