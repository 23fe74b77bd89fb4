//! Partition-Aggregate over persistent TCP connections: a worker answers, an aggregator asks and times (zOVN §5.1).
//!
//! A request is 16 bytes, big-endian: the query's number and how many bytes to answer. Each program is one thread
//! that waits for all its connections at once.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketType, sockopt};
use serde::{Deserialize, Serialize};
use traffic::{Arrival, Pending, QueryPlan};
use units::Rng;

use super::control::Control;
use super::{Doing, EndpointError};

const REQUEST: usize = 16;

/// How long a program may wait without looking at its parent.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How long a query may stand still. TCP's own timer backs off from 200 ms to half a minute in eight losses of the
/// same segment: whoever stands still longer will not come back.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long an aggregator tries to reach a worker.
const CONNECT: Duration = Duration::from_secs(10);

/// Answers the queries of all aggregators that connect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// The port to listen on.
    pub port: u16,
    /// TCP's congestion control: `cubic`, `reno`, `bbr`.
    pub congestion: String,
}

/// What a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Requests answered.
    pub answered: u64,
}

/// Asks the workers, over and over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aggregator {
    /// The workers' addresses, in the plan's order.
    pub workers: Vec<SocketAddr>,
    /// What to ask.
    pub plan: QueryPlan,
    /// TCP's congestion control, as for [`Worker`].
    pub congestion: String,
    /// Decides whom a query asks that does not ask everybody.
    pub seed: u64,
}

/// What an aggregator saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AggregatorReport {
    /// Each query's completion time in nanoseconds, from just before its first request to its last byte.
    pub fct_ns: Vec<u64>,
}

/// One aggregator's connection, as the worker holds it.
struct Client {
    stream: TcpStream,
    request: [u8; REQUEST],
    have: usize,
    owed: u64,
}

