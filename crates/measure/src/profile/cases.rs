//! What is measured: which switch, on which way, around which frames, on how many processors.

use std::fmt;
use std::str::FromStr;

use lab::{Cable, EndpointSpec, HostsSpec, LabSpec, PhysicalKind, PhysicalSpec, SwitchKind};
use serde::{Deserialize, Serialize};
use units::{Bytes, Rate};

use crate::MeasureError;
use crate::flood::{RECEIVER, sender};
use crate::site::quiet_endpoint;
use crate::words::one_of;

/// The MTU of the link, in bytes: room for packets of 1500, and for what any tunnel puts around
/// them.
const LINK_MTU: u32 = 1640;

/// The receiver's host and the senders', by their numbers from 1, where one is far.
pub const FAR: u32 = 1;
pub const NEAR: u32 = 2;

/// The rate of links to a bridge between hosts, in 10⁹ bits a second. A lab's links to one are
/// shaped: this is more than a processor carries.
const LINK_GBIT: u64 = 100;

/// What a bridge between hosts holds for each of them: what comes in while a program waits for a
/// processor.
const LINK_BUFFER: Bytes = Bytes(4 << 20);

/// Where frames go.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From one endpoint to another of the same host.
    Host,
    /// By the link to another host, or several. All hosts are on this machine, so its processors do
    /// the work of all.
    Link,
}

/// What is between hosts.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Underlay {
    /// A cable between two.
    Cable,
    /// The kernel's bridge between all, which takes processors' time as well.
    Bridge,
}

/// What is put around frames on the link.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tunnel {
    /// Nothing: they cross as they are.
    None,
    /// VXLAN (RFC 7348).
    Vxlan,
    /// Geneve (RFC 8926), with credit and repair: nothing is lost.
    Geneve,
    /// GRE with a key (RFC 2890), which of zovn is NVGRE (RFC 7637).
    Gre,
}

/// What is carried.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// UDP frames of one size, one `sendto` each.
    Frames,
    /// TCP streams.
    Stream,
}

impl Way {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Host, Self::Link];
}

impl Tunnel {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::None, Self::Vxlan, Self::Geneve, Self::Gre];
    /// Those that hosts of today have among them.
    pub const USUAL: [Self; 3] = [Self::None, Self::Vxlan, Self::Geneve];
    /// The paper's.
    pub const PAPER: [Self; 3] = [Self::None, Self::Vxlan, Self::Gre];
}

impl Load {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Frames, Self::Stream];
}

/// A switch and a way through it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Case {
    pub switch: SwitchKind,
    pub way: Way,
    pub tunnel: Tunnel,
    /// How many other hosts frames go to; none within the host.
    pub far: u32,
    /// What is between hosts; none within the host.
    pub underlay: Option<Underlay>,
    /// How many processors all of it is confined to.
    pub cores: u32,
}

/// What cases are made of.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    pub switches: &'a [SwitchKind],
    pub ways: &'a [Way],
    pub tunnels: &'a [Tunnel],
    /// Numbers of far hosts.
    pub far: &'a [u32],
    /// Numbers of processors.
    pub cores: &'a [u32],
}

/// What one entry of a profile carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum What {
    /// UDP frames of so many bytes.
    Frames(u32),
    /// TCP streams, whose endpoints hand over large segments or do not.
    Stream { offload: bool },
}

impl What {
    pub fn load(self) -> Load {
        match self {
            Self::Frames(_) => Load::Frames,
            Self::Stream { .. } => Load::Stream,
        }
    }

    /// Whether large segments and unfinished checksums reach the switch.
    pub fn offload(self) -> bool {
        self == Self::Stream { offload: true }
    }
}

