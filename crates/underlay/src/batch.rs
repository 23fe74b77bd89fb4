//! Batches of datagrams that one system call sends: consecutive datagrams of one length for one
//! host.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::large::Cut;
use super::marking::Marking;

/// The longest payload of a datagram, in bytes: 65,535 less the headers of UDP and IPv4 (RFC 768,
/// RFC 791).
pub const LONGEST: usize = 65_507;

/// The most datagrams that the kernel cuts from one packet (UDP_MAX_SEGMENTS before Linux 6.11).
const MOST_DATAGRAMS: usize = 64;

/// The most that may wait in a queue, in bytes and in batches. Each batch has memory for the
/// longest.
const MOST_QUEUED: usize = 256 << 10;
const MOST_BATCHES: usize = 64;

/// Among how many of the newest batches one is looked for that another datagram may join.
const LOOK_BACK: usize = 16;

/// The length of a datagram's payload, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Len {
    /// Exactly this.
    Exactly(usize),
    /// At least this: it may be padded with zeros, because the receiver knows where it ends. So
    /// longer datagrams can join its batch.
    AtLeast(usize),
}

/// The send queue of one socket.
#[derive(Debug)]
pub struct Queue {
    /// Whether the kernel cuts one packet into several datagrams (UDP_SEGMENT).
    joins: bool,
    batches: VecDeque<Batch>,
    /// Buffers of sent batches, for reuse.
    spare: Vec<Box<[u8]>>,
    len: usize,
    /// The most that may wait, in bytes.
    most: usize,
    /// The most bytes of a batch, unless its first datagram alone has more.
    most_batch: usize,
}

/// Padding may make up at most a 64th of a batch.
const PADDING: usize = 64;

/// Datagrams of one length. The last may be shorter.
#[derive(Debug)]
pub struct Batch {
    /// The destination.
    pub to: IpAddr,
    /// The marking of their packets.
    pub marking: Marking,
    segment: usize,
    len: usize,
    /// How many of these bytes are padding.
    padding: usize,
    /// Whether the last datagram may be padded.
    is_open: bool,
    /// It is a single datagram that no other may join.
    is_alone: bool,
    /// How the network card cuts it, if it does.
    pub cut: Option<Cut>,
    /// Room for the longest batch; the datagrams are at the front.
    buffer: Box<[u8]>,
}

impl Queue {
    /// An empty queue. `joins`: the kernel can cut one packet into several datagrams.
    pub fn new(joins: bool) -> Self {
        Self {
            joins,
            batches: VecDeque::new(),
            spare: Vec::new(),
            len: 0,
            most: MOST_QUEUED,
            most_batch: LONGEST,
        }
    }

    /// Bounds what may wait, and batches of several datagrams, in bytes.
    pub fn bound(&mut self, most: usize, most_batch: usize) {
        self.most = most.min(MOST_QUEUED);
        self.most_batch = most_batch.min(LONGEST);
    }

    /// Whether there is room for another datagram.
    pub fn has_room(&self) -> bool {
        self.len < self.most && self.batches.len() < MOST_BATCHES
    }

    /// The number of waiting datagrams.
    pub fn datagrams(&self) -> usize {
        self.batches.iter().map(Batch::datagrams).sum()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Appends a datagram of `len` bytes. `write` must write all of them: the buffer's contents are
    /// undefined.
    ///
    /// # Panics
    ///
    /// If it has more than [`LONGEST`] bytes.
    pub fn push(&mut self, to: IpAddr, marking: Marking, len: Len, write: impl FnOnce(&mut [u8])) {
        let (Len::Exactly(bytes) | Len::AtLeast(bytes)) = len;
        assert!(bytes <= LONGEST, "a datagram of {bytes} bytes was to be sent");
        // The newest batch to the same place: so datagrams to one place stay in order, and those to
        // several places that take turns still leave together.
        let newest = self.batches.iter_mut().rev().take(LOOK_BACK).find(|batch| batch.to == to);
        let (joins, most) = (self.joins, self.most_batch);
        let last = newest.filter(|last| joins && !last.is_alone);
        let padding = last.as_ref().and_then(|last| last.takes(to, marking, bytes, most));
        let batch = match (last, padding) {
            (Some(last), Some(padding)) => {
                last.buffer[last.len..last.len + padding].fill(0);
                last.len += padding;
                last.padding += padding;
                self.len += padding;
                last
            }
            _ => self.begin(to, marking, bytes),
        };
        write(&mut batch.buffer[batch.len..batch.len + bytes]);
        batch.len += bytes;
        batch.is_open = matches!(len, Len::AtLeast(_));
        self.len += bytes;
    }

    /// As [`push`](Self::push), for a datagram that no other may join. `cut` says how the network
    /// card cuts it, if it does.
    ///
    /// # Panics
    ///
    /// If it has more than [`LONGEST`] bytes.
    pub fn push_large(
        &mut self,
        to: IpAddr,
        marking: Marking,
        len: usize,
        cut: Option<Cut>,
        write: impl FnOnce(&mut [u8]),
    ) {
        assert!(len <= LONGEST, "a datagram of {len} bytes was to be sent");
        let batch = self.begin(to, marking, len);
        (batch.cut, batch.is_alone) = (cut, true);
        write(&mut batch.buffer[..len]);
        batch.len = len;
        self.len += len;
    }

    fn begin(&mut self, to: IpAddr, marking: Marking, segment: usize) -> &mut Batch {
        let buffer = self.spare.pop().unwrap_or_else(|| vec![0; LONGEST].into());
        let (len, padding, cut) = (0, 0, None);
        let (is_open, is_alone) = (false, false);
        self.batches.push_back_mut(Batch {
            to,
            marking,
            segment,
            len,
            padding,
            is_open,
            is_alone,
            cut,
            buffer,
        })
    }

    /// Sends batches in order until `send` returns false. Returns whether all were sent.
    pub fn drain(&mut self, mut send: impl FnMut(&Batch) -> bool) -> bool {
        while let Some(batch) = self.batches.pop_front_if(|batch| send(batch)) {
            self.len -= batch.len;
            self.spare.push(batch.buffer);
        }
        self.is_empty()
    }
}

impl Batch {
    /// Whether a datagram of this length may join, if the batch may have `most` bytes. Returns how
    /// much padding the last one needs.
    fn takes(&self, to: IpAddr, marking: Marking, len: usize, most: usize) -> Option<usize> {
        let padding = self.len.next_multiple_of(self.segment) - self.len;
        let is_little = (self.padding + padding) * PADDING <= self.len;
        let takes = (to, marking) == (self.to, self.marking)
            && len <= self.segment
            && (padding == 0 || self.is_open && is_little)
            && self.len + padding + len <= most
            && self.datagrams() < MOST_DATAGRAMS;
        takes.then_some(padding)
    }

