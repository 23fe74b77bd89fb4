//! Maps memory of another process, and survives when that process truncates it.
//!
//! A process that gave us a descriptor can truncate its file while it is mapped here. Touching a
//! page past the new end raises SIGBUS, which would end this process with all its ports. So a
//! signal handler looks up the faulting address:
//!
//! ```text
//!   SIGBUS ─▶ inside one of our mappings? ─yes─▶ lay zeroes over all of it, mark it lost, go on
//!                        └─────────no─────────▶ whoever handled SIGBUS before
//! ```
//!
//! The memory then reads as zeroes. The port's owner checks [`Mapping::is_lost`] and detaches the
//! port. A system call on such memory raises no signal: it fails with EFAULT, which means the same.
//!
//! The handler may run between any two instructions, so it takes no lock and allocates nothing:
//! each mapping is one word in a fixed table, written and read at once.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Once, OnceLock};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The most mappings of this process at a time.
pub const MOST: usize = 4096;

/// The limit of a mapping's length, so that its place and length fit into one word of the table.
pub const TOO_LONG: u64 = PAGE << PAGES_BITS;

/// The unit of the table's words. The page size of every machine is a multiple of it.
const PAGE: u64 = 4096;
const PAGES_BITS: u32 = 28;

static TABLE: [Place; MOST] =
    [const { Place { word: AtomicU64::new(0), lost: AtomicBool::new(false) } }; MOST];

/// An entry of the table: free if its word is 0.
struct Place {
    /// The number of the first page, and in the lowest bits the number of pages.
    word: AtomicU64,
    lost: AtomicBool,
}

impl Place {
    fn word(start: usize, len: usize) -> u64 {
        ((start as u64 / PAGE) << PAGES_BITS) | (len as u64 / PAGE)
    }

    /// The mapping's first address and length, if there is one.
    fn mapping(&self) -> (usize, usize) {
        let word = self.word.load(Relaxed);
        (((word >> PAGES_BITS) * PAGE) as usize, ((word & ((1 << PAGES_BITS) - 1)) * PAGE) as usize)
    }
}

/// A shared mapping of another process's file. Dropping it unmaps it.
///
/// The bytes may change at any time, so there must be no references to them: they are read and
/// written through pointers.
#[derive(Debug)]
pub struct Mapping {
    /// The first requested byte, inside the mapping.
    start: NonNull<u8>,
    len: usize,
    /// The mapped whole pages.
    base: NonNull<c_void>,
    mapped: usize,
    place: usize,
    /// The file's device and inode.
    file: [u64; 2],
}

