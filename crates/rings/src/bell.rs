//! Who sleeps, and who must wake whom.

use crate::sync::{AtomicU32, Ordering, fence};

/// A flag by which one side says that it is about to sleep.
///
/// The sleeping and the waking are the caller's (an eventfd, a futex); the bell says when each is due. A
/// wake-up is asked for only when somebody sleeps, and none is ever lost:
///
/// ```text
///    consumer                          producer
///    announce: flag = 1                publish: tail = n
///    ── fence A ──                     ── fence B ──
///    look: tail?  nothing: sleep       must_wake: flag? 1: flag = 0, wake it
/// ```
///
/// Proof. Both fences are sequentially consistent, so one comes first. If A does, then everything before A is
/// seen after B: the producer finds the flag up and wakes, unless somebody lowered it since; then it was either
/// the consumer, which is awake again, or the producer itself, which woke the consumer when it did. If B comes
/// first, the consumer's look sees `tail = n` and does not sleep. (C++20 [atomics.fences], as in Dekker's
/// algorithm; without the fences both sides may read the old value, on x86 too.) Every change of the flag is a swap,
/// so its values form one chain, in which no side's change can slip behind the other's.
#[repr(transparent)]
pub struct Bell(AtomicU32);

const AWAKE: u32 = 0;
const SLEEPY: u32 = 1;

impl Bell {
    /// A bell whose sleeper is awake.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU32::new(AWAKE))
    }

    /// A bell whose sleeper is awake.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self(AtomicU32::new(AWAKE))
    }

    /// The sleeper is about to sleep. It must look for work once more before it does.
    pub fn announce(&self) {
        self.0.swap(SLEEPY, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The sleeper is awake again, or found work when it looked.
    pub fn withdraw(&self) {
        self.0.swap(AWAKE, Ordering::Relaxed);
    }

    /// Whether the caller, who has just published work, must wake the sleeper. Says so once for each sleep.
    pub fn must_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) == SLEEPY && self.0.swap(AWAKE, Ordering::Relaxed) == SLEEPY
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}
