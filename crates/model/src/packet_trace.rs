//! Traces of packets in logical networks: the steps of a decision, and its outcome.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use units::serde_as_word;

use crate::{Generation, PortName};

/// The packet to trace.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a packet to trace")]
pub struct PacketTraceSpec {
    /// The port whose machine sends it: the host's port, or the logical one, as `shop/web-1`.
    pub port: PortName,
    /// The Ethernet frame, in hexadecimal digits, without its frame check sequence; of a port that
    /// is behind another's VLAN tag, without that.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "0200000001020200000001010800"))]
    pub frame: FrameBytes,
}

/// A frame's bytes, written as hexadecimal digits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FrameBytes(pub Vec<u8>);

serde_as_word!(FrameBytes);

/// Why a word is no frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a frame is written as two hexadecimal digits for each of its bytes, at most 65549")]
pub struct NoFrame;

/// The longest frame, in bytes: a packet of 65535 bytes behind an Ethernet header.
const LONGEST: usize = 65_549;

impl FromStr for FrameBytes {
    type Err = NoFrame;

    fn from_str(word: &str) -> Result<Self, NoFrame> {
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let pair = |pair: &[u8]| match *pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = word.as_bytes().chunks(2).map(pair).collect();
        bytes.filter(|it| it.len() <= LONGEST).map(Self).ok_or(NoFrame)
    }
}

impl fmt::Display for FrameBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PacketOutcome {
    /// Somebody gets it.
    Delivered,
    /// It goes on to another host, which decides by its port's rules.
    Sent,
    /// The network answers it.
    Answered,
    /// Nobody gets it.
    Refused,
}

/// The steps of a packet through logical networks, and its outcome. Objects are named by kind,
/// tenant and name, as `LogicalPort/shop/web-1`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PacketTrace {
    /// The generation that decides. Absent: it is a file that does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// The outcome.
    pub outcome: PacketOutcome,
    /// The ports that get it.
    pub delivered: Vec<String>,
    /// The ports on other hosts that it goes on to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<PacketSent>,
    /// The ports that the network answers.
    pub answered: Vec<String>,
    /// Why copies of it are not delivered.
    pub refused: Vec<PacketRefused>,
    /// How it comes to that.
    pub steps: Vec<PacketStep>,
}

/// Where a packet, and what answers it, has come to.
#[derive(Clone, Debug, Default)]
pub struct PacketEnds {
    /// The ports that get it.
    pub delivered: Vec<String>,
    /// The ports on other hosts that it goes on to.
    pub sent: Vec<PacketSent>,
    /// The ports that the network answers.
    pub answered: Vec<String>,
    /// Why copies of it are not delivered.
    pub refused: Vec<PacketRefused>,
}

/// A port on another host that a packet goes on to.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PacketSent {
    /// The port.
    pub to: String,
    /// The tunnel address of its host, which decides the rest.
    pub host: String,
}

/// A copy of a packet that is not delivered.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PacketRefused {
    /// Why.
    pub reason: String,
    /// At which object.
    pub at: String,
    /// By which policy and rule, if by one.
    pub by: Option<String>,
}

/// A step of a packet.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PacketStep {
    /// The object.
    pub at: String,
    /// The stage there.
    pub stage: String,
    /// What is decided.
    pub what: String,
    /// The rule, route or translation that decides it, if one does.
    pub by: Option<String>,
}

impl PacketTrace {
    /// A trace that has come to these ends.
    pub fn new(ends: PacketEnds, steps: Vec<PacketStep>) -> Self {
        let PacketEnds { delivered, sent, answered, refused } = ends;
        // A reset, or an error, is an answer to what was refused.
        let is_served = |it: &PacketRefused| ["answered", "to_router"].contains(&&*it.reason);
        let outcome = match () {
            () if !delivered.is_empty() => PacketOutcome::Delivered,
            () if !sent.is_empty() => PacketOutcome::Sent,
            () if !answered.is_empty() && refused.iter().all(is_served) => PacketOutcome::Answered,
            () => PacketOutcome::Refused,
        };
        Self { generation: None, outcome, delivered, sent, answered, refused, steps }
    }

    /// The outcome in a sentence.
    pub fn verdict(&self) -> String {
        let sent = || {
            let to = |it: &PacketSent| format!("{} on {}, which decides the rest", it.to, it.host);
            self.sent.iter().map(to).collect::<Vec<_>>().join(", ")
        };
        let told = match self.outcome {
            PacketOutcome::Delivered if !self.sent.is_empty() => {
                format!("delivered to {}; sent to {}", self.delivered.join(", "), sent())
            }
            PacketOutcome::Delivered => format!("delivered to {}", self.delivered.join(", ")),
            PacketOutcome::Sent => format!("sent to {}", sent()),
            PacketOutcome::Answered => {
                format!("answered by the network, to {}", self.answered.join(", "))
            }
            PacketOutcome::Refused => {
                let why = |it: &PacketRefused| match &it.by {
                    Some(by) => format!("{} at {}, by {by}", it.reason, it.at),
                    None => format!("{} at {}", it.reason, it.at),
                };
                let told = if self.answered.is_empty() { "" } else { "; its sender is told" };
                let why: Vec<_> = self.refused.iter().map(why).collect();
                format!("refused: {}{told}", why.join("; "))
            }
        };
        let generation = self.generation.as_ref().map(ToString::to_string);
        told + &generation.map_or(String::new(), |it| format!(" (generation {it})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_written_as_digits() {
        let frame: FrameBytes = "02fF".parse().unwrap();
        assert_eq!(frame.0, [2, 0xff]);
        assert_eq!(frame.to_string(), "02ff");
        for wrong in ["0", "0g", "+1", "  ", "0x02", "ää"] {
            assert_eq!(wrong.parse::<FrameBytes>(), Err(NoFrame), "{wrong}");
        }
        assert_eq!("00".repeat(LONGEST + 1).parse::<FrameBytes>(), Err(NoFrame));
    }

    #[test]
    fn the_verdict_names_hosts_rules_and_the_generation() {
        let to = PacketSent { to: "LogicalPort/shop/b".into(), host: "192.0.2.2".into() };
        let ends = PacketEnds { sent: alloc::vec![to], ..PacketEnds::default() };
        let generation = Some(Generation(3));
        let trace = PacketTrace { generation, ..PacketTrace::new(ends, Vec::new()) };
        let said = "sent to LogicalPort/shop/b on 192.0.2.2, which decides the rest (generation 3)";
        assert_eq!(trace.verdict(), said);
        let refused = PacketRefused {
            reason: "rejected".into(),
            at: "LogicalPort/shop/b".into(),
            by: Some("Policy/shop/in/no".into()),
        };
        let ends = PacketEnds {
            refused: alloc::vec![refused],
            answered: alloc::vec!["LogicalPort/shop/a".into()],
            ..PacketEnds::default()
        };
        let said =
            "refused: rejected at LogicalPort/shop/b, by Policy/shop/in/no; its sender is told";
        assert_eq!(PacketTrace::new(ends, Vec::new()).verdict(), said);
    }
}
