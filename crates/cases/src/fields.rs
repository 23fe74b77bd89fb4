//! The fields of frames, by name: where each lies, and how people write its values.
//!
//! ```text
//! ip.ttl ─▶ layer ip4 or ip6, bits 64 to 72 or 56 to 64, a number
//! icmp.quote.udp.dport ─▶ the same, of the packet that an error quotes
//! dhcp.lease ─▶ an option, by its code
//! ```
//!
//! One table serves to write frames, to change them, and to hold them against patterns.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tree::{Node, Value};
use units::Mac;

use crate::dns::{self, Part};
use crate::layers::{Layer, Layers};
use crate::scalar::{Scalar, number_of};

/// How people write a field's value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// A number, or one of these words for one.
    Number(&'static [(&'static str, u128)]),
    /// An Ethernet address.
    Mac,
    /// An IPv4 address.
    V4,
    /// An IPv6 address.
    V6,
    /// TCP's flags: words in a list, or in one word's letters.
    Flags,
    /// Bytes as text.
    Text,
}

/// Where a field lies in its layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// So many bits from so many bits on.
    Bits(usize, usize),
    /// An option of that code.
    Option(u16),
    /// So many bytes, from so many on, of an option of that code.
    Inside(u16, usize, usize),
    /// A part of a message about names.
    Named(Part),
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub layer: Layer,
    pub name: &'static str,
    pub place: Place,
    pub form: Form,
}

const NUMBER: Form = Form::Number(&[]);
const ETHERTYPES: Form = Form::Number(&[("arp", 0x806), ("ip4", 0x800), ("ip6", 0x86dd)]);
const PROTOCOLS: Form = Form::Number(&[
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("icmp6", 58),
    ("sctp", 132),
]);
const ARP_WORDS: Form = Form::Number(&[("request", 1), ("reply", 2)]);
const ICMP_WORDS: Form = Form::Number(&[
    ("reply", 0),
    ("echo-reply", 0),
    ("unreachable", 3),
    ("redirect", 5),
    ("request", 8),
    ("echo", 8),
    ("echo-request", 8),
    ("time-exceeded", 11),
]);
const ICMP6_WORDS: Form = Form::Number(&[
    ("unreachable", 1),
    ("too-big", 2),
    ("time-exceeded", 3),
    ("request", 128),
    ("echo", 128),
    ("echo-request", 128),
    ("reply", 129),
    ("echo-reply", 129),
    ("rs", 133),
    ("ra", 134),
    ("ns", 135),
    ("na", 136),
]);
const DHCP_WORDS: Form = Form::Number(&[
    ("discover", 1),
    ("offer", 2),
    ("request", 3),
    ("decline", 4),
    ("ack", 5),
    ("nak", 6),
    ("release", 7),
    ("inform", 8),
]);

const DHCP6_WORDS: Form = Form::Number(&[
    ("solicit", 1),
    ("advertise", 2),
    ("request", 3),
    ("confirm", 4),
    ("renew", 5),
    ("rebind", 6),
    ("reply", 7),
    ("release", 8),
    ("decline", 9),
    ("information-request", 11),
    ("relay-forward", 12),
    ("relay-reply", 13),
]);
const DHCP6_STATUS: Form =
    Form::Number(&[("success", 0), ("no-address", 2), ("no-binding", 3), ("not-on-link", 4)]);
const RECORDS: Form = Form::Number(&[("a", 1), ("ptr", 12), ("aaaa", 28), ("any", 255)]);
const RCODES: Form = Form::Number(&[("ok", 0), ("nxdomain", 3), ("refused", 5)]);

macro_rules! fields {
    ($($layer:ident { $($name:literal $place:expr, $form:expr;)* })*) => {
        /// Every field, the first name of each being the one that is told.
        pub const FIELDS: &[Field] = &[
            $($(Field { layer: Layer::$layer, name: $name, place: $place, form: $form },)*)*
        ];
    };
}

use Place::{Bits, Inside, Named, Option as Tlv};

