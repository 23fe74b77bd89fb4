//! Signals that ask a command to end: the first is seen by whoever looks, a later one kills.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

/// What a shell says of a command that Ctrl-C ended: 128 and the signal's number.
pub const INTERRUPTED: u8 = 130;

/// Signals within this time of the first are the same wish: timeout(1) sends its signal to the
/// command and to its group, and the command gets it twice.
const ONE_WISH: Duration = Duration::from_millis(300);

/// A flag that the first Ctrl-C, SIGTERM or hang-up sets.
pub fn stop() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let asks = |signal: &i32| *signal != SIGHUP || !survives_hangup();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP].iter().filter(|signal| asks(signal)))?;
    let told = stop.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut first = None;
        for signal in signals.forever() {
            told.store(true, Ordering::Relaxed);
            if first.get_or_insert_with(Instant::now).elapsed() > ONE_WISH {
                low_level::exit(128 + signal);
            }
        }
    })?;
    Ok(stop)
}

/// Whether we were started by nohup(1) or its like: a hang-up is ignored then (proc(5), `SigIgn`).
fn survives_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 << (SIGHUP - 1) != 0)
}
