//! Frames that lie in a guest's memory until their receivers have them.
//!
//! ```text
//!   chain ─▶ │ virtio header │ frame's first bytes │ the rest …            │    in the guest's memory
//!                 offload           copied here       stays where it is
//! ```
//!
//! What a switch looks at is copied when the frame is taken, and it is the copy that is delivered:
//! a guest that changes its frame afterwards changes only what nobody has looked at. For a plain
//! frame that is the Ethernet header; for one with an offload header, or where a network decides by
//! more, all headers.

use wire::Offload;

use super::chain::{Chain, Head};
use super::memory::GuestMemory;
use super::run::Run;
use port::FrameView;
use port::Span;

/// Bytes of a plain frame that are copied: addresses, a VLAN tag and the type, and a few more, so
/// that they are written and read in the same two pieces. A processor that reads what it has just
/// written in other pieces waits for all writes before.
const HEAD: usize = 32;

/// Bytes of a plain frame that are copied where all headers are shown: Ethernet with a tag, IPv6,
/// TCP with a few options. A line and half of the next, which is written in one piece with the
/// first half of what is behind them.
const SHOWN: usize = 96;

/// A cache line.
const LINE: usize = 64;

/// Bytes of a frame with an offload header that are copied: Ethernet with a tag, IPv6 with
/// extensions, TCP with options.
const HEADERS: usize = 256;

/// The longest frame, without its virtio header: a packet of 65,535 bytes behind an Ethernet header
/// with two tags.
const MAX_FRAME: usize = 65_535 + 22;

/// Places for frames.
#[derive(Debug)]
pub struct HeldFrames {
    places: Box<[Place]>,
    /// All headers of plain frames, by place, once they are to be shown.
    shown: Box<[Shown]>,
    free: Vec<u32>,
    extras: Vec<Extra>,
    free_extras: Vec<u32>,
    /// How many frames lie in our memory.
    kept: usize,
    /// Where to look next for one to keep.
    turn: usize,
}

/// One frame: a cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Place {
    head: [u8; HEAD],
    /// What is behind the head, if it lies in one piece.
    rest: Span,
    /// Its [`Extra`], if it has one.
    extra: u32,
    /// The ring's number, and its chain.
    ring: u8,
    id: u16,
    head_len: u8,
    /// Whether the chain is still the guest's to have back.
    lent: bool,
    /// Whether its head is among those that are [shown](HeldFrames::show_headers).
    is_shown: bool,
}

/// The first bytes of a plain frame of which all headers are shown.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Shown([u8; SHOWN]);

const NO_EXTRA: u32 = u32::MAX;

const _: () = assert!(size_of::<Place>() == 64, "a frame of one buffer takes a cache line");

/// What only frames have that lie in several buffers, have an offload header, or had to be kept.
#[derive(Debug)]
struct Extra {
    offload: Option<Offload>,
    headers: [u8; HEADERS],
    headers_len: usize,
    /// What is behind the headers.
    rest: Box<Run>,
    /// The same, in our memory.
    kept: Box<[u8]>,
}

impl HeldFrames {
    /// Places for so many frames.
    pub fn new(places: u32) -> Self {
        let place = Place {
            head: [0; HEAD],
            rest: Span::EMPTY,
            extra: NO_EXTRA,
            ring: 0,
            id: 0,
            head_len: 0,
            lent: false,
            is_shown: false,
        };
        Self {
            places: vec![place; places as usize].into(),
            shown: Box::default(),
            free: (0..places).rev().collect(),
            extras: Vec::new(),
            free_extras: Vec::new(),
            kept: 0,
            turn: 0,
        }
    }

    /// From now on what is copied of a plain frame has all its headers.
    pub fn show_headers(&mut self) {
        if self.shown.is_empty() {
            self.shown = vec![Shown([0; SHOWN]); self.places.len()].into();
        }
    }

    /// How many more frames there are places for.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Holds the frame of a chain of ring `ring`, and has the processor fetch its first bytes:
    /// [`open`](Self::open) it once they may be there.
    ///
    /// # Panics
    ///
    /// If there is no room.
    #[inline(always)]
    pub fn hold(&mut self, ring: u8, head: Head, chain: &Chain) -> u32 {
        let number = self.free.pop().expect("the caller has looked for room");
        let place = &mut self.places[number as usize];
        (place.ring, place.id, place.lent) = (ring, head.id, true);
        (place.head_len, place.extra, place.is_shown) = (0, NO_EXTRA, false);
        match head.only {
            Some(buffer) => {
                place.rest = buffer.span;
                // The frame's first bytes. The header may lie in a line before, but changes seldom.
                buffer.span.split(Offload::LEN + HEAD).1.fetch();
                if !self.shown.is_empty() {
                    buffer.span.split(Offload::LEN + LINE - 1).1.fetch();
                }
            }
            None => self.hold_many(number, chain),
        }
        number
    }