fields! {
    Ethernet {
        "dst" Bits(0, 48), Form::Mac;
        "src" Bits(48, 48), Form::Mac;
        "type" Bits(96, 16), ETHERTYPES;
    }
    Vlan {
        "id" Bits(4, 12), NUMBER;
        "pcp" Bits(0, 3), NUMBER;
        "tag" Bits(4, 12), NUMBER;
        "vid" Bits(4, 12), NUMBER;
    }
    Arp {
        "op" Bits(48, 16), ARP_WORDS;
        "sha" Bits(64, 48), Form::Mac;
        "spa" Bits(112, 32), Form::V4;
        "tha" Bits(144, 48), Form::Mac;
        "tpa" Bits(192, 32), Form::V4;
    }
    V4 {
        "src" Bits(96, 32), Form::V4;
        "dst" Bits(128, 32), Form::V4;
        "ttl" Bits(64, 8), NUMBER;
        "proto" Bits(72, 8), PROTOCOLS;
        "tos" Bits(8, 8), NUMBER;
        "dscp" Bits(8, 6), NUMBER;
        "ecn" Bits(14, 2), NUMBER;
        "version" Bits(0, 4), NUMBER;
        "ihl" Bits(4, 4), NUMBER;
        "len" Bits(16, 16), NUMBER;
        "id" Bits(32, 16), NUMBER;
        "flags" Bits(48, 3), Form::Number(&[("df", 2), ("mf", 1)]);
        "df" Bits(49, 1), NUMBER;
        "mf" Bits(50, 1), NUMBER;
        "frag" Bits(51, 13), NUMBER;
        "offset" Bits(51, 13), NUMBER;
        "sum" Bits(80, 16), NUMBER;
    }
    V6 {
        "src" Bits(64, 128), Form::V6;
        "dst" Bits(192, 128), Form::V6;
        "ttl" Bits(56, 8), NUMBER;
        "hlim" Bits(56, 8), NUMBER;
        "hop_limit" Bits(56, 8), NUMBER;
        "proto" Bits(48, 8), PROTOCOLS;
        "next" Bits(48, 8), PROTOCOLS;
        "tos" Bits(4, 8), NUMBER;
        "tc" Bits(4, 8), NUMBER;
        "dscp" Bits(4, 6), NUMBER;
        "ecn" Bits(10, 2), NUMBER;
        "flow" Bits(12, 20), NUMBER;
        "version" Bits(0, 4), NUMBER;
        "len" Bits(32, 16), NUMBER;
    }
    Tcp {
        "sport" Bits(0, 16), NUMBER;
        "dport" Bits(16, 16), NUMBER;
        "seq" Bits(32, 32), NUMBER;
        "ack" Bits(64, 32), NUMBER;
        "flags" Bits(104, 8), Form::Flags;
        "win" Bits(112, 16), NUMBER;
        "window" Bits(112, 16), NUMBER;
        "sum" Bits(128, 16), NUMBER;
    }
    Udp {
        "sport" Bits(0, 16), NUMBER;
        "dport" Bits(16, 16), NUMBER;
        "len" Bits(32, 16), NUMBER;
        "sum" Bits(48, 16), NUMBER;
    }
    Sctp {
        "sport" Bits(0, 16), NUMBER;
        "dport" Bits(16, 16), NUMBER;
    }
    Icmp {
        "type" Bits(0, 8), ICMP_WORDS;
        "code" Bits(8, 8), NUMBER;
        "sum" Bits(16, 16), NUMBER;
        "id" Bits(32, 16), NUMBER;
        "seq" Bits(48, 16), NUMBER;
        "mtu" Bits(48, 16), NUMBER;
        "gateway" Bits(32, 32), Form::V4;
    }
    Icmp6 {
        "type" Bits(0, 8), ICMP6_WORDS;
        "code" Bits(8, 8), NUMBER;
        "sum" Bits(16, 16), NUMBER;
        "id" Bits(32, 16), NUMBER;
        "seq" Bits(48, 16), NUMBER;
        "mtu" Bits(32, 32), NUMBER;
    }
    Nd {
        "op" Bits(0, 8), ICMP6_WORDS;
        "target" Bits(64, 128), Form::V6;
        "router" Bits(32, 1), NUMBER;
        "solicited" Bits(33, 1), NUMBER;
        "override" Bits(34, 1), NUMBER;
        "sll" Tlv(1), Form::Mac;
        "tll" Tlv(2), Form::Mac;
        "managed" Bits(40, 1), NUMBER;
        "other" Bits(41, 1), NUMBER;
        "lifetime" Bits(48, 16), NUMBER;
        "prefix" Inside(3, 14, 16), Form::V6;
        "prefix_len" Inside(3, 0, 1), NUMBER;
        "mtu" Inside(5, 2, 4), NUMBER;
    }
    Igmp {
        "type" Bits(0, 8), Form::Number(&[("query", 0x11), ("report", 0x16), ("leave", 0x17)]);
        "sum" Bits(16, 16), NUMBER;
        "group" Bits(32, 32), Form::V4;
    }
    Dhcp {
        "op" Bits(0, 8), NUMBER;
        "hops" Bits(24, 8), NUMBER;
        "xid" Bits(32, 32), NUMBER;
        "flags" Bits(80, 16), Form::Number(&[("broadcast", 0x8000)]);
        "ciaddr" Bits(96, 32), Form::V4;
        "yiaddr" Bits(128, 32), Form::V4;
        "siaddr" Bits(160, 32), Form::V4;
        "giaddr" Bits(192, 32), Form::V4;
        "chaddr" Bits(224, 48), Form::Mac;
        "mask" Tlv(1), Form::V4;
        "router" Tlv(3), Form::V4;
        "dns" Tlv(6), Form::V4;
        "hostname" Tlv(12), Form::Text;
        "domain" Tlv(15), Form::Text;
        "mtu" Tlv(26), NUMBER;
        "requested" Tlv(50), Form::V4;
        "lease" Tlv(51), NUMBER;
        "type" Tlv(53), DHCP_WORDS;
        "server" Tlv(54), Form::V4;
        "renewal" Tlv(58), NUMBER;
        "rebinding" Tlv(59), NUMBER;
    }
    Dhcp6 {
        "type" Bits(0, 8), DHCP6_WORDS;
        "xid" Bits(8, 24), NUMBER;
        "client" Inside(1, 4, 6), Form::Mac;
        "server" Inside(2, 4, 6), Form::Mac;
        "iaid" Inside(3, 0, 4), NUMBER;
        "address" Inside(3, 16, 16), Form::V6;
        "ia_status" Inside(3, 16, 2), DHCP6_STATUS;
        "status" Inside(13, 0, 2), DHCP6_STATUS;
        "dns" Inside(23, 0, 16), Form::V6;
    }
    Dns {
        "id" Bits(0, 16), NUMBER;
        "response" Bits(16, 1), NUMBER;
        "authoritative" Bits(21, 1), NUMBER;
        "truncated" Bits(22, 1), NUMBER;
        "rcode" Bits(28, 4), RCODES;
        "answers" Bits(48, 16), NUMBER;
        "name" Named(Part::Name), Form::Text;
        "kind" Named(Part::Kind), RECORDS;
        "a" Named(Part::Record(dns::A)), Form::V4;
        "aaaa" Named(Part::Record(dns::AAAA)), Form::V6;
        "ptr" Named(Part::Record(dns::PTR)), Form::Text;
    }
}

