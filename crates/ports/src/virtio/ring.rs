//! A ring of either kind, and which of its buffers are ours.

use super::chain::Chain;
use super::memory::GuestMemory;
use super::packed::{Packed, Turn};
use super::split::Split;
use super::{Corrupt, Parts};

/// Where a ring stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Base {
    /// The index of the next available entry; that of the next used one is in the ring.
    Split(u16),
    /// The next available descriptor and the next used one.
    Packed {
        /// Available.
        available: Turn,
        /// Used.
        used: Turn,
    },
}

/// A ring, from the device's side.
#[derive(Debug)]
pub struct Ring {
    kind: Kind,
    /// By the id of its buffer: how many descriptors a chain takes that is ours; 0 if it is the driver's.
    lent: Box<[u16]>,
}

#[derive(Debug)]
enum Kind {
    Split(Split),
    Packed(Packed),
}

impl Ring {
    /// A ring of `size` descriptors that stands at `base`, none of whose buffers are ours.
    pub fn new(parts: Parts, size: u16, events: bool, base: Base) -> Self {
        let kind = match base {
            Base::Split(next) => Kind::Split(Split::new(parts, size, events, next)),
            Base::Packed { available, used } => {
                Kind::Packed(Packed::new(parts, size, events, available, used))
            }
        };
        Self { kind, lent: vec![0; size.into()].into() }
    }

    /// Where it stands.
    pub fn base(&self) -> Base {
        match &self.kind {
            Kind::Split(ring) => Base::Split(ring.next()),
            Kind::Packed(ring) => {
                let [available, used] = ring.turns();
                Base::Packed { available, used }
            }
        }
    }

    /// How many descriptors it has.
    pub fn size(&self) -> u16 {
        self.lent.len() as u16
    }

    /// Whether it is packed.
    pub fn is_packed(&self) -> bool {
        matches!(self.kind, Kind::Packed(_))
    }

    /// Takes the next chain that is available, if there is one.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]: the ring is not to be used any more.
    #[inline]
    pub fn take(&mut self, memory: &GuestMemory, chain: &mut Chain) -> Result<bool, Corrupt> {
        match &mut self.kind {
            Kind::Split(ring) => {
                if ring.available()? == 0 {
                    return Ok(false);
                }
                let head = ring.head(0)?;
                chain.read_split(ring, head, memory);
                ring.take(1);
            }
            Kind::Packed(ring) => {
                if !ring.is_available() {
                    return Ok(false);
                }
                chain.read_packed(ring, memory)?;
                ring.take(chain.descriptors);
            }
        }
        let lent = &mut self.lent[usize::from(chain.id)];
        if *lent != 0 {
            return Err(Corrupt::Lent { head: chain.id });
        }
        *lent = chain.descriptors;
        Ok(true)
    }

    /// Puts back what was taken last, as if it had not been: chains by their ids, the last one first.
    pub fn untake(&mut self, id: u16) {
        let descriptors = std::mem::take(&mut self.lent[usize::from(id)]);
        match &mut self.kind {
            Kind::Split(ring) => ring.untake(1),
            Kind::Packed(ring) => ring.untake(descriptors),
        }
    }

    /// Gives a chain back, of whose buffers `len` bytes were written. The driver may not see it before
    /// [`publish`](Self::publish).
    #[inline]
    pub fn give_back(&mut self, id: u16, len: u32) {
        let descriptors = std::mem::take(&mut self.lent[usize::from(id)]);
        debug_assert_ne!(descriptors, 0, "chain {id} is given back once");
        match &mut self.kind {
            Kind::Split(ring) => ring.give_back(id, len),
            Kind::Packed(ring) => ring.give_back(id, descriptors, len),
        }
    }

    /// Shows the driver what was given back. Whether it wants to be interrupted for it.
    #[inline]
    pub fn publish(&mut self) -> bool {
        match &mut self.kind {
            Kind::Split(ring) => ring.publish(),
            Kind::Packed(ring) => ring.publish(),
        }
    }

    /// Asks the driver to notify us of what is available next. Whether something is already, of which it may not.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]
    pub fn wait(&mut self) -> Result<bool, Corrupt> {
        match &mut self.kind {
            Kind::Split(ring) => ring.wait(),
            Kind::Packed(ring) => Ok(ring.wait()),
        }
    }

    /// Tells the driver that we look by ourselves.
    #[inline]
    pub fn be_silent(&mut self) {
        match &mut self.kind {
            Kind::Split(ring) => ring.be_silent(),
            Kind::Packed(ring) => ring.be_silent(),
        }
    }
}
