//! A domain at its controller: its rows, and what changed in them last.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::{Arc, Weak};

use model::Generation;

use crate::delta::Delta;
use crate::digest::Digest;
use crate::known::{Known, Name};
use crate::map::Map;

/// What leads an agent from what it has to a generation, encoded once for all agents that are told
/// the same at a time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Update {
    /// What it begins at; 0: nothing, it has all rows.
    pub from: Generation,
    /// What it leads to.
    pub to: Generation,
    /// The digest of what it leads to.
    pub digest: Digest,
    /// A [`Delta`] as bytes.
    pub body: Arc<[u8]>,
}

/// A step from one generation to the next.
#[derive(Debug)]
struct Step {
    from: Known,
    delta: Delta,
    bytes: usize,
}

/// A domain's rows as of its newest generation, and the steps that led there.
#[derive(Debug)]
pub struct History {
    rows: Map,
    generation: Generation,
    steps: VecDeque<Step>,
    /// How many bytes the steps have.
    bytes: usize,
    most_bytes: usize,
    /// Updates to the newest generation that agents are being told, by what they begin at.
    encoded: BTreeMap<Generation, Weak<Update>>,
}

/// All domains of a controller.
pub type Histories = BTreeMap<Name, History>;

impl History {
    /// A domain with these rows. It remembers steps of up to `most_bytes` bytes in all.
    ///
    /// # Panics
    ///
    /// If the generation is 0: that is an agent's that has none.
    pub fn new(generation: Generation, rows: Map, most_bytes: usize) -> Self {
        assert!(generation > Generation(0), "generations count from 1");
        let (steps, encoded) = Default::default();
        Self { rows, generation, steps, bytes: 0, most_bytes, encoded }
    }

    /// The newest generation.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The generation that comes after one: who executes that one lacks nothing of any revision
    /// before this. `None`: that one is the newest, or the step from it is not remembered.
    pub fn after(&self, generation: Generation) -> Option<Generation> {
        let at = self.steps.binary_search_by_key(&generation, |step| step.from.generation).ok()?;
        let next = self.steps.get(at + 1).map(|step| step.from.generation);
        Some(next.unwrap_or(self.generation))
    }

    /// Its rows.
    pub fn rows(&self) -> &Map {
        &self.rows
    }

    /// The next generation. A change that changes nothing makes none. Whether there is a new one.
    ///
    /// # Panics
    ///
    /// If it is not behind the newest.
    pub fn advance(&mut self, generation: Generation, delta: Delta) -> bool {
        assert!(generation > self.generation, "{generation} is not behind {}", self.generation);
        let delta = self.rows.reduced(delta);
        if delta.is_empty() {
            return false;
        }
        let from = Known { generation: self.generation, digest: self.rows.digest() };
        self.rows.apply(delta.clone());
        self.generation = generation;
        self.encoded.clear();
        let entry = |(key, row): (&Arc<[u8]>, &Option<Arc<[u8]>>)| {
            key.len() + row.as_ref().map_or(0, |row| row.len())
        };
        let bytes = delta.iter().map(entry).sum();
        self.bytes += bytes;
        self.steps.push_back(Step { from, delta, bytes });
        while self.bytes > self.most_bytes
            && let Some(step) = self.steps.pop_front()
        {
            self.bytes -= step.bytes;
        }
        true
    }

    /// What leads an agent with this to the newest generation: nothing but its number if its rows
    /// are the same, as after a controller's restart; the steps since, as one, where they are still
    /// known; else all rows. `None` if it has the newest.
    pub fn since(&mut self, known: Option<Known>) -> Option<Arc<Update>> {
        let (to, digest) = (self.generation, self.rows.digest());
        if known == Some(Known { generation: to, digest }) {
            return None;
        }
        let same = known.filter(|it| it.digest == digest && it.generation < to);
        let first = known.and_then(|known| self.steps.iter().position(|step| step.from == known));
        let stepped = first.map(|at| self.steps[at].from.generation);
        let from = stepped.or(same.map(|it| it.generation)).unwrap_or(Generation(0));
        if let Some(update) = self.encoded.get(&from).and_then(Weak::upgrade) {
            return Some(update);
        }
        let delta = match first {
            None if same.is_some() => Delta::default(),
            Some(at) => self.steps.range(at..).fold(Delta::default(), |mut delta, step| {
                delta.then(&step.delta);
                delta
            }),
            None => self.rows.rows().map(|(key, row)| (key.clone(), Some(row.clone()))).collect(),
        };
        let update = Arc::new(Update { from, to, digest, body: delta.encode().into() });
        self.encoded.insert(from, Arc::downgrade(&update));
        Some(update)
    }
}