/// A field of a frame, or of a packet that an error in it quotes.
#[derive(Clone, Debug)]
pub struct Path {
    /// How it was written.
    pub written: String,
    /// Of a quoted packet.
    pub is_quoted: bool,
    /// Which fields it may be: `ip.src` is one of two.
    pub fields: Vec<Field>,
}

/// Layers by the words for them.
fn layers(word: &str) -> &'static [Layer] {
    match word {
        "eth" | "ether" | "ethernet" => &[Layer::Ethernet],
        "vlan" | "dot1q" => &[Layer::Vlan],
        "arp" => &[Layer::Arp],
        "ip" => &[Layer::V4, Layer::V6],
        "ip4" | "ipv4" => &[Layer::V4],
        "ip6" | "ipv6" => &[Layer::V6],
        "tcp" => &[Layer::Tcp],
        "udp" => &[Layer::Udp],
        "sctp" => &[Layer::Sctp],
        "icmp" => &[Layer::Icmp, Layer::Icmp6],
        "icmp4" | "icmpv4" => &[Layer::Icmp],
        "icmp6" | "icmpv6" => &[Layer::Icmp6],
        "nd" | "ns" | "na" | "rs" | "ra" => &[Layer::Nd],
        "igmp" => &[Layer::Igmp],
        "dhcp" | "dhcp4" => &[Layer::Dhcp],
        "dhcp6" => &[Layer::Dhcp6],
        "dns" => &[Layer::Dns],
        _ => &[],
    }
}

/// Fields that are written without their layer.
const BARE: &[(&str, &str)] = &[
    ("sport", "tcp udp sctp"),
    ("dport", "tcp udp sctp"),
    ("src", "ip"),
    ("dst", "ip"),
    ("ttl", "ip"),
    ("hlim", "ip6"),
    ("tos", "ip"),
    ("dscp", "ip"),
    ("ecn", "ip"),
    ("proto", "ip"),
    ("df", "ip4"),
    ("mf", "ip4"),
    ("frag", "ip4"),
    ("flags", "tcp"),
    ("seq", "tcp icmp"),
    ("ack", "tcp"),
    ("type", "icmp"),
    ("code", "icmp"),
];

