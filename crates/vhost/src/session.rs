//! What front-end and back-end have settled so far: one for each connection.
//!
//! ```text
//!   request ─▶ book it ─▶ settle: for each ring, what should run and what does? ─▶ Rings: start, update, stop
//! ```
//!
//! Requests come in any order, and front-ends differ. So a request only changes the books, and
//! afterwards the rings are settled: one runs as soon as it has all that it [needs](Need), and
//! stops as soon as it lacks something. Before memory goes away, every ring is stopped, so that
//! none can touch it ("Ring states", "Memory access").
//!
//! It reads no socket and waits for nothing. Whatever contradicts itself is a [`Refusal`]: all
//! rings are stopped then, and the connection is to be closed.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::OFlags;
use units::Mac;

use super::features::{Features, ProtocolFeatures};
use super::inflight::{self, InflightRegion};
use super::log::DirtyLog;
use super::memory::{MAX_SLOTS, Memory, MemoryChange, MemoryError};
use super::message::{Addresses, Code, Inflight, Message, Region, Reply, Request, Table};
use super::vring::{Base, Kick, Part, Vring};

/// Whoever processes the rings.
pub trait Rings {
    /// From now on this ring may be processed; `shared` is where it lies.
    fn start(&mut self, vring: Vring, shared: &Shared);

    /// Something of a running ring has changed: its descriptors, whether it is enabled, or what is
    /// logged. Its size, its addresses and where it stands are as they were.
    fn update(&mut self, vring: Vring, shared: &Shared);

    /// From now on this ring must not be touched, nor any memory for its sake. Returns where it
    /// stands: what was taken from it and cannot be finished any more is not counted as taken.
    fn stop(&mut self, index: usize, shared: &Shared) -> Base;
}

/// What a front-end shares with us.
#[derive(Debug, Default)]
pub struct Shared {
    /// The guest's memory.
    pub memory: Memory,
    /// The dirty log, if one was given.
    pub log: Option<DirtyLog>,
    /// What tracks descriptors in flight, if that was given.
    pub inflight: Option<InflightRegion>,
}

impl Shared {
    /// Whether something of it was taken away under us.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.memory.is_lost()
            || self.log.as_ref().is_some_and(DirtyLog::is_lost)
            || self.inflight.as_ref().is_some_and(InflightRegion::is_lost)
    }

    /// What of it was taken away under us: the port is to be detached.
    pub fn lost(&self) -> Option<String> {
        let named = |lost: bool, name: &str| lost.then(|| name.to_string());
        let (log, inflight) = (self.log.as_ref(), self.inflight.as_ref());
        self.memory.lost().map(|region| region.to_string()).or_else(|| {
            named(log.is_some_and(DirtyLog::is_lost), "the dirty log")
                .or(named(inflight.is_some_and(InflightRegion::is_lost), "the in-flight region"))
        })
    }
}

/// What the back-end can do.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Of the device.
    pub features: Features,
    /// Of the protocol.
    pub protocol: ProtocolFeatures,
    /// How many pairs of rings: 1 to 128.
    pub queue_pairs: u8,
    /// The largest packet in bytes.
    pub max_mtu: u16,
}

impl Offer {
    /// All that a network card of ours can be.
    pub const fn net(queue_pairs: u8) -> Self {
        Self {
            features: Features::of(&[
                Features::CSUM,
                Features::GUEST_CSUM,
                Features::MTU,
                Features::GUEST_TSO4,
                Features::GUEST_TSO6,
                Features::GUEST_ECN,
                Features::HOST_TSO4,
                Features::HOST_TSO6,
                Features::HOST_ECN,
                Features::MRG_RXBUF,
                Features::STATUS,
                Features::CTRL_VQ,
                Features::GUEST_ANNOUNCE,
                Features::MQ,
                Features::LOG_ALL,
                Features::RING_INDIRECT_DESC,
                Features::RING_EVENT_IDX,
                Features::PROTOCOL_FEATURES,
                Features::VERSION_1,
                Features::RING_PACKED,
            ]),
            protocol: ProtocolFeatures::of(&[
                ProtocolFeatures::MQ,
                ProtocolFeatures::LOG_SHMFD,
                ProtocolFeatures::RARP,
                ProtocolFeatures::REPLY_ACK,
                ProtocolFeatures::NET_MTU,
                ProtocolFeatures::INFLIGHT_SHMFD,
                ProtocolFeatures::RESET_DEVICE,
                ProtocolFeatures::CONFIGURE_MEM_SLOTS,
                ProtocolFeatures::STATUS,
            ]),
            queue_pairs,
            max_mtu: 65_521,
        }
    }
}

