//! A disk for redb that loses what was not synced when the power goes.

use std::io;
use std::sync::{Arc, Mutex};

use redb::StorageBackend;

/// A change of the disk that was not synced yet.
#[derive(Clone, Debug)]
enum Pending {
    Write(u64, Vec<u8>),
    Len(u64),
}

impl Pending {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Len(len) => bytes.resize(*len as usize, 0),
            Self::Write(offset, data) => {
                let (from, to) = (*offset as usize, *offset as usize + data.len());
                if bytes.len() < to {
                    bytes.resize(to, 0);
                }
                bytes[from..to].copy_from_slice(data);
            }
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// What is there after the power went.
    durable: Vec<u8>,
    /// What the process sees.
    seen: Vec<u8>,
    pending: Vec<Pending>,
    /// How often it was written, made longer or shorter, or synced.
    operations: usize,
    /// The operation before which the power goes.
    fails_at: Option<usize>,
}

/// Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// A disk with a home that is empty.
    pub fn made() -> Self {
        let disk = Self::default();
        drop(store::Embedded::on(disk.again()).unwrap());
        disk
    }

    /// The power goes before this operation.
    pub fn fail_at(&self, operation: usize) {
        self.0.lock().unwrap().fails_at = Some(operation);
    }

    pub fn operations(&self) -> usize {
        self.0.lock().unwrap().operations
    }

    /// The same disk for another process, after the first has closed it.
    pub fn again(&self) -> Self {
        self.clone()
    }

    /// What is found after the power went: what was synced, and of the rest whatever `chance`
    /// takes. A write may be there in part, by sectors.
    pub fn after_crash(&self, mut chance: impl FnMut() -> u64) -> Self {
        let state = self.0.lock().unwrap();
        let mut bytes = state.durable.clone();
        for pending in &state.pending {
            match (chance() % 4, pending) {
                (0, _) => {}
                (1, Pending::Write(offset, data)) => {
                    let sectors = data.len().div_ceil(512) as u64;
                    let kept = (chance() % sectors.max(1)) as usize * 512;
                    Pending::Write(*offset, data[..kept.min(data.len())].to_vec())
                        .apply(&mut bytes);
                }
                _ => pending.apply(&mut bytes),
            }
        }
        let state = State { durable: bytes.clone(), seen: bytes, ..State::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    fn change(&self, change: impl FnOnce(&mut State)) -> Result<(), io::Error> {
        let mut state = self.0.lock().unwrap();
        if state.fails_at.is_some_and(|at| state.operations >= at) {
            return Err(io::Error::other("the power is gone"));
        }
        state.operations += 1;
        change(&mut state);
        Ok(())
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.0.lock().unwrap().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let state = self.0.lock().unwrap();
        let from = offset as usize;
        let found = state.seen.get(from..from + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.change(|state| {
            let pending = Pending::Len(len);
            pending.apply(&mut state.seen);
            state.pending.push(pending);
        })
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.change(|state| {
            state.durable = state.seen.clone();
            state.pending.clear();
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.change(|state| {
            let pending = Pending::Write(offset, data.to_vec());
            pending.apply(&mut state.seen);
            state.pending.push(pending);
        })
    }
}
