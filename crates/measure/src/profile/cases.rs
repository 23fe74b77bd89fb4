//! What is measured: which switch, on which way, around which frames.

use std::fmt;
use std::str::FromStr;

use lab::{Cable, EndpointSpec, HostsSpec, LabSpec, PhysicalSpec, SwitchKind};
use serde::{Deserialize, Serialize};

use crate::MeasureError;
use crate::flood::{RECEIVER, sender};
use crate::site::quiet_endpoint;
use crate::words::one_of;

/// The MTU of the link, in bytes: room for packets of 1500, and for what any tunnel puts around
/// them.
const LINK_MTU: u32 = 1640;

/// The receiver's host and the senders', by their numbers from 1.
pub const FAR: u32 = 1;
pub const NEAR: u32 = 2;

/// Where frames go.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From one endpoint to another of the same host.
    Host,
    /// By the link to another host. Both hosts are on this machine, so its processors do the work
    /// of two.
    Link,
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
    pub const ALL: [Self; 3] = [Self::None, Self::Vxlan, Self::Geneve];
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
    pub fn all(switches: &[SwitchKind], ways: &[Way], tunnels: &[Tunnel]) -> Vec<Self> {
        let mut cases = Vec::new();
        for &switch in switches {
            if ways.contains(&Way::Host) {
                cases.push(Self { switch, way: Way::Host, tunnel: Tunnel::None });
            }
            if ways.contains(&Way::Link) {
                let link =
                    tunnels.iter().map(|tunnel| Self { switch, way: Way::Link, tunnel: *tunnel });
                cases.extend(link.filter(Self::can_be));
            }
        }
        cases
    }

    fn can_be(&self) -> bool {
        match self.switch {
            SwitchKind::Zovn => true,
            // A port of its own to the other host would have to promise nothing either.
            SwitchKind::ZovnLossy => self.tunnel != Tunnel::None,
            // Geneve of a lab is zovn's.
            _ => self.tunnel != Tunnel::Geneve,
        }
    }

    /// Whether large segments reach this switch where endpoints hand them over.
    pub fn takes_segments(&self) -> bool {
        // Its packet sockets would pass on neither segments nor unfinished checksums.
        self.switch != SwitchKind::Ovs
    }

    /// A lab with so many senders and one receiver.
    pub fn lab(&self, senders: u32, offload: bool) -> Result<LabSpec, MeasureError> {
        let receiver = std::iter::once((RECEIVER.to_owned(), FAR));
        self.lab_of(receiver.chain((1..=senders).map(|it| (sender(it), NEAR))), offload)
    }

    /// A lab with these endpoints, each at its host if there are two.
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
            let cable = if offload { Cable::Whole } else { Cable::Cut };
            spec.hosts = Some(HostsSpec {
                tunnels: self.tunnel != Tunnel::None,
                encapsulation: match self.tunnel {
                    Tunnel::Vxlan => model::Encapsulation::Vxlan,
                    Tunnel::None | Tunnel::Geneve => model::Encapsulation::Geneve,
                },
                retransmit: is_session.into(),
                credit: is_session.into(),
                physical: PhysicalSpec {
                    cable: Some(cable),
                    mtu: LINK_MTU,
                    ..PhysicalSpec::default()
                },
                ..HostsSpec::new(2)
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
        match (self.way, self.tunnel) {
            (Way::Host, _) => write!(f, "{} within the host", self.switch),
            (Way::Link, Tunnel::None) => write!(f, "{} over the link", self.switch),
            (Way::Link, tunnel) => write!(f, "{} over the link by {tunnel}", self.switch),
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

    #[test]
    fn every_case_that_can_be_has_a_lab() {
        let cases = Case::all(&SwitchKind::OF_CONTAINERS, &Way::ALL, &Tunnel::ALL);
        assert_eq!(cases.len(), 3 + 3 + 3 + 4);
        for (case, offload) in cases.iter().flat_map(|case| [(case, false), (case, true)]) {
            let endpoints = case.lab(2, offload).unwrap().resolve("zovn-7c1e").unwrap();
            let hosts: Vec<_> = endpoints.iter().map(|it| it.host).collect();
            let apart = [Some(0), Some(1), Some(1)];
            assert_eq!(hosts, if case.way == Way::Link { apart } else { [None; 3] }, "{case}");
        }
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        assert_eq!(Tunnel::Vxlan.to_string().parse::<Tunnel>().unwrap(), Tunnel::Vxlan);
        assert_eq!("link".parse::<Way>().unwrap(), Way::Link);
        assert_eq!("gre".parse::<Tunnel>().unwrap_err(), "write one of none, vxlan, geneve");
    }
}
