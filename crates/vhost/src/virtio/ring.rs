//! A ring of either kind, and which of its buffers are ours.

use super::chain::{Chain, Head};
use super::log::{Places, Written};
use super::memory::GuestMemory;
use super::packed::{Packed, Turn};
use super::record::packed::PackedRecord;
use super::record::split::SplitRecord;
use super::split::Split;
use super::{Corrupt, Parts};
use port::{Span, stream};

/// Where a ring stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Base {
    /// The index of the next available entry. The ring itself says the same of its used side, and
    /// that is what we go by.
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
    /// By the id of its buffer: how many descriptors a chain takes that is ours; 0 if it is the
    /// driver's.
    lent: Box<[u16]>,
    /// How many chains are to be taken again.
    again: u16,
    /// Where to log what is written to it.
    places: Option<Places>,
    /// We have written what we want to be told of, and not logged it.
    wished: bool,
}

#[derive(Debug)]
enum Kind {
    Split(Split, Option<SplitRecord>),
    Packed(Packed, Option<PackedRecord>),
}

impl Ring {
    /// A ring of `size` descriptors that stands at `base`, none of whose buffers are ours.
    pub fn new(parts: Parts, size: u16, events: bool, base: Base) -> Self {
        let kind = match base {
            Base::Split(_) => Kind::Split(Split::new(parts, size, events), None),
            Base::Packed { available, used } => {
                Kind::Packed(Packed::new(parts, size, events, available, used), None)
            }
        };
        Self { kind, lent: vec![0; size.into()].into(), again: 0, places: None, wished: true }
    }

    /// How many bytes a ring's record has.
    pub const fn record_len(size: u16, packed: bool) -> usize {
        use super::record::{packed, split};
        let [header, state] =
            if packed { [packed::HEADER, packed::STATE] } else { [split::HEADER, split::STATE] };
        header + state * size as usize
    }

    /// Goes on as `record` says, and keeps it from now on: see [`record`](super::record). What was
    /// taken and not given back is taken again first; but of a ring that is used `in_order`, it is
    /// where it was.
    ///
    /// # Panics
    ///
    /// If the record is shorter than [`record_len`](Self::record_len).
    pub fn recorded(mut self, record: Span, in_order: bool) -> Self {
        assert!(record.len() >= Self::record_len(self.size(), self.is_packed()));
        match &mut self.kind {
            // Its used index says all.
            Kind::Split(..) if in_order => {}
            Kind::Split(ring, kept) => {
                let record = SplitRecord::open(record, ring);
                self.again = record.again();
                ring.skip(self.again);
                *kept = Some(record);
            }
            Kind::Packed(ring, kept) => {
                let record = PackedRecord::open(record, ring, in_order);
                self.again = record.again();
                *kept = Some(record);
            }
        }
        self
    }

    /// Whether it is recorded what is taken from it.
    pub fn is_recorded(&self) -> bool {
        matches!(self.kind, Kind::Split(_, Some(_)) | Kind::Packed(_, Some(_)))
    }

    /// Where it stands, when everything that was taken is given back.
    ///
    /// Should there be something that was to be taken again, only its record knows.
    pub fn base(&self) -> Base {
        match &self.kind {
            Kind::Split(ring, _) => Base::Split(ring.used()),
            Kind::Packed(ring, _) => {
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
        matches!(self.kind, Kind::Packed(..))
    }

    /// Takes the next chain that is available, if there is one; into `chain` if it has not only one
    /// buffer.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]: the ring is not to be used any more.
    #[inline(always)]
    pub fn take(
        &mut self,
        memory: &GuestMemory,
        chain: &mut Chain,
    ) -> Result<Option<Head>, Corrupt> {
        if let Kind::Split(ring, record) = &mut self.kind
            && self.again == 0
        {
            if ring.available()? == 0 {
                return Ok(None);
            }
            let head = chain.read_split(ring, ring.head()?, memory);
            lend(&mut self.lent, head.id, chain.descriptors)?;
            ring.take(1);
            if let Some(record) = record {
                record.mark(head.id);
            }
            return Ok(Some(head));
        }
        let other = self.take_other(memory, chain)?;
        #[expect(
            clippy::map_identity,
            reason = "comes back in memory; taken apart, what does not stays in registers: 8 % of the switch"
        )]
        Ok(other.map(|Head { id, only }| Head { id, only }))
    }

    /// Of a packed ring, or what is to be taken again.
    #[inline(never)]
    fn take_other(
        &mut self,
        memory: &GuestMemory,
        chain: &mut Chain,
    ) -> Result<Option<Head>, Corrupt> {
        if self.again > 0 {
            return self.take_again(memory, chain);
        }
        let Kind::Packed(ring, record) = &mut self.kind else {
            unreachable!("what a split ring has is taken by `take`")
        };
        if !ring.is_available() {
            return Ok(None);
        }
        let head = chain.read_packed(ring, memory)?;
        ring.lend(head.id, chain.descriptors)?;
        lend(&mut self.lent, head.id, chain.descriptors)?;
        if let Some(record) = record {
            record.mark(ring, head.id, chain.descriptors)?;
        }
        ring.take(chain.descriptors);
        Ok(Some(head))
    }

