//! Loads and attaches the BPF programs (bpf/udp_occupancy.bpf.c), and maps their memory.
//!
//! The kernel writes while we read, so all shared values are atomics.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use aya::maps::{HashMap, MapData, RingBuf};
use aya::programs::iter::IterLink;
use aya::programs::{BtfTracePoint, CgroupAttachMode, CgroupSock, Iter, Program, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};
use rustix::mm::{MapFlags, ProtFlags};

use super::error::{GateUnavailable, ServeError};
use super::state::Share;
use kernel::netns::Namespace;

/// As in the C source.
pub const SLOTS: usize = 16384;
/// As in the C source.
pub const JOURNAL: usize = 4096;

static PROGRAMS: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/udp_occupancy.bpf.o"));

/// One socket's slot in the shared memory. The C source documents the fields.
#[repr(C, align(64))]
pub struct Slot {
    pub occupied: AtomicU32,
    pub limit: AtomicU32,
    pub awaited: AtomicU32,
    pub reads: AtomicU32,
    pub queued: AtomicU64,
    pub lost: AtomicU64,
    padding: [AtomicU64; 4],
    name: [AtomicU32; 12],
    more_padding: [AtomicU64; 2],
}

const _: () = assert!(size_of::<Slot>() == 128);

/// The addresses that a socket receives for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Name {
    /// IPv4 addresses are mapped (::ffff:a.b.c.d), here and in `remote`.
    pub local: u128,
    pub remote: u128,
    pub local_port: u16,
    /// 0 if it is not connected.
    pub remote_port: u16,
    /// Whether it is an AF_INET6 socket.
    pub v6: bool,
    pub v6_only: bool,
    /// The index of the interface that it is bound to; 0 if none.
    pub device: u32,
    pub namespace: u32,
}

#[repr(C)]
struct Counters {
    changes: AtomicU64,
    taken: AtomicU64,
}

/// The attached programs. Dropping this detaches them.
pub struct Kernel {
    programs: Ebpf,
    namespaces: HashMap<MapData, u32, [u64; 3]>,
    bell: RingBuf<MapData>,
    counters: Shared<Counters>,
    journal: Shared<AtomicU64>,
    slots: Shared<Slot>,
}

impl Kernel {
    pub fn load() -> Result<Self, GateUnavailable> {
        let types = Btf::from_sys_fs().map_err(GateUnavailable::NoTypes)?;
        let cgroup = File::open(cgroup_root()?)
            .map_err(|error| refused("opening the root of cgroup v2", error))?;
        let mut programs = EbpfLoader::new()
            .btf(Some(&types))
            .load(PROGRAMS)
            .map_err(|error| refused("loading the BPF programs", error))?;

        attach(&mut programs, &types, &cgroup)?;

        // From here on the programs keep the maps open.
        Ok(Self {
            namespaces: map(&mut programs, "namespaces")?
                .try_into()
                .map_err(|error| refused("opening the map of namespaces", error))?,
            bell: map(&mut programs, "bell")?
                .try_into()
                .map_err(|error| refused("opening the ring buffer", error))?,
            counters: Shared::map(&mut programs, "counters", 1)?,
            journal: Shared::map(&mut programs, "journal", JOURNAL)?,
            slots: Shared::map(&mut programs, "sockets", SLOTS)?,
            programs,
        })
    }

    pub fn slot(&self, index: u32) -> &Slot {
        self.slots.get(index as usize)
    }

    /// The number of entries ever written to the journal.
    pub fn changes(&self) -> u64 {
        self.counters.get(0).changes.load(Ordering::Acquire)
    }

    /// The end of the slots that may be in use; they start at 1.
    pub fn taken(&self) -> u64 {
        self.counters.get(0).taken.load(Ordering::Acquire).min(SLOTS as u64 - 1)
    }

