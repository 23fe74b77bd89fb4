//! A client of a controller, over TCP, encrypted or not.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HOST, HeaderValue, IF_MATCH};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tls::Protocol;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::FieldProblem;
use crate::unless::unless;

/// A write waits for others', and for the store.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a controller that is watched may say nothing: it says something every ten seconds.
const SILENCE: Duration = Duration::from_secs(40);

/// The most bytes of an answer, and of a refusal.
const LONGEST_ANSWER: usize = 256 << 20;
const LONGEST_REFUSAL: usize = 16 << 20;

/// Where a controller is, and who asks it.
#[derive(Clone, Debug)]
pub struct Remote {
    /// `https://NAME:PORT`, or `http://` for one on this host.
    pub server: String,
    /// Those who sign its certificate, and its name there; the certificate of who asks, if they
    /// have one. `None`: nothing is encrypted.
    pub tls: Option<tls::Client>,
    /// The token of who asks.
    pub token: Option<String>,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// The method.
    pub method: Method,
    /// The path, with its query.
    pub path: String,
    /// The version that is expected, as its `ETag` was.
    pub if_match: Option<&'a str>,
    /// The body: YAML, or JSON. Of `PATCH` it is a JSON patch (RFC 6902), answered by the `ETag`.
    pub body: Vec<u8>,
}

impl Asked<'_> {
    /// To read something.
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), if_match: None, body: Vec::new() }
    }

    /// To hand something over.
    pub fn post(path: impl Into<String>, body: Vec<u8>) -> Self {
        Self { method: Method::POST, path: path.into(), if_match: None, body }
    }
}

