//! The declaration of a host's end of its tunnels: `[uplink]` of host.toml.

use alloc::string::String;

use serde::{Deserialize, Serialize};
use units::{Bytes, Class, ClassSet, Dscp, Rate, Span};

use crate::{InvalidConfig, VtepList};

/// A host's end of its tunnels. Every host of a network has the same `encapsulation`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an uplink's settings, as `[uplink]` and a line for each")]
pub struct Uplink {
    /// This host's tunnel address, or one for each of its uplinks.
    pub vtep: VtepList,
    /// The encapsulation of frames.
    #[serde(default)]
    pub encapsulation: Encapsulation,
    /// The classes that are retransmitted when the underlay drops a packet; `true` for all, `false`
    /// for none.
    #[serde(default = "all", with = "all_or_some")]
    pub retransmit: ClassSet,
    /// The classes whose senders wait for credit of the far receiver; `true` for all, `false` for
    /// none.
    #[serde(default = "all", with = "all_or_some")]
    pub credit: ClassSet,
    /// The DSCP of each class, class 0 first, in the outer header. Control packets have that of
    /// [`CONTROL`]. Absent: 0, or the DSCP of the inner packet if its network may [use
    /// it](crate::NetworkShare::classes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<[Dscp; Class::COUNT]>,
    /// The TTL or hop limit of the outer header.
    #[serde(default = "default_ttl")]
    pub ttl: u8,
    /// The underlay's MTU in bytes. Absent: the MTU of the route to each peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// The window of each stream (what one peer sends to one port in one class): bytes in flight to
    /// this host or waiting here. At least the longest frame (66 KiB).
    #[serde(default = "default_window")]
    pub window: Bytes,
    /// Bytes of each stream that are accepted before the first credit grant.
    #[serde(default = "default_unsolicited")]
    pub unsolicited: Bytes,
    /// The rate of each uplink's link, if it supports PFC (802.1Qbb) or PAUSE (802.3x). Pause
    /// frames are then obeyed, their quanta at this rate, and sent when receive memory runs low.
    /// Absent: neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc: Option<Rate>,
    /// The rate of each uplink's link, if what waits for it is to wait here, where its turn is
    /// chosen. Absent: it waits in the kernel and the network card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Whether other hosts are granted credit for what they send here as `rate` carries it, and by
    /// networks' terms; without, as memory allows.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub grants: bool,
    /// How long a frame within its network's guarantee may wait for other networks' bursts: what is
    /// promised to all networks together has to allow it.
    #[serde(default = "default_latency", skip_serializing_if = "is_default_latency")]
    pub latency: Span,
    /// The limit of the congestion window to one peer.
    #[serde(default = "default_in_flight")]
    pub in_flight: Bytes,
    /// The key that hosts have in common. Absent: whoever sends from a host's address is believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<TunnelKey>,
    /// The BFD sessions with peers, one for each path; `"off"` for none.
    #[serde(default = "default_bfd", with = "or_off")]
    pub bfd: Option<Bfd>,
}

/// The key that protects tunnels from others in the underlay.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "where the key is, as { file = \"/etc/zovn/tunnel.key\" }"
)]
pub struct TunnelKey {
    /// The absolute path of a file with one key or two: each a line of 32 bytes in base64. Packets
    /// are protected by the first; both are accepted.
    pub file: String,
    /// What is done with packets. All hosts of a network do the same.
    #[serde(default)]
    pub mode: TunnelMode,
}

/// What is done with packets in the underlay.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TunnelMode {
    /// They are authenticated, and anybody on the way can read them.
    Integrity,
    /// They are authenticated and encrypted.
    #[default]
    Encrypt,
}

/// The class of control packets in the underlay: internetwork control (802.1Q table I-2).
pub const CONTROL: Class = Class::from_low_bits(6);

/// The lowest rate that a link may be said to have.
const LEAST_RATE: Rate = Rate::from_bits_per_sec(1_000_000).unwrap();

/// The settings of single-hop BFD (RFC 5880, RFC 5881).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "settings of BFD")]
pub struct Bfd {
    /// The interval between two packets, in each direction.
    pub interval: Span,
    /// The detection multiplier: the path is down when this many packets in a row are missing.
    pub multiplier: u8,
}

impl Default for Bfd {
    /// A cut path is detected within 300 ms.
    fn default() -> Self {
        Self { interval: Span::from_millis(100), multiplier: 3 }
    }
}

/// The encapsulation of frames between hosts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Encapsulation {
    /// RFC 8926. Its options carry the session: credit, packet numbers, acknowledgements.
    #[default]
    Geneve,
    /// RFC 7348, for interoperation: no session, so neither credit nor retransmission.
    Vxlan,
    /// RFC 7637, over GRE, without a session. VNIs below 4096 are reserved.
    Nvgre,
    /// draft-davie-stt-08, with a TCP-like header, without a session. Network cards segment and
    /// coalesce large frames (TSO, GRO), and inner packets may exceed the underlay's MTU.
    Stt,
}

