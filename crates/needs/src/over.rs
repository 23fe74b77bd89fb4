//! The end of what a test has running beside it.

use std::sync::atomic::{AtomicBool, Ordering};

/// Raises a flag when it goes, and so tells threads that run until then to end. It does so when a
/// test fails, too: a scope waits for its threads before it tells of a panic, and would wait for
/// ever.
#[must_use = "it raises the flag when it goes"]
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;

    #[test]
    fn a_failed_test_ends_what_runs_beside_it() {
        let is_over = AtomicBool::new(false);
        let failed = catch_unwind(AssertUnwindSafe(|| {
            thread::scope(|scope| {
                let _over = Over(&is_over);
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        thread::yield_now();
                    }
                });
                panic!("as a test does that fails");
            });
        }));
        assert!(failed.is_err() && is_over.into_inner());
    }
}
