//! A network card from the guest's side: a front-end, and drivers that poll its rings and never
//! wait.
//!
//! ```text
//!   send ─▶ transmit ring ─▶ a switch ─▶ receive ring ─▶ receive
//! ```
//!
//! Buffers are used in turn. A sent frame stays in its buffer, so a traffic generator writes only
//! what changes. A received buffer is posted again at once. The card generates traffic for
//! measurements, so it must cost less than any switch.

use std::marker::PhantomData;
use std::time::Duration;

use wire::Offload;

use super::features::{Features, ProtocolFeatures};
use super::front::{FrontConfig, FrontEnd, FrontError};
use super::socket::Connection;
use super::vring::Base;
use crate::virtio::Parts;
use crate::virtio::driver::Driver;
use port::Span;

/// Frames begin at cache lines, as DPDK's do.
const LINE: usize = 64;

/// The minimum size of a buffer in cache lines. It is odd, so that consecutive frames are in
/// different sets of a cache.
const LINES: usize = 35;

/// Frames in one buffer each, without offloads: the cheapest for both sides.
const PLAIN: Features = Features::of(&[Features::VERSION_1, Features::PROTOCOL_FEATURES]);

/// Large TCP segments over IPv4 in both directions, each in one buffer.
const LARGE: Features = Features::of(&[
    Features::CSUM,
    Features::HOST_TSO4,
    Features::GUEST_CSUM,
    Features::GUEST_TSO4,
]);

const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;

/// The settings of a card.
#[derive(Clone, Copy, Debug)]
pub struct NicConfig {
    /// The descriptors of each ring, a power of two. Each has a buffer.
    pub ring: u16,
    /// The longest frame in bytes.
    pub longest: usize,
    /// Whether it sends and accepts TCP segments over IPv4 with segmentation and checksum offload.
    pub offload: bool,
    /// Whether memory is in huge pages.
    pub huge: bool,
    /// The longest time to wait for an answer of the back-end.
    pub timeout: Duration,
}

/// A card.
#[derive(Debug)]
pub struct Nic {
    /// The features that its frames need.
    needs: Features,
    /// The length of sent buffers in bytes.
    sent: u32,
    receive: Driver,
    transmit: Driver,
    // Declared behind the drivers, which use its memory, so that it is dropped last.
    front: FrontEnd,
}

/// A frame in a card's memory.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    bytes: Span,
    card: PhantomData<&'a Nic>,
}

impl NicConfig {
    /// The features to negotiate.
    fn features(&self) -> Features {
        if self.offload { Features::of(&[PLAIN, LARGE]) } else { PLAIN }
    }

    /// The distance between buffers in bytes.
    fn stride(&self) -> usize {
        let lines = (Offload::LEN + self.longest).div_ceil(LINE).max(LINES);
        LINE * (lines | 1)
    }

    /// The bytes of one ring's buffers, including the padding before the first that aligns frames
    /// to cache lines.
    fn room(&self) -> usize {
        LINE + usize::from(self.ring) * self.stride()
    }

    /// An upper bound of its memory in bytes.
    pub fn bytes(&self) -> u64 {
        let rings: usize =
            Parts::lens(self.ring, false).iter().map(|len| len.next_multiple_of(4096)).sum();
        2 * (rings + self.room()) as u64
    }
}

impl Nic {
    /// A card without a connection. All receive buffers are posted.
    ///
    /// # Errors
    ///
    /// [`FrontError::Resource`]
    pub fn new(config: &NicConfig) -> Result<Self, FrontError> {
        let front = FrontEnd::new(FrontConfig {
            features: config.features(),
            protocol: ProtocolFeatures::REPLY_ACK,
            queue_pairs: 1,
            queue_size: config.ring,
            buffers: 2 * config.room() as u64,
            huge: config.huge,
            timeout: config.timeout,
        })?;
        let driver = |ring: usize| {
            let at = |offset: u64| {
                let (bytes, address) =
                    front.memory(offset).expect("the memory was made for the rings and buffers");
                // SAFETY: it is mapped until the front-end is dropped, which the card does after
                // the drivers; of what leads to it, only `Frame` leaves the card, which it
                // outlives.
                #[expect(unsafe_code, reason = "memory that a switch shares is reached by pointer")]
                let span = unsafe { Span::new(bytes.start, bytes.len) };
                (span, address)
            };
            let [descriptors, used, available] =
                front.rings()[ring].offsets.map(|offset| at(offset).0);
            let parts = Parts::new([descriptors, available, used], config.ring, false);
            let before = LINE - Offload::LEN;
            let (buffers, address) = at(front.buffers() + (ring * config.room() + before) as u64);
            let (buffers, _) = buffers.split(config.room() - LINE);
            let parts = parts.expect("the front-end places rings as the specification has them");
            Driver::new(parts, buffers, config.ring, address, ring == RECEIVE)
        };
        let [mut receive, transmit] = [RECEIVE, TRANSMIT].map(driver);
        while let Some(number) = receive.take() {
            receive.give(number, None);
        }
        receive.publish();
        Ok(Self { needs: config.features(), sent: 0, receive, transmit, front })
    }