/// What a ring that does not run still waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Need {
    /// SET_FEATURES.
    #[error("its features")]
    Features,
    /// SET_VRING_NUM.
    #[error("its size")]
    Size,
    /// SET_VRING_ADDR.
    #[error("its addresses")]
    Addresses,
    /// SET_VRING_KICK.
    #[error("its kick descriptor")]
    Kick,
    /// Memory where its addresses are.
    #[error("memory at its addresses")]
    Memory,
    /// A log of all the memory, since everything is to be logged.
    #[error("a dirty log as large as the memory")]
    Log,
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Features that were not offered.
    #[error("cannot agree on features {0}: they were not offered; use another front-end")]
    Features(Features),
    /// Features of a driver from before VIRTIO 1.0, whose frames have another header (VIRTIO 1.2
    /// §5.1.6.1).
    #[error(
        "cannot agree on features {0}: without VERSION_1 frames have the legacy layout, which is not served; give the \
         guest a driver of VIRTIO 1.0 or later"
    )]
    Legacy(Features),
    /// Protocol features that were not offered.
    #[error("cannot agree on protocol features {0}: they were not offered; use another front-end")]
    Protocol(ProtocolFeatures),
    /// A request that needs a protocol feature.
    #[error(
        "cannot serve {request:?}: protocol feature {feature} was not negotiated; use another front-end"
    )]
    Unnegotiated {
        /// The request.
        request: Code,
        /// What it needs.
        feature: ProtocolFeatures,
    },
    /// A request that comes too early.
    #[error("cannot serve {0:?}: no features were set yet; use another front-end")]
    Early(Code),
    /// A ring that is not there.
    #[error(
        "cannot serve {request:?}: there is no ring {index}; give the card {pairs} queue pairs at most"
    )]
    NoRing {
        /// The request.
        request: Code,
        /// The ring.
        index: u8,
        /// How many pairs there are.
        pairs: u8,
    },
    /// What cannot change while a ring runs.
    #[error("cannot serve {request:?}: ring {index} runs; use a front-end that stops it first")]
    Runs {
        /// The request.
        request: Code,
        /// The ring.
        index: usize,
    },
    /// A split ring whose size is no power of two (VIRTIO 1.2 §2.7).
    #[error("cannot start ring {index}: its size of {size} is no power of two; choose another")]
    Size {
        /// The ring.
        index: usize,
        /// Its size.
        size: u16,
    },
    /// A part of a ring at an address that its kind cannot have (VIRTIO 1.2 §2.7, §2.8).
    #[error(
        "cannot start ring {index}: its part at {address:#x} is not aligned; use another front-end"
    )]
    Misaligned {
        /// The ring.
        index: usize,
        /// Where the part lies.
        address: u64,
    },
    /// A ring that begins where none of its places is.
    #[error("cannot start ring {index}: its base {base:#x} is not in it; use another front-end")]
    Base {
        /// The ring.
        index: usize,
        /// Its base.
        base: u32,
    },
    /// A ring that is larger, or of another kind, than its in-flight region is for.
    #[error(
        "cannot start ring {index}: its in-flight region is for another ring; start the guest's card anew"
    )]
    Untracked {
        /// The ring.
        index: usize,
    },
    /// A descriptor that cannot be made not to wait.
    #[error("cannot use a ring's event descriptor: {0}; use another front-end")]
    Event(std::io::Error),
    /// Memory that cannot be used.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// What a port does about a request that was served.
#[derive(Debug, Default)]
pub struct Outcome {
    /// To be sent to the front-end, and the descriptor with it.
    pub reply: Option<(Reply, Option<OwnedFd>)>,
    /// What else the port should know.
    pub news: Option<News>,
}

/// What concerns the port beyond its rings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum News {
    /// The features are settled, or settled again.
    Features(Features),
    /// The guest's MTU is this.
    Mtu(u16),
    /// The guest with this address has moved here and does not say so itself: send a RARP for it.
    Announce(Mac),
}

