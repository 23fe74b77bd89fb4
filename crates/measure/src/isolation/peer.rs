//! The switches of the isolation experiment, and how each is told what two networks may send.

use std::fmt;
use std::str::FromStr;

use lab::{Lab, SwitchKind};
use serde::{Deserialize, Serialize};
use units::Rate;

use super::set::Set;
use crate::MeasureError;
use crate::site::address;

/// A switch and what isolates networks there.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// The kernel's bridge: one queue for both networks.
    Bridge,
    /// The bridge, with HTB at the port: a class for each network, of its own rate.
    BridgeHtb,
    /// The same with a bucket as deep as one second of the second network's rate, whose class goes
    /// first: how some hardware switches limit rates.
    BridgeBucket,
    /// The bridge, with a bucket at each sender.
    BridgeSender,
    /// Open vSwitch's userspace datapath, with a meter for the second network.
    OvsMeter,
    /// Open vSwitch's userspace datapath, with HTB at the port.
    OvsHtb,
    /// Open vSwitch with DPDK, between virtual machines only.
    OvsDpdkUnshared,
    /// The same, which polices what others than the first network send.
    OvsDpdk,
    /// zovn with every class lossy, so that nobody is told to wait, and without terms.
    ZovnLossyUnshared,
    /// The same with terms.
    ZovnLossy,
    /// zovn without terms.
    ZovnUnshared,
    /// zovn; the second network may not send more than its minimum.
    ZovnMax,
    /// zovn; what the first network leaves is the second one's.
    Zovn,
    /// The same; hosts grant what arrives by the same terms.
    ZovnGranted,
}

/// What zovn is told of both networks where it schedules them: at an uplink.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Terms {
    /// Nothing, nor the link's rate: networks are not told apart.
    None,
    /// What each may send as its minimum.
    Min,
    /// The same, and the second one's as its maximum as well.
    MinAndMax,
}

/// The endpoint at the port where both networks meet.
pub const RECEIVER: &str = "rx";

/// Who sends in each network.
pub const FIRST: &str = "first";
pub const SECOND: &str = "second";

/// Bytes a frame, Ethernet header included.
pub const FRAME: u32 = 1514;

/// Two frames, with what a tag adds: as little as a bucket needs.
const BURST: u32 = 2 * 1518;

impl Peer {
    /// All there are, in the order in which tables show them.
    pub const ALL: [Self; 14] = [
        Self::Bridge,
        Self::BridgeHtb,
        Self::BridgeBucket,
        Self::BridgeSender,
        Self::OvsMeter,
        Self::OvsHtb,
        Self::OvsDpdkUnshared,
        Self::OvsDpdk,
        Self::ZovnLossyUnshared,
        Self::ZovnLossy,
        Self::ZovnUnshared,
        Self::ZovnMax,
        Self::Zovn,
        Self::ZovnGranted,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::BridgeHtb => "bridge-htb",
            Self::BridgeBucket => "bridge-bucket",
            Self::BridgeSender => "bridge-sender",
            Self::OvsMeter => "ovs-meter",
            Self::OvsHtb => "ovs-htb",
            Self::OvsDpdkUnshared => "ovs-dpdk-unshared",
            Self::OvsDpdk => "ovs-dpdk",
            Self::ZovnLossyUnshared => "zovn-lossy-unshared",
            Self::ZovnLossy => "zovn-lossy",
            Self::ZovnUnshared => "zovn-unshared",
            Self::ZovnMax => "zovn-max",
            Self::Zovn => "zovn",
            Self::ZovnGranted => "zovn-granted",
        }
    }

    /// The switch under it.
    pub const fn switch(self) -> SwitchKind {
        match self {
            Self::Bridge | Self::BridgeHtb | Self::BridgeBucket | Self::BridgeSender => {
                SwitchKind::Bridge
            }
            Self::OvsMeter | Self::OvsHtb => SwitchKind::Ovs,
            Self::OvsDpdkUnshared | Self::OvsDpdk => SwitchKind::OvsDpdk,
            Self::ZovnLossyUnshared | Self::ZovnLossy => SwitchKind::ZovnLossy,
            Self::ZovnUnshared | Self::ZovnMax | Self::Zovn | Self::ZovnGranted => SwitchKind::Zovn,
        }
    }

    /// Whether it is zovn, whatever that is told.
    pub(super) const fn is_zovn(self) -> bool {
        matches!(self.switch(), SwitchKind::ZovnLossy | SwitchKind::Zovn)
    }

    /// Whether virtual machines can be plugged into it, and it is told of nothing but them.
    pub(super) const fn has_rings(self) -> bool {
        matches!(
            self,
            Self::OvsDpdkUnshared
                | Self::OvsDpdk
                | Self::ZovnLossyUnshared
                | Self::ZovnLossy
                | Self::ZovnUnshared
                | Self::Zovn
        )
    }

    /// What it is told at an uplink.
    pub(super) const fn terms(self) -> Terms {
        match self {
            Self::ZovnLossy | Self::Zovn | Self::ZovnGranted => Terms::Min,
            Self::ZovnMax => Terms::MinAndMax,
            _ => Terms::None,
        }
    }

    /// Whether hosts grant what arrives.
    pub(super) fn grants(self) -> bool {
        self == Self::ZovnGranted
    }

    /// Tells the switch of `lab`, whose port has `rate` and holds `buffer` frames, what both
    /// networks may send.
    pub(super) fn isolate(
        self,
        lab: &Lab,
        set: Set,
        rate: Rate,
        buffer: u32,
    ) -> Result<(), MeasureError> {
        let [first, second] = [Set::BETA1, set.beta2_limit()].map(|share| Set::of(share, rate));
        match self {
            Self::Bridge
            | Self::OvsDpdkUnshared
            | Self::OvsDpdk
            | Self::ZovnLossyUnshared
            | Self::ZovnLossy
            | Self::ZovnUnshared
            | Self::ZovnMax
            | Self::Zovn
            | Self::ZovnGranted => Ok(()),
            Self::BridgeHtb | Self::OvsHtb => {
                let first = Class { rate: first, most: rate, first: true, burst: BURST, buffer };
                let second =
                    Class { rate: second, most: second, first: false, burst: BURST, buffer };
                classes(lab, rate, first, second)
            }
            Self::BridgeBucket => {
                let deep = u32::try_from(second.bits_per_sec() / 8).unwrap_or(u32::MAX);
                let first =
                    Class { rate: first, most: rate, first: false, burst: BURST, buffer: 16 };
                let second = Class { rate: second, most: second, first: true, burst: deep, buffer };
                classes(lab, rate, first, second)
            }
            Self::BridgeSender => {
                for (endpoint, rate) in [(FIRST, first), (SECOND, second)] {
                    let bucket = format!(
                        "qdisc replace dev eth0 root tbf rate {} burst {BURST} limit {}",
                        bits(rate),
                        u64::from(buffer) * u64::from(FRAME)
                    );
                    lab.run_in(endpoint, "tc", &words(&bucket))?;
                }
                Ok(())
            }
            Self::OvsMeter => {
                let kbits = second.bits_per_sec() / 1000;
                // Open vSwitch fills it in whole milliseconds.
                let burst = u64::from(BURST * 8).div_ceil(1000) + kbits / 100;
                let meter =
                    format!("meter=1,kbps,burst,band=type=drop,rate={kbits},burst_size={burst}");
                lab.open_flow("add-meter", &meter)?;
                let metered = format!("in_port={SECOND},priority=10,actions=meter:1,normal");
                Ok(lab.open_flow("add-flow", &metered)?)
            }
        }
    }
}

