//! Machines' frames, and what was found of them when they came.

use alloc::vec::Vec;

use lossless::PortId;
use pipeline::Start;

use crate::flows::At;

/// A frame that a machine has sent.
#[derive(Clone, Copy, Debug)]
pub struct MachineFrame<'a> {
    /// Its port.
    pub from: PortId,
    /// Where it lies among those of that port.
    pub slot: Option<u32>,
    /// All of it, or its first bytes, which stay as they are as long as it lies there: its machine
    /// may write to what is behind them.
    pub bytes: &'a [u8],
    /// How many bytes it has.
    pub len: usize,
    /// If it is cut into packets later: how much longer it is than the longest of them, in bytes.
    pub excess: usize,
    /// Where its checksum is, if that is left to its receiver.
    pub partial: Option<wire::PartialChecksum>,
}

impl<'a> MachineFrame<'a> {
    /// What flows are told apart by.
    #[inline(always)]
    pub(crate) const fn start(&self) -> Start<'a> {
        Start { bytes: self.bytes, len: self.len }
    }
}

/// What was found of frames when they came, for when they leave: by their senders' ports, and where
/// they lie there.
#[derive(Debug, Default)]
pub struct Notes(Vec<Vec<Option<At>>>);

/// Of how many places of a port notes are kept.
const SLOTS: u32 = 1 << 16;

impl Notes {
    /// What was found of a frame, or that nothing was.
    #[inline(always)]
    pub fn set(&mut self, frame: &MachineFrame<'_>, found: Option<At>) {
        let Some(slot) = frame.slot.filter(|slot| *slot < SLOTS) else { return };
        match self.0.get_mut(frame.from.index()).and_then(|it| it.get_mut(slot as usize)) {
            Some(note) => *note = found,
            None => self.add(frame.from, slot, found),
        }
    }

    #[cold]
    fn add(&mut self, from: PortId, slot: u32, found: Option<At>) {
        if self.0.len() <= from.index() {
            self.0.resize_with(from.index() + 1, Vec::new);
        }
        let notes = &mut self.0[from.index()];
        notes.resize(notes.len().max(slot as usize + 1), None);
        notes[slot as usize] = found;
    }

    /// What was found of the frame in a slot of a port.
    #[inline(always)]
    pub fn get(&self, from: PortId, slot: u32) -> Option<At> {
        *self.0.get(from.index())?.get(slot as usize)?
    }

    /// A port is gone.
    pub fn forget(&mut self, port: PortId) {
        if let Some(notes) = self.0.get_mut(port.index()) {
            *notes = Vec::new();
        }
    }
}
