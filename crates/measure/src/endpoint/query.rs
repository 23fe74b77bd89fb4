//! Partition-Aggregate over persistent TCP connections: a worker answers, an aggregator asks and
//! times (zOVN §5.1).
//!
//! A request is 16 bytes, big-endian: the query's number and how many bytes to answer. Each program
//! is one thread that waits for all its connections at once.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use kernel::tcp::Resent;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::{AddressFamily, SocketType, sockopt};
use serde::{Deserialize, Serialize};
use traffic::{Arrival, Pending, Query, QueryPlan};
use units::{Rng, Span};

use super::control::Control;
use super::error::{Doing, EndpointError};
use super::repairs::{self, Repairs};

const REQUEST: usize = 16;

/// How long a program may wait without looking at its parent.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How long a query may stand still. TCP's own timer backs off from 200 ms to half a minute in
/// eight losses of the same segment: whoever stands still longer will not come back.
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
    /// What it did about losses on the connections that it accepted.
    pub repairs: Repairs,
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
    /// Each completed query's time in nanoseconds, from just before its first request to its last
    /// byte. Fewer than were planned if one stood still: the others are not asked then.
    pub fct_ns: Vec<u64>,
    /// What it did about losses from its first query to its last.
    pub repairs: Repairs,
}

/// One aggregator's connection, as the worker holds it.
struct Client {
    stream: TcpStream,
    /// What the connection had sent again when it was accepted: handshakes do not count.
    before: Resent,
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
            let wanted =
                if client.owed > 0 { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            PollFd::new(&client.stream, wanted)
        }));
        wait(&mut waiting)?;
        let ready: Vec<bool> = waiting.iter().map(|entry| !entry.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        if ready.next() == Some(true) {
            // Newcomers have no place in `ready`: they take their first turn in the next round.
            while let Some(stream) = accept(&listener)? {
                let before = repairs::look(&stream)?;
                clients.push(Client { stream, before, request: [0; REQUEST], have: 0, owed: 0 });
            }
        }
        for client in clients.extract_if(.., |client| ready.next() == Some(true) && !client.serve())
        {
            report.repairs += client.repairs()?;
        }
    }
    for client in &clients {
        report.repairs += client.repairs()?;
    }
    Ok(report)
}

impl Client {
    /// Reads requests and writes what is owed, as far as the socket goes. False once the connection
    /// is over.
    fn serve(&mut self) -> bool {
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

    fn repairs(&self) -> Result<Repairs, EndpointError> {
        Repairs::since(self.before, &self.stream)
    }
}

/// Asks every query of the plan, each once the one before is complete.
pub fn aggregate(role: &Aggregator, control: &Control) -> Result<AggregatorReport, EndpointError> {
    role.plan.check().map_err(|error| EndpointError::Role(error.to_string()))?;
    if role.workers.len() != role.plan.workers as usize {
        return Err(EndpointError::Role(
            "the plan counts other workers than there are addresses".into(),
        ));
    }
    let mut workers = Workers::connect(&role.workers, &role.congestion)?;
    let mut rng = Rng::new(role.seed);
    let mut report = AggregatorReport::default();
    control.ready();

    let before = workers.streams.iter().map(repairs::look).collect::<Result<Vec<_>, _>>()?;
    for id in 0..role.plan.queries {
        let query = role.plan.query(id, &mut rng);
        let mut pending = Pending::issue(&query, control.now());
        workers.ask(&query)?;
        let Some(fct) = workers.complete(id, &mut pending, PATIENCE, || control.now())? else {
            break;
        };
        report.fct_ns.push(fct.as_nanos());
        if role.plan.think > Span::ZERO && control.finishes_within(role.plan.think.into()) {
            break;
        }
    }
    for (stream, before) in workers.streams.iter().zip(before) {
        report.repairs += Repairs::since(before, stream)?;
    }
    Ok(report)
}

/// The workers, as the aggregator holds them: connections, and one descriptor that waits for all of
/// them.
struct Workers {
    streams: Vec<TcpStream>,
    epoll: OwnedFd,
    arrived: Vec<epoll::Event>,
    buffer: Vec<u8>,
}

impl Workers {
    fn connect(addresses: &[SocketAddr], congestion: &str) -> Result<Self, EndpointError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).doing("open an epoll descriptor")?;
        let mut streams = Vec::with_capacity(addresses.len());
        for (number, address) in (0..).zip(addresses) {
            let stream = connect(*address, congestion)?;
            stream.set_nonblocking(true).doing("make a connection non-blocking")?;
            epoll::add(&epoll, &stream, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
                .doing("wait for a connection")?;
            streams.push(stream);
        }
        let arrived = Vec::with_capacity(addresses.len());
        Ok(Self { streams, epoll, arrived, buffer: vec![0; 1 << 18] })
    }

