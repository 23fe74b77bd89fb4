//! What a physical switch is asked to be.

use ::fabric::{Buffer, Link, Pfc, PortConfig};
use model::{ClassKind, Scheduling};
use serde::{Deserialize, Serialize};
use units::{Bytes, Class, Dscp, Mac, Prefix, Rate, Span};
use wire::ethernet::TAGGED_LEN;

use crate::INTERFACE;

/// `fabric.toml`: a physical switch, and the links to its hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FabricSpec {
    /// What each of the eight classes promises, class 0 first: those that are lossless pause their
    /// senders.
    pub classes: [ClassKind; 8],
    /// The code point of each class, class 0 first, by which packets without an 802.1Q tag have
    /// their class; their port's class alone if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<[Dscp; Class::COUNT]>,
    /// How an output chooses among its classes.
    pub scheduling: Scheduling,
    /// Mark what leaves while so much of its class waits behind it; never if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<Bytes>,
    /// How many bytes the frames of lossy classes may take of all buffers together; as many as
    /// those have if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<Bytes>,
    /// How likely a frame is lost on its way to the switch, from 0 to 1.
    pub loss: f64,
    /// What is lost is drawn from it.
    pub seed: u64,
    /// How long a host may pause its frames before they are refused.
    pub stall_after: Span,
    /// When senders of lossless classes are paused.
    pub pfc: Pfc,
    /// The hosts, each with its link.
    #[serde(rename = "port")]
    pub ports: Vec<FabricPort>,
    /// The links between switches, where there are several.
    #[serde(rename = "trunk", skip_serializing_if = "Vec::is_empty")]
    pub trunks: Vec<Trunk>,
}

impl Default for FabricSpec {
    fn default() -> Self {
        Self {
            classes: [ClassKind::Lossy; 8],
            dscp: None,
            scheduling: Scheduling::Strict,
            ecn: None,
            shared: None,
            loss: 0.0,
            seed: 1,
            stall_after: Span::from_secs(10),
            pfc: Pfc::default(),
            ports: Vec::new(),
            trunks: Vec::new(),
        }
    }
}

/// A host's interface and the link that it is on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricPort {
    /// What the report calls it.
    pub name: String,
    /// The switch that it is at; of no name if absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub switch: String,
    /// The host's network namespace: a name under /run/netns, or a path.
    pub netns: String,
    /// What the interface is called there.
    #[serde(default = "interface")]
    pub interface: String,
    /// The interface's Ethernet address.
    pub mac: Mac,
    /// The interface's addresses.
    #[serde(default)]
    pub addresses: Vec<Prefix>,
    /// The largest packet in bytes.
    #[serde(default = "mtu")]
    pub mtu: u32,
    /// Let the host hand over large segments, of which each counts what it stands for. Without it
    /// every frame is one that a wire would carry.
    #[serde(default)]
    pub offload: bool,
    /// The link's rate, each way.
    pub rate: Rate,
    /// How long a bit takes from end to end.
    #[serde(default)]
    pub delay: Span,
    /// The switch's memory for what the host sends.
    #[serde(default)]
    pub buffer: Buffer,
    /// The class of frames of which neither an 802.1Q tag nor a code point tells it.
    #[serde(default)]
    pub class: Class,
}

/// A link between two switches. The classes of what it carries are those of 802.1Q tags or code
/// points, or else class 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trunk {
    /// The two.
    pub between: [String; 2],
    /// The link's rate, each way.
    pub rate: Rate,
    /// How long a bit takes from end to end.
    #[serde(default)]
    pub delay: Span,
    /// Each switch's memory for what the other sends.
    #[serde(default)]
    pub buffer: Buffer,
}

impl Trunk {
    pub(super) fn config(&self, longest: u32) -> PortConfig {
        PortConfig {
            link: Link { rate: self.rate, delay: self.delay, ..Link::default() },
            buffer: self.buffer,
            longest,
            class: Class::default(),
            trunk: true,
        }
    }
}

impl FabricPort {
    pub(super) fn config(&self) -> PortConfig {
        PortConfig {
            link: Link { rate: self.rate, delay: self.delay, ..Link::default() },
            buffer: self.buffer,
            longest: self.longest(),
            class: self.class,
            trunk: false,
        }
    }

    /// The longest frame in bytes: a packet behind an Ethernet header with a tag, or a large
    /// segment.
    pub(super) fn longest(&self) -> u32 {
        let packet = self.mtu + TAGGED_LEN as u32;
        if self.offload { tap::MOST_BYTES.max(packet) } else { packet }
    }
}

fn interface() -> String {
    INTERFACE.into()
}

fn mtu() -> u32 {
    1500
}