// SAFETY: the pointers are to a mapping that this value alone owns, and a mapping belongs to the
// process: any thread may use it, and unmap it. Nothing here reads or writes through them.
#[expect(unsafe_code, reason = "the pointers in it are owned")]
unsafe impl Send for Mapping {}
// SAFETY: what a shared reference allows is to copy the pointers and to read an atomic.
#[expect(unsafe_code, reason = "the pointers in it are owned")]
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file from `offset`, readable and writable.
    ///
    /// The file must be a memfd, or lie on tmpfs or hugetlbfs: touching their pages never waits for
    /// another program. With other files, such as one served by FUSE, a front-end could block all
    /// ports.
    ///
    /// # Errors
    ///
    /// The kernel's error; `InvalidInput` if the file is of another kind or too short;
    /// `OutOfMemory` if the table of mappings is full.
    pub fn new(file: impl AsFd, offset: u64, len: u64) -> io::Result<Self> {
        let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        let page = match page_of(file.as_fd())? {
            Some(page) => page,
            None => return invalid("it is no memfd and no file on tmpfs or hugetlbfs"),
        };
        let end = offset.checked_add(len);
        let stat = rustix::fs::fstat(&file)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if len == 0 || end.is_none_or(|end| end > size) {
            return invalid("its file is shorter than that");
        }
        // A mapping consists of whole pages of its file, which may be huge pages.
        let before = offset % page;
        let whole = (before + len).checked_next_multiple_of(page).filter(|whole| *whole < TOO_LONG);
        let Some(whole) = whole else { return invalid("it is too long") };

        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: no address is asked for, so the kernel takes one where nothing is mapped.
        #[expect(unsafe_code, reason = "a mapping is made by mmap")]
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                whole as usize,
                protection,
                flags,
                &file,
                offset - before,
            )?
        };
        let base = NonNull::new(base).expect("the kernel maps nothing at 0 unless asked");
        let Some(place) = register(base.as_ptr() as usize, whole as usize) else {
            // SAFETY: this is the mapping made above, which nobody else knows of.
            #[expect(unsafe_code, reason = "a mapping is undone by munmap")]
            unsafe {
                rustix::mm::munmap(base.as_ptr(), whole as usize)?;
            }
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, "too much is mapped already"));
        };
        let mapping = Self {
            // SAFETY: `before` is less than a page, and the mapping has at least one.
            #[expect(unsafe_code, reason = "the first byte lies inside the mapping")]
            start: unsafe { base.cast().add(before as usize) },
            len: len as usize,
            base,
            mapped: whole as usize,
            place,
            file: [stat.st_dev, stat.st_ino],
        };
        // A guest's memory does not belong into our core dumps. If the kernel cannot exclude it, it
        // stays in. SAFETY: the advice does not change the mapping.
        #[expect(unsafe_code, reason = "some advice destroys memory; this does not")]
        let _ =
            unsafe { rustix::mm::madvise(base.as_ptr(), whole as usize, Advice::LinuxDontDump) };
        Ok(mapping)
    }

    /// A pointer to the first byte. All [`len`](Self::len) bytes are valid as long as this value
    /// lives.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The length in bytes.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "an empty mapping cannot be made")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The identity of its file: device and inode.
    pub fn file(&self) -> [u64; 2] {
        self.file
    }

    /// Whether its file was truncated. Then zeroes of our own have replaced it.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.lost().load(Relaxed)
    }

    /// The flag behind [`is_lost`](Self::is_lost). It belongs to another mapping once this one was
    /// dropped.
    #[inline]
    pub fn lost(&self) -> &'static AtomicBool {
        &TABLE[self.place].lost
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Leave the table first: from here on another mapping may get these addresses.
        let place = &TABLE[self.place];
        place.lost.store(false, Relaxed);
        place.word.store(0, std::sync::atomic::Ordering::Release);
        unmap(Pages { base: self.base, len: self.mapped });
    }
}

/// The pages of a mapping that nobody uses any more. Dropping this unmaps them.
struct Pages {
    base: NonNull<c_void>,
    len: usize,
}

// SAFETY: the pointer is to pages that this value alone owns, and a mapping belongs to the process:
// any thread may unmap it.
#[expect(unsafe_code, reason = "the pointer in it is owned")]
unsafe impl Send for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, whole as it was made, and nobody may use its
        // bytes after this.
        #[expect(unsafe_code, reason = "a mapping is undone by munmap")]
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.len) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

/// Up to this length, unmapping takes less time than starting a thread.
const SHORT: usize = 1 << 20;

/// Unmaps pages, long ones on a thread of their own: the kernel takes milliseconds for a gigabyte,
/// and more if it was the last that kept the guest's memory.
fn unmap(pages: Pages) {
    if pages.len > SHORT {
        let thread = std::thread::Builder::new().name("zovn-unmap".into());
        // Without a thread, the closure is dropped here, and the pages with it.
        let _ = thread.spawn(move || drop(pages));
    }
}

/// The size of a file's pages, if touching them never waits for another program.
fn page_of(file: impl AsFd) -> io::Result<Option<u64>> {
    const TMPFS: i64 = 0x0102_1994; // TMPFS_MAGIC, linux/magic.h
    const HUGETLBFS: i64 = 0x9584_58f6; // HUGETLBFS_MAGIC
    let filesystem = rustix::fs::fstatfs(file)?;
    let is_fit = matches!(filesystem.f_type, TMPFS | HUGETLBFS);
    Ok(u64::try_from(filesystem.f_bsize).ok().filter(|page| is_fit && page.is_power_of_two()))
}

