//! A guest's empty buffers: where it takes frames.

use wire::Offload;

use super::Corrupt;
use super::chain::{Buffer, Chain, Head};
use super::log::{Places, Written};
use super::memory::GuestMemory;
use super::ring::Ring;
use port::Span;
use port::{FrameView, Taken};

/// How many chains are taken ahead, so that their memory is at hand when a frame comes. A frame may
/// take so many: 64 KiB in buffers of 1 KiB.
const AHEAD: usize = 64;

/// A cache line, and half of one, in bytes.
const LINE: usize = 64;
const HALF: usize = LINE / 2;

/// How far ahead of the chain that is written the processor fetches.
const FETCH: usize = 16;

/// The ring by which a guest receives.
#[derive(Debug)]
pub struct Inbox {
    ring: Ring,
    /// A frame may take several chains (MRG_RXBUF).
    mergeable: bool,
    /// Chains that were taken: those at `first..last`, modulo their number.
    chains: Box<[Head; AHEAD]>,
    /// In the same places those that have not only one buffer.
    long: Box<[Chain]>,
    /// Where chains are read.
    chain: Box<Chain>,
    /// How many can be at hand: a frame that takes more never fits.
    most: usize,
    first: usize,
    last: usize,
    /// There were too few buffers for the last frame.
    short: bool,
}

impl Inbox {
    /// Takes buffers from this ring.
    pub fn new(ring: Ring, mergeable: bool) -> Self {
        let chain = || Chain::new(ring.is_packed(), true);
        Self {
            mergeable,
            chains: Box::new([Head { id: 0, only: None }; AHEAD]),
            long: (0..AHEAD).map(|_| chain()).collect(),
            chain: Box::new(chain()),
            most: AHEAD.min(ring.size().into()),
            first: 0,
            last: 0,
            short: false,
            ring,
        }
    }

    /// Hands a frame over: one copy. `Busy`: there are no buffers for it at the moment; `Unfit`:
    /// its buffers are too short.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]
    #[inline(always)]
    pub fn put<Log: Written>(
        &mut self,
        memory: &GuestMemory,
        frame: &FrameView<'_>,
        log: &mut Log,
    ) -> Result<Taken, Corrupt> {
        // Half of them are replaced while there still is the other half, which gives the processor
        // time to fetch.
        let left = self.last - self.first;
        if left == 0 || left <= AHEAD / 2 && self.first.is_multiple_of(AHEAD / 2) {
            self.fill(memory)?;
        }
        if self.first == self.last {
            self.short = true;
            return Ok(Taken::Busy);
        }
        let len = Offload::LEN + frame.len();
        let (this, ahead) = (self.first % AHEAD, (self.first + FETCH) % AHEAD);
        if self.last - self.first > FETCH
            && let Some(Buffer { span, .. }) = self.chains[ahead].only
        {
            // Its header; the lines of the frame are not fetched to be overwritten.
            span.fetch_to_write(1);
        }
        if let Head { id, only: Some(Buffer { span, address }) } = self.chains[this]
            && span.len() >= len
        {
            write_one::<Log>(span, frame);
            log.note(address, len as u64);
            self.ring.give_back(id, len as u32);
            self.first += 1;
            return Ok(Taken::Yes);
        }
        self.put_in_pieces(memory, frame, len, log)
    }

    /// Shows the guest what it got. Whether it wants to be interrupted for it.
    #[inline]
    pub fn publish(&mut self, log: &mut impl Written) -> bool {
        self.ring.publish(log)
    }

    /// Asks the guest to tell of buffers, if there were too few for the last frame. Whether there
    /// are some by now.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]
    pub fn arm(&mut self) -> Result<bool, Corrupt> {
        if self.short { self.ring.wait() } else { Ok(false) }
    }

    /// Tells the guest that we look by ourselves again.
    pub fn disarm(&mut self) {
        self.ring.be_silent();
    }

    /// Where to log what is written to the ring itself, if anybody does.
    pub fn log_at(&mut self, places: Option<Places>) {
        self.ring.log_at(places);
    }

    /// Gives back what was taken ahead, as if it had not been, and the ring.
    pub fn close(mut self) -> Ring {
        while self.last > self.first {
            self.last -= 1;
            self.ring.untake(self.chains[self.last % AHEAD].id);
        }
        self.ring
    }

    /// Takes as many chains as there is room for.
    #[inline(never)]
    fn fill(&mut self, memory: &GuestMemory) -> Result<(), Corrupt> {
        // No more, whatever they are: a guest could make bad ones available as fast as they are
        // given back.
        let Self { ring, chain, chains, long, last, .. } = self;
        for _ in *last - self.first..AHEAD {
            let Some(head) = ring.take(memory, chain)? else { break };
            if head.only.is_none() {
                if chain.buffers().is_err() {
                    ring.give_back(head.id, 0);
                    continue;
                }
                long[*last % AHEAD].copy(chain);
            }
            chains[*last % AHEAD] = head;
            *last += 1;
            self.short = false;
        }
        Ok(())
    }

