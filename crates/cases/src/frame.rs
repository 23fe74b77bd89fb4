//! Frames as cases tell them: written from fields, changed, and held against patterns.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use tree::{Node, Value};
use units::Mac;
use wire::ethernet::ethertype;
use wire::ip::protocol;
use wire::neighbor;

use crate::dns;
use crate::fields::{FIELDS, Form, Path, Place};
use crate::layers::{Layer, Layers};
use crate::scalar::Scalar;

/// What is told of a frame: fields by name, and what they are.
#[derive(Clone, Debug, Default)]
pub struct Told(Vec<(String, Node)>);

/// What a frame has where nothing is told: its sender's and its receiver's addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    pub macs: (Mac, Option<Mac>),
    pub v4: (Option<Ipv4Addr>, Option<Ipv4Addr>),
    pub v6: (Option<Ipv6Addr>, Option<Ipv6Addr>),
}

/// Words that begin a layer, and the field that one value there means.
const LAYERS: &[(&str, &str)] = &[
    ("eth", "eth.type"),
    ("ether", "eth.type"),
    ("vlan", "vlan.id"),
    ("arp", "arp.op"),
    ("ip", ""),
    ("ip4", ""),
    ("ip6", ""),
    ("ipv4", ""),
    ("ipv6", ""),
    ("tcp", "tcp.flags"),
    ("udp", ""),
    ("sctp", ""),
    ("icmp", "icmp.type"),
    ("icmp4", "icmp4.type"),
    ("icmp6", "icmp6.type"),
    ("icmpv6", "icmp6.type"),
    ("nd", "nd.op"),
    ("ns", "ns.target"),
    ("na", "na.target"),
    ("rs", ""),
    ("ra", ""),
    ("igmp", "igmp.type"),
    ("dhcp", "dhcp.type"),
    ("dhcp6", "dhcp6.type"),
    ("dns", "dns.name"),
];

impl Told {
    /// Reads a map of fields, nested or with dots.
    pub fn read(node: &Node) -> Result<Self, String> {
        let mut told = Self::default();
        told.add("", node)?;
        Ok(told)
    }

    fn add(&mut self, prefix: &str, node: &Node) -> Result<(), String> {
        let Value::Map(entries) = &node.value else {
            return Err("a frame is a map of fields, as { tcp: { dport: 80 } }".to_owned());
        };
        for (key, value) in entries {
            let name = match prefix {
                "" => key.text.clone(),
                prefix => format!("{prefix}.{}", key.text),
            };
            // Within a layer the word for another is a field's: dhcp.dns.
            let is_frame = matches!(
                prefix.rsplit('.').next().unwrap_or_default(),
                "" | "quote" | "quoted" | "inner"
            );
            let short = LAYERS.iter().find(|(layer, _)| is_frame && *layer == key.text);
            match (&value.value, short) {
                (Value::Map(_), _) => {
                    self.0.push((name.clone(), Node { at: value.at, value: Value::Null }));
                    self.add(&name, value)?;
                }
                (Value::Null, _) => self.0.push((name, value.clone())),
                (_, Some((_, field))) if !field.is_empty() => {
                    let name = match prefix {
                        "" => (*field).to_owned(),
                        prefix => format!("{prefix}.{field}"),
                    };
                    self.0.push((name, value.clone()));
                }
                _ => self.0.push((name, value.clone())),
            }
        }
        Ok(())
    }

    /// Whether anything is told of layers that begin with one of these words.
    fn tells_of(&self, words: &[&str]) -> bool {
        self.0.iter().any(|(name, _)| words.contains(&name.split('.').next().unwrap_or_default()))
    }

    /// Fields that are values, without what is told of a packet that is quoted.
    fn values(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.0
            .iter()
            .filter(|(_, node)| node.value != Value::Null)
            .map(|(name, node)| (name.as_str(), node))
    }

    fn value(&self, names: &[&str]) -> Option<&Node> {
        self.values().find(|(it, _)| names.contains(it)).map(|(_, node)| node)
    }

    /// What is told of the packet that is quoted.
    fn quoted(&self) -> Option<Self> {
        let inner = |name: &str| {
            let mut words = name.split('.');
            words.find(|it| matches!(*it, "quote" | "quoted" | "inner"))?;
            Some(words.collect::<Vec<_>>().join("."))
        };
        let fields: Vec<_> =
            self.0.iter().filter_map(|(name, node)| Some((inner(name)?, node.clone()))).collect();
        let fields: Vec<_> = fields.into_iter().filter(|(name, _)| !name.is_empty()).collect();
        (!fields.is_empty()).then_some(Self(fields))
    }

