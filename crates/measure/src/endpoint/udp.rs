//! UDP frames: a sender that floods or keeps a rate, a receiver that counts and keeps a pace (zOVN
//! §2.3).
//!
//! A frame's payload begins with 16 bytes, big-endian; the rest is zero:
//!
//! ```text
//!   0        4        8                16
//!   ├────────┼────────┼─────────────────┤
//!   │ sender │ flags  │ sequence number │     flags bit 0: the sender's last frame
//!   └────────┴────────┴─────────────────┘
//! ```

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rustix::net::SendFlags;
use serde::{Deserialize, Serialize};
use units::Span;

use super::control::Control;
use super::error::{Doing, EndpointError};

/// Ethernet, IPv4 and UDP headers: what a frame carries before a datagram's payload, in bytes.
pub const FRAME_HEADERS: u32 = 14 + 20 + 8;

/// The smallest frame that has room for our own header, in bytes.
pub const SMALLEST_FRAME: u32 = FRAME_HEADERS + HEADER as u32;

const HEADER: usize = 16;
const LAST: u32 = 1;

/// How long a blocked call may hide the clock and the parent.
pub(super) const GLANCE: Duration = Duration::from_millis(100);

/// How far behind its schedule a paced program may fall and still catch up; what lies further back
/// is forgiven.
const DEBT: Duration = Duration::from_millis(2);

/// How long a receiver waits for silence once every last frame has come, and while one is missing.
const QUIET_ALL: Duration = Duration::from_millis(100);
const QUIET_SOME: Duration = Duration::from_secs(2);

/// The length of a bin of [`UdpReceived::bins`].
const BIN: Duration = Duration::from_millis(100);

/// Sends frames for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UdpSend {
    /// The receiver.
    pub to: SocketAddr,
    /// This sender's number, from 0.
    pub sender: u32,
    /// Bytes a frame, Ethernet header included.
    pub size: u32,
    /// Frames a second; as fast as `sendto` returns if absent.
    pub rate: Option<f64>,
    /// How long.
    pub duration: Span,
}

/// What a sender did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpSent {
    /// Datagrams that `sendto` accepted, the marked one included.
    pub sent: u64,
    /// How long the sender waited in `sendto` for room in its socket, in nanoseconds.
    pub blocked_ns: u64,
    /// From the first call to the last, in nanoseconds.
    pub elapsed_ns: u64,
}

/// Counts frames until their senders are done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UdpReceive {
    /// The port to listen on, on every address.
    pub port: u16,
    /// How many senders there are.
    pub senders: u32,
    /// Frames a second to take; as fast as they come if absent.
    pub pace: Option<f64>,
}

/// What a receiver saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpReceived {
    /// Datagrams read, each once however often it came.
    pub received: u64,
    /// Datagrams that had come before.
    pub duplicates: u64,
    /// Datagrams that came after a later one of their sender.
    pub out_of_order: u64,
    /// Senders whose marked last frame came.
    pub marks: u32,
    /// From the first datagram to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// The longest time in between in which none came, in nanoseconds.
    #[serde(default)]
    pub longest_silence_ns: u64,
    /// Datagrams of each sender in every 100 ms since the first datagram.
    pub bins: Vec<Vec<u32>>,
}

/// Sends until the time is over; then one more, marked.
pub fn send(role: &UdpSend, control: &Control) -> Result<UdpSent, EndpointError> {
    if role.size < SMALLEST_FRAME {
        return Err(EndpointError::Role(format!("a frame needs {SMALLEST_FRAME} bytes at least")));
    }
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).doing("open the sender's socket")?;
    socket.connect(role.to).doing("connect to the receiver")?;
    socket.set_write_timeout(Some(GLANCE)).doing("bound a blocked send")?;
    sharpen_sleep()?;
    let mut payload = vec![0; (role.size - FRAME_HEADERS) as usize];
    payload[..4].copy_from_slice(&role.sender.to_be_bytes());
    let mut report = UdpSent::default();
    control.ready();

    let begin = Instant::now();
    let end = begin + Duration::from(role.duration);
    let mut pace = role.rate.map(|rate| Pace::new(rate, begin));
    while Instant::now() < end {
        if let Some(pace) = &mut pace {
            pace.wait();
        }
        send_one(&socket, &mut payload, 0, end, &mut report);
    }
    // A receiver that lives takes the marked frame in time; a dead one must not keep us.
    send_one(&socket, &mut payload, LAST, Instant::now() + 10 * QUIET_SOME, &mut report);
    report.elapsed_ns = nanos(begin.elapsed());
    Ok(report)
}

/// One frame with the next sequence number, waiting for room until `patience` ends.
fn send_one(
    socket: &UdpSocket,
    payload: &mut [u8],
    flags: u32,
    patience: Instant,
    report: &mut UdpSent,
) {
    payload[4..8].copy_from_slice(&flags.to_be_bytes());
    payload[8..HEADER].copy_from_slice(&report.sent.to_be_bytes());
    // Only a send that found no room at once waited for it: so the time in the second call is the
    // time blocked.
    let mut sent =
        rustix::net::send(socket, payload, SendFlags::DONTWAIT).map_err(std::io::Error::from);
    while matches!(&sent, Err(error) if error.kind() == ErrorKind::WouldBlock)
        && Instant::now() < patience
    {
        let asked = Instant::now();
        sent = socket.send(payload);
        report.blocked_ns += nanos(asked.elapsed());
    }
    // What the socket does not accept was not sent, for whatever reason.
    report.sent += u64::from(sent.is_ok());
}

