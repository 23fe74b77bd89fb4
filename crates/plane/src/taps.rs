//! Taps: where frames are copied for those who capture them.
//!
//! ```text
//!   receive, transmit, refuse, uplink ─▶ Taps ─┬─▶ Tap: wanted? room? ─▶ chunk ──at the end of a turn──▶ who reads
//!                                              └─▶ …                                  (another thread)
//! ```
//!
//! Who reads is never waited for. What it has not taken yet is bounded in bytes (`MOST_WAITING`);
//! what finds no room is counted and not copied. Without a tap, a visit to a port asks once whether
//! there is one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use lossless::{PortId, Reason};
use model::{CaptureSpec, Expression, PortName};
use port::FrameView;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use units::{Instant, Span};
use wire::Offload;
use wire::flow::HEADERS;

use crate::filter;

/// The most captures at once.
pub const MOST_TAPS: usize = 8;

/// The most bytes that wait for one reader.
const MOST_WAITING: usize = 16 << 20;

/// What a frame costs besides its bytes.
const AROUND: usize = size_of::<Caught>();

/// What was captured in a turn.
#[derive(Debug, Default)]
pub struct Chunk {
    /// The names of places that nothing was captured at before: each has the next number.
    pub places: Vec<String>,
    /// The frames.
    pub frames: Vec<Caught>,
    /// Their bytes, one behind the other.
    pub bytes: Vec<u8>,
    /// By the place's number: how many frames, in all, found no room.
    pub dropped: BTreeMap<u32, u64>,
}

/// A frame that was captured.
#[derive(Debug)]
pub struct Caught {
    /// When the turn began in which it came by, by the monotonic clock.
    pub at: Instant,
    /// The number of its place.
    pub place: u32,
    /// How many of its bytes were kept.
    pub kept: usize,
    /// How many it has.
    pub len: usize,
    /// Which way it went, unless it was refused.
    pub way: Option<Direction>,
    /// What its receiver still has to do to it.
    pub offload: Offload,
    /// Why it was refused, in a sentence, if it was.
    pub refused: Option<String>,
}

/// Which way a frame goes, seen from the switch.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Direction {
    /// Into the switch.
    In,
    /// Out of the switch.
    Out,
}

/// The reading end of a tap.
#[derive(Debug)]
pub struct Reader {
    chunks: UnboundedReceiver<Chunk>,
    waiting: Arc<AtomicUsize>,
}

impl Reader {
    /// The next chunk; `None` after the last.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Chunk>> {
        let chunk = self.chunks.poll_recv(context);
        if let Poll::Ready(Some(chunk)) = &chunk {
            self.waiting.fetch_sub(chunk.weight(), Ordering::Relaxed);
        }
        chunk
    }
}

impl Chunk {
    fn weight(&self) -> usize {
        self.bytes.len() + AROUND * self.frames.len()
    }
}

/// Everybody who captures.
#[derive(Debug, Default)]
pub struct Taps {
    /// By port number.
    ports: Vec<Option<PortName>>,
    taps: Vec<Tap>,
    /// Why the frame is refused that is refused next, if more is known than the reason.
    why: Option<String>,
    /// By how much the plane's time is behind the monotonic clock.
    missed: Span,
}

/// One who captures.
#[derive(Debug)]
struct Tap {
    spec: CaptureSpec,
    is_everything: bool,
    /// How many frames more.
    left: u64,
    places: BTreeMap<Place, u32>,
    chunk: Chunk,
    /// The chunk says more of what was dropped than the one before.
    has_news: bool,
    chunks: UnboundedSender<Chunk>,
    waiting: Arc<AtomicUsize>,
}

/// Where frames are captured.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Place {
    Port(PortName, Direction),
    Uplink,
    Refused,
}

impl Place {
    fn name(&self) -> String {
        match self {
            Self::Port(name, Direction::In) => format!("{name} ingress"),
            Self::Port(name, Direction::Out) => format!("{name} egress"),
            Self::Uplink => "uplink".into(),
            Self::Refused => "refused".into(),
        }
    }
}