    /// The number that a field is told to be.
    fn number(&self, names: &[&str], form: &str) -> Result<Option<u128>, String> {
        let Some(node) = self.value(names) else { return Ok(None) };
        let path = Path::parse(form)?;
        match path.fields[0].read(node)? {
            Scalar::Number(number) => Ok(Some(number)),
            Scalar::Bytes(_) => Ok(None),
        }
    }

    /// Writes the frame that is told, as a guest would: what is not told has its usual value.
    pub fn write(&self, ends: &Ends) -> Result<Vec<u8>, String> {
        let (kind, packet, group) = self.packet(ends)?;
        let destination = ends.macs.1.or(group).unwrap_or(Mac::BROADCAST);
        let mut frame = [destination.0, ends.macs.0.0].concat();
        if self.tells_of(&["vlan", "dot1q"]) {
            frame.extend_from_slice(&ethertype::VLAN.to_be_bytes());
            frame.extend_from_slice(&[0, 0]);
        }
        frame.extend_from_slice(&kind.to_be_bytes());
        frame.extend_from_slice(&packet);
        self.finish(&mut frame)?;
        Ok(frame)
    }

    /// Sets each field that is told, and then those checksums that are not.
    fn finish(&self, frame: &mut [u8]) -> Result<(), String> {
        let is_sum = |name: &str| name.ends_with(".sum");
        let own = |name: &str| {
            name != "payload"
                && !name.split('.').any(|it| matches!(it, "quote" | "quoted" | "inner"))
        };
        for late in [false, true] {
            for (name, node) in self.values().filter(|(name, _)| own(name)) {
                let path = Path::parse(name)?;
                let is_option = !path.fields.iter().all(|it| matches!(it.place, Place::Bits(..)));
                if is_sum(name) == late && !is_option {
                    path.set(frame, node)?;
                }
            }
            if !late {
                wire::whole::seal(frame);
            }
        }
        Ok(())
    }

    /// The packet that is told, what Ethernet calls it, and the group that it is for.
    fn packet(&self, ends: &Ends) -> Result<(u16, Vec<u8>, Option<Mac>), String> {
        if self.tells_of(&["arp"]) {
            return Ok((ethertype::ARP, arp(ends), Some(Mac::BROADCAST)));
        }
        let kind = self.number(&["eth.type", "ether.type"], "eth.type")?;
        if let Some(kind) = kind.filter(|it| ![0x800, 0x86dd].contains(it)) {
            let kind = u16::try_from(kind).map_err(|_| "an ethertype has 16 bits".to_owned())?;
            return Ok((kind, self.payload(26)?, None));
        }
        let carried = self.number(&["proto", "ip.proto", "ip4.proto", "ip6.next"], "ip4.proto")?;
        let is_v4_text = |node: &Node| node.text().is_some_and(|it| it.parse::<Ipv4Addr>().is_ok());
        let says_v4 = self.tells_of(&["ip4", "ipv4", "icmp4"])
            || self.values().any(|(name, node)| is_address_name(name) && is_v4_text(node));
        let is_v6 = self
            .tells_of(&["ip6", "ipv6", "nd", "ns", "na", "rs", "ra", "icmp6", "icmpv6", "dhcp6"])
            || kind == Some(0x86dd)
            || carried == Some(58)
            || self
                .values()
                .any(|(name, node)| is_address_name(name) && node.text().is_some_and(is_v6_text))
            || (!says_v4 && ends.v4.0.is_none() && ends.v6.0.is_some());
        let body = self.body(is_v6, carried, ends)?;
        match is_v6 && kind != Some(0x800) {
            true => self.v6(ends, &body),
            false => self.v4(ends, &body),
        }
    }

    /// The bytes behind the last header.
    fn payload(&self, len: usize) -> Result<Vec<u8>, String> {
        let Some(node) = self.value(&["payload", "data"]) else {
            return Ok((0..len).map(|i| i as u8).collect());
        };
        match &node.value {
            Value::Unsigned(len) if *len <= 65_000 => Ok((0..*len).map(|i| i as u8).collect()),
            Value::Text(text) => match text.strip_prefix("0x") {
                Some(hex) => {
                    bytes(hex).ok_or_else(|| format!("`{text}` is not bytes: write 0x00ff"))
                }
                None => Ok(text.as_bytes().to_vec()),
            },
            _ => Err("a payload is a text, bytes as 0x00ff, or how many bytes".to_owned()),
        }
    }

