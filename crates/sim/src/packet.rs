//! Packets on their way: one slab for all, so that a packet is a number of 32 bits.

use std::ops::{Index, IndexMut};

/// A packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Handle(u32);

impl Handle {
    /// No packet.
    pub(crate) const NONE: Self = Self(u32::MAX);

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Its number: no two packets at a time have the same.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What travels in one frame. What every hop reads comes first, and lies in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct Packet {
    /// Who is behind it in the one queue that it lies in.
    next: Handle,
    /// Its frame's length on a physical link, without preamble and gap.
    pub bytes: u32,
    /// The host it is for.
    pub host: u32,
    /// Drawn from its flow's ends: which of equal paths it takes.
    pub hash: u32,
    /// The port it came by into the switch it is in.
    pub input: u32,
    /// The machine it is for, by its number on the host.
    pub slot: u16,
    /// The lane of its class.
    pub lane: u8,
    /// Whether a queue may mark it rather than drop it.
    pub ecn_capable: bool,
    /// Whether one has (RFC 3168's CE).
    pub marked: bool,
    /// Its place in its flow, from 1.
    pub order: u32,
    pub load: Load,
}

/// What a frame carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// For a TCP endpoint.
    Segment { end: u32, segment: tcp::Segment },
    /// For a UDP flow.
    Datagram { flow: u32, bytes: u16 },
    /// For a host whose machines' congestion is controlled, from the host of the machine `from`.
    Report { from: u32, report: Report },
    /// For a host that grants credit, from the host of the machine `from`: its way was sent so far,
    /// and waits for more.
    Ask { from: u32, way: u32, sent: u64 },
    /// For such a host, from a switch: how much congestion a frame of this way met that was for the
    /// machine `from`, 1 to 63.
    Notice { from: u32, way: u32, feedback: u8 },
}

/// What a host tells a sender of what has arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Report {
    /// Of which way: see [`crate::congestion`].
    pub way: u32,
    /// Bytes, and those of them that were marked.
    pub bytes: u32,
    pub marked: u32,
    /// How far the way may be sent, where credit is granted.
    pub limit: u64,
}

/// All packets.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    slab: Vec<Packet>,
    /// The first place that is free; each leads to the next.
    free: Option<Handle>,
    /// How many were lost.
    lost: u64,
    /// Those of them that were datagrams, and that nobody was told of yet: of which flow, and how
    /// many bytes.
    lost_datagrams: Vec<(u32, u16)>,
}

impl Packets {
    #[inline]
    pub(crate) fn insert(&mut self, packet: Packet) -> Handle {
        match self.free {
            Some(handle) => {
                let place = &mut self[handle];
                let next = place.next;
                *place = packet;
                self.free = (!next.is_none()).then_some(next);
                // Packets seldom come alone.
                if let Some(next) = self.free {
                    prefetch::to_write(&raw const self[next]);
                }
                handle
            }
            None => {
                let handle = Handle(
                    u32::try_from(self.slab.len()).expect("four billion packets are under way"),
                );
                self.slab.push(packet);
                handle
            }
        }
    }

    /// A packet is lost.
    pub(crate) fn lose(&mut self, handle: Handle) {
        self.lost += 1;
        if let Load::Datagram { flow, bytes } = self[handle].load {
            self.lost_datagrams.push((flow, bytes));
        }
        self.remove(handle);
    }

    /// A datagram that was lost, once each: its flow and its bytes.
    #[inline]
    pub(crate) fn take_lost(&mut self) -> Option<(u32, u16)> {
        self.lost_datagrams.pop()
    }

    /// A packet has arrived.
    #[inline]
    pub(crate) fn remove(&mut self, handle: Handle) {
        let next = self.free.unwrap_or(Handle::NONE);
        self[handle].next = next;
        self.free = Some(handle);
    }

    /// How many there are.
    pub(crate) fn alive(&self) -> u64 {
        let free = std::iter::successors(self.free, |&handle| Queue::after(self, handle));
        (self.slab.len() - free.count()) as u64
    }

    /// How many were lost, whoever has booked them.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

impl Index<Handle> for Packets {
    type Output = Packet;

    #[inline]
    fn index(&self, Handle(place): Handle) -> &Packet {
        &self.slab[place as usize]
    }
}

impl IndexMut<Handle> for Packets {
    #[inline]
    fn index_mut(&mut self, Handle(place): Handle) -> &mut Packet {
        &mut self.slab[place as usize]
    }
}

impl Packet {
    /// Where it goes.
    #[inline]
    pub(crate) fn target(&self) -> Target {
        Target { host: self.host, slot: self.slot }
    }

    /// The same, of this place in its flow.
    #[inline]
    pub(crate) fn numbered(self, order: u32) -> Self {
        Self { order, ..self }
    }

    /// A frame on no way yet.
    pub(crate) fn new(
        bytes: u32,
        to: Target,
        hash: u32,
        lane: u8,
        ecn_capable: bool,
        load: Load,
    ) -> Self {
        Self {
            next: Handle::NONE,
            bytes,
            host: to.host,
            hash,
            input: u32::MAX,
            slot: to.slot,
            lane,
            ecn_capable,
            marked: false,
            order: 0,
            load,
        }
    }
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Target {
    /// The host's number.
    pub host: u32,
    /// The machine's on that host.
    pub slot: u16,
}

/// Packets in a row, first in, first out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    head: Handle,
    tail: Handle,
    /// Their frames' bytes.
    pub bytes: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Self { head: Handle::NONE, tail: Handle::NONE, bytes: 0 }
    }
}

impl Queue {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    #[inline]
    pub(crate) fn head(&self) -> Option<Handle> {
        (!self.head.is_none()).then_some(self.head)
    }

    #[inline]
    pub(crate) fn push(&mut self, packets: &mut Packets, handle: Handle) {
        let packet = &mut packets[handle];
        packet.next = Handle::NONE;
        self.bytes += u64::from(packet.bytes);
        if self.head.is_none() {
            self.head = handle;
        } else {
            packets[self.tail].next = handle;
        }
        self.tail = handle;
    }

    #[inline]
    pub(crate) fn pop(&mut self, packets: &Packets) -> Option<Handle> {
        let handle = self.head()?;
        let packet = &packets[handle];
        self.head = packet.next;
        self.bytes -= u64::from(packet.bytes);
        Some(handle)
    }

    /// The first packet, and the queue as it would be without it.
    #[inline]
    pub(crate) fn split(mut self, packets: &Packets) -> Option<(Handle, Self)> {
        let first = self.pop(packets)?;
        Some((first, self))
    }

    /// Who is behind a packet in whatever queue it lies in.
    #[inline]
    pub(crate) fn after(packets: &Packets, handle: Handle) -> Option<Handle> {
        let next = packets[handle].next;
        (!next.is_none()).then_some(next)
    }

    /// How many there are.
    pub(crate) fn len(&self, packets: &Packets) -> u64 {
        self.iter(packets).count() as u64
    }

    /// The packets, from the first on.
    pub(crate) fn iter<'a>(&self, packets: &'a Packets) -> impl Iterator<Item = Handle> + use<'a> {
        std::iter::successors(self.head(), |&handle| Self::after(packets, handle))
    }
}
