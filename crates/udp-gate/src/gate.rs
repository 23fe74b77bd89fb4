//! The gate before containers' sockets.

use std::collections::HashMap;
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kernel::netns::Namespace;
use port::FrameView;

use super::error::{GateUnavailable, ServeError};
use super::fragments::Fragments;
use super::programs::{Kernel, Name, SLOTS, Slot, short};
use super::question::{Passing, Question};
use super::sockets::{Sockets, Tightest, tightest};
use super::state::{Share, SocketState};
use super::unseen::{Stranger, Unseen, UnseenStatus};
use super::verdict::{FlowKey, Verdict};

/// Says for each datagram whether its socket has room.
///
/// One thread asks it; a decision takes some tens of nanoseconds and no system call. Dropping it
/// detaches all programs.
pub struct UdpGate {
    kernel: Kernel,
    sockets: Sockets,
    fragments: Fragments,
    /// Full sockets that hold somebody up, and the bytes that must become free.
    full: Vec<(u32, u32)>,
    /// By slot: the round in which a slot in `full` was last asked about; 0 if it is not in `full`.
    asked: Vec<u32>,
    round: u32,
    /// The datagram of the last verdict, for `passed`.
    last: Option<Passing>,
    /// The same, if no socket is known that is to have it.
    stranger: Option<Stranger>,
    /// Datagrams whose sockets are not seen.
    unseen: Unseen,
    /// The time of the next round.
    round_at: Instant,
    /// How much time was missed.
    missed: Duration,
    served: HashMap<u32, Arc<Namespace>>,
    /// Looks at full sockets.
    surveyor: Option<JoinHandle<()>>,
}

/// A socket that had no room for a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FullSocket {
    slot: u32,
    name: Name,
    /// The bytes that must become free.
    need: u32,
    /// How often it had been read.
    reads: u32,
}

/// The number of reservation slots for fragments to unknown sockets. Flows that share one wait for
/// each other.
const NOBODYS: usize = 4096;

/// The interval of rounds.
const ROUND: Duration = Duration::from_secs(1);

impl UdpGate {
    /// Loads and attaches the programs. Nothing is watched until a namespace is
    /// [served](Self::serve).
    ///
    /// # Errors
    ///
    /// [`GateUnavailable`]: continue without a gate. Full UDP sockets then lose datagrams.
    pub fn load() -> Result<Self, GateUnavailable> {
        Ok(Self {
            kernel: Kernel::load()?,
            sockets: Sockets::new(),
            fragments: Fragments::new(SLOTS + NOBODYS),
            full: Vec::new(),
            asked: vec![0; SLOTS],
            round: 1,
            last: None,
            stranger: None,
            unseen: Unseen::default(),
            round_at: Instant::now(),
            missed: Duration::ZERO,
            served: HashMap::new(),
            surveyor: None,
        })
    }

    /// Watches all present and future sockets of a namespace. Returns the namespace's inode number.
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

    /// Stops watching new sockets of a namespace. Those already watched stay watched until they are
    /// closed.
    pub fn unserve(&mut self, namespace: u64) {
        self.served.remove(&short(namespace));
        self.unseen.forget(short(namespace));
        // An error means that it was not served.
        let _ = self.kernel.serve(short(namespace), false);
    }

    /// Whether a frame may go to the namespace with this inode number now.
    #[inline]
    pub fn verdict(&mut self, namespace: u64, frame: &FrameView<'_>) -> Verdict {
        let namespace = short(namespace);
        self.stranger = None;
        let question = match Question::read(namespace, frame, &self.fragments, charge) {
            Ok(question) => question,
            Err((verdict, passing)) => {
                self.last = passing;
                return verdict;
            }
        };
        self.sockets.follow(&self.kernel);
        let tightest = self.tightest(&question);
        let flow = question.flow(tightest.is_some_and(|tightest| tightest.connected));
        let slot = tightest.map_or_else(|| nobodys(flow), |tightest| tightest.socket);
        self.last = question.passing(&mut self.fragments, slot);
        // Of a group's datagram that nobody has joined there is no socket.
        if tightest.is_none() && !question.datagram.to_all {
            self.stranger = Some(Stranger::new(flow, &question.datagram));
        }
        match tightest {
            Some(tightest) if !tightest.has_room => {
                if std::mem::replace(&mut self.asked[slot as usize], self.round) == 0 {
                    self.full.push((slot, question.need));
                }
                let reads = self.kernel.slot(slot).reads.load(Ordering::Relaxed);
                Verdict::Hold(flow, Some(reads))
            }
            // An unknown socket is empty, but may have no room for several fragmented datagrams.
            None if question.begins && self.fragments.set_aside(slot) > 0 => {
                Verdict::Hold(flow, None)
            }
            _ => Verdict::Go(flow),
        }
    }

    /// Of the sockets that may receive a datagram, the first without room, or else any.
    #[inline]
    fn tightest(&self, question: &Question) -> Option<Tightest<u32>> {
        let (kernel, fragments) = (&self.kernel, &self.fragments);
        let has_room = |slot| has_room(kernel.slot(slot), fragments.set_aside(slot), question.need);
        let candidates = self.sockets.candidates(&question.datagram);
        tightest(question.datagram.to_all, candidates, has_room)
    }

    /// What the [verdict](Self::verdict) on a frame would be. Nothing changes. Sockets that were
    /// opened since the last verdict are not known yet, and thus empty.
    pub fn outlook(&self, namespace: u64, frame: &FrameView<'_>) -> Verdict {
        let question = match Question::read(short(namespace), frame, &self.fragments, charge) {
            Ok(question) => question,
            Err((verdict, _)) => return verdict,
        };
        let tightest = self.tightest(&question);
        let flow = question.flow(tightest.is_some_and(|tightest| tightest.connected));
        match tightest {
            Some(Tightest { socket, has_room: false, .. }) => {
                let reads = self.kernel.slot(socket).reads.load(Ordering::Relaxed);
                Verdict::Hold(flow, Some(reads))
            }
            _ => Verdict::Go(flow),
        }
    }