    /// Connects the card to a switch.
    ///
    /// # Errors
    ///
    /// [`FrontError`]; [`FrontError::Features`] if the switch does not offer the features that the
    /// card needs.
    pub fn connect(&mut self, connection: Connection) -> Result<(), FrontError> {
        let done = self.front.connect(connection).and_then(|()| {
            let missing = self.needs.without(self.front.features().0);
            if missing != Features::default() {
                return Err(FrontError::Features(missing));
            }
            self.front.start(&[Base::Split(0); 2])
        });
        // A back-end that has refused a request may keep the connection open. It connects again
        // only when this one is closed.
        done.inspect_err(|_| self.front.disconnect())
    }

    /// Writes a frame of `len` bytes with these offloads into each transmit buffer. `fill` gets the
    /// buffer's number. All sent buffers must have been returned.
    ///
    /// # Panics
    ///
    /// If they were not, or a frame exceeds the configured length.
    pub fn prepare(&mut self, len: usize, offload: Offload, mut fill: impl FnMut(u16, Frame<'_>)) {
        self.transmit.collect(|_, _, _| ());
        self.transmit.sort();
        let places = self.transmit.places();
        assert_eq!(self.transmit.free(), usize::from(places), "frames are still on their way");
        for number in 0..places {
            let buffer = self.transmit.buffer(number);
            assert!(Offload::LEN + len <= buffer.len(), "a frame of {len} bytes does not fit");
            buffer.write(&offload.emit());
            fill(number, Frame::of(buffer));
        }
        self.sent = (Offload::LEN + len) as u32;
    }

    /// Sends up to `most` frames from free buffers. `stamp` may change each before; it gets the
    /// buffer's number. Returns how many were sent.
    #[inline]
    pub fn send(&mut self, most: usize, mut stamp: impl FnMut(u16, Frame<'_>)) -> usize {
        let mut sent = 0;
        while sent < most
            && let Some(number) = self.transmit.take()
        {
            stamp(number, Frame::of(self.transmit.buffer(number)));
            self.transmit.give(number, Some(self.sent));
            sent += 1;
        }
        sent + self
            .transmit
            .again(most - sent, |driver, number, _| stamp(number, Frame::of(driver.buffer(number))))
    }

    /// Receives up to `most` frames, and passes each with its length to `look`. Returns how many
    /// were received.
    #[inline]
    pub fn receive(&mut self, most: usize, mut look: impl FnMut(Frame<'_>, usize)) -> usize {
        self.receive.again(most, |driver, number, len| {
            look(Frame::of(driver.buffer(number)), (len as usize).saturating_sub(Offload::LEN));
        })
    }

    /// Publishes sent and posted buffers to the switch.
    #[inline]
    pub fn publish(&mut self) {
        for (ring, driver) in [&mut self.receive, &mut self.transmit].into_iter().enumerate() {
            if driver.publish() {
                // If the counter is at its maximum, the switch will look anyway (eventfd(2)).
                let _ = rustix::io::write(&self.front.rings()[ring].kick, &1_u64.to_ne_bytes());
            }
        }
    }

    /// The number of sent buffers that the switch has not returned.
    pub fn on_their_way(&self) -> usize {
        self.transmit.lent()
    }
}

impl Frame<'_> {
    /// The frame in a buffer.
    #[inline]
    fn of(buffer: Span) -> Self {
        Self { bytes: buffer.split(Offload::LEN).1, card: PhantomData }
    }

    /// Overwrites bytes at an offset by rewriting the whole cache line past the caches, as a sender
    /// that builds each frame from scratch may do.
    #[inline]
    pub fn rewrite<const N: usize>(&self, at: usize, bytes: &[u8; N]) {
        self.bytes.rewrite(at, bytes);
    }

    /// Overwrites bytes at an offset, as far as they are inside the buffer.
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.bytes.split(at).1.write(bytes);
    }

    /// Copies bytes from an offset, as far as they are inside the buffer.
    #[inline]
    pub fn read<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        self.bytes.split(at).1.read(&mut bytes);
        bytes
    }
}
