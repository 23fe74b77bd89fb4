//! A guest: memory, and the rings in it.

use std::ptr::NonNull;

use port::Span;
use vhost::virtio::Parts;
use vhost::virtio::card::{Agreed, Card};
use vhost::virtio::driver::Driver;
use vhost::virtio::memory::{GuestMemory, Region};
use vhost::virtio::ring::{Base, Ring};

/// Where the guest's addresses begin.
pub const FIRST: u64 = 1 << 30;

/// Memory, given out from its beginning.
pub struct Guest {
    // Never looked at: only spans of it are.
    _bytes: Box<[u128]>,
    all: Span,
    used: usize,
}

impl Guest {
    pub fn new(len: usize) -> Self {
        let mut bytes = vec![0_u128; len.div_ceil(16)].into_boxed_slice();
        let start = NonNull::new(bytes.as_mut_ptr().cast()).unwrap();
        // SAFETY: the bytes live as long as the guest, in whose tests all spans of it are used.
        #[expect(unsafe_code, reason = "a guest's memory is shared")]
        let all = unsafe { Span::new(start, len) };
        Self { _bytes: bytes, all, used: 0 }
    }

    /// All of it.
    pub fn all(&self) -> Span {
        self.all
    }

    /// As the card sees it.
    pub fn memory(&self) -> GuestMemory {
        GuestMemory::new(vec![Region { address: FIRST, span: self.all }])
    }

    /// The next `len` bytes, and the guest's address of the first.
    pub fn take(&mut self, len: usize) -> (Span, u64) {
        let at = self.used.next_multiple_of(16);
        self.used = at + len;
        assert!(self.used <= self.all.len(), "the guest has {} bytes", self.all.len());
        (self.all.split(at).1.split(len).0, FIRST + at as u64)
    }

    /// Room for a ring.
    pub fn parts(&mut self, size: u16, packed: bool) -> Parts {
        let spans = Parts::lens(size, packed).map(|len| self.take(len).0);
        Parts::new(spans, size, packed).unwrap()
    }

    /// A split ring with a buffer of `len` bytes for each descriptor, from both sides.
    pub fn split(&mut self, size: u16, len: usize, writable: bool) -> (Driver, Ring) {
        let parts = self.parts(size, false);
        let (buffers, address) = self.take(usize::from(size) * len);
        let driver = Driver::new(parts, buffers, size, address, writable);
        (driver, Ring::new(parts, size, false, Base::Split(0)))
    }
}

/// A card with one pair of split rings, and the guest's ends: what it receives by, and what it
/// transmits by.
pub struct Plugged {
    pub card: Card,
    pub receive: Driver,
    pub transmit: Driver,
    // Last, so that nobody outlives it.
    pub guest: Guest,
}

pub fn plugged(size: u16, buffer: usize, agreed: Agreed) -> Plugged {
    let mut guest = Guest::new(4 * usize::from(size) * (buffer + 64) + 4096);
    let mut card = Card::new(1, size.into());
    let (receive, inbox) = guest.split(size, buffer, true);
    let (transmit, outbox) = guest.split(size, buffer, false);
    card.set_memory(guest.memory());
    card.start(0, inbox, agreed);
    card.start(1, outbox, agreed);
    Plugged { card, receive, transmit, guest }
}

/// A virtio header that says nothing, and a frame.
pub fn with_header(frame: &[u8]) -> Vec<u8> {
    [&[0; 12], frame].concat()
}

impl Plugged {
    /// Sends a frame, if there is a buffer.
    pub fn send(&mut self, bytes: &[u8]) -> Option<u16> {
        let number = self.transmit.take()?;
        assert_eq!(self.transmit.buffer(number).write(bytes), bytes.len());
        self.transmit.give(number, Some(bytes.len() as u32));
        self.transmit.publish();
        Some(number)
    }

    /// Posts every buffer that is free.
    pub fn post(&mut self) {
        while let Some(number) = self.receive.take() {
            self.receive.give(number, None);
        }
        self.receive.publish();
    }

    /// What came, header and frame in one, each as long as was said.
    pub fn collect(&mut self) -> Vec<Vec<u8>> {
        let mut came = Vec::new();
        self.receive.collect(|driver, number, len| {
            let mut bytes = vec![0; len as usize];
            assert_eq!(driver.buffer(number).read(&mut bytes), bytes.len());
            came.push(bytes);
        });
        came
    }
}
