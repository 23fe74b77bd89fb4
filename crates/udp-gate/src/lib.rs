//! The last metre: a UDP socket that is full makes its sender wait, instead of losing what it is sent.
//!
//! Linux drops a datagram whose socket has no room. The gate knows beforehand: BPF programs (bpf/) publish
//! how full each socket of the served namespaces is, in memory that we read without a system call.
//!
//! ```text
//!                 verdict            transmit
//!  held frame ──▶  gate  ──Go──▶ TAP device ──▶ socket ──▶ reader
//!       ▲           │ ▲                           │          │
//!       └───Hold────┘ └──── occupied, limit ◀─────┴── BPF ◀──┘ ──▶ bell
//! ```
//!
//! # What it relies on
//!
//! Delivery by `write()` to a TAP device is synchronous: when it returns, the datagram has been queued at its
//! socket, and what the gate reads counts it. So nothing is on its way, if the caller transmits what the gate
//! lets go before it asks again; and a socket that is not known has never been sent anything, is empty, and
//! takes a datagram of any size. This holds as long as the device has no NAPI (`IFF_NAPI`), no receive
//! batching and no receive packet steering (`rps_cpus`), and the container does not pass the frame on inside
//! itself.
//!
//! # What it cannot prevent
//!
//! - A namespace has more than 4,096 sockets, or all of them together more than 16,383: what is sent to the others goes
//!   as if they were empty.
//! - A neighbour inside the same namespace fills the socket between our look and our write.
//! - The kernel is short of memory for all of UDP (`net.ipv4.udp_mem`).
//! - The application shrinks the buffer of a socket that holds something: the next datagram may be lost.
//! - A frame that stands for many datagrams, or a datagram in fragments, is larger than the whole buffer. It
//!   waits until the buffer is empty and goes then; the kernel takes what fits.
//! - A datagram's fragments are far apart in time, or less than sensibly long, or from a source whose others were:
//!   then others may take its place (see `fragments`).
//!
//! # Where it holds more than it must
//!
//! - Sockets that share a port (SO_REUSEPORT) and fit equally well wait for each other: which of them the
//!   kernel would choose is not known here. The same goes for all that listen to a multicast or broadcast.
//! - A frame for another host, which the container routes on, is held if a socket on its port in the container
//!   is bound to any address and full.

mod diag;
mod fragments;
mod guest;
mod programs;
mod question;
mod sockets;
mod teller;
mod watch;

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fragments::Fragments;
use kernel::netns::Namespace;
use port::FrameView;
use programs::{Kernel, SLOTS, Slot};
use question::{Passing, Question};
use sockets::{Sockets, tightest};

pub use guest::GuestGate;
pub use teller::{Heard, Teller, Watched};
pub use watch::{Watch, WatchError};

/// Says of each datagram whether its socket has room.
///
/// One thread asks it; a decision takes some tens of nanoseconds and no system call. Dropping it detaches all
/// programs.
pub struct UdpGate {
    kernel: Kernel,
    sockets: Sockets,
    fragments: Fragments,
    /// Full sockets that were met, and the bytes that they shall have free.
    full: Vec<(u32, u32)>,
    /// In which round a slot that is in `full` was last asked about; 0: it is not.
    asked: Vec<u32>,
    round: u32,
    /// What the verdict on the last frame rests on, for `passed`.
    last: Option<Passing>,
    /// When the next round is.
    round_at: Instant,
    served: HashMap<u32, Arc<Namespace>>,
    /// Looks at full sockets.
    surveyor: Option<JoinHandle<()>>,
}

/// How many places there are for fragments to sockets without a slot. Those that share one wait for each other.
const NOBODYS: usize = 4096;

/// How often the gate looks at what time has changed.
const ROUND: Duration = Duration::from_secs(1);

/// The gate's answer for one frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// No UDP: the gate has no say.
    Free,
    /// It belongs to a flow that may go: transmit it before asking again, or not at all.
    Go(FlowKey),
    /// It belongs to a flow that must wait until its receiver reads.
    Hold(FlowKey),
}

/// Frames that share a fate: those for one socket. Those of one sender among them must stay in order.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FlowKey(pub u64);

