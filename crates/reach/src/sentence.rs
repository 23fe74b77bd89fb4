//! What people claim of a network, in a sentence.
//!
//! ```text
//! sentence = who ("reaches" | "never reaches") who ["by" service {"or" service}]
//! who      = "tenant" NAME | "switch" NAME | "group" NAME | "port" NAME
//!          | "address" ADDRESS | "outside" | "anyone"
//! service  = ("tcp" | "udp" | "sctp") [PORT[-PORT]] | "icmp" | "icmp6" | "protocol" NUMBER
//! ```
//!
//! A `NAME` is `name`, or `tenant/name` where several tenants have one of the name. An `ADDRESS` is
//! an address, a prefix, or `FIRST-LAST`.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use logical::objects::{AddressRange, Identity, PortRange, Protocol};
use logical::topology::{Attachment, GroupName, PortIndex, Topology};

use crate::addresses::Family;
use crate::area::{Area, PORTS};

/// Who sends, or gets, what a sentence speaks of.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    /// These ports: at least one.
    Ports(BTreeSet<PortIndex>),
    /// Whoever has these addresses.
    Addresses(AddressRange),
}

/// A claim of who reaches whom.
#[derive(Clone, Debug)]
pub struct Sentence {
    pub(crate) from: Who,
    pub(crate) to: Who,
    /// Whether nobody of the first reaches anybody of the second; otherwise everybody does.
    pub(crate) is_never: bool,
    /// By which services; `None`: by any.
    pub(crate) by: Option<Vec<Area>>,
}

/// Where a sentence stops making sense, and what was wanted there.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{place}: {wanted}")]
pub struct NoSentence {
    /// The word, or the end.
    pub place: String,
    /// What to write instead.
    pub wanted: String,
}

const WHO: &str = "write who: tenant NAME, switch NAME, group NAME, port NAME, address ADDRESS, \
                   outside, or anyone";
const SERVICE: &str = "write a service: tcp 443, udp 1000-2000, sctp, icmp, icmp6, or protocol 47";

/// The words of a sentence, one after the other.
struct Words<'a> {
    rest: alloc::vec::IntoIter<&'a str>,
    last: Option<&'a str>,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.last = self.rest.next();
        self.last
    }

    fn peek(&self) -> Option<&'a str> {
        self.rest.as_slice().first().copied()
    }

    /// What is wrong with the word before.
    fn wrong(&self, wanted: impl Into<String>) -> NoSentence {
        let place = self.last.map_or("at the end".into(), |word| format!("at `{word}`"));
        NoSentence { place, wanted: wanted.into() }
    }
}

impl Sentence {
    /// Reads a sentence about a topology.
    pub fn read(topology: &Topology, text: &str) -> Result<Self, NoSentence> {
        let all: Vec<&str> = text.split_whitespace().collect();
        let mut words = Words { rest: all.into_iter(), last: None };
        let from = who(topology, &mut words)?;
        let is_never = match words.next() {
            Some("reaches") => false,
            Some("never") => match words.next() {
                Some("reaches") => true,
                _ => return Err(words.wrong("write `never reaches`")),
            },
            _ => return Err(words.wrong("write `reaches` or `never reaches`")),
        };
        let to = who(topology, &mut words)?;
        let by = match words.next() {
            None => None,
            Some("by") => {
                let mut areas = service(&mut words)?;
                while let Some(word) = words.next() {
                    if word != "or" {
                        return Err(words.wrong("write `or` and another service, or nothing"));
                    }
                    areas.extend(service(&mut words)?);
                }
                Some(areas)
            }
            Some(_) => return Err(words.wrong("write `by` and a service, or nothing")),
        };
        Ok(Self { from, to, is_never, by })
    }
}

