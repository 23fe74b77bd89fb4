//! UDP frames at given times: a sender whose every frame is due at a known moment, and a receiver
//! that tells how long each was on its way.
//!
//! Behind a frame's header, which has no flags, is the time at which it was sent: 8 bytes,
//! big-endian, nanoseconds of CLOCK_MONOTONIC, which is one for all namespaces.
//!
//! A number belongs to a moment of the sender's [`Timetable`]: a frame that its sender had to leave
//! out has a number, too, which never comes. So whoever knows the timetable knows when a frame that
//! was lost was to be sent.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::process::setpriority_process;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use units::Span;
use zerocopy::network_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::control::Control;
use super::error::{Doing, EndpointError};
use super::frame::{self, FRAME_HEADERS, GLANCE, nanos};

/// The smallest frame that has room for our own header, in bytes.
pub const SMALLEST_TIMED_FRAME: u32 = FRAME_HEADERS + size_of::<Header>() as u32;

/// How many frames late a sender may be and still send them all, one behind the other. Those that
/// are due longer are left out.
pub(super) const CATCH_UP: u64 = 8;

/// What a receiver's socket may hold, in bytes: a receiver that does not run for a while is not to
/// look like a switch that loses.
const RECEIVE_ROOM: usize = 16 << 20;

/// A receiver runs before the senders.
pub(super) const RECEIVER_NICE: i32 = -5;

/// No sender numbers its frames as far as this: what claims to be one is not ours.
const MOST_FRAMES: u64 = 1 << 26;

/// How long nothing may come until a receiver that is to end takes it that all has come.
const QUIET: Duration = Duration::from_millis(300);

/// How long a sender waits for room at its very end.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a payload begins with.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    pub frame: frame::Header,
    pub sent_ns: U64,
}

/// When a sender's frames are due: evenly spaced in bursts of one length.
///
/// ```text
///   │◀─ lead ─▶│◀─ burst ─▶│◀─ gap ─▶│◀─ burst ─▶│◀─ gap ─▶│  …
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timetable {
    /// Frames a second within a burst.
    pub rate: f64,
    /// How long the sender is silent at first.
    pub lead: Span,
    /// How many bursts there are.
    pub bursts: u32,
    /// How long each lasts.
    pub burst: Span,
    /// How long the sender is silent behind each.
    pub gap: Span,
}

impl Timetable {
    /// How many frames a burst has.
    pub fn frames_a_burst(&self) -> u64 {
        ((self.rate * self.burst.as_secs_f64()).round() as u64).max(1)
    }

    /// How many frames there are.
    pub fn frames(&self) -> u64 {
        self.frames_a_burst() * u64::from(self.bursts)
    }

    /// When frame `number` is due, after the sender began.
    pub fn due(&self, number: u64) -> Span {
        let (burst, place) = (number / self.frames_a_burst(), number % self.frames_a_burst());
        let within = Span::from_nanos((place as f64 / self.rate * 1e9) as u64);
        self.begin(burst) + within
    }

    /// When burst `number`, from 0, begins.
    pub fn begin(&self, number: u64) -> Span {
        let turn = self.burst + self.gap;
        self.lead + Span::from_nanos(turn.as_nanos().saturating_mul(number))
    }
}

/// Sends frames when they are due.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedSend {
    /// The receiver.
    pub to: SocketAddr,
    /// This sender's number, from 0.
    pub sender: u32,
    /// Bytes a frame, Ethernet header included.
    pub size: u32,
    /// When.
    pub timetable: Timetable,
}

/// Frames that were not sent when they were due, since the sender was behind.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// The first one's number.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// Whether the sender was behind because it waited for room in its socket. Otherwise it did not
    /// run when it should have.
    pub waited: bool,
}

/// What a sender did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimedSent {
    /// When it began, in nanoseconds of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// Frames that its socket took.
    pub sent: u64,
    /// Frames that it left out, in order.
    pub skipped: Vec<Skipped>,
    /// How long it waited for room in its socket, in nanoseconds.
    pub blocked_ns: u64,
    /// What it took of a processor, as a share.
    pub busy: f64,
}