/// A UDP socket as the gate sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SocketState {
    /// The inode number of its namespace.
    pub namespace: u64,
    /// Where it is bound.
    pub local: SocketAddr,
    /// Where it is connected.
    pub remote: Option<SocketAddr>,
    /// Bytes of its buffer in use, as the kernel counts: a datagram takes more than its length.
    pub occupied_bytes: u32,
    /// Bytes that its buffer may have.
    pub limit_bytes: u32,
    /// Datagrams queued since the gate knows it.
    pub queued: u64,
    /// Datagrams that found no room since then.
    pub lost: u64,
}

/// How the sockets of one namespace fare. It counts from when the namespace was served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// Sockets under watch: at most a quarter of all that can be.
    pub watched: u64,
    /// How often a socket was to be watched and too many were already: it may lose what it is sent.
    pub untracked: u64,
    /// Datagrams that found no room, at any of its sockets.
    pub lost: u64,
}

/// Why UDP sockets cannot be watched on this host.
#[derive(Debug, thiserror::Error)]
pub enum GateUnavailable {
    /// No BTF.
    #[error("the kernel does not describe its types ({0}); use one built with CONFIG_DEBUG_INFO_BTF")]
    NoTypes(#[source] aya::BtfError),
    /// EPERM.
    #[error(
        "not allowed while {step}; run as root, or with CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and CAP_SYS_ADMIN"
    )]
    NoPrivilege {
        /// What was being done.
        step: &'static str,
    },
    /// Nobody would tell when a socket is closed.
    #[error("no cgroup v2 hierarchy is mounted; mount one, for example on /sys/fs/cgroup")]
    NoCgroup,
    /// An old kernel, or one built without what is needed.
    #[error("the kernel refused {step}: {}; Linux 6.3 or newer has what is needed", chain(.source.as_ref()))]
    Refused {
        /// What was being done.
        step: &'static str,
        /// What the loader said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The embedded programs are not those that this was written for: our defect.
    #[error("the BPF object lacks {0}; report this")]
    Incomplete(&'static str),
}

/// Why a namespace's sockets cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Too many of them, as a rule.
    #[error("cannot note that namespace {namespace} is served: {source}; serve fewer")]
    Map {
        /// Its inode number.
        namespace: u32,
        /// What the kernel said.
        source: aya::maps::MapError,
    },
    /// The sockets that exist could not be listed.
    #[error("cannot survey the UDP sockets of {namespace}: {}", chain(.source.as_ref()))]
    Survey {
        /// Where it was opened.
        namespace: PathBuf,
        /// What failed.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl UdpGate {
    /// Loads and attaches the programs. Nothing is watched until a namespace is [served](Self::serve).
    ///
    /// # Errors
    ///
    /// [`GateUnavailable`]: go on without; UDP sockets that are full lose what they are sent.
    pub fn load() -> Result<Self, GateUnavailable> {
        Ok(Self {
            kernel: Kernel::load()?,
            sockets: Sockets::new(),
            fragments: Fragments::new(SLOTS + NOBODYS),
            full: Vec::new(),
            asked: vec![0; SLOTS],
            round: 1,
            last: None,
            round_at: Instant::now(),
            served: HashMap::new(),
            surveyor: None,
        })
    }

    /// Watches the sockets of a namespace, those that exist and those to come, and returns the namespace's inode
    /// number.
    ///
    /// # Errors
    ///
    /// [`ServeError`]; the namespace is not watched then.
    pub fn serve(&mut self, namespace: Namespace) -> Result<u64, ServeError> {
        let why = |source| ServeError::Survey { namespace: namespace.path().to_owned(), source };
        let inode = namespace.inode().map_err(|error| why(error.into()))?;
        self.kernel.serve(short(inode), true)?;
        let survey = self.kernel.survey().map_err(Into::into);
        if let Err(error) = survey.and_then(|survey| survey.take(&namespace)) {
            self.unserve(inode);
            return Err(why(error));
        }
        self.served.insert(short(inode), Arc::new(namespace));
        Ok(inode)
    }

    /// Takes no more sockets of a namespace under watch. Those that are watched stay so until they are
    /// closed.
    pub fn unserve(&mut self, namespace: u64) {
        self.served.remove(&short(namespace));
        // An error says that it was not served.
        let _ = self.kernel.serve(short(namespace), false);
    }

    /// Whether a frame may go to the namespace with this inode number now.
    #[inline]
    pub fn verdict(&mut self, namespace: u64, frame: &FrameView<'_>) -> Verdict {
        let namespace = short(namespace);
        let question = match Question::read(namespace, frame, &self.fragments, charge) {
            Ok(question) => question,
            Err((verdict, passing)) => {
                self.last = passing;
                return verdict;
            }
        };
        self.sockets.follow(&self.kernel);
        let (kernel, fragments) = (&self.kernel, &self.fragments);
        let has_room = |slot| has_room(kernel.slot(slot), fragments.set_aside(slot), question.need);
        let candidates = self.sockets.candidates(&question.datagram);
        let tightest = tightest(question.datagram.to_all, candidates, has_room);
        let flow = question.flow(tightest.is_some_and(|tightest| tightest.connected));
        let slot = tightest.map_or_else(|| nobodys(flow), |tightest| tightest.socket);
        self.last = question.passing(&mut self.fragments, slot);
        match tightest {
            Some(tightest) if !tightest.has_room => {
                if std::mem::replace(&mut self.asked[slot as usize], self.round) == 0 {
                    self.full.push((slot, question.need));
                }
                Verdict::Hold(flow)
            }
            // A socket that is not known is empty, but several fragmented datagrams may be too many for it.
            None if question.begins && self.fragments.set_aside(slot) > 0 => Verdict::Hold(flow),
            _ => Verdict::Go(flow),
        }
    }

    /// The frame that the last verdict was about has been transmitted.
    #[inline]
    pub fn passed(&mut self) {
        match self.last.take() {
            None | Some(Passing::Whole { .. } | Passing::Later { last: false, .. }) => {}
            Some(Passing::First { whole, slot, bytes }) => {
                self.fragments.begin(Instant::now(), whole, slot, bytes);
            }
            Some(Passing::Later { whole, last: true }) => drop(self.fragments.end(whole)),
        }
    }

    /// Does what time asks for; to be called often, also while there is work. Whether it did something: then held flows
    /// are to be asked about again.
    pub fn tick(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.round_at;
        if due {
            self.round_at = now + ROUND;
            self.fragments.expire(now);
            self.look_again();
        }
        due
    }

    /// Has the sockets that hold somebody up looked at anew: a reader can free room in ways that nobody tells of (a
    /// larger SO_RCVBUF, a bad checksum found by `poll`). If it did, the bell rings.
    fn look_again(&mut self) {
        let Self { kernel, fragments, full, asked, round, served, surveyor, .. } = self;
        full.retain(|(index, need)| {
            let asked = &mut asked[*index as usize];
            // In this round or the last: otherwise nobody waits any more.
            let waits =
                *asked + 1 >= *round && !has_room(kernel.slot(*index), fragments.set_aside(*index), *need);
            if !waits {
                *asked = 0;
            }
            waits
        });
        *round += 1;
        if surveyor.as_ref().is_some_and(|surveyor| !surveyor.is_finished()) {
            return;
        }
        let mut namespaces: Vec<_> =
            full.iter().filter_map(|(index, _)| Some(kernel.slot(*index).name()?.namespace)).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        let surveys: Vec<_> = namespaces
            .iter()
            .filter_map(|namespace| served.get(namespace))
            .filter_map(|namespace| Some((kernel.survey().ok()?, Arc::clone(namespace))))
            .collect();
        if surveys.is_empty() {
            return;
        }
        // A walk over a namespace's sockets takes long, so it has a thread of its own. What fails is done again in the
        // next round.
        let look = || surveys.into_iter().for_each(|(survey, namespace)| drop(survey.take(&namespace)));
        *surveyor = thread::Builder::new().name("udp-survey".into()).spawn(look).ok();
    }

    /// Asks for the bell: to be called before sleeping, once every held flow has been asked about.
    ///
    /// Returns how long to sleep at most before the next [tick](Self::tick): zero if some flow may go already, `None` if
    /// nothing is held. The bell (the gate's file descriptor, readable) rings when a held flow may go. After waking,
    /// [drain](Self::drain) it.
    pub fn arm(&mut self) -> Option<Duration> {
        if self.full.is_empty() && self.fragments.is_empty() {
            return None;
        }
        if self.tick() {
            return Some(Duration::ZERO);
        }
        let (kernel, fragments, asked) = (&self.kernel, &self.fragments, &mut self.asked);
        for (index, need) in &self.full {
            kernel.slot(*index).awaited.store(*need, Ordering::Relaxed);
        }
        // Either the reader sees that we wait, or we see what it read: the programs store, fence and load
        // likewise.
        fence(Ordering::SeqCst);
        let before = self.full.len();
        self.full.retain(|(index, need)| {
            let full = !has_room(kernel.slot(*index), fragments.set_aside(*index), *need);
            if !full {
                asked[*index as usize] = 0;
            }
            full
        });
        let may_go = self.full.len() < before;
        Some(if may_go { Duration::ZERO } else { self.round_at.saturating_duration_since(Instant::now()) })
    }

    /// Silences the bell.
    pub fn drain(&mut self) {
        self.kernel.drain();
    }

    /// The sockets under watch, in no order.
    pub fn sockets(&self) -> impl Iterator<Item = SocketState> {
        (1..=self.kernel.taken()).filter_map(|index| {
            let slot = self.kernel.slot(index as u32);
            let name = slot.name()?;
            let socket = |address, port| SocketAddr::new(Ipv6Addr::from_bits(address).to_canonical(), port);
            Some(SocketState {
                namespace: u64::from(name.namespace),
                local: socket(name.local, name.local_port),
                remote: (name.remote_port != 0).then(|| socket(name.remote, name.remote_port)),
                occupied_bytes: slot.occupied.load(Ordering::Relaxed),
                limit_bytes: slot.limit.load(Ordering::Relaxed),
                queued: slot.queued.load(Ordering::Relaxed),
                lost: slot.lost.load(Ordering::Relaxed),
            })
        })
    }

    /// How the namespace with this inode number fares; `None` if it is not served.
    pub fn share(&self, namespace: u64) -> Option<Share> {
        self.kernel.share(short(namespace))
    }
}

/// The bell: readable when a socket that was full at [`UdpGate::arm`] has room.
impl AsFd for UdpGate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.kernel.as_fd()
    }
}

