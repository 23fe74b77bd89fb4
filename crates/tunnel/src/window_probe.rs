//! Window probes: streams that wait for a grant ask for it at intervals.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use units::{Instant, Span};

use crate::Stream;
use crate::message::{MAX_WINDOW_PROBES, WindowProbe};

/// The interval between probes: the first, and the longest. It doubles.
const INTERVALS: [Span; 2] = [Span::from_millis(1), Span::from_millis(50)];

/// Streams that wait for a grant, and when they are probed.
#[derive(Clone, Debug)]
pub struct WindowProbes {
    streams: BTreeSet<Stream>,
    at: Option<Instant>,
    pause: Span,
    /// The stream that was probed last.
    last: Option<Stream>,
}

impl WindowProbes {
    /// No stream waits.
    pub fn new() -> Self {
        Self { streams: BTreeSet::new(), at: None, pause: INTERVALS[0], last: None }
    }

    /// A stream waits for a grant.
    pub fn begin(&mut self, stream: Stream) {
        if self.streams.insert(stream) {
            self.hurry();
        }
    }

    /// A stream does not wait any more.
    pub fn end(&mut self, stream: Stream) {
        self.streams.remove(&stream);
    }

    /// A grant has arrived: probe at the shortest interval again.
    pub fn hurry(&mut self) {
        self.pause = INTERVALS[0];
    }

    /// Whether no stream waits.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// When the next probes are due, as of the last call of [`Self::due`].
    pub fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// The probes to send now. `sent` says how far a stream was sent; `None` if it had a grant
    /// since the last call, so that it is left out once.
    pub fn due(
        &mut self,
        now: Instant,
        mut sent: impl FnMut(Stream) -> Option<u64>,
    ) -> Vec<WindowProbe> {
        if self.streams.is_empty() {
            self.at = None;
            return Vec::new();
        }
        // A grant of one stream may bring the next probes nearer, and never delays them.
        let at = self.at.map_or(now + self.pause, |at| at.min(now + self.pause));
        self.at = Some(at);
        if at > now {
            return Vec::new();
        }
        self.pause = (self.pause + self.pause).min(INTERVALS[1]);
        self.at = Some(now + self.pause);
        // In turn.
        let behind = self.last.map_or(0, |last| self.streams.range(..=last).count());
        let turn = self.streams.iter().cycle().skip(behind).take(self.streams.len());
        let window_probes = turn.filter_map(|stream| {
            Some(WindowProbe { stream: *stream, sent: sent(*stream)? as u32 })
        });
        let window_probes: Vec<_> = window_probes.take(MAX_WINDOW_PROBES).collect();
        self.last = window_probes.last().map(|window_probe| window_probe.stream).or(self.last);
        window_probes
    }
}
