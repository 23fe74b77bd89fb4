//! Experiment 1 (zOVN §2.3, figures 1 and 2): senders flood one receiver; what is lost, and where.

use lab::SwitchKind;
use model::LedgerStatus;
use serde::{Deserialize, Serialize};
use units::Span;

use crate::endpoint::SMALLEST_FRAME;
use crate::flood::{self, Flood, Flooded, Sum};
use crate::losses::{both_hold, sum_ledgers};
use crate::points::{LostAt, SeenAt};
use crate::stats::worst_fairness;
use crate::{Bench, Environment, MeasureError, Measurement, check_switches};

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The switches to compare.
    pub switches: Vec<SwitchKind>,
    /// How many senders.
    pub senders: u32,
    /// How long they send, in each round.
    pub duration: Span,
    /// Frames a second that the receiving program takes; as fast as it can if absent.
    pub receiver_rate: Option<f64>,
    /// Bytes a frame, Ethernet header included, without checksum.
    pub size: u32,
    /// How often each switch has its turn.
    pub rounds: u32,
}

/// What one switch did, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// The switch.
    pub switch: SwitchKind,
    /// Frames that the senders' sockets accepted.
    pub sent: u64,
    /// Frames that the receiving program read, each once.
    pub received: u64,
    /// The difference.
    pub lost: u64,
    /// `lost` over `sent`.
    pub loss_ratio: f64,
    /// Where frames were lost, at the six points of zOVN's figure 1.
    pub lost_at: LostAt,
    /// How many frames each point saw.
    pub seen_at: SeenAt,
    /// Frames that came after a later one of their sender.
    pub out_of_order: u64,
    /// Frames that came again.
    pub duplicates: u64,
    /// How long frames arrived, in seconds, all rounds together.
    pub duration_s: f64,
    /// What the receiving program read, in 10⁹ bits of frames a second; none if that was less than
    /// two frames.
    pub rx_gbps: Option<f64>,
    /// The share of their time that senders waited in `sendto`: back-pressure, as they feel it.
    pub sender_blocked: f64,
    /// Jain's index of the senders' shares, the worst of any second; none if the run was too short.
    pub fairness: Option<f64>,
    /// The switch's own account, where it keeps one.
    pub ledger: Option<LedgerStatus>,
    /// Whether the switch's own account held, port by port and class by class; none where it keeps
    /// none.
    pub balanced: Option<bool>,
}

/// The whole experiment.
pub type Report = Measurement<Config, Loss>;

/// Makes the experiment.
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    check_switches(&config.switches, &SwitchKind::OF_CONTAINERS, "containers")?;
    if config.senders == 0 || config.rounds == 0 || config.duration == Span::ZERO {
        return Err(MeasureError::Config("a flood needs a sender, a round and some time".into()));
    }
    check_size(config.size)?;
    let environment = Environment::look();
    let mut losses: Vec<(Loss, Sum)> =
        config.switches.iter().map(|switch| (Loss::new(*switch), Sum::default())).collect();
    bench.progress.begin(config.switches.len() * config.rounds as usize);
    let flood = Flood {
        duration: config.duration,
        size: config.size,
        rate: None,
        pace: config.receiver_rate,
    };
    for _ in 0..config.rounds {
        for (loss, sum) in &mut losses {
            bench
                .step(&format!("{}: {} senders flood one receiver", loss.switch, config.senders))?;
            let lab = flood::lab(bench, loss.switch, config.senders)?;
            let flooded = flood.run(bench, &lab, config.senders)?;
            sum.add(&flooded.sent, &flooded.received);
            loss.add(flooded, config.duration);
        }
    }
    let results = losses.into_iter().map(|(loss, sum)| loss.conclude(&sum, config.size)).collect();
    Ok(Measurement::new("loss", environment, config, results))
}

/// Refuses frames that a plain Ethernet does not carry or that our header does not fit.
pub fn check_size(size: u32) -> Result<(), MeasureError> {
    if (SMALLEST_FRAME..=LARGEST_FRAME).contains(&size) {
        return Ok(());
    }
    Err(MeasureError::Config(format!(
        "a frame of {size} bytes is not one that we send: choose {SMALLEST_FRAME} to {LARGEST_FRAME}"
    )))
}

/// An Ethernet header and a packet of 1500 bytes.
const LARGEST_FRAME: u32 = 1514;

impl Loss {
    fn new(switch: SwitchKind) -> Self {
        Self {
            switch,
            sent: 0,
            received: 0,
            lost: 0,
            loss_ratio: 0.0,
            lost_at: LostAt::default(),
            seen_at: SeenAt::default(),
            out_of_order: 0,
            duplicates: 0,
            duration_s: 0.0,
            rx_gbps: None,
            sender_blocked: 0.0,
            fairness: None,
            ledger: None,
            balanced: None,
        }
    }

    /// One more round.
    fn add(&mut self, flooded: Flooded, duration: Span) {
        self.seen_at += flooded.seen;
        self.out_of_order += flooded.received.out_of_order;
        self.duplicates += flooded.received.duplicates;
        self.balanced = both_hold(self.balanced, flooded.losses.balanced);
        if let Some(ledger) = flooded.ledger {
            sum_ledgers(self.ledger.get_or_insert_default(), ledger);
        }
        let fairness = fairness(&flooded.received.bins, duration);
        self.fairness = [self.fairness, fairness].into_iter().flatten().min_by(f64::total_cmp);
    }

    fn conclude(mut self, sum: &Sum, size: u32) -> Self {
        self.sent = self.seen_at.sender_socket;
        self.received = self.seen_at.receiver_socket;
        self.lost = self.sent.saturating_sub(self.received);
        self.loss_ratio = self.lost as f64 / self.sent.max(1) as f64;
        self.lost_at = self.seen_at.lost_at();
        self.duration_s = sum.arriving_s();
        self.rx_gbps = sum.rx_fps().map(|fps| gbps(fps, size));
        self.sender_blocked = sum.blocked();
        self
    }
}

/// Frames of `size` bytes a second in 10⁹ bits a second.
pub fn gbps(fps: f64, size: u32) -> f64 {
    fps * f64::from(size) * 8.0 / 1e9
}

/// The worst fairness of any second in which all senders were sending: the first and the last bin
/// are cut short by senders that begin and end some milliseconds apart.
fn fairness(bins: &[Vec<u32>], duration: Span) -> Option<f64> {
    const BINS_A_SECOND: usize = 10;
    let whole = (duration.as_secs_f64() * BINS_A_SECOND as f64) as usize;
    let end = whole.min(bins.len()).checked_sub(1)?;
    worst_fairness(bins.get(1..end)?, BINS_A_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_flood_do_not_count_as_unfair() {
        let mut bins = vec![vec![100, 100]; 20];
        bins[0] = vec![100, 0];
        bins[19] = vec![0, 100];
        bins.push(vec![0, 1]);
        assert_eq!(fairness(&bins, Span::from_secs(2)), Some(1.0));
        assert_eq!(fairness(&bins, Span::from_millis(900)), None);
        assert_eq!(fairness(&[], Span::from_secs(2)), None);
    }

    #[test]
    fn frames_too_small_for_a_header_are_refused() {
        assert!(check_size(SMALLEST_FRAME - 1).is_err());
        assert!(check_size(1514).is_ok());
        assert!(check_size(1515).is_err());
    }
}
