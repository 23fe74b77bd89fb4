//! Memory from the allocator, for rings whose two sides live in one process.

use alloc::alloc::{alloc_zeroed, dealloc, handle_alloc_error};
use alloc::sync::Arc;
use core::alloc::Layout;
use core::ptr::NonNull;

use crate::LINE;

/// Zeroed bytes that begin on a line of their own. Whoever shares them holds a clone of the `Arc`.
pub(crate) struct Heap {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block is plain bytes and nothing here reads or writes them; what its users share through it, and
// with whom, is their own contract.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Heap {
    /// `len` bytes, at least one; `None` if no address space could hold them.
    pub(crate) fn zeroed(len: usize) -> Option<Arc<Self>> {
        let layout = Layout::from_size_align(len, LINE).ok()?;
        if len == 0 {
            return None;
        }
        // SAFETY: the layout's size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        let base = NonNull::new(base).unwrap_or_else(|| handle_alloc_error(layout));
        Some(Arc::new(Self { base, layout }))
    }

    pub(crate) fn region(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.base, self.layout.size())
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: this block, from this layout, and the last of those who shared it is gone.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}
