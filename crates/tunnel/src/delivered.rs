//! Frames of one stream that were delivered, and how far the receiver has consumed them.

use alloc::collections::{BTreeMap, VecDeque};

use crate::exchange::Epoch;
use crate::message::Stream;

/// Delivered frames of one epoch of one stream, without gaps.
#[derive(Clone, Debug, Default)]
pub struct Delivered {
    /// All before this offset is consumed.
    consumed: u64,
    /// Frames behind it, in order: where each ends, and whether it is consumed.
    frames: VecDeque<(u64, bool)>,
}

impl Delivered {
    /// All before this offset is consumed.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// All before this offset is delivered.
    pub fn end(&self) -> u64 {
        self.frames.back().map_or(self.consumed, |(end, _)| *end)
    }

    /// Whether all is consumed.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Delivers the next frame, of `len` bytes.
    pub fn push(&mut self, len: u16) {
        self.frames.push_back((self.end() + u64::from(len), false));
    }

    /// Skips to `offset`: what is missing before it counts as consumed.
    pub fn skip_to(&mut self, offset: u64) {
        if offset > self.end() {
            self.frames.push_back((offset, true));
            self.settle();
        }
    }

    /// The receiver has consumed the frame at `offset`, or has refused it. Repetitions have no
    /// effect.
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

    /// Where the frame at `offset` ends, if it is delivered and not consumed.
    pub fn end_of(&self, offset: u64) -> Option<u64> {
        let place = self.frames.partition_point(|(end, _)| *end <= offset);
        let begin = place.checked_sub(1).map_or(self.consumed, |before| self.frames[before].0);
        let (end, is_taken) = self.frames.get(place)?;
        (begin == offset && !is_taken).then_some(*end)
    }

    fn settle(&mut self) {
        while let Some((end, true)) = self.frames.front() {
            self.consumed = *end;
            self.frames.pop_front();
        }
    }
}

/// Frames delivered in earlier epochs and not consumed: they still fill receivers' windows.
#[derive(Clone, Debug, Default)]
pub struct Leftover(BTreeMap<(Stream, Epoch), Delivered>);

impl Leftover {
    /// Keeps what was delivered in an epoch that is over.
    pub fn keep(&mut self, stream: Stream, epoch: Epoch, delivered: Delivered) {
        if !delivered.is_empty() {
            self.0.insert((stream, epoch), delivered);
        }
    }

    /// The receiver has consumed the frame at `offset` of that epoch.
    pub fn consume(&mut self, stream: Stream, epoch: Epoch, offset: u64) {
        if let Some(delivered) = self.0.get_mut(&(stream, epoch)) {
            delivered.consume(offset);
            if delivered.is_empty() {
                self.0.remove(&(stream, epoch));
            }
        }
    }

    /// Bytes of all earlier epochs that wait for the stream's receiver.
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
                for (place, (begin, is_taken)) in frames.iter().enumerate() {
                    let end = frames.get(place + 1).map_or(delivered.end(), |(begin, _)| *begin);
                    prop_assert_eq!(delivered.end_of(*begin), (!is_taken).then_some(end));
                    prop_assert_eq!(delivered.end_of(end + 60), None);
                }
                let first = frames.iter().find(|(_, is_taken)| !is_taken);
                prop_assert_eq!(delivered.consumed(), first.map_or(delivered.end(), |(begin, _)| *begin));
                prop_assert_eq!(delivered.is_empty(), first.is_none());
            }
        }
    }
}