impl fmt::Debug for UdpGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watched = self.kernel.taken();
        f.debug_struct("UdpGate")
            .field("slots_taken", &watched)
            .field("full", &self.full)
            .finish_non_exhaustive()
    }
}

/// What the kernel charges for a frame of `len` bytes, at most.
///
/// It charges what it allocates: for the bytes, some headroom and a `skb_shared_info` (386 bytes on x86-64)
/// at worst the next power of two, less than twice as much; and 256 for the `sk_buff`. That is 2 × len +
/// 1026, and we allow for architectures that pad more.
#[inline]
const fn charge(len: usize) -> usize {
    2 * len + 1280
}

/// The kernel's own rule (`__udp_enqueue_schedule_skb`): an empty buffer takes anything.
#[inline]
fn has_room(slot: &Slot, set_aside: u32, need: u32) -> bool {
    let occupied = slot.occupied.load(Ordering::Acquire);
    let limit = slot.limit.load(Ordering::Relaxed);
    let taken = u64::from(occupied) + u64::from(set_aside);
    taken == 0 || taken + u64::from(need) <= u64::from(limit)
}

/// In place of a slot's number for a flow whose socket has none.
fn nobodys(flow: FlowKey) -> u32 {
    (SLOTS + flow.0 as usize % NOBODYS) as u32
}

/// Namespaces have inode numbers of 32 bits (`ns_common.inum`).
#[inline]
fn short(namespace: u64) -> u32 {
    namespace as u32
}

/// An error and its causes, in one line: the first of each, since some bring the verifier's whole log.
fn chain(error: &(dyn Error + 'static)) -> String {
    let first_line = |error: &dyn Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    let mut text = first_line(error);
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = first_line(inner);
        if !text.contains(&inner_text) {
            text = text + ": " + &inner_text;
        }
        cause = inner.source();
    }
    text
}
