//! Asks again and again while something is done.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::MeasureError;

/// Pings that were asked while something was done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Meanwhile {
    pub asked: u32,
    /// Those of them whose answer is not as intended.
    pub wrong: u32,
}

impl Meanwhile {
    /// Adds others.
    pub fn add(&mut self, others: Self) {
        self.asked += others.asked;
        self.wrong += others.wrong;
    }
}

/// Does something, while another thread asks whether all is right, at least once. After each
/// question it rests for so many times as long as that took: it shares the processors with what is
/// measured.
pub fn meanwhile<T>(
    rests: u32,
    mut ask: impl FnMut() -> Result<bool, MeasureError> + Send,
    doing: impl FnOnce() -> Result<T, MeasureError>,
) -> Result<(T, Meanwhile), MeasureError> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let mut pings = Meanwhile::default();
            loop {
                let begun = Instant::now();
                let is_right = ask()?;
                pings.add(Meanwhile { asked: 1, wrong: u32::from(!is_right) });
                if is_over.load(Ordering::Relaxed) {
                    return Ok(pings);
                }
                thread::sleep(begun.elapsed() * rests);
            }
        });
        let done = doing();
        is_over.store(true, Ordering::Relaxed);
        let pings = asker.join().unwrap_or_else(|died| resume_unwind(died));
        Ok((done?, pings?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_while_something_is_done_is_counted() {
        let (done, pings) = meanwhile(0, || Ok(false), || Ok(7)).unwrap();
        assert_eq!((done, pings.wrong), (7, pings.asked));
        assert!(pings.asked > 0);
        let (_, pings) = meanwhile(0, || Ok(true), || Ok(())).unwrap();
        assert!(pings.asked > 0 && pings.wrong == 0);
    }

    #[test]
    fn who_cannot_ask_or_cannot_do_it_says_so() {
        let failed = |why: &str| MeasureError::Config(why.into());
        let asking = meanwhile(0, || Err(failed("asking")), || Ok(())).unwrap_err();
        assert_eq!(asking.to_string(), "asking");
        let doing = meanwhile(0, || Ok(true), || Err::<(), _>(failed("doing"))).unwrap_err();
        assert_eq!(doing.to_string(), "doing");
    }
}