/// A ring's books.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) size: Option<u16>,
    pub(super) addresses: Option<Addresses>,
    pub(super) base: Option<u32>,
    pub(super) kick: Option<Kick>,
    pub(super) call: Option<Arc<OwnedFd>>,
    pub(super) error: Option<Arc<OwnedFd>>,
    /// What SET_VRING_ENABLE said, if it did.
    pub(super) enabled: Option<bool>,
    /// As it was last told to the rings.
    running: Option<Vring>,
}

/// One connection's state. Dropping it stops the rings.
#[derive(Debug)]
pub struct Session<R: Rings> {
    offer: Offer,
    pub(super) features: Option<Features>,
    pub(super) protocol: ProtocolFeatures,
    pub(super) status: u8,
    pub(super) books: Vec<Book>,
    /// See [`was_costly`](Self::was_costly).
    costly: bool,
    rings: R,
    // After the rings, which may have pointers to it.
    pub(super) shared: Shared,
}

impl<R: Rings> Session<R> {
    /// A session of which nothing is settled.
    ///
    /// # Panics
    ///
    /// If no queue pair is offered, or more than 128.
    pub fn new(offer: Offer, rings: R) -> Self {
        assert!((1..=128).contains(&offer.queue_pairs), "{} queue pairs", offer.queue_pairs);
        let books = (0..2 * usize::from(offer.queue_pairs)).map(|_| Book::default()).collect();
        let (features, protocol) = (None, ProtocolFeatures::default());
        Self {
            offer,
            features,
            protocol,
            status: 0,
            books,
            costly: false,
            rings,
            shared: Shared::default(),
        }
    }

    /// Serves a request that came with these descriptors, as many as its parsing asked for.
    ///
    /// When it returns, the rings are as the front-end wants them: the reply says so.
    ///
    /// # Errors
    ///
    /// [`Refusal`]: no ring runs any more, and the connection is to be closed.
    pub fn handle(&mut self, message: Message, fds: Vec<OwnedFd>) -> Result<Outcome, Refusal> {
        self.costly = false;
        let served = self.serve(message, fds).and_then(|outcome| self.settle().map(|()| outcome));
        match served {
            // "The payload should be set to zero on success … unless the message already has an
            // explicit reply body."
            Ok(outcome) if outcome.reply.is_none() && message.need_reply => {
                Ok(Outcome { reply: number(message.request, 0), ..outcome })
            }
            Ok(outcome) => Ok(outcome),
            Err(refusal) => {
                (0..self.books.len()).for_each(|index| self.halt(index));
                Err(refusal)
            }
        }
    }

    /// Whether the last request may have taken long: it started or stopped rings, what of them is
    /// held was copied, or memory was mapped.
    pub fn was_costly(&self) -> bool {
        self.costly
    }

    /// The connection has ended: stops the rings, forgets what was settled and lets the memory go.
    pub fn reset(&mut self) {
        self.quiesce();
        self.books.iter_mut().for_each(|book| *book = Book::default());
        (self.features, self.protocol, self.status) = (None, ProtocolFeatures::default(), 0);
        self.shared = Shared::default();
    }

    /// The rings, and what they work on.
    pub fn parts(&mut self) -> (&mut R, &Shared) {
        (&mut self.rings, &self.shared)
    }

    /// The rings.
    #[inline]
    pub fn rings(&self) -> &R {
        &self.rings
    }

    /// What the front-end shares.
    #[inline]
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What a ring still waits for; `None` if it runs, or if there is none of that number.
    pub fn waits_for(&self, index: usize) -> Option<Need> {
        self.books.get(index).and_then(|book| self.missing(book))
    }

