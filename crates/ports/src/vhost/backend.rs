//! A connection and its session: whatever arrives is served, and answered.

use std::os::fd::{AsFd, BorrowedFd};

use super::message::{Message, Reply};
use super::session::{News, Offer, Refusal, Rings, Session};
use super::socket::{Connection, ConnectionError, Received};

/// How many requests are served before other ports have their turn.
const AT_ONCE: usize = 32;

/// Why a back-end ends.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The front-end closed the connection.
    #[error("the front-end closed the connection")]
    Closed,
    /// The connection is of no use any more.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The front-end contradicts itself, or us.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The back-end of one connection. Dropping it stops the rings, then forgets the memory, then closes the connection.
#[derive(Debug)]
pub struct Backend<R: Rings> {
    session: Session<R>,
    connection: Connection,
}

impl<R: Rings> Backend<R> {
    /// A back-end with which nothing is settled.
    pub fn new(connection: Connection, offer: Offer, rings: R) -> Self {
        Self { session: Session::new(offer, rings), connection }
    }

    /// Serves what has arrived, telling `heard` of what concerns the port. Returns whether there may be more: a
    /// front-end that talks without end does not keep other ports waiting.
    ///
    /// # Errors
    ///
    /// [`Ended`]: no ring runs any more; drop it.
    pub fn serve(&mut self, mut heard: impl FnMut(News)) -> Result<bool, Ended> {
        for _ in 0..AT_ONCE {
            let frame = match self.connection.receive()? {
                Received::Message(frame) => frame,
                Received::Nothing => return Ok(false),
                Received::Closed => return Err(Ended::Closed),
            };
            let message = Message::parse(&frame.header, frame.payload, frame.fds.len());
            let message = message.map_err(ConnectionError::from)?;
            let outcome = match self.session.handle(message, frame.fds) {
                Ok(outcome) => outcome,
                Err(refusal) => {
                    let code = message.request.code();
                    if message.need_reply && !code.is_answered() {
                        // So that it need not guess. Whether it still listens makes no difference.
                        let _ = self.connection.send(Reply::Number(code, 1).emit(), Vec::new());
                    }
                    return Err(refusal.into());
                }
            };
            outcome.news.into_iter().for_each(&mut heard);
            if let Some((reply, fd)) = outcome.reply {
                self.connection.send(reply.emit(), fd.into_iter().collect())?;
            }
        }
        Ok(true)
    }

    /// What was settled.
    pub fn session(&mut self) -> &mut Session<R> {
        &mut self.session
    }
}

/// Readable when there is something to serve.
impl<R: Rings> AsFd for Backend<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}
