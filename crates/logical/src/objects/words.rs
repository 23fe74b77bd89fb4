//! Names, references and the small words of the objects.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use units::{Mac, serde_as_word};

/// A word that is not what it was meant to be: what it should be, and an example.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{word}` is not {wanted}")]
pub struct NoWord {
    word: String,
    wanted: &'static str,
}

impl NoWord {
    pub(super) fn new(word: &str, wanted: &'static str) -> Self {
        Self { word: word.chars().take(64).collect(), wanted }
    }
}

/// An object's name: an RFC 1123 label. It never changes, and all copies of it are one.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Name(Arc<str>);

serde_as_word!(Name);

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NoWord;

    fn from_str(word: &str) -> Result<Self, NoWord> {
        let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let inside = word.bytes().all(|b| letter(b) || b == b'-');
        let ends =
            word.bytes().next().is_some_and(letter) && word.bytes().last().is_some_and(letter);
        if inside && ends && word.len() <= 63 {
            return Ok(Self(word.into()));
        }
        let wanted = "a name: write 1 to 63 lower-case letters, digits and inner hyphens, as web-1";
        Err(NoWord::new(word, wanted))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Another object, by name: of the same tenant, or of one that shares with it.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Reference {
    /// The other tenant. `None`: the tenant of the object that refers, or the operator where only
    /// the operator has such objects.
    pub tenant: Option<Name>,
    /// The object's name.
    pub name: Name,
}

serde_as_word!(Reference);

impl FromStr for Reference {
    type Err = NoWord;

    fn from_str(word: &str) -> Result<Self, NoWord> {
        Ok(match word.split_once('/') {
            Some((tenant, name)) => Self { tenant: Some(tenant.parse()?), name: name.parse()? },
            None => Self { tenant: None, name: word.parse()? },
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tenant {
            Some(tenant) => write!(f, "{tenant}/{}", self.name),
            None => self.name.fmt(f),
        }
    }
}

#[cfg(any(test, feature = "schema"))]
impl utoipa::PartialSchema for Reference {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, Type};

        let said = "Another object's name, or `tenant/name` of a tenant that shares with this one.";
        ObjectBuilder::new().schema_type(Type::String).description(Some(said)).into()
    }
}

#[cfg(any(test, feature = "schema"))]
impl utoipa::ToSchema for Reference {}

/// TCP or UDP ports, from one to another: `443`, `8000-8099`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last, at least the first.
    pub last: u16,
}

impl PortRange {
    /// Whether a port is one of these.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl FromStr for PortRange {
    type Err = NoWord;

    fn from_str(word: &str) -> Result<Self, NoWord> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<u16>().ok().filter(|port| digits && *port > 0)
        };
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(NoWord::new(word, "ports: write 1 to 65535, as 443 or 8000-8099")),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => self.first.fmt(f),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// A number where one will do, a word otherwise.
fn number_or_word<S: serde::Serializer>(
    number: Option<u16>,
    word: &impl fmt::Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => serializer.serialize_u16(number),
        None => serializer.collect_str(word),
    }
}

impl Serialize for PortRange {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        number_or_word((self.first == self.last).then_some(self.first), self, serializer)
    }
}

impl<'de> Deserialize<'de> for PortRange {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrWord("ports, as 443 or 8000-8099", Default::default()))
    }
}

/// Reads a number or a word as the type reads it.
struct NumberOrWord<T>(&'static str, core::marker::PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> serde::de::Visitor<'_> for NumberOrWord<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        alloc::format!("{number}").parse().map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<T, E> {
        word.parse().map_err(E::custom)
    }
}

/// What an IP packet carries: `tcp`, `udp`, `sctp`, `icmp`, `icmp6` or a number.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Protocol(pub u8);

impl Protocol {
    /// The protocols that have names here.
    const NAMES: [(&'static str, u8); 5] =
        [("icmp", 1), ("tcp", 6), ("udp", 17), ("icmp6", 58), ("sctp", 132)];
    /// ICMP.
    pub const ICMP: Self = Self(1);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// ICMPv6.
    pub const ICMP6: Self = Self(58);
    /// SCTP.
    pub const SCTP: Self = Self(132);

    /// Whether its packets begin with two ports.
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::TCP | Self::UDP | Self::SCTP)
    }
}

impl FromStr for Protocol {
    type Err = NoWord;

