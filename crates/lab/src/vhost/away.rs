//! A processor core for the switch alone.

use std::io;
use std::marker::PhantomData;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::LabError;

/// Keeps the calling thread, and whatever it starts, off a core until it is dropped by that thread.
///
/// A switch that polls goes first on its core and never sleeps: whoever else is there hardly runs,
/// and the kernel may find no better place for it.
#[derive(Debug)]
pub struct Away {
    before: CpuSet,
    // Affinity is a thread's.
    _here: PhantomData<*const ()>,
}

impl Away {
    pub fn from(core: usize) -> Result<Self, LabError> {
        let failed = |error: rustix::io::Errno| {
            LabError::kernel(format!("keep off processor core {core}"))(io::Error::from(error))
        };
        let before = sched_getaffinity(None).map_err(failed)?;
        let others = others(before, core).ok_or_else(|| LabError::Spec {
            lab: "vhost".into(),
            what: format!(
                "the switch needs core {core} for itself and its front-ends another, of the {} that this process may \
                 use; give it other cores (taskset)",
                before.count()
            ),
        })?;
        sched_setaffinity(None, &others).map_err(failed)?;
        Ok(Self { before, _here: PhantomData })
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        // It was allowed before.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// All cores but this one, if it is among them and not the only one.
fn others(all: CpuSet, core: usize) -> Option<CpuSet> {
    if core >= CpuSet::MAX_CPU || !all.is_set(core) || all.count() < 2 {
        return None;
    }
    let mut others = all;
    others.unset(core);
    Some(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switchs_core_is_one_of_several() {
        let mut all = CpuSet::new();
        all.set(1);
        assert_eq!([0, 1, usize::MAX].map(|core| others(all, core)), [None; 3]);
        all.set(3);
        let left = others(all, 1).unwrap();
        assert_eq!((left.count(), left.is_set(3)), (1, true));
    }

    #[test]
    fn whoever_kept_away_comes_back() {
        let before = sched_getaffinity(None).unwrap();
        if let Ok(away) = Away::from(0) {
            assert!(!sched_getaffinity(None).unwrap().is_set(0));
            drop(away);
        }
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
