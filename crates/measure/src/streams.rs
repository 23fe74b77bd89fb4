//! TCP streams to one receiver, all at the same time: half of `throughput`, and what `tunnel`
//! carries.

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
    /// The endpoint of the receiver.
    pub receiver: &'a str,
    /// TCP's congestion control.
    pub congestion: &'a str,
    /// How long each sends.
    pub duration: Span,
}

/// What streams carried.
pub struct Streamed {
    /// What the receiver saw.
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
        let flows = self.senders.len() as u32;
        let role = Role::TcpReceive(TcpReceive { port: PORT, flows, congestion: congestion() });
        let mut receiver = Program::start(bench, lab, self.receiver, &role)?;
        receiver.ready(bench)?;
        let to = address(lab, self.receiver, PORT)?;
        let role = TcpSend { to, congestion: congestion(), duration: self.duration };
        let role = Role::TcpSend(role);
        let senders = self.senders.iter().map(|sender| Program::start(bench, lab, sender, &role));
        let mut senders = senders.collect::<Result<Vec<_>, _>>()?;
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
        let received = receiver.report(bench, PATIENCE)?;
        let busy_ns = busy_ns()?.saturating_sub(busy_before);
        Ok((Streamed { received, repairs, senders_busy_ns, busy_ns }, done))
    }
}