    /// The status of a served namespace.
    pub fn share(&self, namespace: u32) -> Option<Share> {
        let [watched, untracked, lost] = self.namespaces.get(&namespace, 0).ok()?;
        Some(Share { watched, untracked, lost })
    }

    /// The `number`-th change's entry in the journal: the low half of (number + 1), then a slot's
    /// number.
    pub fn journal(&self, number: u64) -> (u32, u32) {
        let entry = self.journal.get((number % JOURNAL as u64) as usize).load(Ordering::Acquire);
        ((entry >> 32) as u32, entry as u32)
    }

    /// Includes or excludes a namespace's sockets.
    pub fn serve(&mut self, namespace: u32, served: bool) -> Result<(), ServeError> {
        let done = match (served, self.namespaces.get(&namespace, 0)) {
            (true, Ok(_)) => Ok(()),
            (true, Err(_)) => self.namespaces.insert(namespace, [0; 3], 0),
            (false, _) => self.namespaces.remove(&namespace),
        };
        done.map_err(|source| ServeError::Map { namespace, source })
    }

    /// Opens a survey of all sockets of a namespace.
    pub fn survey(&mut self) -> Result<Survey, ProgramError> {
        let survey = self.programs.program_mut("udp_survey").expect("it was attached");
        let survey: &mut Iter = survey.try_into()?;
        let link = survey.attach()?;
        Ok(Survey(survey.take_link(link)?))
    }

    /// Empties the ring buffer of the bell.
    pub fn drain(&mut self) {
        while self.bell.next().is_some() {}
    }
}

/// A survey of a namespace's sockets. Any thread may run it.
pub struct Survey(IterLink);

impl Survey {
    /// Assigns slots to the sockets of a namespace, and publishes all of them again.
    pub fn take(self, namespace: &Namespace) -> Result<(), Box<dyn Error + Send + Sync>> {
        // An iterator walks the sockets of the namespace that it is opened in.
        namespace.run(|| {
            let mut sockets = self.0.into_file()?;
            sockets.read_to_end(&mut Vec::new())?;
            Ok(())
        })?
    }
}

impl AsFd for Kernel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Slot {
    /// The socket that owns the slot; `None` if it is free. The value may be torn if the owner
    /// changes meanwhile; then the journal has an entry.
    pub fn name(&self) -> Option<Name> {
        let word = |at: usize| self.name[at].load(Ordering::Relaxed);
        let address = |at: usize| {
            let mut bytes = [0; 16];
            for (i, bytes) in bytes.chunks_exact_mut(4).enumerate() {
                bytes.copy_from_slice(&word(at + i).to_ne_bytes());
            }
            u128::from_be_bytes(bytes)
        };
        let halves = |at: usize| {
            let [a, b, c, d] = word(at).to_ne_bytes();
            (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]))
        };
        let ((local_port, remote_port), (family, v6_only)) = (halves(8), halves(9));
        (local_port != 0).then(|| Name {
            local: address(0),
            remote: address(4),
            local_port,
            remote_port,
            v6: i32::from(family) == libc::AF_INET6,
            v6_only: v6_only != 0,
            device: word(10),
            namespace: word(11),
        })
    }
}

/// Attaches the programs: first the one that frees slots, last the one that takes them.
fn attach(programs: &mut Ebpf, types: &Btf, cgroup: &File) -> Result<(), GateUnavailable> {
    let closed: &mut CgroupSock = program(programs, "udp_closed")?;
    closed.load().map_err(|error| refused("loading the program that sees sockets close", error))?;
    // A link never replaces other programs, so it needs no flag for that.
    closed
        .attach(cgroup, CgroupAttachMode::Single)
        .map_err(|error| refused("attaching to the closing of sockets", error))?;
    let survey: &mut Iter = program(programs, "udp_survey")?;
    survey.load("udp", types).map_err(|error| refused("loading the survey of sockets", error))?;
    for (name, point, step) in [
        ("udp_read", "sock_recv_length", "watching sockets being read"),
        ("udp_lost", "udp_fail_queue_rcv_skb", "watching datagrams being lost"),
        ("udp_queued", "sk_data_ready", "watching datagrams being queued"),
    ] {
        let traced: &mut BtfTracePoint = program(programs, name)?;
        traced
            .load(point, types)
            .and_then(|()| traced.attach())
            .map_err(|error| refused(step, error))?;
    }
    Ok(())
}

