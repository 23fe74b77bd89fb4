//! Datagrams that one system call sends: of one length, for one host, one behind the other.

use std::collections::VecDeque;
use std::net::IpAddr;

/// The longest payload of a datagram, in bytes: 65,535 less the headers of UDP and IPv4 (RFC 768, RFC 791).
pub const LONGEST: usize = 65_507;

/// The most datagrams that the kernel cuts from one packet (UDP_MAX_SEGMENTS before Linux 6.11).
const MOST_DATAGRAMS: usize = 64;

/// What may wait before nothing more is taken, in bytes, and in batches, which have memory for the longest.
const MOST_QUEUED: usize = 256 << 10;
const MOST_BATCHES: usize = 64;

/// What one socket has to send, in order.
#[derive(Debug)]
pub struct Queue {
    /// The kernel cuts one packet into several datagrams.
    joins: bool,
    batches: VecDeque<Batch>,
    /// Buffers of batches that are gone.
    spare: Vec<Box<[u8]>>,
    len: usize,
}

/// Datagrams of one length, of which the last may be shorter.
#[derive(Debug)]
pub struct Batch {
    /// Whom they are for.
    pub to: IpAddr,
    /// Their packets' traffic class.
    pub traffic_class: u8,
    segment: usize,
    len: usize,
    /// Room for the longest batch, whose first bytes they are.
    buffer: Box<[u8]>,
}

impl Queue {
    /// Nothing, of a socket whose kernel cuts one packet into several datagrams, or does not.
    pub fn new(joins: bool) -> Self {
        Self { joins, batches: VecDeque::new(), spare: Vec::new(), len: 0 }
    }

    /// Whether little enough waits that more may.
    pub fn has_room(&self) -> bool {
        self.len < MOST_QUEUED && self.batches.len() < MOST_BATCHES
    }

    /// Puts a datagram of so many bytes behind all others, which `write` writes: all of them, as there may be anything.
    ///
    /// # Panics
    ///
    /// If it has more than [`LONGEST`] bytes.
    pub fn push(&mut self, to: IpAddr, traffic_class: u8, len: usize, write: impl FnOnce(&mut [u8])) {
        assert!(len <= LONGEST, "a datagram of {len} bytes was to be sent");
        let batch = match self.batches.back_mut() {
            Some(last) if self.joins && last.takes(to, traffic_class, len) => last,
            _ => {
                let buffer = self.spare.pop().unwrap_or_else(|| vec![0; LONGEST].into());
                self.batches.push_back(Batch { to, traffic_class, segment: len, len: 0, buffer });
                self.batches.back_mut().expect("it was put there just now")
            }
        };
        write(&mut batch.buffer[batch.len..batch.len + len]);
        batch.len += len;
        self.len += len;
    }

    /// Has batches sent, one after the other, as long as `send` says that they were. Whether all were.
    pub fn drain(&mut self, mut send: impl FnMut(&Batch) -> bool) -> bool {
        while let Some(batch) = self.batches.pop_front_if(|batch| send(batch)) {
            self.len -= batch.len;
            self.spare.push(batch.buffer);
        }
        self.batches.is_empty()
    }
}

impl Batch {
    /// Whether a datagram of so many bytes may follow.
    fn takes(&self, to: IpAddr, traffic_class: u8, len: usize) -> bool {
        (to, traffic_class) == (self.to, self.traffic_class)
            && len <= self.segment
            && self.len.is_multiple_of(self.segment)
            && self.len + len <= LONGEST
            && self.datagrams() < MOST_DATAGRAMS
    }

    /// How many there are.
    pub fn datagrams(&self) -> usize {
        self.len.div_ceil(self.segment)
    }

    /// The length of each, in bytes.
    pub fn segment(&self) -> u16 {
        self.segment as u16
    }

    /// All of them.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn datagrams_leave_as_they_came(
            sent in prop::collection::vec((0..3_u8, 0..2_u8, prop_oneof![Just(1400), 1..1500_usize, Just(40_000)]), 0..300),
            stops in 0..5_usize,
            joins: bool,
        ) {
            let host = |number| IpAddr::V4(Ipv4Addr::new(10, 0, 0, number));
            let mut queue = Queue::new(joins);
            for (number, (to, class, len)) in sent.iter().enumerate() {
                queue.push(host(*to), *class, *len, |bytes| bytes[0] = number as u8);
            }
            prop_assert_eq!(queue.len, sent.iter().map(|(_, _, len)| len).sum::<usize>());
            let mut left = Vec::new();
            let mut stops = stops;
            loop {
                let all = queue.drain(|batch| {
                    if stops > 0 {
                        stops -= 1;
                        return false;
                    }
                    assert!(batch.datagrams() <= MOST_DATAGRAMS && batch.bytes().len() <= LONGEST);
                    let datagrams = batch.bytes().chunks(batch.segment().into());
                    left.extend(datagrams.map(|bytes| (bytes[0], batch.to, batch.traffic_class, bytes.len())));
                    true
                });
                if all {
                    break;
                }
            }
            let sent: Vec<_> =
                (0..).zip(&sent).map(|(number, (to, class, len))| (number as u8, host(*to), *class, *len)).collect();
            prop_assert_eq!(left, sent);
            prop_assert_eq!(queue.len, 0);
        }
    }
}