    #[inline(never)]
    fn hold_many(&mut self, number: u32, chain: &Chain) {
        self.places[number as usize].rest = Span::EMPTY;
        if let Ok(buffers) = chain.buffers() {
            self.extra(number).rest.set(buffers.iter().map(|buffer| buffer.span));
            buffers.iter().take(2).for_each(|buffer| buffer.span.fetch());
        }
    }

    /// Looks at a frame that was just held: its virtio header, which says nothing unless `offloads`
    /// were negotiated, and its first bytes. One that contradicts itself is empty from then on.
    #[inline(always)]
    pub fn open(&mut self, number: u32, offloads: bool) {
        let place = &mut self.places[number as usize];
        let whole = place.rest;
        if place.extra == NO_EXTRA && whole.len() <= Offload::LEN + MAX_FRAME {
            let says = offloads && whole.first().is_some_and(|(first, _)| first != [0; 2]);
            let body = whole.split(Offload::LEN).1;
            if !says && let Some(Shown(head)) = self.shown.get_mut(number as usize) {
                let (len, rest) = copy_first(head, body);
                (place.rest, place.head_len, place.is_shown) = (rest, len as u8, len > 0);
                if len > 0 {
                    return;
                }
            }
            if !says && let Some((head, rest)) = body.first() {
                (place.head, place.rest, place.head_len) = (head, rest, HEAD as u8);
                return;
            }
        }
        self.open_other(number, offloads);
    }

    /// Of a frame that is not plain, or not even as long as a head.
    #[inline(never)]
    fn open_other(&mut self, number: u32, offloads: bool) {
        let place = &mut self.places[number as usize];
        if place.extra == NO_EXTRA {
            let whole = place.rest;
            self.extra(number).rest.set([whole].into_iter());
        }
        let place = &mut self.places[number as usize];
        let extra = &mut self.extras[place.extra as usize];
        let mut header = [0; Offload::LEN];
        extra.rest.consume(&mut header);
        let mut headers = [0; HEADERS];
        let headers_len = extra.rest.consume(&mut headers);
        let len = headers_len + extra.rest.spans().iter().map(|span| span.len()).sum::<usize>();
        let offload = if offloads {
            Offload::parse_head(&header, &headers[..headers_len], len)
        } else {
            Ok(Offload::NONE)
        };
        match offload {
            Ok(offload) if len > 0 && len <= MAX_FRAME => {
                extra.offload = (offload != Offload::NONE).then_some(offload);
                (extra.headers, extra.headers_len) = (headers, headers_len);
            }
            _ => {
                (extra.offload, extra.headers_len) = (None, 0);
                extra.rest.set([].into_iter());
            }
        }
    }

