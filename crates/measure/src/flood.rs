//! Senders that flood one receiver, or several, with UDP frames: what `loss` and `ramp` are made
//! of, and half of `throughput`.

use std::time::Duration;

use lab::{Lab, LabSpec, SwitchKind};
use model::LedgerStatus;
use units::Span;

use crate::endpoint::{Order, Role, UdpReceive, UdpReceived, UdpSend, UdpSent};
use crate::fleet::{Program, finish_all, start_all};
use crate::losses::{Losses, settled};
use crate::points::SeenAt;
use crate::site::{address, quiet_endpoint, raise};
use crate::{Bench, MeasureError};

pub const RECEIVER: &str = "rx";
const PORT: u16 = 5001;

/// How long a program may take to report after it was told to end, or after its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// One flood.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// How long.
    pub duration: Span,
    /// Bytes a frame, Ethernet header included.
    pub size: u32,
    /// What each sender aims at, in frames a second; as fast as it can if absent.
    pub rate: Option<f64>,
    /// What the receiver takes, in frames a second; as fast as it can if absent.
    pub pace: Option<f64>,
}

/// What became of it.
pub struct Flooded {
    pub sent: Vec<UdpSent>,
    pub received: UdpReceived,
    pub seen: SeenAt,
    pub losses: Losses,
    /// The switch's own account since its lab came up, where it keeps one.
    pub ledger: Option<LedgerStatus>,
}

/// What programs counted in several floods.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    senders: u32,
    sent: u64,
    received: u64,
    /// How long senders sent and how long of it they were blocked, each counted.
    sending_ns: u64,
    blocked_ns: u64,
    /// How long datagrams arrived.
    arriving_ns: u64,
}

impl Sum {
    /// One more flood.
    pub fn add(&mut self, sent: &[UdpSent], received: &UdpReceived) {
        self.senders = sent.len() as u32;
        for one in sent {
            self.sent += one.sent;
            self.sending_ns += one.elapsed_ns;
            self.blocked_ns += one.blocked_ns;
        }
        self.received += received.received;
        self.arriving_ns += received.elapsed_ns;
    }

    /// What all senders sent together, in frames a second.
    pub fn sent_fps(&self) -> f64 {
        f64::from(self.senders) * self.sent as f64 / (self.sending_ns.max(1) as f64 / 1e9)
    }

    /// What arrived, in frames a second; none if no time passed between the first datagram and the
    /// last.
    pub fn rx_fps(&self) -> Option<f64> {
        (self.arriving_ns > 0).then(|| self.received as f64 / self.arriving_s())
    }

    /// How long datagrams arrived, in seconds.
    pub fn arriving_s(&self) -> f64 {
        self.arriving_ns as f64 / 1e9
    }

    /// The share of their time that senders waited for room.
    pub fn blocked(&self) -> f64 {
        self.blocked_ns as f64 / self.sending_ns.max(1) as f64
    }
}

/// A lab with `senders` senders and one receiver.
pub fn lab(bench: &Bench<'_>, switch: SwitchKind, senders: u32) -> Result<Lab, MeasureError> {
    let names = std::iter::once(RECEIVER.to_owned()).chain((1..=senders).map(sender));
    let mut spec = LabSpec::new(format!("measure-{}", std::process::id()), switch);
    spec.offload = false;
    for (number, name) in (1..).zip(names) {
        spec.endpoints.push(quiet_endpoint(name, number)?);
    }
    raise(bench, &spec)
}

impl Flood {
    /// Makes the flood in a lab of [`lab`] with as many `senders`.
    pub fn run(&self, bench: &Bench<'_>, lab: &Lab, senders: u32) -> Result<Flooded, MeasureError> {
        self.run_while(bench, lab, senders, || Ok(())).map(|(flooded, ())| flooded)
    }

    /// As [`run`](Self::run), and does something once the senders were started.
    pub fn run_while<T>(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        senders: u32,
        meanwhile: impl FnOnce() -> Result<T, MeasureError>,
    ) -> Result<(Flooded, T), MeasureError> {
        self.run_to(bench, lab, &[RECEIVER], senders, meanwhile)
    }

