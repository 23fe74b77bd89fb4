//! UDP frames at rates that change with time, as a machine that goes through states sends them.
//!
//! A frame is due each time the rates have made one more; those of half a millisecond are sent
//! together. A sender that is held back catches up a little; what is due for longer is left out, so
//! that nobody asks later for what was too much before. It tells when that was.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use kernel::clock::thread_time;
use serde::{Deserialize, Serialize};
use units::Span;
use zerocopy::IntoBytes;

use super::control::Control;
use super::error::{Doing, EndpointError};
use super::frame::{self, FRAME_HEADERS, Header, LAST, nanos};
use super::timed::monotonic_ns;
use super::udp::SMALLEST_FRAME;

/// The length of a bin of [`StatesSent::held`].
pub const BIN: Span = Span::from_millis(10);

/// What is due for longer is left out. On a machine with few processors a program may not run for
/// some milliseconds though nobody holds it back.
const DEBT: Duration = Duration::from_millis(10);

/// So much later a sender wakes than its next frame is due, and sends all that are due by then:
/// many senders that woke for each frame would take the processors that the switch is measured on.
const COALESCE: Duration = Duration::from_micros(500);

/// How long a frame waits for room before it counts as not sent, and the last one of all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends frames at rates that change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatesSend {
    /// The receivers, and how frames are shared among them.
    pub to: Vec<Towards>,
    /// This sender's number, from 0.
    pub sender: u32,
    /// Bytes a frame, Ethernet header included.
    pub size: u32,
    /// Rates, one after the other.
    pub visits: Vec<Visit>,
    /// How many bytes each socket holds before the sender waits; as many as others do if absent.
    pub room: Option<u32>,
}

/// A receiver, and its share of a sender's frames.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Towards {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its share.
    pub share: f64,
}

/// A rate that is kept for a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// Frames a second.
    pub rate: f64,
    /// How long.
    pub lasts: Span,
}

/// What a sender did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatesSent {
    /// When it began, in nanoseconds of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// Frames that were due.
    pub due: u64,
    /// Frames that its sockets took, without the marked ones.
    pub sent: u64,
    /// Marked frames that its sockets took, at the end one for each receiver.
    pub marked: u64,
    /// Frames that it left out since it had waited for room.
    pub left_out: u64,
    /// Frames that it left out since it did not run when it should have.
    pub late: u64,
    /// Frames that its sockets did not take: there was no room for ten seconds, or an error.
    pub failed: u64,
    /// Of those left out for want of room how many were due in each [`BIN`] since it began.
    pub held: Vec<u32>,
    /// How long it waited for room, in nanoseconds.
    pub blocked_ns: u64,
    /// How long it ran on a processor, its kernel included, in nanoseconds.
    pub busy_ns: u64,
}

impl StatesSent {
    fn leave_out(&mut self, due: Duration, waited: bool) {
        if !waited {
            self.late += 1;
            return;
        }
        self.left_out += 1;
        let bin = (nanos(due) / BIN.as_nanos()) as usize;
        if self.held.len() <= bin {
            self.held.resize(bin + 1, 0);
        }
        self.held[bin] += 1;
    }
}

/// When frames are due after the beginning: each once the rates have made one more.
struct Schedule<'a> {
    visits: std::slice::Iter<'a, Visit>,
    rate: f64,
    /// Up to when frames are counted, and when this visit ends, in seconds.
    at: f64,
    end: f64,
    /// How much of the next frame is made.
    made: f64,
}

impl<'a> Schedule<'a> {
    fn new(visits: &'a [Visit]) -> Self {
        Self { visits: visits.iter(), rate: 0.0, at: 0.0, end: 0.0, made: 0.0 }
    }
}

impl Iterator for Schedule<'_> {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        loop {
            let due = self.at + ((1.0 - self.made) / self.rate).max(0.0);
            if due < self.end {
                (self.at, self.made) = (due, 0.0);
                return Some(Duration::from_secs_f64(due));
            }
            self.made += self.rate * (self.end - self.at);
            let visit = self.visits.next()?;
            self.at = self.end;
            self.end += visit.lasts.as_secs_f64();
            self.rate = visit.rate;
        }
    }
}

/// Whose turn it is among receivers with shares: over time, each has its share of the turns.
struct Turns {
    shares: Vec<f64>,
    credit: Vec<f64>,
}

impl Turns {
    fn new(to: &[Towards]) -> Self {
        let shares: Vec<f64> = to.iter().map(|it| it.share).collect();
        Self { credit: vec![0.0; shares.len()], shares }
    }

    fn next(&mut self) -> usize {
        self.credit.iter_mut().zip(&self.shares).for_each(|(credit, share)| *credit += share);
        let all = self.credit.iter().enumerate();
        let place = all.max_by(|one, other| one.1.total_cmp(other.1)).map_or(0, |(place, _)| place);
        self.credit[place] -= 1.0;
        place
    }
}

