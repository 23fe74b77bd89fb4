//! Changes of a port that is attached.

use alloc::format;
use alloc::string::String;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use units::{Bytes, Class, ParseUnitError, Rate, deserialize_word};

use super::settings::{Limits, PortShare, Scheduling, StormLimits};

/// A change to an attached port; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields, expecting = "a change of a port")]
pub struct PortChange {
    /// A new egress rate; `"none"` lifts the old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateChange>,
    /// A new rate of its sender; `"none"` lifts the old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_rate: Option<RateChange>,
    /// New egress bounds. What already waits is never dropped to fit them.
    pub egress: LimitsChange,
    /// New ingress bounds.
    pub ingress: LimitsChange,
    /// A new class for untagged frames; `"none"` lifts the old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ClassChange>,
    /// A new quota. As many as `ingress` has frames lift an old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub quota: Option<u32>,
    /// A new scheduling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// New limits of what is flooded: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storm: Option<StormLimits>,
    /// New terms at the uplink: all of them; `{}` lifts the old ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<PortShare>,
}

/// New bounds of a queue; what is absent stays as it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields, expecting = "new bounds of a queue")]
pub struct LimitsChange {
    /// The most frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub frames: Option<u32>,
    /// The most bytes. As many as never wait, such as `4gib`, lift an old bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "1mib"))]
    pub bytes: Option<Bytes>,
}

/// A new rate or none: `"1gbit"` or `"none"`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum RateChange {
    /// This rate from now on.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "1gbit"))]
    To(Rate),
    /// No rate from now on.
    None(NoRate),
}

impl FromStr for RateChange {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if word == "none" {
            return Ok(Self::None(NoRate::None));
        }
        word.parse().map(Self::To).map_err(|error: ParseUnitError| format!("{error}, or `none`"))
    }
}

impl<'de> Deserialize<'de> for RateChange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_word(deserializer)
    }
}

impl RateChange {
    /// The change that leads to this rate, or to none.
    pub(super) fn to(rate: Option<Rate>) -> Self {
        rate.map_or(Self::None(NoRate::None), Self::To)
    }

    /// A rate after a change, if there is one.
    pub(super) fn of(rate: Option<Rate>, change: Option<Self>) -> Option<Rate> {
        match change {
            None => rate,
            Some(Self::To(rate)) => Some(rate),
            Some(Self::None(NoRate::None)) => None,
        }
    }
}

/// A new class or none: `5` or `"none"`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "a class is 0 to 7, or \"none\"")]
pub enum ClassChange {
    /// This class from now on.
    #[cfg_attr(feature = "openapi", schema(value_type = u8, example = 5))]
    To(Class),
    /// From now on its logical port's class, if it is one.
    None(NoRate),
}

impl FromStr for ClassChange {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if word == "none" {
            return Ok(Self::None(NoRate::None));
        }
        let class = word.parse().ok().and_then(Class::new).map(Self::To);
        class.ok_or_else(|| format!("`{word}` is no class: write 0 to 7, or `none`"))
    }
}

impl ClassChange {
    /// The change that leads to this class, or to none.
    pub(super) fn to(class: Option<Class>) -> Self {
        class.map_or(Self::None(NoRate::None), Self::To)
    }

    /// A class after a change, if there is one.
    pub(super) fn of(class: Option<Class>, change: Option<Self>) -> Option<Class> {
        match change {
            None => class,
            Some(Self::To(class)) => Some(class),
            Some(Self::None(NoRate::None)) => None,
        }
    }
}

/// The word `none`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum NoRate {
    /// `"none"`.
    None,
}

impl Limits {
    /// The bounds after a change.
    pub(super) fn changed(self, change: LimitsChange) -> Self {
        Self {
            frames: change.frames.unwrap_or(self.frames),
            bytes: change.bytes.unwrap_or(self.bytes),
        }
    }
}
