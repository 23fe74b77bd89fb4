//! Requests at given times, one after the other, each answered before the next: a closed loop.
//!
//! A request is due as a frame of [`TimedSend`](super::TimedSend) is, and carries the same header.
//! If the answer to the one before has not come by then it is left out, as one that had to wait:
//! who asks for less than it was to tells of a network that is slow.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::process::setpriority_process;
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, IntoBytes};

use super::control::Control;
use super::error::{Doing, EndpointError};
use super::frame::{self, FRAME_HEADERS, GLANCE};
use super::timed::{
    CATCH_UP, Header, RECEIVER_NICE, SMALLEST_TIMED_FRAME, TimedReceived, TimedSent, Timetable,
    Use, monotonic_ns,
};

/// How long an answer is waited for until its request counts as lost.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks when it is time to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Who answers.
    pub to: SocketAddr,
    /// Bytes of a request's frame, and of an answer's, Ethernet header included.
    pub size: u32,
    /// When.
    pub timetable: Timetable,
}

/// Answers with what it is asked, until its parent wants the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The port to listen on, on every address.
    pub port: u16,
}

/// What asking gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Requests.
    pub sent: TimedSent,
    /// Answers: how long each took from its request on.
    pub received: TimedReceived,
}

/// What an answerer did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// Answers.
    pub answers: u64,
}

/// Asks until the timetable ends.
pub fn ask(role: &Ask, control: &Control) -> Result<Asked, EndpointError> {
    let Timetable { rate, .. } = role.timetable;
    if role.size < SMALLEST_TIMED_FRAME || !(rate.is_finite() && rate > 0.0) {
        return Err(EndpointError::Role(format!(
            "a request needs {SMALLEST_TIMED_FRAME} bytes at least, and a rate above 0"
        )));
    }
    let socket = frame::sender(role.to)?;
    let mut payload = vec![0; (role.size - FRAME_HEADERS) as usize];
    let mut buffer = vec![0; 1 << 16];
    control.ready();

    let use_of_cpu = Use::begin();
    let mut sent = TimedSent { begin_ns: monotonic_ns(), ..TimedSent::default() };
    let mut received = TimedReceived { delays_ns: vec![Vec::new()], ..TimedReceived::default() };
    let begin = Instant::now();
    let catch_up = Duration::from_secs_f64(CATCH_UP as f64 / rate);
    let mut answered = begin;
    for number in 0..role.timetable.frames() {
        let due = begin + Duration::from(role.timetable.due(number));
        let now = Instant::now();
        if now < due {
            std::thread::sleep(due - now);
        } else if answered > due || now - due > catch_up {
            sent.skip(number, answered > due);
            continue;
        }
        let frame = frame::Header { sender: 0.into(), flags: 0.into(), number: number.into() };
        let header = Header { frame, sent_ns: monotonic_ns().into() };
        payload[..size_of::<Header>()].copy_from_slice(header.as_bytes());
        let asked = Instant::now();
        let (is_sent, blocked_ns) = frame::send(&socket, &payload, asked + PATIENCE);
        sent.sent += u64::from(is_sent);
        sent.blocked_ns += blocked_ns;
        await_answer(&socket, number, asked + PATIENCE, &mut buffer, &mut received)?;
        answered = Instant::now();
    }
    sent.busy = use_of_cpu.share();
    Ok(Asked { sent, received })
}

/// Waits for the answer to a request; what comes of earlier ones is booked, too.
fn await_answer(
    socket: &UdpSocket,
    number: u64,
    until: Instant,
    buffer: &mut [u8],
    received: &mut TimedReceived,
) -> Result<(), EndpointError> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        socket.set_read_timeout(Some(left)).doing("bound a blocked receive")?;
        match socket.recv(buffer) {
            Ok(length) => {
                let answer = &buffer[..length];
                received.count(answer, monotonic_ns());
                let its = Header::ref_from_prefix(answer).map(|(header, _)| header.frame.number);
                if its.is_ok_and(|its| its.get() == number) {
                    return Ok(());
                }
            }
            // Nobody may listen there any more.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
                ) => {}
            Err(error) => return Err(error).doing("receive an answer"),
        }
    }
}

/// Answers until the parent wants the end.
pub fn answer(role: &Answer, control: &Control) -> Result<Answered, EndpointError> {
    let socket =
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, role.port)).doing("open the answerer's socket")?;
    socket.set_read_timeout(Some(GLANCE)).doing("bound a blocked receive")?;
    setpriority_process(None, RECEIVER_NICE).doing("run before those who send")?;
    let mut buffer = vec![0; 1 << 16];
    let mut report = Answered::default();
    control.ready();
    while !control.finishing() {
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                report.answers += u64::from(socket.send_to(&buffer[..length], from).is_ok());
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).doing("receive a request"),
        }
    }
    Ok(report)
}
