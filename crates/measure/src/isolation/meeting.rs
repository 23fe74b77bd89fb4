//! Where two virtual networks meet, and the lab for each place.

use std::fmt;
use std::str::FromStr;

use lab::{HostsSpec, LabSpec, NetworkTerms, PhysicalSpec, SwitchKind};
use model::{ClassKind, Encapsulation, NetworkName, NetworkShare};
use serde::{Deserialize, Serialize};
use units::Rate;

use super::peer::{FIRST, FRAME, Peer, RECEIVER, SECOND, Terms};
use super::set::Set;
use crate::MeasureError;
use crate::site::quiet_endpoint;

/// Where the two virtual networks meet.
///
/// ```text
///   port       first, second ──▶ a switch ──▶ the receiver's port
///   uplink     first, second ──▶ host 1 ──▶ its uplink ──▶ host 2 ──▶ a receiver each
///   downlink   first ──▶ host 1 ──┐
///              second ─▶ host 2 ──┴─▶ the link to host 3 ──▶ a receiver each
/// ```
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meeting {
    /// At one port of a switch.
    Port,
    /// At the uplink of the host that both send from.
    Uplink,
    /// At the link to the host that both send to; no host sees by itself that it is full.
    Downlink,
}

/// What a tunnel with a session and a link put around a frame, in bytes: check sequence, preamble
/// and gap; Ethernet, IPv4, UDP, and Geneve with our option.
const AROUND: u32 = 24 + 14 + 20 + 8 + 36;

/// The same without a session, whose frames carry no option.
const AROUND_PLAIN: u32 = 24 + 14 + 20 + 8 + 8;

impl Meeting {
    /// All there are, in the order in which tables show them.
    pub const ALL: [Self; 3] = [Self::Port, Self::Uplink, Self::Downlink];

    const fn word(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Uplink => "uplink",
            Self::Downlink => "downlink",
        }
    }

    /// Whether this switch can be between two networks that meet here.
    pub fn has(self, peer: Peer) -> bool {
        let is_zovn = peer.is_zovn();
        match self {
            _ if peer.switch() == SwitchKind::OvsDpdk => false,
            // Both send in one network there, which has no terms.
            Self::Port => !is_zovn || matches!(peer, Peer::ZovnLossy | Peer::Zovn),
            Self::Uplink => is_zovn && !peer.grants() || matches!(peer, Peer::Bridge),
            Self::Downlink => is_zovn,
        }
    }

    /// Who receives, by the names of endpoints: one for both networks, or one for each.
    pub(super) const fn receivers(self) -> &'static [&'static str] {
        match self {
            Self::Port => &[RECEIVER],
            Self::Uplink | Self::Downlink => &["rx1", "rx2"],
        }
    }

    /// The lab of a switch, in which both networks meet at a link of `rate`, in bits of the frames
    /// that endpoints send. At a port `buffer` frames wait for it.
    pub(super) fn lab(
        self,
        peer: Peer,
        set: Set,
        rate: Rate,
        buffer: u32,
        promise: Option<ClassKind>,
    ) -> Result<LabSpec, MeasureError> {
        let mut spec = LabSpec::new(format!("measure-{}", std::process::id()), peer.switch());
        spec.offload = false;
        let names = [FIRST, SECOND].iter().chain(self.receivers());
        for (number, name) in (1..).zip(names) {
            spec.endpoints.push(quiet_endpoint((*name).into(), number)?);
        }
        let hosts = match self {
            Self::Port => {
                let receiver = &mut spec.endpoints[2];
                (receiver.rate, receiver.buffer) = (Some(rate), Some(buffer));
                return Ok(spec);
            }
            Self::Uplink => [1, 1, 2, 2],
            Self::Downlink => [1, 2, 3, 3],
        };
        let places = hosts.into_iter().zip([FIRST, SECOND].into_iter().cycle());
        let link = join(&mut spec, peer, places, rate, promise);
        spec.networks = peer.terms().of(set, link);
        Ok(spec)
    }
}

/// What the fabric between hosts promises by itself: a lossless one pauses who sends too much.
fn usual_promise(peer: Peer) -> ClassKind {
    match peer.switch() {
        SwitchKind::Zovn => ClassKind::Lossless,
        _ => ClassKind::Lossy,
    }
}

/// Which promises of a fabric a switch is measured with there, of those that are asked for; its own
/// if none is. There is no fabric at a port, and nobody pauses a kernel's tunnel.
pub(super) fn promises(at: Meeting, peer: Peer, asked: &[ClassKind]) -> Vec<Option<ClassKind>> {
    if at == Meeting::Port {
        return vec![None];
    }
    if asked.is_empty() {
        return vec![Some(usual_promise(peer))];
    }
    let can = |promise: &&ClassKind| **promise == ClassKind::Lossy || peer != Peer::Bridge;
    asked.iter().filter(can).copied().map(Some).collect()
}

/// Puts the endpoints of a lab on hosts, from 1, and in networks, in their order. The links between
/// hosts carry `rate`, in bits of the frames that endpoints send; their own rate is told.
pub(super) fn join<'a>(
    spec: &mut LabSpec,
    peer: Peer,
    places: impl Iterator<Item = (u32, &'a str)>,
    rate: Rate,
    promise: Option<ClassKind>,
) -> Rate {
    let has_networks = peer.switch() != SwitchKind::Bridge;
    let mut count = 1;
    for (endpoint, (host, network)) in spec.endpoints.iter_mut().zip(places) {
        count = count.max(host);
        endpoint.host = Some(host);
        endpoint.network = has_networks.then(|| NetworkName(network.into()));
    }
    let encapsulation = match peer {
        Peer::Bridge => Encapsulation::Vxlan,
        _ => Encapsulation::Geneve,
    };
    let is_lossless = peer.switch() == SwitchKind::Zovn;
    let around = if is_lossless { AROUND } else { AROUND_PLAIN };
    let promise = promise.unwrap_or(usual_promise(peer));
    let link = Set::of(1.0 + f64::from(around) / f64::from(FRAME), rate);
    spec.hosts = Some(HostsSpec {
        encapsulation,
        rate: (peer.terms() != Terms::None).then_some(link),
        grants: peer.grants(),
        retransmit: is_lossless.into(),
        credit: is_lossless.into(),
        physical: PhysicalSpec { promise, rate: link, ..PhysicalSpec::default() },
        ..HostsSpec::new(count)
    });
    link
}

impl Terms {
    /// The terms of both networks at a link of this rate.
    fn of(self, set: Set, link: Rate) -> Vec<NetworkTerms> {
        let [first, second] = [Set::BETA1, set.beta2_limit()].map(|share| Set::of(share, link));
        let max = (self == Self::MinAndMax).then_some(second);
        let of = |name: &str, min, max| NetworkTerms {
            name: NetworkName(name.into()),
            share: NetworkShare { min: Some(min), max, ..NetworkShare::default() },
        };
        match self {
            Self::None => Vec::new(),
            Self::Min | Self::MinAndMax => {
                vec![of(FIRST, first, None), of(SECOND, second, max)]
            }
        }
    }
}

impl fmt::Display for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Meeting {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        Self::ALL.into_iter().find(|meeting| meeting.word() == text).ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            MeasureError::Config(format!("two networks do not meet at `{text}`: write {words}"))
        })
    }
}
