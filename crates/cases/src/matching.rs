//! What a frame led to, held against what was expected: nobody else gets anything.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tree::{Node, Value};
use units::Class;
use wire::ethernet::{self, Tag, ethertype};

use crate::execution::Seen;
use crate::frame::{Told, summary};
use crate::layers::{Layers, word};
use crate::world::World;

/// One frame that somebody is to get.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// Exactly this.
    Frame(Vec<u8>),
    /// This, in pieces.
    Pieces(Vec<u8>),
    /// One that looks like this.
    Like(Told),
    /// Any.
    Any,
}

/// Who is to get what.
#[derive(Clone, Debug)]
pub struct Expected {
    pub port: String,
    pub wanted: Wanted,
    /// It may come with a following step.
    pub is_late: bool,
}

/// Reads what is expected of a frame that was sent.
pub fn read(expect: &Node, sent: &[u8]) -> Result<Vec<Expected>, String> {
    let mut all = Vec::new();
    for (key, is_delivery) in [("deliver", true), ("answer", false)] {
        let Some(node) = expect.get(key) else { continue };
        match &node.value {
            Value::Map(entries) => {
                for (port, node) in entries {
                    let items: Vec<&Node> = match &node.value {
                        Value::List(items) => items.iter().map(|(_, it)| it).collect(),
                        _ => alloc::vec![node],
                    };
                    for item in items {
                        all.push(one(&port.text, item, is_delivery, sent)?);
                    }
                }
            }
            Value::List(items) => {
                for (_, item) in items {
                    let port = item.text().ok_or_else(|| format!("`{key}` names ports"))?;
                    let port = port.to_owned();
                    let wanted =
                        if is_delivery { Wanted::Frame(sent.to_vec()) } else { Wanted::Any };
                    all.push(Expected { port, wanted, is_late: false });
                }
            }
            Value::Text(port) => all.push(Expected {
                port: port.clone(),
                wanted: if is_delivery { Wanted::Frame(sent.to_vec()) } else { Wanted::Any },
                is_late: false,
            }),
            _ => {}
        }
    }
    Ok(all)
}

fn one(port: &str, node: &Node, is_delivery: bool, sent: &[u8]) -> Result<Expected, String> {
    let port = port.to_owned();
    let says = |word: &str| {
        node.text() == Some(word) || node.get(word).is_some_and(|it| it.value == Value::Bool(true))
    };
    let is_late = says("later");
    let mut node = node.clone();
    let is_cut = says("fragments");
    for word in ["later", "fragments"] {
        node.take(word);
    }
    let wanted = match (&node.value, is_delivery) {
        (Value::Map(_), false) => Wanted::Like(Told::read(&node)?),
        (_, false) => Wanted::Any,
        (Value::Map(_), true) => {
            let frame = Told::read(&node)?.changed(sent)?;
            if is_cut { Wanted::Pieces(frame) } else { Wanted::Frame(frame) }
        }
        (_, true) if is_cut => Wanted::Pieces(sent.to_vec()),
        (Value::Text(word), true) if matches!(word.as_str(), "same" | "later") => {
            Wanted::Frame(sent.to_vec())
        }
        (Value::Text(word), true) if word == "any" => Wanted::Any,
        _ => return Err("write `same`, or what differs, as { ip.ttl: 63 }".to_owned()),
    };
    Ok(Expected { port, wanted, is_late })
}

/// Where frames differ from what was expected.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    pub expected: Vec<String>,
    pub seen: Vec<String>,
}

impl Difference {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.expected.is_empty() && self.seen.is_empty()
    }
}

