//! Looks again and again while something is done.

use std::convert::Infallible;
use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::MeasureError;

/// Pings that were asked while something was done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pings {
    pub asked: u32,
    /// Those of them whose answer is not as intended.
    pub wrong: u32,
}

impl Pings {
    /// Asks once whether all is right. Returns how long to rest: so many times as long as it took,
    /// as it shares the processors with what is measured.
    pub fn ask(
        &mut self,
        rests: u32,
        ask: impl FnOnce() -> Result<bool, MeasureError>,
    ) -> Result<Duration, MeasureError> {
        let begun = Instant::now();
        let is_right = ask()?;
        self.asked += 1;
        self.wrong += u32::from(!is_right);
        Ok(begun.elapsed() * rests)
    }
}

/// Does something, while another thread takes turns, at least one, and rests after each for as long
/// as that says.
pub fn meanwhile<T>(
    mut turn: impl FnMut() -> Result<Duration, MeasureError> + Send,
    doing: impl FnOnce() -> Result<T, MeasureError>,
) -> Result<T, MeasureError> {
    thread::scope(|scope| {
        // It is dropped also by who panics, so that nobody looks for ever.
        let (going_on, over) = channel::<Infallible>();
        let looker = scope.spawn(move || {
            loop {
                let rest = turn()?;
                if over.recv_timeout(rest) != Err(RecvTimeoutError::Timeout) {
                    return Ok(());
                }
            }
        });
        let done = doing();
        drop(going_on);
        let looked: Result<(), MeasureError> =
            looker.join().unwrap_or_else(|died| resume_unwind(died));
        let done = done?;
        looked.map(|()| done)
    })
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn what_is_wrong_while_something_is_done_is_counted() {
        for is_right in [false, true] {
            let mut pings = Pings::default();
            let done = meanwhile(|| pings.ask(0, || Ok(is_right)), || Ok(7)).unwrap();
            let wrong = if is_right { 0 } else { pings.asked };
            assert_eq!((done, pings.wrong), (7, wrong));
            assert!(pings.asked > 0);
        }
    }

    #[test]
    fn who_panics_or_is_done_waits_for_no_rest() {
        let long = || Ok(Duration::from_secs(3600));
        meanwhile(long, || Ok(())).unwrap();
        let died = || meanwhile(long, || -> Result<(), _> { panic!("on purpose") });
        assert!(catch_unwind(died).is_err());
    }

    #[test]
    fn who_cannot_look_or_cannot_do_it_says_so() {
        let failed = |why: &str| MeasureError::Config(why.into());
        let looking = meanwhile(|| Err(failed("looking")), || Ok(())).unwrap_err();
        assert_eq!(looking.to_string(), "looking");
        let doing = meanwhile(|| Ok(Duration::ZERO), || Err::<(), _>(failed("doing")));
        assert_eq!(doing.unwrap_err().to_string(), "doing");
    }
}
