//! Frames that were delivered and are given back: what is told of them, until their sender confirms
//! that it has them again.
//!
//! The first of a stream are told of, and the next once these are confirmed: so a sender has frames
//! back in the order in which it sent them, and each is told of until then, whatever is lost.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;

use crate::answer::Answer;
use crate::message::{MAX_RETURNS, Return, Stream};
use crate::receive_stream::ReceiveStream;

/// Those of all streams, in one epoch. There are no more than were delivered and not consumed.
#[derive(Clone, Debug, Default)]
pub struct Returns {
    /// By stream and where they begin: where they end, and why they are given back. Neighbours that
    /// are given back for one reason are one.
    frames: BTreeMap<(Stream, u64), (u64, Answer)>,
    /// Streams of which something is to be told.
    owing: BTreeSet<Stream>,
    /// Streams of which frames were given back as moved, and none that begins anew has come since.
    moved: BTreeMap<Stream, Answer>,
}

impl Returns {
    /// A frame is given back.
    pub fn add(
        &mut self,
        stream: Stream,
        Range { mut start, mut end }: Range<u64>,
        answer: Answer,
    ) {
        if let Answer::Moved { .. } = answer {
            self.moved.insert(stream, answer);
        }
        if let Some((&(of, begin), &(until, why))) =
            self.frames.range(..=(stream, start)).next_back()
            && of == stream
        {
            if until > start {
                return; // It is already.
            }
            if until == start && why == answer {
                start = begin;
            }
        }
        if let Some(&(until, why)) = self.frames.get(&(stream, end))
            && why == answer
        {
            self.frames.remove(&(stream, end));
            end = until;
        }
        self.frames.insert((stream, start), (end, answer));
        self.owing.insert(stream);
    }

    /// Why a frame of a stream is given back although its port is here: its sender has frames
    /// before it again, or is to have them. What begins `anew` follows none of these.
    pub fn behind_moved(&mut self, stream: Stream, anew: bool) -> Option<Answer> {
        if self.moved.is_empty() {
            return None;
        }
        if anew {
            self.moved.remove(&stream);
        }
        self.moved.get(&stream).copied()
    }

    /// Their sender has the frame at this offset again, if it was given back: it is consumed.
    pub fn confirmed<R>(&mut self, stream: Stream, offset: u64, receiving: &mut ReceiveStream<R>) {
        if self.frames.is_empty() {
            return;
        }
        let Some((&(of, begin), &(until, answer))) =
            self.frames.range(..=(stream, offset)).next_back()
        else {
            return;
        };
        let Some(end) = receiving.end_of(offset).filter(|_| of == stream && offset < until) else {
            return;
        };
        self.frames.remove(&(stream, begin));
        if begin < offset {
            self.frames.insert((stream, begin), (offset, answer));
        }
        if end < until {
            self.frames.insert((stream, end), (until, answer));
        }
        receiving.consumed(offset);
        receiving.tell();
        self.tell(stream);
    }

    /// Tells of a stream's again, if there are any.
    pub fn tell(&mut self, stream: Stream) {
        if self.first_of(stream).is_some() {
            self.owing.insert(stream);
        }
    }

    /// Forgets them, and tells whose they were and where.
    pub fn drain(&mut self) -> impl Iterator<Item = (Stream, Range<u64>)> + use<> {
        let Self { frames, .. } = core::mem::take(self);
        frames.into_iter().map(|((stream, from), (until, _))| (stream, from..until))
    }

    /// Whether any are to be told of.
    pub fn are_owed(&self) -> bool {
        !self.owing.is_empty()
    }

    /// What to tell now; not more than fits into a report.
    pub fn take(&mut self) -> Vec<Return> {
        let mut told = Vec::new();
        while told.len() < MAX_RETURNS
            && let Some(stream) = self.owing.pop_first()
        {
            told.extend(self.first_of(stream));
        }
        told
    }

    fn first_of(&self, stream: Stream) -> Option<Return> {
        let mut those = self.frames.range((stream, 0)..=(stream, u64::MAX));
        let (&(_, from), &(until, answer)) = those.next()?;
        Some(Return { stream, from: from as u32, until: until as u32, answer })
    }
}
