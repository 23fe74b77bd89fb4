//! TCP streams: one that sends as fast as it goes, one that takes.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kernel::clock::thread_time;
use serde::{Deserialize, Serialize};
use units::Span;

use super::control::{Control, Event};
use super::error::{Doing, EndpointError};
use super::frame::nanos;
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
    /// The length of the parts of the time whose bytes are counted apart; none if absent.
    #[serde(default)]
    pub part: Option<Span>,
}

/// What a receiver saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpReceived {
    /// Bytes of all streams.
    pub bytes: u64,
    /// From the first byte to the last, in nanoseconds: the longest of the streams.
    pub elapsed_ns: u64,
    /// How long the busiest of the streams' threads ran on a processor, its kernel included, in
    /// nanoseconds.
    #[serde(default)]
    pub busy_ns: u64,
    /// Bytes of all streams in each part of the time, from the first byte of any on.
    #[serde(default)]
    pub parts: Vec<u64>,
}

impl TcpReceived {
    /// What two receivers saw together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.bytes += other.bytes;
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.busy_ns = self.busy_ns.max(other.busy_ns);
        self.parts.resize(self.parts.len().max(other.parts.len()), 0);
        self.parts.iter_mut().zip(other.parts).for_each(|(sum, bytes)| *sum += bytes);
        self
    }
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
    let begin = Arc::new(OnceLock::new());
    let part = role.part.map(Duration::from).filter(|part| !part.is_zero());
    let mut streams = Vec::new();
    for _ in 0..role.flows {
        let (stream, _) = listener.accept().doing("accept a stream")?;
        let begin = Arc::clone(&begin);
        streams.push(std::thread::spawn(move || drain(stream, part, &begin)));
    }
    let mut report = TcpReceived::default();
    for stream in streams {
        let drained =
            stream.join().expect("a drain does not panic: it only reads").doing("read a stream")?;
        report = report.and(drained);
    }
    Ok(report)
}

/// Reads to the end; tells how much came, in what time, and how long this thread ran for it. Parts
/// of the time are those since `begin`, which is when the first bytes of any stream came.
fn drain(
    mut stream: TcpStream,
    part: Option<Duration>,
    begin: &OnceLock<Instant>,
) -> std::io::Result<TcpReceived> {
    let mut buffer = vec![0; 1 << 18];
    let mut drained = TcpReceived::default();
    let mut count = stream.read(&mut buffer)?;
    let first = Instant::now();
    let begin = *begin.get_or_init(|| first);
    while count > 0 {
        drained.bytes += count as u64;
        if let Some(part) = part {
            let place = (begin.elapsed().as_nanos() / part.as_nanos()) as usize;
            if drained.parts.len() <= place {
                drained.parts.resize(place + 1, 0);
            }
            drained.parts[place] += count as u64;
        }
        count = stream.read(&mut buffer)?;
    }
    drained.elapsed_ns = nanos(first.elapsed());
    drained.busy_ns = thread_time().as_nanos();
    Ok(drained)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_streams_add_up() {
        let one = TcpReceived { bytes: 7, elapsed_ns: 30, busy_ns: 5, parts: vec![3, 4] };
        let other = TcpReceived { bytes: 10, elapsed_ns: 20, busy_ns: 9, parts: vec![1, 2, 7] };
        let sum = TcpReceived { bytes: 17, elapsed_ns: 30, busy_ns: 9, parts: vec![4, 6, 7] };
        assert_eq!(one.and(other), sum);
    }
}
