//! Several hosts, as people ask for them.

use std::fmt;
use std::iter;
use std::net::IpAddr;
use std::str::FromStr;

use fabric::Buffer;
use model::{ClassKind, Encapsulation, TunnelMode, VtepList};
use serde::{Deserialize, Serialize};
use units::{Bytes, ClassSet, Rate, Span};
use wire::ethernet::TAGGED_LEN;

use super::names::{WIREGUARD, vtep, vtep_by};

/// Hosts that the endpoints are on, each with a switch of its own, and the physical network between
/// them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostsSpec {
    /// How many. Endpoints are spread over them in order, as many on each as on any other or one
    /// less.
    pub count: u32,
    /// Frames are carried between them in tunnels. Without, they cross a `cable` as they are: each
    /// agent has a port there.
    #[serde(default = "yes")]
    pub tunnels: bool,
    /// How many uplinks each host has, each with a `cable` of its own: where one is cut, tunnels go
    /// by another.
    #[serde(default = "one")]
    pub uplinks: u32,
    /// What the tunnels are.
    #[serde(default)]
    pub encapsulation: Encapsulation,
    /// The classes of what is sent again if the physical network drops it; written `true` or
    /// `false` if all or none.
    #[serde(default = "all", with = "model::all_or_some")]
    pub retransmit: ClassSet,
    /// The classes of what a sender sends only as far as its far receiver grants it; written in the
    /// same way.
    #[serde(default = "all", with = "model::all_or_some")]
    pub credit: ClassSet,
    /// The rate that hosts keep their links to, as `[uplink] rate` has it; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Each host grants what others send to it by that rate, as `[uplink] grants` has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grants: bool,
    /// Tunnels are protected by a key that the lab draws, and this is done with packets. Those of a
    /// kernel's bridge go over WireGuard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<TunnelMode>,
    /// The network between them.
    #[serde(default)]
    pub physical: PhysicalSpec,
}

/// A controller that the agents of a lab's hosts follow. There is nothing to say of it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerSpec {}

/// One switch between all hosts, and the links to it. What a bridge cannot do is refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PhysicalSpec {
    /// What the switch is.
    pub switch: PhysicalKind,
    /// What its switches are: one for all hosts, or leaves and spines.
    pub topology: Topology,
    /// How many leaves the hosts are spread over, in order and evenly; 2 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaves: Option<u32>,
    /// How many spines each leaf has a link to; 2 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spines: Option<u32>,
    /// The rate of the links between leaves and spines; the hosts' if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spine_rate: Option<Rate>,
    /// What each of its classes promises: a lossless one pauses who sends too much (PFC).
    pub promise: ClassKind,
    /// The largest packet on its links, in bytes: large enough for those of endpoints with what
    /// tunnels put around them.
    pub mtu: u32,
    /// The links' rate, each way.
    pub rate: Rate,
    /// How long a bit takes on a link.
    pub delay: Span,
    /// The switch's memory for what one host sends.
    pub buffer: Buffer,
    /// Mark what leaves while so much waits behind it; never if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<Bytes>,
    /// How likely a frame is lost on its way, from 0 to 1.
    pub loss: f64,
    /// What is lost is drawn from it.
    pub seed: u64,
    /// Let hosts hand over large segments, which a real network card would cut.
    pub offload: bool,
    /// A cable between two hosts instead of a switch: as fast as they are, of this `mtu`, and
    /// nothing else of this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cable: Option<Cable>,
}

/// What the physical switch is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhysicalKind {
    /// Ours, which does all that is said of it.
    #[default]
    Fabric,
    /// The kernel's bridge with shaped links: of a `rate`, and with a `buffer` of so many bytes
    /// towards each host.
    Bridge,
}

/// How the physical switches are joined.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// One switch, which all hosts are at.
    #[default]
    Star,
    /// Each host is at a leaf, and each leaf has a link to each spine: a flow between leaves goes
    /// by one of the spines (ECMP).
    LeafSpine,
}

/// What becomes of large packets that a host hands to its end of a cable.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cable {
    /// They cross whole, as if both hosts had network cards with every offload.
    #[default]
    Whole,
    /// The sending host's kernel cuts them, so that every packet is one of the MTU, and the
    /// receiving one's joins what it can: as with network cards that cut nothing.
    Cut,
}

impl FromStr for Cable {
    type Err = ParseCableError;

    fn from_str(text: &str) -> Result<Self, ParseCableError> {
        match text {
            "whole" => Ok(Self::Whole),
            "cut" => Ok(Self::Cut),
            _ => Err(ParseCableError(text.into())),
        }
    }
}