    /// What an IP packet carries: its protocol, and the header and payload.
    fn body(
        &self,
        is_v6: bool,
        carried: Option<u128>,
        ends: &Ends,
    ) -> Result<(u8, Vec<u8>), String> {
        let is_later = self.number(&["ip.frag", "ip4.frag", "frag", "ip4.offset"], "ip4.frag")?;
        let carried = match carried {
            Some(carried) => {
                u8::try_from(carried).map_err(|_| "a protocol has 8 bits".to_owned())?
            }
            None if self.tells_of(&["tcp"]) => protocol::TCP,
            None if self.tells_of(&["sctp"]) => 132,
            None if self.tells_of(&["igmp"]) => protocol::IGMP,
            None if self.tells_of(&["nd", "ns", "na", "rs", "ra", "icmp6", "icmpv6"]) => {
                protocol::ICMPV6
            }
            None if self.tells_of(&["icmp", "icmp4"]) => {
                if is_v6 {
                    protocol::ICMPV6
                } else {
                    protocol::ICMP
                }
            }
            None => protocol::UDP,
        };
        let carried = if is_v6 && carried == protocol::ICMP { protocol::ICMPV6 } else { carried };
        if is_later.is_some_and(|it| it > 0) {
            return Ok((carried, self.payload(26)?));
        }
        let served = [("dhcp", [68, 67]), ("dhcp6", [546, 547]), ("dns", [4000, 53])];
        let ports = served.iter().find(|(layer, _)| self.tells_of(&[layer]));
        let ports: [u16; 2] = ports.map_or([4000, 5000], |(_, ports)| *ports);
        let [a, b] = ports.map(u16::to_be_bytes);
        let mut body = [a, b].concat();
        match carried {
            protocol::TCP => {
                body.extend_from_slice(&[
                    0, 0, 0, 100, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0,
                ]);
                let len = if self.value(&["payload"]).is_some() { 26 } else { 0 };
                body.extend(self.payload(len)?);
            }
            protocol::UDP => {
                let payload = match ports {
                    [68, 67] => self.dhcp(ends)?,
                    [546, 547] => self.dhcp6(ends)?,
                    [_, 53] => self.dns()?,
                    _ => self.payload(26)?,
                };
                let len = u16::try_from(8 + payload.len()).unwrap_or(u16::MAX);
                body.extend_from_slice(&len.to_be_bytes());
                body.extend_from_slice(&[0, 0]);
                body.extend(payload);
            }
            132 => {
                body.extend_from_slice(&[0; 8]);
                body.extend(self.payload(26)?);
            }
            protocol::ICMP | protocol::ICMPV6 => body = self.icmp(carried, ends)?,
            protocol::IGMP if self.value(&["payload"]).is_some() => body = self.payload(0)?,
            protocol::IGMP => body = [0x16, 0, 0, 0, 224, 1, 2, 3].to_vec(),
            _ => body = self.payload(26)?,
        }
        Ok((carried, body))
    }

    fn icmp(&self, carried: u8, ends: &Ends) -> Result<Vec<u8>, String> {
        let kind = self.number(&["nd.op"], "nd.op")?;
        let kind = match kind {
            Some(kind) => Some(kind),
            None if self.tells_of(&["ns"]) => Some(135),
            None if self.tells_of(&["na"]) => Some(136),
            None if self.tells_of(&["rs"]) => Some(133),
            None if self.tells_of(&["ra"]) => Some(134),
            None if self.tells_of(&["nd"]) => Some(135),
            None if carried == protocol::ICMP => {
                self.number(&["icmp.type", "icmp4.type", "type"], "icmp4.type")?
            }
            None => self.number(&["icmp.type", "icmp6.type", "type"], "icmp6.type")?,
        };
        let echo = if carried == protocol::ICMP { 8 } else { 128 };
        let kind = kind.and_then(|it| u8::try_from(it).ok()).unwrap_or(echo);
        let mut body = alloc::vec![kind, 0, 0, 0, 0, 0, 0, 0];
        match (carried, kind) {
            (protocol::ICMPV6, 133) => {}
            (protocol::ICMPV6, 134) => body.extend_from_slice(&[0; 8]),
            (protocol::ICMPV6, 135 | 136) => body.extend_from_slice(&[0; 16]),
            _ => match self.quoted() {
                // The packet that the error is about came the other way.
                Some(quoted) => {
                    let back = Ends {
                        macs: ends.macs,
                        v4: (ends.v4.1, ends.v4.0),
                        v6: (ends.v6.1, ends.v6.0),
                    };
                    let frame = quoted.write(&back)?;
                    body.extend_from_slice(&frame[14..]);
                }
                None => {
                    body[4..].copy_from_slice(&[0, 1, 0, 1]);
                    body.extend(self.payload(26)?);
                }
            },
        }
        for (name, code) in [("sll", 1), ("tll", 2)] {
            let names = ["nd", "ns", "na", "rs", "ra"].map(|layer| format!("{layer}.{name}"));
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            if let Some(mac) = self.number(&names, "nd.sll")? {
                body.extend_from_slice(&[code, 1]);
                body.extend_from_slice(&mac.to_be_bytes()[10..]);
            }
        }
        Ok(body)
    }

