//! Sets of packets between two ports, as boxes: sources, destinations, and what they ask for.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::addresses::{Addresses, Family};
use crate::area::{Area, minus};

/// The packets from any of some addresses to any of others.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Region {
    /// The addresses. `None`: the packets are no IP.
    pub ends: Option<[Addresses; 2]>,
    /// Whether they are from the address that they are for, or not.
    pub is_same: bool,
    /// What they ask for.
    pub areas: Vec<Area>,
}

impl Region {
    /// A region, or two: what is from the address that it is for is apart. `is_same`: only one of
    /// them is meant.
    pub fn both(
        ends: Option<[Addresses; 2]>,
        is_same: Option<bool>,
        areas: &[Area],
    ) -> impl Iterator<Item = Self> {
        let wanted = [false, true].into_iter().filter(move |it| is_same.is_none_or(|is| is == *it));
        wanted.filter_map(move |is_same| {
            let ends = match (&ends, is_same) {
                (Some([from, to]), true) => {
                    let both = from.and(to);
                    Some([both.clone(), both])
                }
                (None, true) => return None,
                _ => ends.clone(),
            };
            let region = Self { ends, is_same, areas: areas.to_vec() };
            (!region.is_empty()).then_some(region)
        })
    }

    fn is_empty(&self) -> bool {
        self.areas.is_empty()
            || self.ends.as_ref().is_some_and(|[from, to]| pair(from, to, self.is_same).is_none())
    }

    /// What is not in another.
    fn minus(&self, other: &Self) -> Vec<Self> {
        let is_apart = self.is_same != other.is_same || self.ends.is_some() != other.ends.is_some();
        if is_apart {
            return alloc::vec![self.clone()];
        }
        let mut rest = Vec::new();
        let mut inside = self.clone();
        if let (Some([from, to]), Some([others, its])) = (&self.ends, &other.ends) {
            let both = from.and(others);
            rest.push(Self { ends: Some([from.minus(others), to.clone()]), ..self.clone() });
            if !self.is_same {
                rest.push(Self { ends: Some([both.clone(), to.minus(its)]), ..self.clone() });
            }
            inside.ends = Some([both, to.and(its)]);
        }
        inside.areas = minus(&self.areas, &other.areas);
        if self.is_same {
            // Both ends are one address: what is cut off one is cut off the other.
            for region in &mut rest {
                region.ends = region.ends.take().map(|[from, _]| [from.clone(), from]);
            }
        }
        rest.push(inside);
        rest.retain(|it| !it.is_empty());
        rest
    }

    /// What is in none of others.
    pub fn minus_all<'a>(&self, others: impl Iterator<Item = &'a Self>) -> Vec<Self> {
        let mut rest = alloc::vec![self.clone()];
        for other in others {
            rest = rest.iter().flat_map(|it| it.minus(other)).collect();
        }
        rest
    }

    /// Which IP; `None`: none.
    pub fn family(&self) -> Option<Family> {
        self.ends.as_ref().map(|[from, _]| from.family())
    }
}

/// A source and a destination of sets: the same one, or two. `None` if there are none.
pub fn pair(from: &Addresses, to: &Addresses, is_same: bool) -> Option<(IpAddr, IpAddr)> {
    if is_same {
        return from.and(to).first().map(|it| (it, it));
    }
    let (one, other) = (from.first()?, to.first()?);
    if one != other {
        return Some((one, other));
    }
    let but = Addresses::of(from.family(), [one.into()]);
    let elsewhere = to.minus(&but).first().map(|it| (one, it));
    elsewhere.or_else(|| from.minus(&but).first().map(|it| (it, other)))
}