/// Takes frames until their senders are done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedReceive {
    /// The port to listen on, on every address.
    pub port: u16,
    /// How many senders there are.
    pub senders: u32,
}

/// What a receiver saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimedReceived {
    /// For each sender and each number how long that frame was on its way, in nanoseconds (4.29 s
    /// if longer); none if it did not come.
    pub delays_ns: Vec<Vec<Option<u32>>>,
    /// Frames that had come before.
    pub duplicates: u64,
    /// What it took of a processor, as a share.
    pub busy: f64,
}

/// Sends until the timetable ends.
pub fn send(role: &TimedSend, control: &Control) -> Result<TimedSent, EndpointError> {
    let Timetable { rate, .. } = role.timetable;
    if role.size < SMALLEST_TIMED_FRAME || !(rate.is_finite() && rate > 0.0) {
        return Err(EndpointError::Role(format!(
            "a frame needs {SMALLEST_TIMED_FRAME} bytes at least, and a rate above 0"
        )));
    }
    let socket = frame::sender(role.to)?;
    let mut payload = vec![0; (role.size - FRAME_HEADERS) as usize];
    control.ready();

    let use_of_cpu = Use::begin();
    let mut report = TimedSent { begin_ns: monotonic_ns(), ..TimedSent::default() };
    let begin = Instant::now();
    let catch_up = Duration::from_secs_f64(CATCH_UP as f64 / rate);
    let mut waited = false;
    for number in 0..role.timetable.frames() {
        let due = begin + Duration::from(role.timetable.due(number));
        let now = Instant::now();
        if now < due {
            waited = false;
            std::thread::sleep(due - now);
        } else if now - due > catch_up {
            report.skip(number, waited);
            continue;
        }
        let (sender, flags) = (role.sender.into(), 0.into());
        let frame = frame::Header { sender, flags, number: number.into() };
        let header = Header { frame, sent_ns: monotonic_ns().into() };
        payload[..size_of::<Header>()].copy_from_slice(header.as_bytes());
        let (is_sent, blocked_ns) = frame::send(&socket, &payload, due + PATIENCE);
        report.sent += u64::from(is_sent);
        waited |= blocked_ns > 0;
        report.blocked_ns += blocked_ns;
    }
    report.busy = use_of_cpu.share();
    Ok(report)
}

impl TimedSent {
    pub(super) fn skip(&mut self, number: u64, waited: bool) {
        match self.skipped.last_mut() {
            Some(last) if last.first + last.count == number && last.waited == waited => {
                last.count += 1;
            }
            _ => self.skipped.push(Skipped { first: number, count: 1, waited }),
        }
    }
}

/// Takes frames until the parent wants the end and all is quiet.
pub fn receive(role: &TimedReceive, control: &Control) -> Result<TimedReceived, EndpointError> {
    let socket =
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, role.port)).doing("open the receiver's socket")?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_ROOM)
        .doing("enlarge the receiver's socket")?;
    socket.set_read_timeout(Some(GLANCE / 2)).doing("bound a blocked receive")?;
    setpriority_process(None, RECEIVER_NICE).doing("run before the senders")?;
    let mut buffer = vec![0; 1 << 16];
    let mut report =
        TimedReceived { delays_ns: vec![Vec::new(); role.senders as usize], ..Default::default() };
    control.ready();

    let use_of_cpu = Use::begin();
    let (mut last, mut glanced) = (Instant::now(), Instant::now());
    let mut finishing = false;
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                report.count(&buffer[..length], monotonic_ns());
                last = Instant::now();
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).doing("receive a datagram"),
        }
        let now = Instant::now();
        if now - glanced < GLANCE / 2 {
            continue;
        }
        glanced = now;
        if !finishing {
            finishing = control.finishing();
            last = now;
        } else if now - last > QUIET {
            break;
        }
    }
    report.busy = use_of_cpu.share();
    Ok(report)
}

