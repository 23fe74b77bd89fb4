//! Runs a controller: opens its store, computes what is in it, answers, tells agents, forgets what
//! is old.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use connections::Bounds;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sd_notify::NotifyState;
use southbound::Admit;
use store::{Embedded, FolderError, Store, StoreError};
use tls::{Own, Protocol, Server, TlsError};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::audit::{Audit, Peer};
use crate::catalog::{Catalog, OpenError};
use crate::certificate::Shown;
use crate::door::{Door, Nodes};
use crate::housekeeping::forget;
use crate::identity;
use crate::metrics::{self, Measured, Metrics};
use crate::routes::router;
use crate::telling::Telling;
use crate::tokens::{TokenError, Tokens};

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
    /// Who it is, for those who connect. `None`: nothing is encrypted.
    pub own: Option<Own>,
    /// A file of those who sign certificates of who asks the API.
    pub clients: Option<PathBuf>,
    /// A file of those who sign agents' certificates.
    pub nodes: Option<PathBuf>,
    /// Whether nobody is asked who they are: whoever reaches the API is its operator.
    pub is_open: bool,
    /// Whether each agent is the node that it says.
    pub has_open_agents: bool,
    /// Where metrics can be read, if anywhere.
    pub metrics: Option<SocketAddr>,
}

/// Why a controller does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The store cannot be had.
    #[error(transparent)]
    Home(#[from] FolderError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store has something else.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Tokens cannot be had.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// What is written cannot be recorded.
    #[error("cannot record who writes what: have this user own the controller's folder")]
    Audit(#[source] io::Error),
    /// Whoever is on the way to the address could read tokens.
    #[error(
        "{0} can be reached by others, and nothing is encrypted: say `--tls-certificate` and `--tls-key`, or listen on 127.0.0.1 or ::1"
    )]
    Exposed(SocketAddr),
    /// Whoever reaches the address would be the operator.
    #[error(
        "{0} can be reached by others, and nobody is asked: leave out `--open`, or listen on 127.0.0.1 or ::1"
    )]
    Unasked(SocketAddr),
    /// Nothing can be encrypted.
    #[error(transparent)]
    Tls(#[from] TlsError),
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
    Agents(#[source] southbound::ServeError),
}

/// Runs a controller until SIGTERM or SIGINT. What it has answered is in `data`, so it may be
/// killed as well: agents execute what they have until it is back.
///
/// # Errors
///
/// [`ServeError`]
pub fn serve(settings: &Settings) -> Result<(), ServeError> {
    let is_asked = !settings.is_open && !settings.has_open_agents;
    let is_here = |address: &SocketAddr| address.ip().is_loopback();
    if settings.is_open && !is_here(&settings.listen) {
        return Err(ServeError::Unasked(settings.listen));
    }
    let told = is_asked.then_some(settings.agents);
    for address in [Some(settings.listen), told].into_iter().flatten() {
        if settings.own.is_none() && !is_here(&address) {
            return Err(ServeError::Exposed(address));
        }
    }
    let encrypted = |clients: Option<&PathBuf>, protocol| {
        let open = |own: &Own| Server::open(own.clone(), clients.cloned(), protocol).map(Arc::new);
        settings.own.as_ref().map(open).transpose()
    };
    let tls = encrypted(settings.clients.as_ref(), Protocol::Http1)?;
    let agents_tls = encrypted(settings.nodes.as_ref(), Protocol::Http2)?;
    let store = Store::open(Box::new(Embedded::open(&settings.data)?))?;
    let catalog = Arc::new(Catalog::open(store)?);
    let door = Arc::new(if settings.is_open {
        tracing::warn!("everybody who reaches the API is its operator");
        Door::Open
    } else {
        let tokens = Tokens::open(&settings.data)?;
        if tokens.is_empty() {
            tracing::warn!("nobody has a token: `zovn controller token create` makes one");
        }
        Door::Known { tokens, clients: tls.clone().filter(|_| settings.clients.is_some()) }
    });
    let nodes: Arc<dyn Admit> = Arc::new(match is_asked {
        true => Nodes::Proven(Arc::clone(&door)),
        false => Nodes::Open,
    });
    let audit = Arc::new(Audit::open(&settings.data).map_err(ServeError::Audit)?);
    let metrics = Arc::new(Metrics::default());
    let mut telling = Telling::new(Arc::clone(&catalog), Arc::clone(&metrics), identity::number())?;
    raise_files();
    let runtime = Builder::new_multi_thread().enable_all().build().map_err(ServeError::Runtime)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Runtime)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Runtime)?;
        let (requests, listen) = bound("requests", settings.listen).await?;
        let (followers, agents) = bound("agents", settings.agents).await?;
        let (scrapes, metrics_at) = match settings.metrics {
            Some(address) => {
                let (scrapes, address) = bound("who reads metrics", address).await?;
                (Some(scrapes), Some(address.to_string()))
            }
            None => (None, None),
        };
        telling.begin()?;
        let publisher = Arc::clone(telling.publisher());
        let measured =
            Measured { catalog: Arc::clone(&catalog), publisher: Arc::clone(&publisher), metrics };
        let revision = catalog.store().revision();
        let store = catalog.store().uid();
        tracing::info!(%listen, %agents, metrics = metrics_at, store, %revision, "serving");
        tell_systemd(NotifyState::Ready);
        if !is_asked {
            let is_encrypted = agents_tls.is_some();
            tracing::warn!(
                %agents,
                is_encrypted,
                "agents are not asked who they are: have only hosts reach this address"
            );
        }
        let progress = Arc::clone(telling.progress());
        let router = router(Arc::clone(&catalog), progress, Arc::clone(&door), audit);
        let answered = answer(requests, tls.clone(), router);
        let told = southbound::serve(followers, agents_tls.clone(), publisher, nodes);
        tokio::select! {
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
            error = telling.go_on() => Err(error.into()),
            ended = told => ended.map_err(ServeError::Agents),
            never = answered => match never {},
            never = follow(tls) => match never {},
            never = follow(agents_tls) => match never {},
            never = door.follow() => match never {},
            never = forget(Arc::clone(&catalog)) => match never {},
            never = show(scrapes, measured) => match never {},
        }
    })?;
    tell_systemd(NotifyState::Stopping);
    // Waits for what is being written: its writers are not answered, but it is whole.
    drop(runtime);
    tracing::info!(revision = %catalog.store().revision(), "stopped");
    Ok(())
}