    /// A frame that lies in several buffers, or in those of several chains.
    #[inline(never)]
    fn put_in_pieces(
        &mut self,
        memory: &GuestMemory,
        frame: &FrameView<'_>,
        len: usize,
        log: &mut impl Written,
    ) -> Result<Taken, Corrupt> {
        let mut count = self.chains_for(len);
        if count.is_none() && self.mergeable {
            self.fill(memory)?;
            count = self.chains_for(len);
        }
        let Some(count) = count else {
            let is_all = !self.mergeable || self.last - self.first == self.most;
            self.short = !is_all;
            return Ok(if is_all { Taken::Unfit } else { Taken::Busy });
        };
        let header = header(frame, count as u16);
        let mut parts = Parts { header: &header, bytes: frame.bytes, rest: frame.rest, offset: 0 };
        for _ in 0..count {
            let mut written = 0;
            for Buffer { span, address } in self.buffers(self.first) {
                let put = parts.fill(*span);
                log.note(*address, put as u64);
                written += put;
            }
            self.ring.give_back(self.chains[self.first % AHEAD].id, written as u32);
            self.first += 1;
        }
        Ok(Taken::Yes)
    }

    /// The buffers of a chain that is at hand.
    fn buffers(&self, chain: usize) -> &[Buffer] {
        let place = chain % AHEAD;
        match &self.chains[place].only {
            Some(only) => std::slice::from_ref(only),
            None => self.long[place].buffers().unwrap_or_default(),
        }
    }

    /// How many of the chains at hand take so many bytes.
    fn chains_for(&self, len: usize) -> Option<usize> {
        let mut left = len;
        let most = if self.mergeable { self.last - self.first } else { 1 };
        for count in 0..most {
            let buffers = self.buffers(self.first + count);
            let room: usize = buffers.iter().map(|buffer| buffer.span.len()).sum();
            if room >= left {
                return Some(count + 1);
            }
            left -= room;
        }
        None
    }
}

/// Nothing is left to do, and the frame lies in one chain.
static PLAIN: [u8; Offload::LEN] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// The header that says what is left to do for the frame, which lies in `buffers` chains.
fn header(frame: &FrameView<'_>, buffers: u16) -> [u8; Offload::LEN] {
    let mut header = frame.note.map_or(PLAIN, |offload| offload.emit());
    header[Offload::LEN - 2..].copy_from_slice(&buffers.to_le_bytes());
    header
}

/// Writes header and frame to one buffer, which is long enough.
#[inline(always)]
fn write_one<Log: Written>(to: Span, frame: &FrameView<'_>) {
    let to = match frame.note {
        // As it lies there: were it put together first, reading it in larger pieces would wait for
        // all writes before it.
        None => to.append(&PLAIN),
        Some(_) => to.append(&header(frame, 1)),
    };
    // A log tells of what was written as soon as that is done, before it settles.
    if !Log::IS_KEPT
        && let ([rest], Ok(head)) = (frame.rest, frame.bytes.try_into())
    {
        to.stream(head, *rest);
        return;
    }
    // Of a frame of which all headers were looked at.
    if !Log::IS_KEPT
        && let Some((line, more)) = frame.bytes.split_first_chunk::<LINE>()
    {
        match (frame.rest, more.try_into()) {
            ([], _) if more.len() < HALF => {
                let _ = to.stream_line(line).append(more);
                return;
            }
            ([rest], Ok(head)) => return to.stream_line(line).stream(head, *rest),
            _ => {}
        }
    }
    let mut to = to.append(frame.bytes);
    for span in frame.rest {
        to = to.append_span(*span);
    }
}

/// What is left to be written of header and frame.
struct Parts<'a> {
    header: &'a [u8],
    bytes: &'a [u8],
    rest: &'a [Span],
    /// How much of the rest's first span is written.
    offset: usize,
}

impl Parts<'_> {
    /// Fills a buffer as far as there is something; returns how far.
    fn fill(&mut self, mut to: Span) -> usize {
        let room = to.len();
        for part in [&mut self.header, &mut self.bytes] {
            let done = to.write(part);
            *part = &part[done..];
            to = to.split(done).1;
        }
        while let Some((span, more)) = self.rest.split_first() {
            let done = to.write_span(span.split(self.offset).1);
            to = to.split(done).1;
            self.offset += done;
            if self.offset < span.len() {
                break;
            }
            (self.rest, self.offset) = (more, 0);
        }
        room - to.len()
    }
}
