//! An agent's copies of the domains that it has ports in.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use model::Generation;

use crate::delta::Delta;
use crate::digest::Digest;
use crate::known::{Fence, Known, Name, Store};
use crate::map::Map;
use crate::message::{Chunk, Reason, Reply};

/// How much an agent keeps.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of how many domains.
    pub domains: usize,
    /// How many bytes an update has at most.
    pub update_bytes: usize,
}

/// Why an agent does not go on with a controller.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Rejected {
    /// Another one is the master by now.
    #[error(
        "cannot follow a controller that is not the master any more: connect to the one that is, or, if its store was restored from a backup, run `zovn controller restored` there"
    )]
    Fenced,
    /// A chunk does not continue the update that the one before it is of.
    #[error("cannot take a chunk that does not follow the one before; connect again")]
    OutOfOrder,
}

/// Copies of domains, each as of a generation that is executed.
#[derive(Debug)]
pub struct Follower {
    limits: Limits,
    store: Option<Store>,
    fence: Fence,
    copies: BTreeMap<Name, Copy>,
    staged: Option<Staged>,
    /// The update that was refused last: what is still to come of it is passed over.
    passed_over: Option<(Name, Generation)>,
    marked: Generation,
}

/// A domain's rows.
#[derive(Debug, Default)]
struct Copy {
    /// 0: of no generation of this store.
    generation: Generation,
    rows: Map,
}

/// An update of which something is still to come.
#[derive(Debug)]
struct Staged {
    domain: Name,
    from: Generation,
    to: Known,
    len: usize,
    body: Vec<u8>,
}

impl Staged {
    fn is_continued_by(&self, chunk: &Chunk<'_>) -> bool {
        let Self { domain, from, to, len, body } = self;
        (domain, *from, *to, *len) == (chunk.domain, chunk.from, chunk.to, chunk.len)
            && body.len() == chunk.at
    }
}

/// A new generation of a domain, which is to be executed, or refused. Until it is said which, the
/// copy is as it was.
#[derive(Debug)]
pub struct Changed<'a> {
    follower: &'a mut Follower,
    domain: Name,
    to: Known,
    delta: Delta,
}

impl Changed<'_> {
    /// The domain.
    pub fn domain(&self) -> &Name {
        &self.domain
    }

    /// The generation.
    pub fn generation(&self) -> Generation {
        self.to.generation
    }

    /// What is other than in the generation before, and nothing else.
    pub fn delta(&self) -> &Delta {
        &self.delta
    }

    /// What all rows of the generation come to.
    pub fn digest(&self) -> Digest {
        self.to.digest
    }

    /// It is executed from now on. The answer to it.
    pub fn realized(self) -> Reply {
        let copy = self.follower.copies.entry(self.domain.clone()).or_default();
        copy.rows.apply(self.delta);
        copy.generation = self.to.generation;
        Reply::Ack(self.domain, self.to.generation)
    }

    /// It cannot be executed. The answer to it.
    pub fn refused(self, why: String) -> Reply {
        Reply::Nack(self.domain, self.to.generation, Reason::Refused(why))
    }
}

/// What has come of a chunk.
#[derive(Debug)]
pub enum Received<'a> {
    /// More is to come.
    Part,
    /// A generation is complete.
    Changed(Changed<'a>),
    /// The update is not taken: the answer to it.
    Refused(Reply),
}

impl Follower {
    /// An agent without copies that has followed no controller.
    pub fn new(limits: Limits) -> Self {
        let (copies, fence) = Default::default();
        let (store, staged, passed_over) = (None, None, None);
        Self { limits, store, fence, copies, staged, passed_over, marked: Generation(0) }
    }

    /// An agent that had these copies, of generations of this store, when it ended.
    pub fn restored(
        limits: Limits,
        (store, fence): (Store, Fence),
        copies: impl IntoIterator<Item = (Name, Generation, Map)>,
    ) -> Self {
        let copy = |(domain, generation, rows)| (domain, Copy { generation, rows });
        let copies = copies.into_iter().map(copy).collect();
        Self { store: Some(store), fence, copies, ..Self::new(limits) }
    }

    /// Which store its generations are of.
    pub fn store(&self) -> Option<Store> {
        self.store
    }

    /// What it has of each domain; `None`: rows of another store.
    pub fn known(&self) -> impl Iterator<Item = (&Name, Option<Known>)> {
        self.copies.iter().map(|(domain, Copy { generation, rows })| {
            let known = Known { generation: *generation, digest: rows.digest() };
            (domain, Some(known).filter(|it| it.generation > Generation(0)))
        })
    }

    /// A domain's rows, as they are executed.
    pub fn rows(&self, domain: &str) -> Option<&Map> {
        self.copies.get(domain).map(|copy| &copy.rows)
    }

    /// All updates up to this revision of the store have been answered.
    pub fn marked(&self) -> Generation {
        self.marked
    }

