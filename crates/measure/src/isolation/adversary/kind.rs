//! What other networks can do, in figures.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use units::Span;

use crate::MeasureError;
use crate::isolation::meeting::Meeting;
use crate::isolation::peer::{FRAME, Peer};

/// What adversaries send together, of the link's rate, where nothing holds them back.
const LOAD: f64 = 2.0;

/// The same of short frames, of which processors carry fewer.
const SHORT_LOAD: f64 = 1.25;

/// A short frame, and what it takes of a link with all that is put around it, in bytes.
const SHORT: u32 = 64;
const SHORT_ON_LINK: u32 = SHORT + 102;

/// How many frames a second each of the two ports of [`Adversary::Addresses`] sends.
const CLAIMS: f64 = 20_000.0;

/// What other networks do.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Adversary {
    /// Long UDP frames, twice as many as the link carries.
    Bytes,
    /// Frames of 64 bytes, a quarter more than the link carries.
    Packets,
    /// As `bytes`, by sixteen senders in one network.
    Flows,
    /// Long UDP frames at the link's rate for 5 ms of 20, in each network.
    OnOff,
    /// The same for 1 ms of 4.
    OnOffMillis,
    /// The same for 0.2 ms of 0.8.
    OnOffMicros,
    /// A TCP stream in each network, in large segments.
    Gso,
    /// Four TCP streams in each network, in frames of the MTU.
    Tcp,
    /// As `bytes`, with tags of the highest class, and code points of expedited forwarding.
    Priority,
    /// As `bytes`, from fifteen hosts in one network to one machine at the victim's receiver's.
    Incast,
    /// Long UDP frames to 64 machines of one network in two classes each; half of the machines
    /// read nothing.
    Streams,
    /// Frames of 64 bytes to 4,000 UDP sockets that nobody reads.
    Parked,
    /// Broadcasts into a network of 32 ports, at each of which 100 sockets read them.
    Broadcast,
    /// Two ports of one network claim one Ethernet address in turn.
    Addresses,
    /// As `bytes`, while networks come, go and change their minimum.
    Churn,
}

/// What a receiver does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Takes {
    /// It counts UDP frames.
    Datagrams,
    /// It takes so many TCP streams of each sender.
    Streams(u32),
    /// It has so many UDP sockets open on one port each, and reads none.
    Nothing { sockets: u16 },
    /// It has so many open on one port together, and reads all.
    Copies { sockets: u16 },
}

/// How many there are of what an adversary takes, beside the victim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Parties {
    pub networks: u32,
    /// In each network.
    pub senders: u32,
    pub receivers: u32,
}

impl Adversary {
    /// All there are, in the order in which tables show them.
    pub const ALL: [Self; 15] = [
        Self::Bytes,
        Self::Packets,
        Self::Flows,
        Self::OnOff,
        Self::OnOffMillis,
        Self::OnOffMicros,
        Self::Gso,
        Self::Tcp,
        Self::Priority,
        Self::Incast,
        Self::Streams,
        Self::Parked,
        Self::Broadcast,
        Self::Addresses,
        Self::Churn,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Packets => "packets",
            Self::Flows => "flows",
            Self::OnOff => "onoff",
            Self::OnOffMillis => "onoff-1ms",
            Self::OnOffMicros => "onoff-200us",
            Self::Gso => "gso",
            Self::Tcp => "tcp",
            Self::Priority => "priority",
            Self::Incast => "incast",
            Self::Streams => "streams",
            Self::Parked => "parked",
            Self::Broadcast => "broadcast",
            Self::Addresses => "addresses",
            Self::Churn => "churn",
        }
    }

    /// Where it does most harm, which is where it is met if nobody says where.
    pub const fn usual(self) -> Meeting {
        match self {
            Self::Incast => Meeting::Downlink,
            Self::Parked | Self::Broadcast | Self::Addresses => Meeting::Port,
            _ => Meeting::Uplink,
        }
    }

    /// Whether it can be met there.
    pub const fn meets(self, at: Meeting) -> bool {
        match self {
            // Many hosts are many uplinks.
            Self::Incast => matches!(at, Meeting::Downlink),
            // What changes is what networks have of an uplink.
            Self::Churn => !matches!(at, Meeting::Port),
            _ => true,
        }
    }

    /// Whether it is one between virtual machines as well: what does not ask for sockets.
    pub const fn has_rings(self) -> bool {
        matches!(
            self,
            Self::Bytes
                | Self::Packets
                | Self::Priority
                | Self::Incast
                | Self::Broadcast
                | Self::Churn
        )
    }

    /// Whether a switch can stand between it and the victim there: one that tells networks apart
    /// by what it is told of them at ports is told nothing of these.
    pub fn stands(self, at: Meeting, peer: Peer) -> bool {
        let is_plain = matches!(
            peer,
            Peer::Bridge
                | Peer::ZovnLossyUnshared
                | Peer::ZovnLossy
                | Peer::ZovnUnshared
                | Peer::Zovn
                | Peer::ZovnGranted
        );
        // A bridge knows no networks that could change.
        let knows = !matches!((self, peer), (Self::Churn, Peer::Bridge));
        is_plain && knows && at.has(peer)
    }

    /// How many there are of what it takes. `tenants` are the networks of those that are as many
    /// as one likes.
    pub fn parties(self, tenants: u32) -> Parties {
        let of = |networks, senders, receivers| Parties { networks, senders, receivers };
        match self {
            Self::Flows => of(1, 16, 1),
            Self::Incast => of(1, 15, 1),
            Self::Streams => of(1, 1, 64),
            Self::Parked => of(1, 1, 1),
            Self::Broadcast => of(1, 1, 32),
            Self::Addresses => of(1, 2, 1),
            _ => of(tenants, 1, 1),
        }
    }

    /// What the receiver of this number does.
    pub const fn takes(self, receiver: u32) -> Takes {
        match self {
            Self::Gso => Takes::Streams(1),
            Self::Tcp => Takes::Streams(4),
            Self::Streams if receiver % 2 == 1 => Takes::Nothing { sockets: 1 },
            Self::Parked => Takes::Nothing { sockets: 4000 },
            Self::Broadcast => Takes::Copies { sockets: 100 },
            _ => Takes::Datagrams,
        }
    }

    /// Bytes of its UDP frames.
    pub const fn size(self) -> u32 {
        match self {
            Self::Packets | Self::Parked | Self::Broadcast | Self::Addresses => SHORT,
            _ => FRAME,
        }
    }

    /// What one of so many senders sends while it sends, in frames a second, to a link of so many
    /// bits a second.
    pub fn rate(self, bits_per_sec: f64, senders: u32) -> f64 {
        let frames = |bytes: u32| bits_per_sec / f64::from(8 * bytes);
        let each = |load: f64| load / f64::from(senders.max(1));
        match self {
            Self::OnOff | Self::OnOffMillis | Self::OnOffMicros => frames(FRAME),
            Self::Addresses => CLAIMS,
            Self::Packets | Self::Parked | Self::Broadcast => {
                each(SHORT_LOAD) * frames(SHORT_ON_LINK)
            }
            _ => each(LOAD) * frames(FRAME),
        }
    }

    /// How long it sends and how long it is silent behind that, again and again, if it does. EyeQ's
    /// adversary has the first of these periods (NSDI 2013, §5.2).
    pub const fn period(self) -> Option<(Span, Span)> {
        match self {
            Self::OnOff => Some((Span::from_millis(5), Span::from_millis(15))),
            Self::OnOffMillis => Some((Span::from_millis(1), Span::from_millis(3))),
            Self::OnOffMicros => Some((Span::from_micros(200), Span::from_micros(600))),
            _ => None,
        }
    }
}

