//! TCP streams: one that sends as fast as it goes, one that takes.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use kernel::clock::thread_time;
use serde::{Deserialize, Serialize};
use units::Span;

use super::control::{Control, Event};
use super::error::{Doing, EndpointError};
use super::query::{ZEROES, connect, listen};
use super::repairs::{self, Repairs};
use super::timed::monotonic_ns;

/// How long a blocked call may hide the clock and the parent.
const GLANCE: Duration = Duration::from_millis(50);

/// Sends one stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpSend {
    /// The receiver.
    pub to: SocketAddr,
    /// TCP's congestion control.
    pub congestion: String,
    /// How long.
    pub duration: Span,
}

/// What a sender did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSent {
    /// What it did about losses.
    pub repairs: Repairs,
    /// How long it ran on a processor, its kernel included, in nanoseconds.
    #[serde(default)]
    pub busy_ns: u64,
}

/// Takes streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpReceive {
    /// The port to listen on.
    pub port: u16,
    /// How many streams to expect.
    pub flows: u32,
    /// TCP's congestion control, for what the receiver answers.
    pub congestion: String,
}

/// What a receiver saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpReceived {
    /// Bytes of all streams.
    pub bytes: u64,
    /// From the first byte to the last, in nanoseconds: the longest of the streams.
    pub elapsed_ns: u64,
    /// How long the busiest of the streams' threads ran on a processor, its kernel included, in
    /// nanoseconds.
    #[serde(default)]
    pub busy_ns: u64,
}

/// Takes one stream, and tells when how much of it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpWatch {
    /// The port to listen on.
    pub port: u16,
    /// TCP's congestion control, for what the receiver answers.
    pub congestion: String,
}

/// When how much of a stream came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpWatched {
    /// When its first bytes came, in nanoseconds of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// Bytes in each [part](Self::PART_NS) from then on.
    pub parts: Vec<u64>,
}

impl TcpWatched {
    /// A part of the time, in nanoseconds.
    pub const PART_NS: u64 = 10_000_000;

    fn count(&mut self, bytes: usize, now_ns: u64) {
        let place = (now_ns.saturating_sub(self.begin_ns) / Self::PART_NS) as usize;
        if self.parts.len() <= place {
            self.parts.resize(place + 1, 0);
        }
        self.parts[place] += bytes as u64;
    }
}

/// Takes one stream to its end.
pub fn watch(role: &TcpWatch, control: &Control) -> Result<TcpWatched, EndpointError> {
    let listener = listen(role.port, &role.congestion)?;
    control.say(&Event::Ready);
    let (mut stream, _) = listener.accept().doing("accept a stream")?;
    let mut buffer = vec![0; 1 << 18];
    let mut count = stream.read(&mut buffer).doing("read a stream")?;
    let mut watched = TcpWatched { begin_ns: monotonic_ns(), parts: Vec::new() };
    while count > 0 {
        watched.count(count, monotonic_ns());
        count = stream.read(&mut buffer).doing("read a stream")?;
    }
    Ok(watched)
}

/// Sends until the time is over, then closes.
pub fn send(role: &TcpSend, control: &Control) -> Result<TcpSent, EndpointError> {
    let mut stream = connect(role.to, &role.congestion)?;
    stream.set_write_timeout(Some(GLANCE)).doing("bound a blocked write")?;
    control.ready();
    let (before, busy) = (repairs::look(&stream)?, thread_time().as_nanos());

    let end = Instant::now() + Duration::from(role.duration);
    while Instant::now() < end {
        match stream.write(&ZEROES) {
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).doing("write to the stream"),
        }
    }
    let busy_ns = thread_time().as_nanos() - busy;
    Ok(TcpSent { repairs: Repairs::since(before, &stream)?, busy_ns })
}

/// Takes the expected streams to their ends.
pub fn receive(role: &TcpReceive, control: &Control) -> Result<TcpReceived, EndpointError> {
    let listener = listen(role.port, &role.congestion)?;
    control.say(&Event::Ready);
    let mut streams = Vec::new();
    for _ in 0..role.flows {
        let (stream, _) = listener.accept().doing("accept a stream")?;
        streams.push(std::thread::spawn(move || drain(stream)));
    }
    let mut report = TcpReceived::default();
    for stream in streams {
        let (bytes, elapsed, busy) =
            stream.join().expect("a drain does not panic: it only reads").doing("read a stream")?;
        report.bytes += bytes;
        report.busy_ns = report.busy_ns.max(busy);
        report.elapsed_ns =
            report.elapsed_ns.max(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(report)
}

/// Reads to the end; tells how much came, in what time, and how long this thread ran for it.
fn drain(mut stream: TcpStream) -> std::io::Result<(u64, Duration, u64)> {
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = stream.read(&mut buffer)? as u64;
    let first = Instant::now();
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok((bytes, first.elapsed(), thread_time().as_nanos())),
            count => bytes += count as u64,
        }
    }
}
