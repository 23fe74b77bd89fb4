//! The switch under test, whichever it is: brought up, and asked what it has counted.

use lab::vhost::{OvsDpdk, Port, Rig, Testpmd, Zovn};
use lab::{DeviceCounters, LabError, SwitchKind};
use model::PortStatus;

use super::clock::Clock;
use super::frames::Kind;
use super::report::Dropped;

/// A switch that runs.
pub enum Switch<'a> {
    Zovn(Zovn),
    OvsDpdk(OvsDpdk),
    Testpmd(Testpmd<'a>),
}

/// What a switch has counted since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Account {
    /// Ticks of the time stamp counter that it was busy.
    pub busy: u64,
    /// The turns that it took, where it counts them.
    pub turns: Option<Turns>,
    /// What it dropped.
    pub dropped: Dropped,
    /// Whether its own books hold, if it keeps any.
    pub balanced: Option<bool>,
}

/// Turns of the switch's thread: each looks at every port once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turns {
    /// All of them.
    pub all: u64,
    /// Those that found nothing.
    pub empty: u64,
}

impl<'a> Switch<'a> {
    /// Huge pages that it takes for itself with so many ports.
    pub fn pages(kind: SwitchKind, ports: usize) -> u64 {
        match kind {
            SwitchKind::OvsDpdk => OvsDpdk::pages(ports),
            SwitchKind::Testpmd => Testpmd::PAGES,
            SwitchKind::Zovn | SwitchKind::ZovnLossy | SwitchKind::Bridge | SwitchKind::Ovs => 0,
        }
    }

    /// Brings it up with these ports, for frames of this kind.
    pub fn up(
        kind: SwitchKind,
        rig: &'a Rig<'_>,
        ports: &[Port],
        frames: Kind,
    ) -> Result<Self, LabError> {
        match (kind, ports) {
            (SwitchKind::OvsDpdk, _) => {
                OvsDpdk::up(rig, ports, frames == Kind::Segment).map(Self::OvsDpdk)
            }
            (SwitchKind::Testpmd, [left, right]) => {
                Testpmd::switch(rig, &[left.clone(), right.clone()]).map(Self::Testpmd)
            }
            (SwitchKind::Zovn | SwitchKind::ZovnLossy, _) => {
                Zovn::up(rig, ports, crate::is_lossless(kind)).map(Self::Zovn)
            }
            (SwitchKind::Testpmd | SwitchKind::Bridge | SwitchKind::Ovs, _) => {
                unreachable!("no such measurement is begun")
            }
        }
    }

    /// Whether each of its ports has its front-end.
    pub fn is_connected(&self) -> Result<bool, LabError> {
        match self {
            Self::Zovn(switch) => switch.is_connected(),
            Self::OvsDpdk(switch) => switch.is_connected(),
            Self::Testpmd(switch) => switch.is_connected(),
        }
    }

    /// What it has counted.
    pub fn account(&mut self, clock: Clock) -> Result<Account, LabError> {
        Ok(match self {
            Self::Zovn(switch) => {
                let status = switch.status()?;
                let refused =
                    |ledger: fn(&PortStatus) -> u64| status.ports.iter().map(ledger).sum::<u64>();
                let egress = refused(|port| port.egress.total.refused_total());
                // Whatever was refused came in somewhere.
                let all = refused(|port| port.ingress.total.refused_total());
                let is_balanced = status.balanced && status.ledger.balances();
                Account {
                    busy: (status.busy_ns as f64 * clock.rate / 1e9) as u64,
                    turns: Some(Turns { all: status.turns, empty: status.empty_turns }),
                    dropped: Dropped { ingress: all.saturating_sub(egress), egress },
                    balanced: Some(is_balanced),
                }
            }
            Self::OvsDpdk(switch) => {
                let ports = switch.ports()?;
                let dropped = dropped(ports.iter().filter_map(|port| port.device));
                let threads = switch.threads()?;
                let turns = Turns { all: threads.turns, empty: threads.empty_turns };
                let (busy, turns) = (threads.processing_cycles, Some(turns));
                Account { busy, turns, dropped, balanced: None }
            }
            Self::Testpmd(switch) => {
                let dropped = dropped(switch.switched()?.into_iter());
                Account { busy: switch.busy_cycles()?, turns: None, dropped, balanced: None }
            }
        })
    }
}

impl Account {
    /// What was counted since `before`.
    pub fn since(self, before: &Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(before.busy),
            turns: self.turns.zip(before.turns).map(|(after, before)| Turns {
                all: after.all.saturating_sub(before.all),
                empty: after.empty.saturating_sub(before.empty),
            }),
            dropped: Dropped {
                ingress: self.dropped.ingress.saturating_sub(before.dropped.ingress),
                egress: self.dropped.egress.saturating_sub(before.dropped.egress),
            },
            balanced: self.balanced,
        }
    }
}

fn dropped(ports: impl Iterator<Item = DeviceCounters>) -> Dropped {
    ports.fold(Dropped::default(), |sum, port| Dropped {
        ingress: sum.ingress + port.rx_dropped,
        egress: sum.egress + port.tx_dropped,
    })
}
