//! A client that asks one thing at a time and waits for the answer.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, IF_MATCH};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use model::{
    AddressStatus, AgentStatus, CaptureSpec, ConnectionsPage, Generation, HandoverTaken,
    LogicalApplied, NetworkName, NetworkSpec, NetworksReplaced, NetworksStatus, PacketTrace,
    PacketTraceSpec, PortChange, PortName, PortSpec, PortStatus, RuleHits, TraceReport, TraceSpec,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

use crate::unless::unless;
use crate::{
    ADDRESSES, CAPTURE, CONNECTIONS, FieldProblem, HANDOVER, LOGICAL, LOGICAL_RULES, LOGICAL_TRACE,
    LogicalNetworks, METRICS, NETWORKS, PORTS, Problem, READY, STATUS, TRACE,
};

/// Detaching drains first, and an agent may be told to take its time over that.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of one agent. Each call opens a connection of its own, so an agent may restart between
/// two calls.
///
/// Its calls block: use it outside of asynchronous code.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    patience: Duration,
    runtime: Runtime,
}

/// What has to be so for virtual networks to be replaced.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Condition {
    /// They are of this generation.
    pub generation: Option<Generation>,
    /// Nothing changes: the agent only says whether it would take them.
    pub dry_run: bool,
}

/// Why an agent did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens, or we may not talk to it.
    #[error("cannot reach an agent at {}: {}", socket.display(), hint_for(source))]
    Unreachable {
        /// Where we looked.
        socket: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It listens but does not speak as it should.
    #[error("the agent at {} broke off during {request}: look at its log", socket.display())]
    Broken {
        /// The agent's socket.
        socket: PathBuf,
        /// What we asked.
        request: String,
        /// What happened instead of an answer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It understood and refused.
    #[error("{problem}")]
    Refused {
        /// The HTTP status code.
        status: u16,
        /// The agent's own sentence.
        problem: String,
    },
    /// The client itself could not be made.
    #[error("cannot start a client: {0}; raise the limit on open files")]
    Start(#[from] io::Error),
}

/// What to do if an agent cannot be reached.
fn hint_for(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "its socket is its user's alone: run this as that user, which is root as a rule"
        }
        io::ErrorKind::NotFound => "start one with `zovn agent`, or name its socket",
        io::ErrorKind::ConnectionRefused => {
            "nobody listens there: its agent was killed, or it is no agent's; start one with `zovn agent`"
        }
        io::ErrorKind::InvalidInput => "a socket's path has 1 to 107 bytes: name its socket",
        io::ErrorKind::WouldBlock => "too many callers wait already: ask again",
        _ => "name its socket",
    }
}

