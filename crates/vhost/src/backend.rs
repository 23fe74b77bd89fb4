//! A session and its connection: serves and answers requests.

use std::os::fd::{AsFd, BorrowedFd};

use super::handover::Kept;
use super::message::{Message, Reply};
use super::session::{News, Offer, Refusal, Rings, Session};
use super::socket::{Connection, ConnectionError, Received};

/// The most requests that are served before other ports get their turn, if none is costly.
const AT_ONCE: usize = 32;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The front-end closed the connection.
    #[error("the front-end closed the connection")]
    Closed,
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// A request was refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A back-end with at most one connection at a time. Dropping it stops the rings, then unmaps the
/// memory, then closes the connection.
#[derive(Debug)]
pub struct Backend<R: Rings> {
    session: Session<R>,
    connection: Option<Connection>,
}

impl<R: Rings> Backend<R> {
    /// A back-end that is not connected.
    pub fn new(offer: Offer, rings: R) -> Self {
        Self { session: Session::new(offer, rings), connection: None }
    }

    /// Begins a session over this connection. Ends an earlier one.
    pub fn connect(&mut self, connection: Connection) {
        self.disconnect();
        self.connection = Some(connection);
    }

    /// Continues the session of an earlier back-end over its connection, from the requests of its
    /// front-end.
    ///
    /// # Errors
    ///
    /// [`Refusal`]: [`disconnect`](Self::disconnect) it.
    pub fn resume(&mut self, connection: Connection, requests: Vec<Kept>) -> Result<(), Refusal> {
        self.connect(connection);
        requests
            .into_iter()
            .try_for_each(|(message, fds)| self.session.handle(message, fds).map(drop))
    }

    /// Ends the session: stops all rings and unmaps the memory.
    pub fn disconnect(&mut self) {
        self.session.reset();
        self.connection = None;
    }

    /// The connection, if there is one. It is readable when there is something to serve.
    pub fn connection(&self) -> Option<BorrowedFd<'_>> {
        self.connection.as_ref().map(AsFd::as_fd)
    }

    /// Whether another back-end could continue with the connection: it is not in the middle of a
    /// message.
    pub fn is_resumable(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_between_messages)
    }

    /// Whether a reply is still to be sent. Nothing is served until the connection is writable.
    pub fn is_replying(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_leaving)
    }

    /// Serves received requests, and passes events for the port to `heard`. Returns whether there
    /// may be more: the number of requests and their cost are limited, so that a front-end cannot
    /// delay other ports.
    ///
    /// # Errors
    ///
    /// [`Ended`]: [`disconnect`](Self::disconnect) it.
    pub fn serve(&mut self, mut heard: impl FnMut(News)) -> Result<bool, Ended> {
        let Self { session, connection } = self;
        let Some(connection) = connection else { return Ok(false) };
        for _ in 0..AT_ONCE {
            let frame = match connection.receive()? {
                Received::Message(frame) => frame,
                Received::Nothing => return Ok(false),
                Received::Closed => return Err(Ended::Closed),
            };
            let message = Message::parse(&frame.header, frame.payload, frame.fds.len());
            let message = message.map_err(ConnectionError::from)?;
            let outcome = match session.handle(message, frame.fds) {
                Ok(outcome) => outcome,
                Err(refusal) => {
                    let code = message.request.code();
                    if message.need_reply && !code.is_answered() {
                        // Tell the front-end why. It does not matter whether it still listens.
                        let _ = connection.send(Reply::Number(code, 1).emit(), Vec::new());
                    }
                    return Err(refusal.into());
                }
            };
            outcome.news.into_iter().for_each(&mut heard);
            if let Some((reply, fd)) = outcome.reply {
                connection.send(reply.emit(), fd.into_iter().collect())?;
            }
            if session.was_costly() {
                break;
            }
        }
        Ok(true)
    }

    /// What was settled.
    pub fn session(&self) -> &Session<R> {
        &self.session
    }

    /// What was settled.
    pub fn session_mut(&mut self) -> &mut Session<R> {
        &mut self.session
    }
}
