//! What threads of a lab's switches have had of the processors.

use std::fs;
use std::path::Path;

use crate::LabError;
use crate::home::PROCESSES;
use crate::lab::Lab;
use crate::process::Process;

/// The programs that move a switch's frames. A bridge has none: its work is done by whoever sends.
const SWITCHES: [&str; 2] = ["agent", "ovs-vswitchd"];

/// A thread of a switch's program, and what it had since it began.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ThreadTime {
    /// Its number.
    pub id: u32,
    /// How long it ran, in nanoseconds.
    pub ran_ns: u64,
    /// How long it was ready to run and had no processor, in nanoseconds.
    pub waited_ns: u64,
}

impl Lab {
    /// All threads of the programs that are switches here, on every host. None where the switch is
    /// the kernel's bridge.
    ///
    /// # Errors
    ///
    /// [`LabError::File`] if the kernel does not tell (`CONFIG_SCHED_INFO`).
    pub fn switch_threads(&self) -> Result<Vec<ThreadTime>, LabError> {
        let mut threads = Vec::new();
        for (what, process) in Process::recorded(&self.directory().join(PROCESSES)) {
            if SWITCHES.contains(&what.as_str()) {
                threads.extend(threads_of(&process.tasks())?);
            }
        }
        Ok(threads)
    }
}

/// The threads in a folder of /proc/pid/task. One that ends meanwhile is left out.
fn threads_of(tasks: &Path) -> Result<Vec<ThreadTime>, LabError> {
    let entries = fs::read_dir(tasks).map_err(LabError::file(tasks))?;
    let mut threads = Vec::new();
    for entry in entries.flatten() {
        let file = entry.path().join("schedstat");
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match fs::read_to_string(&file) {
            Ok(text) => threads.extend(read(id, &text)),
            Err(_) if !entry.path().exists() => {}
            Err(error) => return Err(LabError::file(&file)(error)),
        }
    }
    Ok(threads)
}

/// `ran waited slices`, the first two in nanoseconds (Documentation/scheduler/sched-stats.rst).
fn read(id: u32, text: &str) -> Option<ThreadTime> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().ok());
    Some(ThreadTime { id, ran_ns: numbers.next()??, waited_ns: numbers.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_has_run() {
        let tasks = Process::ourselves().unwrap().tasks();
        let ran = || threads_of(&tasks).unwrap().iter().map(|it| it.ran_ns).sum::<u64>();
        let before = ran();
        while ran() < before + 1_000_000 {}
    }

    #[test]
    fn what_the_kernel_tells_is_read() {
        let told = ThreadTime { id: 7, ran_ns: 1200, waited_ns: 30 };
        assert_eq!(read(7, "1200 30 5\n"), Some(told));
        assert_eq!(read(7, "1200\n"), None);
    }
}
