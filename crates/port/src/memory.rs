//! A port whose other end is a program: two threads that share rings and slots.
//!
//! ```text
//!                application: MemoryEnd            switch: MemoryPort
//!
//!   send ──fill──▶ slot ───── tx ring ─────▶ receive ─▶ held in its slot ─▶ copied by another port's transmit
//!                   ▲ └────── completion ring ◀────────── release
//!
//!   receive ◀──── slot ◀───── rx ring ────────── transmit: the one copy
//!                   └──────── fill ring ────▶
//! ```
//!
//! Each direction is a loan of the application's slots ([`rings::loan`]): frames lent, or empty slots lent and
//! given back as frames. A sender that has no free slot is told so and keeps its frame; a receiver that posts no
//! slots makes `transmit` [`Busy`](Taken::Busy). So nothing is lost, and whoever is slower sets the pace.
//!
//! The switch does not believe what the application's descriptors say: see [`MemoryPort::refused`].

use std::io;

use rings::loan::{self, Borrower, Lender, LoanError, Note, Shape};
use wire::Offload;

use crate::port::{Left, Port, PortError, Slot, Taken};
use crate::view::FrameView;

/// How much memory a port has, in each direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MemoryConfig {
    /// Slots, and so the most frames on their way in one direction.
    pub slots: u32,
    /// Bytes of the longest frame.
    pub slot_size: u32,
}

/// A port and the end that the application holds.
///
/// # Errors
///
/// [`LoanError::Shape`]: no slots, no bytes in them, or too many.
pub fn pair(config: MemoryConfig) -> Result<(MemoryPort, MemoryEnd), LoanError> {
    let shape = Shape { slots: config.slots, slot_size: config.slot_size };
    let (tx, ingress) = loan::loan(shape)?;
    let (rx, egress) = loan::loan(shape)?;
    let offloads = vec![Offload::NONE; config.slots as usize].into_boxed_slice();
    let mut end = MemoryEnd { tx, rx };
    end.post();
    Ok((MemoryPort { ingress, egress, offloads }, end))
}

/// The switch's side.
pub struct MemoryPort {
    ingress: Borrower,
    egress: Borrower,
    /// Of the slots that are held and whose descriptors said that there is one.
    offloads: Box<[Offload]>,
}

impl MemoryPort {
    /// How many descriptors the application sent that could not be: of no slot, longer than a slot, or of a slot that
    /// was sent and not completed.
    pub fn refused(&self) -> u64 {
        self.ingress.refused() + self.egress.refused()
    }

    /// Hands over a frame that lies in pieces.
    // Apart from the others, whose slice and slot the compiler knows to be of one length.
    #[cold]
    fn gather(&mut self, frame: &FrameView<'_>) -> Taken {
        if frame.len() > self.egress.slot_size() {
            return Taken::Unfit;
        }
        let taken = self.egress.fill(frame.len(), |bytes, note| {
            frame.read(bytes);
            write_note(frame.note, note)
        });
        if taken { Taken::Yes } else { Taken::Busy }
    }
}

impl Port for MemoryPort {
    #[inline]
    fn receive(
        &mut self,
        most: usize,
        mut arrived: impl FnMut(Slot, &FrameView<'_>),
    ) -> Result<Left, PortError> {
        let offloads = &mut self.offloads;
        let more = self.ingress.accept(most, |slot, bytes, note| {
            let mut frame = FrameView::plain(bytes);
            if let Some(note) = note {
                match read_note(note, bytes) {
                    Some(offload) => {
                        offloads[slot as usize] = offload;
                        frame.note = Some(&offloads[slot as usize]);
                    }
                    None => frame.bytes = &[],
                }
            }
            arrived(Slot(slot), &frame);
            true
        });
        Ok(if more { Left::More } else { Left::Nothing })
    }

    #[inline]
    fn frame(&self, slot: Slot) -> FrameView<'_> {
        let (bytes, note) = self.ingress.get(slot.0);
        FrameView { bytes, rest: &[], note: note.map(|_| &self.offloads[slot.0 as usize]) }
    }

