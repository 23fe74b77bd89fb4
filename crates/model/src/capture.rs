//! Which frames somebody wants to see.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use units::Span;

use crate::{Filter, PortName};

/// What is to be captured. What names no place at all, neither ports nor `uplink` nor `refused`,
/// means everything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CaptureSpec {
    /// Frames of these ports. Of what is refused, what came by one of them or was for one of them.
    pub ports: Vec<PortName>,
    /// What goes to other hosts and comes from them, as it is in the underlay.
    pub uplink: bool,
    /// What is refused, with the reason.
    pub refused: bool,
    /// Which way frames go.
    pub direction: CaptureDirection,
    /// What frames have to be; anything if absent.
    pub filter: Option<Filter>,
    /// The most bytes of a frame that are kept; all of them if absent.
    pub snap: Option<u32>,
    /// How many frames; without end if absent.
    pub count: Option<u64>,
    /// For how long; without end if absent.
    pub duration: Option<Span>,
}

/// Which way frames go, seen from the switch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum CaptureDirection {
    /// Into the switch.
    In,
    /// Out of it.
    Out,
    /// Either.
    #[default]
    Both,
}

impl CaptureDirection {
    /// Whether frames into the switch are meant.
    pub const fn has_in(self) -> bool {
        !matches!(self, Self::Out)
    }

    /// Whether frames out of the switch are meant.
    pub const fn has_out(self) -> bool {
        !matches!(self, Self::In)
    }

    /// Its name in a query.
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
            Self::Both => "both",
        }
    }
}

/// Why a query of the local API asks for no capture.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("cannot capture: `{key}={value}` is {wrong}")]
pub struct InvalidCapture {
    key: String,
    value: String,
    wrong: String,
}

impl CaptureSpec {
    /// What the pairs of a query ask for: `port`, which may come again, `uplink`, `refused`,
    /// `direction`, `filter`, `snap`, `count`, `duration`.
    ///
    /// # Errors
    ///
    /// [`InvalidCapture`]
    pub fn from_query<K: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, InvalidCapture> {
        let mut spec = Self::default();
        for (key, value) in pairs {
            let (key, value) = (key.as_ref(), value.as_ref());
            let because = |wrong: &str| InvalidCapture {
                key: key.into(),
                value: value.into(),
                wrong: wrong.into(),
            };
            const SWITCH: &str = "neither true nor false: say one of them";
            const NUMBER: &str = "no number above zero: say one";
            match key {
                "port" => spec.ports.push(PortName(value.into())),
                "uplink" => spec.uplink = value.parse().map_err(|_| because(SWITCH))?,
                "refused" => spec.refused = value.parse().map_err(|_| because(SWITCH))?,
                "direction" => {
                    let all = [CaptureDirection::In, CaptureDirection::Out, CaptureDirection::Both];
                    let named = all.into_iter().find(|direction| direction.name() == value);
                    spec.direction =
                        named.ok_or_else(|| because("no direction: say in, out or both"))?;
                }
                "filter" => {
                    let filter = value
                        .parse::<Filter>()
                        .map_err(|error| because(&alloc::format!("no filter: {error}")))?;
                    spec.filter = Some(filter);
                }
                "snap" => spec.snap = Some(above_zero(value).ok_or_else(|| because(NUMBER))?),
                "count" => spec.count = Some(above_zero(value).ok_or_else(|| because(NUMBER))?),
                "duration" => {
                    let duration =
                        value.parse().map_err(|_| because("no time: say it as 10s or 500ms"))?;
                    spec.duration = Some(duration);
                }
                _ => {
                    return Err(because(
                        "unknown: say port, uplink, refused, direction, filter, snap, count or duration",
                    ));
                }
            }
        }
        Ok(spec)
    }

    /// The pairs of a query that asks for this.
    pub fn to_query(&self) -> Vec<(&'static str, String)> {
        let mut pairs: Vec<_> = self.ports.iter().map(|port| ("port", port.0.clone())).collect();
        let mut say = |key, value: Option<String>| pairs.extend(value.map(|value| (key, value)));
        say("uplink", self.uplink.then(|| "true".into()));
        say("refused", self.refused.then(|| "true".into()));
        say(
            "direction",
            (self.direction != CaptureDirection::Both).then(|| self.direction.name().into()),
        );
        say("filter", self.filter.as_ref().map(|filter| alloc::format!("{filter}")));
        say("snap", self.snap.map(|bytes| alloc::format!("{bytes}")));
        say("count", self.count.map(|frames| alloc::format!("{frames}")));
        say("duration", self.duration.map(|duration| alloc::format!("{duration}")));
        pairs
    }

    /// Whether no place is named, so that every one is meant.
    pub fn is_everything(&self) -> bool {
        self.ports.is_empty() && !self.uplink && !self.refused
    }
}

fn above_zero<T: core::str::FromStr + From<u8> + PartialOrd>(text: &str) -> Option<T> {
    text.parse().ok().filter(|number| *number > T::from(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_what_it_was_made_of() {
        let spec = CaptureSpec {
            ports: ["a", "b&c"].map(|name| PortName(name.into())).into(),
            uplink: true,
            refused: true,
            direction: CaptureDirection::Out,
            filter: Some("tcp port 80 && host fd00::1".parse().unwrap()),
            snap: Some(128),
            count: Some(7),
            duration: Some(Span::from_millis(1500)),
        };
        for spec in [spec, CaptureSpec::default()] {
            assert_eq!(CaptureSpec::from_query(spec.to_query()), Ok(spec));
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let wrong = [
            ("snap", "0"),
            ("count", "x"),
            ("direction", "up"),
            ("uplink", "1"),
            ("ports", "a"),
            ("filter", "hots a"),
        ];
        for (key, value) in wrong {
            let error = CaptureSpec::from_query([(key, value)]).unwrap_err();
            assert!(alloc::format!("{error}").contains(key), "{error}");
        }
    }
}
