//! What frames on their way to other hosts have opened at theirs.
//!
//! A connection is open as soon as its first frame has left: an answer may be faster than the word
//! that the frame has arrived. If its receiver's host refuses the frame, what it opened is taken
//! back; so nobody gets in by a connection that nobody let in.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use conntrack::Id;
use lossless::PortId;

/// Connections that frames opened which are not known to have arrived, by the frames' ports and
/// slots there.
#[derive(Debug, Default)]
pub struct Underway(BTreeMap<(PortId, u32), Vec<Id>>);

impl Underway {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A frame has departed from a slot, in the place of any before.
    pub fn put(&mut self, slot: (PortId, u32), opened: Vec<Id>) {
        match opened.is_empty() {
            true => drop(self.0.remove(&slot)),
            false => drop(self.0.insert(slot, opened)),
        }
    }

    /// A slot's frame is not underway any more: what it opened.
    #[inline]
    pub fn take(&mut self, slot: (PortId, u32)) -> Vec<Id> {
        match self.0.is_empty() {
            true => Vec::new(),
            false => self.0.remove(&slot).unwrap_or_default(),
        }
    }

    /// A port has no frames any more.
    pub fn forget(&mut self, port: PortId) {
        self.0.retain(|(from, _), _| *from != port);
    }
}
