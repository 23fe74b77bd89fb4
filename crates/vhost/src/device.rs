//! The card that a front-end's rings belong to: what the session settles is what the card does.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use wire::{Offload, Segment, SegmentKind};

use super::features::Features;
use super::inflight::OwnRecords;
use super::log::DirtyLog;
use super::memory::{Memory, Span as Bytes};
use super::message::Addresses;
use super::session::{Rings, Shared};
use super::vring::{Base, Kick, Vring};
use crate::virtio::card::{Agreed, Card};
use crate::virtio::log::{Places, Written};
use crate::virtio::memory::{GuestMemory, Region};
use crate::virtio::ring::Ring;
use crate::virtio::{Corrupt, Parts};
use port::Span;
use port::{FrameView, Taken};

/// A card and the descriptors by which its guest and we wake each other.
#[derive(Debug)]
pub struct Device {
    card: Card,
    /// By ring: what to write to when buffers were used.
    calls: Vec<Option<Arc<OwnedFd>>>,
    /// By ring: what becomes readable when buffers are available, for rings that run.
    kicks: Vec<Option<Arc<OwnedFd>>>,
    /// How many rings run.
    running: usize,
    features: Features,
    /// Where rings are recorded whose front-end keeps no record. After the card, whose rings write
    /// there.
    records: Option<OwnRecords>,
    /// Why a ring that runs is not recorded, if so.
    unrecorded: Option<String>,
}

impl Device {
    /// A card of so many queue pairs, of which as many frames can be held.
    pub fn new(pairs: u8, frames: u32) -> Self {
        let rings = 2 * usize::from(pairs);
        Self {
            card: Card::new(pairs, frames),
            calls: vec![None; rings],
            kicks: vec![None; rings],
            running: 0,
            features: Features::default(),
            records: None,
            unrecorded: None,
        }
    }

    /// Keeps records of what is taken from the guest, so that whoever comes after us loses none of
    /// it.
    #[must_use]
    pub fn recorded(self, records: OwnRecords) -> Self {
        Self { records: Some(records), ..self }
    }

    /// Where to record this ring: where its front-end has it, or in our own file. What the guest
    /// receives by is used in order, so that a split ring's own index says all.
    fn record(&mut self, vring: &Vring, packed: bool, shared: &Shared) -> Option<Span> {
        if !packed && vring.index.is_multiple_of(2) {
            return None;
        }
        let theirs = shared.inflight.as_ref().and_then(|region| region.part(vring.index));
        let ours = || self.records.as_ref()?.part(vring, packed, &shared.memory).transpose();
        match theirs.map(Ok).or_else(ours)? {
            Ok(part) => Some(span(part)),
            Err(error) => {
                self.unrecorded = Some(error.to_string());
                None
            }
        }
    }

    /// Why a ring that runs is not recorded, if so.
    pub fn unrecorded(&self) -> Option<&str> {
        self.unrecorded.as_deref()
    }

    /// The card.
    #[inline]
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// The card.
    #[inline]
    pub fn card_mut(&mut self) -> &mut Card {
        &mut self.card
    }

    /// What was negotiated of the rings that run.
    pub fn features(&self) -> Features {
        self.features
    }

    /// How many rings run.
    #[inline]
    pub fn running(&self) -> usize {
        self.running
    }

    /// Whether the guest takes a frame to which this is still to be done.
    #[inline]
    pub fn takes(&self, offload: Offload) -> bool {
        let agreed = |feature| self.features.contains(feature);
        let Offload { checksum, segment, data_valid } = offload;
        let is_summed = checksum.is_none() && !data_valid;
        let is_cut = segment.is_none_or(|Segment { kind, ecn, .. }| {
            let kind = match kind {
                SegmentKind::Tcp4 => agreed(Features::GUEST_TSO4),
                SegmentKind::Tcp6 => agreed(Features::GUEST_TSO6),
                SegmentKind::Udp => false,
            };
            kind && (!ecn || agreed(Features::GUEST_ECN))
        });
        (is_summed || agreed(Features::GUEST_CSUM)) && is_cut
    }

    /// What the guest kicks, ring by ring, where it does.
    pub fn kicks(&self) -> impl Iterator<Item = &Arc<OwnedFd>> {
        self.kicks.iter().flatten()
    }

    /// Hands a frame to the guest, and logs what was written if that is wanted.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]
    #[inline(always)]
    pub fn transmit(&mut self, frame: &FrameView<'_>, shared: &Shared) -> Result<Taken, Corrupt> {
        match self.log(shared) {
            None => self.card.transmit(frame, &mut ()),
            Some(log) => self.transmit_logged(frame, log),
        }
    }

    #[inline(never)]
    fn transmit_logged(
        &mut self,
        frame: &FrameView<'_>,
        mut log: Marks<'_>,
    ) -> Result<Taken, Corrupt> {
        self.card.transmit(frame, &mut log)
    }

    /// Shows the guest what it got, as [`publish`](Self::publish) does.
    #[inline]
    pub fn deliver(&mut self, shared: &Shared) {
        let log = self.log(shared);
        let Self { card, calls, .. } = self;
        let interrupt = |ring: usize| interrupt(&calls[ring]);
        match log {
            None => card.deliver(&mut (), interrupt),
            Some(mut log) => card.deliver(&mut log, interrupt),
        }
    }