impl Case {
    /// All that these switches can do of it, in this order.
    pub fn all(choice: &Choice<'_>) -> Vec<Self> {
        let Choice { switches, ways, tunnels, far, cores } = *choice;
        // One far host is compared with several: by the same links.
        let is_joined = far.iter().any(|count| *count > 1);
        let mut cases = Vec::new();
        for &switch in switches {
            let (tunnel, way) = (Tunnel::None, Way::Host);
            let within = Self { switch, way, tunnel, far: 0, underlay: None, cores: 0 };
            let mut places = Vec::new();
            if ways.contains(&Way::Host) {
                places.push(within);
            }
            if ways.contains(&Way::Link) {
                let link = tunnels.iter().flat_map(|tunnel| {
                    far.iter().map(move |far| {
                        let way = Self { way: Way::Link, tunnel: *tunnel, far: *far, ..within };
                        let joins = is_joined && way.joins_several();
                        let underlay = Some(if joins { Underlay::Bridge } else { Underlay::Cable });
                        Self { underlay, ..way }
                    })
                });
                places.extend(link.filter(Self::can_be));
            }
            let on = |place: Self| cores.iter().map(move |cores| Self { cores: *cores, ..place });
            cases.extend(places.into_iter().flat_map(on));
        }
        cases
    }

    fn can_be(&self) -> bool {
        let has_tunnel = match self.switch {
            SwitchKind::Zovn => true,
            // A port of its own to the other host would have to promise nothing either.
            SwitchKind::ZovnLossy => self.tunnel != Tunnel::None,
            // Geneve of a lab is zovn's.
            SwitchKind::Ovs => self.tunnel != Tunnel::Geneve,
            _ => matches!(self.tunnel, Tunnel::None | Tunnel::Vxlan),
        };
        has_tunnel && (self.far == 1 || self.joins_several())
    }

    /// Whether a lab has more than two hosts with this switch: their frames cross in tunnels of
    /// zovn.
    fn joins_several(&self) -> bool {
        matches!(self.switch, SwitchKind::Zovn | SwitchKind::ZovnLossy)
            && self.tunnel != Tunnel::None
    }

    /// The endpoints that frames go to: one, or one on each far host.
    pub fn receivers(&self) -> Vec<String> {
        let others = (2..=self.far).map(|number| format!("{RECEIVER}{number}"));
        std::iter::once(RECEIVER.to_owned()).chain(others).collect()
    }

    /// Whether large segments reach this switch where endpoints hand them over.
    pub fn takes_segments(&self) -> bool {
        // Its packet sockets would pass on neither segments nor unfinished checksums.
        self.switch != SwitchKind::Ovs
    }

    /// A lab with so many senders, and a receiver or one on each far host.
    pub fn lab(&self, senders: u32, offload: bool) -> Result<LabSpec, MeasureError> {
        // Receivers are on the first hosts, senders on the one behind them.
        let receivers = self.receivers().into_iter().zip(1..);
        let senders = (1..=senders).map(|number| (sender(number), self.far + 1));
        self.lab_of(receivers.chain(senders), offload)
    }

    /// A lab with these endpoints, each at its host if there are several.
    pub fn lab_of(
        &self,
        endpoints: impl IntoIterator<Item = (String, u32)>,
        offload: bool,
    ) -> Result<LabSpec, MeasureError> {
        let mut spec = LabSpec::new(format!("measure-{}", std::process::id()), self.switch);
        spec.offload = offload;
        for (number, (name, host)) in (1..).zip(endpoints) {
            let host = (self.way == Way::Link).then_some(host);
            spec.endpoints.push(EndpointSpec { host, ..quiet_endpoint(name, number)? });
        }
        if self.way == Way::Link {
            let is_session = is_lossless(self.switch, self.way, self.tunnel);
            let mut physical = PhysicalSpec { mtu: LINK_MTU, ..PhysicalSpec::default() };
            if self.underlay == Some(Underlay::Bridge) {
                physical.switch = PhysicalKind::Bridge;
                physical.rate = Rate::from_gbit(LINK_GBIT);
                physical.buffer.bytes = LINK_BUFFER;
            } else {
                physical.cable = Some(if offload { Cable::Whole } else { Cable::Cut });
            }
            spec.hosts = Some(HostsSpec {
                tunnels: self.tunnel != Tunnel::None,
                encapsulation: match self.tunnel {
                    Tunnel::Vxlan => model::Encapsulation::Vxlan,
                    Tunnel::Gre => model::Encapsulation::Nvgre,
                    Tunnel::None | Tunnel::Geneve => model::Encapsulation::Geneve,
                },
                retransmit: is_session.into(),
                credit: is_session.into(),
                physical,
                ..HostsSpec::new(self.far + 1)
            });
        }
        Ok(spec)
    }
}

