//! What the C library does with memory that is freed.

/// The C library's own first value (mallopt(3)).
const LARGE: usize = 128 << 10;

/// From now on each block of 128 KiB or more that the program allocates is mapped by itself, and is
/// the kernel's again when it is freed (mallopt(3), `M_MMAP_THRESHOLD`).
///
/// Left to itself, glibc raises the size to that of the largest block that was freed, up to 32 MiB,
/// and keeps what is smaller: a process stays as large as it ever was.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "no library sets it")]
        // SAFETY: it sets a number that the allocator reads, under the allocator's own lock.
        let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE as i32) };
        // mallopt(3): 0 says that the value is out of range, which this is not.
        debug_assert_eq!(is_set, 1);
    }
}

/// Gives the kernel what the heap keeps of blocks that were freed (malloc_trim(3)): of smaller ones
/// whole pages stay, wherever others are in use between them. It takes milliseconds, for which
/// other threads may wait that allocate meanwhile.
pub fn return_freed() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "no library does it")]
        // SAFETY: it gives back pages that are in no block in use, under the allocator's own locks.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// How many bytes of the process are in memory.
    fn resident() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size()
    }

    #[test]
    fn large_blocks_are_returned_though_small_ones_stay_between_them() {
        return_large_blocks();
        let mut small = Vec::new();
        for _ in 0..3 {
            let mut block = |_| {
                small.push(Box::new([1_u8; 1000]));
                vec![1_u8; 4 * LARGE]
            };
            let blocks: Vec<_> = (0..128).map(&mut block).collect();
            let before = resident();
            drop(blocks);
            // Of 64 MiB; other tests run beside.
            assert!(resident() + (48 << 20) < before, "{before} {}", resident());
        }
        assert_eq!(small.len(), 3 * 128);
    }
}
