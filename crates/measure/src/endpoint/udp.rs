//! UDP frames: a sender that floods or keeps a rate, a receiver that counts and keeps a pace (zOVN
//! §2.3).

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use kernel::clock::thread_time;
use serde::{Deserialize, Serialize};
use units::Span;
use zerocopy::{FromBytes, IntoBytes};

use super::control::Control;
use super::error::{Doing, EndpointError};
use super::frame::{self, FRAME_HEADERS, GLANCE, Header, LAST, nanos, sharpen_sleep};
use super::pace::Pace;

/// The smallest frame that has room for our own header, in bytes.
pub const SMALLEST_FRAME: u32 = FRAME_HEADERS + size_of::<Header>() as u32;

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
    /// How long of that it ran on a processor, its kernel included, in nanoseconds.
    pub busy_ns: u64,
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
    /// How long the receiver ran on a processor, its kernel included, in nanoseconds.
    #[serde(default)]
    pub busy_ns: u64,
    /// Datagrams of each sender in every 100 ms since the first datagram.
    pub bins: Vec<Vec<u32>>,
}

/// Sends until the time is over; then one more, marked.
pub fn send(role: &UdpSend, control: &Control) -> Result<UdpSent, EndpointError> {
    if role.size < SMALLEST_FRAME {
        return Err(EndpointError::Role(format!("a frame needs {SMALLEST_FRAME} bytes at least")));
    }
    let socket = frame::sender(role.to)?;
    let mut payload = vec![0; (role.size - FRAME_HEADERS) as usize];
    let mut report = UdpSent::default();
    let mut send_one = |flags: u32, patience| {
        let (sender, number) = (role.sender.into(), report.sent.into());
        let header = Header { sender, flags: flags.into(), number };
        payload[..size_of::<Header>()].copy_from_slice(header.as_bytes());
        let (is_sent, blocked_ns) = frame::send(&socket, &payload, patience);
        report.sent += u64::from(is_sent);
        report.blocked_ns += blocked_ns;
    };
    control.ready();

    let (begin, busy) = (Instant::now(), thread_time().as_nanos());
    let end = begin + Duration::from(role.duration);
    let mut pace = role.rate.map(|rate| Pace::new(rate, begin));
    while Instant::now() < end {
        if let Some(pace) = &mut pace {
            pace.wait();
        }
        send_one(0, end);
    }
    // A receiver that lives takes the marked frame in time; a dead one must not keep us.
    send_one(LAST, Instant::now() + 10 * QUIET_SOME);
    report.elapsed_ns = nanos(begin.elapsed());
    report.busy_ns = thread_time().as_nanos() - busy;
    Ok(report)
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

    let busy = thread_time().as_nanos();
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
    tally.report.busy_ns = thread_time().as_nanos() - busy;
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
        let Ok((header, _)) = Header::ref_from_prefix(payload) else { return };
        let sender = header.sender.get() as usize;
        let Some(seen) = self.senders.get_mut(sender) else { return };
        let report = &mut self.report;
        match seen.insert(header.number.get()) {
            Order::Next => {}
            Order::Late => report.out_of_order += 1,
            Order::Again => {
                report.duplicates += 1;
                return;
            }
        }
        report.received += 1;
        if header.flags.get() & LAST != 0 {
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
        report.bins[bin][sender] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(sender: u32, flags: u32, number: u64) -> Vec<u8> {
        let header = Header { sender: sender.into(), flags: flags.into(), number: number.into() };
        [header.as_bytes(), &[0; 6]].concat()
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
}