    /// Sends the query to all whom it asks.
    fn ask(&mut self, query: &Query) -> Result<(), EndpointError> {
        let request = [query.id.to_be_bytes(), query.response_bytes.to_be_bytes()].concat();
        for worker in &query.workers {
            self.streams[*worker as usize].write_all(&request).doing("send a request")?;
        }
        Ok(())
    }

    /// Takes bytes until the query is complete, and tells how long it took; `None` if it stands
    /// still for longer than `patience`.
    fn complete(
        &mut self,
        query: u64,
        pending: &mut Pending,
        patience: Duration,
        now: impl Fn() -> units::Instant,
    ) -> Result<Option<Span>, EndpointError> {
        let patience = Timespec::try_from(patience).expect("a minute fits");
        loop {
            self.arrived.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut self.arrived), Some(&patience)) {
                Ok(0) => return Ok(None),
                Err(rustix::io::Errno::INTR) => continue,
                waited => waited.doing("wait for responses")?,
            };
            if let Some(fct) = self.take(query, pending, &now)? {
                return Ok(Some(fct));
            }
        }
    }

    /// Takes the bytes that have arrived; tells how long the query took if they were the last.
    fn take(
        &mut self,
        query: u64,
        pending: &mut Pending,
        now: impl Fn() -> units::Instant,
    ) -> Result<Option<Span>, EndpointError> {
        let mut fct = None;
        for event in &self.arrived {
            let number = event.data.u64() as usize;
            let count = match self.streams[number].read(&mut self.buffer) {
                Ok(0) => {
                    return Err(io::Error::from(ErrorKind::UnexpectedEof)).doing("read a response");
                }
                Ok(count) => count,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
                {
                    continue;
                }
                Err(error) => return Err(error).doing("read a response"),
            };
            let worker = number as u32;
            match pending.arrived(worker, count as u64, now()) {
                Arrival::Complete(span) => fct = Some(span),
                Arrival::Excess => return Err(EndpointError::Excess { worker, query }),
                Arrival::Partial | Arrival::Worker => {}
            }
        }
        Ok(fct)
    }
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

/// A blocking connection that uses this congestion control, to a program that may not listen yet.
pub(super) fn connect(to: SocketAddr, congestion: &str) -> Result<TcpStream, EndpointError> {
    let begin = Instant::now();
    loop {
        match connect_now(to, congestion) {
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused && begin.elapsed() < CONNECT =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            connected => return connected.doing("connect"),
        }
    }
}

/// The same to a program that listens.
pub(super) fn connect_now(to: SocketAddr, congestion: &str) -> io::Result<TcpStream> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_tcp_congestion(&socket, congestion)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::connect(&socket, &to)?;
    Ok(socket.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_stands_still_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut workers = Workers::connect(&[listener.local_addr().unwrap()], "reno").unwrap();
        let query = Query { id: 0, workers: [0].into(), response_bytes: 3 };
        let mut pending = Pending::issue(&query, units::Instant::ZERO);
        workers.ask(&query).unwrap();
        let (mut worker, _) = listener.accept().unwrap();
        worker.write_all(&[0; 2]).unwrap();
        let mut complete = |patience| {
            let now = || units::Instant::from_nanos(7);
            workers.complete(0, &mut pending, Duration::from_millis(patience), now).unwrap()
        };
        assert_eq!(complete(20), None);
        worker.write_all(&[0; 1]).unwrap();
        assert_eq!(complete(10_000), Some(Span::from_nanos(7)));
    }
}