    /// A DHCP message (RFC 2131 §2) with the options that are told.
    fn dhcp(&self, ends: &Ends) -> Result<Vec<u8>, String> {
        let mut message = alloc::vec![0; 240];
        message[..8].copy_from_slice(&[1, 1, 6, 0, 0, 0, 0, 7]);
        message[28..34].copy_from_slice(&ends.macs.0.0);
        message[236..].copy_from_slice(&[0x63, 0x82, 0x53, 0x63]);
        let mut has_kind = false;
        for (name, node) in self.values() {
            let Some(name) = name.strip_prefix("dhcp.") else { continue };
            let field = FIELDS.iter().find(|it| it.layer == Layer::Dhcp && it.name == name);
            let Some(field) = field else { continue };
            let Place::Option(code) = field.place else { continue };
            let code = code as u8;
            has_kind |= code == 53;
            let value = match field.read(node)? {
                Scalar::Bytes(bytes) => bytes,
                Scalar::Number(number) => number.to_be_bytes()[16 - field.width()..].to_vec(),
            };
            message.extend_from_slice(&[code, value.len() as u8]);
            message.extend_from_slice(&value);
        }
        if !has_kind {
            message.extend_from_slice(&[53, 1, 1]);
        }
        message.push(255);
        message.resize(message.len().max(300), 0);
        Ok(message)
    }

    /// A DHCPv6 message (RFC 8415 §8) with the options that are told: who asks, whom, and of a
    /// group of addresses its number and its first.
    fn dhcp6(&self, ends: &Ends) -> Result<Vec<u8>, String> {
        let number =
            |name: &str| self.number(&[&format!("dhcp6.{name}")], &format!("dhcp6.{name}"));
        let mut message = alloc::vec![1, 0, 0, 7];
        let mut put = |code: u16, value: &[u8]| {
            message.extend_from_slice(&code.to_be_bytes());
            message.extend_from_slice(&(value.len() as u16).to_be_bytes());
            message.extend_from_slice(value);
        };
        // Identifiers made of Ethernet addresses (§11.4).
        let identifier = |mac: &[u8]| [&[0, 3, 0, 1], mac].concat();
        let client = number("client")?.map_or(ends.macs.0.0, |it| mac_of(it).0);
        put(1, &identifier(&client));
        if let Some(server) = number("server")? {
            put(2, &identifier(&mac_of(server).0));
        }
        let (iaid, address) = (number("iaid")?, number("address")?);
        if iaid.is_some() || address.is_some() {
            let mut group = (iaid.unwrap_or(1) as u32).to_be_bytes().to_vec();
            group.extend_from_slice(&[0; 8]);
            if let Some(address) = address {
                group.extend_from_slice(&[0, 5, 0, 24]);
                group.extend_from_slice(&address.to_be_bytes());
                group.extend_from_slice(&[0; 8]);
            }
            put(3, &group);
        }
        Ok(message)
    }

    /// A question for a name.
    fn dns(&self) -> Result<Vec<u8>, String> {
        let name = self.value(&["dns.name"]).and_then(Node::text).unwrap_or_default();
        let kind = self.number(&["dns.kind"], "dns.kind")?.unwrap_or(dns::A.into());
        Ok(dns::question(name, u16::try_from(kind).unwrap_or(dns::A)))
    }