/// Why a controller did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// That is no address.
    #[error("`{0}` is no address of a controller: write `https://NAME:PORT`")]
    Address(String),
    /// Whoever is on the way could read the token.
    #[error("a token is not sent to {0} unencrypted: write `https://`, and say whom to trust")]
    Exposed(String),
    /// Somebody is to be trusted for what is not encrypted.
    #[error(
        "{0} is not encrypted, so nobody is to be trusted for it: write `https://`, or leave out `--ca`"
    )]
    Unencrypted(String),
    /// Encrypted, but nobody is trusted.
    #[error("nobody is known who signs the certificate of {0}: say so by `--ca`")]
    Untrusted(String),
    /// Nobody listens.
    #[error("cannot reach a controller at {server}: {source}")]
    Unreachable {
        /// Where we looked.
        server: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is not who it is to be.
    #[error("cannot trust {server}")]
    Tls {
        /// Where we looked.
        server: String,
        /// Why not.
        source: tls::TlsError,
    },
    /// It breaks off, as it does when it does not take a certificate (RFC 8446 §4.4.2.4): by then
    /// the client has sent its request.
    #[error(
        "the controller at {server} broke off, as it does when it does not take a certificate: look whether that one has expired, and have one of the controller's `--clients-ca` sign another, or leave the certificate out of the context and use a token"
    )]
    Distrusted {
        /// Where it is.
        server: String,
        /// What happened instead of an answer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It does not speak as it should.
    #[error("the controller at {server} broke off: look at its log")]
    Broken {
        /// Where it is.
        server: String,
        /// What happened instead of an answer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It understood and refused.
    #[error("{}", .0.detail)]
    Refused(Refused),
    /// The client itself could not be made.
    #[error("cannot start a client: {0}; raise the limit on open files")]
    Start(io::Error),
}

/// A controller's refusal (RFC 9457).
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Refused {
    /// The HTTP status code.
    pub status: u16,
    /// What went wrong and what to do, in one sentence.
    pub detail: String,
    /// All that is wrong with objects that were sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
}

/// A client of one controller. Each call opens a connection of its own, and blocks.
#[derive(Debug)]
pub struct RemoteClient {
    remote: Remote,
    host: String,
    port: u16,
    runtime: Runtime,
}

impl RemoteClient {
    /// A client of a controller. Does not connect yet.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]: the address is none, or would have a token go in the clear.
    pub fn new(remote: Remote) -> Result<Self, RemoteError> {
        let none = || RemoteError::Address(remote.server.clone());
        let uri: Uri = remote.server.parse().map_err(|_| none())?;
        let host = uri.host().ok_or_else(none)?.trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().ok_or_else(none)?;
        match uri.scheme_str() {
            Some("https") if remote.tls.is_none() => return Err(RemoteError::Untrusted(host)),
            Some("https") => {}
            Some("http") if remote.tls.is_some() => return Err(RemoteError::Unencrypted(host)),
            Some("http") => {
                let is_here = host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback());
                if remote.token.is_some() && !is_here {
                    return Err(RemoteError::Exposed(host));
                }
            }
            _ => return Err(none()),
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self { remote, host, port, runtime: runtime.map_err(RemoteError::Start)? })
    }

    /// Asks something that is answered by JSON.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]
    pub fn ask<T: serde::de::DeserializeOwned>(&self, asked: Asked<'_>) -> Result<T, RemoteError> {
        self.ask_and_wait(asked, Duration::ZERO)
    }

    /// Asks something that is answered by JSON, once the controller has waited for so long.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]
    pub fn ask_and_wait<T: serde::de::DeserializeOwned>(
        &self,
        asked: Asked<'_>,
        waits: Duration,
    ) -> Result<T, RemoteError> {
        let (_, body) = self.exchange(asked, PATIENCE + waits)?;
        serde_json::from_slice(&body).map_err(|source| self.broken(source))
    }

    /// As [`ask_and_wait`](Self::ask_and_wait), until `stop` is set. `None`: it was set before the
    /// answer came; the controller may do what it was asked.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]
    pub fn ask_unless<T: serde::de::DeserializeOwned>(
        &self,
        asked: Asked<'_>,
        waits: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<T>, RemoteError> {
        let answer = async { unless(stop, self.answer(asked)).await.transpose() };
        let Some((_, body)) = self.wait(PATIENCE + waits, answer)? else { return Ok(None) };
        serde_json::from_slice(&body).map(Some).map_err(|source| self.broken(source))
    }

    /// Asks for an object: its `ETag`, and what it is.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]
    pub fn object(&self, path: &str) -> Result<(String, serde_json::Value), RemoteError> {
        let (tag, body) = self.exchange(Asked::get(path), PATIENCE)?;
        let object = serde_json::from_slice(&body).map_err(|source| self.broken(source))?;
        Ok((tag.unwrap_or_default(), object))
    }

    /// Has an object be changed by a JSON patch (RFC 6902): its `ETag` since.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]
    pub fn patch(&self, path: impl Into<String>, patch: Vec<u8>) -> Result<String, RemoteError> {
        let asked = Asked { method: Method::PATCH, path: path.into(), if_match: None, body: patch };
        let (tag, _) = self.exchange(asked, PATIENCE)?;
        Ok(tag.unwrap_or_default())
    }

    /// Asks for a text.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]
    pub fn text(&self, path: &str) -> Result<String, RemoteError> {
        let (_, body) = self.exchange(Asked::get(path), PATIENCE)?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Has `take` take server-sent events, each with its name and its data, until it has had
    /// enough or the controller hangs up.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]
    pub fn watch(
        &self,
        path: &str,
        mut take: impl FnMut(&str, &str) -> bool,
    ) -> Result<(), RemoteError> {
        self.runtime.block_on(async {
            let begin = async { self.accepted(self.open(Asked::get(path)).await?).await };
            let begun = timeout(PATIENCE, begin).await;
            let mut answer = begun.map_err(|late| self.broken(late))??;
            let mut lines = Lines::default();
            loop {
                let frame = timeout(SILENCE, answer.body_mut().frame()).await;
                let Some(frame) = frame.map_err(|late| self.broken(late))? else { return Ok(()) };
                let data = frame.map_err(|error| self.broken(error))?.into_data();
                let Ok(is_wanted) = lines.take(&data.unwrap_or_default(), &mut take) else {
                    return Err(self.broken("an event of more than 16 MiB"));
                };
                if !is_wanted {
                    return Ok(());
                }
            }
        })
    }

    fn exchange(
        &self,
        asked: Asked<'_>,
        patience: Duration,
    ) -> Result<(Option<String>, Bytes), RemoteError> {
        self.wait(patience, self.answer(asked))
    }

    /// Waits for an answer, but not for ever.
    fn wait<T>(
        &self,
        patience: Duration,
        answer: impl Future<Output = Result<T, RemoteError>>,
    ) -> Result<T, RemoteError> {
        self.runtime
            .block_on(async { timeout(patience, answer).await.map_err(|late| self.broken(late))? })
    }

    /// The answer to a request: its `ETag`, and its body.
    async fn answer(&self, asked: Asked<'_>) -> Result<(Option<String>, Bytes), RemoteError> {
        let answer = self.accepted(self.open(asked).await?).await?;
        let tag = answer.headers().get(ETAG).and_then(|it| it.to_str().ok());
        let tag = tag.map(ToOwned::to_owned);
        let body = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await;
        Ok((tag, body.map_err(|error| self.broken(error))?.to_bytes()))
    }

    /// An answer that is none of refusal.
    async fn accepted(
        &self,
        answer: Response<Incoming>,
    ) -> Result<Response<Incoming>, RemoteError> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body = Limited::new(answer.into_body(), LONGEST_REFUSAL).collect().await;
        let body = body.map_err(|error| self.broken(error))?;
        let refused = serde_json::from_slice(&body.to_bytes());
        Err(RemoteError::Refused(refused.unwrap_or_else(|_| of_status(status))))
    }

    /// Sends a request over a connection of its own.
    async fn open(&self, asked: Asked<'_>) -> Result<Response<Incoming>, RemoteError> {
        let Remote { server, tls, token } = &self.remote;
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream =
            stream.map_err(|source| RemoteError::Unreachable { server: server.clone(), source })?;
        // Else an encrypted request waits for the other end to acknowledge the handshake, 40 ms.
        let _ = stream.set_nodelay(true);
        let authority = match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        };
        let is_patch = asked.method == Method::PATCH;
        let media_type = if is_patch { "application/json-patch+json" } else { "application/yaml" };
        let mut request = Request::builder().method(asked.method).uri(asked.path);
        request = request.header(HOST, authority).header(CONTENT_TYPE, media_type);
        if is_patch {
            // RFC 7240, section 4.2: a patch is small, what it changes may be large.
            request = request.header("prefer", "return=minimal");
        }
        if let Some(token) = token {
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value = value.map_err(|error| self.broken(error))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        if let Some(tag) = asked.if_match {
            request = request.header(IF_MATCH, tag);
        }
        let body = Full::new(Bytes::from(asked.body));
        let request = request.body(body).map_err(|error| self.broken(error))?;
        match tls {
            None => self.send(stream, request).await,
            Some(tls) => {
                let stream = tls.connect(stream, Protocol::Http1).await;
                let stream =
                    stream.map_err(|source| RemoteError::Tls { server: server.clone(), source })?;
                let sent = self.send(stream, request).await;
                sent.map_err(|error| match error {
                    RemoteError::Broken { server, source } if tls.own.is_some() => {
                        RemoteError::Distrusted { server, source }
                    }
                    other => other,
                })
            }
        }
    }

    async fn send<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, RemoteError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| self.broken(error))?;
        // When it ends before the answer, the answer knows why.
        tokio::spawn(async move { drop(connection.await) });
        sender.send_request(request).await.map_err(|error| self.broken(error))
    }

    fn broken(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> RemoteError {
        RemoteError::Broken { server: self.remote.server.clone(), source: source.into() }
    }
}