impl fmt::Display for Cable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Whole => "whole",
            Self::Cut => "cut",
        })
    }
}

/// Why a word names no cable.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is no cable: write whole or cut")]
pub struct ParseCableError(String);

impl Default for PhysicalSpec {
    fn default() -> Self {
        Self {
            switch: PhysicalKind::Fabric,
            topology: Topology::Star,
            leaves: None,
            spines: None,
            spine_rate: None,
            promise: ClassKind::Lossy,
            mtu: 1600,
            rate: Rate::from_gbit(1),
            delay: Span::from_micros(1),
            buffer: Buffer::default(),
            ecn: None,
            loss: 0.0,
            seed: 1,
            offload: false,
            cable: None,
        }
    }
}

impl PhysicalSpec {
    /// How many leaves and spines there are.
    pub(super) fn leaves_and_spines(&self) -> (u32, u32) {
        (self.leaves.unwrap_or(2), self.spines.unwrap_or(2))
    }

    /// What is wrong with leaves and spines between so many hosts, if anything.
    fn fault_of_topology(&self, hosts: u32) -> Option<String> {
        let (leaves, spines) = self.leaves_and_spines();
        if self.topology == Topology::Star {
            let said = self.leaves.is_some() || self.spines.is_some() || self.spine_rate.is_some();
            return said.then(|| {
                "one switch has no leaves and no spines: write `topology = \"leaf-spine\"`".into()
            });
        }
        if self.cable.is_some() {
            return Some("a `cable` leads to no switch: leave out `topology`".into());
        }
        if leaves == 0 || leaves > hosts {
            return Some(format!(
                "{leaves} leaves cannot share {hosts} hosts: each `leaves` needs one"
            ));
        }
        (!(1..=MOST_SPINES).contains(&spines))
            .then(|| format!("{spines} spines: make it 1 to {MOST_SPINES}"))
    }

    /// What is asked of a bridge that it cannot do, if anything.
    fn fault(&self) -> Option<String> {
        if self.switch == PhysicalKind::Fabric {
            return None;
        }
        let usual = Self::default();
        let longest = self.mtu + TAGGED_LEN as u32;
        let faults = [
            (self.cable.is_some(), "a `cable` leads to no switch: leave out one of the two"),
            (self.topology != Topology::Star, "a bridge is one switch: leave out `topology`"),
            (self.promise == ClassKind::Lossless, "a bridge pauses nobody: make `promise` lossy"),
            (self.ecn.is_some(), "a bridge marks nothing: leave out `ecn`"),
            (self.loss != 0.0, "a bridge loses nothing at random: leave out `loss`"),
            (
                self.delay != usual.delay,
                "a bridge's links have no delay of their own: leave out `delay`",
            ),
            (self.offload, "a bridge's links carry no large segments: leave out `offload`"),
            (
                self.buffer.frames != usual.buffer.frames,
                "a bridge's buffers count bytes: leave out `frames` of `buffer`",
            ),
            (
                self.buffer.bytes.0 < longest.into(),
                "a bridge's buffer has to hold a frame of the `mtu`: raise `bytes` of `buffer`",
            ),
        ];
        let fault = faults.into_iter().find(|(is_so, _)| *is_so);
        fault.map(|(_, what)| format!("{what}, or make `switch` of [hosts.physical] fabric"))
    }
}

impl HostsSpec {
    /// So many hosts of which nothing else is said.
    pub fn new(count: u32) -> Self {
        let encapsulation = Encapsulation::default();
        let physical = PhysicalSpec::default();
        Self {
            count,
            tunnels: true,
            uplinks: 1,
            encapsulation,
            retransmit: all(),
            credit: all(),
            rate: None,
            grants: false,
            key: None,
            physical,
        }
    }

    /// The host of the endpoint at this place among so many, by number from 0.
    pub(crate) fn of(&self, place: usize, endpoints: usize) -> u32 {
        (place as u64 * u64::from(self.count) / endpoints as u64) as u32
    }

    /// A host's addresses in the physical network, by its number from 0.
    pub(crate) fn vteps(&self, host: u32) -> VtepList {
        let rest = (1..self.uplinks).map(|uplink| IpAddr::from(vtep_by(uplink, host)));
        let all: Vec<_> = iter::once(vtep(host).into()).chain(rest).collect();
        all.try_into().expect("there is a first")
    }