impl Encapsulation {
    /// Whether it can carry a session.
    pub const fn has_sessions(self) -> bool {
        matches!(self, Self::Geneve)
    }
}

impl Uplink {
    /// An uplink with default settings.
    pub fn new(vtep: impl Into<VtepList>) -> Self {
        Self {
            vtep: vtep.into(),
            encapsulation: Encapsulation::Geneve,
            retransmit: ClassSet::ALL,
            credit: ClassSet::ALL,
            dscp: None,
            ttl: default_ttl(),
            mtu: None,
            pfc: None,
            rate: None,
            grants: false,
            latency: default_latency(),
            window: default_window(),
            unsolicited: default_unsolicited(),
            in_flight: default_in_flight(),
            key: None,
            bfd: default_bfd(),
        }
    }

    /// Whether hosts have sessions: something is retransmitted, or waits for credit.
    pub const fn wants_session(&self) -> bool {
        !self.retransmit.is_empty() || !self.credit.is_empty()
    }

    /// Whether what arrives is granted, and other hosts may send some class here without credit.
    pub fn is_uncredited(&self) -> bool {
        self.grants && !self.credit.others().is_empty()
    }

    /// Validates the declaration by itself.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig::Uplink`] says what is wrong and what to write instead.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let wrong = |what| Err(InvalidConfig::Uplink(what));
        if let Some(fault) = self.vtep.fault() {
            return wrong(fault);
        }
        if !self.encapsulation.has_sessions() && self.wants_session() {
            return wrong(
                "`vxlan`, `nvgre` and `stt` have no place for `retransmit` and `credit`: set both to false, or take `geneve`",
            );
        }
        if let Some(TunnelKey { file, .. }) = &self.key {
            if !matches!(self.encapsulation, Encapsulation::Geneve) {
                return wrong(
                    "`vxlan`, `nvgre` and `stt` have no place for `key`: take `geneve`, or protect the underlay by IPsec or WireGuard",
                );
            }
            if !file.starts_with('/') {
                return wrong("`file` of `key` is no absolute path");
            }
        }
        if self.ttl == 0 {
            return wrong("nothing would leave this host: raise `ttl` above 0");
        }
        // RFC 791 §3.1: every host takes 576 bytes. RFC 8200 §5: every link carries 1280.
        let least = if self.vtep.iter().any(|vtep| vtep.is_ipv6()) { 1280 } else { 576 };
        if self.mtu.is_some_and(|mtu| mtu < least) {
            return wrong(
                "`mtu` is less than every underlay carries: 576 bytes of IPv4, 1280 of IPv6",
            );
        }
        if [self.window, self.in_flight].contains(&Bytes(0)) {
            return wrong("nothing could be under way: raise `window` and `in_flight` above 0");
        }
        if [self.window, self.unsolicited, self.in_flight]
            .iter()
            .any(|bytes| bytes.0 > u64::from(u32::MAX))
        {
            return wrong("`window`, `unsolicited` and `in_flight` stay below 4gib");
        }
        if self.unsolicited > self.window {
            return wrong("`unsolicited` is a part of `window`: lower the one, or raise the other");
        }
        if self.rate.is_some_and(|rate| rate < LEAST_RATE) {
            return wrong(
                "`rate` is below 1mbit, at which a frame alone takes 12 ms: write the link's, as `10gbit`, or leave it out",
            );
        }
        if self.grants && (self.rate.is_none() || self.credit.is_empty()) {
            return wrong(
                "`grants` needs `rate`, and `credit` for some class: declare them, or leave it out",
            );
        }
        let Some(Bfd { interval, multiplier }) = self.bfd else { return Ok(()) };
        if !(Span::from_millis(1)..=Span::from_secs(60)).contains(&interval) {
            return wrong("`interval` of `bfd` is from 1ms to 60s, or write `bfd = \"off\"`");
        }
        if multiplier == 0 {
            return wrong("every path would be down at once: raise `multiplier` of `bfd` above 0");
        }
        Ok(())
    }
}

fn all() -> ClassSet {
    ClassSet::ALL
}

fn default_ttl() -> u8 {
    64
}

fn default_window() -> Bytes {
    Bytes(1 << 20)
}

fn default_unsolicited() -> Bytes {
    Bytes(64 << 10)
}

fn default_latency() -> Span {
    Span::from_millis(5)
}

fn is_default_latency(latency: &Span) -> bool {
    *latency == default_latency()
}

fn default_in_flight() -> Bytes {
    Bytes(4 << 20)
}

