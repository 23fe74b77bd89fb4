//! The agent's end of a stream.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;

use model::Generation;
use replica::{Changed, Fence, Follower, Map, Name, Received, Rejected, Store};
use tls::Protocol;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint, Error};
use tonic::{Code, Request, Status};
use tower::service_fn;

use crate::VERSIONS;
use crate::convert::{self, Malformed};
use crate::proto::southbound_client::SouthboundClient;
use crate::proto::{self, FromAgent, FromController, from_agent, from_controller};

/// How many answers wait for the connection.
const WAITING: usize = 16;

/// How long a controller may take to accept a connection; how often one that says nothing is asked
/// whether it is there, and how long it may take to answer.
const ACCEPTED: Duration = Duration::from_secs(5);
const ASKED: Duration = Duration::from_secs(10);
const ANSWERED: Duration = Duration::from_secs(20);

/// How long an agent waits before it connects again: at first, and at last.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(10);

/// How long an agent waits before it connects again: longer each time, until a session has lasted.
/// Which part of it chance says, so that hosts that have lost one controller do not come back to it
/// at once.
#[derive(Clone, Copy, Debug)]
pub struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(SHORTEST)
    }
}

impl Backoff {
    /// A session, or the attempt at one, has ended after so long. Whether it has lasted.
    pub fn ended(&mut self, after: Duration) -> bool {
        let has_lasted = after > LONGEST;
        if has_lasted {
            self.0 = SHORTEST;
        }
        has_lasted
    }

    /// How long to wait now. `chance`: a random number.
    pub fn next(&mut self, chance: u64) -> Duration {
        let part = (chance % 1000) as f64 / 1000.0;
        let wait = self.0.mul_f64(0.5 + part / 2.0);
        self.0 = (self.0 * 2).min(LONGEST);
        wait
    }
}

/// What an agent proves who it is by, and who it trusts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Proof {
    /// Whom it trusts to have signed the controller's certificate, and its own certificate.
    /// `None`: the connection is not encrypted.
    pub tls: Option<tls::Client>,
    /// A file with its token.
    pub token: Option<PathBuf>,
}

