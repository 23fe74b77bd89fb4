//! The atomics and the shared places: the processor's, or the model checker's.

use core::mem::MaybeUninit;

#[cfg(not(loom))]
use core::cell::UnsafeCell;
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(loom)]
use loom::cell::UnsafeCell;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};

/// A place that both sides know and one at a time may touch.
#[repr(transparent)]
pub(crate) struct Cell<T>(UnsafeCell<MaybeUninit<T>>);

impl<T: Copy> Cell<T> {
    #[cfg(loom)]
    pub(crate) fn empty() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// # Safety
    ///
    /// The place is the caller's: no other thread of this program touches it meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, value: T) {
        #[cfg(not(loom))]
        // SAFETY: in bounds and aligned as it is a `MaybeUninit<T>`; exclusive by this function's contract.
        unsafe {
            self.0.get().write(MaybeUninit::new(value));
        }
        #[cfg(loom)]
        // SAFETY: as above; loom itself fails the test if the place was not exclusive.
        self.0.with_mut(|place| unsafe { place.write(MaybeUninit::new(value)) });
    }

    /// Reads the place exactly once: what was checked is what is used, whatever the other side does meanwhile.
    ///
    /// # Safety
    ///
    /// As for [`write`](Self::write), and a `T` lies in it.
    #[inline(always)]
    pub(crate) unsafe fn read(&self) -> T {
        #[cfg(not(loom))]
        // SAFETY: in bounds and aligned as it is a `MaybeUninit<T>`; exclusive and filled by the contract.
        unsafe {
            self.0.get().read_volatile().assume_init()
        }
        #[cfg(loom)]
        // SAFETY: as above.
        self.0.with(|place| unsafe { place.read().assume_init() })
    }
}
