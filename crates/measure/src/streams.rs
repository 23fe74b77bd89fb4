//! TCP streams to one receiver or several, all at the same time: half of `throughput`, and what
//! `tunnel` carries.

use std::time::Duration;

use lab::Lab;
use units::Span;

use crate::endpoint::{Order, Repairs, Role, TcpReceive, TcpReceived, TcpSend, TcpSent};
use crate::environment::busy_ns;
use crate::fleet::Program;
use crate::site::address;
use crate::{Bench, MeasureError};

/// The receiver's port.
const PORT: u16 = 5004;

/// How long a program may take to report after its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Streams between endpoints of a lab.
pub struct Streams<'a> {
    /// The endpoint of each stream's sender.
    pub senders: &'a [String],
    /// The endpoints of the receivers, which senders send to in turn.
    pub receivers: &'a [&'a str],
    /// TCP's congestion control.
    pub congestion: &'a str,
    /// How long each sends.
    pub duration: Span,
    /// The length of the parts of the time whose bytes receivers count apart, if they do.
    pub part: Option<Span>,
}

/// What streams carried.
pub struct Streamed {
    /// What the receivers saw.
    pub received: TcpReceived,
    /// What all senders did about losses.
    pub repairs: Repairs,
    /// How long each sender ran on a processor, in nanoseconds.
    pub senders_busy_ns: Vec<u64>,
    /// How long all processors of this machine were busy meanwhile.
    pub busy_ns: u64,
}

impl Streams<'_> {
    /// Runs all streams.
    pub fn run(&self, bench: &Bench<'_>, lab: &Lab) -> Result<Streamed, MeasureError> {
        self.run_while(bench, lab, || Ok(())).map(|(streamed, ())| streamed)
    }

    /// As [`run`](Self::run), and does something once the senders were started.
    pub fn run_while<T>(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        meanwhile: impl FnOnce() -> Result<T, MeasureError>,
    ) -> Result<(Streamed, T), MeasureError> {
        let congestion = || self.congestion.to_owned();
        let mut receiving = Vec::new();
        for (place, receiver) in self.receivers.iter().enumerate() {
            let flows = (place..self.senders.len()).step_by(self.receivers.len()).count() as u32;
            let (port, part) = (PORT, self.part);
            let role = TcpReceive { port, flows, congestion: congestion(), part };
            receiving.push(Program::start(bench, lab, receiver, &Role::TcpReceive(role))?);
        }
        receiving.iter_mut().try_for_each(|program| program.ready(bench))?;
        let mut senders = Vec::new();
        for (sender, receiver) in self.senders.iter().zip(self.receivers.iter().cycle()) {
            let to = address(lab, receiver, PORT)?;
            let role = TcpSend { to, congestion: congestion(), duration: self.duration };
            senders.push(Program::start(bench, lab, sender, &Role::TcpSend(role))?);
        }
        senders.iter_mut().try_for_each(|program| program.ready(bench))?;
        let busy_before = busy_ns()?;
        senders.iter_mut().try_for_each(|program| program.tell(Order::Start))?;
        let done = meanwhile()?;
        let mut repairs = Repairs::default();
        let mut senders_busy_ns = Vec::new();
        for program in &mut senders {
            let sent: TcpSent = program.report(bench, PATIENCE + Duration::from(self.duration))?;
            repairs += sent.repairs;
            senders_busy_ns.push(sent.busy_ns);
        }
        let mut received = TcpReceived::default();
        for program in &mut receiving {
            received = received.and(program.report(bench, PATIENCE)?);
        }
        let busy_ns = busy_ns()?.saturating_sub(busy_before);
        Ok((Streamed { received, repairs, senders_busy_ns, busy_ns }, done))
    }
}
