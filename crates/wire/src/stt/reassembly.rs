//! Joining the segments of frames, in whatever order they arrive.

use alloc::vec;
use alloc::vec::Vec;

use units::Instant;

use super::Segment;

/// The longest frame with its header, in bytes.
const LONGEST: usize = u16::MAX as usize;

/// Words of one bit for each byte of it.
const WORDS: usize = LONGEST.div_ceil(64);

/// Frames of which segments have arrived, and others have not.
///
/// It has places for so many, each of 72 KiB, and never asks for more memory. `P` tells senders
/// from one another, and by which of its own addresses each was heard. A sender that leaves many
/// frames unfinished can take all places until their deadlines; so several senders that do not
/// trust one another get one of these each.
///
/// A segment that comes again does no harm to a frame that is unfinished. To one that is complete
/// it does not belong any more: it is the first of an unfinished frame then, which is dropped at
/// its deadline; and should all of them come again, they are a frame again, as is a frame that came
/// in one segment.
#[derive(Clone, Debug)]
pub struct Reassembly<P> {
    places: Vec<Option<Pending<P>>>,
    /// Each place's bytes.
    bytes: Vec<u8>,
    /// Each place's bytes that have arrived, a bit each.
    arrived: Vec<u64>,
}

/// A frame that is unfinished.
#[derive(Clone, Copy, Debug)]
struct Pending<P> {
    peer: P,
    id: u32,
    deadline: Instant,
    len: usize,
    /// How many bytes have not arrived.
    missing: usize,
    /// One of its segments was marked for congestion.
    is_marked: bool,
}

/// A frame of which all segments have arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Joined<'a> {
    /// Its bytes, STT header first.
    pub bytes: &'a [u8],
    /// One of its segments was marked for congestion: so is the frame, as a packet is of which a
    /// fragment was (RFC 3168 §5.3).
    pub is_marked: bool,
}

/// Why a segment was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// It begins a frame, and every place has one already.
    #[error(
        "cannot begin to reassemble a frame while {0} others are unfinished: allow more, or find what is lost"
    )]
    Full(usize),
    /// Other segments of its frame say that the frame has another length.
    #[error(
        "cannot reassemble a frame of both {0} and {1} bytes: its sender uses a packet id for two frames"
    )]
    OtherLength(usize, usize),
}

impl<P: Copy + Eq> Reassembly<P> {
    /// Places for so many frames, all free.
    pub fn new(places: usize) -> Self {
        Self {
            places: vec![None; places],
            bytes: vec![0; places * LONGEST],
            arrived: vec![0; places * WORDS],
        }
    }

    /// Takes a segment from `peer`, and returns its frame if it was the last to arrive.
    ///
    /// `is_marked` says whether its packet was marked for congestion. `deadline` is when the frame
    /// is dropped if it is the first to arrive.
    ///
    /// # Errors
    ///
    /// [`Refusal`]: the segment is dropped.
    pub fn take<'a>(
        &'a mut self,
        peer: P,
        segment: &Segment<'a>,
        is_marked: bool,
        deadline: Instant,
    ) -> Result<Option<Joined<'a>>, Refusal> {
        let Segment { id, frame_len: len, offset, payload } = *segment;
        if segment.is_whole() {
            return Ok(Some(Joined { bytes: payload, is_marked }));
        }
        let is_its =
            |place: &Option<Pending<P>>| place.is_some_and(|it| (it.peer, it.id) == (peer, id));
        let known = self.places.iter().position(is_its);
        let index = match known.or_else(|| self.places.iter().position(|place| place.is_none())) {
            Some(index) => index,
            None => return Err(Refusal::Full(self.places.len())),
        };
        let arrived = &mut self.arrived[index * WORDS..][..WORDS];
        let pending = self.places[index].get_or_insert_with(|| {
            arrived.fill(0);
            Pending { peer, id, deadline, len, missing: len, is_marked: false }
        });
        if pending.len != len {
            return Err(Refusal::OtherLength(pending.len, len));
        }
        pending.missing -= mark(arrived, offset, payload.len());
        pending.is_marked |= is_marked;
        let Pending { missing, is_marked, .. } = *pending;
        let bytes = &mut self.bytes[index * LONGEST..][..len];
        bytes[offset..offset + payload.len()].copy_from_slice(payload);
        if missing > 0 {
            return Ok(None);
        }
        self.places[index] = None;
        Ok(Some(Joined { bytes, is_marked }))
    }

    /// When [`expire`](Self::expire) drops something next; `None` while nothing is unfinished.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.places.iter().flatten().map(|pending| pending.deadline).min()
    }

    /// Drops the frames whose deadlines have come, and says how many.
    pub fn expire(&mut self, now: Instant) -> usize {
        let mut dropped = 0;
        for place in &mut self.places {
            dropped += usize::from(place.take_if(|pending| pending.deadline <= now).is_some());
        }
        dropped
    }
}

