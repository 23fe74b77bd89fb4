//! Runs a controller: opens its store, computes what is in it, answers, tells agents, forgets what
//! is old.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use connections::Bounds;
use store::{Embedded, HomeError, Store, StoreError};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::catalog::{Catalog, OpenError};
use crate::housekeeping::forget;
use crate::identity;
use crate::metrics::{self, Measured, Metrics};
use crate::routes::router;
use crate::telling::Telling;

/// Bounds of the API's connections: those who watch, and as many others.
const BOUNDS: Bounds =
    Bounds { connections: 2_000, reserved: 16, head: Duration::from_secs(10), life: None };

/// Bounds of the connections by which metrics are read.
const METRICS: Bounds = Bounds {
    connections: 16,
    reserved: 2,
    head: Duration::from_secs(5),
    life: Some(Duration::from_secs(30)),
};

/// How a controller runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of its store.
    pub data: PathBuf,
    /// Where the API listens.
    pub listen: SocketAddr,
    /// Where agents connect.
    pub agents: SocketAddr,
    /// Where metrics can be read, if anywhere.
    pub metrics: Option<SocketAddr>,
}

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
    /// An address cannot be had.
    #[error("cannot listen for {whom} on {address}: choose an address of this host that is free")]
    Listen {
        /// For whom.
        whom: &'static str,
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The API's runtime cannot be made.
    #[error("cannot serve the API: raise the limit on open files")]
    Runtime(#[source] io::Error),
    /// No agent can be served any more.
    #[error("agents cannot be served any more")]
    Agents(#[source] southbound::ConnectError),
}

/// Runs a controller until SIGTERM or SIGINT. What it has answered is in `data`, so it may be
/// killed as well: agents execute what they have until it is back.
///
/// # Errors
///
/// [`ServeError`]
pub fn serve(settings: &Settings) -> Result<(), ServeError> {
    if !settings.listen.ip().is_loopback() {
        return Err(ServeError::Exposed(settings.listen));
    }
    let store = Store::open(Box::new(Embedded::open(&settings.data)?))?;
    let catalog = Arc::new(Catalog::open(store)?);
    let metrics = Arc::new(Metrics::default());
    let mut telling = Telling::new(Arc::clone(&catalog), Arc::clone(&metrics), identity::number())?;
    let runtime =
        Builder::new_current_thread().enable_all().build().map_err(ServeError::Runtime)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Runtime)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Runtime)?;
        let (requests, listen) = bound("requests", settings.listen).await?;
        let (followers, agents) = bound("agents", settings.agents).await?;
        let scrapes = match settings.metrics {
            Some(address) => Some(bound("who reads metrics", address).await?.0),
            None => None,
        };
        telling.begin()?;
        let publisher = Arc::clone(telling.publisher());
        let measured = Measured { catalog: Arc::clone(&catalog), publisher: Arc::clone(&publisher), metrics };
        let revision = catalog.store().revision();
        tracing::info!(%listen, %agents, store = catalog.store().uid(), %revision, "serving");
        if !agents.ip().is_loopback() {
            tracing::warn!(
                %agents,
                "agents are not asked who they are, and what they are told is not encrypted: have only hosts reach this address"
            );
        }
        let accept = async || Ok(requests.accept().await?.0);
        tokio::select! {
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
            error = telling.go_on() => Err(error.into()),
            ended = southbound::serve(followers, publisher) => ended.map_err(ServeError::Agents),
            never = connections::serve(accept, router(Arc::clone(&catalog)), BOUNDS) => match never {},
            never = forget(Arc::clone(&catalog)) => match never {},
            never = show(scrapes, measured) => match never {},
        }
    })?;
    // Waits for what is being written: its writers are not answered, but it is whole.
    drop(runtime);
    tracing::info!(revision = %catalog.store().revision(), "stopped");
    Ok(())
}

/// Listens, and says where: port 0 is any that is free.
async fn bound(
    whom: &'static str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), ServeError> {
    let error = |source| ServeError::Listen { whom, address, source };
    let listener = TcpListener::bind(address).await.map_err(error)?;
    let address = listener.local_addr().map_err(error)?;
    Ok((listener, address))
}

/// Shows metrics, if anybody is to read them.
async fn show(listener: Option<TcpListener>, measured: Measured) -> Infallible {
    let Some(listener) = listener else { return pending().await };
    let accept = async || Ok(listener.accept().await?.0);
    connections::serve(accept, metrics::router(measured), METRICS).await
}
