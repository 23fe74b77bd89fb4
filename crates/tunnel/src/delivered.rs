//! What was handed on of one stream, and how far its receiver has taken it.

use alloc::collections::{BTreeMap, VecDeque};

use crate::{Epoch, Stream};

/// Frames of one epoch of one stream, as places in it, without gaps.
#[derive(Clone, Debug, Default)]
pub struct Delivered {
    /// All before this is taken.
    consumed: u64,
    /// What is behind it, in order: where each ends, and whether it is taken, too.
    frames: VecDeque<(u64, bool)>,
}

impl Delivered {
    /// All before this is taken.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// All before this was handed on.
    pub fn end(&self) -> u64 {
        self.frames.back().map_or(self.consumed, |(end, _)| *end)
    }

    /// Whether all is taken.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The next frame, of so many bytes, is handed on.
    pub fn push(&mut self, len: u16) {
        self.frames.push_back((self.end() + u64::from(len), false));
    }

    /// Nothing will come before `offset` that was not handed on: it counts as taken.
    pub fn skip_to(&mut self, offset: u64) {
        if offset > self.end() {
            self.frames.push_back((offset, true));
            self.settle();
        }
    }

    /// The receiver has the frame that begins there, or never will. Once that is known, it changes nothing.
    pub fn consume(&mut self, offset: u64) {
        let place = self.frames.partition_point(|(end, _)| *end <= offset);
        let begin = place.checked_sub(1).map_or(self.consumed, |before| self.frames[before].0);
        if begin == offset
            && let Some((_, is_taken)) = self.frames.get_mut(place)
        {
            *is_taken = true;
            self.settle();
        }
    }

    fn settle(&mut self) {
        while let Some((end, true)) = self.frames.front() {
            self.consumed = *end;
            self.frames.pop_front();
        }
    }
}

/// What was handed on in epochs that are over, and is not taken: it stays the receivers', and takes their room.
#[derive(Clone, Debug, Default)]
pub struct Leftover(BTreeMap<(Stream, Epoch), Delivered>);

impl Leftover {
    /// An epoch is over, in which so much was handed on in a stream.
    pub fn keep(&mut self, stream: Stream, epoch: Epoch, delivered: Delivered) {
        if !delivered.is_empty() {
            self.0.insert((stream, epoch), delivered);
        }
    }

    /// The receiver has the frame that begins there in that epoch.
    pub fn consume(&mut self, stream: Stream, epoch: Epoch, offset: u64) {
        if let Some(delivered) = self.0.get_mut(&(stream, epoch)) {
            delivered.consume(offset);
            if delivered.is_empty() {
                self.0.remove(&(stream, epoch));
            }
        }
    }

    /// Bytes of all those epochs that wait for the stream's receiver.
    pub fn bytes(&self, stream: Stream) -> u64 {
        let epochs = self.0.range((stream, Epoch(0))..=(stream, Epoch(u32::MAX)));
        epochs.map(|(_, delivered)| delivered.end() - delivered.consumed()).sum()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_before_the_first_that_is_not_taken_is_taken(
            lens in prop::collection::vec((1_u16..5, any::<bool>()), 1..20),
            order in prop::collection::vec(0_u64..60, 0..40),
        ) {
            let mut delivered = Delivered::default();
            let mut frames = Vec::new();
            for (len, is_there) in lens {
                let begin = delivered.end();
                if is_there {
                    delivered.push(len);
                } else {
                    delivered.skip_to(begin + u64::from(len));
                }
                frames.push((begin, !is_there));
            }
            for offset in order {
                delivered.consume(offset);
                frames.iter_mut().filter(|(begin, _)| *begin == offset).for_each(|(_, is_taken)| *is_taken = true);
                let first = frames.iter().find(|(_, is_taken)| !is_taken);
                prop_assert_eq!(delivered.consumed(), first.map_or(delivered.end(), |(begin, _)| *begin));
                prop_assert_eq!(delivered.is_empty(), first.is_none());
            }
        }
    }
}