    /// The request's effect on the books.
    fn serve(&mut self, message: Message, mut fds: Vec<OwnedFd>) -> Result<Outcome, Refusal> {
        let Message { request, need_reply } = message;
        let code = request.code();
        let mut event = || fds.pop().map(event).transpose();
        match request {
            Request::GetFeatures => return Ok(answer(number(request, self.offer.features.0))),
            Request::SetFeatures(bits) => return self.set_features(Features(bits)),
            Request::GetProtocolFeatures => {
                return Ok(answer(number(request, self.offer.protocol.0)));
            }
            Request::SetProtocolFeatures(bits) => {
                let excess = ProtocolFeatures(bits).without(self.offer.protocol);
                if excess != ProtocolFeatures::default() {
                    return Err(Refusal::Protocol(excess));
                }
                self.protocol = ProtocolFeatures(bits);
            }
            // How many pairs, although the specification says queues: so do DPDK and QEMU.
            Request::GetQueueNum => {
                self.needs(code, ProtocolFeatures::MQ)?;
                return Ok(answer(number(request, self.offer.queue_pairs.into())));
            }

            // Whoever connects is the owner.
            Request::SetOwner => {}
            // "It is recommended that back-ends either ignore this message, or use it to disable
            // all rings."
            Request::ResetOwner => {
                self.books.iter_mut().for_each(|book| book.enabled = Some(false))
            }
            Request::ResetDevice => {
                self.needs(code, ProtocolFeatures::RESET_DEVICE)?;
                self.quiesce();
                self.books.iter_mut().for_each(|book| *book = Book::default());
                (self.features, self.status, self.shared.inflight) = (None, 0, None);
            }
            Request::SetStatus(status) => {
                self.needs(code, ProtocolFeatures::STATUS)?;
                self.status = status;
                if status == 0 {
                    // VIRTIO 1.2 §2.1.2: a device that was reset uses no ring until it is set up
                    // again.
                    (0..self.books.len()).for_each(|index| self.halt(index));
                }
            }
            Request::GetStatus => {
                self.needs(code, ProtocolFeatures::STATUS)?;
                return Ok(answer(number(request, self.status.into())));
            }

            Request::SetMemTable(table) => self.change_memory(replacement(table, fds))?,
            Request::AddMemReg(region) => {
                self.needs(code, ProtocolFeatures::CONFIGURE_MEM_SLOTS)?;
                if !self.shared.memory.hold(&region)
                    && let Some(fd) = fds.pop()
                {
                    self.change_memory(MemoryChange::Add(region, fd))?;
                }
            }
            Request::RemMemReg(region) => {
                self.needs(code, ProtocolFeatures::CONFIGURE_MEM_SLOTS)?;
                if !self.shared.memory.let_go(&region) {
                    self.change_memory(MemoryChange::Remove(region))?;
                }
            }
            Request::GetMaxMemSlots => {
                self.needs(code, ProtocolFeatures::CONFIGURE_MEM_SLOTS)?;
                return Ok(answer(number(request, MAX_SLOTS as u64)));
            }

            Request::SetLogBase { size, offset } => {
                self.needs(code, ProtocolFeatures::LOG_SHMFD)?;
                if let Some(fd) = fds.pop() {
                    self.costly = true;
                    self.shared.log = Some(DirtyLog::new(fd, size, offset)?);
                }
                // One of the requests that have a reply of their own ("Communication").
                return Ok(answer(number(request, 0)));
            }
            // Both tell the front-end what it finds out anyway, or what we never say.
            Request::SetLogFd | Request::SetBackendReqFd => {}
            Request::GetInflightFd(wanted) => {
                self.needs(code, ProtocolFeatures::INFLIGHT_SHMFD)?;
                let (made, file) = inflight::create(wanted, self.books.len(), self.packed(code)?)?;
                return Ok(answer(Some((Reply::Inflight(made), Some(file)))));
            }
            Request::SetInflightFd(given) => self.set_inflight(given, fds)?,

            Request::SetVringNum { index, size } => self.stopped(code, index)?.size = Some(size),
            Request::SetVringAddr { index, addresses } => {
                self.book(code, index)?.addresses = Some(addresses);
            }
            Request::SetVringBase { index, base } => self.stopped(code, index)?.base = Some(base),
            Request::GetVringBase { index } => {
                self.book(code, index)?;
                self.halt(index.into());
                let base = self.books[usize::from(index)].base.unwrap_or(0);
                return Ok(answer(Some((Reply::Base { index, base }, None))));
            }
            Request::SetVringKick { index, .. } => {
                self.book(code, index)?.kick = Some(event()?.map_or(Kick::Polled, Kick::Fd));
            }
            Request::SetVringCall { index, .. } => self.book(code, index)?.call = event()?,
            Request::SetVringErr { index, .. } => self.book(code, index)?.error = event()?,
            // QEMU sends it before SET_FEATURES, so it cannot be asked whether protocol features
            // were negotiated.
            Request::SetVringEnable { index, enable } => {
                self.book(code, index)?.enabled = Some(enable)
            }

            Request::NetSetMtu(mtu) => {
                self.needs(code, ProtocolFeatures::NET_MTU)?;
                // "The back-end must respond with zero in case the specified MTU is valid, or
                // non-zero otherwise."
                let fits =
                    u16::try_from(mtu).ok().filter(|mtu| (68..=self.offer.max_mtu).contains(mtu));
                let reply = number(request, 1).filter(|_| need_reply && fits.is_none());
                return Ok(Outcome { reply, news: fits.map(News::Mtu) });
            }
            Request::SendRarp(mac) => {
                self.needs(code, ProtocolFeatures::RARP)?;
                return Ok(Outcome { reply: None, news: Some(News::Announce(mac)) });
            }
        }
        Ok(Outcome::default())
    }