/// What is known of a frame besides its bytes.
struct Seen {
    at: Instant,
    len: usize,
    way: Option<Direction>,
    offload: Offload,
    refused: Option<String>,
}

impl Taps {
    /// Begins a capture, if there are not too many.
    pub fn begin(&mut self, spec: CaptureSpec) -> Option<Reader> {
        self.taps.retain(|tap| !tap.chunks.is_closed());
        if self.taps.len() == MOST_TAPS {
            return None;
        }
        let (chunks, reader) = unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        self.taps.push(Tap {
            is_everything: spec.is_everything(),
            left: spec.count.unwrap_or(u64::MAX),
            spec,
            places: BTreeMap::new(),
            chunk: Chunk::default(),
            has_news: false,
            chunks,
            waiting: waiting.clone(),
        });
        Some(Reader { chunks: reader, waiting })
    }

    /// The plane's time is behind the monotonic clock by so much from now on. Captures tell the
    /// time by that clock.
    pub fn set_missed(&mut self, missed: Span) {
        self.missed = missed;
    }

    /// The port of this number has this name; none: it leads to another host.
    pub fn name(&mut self, port: PortId, name: Option<PortName>) {
        if self.ports.len() <= port.index() {
            self.ports.resize(port.index() + 1, None);
        }
        self.ports[port.index()] = name;
    }

    /// A frame comes from behind a port, or goes there.
    pub fn pass(&mut self, at: Instant, port: PortId, way: Direction, frame: &FrameView<'_>) {
        let Self { ports, taps, missed, .. } = self;
        let at = at + *missed;
        let Some(Some(name)) = ports.get(port.index()) else { return };
        let wants =
            |tap: &&mut Tap| tap.wants_port(name) && tap.wants_way(way) && tap.wants_frame(frame);
        for tap in taps.iter_mut().filter(wants) {
            let (len, offload) = (frame.len(), frame.offload());
            let seen = Seen { at, len, way: Some(way), offload, refused: None };
            tap.put(Place::Port(name.clone(), way), seen, |bytes| frame.read(bytes));
        }
    }

    /// The frame that is refused next is refused for this, in words.
    pub fn explain(&mut self, why: Option<String>) {
        self.why = why;
    }

    /// A frame is refused that came by one port and was to leave by another, if that was known.
    pub fn refuse(
        &mut self,
        at: Instant,
        from: PortId,
        to: Option<PortId>,
        reason: Reason,
        frame: &FrameView<'_>,
    ) {
        let Self { ports, taps, why, missed } = self;
        let why = why.take().map_or(String::new(), |why| format!("; {why}"));
        let at = at + *missed;
        let name = |port: PortId| ports.get(port.index()).and_then(Option::as_ref);
        let (from, to) = (name(from), to.map(name));
        for tap in taps.iter_mut() {
            let concerns = |name: Option<&PortName>| name.is_some_and(|name| tap.wants_port(name));
            let is_its = tap.spec.ports.is_empty() || concerns(from) || to.is_some_and(concerns);
            let is_asked = tap.is_everything || tap.spec.refused && is_its;
            if !is_asked || !tap.wants_frame(frame) {
                continue;
            }
            let told = |name: Option<&PortName>| {
                name.map_or("another host".into(), |name| format!("`{name}`"))
            };
            let to = to.map_or(String::new(), |to| format!(" for {}", told(to)));
            let refused =
                Some(format!("refused: {}; it came from {}{to}{why}", reason.name(), told(from)));
            let seen = Seen { at, len: frame.len(), way: None, offload: frame.offload(), refused };
            tap.put(Place::Refused, seen, |bytes| frame.read(bytes));
        }
    }

    /// Whether a packet of the underlay that goes this way is wanted.
    pub fn wants_outer(&self, way: Direction) -> bool {
        self.taps.iter().any(|tap| tap.wants_outer(way))
    }

