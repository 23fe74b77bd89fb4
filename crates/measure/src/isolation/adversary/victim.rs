//! The network that keeps to its guarantee: what it sends, and what became of that.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use lab::Lab;
use serde::{Deserialize, Serialize};
use units::{Rate, Span};

use super::cast::{CONGESTION, GUARANTEE, VICTIM, WITNESS};
use crate::endpoint::{
    Answer, Answered, Ask, Asked, Order, Role, TcpSend, TcpSent, TcpWatch, TcpWatched,
    TimedReceive, TimedReceived, TimedSend, TimedSent, Timetable,
};
use crate::fleet::{Program, finish_all, start_all};
use crate::isolation::peer::FRAME;
use crate::isolation::tally::{Siege, WINDOW, besieged};
use crate::isolation::{PATIENCE, PORT};
use crate::site::address;
use crate::{Bench, MeasureError};

/// What the victim sends evenly, of its minimum.
const SENT: f64 = 0.95;

/// How many requests a second there are, and the bytes of each one's frame.
const REQUESTS: f64 = 500.0;
const REQUEST: u32 = 1000;

/// What a full segment carries of a frame.
const PAYLOAD: f64 = (FRAME - 14 - 20 - 32) as f64;

/// A stream has its guarantee again once it has so much of it.
const REGAINED: f64 = 0.95;

/// What the victim sends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sends {
    /// Long frames evenly, at 0.95 of its guarantee.
    #[default]
    Cbr,
    /// A request of 1 kB 500 times a second, each answered before the next.
    Request,
    /// A TCP stream, as fast as it goes.
    Tcp,
}

impl Sends {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Cbr, Self::Request, Self::Tcp];

    const fn word(self) -> &'static str {
        match self {
            Self::Cbr => "cbr",
            Self::Request => "request",
            Self::Tcp => "tcp",
        }
    }
}

impl fmt::Display for Sends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Sends {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        Self::ALL.into_iter().find(|one| one.word() == text).ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            MeasureError::Config(format!("no victim sends `{text}`: write one of {words}"))
        })
    }
}

/// What the victim does in a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub sends: Sends,
    /// c: the rate of the link, in bits of long frames.
    pub rate: Rate,
    /// How long it is alone, then beside the others, and then alone again.
    pub times: [Span; 3],
}

/// The victim's two programs.
pub struct Pair {
    plan: Plan,
    victim: Program,
    witness: [Program; 1],
}

/// What became of what it sent.
pub struct Outcome {
    pub siege: Siege,
    /// From when on a stream had its guarantee, after the others began.
    pub regained: Option<Span>,
    pub busy: f64,
    pub duplicates: u64,
}

impl Pair {
    /// Starts both; whoever receives has begun.
    pub fn start(bench: &Bench<'_>, lab: &Lab, plan: Plan) -> Result<Self, MeasureError> {
        let to = address(lab, WITNESS, PORT)?;
        let timetable = plan.timetable();
        let (receives, sends) = match plan.sends {
            Sends::Cbr => (
                Role::TimedReceive(TimedReceive { port: PORT, senders: 1 }),
                Role::TimedSend(TimedSend { to, sender: 0, size: FRAME, timetable }),
            ),
            Sends::Request => (
                Role::Answer(Answer { port: PORT }),
                Role::Ask(Ask { to, size: REQUEST, timetable }),
            ),
            Sends::Tcp => {
                let (congestion, duration) = (CONGESTION.to_owned(), timetable.burst);
                (
                    Role::TcpWatch(TcpWatch { port: PORT, congestion: congestion.clone() }),
                    Role::TcpSend(TcpSend { to, congestion, duration }),
                )
            }
        };
        let mut witness = [Program::start(bench, lab, WITNESS, &receives)?];
        start_all(bench, &mut witness)?;
        let mut victim = Program::start(bench, lab, VICTIM, &sends)?;
        victim.ready(bench)?;
        Ok(Self { plan, victim, witness })
    }

    /// Has it begin to send.
    pub fn begin(&mut self) -> Result<(), MeasureError> {
        self.victim.tell(Order::Start)
    }