    fn set_features(&mut self, features: Features) -> Result<Outcome, Refusal> {
        let excess = features.without(self.offer.features);
        if excess != Features::default() {
            return Err(Refusal::Features(excess));
        }
        if !features.contains(Features::VERSION_1) {
            return Err(Refusal::Legacy(features));
        }
        // A migration begins and ends while rings run; nothing else that matters to them may change
        // then.
        let same =
            |old: Features| old.without(Features::LOG_ALL) == features.without(Features::LOG_ALL);
        let running = self.books.iter().position(|book| book.running.is_some());
        if let (Some(index), false) = (running, self.features.is_some_and(same)) {
            return Err(Refusal::Runs { request: Code::SetFeatures, index });
        }
        self.features = Some(features);
        Ok(Outcome { reply: None, news: Some(News::Features(features)) })
    }

    fn set_inflight(&mut self, given: Inflight, mut fds: Vec<OwnedFd>) -> Result<(), Refusal> {
        let code = Code::SetInflightFd;
        self.needs(code, ProtocolFeatures::INFLIGHT_SHMFD)?;
        let packed = self.packed(code)?;
        self.quiesce();
        if let Some(fd) = fds.pop() {
            self.costly = true;
            self.shared.inflight = Some(InflightRegion::open(fd, given, self.books.len(), packed)?);
        }
        Ok(())
    }

    fn change_memory(&mut self, change: MemoryChange) -> Result<(), Refusal> {
        self.costly = true;
        self.quiesce();
        Ok(self.shared.memory.apply(change)?)
    }

    fn needs(&self, request: Code, feature: ProtocolFeatures) -> Result<(), Refusal> {
        let negotiated = self.protocol.contains(feature);
        if negotiated { Ok(()) } else { Err(Refusal::Unnegotiated { request, feature }) }
    }

    fn packed(&self, request: Code) -> Result<bool, Refusal> {
        let features = self.features.ok_or(Refusal::Early(request))?;
        Ok(features.contains(Features::RING_PACKED))
    }

    fn book(&mut self, request: Code, index: u8) -> Result<&mut Book, Refusal> {
        let pairs = self.offer.queue_pairs;
        self.books.get_mut(usize::from(index)).ok_or(Refusal::NoRing { request, index, pairs })
    }

    /// The books of a ring that does not run.
    fn stopped(&mut self, request: Code, index: u8) -> Result<&mut Book, Refusal> {
        let book = self.book(request, index)?;
        let runs = Refusal::Runs { request, index: index.into() };
        if book.running.is_none() { Ok(book) } else { Err(runs) }
    }

    /// Makes the rings what the books say.
    fn settle(&mut self) -> Result<(), Refusal> {
        for index in 0..self.books.len() {
            match (&self.books[index].running, self.wanted(index)?) {
                (None, None) => {}
                (Some(running), Some(wanted)) if running.is_same(&wanted) => {}
                (Some(running), Some(wanted)) if running.lies_as(&wanted) => {
                    self.rings.update(wanted.clone(), &self.shared);
                    self.books[index].running = Some(wanted);
                }
                _ => {
                    self.stop(index);
                    // Asked again, since it begins where it has just stopped.
                    if let Some(wanted) = self.wanted(index)? {
                        self.costly = true;
                        self.rings.start(wanted.clone(), &self.shared);
                        self.books[index].running = Some(wanted);
                    }
                }
            }
        }
        Ok(())
    }

