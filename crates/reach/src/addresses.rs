//! Sets of addresses, and the classes into which predicates cut all addresses.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use logical::objects::AddressRange;

/// Which IP.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// An address's.
    pub const fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    const fn last(self) -> u128 {
        match self {
            Self::V4 => u32::MAX as u128,
            Self::V6 => u128::MAX,
        }
    }

    fn address(self, bits: u128) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::from_bits(bits as u32).into(),
            Self::V6 => Ipv6Addr::from_bits(bits).into(),
        }
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// A set of addresses of one family.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Addresses {
    family: Family,
    /// First and last of each, in order, with room between them.
    spans: Vec<(u128, u128)>,
}

impl Addresses {
    /// None.
    pub const fn none(family: Family) -> Self {
        Self { family, spans: Vec::new() }
    }

    /// Every one.
    pub fn all(family: Family) -> Self {
        Self { family, spans: alloc::vec![(0, family.last())] }
    }

    /// Those of ranges that are of the family.
    pub fn of(family: Family, ranges: impl IntoIterator<Item = AddressRange>) -> Self {
        let own = ranges.into_iter().filter(|it| Family::of(it.first()) == family);
        Self::of_spans(family, own.map(|it| (bits(it.first()), bits(it.last()))).collect())
    }

    fn of_spans(family: Family, mut spans: Vec<(u128, u128)>) -> Self {
        spans.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(spans.len());
        for (first, last) in spans {
            match merged.last_mut() {
                Some((_, end)) if end.checked_add(1).is_none_or(|next| first <= next) => {
                    *end = last.max(*end);
                }
                _ => merged.push((first, last)),
            }
        }
        Self { family, spans: merged }
    }

    /// Which family they are of.
    pub const fn family(&self) -> Family {
        self.family
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Whether an address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = bits(address);
        let behind = self.spans.partition_point(|(first, _)| *first <= bits);
        Family::of(address) == self.family
            && behind.checked_sub(1).is_some_and(|at| bits <= self.spans[at].1)
    }

    /// The least.
    pub fn first(&self) -> Option<IpAddr> {
        self.spans.first().map(|(first, _)| self.family.address(*first))
    }

    /// They as ranges, in order.
    pub fn ranges(&self) -> impl Iterator<Item = AddressRange> {
        self.spans.iter().filter_map(|(first, last)| {
            AddressRange::new(self.family.address(*first), self.family.address(*last))
        })
    }

    /// Those in both.
    pub fn and(&self, other: &Self) -> Self {
        let mut spans = Vec::new();
        if self.family == other.family {
            let (mut i, mut j) = (0, 0);
            while let (Some(a), Some(b)) = (self.spans.get(i), other.spans.get(j)) {
                let (first, last) = (a.0.max(b.0), a.1.min(b.1));
                if first <= last {
                    spans.push((first, last));
                }
                if a.1 < b.1 { i += 1 } else { j += 1 }
            }
        }
        Self { family: self.family, spans }
    }

    /// Those that are not in the other.
    pub fn minus(&self, other: &Self) -> Self {
        if self.family != other.family {
            return self.clone();
        }
        let (mut rest, mut begin) = (Vec::with_capacity(other.spans.len() + 1), Some(0));
        for (first, last) in &other.spans {
            if let Some(begin) = begin
                && begin < *first
            {
                rest.push((begin, first - 1));
            }
            begin = last.checked_add(1).filter(|it| *it <= self.family.last());
        }
        rest.extend(begin.map(|begin| (begin, self.family.last())));
        self.and(&Self { family: self.family, spans: rest })
    }

    /// They, each so many addresses further. They stay in their family.
    pub fn shifted(&self, by: u128) -> Self {
        let place = |it: u128| it.wrapping_add(by);
        let spans = self.spans.iter().map(|(first, last)| (place(*first), place(*last)));
        Self::of_spans(self.family, spans.collect())
    }

    /// A range's first address as a number.
    pub fn start(range: AddressRange) -> u128 {
        bits(range.first())
    }

    /// Those in either.
    pub fn or(&self, other: &Self) -> Self {
        let spans = self.spans.iter().chain(&other.spans).copied().collect();
        Self::of_spans(self.family, spans)
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = Self::all(self.family).minus(self);
        rest = rest.minus(&Self::of(self.family, [unspecified(self.family).into()]));
        if rest.is_empty() {
            return f.write_str("any");
        }
        if rest.spans.len() < self.spans.len() {
            f.write_str("any but ")?;
            return list(f, rest.ranges());
        }
        list(f, self.ranges())
    }
}