impl TimedReceived {
    /// Adds what another receiver saw, of other senders.
    pub fn add(&mut self, other: Self) {
        let Self { delays_ns, duplicates, busy } = other;
        if self.delays_ns.len() < delays_ns.len() {
            self.delays_ns.resize(delays_ns.len(), Vec::new());
        }
        for (mine, theirs) in self.delays_ns.iter_mut().zip(delays_ns) {
            if mine.is_empty() {
                *mine = theirs;
            }
        }
        self.duplicates += duplicates;
        self.busy = self.busy.max(busy);
    }

    pub(super) fn count(&mut self, payload: &[u8], now_ns: u64) {
        let Ok((Header { frame, sent_ns }, _)) = Header::ref_from_prefix(payload) else { return };
        let number = frame.number.get();
        let Some(delays) = self.delays_ns.get_mut(frame.sender.get() as usize) else { return };
        if number >= MOST_FRAMES {
            return;
        }
        let place = number as usize;
        if delays.len() <= place {
            delays.resize(place + 1, None);
        }
        if delays[place].is_some() {
            self.duplicates += 1;
            return;
        }
        delays[place] =
            Some(u32::try_from(now_ns.saturating_sub(sent_ns.get())).unwrap_or(u32::MAX));
    }
}

/// What this thread takes of a processor.
pub(super) struct Use {
    begin: Instant,
    cpu: Duration,
}

impl Use {
    pub fn begin() -> Self {
        Self { begin: Instant::now(), cpu: time(ClockId::ThreadCPUTime) }
    }

    pub fn share(&self) -> f64 {
        let used = time(ClockId::ThreadCPUTime).saturating_sub(self.cpu);
        used.as_secs_f64() / self.begin.elapsed().as_secs_f64().max(1e-9)
    }
}

/// The time of the one clock that all namespaces have.
pub(crate) fn monotonic_ns() -> u64 {
    nanos(time(ClockId::Monotonic))
}

fn time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timetable_says_when_each_frame_is_due() {
        let ms = Span::from_millis;
        let table = Timetable { rate: 1000.0, lead: ms(20), bursts: 3, burst: ms(4), gap: ms(10) };
        assert_eq!((table.frames_a_burst(), table.frames()), (4, 12));
        assert_eq!([0, 3, 4, 11].map(|number| table.due(number)), [ms(20), ms(23), ms(34), ms(51)]);
    }

    #[test]
    fn a_frame_counts_once_whatever_comes() {
        let frame = |sender: u32, number: u64, sent: u64| {
            let (sender, number) = (sender.into(), number.into());
            let frame = frame::Header { sender, flags: 0.into(), number };
            [Header { frame, sent_ns: sent.into() }.as_bytes(), &[0; 9]].concat()
        };
        let mut seen = TimedReceived { delays_ns: vec![Vec::new(); 2], ..Default::default() };
        seen.count(&frame(0, 2, 100), 350);
        seen.count(&frame(0, 0, 400), 390);
        seen.count(&frame(0, 2, 100), 900);
        seen.count(&frame(1, 0, 0), u64::MAX);
        seen.count(&frame(1, MOST_FRAMES, 0), 1);
        seen.count(&frame(2, 0, 0), 1);
        seen.count(b"short", 1);
        let expected = vec![vec![Some(0), None, Some(250)], vec![Some(u32::MAX)]];
        assert_eq!((seen.delays_ns, seen.duplicates), (expected, 1));
    }

    #[test]
    fn what_is_left_out_is_told_as_ranges() {
        let mut sent = TimedSent::default();
        for (number, waited) in [(3, true), (4, true), (5, false), (9, false)] {
            sent.skip(number, waited);
        }
        let ranges: Vec<_> = sent.skipped.iter().map(|s| (s.first, s.count, s.waited)).collect();
        assert_eq!(ranges, [(3, 2, true), (5, 1, false), (9, 1, false)]);
    }
}
