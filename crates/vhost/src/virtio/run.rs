//! A frame's rest: spans of a guest's memory, one behind the other.

use port::{MAX_SPANS, Span};

/// Up to as many spans as a chain has buffers, one behind the other.
#[derive(Clone, Debug)]
pub struct Run {
    spans: [Span; MAX_SPANS],
    count: usize,
}

impl Default for Run {
    fn default() -> Self {
        Self { spans: [Span::EMPTY; MAX_SPANS], count: 0 }
    }
}

impl Run {
    /// Its spans.
    #[inline]
    pub fn spans(&self) -> &[Span] {
        &self.spans[..self.count]
    }

    /// These spans, and no others; as many as there is room for.
    pub fn set(&mut self, spans: impl Iterator<Item = Span>) {
        self.count = self.spans.iter_mut().zip(spans).map(|(place, span)| *place = span).count();
    }

    /// Copies its first bytes out, which then belong to it no more.
    pub fn consume(&mut self, to: &mut [u8]) -> usize {
        let mut done = 0;
        for span in &mut self.spans[..self.count] {
            let (part, rest) = span.split(to.len() - done);
            done += part.read(&mut to[done..]);
            *span = rest;
        }
        done
    }
}
