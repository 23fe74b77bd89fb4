use std::num::NonZeroU16;

use proptest::prelude::*;
use tunnel::Tag;
use tunnel::message::Ends;

use datapath::Peer;
use port::FrameView;

use super::super::out::Going;
use super::super::tests::large;
use super::*;
use crate::slots::{Counts, FRAMES};

const ENDS: Ends = Ends { from: Tag(1), to: Tag(2) };
const STREAM: Stream = Stream { label: 7, class: Class::from_low_bits(3) };

/// The slots of one host's frames, and what is not whole of them.
struct Frames {
    slots: Slots,
    assembly: Assembly,
}

impl Frames {
    fn new(counts: Counts) -> Self {
        let owner = Owner { peer: Peer::new(0).unwrap(), serial: 1 };
        Self { slots: Slots::new(counts), assembly: Assembly::new(owner) }
    }

    fn keep_data(
        &mut self,
        data: &Data,
        is_marked: bool,
        claim: Claim<Stream>,
        bytes: &[u8],
    ) -> Option<Kept> {
        let Self { slots, assembly } = self;
        assembly.keep_data(slots, data, is_marked, claim, bytes, Network::default())
    }

    fn advance(&mut self, kept: Kept, place: Place) -> Option<Slot> {
        self.assembly.advance(&mut self.slots, kept, place)
    }

    fn tear(&mut self, stream: Stream) {
        self.assembly.tear(&mut self.slots, stream);
    }

    fn begin_epoch(&mut self, epoch: Epoch) {
        self.assembly.begin_epoch(&mut self.slots, epoch);
    }

    fn forget(&mut self, kept: Kept) {
        self.assembly.forget(&mut self.slots, kept);
    }

    fn welcomes(&self, stream: Stream) -> bool {
        self.assembly.welcomes(&self.slots, stream)
    }

    fn view(&self, slot: Slot) -> FrameView<'_> {
        self.slots.view(slot)
    }

    fn release(&mut self, slot: Slot, consumed: impl FnMut(Place)) {
        self.assembly.release(&mut self.slots, slot, consumed);
    }

    fn is_all_free(&self) -> bool {
        self.assembly.is_empty() && self.slots.is_all_free()
    }
}

/// What is sent of a frame that begins there in its stream: what is said of each part, and the
/// part.
fn parts(going: &Going<'_>, offset: u32) -> Vec<(Data, Vec<u8>)> {
    parts_of(STREAM, going, offset)
}

fn parts_of(stream: Stream, going: &Going<'_>, offset: u32) -> Vec<(Data, Vec<u8>)> {
    let ends = ENDS;
    let mut sent = Vec::new();
    let mut begin = 0;
    while let Some((len, _)) = going.part(begin) {
        let data = Data::whole(ends, 0, stream, offset + begin as u32, len);
        let mut bytes = vec![0; len.get().into()];
        going.write(begin, &mut bytes);
        sent.push((going.said(&data, begin), bytes));
        begin += usize::from(len.get());
    }
    sent
}

fn kept(frames: &mut Frames, (data, bytes): &(Data, Vec<u8>), is_marked: bool) -> Option<Kept> {
    frames.keep_data(data, is_marked, Claim::Unreliable, bytes)
}

fn turn(frames: &mut Frames, kept: Kept, (data, _): &(Data, Vec<u8>)) -> Option<Slot> {
    frames.advance(kept, (data.stream, Epoch::default(), u64::from(data.offset)))
}

/// All parts of a frame come in their order.
fn arrive(frames: &mut Frames, parts: &[(Data, Vec<u8>)]) -> Option<Slot> {
    let mut whole = None;
    for part in parts {
        let there = kept(frames, part, false)?;
        whole = turn(frames, there, part);
    }
    whole
}