/// Holds what was seen against what was expected. What may come later and has not is left.
pub fn compare(
    world: &World<'_>,
    seen: &[Seen],
    expected: &[Expected],
    is_strict: bool,
    sums_are_right: bool,
) -> Result<(Difference, Vec<Expected>), String> {
    let mut rest: Vec<&Seen> = seen.iter().collect();
    let mut difference = Difference::default();
    let mut late = Vec::new();
    // What is told exactly takes its frames first.
    let rank = |it: &Expected| match it.wanted {
        Wanted::Frame(_) => 0,
        Wanted::Pieces(_) => 1,
        Wanted::Like(_) => 2,
        Wanted::Any => 3,
    };
    let mut expected: Vec<&Expected> = expected.iter().collect();
    expected.sort_by_key(|it| rank(it));
    for it in expected {
        if let Wanted::Pieces(whole) = &it.wanted {
            let pieces: Vec<Vec<u8>> = rest
                .iter()
                .filter(|seen| at(world, seen, &it.port).is_some())
                .map(|seen| seen.frame.clone())
                .collect();
            if make_up(whole, &pieces) {
                rest.retain(|seen| at(world, seen, &it.port).is_none());
            } else {
                difference.expected.push(format!("{} gets pieces of {}", it.port, summary(whole)));
            }
            continue;
        }
        let mut why = None;
        let mut found = None;
        for (i, seen) in rest.iter().enumerate() {
            let Some(frame) = at(world, seen, &it.port) else { continue };
            match differs(&it.wanted, &frame)? {
                None => {
                    found = Some(i);
                    break;
                }
                Some(told) => why = why.or(Some(told)),
            }
        }
        match found {
            Some(i) => {
                rest.remove(i);
            }
            None if it.is_late => late.push(it.clone()),
            None => {
                let what = match &it.wanted {
                    Wanted::Frame(frame) | Wanted::Pieces(frame) => summary(frame),
                    Wanted::Like(_) => "an answer as told".to_owned(),
                    Wanted::Any => "a frame".to_owned(),
                };
                let why = why.map_or_else(String::new, |why| format!(" (one that came: {why})"));
                difference.expected.push(format!("{} gets {what}{why}", it.port));
            }
        }
    }
    for seen in rest {
        if is_strict || !is_own(&seen.frame) {
            difference.seen.push(format!("{} got {}", seen.port, summary(&seen.frame)));
        }
    }
    if sums_are_right {
        for seen in seen {
            if let Some(fault) = wire::whole::fault(&seen.frame) {
                let told = format!("{} got {}: {fault}", seen.port, summary(&seen.frame));
                difference.seen.push(told);
            }
        }
    }
    Ok((difference, late))
}

/// A frame as a port sees it: what a port behind a tag gets, its parent gets with the tag.
fn at(world: &World<'_>, seen: &Seen, port: &str) -> Option<Vec<u8>> {
    if seen.port == port || (seen.port.split('@').next() == Some(port)) {
        return Some(seen.frame.clone());
    }
    let (parent, tag) = world.parent(&seen.port)?;
    let tag = Tag { class: Class::default(), vlan: tag };
    (parent == port).then(|| ethernet::tagged(&seen.frame, tag))
}

/// Where a frame is not as wanted.
fn differs(wanted: &Wanted, frame: &[u8]) -> Result<Option<String>, String> {
    match wanted {
        Wanted::Any => Ok(None),
        Wanted::Like(told) => told.mismatch(frame),
        Wanted::Frame(whole) | Wanted::Pieces(whole) if whole == frame => Ok(None),
        Wanted::Frame(_) | Wanted::Pieces(_) => Ok(Some(summary(frame))),
    }
}

/// Whether fragments are all of a packet, once each.
fn make_up(whole: &[u8], pieces: &[Vec<u8>]) -> bool {
    let Some(layout) = wire::Layout::of(whole) else { return false };
    let body = &whole[layout.network + 20..layout.end];
    let mut is_there = alloc::vec![false; body.len()];
    for piece in pieces {
        let Some(part) = wire::Layout::of(piece) else { return false };
        let Some(offset) = word(piece, part.network + 6) else { return false };
        let start = usize::from(offset & 0x1fff) * 8;
        for (i, byte) in piece[part.network + 20..part.end].iter().enumerate() {
            match (body.get(start + i), is_there.get_mut(start + i)) {
                (Some(wanted), Some(is_there)) if wanted == byte && !*is_there => *is_there = true,
                _ => return false,
            }
        }
    }
    is_there.into_iter().all(|it| it)
}

/// Whether a frame is what networks ask and tell of their own: ARP's and ND's questions, router
/// advertisements, queries for groups, BFD.
fn is_own(frame: &[u8]) -> bool {
    let Some(layout) = wire::Layout::of(frame) else {
        return word(frame, 12) == Some(ethertype::ARP) && word(frame, 20) == Some(1);
    };
    let kind = frame.get(layout.transport).copied();
    match layout.protocol {
        wire::ip::protocol::ICMPV6 => matches!(kind, Some(130 | 134 | 135)),
        wire::ip::protocol::IGMP => kind == Some(0x11),
        wire::ip::protocol::UDP => {
            matches!(word(frame, layout.transport + 2), Some(3784 | 4784))
                && Layers::of(frame).names().any(|it| it == crate::layers::Layer::Udp)
        }
        _ => false,
    }
}

/// Lines as one sentence.
pub fn joined(lines: &[String]) -> Option<String> {
    (!lines.is_empty()).then(|| lines.join("; ").to_string())
}