/// Why a controller is not reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody answers there, or not as a controller does.
    #[error("cannot connect to the controller")]
    Unreached(#[from] Error),
    /// The file of the token has none.
    #[error("{} has no token: write into it what `zovn controller token create` printed", .0.display())]
    NoToken(PathBuf, #[source] Option<io::Error>),
    /// Whoever is on the way could read the token.
    #[error("a token is not sent to {0} unencrypted: say by `--controller-ca` whom to trust")]
    Exposed(SocketAddr),
}

/// A connection to a controller.
#[derive(Clone, Debug)]
pub struct Connection {
    channel: Channel,
    token: Option<AsciiMetadataValue>,
}

/// Connects to a controller, with the proof's files as they are now.
///
/// # Errors
///
/// [`ConnectError`]
pub async fn connect(address: SocketAddr, proof: &Proof) -> Result<Connection, ConnectError> {
    if proof.token.is_some() && proof.tls.is_none() && !address.ip().is_loopback() {
        return Err(ConnectError::Exposed(address));
    }
    let token = proof.token.as_deref().map(token).transpose()?;
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    let endpoint = endpoint.connect_timeout(ACCEPTED).http2_keep_alive_interval(ASKED);
    let endpoint = endpoint.keep_alive_timeout(ANSWERED).tcp_nodelay(true);
    let channel = match proof.tls.clone() {
        None => endpoint.connect().await?,
        Some(tls) => {
            let connect = move |_| {
                let tls = tls.clone();
                async move {
                    let stream = TcpStream::connect(address).await?;
                    stream.set_nodelay(true)?;
                    let stream = tls.connect(stream, Protocol::Http2).await;
                    stream.map(TokioIo::new).map_err(io::Error::other)
                }
            };
            endpoint.connect_with_connector(service_fn(connect)).await?
        }
    };
    Ok(Connection { channel, token })
}

/// The token of a file, as a request has it.
fn token(path: &Path) -> Result<AsciiMetadataValue, ConnectError> {
    let none = |source| ConnectError::NoToken(path.into(), source);
    let text = fs::read_to_string(path).map_err(|error| none(Some(error)))?;
    let mut words = text.split_whitespace();
    let (Some(one), None) = (words.next(), words.next()) else { return Err(none(None)) };
    let mut value =
        AsciiMetadataValue::try_from(format!("Bearer {one}")).map_err(|_| none(None))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Who executes what an agent is told.
pub trait Execute {
    /// Executes a new generation of a domain, or says in a sentence why that cannot be.
    fn execute(&mut self, changed: &Changed<'_>)
    -> impl Future<Output = Result<(), String>> + Send;

    /// What it executes of a domain, if that is other than these rows. Who keeps none of its own
    /// does not know.
    fn executes_instead(&self, _domain: &Name, _rows: &Map) -> Option<Map> {
        None
    }

    /// A session with a controller of this store has begun.
    fn began(&mut self, store: Store, fence: Fence);

    /// A domain has no ports here any more.
    fn dropped(&mut self, domain: &Name) -> impl Future<Output = ()> + Send;

    /// All that changed up to a revision of the store is executed, or was refused.
    fn marked(&mut self, revision: Generation) -> impl Future<Output = ()> + Send;

    /// The controller does not know these ports on this node: they stay closed.
    fn unknown(&mut self, ports: Vec<String>);
}

/// Who an agent is.
#[derive(Clone, Debug)]
pub struct Node {
    /// The TransportNode that its host is.
    pub name: String,
    /// Which start of it this is: a higher one takes the place of a lower one.
    pub incarnation: u64,
    /// How many bytes of updates it takes before it has answered.
    pub window_bytes: u64,
}

/// Logical ports that came to the host, or left it, as tenant/name.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    /// Those that came.
    pub attached: Vec<String>,
    /// Those that left.
    pub detached: Vec<String>,
}

/// Why an agent follows no more. What it executes goes on; it is to connect again.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The connection broke, or the controller has ended it.
    #[error("cannot follow the controller: {}", .0.message())]
    Ended(#[from] Status),
    /// The controller speaks another protocol.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The controller is none to follow.
    #[error(transparent)]
    Rejected(#[from] Rejected),
}

/// Follows a controller until one of both ends it. `ports` has all ports that the host has at first
/// and then, one after another, what changes in them.
///
/// # Errors
///
/// [`FollowError`]: always, in the end.
pub async fn follow(
    Connection { channel, token }: Connection,
    node: &Node,
    follower: &mut Follower,
    ports: &mut mpsc::Receiver<Ports>,
    mut all: Ports,
    execute: &mut impl Execute,
) -> Result<std::convert::Infallible, FollowError> {
    let (answers, outgoing) = mpsc::channel(WAITING);
    let say = |message| FromAgent { message: Some(message) };
    let known = follower.known().map(proto::Known::from).collect();
    let hello = proto::Hello {
        node: node.name.clone(),
        incarnation: node.incarnation,
        oldest_version: *VERSIONS.start(),
        newest_version: *VERSIONS.end(),
        store: follower.store().map_or(Vec::new(), |store| store.0.to_be_bytes().to_vec()),
        known,
        window_bytes: node.window_bytes,
    };
    let gone = || FollowError::Ended(Status::new(Code::Unavailable, "the connection has ended"));
    let send = async |message| answers.send(say(message)).await.map_err(|_| gone());
    send(from_agent::Message::Hello(hello)).await?;
    let mut client = SouthboundClient::new(channel);
    let mut request = Request::new(ReceiverStream::new(outgoing));
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", token);
    }
    let mut stream = client.follow(request).await?.into_inner();
    let first = stream.message().await?.and_then(|it| it.message);
    let Some(from_controller::Message::Welcome(welcome)) = first else {
        return Err(Malformed("welcome is said first").into());
    };
    if !VERSIONS.contains(&welcome.version) {
        return Err(Malformed("the controller has chosen a version that it was not offered").into());
    }
    let (store, fence) = (convert::store(&welcome.store)?, Fence(welcome.fence));
    follower.begin(store, fence)?;
    execute.began(store, fence);
    let (attached, detached) = (std::mem::take(&mut all.attached), Vec::new());
    send(from_agent::Message::Ports(proto::Ports { attached, detached, complete: true })).await?;
    loop {
        tokio::select! {
            message = stream.message() => {
                let message = message?.ok_or_else(gone)?;
                if let Some(reply) = take(message, follower, execute).await? {
                    send(reply.into()).await?;
                }
            }
            Some(Ports { attached, detached }) = ports.recv() => {
                let ports = proto::Ports { attached, detached, complete: false };
                send(from_agent::Message::Ports(ports)).await?;
            }
        }
    }
}

/// Does what a message says. The answer, if it asks for one.
async fn take(
    message: FromController,
    follower: &mut Follower,
    execute: &mut impl Execute,
) -> Result<Option<replica::Reply>, FollowError> {
    match message.message {
        Some(from_controller::Message::Part(part)) => {
            let domain = part.domain.as_str().into();
            return Ok(match follower.receive(&convert::chunk(&part, &domain)?)? {
                Received::Part => None,
                Received::Refused(reply) => Some(reply),
                Received::Changed(changed) => Some(match execute.execute(&changed).await {
                    Ok(()) => changed.realized(),
                    Err(why) => changed.refused(why),
                }),
            });
        }
        Some(from_controller::Message::Drop(proto::Drop { domain }))
            if follower.drop(&domain).is_some() =>
        {
            execute.dropped(&domain.into()).await;
        }
        Some(from_controller::Message::Mark(mark)) => {
            follower.mark(Generation(mark.revision));
            execute.marked(follower.marked()).await;
        }
        Some(from_controller::Message::Compare(known)) => {
            let (domain, Some(known)) = convert::known(&known)? else {
                return Err(Malformed("what is compared has a generation").into());
            };
            let executed = |rows: &Map| execute.executes_instead(&domain, rows);
            return Ok(follower.compare(&domain, known, executed));
        }
        Some(from_controller::Message::Unknown(unknown)) => execute.unknown(unknown.ports),
        Some(from_controller::Message::Welcome(_)) => {
            return Err(Malformed("welcome is said once, first").into());
        }
        // The second is what a later version says beside what it has to.
        Some(from_controller::Message::Drop(_)) | None => {}
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_waits_longer_each_time_until_a_session_has_lasted() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..8).map(|_| backoff.next(999)).collect();
        assert!(waits.is_sorted() && waits[0] < SHORTEST && waits[7] > LONGEST / 2, "{waits:?}");
        assert!(!backoff.ended(Duration::from_secs(1)) && backoff.next(0) == LONGEST / 2);
        assert!(backoff.ended(LONGEST * 2) && backoff.next(0) == SHORTEST / 2);
    }
}