    fn v4(&self, ends: &Ends, body: &(u8, Vec<u8>)) -> Result<(u16, Vec<u8>, Option<Mac>), String> {
        let told = |name: &str| {
            self.number(&[name, &format!("ip.{name}"), &format!("ip4.{name}")], "ip4.src")
        };
        let as_v4 = |it: u128| Ipv4Addr::from_bits(it as u32);
        let is_asking = self.tells_of(&["dhcp"]);
        let (source, destination) = match is_asking {
            true => (Some(Ipv4Addr::UNSPECIFIED), ends.v4.1.or(Some(Ipv4Addr::BROADCAST))),
            false => ends.v4,
        };
        let source = told("src")?.map(as_v4).or(source);
        let destination = told("dst")?.map(as_v4).or(destination);
        let (Some(source), Some(destination)) = (source, destination) else {
            return Err("nothing says between which IPv4 addresses: write ip.src and ip.dst".into());
        };
        let (carried, body) = body;
        let len = u16::try_from(20 + body.len()).map_err(|_| "it is too long".to_owned())?;
        let mut packet = alloc::vec![0x45, 0];
        packet.extend_from_slice(&len.to_be_bytes());
        packet.extend_from_slice(&[0, 1, 0, 0, 64, *carried, 0, 0]);
        packet.extend_from_slice(&source.octets());
        packet.extend_from_slice(&destination.octets());
        packet.extend_from_slice(body);
        let group = destination.is_multicast().then(|| wire::membership::group_mac_v4(destination));
        Ok((ethertype::IPV4, packet, group))
    }

    fn v6(&self, ends: &Ends, body: &(u8, Vec<u8>)) -> Result<(u16, Vec<u8>, Option<Mac>), String> {
        let told = |name: &str| {
            self.number(&[name, &format!("ip.{name}"), &format!("ip6.{name}")], "ip6.src")
        };
        let (carried, body) = body;
        let is_nd = *carried == protocol::ICMPV6 && matches!(body.first(), Some(133..=136));
        let is_question = is_nd && body[0] == 135;
        let target = match self.number(&["nd.target", "ns.target", "na.target"], "nd.target")? {
            Some(target) => Some(Ipv6Addr::from_bits(target)),
            None => ends.v6.1.filter(|_| is_question),
        };
        let group = match (is_question, target, body.first()) {
            (true, Some(target), _) => Some(neighbor::solicited_node(target)),
            (_, _, Some(133)) if is_nd => Some(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2)),
            _ => None,
        };
        // Who asks for addresses has none but that of its link (RFC 8415 §13.1).
        let is_asking = self.tells_of(&["dhcp6"]);
        let link = is_asking.then(|| neighbor::link_local(ends.macs.0));
        let servers = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
        let group = group.or(ends.v6.1.is_none().then_some(servers).filter(|_| is_asking));
        let source = told("src")?.map(Ipv6Addr::from_bits).or(link).or(ends.v6.0);
        let destination = told("dst")?.map(Ipv6Addr::from_bits).or(group).or(ends.v6.1);
        let (Some(source), Some(destination)) = (source, destination) else {
            return Err(
                "nothing says between which IPv6 addresses: write ip6.src and ip6.dst".into()
            );
        };
        let len = u16::try_from(body.len()).map_err(|_| "it is too long".to_owned())?;
        let mut packet = alloc::vec![0x60, 0, 0, 0];
        packet.extend_from_slice(&len.to_be_bytes());
        packet.extend_from_slice(&[*carried, if is_nd { 255 } else { 64 }]);
        packet.extend_from_slice(&source.octets());
        packet.extend_from_slice(&destination.octets());
        packet.extend_from_slice(body);
        if let (true, Some(target), Some(place)) = (is_nd, target, packet.get_mut(48..64))
            && matches!(body[0], 135 | 136)
        {
            place.copy_from_slice(&target.octets());
        }
        let group = destination.is_multicast().then(|| neighbor::group_mac(destination));
        Ok((ethertype::IPV6, packet, group))
    }

    /// A frame that differs from another in what is told.
    pub fn changed(&self, frame: &[u8]) -> Result<Vec<u8>, String> {
        let mut frame = frame.to_vec();
        if self.tells_of(&["vlan", "dot1q"]) && Layers::of(&frame).get(Layer::Vlan).is_none() {
            frame.splice(12..12, [0x81, 0, 0, 0]);
        }
        let untagged = self.value(&["vlan.id", "vlan.tag", "vlan.vid"]).is_some_and(is_none);
        if untagged && Layers::of(&frame).get(Layer::Vlan).is_some() {
            frame.drain(12..16);
        }
        for (name, node) in self.values() {
            if (name == "vlan.id" && is_none(node)) || matches!(name, "later" | "fragments") {
                continue;
            }
            Path::parse(name)?.set(&mut frame, node)?;
        }
        seal_quoted(&mut frame);
        wire::whole::seal(&mut frame);
        for (name, node) in self.values().filter(|(name, _)| name.ends_with(".sum")) {
            Path::parse(name)?.set(&mut frame, node)?;
        }
        Ok(frame)
    }

    /// Where a frame is not as told. What is not told of is free.
    pub fn mismatch(&self, frame: &[u8]) -> Result<Option<String>, String> {
        for (name, node) in self.0.iter().map(|(name, node)| (name.as_str(), node)) {
            if node.value == Value::Null {
                continue;
            }
            if matches!(name, "payload" | "data") {
                let payload = Layers::of(frame).get(Layer::Payload);
                let payload = payload.and_then(|it| frame.get(it)).unwrap_or_default();
                let wanted = Self(alloc::vec![(name.to_owned(), node.clone())]).payload(0)?;
                if payload != wanted {
                    return Ok(Some("its payload is another".to_owned()));
                }
                continue;
            }
            let path = Path::parse(name)?;
            let Some((field, is)) = path.get(frame) else {
                return Ok(Some(format!("it has no {name}")));
            };
            let wanted: Vec<Scalar> = match &node.value {
                Value::List(items) if field.form != Form::Flags => {
                    items.iter().map(|(_, it)| field.read(it)).collect::<Result<_, _>>()?
                }
                _ => alloc::vec![field.read(node)?],
            };
            if !wanted.contains(&is) {
                let wanted: Vec<_> = wanted.iter().map(|it| field.show(it)).collect();
                let is = field.show(&is);
                return Ok(Some(format!("{name} is {is}, not {}", wanted.join(" or "))));
            }
        }
        Ok(None)
    }
}

