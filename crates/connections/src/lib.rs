//! The connections by which somebody asks something: their number, the time that one may be silent,
//! and the descriptors that are kept for them.
//!
//! Ports and files take descriptors, too, and so may others on the host. When none is left, nobody
//! could ask a program why, or have it give some back. So some are kept, as placeholders: one is
//! closed when a connection could not be accepted otherwise.

#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How long to wait when a connection cannot be accepted.
const RETRY: Duration = Duration::from_millis(100);

/// Bounds of connections.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most at once. Others wait in the listener's queue.
    pub connections: usize,
    /// The descriptors that are kept for them.
    pub reserved: usize,
    /// The longest time from a connection's begin, or from an answer, to the end of the next
    /// request's head. Then the connection is closed.
    pub head: Duration,
    /// The longest life of a connection, if it is bounded.
    pub life: Option<Duration>,
}

/// Accepts a connection whose small answers are sent at once. An encrypted answer is several
/// writes, and by Nagle's algorithm (RFC 896) the second would wait until the other end, which
/// delays that by 40 ms, has acknowledged the first.
///
/// # Errors
///
/// As `accept(2)`.
pub async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    // It fails only if the other end has gone, of which the first read tells.
    let _ = stream.set_nodelay(true);
    Ok((stream, peer))
}

/// Accepts connections, and has `router` answer them.
pub async fn serve<S>(
    accept: impl AsyncFn() -> io::Result<S>,
    router: Router,
    bounds: Bounds,
) -> Infallible
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve_each(async || Ok(ready(Ok((accept().await?, router.clone())))), bounds).await
}

/// The same, with a router for each connection: one that knows who is at the other end, once both
/// have said what they say before the first request, as for encryption. That has the time of a
/// request's head; nobody else waits for it.
pub async fn serve_each<F, S>(accept: impl AsyncFn() -> io::Result<F>, bounds: Bounds) -> Infallible
where
    F: Future<Output = io::Result<(S, Router)>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut reserve = Reserve::new(bounds.reserved);
    let mut open = JoinSet::new();
    loop {
        let is_full = open.len() >= bounds.connections;
        tokio::select! {
            Some(_) = open.join_next() => reserve.fill(),
            accepted = accept(), if !is_full => match accepted {
                Ok(begin) => {
                    open.spawn(async move {
                        if let Ok(Ok((stream, router))) = timeout(bounds.head, begin).await {
                            answer(stream, router, bounds).await;
                        }
                    });
                }
                Err(error) if is_exhausted(&error) && reserve.give() => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(RETRY).await;
                }
            },
        }
    }
}

/// Answers the requests of one connection until it ends.
pub async fn answer<S>(stream: S, router: Router, bounds: Bounds)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // Whoever asked wrongly or hung up knows it.
    match bounds.life {
        Some(life) => drop(timeout(life, connection).await),
        None => drop(connection.await),
    }
}

/// Whether this process, or the host, has no descriptor left.
fn is_exhausted(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Descriptors that are kept for connections.
struct Reserve {
    kept: Vec<OwnedFd>,
    most: usize,
}

impl Reserve {
    fn new(most: usize) -> Self {
        let mut reserve = Self { kept: Vec::new(), most };
        reserve.fill();
        reserve
    }

    /// Takes as many as there are to be, or as there still are.
    fn fill(&mut self) {
        while self.kept.len() < self.most
            && let Ok(placeholder) = rustix::io::fcntl_dupfd_cloexec(io::stderr(), 0)
        {
            self.kept.push(placeholder);
        }
    }

    /// Closes one, so that a connection can have it. Whether there was one.
    fn give(&mut self) -> bool {
        let given = self.kept.pop().is_some();
        if given && self.kept.is_empty() {
            tracing::warn!("no descriptor is left, not even for the API: raise LimitNOFILE");
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::path::{Path, PathBuf};

    use axum::routing::get;
    use tokio::net::UnixListener;
    use tokio::runtime::Builder;

    use super::*;

    const BOUNDS: Bounds =
        Bounds { connections: 2, reserved: 0, head: Duration::from_secs(1), life: None };

    const REQUEST: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    /// Serves a word at a socket while `ask` runs.
    fn while_served<T: Send + 'static>(bounds: Bounds, ask: fn(PathBuf) -> T) -> T {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let late = async || {
            sleep(3 * BOUNDS.head).await;
            "late"
        };
        let router = Router::new().route("/", get(async || "here")).route("/late", get(late));
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let listener = UnixListener::bind(&path).unwrap();
            let accept = async || Ok(listener.accept().await?.0);
            tokio::select! {
                asked = tokio::task::spawn_blocking(move || ask(path)) => asked.unwrap(),
                never = serve(accept, router, bounds) => match never {},
            }
        })
    }

    /// Sends these words, and reads until the connection is closed.
    fn say(path: &Path, words: &str) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(words.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_request_is_answered_and_an_idle_connection_closed() {
        let answer = while_served(BOUNDS, |path| say(&path, REQUEST));
        assert!(answer.ends_with("here"), "{answer}");
    }

    #[test]
    fn what_is_accepted_sends_at_once() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let other = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, peer) = accept(&listener).await.unwrap();
            assert_eq!(peer, other.local_addr().unwrap());
            assert!(stream.nodelay().unwrap());
        });
    }

    #[test]
    fn a_head_without_an_end_is_not_waited_for() {
        while_served(BOUNDS, |path| say(&path, "GET / HTTP/1.1\r\nho"));
    }

    #[test]
    fn an_answer_may_take_its_time() {
        let answer = while_served(BOUNDS, |path| say(&path, &REQUEST.replace("/ ", "/late ")));
        assert!(answer.ends_with("late"), "{answer}");
    }

    #[test]
    fn silent_connections_keep_others_out_for_a_moment_only() {
        while_served(BOUNDS, |path| {
            let _silent: Vec<_> = (0..5).map(|_| UnixStream::connect(&path).unwrap()).collect();
            let answer = say(&path, REQUEST);
            assert!(answer.ends_with("here"), "{answer}");
        });
    }

    #[test]
    fn a_bounded_life_ends_a_connection_that_goes_on_asking() {
        let life = Some(Duration::from_millis(50));
        let bounds = Bounds { life, head: Duration::from_secs(60), ..BOUNDS };
        while_served(bounds, |path| {
            let mut stream = UnixStream::connect(path).unwrap();
            let mut buffer = [0; 512];
            while stream.write_all(REQUEST.as_bytes()).is_ok()
                && stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0)
            {}
        });
    }

    #[test]
    fn a_reserve_gives_what_it_kept_and_takes_it_back() {
        let mut reserve = Reserve::new(2);
        assert_eq!([reserve.give(), reserve.give(), reserve.give()], [true, true, false]);
        reserve.fill();
        assert!(reserve.give());
    }
}
