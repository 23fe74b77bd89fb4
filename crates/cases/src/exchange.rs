//! What machines do with each other: pings, connections, constant exchanges.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use interpreter::Tuple;
use tree::{Node, Value};
use units::Mac;
use wire::ip::protocol;

use crate::failure::Failure;
use crate::layers::{Layer, Layers};
use crate::world::World;

/// What was told of an exchange.
type Told = BTreeMap<&'static str, String>;

/// A connection that a case has opened.
#[derive(Clone, Debug)]
struct Flow {
    from: String,
    tuple: Tuple,
    via: Option<Mac>,
    /// Whose machine serves it, and how that sees it.
    served: Option<(String, Tuple)>,
}

/// A constant exchange.
#[derive(Clone, Debug)]
struct Stream {
    flow: Flow,
    sent: u32,
}

/// The exchanges of a case.
#[derive(Debug, Default)]
pub struct Flows {
    open: BTreeMap<String, Flow>,
    streams: BTreeMap<String, Stream>,
    /// How often each datagram of a stream has arrived.
    arrived: BTreeMap<(String, u32), u32>,
    /// Ports that no flow has had yet.
    next_port: u16,
}

impl Flows {
    fn free_port(&mut self) -> u16 {
        self.next_port = self.next_port.checked_add(1).filter(|it| *it > 1).unwrap_or(1);
        40_000 + self.next_port % 20_000
    }

    /// Reads who speaks with whom.
    fn flow(&mut self, world: &mut World<'_>, what: &Node, usual: u8) -> Result<Flow, Failure> {
        let text = |key: &str| what.get(key).and_then(Node::text);
        let from = text("from").ok_or_else(|| "write who begins: `from`".to_owned())?.to_owned();
        let to = text("to").ok_or_else(|| "write with whom: `to`".to_owned())?;
        let carried = match what.get("proto").map(|it| &it.value) {
            Some(Value::Unsigned(number)) => u8::try_from(*number).unwrap_or(usual),
            Some(Value::Text(word)) => match word.as_str() {
                "tcp" => protocol::TCP,
                "udp" => protocol::UDP,
                "sctp" => 132,
                "icmp" => protocol::ICMP,
                "icmp6" => protocol::ICMPV6,
                other => return Err(format!("`{other}` is no protocol: write tcp or udp").into()),
            },
            _ => usual,
        };
        let number = |key: &str| match what.get(key).map(|it| &it.value) {
            Some(Value::Unsigned(number)) => u16::try_from(*number).ok(),
            _ => None,
        };
        let wants_v6 = text("family") == Some("ip6")
            || what.get("ip6").is_some_and(|it| it.value == Value::Bool(true))
            || carried == protocol::ICMPV6;
        let others = world.addresses(to);
        let own = world.guest(&from)?.clone();
        let reachable = |it: &&IpAddr| own.address_for(**it).is_some();
        let chosen = others
            .iter()
            .filter(reachable)
            .find(|it| it.is_ipv6() == wants_v6)
            .or_else(|| others.iter().find(reachable));
        let to =
            *chosen.ok_or_else(|| format!("`{to}` has no address that {from} can speak to"))?;
        let source = text("src").and_then(|it| it.parse().ok());
        let source = source.or_else(|| own.address_for(to)).unwrap_or(to);
        let sport = number("sport").unwrap_or_else(|| self.free_port());
        let (carried, dport) = match (carried, to.is_ipv6()) {
            (protocol::ICMP | protocol::ICMPV6, false) => (protocol::ICMP, sport),
            (protocol::ICMP | protocol::ICMPV6, true) => (protocol::ICMPV6, sport),
            (protocol::TCP | protocol::UDP | 132, _) => (carried, number("dport").unwrap_or(80)),
            _ => (carried, 0),
        };
        let sport = if matches!(carried, 1 | 6 | 17 | 58 | 132) { sport } else { 0 };
        let via = match text("via") {
            Some(name) => {
                Some(world.mac(name).ok_or_else(|| format!("nobody is called `{name}`"))?)
            }
            None => None,
        };
        let tuple = Tuple { protocol: carried, source: (source, sport), destination: (to, dport) };
        Ok(Flow { from, tuple, via, served: None })
    }

    /// An echo, and who answers.
    pub fn ping(&mut self, world: &mut World<'_>, what: &Node) -> Result<Told, Failure> {
        let flow = self.flow(world, what, protocol::ICMP)?;
        let len = match what.get("size").map(|it| &it.value) {
            Some(Value::Unsigned(len)) => (*len).min(9000) as usize,
            _ => 56,
        };
        let data = alloc::vec![7; len];
        let guest = world.guest(&flow.from)?;
        let mut frames = guest.ask(flow.tuple, &data, flow.via);
        if let Some(Value::Unsigned(ttl)) = what.get("ttl").map(|it| &it.value) {
            for frame in &mut frames {
                set_ttl(frame, *ttl as u8);
            }
        }
        world.send(&flow.from, frames)?;
        self.settle(world, &flow.from)?;
        let heard = world.guest(&flow.from)?.heard.remove(&flow.tuple).unwrap_or_default();
        let reply = if heard.unreachable {
            "unreachable"
        } else if heard.answers.is_empty() {
            "none"
        } else {
            "true"
        };
        let mut told = Told::from([("reply", reply.to_owned())]);
        if let Some(from) = heard.answers.first() {
            told.insert("from", from.to_string());
        }
        Ok(told)
    }