    /// The number of datagrams.
    pub fn datagrams(&self) -> usize {
        self.len.div_ceil(self.segment)
    }

    /// The length of each datagram, in bytes.
    pub fn segment(&self) -> u16 {
        self.segment as u16
    }

    /// All datagrams.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;
    use units::Class;

    use super::*;

    fn marking((traffic_class, class): (u8, u8)) -> Marking {
        Marking { traffic_class, class: Class::from_low_bits(class) }
    }

    proptest! {
        #[test]
        fn datagrams_to_each_place_are_sent_as_they_were_queued(
            sent in prop::collection::vec(
                (0..3_u8, (0..2_u8, 0..2_u8), prop_oneof![4 => Just(1400), 1 => 1..1500_usize, 1 => Just(40_000)], any::<bool>()),
                0..300,
            ),
            stops in 0..5_usize,
            joins: bool,
        ) {
            let host = |number| IpAddr::V4(Ipv4Addr::new(10, 0, 0, number));
            let mut queue = Queue::new(joins);
            for (to, class, len, is_open) in &sent {
                let wanted = if *is_open { Len::AtLeast(*len) } else { Len::Exactly(*len) };
                queue.push(host(*to), marking(*class), wanted, |bytes| bytes.fill(7));
            }
            let (mut left, mut stops) = (Vec::new(), stops);
            loop {
                let all = queue.drain(|batch| {
                    if stops > 0 {
                        stops -= 1;
                        return false;
                    }
                    assert!(batch.datagrams() <= MOST_DATAGRAMS && batch.bytes().len() <= LONGEST);
                    let padding = batch.bytes().iter().filter(|byte| **byte == 0).count();
                    assert!(padding * PADDING <= batch.bytes().len());
                    let datagrams = batch.bytes().chunks(batch.segment().into());
                    left.extend(datagrams.map(|bytes| (batch.to, batch.marking, bytes.to_vec())));
                    true
                });
                if all {
                    break;
                }
            }
            prop_assert_eq!((left.len(), queue.len), (sent.len(), 0));
            // Stable: those to one place stay in order.
            let mut sent = sent;
            sent.sort_by_key(|(to, ..)| *to);
            left.sort_by_key(|(to, ..)| *to);
            for ((to, class, len, is_open), (left_to, left_marking, bytes)) in sent.iter().zip(left) {
                prop_assert_eq!((left_to, left_marking), (host(*to), marking(*class)));
                prop_assert!(bytes.len() == *len || *is_open && bytes.len() > *len);
                let (own, padding) = bytes.split_at(*len);
                prop_assert!(own.iter().all(|byte| *byte == 7) && padding.iter().all(|byte| *byte == 0));
            }
        }

        #[test]
        fn a_datagram_that_is_a_little_shorter_is_padded(frames in 2..4_usize, rest in 700..1400_usize) {
            let to = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
            let mut queue = Queue::new(true);
            for _ in 0..frames {
                let lens = std::iter::repeat_n(1400, 14).chain([rest]);
                lens.for_each(|len| queue.push(to, marking((0, 0)), Len::AtLeast(len), |bytes| bytes.fill(7)));
            }
            let mut batches = 0;
            queue.drain(|_| {
                batches += 1;
                true
            });
            let padding = 1400 - rest;
            let is_little = padding * PADDING <= 14 * 1400 + rest;
            prop_assert_eq!(batches == 1, is_little || padding == 0);
        }
    }
}