proptest! {
    #[test]
    fn parts_are_the_frame_again(
        len in 1_usize..65_000,
        most in prop_oneof![1500_usize..3000, 8000_usize..9000],
        is_marked: bool,
        early in prop::collection::vec(any::<bool>(), 64),
    ) {
        let (mut bytes, offload) = large(len, Ecn::Ect0 as u8);
        let mut frames = Frames::new([64; 3]);
        let going = Going::new(&bytes, offload, most).unwrap();
        let sent = parts(&going, 5);
        prop_assert!(sent.iter().all(|(data, part)| part.len() == usize::from(data.len.get())));
        // Some come before those that they are to follow.
        let mut there: Vec<_> = sent
            .iter()
            .zip(&early)
            .map(|(part, early)| early.then(|| kept(&mut frames, part, is_marked).unwrap()))
            .collect();
        let mut whole = None;
        for (part, there) in sent.iter().zip(&mut there) {
            prop_assert_eq!(whole, None);
            let there = there.take().unwrap_or_else(|| kept(&mut frames, part, is_marked).unwrap());
            whole = turn(&mut frames, there, part);
        }
        let slot = whole.unwrap();
        if is_marked && sent.len() > 1 {
            let layout = Layout::of(&bytes).unwrap();
            layout.set_traffic_class(&mut bytes, Ecn::Ce as u8).unwrap();
        }
        let view = frames.view(slot);
        prop_assert_eq!((view.bytes, view.offload()), (&bytes[..], offload));
        let mut taken = Vec::new();
        frames.release(slot, |(.., offset)| taken.push(offset as u32));
        taken.sort_unstable();
        prop_assert!(taken.into_iter().eq(sent.iter().map(|(data, _)| data.offset)));
        prop_assert!(frames.is_all_free());
    }

    /// Parts come in any order, some twice and some never: nothing is put together that was not one
    /// frame, and nothing is kept.
    #[test]
    fn what_does_not_follow_is_torn(
        events in prop::collection::vec((0_usize..3, 0_usize..8, any::<bool>()), 0..60),
    ) {
        let frames_sent: Vec<_> = (0..3).map(|number| large(5000 + number, 0)).collect();
        let sent: Vec<_> = (0_u32..)
            .zip(&frames_sent)
            .map(|(number, (bytes, offload))| parts(&Going::new(bytes, *offload, 1500).unwrap(), number * 10_000))
            .collect();
        let mut frames = Frames::new([64; 3]);
        let mut kept_at = Vec::new();
        for (number, part, is_gap) in events {
            let Some(part) = sent[number].get(part) else { continue };
            if is_gap {
                frames.tear(STREAM);
            }
            let there = kept(&mut frames, part, false).unwrap();
            kept_at.push(part.0.offset);
            if let Some(slot) = turn(&mut frames, there, part) {
                prop_assert_eq!(frames.view(slot).bytes, &frames_sent[number].0[..]);
                frames.release(slot, |place| kept_at.retain(|offset| u64::from(*offset) != place.2));
            }
        }
        frames.begin_epoch(Epoch::default());
        while let Some((.., offset)) = frames.assembly.torn() {
            kept_at.retain(|one| u64::from(*one) != offset);
        }
        prop_assert!(kept_at.is_empty() && frames.is_all_free());
    }

    /// Frames of two streams and of none come, small ones and large ones, through several eras.
    #[test]
    fn what_is_polled_is_counted_as_it_lies_there(
        events in prop::collection::vec((0_usize..8, any::<prop::sample::Index>()), 0..100),
    ) {
        let mut frames = Frames::new([64; 3]);
        let (mut ready, mut polled) = (VecDeque::new(), Vec::new());
        let mut epoch = Epoch::default();
        let mut ends = [0_u32; 2];
        for (what, which) in events {
            match what {
                0 => {
                    let slot = frames.assembly.keep(&mut frames.slots, &[0; 60], Network::default(), None, Offload::NONE);
                    ready.extend(slot);
                }
                1..=3 => {
                    let len = [20, 900, 5000][what - 1];
                    let label = which.index(2);
                    let stream = Stream { label: label as u32, class: Class::from_low_bits(label as u8) };
                    let (bytes, mut offload) = large(len, 0);
                    if len < 1000 {
                        offload = Offload::NONE;
                    }
                    for part in parts_of(stream, &Going::new(&bytes, offload, 1500).unwrap(), ends[label]) {
                        let data = &part.0;
                        ends[label] += u32::from(data.len.get());
                        let Some(there) = kept(&mut frames, &part, false) else { continue };
                        ready.extend(frames.advance(there, (stream, epoch, data.offset.into())));
                    }
                }
                4 => {
                    epoch = epoch.next();
                    ends = [0; 2];
                    frames.begin_epoch(epoch);
                }
                5 | 6 => polled.extend(frames.assembly.next(&mut frames.slots, &mut ready)),
                _ if polled.is_empty() => {}
                _ => frames.release(polled.swap_remove(which.index(polled.len())), |_| {}),
            }
            for class in Class::all() {
                let is_of = |place: &Place| place.1 == epoch && place.0.class == class;
                let those = polled.iter().filter(|slot| frames.slots.get(**slot).place.as_ref().is_some_and(is_of));
                let count = those.map(|slot| frames.view(*slot).on_wire().1 as u64).sum::<u64>();
                prop_assert_eq!(frames.assembly.polled_of([class].into_iter().collect()), count);
            }
        }
    }
}

