//! What rules have admitted and refused here.
//!
//! All counters are in one array, those of a network's rules beside each other, so that counting is
//! an addition.
//! When one generation takes the place of another, counters go by the names of their rules.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::num::NonZeroU32;
use core::ops::Range;

use logical::objects::Name;
use pipeline::{How, NamedRule, Net, RuleAt, Ruled};

/// Frames, and their bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Count {
    /// Frames: one that is cut into packets later is one.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a rule has done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Hits {
    /// What it let pass.
    pub admitted: Count,
    /// What it refused.
    pub refused: Count,
}

impl Count {
    const fn add(&mut self, other: Self) {
        self.frames += other.frames;
        self.bytes += other.bytes;
    }
}

impl Hits {
    const fn is_empty(&self) -> bool {
        self.admitted.frames == 0 && self.refused.frames == 0
    }

    const fn add(&mut self, other: Self) {
        self.admitted.add(other.admitted);
        self.refused.add(other.refused);
    }
}

/// A network's place among those that count: where its rules' counters are. It is good until the
/// next generation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NetAt(Range<u32>);

/// A rule's counter. It is good until the next generation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HitAt(NonZeroU32);

impl NetAt {
    /// The counter of one of its rules.
    pub(crate) fn rule(&self, rule: RuleAt) -> Option<HitAt> {
        let at = self.0.start.checked_add(u32::try_from(rule.at()).ok()?)?;
        let is_its = at < self.0.end;
        is_its.then(|| HitAt(NonZeroU32::MIN.saturating_add(at)))
    }
}

/// What all rules have done.
#[derive(Clone, Debug, Default)]
pub struct AllHits {
    nets: Vec<(Arc<Net>, NetAt)>,
    hits: Vec<Hits>,
    /// Of rules that are no more, by their policies' tenants.
    gone: BTreeMap<Option<Name>, Hits>,
}

impl AllHits {
    /// Counts a frame of so many bytes.
    pub(crate) fn count(&mut self, net: &NetAt, ruled: Ruled, bytes: usize) {
        let hits = net.rule(ruled.rule).and_then(|at| self.at_mut(at));
        let Some(hits) = hits else { return };
        match ruled.how {
            How::First | How::Following => &mut hits.admitted,
            How::Refused(_) => &mut hits.refused,
        }
        .add(Count { frames: 1, bytes: bytes as u64 });
    }

    /// Counts a frame of so many bytes that a rule lets pass.
    #[inline(always)]
    pub(crate) fn admit(&mut self, at: HitAt, bytes: usize) {
        if let Some(hits) = self.at_mut(at) {
            hits.admitted.add(Count { frames: 1, bytes: bytes as u64 });
        }
    }

    #[inline(always)]
    fn at_mut(&mut self, HitAt(at): HitAt) -> Option<&mut Hits> {
        self.hits.get_mut(at.get() as usize - 1)
    }

    fn of(&self, NetAt(at): &NetAt) -> &[Hits] {
        self.hits.get(at.start as usize..at.end as usize).unwrap_or_default()
    }

    /// Counts for these networks from now on; rules of the same names go on.
    pub(crate) fn realize<'a>(&mut self, nets: impl Iterator<Item = &'a Arc<Net>>) {
        let mut old = mem::take(self);
        self.gone = mem::take(&mut old.gone);
        let mut is_new = Vec::new();
        for net in nets {
            let first = self.hits.len() as u32;
            let same = old.nets.iter().position(|(before, _)| Arc::ptr_eq(before, net));
            is_new.push(same.is_none());
            match same.map(|at| old.nets.swap_remove(at)) {
                Some((_, before)) => self.hits.extend_from_slice(old.of(&before)),
                None => self.hits.resize(self.hits.len() + net.rules().len(), Hits::default()),
            }
            self.nets.push((net.clone(), NetAt(first..self.hits.len() as u32)));
        }
        for (net, before) in &old.nets {
            let before = old.of(before);
            let counted = net.rules().all().filter_map(|(at, rule)| {
                let hits = before.get(at.at())?;
                (!hits.is_empty()).then_some((rule, hits))
            });
            for (rule, hits) in counted {
                let mut new = self.nets.iter().zip(&is_new).filter(|(_, is_new)| **is_new);
                let found = new.find_map(|((net, its), _)| its.rule(net.rules().at(&rule.name)?));
                match found.and_then(|at| self.at_mut(at)) {
                    Some(now) => now.add(*hits),
                    None => {
                        let tenant = rule.name.policy.tenant.clone();
                        self.gone.entry(tenant).or_default().add(*hits);
                    }
                }
            }
        }
    }

    /// A network's place.
    pub(crate) fn place(&self, net: &Arc<Net>) -> Option<NetAt> {
        self.nets.iter().find(|(it, _)| Arc::ptr_eq(it, net)).map(|(_, at)| at.clone())
    }

    /// Each rule of each network, and what it has done.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<Net>, &NamedRule, Hits)> {
        self.nets.iter().flat_map(|(net, its)| {
            let hits = |at: RuleAt| self.of(its).get(at.at()).copied().unwrap_or_default();
            net.rules().all().map(move |(at, rule)| (net, rule, hits(at)))
        })
    }

    /// What all rules of a tenant's policies have done, those too that are no more; the operator's
    /// at `None`.
    pub fn totals(&self) -> BTreeMap<Option<Name>, Hits> {
        let mut totals = self.gone.clone();
        for (_, rule, hits) in self.all() {
            let tenant = &rule.name.policy.tenant;
            match totals.get_mut(tenant) {
                Some(total) => total.add(hits),
                None => drop(totals.insert(tenant.clone(), hits)),
            }
        }
        totals
    }
}
