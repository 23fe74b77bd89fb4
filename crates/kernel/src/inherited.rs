//! Descriptors that a service manager started this process with (sd_listen_fds(3)).

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::FdFlags;

/// The first of them: SD_LISTEN_FDS_START.
const FIRST: RawFd = 3;

/// Takes them over, each with its name. There are none the second time, nor if they are for another
/// process.
pub fn descriptors() -> Vec<(String, OwnedFd)> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let variable = |name| std::env::var(name).ok();
    let (pid, count) = (variable("LISTEN_PID"), variable("LISTEN_FDS"));
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let names: Vec<_> = names.split(':').collect();
    let is_ours = pid.and_then(|pid| pid.parse().ok()) == Some(std::process::id());
    let is_whole = count.and_then(|count| count.parse().ok()) == Some(names.len());
    if !is_ours || !is_whole || TAKEN.swap(true, Relaxed) {
        return Vec::new();
    }
    (FIRST..)
        .zip(names)
        .filter_map(|(number, name)| Some((name.to_owned(), take(number)?)))
        .collect()
}

/// Takes a descriptor over, and keeps it from programs that we start; `None` if it is not open.
fn take(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: it is only asked for, and if it is not open, the kernel says so.
    #[expect(unsafe_code, reason = "a descriptor that came with the process is a number")]
    let is_open =
        rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::CLOEXEC)
            .is_ok();
    // SAFETY: the service manager says that it is for this process to use and to close, and this is
    // done once for each: nobody else here has opened it.
    #[expect(unsafe_code, reason = "as above")]
    is_open.then(|| unsafe { OwnedFd::from_raw_fd(number) })
}