/// Sets the bits of `len` bytes from `offset`, and says how many were not set before.
fn mark(words: &mut [u64], offset: usize, len: usize) -> usize {
    let end = offset + len;
    let mut new = 0;
    for (index, word) in words.iter_mut().enumerate().take(end.div_ceil(64)).skip(offset / 64) {
        let first = offset.saturating_sub(index * 64);
        let behind = 64 - (end - index * 64).min(64);
        let bits = (u64::MAX << first) & (u64::MAX >> behind);
        new += (bits & !*word).count_ones() as usize;
        *word |= bits;
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec as vecs;
    use proptest::prelude::*;

    const SOON: Instant = Instant::from_nanos(10);
    const LATER: Instant = Instant::from_nanos(20);

    /// The segments of a frame, each of `most` bytes.
    fn segments(id: u32, frame: &[u8], most: usize) -> Vec<Segment<'_>> {
        let cut = |(index, payload)| Segment {
            id,
            frame_len: frame.len(),
            offset: index * most,
            payload,
        };
        frame.chunks(most).enumerate().map(cut).collect()
    }

    proptest! {
        #[test]
        fn a_frame_is_there_once_its_last_byte_is_whatever_the_order(
            bytes in vecs(any::<u8>(), 18..2_000),
            sizes in vecs(1usize..700, 1..3),
            order: proptest::sample::Index,
            seed in vecs(any::<proptest::sample::Index>(), 64),
        ) {
            // The frame twice, differently cut, so that segments come again and overlap; never in
            // one.
            let most = |size: &usize| *size.min(&(bytes.len() - 1));
            let mut all: Vec<_> = sizes.iter().flat_map(|size| segments(7, &bytes, most(size))).collect();
            let count = all.len();
            for (i, with) in seed.iter().enumerate() {
                all.swap(i % count, with.index(count));
            }
            all.rotate_left(order.index(count));
            let mut reassembly = Reassembly::new(1);
            let mut covered = vec![false; bytes.len()];
            for segment in &all {
                covered[segment.offset..][..segment.payload.len()].fill(true);
                let joined = reassembly.take((), segment, false, SOON).unwrap().map(|it| it.bytes.to_vec());
                prop_assert_eq!(joined.is_some(), covered.iter().all(|is| *is));
                if let Some(joined) = joined {
                    prop_assert_eq!(&joined, &bytes);
                    covered.fill(false);
                }
            }
        }

        #[test]
        fn a_frame_of_which_a_segment_is_lost_is_dropped(lost: proptest::sample::Index, most in 1usize..99) {
            let bytes = [5; 100];
            let mut reassembly = Reassembly::new(1);
            let mut left = segments(1, &bytes, most);
            left.remove(lost.index(left.len()));
            for segment in &left {
                prop_assert_eq!(reassembly.take((), segment, false, SOON), Ok(None));
            }
            prop_assert_eq!((reassembly.next_deadline(), reassembly.expire(LATER)), (Some(SOON), 1));
            prop_assert_eq!((reassembly.next_deadline(), reassembly.expire(LATER)), (None, 0));
        }

        #[test]
        fn marks_are_counted_once(ranges in vecs((0usize..LONGEST, 1usize..3_000), 1..8)) {
            let mut words = vec![0; WORDS];
            let mut naive = vec![false; LONGEST];
            for (offset, len) in ranges {
                let len = len.min(LONGEST - offset);
                let range = &mut naive[offset..offset + len];
                let new = range.iter().filter(|is| !**is).count();
                range.fill(true);
                prop_assert_eq!(mark(&mut words, offset, len), new);
            }
        }
    }

    #[test]
    fn frames_of_many_senders_are_kept_apart() {
        let frames: Vec<_> = (0..4u8).map(|i| [i; 50]).collect();
        let mut reassembly = Reassembly::new(4);
        // Two senders, two frames each, byte by byte in turn.
        for at in 0..50 {
            for (i, frame) in frames.iter().enumerate() {
                let segment = segments(i as u32 % 2, frame, 1)[at];
                let joined = reassembly.take(i / 2, &segment, false, SOON).unwrap();
                assert_eq!(joined, (at == 49).then_some(Joined { bytes: frame, is_marked: false }));
            }
        }
    }

    #[test]
    fn a_frame_that_finds_no_place_is_refused_until_one_is_dropped() {
        let bytes = [0; 40];
        let first = |id| segments(id, &bytes, 30)[0];
        let mut reassembly = Reassembly::new(2);
        assert_eq!(reassembly.take((), &first(0), false, SOON), Ok(None));
        assert_eq!(reassembly.take((), &first(1), false, LATER), Ok(None));
        assert_eq!(reassembly.take((), &first(2), false, LATER), Err(Refusal::Full(2)));
        let whole = segments(2, &bytes, 40)[0];
        assert_eq!(
            reassembly.take((), &whole, false, LATER),
            Ok(Some(Joined { bytes: &bytes, is_marked: false })),
            "it needs no place"
        );
        assert_eq!(reassembly.expire(Instant::from_nanos(9)), 0);
        assert_eq!(reassembly.expire(SOON), 1);
        assert_eq!(reassembly.take((), &first(2), false, LATER), Ok(None));
        assert_eq!(
            reassembly.take((), &segments(1, &bytes, 30)[1], false, SOON),
            Ok(Some(Joined { bytes: &bytes, is_marked: false }))
        );
    }

    #[test]
    fn a_frame_has_one_length() {
        let mut reassembly = Reassembly::new(1);
        assert_eq!(reassembly.take((), &segments(0, &[0; 40], 30)[0], false, SOON), Ok(None));
        let other = segments(0, &[0; 41], 30)[1];
        assert_eq!(reassembly.take((), &other, false, SOON), Err(Refusal::OtherLength(40, 41)));
    }

    #[test]
    fn a_frame_is_marked_once_one_of_its_segments_is() {
        let bytes = [0; 40];
        for marked in 0..3 {
            let mut reassembly = Reassembly::new(1);
            let mut joined = None;
            for (number, segment) in segments(0, &bytes, 20).iter().enumerate() {
                joined = reassembly.take((), segment, number == marked, SOON).unwrap();
            }
            assert_eq!(joined.map(|it| it.is_marked), Some(marked < 2));
        }
    }
}
