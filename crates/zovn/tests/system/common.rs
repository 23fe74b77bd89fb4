//! What tests of a running agent ask and wait for.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Asks again and again, and gives way to others in between.
pub fn until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "what should have happened has not");
        thread::yield_now();
    }
}

/// How long all threads of a process have run: the first figure of schedstat (Linux
/// Documentation/scheduler/sched-stats).
pub fn cpu_ns(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let read = |task: fs::DirEntry| fs::read_to_string(task.path().join("schedstat")).unwrap();
    tasks.map(|task| read(task.unwrap()).split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}