/// What is known of a refusal without words.
fn of_status(status: StatusCode) -> Refused {
    let word = status.canonical_reason().unwrap_or("an unknown status");
    let detail = format!("the controller answers {} ({word})", status.as_u16());
    Refused { status: status.as_u16(), detail, errors: Vec::new() }
}

/// The most bytes of an event.
const LONGEST: usize = 16 << 20;

/// The lines of an event stream, as far as they have come.
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
    event: String,
}

impl Lines {
    /// Takes more of them, and has `take` have each event that is whole: whether it wants others.
    fn take(
        &mut self,
        bytes: &[u8],
        take: &mut impl FnMut(&str, &str) -> bool,
    ) -> Result<bool, ()> {
        for byte in bytes {
            if *byte != b'\n' {
                self.rest.push(*byte);
                if self.rest.len() > LONGEST {
                    return Err(());
                }
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned();
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut self.event);
            } else if let Some(data) = line.strip_prefix("data: ")
                && !take(&self.event, data)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(server: &str, token: bool) -> Remote {
        Remote { server: server.into(), tls: None, token: token.then(|| "t".into()) }
    }

    #[test]
    fn a_token_goes_to_no_other_host_in_the_clear() {
        for (server, token, problem) in [
            ("controller:6640", false, "no address"),
            ("http://192.0.2.1", false, "no address"),
            ("ftp://192.0.2.1:21", false, "no address"),
            ("http://192.0.2.1:6640", true, "not sent to 192.0.2.1"),
            ("http://localhost.example:6640", true, "not sent to localhost.example"),
            ("https://192.0.2.1:6640", true, "nobody is known"),
        ] {
            let error = RemoteClient::new(remote(server, token)).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        for server in ["http://127.0.0.1:6640", "http://[::1]:6640"] {
            RemoteClient::new(remote(server, true)).unwrap();
        }
        RemoteClient::new(remote("http://192.0.2.1:6640", false)).unwrap();
    }

    #[test]
    fn who_wants_no_more_does_not_wait_for_an_answer() {
        // Connections to it are taken, and never answered.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", silent.local_addr().unwrap());
        let client = RemoteClient::new(remote(&server, false)).unwrap();
        let asked = Asked::get("/v1/status");
        let answer = client.ask_unless::<u8>(asked, Duration::ZERO, &AtomicBool::new(true));
        assert_eq!(answer.unwrap(), None);
    }

    #[test]
    fn events_come_in_any_pieces() {
        let text = b"event: put\ndata: {\"a\":1}\n\nevent: bookmark\nid: 7\ndata: 7\n\n";
        for size in 1..text.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                let mut take = |event: &str, data: &str| {
                    seen.push((event.to_owned(), data.to_owned()));
                    true
                };
                assert_eq!(lines.take(piece, &mut take), Ok(true));
            }
            let word = |event: &str, data: &str| (event.to_owned(), data.to_owned());
            assert_eq!(seen, [word("put", "{\"a\":1}"), word("bookmark", "7")]);
        }
    }
}
