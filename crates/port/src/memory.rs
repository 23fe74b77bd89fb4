//! A port whose other end is a program in this process: for benchmarks and tests.
//!
//! ```text
//!     application: MemoryEnd                     switch: MemoryPort
//!
//!   send ──fill──▶ buffer ───────────▶ receive ─▶ held by its slot ─▶ copied by another port's transmit
//!                    ▲ └◀──────────────────────── release
//!
//!   receive ◀──── buffer ◀──────────── transmit: the one copy
//!                    └────────────────▶ posted again
//! ```
//!
//! Buffers are moved from one side to the other and back, so each has one owner at any time. A
//! sender that has no buffer is told so and keeps its frame; while no buffer is posted, `transmit`
//! is [`Busy`](Taken::Busy). So nothing is lost, and whoever is slower sets the pace. The two sides
//! may be in two threads: they meet once a batch, at a lock.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::Offload;

use crate::port::{Left, Port, PortError, Slot, Taken};
use crate::view::FrameView;

/// How much memory a port has, in each direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MemoryConfig {
    /// Buffers, and so the most frames on their way in one direction.
    pub slots: u32,
    /// Bytes of the longest frame.
    pub slot_size: u32,
}

/// A port and the end that the application holds.
pub fn pair(config: MemoryConfig) -> (MemoryPort, MemoryEnd) {
    let [mut tx, ingress] = Side::pair();
    let [mut egress, rx] = Side::pair();
    (tx.here, egress.here) = (config.buffers(), config.buffers());
    let slot_size = config.slot_size as usize;
    let port = MemoryPort { ingress, egress, held: config.held(), slot_size, is_turned: false };
    (port, MemoryEnd { tx, rx, slot_size })
}

/// A port that is its own other end: what is transmitted by it is received by it, in order, as far
/// as there is room.
pub fn turned(config: MemoryConfig) -> MemoryPort {
    let [ingress, mut egress] = Side::pair();
    egress.here = config.buffers();
    let slot_size = config.slot_size as usize;
    MemoryPort { ingress, egress, held: config.held(), slot_size, is_turned: true }
}

impl MemoryConfig {
    fn buffers(&self) -> Queue {
        let bytes = || vec![0; self.slot_size as usize].into();
        let buffer = |slot| Buffer { slot, len: 0, offload: None, bytes: bytes() };
        (0..self.slots).map(|slot| Box::new(buffer(slot))).collect()
    }

    fn held(&self) -> Box<[Option<Box<Buffer>>]> {
        (0..self.slots).map(|_| None).collect()
    }
}

/// A frame, or room for one.
struct Buffer {
    /// Its number: no other buffer of its direction has the same.
    slot: u32,
    len: usize,
    offload: Option<Offload>,
    bytes: Box<[u8]>,
}

impl Buffer {
    #[inline]
    fn view(&self) -> FrameView<'_> {
        FrameView { bytes: &self.bytes[..self.len], rest: &[], note: self.offload.as_ref() }
    }

    /// Takes a frame that it has room for.
    #[inline(always)]
    fn fill(&mut self, frame: &FrameView<'_>) {
        self.len = frame.bytes.len();
        self.offload = frame.note.copied();
        copy(&mut self.bytes[..self.len], frame.bytes);
    }
}

/// Where buffers wait between two sides. Boxed, so that moving one moves a pointer.
type Queue = VecDeque<Box<Buffer>>;

/// What one of two sides has of the buffers of one direction.
struct Side {
    /// Those that it may use.
    here: Queue,
    /// Those that go to the other side with the next flush.
    leaving: Queue,
    /// Those that the other side has sent.
    inbox: Arc<Mutex<Queue>>,
    /// Those that the other side has not looked at yet.
    outbox: Arc<Mutex<Queue>>,
}

impl Side {
    /// Two sides without buffers.
    fn pair() -> [Self; 2] {
        let [one, other] = [(); 2].map(|()| Arc::new(Mutex::new(Queue::new())));
        [(&one, &other), (&other, &one)].map(|(inbox, outbox)| Self {
            here: Queue::new(),
            leaving: Queue::new(),
            inbox: Arc::clone(inbox),
            outbox: Arc::clone(outbox),
        })
    }