fn default_bfd() -> Option<Bfd> {
    Some(Bfd::default())
}

/// A set of classes as `true`, `false`, or a list of numbers.
pub mod all_or_some {
    use alloc::vec::Vec;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use units::{Class, ClassSet};

    #[derive(Serialize, Deserialize)]
    #[serde(
        untagged,
        expecting = "write `true`, `false`, or the classes for which it holds, as `[3, 4]`: numbers from 0 to 7"
    )]
    enum Written {
        All(bool),
        Some(Vec<Class>),
    }

    /// Writes the shortest form.
    ///
    /// # Errors
    ///
    /// The serializer's.
    pub fn serialize<S: Serializer>(classes: &ClassSet, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match *classes {
            ClassSet::ALL => Written::All(true),
            ClassSet::NONE => Written::All(false),
            some => Written::Some(some.iter().collect()),
        };
        written.serialize(serializer)
    }

    /// Reads them.
    ///
    /// # Errors
    ///
    /// The deserializer's, or what to write instead.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ClassSet, D::Error> {
        Ok(match Written::deserialize(deserializer)? {
            Written::All(all) => all.into(),
            Written::Some(classes) => classes.into_iter().collect(),
        })
    }
}

/// Settings, or `"off"`.
mod or_off {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Bfd;

    #[derive(Serialize, Deserialize)]
    #[serde(
        untagged,
        expecting = "write `{ interval = \"100ms\", multiplier = 3 }`, either of them, or `\"off\"`"
    )]
    enum Written {
        On(Bfd),
        Off(Off),
    }

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Off {
        Off,
    }

    pub(super) fn serialize<S: Serializer>(
        bfd: &Option<Bfd>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        bfd.map_or(Written::Off(Off::Off), Written::On).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Bfd>, D::Error> {
        Ok(match Written::deserialize(deserializer)? {
            Written::On(bfd) => Some(bfd),
            Written::Off(Off::Off) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::*;

    const VTEP: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));

    fn complaint(change: impl FnOnce(&mut Uplink)) -> InvalidConfig {
        let mut uplink = Uplink::new(VTEP);
        change(&mut uplink);
        uplink.check().unwrap_err()
    }

    #[test]
    fn what_is_said_by_default_can_stand() {
        assert_eq!(Uplink::new(VTEP).check(), Ok(()));
        let vxlan = Uplink {
            encapsulation: Encapsulation::Vxlan,
            retransmit: ClassSet::NONE,
            credit: ClassSet::NONE,
            ..Uplink::new(VTEP)
        };
        assert_eq!(vxlan.check(), Ok(()));
    }

    #[test]
    fn what_would_not_work_is_refused_by_name() {
        let names = |error: InvalidConfig, name| {
            let text = alloc::string::ToString::to_string(&error);
            assert!(text.starts_with("uplink: ") && text.contains(name), "{text}");
        };
        for vtep in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1", "::ffff:192.0.2.1"]
        {
            names(
                complaint(|uplink| uplink.vtep = vtep.parse::<IpAddr>().unwrap().into()),
                "`vtep`",
            );
        }
        names(complaint(|uplink| uplink.encapsulation = Encapsulation::Vxlan), "`vxlan`");
        names(complaint(|uplink| uplink.encapsulation = Encapsulation::Stt), "`stt`");
        names(
            complaint(|uplink| {
                uplink.encapsulation = Encapsulation::Nvgre;
                (uplink.retransmit, uplink.credit) = (ClassSet::NONE, ClassSet::from_bits(1));
            }),
            "`nvgre`",
        );
        names(complaint(|uplink| uplink.ttl = 0), "`ttl`");
        names(complaint(|uplink| uplink.mtu = Some(575)), "`mtu`");
        names(complaint(|uplink| uplink.window = Bytes(0)), "`window`");
        names(complaint(|uplink| uplink.in_flight = Bytes(0)), "`in_flight`");
        names(complaint(|uplink| uplink.in_flight = Bytes(4 << 30)), "4gib");
        names(complaint(|uplink| uplink.unsolicited = Bytes((1 << 20) + 1)), "`unsolicited`");
        names(complaint(|uplink| uplink.rate = "999kbit".parse().ok()), "`rate`");
        let bfd = |interval, multiplier| {
            complaint(|uplink| uplink.bfd = Some(Bfd { interval, multiplier }))
        };
        names(bfd(Span::from_micros(999), 3), "`interval`");
        names(bfd(Span::from_secs(61), 3), "`interval`");
        names(bfd(Span::from_secs(1), 0), "`multiplier`");
        let v6 =
            Uplink { mtu: Some(1279), ..Uplink::new("2001:db8::1".parse::<IpAddr>().unwrap()) };
        names(v6.check().unwrap_err(), "`mtu`");
    }
}