    /// The same to several receivers, which senders send to in turn.
    pub fn run_to<T>(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        receivers: &[&str],
        senders: u32,
        meanwhile: impl FnOnce() -> Result<T, MeasureError>,
    ) -> Result<(Flooded, T), MeasureError> {
        let count = receivers.len() as u32;
        let mut receiving = Vec::new();
        for (place, receiver) in (0..count).zip(receivers) {
            let senders = (place..senders).step_by(receivers.len()).count() as u32;
            let role = UdpReceive { port: PORT, senders, pace: self.pace };
            receiving.push(Program::start(bench, lab, receiver, &Role::UdpReceive(role))?);
        }
        let mut sending = Vec::new();
        for (number, receiver) in (0..senders).zip(receivers.iter().cycle()) {
            let Self { size, rate, duration, .. } = *self;
            let to = address(lab, receiver, PORT)?;
            // A receiver numbers its own senders.
            let role = UdpSend { to, sender: number / count, size, rate, duration };
            sending.push(Program::start(bench, lab, &sender(number + 1), &Role::UdpSend(role))?);
        }
        for program in &mut sending {
            program.ready(bench)?;
        }
        let before = settled(lab)?;
        start_all(bench, &mut receiving)?;
        sending.iter_mut().try_for_each(|program| program.tell(Order::Start))?;
        let done = meanwhile()?;
        let mut sent: Vec<UdpSent> = Vec::new();
        for program in &mut sending {
            sent.push(program.report(bench, PATIENCE + Duration::from(self.duration))?);
        }
        finish_all(&mut receiving)?;
        let mut reports: Vec<UdpReceived> = Vec::new();
        for program in &mut receiving {
            reports.push(program.report(bench, PATIENCE)?);
        }
        let received = reports.into_iter().reduce(together).unwrap_or_default();
        let after = settled(lab)?;
        let sockets = (sent.iter().map(|sent| sent.sent).sum(), received.received);
        let seen = SeenAt::between(sockets, receivers, &before, &after);
        let losses = Losses::between(&before, &after);
        let ledger = after.agents.into_iter().next().map(|agent| agent.ledger);
        Ok((Flooded { sent, received, seen, losses, ledger }, done))
    }
}

/// What two receivers saw. Their bins begin at different moments, and are left out.
fn together(one: UdpReceived, other: UdpReceived) -> UdpReceived {
    UdpReceived {
        received: one.received + other.received,
        duplicates: one.duplicates + other.duplicates,
        out_of_order: one.out_of_order + other.out_of_order,
        marks: one.marks + other.marks,
        elapsed_ns: one.elapsed_ns.max(other.elapsed_ns),
        longest_silence_ns: one.longest_silence_ns.max(other.longest_silence_ns),
        busy_ns: one.busy_ns.max(other.busy_ns),
        bins: Vec::new(),
    }
}

pub fn sender(number: u32) -> String {
    format!("tx{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_that_wait_longer_than_frames_arrive_wait_for_their_own_share() {
        let mut sum = Sum::default();
        let sent = |blocked_ns| UdpSent {
            sent: 10,
            blocked_ns,
            elapsed_ns: 4_000_000_000,
            ..UdpSent::default()
        };
        let received =
            UdpReceived { received: 20, elapsed_ns: 1_000_000_000, ..Default::default() };
        sum.add(&[sent(1_000_000_000), sent(3_000_000_000)], &received);
        assert_eq!((sum.blocked(), sum.sent_fps(), sum.rx_fps()), (0.5, 5.0, Some(20.0)));
    }

    #[test]
    fn one_datagram_has_no_rate() {
        let mut sum = Sum::default();
        sum.add(&[UdpSent::default()], &UdpReceived { received: 1, ..Default::default() });
        assert_eq!(sum.rx_fps(), None);
    }
}