#[test]
fn what_is_said_of_a_frame_has_to_be_so() {
    let (bytes, offload) = large(3000, 0);
    let mut frames = Frames::new([8; 3]);
    let mut sent = parts(&Going::new(&bytes, offload, 1500).unwrap(), 0);
    // Its checksum is said to begin behind it.
    sent[0].0.offload = sent[0].0.offload.map(|mut said| {
        said[6..8].copy_from_slice(&u16::MAX.to_le_bytes());
        said
    });
    for part in &sent {
        let there = kept(&mut frames, part, false).unwrap();
        assert_eq!(turn(&mut frames, there, part), None);
    }
    assert_eq!(frames.assembly.malformed(), 1);
    assert!(
        std::iter::from_fn(|| frames.assembly.torn()).count() == sent.len() && frames.is_all_free()
    );
}

#[test]
fn a_frame_finds_a_slot_of_its_size_or_is_not_kept() {
    let (bytes, offload) = large(3000, 0);
    let mut frames = Frames::new([16; 3]);
    let going = Going::new(&bytes, offload, 1500).unwrap();
    let begin = |number: u32| parts(&going, number * 10_000).swap_remove(0);
    let keep = |frames: &mut Frames, number, claim| {
        let (data, bytes) = begin(number);
        frames.keep_data(&data, false, claim, &bytes)
    };
    let (first, second) = (STREAM, Stream { label: STREAM.label + 1, ..STREAM });
    let there: Vec<_> =
        (0..16).filter_map(|number| keep(&mut frames, number, Claim::Reliable(first))).collect();
    assert_eq!(there.len(), 6);
    assert!(!frames.welcomes(first) && frames.welcomes(second));
    // Other sizes are others' matter.
    let whole = Data::whole(ENDS, 0, STREAM, 0, NonZeroU16::MIN);
    assert!(frames.keep_data(&whole, false, Claim::Reliable(first), &[0]).is_some());
    assert!(
        keep(&mut frames, 6, Claim::NextInOrder(second)).is_some(),
        "some are left for what others wait for"
    );
    there.into_iter().for_each(|kept| frames.forget(kept));
    assert!(frames.welcomes(first));
}

