//! Where the layers of a frame lie.

use alloc::collections::BTreeMap;
use core::ops::Range;

use wire::ethernet::ethertype;
use wire::ip::protocol;

/// A layer of a frame.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Layer {
    Ethernet,
    Vlan,
    Arp,
    V4,
    V6,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmp6,
    /// Neighbour discovery: the same bytes as [`Layer::Icmp6`].
    Nd,
    Igmp,
    Dhcp,
    Dhcp6,
    Dns,
    /// What is behind the last header.
    Payload,
}

impl Layer {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "eth",
            Self::Vlan => "vlan",
            Self::Arp => "arp",
            Self::V4 => "ip4",
            Self::V6 => "ip6",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
            Self::Icmp => "icmp",
            Self::Icmp6 => "icmp6",
            Self::Nd => "nd",
            Self::Igmp => "igmp",
            Self::Dhcp => "dhcp",
            Self::Dhcp6 => "dhcp6",
            Self::Dns => "dns",
            Self::Payload => "payload",
        }
    }

    /// The value of the first option of a code, if the layer has such options.
    pub fn option(self, layer: &[u8], code: u16) -> Option<&[u8]> {
        if self == Self::Dhcp6 {
            return wide_option(layer.get(4..)?, code);
        }
        let (mut options, unit) = match self {
            Self::Nd => {
                let fixed = match layer.first()? {
                    133 => 8,
                    134 => 16,
                    135 | 136 => 24,
                    _ => return None,
                };
                (layer.get(fixed..)?, 8)
            }
            Self::Dhcp => (layer.get(240..)?, 1),
            _ => return None,
        };
        while let [kind, len, rest @ ..] = options {
            if unit == 1 && *kind == 0 {
                options = &options[1..];
                continue;
            }
            let inside = match unit {
                8 => (usize::from(*len) * 8).checked_sub(2)?,
                _ => usize::from(*len),
            };
            if unit == 1 && *kind == 255 {
                return None;
            }
            let value = rest.get(..inside)?;
            if u16::from(*kind) == code {
                return Some(value);
            }
            options = &rest[inside..];
        }
        None
    }
}

/// An option of DHCPv6, whose codes and lengths are two bytes each (RFC 8415 §21.1).
fn wide_option(mut options: &[u8], code: u16) -> Option<&[u8]> {
    while let (Some(kind), Some(len)) = (word(options, 0), word(options, 2)) {
        let end = 4 + usize::from(len);
        let value = options.get(4..end)?;
        if kind == code {
            return Some(value);
        }
        options = &options[end..];
    }
    None
}

/// Where each layer of a frame begins. All but the payload end where the frame does.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    at: BTreeMap<Layer, usize>,
    /// Where the packet ends: what is behind it fills the frame up.
    pub end: usize,
}

impl Layers {
    /// The layers of a frame.
    pub fn of(frame: &[u8]) -> Self {
        let mut layers = Self { at: BTreeMap::new(), end: frame.len() };
        if frame.len() < 14 {
            return layers;
        }
        layers.at.insert(Layer::Ethernet, 0);
        let mut at = 12;
        let mut kind = word(frame, at);
        if matches!(kind, Some(ethertype::VLAN | ethertype::SERVICE_VLAN)) {
            layers.at.insert(Layer::Vlan, at + 2);
            at += 4;
            kind = word(frame, at);
        }
        layers.network(frame, at + 2, kind.unwrap_or(0));
        layers
    }

    /// The layers of the packet that an ICMP error quotes.
    pub fn quoted(&self, frame: &[u8]) -> Option<Self> {
        let message = self.at.get(&Layer::Icmp).or_else(|| self.at.get(&Layer::Icmp6))?;
        let kind = match frame.get(message + 8)? >> 4 {
            4 => ethertype::IPV4,
            6 => ethertype::IPV6,
            _ => return None,
        };
        let mut layers = Self { at: BTreeMap::new(), end: self.end };
        layers.network(frame, message + 8, kind);
        Some(layers)
    }