    /// Machines answer until all is quiet; who waits for an address that nobody has gives up.
    fn settle(&mut self, world: &mut World<'_>, from: &str) -> Result<(), Failure> {
        for seen in world.pump()? {
            self.count(&seen.frame);
        }
        world.guest(from)?.give_up();
        Ok(())
    }

    /// Opens a connection.
    pub fn open(&mut self, world: &mut World<'_>, what: &Node) -> Result<Told, Failure> {
        let mut flow = self.flow(world, what, protocol::TCP)?;
        for guest in world.guests.values_mut() {
            guest.served.clear();
        }
        let guest = world.guest(&flow.from)?;
        let is_tcp = flow.tuple.protocol == protocol::TCP;
        let frames = match is_tcp {
            true => guest.connect(flow.tuple, flow.via),
            false => guest.ask(flow.tuple, b"hello", flow.via),
        };
        world.send(&flow.from, frames)?;
        self.settle(world, &flow.from)?;
        let served = world.serving(|it| it.protocol == flow.tuple.protocol);
        let guest = world.guest(&flow.from)?;
        let heard = guest.heard.get(&flow.tuple).cloned().unwrap_or_default();
        let end = guest.tcp.get(&flow.tuple).copied().unwrap_or_default();
        let result = if end.is_reset {
            "reset"
        } else if heard.unreachable {
            "unreachable"
        } else if (is_tcp && end.is_open) || (!is_tcp && !heard.answers.is_empty()) {
            "open"
        } else {
            "silent"
        };
        let mut told = Told::from([("result", result.to_owned())]);
        if let Some((port, seen)) = &served {
            told.insert("at", port.clone());
            told.insert("server_sees", seen.source.0.to_string());
            told.insert("server_sees.src", seen.source.0.to_string());
            told.insert("server_sees.sport", seen.source.1.to_string());
            told.insert("server_sees.dst", seen.destination.0.to_string());
            told.insert("server_sees.dport", seen.destination.1.to_string());
            if let Some(host) = world.host(port.split('@').next().unwrap_or(port)) {
                told.insert("host", host.to_owned());
            }
        }
        flow.served = served;
        if let Some(name) = what.get("as").and_then(Node::text) {
            self.open.insert(name.to_owned(), flow);
        }
        Ok(told)
    }

    /// Whether a connection still works.
    pub fn talk(&mut self, world: &mut World<'_>, what: &Node) -> Result<Told, Failure> {
        let name = what.text().or_else(|| what.get("on").and_then(Node::text)).unwrap_or_default();
        let flow = self.open.get(name).cloned();
        let flow = flow.ok_or_else(|| format!("no connection was opened as `{name}`"))?;
        let works = match flow.tuple.protocol {
            protocol::TCP => {
                let own = self.write(world, &flow.from, flow.tuple, flow.via)?;
                let other = match &flow.served {
                    Some((port, seen)) => self.write(world, port, seen.reversed(), None)?,
                    None => false,
                };
                (own, other)
            }
            _ => {
                let guest = world.guest(&flow.from)?;
                guest.heard.insert(flow.tuple, crate::guest::Heard::default());
                let frames = guest.ask(flow.tuple, b"again", flow.via);
                world.send(&flow.from, frames)?;
                self.settle(world, &flow.from)?;
                let heard = world.guest(&flow.from)?.heard.get(&flow.tuple).cloned();
                let works = heard.is_some_and(|it| !it.answers.is_empty() && !it.unreachable);
                (works, works)
            }
        };
        let works = match works {
            (true, true) => "both",
            (false, false) => "none",
            (true, false) => "out",
            (false, true) => "back",
        };
        Ok(Told::from([("works", works.to_owned())]))
    }

    /// Has an end of a TCP connection send; whether the other end acknowledges it.
    fn write(
        &mut self,
        world: &mut World<'_>,
        port: &str,
        tuple: Tuple,
        via: Option<Mac>,
    ) -> Result<bool, Failure> {
        let frames = world.guest(port)?.write(tuple, via);
        if frames.is_empty() {
            return Ok(false);
        }
        world.send(port, frames)?;
        self.settle(world, port)?;
        Ok(world.guest(port)?.tcp.get(&tuple).is_some_and(crate::guest::Tcp::is_settled))
    }