    /// A frame that was opened.
    ///
    /// # Panics
    ///
    /// If there is no such place.
    #[inline(always)]
    pub fn view(&self, number: u32) -> FrameView<'_> {
        let place = &self.places[number as usize];
        match self.extras.get(place.extra as usize) {
            None if place.is_shown => {
                let bytes = &self.shown[number as usize].0[..usize::from(place.head_len)];
                let rest = std::slice::from_ref(&place.rest);
                let rest = if place.rest.is_empty() { &[] } else { rest };
                FrameView { bytes, rest, note: None }
            }
            None => FrameView {
                bytes: &place.head[..usize::from(place.head_len).min(HEAD)],
                rest: std::slice::from_ref(&place.rest),
                note: None,
            },
            Some(extra) => FrameView {
                bytes: if extra.kept.is_empty() {
                    &extra.headers[..extra.headers_len]
                } else {
                    &extra.kept
                },
                rest: extra.rest.spans(),
                note: extra.offload.as_ref(),
            },
        }
    }

    /// Writes over some of a frame's bytes in our copy: its headers', of which more are copied if
    /// need be. Whether it has so many.
    pub fn rewrite(&mut self, number: u32, at: usize, bytes: &[u8]) -> bool {
        let end = at + bytes.len();
        let place = &mut self.places[number as usize];
        if place.extra == NO_EXTRA && end > usize::from(place.head_len) {
            self.copy_headers(number);
        }
        let place = &mut self.places[number as usize];
        let copied = match self.extras.get_mut(place.extra as usize) {
            None if place.is_shown => {
                &mut self.shown[number as usize].0[..usize::from(place.head_len)]
            }
            None => &mut place.head[..usize::from(place.head_len).min(HEAD)],
            Some(extra) if extra.kept.is_empty() => &mut extra.headers[..extra.headers_len],
            Some(extra) => &mut extra.kept,
        };
        copied.get_mut(at..end).map(|place| place.copy_from_slice(bytes)).is_some()
    }

    /// Copies as much of a plain frame as of one with an offload header.
    fn copy_headers(&mut self, number: u32) {
        let view = self.view(number);
        let (mut headers, head_len) = ([0; HEADERS], view.bytes.len());
        headers[..head_len].copy_from_slice(view.bytes);
        let rest = self.places[number as usize].rest;
        let extra = self.extra(number);
        (extra.offload, extra.headers) = (None, headers);
        extra.rest.set([rest].into_iter());
        extra.headers_len = head_len + extra.rest.consume(&mut extra.headers[head_len..]);
    }

    /// Lets a frame go. The ring and the chain that the guest gets back, if it has not yet.
    #[inline(always)]
    pub fn release(&mut self, number: u32) -> Option<(u8, u16)> {
        let place = &mut self.places[number as usize];
        self.free.push(number);
        let Place { ring, id, lent, extra, .. } = *place;
        place.lent = false;
        if extra != NO_EXTRA {
            place.extra = NO_EXTRA;
            self.kept -= usize::from(!lent);
            self.extras[extra as usize].kept = Box::default();
            self.free_extras.push(extra);
        }
        lent.then_some((ring, id))
    }

    /// Before a ring, and perhaps its guest's memory, goes away: copies what is held of it, and
    /// tells of every chain that the guest can have back now. One whose memory is lost already is
    /// empty from then on.
    pub fn keep(&mut self, ring: u8, memory: &GuestMemory, mut back: impl FnMut(u16)) {
        for number in 0..self.places.len() as u32 {
            let Place { lent, ring: of, .. } = self.places[number as usize];
            if lent && of == ring {
                back(self.copy(number, memory));
            }
        }
    }

    /// Copies at most `most` frames, as [`keep`](Self::keep) does, and tells of their rings and
    /// chains. It goes on behind those that it copied last, and does not look when there are none.
    pub fn keep_some(&mut self, most: usize, memory: &GuestMemory, mut back: impl FnMut(u8, u16)) {
        let mut left = most.min(self.places.len() - self.free.len() - self.kept);
        while left > 0 {
            let number = self.turn;
            self.turn = if number + 1 == self.places.len() { 0 } else { number + 1 };
            if let Place { lent: true, ring, .. } = self.places[number] {
                back(ring, self.copy(number as u32, memory));
                left -= 1;
            }
        }
    }

    /// Copies a frame. Its chain, which is not needed any more.
    fn copy(&mut self, number: u32, memory: &GuestMemory) -> u16 {
        let view = self.view(number);
        let mut bytes = vec![0; view.len()];
        view.read(&mut bytes);
        // Asked afterwards: reading it may be what finds out.
        if memory.is_lost() {
            bytes.clear();
        }
        let offload = view.note.copied();
        let extra = self.extra(number);
        (extra.kept, extra.offload, extra.headers_len) = (bytes.into(), offload, 0);
        extra.rest.set([].into_iter());
        self.kept += 1;
        let place = &mut self.places[number as usize];
        place.lent = false;
        place.id
    }

    /// The frame's extra, made if it has none.
    fn extra(&mut self, number: u32) -> &mut Extra {
        let place = &mut self.places[number as usize];
        if place.extra == NO_EXTRA {
            place.extra = self.free_extras.pop().unwrap_or_else(|| {
                self.extras.push(Extra::default());
                self.extras.len() as u32 - 1
            });
        }
        &mut self.extras[place.extra as usize]
    }
}

/// Copies a frame's first bytes: how many, and what is behind them.
#[inline(always)]
fn copy_first(head: &mut [u8; SHOWN], frame: Span) -> (usize, Span) {
    if let Some((bytes, rest)) = frame.first::<SHOWN>() {
        *head = bytes;
        return (SHOWN, rest);
    }
    let Some((bytes, rest)) = frame.first::<LINE>() else {
        return (frame.read(head), Span::EMPTY);
    };
    let (line, behind) = head.split_at_mut(LINE);
    line.copy_from_slice(&bytes);
    (LINE + rest.read(behind), Span::EMPTY)
}

impl Default for Extra {
    fn default() -> Self {
        Self {
            offload: None,
            headers: [0; HEADERS],
            headers_len: 0,
            rest: Box::default(),
            kept: Box::default(),
        }
    }
}
