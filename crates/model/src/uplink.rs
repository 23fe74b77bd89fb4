//! How a host's tunnels reach those of others.

use serde::{Deserialize, Serialize};
use units::{Bytes, Class, ClassSet, Dscp, Rate, Span};

use crate::{InvalidConfig, VtepList};

/// A host's end of the tunnels that make it part of virtual networks. Every host of a network has the same
/// `encapsulation`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    /// The address of this host in the underlay, at which tunnels end, or one for each uplink.
    pub vtep: VtepList,
    /// How frames are carried.
    #[serde(default)]
    pub encapsulation: Encapsulation,
    /// The classes of what is sent again if the underlay drops it; written `true` or `false` if all or none.
    #[serde(default = "all", with = "all_or_some")]
    pub retransmit: ClassSet,
    /// The classes of what a sender sends only as far as its far receiver grants it; written in the same way.
    #[serde(default = "all", with = "all_or_some")]
    pub credit: ClassSet,
    /// The code point of each class, class 0 first, by which the underlay tells frames' classes apart; what is of no class goes with
    /// that of [`CONTROL`]. Absent: the code point of the packet in a frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<[Dscp; Class::COUNT]>,
    /// How many hops the underlay may have.
    #[serde(default = "default_ttl")]
    pub ttl: u8,
    /// The longest packet that the underlay carries, in bytes; what its interface carries if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// How much of one stream, which is what one peer sends to one port in one class, may be under way or wait here. What is
    /// less than the longest frame (64 KiB) counts as that.
    #[serde(default = "default_window")]
    pub window: Bytes,
    /// How much of each stream is taken before it was granted.
    #[serde(default = "default_unsolicited")]
    pub unsolicited: Bytes,
    /// The rate of each uplink's link, if they speak PFC (802.1Qbb) or PAUSE (802.3x): then pauses are obeyed, for as long as
    /// they last at this rate, and sent when memory for what comes runs low. Absent: neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc: Option<Rate>,
    /// The most that may be under way to one peer.
    #[serde(default = "default_in_flight")]
    pub in_flight: Bytes,
    /// Whether and how the ways to other hosts are watched; written `"off"` if they are not.
    #[serde(default = "default_bfd", with = "or_off")]
    pub bfd: Option<Bfd>,
}

/// What hosts say to each other themselves is of this class in the underlay: internetwork control (802.1Q table I-2).
pub const CONTROL: Class = Class::from_low_bits(6);

/// How ways to other hosts are watched: BFD over one hop (RFC 5880, RFC 5881).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bfd {
    /// The time between two packets to each host, and from it.
    pub interval: Span,
    /// Once so many packets in a row are missing, the way is down.
    pub multiplier: u8,
}

impl Default for Bfd {
    /// A way that is cut is noticed within 300 ms.
    fn default() -> Self {
        Self { interval: Span::from_millis(100), multiplier: 3 }
    }
}

/// How frames are carried between hosts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Encapsulation {
    /// RFC 8926. Its options carry credit, and the numbers by which losses are found.
    #[default]
    Geneve,
    /// RFC 7348, for switches that speak nothing else: it has neither credit nor repair.
    Vxlan,
    /// RFC 7637, over GRE: the same, with a header that is 8 bytes shorter. Numbers of networks below 4096 are reserved there.
    Nvgre,
    /// draft-davie-stt-08: the same, behind what looks like TCP. Network cards cut and join large frames as they do TCP's, and
    /// machines' packets may be longer than the underlay's.
    Stt,
}

impl Encapsulation {
    /// Whether it has a place for credit, and for the numbers by which losses are found.
    pub const fn has_sessions(self) -> bool {
        matches!(self, Self::Geneve)
    }
}

impl Uplink {
    /// An uplink of which nothing else is said.
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
            window: default_window(),
            unsolicited: default_unsolicited(),
            in_flight: default_in_flight(),
            bfd: default_bfd(),
        }
    }

    /// Whether anything is sent again, or waits for its receiver's grant: then hosts have a session with each other.
    pub const fn wants_session(&self) -> bool {
        !self.retransmit.is_empty() || !self.credit.is_empty()
    }

    /// Whether the declaration can stand by itself.
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
        if self.ttl == 0 {
            return wrong("nothing would leave this host: raise `ttl` above 0");
        }
        // RFC 791 §3.1: every host takes 576 bytes. RFC 8200 §5: every link carries 1280.
        let least = if self.vtep.iter().any(|vtep| vtep.is_ipv6()) { 1280 } else { 576 };
        if self.mtu.is_some_and(|mtu| mtu < least) {
            return wrong("`mtu` is less than every underlay carries: 576 bytes of IPv4, 1280 of IPv6");
        }
        if [self.window, self.in_flight].contains(&Bytes(0)) {
            return wrong("nothing could be under way: raise `window` and `in_flight` above 0");
        }
        if [self.window, self.unsolicited, self.in_flight].iter().any(|bytes| bytes.0 > u64::from(u32::MAX)) {
            return wrong("`window`, `unsolicited` and `in_flight` stay below 4gib");
        }
        if self.unsolicited > self.window {
            return wrong("`unsolicited` is a part of `window`: lower the one, or raise the other");
        }
        let Some(Bfd { interval, multiplier }) = self.bfd else { return Ok(()) };
        if !(Span::from_millis(1)..=Span::from_secs(60)).contains(&interval) {
            return wrong("`interval` of `bfd` is from 1ms to 60s, or write `bfd = \"off\"`");
        }
        if multiplier == 0 {
            return wrong("every way would be down at once: raise `multiplier` of `bfd` above 0");
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

fn default_in_flight() -> Bytes {
    Bytes(4 << 20)
}

fn default_bfd() -> Option<Bfd> {
    Some(Bfd::default())
}

/// Classes, as people write them: `true`, `false`, or a list of numbers.
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

    /// Writes them in the shortest way.
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

/// What may be off, as people write it.
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

    pub(super) fn serialize<S: Serializer>(bfd: &Option<Bfd>, serializer: S) -> Result<S::Ok, S::Error> {
        bfd.map_or(Written::Off(Off::Off), Written::On).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bfd>, D::Error> {
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
        for vtep in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1", "::ffff:192.0.2.1"] {
            names(complaint(|uplink| uplink.vtep = vtep.parse::<IpAddr>().unwrap().into()), "`vtep`");
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
        let bfd = |interval, multiplier| complaint(|uplink| uplink.bfd = Some(Bfd { interval, multiplier }));
        names(bfd(Span::from_micros(999), 3), "`interval`");
        names(bfd(Span::from_secs(61), 3), "`interval`");
        names(bfd(Span::from_secs(1), 0), "`multiplier`");
        let v6 = Uplink { mtu: Some(1279), ..Uplink::new("2001:db8::1".parse::<IpAddr>().unwrap()) };
        names(v6.check().unwrap_err(), "`mtu`");
    }
}