    /// Copies a packet of the underlay: its headers, and the payload behind them.
    pub fn pass_outer(
        &mut self,
        at: Instant,
        way: Direction,
        headers: &[u8],
        payload: &[u8],
        offload: Offload,
    ) {
        let at = at + self.missed;
        let len = headers.len() + payload.len();
        let begin = |to: &mut [u8]| {
            let first = headers.len().min(to.len());
            to[..first].copy_from_slice(&headers[..first]);
            let rest = payload.len().min(to.len() - first);
            to[first..first + rest].copy_from_slice(&payload[..rest]);
            first + rest
        };
        let wants = |tap: &&mut Tap| {
            tap.wants_outer(way)
                && tap.wants(|filter| {
                    let mut head = [0; HEADERS];
                    let known = begin(&mut head);
                    filter::is_met(filter, &head[..known], len)
                })
        };
        for tap in self.taps.iter_mut().filter(wants) {
            let seen = Seen { at, len, way: Some(way), offload, refused: None };
            tap.put(Place::Uplink, seen, begin);
        }
    }

    /// Hands over what was captured. Whether anybody still captures.
    pub fn flush(&mut self) -> bool {
        self.taps.retain_mut(|tap| {
            tap.flush();
            tap.left > 0 && !tap.chunks.is_closed()
        });
        !self.taps.is_empty()
    }
}

impl Tap {
    fn wants_port(&self, name: &PortName) -> bool {
        self.is_everything || self.spec.ports.contains(name)
    }

    fn wants_outer(&self, way: Direction) -> bool {
        (self.is_everything || self.spec.uplink) && self.wants_way(way)
    }

    /// Whether a frame is what the filter asks for, if there is one.
    fn wants_frame(&self, frame: &FrameView<'_>) -> bool {
        self.wants(|filter| filter::is_met(filter, frame.first(&mut [0; HEADERS]), frame.len()))
    }

    fn wants(&self, is_met: impl FnOnce(&Expression) -> bool) -> bool {
        self.spec.filter.as_ref().is_none_or(|filter| is_met(filter.expression()))
    }

    fn wants_way(&self, way: Direction) -> bool {
        match way {
            Direction::In => self.spec.direction.has_in(),
            Direction::Out => self.spec.direction.has_out(),
        }
    }

