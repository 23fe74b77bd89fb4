//! Which chains of a ring are ours, kept where it outlives us: so a switch that is killed loses
//! nothing.
//!
//! A ring's used index says how many chains its guest has back, not which ones: ours go back in any
//! order. So each chain is marked when it is taken, and unmarked when its guest has it back.
//! Whoever comes after us takes the marked ones again, in the order in which they were taken, and
//! goes on behind them.
//!
//! ```text
//!   take ─▶ mark ─▶ … ─▶ give back ─▶ begin ─▶ the ring shows it ─▶ finish: unmark
//! ```
//!
//! A frame may so be delivered twice, if we are killed between its delivery and its return. None is
//! lost, and no chain is given back twice.
//!
//! Layout and order of the writes are vhost-user.rst's, "Inflight I/O tracking", so that other
//! back-ends can go on where we stopped and we where they did. What is read of a record may have
//! been written by anybody: one that does not fit its ring is begun anew.

pub mod packed;
pub mod split;
#[cfg(test)]
mod tests;

use std::sync::atomic::{Ordering::SeqCst, compiler_fence};

/// The layout's version; 0 is a record that nobody has begun yet.
pub const VERSION: u16 = 1;

/// Where both kinds have their version.
pub const VERSION_AT: usize = 8;
/// Where both kinds have the number of their states.
pub const COUNT_AT: usize = 10;

/// What was stored before this is there whenever something is that is stored after it.
///
/// For a process that is killed it is enough that the compiler keeps the order: the processor
/// finishes all the instructions before the last one, whoever sees their stores when.
#[inline(always)]
fn then() {
    compiler_fence(SeqCst);
}

/// Whether a chain is marked that begins at this descriptor, or this entry.
#[cfg(test)]
fn is_marked(record: port::Span, packed: bool, at: u16) -> bool {
    let [header, state] =
        if packed { [packed::HEADER, packed::STATE] } else { [split::HEADER, split::STATE] };
    let mut byte = [0];
    record.split(header + state * usize::from(at)).1.read(&mut byte);
    byte != [0]
}