    /// What is wrong with it, if anything. `is_kernel`: hosts' switches are the kernel's bridges.
    pub(crate) fn fault(&self, is_kernel: bool, endpoints: usize, mtu: u32) -> Option<String> {
        if self.count == 0 || self.count as usize > endpoints || self.count > 250 {
            return Some(format!(
                "{} hosts cannot share {endpoints} endpoints: make it 1 to 250, and each host needs an endpoint",
                self.count
            ));
        }
        let wants_session = !self.retransmit.is_empty() || !self.credit.is_empty();
        if wants_session && !(self.tunnels && self.encapsulation.has_sessions()) {
            return Some(
                "only `geneve` has a place for `retransmit` and `credit`: set both to false, or leave out \
                 `encapsulation` and `tunnels`"
                    .into(),
            );
        }
        // The kernel's VXLAN goes over WireGuard.
        let may_be_sealed = self.encapsulation == Encapsulation::Geneve || is_kernel;
        if self.key.is_some() && !(self.tunnels && may_be_sealed) {
            return Some(
                "only `geneve` has a place for `key`: leave it out, or leave out `encapsulation` and `tunnels`"
                    .into(),
            );
        }
        if self.rate.is_some() && (is_kernel || !self.tunnels) {
            return Some("only tunnels of zovn keep to a `rate` of [hosts]: leave it out".into());
        }
        if self.grants && (self.rate.is_none() || self.credit.is_empty()) {
            return Some(
                "`grants` of [hosts] needs a `rate` there, and `credit`: declare them, or leave it out"
                    .into(),
            );
        }
        if self.key == Some(TunnelMode::Integrity) && is_kernel {
            return Some("WireGuard encrypts: make `key` of [hosts] encrypt".into());
        }
        if self.physical.cable.is_some() && self.count != 2 {
            return Some(format!("a `cable` has two ends, and there are {} hosts", self.count));
        }
        if !self.tunnels && self.physical.cable.is_none() {
            return Some(
                "without `tunnels` frames cross a cable: give [hosts.physical] a `cable`".into(),
            );
        }
        if !(1..=MOST_UPLINKS).contains(&self.uplinks) {
            return Some(format!("{} uplinks: make it 1 to {MOST_UPLINKS}", self.uplinks));
        }
        if self.uplinks > 1 && !(self.tunnels && self.physical.cable.is_some()) {
            return Some(
                "several `uplinks` are cables with tunnels: give [hosts.physical] a `cable`, and leave out `tunnels`"
                    .into(),
            );
        }
        // A TAP device's most.
        if self.physical.mtu > 65_521 {
            return Some("`mtu` of [hosts.physical] is more than 65521: lower it".into());
        }
        if let Some(fault) =
            self.physical.fault().or_else(|| self.physical.fault_of_topology(self.count))
        {
            return Some(fault);
        }
        let sealed = match (self.key.is_some(), is_kernel) {
            (false, _) => 0,
            (true, false) => seal::OVERHEAD as u32,
            (true, true) => WIREGUARD,
        };
        // Ethernet, Geneve with our option, UDP and IPv4.
        let around = if self.tunnels { 14 + 36 + 8 + 20 + sealed } else { 0 };
        (mtu + around > self.physical.mtu).then(|| {
            format!(
                "packets of {mtu} bytes do not fit between hosts: raise `mtu` of [hosts.physical] to {}",
                mtu + around
            )
        })
    }
}

/// More spines than any lab needs.
const MOST_SPINES: u32 = 16;

/// As many as a host may have.
const MOST_UPLINKS: u32 = 8;

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn all() -> ClassSet {
    ClassSet::ALL
}

#[cfg(test)]
mod tests {
    use units::Class;

    use super::*;

    #[test]
    fn classes_are_all_or_none_or_some() {
        let read = |text: &str| toml::from_str::<HostsSpec>(text);
        let hosts = read("count = 2\nretransmit = [3, 4]\ncredit = false").unwrap();
        assert!(hosts.retransmit.iter().map(Class::pcp).eq([3, 4]) && hosts.credit.is_empty());
        assert_eq!(read("count = 2").unwrap(), HostsSpec::new(2));
        assert_eq!(read(&toml::to_string(&hosts).unwrap()).unwrap(), hosts);
        let error = read("count = 2\nretransmit = [8]").unwrap_err();
        assert!(error.to_string().contains("[3, 4]"), "{error}");
    }