/// Takes a free entry of the table, and installs the handler if it is not yet installed.
fn register(start: usize, len: usize) -> Option<usize> {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(install);
    let word = Place::word(start, len);
    TABLE.iter().position(|place| {
        place.word.compare_exchange(0, word, std::sync::atomic::Ordering::Acquire, Relaxed).is_ok()
    })
}

/// The previous handler of SIGBUS.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

fn install() {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a sigaction of zeroes is valid: no handler, no flags, an empty mask.
    #[expect(unsafe_code, reason = "libc's struct has no other constructor")]
    let mut ours = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
    ours.sa_sigaction = on_sigbus as *const () as usize;
    // Run on the thread's alternate signal stack, because its own stack may be what faults.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler is of the form that SA_SIGINFO wants and does only what a handler may;
    // both structs live on this frame. The one that the kernel fills in was valid before.
    #[expect(unsafe_code, reason = "a handler is installed by sigaction")]
    let (answer, before) = unsafe {
        (libc::sigaction(libc::SIGBUS, &raw const ours, before.as_mut_ptr()), before.assume_init())
    };
    assert_eq!(answer, 0, "SIGBUS can be handled: {}", io::Error::last_os_error());
    let _ = BEFORE.set(before);
}

extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a handler with SA_SIGINFO a valid siginfo_t; for a SIGBUS of its own
    // (a positive code), it holds the address.
    #[expect(unsafe_code, reason = "what a handler is told lies behind a pointer")]
    let (is_fault, address) = unsafe { ((*info).si_code > 0, (*info).si_addr() as usize) };
    if !(is_fault && cover(address)) {
        pass_on(signal, info, context);
    }
}

