//! Runs a controller: opens its store, answers, forgets what is old.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use connections::Bounds;
use store::{Embedded, HomeError, Store, StoreError};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::catalog::{Catalog, OpenError};
use crate::housekeeping::forget;
use crate::routes::router;

/// Bounds of the API's connections: those who watch, and as many others.
const BOUNDS: Bounds =
    Bounds { connections: 2_000, reserved: 16, head: Duration::from_secs(10), life: None };

/// Why a controller does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The store cannot be had.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store has something else.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Whoever reaches the address could do anything.
    #[error(
        "{0} can be reached by others, and callers are not asked who they are: listen on 127.0.0.1 or ::1"
    )]
    Exposed(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The API's runtime cannot be made.
    #[error("cannot serve the API: raise the limit on open files")]
    Runtime(#[source] io::Error),
}

/// Runs a controller until SIGTERM or SIGINT. What it has answered is in `data`, so it may be
/// killed as well.
///
/// # Errors
///
/// [`ServeError`]
pub fn serve(data: &Path, address: SocketAddr) -> Result<(), ServeError> {
    if !address.ip().is_loopback() {
        return Err(ServeError::Exposed(address));
    }
    let store = Store::open(Box::new(Embedded::open(data)?))?;
    let (uid, revision) = (store.uid().to_owned(), store.revision());
    let catalog = Arc::new(Catalog::open(store)?);
    let runtime =
        Builder::new_current_thread().enable_all().build().map_err(ServeError::Runtime)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Runtime)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Runtime)?;
        let listen = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        tracing::info!(%address, store = uid, %revision, "serving");
        let accept = async || Ok(listener.accept().await?.0);
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            never = connections::serve(accept, router(Arc::clone(&catalog)), BOUNDS) => match never {},
            never = forget(Arc::clone(&catalog)) => match never {},
        }
        Ok::<_, ServeError>(())
    })?;
    // Waits for what is being written: its writers are not answered, but it is whole.
    drop(runtime);
    tracing::info!(revision = %catalog.store().revision(), "stopped");
    Ok(())
}
