//! How the kernel shares its processors with the calling thread.

use std::io;

use units::Span;

/// Gives the calling thread a priority, and slices of this length if it is an ordinary one
/// (sched_setattr(2)).
///
/// The kernel runs first who has the earliest deadline, a slice after it was due (Linux's EEVDF):
/// so a thread with short slices runs soon after it wakes, and lets others run soon. A kernel
/// before 6.12 knows one length for all.
///
/// # Errors
///
/// What `sched_setattr` says: a negative `nice` takes `CAP_SYS_NICE`.
pub fn schedule(nice: i32, slice: Span) -> io::Result<()> {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: slice.as_nanos(),
        sched_deadline: 0,
        sched_period: 0,
    };
    #[expect(unsafe_code, reason = "no library sets a slice")]
    // SAFETY: the kernel reads as many bytes of the structure as it is told that there are, and
    // keeps no pointer.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_priority_that_it_was_given() {
        std::thread::spawn(|| {
            schedule(5, Span::from_micros(200)).unwrap();
            assert_eq!(rustix::process::getpriority_process(None).unwrap(), 5);
        })
        .join()
        .unwrap();
    }
}