    /// Waits for it to come to its end. The others began then, by the one clock.
    pub fn end(mut self, bench: &Bench<'_>, begun: u64) -> Result<Outcome, MeasureError> {
        let Plan { sends, rate, times } = self.plan;
        let timetable = self.plan.timetable();
        let lasts = Duration::from(timetable.burst) + PATIENCE;
        let beside = |begin: u64| {
            let from = begun.saturating_sub(begin);
            from..from + times[1].as_nanos()
        };
        let timed = |sent: &TimedSent, received: &TimedReceived| Outcome {
            siege: besieged(&timetable, sent, received, beside(sent.begin_ns)),
            regained: None,
            busy: sent.busy.max(received.busy),
            duplicates: received.duplicates,
        };
        match sends {
            Sends::Cbr => {
                let sent: TimedSent = self.victim.report(bench, lasts)?;
                finish_all(&mut self.witness)?;
                let received: TimedReceived = self.witness[0].report(bench, PATIENCE)?;
                Ok(timed(&sent, &received))
            }
            Sends::Request => {
                let Asked { sent, received } = self.victim.report(bench, lasts)?;
                finish_all(&mut self.witness)?;
                self.witness[0].report::<Answered>(bench, PATIENCE)?;
                Ok(timed(&sent, &received))
            }
            Sends::Tcp => {
                self.victim.report::<TcpSent>(bench, lasts)?;
                let watched: TcpWatched = self.witness[0].report(bench, PATIENCE)?;
                let guarantee = GUARANTEE * rate.bits_per_sec() as f64;
                let each = guarantee * PAYLOAD / f64::from(FRAME) / 8e9;
                Ok(streamed(&watched, each, beside(watched.begin_ns)))
            }
        }
    }
}

impl Plan {
    /// When the victim sends: all the time.
    fn timetable(&self) -> Timetable {
        let bits = SENT * GUARANTEE * self.rate.bits_per_sec() as f64;
        let rate = match self.sends {
            Sends::Request => REQUESTS,
            Sends::Cbr | Sends::Tcp => bits / f64::from(8 * FRAME),
        };
        let burst = self.times.iter().fold(Span::ZERO, |sum, time| sum + *time);
        Timetable { rate, lead: Span::ZERO, bursts: 1, burst, gap: Span::ZERO }
    }
}

/// What came of a stream beside others in `time`, where its guarantee is so many bytes each
/// nanosecond.
fn streamed(watched: &TcpWatched, each: f64, time: std::ops::Range<u64>) -> Outcome {
    let part = TcpWatched::PART_NS;
    let of = |number: u64| watched.parts.get(number as usize).copied().unwrap_or(0);
    let share = |from: u64| {
        let bytes: u64 = (from..from + WINDOW / part).map(of).sum();
        bytes as f64 / (each * WINDOW as f64)
    };
    let (first, last) = (time.start / part, time.end / part);
    let starts = || (first..last.saturating_sub(WINDOW / part)).step_by((WINDOW / part) as usize);
    // A stream has all of its guarantee, or a part of it; what it has besides tells nothing.
    let windows: Vec<_> = starts().map(|from| Some(share(from).min(1.0))).collect();
    let mean = windows.iter().flatten().sum::<f64>() / windows.len().max(1) as f64;
    // From the last time on that it had less.
    let wholes = first..last.saturating_sub(WINDOW / part);
    let is_short = |from: &u64| share(*from) < REGAINED;
    let regained = wholes.clone().rev().find(is_short).map_or(first, |from| from + 1);
    let regained = Some(regained).filter(|from| wholes.contains(from));
    let siege = Siege {
        alone_ns: Vec::new(),
        beside_ns: Vec::new(),
        sent: 0,
        lost: 0,
        // In millionths of what it is promised.
        due: 1_000_000,
        in_time: (mean * 1e6) as u64,
        windows,
        marked: 0,
    };
    let regained = regained.map(|from| Span::from_nanos((from - first) * part));
    Outcome { siege, regained, busy: 0.0, duplicates: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for sends in Sends::ALL {
            assert_eq!(sends.to_string().parse::<Sends>().unwrap(), sends);
            assert_eq!(serde_json::to_string(&sends).unwrap(), format!("\"{sends}\""));
        }
        let error = "udp".parse::<Sends>().unwrap_err().to_string();
        assert_eq!(error, "no victim sends `udp`: write one of cbr, request, tcp");
    }

    #[test]
    fn a_stream_is_told_by_when_it_had_its_guarantee_for_good() {
        // A byte each nanosecond is promised. It has all for 0.1 s, nothing for 70 ms, and then
        // more than that.
        let part = |number: u64| match number {
            0..10 => 10_000_000,
            10..17 => 0,
            _ => 12_000_000,
        };
        let watched = TcpWatched { begin_ns: 0, parts: (0..100).map(part).collect() };
        let told = streamed(&watched, 1.0, 100_000_000..600_000_000);
        assert_eq!(told.regained, Some(Span::from_millis(60)));
        let starved = TcpWatched { begin_ns: 0, parts: watched.parts[..20].into() };
        assert_eq!(streamed(&starved, 1.0, 100_000_000..600_000_000).regained, None);
        assert_eq!(told.siege.windows[..2], [Some(0.0), Some(0.72)]);
        assert!(told.siege.windows[2..].iter().all(|share| *share == Some(1.0)));
    }
}