    /// The socket for which the last verdict was to hold, and which was read so often then. `None`
    /// if the verdict was another, or the socket is gone.
    pub fn full_socket(&self, reads: u32) -> Option<FullSocket> {
        let (Passing::Whole { slot, bytes: need } | Passing::First { slot, bytes: need, .. }) =
            self.last?
        else {
            return None;
        };
        let is_socket = (slot as usize) < SLOTS;
        let name = is_socket.then(|| self.kernel.slot(slot).name())??;
        Some(FullSocket { slot, name, need, reads })
    }

    /// Whether a socket is as it was when a verdict was to hold: it is there, was not read since,
    /// and has no room for the frame.
    pub fn is_full(&self, socket: &FullSocket) -> bool {
        let FullSocket { slot, name, need, reads } = *socket;
        let now = self.kernel.slot(slot);
        now.name() == Some(name)
            && now.reads.load(Ordering::Relaxed) == reads
            && !has_room(now, self.fragments.set_aside(slot), need)
    }

    /// The frame of the last verdict was transmitted.
    #[inline]
    pub fn passed(&mut self) {
        if let Some(stranger) = self.stranger.take() {
            self.unseen.passed(stranger, self.round);
        }
        match self.last.take() {
            None | Some(Passing::Whole { .. } | Passing::Later { last: false, .. }) => {}
            Some(Passing::First { whole, slot, bytes }) => {
                self.fragments.begin(Instant::now() - self.missed, whole, slot, bytes);
            }
            Some(Passing::Later { whole, last: true }) => drop(self.fragments.end(whole)),
        }
    }

    /// So much time was missed in all, in which the rest of a fragmented datagram could not be
    /// passed on: it is nobody's delay.
    pub fn set_missed(&mut self, missed: Duration) {
        self.missed = missed;
    }

    /// Runs a round if one is due. To be called often, even while there is work. Returns whether it
    /// did: then held flows must be asked about again.
    pub fn tick(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.round_at;
        if due {
            self.round_at = now + ROUND;
            self.fragments.expire(now - self.missed);
            self.look_again();
        }
        due
    }

    /// Looks again at the sockets that hold somebody up. Room can become free without an event (a
    /// larger SO_RCVBUF, a bad checksum found by `poll`). If it did, the bell rings.
    fn look_again(&mut self) {
        let Self { kernel, fragments, full, asked, round, served, surveyor, unseen, .. } = self;
        full.retain(|(index, need)| {
            let asked = &mut asked[*index as usize];
            // Asked about in this round or the last; otherwise nobody waits any more.
            let waits = *asked + 1 >= *round
                && !has_room(kernel.slot(*index), fragments.set_aside(*index), *need);
            if !waits {
                *asked = 0;
            }
            waits
        });
        *round += 1;
        if surveyor.as_ref().is_some_and(|surveyor| !surveyor.is_finished()) {
            return;
        }
        let mut namespaces: Vec<_> = full
            .iter()
            .filter_map(|(index, _)| Some(kernel.slot(*index).name()?.namespace))
            .chain(unseen.doubtful())
            .collect();
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
        // Walking over a namespace's sockets takes long, so another thread does it. The next round
        // repeats what fails.
        let look =
            || surveys.into_iter().for_each(|(survey, namespace)| drop(survey.take(&namespace)));
        *surveyor = thread::Builder::new().name("udp-survey".into()).spawn(look).ok();
    }

    /// Arms the bell. To be called before sleeping, once every held flow has been asked about.
    ///
    /// Returns the longest time to sleep before the next [tick](Self::tick): zero if a flow may go
    /// already, `None` if nothing is held. The bell rings when a held flow may go: the gate's file
    /// descriptor becomes readable. After waking, [drain](Self::drain) it.
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
        // Either the reader sees that we wait, or we see what it has read: the BPF programs also
        // store, fence and load in this order.
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
        Some(if may_go {
            Duration::ZERO
        } else {
            self.round_at.saturating_duration_since(Instant::now())
        })
    }

    /// Resets the bell.
    pub fn drain(&mut self) {
        self.kernel.drain();
    }

    /// The watched sockets, in no order.
    pub fn sockets(&self) -> impl Iterator<Item = SocketState> {
        (1..=self.kernel.taken()).filter_map(|index| {
            let slot = self.kernel.slot(index as u32);
            let name = slot.name()?;
            let socket =
                |address, port| SocketAddr::new(Ipv6Addr::from_bits(address).to_canonical(), port);
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

    /// The status of the namespace with this inode number; `None` if it is not served.
    pub fn share(&self, namespace: u64) -> Option<Share> {
        self.kernel.share(short(namespace))
    }

    /// The datagrams for the namespace with this inode number whose sockets are not seen.
    pub fn unseen(&self, namespace: u64) -> UnseenStatus {
        self.unseen.status(short(namespace))
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

/// The most that the kernel charges a socket's buffer for a frame of `len` bytes.
///
/// It charges what it allocates. The data, some headroom and a `skb_shared_info` (386 bytes on
/// x86-64) take at worst the next power of two, less than twice their size; the `sk_buff` takes
/// 256. The sum is 2 × len + 1026; the rest is for architectures that pad more.
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

/// The slot number of flows whose socket has no slot.
fn nobodys(flow: FlowKey) -> u32 {
    (SLOTS + flow.0 as usize % NOBODYS) as u32
}