/// What HTB is told of a network.
#[derive(Clone, Copy)]
struct Class {
    /// What it has for certain.
    rate: Rate,
    /// What it may have.
    most: Rate,
    /// Whether it goes before the other.
    first: bool,
    /// How many bytes it may send at once after a rest.
    burst: u32,
    /// How many frames wait.
    buffer: u32,
}

/// Puts a class for each network inside the bucket that stands for the port's wire. HTB alone is no
/// wire: what classes send below their own rates passes whatever their parent's is.
fn classes(lab: &Lab, wire: Rate, first: Class, second: Class) -> Result<(), MeasureError> {
    let tc = |line: &str| lab.run_at_switch("tc", &words(line)).map(drop);
    let class = |parent: &str, id: &str, class: &Class| {
        let Class { rate, most, first, burst, .. } = *class;
        let (rate, most) = (bits(rate), bits(most));
        let order = u32::from(!first);
        tc(&format!(
            "class add dev {RECEIVER} parent {parent} classid {id} htb rate {rate} ceil {most} \
             burst {burst} cburst {burst} prio {order} quantum {FRAME}"
        ))
    };
    tc(&format!("qdisc replace dev {RECEIVER} parent 1:1 handle 3: htb default 10"))?;
    let whole = Class { rate: wire, most: wire, first: true, burst: BURST, buffer: 0 };
    class("3:", "3:1", &whole)?;
    for (endpoint, minor, one) in [(FIRST, 10, first), (SECOND, 20, second)] {
        let id = format!("3:{minor}");
        class("3:1", &id, &one)?;
        tc(&format!(
            "qdisc add dev {RECEIVER} parent {id} handle {minor}: pfifo limit {}",
            one.buffer
        ))?;
        let from = address(lab, endpoint, 0)?.ip();
        tc(&format!(
            "filter add dev {RECEIVER} parent 3: protocol ip prio 1 u32 match ip src {from}/32 \
             flowid {id}"
        ))?;
    }
    Ok(())
}

fn words(line: &str) -> Vec<&str> {
    line.split_ascii_whitespace().collect()
}

/// A rate as `tc` reads it.
fn bits(rate: Rate) -> String {
    format!("{}bit", rate.bits_per_sec())
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Peer {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        Self::ALL.into_iter().find(|peer| peer.word() == text).ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            MeasureError::Config(format!("`{text}` is no switch here: write one of {words}"))
        })
    }
}