    fn from_str(word: &str) -> Result<Self, NoWord> {
        let named = Self::NAMES.iter().find(|(name, _)| *name == word).map(|(_, number)| *number);
        let wanted = "a protocol: write tcp, udp, sctp, icmp, icmp6, or a number up to 255";
        named.or_else(|| word.parse().ok()).map(Self).ok_or_else(|| NoWord::new(word, wanted))
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

impl Serialize for Protocol {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = Self::NAMES.iter().any(|(_, number)| *number == self.0);
        number_or_word((!named).then_some(self.0.into()), self, serializer)
    }
}

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wanted = "a protocol, as tcp, udp, sctp, icmp, icmp6 or a number up to 255";
        deserializer.deserialize_any(NumberOrWord(wanted, Default::default()))
    }
}

/// What a frame carries: `arp`, `ip4`, `ip6`, or a number from 1536 (IEEE 802.3 §3.2.6).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ethertype(pub u16);

impl Ethertype {
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// IPv4.
    pub const IP4: Self = Self(0x0800);
    /// IPv6.
    pub const IP6: Self = Self(0x86dd);
}

impl FromStr for Ethertype {
    type Err = NoWord;

    fn from_str(word: &str) -> Result<Self, NoWord> {
        let number = || match word.strip_prefix("0x") {
            Some(digits) => u16::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        };
        let wanted = "what a frame carries: write arp, ip4, ip6, or a number from 1536 to 65535";
        match word {
            "arp" => Some(Self::ARP),
            "ip4" => Some(Self::IP4),
            "ip6" => Some(Self::IP6),
            _ => number().filter(|number| *number >= 1536).map(Self),
        }
        .ok_or_else(|| NoWord::new(word, wanted))
    }
}

impl fmt::Display for Ethertype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ARP => f.write_str("arp"),
            Self::IP4 => f.write_str("ip4"),
            Self::IP6 => f.write_str("ip6"),
            Self(number) => number.fmt(f),
        }
    }
}

impl Serialize for Ethertype {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = [Self::ARP, Self::IP4, Self::IP6].contains(self);
        number_or_word((!named).then_some(self.0), self, serializer)
    }
}

impl<'de> Deserialize<'de> for Ethertype {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wanted = "what a frame carries, as arp, ip4, ip6 or a number from 1536";
        deserializer.deserialize_any(NumberOrWord(wanted, Default::default()))
    }
}

/// A port's Ethernet address: one, or whichever it is given.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MacChoice {
    /// Derived from the port's name.
    #[default]
    Dynamic,
    /// This one.
    Fixed(Mac),
}

serde_as_word!(MacChoice);

impl FromStr for MacChoice {
    type Err = NoWord;

    fn from_str(word: &str) -> Result<Self, NoWord> {
        if word == "dynamic" {
            return Ok(Self::Dynamic);
        }
        let wanted = "an Ethernet address: write it as 02:00:00:00:00:01, or `dynamic`";
        word.parse().map(Self::Fixed).map_err(|_| NoWord::new(word, wanted))
    }
}

impl fmt::Display for MacChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dynamic => f.write_str("dynamic"),
            Self::Fixed(mac) => mac.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn words_print_as_they_were_read() {
        fn same<T: FromStr<Err = NoWord> + fmt::Display>(words: &[&str]) {
            for word in words {
                assert_eq!(word.parse::<T>().map(|it| it.to_string()), Ok((*word).into()));
            }
        }
        same::<Name>(&["web", "web-1", "1"]);
        same::<Reference>(&["web", "shop/web"]);
        same::<PortRange>(&["443", "8000-8099"]);
        same::<Protocol>(&["tcp", "icmp6", "47"]);
        same::<Ethertype>(&["arp", "ip4", "ip6", "35020"]);
        same::<MacChoice>(&["dynamic", "02:00:00:00:00:01"]);
    }

    #[test]
    fn what_is_no_word_is_told_what_to_write() {
        for word in ["", "-a", "a-", "A", "a.b", &"a".repeat(64)] {
            assert!(word.parse::<Name>().is_err(), "{word}");
        }
        for word in ["0", "1-", "9-8", "65536", "+1", "a", "1-2-3"] {
            assert!(word.parse::<PortRange>().is_err(), "{word}");
        }
        let error = "http".parse::<Protocol>().unwrap_err().to_string();
        assert!(error.ends_with("write tcp, udp, sctp, icmp, icmp6, or a number up to 255"));
        assert!("100".parse::<Ethertype>().is_err());
        assert!("a/b/c".parse::<Reference>().is_err());
    }
}