fn who(topology: &Topology, words: &mut Words<'_>) -> Result<Who, NoSentence> {
    let kind = words.next().ok_or(WHO).map_err(|it| words.wrong(it))?;
    let is_outside =
        |it: &Attachment| matches!(it, Attachment::Provider | Attachment::L2Gateway { .. });
    let machines = || topology.ports().filter(|(_, it)| !is_router(&it.attachment));
    match kind {
        "anyone" => return some(machines().map(|it| it.0), words, "there is no port"),
        "outside" => {
            let own = machines().filter(|(_, it)| is_outside(&it.attachment)).map(|it| it.0);
            return some(own, words, "no port leads outside");
        }
        "tenant" | "switch" | "group" | "port" | "address" => {}
        _ => return Err(words.wrong(WHO)),
    }
    let missing = format!("write the {kind}");
    let word = words.next().ok_or(missing).map_err(|it| words.wrong(it))?;
    let wrong = |wanted| words.wrong(wanted);
    match kind {
        "tenant" => {
            let is_own = |id: &Identity| id.tenant.as_ref().is_some_and(|it| it.as_str() == word);
            let own = machines().filter(|(_, it)| is_own(&it.id)).map(|it| it.0);
            some(own, words, &format!("no tenant `{word}` has ports"))
        }
        "switch" => {
            let all = topology.switches().map(|(index, it)| (index, &it.id));
            let switch = named("switch", all, word).map_err(wrong)?;
            let own = machines().filter(|(_, it)| it.switch == switch).map(|it| it.0);
            some(own, words, &format!("switch `{word}` has no ports but routers'"))
        }
        "group" => {
            let all = topology.groups().filter_map(|(index, it)| match &it.name {
                GroupName::Named(id) => Some((index, id)),
                GroupName::Selected { .. } => None,
            });
            let group = named("group", all, word).map_err(wrong)?;
            let own = topology[group].ports.iter().copied();
            let own = own.filter(|it| !is_router(&topology[*it].attachment));
            some(own, words, &format!("group `{word}` has no ports but routers'"))
        }
        "port" => {
            let port = port(topology, word).map_err(wrong)?;
            let own = Some(port).filter(|it| !is_router(&topology[*it].attachment));
            some(own.into_iter(), words, &format!("port `{word}` is a router's"))
        }
        _ => {
            let wanted = "write an address, a prefix, or two addresses as FIRST-LAST";
            word.parse().map(Who::Addresses).map_err(|_| words.wrong(wanted))
        }
    }
}

const fn is_router(attachment: &Attachment) -> bool {
    matches!(attachment, Attachment::Router(_))
}

fn some(
    ports: impl Iterator<Item = PortIndex>,
    words: &Words<'_>,
    none: &str,
) -> Result<Who, NoSentence> {
    let ports: BTreeSet<_> = ports.collect();
    match ports.is_empty() {
        true => Err(words.wrong(none)),
        false => Ok(Who::Ports(ports)),
    }
}

fn service(words: &mut Words<'_>) -> Result<Vec<Area>, NoSentence> {
    let word = words.next().ok_or(SERVICE).map_err(|it| words.wrong(it))?;
    let protocol = match word {
        "tcp" | "udp" | "sctp" | "icmp" | "icmp6" => word.parse::<Protocol>().ok(),
        "protocol" => {
            let number = words.next().and_then(|it| it.parse().ok()).map(Protocol);
            Some(number.ok_or(()).map_err(|()| words.wrong("write a protocol's number"))?)
        }
        _ => None,
    };
    let Some(protocol) = protocol else { return Err(words.wrong(SERVICE)) };
    let is_number = |it: &str| it.starts_with(|first: char| first.is_ascii_digit());
    let ports = match words.peek().filter(|it| protocol.has_ports() && is_number(it)) {
        None => None,
        Some(_) => {
            let ports = words.next().and_then(|it| it.parse::<PortRange>().ok());
            let wanted = "write a port, or two ports as FIRST-LAST";
            Some(ports.ok_or(wanted).map_err(|it| words.wrong(it))?)
        }
    };
    let area = |family| {
        let whole = Area::protocol(family, protocol.0);
        match ports {
            Some(PortRange { first, last }) => whole.with(PORTS, (first, last)),
            None => whole,
        }
    };
    Ok(Family::BOTH.map(area).to_vec())
}

/// The port of a name, as `web-1` or `shop/web-1`; or what is wrong with it.
pub fn port(topology: &Topology, word: &str) -> Result<PortIndex, String> {
    named("port", topology.ports().map(|(index, it)| (index, &it.id)), word)
}

/// The one of some objects that has a name.
fn named<'a, I>(
    kind: &str,
    all: impl Iterator<Item = (I, &'a Identity)>,
    word: &str,
) -> Result<I, String> {
    let (tenant, short) = word.split_once('/').map_or((None, word), |(a, b)| (Some(a), b));
    let is_it = |id: &Identity| {
        id.name.as_str() == short
            && tenant.is_none_or(|it| id.tenant.as_ref().is_some_and(|own| own.as_str() == it))
    };
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for (index, id) in all {
        match is_it(id) {
            true => found.push(index),
            false if others.len() < 20 => others.push(id.name.to_string()),
            false => {}
        }
    }
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => {
            Err(format!("several tenants have a {kind} `{word}`: write it as tenant/{short}"))
        }
        (None, _) if others.is_empty() => Err(format!("no {kind} is called `{word}`")),
        (None, _) => {
            let others = others.join(", ");
            Err(format!("no {kind} is called `{word}`: there are {others}").to_owned())
        }
    }
}