impl Path {
    /// Reads a name.
    pub fn parse(written: &str) -> Result<Self, String> {
        let mut words: Vec<&str> = written.split('.').collect();
        let quote = words.iter().position(|it| matches!(*it, "quote" | "quoted" | "inner"));
        if let Some(place) = quote {
            words.drain(..=place);
        }
        let named = |layer: &str, name: &str| -> Vec<Field> {
            let layers = layers(layer);
            FIELDS
                .iter()
                .filter(|it| layers.contains(&it.layer) && it.name == name)
                .copied()
                .collect()
        };
        let fields: Vec<Field> = match *words.as_slice() {
            ["smac" | "dmac"] => named("eth", if words[0] == "smac" { "src" } else { "dst" }),
            [name] => {
                let layers = BARE.iter().find(|(bare, _)| *bare == name).map_or("", |it| it.1);
                layers.split(' ').flat_map(|layer| named(layer, name)).collect()
            }
            [layer, name] => named(layer, name),
            _ => Vec::new(),
        };
        if fields.is_empty() {
            return Err(format!(
                "no frame has a field `{written}`: write one as eth.src, ip.ttl or tcp.dport"
            ));
        }
        Ok(Self { written: written.to_owned(), is_quoted: quote.is_some(), fields })
    }

    /// The one of its fields that a frame has, and where its layer is.
    fn find(&self, layers: &Layers) -> Option<(Field, core::ops::Range<usize>)> {
        self.fields.iter().find_map(|it| Some((*it, layers.get(it.layer)?)))
    }

    /// What a frame says there, and how it is read. `None` if the frame has no such layer.
    pub fn get(&self, frame: &[u8]) -> Option<(Field, Scalar)> {
        let layers = Layers::of(frame);
        let layers = if self.is_quoted { layers.quoted(frame)? } else { layers };
        let (field, range) = self.find(&layers)?;
        field.get(frame.get(range)?).map(|it| (field, it))
    }

    /// Has a frame say something there.
    pub fn set(&self, frame: &mut [u8], value: &Node) -> Result<(), String> {
        let layers = Layers::of(frame);
        let layers = if self.is_quoted { layers.quoted(frame) } else { Some(layers) };
        let missing = || format!("this frame has no `{}`", self.written);
        let (field, range) = layers.and_then(|it| self.find(&it)).ok_or_else(missing)?;
        let scalar = field.read(value)?;
        let layer = frame.get_mut(range).ok_or_else(missing)?;
        if field.put(layer, &scalar) { Ok(()) } else { Err(missing()) }
    }
}

impl Field {
    /// What a layer says there.
    pub fn get(&self, layer: &[u8]) -> Option<Scalar> {
        match self.place {
            Bits(at, bits) => {
                let bit = |i: usize| Some(layer.get(i / 8)? >> (7 - i % 8) & 1);
                let number = (at..at + bits)
                    .try_fold(0u128, |number, i| Some(number << 1 | u128::from(bit(i)?)))?;
                Some(Scalar::Number(number))
            }
            Tlv(code) => {
                let bytes = self.layer.option(layer, code)?;
                Some(match self.form {
                    Form::Text => Scalar::Bytes(bytes.to_vec()),
                    _ => Scalar::Number(number_of(bytes.get(..self.width()).unwrap_or(bytes))),
                })
            }
            Inside(code, skip, width) => {
                let bytes = self.layer.option(layer, code)?.get(skip..skip + width)?;
                Some(Scalar::Number(number_of(bytes)))
            }
            Named(part) => dns::get(layer, part),
        }
    }

    /// Has a layer say something there.
    fn put(&self, layer: &mut [u8], value: &Scalar) -> bool {
        match (self.place, value) {
            (Bits(at, bits), Scalar::Number(number)) => {
                for i in 0..bits {
                    let Some(byte) = layer.get_mut((at + i) / 8) else { return false };
                    let mask = 1 << (7 - (at + i) % 8);
                    let is_set = number >> (bits - 1 - i) & 1 == 1;
                    *byte = if is_set { *byte | mask } else { *byte & !mask };
                }
                true
            }
            _ => false,
        }
    }

