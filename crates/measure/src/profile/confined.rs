//! A lab that has some of the machine's processors, and no others.

use std::marker::PhantomData;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::MeasureError;

/// Confines the calling thread, and whatever it starts, to so many processors until it is dropped
/// by that thread.
///
/// Programs of a lab that comes up meanwhile stay there: switches, senders and receivers. So does
/// what the kernel does for them, as it does that where a program sends.
#[derive(Debug)]
pub struct Confined {
    before: CpuSet,
    // Affinity is a thread's.
    _here: PhantomData<*const ()>,
}

impl Confined {
    /// The first processors of those that we may use; all of them if there are no more.
    pub fn to(cores: u32) -> Result<Self, MeasureError> {
        let failed = |error: rustix::io::Errno| {
            MeasureError::Config(format!(
                "cannot keep to {cores} processors: {error}; leave out `--cores`"
            ))
        };
        let before = sched_getaffinity(None).map_err(failed)?;
        sched_setaffinity(None, &first(&before, cores)).map_err(failed)?;
        Ok(Self { before, _here: PhantomData })
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        // It was allowed before.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// How many processors we may use.
pub fn available() -> u32 {
    sched_getaffinity(None).map_or(1, |ours| ours.count())
}

/// The first so many.
fn first(all: &CpuSet, cores: u32) -> CpuSet {
    let mut first = CpuSet::new();
    let ours = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
    ours.take(cores as usize).for_each(|core| first.set(core));
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_processors_are_ours_and_what_was_allowed_comes_back() {
        let mut all = CpuSet::new();
        [1, 3, 7].into_iter().for_each(|core| all.set(core));
        let two = first(&all, 2);
        assert_eq!((two.count(), two.is_set(1), two.is_set(3)), (2, true, true));
        assert_eq!(first(&all, 9), all);

        let before = sched_getaffinity(None).unwrap();
        let confined = Confined::to(1).unwrap();
        assert_eq!(available(), 1);
        drop(confined);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