#[test]
fn slots_of_a_size_that_others_have_are_nothing_to_who_needs_another() {
    let (bytes, offload) = large(3000, 0);
    let mut frames = Frames::new([16; 3]);
    let going = Going::new(&bytes, offload, 1500).unwrap();
    for label in 1..20 {
        let (data, bytes) = parts_of(Stream { label, ..STREAM }, &going, 0).swap_remove(0);
        frames.keep_data(&data, false, Claim::Reliable(data.stream), &bytes);
    }
    let short = Stream { label: 30, ..STREAM };
    let keep = |frames: &mut Frames, offset| {
        let data = Data::whole(ENDS, 0, short, offset, NonZeroU16::MIN);
        let kept = frames.keep_data(&data, false, Claim::Reliable(short), &[0]);
        if kept.is_none() {
            frames.assembly.wait(&data, Network::default());
        }
        kept
    };
    let there: Vec<_> = (0..16).filter_map(|offset| keep(&mut frames, offset)).collect();
    assert!(!frames.welcomes(short));
    there.into_iter().for_each(|kept| frames.forget(kept));
    let other = Stream { label: 40, ..STREAM };
    let (data, _) = parts_of(other, &going, 0).swap_remove(0);
    frames.assembly.wait(&data, Network::default());
    assert!(frames.welcomes(short) && !frames.welcomes(other));
}

#[test]
fn a_frame_that_grows_needs_no_other_slot_to_go_on() {
    let (bytes, offload) = large(3000, 0);
    let mut frames = Frames::new([16; 3]);
    let going = Going::new(&bytes, offload, 1500).unwrap();
    let begin = |label: u32| parts_of(Stream { label, ..STREAM }, &going, 0).swap_remove(0);
    for label in 1..=8 {
        let (data, bytes) = begin(100 + label);
        assert!(frames.keep_data(&data, false, Claim::NextInOrder(data.stream), &bytes).is_some());
    }
    let (data, bytes) = begin(1);
    let claim = Claim::Reliable(data.stream);
    let there = frames.keep_data(&data, false, claim, &bytes).unwrap();
    assert!(!frames.welcomes(data.stream), "it may have one more, and has one");
    turn(&mut frames, there, &(data, bytes));
    assert!(frames.welcomes(data.stream), "what follows is put behind it");
}

#[test]
fn who_takes_no_middle_sized_segments_leaves_room_for_others() {
    let mut frames = Frames::new(FRAMES);
    // As much of each class as there is credit for, as a rule, for a receiver that takes nothing.
    for class in Class::all() {
        let stream = Stream { class, ..STREAM };
        let mut end = 0;
        for len in (3000..10_000).step_by(700).cycle() {
            if end >= 1 << 20 {
                break;
            }
            let (bytes, offload) = large(len, 0);
            let slot = arrive(
                &mut frames,
                &parts_of(stream, &Going::new(&bytes, offload, 1500).unwrap(), end),
            );
            assert!(slot.is_some());
            end += bytes.len() as u32;
        }
    }
    let (bytes, offload) = large(65_000, 0);
    let going = Going::new(&bytes, offload, 1500).unwrap();
    let other = Stream { label: 8, ..STREAM };
    for number in 0..FRAMES[2] / 3 * 2 {
        assert!(arrive(&mut frames, &parts_of(other, &going, number * 70_000)).is_some());
    }
}

#[test]
fn who_says_too_little_of_a_frame_loses_it() {
    let (bytes, offload) = large(40_000, 0);
    let mut sent = parts(&Going::new(&bytes, offload, 1500).unwrap(), 0);
    for (said, is_whole) in
        [(0, true), (1, true), (2, false), (16, false), (40, true), (u16::MAX, true)]
    {
        sent[0].0.offload.as_mut().unwrap()[KIB].copy_from_slice(&u16::to_le_bytes(said));
        let mut frames = Frames::new([64; 3]);
        let slot = arrive(&mut frames, &sent);
        assert_eq!(slot.is_some(), is_whole, "{said} KiB");
        slot.into_iter().for_each(|slot| frames.release(slot, |_| {}));
        while frames.assembly.torn().is_some() {}
        assert!(frames.is_all_free());
    }
}
