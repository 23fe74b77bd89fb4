//! The network between two hosts, as arithmetic: the same for a real kernel's frames and for the
//! model's segments.
//!
//! ```text
//!  client ─▶ drops? ─▶ queue of N frames ─▶ rate ─▶ delay ─▶ server
//!         ◀──────────────── delay ◀───────────────────────
//! ```

use std::ops::Range;

use units::{Instant, Rate, Span};

/// A path that is slow in one direction.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub rate: Rate,
    /// Each way.
    pub delay: Span,
    /// How many frames wait for the one that is being sent.
    pub queue: usize,
}

/// What it loses whether or not there is room.
#[derive(Clone, Debug, Default)]
pub struct Drops {
    /// The first SYN.
    pub syn: bool,
    /// Of the client's segments with payload, first transmissions or not, from 1.
    pub data: Range<usize>,
}

/// A segment that the client has sent.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    pub at: Instant,
    /// The number of its first byte.
    pub number: u32,
    pub len: u16,
    pub syn: bool,
    /// When the server has it, unless it was dropped.
    pub arrives: Option<Instant>,
}

/// One connection's way from the client to the server.
pub struct Forward {
    path: Path,
    drops: Drops,
    /// When the frames in the queue, and the one before them, have left; the last is the latest.
    leaving: std::collections::VecDeque<Instant>,
    data: usize,
    pub log: Vec<Passed>,
}

impl Forward {
    pub fn new(path: Path, drops: Drops) -> Self {
        Self { path, drops, leaving: Default::default(), data: 0, log: Vec::new() }
    }

    pub fn delay(&self) -> Span {
        self.path.delay
    }

    /// A frame of so many bytes, without its check sequence, comes in; when it arrives, if it does.
    pub fn pass(
        &mut self,
        at: Instant,
        bytes: usize,
        number: u32,
        len: u16,
        syn: bool,
    ) -> Option<Instant> {
        self.data += usize::from(len > 0);
        let scripted = if syn {
            std::mem::take(&mut self.drops.syn)
        } else {
            len > 0 && self.drops.data.contains(&self.data)
        };
        let arrives = if scripted { None } else { self.queue(at, bytes) };
        self.log.push(Passed { at, number, len, syn, arrives });
        arrives
    }

    fn queue(&mut self, at: Instant, bytes: usize) -> Option<Instant> {
        while self.leaving.front().is_some_and(|left| *left <= at) {
            self.leaving.pop_front();
        }
        if self.leaving.len() > self.path.queue {
            return None;
        }
        let start = self.leaving.back().copied().unwrap_or(at);
        let left = start + self.path.rate.time_for(bytes as u64);
        self.leaving.push_back(left);
        Some(left + self.path.delay)
    }
}