impl Client {
    /// A client of the agent that listens on `socket`. Does not connect yet.
    ///
    /// # Errors
    ///
    /// [`ClientError::Start`] if the process has no descriptors left.
    pub fn new(socket: impl AsRef<Path>) -> Result<Self, ClientError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { socket: socket.as_ref().to_owned(), patience: PATIENCE, runtime })
    }

    /// Waits no longer than this for an answer.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The whole agent at this moment.
    ///
    /// # Errors
    ///
    /// [`ClientError`], as of every call here: the agent is away, broken, or refuses.
    pub fn status(&self) -> Result<AgentStatus, ClientError> {
        self.ask(Method::GET, STATUS, None::<&()>)
    }

    /// Every port at this moment, by name.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub fn ports(&self) -> Result<Vec<PortStatus>, ClientError> {
        self.ask(Method::GET, PORTS, None::<&()>)
    }

    /// One port at this moment.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 404 if there is no such port.
    pub fn port(&self, name: &PortName) -> Result<PortStatus, ClientError> {
        self.ask(Method::GET, &port_path(name), None::<&()>)
    }

    /// One port at this moment, until `stop` is set. `None`: it was set before the answer came.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 404 if there is no such port.
    pub fn port_unless(
        &self,
        name: &PortName,
        stop: &AtomicBool,
    ) -> Result<Option<PortStatus>, ClientError> {
        self.ask_unless(stop, Method::GET, &port_path(name), None::<&()>)
    }

    /// Attaches a port and returns it as it is then.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 409 if the name is taken, with 422 if it cannot be attached.
    pub fn attach(&self, spec: &PortSpec) -> Result<PortStatus, ClientError> {
        self.ask(Method::POST, PORTS, Some(spec))
    }

    /// Changes a port and returns it as it is then.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 404 if there is no such port, with 422 if it cannot be so.
    pub fn change(&self, name: &PortName, change: &PortChange) -> Result<PortStatus, ClientError> {
        self.ask(Method::PATCH, &port_path(name), Some(change))
    }

    /// Drains and detaches a port and returns what it was at its end.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 404 if there is no such port.
    pub fn detach(&self, name: &PortName) -> Result<PortStatus, ClientError> {
        self.ask(Method::DELETE, &port_path(name), None::<&()>)
    }

    /// Where each Ethernet address is reached, as far as it was learned or pinned.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub fn addresses(&self) -> Result<Vec<AddressStatus>, ClientError> {
        self.ask(Method::GET, ADDRESSES, None::<&()>)
    }

    /// The virtual networks, and of which generation they are.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub fn networks(&self) -> Result<NetworksStatus, ClientError> {
        self.ask(Method::GET, NETWORKS, None::<&()>)
    }

    /// Replaces all virtual networks at once.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 422 if they cannot stand, or not beside the ports that are
    /// attached: then all stay as they were.
    pub fn set_networks(&self, networks: &[NetworkSpec]) -> Result<NetworksReplaced, ClientError> {
        self.ask(Method::PUT, NETWORKS, Some(&networks))
    }

    /// Replaces all virtual networks at once, if a condition is met.
    ///
    /// # Errors
    ///
    /// As of [`set_networks`](Self::set_networks); and [`ClientError::Refused`] with 412 if they
    /// are of another generation.
    pub fn set_networks_if(
        &self,
        condition: Condition,
        networks: &[NetworkSpec],
    ) -> Result<NetworksReplaced, ClientError> {
        self.ask_if(condition, Method::PUT, NETWORKS, Some(&networks))
    }

    /// Adds a virtual network, or replaces the one with its name.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 422 if it cannot stand, or not beside others and the ports
    /// that are attached: then all stay as they were.
    pub fn set_network(&self, network: &NetworkSpec) -> Result<NetworksReplaced, ClientError> {
        self.ask(Method::PUT, &network_path(&network.name), Some(network))
    }

    /// Adds a virtual network, or replaces the one with its name, if a condition is met.
    ///
    /// # Errors
    ///
    /// As of [`set_network`](Self::set_network); and [`ClientError::Refused`] with 412 if the
    /// networks are of another generation.
    pub fn set_network_if(
        &self,
        condition: Condition,
        network: &NetworkSpec,
    ) -> Result<NetworksReplaced, ClientError> {
        self.ask_if(condition, Method::PUT, &network_path(&network.name), Some(network))
    }

    /// Removes a virtual network.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 404 if there is none of that name, with 422 if a port that is
    /// attached is in it.
    pub fn remove_network(&self, name: &NetworkName) -> Result<NetworksReplaced, ClientError> {
        self.ask(Method::DELETE, &network_path(name), None::<&()>)
    }

    /// Removes a virtual network, if a condition is met.
    ///
    /// # Errors
    ///
    /// As of [`remove_network`](Self::remove_network); and [`ClientError::Refused`] with 412 if the
    /// networks are of another generation.
    pub fn remove_network_if(
        &self,
        condition: Condition,
        name: &NetworkName,
    ) -> Result<NetworksReplaced, ClientError> {
        self.ask_if(condition, Method::DELETE, &network_path(name), None::<&()>)
    }

    /// The logical networks, and of which generation they are.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub fn logical(&self) -> Result<LogicalNetworks, ClientError> {
        self.ask(Method::GET, LOGICAL, None::<&()>)
    }

    /// Replaces all objects of logical networks at once, if a condition is met.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 422 if they cannot stand, with 412 if those that there are are
    /// of another generation: then all stay as they were.
    pub fn apply_if(
        &self,
        condition: Condition,
        objects: &impl Serialize,
    ) -> Result<LogicalApplied, ClientError> {
        self.ask_if(condition, Method::PUT, LOGICAL, Some(objects))
    }

    /// Replaces all objects of logical networks at once, until `stop` is set. `None`: it was set
    /// before the answer came; the agent may replace them.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 422 if they cannot stand.
    pub fn apply_unless(
        &self,
        objects: &impl Serialize,
        stop: &AtomicBool,
    ) -> Result<Option<LogicalApplied>, ClientError> {
        self.ask_unless(stop, Method::PUT, LOGICAL, Some(objects))
    }

    /// Whether frames flow: `false` while the agent drains, and while nobody listens.
    ///
    /// # Errors
    ///
    /// [`ClientError::Broken`]: somebody listens who is no agent.
    pub fn ready(&self) -> Result<bool, ClientError> {
        match self.send(Method::GET, READY, None::<&()>) {
            Ok(_) => Ok(true),
            Err(ClientError::Unreachable { .. } | ClientError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What would become of a frame. Nothing changes.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 404 if there is no such port, with 422 if there can be no such
    /// frame.
    pub fn trace(&self, spec: &TraceSpec) -> Result<TraceReport, ClientError> {
        self.ask(Method::POST, TRACE, Some(spec))
    }

    /// What each rule has admitted and refused here; of a port: each that holds for it.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 404 if the port is not on this host.
    pub fn rules(&self, port: Option<&PortName>) -> Result<Vec<RuleHits>, ClientError> {
        let query = port.map(|port| format!("?port={}", escaped(&port.0))).unwrap_or_default();
        self.ask(Method::GET, &format!("{LOGICAL_RULES}{query}"), None::<&()>)
    }

    /// Connections of a logical port of this host, by its own name or the host's: at most so many,
    /// behind a page's `next`.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 404 if the port is not on this host.
    pub fn connections(
        &self,
        port: &PortName,
        limit: u32,
        after: Option<&str>,
    ) -> Result<ConnectionsPage, ClientError> {
        let path = CONNECTIONS.replace("{name}", &escaped(&port.0));
        let after = after.map(|after| format!("&after={}", escaped(after))).unwrap_or_default();
        self.ask(Method::GET, &format!("{path}?limit={limit}{after}"), None::<&()>)
    }

    /// What another host needs to go on with a logical port of this one. `stays`: the port's
    /// packets go on passing this host meanwhile.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 404 if the port is not on this host.
    pub fn hand_over(&self, port: &PortName, stays: bool) -> Result<Bytes, ClientError> {
        let path = HANDOVER.replace("{name}", &escaped(&port.0));
        self.send(Method::GET, &format!("{path}?stays={stays}"), None::<&()>)
    }

    /// Has a host go on with a logical port as [another](Self::hand_over) had it. It is attached
    /// there before.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 404 if the port is not on this host, with 400 or 422 if this
    /// is not what goes with it.
    pub fn take_over(&self, port: &PortName, from: Bytes) -> Result<HandoverTaken, ClientError> {
        let path = HANDOVER.replace("{name}", &escaped(&port.0));
        let line = format!("{} {path}", Method::PUT);
        let request =
            self.request_of(&line, Method::PUT, &path, "application/octet-stream", from)?;
        let (status, body) = self.wait(&line, self.exchange(&line, request))?;
        if !status.is_success() {
            return Err(refused(&line, status, &body));
        }
        serde_json::from_slice(&body).map_err(|source| self.broken(line, source))
    }

    /// What would become of a packet in the logical networks. Nothing changes.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 404 if the port is not on this host.
    pub fn trace_packet(&self, spec: &PacketTraceSpec) -> Result<PacketTrace, ClientError> {
        self.ask(Method::POST, LOGICAL_TRACE, Some(spec))
    }

    /// Frames as they come by: a pcapng file, piece by piece.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with 404 if there is no such port.
    pub fn capture(&self, spec: &CaptureSpec) -> Result<Stream<'_>, ClientError> {
        let pairs = spec.to_query();
        let pairs: Vec<_> =
            pairs.iter().map(|(key, value)| format!("{key}={}", escaped(value))).collect();
        let path = format!("{CAPTURE}?{}", pairs.join("&"));
        let line = format!("GET {CAPTURE}");
        let request = self.request(&line, Method::GET, &path, None::<&()>)?;
        let (answer, connection) = self.wait(&line, self.open(&line, request))?;
        let status = answer.status();
        let mut stream = Stream { client: self, line, body: answer.into_body(), connection };
        if status.is_success() {
            return Ok(stream);
        }
        let Stream { line, body, .. } = &mut stream;
        let body = self.wait(line, async {
            body.collect().await.map_err(|source| self.broken(line.as_str(), source))
        })?;
        Err(refused(line, status, &body.to_bytes()))
    }

    /// Everything counted, as Prometheus reads it.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn metrics(&self) -> Result<String, ClientError> {
        let body = self.send(Method::GET, METRICS, None::<&()>)?;
        String::from_utf8(body.into()).map_err(|source| self.broken("GET /metrics", source))
    }

    fn ask_if<T: DeserializeOwned>(
        &self,
        condition: Condition,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let Condition { generation, dry_run } = condition;
        let line = format!("{method} {path}");
        let query = if dry_run { "?dry_run=true" } else { "" };
        let mut request = self.request(&line, method, &format!("{path}{query}"), body)?;
        if let Some(generation) = generation {
            let tag = HeaderValue::from_str(&generation.tag()).expect("digits and quotes");
            request.headers_mut().insert(IF_MATCH, tag);
        }
        let (status, body) = self.wait(&line, self.exchange(&line, request))?;
        if !status.is_success() {
            return Err(refused(&line, status, &body));
        }
        serde_json::from_slice(&body).map_err(|source| self.broken(line, source))
    }

    /// Asks for a message, until `stop` is set. `None`: it was set before the answer came.
    fn ask_unless<T: DeserializeOwned>(
        &self,
        stop: &AtomicBool,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Option<T>, ClientError> {
        let line = format!("{method} {path}");
        let request = self.request(&line, method, path, body)?;
        let answer = async { unless(stop, self.exchange(&line, request)).await.transpose() };
        let Some((status, body)) = self.wait(&line, answer)? else { return Ok(None) };
        if !status.is_success() {
            return Err(refused(&line, status, &body));
        }
        serde_json::from_slice(&body).map(Some).map_err(|source| self.broken(line, source))
    }

    /// Asks for a message.
    fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let request = format!("{method} {path}");
        let answer = self.send(method, path, body)?;
        serde_json::from_slice(&answer).map_err(|source| self.broken(request, source))
    }

    /// Sends a request and waits for the body of its answer; an answer that is no success is an
    /// error.
    fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Bytes, ClientError> {
        let line = format!("{method} {path}");
        let request = self.request(&line, method, path, body)?;
        let (status, body) = self.wait(&line, self.exchange(&line, request))?;
        if status.is_success() { Ok(body) } else { Err(refused(&line, status, &body)) }
    }

    fn request(
        &self,
        line: &str,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let json = match body {
            Some(body) => serde_json::to_vec(body).map_err(|source| self.broken(line, source))?,
            None => Vec::new(),
        };
        self.request_of(line, method, path, "application/json", json.into())
    }

    fn request_of(
        &self,
        line: &str,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        // hyper demands a Host (RFC 9112 §3.2); on a Unix socket it means nothing.
        Request::builder()
            .method(method)
            .uri(path)
            .header("host", "agent")
            .header("content-type", kind)
            .body(Full::new(body))
            .map_err(|source| self.broken(line, source))
    }

    /// Waits for an answer, but not for ever.
    fn wait<T>(
        &self,
        line: &str,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        self.runtime.block_on(async {
            match tokio::time::timeout(self.patience, answer).await {
                Ok(answer) => answer,
                Err(late) => Err(self.broken(line, late)),
            }
        })
    }

    async fn exchange(
        &self,
        line: &str,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let (answer, connection) = self.open(line, request).await?;
        let status = answer.status();
        let body = answer
            .into_body()
            .collect()
            .await
            .map_err(|source| self.broken(line, source))?
            .to_bytes();
        connection.abort();
        Ok((status, body))
    }

    /// Sends a request over a connection of its own, which is driven for as long as the runtime is.
    async fn open(
        &self,
        line: &str,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, AbortHandle), ClientError> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|source| ClientError::Unreachable { socket: self.socket.clone(), source })?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|source| self.broken(line, source))?;
        // When it ends before the answer, the answer knows why.
        let connection = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        let answer =
            sender.send_request(request).await.map_err(|source| self.broken(line, source))?;
        Ok((answer, connection))
    }

    fn broken(
        &self,
        request: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> ClientError {
        let (socket, request) = (self.socket.clone(), request.into());
        ClientError::Broken { socket, request, source: source.into() }
    }
}

