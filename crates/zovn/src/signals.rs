//! Signals that ask a command to end: the first is seen by whoever looks, a second one kills.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// What a shell says of a command that Ctrl-C ended: 128 and the signal's number.
pub const INTERRUPTED: u8 = 130;

/// A flag that the first Ctrl-C, SIGTERM or hang-up sets.
pub fn stop() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal == SIGHUP && survives_hangup() {
            continue;
        }
        // In this order: the flag that the second looks at is the first's.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Whether we were started by nohup(1) or its like: a hang-up is ignored then (proc(5), `SigIgn`).
fn survives_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 << (SIGHUP - 1) != 0)
}