fn map(programs: &mut Ebpf, name: &'static str) -> Result<aya::maps::Map, GateUnavailable> {
    programs.take_map(name).ok_or(GateUnavailable::Incomplete(name))
}

fn program<'a, P>(programs: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, GateUnavailable>
where
    &'a mut P: TryFrom<&'a mut Program>,
{
    let found = programs.program_mut(name).and_then(|program| program.try_into().ok());
    found.ok_or(GateUnavailable::Incomplete(name))
}

fn refused(step: &'static str, error: impl Error + Send + Sync + 'static) -> GateUnavailable {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        let number = inner.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        if number == Some(libc::EPERM) {
            return GateUnavailable::NoPrivilege { step };
        }
        cause = inner.source();
    }
    GateUnavailable::Refused { step, source: Box::new(error) }
}

/// Where cgroup v2 is mounted: alone at /sys/fs/cgroup, or beside version 1 elsewhere.
fn cgroup_root() -> Result<PathBuf, GateUnavailable> {
    let mounts = fs::read_to_string("/proc/self/mounts")
        .map_err(|error| refused("reading /proc/self/mounts", error))?;
    let mut mounts = mounts.lines().map(|line| line.split(' '));
    let root = mounts.find_map(|mut fields| {
        let (path, kind) = (fields.nth(1)?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    });
    root.ok_or(GateUnavailable::NoCgroup)
}

/// A BPF array, mapped.
struct Shared<T> {
    first: NonNull<T>,
    len: usize,
    data: PhantomData<T>,
}

#[expect(unsafe_code, reason = "memory that the kernel writes to is mapped, not allocated")]
impl<T> Shared<T> {
    /// Maps the first `len` values of a map; `T`, made of atomics, must have its layout.
    fn map(programs: &mut Ebpf, name: &'static str, len: usize) -> Result<Self, GateUnavailable> {
        let aya::maps::Map::Array(data) = map(programs, name)? else {
            return Err(GateUnavailable::Incomplete(name));
        };
        let (bytes, access) = (len * size_of::<T>(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the kernel chooses the place, so no memory of ours is replaced.
        let mapped = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, data.fd(), 0)
        };
        let mapped =
            mapped.map_err(|error| refused("mapping the BPF maps", io::Error::from(error)))?;
        let first = NonNull::new(mapped.cast()).ok_or(GateUnavailable::Incomplete(name))?;
        Ok(Self { first, len, data: PhantomData })
    }

    #[inline]
    fn get(&self, index: usize) -> &T {
        assert!(index < self.len, "value {index} of {} in a BPF map", self.len);
        // SAFETY: inside the mapping, which is page-aligned and lives as long as `self`. Every bit
        // pattern is a valid `T`, and the kernel's writes are atomic like our accesses.
        unsafe { self.first.add(index).as_ref() }
    }
}

#[expect(unsafe_code, reason = "memory that was mapped is unmapped")]
impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped; no reference outlives `self`.
        let unmapped =
            unsafe { rustix::mm::munmap(self.first.as_ptr().cast(), self.len * size_of::<T>()) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

// SAFETY: a mapping belongs to the process, not to a thread, and is only accessed through atomics.
#[expect(unsafe_code, reason = "the pointer inside is not Send by itself")]
unsafe impl<T: Sync> Send for Shared<T> {}

/// Namespaces have inode numbers of 32 bits (`ns_common.inum`).
#[inline]
pub fn short(namespace: u64) -> u32 {
    namespace as u32
}
