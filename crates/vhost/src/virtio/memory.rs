//! Where a guest's addresses lie in our memory.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, compiler_fence};

use port::Span;

/// A guest's memory: regions by guest-physical address.
#[derive(Clone, Debug, Default)]
pub struct GuestMemory {
    /// The first one is tried first: it should be the largest.
    regions: Vec<Region>,
    /// Set when something of it was taken away under us; that reads as zeroes since.
    lost: Vec<&'static AtomicBool>,
}

/// A run of guest-physical addresses.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// The first address.
    pub address: u64,
    /// As many bytes as addresses.
    pub span: Span,
}

impl Region {
    /// `len` bytes at a guest-physical address, if they lie in it.
    #[inline(always)]
    fn find(&self, address: u64, len: u32) -> Option<Span> {
        self.span.part(address.wrapping_sub(self.address), len)
    }
}

#[inline(never)]
fn find_in(regions: &[Region], address: u64, len: u32) -> Option<Span> {
    regions.iter().find_map(|region| region.find(address, len))
}

impl GuestMemory {
    /// These regions, which do not overlap.
    pub fn new(mut regions: Vec<Region>) -> Self {
        regions.sort_by_key(|region| std::cmp::Reverse(region.span.len()));
        Self { regions, lost: Vec::new() }
    }

    /// The same, and these tell when something of it is taken away under us.
    #[must_use]
    pub fn watched(self, lost: Vec<&'static AtomicBool>) -> Self {
        Self { lost, ..self }
    }

    /// Whether something of it was taken away under us.
    pub fn is_lost(&self) -> bool {
        // Set by a signal's handler, while this thread reads: what was read before is read.
        compiler_fence(SeqCst);
        self.lost.iter().any(|lost| lost.load(Relaxed))
    }

    /// `len` bytes at a guest-physical address; `None` if they do not lie in one region.
    #[inline(always)]
    pub fn find(&self, address: u64, len: u32) -> Option<Span> {
        let (first, further) = self.regions.split_first()?;
        first.find(address, len).or_else(|| find_in(further, address, len))
    }

    /// As [`find`](Self::find), in as many pieces as there are regions, one behind the other.
    /// Whether all is there.
    pub fn find_all(&self, address: u64, len: u32, mut found: impl FnMut(Span)) -> bool {
        let (mut address, mut left) = (address, len as usize);
        while left > 0 {
            let next = self.regions.iter().find_map(|region| {
                let offset = address.wrapping_sub(region.address);
                (offset < region.span.len() as u64)
                    .then(|| region.span.split(offset as usize).1.split(left).0)
            });
            let Some(span) = next else { return false };
            found(span);
            left -= span.len();
            address = address.wrapping_add(span.len() as u64);
        }
        true
    }
}