    /// Where a layer is.
    pub fn get(&self, layer: Layer) -> Option<Range<usize>> {
        let at = *self.at.get(&layer)?;
        (at <= self.end).then_some(at..self.end)
    }

    /// Which layers there are.
    pub fn names(&self) -> impl Iterator<Item = Layer> {
        self.at.keys().copied()
    }

    fn network(&mut self, frame: &[u8], at: usize, kind: u16) {
        match kind {
            ethertype::ARP => {
                self.at.insert(Layer::Arp, at);
                self.at.insert(Layer::Payload, at + 28);
            }
            ethertype::IPV4 => {
                let (Some(first), Some(len)) = (frame.get(at), word(frame, at + 2)) else { return };
                let header = usize::from(first & 15) * 4;
                self.at.insert(Layer::V4, at);
                self.end = self.end.min(at + usize::from(len).max(header));
                let is_later = word(frame, at + 6).is_some_and(|it| it & 0x1fff != 0);
                let protocol = frame.get(at + 9).copied().filter(|_| !is_later);
                self.transport(frame, at + header, protocol);
            }
            ethertype::IPV6 => {
                let (Some(len), Some(next)) = (word(frame, at + 4), frame.get(at + 6)) else {
                    return;
                };
                self.at.insert(Layer::V6, at);
                self.end = self.end.min(at + 40 + usize::from(len));
                self.behind_extensions(frame, at + 40, *next);
            }
            _ => {
                self.at.insert(Layer::Payload, at);
            }
        }
    }

    /// Past IPv6's extension headers (RFC 8200 §4).
    fn behind_extensions(&mut self, frame: &[u8], mut at: usize, mut next: u8) {
        for _ in 0..8 {
            let Some([following, len]) = frame.get(at..at + 2).and_then(|it| it.as_array()) else {
                break;
            };
            let len = match next {
                0 | 43 | 60 => usize::from(*len) * 8 + 8,
                44 => 8,
                _ => break,
            };
            let is_later = next == 44 && word(frame, at + 2).is_some_and(|it| it >> 3 != 0);
            next = *following;
            at += len;
            if is_later {
                return self.transport(frame, at, None);
            }
        }
        self.transport(frame, at, Some(next));
    }

    fn transport(&mut self, frame: &[u8], at: usize, carried: Option<u8>) {
        let (layer, len) = match carried {
            Some(protocol::TCP) => {
                let words = frame.get(at + 12).map_or(5, |it| it >> 4);
                (Layer::Tcp, usize::from(words) * 4)
            }
            Some(protocol::UDP) => (Layer::Udp, 8),
            Some(132) => (Layer::Sctp, 12),
            Some(protocol::ICMP) => (Layer::Icmp, 8),
            Some(protocol::ICMPV6) => (Layer::Icmp6, 8),
            Some(protocol::IGMP) => (Layer::Igmp, 8),
            _ => {
                self.at.insert(Layer::Payload, at);
                return;
            }
        };
        self.at.insert(layer, at);
        self.at.insert(Layer::Payload, at + len);
        if layer == Layer::Icmp6 && matches!(frame.get(at), Some(133..=136)) {
            self.at.insert(Layer::Nd, at);
        }
        let ports = (word(frame, at), word(frame, at + 2));
        if layer == Layer::Udp && matches!(ports, (Some(67 | 68), Some(67 | 68))) {
            self.at.insert(Layer::Dhcp, at + 8);
        }
        if layer == Layer::Udp && matches!(ports, (Some(546 | 547), Some(546 | 547))) {
            self.at.insert(Layer::Dhcp6, at + 8);
        }
        if layer == Layer::Udp && (ports.0 == Some(53) || ports.1 == Some(53)) {
            self.at.insert(Layer::Dns, at + 8);
        }
    }
}

/// Two bytes as a number.
pub fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}
