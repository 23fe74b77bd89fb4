//! The controller's end of the streams.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use tls::{CertificateDer, ServerStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, interval_at, sleep, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::{Connected, TcpConnectInfo, TcpIncoming, TlsConnectInfo};
use tonic::{Request, Response, Status, Streaming};
use units::Instant;

use crate::proto::southbound_server::{self, SouthboundServer};
use crate::proto::{FromAgent, FromController, from_agent};
use crate::publisher::{Ended, Handle, Publisher};

/// The most bytes of an agent's message.
const LONGEST_MESSAGE: usize = 4 << 20;

/// How many messages wait for an agent's connection beside those in it.
const WAITING: usize = 1;

/// How often an agent that says nothing is asked whether it is there, and how long it may take to
/// answer. Its session ends then.
const ASKED: Duration = Duration::from_secs(10);
const ANSWERED: Duration = Duration::from_secs(20);

/// How often an agent that is served is asked for again whether it may be.
const LOOKED_AT: Duration = Duration::from_secs(5);

/// How many connections may be about to be encrypted at once: one more ends the oldest of them.
const BEGINNING: usize = 256;

/// How many encrypted connections there may be. Others wait in the listener's queue.
const CONNECTIONS: usize = 16_384;

/// How many streams a connection may have: an agent has one, and its next while that ends.
const STREAMS: u32 = 2;

/// How long somebody who is known may take to say hello.
const GREETING: Duration = Duration::from_secs(10);

/// How long an agent that is cut off may take to take the reason.
const PARTING: Duration = Duration::from_secs(1);

/// How long an agent that was connected may take to come back before another may have its ports.
const RETURNING: Duration = Duration::from_secs(10);

/// What takes longer to hear is followed by a rest of so many times as long, in which others are
/// heard.
const LONG: Duration = Duration::from_millis(2);
const RESTS: u32 = 4;

/// How long to wait when a connection cannot be accepted.
const RETRY: Duration = Duration::from_millis(100);

/// What an agent shows of who it is.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The `Authorization` that it has sent.
    pub authorization: Option<String>,
    /// Its certificate, which somebody that is trusted has signed.
    pub certificate: Option<CertificateDer<'static>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.authorization.as_ref().map(|_| "…");
        f.debug_struct("Credentials")
            .field("authorization", &secret)
            .field("certificate", &self.certificate)
            .finish()
    }
}

/// Says who is which node.
pub trait Admit: fmt::Debug + Send + Sync + 'static {
    /// Whether somebody may be a node at all, by what it shows; or, in a sentence, why not. Nothing
    /// else of somebody who may not is read.
    fn know(&self, shown: &Credentials) -> Result<(), String>;

    /// Whether somebody is a node, by what it shows; or, in a sentence, why not.
    fn admit(&self, node: &str, shown: &Credentials) -> Result<(), String>;
}

/// Every agent is the node that it says.
#[derive(Clone, Copy, Debug)]
pub struct Everybody;

impl Admit for Everybody {
    fn know(&self, _: &Credentials) -> Result<(), String> {
        Ok(())
    }

    fn admit(&self, _: &str, _: &Credentials) -> Result<(), String> {
        Ok(())
    }
}

/// Serves agents.
#[derive(Debug)]
struct Southbound {
    publisher: Arc<Publisher>,
    tls: Option<Arc<tls::Server>>,
    admit: Arc<dyn Admit>,
    clock: Clock,
}

/// The time since it was begun to serve.
#[derive(Clone, Copy, Debug)]
struct Clock(tokio::time::Instant);

impl Clock {
    fn now(self) -> Instant {
        let since = self.0.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// Waits for a time, or for ever.
    async fn until(self, at: Option<Instant>) {
        match at {
            Some(at) => sleep_until(self.0 + Duration::from_nanos(at.as_nanos())).await,
            None => pending().await,
        }
    }
}

/// Serves the agents that connect, encrypted if `tls` says how, until it is dropped.
///
/// # Errors
///
/// No more can be accepted.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<tls::Server>>,
    publisher: Arc<Publisher>,
    admit: Arc<dyn Admit>,
) -> Result<(), tonic::transport::Error> {
    let clock = Clock(tokio::time::Instant::now());
    let restored = Arc::clone(&publisher);
    tokio::spawn(async move {
        sleep(RETURNING).await;
        restored.give_up_restored();
    });
    let service = Southbound { publisher, tls: tls.clone(), admit, clock };
    let service = SouthboundServer::new(service).max_decoding_message_size(LONGEST_MESSAGE);
    let server = Server::builder()
        .http2_keepalive_interval(Some(ASKED))
        .http2_keepalive_timeout(Some(ANSWERED))
        .max_concurrent_streams(Some(STREAMS))
        .add_service(service);
    let Some(tls) = tls else {
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        return server.serve_with_incoming(incoming).await;
    };
    let (sender, begun) = mpsc::channel(1);
    tokio::select! {
        never = encrypt(listener, tls, sender) => match never {},
        ended = server.serve_with_incoming(ReceiverStream::new(begun)) => ended,
    }
}

/// Accepts connections, and hands those on whose ends agree how they are encrypted. None waits for
/// another's other end: where too many are at it, the oldest has had its time.
async fn encrypt(
    listener: TcpListener,
    tls: Arc<tls::Server>,
    begun: Sender<io::Result<Held>>,
) -> Infallible {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut beginning: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let place = Arc::clone(&places).acquire_owned().await.ok();
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept an agent's connection");
                sleep(RETRY).await;
                continue;
            }
        };
        beginning.retain(|it| !it.is_finished());
        if beginning.len() >= BEGINNING
            && let Some(oldest) = beginning.pop_front()
        {
            oldest.abort();
        }
        let (tls, begun) = (Arc::clone(&tls), begun.clone());
        let begin = tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            match tls.accept(stream).await {
                Ok(stream) => drop(begun.send(Ok(Held { stream, _place: place })).await),
                Err(error) => tracing::debug!(%from, %error, "an agent is not served"),
            }
        });
        beginning.push_back(begin.abort_handle());
    }
}

