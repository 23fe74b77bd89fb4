//! The connections by which questions come: encrypted or not, and whose clients may ask.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use connections::Bounds;
use tls::{Chain, Own, Protocol, Server, TlsError};
use tokio::net::TcpListener;

use super::problem::Refusal;

/// Schedulers keep a connection each, and Prometheus has one.
const BOUNDS: Bounds =
    Bounds { connections: 32, reserved: 4, head: Duration::from_secs(90), life: None };

/// Those of a connection whose client is not known: it is told so, and keeps nobody out for longer.
const STRANGER: Bounds =
    Bounds { head: Duration::from_secs(5), life: Some(Duration::from_secs(5)), ..BOUNDS };

/// How connections are encrypted, by files that may be renewed meanwhile.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Encryption {
    /// The certificate that clients see, and its key.
    pub own: Own,
    /// Those who sign clients' certificates. `None`: clients need no certificate.
    pub clients: Option<PathBuf>,
}

/// Where connections come in.
#[derive(Clone, Debug)]
pub struct Entrance(Option<Encrypted>);

#[derive(Clone, Debug)]
struct Encrypted {
    tls: Arc<Server>,
    /// Whether clients are to have a certificate.
    are_clients_known: bool,
}

impl Entrance {
    /// One that is encrypted so, or not at all.
    ///
    /// # Errors
    ///
    /// The files cannot be used.
    pub fn open(encryption: Option<&Encryption>) -> Result<Self, TlsError> {
        let encrypted = |it: &Encryption| {
            let tls = Server::open(it.own.clone(), it.clients.clone(), Protocol::Http1)?;
            Ok(Encrypted { tls: Arc::new(tls), are_clients_known: it.clients.is_some() })
        };
        encryption.map(encrypted).transpose().map(Self)
    }

    /// Accepts connections, and has `router` answer those who may ask. Certificates that are
    /// renewed meanwhile are used from then on.
    pub async fn answer(&self, listener: TcpListener, router: Router) -> Infallible {
        let Some(encrypted) = &self.0 else {
            let accept = async || Ok(connections::accept(&listener).await?.0);
            return connections::serve(accept, router, BOUNDS).await;
        };
        let accept = async || {
            let (stream, _) = connections::accept(&listener).await?;
            let (Encrypted { tls, are_clients_known }, router) =
                (encrypted.clone(), router.clone());
            Ok(async move {
                let stream = tls.accept(stream).await.map_err(io::Error::other)?;
                if !are_clients_known {
                    return Ok::<_, io::Error>((stream, router));
                }
                let shown = tls::shown(&stream);
                let is_stranger = shown.is_none();
                let shown = Arc::new(shown.unwrap_or_default());
                let router = router.layer(from_fn_with_state(Client { tls, shown }, admit));
                if is_stranger {
                    connections::answer(stream, router, STRANGER).await;
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                Ok((stream, router))
            })
        };
        tokio::select! {
            never = connections::serve_each(accept, BOUNDS) => never,
            never = encrypted.tls.follow() => never,
        }
    }
}

/// Who is at the other end of a connection.
#[derive(Clone)]
struct Client {
    tls: Arc<Server>,
    /// The certificates that it has shown, if any.
    shown: Arc<Chain>,
}

/// Has a client's requests answered as long as its certificate is to be trusted: connections last
/// longer than certificates. The connection ends then.
async fn admit(State(client): State<Client>, request: Request, next: Next) -> Response {
    if client.tls.trusts(&client.shown) {
        return next.run(request).await;
    }
    let detail = "the client shows no certificate that counts: give it one that an authority of \
                  `--clients-ca` has signed";
    let close = [(header::CONNECTION, HeaderValue::from_static("close"))];
    (close, Refusal(StatusCode::FORBIDDEN, detail.into())).into_response()
}
