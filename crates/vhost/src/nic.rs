//! A network card as its guest has it: a front-end, and drivers of its rings that poll and never
//! wait.
//!
//! ```text
//!   send ─▶ transmit ring ─▶ a switch ─▶ receive ring ─▶ receive
//! ```
//!
//! Buffers go round. A frame that was sent lies in its buffer until that is sent again, so a
//! generator writes only what changes; a buffer that was received is posted again at once. It is
//! made for traffic that switches are measured with, and must cost its maker less than any switch.

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

/// Frames begin at multiples of this, a cache line, as DPDK's do.
const LINE: usize = 64;

/// Lines that a buffer has at least: as much room as is usual, and an odd number, so that frames
/// that follow one another do not share the few places where a cache may keep them.
const LINES: usize = 35;

/// Frames neither merged nor offloaded: the cheapest for both sides.
const PLAIN: Features = Features::of(&[Features::VERSION_1, Features::PROTOCOL_FEATURES]);

/// Large TCP segments over IPv4, both ways, still neither merged: each lies in one buffer.
const LARGE: Features = Features::of(&[
    Features::CSUM,
    Features::HOST_TSO4,
    Features::GUEST_CSUM,
    Features::GUEST_TSO4,
]);

const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;

/// What a card is to be.
#[derive(Clone, Copy, Debug)]
pub struct NicConfig {
    /// Descriptors of each ring, a power of two, each with a buffer.
    pub ring: u16,
    /// Bytes of the longest frame.
    pub longest: usize,
    /// Sends and takes TCP segments over IPv4 of which cutting and summing are left to do.
    pub offload: bool,
    /// Memory in huge pages.
    pub huge: bool,
    /// How long to wait for each answer of the back-end at most.
    pub timeout: Duration,
}

/// A card.
#[derive(Debug)]
pub struct Nic {
    /// Without these its frames would mean something else.
    needs: Features,
    /// Bytes of a buffer that is sent.
    sent: u32,
    receive: Driver,
    transmit: Driver,
    // After the drivers, which use its memory.
    front: FrontEnd,
}

/// A frame in a card's memory.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    bytes: Span,
    card: PhantomData<&'a Nic>,
}

impl NicConfig {
    /// What must be agreed on.
    fn features(&self) -> Features {
        if self.offload { Features::of(&[PLAIN, LARGE]) } else { PLAIN }
    }

    /// Bytes from one buffer to the next.
    fn stride(&self) -> usize {
        let lines = (Offload::LEN + self.longest).div_ceil(LINE).max(LINES);
        LINE * (lines | 1)
    }

    /// Bytes of one ring's buffers, and of what is left out before the first so that frames begin
    /// with a line.
    fn room(&self) -> usize {
        LINE + usize::from(self.ring) * self.stride()
    }

    /// Bytes of memory that it takes, a little more than less.
    pub fn bytes(&self) -> u64 {
        let rings: usize =
            Parts::lens(self.ring, false).iter().map(|len| len.next_multiple_of(4096)).sum();
        2 * (rings + self.room()) as u64
    }
}

impl Nic {
    /// A card that is connected to nobody. Every buffer to receive by is posted.
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

    /// Hands the rings to a switch.
    ///
    /// # Errors
    ///
    /// [`FrontError`]; [`FrontError::Features`] if the switch does not take frames as this card has
    /// them.
    pub fn connect(&mut self, connection: Connection) -> Result<(), FrontError> {
        let done = self.front.connect(connection).and_then(|()| {
            let missing = self.needs.without(self.front.features().0);
            if missing != Features::default() {
                return Err(FrontError::Features(missing));
            }
            self.front.start(&[Base::Split(0); 2])
        });
        // A back-end that refused one thing may wait for another, and connects again only when this
        // has ended.
        done.inspect_err(|_| self.front.disconnect())
    }

    /// Puts a frame of `len` bytes, to which `offload` is still to be done, into each buffer to
    /// send by, whose number `fill` is told. All that was sent must be given back.
    ///
    /// # Panics
    ///
    /// If it was not, or a frame is longer than the longest.
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

    /// Sends at most `most` of the frames that lie in its buffers, as far as those are free, after
    /// `stamp` has changed them, which is told each buffer's number. Returns how many.
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

    /// Receives at most `most` frames; `look` is told of each, with its length. Returns how many.
    #[inline]
    pub fn receive(&mut self, most: usize, mut look: impl FnMut(Frame<'_>, usize)) -> usize {
        self.receive.again(most, |driver, number, len| {
            look(Frame::of(driver.buffer(number)), (len as usize).saturating_sub(Offload::LEN));
        })
    }

    /// Shows the switch what was sent and posted.
    #[inline]
    pub fn publish(&mut self) {
        for (ring, driver) in [&mut self.receive, &mut self.transmit].into_iter().enumerate() {
            if driver.publish() {
                // A counter at its top has a switch that will look anyway (eventfd(2)).
                let _ = rustix::io::write(&self.front.rings()[ring].kick, &1_u64.to_ne_bytes());
            }
        }
    }

    /// How many frames that it sent the switch has not given back.
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

    /// Overwrites bytes from a place on, as far as its buffer has them.
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.bytes.split(at).1.write(bytes);
    }

    /// Copies bytes out from a place on, as far as its buffer has them.
    #[inline]
    pub fn read<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        self.bytes.split(at).1.read(&mut bytes);
        bytes
    }
}