/// Nobody's address.
pub const fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// Writes words with commas between them.
pub fn list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    words: impl IntoIterator<Item = T>,
) -> fmt::Result {
    for (i, word) in words.into_iter().enumerate() {
        write!(f, "{}{word}", if i > 0 { ", " } else { "" })?;
    }
    Ok(())
}

/// All addresses, cut into classes: two addresses are of one class if the same predicates hold for
/// both. A predicate is a set of addresses.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Where an interval begins, and its class, in order.
    intervals: [Vec<(u128, u32)>; 2],
    /// Of each class, the predicates that hold, in order.
    signatures: Vec<Vec<u32>>,
}

impl Partition {
    /// Cuts by predicates. Each family's classes are its own.
    pub fn new(predicates: &[Vec<AddressRange>]) -> Self {
        let mut events: [Vec<(u128, bool, u32)>; 2] = [Vec::new(), Vec::new()];
        for (i, ranges) in (0u32..).zip(predicates) {
            for family in Family::BOTH {
                let own = Addresses::of(family, ranges.iter().copied());
                for (first, last) in own.spans {
                    events[family as usize].push((first, true, i));
                    let end = last.checked_add(1).filter(|it| *it <= family.last());
                    events[family as usize].extend(end.map(|end| (end, false, i)));
                }
            }
        }
        let mut classes: BTreeMap<(Family, Vec<u32>), u32> = BTreeMap::new();
        let mut signatures = Vec::new();
        let mut class = |family, signature: &Vec<u32>| {
            *classes.entry((family, signature.clone())).or_insert_with(|| {
                signatures.push(signature.clone());
                signatures.len() as u32 - 1
            })
        };
        let intervals = Family::BOTH.map(|family| {
            let mut events = core::mem::take(&mut events[family as usize]);
            events.sort_unstable();
            let mut holding: Vec<u32> = Vec::new();
            let mut intervals = Vec::new();
            let mut begin = 0;
            for (at, begins, predicate) in events {
                if at > begin {
                    push(&mut intervals, begin, class(family, &holding));
                    begin = at;
                }
                match holding.binary_search(&predicate) {
                    Err(place) if begins => holding.insert(place, predicate),
                    Ok(place) if !begins => {
                        holding.remove(place);
                    }
                    _ => {}
                }
            }
            push(&mut intervals, begin, class(family, &holding));
            intervals
        });
        Self { intervals, signatures }
    }

    /// An address's class.
    pub fn class(&self, address: IpAddr) -> u32 {
        let intervals = &self.intervals[Family::of(address) as usize];
        let bits = bits(address);
        let behind = intervals.partition_point(|(first, _)| *first <= bits);
        intervals[behind.saturating_sub(1)].1
    }

    /// The predicates that hold for a class, in order.
    pub fn signature(&self, class: u32) -> &[u32] {
        &self.signatures[class as usize]
    }

    /// Whether some of a set are of a class.
    pub fn meets(&self, set: &Addresses, class: u32) -> bool {
        self.split(set).contains_key(&class)
    }

    /// A set's part of each class.
    pub fn split(&self, set: &Addresses) -> BTreeMap<u32, Addresses> {
        let intervals = &self.intervals[set.family as usize];
        let mut parts: BTreeMap<u32, Vec<(u128, u128)>> = BTreeMap::new();
        for (first, last) in &set.spans {
            let behind = intervals.partition_point(|(begin, _)| begin <= first);
            let mut at = behind.saturating_sub(1);
            while let Some((begin, class)) = intervals.get(at).filter(|(begin, _)| begin <= last) {
                let end = intervals.get(at + 1).map_or(*last, |(next, _)| (next - 1).min(*last));
                parts.entry(*class).or_default().push(((*begin).max(*first), end));
                at += 1;
            }
        }
        let set = |spans| Addresses::of_spans(set.family, spans);
        parts.into_iter().map(|(class, spans)| (class, set(spans))).collect()
    }
}

fn push(intervals: &mut Vec<(u128, u32)>, begin: u128, class: u32) {
    if intervals.last().is_none_or(|(_, last)| *last != class) {
        intervals.push((begin, class));
    }
}
