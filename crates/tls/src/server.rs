//! The end that listens.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsAcceptor;

use crate::Protocol;
use crate::files::{Own, Stamp, TlsError, authorities, provider, stamp};

/// How often files are looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// The longest time that the other end may take until it has said who it is.
const LONGEST: Duration = Duration::from_secs(5);

/// An encrypted connection that was accepted.
pub type ServerStream<S> = tokio_rustls::server::TlsStream<S>;

/// A certificate, then those that it leads by.
pub type Chain = Vec<CertificateDer<'static>>;

/// The certificate that the other end of a connection has shown, if it has shown one: of a client
/// of those who sign clients' certificates.
pub fn shown<S>(stream: &ServerStream<S>) -> Option<Chain> {
    stream.get_ref().1.peer_certificates().map(<[_]>::to_vec)
}

/// Who listens, by its files.
#[derive(Debug)]
pub struct Server {
    own: Own,
    clients: Option<PathBuf>,
    protocol: Protocol,
    now: Mutex<Now>,
}

/// What the files have.
#[derive(Debug)]
struct Now {
    config: Arc<ServerConfig>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    /// How often they have been read anew.
    version: u64,
    stamps: Vec<Stamp>,
    /// Why files that have changed since are not used, if they have and are not.
    why_not: Option<String>,
}

impl Server {
    /// With a certificate of its own. `clients`: a file of those who sign clients' certificates; a
    /// client may have none.
    ///
    /// # Errors
    ///
    /// The files cannot be used.
    pub fn open(own: Own, clients: Option<PathBuf>, protocol: Protocol) -> Result<Self, TlsError> {
        let stamps = stamps(&own, clients.as_deref());
        let (config, verifier) = config(&own, clients.as_deref(), protocol)?;
        let now = Mutex::new(Now { config, clients: verifier, version: 0, stamps, why_not: None });
        Ok(Self { own, clients, protocol, now })
    }

    /// Makes a connection that was accepted an encrypted one. The other end has five seconds.
    ///
    /// # Errors
    ///
    /// The other end does not agree.
    pub async fn accept<S>(&self, stream: S) -> Result<ServerStream<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.lock().config));
        let late = |_| TlsError::Handshake(std::io::ErrorKind::TimedOut.into());
        let accepted = timeout(LONGEST, acceptor.accept(stream)).await.map_err(late)?;
        accepted.map_err(TlsError::Handshake)
    }

    /// Which version of the files is used: as long as it is the same, [`Server::trusts`] says the
    /// same of a certificate that does not expire meanwhile.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// Whether a client's certificate, with those that it leads by, is one to be trusted now: it
    /// has not expired, and who has signed it still may.
    pub fn trusts(&self, chain: &[CertificateDer<'_>]) -> bool {
        let clients = self.lock().clients.clone();
        clients.zip(chain.split_first()).is_some_and(|(clients, (own, rest))| {
            clients.verify_client_cert(own, rest, UnixTime::now()).is_ok()
        })
    }

    /// Reads the files again whenever they have changed. Those that cannot be used are told of, and
    /// what was read before stays, until they can.
    pub async fn follow(&self) -> Infallible {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look();
        }
    }

    pub(crate) fn look(&self) {
        let stamps = stamps(&self.own, self.clients.as_deref());
        if self.lock().stamps == stamps {
            return;
        }
        let certificate = self.own.certificate.display();
        let read = config(&self.own, self.clients.as_deref(), self.protocol);
        let mut now = self.lock();
        match read {
            Ok((config, clients)) => {
                let version = now.version + 1;
                *now = Now { config, clients, version, stamps, why_not: None };
                tracing::info!(%certificate, "a changed certificate is used from now on");
            }
            Err(error) => {
                let why_not = Some(error.to_string());
                if now.why_not != why_not {
                    tracing::warn!(%certificate, %error, "a changed certificate is not used: the one before it stays");
                    now.why_not = why_not;
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        // What is read replaces the rest whole.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamps(own: &Own, clients: Option<&Path>) -> Vec<Stamp> {
    [&*own.certificate, &*own.key].into_iter().chain(clients).map(stamp).collect()
}

/// How connections are encrypted, and who says which clients are trusted.
type Config = (Arc<ServerConfig>, Option<Arc<dyn ClientCertVerifier>>);

fn config(own: &Own, clients: Option<&Path>, protocol: Protocol) -> Result<Config, TlsError> {
    let unusable = |error| TlsError::Unusable(own.certificate.clone(), error);
    let (chain, key) = own.read()?;
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_protocol_versions(&[&TLS13]).map_err(unusable)?;
    let clients = clients.map(verifier).transpose()?;
    let builder = match &clients {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
    config.alpn_protocols = protocol.names();
    // A session that is resumed would be trusted as it was when it began.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok((Arc::new(config), clients))
}

/// Who says which clients are trusted, by a file of those who sign their certificates.
fn verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let roots = authorities(path)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
    verifier
        .allow_unauthenticated()
        .build()
        .map_err(|error| TlsError::Unusable(path.into(), rustls::Error::General(error.to_string())))
}
