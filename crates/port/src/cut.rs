//! Cutting: a large frame, written as the frames that a wire would carry.
//!
//! The device may stop taking half-way. Then the switch still holds the frame and offers it again,
//! and the cut goes on where it was: nothing of it is kept here but how far it came.

use crate::port::Taken;
use crate::view::FrameView;

/// Room for a packet of 64 KiB and its headers.
const LARGE: usize = 66 << 10;

/// Writes frames piece by piece.
#[derive(Debug, Default)]
pub struct Cutter {
    /// Where pieces are written, one at a time.
    scratch: Vec<u8>,
    /// Where a frame is copied to that lies in a guest's memory.
    whole: Vec<u8>,
    /// A frame that has begun to go, and how many pieces of it have. Of two such frames only the
    /// latest is known; the other begins anew, and its receiver gets some of it twice.
    begun: Option<(Box<[u8]>, usize)>,
}

impl Cutter {
    /// Hands every piece of a frame to `write` that it has not taken before. `Taken::Yes`: it has
    /// the last.
    pub fn write<E>(
        &mut self,
        frame: &FrameView<'_>,
        mut write: impl FnMut(&[u8]) -> Result<Taken, E>,
    ) -> Result<Taken, E> {
        let Self { scratch, whole, begun } = self;
        if !frame.rest.is_empty() {
            whole.resize(LARGE, 0);
        }
        let bytes = frame.first(whole);
        let Ok(pieces) = wire::segments(bytes, frame.offload()) else { return Ok(Taken::Unfit) };
        // A frame is known by its bytes: its slot may have another by now.
        let resumed = begun.take_if(|(before, _)| **before == *bytes);
        let gone = resumed.as_ref().map_or(0, |(_, gone)| *gone);
        scratch.resize(LARGE, 0);
        for (place, piece) in pieces.enumerate().skip(gone) {
            let Some(piece) = piece.write(scratch) else { return Ok(Taken::Unfit) };
            match write(piece)? {
                Taken::Yes => {}
                taken @ (Taken::Unfit | Taken::Dropped) => return Ok(taken),
                Taken::Busy => {
                    if place > 0 {
                        let bytes = resumed.map_or_else(|| bytes.into(), |(bytes, _)| bytes);
                        *begun = Some((bytes, place));
                    }
                    return Ok(Taken::Busy);
                }
            }
        }
        Ok(Taken::Yes)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::Ipv4Addr;

    use units::Mac;
    use wire::{Offload, PartialChecksum, Segment, SegmentKind, ethernet, ipv4, udp};
    use zerocopy::IntoBytes;

    use super::*;

    /// A frame of ten datagrams of 100 bytes.
    fn large(fill: u8) -> Vec<u8> {
        let to = Ipv4Addr::new(10, 0, 0, 2);
        let ip = ipv4::Header::new(Ipv4Addr::LOCALHOST, to, 17, 1008).unwrap();
        let udp = udp::Header::new(1, 2, 1000).unwrap();
        let ethernet =
            ethernet::Header::new(Mac::local(2), Mac::local(1), ethernet::ethertype::IPV4);
        [ethernet.as_bytes(), ip.as_bytes(), udp.as_bytes(), &[fill; 1000]].concat()
    }

    const OFFLOAD: Offload = Offload {
        checksum: Some(PartialChecksum { start: 34, offset: 6 }),
        segment: Some(Segment { kind: SegmentKind::Udp, ecn: false, header_len: 42, size: 100 }),
        ..Offload::NONE
    };

    /// Writes to a device that has room for so many frames, and takes note of what it got.
    fn write(cutter: &mut Cutter, bytes: &[u8], mut room: usize, got: &mut Vec<u8>) -> Taken {
        let written: Result<_, Infallible> =
            cutter.write(&FrameView::noted(bytes, &OFFLOAD), |piece| {
                if room == 0 {
                    return Ok(Taken::Busy);
                }
                room -= 1;
                got.push(piece[42]);
                Ok(Taken::Yes)
            });
        written.unwrap()
    }

    #[test]
    fn a_frame_is_taken_with_its_last_piece_and_each_piece_goes_once() {
        let (mut cutter, mut got) = (Cutter::default(), Vec::new());
        let one = large(1);
        for room in [0, 4, 0, 5] {
            assert_eq!(write(&mut cutter, &one, room, &mut got), Taken::Busy);
        }
        assert_eq!(write(&mut cutter, &one, 10, &mut got), Taken::Yes);
        assert_eq!(got, [1; 10]);
        assert_eq!(write(&mut cutter, &one, 10, &mut got), Taken::Yes);
        assert_eq!(got.len(), 20, "a frame like it begins with its first piece");
    }

    #[test]
    fn another_frame_may_pass_one_that_has_begun() {
        let (mut cutter, mut got) = (Cutter::default(), Vec::new());
        let [one, two] = [large(1), large(2)];
        assert_eq!(write(&mut cutter, &one, 4, &mut got), Taken::Busy);
        assert_eq!(write(&mut cutter, &two, 10, &mut got), Taken::Yes);
        assert_eq!(write(&mut cutter, &one, 6, &mut got), Taken::Yes);
        assert_eq!(got, [&[1; 4][..], &[2; 10], &[1; 6]].concat());
    }
}