/// Whether a switch promises that nothing is lost on this way.
pub fn is_lossless(switch: SwitchKind, way: Way, tunnel: Tunnel) -> bool {
    crate::is_lossless(switch) && (way == Way::Host || tunnel == Tunnel::Geneve)
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = if self.far > 1 { format!(" to {} hosts", self.far) } else { String::new() };
        match (self.way, self.tunnel) {
            (Way::Host, _) => write!(f, "{} within the host", self.switch),
            (Way::Link, Tunnel::None) => write!(f, "{} over the link{hosts}", self.switch),
            (Way::Link, tunnel) => write!(f, "{} over the link by {tunnel}{hosts}", self.switch),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frames(size) => write!(f, "frames of {size} B"),
            Self::Stream { offload: true } => f.write_str("streams in large segments"),
            Self::Stream { offload: false } => f.write_str("streams in frames of the MTU"),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Host => "host",
            Self::Link => "link",
        })
    }
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Gre => "gre",
        })
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Frames => "frames",
            Self::Stream => "stream",
        })
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        one_of(Self::ALL, word)
    }
}

impl FromStr for Tunnel {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        one_of(Self::ALL, word)
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        one_of(Self::ALL, word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHOICE: Choice<'static> = Choice {
        switches: &SwitchKind::OF_CONTAINERS,
        ways: &Way::ALL,
        tunnels: &Tunnel::ALL,
        far: &[1],
        cores: &[2],
    };

    #[test]
    fn every_case_that_can_be_has_a_lab() {
        let cases = Case::all(&CHOICE);
        assert_eq!(cases.len(), 3 + 4 + 4 + 5);
        for (case, offload) in cases.iter().flat_map(|case| [(case, false), (case, true)]) {
            let endpoints = case.lab(2, offload).unwrap().resolve("zovn-7c1e").unwrap();
            let hosts: Vec<_> = endpoints.iter().map(|it| it.host).collect();
            let apart = [Some(0), Some(1), Some(1)];
            assert_eq!(hosts, if case.way == Way::Link { apart } else { [None; 3] }, "{case}");
        }
    }

    #[test]
    fn several_far_hosts_are_joined_by_a_bridge() {
        let (ways, far, cores) = (&[Way::Link][..], &[1, 3][..], &[1, 2][..]);
        let choice = Choice { ways, far, cores, tunnels: &Tunnel::USUAL, ..CHOICE };
        let cases = Case::all(&choice);
        // Of zovn's tunnels, each number of hosts; of all else one; on one processor and on two.
        assert_eq!(cases.len(), 2 * (2 + 2 + 4 + 5));
        for case in &cases {
            let is_joined = case.joins_several();
            let expected = if is_joined { Underlay::Bridge } else { Underlay::Cable };
            assert_eq!(case.underlay, Some(expected), "{case}");
            let lab = case.lab(3, false).unwrap();
            let endpoints = lab.resolve("zovn-7c1e").unwrap();
            let hosts: Vec<_> = endpoints.iter().filter_map(|it| it.host).collect();
            let apart = if case.far == 3 { vec![0, 1, 2, 3, 3, 3] } else { vec![0, 1, 1, 1] };
            assert_eq!(hosts, apart, "{case}");
            assert_eq!(case.receivers().len(), case.far as usize);
        }
        assert_eq!(cases.last().unwrap().receivers(), ["rx", "rx2", "rx3"]);
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        assert_eq!(Tunnel::Vxlan.to_string().parse::<Tunnel>().unwrap(), Tunnel::Vxlan);
        assert_eq!("link".parse::<Way>().unwrap(), Way::Link);
        assert_eq!("stt".parse::<Tunnel>().unwrap_err(), "write one of none, vxlan, geneve, gre");
    }
}
