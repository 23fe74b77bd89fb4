//! What packets ask for: boxes of ethertype, protocol, and two numbers more.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use logical::objects::{Ethertype, PortRange, Protocol};
use wire::ip::protocol;

use crate::addresses::{Family, list};

/// From one number to another, both in it.
pub type Span = (u16, u16);

/// A box of what packets ask for: ethertypes, protocols, and two spans more: of protocols with
/// ports the source's and the destination's, of ICMP the type and the code, of others nothing (0).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Area(pub(crate) [Span; 4]);

/// Every port.
pub const PORTS: Span = (0, u16::MAX);

/// What stands for the spans of a protocol: all that its packets may have.
pub const fn spans(family: Family, carried: u8) -> [Span; 2] {
    match carried {
        protocol::TCP | protocol::UDP | 132 => [PORTS, PORTS],
        _ if is_icmp(family, carried) => [(0, 255), (0, 255)],
        _ => [(0, 0), (0, 0)],
    }
}

/// Whether a packet is ICMP of its own family.
pub const fn is_icmp(family: Family, carried: u8) -> bool {
    match family {
        Family::V4 => carried == protocol::ICMP,
        Family::V6 => carried == protocol::ICMPV6,
    }
}

/// A family's ethertype.
pub const fn ethertype(family: Family) -> u16 {
    match family {
        Family::V4 => wire::ethernet::ethertype::IPV4,
        Family::V6 => wire::ethernet::ethertype::IPV6,
    }
}

impl Area {
    /// All of a protocol's packets.
    pub const fn protocol(family: Family, carried: u8) -> Self {
        let [a, b] = spans(family, carried);
        let [kind, carried] = [ethertype(family), carried as u16];
        Self([(kind, kind), (carried, carried), a, b])
    }

    /// Those of them with these two numbers.
    pub const fn with(self, a: Span, b: Span) -> Self {
        Self([self.0[0], self.0[1], a, b])
    }

    /// What is in both. `None`: nothing.
    pub fn and(&self, other: &Self) -> Option<Self> {
        let mut both = *self;
        for (own, other) in both.0.iter_mut().zip(other.0) {
            *own = (own.0.max(other.0), own.1.min(other.1));
            if own.0 > own.1 {
                return None;
            }
        }
        Some(both)
    }

    /// What is not in the other, in boxes that are apart.
    fn minus(&self, other: &Self) -> Vec<Self> {
        let Some(both) = self.and(other) else { return alloc::vec![*self] };
        let (mut rest, mut left) = (Vec::new(), *self);
        for dimension in 0..4 {
            let (own, cut) = (left.0[dimension], both.0[dimension]);
            let mut piece = |span| {
                let mut part = left;
                part.0[dimension] = span;
                rest.push(part);
            };
            if own.0 < cut.0 {
                piece((own.0, cut.0 - 1));
            }
            if cut.1 < own.1 {
                piece((cut.1 + 1, own.1));
            }
            left.0[dimension] = cut;
        }
        rest
    }
}

/// What of some boxes is in none of others.
pub fn minus(areas: &[Area], others: &[Area]) -> Vec<Area> {
    let mut rest = areas.to_vec();
    for other in others {
        rest = rest.iter().flat_map(|it| it.minus(other)).collect();
    }
    joined(rest)
}

/// The same in fewer boxes: those that differ in one span only, and touch there, are one.
pub fn joined(mut areas: Vec<Area>) -> Vec<Area> {
    for dimension in [3, 2, 1] {
        let key = |it: &Area| {
            let mut others = it.0;
            others[dimension] = (0, 0);
            (others, it.0[dimension])
        };
        areas.sort_unstable_by_key(key);
        let mut merged: Vec<Area> = Vec::with_capacity(areas.len());
        for area in areas {
            let (others, span) = key(&area);
            match merged.last_mut() {
                Some(last)
                    if key(last).0 == others && span.0 <= last.0[dimension].1.saturating_add(1) =>
                {
                    let end = &mut last.0[dimension].1;
                    *end = span.1.max(*end);
                }
                _ => merged.push(area),
            }
        }
        areas = merged;
    }
    areas.sort_unstable();
    areas
}

fn word((first, last): Span) -> String {
    match first == last {
        true => alloc::format!("{first}"),
        false => alloc::format!("{first}-{last}"),
    }
}

impl fmt::Display for Area {
    /// As people write it, without the family: `tcp 80`, `udp 53 from 1024-65535`, `icmp 3 code 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kind, carried, a, b] = self.0;
        let family = Family::BOTH.into_iter().find(|it| (ethertype(*it), ethertype(*it)) == kind);
        let Some(family) = family else {
            return match kind.0 == kind.1 {
                true => write!(f, "ethertype {}", Ethertype(kind.0)),
                false => write!(f, "ethertype {}", word(kind)),
            };
        };
        if carried.0 != carried.1 {
            return write!(f, "protocol {}", word(carried));
        }
        let number = carried.0.to_be_bytes()[1];
        match Protocol(number) {
            it if it.has_ports() || is_icmp(family, number) => it.fmt(f)?,
            it if alloc::format!("{it}") == word(carried) => write!(f, "protocol {it}")?,
            it => it.fmt(f)?,
        }
        let [all_a, all_b] = spans(family, number);
        if is_icmp(family, number) {
            if a != all_a {
                write!(f, " {}", word(a))?;
            }
            return if b == all_b { Ok(()) } else { write!(f, " code {}", word(b)) };
        }
        if b != all_b {
            write!(f, " {}", word(b))?;
        }
        if a == all_a { Ok(()) } else { write!(f, " from {}", word(a)) }
    }
}

/// Several boxes of one family, or of frames that carry no IP.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Services {
    /// The boxes, apart from each other.
    pub(crate) areas: Vec<Area>,
    /// What else there is, if that is shorter to tell.
    pub(crate) but: Option<Vec<Area>>,
}

impl Services {
    /// The boxes, apart from each other.
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// Whether they are everything there is.
    pub fn is_all(&self) -> bool {
        self.but.as_ref().is_some_and(Vec::is_empty)
    }
}

impl fmt::Display for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all() {
            return f.write_str("any");
        }
        match &self.but {
            Some(others) => {
                f.write_str("any but ")?;
                list(f, others)
            }
            None => list(f, &self.areas),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Services {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What a service means as boxes, of both families.
pub fn of_service(it: &logical::topology::Service) -> Vec<Area> {
    let mut areas = Vec::new();
    for family in Family::BOTH {
        let whole = Area::protocol(family, it.protocol.0);
        let [all_a, all_b] = [whole.0[2], whole.0[3]];
        if is_icmp(family, it.protocol.0) {
            let one = |number: Option<u8>, all| number.map_or(all, |it| (it.into(), it.into()));
            areas.push(whole.with(one(it.icmp_type, all_a), one(it.icmp_code, all_b)));
        } else if it.icmp_type.is_none() && it.icmp_code.is_none() {
            let spans = |ranges: &[PortRange], all: Span| -> Vec<Span> {
                match ranges {
                    [] => alloc::vec![all],
                    some => some.iter().map(|it| (it.first, it.last)).collect(),
                }
            };
            for a in spans(&it.source_ports, all_a) {
                areas.extend(spans(&it.ports, all_b).into_iter().map(|b| whole.with(a, b)));
            }
        }
    }
    areas
}
