//! The controller's end of the streams.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, Sender};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

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

/// Whom an agent's certificate says that it is. Whoever accepts connections puts it into their
/// requests' extensions.
#[derive(Clone, Debug)]
pub struct Certified(pub String);

/// Serves agents.
#[derive(Debug)]
pub struct Southbound {
    publisher: Arc<Publisher>,
}

/// The service that agents connect to.
pub fn service(publisher: Arc<Publisher>) -> SouthboundServer<Southbound> {
    SouthboundServer::new(Southbound { publisher }).max_decoding_message_size(LONGEST_MESSAGE)
}

/// Serves the agents that connect, until it is dropped.
///
/// # Errors
///
/// No more can be accepted.
pub async fn serve(
    listener: TcpListener,
    publisher: Arc<Publisher>,
) -> Result<(), tonic::transport::Error> {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .http2_keepalive_interval(Some(ASKED))
        .http2_keepalive_timeout(Some(ANSWERED))
        .add_service(service(publisher))
        .serve_with_incoming(incoming)
        .await
}

#[tonic::async_trait]
impl southbound_server::Southbound for Southbound {
    type FollowStream = ReceiverStream<Result<FromController, Status>>;

    async fn follow(
        &self,
        request: Request<Streaming<FromAgent>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let certified = request.extensions().get::<Certified>().map(|it| it.0.clone());
        let mut stream = request.into_inner();
        let first = stream.message().await?.and_then(|it| it.message);
        let Some(from_agent::Message::Hello(hello)) = first else {
            return Err(Status::invalid_argument("hello is said first"));
        };
        let (handle, welcome) = self.publisher.open(&hello, certified.as_deref())?;
        tracing::info!("{} follows, as of its start {}", handle.node, hello.incarnation);
        let (sender, receiver) = mpsc::channel(WAITING);
        let publisher = self.publisher.clone();
        tokio::spawn(async move {
            let _ = sender.send(Ok(welcome)).await;
            let ended = tell(&publisher, &handle, stream, &sender).await;
            publisher.close(&handle);
            match ended {
                Ok(()) => tracing::info!("{} follows no more", handle.node),
                Err(status) => {
                    tracing::warn!("{} is cut off: {}", handle.node, status.message());
                    let _ = sender.send(Err(status)).await;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// Serves an agent until it goes.
async fn tell(
    publisher: &Publisher,
    handle: &Handle,
    mut stream: Streaming<FromAgent>,
    sender: &Sender<Result<FromController, Status>>,
) -> Result<(), Status> {
    // An agent that takes nothing is sent nothing more, and is still heard.
    let mut may_have_more = true;
    loop {
        tokio::select! {
            message = stream.message() => match message? {
                None => return Ok(()),
                Some(message) => {
                    publisher.receive(handle, message)?;
                    may_have_more = true;
                }
            },
            () = handle.wake.notified() => may_have_more = true,
            permit = sender.reserve(), if may_have_more => {
                let Ok(permit) = permit else { return Ok(()) };
                match publisher.next(handle)? {
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
            Ended::Version(..) => Self::failed_precondition(sentence),
            Ended::NotItself(..) => Self::permission_denied(sentence),
            Ended::Replaced(_) => Self::aborted(sentence),
            Ended::TooMany(..) => Self::resource_exhausted(sentence),
            Ended::Malformed(_) | Ended::Misled(_) => Self::invalid_argument(sentence),
        }
    }
}