    /// A session with a controller begins. What another store's controller has declared goes on,
    /// and is replaced as a whole by what this one declares.
    ///
    /// # Errors
    ///
    /// [`Rejected::Fenced`]: a later master has been heard of. Nothing changes.
    pub fn begin(&mut self, store: Store, fence: Fence) -> Result<(), Rejected> {
        let is_other = self.store != Some(store);
        if !is_other && fence < self.fence {
            return Err(Rejected::Fenced);
        }
        if is_other {
            self.copies.values_mut().for_each(|copy| copy.generation = Generation(0));
            self.marked = Generation(0);
        }
        (self.store, self.fence) = (Some(store), fence);
        (self.staged, self.passed_over) = (None, None);
        Ok(())
    }

    /// A chunk has come.
    ///
    /// # Errors
    ///
    /// [`Rejected::OutOfOrder`]: the session is to end. Copies are as they were.
    pub fn receive(&mut self, chunk: &Chunk<'_>) -> Result<Received<'_>, Rejected> {
        let key = (chunk.domain.clone(), chunk.to.generation);
        if chunk.at > 0 && self.passed_over.as_ref() == Some(&key) {
            return Ok(Received::Part);
        }
        match &mut self.staged {
            None if chunk.at == 0 => {
                if let Some(reason) = self.unfit(chunk) {
                    self.passed_over = Some(key.clone());
                    return Ok(Received::Refused(Reply::Nack(key.0, key.1, reason)));
                }
                let (domain, body) = (key.0, chunk.bytes.to_vec());
                let Chunk { from, to, len, .. } = *chunk;
                self.staged = Some(Staged { domain, from, to, len, body });
            }
            Some(staged) if staged.is_continued_by(chunk) && !chunk.bytes.is_empty() => {
                staged.body.extend_from_slice(chunk.bytes);
            }
            _ => return Err(Rejected::OutOfOrder),
        }
        match self.staged.take_if(|it| it.body.len() >= it.len) {
            None => Ok(Received::Part),
            Some(staged) if staged.body.len() > staged.len => Err(Rejected::OutOfOrder),
            Some(staged) => Ok(self.complete(staged)),
        }
    }

    /// Why an update cannot be taken, whatever it says.
    fn unfit(&self, chunk: &Chunk<'_>) -> Option<Reason> {
        let copy = self.copies.get(chunk.domain);
        let has = copy.map_or(Generation(0), |copy| copy.generation);
        let is_too_many = copy.is_none() && self.copies.len() >= self.limits.domains;
        if chunk.len > self.limits.update_bytes || is_too_many {
            return Some(Reason::TooLarge);
        }
        if chunk.to.generation <= has {
            return Some(Reason::Older);
        }
        (chunk.from != Generation(0) && chunk.from != has).then_some(Reason::Base)
    }

    fn complete(&mut self, Staged { domain, from, to, body, .. }: Staged) -> Received<'_> {
        let none = Map::default();
        let rows = self.copies.get(&domain).map_or(&none, |copy| &copy.rows);
        let refused =
            |reason| Received::Refused(Reply::Nack(domain.clone(), to.generation, reason));
        let Ok(delta) = Delta::decode(&body) else { return refused(Reason::Malformed) };
        let delta = match from {
            Generation(0) => {
                let mut all = Map::default();
                all.apply(delta);
                rows.diff(&all)
            }
            _ => rows.reduced(delta),
        };
        if rows.digest_after(&delta) != to.digest {
            return refused(Reason::Digest);
        }
        Received::Changed(Changed { follower: self, domain, to, delta })
    }

    /// Looks whether a domain is still what a controller holds it to be. `executed` says what is
    /// executed instead of these rows, if it is other. The answer, if anything differs: the copy is
    /// then what is executed, and of no generation, so all rows are taken.
    pub fn compare(
        &mut self,
        domain: &Name,
        known: Known,
        executed: impl FnOnce(&Map) -> Option<Map>,
    ) -> Option<Reply> {
        let differs = Reply::Differs(domain.clone(), known.generation);
        let Some(copy) = self.copies.get_mut(domain) else { return Some(differs) };
        // The digest as of the rows: a map adds up its own, whatever becomes of a row.
        let rows = copy.rows.rows().map(|(key, row)| (key.clone(), row.clone()));
        copy.rows = rows.collect();
        let executed = executed(&copy.rows);
        let has = Known { generation: copy.generation, digest: copy.rows.digest() };
        if has == known && executed.is_none() {
            return None;
        }
        copy.generation = Generation(0);
        if let Some(executed) = executed {
            copy.rows = executed;
        }
        Some(differs)
    }

    /// A domain has no ports here any more. Its rows, if it had any.
    pub fn drop(&mut self, domain: &str) -> Option<Map> {
        self.copies.remove(domain).map(|copy| copy.rows)
    }

    /// All updates up to a revision of the store have been sent.
    pub fn mark(&mut self, revision: Generation) {
        self.marked = self.marked.max(revision);
    }
}
