//! What rules have admitted and refused here.
//!
//! Each network has an array with a counter for each of its rules, so that counting is an addition.
//! When one generation takes the place of another, counters go by the names of their rules.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

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

/// A network's place among those that count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NetAt(u32);

/// What all rules have done.
#[derive(Clone, Debug, Default)]
pub struct AllHits {
    tables: Vec<(Arc<Net>, Vec<Hits>)>,
    /// Of rules that are no more, by their policies' tenants.
    gone: BTreeMap<Option<Name>, Hits>,
}

impl AllHits {
    /// Counts a frame of so many bytes.
    #[inline]
    pub(crate) fn count(&mut self, net: NetAt, ruled: Ruled, bytes: usize) {
        let table = self.tables.get_mut(net.0 as usize);
        if let Some(hits) = table.and_then(|(_, table)| table.get_mut(ruled.rule.at())) {
            let count = match ruled.how {
                How::First | How::Following => &mut hits.admitted,
                How::Refused(_) => &mut hits.refused,
            };
            count.frames += 1;
            count.bytes += bytes as u64;
        }
    }

    /// Counts for these networks from now on; rules of the same names go on.
    pub(crate) fn realize<'a>(&mut self, nets: impl Iterator<Item = &'a Arc<Net>>) {
        let mut old = mem::take(&mut self.tables);
        let mut is_new = Vec::new();
        for net in nets {
            let same = old.iter().position(|(before, _)| Arc::ptr_eq(before, net));
            is_new.push(same.is_none());
            self.tables.push(match same {
                Some(at) => old.swap_remove(at),
                None => (net.clone(), alloc::vec![Hits::default(); net.rules().len()]),
            });
        }
        for (net, hits) in &old {
            let counted = net.rules().all().filter_map(|(at, rule)| {
                let hits = hits.get(at.at())?;
                (!hits.is_empty()).then_some((rule, hits))
            });
            for (rule, hits) in counted {
                let mut new = self.tables.iter_mut().zip(&is_new).filter(|(_, is_new)| **is_new);
                let found = new
                    .find_map(|((net, table), _)| table.get_mut(net.rules().at(&rule.name)?.at()));
                let tenant = || rule.name.policy.tenant.clone();
                found.unwrap_or_else(|| self.gone.entry(tenant()).or_default()).add(*hits);
            }
        }
    }

    /// A network's place.
    pub(crate) fn place(&self, net: &Arc<Net>) -> Option<NetAt> {
        let at = self.tables.iter().position(|(it, _)| Arc::ptr_eq(it, net))?;
        Some(NetAt(at as u32))
    }

    /// Each rule of each network, and what it has done.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<Net>, &NamedRule, Hits)> {
        self.tables.iter().flat_map(|(net, table)| {
            let hits = |at: RuleAt| table.get(at.at()).copied().unwrap_or_default();
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