#[tonic::async_trait]
impl southbound_server::Southbound for Southbound {
    type FollowStream = ReceiverStream<Result<FromController, Status>>;

    async fn follow(
        &self,
        request: Request<Streaming<FromAgent>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let mut said = request.metadata().get_all("authorization").iter();
        // Of several, somebody before us may have looked at another.
        let said = said.next().filter(|_| said.next().is_none());
        let chain = chain(&request);
        let shown = Credentials {
            authorization: said.and_then(|it| it.to_str().ok()).map(ToOwned::to_owned),
            certificate: chain.as_ref().and_then(|it| it.first().cloned()),
        };
        self.admit.know(&shown).map_err(Status::unauthenticated)?;
        let mut stream = request.into_inner();
        let late = |_| Status::deadline_exceeded("hello is said at once");
        let first = timeout(GREETING, stream.message()).await.map_err(late)??;
        let Some(from_agent::Message::Hello(hello)) = first.and_then(|it| it.message) else {
            return Err(Status::invalid_argument("hello is said first"));
        };
        let (tls, admit) = (self.tls.clone(), Arc::clone(&self.admit));
        let node = hello.node.clone();
        let admitted = move || {
            let mut shown = shown.clone();
            // It was trusted when the connection began.
            let is_trusted =
                tls.as_ref().zip(chain.as_ref()).is_some_and(|(it, all)| it.trusts(all));
            shown.certificate.take_if(|_| !is_trusted);
            admit.admit(&node, &shown).map_err(Status::unauthenticated)
        };
        admitted()?;
        let (handle, welcome) = self.publisher.open(&hello)?;
        tracing::info!("{} follows, as of its start {}", handle.node, hello.incarnation);
        let (sender, receiver) = mpsc::channel(WAITING);
        let (publisher, clock) = (self.publisher.clone(), self.clock);
        tokio::spawn(async move {
            let _ = sender.send(Ok(welcome)).await;
            let ended = tokio::select! {
                ended = tell(&publisher, clock, &handle, stream, &sender) => ended,
                revoked = until_refused(admitted) => Err(revoked),
            };
            publisher.close(&handle);
            match ended {
                Ok(()) => tracing::info!("{} follows no more", handle.node),
                Err(status) => {
                    tracing::warn!("{} is cut off: {}", handle.node, status.message());
                    let _ = timeout(PARTING, sender.send(Err(status))).await;
                }
            }
            drop(sender);
            sleep(RETURNING).await;
            publisher.give_up(&handle);
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// The certificate at the other end of a request's connection, and those that it leads by.
fn chain<T>(request: &Request<T>) -> Option<Arc<Vec<CertificateDer<'static>>>> {
    request.extensions().get::<TlsConnectInfo<TcpConnectInfo>>()?.peer_certs()
}

/// An encrypted connection, and its place among them.
struct Held {
    stream: ServerStream<TcpStream>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Connected for Held {
    type ConnectInfo = TlsConnectInfo<TcpConnectInfo>;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Held {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Held {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Waits until an agent is not admitted any more, and says why.
async fn until_refused(admitted: impl Fn() -> Result<(), Status>) -> Status {
    let mut ticks = interval(LOOKED_AT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(status) = admitted() {
            return status;
        }
    }
}

/// Serves an agent until it goes.
async fn tell(
    publisher: &Publisher,
    clock: Clock,
    handle: &Handle,
    mut stream: Streaming<FromAgent>,
    sender: &Sender<Result<FromController, Status>>,
) -> Result<(), Status> {
    // An agent that takes nothing is sent nothing more, and is still heard.
    let mut may_have_more = true;
    let [first, every] = [publisher.first_compare(handle), publisher.compares]
        .map(|it| Duration::from_nanos(it.as_nanos()));
    let mut compares = interval_at(tokio::time::Instant::now() + first, every);
    compares.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = publisher.tick(clock.now(), handle)?;
        tokio::select! {
            message = stream.message() => match message? {
                None => return Ok(()),
                Some(message) => {
                    let begun = tokio::time::Instant::now();
                    publisher.receive(clock.now(), handle, message)?;
                    may_have_more = true;
                    // All wait while one is heard.
                    let took = begun.elapsed();
                    if took > LONG {
                        sleep(took * RESTS).await;
                    }
                }
            },
            () = handle.wake.notified() => may_have_more = true,
            () = clock.until(due) => {}
            _ = compares.tick() => {
                publisher.compare(handle)?;
                may_have_more = true;
            }
            permit = sender.reserve(), if may_have_more => {
                let Ok(permit) = permit else { return Ok(()) };
                match publisher.next(clock.now(), handle)? {
                    Some(message) => permit.send(Ok(message)),
                    None => may_have_more = false,
                }
            }
        }
    }
}

impl From<Ended> for Status {
    fn from(ended: Ended) -> Self {
        let sentence = ended.to_string();
        match ended {
            Ended::Version(..) | Ended::Restored(..) => Self::failed_precondition(sentence),
            Ended::Replaced(_) => Self::aborted(sentence),
            Ended::TooMany(..) => Self::resource_exhausted(sentence),
            Ended::Silent(_) => Self::deadline_exceeded(sentence),
            Ended::Malformed(_) | Ended::Misled(_) => Self::invalid_argument(sentence),
        }
    }
}