/// An answer that comes piece by piece, for as long as somebody wants it.
#[derive(Debug)]
pub struct Stream<'c> {
    client: &'c Client,
    line: String,
    body: Incoming,
    connection: AbortHandle,
}

impl Stream<'_> {
    /// The next piece: an empty one if none comes for so long, `None` after the last.
    ///
    /// # Errors
    ///
    /// [`ClientError::Broken`] if the agent breaks off.
    pub fn next(&mut self, patience: Duration) -> Result<Option<Bytes>, ClientError> {
        let Self { client, line, body, .. } = self;
        let next =
            client.runtime.block_on(async { tokio::time::timeout(patience, body.frame()).await });
        match next {
            Err(_) => Ok(Some(Bytes::new())),
            Ok(None) => Ok(None),
            Ok(Some(Ok(frame))) => Ok(Some(frame.into_data().unwrap_or_default())),
            Ok(Some(Err(source))) => Err(client.broken(line.as_str(), source)),
        }
    }
}

/// Who wants no more hangs up.
impl Drop for Stream<'_> {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn refused(line: &str, status: StatusCode, body: &[u8]) -> ClientError {
    let problem = match serde_json::from_slice::<Problem>(body) {
        Ok(Problem { error, errors }) if errors.is_empty() => error,
        Ok(Problem { errors, .. }) => {
            let line = |it: &FieldProblem| format!("{} {}: {}", it.object, it.path, it.message);
            errors.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        Err(_) => format!("the agent answered {line} with {status}"),
    };
    ClientError::Refused { status: status.as_u16(), problem }
}