/// Replaces the mapping that contains this address by zeroes, if there is one.
fn cover(address: usize) -> bool {
    let found = TABLE.iter().find_map(|place| {
        let (start, len) = place.mapping();
        (start..start + len).contains(&address).then_some((place, start, len))
    });
    let Some((place, start, len)) = found else { return false };
    place.lost.store(true, Relaxed);
    let (protection, flags) =
        (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
    // SAFETY: the word was read at once, so start and length are one mapping's, whole as it was
    // made. That mapping is alive, since the thread that we interrupted is just reading or writing
    // in it, which its owner allows no longer than it lives. Others have only pointers to its
    // bytes, and those stay valid. The call is a bare system call.
    #[expect(unsafe_code, reason = "a mapping is replaced by mmap")]
    let covered = unsafe {
        rustix::mm::mmap_anonymous(
            start as *mut c_void,
            len,
            protection,
            flags | MapFlags::NORESERVE,
        )
    };
    covered.is_ok()
}

/// Calls the previous handler.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let before = BEFORE.get();
    let (handler, flags) = before.map_or((libc::SIG_DFL, 0), |it| (it.sa_sigaction, it.sa_flags));
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // Back to the default: the instruction faults again, and that ends the process. Nobody can
        // ignore a fault. SAFETY: the default takes no function, and `signal` is the one that we
        // handle.
        #[expect(unsafe_code, reason = "the default is restored by signal")]
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    } else if flags & libc::SA_SIGINFO != 0 {
        // SAFETY: whoever set SA_SIGINFO gave a function of this form, and we give it what the
        // kernel gave us.
        #[expect(unsafe_code, reason = "the earlier handler is known by its address")]
        unsafe {
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                std::mem::transmute(handler);
            handler(signal, info, context);
        }
    } else {
        // SAFETY: without SA_SIGINFO it is a function of this form.
        #[expect(unsafe_code, reason = "the earlier handler is known by its address")]
        unsafe {
            let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    fn memfd(len: u64) -> std::os::fd::OwnedFd {
        let file = memfd_create("zovn-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, len).unwrap();
        file
    }

    fn read(mapping: &Mapping, at: usize) -> u8 {
        assert!(at < mapping.len());
        // SAFETY: inside the mapping, which lives.
        #[expect(unsafe_code, reason = "mapped bytes are read by pointer")]
        unsafe {
            mapping.start().add(at).read_volatile()
        }
    }

    #[test]
    fn a_truncated_file_reads_as_zeroes_and_only_its_mapping_is_lost() {
        let (file, other) = (memfd(1 << 20), memfd(1 << 20));
        rustix::io::pwrite(&file, &[7; 8192], 0).unwrap();
        rustix::io::pwrite(&other, &[9], 0).unwrap();
        let mapping = Mapping::new(&file, 100, 100_000).unwrap();
        let neighbour = Mapping::new(&other, 0, 1 << 20).unwrap();
        assert_eq!((read(&mapping, 0), mapping.is_lost()), (7, false));

        ftruncate(&file, 4096).unwrap();
        assert_eq!(read(&mapping, 0), 7, "its first page is still there");
        assert_eq!((read(&mapping, 5000), mapping.is_lost()), (0, true));
        assert_eq!((read(&mapping, 0), read(&mapping, 99_999)), (0, 0));
        assert_eq!((read(&neighbour, 0), neighbour.is_lost()), (9, false));

        let place = mapping.place;
        drop(mapping);
        assert!(!TABLE[place].lost.load(Relaxed), "whoever is next there has lost nothing");
    }

    #[test]
    fn a_system_call_that_is_handed_lost_memory_fails() {
        let file = memfd(4096);
        let mapping = Mapping::new(&file, 0, 4096).unwrap();
        ftruncate(&file, 0).unwrap();
        let (_reader, writer) = std::io::pipe().unwrap();
        // SAFETY: the kernel reads one byte of a mapping that lives.
        #[expect(unsafe_code, reason = "mapped bytes are handed on by pointer")]
        let written =
            unsafe { libc::write(writer.as_raw_fd(), mapping.start().as_ptr().cast(), 1) };
        let error = io::Error::last_os_error().raw_os_error();
        assert_eq!((written, error, mapping.is_lost()), (-1, Some(libc::EFAULT), false));
    }

    #[test]
    fn a_range_beyond_the_file_is_not_mapped() {
        let file = memfd(8192);
        for (offset, len) in
            [(0, 0), (0, 8193), (8192, 1), (4096, 4097), (u64::MAX, 2), (1, u64::MAX)]
        {
            let error = Mapping::new(&file, offset, len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{offset} {len}");
        }
        Mapping::new(&file, 8191, 1).unwrap();
        let long = memfd(TOO_LONG);
        assert!(Mapping::new(&long, 0, TOO_LONG).is_err());
    }

    #[test]
    fn a_file_whose_pages_may_block_is_not_mapped() {
        let disk = std::fs::File::open("/proc/self/exe").unwrap();
        let error = Mapping::new(&disk, 0, 4096).unwrap_err();
        assert!(error.to_string().contains("no memfd"), "{error}");
    }

    /// Run by the test below in a process of its own.
    #[test]
    #[ignore = "it dies of SIGBUS"]
    fn touches_a_stranger() {
        let file = memfd(4096);
        let _ours = Mapping::new(&file, 0, 4096).unwrap();
        // SAFETY: a new mapping; that reading it faults is the point.
        #[expect(unsafe_code, reason = "a mapping that the table does not know")]
        unsafe {
            let flags = MapFlags::SHARED;
            let stranger =
                rustix::mm::mmap(ptr::null_mut(), 4096, ProtFlags::READ, flags, &file, 0).unwrap();
            ftruncate(&file, 0).unwrap();
            stranger.cast::<u8>().read_volatile();
        }
    }

    #[test]
    fn a_fault_elsewhere_still_ends_the_process() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        let test = "mapping::tests::touches_a_stranger";
        let died = again.args(["--exact", test, "--ignored"]).output().unwrap();
        assert_eq!(died.status.signal(), Some(libc::SIGBUS), "{died:?}");
    }
}