/// Answers until the parent wants the report.
pub fn work(role: &Worker, control: &Control) -> Result<WorkerReport, EndpointError> {
    let listener = listen(role.port, &role.congestion)?;
    listener.set_nonblocking(true).doing("make the worker's socket non-blocking")?;
    let mut clients: Vec<Client> = Vec::new();
    let mut report = WorkerReport::default();
    control.ready();

    while !control.finishing() {
        let mut waiting = vec![PollFd::new(&listener, PollFlags::IN)];
        waiting.extend(clients.iter().map(|client| {
            let wanted = if client.owed > 0 { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            PollFd::new(&client.stream, wanted)
        }));
        wait(&mut waiting)?;
        let ready: Vec<bool> = waiting.iter().map(|entry| !entry.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        if ready.next() == Some(true) {
            // Newcomers have no place in `ready`: they take their first turn in the next round.
            while let Some(stream) = accept(&listener)? {
                clients.push(Client { stream, request: [0; REQUEST], have: 0, owed: 0 });
            }
        }
        clients.retain_mut(|client| ready.next() != Some(true) || client.serve(&mut report.answered));
    }
    Ok(report)
}

impl Client {
    /// Reads requests and writes what is owed, as far as the socket goes. False once the connection is over.
    fn serve(&mut self, answered: &mut u64) -> bool {
        loop {
            match self.stream.read(&mut self.request[self.have..]) {
                Ok(0) => return false,
                Ok(count) => self.have += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
            if self.have == REQUEST {
                let [.., a, b, c, d, e, f, g, h] = self.request;
                self.owed += u64::from_be_bytes([a, b, c, d, e, f, g, h]);
                self.have = 0;
                *answered += 1;
            }
        }
        while self.owed > 0 {
            let piece = usize::try_from(self.owed).unwrap_or(usize::MAX).min(ZEROES.len());
            match self.stream.write(&ZEROES[..piece]) {
                Ok(count) => self.owed -= count as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// Asks every query of the plan, each once the one before is complete.
pub fn aggregate(role: &Aggregator, control: &Control) -> Result<AggregatorReport, EndpointError> {
    role.plan.check().map_err(|error| EndpointError::Role(error.to_string()))?;
    if role.workers.len() != role.plan.workers as usize {
        return Err(EndpointError::Role("the plan counts other workers than there are addresses".into()));
    }
    let mut workers = Vec::new();
    for address in &role.workers {
        workers.push(connect(*address, &role.congestion)?);
    }
    for worker in &workers {
        worker.set_nonblocking(true).doing("make a connection non-blocking")?;
    }
    let mut rng = Rng::new(role.seed);
    let mut buffer = vec![0; 1 << 18];
    let mut report = AggregatorReport::default();
    control.ready();

    for id in 0..role.plan.queries {
        let query = role.plan.query(id, &mut rng);
        let mut pending = Pending::issue(&query, control.now());
        for worker in &query.workers {
            let request = [query.id.to_be_bytes(), query.response_bytes.to_be_bytes()].concat();
            (&workers[*worker as usize]).write_all(&request).doing("send a request")?;
        }
        while !pending.is_complete() {
            let fct = collect(&workers, &mut pending, id, &mut buffer, control)?;
            report.fct_ns.extend(fct.map(units::Span::as_nanos));
        }
        if role.plan.think > units::Span::ZERO && control.finishes_within(role.plan.think.into()) {
            break;
        }
    }
    Ok(report)
}

/// Waits for bytes of a query and takes them; tells how long the query took if they were the last.
fn collect(
    workers: &[TcpStream],
    pending: &mut Pending,
    query: u64,
    buffer: &mut [u8],
    control: &Control,
) -> Result<Option<units::Span>, EndpointError> {
    let mut waiting: Vec<_> = workers.iter().map(|worker| PollFd::new(worker, PollFlags::IN)).collect();
    let asked = Instant::now();
    while wait(&mut waiting)? == 0 {
        if asked.elapsed() > PATIENCE {
            let missing = (0..).take(workers.len()).map(|worker| pending.missing(worker)).sum();
            return Err(EndpointError::Stuck { query, missing, seconds: PATIENCE.as_secs() });
        }
    }
    let mut fct = None;
    for (worker, entry) in (0..).zip(&waiting) {
        if entry.revents().is_empty() {
            continue;
        }
        let count = match (&workers[worker as usize]).read(buffer) {
            Ok(0) => return Err(std::io::Error::from(ErrorKind::UnexpectedEof)).doing("read a response"),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            Err(error) => return Err(error).doing("read a response"),
        };
        match pending.arrived(worker, count as u64, control.now()) {
            Arrival::Complete(span) => fct = Some(span),
            Arrival::Excess => return Err(EndpointError::Excess { worker, query }),
            Arrival::Partial | Arrival::Worker => {}
        }
    }
    Ok(fct)
}

/// A listening socket whose connections use this congestion control.
pub(super) fn listen(port: u16, congestion: &str) -> Result<TcpListener, EndpointError> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)
        .doing("open a listening socket")?;
    sockopt::set_socket_reuseaddr(&socket, true).doing("reuse the listening address")?;
    sockopt::set_tcp_congestion(&socket, congestion).doing("choose TCP's congestion control")?;
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    rustix::net::bind(&socket, &address).doing("bind the listening socket")?;
    rustix::net::listen(&socket, 128).doing("listen")?;
    Ok(socket.into())
}

/// The next connection that waits; `None` if none does.
pub(super) fn accept(listener: &TcpListener) -> Result<Option<TcpStream>, EndpointError> {
    match listener.accept() {
        Ok((stream, _)) => {
            stream.set_nonblocking(true).doing("make a connection non-blocking")?;
            stream.set_nodelay(true).doing("send small segments at once")?;
            Ok(Some(stream))
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error).doing("accept a connection"),
    }
}

/// A blocking connection that uses this congestion control.
pub(super) fn connect(to: SocketAddr, congestion: &str) -> Result<TcpStream, EndpointError> {
    let begin = Instant::now();
    loop {
        let socket =
            rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).doing("open a socket")?;
        sockopt::set_tcp_congestion(&socket, congestion).doing("choose TCP's congestion control")?;
        sockopt::set_tcp_nodelay(&socket, true).doing("send small segments at once")?;
        match rustix::net::connect(&socket, &to) {
            Ok(()) => return Ok(socket.into()),
            // The peer's program may not listen yet.
            Err(rustix::io::Errno::CONNREFUSED) if begin.elapsed() < CONNECT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error).doing("connect"),
        }
    }
}

/// Waits a glance's length at most; tells how many descriptors are ready.
fn wait(waiting: &mut [PollFd<'_>]) -> Result<usize, EndpointError> {
    match poll(waiting, Some(&GLANCE)) {
        Err(rustix::io::Errno::INTR) => Ok(0),
        polled => polled.doing("wait for the connections"),
    }
}

/// What responses are made of.
pub(super) static ZEROES: [u8; 1 << 16] = [0; 1 << 16];