    /// Begins a constant exchange of datagrams.
    pub fn stream(&mut self, world: &mut World<'_>, what: &Node) -> Result<(), Failure> {
        let flow = self.flow(world, what, protocol::UDP)?;
        let name = what.get("as").and_then(Node::text).unwrap_or("stream").to_owned();
        self.streams.insert(name, Stream { flow, sent: 0 });
        self.tick(world)
    }

    /// Each stream sends once more.
    pub fn tick(&mut self, world: &mut World<'_>) -> Result<(), Failure> {
        let names: Vec<String> = self.streams.keys().cloned().collect();
        for name in names {
            let Some(stream) = self.streams.get_mut(&name) else { continue };
            stream.sent += 1;
            let data = format!("stream {name} {}", stream.sent);
            let flow = stream.flow.clone();
            let frames = world.guest(&flow.from)?.ask(flow.tuple, data.as_bytes(), flow.via);
            world.send(&flow.from, frames)?;
            self.settle(world, &flow.from)?;
        }
        Ok(())
    }

    /// Counts a datagram of a stream on its way there.
    fn count(&mut self, frame: &[u8]) {
        let payload = Layers::of(frame).get(Layer::Payload).and_then(|it| frame.get(it));
        let Some(text) = payload.and_then(|it| core::str::from_utf8(it).ok()) else { return };
        let mut words = text.split(' ');
        let (Some("stream"), Some(name), Some(number)) = (words.next(), words.next(), words.next())
        else {
            return;
        };
        let Some(stream) = self.streams.get(name) else { return };
        let fields = interpreter::Fields::of(frame).and_then(|it| it.ip);
        let is_back = fields.is_some_and(|ip| ip.tuple.destination == stream.flow.tuple.source);
        if let (false, Ok(number)) = (is_back, number.parse()) {
            *self.arrived.entry((name.to_owned(), number)).or_default() += 1;
        }
    }

    /// Ends a constant exchange, and tells what became of it.
    pub fn stop(&mut self, world: &mut World<'_>, what: &Node) -> Result<Told, Failure> {
        let name = what.text().or_else(|| what.get("as").and_then(Node::text)).unwrap_or("stream");
        self.tick(world)?;
        let stream = self.streams.remove(name);
        let stream = stream.ok_or_else(|| format!("no stream is called `{name}`"))?;
        let counts: Vec<u32> = (1..=stream.sent)
            .map(|i| self.arrived.get(&(name.to_owned(), i)).copied().unwrap_or(0))
            .collect();
        let count = |is: fn(&u32) -> bool| counts.iter().filter(|it| is(it)).count().to_string();
        let answers = world.guest(&stream.flow.from)?.heard.get(&stream.flow.tuple);
        let answers = answers.map_or(0, |it| it.answers.len());
        Ok(Told::from([
            ("sent", stream.sent.to_string()),
            ("received", count(|it| *it > 0)),
            ("lost", count(|it| *it == 0)),
            ("twice", count(|it| *it > 1)),
            ("answered", answers.to_string()),
        ]))
    }

    /// Whether a connection is what is asked about: a flow by its name, a port, an address, or a
    /// map of some of its ends.
    pub fn is_about(&self, world: &World<'_>, about: &Node, tuple: &Tuple) -> bool {
        match &about.value {
            Value::Text(word) => {
                if let Some(flow) = self.open.get(word) {
                    let seen = flow.served.as_ref().map(|(_, it)| *it);
                    return flow.tuple == *tuple || seen == Some(*tuple);
                }
                let addresses = world.addresses(word);
                addresses.contains(&tuple.source.0) || addresses.contains(&tuple.destination.0)
            }
            Value::Map(entries) => entries.iter().all(|(key, value)| {
                let number = match value.value {
                    Value::Unsigned(number) => u16::try_from(number).ok(),
                    _ => None,
                };
                let word = value.text().unwrap_or_default();
                match key.text.as_str() {
                    "dport" => number == Some(tuple.destination.1),
                    "sport" => number == Some(tuple.source.1),
                    "proto" => match word {
                        "tcp" => tuple.protocol == protocol::TCP,
                        "udp" => tuple.protocol == protocol::UDP,
                        "icmp" => tuple.protocol == protocol::ICMP,
                        "icmp6" => tuple.protocol == protocol::ICMPV6,
                        _ => number == Some(tuple.protocol.into()),
                    },
                    "src" | "from" => world.addresses(word).contains(&tuple.source.0),
                    "dst" | "to" => world.addresses(word).contains(&tuple.destination.0),
                    _ => false,
                }
            }),
            _ => true,
        }
    }
}

fn set_ttl(frame: &mut [u8], ttl: u8) {
    let Some(layout) = wire::Layout::of(frame) else { return };
    let place = match layout.version {
        wire::ip::Version::V4 => 8,
        wire::ip::Version::V6 => 7,
    };
    if let Some(byte) = frame.get_mut(layout.network + place) {
        *byte = ttl;
    }
    wire::whole::seal(frame);
}
