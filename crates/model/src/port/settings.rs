//! What a port's declaration says of its queues, its classes and what it may send.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use units::{Bytes, Mac, Rate};

use crate::network::LEAST_RATE;

/// Which VLANs a port is in (802.1Q): one, `{"access": 7}`, whose frames have no tag there; or
/// some, `{"trunk": [7, 8], "native": 9}`, whose frames have one, but for those of the native one.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "VLANs, as { access = 7 } or { trunk = [7, 8], native = 9 }"
)]
pub struct VlanMembership {
    /// The one VLAN of frames without a tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 4094))]
    pub access: Option<u16>,
    /// VLANs of frames with a tag.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trunk: Vec<u16>,
    /// The VLAN of a trunk's frames without a tag; they are refused if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 4094))]
    pub native: Option<u16>,
}

impl VlanMembership {
    /// What is wrong with it, if something is.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let Self { access, trunk, native } = self;
        let mut all = access.iter().chain(trunk).chain(native);
        if access.is_some() == (!trunk.is_empty() || native.is_some()) {
            Some("`vlan` is one, `access`, or some, `trunk` with or without `native`")
        } else if !all.all(|vlan| (1..=4094).contains(vlan)) {
            Some("`vlan` has a number outside 1 to 4094")
        } else {
            None
        }
    }
}

/// What a port's sender may have of the uplink within its network's terms, as `{"min": "100mbit",
/// "max": "500mbit"}`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields, expecting = "a port's share, as { min = \"100mbit\" }")]
pub struct PortShare {
    /// The least rate at which it can send by the uplink. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "100mbit"))]
    pub min: Option<Rate>,
    /// The highest. Absent: its network's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "500mbit"))]
    pub max: Option<Rate>,
    /// Its part of what guarantees leave of its network's, in proportion to the weights of the
    /// network's other ports. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 65_535))]
    pub weight: Option<u16>,
}

impl PortShare {
    /// Whether nothing is said: it is as any port of its network's.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// What is wrong with it, if something is.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let is_slow = |rate: &Rate| *rate < LEAST_RATE;
        if self.min.zip(self.max).is_some_and(|(min, max)| min > max) {
            Some("`share` has a `min` above its `max`: lower the one, or raise the other")
        } else if self.min.iter().chain(&self.max).any(is_slow) {
            Some("`share` has a rate below 100kbit: write it in mbit or gbit")
        } else if self.weight == Some(0) {
            Some("`weight` of `share` is 0: make it 1 to 65535")
        } else {
            None
        }
    }
}

/// How many frames a second of one sender are flooded, of each kind, and as many at once; 0 for as
/// many as come. A frame that is copied to many receivers counts once for each 32 of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "limits of what is flooded, as { broadcast = 1000 }"
)]
pub struct StormLimits {
    /// Broadcasts.
    #[cfg_attr(feature = "openapi", schema(default = 10_000))]
    pub broadcast: u32,
    /// To groups of which nobody has said that it is in them; and to any, from an address that
    /// belongs to another port or moves to and fro, as it does in a loop.
    #[cfg_attr(feature = "openapi", schema(default = 10_000))]
    pub multicast: u32,
    /// To single addresses that are neither declared nor learned.
    #[cfg_attr(feature = "openapi", schema(default = 10_000))]
    pub unknown: u32,
}

impl StormLimits {
    /// Everything is flooded.
    pub const NONE: Self = Self { broadcast: 0, multicast: 0, unknown: 0 };
}

impl Default for StormLimits {
    /// More than anybody needs, and less than keeps a switch busy.
    fn default() -> Self {
        Self { broadcast: 10_000, multicast: 10_000, unknown: 10_000 }
    }
}

/// How an egress chooses among its classes: `"strict"`, or `{"weighted": [1, 1, 1, 1, 1, 1, 1,
/// 1]}`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(
    rename_all = "lowercase",
    expecting = "\"strict\", or { weighted = [1, 1, 1, 1, 1, 1, 1, 1] }"
)]
pub enum Scheduling {
    /// The highest class that has a frame (802.1Q §8.6.8.1).
    #[default]
    Strict,
    /// In turn, each class for its weight in bytes (802.1Q §8.6.8.3, by deficit round robin), class
    /// 0 first. Zero counts as one.
    Weighted([u32; 8]),
}

/// An Ethernet address that an operator sets.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "an address, as { mac = \"02:00:00:00:00:01\", vlan = 7 }"
)]
pub struct PinnedAddress {
    /// The address.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "02:00:00:00:00:01"))]
    pub mac: Mac,
    /// The VLAN that it is in; 0 for frames without a tag.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(maximum = 4094))]
    pub vlan: u16,
}

/// A queue's bounds. Both hold; a frame that fits neither waits (lossless) or is refused (lossy). A
/// queue that is empty takes any one frame.
///
/// At an egress, a large segment counts as the frames, and the bytes, that it stands for on a wire;
/// at an ingress, as one frame of so many bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "bounds of a queue, as { frames = 1024 }")]
pub struct Limits {
    /// The most frames.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub frames: u32,
    /// The most bytes; as many as the frames have if absent.
    #[serde(default = "no_byte_bound", skip_serializing_if = "is_no_byte_bound")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "1mib"))]
    pub bytes: Bytes,
}

impl Limits {
    /// Bounded in frames alone.
    pub const fn frames(frames: u32) -> Self {
        Self { frames, bytes: Bytes(u64::MAX) }
    }

    /// What an egress gets that asks for nothing: 1,024 frames a class.
    pub fn egress() -> Self {
        Self { frames: 1024, bytes: no_byte_bound() }
    }

    /// What an ingress gets that asks for nothing: 1,024 frames.
    pub fn ingress() -> Self {
        Self { frames: 1024, bytes: no_byte_bound() }
    }
}

/// What a class promises (IEEE 802.1Qbb calls a lossless class PFC-enabled).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ClassKind {
    /// A frame waits in its sender's queue until there is room.
    #[default]
    Lossless,
    /// A frame that finds its egress full is refused.
    Lossy,
}

fn no_byte_bound() -> Bytes {
    Bytes(u64::from(u32::MAX))
}

fn is_no_byte_bound(bytes: &Bytes) -> bool {
    *bytes == no_byte_bound()
}
