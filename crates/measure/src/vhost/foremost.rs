//! The one thread that serves all front-ends, before others of its core.

use std::marker::PhantomData;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread on one of the cores that it may use, and lets it go first there, as a
/// switch's does on its own; until it is dropped by that thread.
#[derive(Debug)]
pub struct Foremost {
    cores: Option<CpuSet>,
    nice: Option<i32>,
    // Both are a thread's.
    _here: PhantomData<*const ()>,
}

/// The priority of those for whom every frame waits.
const NICE: i32 = -10;

impl Foremost {
    /// Keeps the calling thread here.
    pub fn here() -> Self {
        let cores = sched_getaffinity(None).ok();
        let first = cores.and_then(|all| (0..CpuSet::MAX_CPU).find(|core| all.is_set(*core)));
        if let Some(core) = first {
            let mut one = CpuSet::new();
            one.set(core);
            // Where that is not allowed, it goes on as it is.
            let _ = sched_setaffinity(None, &one);
        }
        let nice = getpriority_process(None).ok();
        // The same.
        let _ = setpriority_process(None, NICE);
        Self { cores, nice, _here: PhantomData }
    }
}

impl Drop for Foremost {
    fn drop(&mut self) {
        // It was so before.
        let _ = self.cores.map(|cores| sched_setaffinity(None, &cores));
        let _ = self.nice.map(|nice| setpriority_process(None, nice));
    }
}