/// A name may hold what a path may not (RFC 3986 §2.1): everything but letters, digits, `-`, `.`
/// and `_` is escaped.
fn port_path(name: &PortName) -> String {
    format!("{PORTS}/{}", escaped(&name.0))
}

fn network_path(name: &NetworkName) -> String {
    format!("{NETWORKS}/{}", escaped(&name.0))
}

fn escaped(text: &str) -> String {
    let mut path = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_escaped_in_its_path() {
        assert_eq!(port_path(&PortName("web-1".into())), "/v1/ports/web-1");
        assert_eq!(port_path(&PortName("50%?".into())), "/v1/ports/50%25%3F");
    }

    #[test]
    fn what_to_do_depends_on_why_there_is_no_connection() {
        let dir = std::env::temp_dir().join(format!("zovn-t-hints-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        drop(std::os::unix::net::UnixListener::bind(dir.join("dead")).unwrap());
        let error = |path: &Path| Client::new(path).unwrap().status().unwrap_err().to_string();
        let [none, dead, long] =
            ["none", "dead", &"x".repeat(200)].map(|name| error(&dir.join(name)));
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(none.contains("start one"), "{none}");
        assert!(dead.contains("nobody listens there"), "{dead}");
        assert!(long.contains("1 to 107 bytes"), "{long}");
        // Root may open every socket.
        let denied = hint_for(&io::ErrorKind::PermissionDenied.into());
        assert!(!denied.contains("start one"), "{denied}");
    }

    #[test]
    fn an_agent_that_does_not_answer_is_not_waited_for_for_long() {
        let socket = std::env::temp_dir().join(format!("zovn-t-mute-{}.sock", std::process::id()));
        let _mute = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let error = Client::new(&socket).unwrap().with_patience(Duration::from_millis(10)).status();
        std::fs::remove_file(&socket).unwrap();
        assert!(matches!(error, Err(ClientError::Broken { .. })), "{error:?}");
    }

    #[test]
    fn nobody_at_the_socket_is_not_ready_and_says_so() {
        let client = Client::new("/nowhere/agent.sock").unwrap();
        assert!(!client.ready().unwrap());
        let error = client.status().unwrap_err().to_string();
        assert!(error.contains("/nowhere/agent.sock"), "{error}");
    }
}
