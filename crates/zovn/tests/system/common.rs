//! What tests of a running agent ask and wait for.

use std::fs;
use std::io::{self, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

use kernel::netns::Namespace;

/// Asks again and again, a millisecond later each time.
pub fn until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "what should have happened has not");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Opens a socket in a namespace once its address is free: between fork and exec, a program that
/// another test starts has a copy of a socket that was closed.
pub fn bound<T: Send>(netns: &Namespace, bind: impl Fn() -> io::Result<T> + Sync) -> T {
    let mut bound = None;
    until(|| {
        bound = match netns.run(&bind).unwrap() {
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            bound => Some(bound.unwrap()),
        };
        bound.is_some()
    });
    bound.unwrap()
}

/// How long all threads of a process have run: the first figure of schedstat (Linux
/// Documentation/scheduler/sched-stats).
pub fn cpu_ns(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let read = |task: fs::DirEntry| fs::read_to_string(task.path().join("schedstat")).unwrap();
    tasks.map(|task| read(task.unwrap()).split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}
