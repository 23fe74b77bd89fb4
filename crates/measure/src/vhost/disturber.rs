//! Somebody else on the switch's core, who wants a bounded part of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Work and rest come by turns, both in so much time.
const PERIOD: Duration = Duration::from_millis(10);

/// Below ordinary programs.
const NICE: i32 = 5;

/// A thread that works for a share of the time, and rests for the remainder; until it is dropped.
#[derive(Debug)]
pub struct Disturber {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Disturber {
    /// Disturbs a core for this share of the time, as far as the kernel lets it.
    ///
    /// # Errors
    ///
    /// What the kernel says of a thread more.
    pub fn start(core: usize, share: f64) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let thread = thread::Builder::new()
            .name("disturber".into())
            .spawn(move || disturb(core, PERIOD.mul_f64(share), &until))?;
        Ok(Self { over, thread: Some(thread) })
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it only passes time");
        }
    }
}

/// Its work is bounded by the clock: what it does not get in a period it does not ask for later.
fn disturb(core: usize, work: Duration, over: &AtomicBool) {
    let mut one = CpuSet::new();
    one.set(core);
    // The core is one that we may use, and to be nicer is nobody forbidden.
    let _ = sched_setaffinity(None, &one);
    let _ = setpriority_process(None, NICE);
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        while began.elapsed() < work {
            std::hint::spin_loop();
        }
        thread::sleep(PERIOD.saturating_sub(began.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_its_owner() {
        let began = Instant::now();
        drop(Disturber::start(0, 0.5).unwrap());
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}
