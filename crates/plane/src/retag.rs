//! Frames with another VLAN tag than their sender gave them.

use datapath::Retag;
use port::FrameView;
use wire::Offload;
use wire::ethernet::{self, Header, Tag, ethertype};

/// The length of a tag in bytes.
const TAG: usize = 4;

/// The length of the two addresses before it.
const ADDRESSES: usize = 12;

/// A frame of which the tag is changed, in memory of its own.
#[derive(Debug, Default)]
pub struct Retagged {
    /// A tag's length, the frame as it came, and a tag's length.
    bytes: Vec<u8>,
    note: Offload,
}

impl Retagged {
    /// The frame with its tag changed, if that is to be.
    pub fn view<'a>(&'a mut self, frame: FrameView<'a>, retag: Retag) -> FrameView<'a> {
        if retag == Retag::Keep || frame.bytes.len() < Header::LEN {
            return frame;
        }
        let Self { bytes, note } = self;
        let len = frame.len();
        bytes.resize(TAG + len, 0);
        frame.read(&mut bytes[TAG..]);
        *note = frame.offload();
        let came = &bytes[TAG..];
        let is_tagged = is_tag_at(came, ADDRESSES);
        let retag = match (retag, ethernet::peek(came).and_then(|header| header.tag())) {
            // A receiver would take the tag behind it for its own, and be in another VLAN by that
            // ("double tagging"): one stays that names none.
            (Retag::Strip, Some(tag)) if is_tag_at(came, ADDRESSES + TAG) => {
                Retag::Put(Tag { vlan: 0, ..tag })
            }
            (retag, _) => retag,
        };
        let bytes = match (retag, is_tagged) {
            (Retag::Put(tag), true) => {
                let at = TAG + Header::LEN;
                bytes[at..at + 2].copy_from_slice(&tag.tci().to_be_bytes());
                &bytes[TAG..]
            }
            (Retag::Put(tag), false) => {
                bytes.copy_within(TAG..TAG + ADDRESSES, 0);
                bytes[ADDRESSES..ADDRESSES + 2].copy_from_slice(&ethertype::VLAN.to_be_bytes());
                bytes[ADDRESSES + 2..Header::LEN + 2].copy_from_slice(&tag.tci().to_be_bytes());
                note.shift(|at| at + TAG as u16);
                &bytes[..]
            }
            (Retag::Strip, true) => {
                bytes.copy_within(TAG..TAG + ADDRESSES, 2 * TAG);
                note.shift(|at| at.saturating_sub(TAG as u16));
                &bytes[2 * TAG..]
            }
            (Retag::Strip, false) | (Retag::Keep, _) => &bytes[TAG..],
        };
        match frame.note {
            Some(_) => FrameView::noted(bytes, note),
            None => FrameView::plain(bytes),
        }
    }
}

/// Whether a frame has a tag at this place.
fn is_tag_at(frame: &[u8], at: usize) -> bool {
    let kind = frame.get(at..at + 2).map(|kind| u16::from_be_bytes([kind[0], kind[1]]));
    matches!(kind, Some(ethertype::VLAN | ethertype::SERVICE_VLAN))
}

#[cfg(test)]
mod tests {
    use units::Class;
    use wire::{PartialChecksum, Segment, SegmentKind};

    use super::*;

    const ADDRESSES: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

    fn frame(tags: &[[u8; 4]]) -> Vec<u8> {
        [&ADDRESSES[..], tags.as_flattened(), &[0x08, 0], &[0xaa; 40]].concat()
    }

    fn changed(frame: &[u8], retag: Retag) -> Vec<u8> {
        Retagged::default().view(FrameView::plain(frame), retag).bytes.to_vec()
    }

    #[test]
    fn a_tag_is_put_changed_and_taken() {
        let put = Retag::Put(Tag { class: Class::from_low_bits(5), vlan: 0x123 });
        let (plain, tagged) = (frame(&[]), frame(&[[0x81, 0, 0xa1, 0x23]]));
        let other = frame(&[[0x81, 0, 0x60, 0x07]]);
        assert_eq!(changed(&plain, put), tagged);
        assert_eq!(changed(&other, put), tagged);
        assert_eq!(changed(&tagged, Retag::Strip), plain);
        assert_eq!(changed(&plain, Retag::Strip), plain);
        assert_eq!(changed(&other, Retag::Keep), other);
        let double = frame(&[[0x81, 0, 0xa0, 9], [0x81, 0, 0, 7]]);
        let of_no_vlan = frame(&[[0x81, 0, 0xa0, 0], [0x81, 0, 0, 7]]);
        assert_eq!(changed(&double, Retag::Strip), of_no_vlan, "not in VLAN 7 by that");
    }

    #[test]
    fn what_is_left_to_do_moves_with_the_headers() {
        let note = Offload {
            checksum: Some(PartialChecksum { start: 34, offset: 16 }),
            segment: Some(Segment { kind: SegmentKind::Tcp4, ecn: false, header_len: 54, size: 9 }),
            data_valid: false,
        };
        let put = Retag::Put(Tag { class: Class::from_low_bits(0), vlan: 7 });
        let (mut first, mut second) = (Retagged::default(), Retagged::default());
        let plain = frame(&[]);
        let tagged = first.view(FrameView::noted(&plain, &note), put);
        let moved = tagged.offload();
        assert_eq!(moved.checksum, Some(PartialChecksum { start: 38, offset: 16 }));
        assert_eq!(moved.segment.map(|segment| segment.header_len), Some(58));
        let back = second.view(tagged, Retag::Strip);
        assert_eq!((back.bytes, back.offload()), (&plain[..], note));
    }
}