    /// Takes a chain that was taken before, by whoever was here before us.
    #[cold]
    fn take_again(
        &mut self,
        memory: &GuestMemory,
        chain: &mut Chain,
    ) -> Result<Option<Head>, Corrupt> {
        self.again -= 1;
        let head = match &mut self.kind {
            Kind::Split(ring, Some(record)) => {
                let head = record.take_again().expect("it was counted");
                chain.read_split(ring, head, memory)
            }
            Kind::Packed(ring, Some(record)) => {
                let marked = record.take_again().expect("it was counted");
                chain.read_again(record.descriptors(marked).map(|(it, _)| it), memory);
                ring.lend(marked.id, chain.descriptors)?;
                Head { id: marked.id, only: None }
            }
            _ => unreachable!("only a record tells of chains to be taken again"),
        };
        lend(&mut self.lent, head.id, chain.descriptors)?;
        Ok(Some(head))
    }

    /// Puts back what was taken last, as if it had not been: chains by their ids, the last one
    /// first.
    pub fn untake(&mut self, id: u16) {
        let descriptors = std::mem::take(&mut self.lent[usize::from(id)]);
        match &mut self.kind {
            Kind::Split(ring, _) => ring.untake(1),
            Kind::Packed(ring, record) => {
                ring.untake(descriptors);
                if let Some(record) = record {
                    record.unmark(id);
                }
            }
        }
    }

    /// Gives a chain back, of whose buffers `len` bytes were written. The driver does not see it
    /// before [`publish`](Self::publish).
    #[inline(always)]
    pub fn give_back(&mut self, id: u16, len: u32) {
        let descriptors = std::mem::take(&mut self.lent[usize::from(id)]);
        debug_assert_ne!(descriptors, 0, "chain {id} is given back once");
        match &mut self.kind {
            Kind::Split(ring, record) => {
                ring.give_back(id, len);
                if let Some(record) = record {
                    record.give_back(id);
                }
            }
            Kind::Packed(ring, record) => give_back_packed(ring, record, id, descriptors, len),
        }
    }

    /// Where to log what is written to the ring itself, if anybody does.
    pub fn log_at(&mut self, places: Option<Places>) {
        self.places = places;
    }

    /// Shows the driver what was given back. Whether it wants to be interrupted for it.
    #[inline]
    pub fn publish<Log: Written>(&mut self, log: &mut Log) -> bool {
        match self.places {
            Some(places) if Log::IS_KEPT => self.publish_logged(places, log),
            _ => self.show(),
        }
    }

    /// Marks are made when what they are about was written, and seen by the driver before or after,
    /// as it comes.
    #[cold]
    fn publish_logged(&mut self, places: Places, log: &mut impl Written) -> bool {
        let mut note =
            |part: u64, (at, len): (usize, usize)| log.note(part + at as u64, len as u64);
        let wished = std::mem::take(&mut self.wished);
        match &self.kind {
            Kind::Split(ring, _) => {
                let (unshown, wish) = (ring.unshown(), ring.wish());
                let wanted = self.show();
                unshown
                    .into_iter()
                    .chain(wished.then_some(wish))
                    .for_each(|run| note(places.device, run));
                wanted
            }
            Kind::Packed(ring, _) => {
                let unshown = ring.unshown();
                let wanted = self.show();
                unshown.into_iter().for_each(|run| note(places.descriptors, run));
                if wished {
                    note(places.device, (0, 4));
                }
                wanted
            }
        }
    }

    #[inline]
    fn show(&mut self) -> bool {
        // What lies in the buffers is seen before the ring says so.
        stream::settle();
        match &mut self.kind {
            Kind::Split(ring, None) => ring.publish(),
            Kind::Packed(ring, None) => ring.publish(),
            Kind::Split(ring, Some(record)) => {
                record.begin();
                let wanted = ring.publish();
                record.finish(ring.used());
                wanted
            }
            Kind::Packed(ring, Some(record)) => {
                let [_, used] = ring.turns();
                record.begin(used);
                let wanted = ring.publish();
                record.finish(used);
                wanted
            }
        }
    }

    /// Asks the driver to notify us of what is available next. Whether something is already, of
    /// which it may not.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]
    pub fn wait(&mut self) -> Result<bool, Corrupt> {
        self.wished = true;
        let ready = match &mut self.kind {
            Kind::Split(ring, _) => ring.wait()?,
            Kind::Packed(ring, _) => ring.wait(),
        };
        Ok(ready || self.again > 0)
    }

    /// Tells the driver to notify nobody until somebody asks for it.
    pub fn leave(&mut self) {
        self.wished = true;
        match &mut self.kind {
            Kind::Split(ring, _) => ring.leave(),
            Kind::Packed(ring, _) => ring.leave(),
        }
    }

    /// Tells the driver that we look by ourselves.
    #[inline]
    pub fn be_silent(&mut self) {
        self.wished |= match &mut self.kind {
            Kind::Split(ring, _) => ring.be_silent(),
            Kind::Packed(ring, _) => ring.be_silent(),
        };
    }
}

#[inline(never)]
fn give_back_packed(
    ring: &mut Packed,
    record: &mut Option<PackedRecord>,
    id: u16,
    descriptors: u16,
    len: u32,
) {
    ring.give_back(id, descriptors, len);
    if let Some(record) = record {
        record.give_back(id);
    }
}

/// A chain is ours from now on.
#[inline(always)]
fn lend(lent: &mut [u16], id: u16, descriptors: u16) -> Result<(), Corrupt> {
    let lent = &mut lent[usize::from(id)];
    if *lent != 0 {
        return Err(Corrupt::Lent { head: id });
    }
    *lent = descriptors;
    Ok(())
}