impl fmt::Display for Adversary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Adversary {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        Self::ALL.into_iter().find(|adversary| adversary.word() == text).ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            MeasureError::Config(format!("no network does `{text}`: write one of {words}"))
        })
    }
}

impl TryFrom<String> for Adversary {
    type Error = MeasureError;

    fn try_from(text: String) -> Result<Self, MeasureError> {
        text.parse()
    }
}

impl From<Adversary> for String {
    fn from(adversary: Adversary) -> Self {
        adversary.word().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for adversary in Adversary::ALL {
            assert_eq!(adversary.to_string().parse::<Adversary>().unwrap(), adversary);
            let json = serde_json::to_string(&adversary).unwrap();
            assert_eq!(json, format!("\"{adversary}\""));
            assert_eq!(serde_json::from_str::<Adversary>(&json).unwrap(), adversary);
        }
        let error = "nothing".parse::<Adversary>().unwrap_err().to_string();
        assert!(error.starts_with("no network does `nothing`: write one of bytes,"), "{error}");
    }

    #[test]
    fn each_is_met_where_it_usually_is() {
        for adversary in Adversary::ALL {
            assert!(adversary.meets(adversary.usual()), "{adversary}");
            assert!(adversary.stands(adversary.usual(), Peer::Zovn), "{adversary}");
        }
        assert!(!Adversary::Incast.meets(Meeting::Uplink));
        assert!(!Adversary::Bytes.stands(Meeting::Port, Peer::BridgeHtb));
        assert!(!Adversary::Churn.stands(Meeting::Uplink, Peer::Bridge));
    }

    #[test]
    fn loads_are_all_senders_together() {
        let link = 8.0 * f64::from(FRAME) * 1000.0;
        for (adversary, senders, each) in [
            (Adversary::Bytes, 8, 250.0),
            (Adversary::Incast, 16, 125.0),
            (Adversary::OnOff, 8, 1000.0),
            (Adversary::Addresses, 2, 20_000.0),
        ] {
            assert_eq!(adversary.rate(link, senders), each, "{adversary}");
        }
        let bits = 8.0 * f64::from(SHORT_ON_LINK) * 1000.0;
        assert_eq!(Adversary::Packets.rate(bits, 1), 1250.0);
        for adversary in Adversary::ALL.into_iter().filter(|one| one.period().is_some()) {
            let (on, off) = adversary.period().unwrap();
            assert_eq!(off.as_nanos(), 3 * on.as_nanos(), "EyeQ's duty is a quarter");
        }
    }

    #[test]
    fn half_of_the_machines_of_streams_read_nothing() {
        let silent = |number: &u32| {
            matches!(Adversary::Streams.takes(*number), Takes::Nothing { sockets: 1 })
        };
        let receivers = Adversary::Streams.parties(8).receivers;
        assert_eq!((0..receivers).filter(silent).count(), receivers as usize / 2);
    }
}