    /// Whether there is a buffer to use. Looks for new ones when those that were known are used up.
    #[inline]
    fn has(&mut self) -> bool {
        if self.here.is_empty() {
            std::mem::swap(&mut self.here, &mut lock(&self.inbox));
        }
        !self.here.is_empty()
    }

    /// The buffer that came first.
    #[inline]
    fn oldest(&mut self) -> Option<Box<Buffer>> {
        if self.has() { self.here.pop_front() } else { None }
    }

    /// The buffer that came last: its lines are still in the cache.
    #[inline]
    fn latest(&mut self) -> Option<Box<Buffer>> {
        if self.has() { self.here.pop_back() } else { None }
    }

    #[inline]
    fn flush(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let mut outbox = lock(&self.outbox);
        if outbox.is_empty() {
            std::mem::swap(&mut *outbox, &mut self.leaving);
        } else {
            outbox.append(&mut self.leaving);
        }
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    // Whoever panics while it has the lock leaves a queue as good as any.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The switch's side.
pub struct MemoryPort {
    ingress: Side,
    egress: Side,
    /// The buffers of frames that were received and not released, by their slots.
    held: Box<[Option<Box<Buffer>>]>,
    slot_size: usize,
    /// Whether it is its own other end. What is left to do with a frame is then what the switch
    /// has said, and true of the frame that lies behind whatever the switch has put before it.
    is_turned: bool,
}

impl MemoryPort {
    /// Whether what is left to do with a frame can be true.
    #[inline]
    fn can_be(&self, frame: &Buffer) -> bool {
        let is_true = |offload| can_be(offload, &frame.bytes[..frame.len]);
        self.is_turned || frame.offload.is_none_or(is_true)
    }

    /// Hands over a frame that lies in pieces.
    // Apart from the others, whose slice and buffer the compiler knows to be of one length.
    #[cold]
    fn gather(&mut self, frame: &FrameView<'_>) -> Taken {
        let len = frame.len();
        if len > self.slot_size {
            return Taken::Unfit;
        }
        let Some(mut buffer) = self.egress.latest() else { return Taken::Busy };
        frame.read(&mut buffer.bytes[..len]);
        (buffer.len, buffer.offload) = (len, frame.note.copied());
        self.egress.leaving.push_back(buffer);
        Taken::Yes
    }
}

impl Port for MemoryPort {
    #[inline]
    fn receive(
        &mut self,
        most: usize,
        mut arrived: impl FnMut(Slot, &FrameView<'_>),
    ) -> Result<Left, PortError> {
        for _ in 0..most {
            let Some(mut buffer) = self.ingress.oldest() else { return Ok(Left::Nothing) };
            if !self.can_be(&buffer) {
                (buffer.len, buffer.offload) = (0, None);
            }
            let slot = buffer.slot;
            let buffer = self.held[slot as usize].insert(buffer);
            arrived(Slot(slot), &buffer.view());
        }
        Ok(Left::More)
    }

    #[inline]
    fn frame(&self, slot: Slot) -> FrameView<'_> {
        match self.held.get(slot.0 as usize) {
            Some(Some(buffer)) => buffer.view(),
            _ => panic!("{slot} is not held"),
        }
    }

    fn rewrite(&mut self, slot: Slot, at: usize, bytes: &[u8]) -> bool {
        let Some(Some(buffer)) = self.held.get_mut(slot.0 as usize) else {
            panic!("{slot} is not held")
        };
        let frame = &mut buffer.bytes[..buffer.len];
        let place = frame.get_mut(at..at + bytes.len());
        place.map(|place| place.copy_from_slice(bytes)).is_some()
    }

    #[inline]
    fn release(&mut self, slot: Slot) {
        match self.held.get_mut(slot.0 as usize).and_then(Option::take) {
            Some(buffer) => self.ingress.leaving.push_back(buffer),
            None => panic!("{slot} is not held"),
        }
    }

    #[inline(always)]
    fn transmit(&mut self, frame: &FrameView<'_>) -> Result<Taken, PortError> {
        if !frame.rest.is_empty() {
            return Ok(self.gather(frame));
        }
        if frame.bytes.len() > self.slot_size {
            return Ok(Taken::Unfit);
        }
        let Some(mut buffer) = self.egress.latest() else { return Ok(Taken::Busy) };
        buffer.fill(frame);
        self.egress.leaving.push_back(buffer);
        Ok(Taken::Yes)
    }

    #[inline]
    fn deliver(&mut self) -> Result<(), PortError> {
        self.egress.flush();
        Ok(())
    }

    #[inline]
    fn flush(&mut self) -> Result<bool, PortError> {
        self.ingress.flush();
        self.egress.flush();
        Ok(true)
    }
}

/// Whether an offload header can be true of a frame.
#[cold]
fn can_be(offload: Offload, bytes: &[u8]) -> bool {
    Offload::parse(&offload.emit(), bytes).is_ok()
}

/// The application's side. It may live in another thread than its port.
pub struct MemoryEnd {
    tx: Side,
    rx: Side,
    slot_size: usize,
}

/// Why a frame could not be sent now, or ever.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SendError {
    /// Every slot is on its way.
    #[error("cannot send: every slot is on its way; try again when the switch has released one")]
    Full,
    /// The frame is longer than a slot.
    #[error("cannot send a frame of {len} bytes: make the port's slots larger than {slot_size}")]
    TooLong {
        /// The frame's length.
        len: usize,
        /// A slot's length.
        slot_size: usize,
    },
}

impl MemoryEnd {
    /// Sends a frame that needs nothing done to it.
    ///
    /// # Errors
    ///
    /// [`SendError`]: the frame was not sent.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        self.send_frame(FrameView::plain(bytes))
    }