    /// Copies a frame's first bytes, which `read` puts where it is told to, if there is room.
    fn put(&mut self, place: Place, seen: Seen, read: impl FnOnce(&mut [u8]) -> usize) {
        if self.left == 0 {
            return;
        }
        let Self { spec, places, chunk, waiting, .. } = self;
        let next = places.len() as u32;
        let place = match places.entry(place) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(place) => {
                chunk.places.push(place.key().name());
                *place.insert(next)
            }
        };
        let Seen { at, len, way, offload, refused } = seen;
        let kept = spec.snap.map_or(len, |snap| len.min(snap as usize));
        if waiting.load(Ordering::Relaxed) + chunk.weight() + kept + AROUND > MOST_WAITING {
            *chunk.dropped.entry(place).or_default() += 1;
            self.has_news = true;
            return;
        }
        let begin = chunk.bytes.len();
        chunk.bytes.resize(begin + kept, 0);
        let kept = read(&mut chunk.bytes[begin..]);
        chunk.bytes.truncate(begin + kept);
        chunk.frames.push(Caught { at, place, kept, len, way, offload, refused });
        self.left -= 1;
    }

    fn flush(&mut self) {
        let is_empty = self.chunk.frames.is_empty() && self.chunk.places.is_empty();
        if is_empty && !self.has_news {
            return;
        }
        self.has_news = false;
        let next = Chunk { dropped: self.chunk.dropped.clone(), ..Chunk::default() };
        let chunk = std::mem::replace(&mut self.chunk, next);
        self.waiting.fetch_add(chunk.weight(), Ordering::Relaxed);
        // Who has hung up is forgotten right after this.
        let _ = self.chunks.send(chunk);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use lossless::{PortConfig, Settings, Switch};

    use super::*;

    fn read(reader: &mut Reader) -> Option<Chunk> {
        match reader.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(chunk) => chunk,
            Poll::Pending => None,
        }
    }

    /// Those who capture at one port, `a`.
    fn taps() -> (Taps, PortId) {
        let port =
            Switch::<u8>::new(Settings::default()).attach(Instant::ZERO, PortConfig::default());
        let (mut taps, port) = (Taps::default(), port.unwrap());
        taps.name(port, Some(PortName("a".into())));
        (taps, port)
    }

    #[test]
    fn what_finds_no_room_is_counted_and_there_is_room_again_once_the_rest_is_read() {
        let (mut taps, port) = taps();
        let mut reader = taps.begin(CaptureSpec::default()).unwrap();
        let frame = FrameView::plain(&[7; 1 << 20]);
        for _ in 0..20 {
            taps.pass(Instant::ZERO, port, Direction::In, &frame);
            assert!(taps.flush());
        }
        let mut chunks: Vec<_> = std::iter::from_fn(|| read(&mut reader)).collect();
        let frames = chunks.iter().flat_map(|chunk| &chunk.frames).count();
        assert_eq!(frames, 15, "as many as fit with what is around them");
        assert_eq!(chunks.pop().unwrap().dropped, BTreeMap::from([(0, 5)]));
        assert_eq!(chunks[0].places, ["a ingress"]);
        taps.pass(Instant::ZERO, port, Direction::In, &frame);
        taps.flush();
        assert_eq!(read(&mut reader).unwrap().frames.len(), 1);
    }

    #[test]
    fn a_filter_chooses_frames_and_packets_of_the_underlay() {
        let (mut taps, port) = taps();
        let filter = Some("ether host 02:00:00:00:00:07".parse().unwrap());
        let mut reader = taps.begin(CaptureSpec { filter, ..CaptureSpec::default() }).unwrap();
        let frame = |mac: u8| [&[2, 0, 0, 0, 0, mac][..], &[0; 54]].concat();
        for mac in 1..10 {
            let frame = frame(mac);
            taps.pass(Instant::ZERO, port, Direction::In, &FrameView::plain(&frame));
            taps.refuse(Instant::ZERO, port, None, Reason::NoEgress, &FrameView::plain(&frame));
            let (headers, payload) = frame.split_at(20);
            taps.pass_outer(Instant::ZERO, Direction::In, headers, payload, Offload::default());
        }
        taps.flush();
        let chunk = read(&mut reader).unwrap();
        assert_eq!(chunk.places, ["a ingress", "refused", "uplink"]);
        assert_eq!(chunk.bytes, frame(7).repeat(3));
    }

    #[test]
    fn who_has_enough_or_hangs_up_is_forgotten() {
        let (mut taps, port) = taps();
        let mut enough =
            taps.begin(CaptureSpec { count: Some(2), ..CaptureSpec::default() }).unwrap();
        let gone = taps.begin(CaptureSpec::default()).unwrap();
        drop(gone);
        for _ in 0..3 {
            taps.pass(Instant::ZERO, port, Direction::Out, &FrameView::plain(&[1; 60]));
        }
        assert!(!taps.flush(), "nobody is left");
        assert_eq!(read(&mut enough).unwrap().frames.len(), 2);
        assert!(matches!(enough.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(None)));
    }

    #[test]
    fn places_that_were_not_asked_for_are_not_captured() {
        let (mut taps, port) = taps();
        let spec = CaptureSpec { refused: true, ..CaptureSpec::default() };
        let mut reader = taps.begin(spec).unwrap();
        let frame = FrameView::plain(&[1; 60]);
        taps.pass(Instant::ZERO, port, Direction::In, &frame);
        taps.refuse(Instant::ZERO, port, None, Reason::NoEgress, &frame);
        taps.flush();
        let chunk = read(&mut reader).unwrap();
        assert_eq!((chunk.places, chunk.frames.len()), (vec!["refused".to_owned()], 1));
        assert_eq!(
            chunk.frames[0].refused.as_deref(),
            Some("refused: no_egress; it came from `a`")
        );
    }
}