/// Notifies systemd, if it started us.
fn tell_systemd(news: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[news]) {
        tracing::warn!(%error, "systemd does not hear us");
    }
}

/// Has this process open as many files as it may: each agent and each watch takes one.
fn raise_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, ?current, "cannot raise the limit on open files");
    }
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

/// Answers requests, by encrypted connections or others, until it is dropped. The router's requests
/// know the other end, and the certificate that it has shown.
pub async fn answer(listener: TcpListener, tls: Option<Arc<Server>>, router: Router) -> Infallible {
    let accept = async || {
        let (stream, peer) = connections::accept(&listener).await?;
        Ok((stream, router.clone().layer(Extension(Peer(peer)))))
    };
    let Some(tls) = tls else {
        let plain = async || accept().await.map(|begun| ready(Ok(begun)));
        return connections::serve_each(plain, BOUNDS).await;
    };
    let encrypted = async || {
        let ((stream, router), tls) = (accept().await?, Arc::clone(&tls));
        Ok(async move {
            let stream = tls.accept(stream).await.map_err(io::Error::other)?;
            let router = match tls::shown(&stream) {
                Some(chain) => router.layer(Extension(Arc::new(Shown::new(chain)))),
                None => router,
            };
            Ok::<_, io::Error>((stream, router))
        })
    };
    connections::serve_each(encrypted, BOUNDS).await
}

/// Learns of certificates that are renewed.
async fn follow(tls: Option<Arc<Server>>) -> Infallible {
    match tls {
        Some(tls) => tls.follow().await,
        None => pending().await,
    }
}

/// Shows metrics, if anybody is to read them.
async fn show(listener: Option<TcpListener>, measured: Measured) -> Infallible {
    let Some(listener) = listener else { return pending().await };
    let accept = async || Ok(connections::accept(&listener).await?.0);
    connections::serve(accept, metrics::router(measured), METRICS).await
}