    /// Shows the guest what it got and what it has back, interrupts it where it wants that, and
    /// logs what was written if that is wanted.
    #[inline]
    pub fn publish(&mut self, shared: &Shared) {
        let log = self.log(shared);
        let Self { card, calls, .. } = self;
        let interrupt = |ring: usize| interrupt(&calls[ring]);
        match log {
            None => card.publish(&mut (), interrupt),
            Some(mut log) => card.publish(&mut log, interrupt),
        }
    }

    /// Where to log what is written, if it is wanted: a front-end that wants no buffers logged has
    /// no used ring logged either.
    #[inline]
    fn log<'a>(&self, shared: &'a Shared) -> Option<Marks<'a>> {
        let log = shared.log.as_ref().filter(|_| self.features.contains(Features::LOG_ALL));
        log.map(Marks)
    }
}

impl Rings for Device {
    fn start(&mut self, vring: Vring, shared: &Shared) {
        if self.running == 0 {
            self.card.set_memory(guest_memory(&shared.memory));
            self.unrecorded = None;
        }
        let packed = matches!(vring.base, Base::Packed { .. });
        let parts = parts(&vring.addresses, vring.size, packed, &shared.memory);
        let parts = parts.expect("the session starts a ring only where it lies in memory, aligned");
        let events = vring.features.contains(Features::RING_EVENT_IDX);
        let mut ring = Ring::new(parts, vring.size, events, vring.base);
        if let Some(record) = self.record(&vring, packed, shared) {
            // What the guest receives by is used in order.
            ring = ring.recorded(record, vring.index.is_multiple_of(2));
        }
        let index = vring.index;
        self.card.start(index, ring, agreed(vring.features));
        self.running += 1;
        self.update(vring, shared);
        // Whoever was here before may have been killed after it had shown buffers and before it
        // told of them.
        interrupt(&self.calls[index]);
    }

    fn update(&mut self, vring: Vring, shared: &Shared) {
        let Vring { index, addresses, kick, call, enabled, features, .. } = vring;
        self.features = features;
        self.card.enable(index, enabled);
        self.card.log_at(index, places(&addresses, &shared.memory));
        self.calls[index] = call;
        self.kicks[index] = match kick {
            Kick::Fd(fd) => Some(fd),
            Kick::Polled => None,
        };
    }

    fn stop(&mut self, index: usize, shared: &Shared) -> Base {
        let base = match self.log(shared) {
            None => self.card.stop(index, &mut ()),
            Some(mut log) => self.card.stop(index, &mut log),
        };
        let base = base.expect("the session stops a ring that runs");
        // Whoever waits for its buffers has them back.
        interrupt(&self.calls[index]);
        self.calls[index] = None;
        self.kicks[index] = None;
        self.running -= 1;
        base
    }
}

#[inline]
fn interrupt(call: &Option<Arc<OwnedFd>>) {
    if let Some(call) = call {
        // A counter at its top has a guest that will look anyway (eventfd(2)).
        let _ = rustix::io::write(call, &1_u64.to_ne_bytes());
    }
}

/// The pages that were written.
struct Marks<'a>(&'a DirtyLog);

impl Written for Marks<'_> {
    #[inline]
    fn note(&mut self, address: u64, len: u64) {
        // A ring runs only where the log covers what it can write. Should it have become shorter
        // just now, the ring is about to stop, and its front-end has given away what it does not
        // want to know.
        let _ = self.0.mark(address, len);
    }
}

/// Where to log a ring's own parts, if its front-end wants that.
///
/// It gives an address for the used part only, which in a packed ring is but our event structure.
/// There we write to the descriptors as well; where those are for the guest, its memory says.
fn places(addresses: &Addresses, memory: &Memory) -> Option<Places> {
    let device = addresses.log?;
    let region = memory.regions().find(|region| region.has_user(addresses.descriptors, 1))?;
    Some(Places { descriptors: addresses.descriptors - region.user + region.guest, device })
}

fn agreed(features: Features) -> Agreed {
    let offloads = [Features::CSUM, Features::HOST_TSO4, Features::HOST_TSO6];
    Agreed {
        mergeable: features.contains(Features::MRG_RXBUF),
        offloads: offloads.into_iter().any(|offload| features.contains(offload)),
    }
}

/// The memory as the card's rings see it. They stop before it goes ([`Rings::stop`]).
fn guest_memory(memory: &Memory) -> GuestMemory {
    let region = |region: super::message::Region| Region {
        address: region.guest,
        span: span(memory.guest(region.guest).expect("a region begins where it begins")),
    };
    GuestMemory::new(memory.regions().map(region).collect()).watched(memory.losses().collect())
}

/// A ring's parts, where the front-end has them.
fn parts(addresses: &Addresses, size: u16, packed: bool, memory: &Memory) -> Option<Parts> {
    let Addresses { descriptors, available, used, .. } = *addresses;
    let [a, b, c] = [descriptors, available, used].map(|address| memory.user(address).map(span));
    Parts::new([a?, b?, c?], size, packed)
}

/// Mapped bytes, to be used while the session shares them.
fn span(Bytes { start, len }: Bytes) -> Span {
    let start: NonNull<u8> = start;
    // SAFETY: they are mapped until the session lets the memory or the region go, or the device
    // ends. Every ring is stopped before, and a card that has stopped its rings has no spans left:
    // frames that it held were copied. Nobody makes references to them.
    #[expect(unsafe_code, reason = "a guest's bytes are reached by pointer")]
    unsafe {
        Span::new(start, len)
    }
}