/// Sends until all visits are over; then one more to each receiver, marked.
pub fn send(role: &StatesSend, control: &Control) -> Result<StatesSent, EndpointError> {
    let is_rate = |visit: &Visit| visit.rate.is_finite() && visit.rate >= 0.0;
    if role.size < SMALLEST_FRAME || role.to.is_empty() || !role.visits.iter().all(is_rate) {
        return Err(EndpointError::Role(format!(
            "a frame needs {SMALLEST_FRAME} bytes at least, a receiver, and rates of 0 or more"
        )));
    }
    let sockets = role.to.iter().map(|it| socket(it.address, role.room));
    let sockets = sockets.collect::<Result<Vec<UdpSocket>, _>>()?;
    let mut payload = vec![0; (role.size - FRAME_HEADERS) as usize];
    let mut number = 0u64;
    let mut send_one = |socket: &UdpSocket, flags: u32, patience| {
        let (sender, number_now) = (role.sender.into(), number.into());
        let header = Header { sender, flags: flags.into(), number: number_now };
        payload[..size_of::<Header>()].copy_from_slice(header.as_bytes());
        let (is_sent, blocked_ns) = frame::send(socket, &payload, patience);
        number += u64::from(is_sent);
        (u64::from(is_sent), blocked_ns)
    };
    control.ready();

    let mut report = StatesSent { begin_ns: monotonic_ns(), ..StatesSent::default() };
    let (begin, busy) = (Instant::now(), thread_time().as_nanos());
    let mut turns = Turns::new(&role.to);
    let mut waited = false;
    for due in Schedule::new(&role.visits) {
        report.due += 1;
        let now = begin.elapsed();
        if now < due {
            waited = false;
            std::thread::sleep(due - now + COALESCE);
        } else if now - due > DEBT {
            report.leave_out(due, waited);
            continue;
        }
        let (sent, blocked_ns) = send_one(&sockets[turns.next()], 0, begin + due + PATIENCE);
        waited |= blocked_ns > 0;
        report.sent += sent;
        report.failed += 1 - sent;
        report.blocked_ns += blocked_ns;
    }
    for socket in &sockets {
        let (sent, _) = send_one(socket, LAST, Instant::now() + PATIENCE);
        report.marked += sent;
    }
    report.busy_ns = thread_time().as_nanos() - busy;
    let StatesSent { due, sent, left_out, late, failed, .. } = report;
    assert_eq!(due, sent + left_out + late + failed, "each frame that is due has one fate");
    Ok(report)
}

fn socket(to: SocketAddr, room: Option<u32>) -> Result<UdpSocket, EndpointError> {
    let socket = frame::sender(to)?;
    if let Some(room) = room {
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, room as usize)
            .doing("bound what the sender's socket holds")?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(rate: f64, ms: u64) -> Visit {
        Visit { rate, lasts: Span::from_millis(ms) }
    }

    #[test]
    fn frames_are_due_as_the_rates_have_made_them() {
        // In tenths of milliseconds.
        let tenths = |visits: &[Visit]| -> Vec<u64> {
            Schedule::new(visits).map(|due| (due.as_secs_f64() * 1e4).round() as u64).collect()
        };
        // Half a frame is made before the silence, the rest behind it at twice the rate.
        let visits = [visit(100.0, 25), visit(0.0, 50), visit(200.0, 15)];
        assert_eq!(tenths(&visits), [100, 200, 775, 825, 875]);
        assert_eq!(tenths(&[visit(0.0, 1000)]), [0; 0]);
        assert_eq!(tenths(&[]), [0; 0]);
        let count = Schedule::new(&[visit(1000.0, 500), visit(1000.0, 500)]).count();
        assert!((999..=1000).contains(&count), "{count}");
    }

    #[test]
    fn receivers_have_their_shares_of_the_turns() {
        let address = SocketAddr::from(([10, 0, 0, 1], 1));
        let towards = |share| Towards { address, share };
        let turns = |shares: [f64; 2]| {
            let mut turns = Turns::new(&shares.map(towards));
            (0..8).map(|_| turns.next()).collect::<Vec<_>>()
        };
        assert_eq!(turns([0.75, 0.25]).iter().sum::<usize>(), 2);
        assert_eq!(turns([1.0, 0.0]), [0; 8]);
        assert_eq!(turns([0.0, 1.0]), [1; 8]);
    }

    #[test]
    fn what_is_left_out_is_told_by_when_it_was_due() {
        let mut sent = StatesSent::default();
        sent.leave_out(Duration::from_millis(25), true);
        sent.leave_out(Duration::from_millis(29), true);
        sent.leave_out(Duration::from_millis(31), false);
        assert_eq!((sent.left_out, sent.late, sent.held), (2, 1, vec![0, 0, 2]));
    }
}