    #[inline]
    fn release(&mut self, slot: Slot) {
        self.ingress.give_back(slot.0);
    }

    #[inline(always)]
    fn transmit(&mut self, frame: &FrameView<'_>) -> Result<Taken, PortError> {
        if !frame.rest.is_empty() {
            return Ok(self.gather(frame));
        }
        if frame.bytes.len() > self.egress.slot_size() {
            return Ok(Taken::Unfit);
        }
        let taken = self.egress.fill(frame.bytes.len(), |bytes, note| write_frame(frame, bytes, note));
        Ok(if taken { Taken::Yes } else { Taken::Busy })
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
        match self.ingress.corrupt().or(self.egress.corrupt()) {
            None => Ok(true),
            Some(corrupt) => Err(PortError {
                device: "memory port".to_owned(),
                operation: "go on exchanging slots",
                source: io::Error::new(io::ErrorKind::InvalidData, corrupt),
            }),
        }
    }
}

/// The application's side. It may live in another thread than its port.
pub struct MemoryEnd {
    tx: Lender,
    rx: Lender,
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
        let (len, slot_size) = (frame.bytes.len(), self.tx.slot_size());
        if len > slot_size {
            return Err(SendError::TooLong { len, slot_size });
        }
        self.tx.collect(usize::MAX, |_, _| ());
        let lent = self.tx.lend(1, |bytes, note| (len, write_frame(&frame, &mut bytes[..len], note)));
        self.tx.flush();
        if lent == 0 { Err(SendError::Full) } else { Ok(()) }
    }

    /// Sends at most `most` frames, as one batch, and returns how many there were slots for.
    ///
    /// `fill` writes each frame where it will lie, and returns its length.
    #[inline]
    pub fn send_batch(&mut self, most: usize, mut fill: impl FnMut(&mut [u8]) -> usize) -> usize {
        // Slots that came back last are filled first: their lines are still in the cache.
        self.tx.collect(usize::MAX, |_, _| ());
        let lent = self.tx.lend(most, |bytes, _| (fill(bytes), false));
        self.tx.flush();
        lent
    }

    /// Shows at most `most` frames that arrived, in order, and returns how many. Their slots are posted again.
    #[inline]
    pub fn receive(&mut self, most: usize, mut show: impl FnMut(FrameView<'_>)) -> usize {
        let came = self.rx.collect(most, |bytes, note| {
            // What the switch passes on was checked against the frame when it came in.
            let offload = note.and_then(|note| read_note(note, bytes));
            show(FrameView { bytes, rest: &[], note: offload.as_ref() });
        });
        self.post();
        came
    }

    /// Lends every free slot to the switch, to put frames in.
    #[inline]
    fn post(&mut self) {
        self.rx.lend(usize::MAX, |_, _| (0, false));
        self.rx.flush();
    }
}

/// Puts a frame into bytes of its length, and returns whether the note says anything.
#[inline(always)]
fn write_frame(frame: &FrameView<'_>, bytes: &mut [u8], note: &mut Note) -> bool {
    copy(bytes, frame.bytes);
    write_note(frame.note, note)
}

#[inline(always)]
fn write_note(offload: Option<&Offload>, note: &mut Note) -> bool {
    if let Some(offload) = offload {
        note[..Offload::LEN].copy_from_slice(&offload.emit());
    }
    offload.is_some()
}

/// What a note says of a frame, if it can be true.
fn read_note(note: &Note, bytes: &[u8]) -> Option<Offload> {
    Offload::parse(note.first_chunk()?, bytes).ok()
}

/// Copies between slices of one length.
///
/// Small frames are what a switch has least time for: those are copied as two pieces that may overlap, without a
/// loop or a call.
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