fn mac_of(number: u128) -> Mac {
    let [.., a, b, c, d, e, f] = number.to_be_bytes();
    Mac([a, b, c, d, e, f])
}

fn is_none(node: &Node) -> bool {
    node.value == Value::Bool(false) || node.text() == Some("none")
}

fn is_address_name(name: &str) -> bool {
    !name.contains("quote") && matches!(name.rsplit('.').next(), Some("src" | "dst" | "target"))
}

fn is_v6_text(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

/// Makes the IP checksum of a quoted packet right, as far as it is there.
fn seal_quoted(frame: &mut [u8]) {
    let Some(quoted) = Layers::of(frame).quoted(frame) else { return };
    let Some(range) = quoted.get(Layer::V4) else { return };
    let Some(header) = frame.get_mut(range.start..range.start + 20) else { return };
    header[10..12].fill(0);
    let sum = wire::checksum::Sum::of(header).checksum();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// A question for who has the receiver's address.
fn arp(ends: &Ends) -> Vec<u8> {
    let address = |it: Option<Ipv4Addr>| it.unwrap_or(Ipv4Addr::UNSPECIFIED).octets();
    let mut packet = alloc::vec![0, 1, 8, 0, 6, 4, 0, 1];
    packet.extend_from_slice(&ends.macs.0.0);
    packet.extend_from_slice(&address(ends.v4.0));
    packet.extend_from_slice(&[0; 6]);
    packet.extend_from_slice(&address(ends.v4.1));
    packet
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = hex
        .chars()
        .filter(|it| !it.is_whitespace())
        .map(|it| it.to_digit(16).map(|it| it as u8))
        .collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    pairs.remainder().is_empty().then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// A frame in a line, as far as anybody asks: its layers and their ends.
pub fn summary(frame: &[u8]) -> String {
    let say = |names: &[&str]| -> String {
        let one = |name: &&str| {
            let (field, is) = Path::parse(name).ok()?.get(frame)?;
            Some(format!("{} {}", field.full_name(), field.show(&is)))
        };
        names.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    say(&[
        "eth.src",
        "eth.dst",
        "vlan.id",
        "eth.type",
        "arp.op",
        "arp.sha",
        "arp.spa",
        "arp.tpa",
        "ip.src",
        "ip.dst",
        "ip.ttl",
        "ip4.frag",
        "tcp.sport",
        "tcp.dport",
        "tcp.flags",
        "udp.sport",
        "udp.dport",
        "icmp.type",
        "icmp.code",
        "nd.target",
        "dhcp.type",
        "dhcp.yiaddr",
    ])
}
