//! A home in memory, with limits as small as a test likes, that fails when it is told to.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use store::{Batch, Home, HomeError, Limits, Pair, View, Written};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// When a batch fails, and whether it is written nevertheless.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Batches before it.
    pub after: usize,
    /// Whether it is written, although the writer is not told so.
    pub is_written: bool,
}

/// Clones are the same home.
#[derive(Clone, Debug)]
pub struct Memory {
    map: Arc<Mutex<Arc<Map>>>,
    limits: Limits,
    fault: Arc<Mutex<Option<Fault>>>,
}

impl Memory {
    pub fn new(limits: Limits) -> Self {
        Self { map: Arc::default(), limits, fault: Arc::default() }
    }

    /// Has one of the next batches fail.
    pub fn fail(&self, fault: Fault) {
        *self.fault.lock().unwrap() = Some(fault);
    }

    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.map.lock().unwrap().len()
    }

    /// Whether this batch fails, and is written nevertheless.
    fn fate(&self) -> Option<bool> {
        let mut fault = self.fault.lock().unwrap();
        match &mut *fault {
            Some(Fault { after: 0, .. }) => fault.take().map(|it| it.is_written),
            Some(Fault { after, .. }) => {
                *after -= 1;
                None
            }
            None => None,
        }
    }
}

impl Home for Memory {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn read(&self) -> Result<Box<dyn View + '_>, HomeError> {
        Ok(Box::new(Moment(Arc::clone(&self.map.lock().unwrap()))))
    }

    fn write(&self, batch: &Batch) -> Result<Written, HomeError> {
        let size = |(key, value): &(Vec<u8>, Option<Vec<u8>>)| {
            key.len() + value.as_ref().map_or(0, Vec::len)
        };
        assert!(batch.writes.len() <= self.limits.writes, "{batch:?} has too many writes");
        let bytes: usize = batch.writes.iter().map(size).sum();
        assert!(bytes <= self.limits.bytes, "{batch:?} has too many bytes: {bytes}");
        let fate = self.fate();
        if fate == Some(false) {
            return Err(HomeError("not written".into()));
        }
        let mut current = self.map.lock().unwrap();
        let mut map = Map::clone(&current);
        if batch.expect.iter().any(|(key, value)| map.get(key) != value.as_ref()) {
            return Ok(Written::Unexpected);
        }
        for (key, value) in &batch.writes {
            match value {
                Some(value) => drop(map.insert(key.clone(), value.clone())),
                None => drop(map.remove(key)),
            }
        }
        *current = Arc::new(map);
        match fate {
            Some(_) => Err(HomeError("written, or not".into())),
            None => Ok(Written::Done),
        }
    }
}

struct Moment(Arc<Map>);

impl View for Moment {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, HomeError> {
        Ok(self.0.get(key).cloned())
    }

    fn range(&self, keys: Range<&[u8]>, most: usize) -> Result<Vec<Pair>, HomeError> {
        let keys = keys.start.to_vec()..keys.end.to_vec();
        Ok(self.0.range(keys).take(most).map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn last(&self, keys: Range<&[u8]>) -> Result<Option<Pair>, HomeError> {
        let keys = keys.start.to_vec()..keys.end.to_vec();
        Ok(self.0.range(keys).next_back().map(|(key, value)| (key.clone(), value.clone())))
    }
}