    /// Sends a frame and says what its receiver still has to do to it.
    ///
    /// # Errors
    ///
    /// [`SendError`]: the frame was not sent.
    pub fn send_frame(&mut self, frame: FrameView<'_>) -> Result<(), SendError> {
        let (len, slot_size) = (frame.bytes.len(), self.slot_size);
        if len > slot_size {
            return Err(SendError::TooLong { len, slot_size });
        }
        let mut buffer = self.tx.latest().ok_or(SendError::Full)?;
        buffer.fill(&frame);
        self.tx.leaving.push_back(buffer);
        self.tx.flush();
        Ok(())
    }

    /// Sends at most `most` frames, as one batch, and returns how many there were buffers for.
    ///
    /// `fill` writes each frame where it will lie, and returns its length.
    #[inline]
    pub fn send_batch(&mut self, most: usize, mut fill: impl FnMut(&mut [u8]) -> usize) -> usize {
        let mut sent = 0;
        while sent < most
            && let Some(mut buffer) = self.tx.latest()
        {
            (buffer.len, buffer.offload) = (fill(&mut buffer.bytes), None);
            self.tx.leaving.push_back(buffer);
            sent += 1;
        }
        self.tx.flush();
        sent
    }

    /// Shows at most `most` frames that arrived, in order, and returns how many. Their buffers are
    /// posted again.
    #[inline]
    pub fn receive(&mut self, most: usize, mut show: impl FnMut(FrameView<'_>)) -> usize {
        let mut came = 0;
        while came < most
            && let Some(buffer) = self.rx.oldest()
        {
            show(buffer.view());
            self.rx.leaving.push_back(buffer);
            came += 1;
        }
        self.rx.flush();
        came
    }
}

/// Copies between slices of one length.
///
/// Small frames are what a switch has least time for: those are copied as two pieces that may
/// overlap, without a loop or a call.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        16..=32 => copy_ends::<16>(to, from),
        33..=64 => copy_ends::<32>(to, from),
        65..=128 => copy_ends::<64>(to, from),
        _ => to.copy_from_slice(from),
    }
}

#[inline(always)]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(place), Some(piece)) = (to.first_chunk_mut::<N>(), from.first_chunk()) {
        *place = *piece;
    }
    if let (Some(place), Some(piece)) = (to.last_chunk_mut::<N>(), from.last_chunk()) {
        *place = *piece;
    }
}