    /// What a ring lacks to run.
    fn missing(&self, book: &Book) -> Option<Need> {
        let Some(features) = self.features else { return Some(Need::Features) };
        let Some(size) = book.size else { return Some(Need::Size) };
        let Some(addresses) = book.addresses else { return Some(Need::Addresses) };
        if book.kick.is_none() {
            return Some(Need::Kick);
        }
        let regions = || self.shared.memory.regions();
        let parts = addresses.parts(size, features.contains(Features::RING_PACKED));
        if parts.iter().any(|part| !regions().any(|region| region.has_user(part.address, part.len)))
        {
            return Some(Need::Memory);
        }
        let end = regions().map(|region: Region| region.guest + region.size).max().unwrap_or(0);
        let used_end = addresses.log.and_then(|log| log.checked_add(parts[1].len));
        let end = if addresses.log.is_some() { used_end.unwrap_or(u64::MAX).max(end) } else { end };
        let logs = self.shared.log.as_ref().is_some_and(|log| log.covers(end));
        (features.contains(Features::LOG_ALL) && !logs).then_some(Need::Log)
    }

    /// The ring as it should run now, if it should.
    fn wanted(&self, index: usize) -> Result<Option<Vring>, Refusal> {
        let book = &self.books[index];
        let (None, Some(features), Some(size), Some(addresses), Some(kick)) =
            (self.missing(book), self.features, book.size, book.addresses, book.kick.clone())
        else {
            return Ok(None);
        };
        let packed = features.contains(Features::RING_PACKED);
        if !packed && !size.is_power_of_two() {
            return Err(Refusal::Size { index, size });
        }
        // Where we have it mapped is another place, aligned otherwise if its region begins at an
        // odd offset.
        let is_odd = |part: &&Part| {
            let mapped = self
                .shared
                .memory
                .user(part.address)
                .map_or(0, |span| span.start.addr().get() as u64);
            !part.address.is_multiple_of(part.align) || !mapped.is_multiple_of(part.align)
        };
        if let Some(part) = addresses.parts(size, packed).iter().find(is_odd) {
            return Err(Refusal::Misaligned { index, address: part.address });
        }
        if self.shared.inflight.as_ref().is_some_and(|inflight| !inflight.fits(index, size, packed))
        {
            return Err(Refusal::Untracked { index });
        }
        let base = book.base.unwrap_or(Base::new(packed).emit());
        let base = Base::parse(base, packed)
            .filter(|base| base.is_in(size))
            .ok_or(Refusal::Base { index, base })?;
        // "If VHOST_USER_F_PROTOCOL_FEATURES has not been negotiated, the ring starts directly in
        // the enabled state."
        let enabled = book.enabled.unwrap_or(!features.contains(Features::PROTOCOL_FEATURES));
        let (call, error) = (book.call.clone(), book.error.clone());
        Ok(Some(Vring { index, size, addresses, base, kick, call, error, enabled, features }))
    }

    /// Stops a ring if it runs, and books where it stands.
    fn stop(&mut self, index: usize) {
        let book = &mut self.books[index];
        if book.running.take().is_some() {
            self.costly = true;
            book.base = Some(self.rings.stop(index, &self.shared).emit());
        }
    }

    /// Stops a ring until it is given a kick again.
    fn halt(&mut self, index: usize) {
        self.stop(index);
        self.books[index].kick = None;
    }

    /// Stops all rings: whatever they may touch may change. Settling starts them again.
    fn quiesce(&mut self) {
        (0..self.books.len()).for_each(|index| self.stop(index));
    }
}

impl<R: Rings> Drop for Session<R> {
    fn drop(&mut self) {
        self.quiesce();
    }
}

/// A descriptor to be told by, or to tell: neither reading nor writing it waits, unless its giver
/// changes that again.
fn event(fd: OwnedFd) -> Result<Arc<OwnedFd>, Refusal> {
    // Any other file could keep whoever writes to it, or closes it, as long as its giver likes.
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let is_event =
        std::fs::read_link(link).is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]");
    if !is_event {
        return Err(Refusal::Event(std::io::Error::other("it is no eventfd")));
    }
    let flags = rustix::fs::fcntl_getfl(&fd);
    let set = flags.and_then(|flags| rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK));
    set.map(|()| Arc::new(fd)).map_err(|error| Refusal::Event(error.into()))
}

fn replacement(table: Table, fds: Vec<OwnedFd>) -> MemoryChange {
    MemoryChange::Replace(table.regions().iter().copied().zip(fds).collect())
}

fn answer(reply: Option<(Reply, Option<OwnedFd>)>) -> Outcome {
    Outcome { reply, news: None }
}

fn number(request: Request, number: u64) -> Option<(Reply, Option<OwnedFd>)> {
    Some((Reply::Number(request.code(), number), None))
}