    #[test]
    fn endpoints_are_spread_evenly_and_in_order() {
        let hosts = |count, endpoints| -> Vec<u32> {
            (0..endpoints).map(|place| HostsSpec::new(count).of(place, endpoints)).collect()
        };
        assert_eq!(hosts(2, 4), [0, 0, 1, 1]);
        assert_eq!(hosts(3, 4), [0, 0, 1, 2]);
        assert_eq!(hosts(1, 3), [0, 0, 0]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_to_write_instead() {
        let of = |physical| HostsSpec { physical, ..HostsSpec::new(2) };
        assert_eq!(HostsSpec::new(2).fault(false, 4, 1500), None);
        for (hosts, endpoints, mtu, word) in [
            (HostsSpec::new(0), 4, 1500, "1 to 250"),
            (HostsSpec::new(5), 4, 1500, "each host"),
            (HostsSpec::new(2), 4, 1523, "1601"),
            (of(PhysicalSpec { mtu: u32::MAX, ..PhysicalSpec::default() }), 4, 1500, "65521"),
            (
                HostsSpec { encapsulation: Encapsulation::Vxlan, ..HostsSpec::new(2) },
                4,
                1500,
                "geneve",
            ),
            (HostsSpec { tunnels: false, ..HostsSpec::new(2) }, 4, 1500, "`tunnels`"),
            (
                HostsSpec {
                    encapsulation: Encapsulation::Vxlan,
                    retransmit: ClassSet::NONE,
                    credit: ClassSet::NONE,
                    key: Some(TunnelMode::Encrypt),
                    ..HostsSpec::new(2)
                },
                4,
                1500,
                "`key`",
            ),
            (HostsSpec { grants: true, ..HostsSpec::new(2) }, 4, 1500, "`rate`"),
            (HostsSpec { uplinks: 0, ..HostsSpec::new(2) }, 4, 1500, "1 to 8"),
            (HostsSpec { uplinks: 9, ..HostsSpec::new(2) }, 4, 1500, "1 to 8"),
            (HostsSpec { uplinks: 2, ..HostsSpec::new(2) }, 4, 1500, "`cable`"),
            (
                HostsSpec {
                    tunnels: false,
                    retransmit: ClassSet::NONE,
                    credit: ClassSet::NONE,
                    ..HostsSpec::new(2)
                },
                4,
                1500,
                "`cable`",
            ),
        ] {
            let fault = hosts.fault(false, endpoints, mtu).unwrap();
            assert!(fault.contains(word), "{fault}");
        }
    }

    #[test]
    fn leaves_and_spines_are_checked() {
        let hosts = |text: &str| -> HostsSpec {
            toml::from_str(&format!("count = 4\n[physical]\ntopology = \"leaf-spine\"\n{text}"))
                .unwrap()
        };
        assert_eq!(
            hosts("leaves = 4\nspines = 1\nspine_rate = \"4gbit\"").fault(false, 4, 1500),
            None
        );
        let spines = PhysicalSpec { spines: Some(2), ..PhysicalSpec::default() };
        for (hosts, word) in [
            (hosts("leaves = 5"), "5 leaves"),
            (hosts("leaves = 0"), "0 leaves"),
            (hosts("spines = 0"), "1 to 16"),
            (hosts("spines = 17"), "1 to 16"),
            (HostsSpec { physical: spines, ..HostsSpec::new(4) }, "leaf-spine"),
        ] {
            let fault = hosts.fault(false, 4, 1500).unwrap();
            assert!(fault.contains(word), "{fault}");
        }
    }

    #[test]
    fn what_a_bridge_cannot_do_is_refused() {
        let hosts = |text: &str| -> HostsSpec {
            toml::from_str(&format!("count = 2\n[physical]\nswitch = \"bridge\"\n{text}")).unwrap()
        };
        assert_eq!(
            hosts("rate = \"100mbit\"\nbuffer = { bytes = \"64kb\" }").fault(false, 4, 1500),
            None
        );
        for (text, word) in [
            ("cable = \"cut\"", "`cable`"),
            ("topology = \"leaf-spine\"", "`topology`"),
            ("promise = \"lossless\"", "`promise`"),
            ("ecn = \"100kb\"", "`ecn`"),
            ("loss = 0.1", "`loss`"),
            ("delay = \"5us\"", "`delay`"),
            ("offload = true", "`offload`"),
            ("buffer = { frames = 32 }", "`frames`"),
            ("buffer = { bytes = \"1kb\" }", "`mtu`"),
        ] {
            let fault = hosts(text).fault(false, 4, 1500).unwrap();
            assert!(fault.contains(word) && fault.ends_with("fabric"), "{fault}");
        }
    }
}