/// Counts until the parent wants the end and all is quiet.
pub fn receive(role: &UdpReceive, control: &Control) -> Result<UdpReceived, EndpointError> {
    let socket =
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, role.port)).doing("open the receiver's socket")?;
    socket.set_read_timeout(Some(GLANCE / 2)).doing("bound a blocked receive")?;
    sharpen_sleep()?;
    let mut buffer = vec![0; 1 << 16];
    let mut tally = Tally::new(role.senders);
    control.ready();

    let mut pace = role.pace.map(|rate| Pace::new(rate, Instant::now()));
    let mut last = Instant::now();
    let mut finishing = false;
    let mut glanced = last;
    loop {
        if let Some(pace) = &mut pace {
            pace.wait();
        }
        let taken = socket.recv(&mut buffer);
        let now = Instant::now();
        match taken {
            Ok(length) => {
                last = now;
                tally.count(&buffer[..length], now);
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).doing("receive a datagram"),
        }
        if now - glanced < GLANCE / 2 {
            continue;
        }
        glanced = now;
        if !finishing {
            finishing = control.finishing();
            // Silence counts from the moment on which the senders were done.
            last = now;
        }
        let enough = if tally.report.marks == role.senders { QUIET_ALL } else { QUIET_SOME };
        if finishing && now - last > enough {
            break;
        }
    }
    Ok(tally.report)
}

/// What has come so far, sender by sender.
struct Tally {
    first: Option<Instant>,
    senders: Vec<Seen>,
    report: UdpReceived,
}

/// The sequence numbers that have come from one sender.
#[derive(Clone, Default)]
struct Seen {
    /// A bit for each number, 64 to a word.
    words: Vec<u64>,
    /// The number that the sender's next frame should have.
    expected: u64,
}

/// What a sequence number says of its frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Order {
    Next,
    Late,
    Again,
}

impl Seen {
    fn insert(&mut self, sequence: u64) -> Order {
        let (word, bit) = ((sequence / 64) as usize, 1 << (sequence % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        if self.words[word] & bit != 0 {
            return Order::Again;
        }
        self.words[word] |= bit;
        if sequence < self.expected {
            return Order::Late;
        }
        self.expected = sequence + 1;
        Order::Next
    }
}

impl Tally {
    fn new(senders: u32) -> Self {
        Self {
            first: None,
            senders: vec![Seen::default(); senders as usize],
            report: UdpReceived::default(),
        }
    }

    fn count(&mut self, payload: &[u8], now: Instant) {
        let Some((sender, flags, sequence)) = parse(payload) else { return };
        let Some(seen) = self.senders.get_mut(sender as usize) else { return };
        let report = &mut self.report;
        match seen.insert(sequence) {
            Order::Next => {}
            Order::Late => report.out_of_order += 1,
            Order::Again => {
                report.duplicates += 1;
                return;
            }
        }
        report.received += 1;
        if flags & LAST != 0 {
            report.marks += 1;
        }
        let elapsed = now - *self.first.get_or_insert(now);
        let silence = nanos(elapsed) - report.elapsed_ns;
        report.longest_silence_ns = report.longest_silence_ns.max(silence);
        report.elapsed_ns = nanos(elapsed);
        let bin = (elapsed.as_nanos() / BIN.as_nanos()) as usize;
        if report.bins.len() <= bin {
            report.bins.resize(bin + 1, vec![0; self.senders.len()]);
        }
        report.bins[bin][sender as usize] += 1;
    }
}

/// Sender, flags and sequence number.
fn parse(payload: &[u8]) -> Option<(u32, u32, u64)> {
    let (sender, rest) = payload.split_first_chunk()?;
    let (flags, rest) = rest.split_first_chunk()?;
    let (sequence, _) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*sender), u32::from_be_bytes(*flags), u64::from_be_bytes(*sequence)))
}

/// A schedule of evenly spaced moments.
struct Pace {
    gap: Duration,
    next: Instant,
}

impl Pace {
    fn new(per_second: f64, begin: Instant) -> Self {
        Self { gap: Duration::from_secs_f64(1.0 / per_second.max(1e-3)), next: begin }
    }

    /// Sleeps until the next moment has come.
    fn wait(&mut self) {
        let now = Instant::now();
        if now < self.next {
            std::thread::sleep(self.next - now);
        } else if now - self.next > DEBT {
            self.next = now - DEBT;
        }
        self.next += self.gap;
    }
}

/// Lets a sleep end when it should: the default slack of 50 µs is a whole gap at 20,000 frames a
/// second.
pub(super) fn sharpen_sleep() -> Result<(), EndpointError> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).doing("set the timer slack")
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(sender: u32, flags: u32, sequence: u64) -> Vec<u8> {
        [&sender.to_be_bytes()[..], &flags.to_be_bytes(), &sequence.to_be_bytes(), &[0; 6]].concat()
    }

    #[test]
    fn a_tally_tells_late_from_again() {
        let mut tally = Tally::new(2);
        let now = Instant::now();
        for (sender, flags, sequence) in [
            (0, 0, 0),
            (0, 0, 3),
            (0, 0, 1),
            (0, 0, 3),
            (0, 0, 1),
            (1, 0, 0),
            (1, LAST, 1),
            (1, LAST, 1),
            (7, 0, 0),
        ] {
            tally.count(&frame(sender, flags, sequence), now);
        }
        tally.count(&frame(0, 0, 4), now + BIN);
        tally.count(b"short", now);
        let report = tally.report;
        assert_eq!(
            (report.received, report.duplicates, report.out_of_order, report.marks),
            (6, 3, 1, 1)
        );
        assert_eq!(report.bins, [[3, 2], [1, 0]]);
    }

    #[test]
    fn a_pace_forgives_what_lies_too_far_back() {
        let begin = Instant::now();
        let mut pace = Pace::new(1000.0, begin.checked_sub(Duration::from_secs(5)).unwrap());
        pace.wait();
        assert!(pace.next + DEBT > begin);
    }
}