    /// The bytes of one value of an option.
    pub fn width(&self) -> usize {
        match (self.form, self.place) {
            (Form::Mac, _) => 6,
            (Form::V4, _) => 4,
            (Form::V6, _) => 16,
            (_, Bits(_, bits)) => bits.div_ceil(8),
            (_, Inside(_, _, width)) => width,
            (Form::Number(_), Tlv(26)) => 2,
            (Form::Number(_), Tlv(53)) => 1,
            _ => 4,
        }
    }

    /// Reads a value as people write it.
    pub fn read(&self, node: &Node) -> Result<Scalar, String> {
        let text = match &node.value {
            Value::Unsigned(number) => return Ok(Scalar::Number(u128::from(*number))),
            Value::Bool(is) => return Ok(Scalar::Number(u128::from(*is))),
            Value::Text(text) => text.as_str(),
            Value::List(items) if self.form == Form::Flags => {
                let words = items.iter().filter_map(|(_, it)| it.text());
                return words
                    .map(flag)
                    .sum::<Option<u128>>()
                    .map(Scalar::Number)
                    .ok_or_else(|| "write TCP's flags as [syn, ack]".to_owned());
            }
            _ => return Err(format!("`{}` is one value: write it here", self.name)),
        };
        let wrong = |wanted: &str| format!("`{text}` is not {wanted}");
        match self.form {
            Form::Text => Ok(Scalar::Bytes(text.as_bytes().to_vec())),
            Form::Mac => {
                let mac = match text {
                    "broadcast" => Some(Mac::BROADCAST),
                    text => text.parse().ok(),
                };
                mac.map(|it| Scalar::Number(number_of(&it.0)))
                    .ok_or_else(|| wrong("an Ethernet address, as 02:00:00:00:00:01"))
            }
            Form::V4 => {
                let address: Result<Ipv4Addr, _> = text.parse();
                address
                    .map(|it| Scalar::Number(it.to_bits().into()))
                    .map_err(|_| wrong("an IPv4 address"))
            }
            Form::V6 => {
                let address: Result<Ipv6Addr, _> = text.parse();
                address.map(|it| Scalar::Number(it.to_bits())).map_err(|_| wrong("an IPv6 address"))
            }
            Form::Flags => {
                let by_word: Option<u128> = text
                    .split(|c: char| !c.is_ascii_alphanumeric())
                    .map(|word| flag(&word.to_lowercase()))
                    .sum();
                let by_letter: Option<u128> = text.chars().map(letter).sum();
                by_word
                    .or(by_letter)
                    .map(Scalar::Number)
                    .ok_or_else(|| wrong("TCP's flags: write [syn, ack]"))
            }
            Form::Number(words) => {
                let text = text.to_lowercase();
                let word = words.iter().find(|(word, _)| *word == text).map(|(_, it)| *it);
                let hex = text.strip_prefix("0x").and_then(|it| u128::from_str_radix(it, 16).ok());
                word.or(hex)
                    .or_else(|| text.parse().ok())
                    .map(Scalar::Number)
                    .ok_or_else(|| wrong("a number"))
            }
        }
    }

    /// A value as people write it.
    pub fn show(&self, value: &Scalar) -> String {
        let number = match value {
            Scalar::Bytes(bytes) => return String::from_utf8_lossy(bytes).into_owned(),
            Scalar::Number(number) => *number,
        };
        match self.form {
            Form::Mac => {
                let [_, _, mac @ ..] = (number as u64).to_be_bytes();
                Mac(mac).to_string()
            }
            Form::V4 => IpAddr::V4(Ipv4Addr::from_bits(number as u32)).to_string(),
            Form::V6 => IpAddr::V6(Ipv6Addr::from_bits(number)).to_string(),
            Form::Flags => {
                let set = FLAGS.iter().filter(|(_, bit)| number & bit != 0);
                set.map(|(word, _)| *word).collect::<Vec<_>>().join("+")
            }
            Form::Number(words) => words
                .iter()
                .find(|(_, it)| *it == number)
                .map_or_else(|| number.to_string(), |(word, _)| (*word).to_owned()),
            Form::Text => number.to_string(),
        }
    }

    /// Its name with its layer's.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.layer.name(), self.name)
    }
}

const FLAGS: [(&str, u128); 8] = [
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("psh", 8),
    ("ack", 16),
    ("urg", 32),
    ("ece", 64),
    ("cwr", 128),
];

fn flag(word: &str) -> Option<u128> {
    let word = word.to_lowercase();
    FLAGS.iter().find(|(name, _)| *name == word).map(|(_, bit)| *bit)
}

fn letter(letter: char) -> Option<u128> {
    "FSRPAUEC".find(letter).map(|bit| 1 << bit)
}
