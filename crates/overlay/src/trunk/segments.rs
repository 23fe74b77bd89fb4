//! Frames of which the segments come one by one, and not all have come yet.

use tunnel::Incarnation;
use tunnel::outer::Vteps;
use units::{Instant, Span};
use wire::stt::{Joined, Reassembly, Refusal, Segment};

/// How many frames from one host may lack segments: 4.5 MiB of memory, which is taken as it is used.
const PLACES: usize = 64;

/// How long a frame waits for its segments. They leave at once; what may come between them is a fabric that pauses.
const PATIENCE: Span = Span::from_millis(50);

/// Whose a frame is: between whom it went, and in which life of its sender's, if that numbers its frames anew in each.
type Whose = (Vteps, Option<Incarnation>);

/// Frames from one host of which segments have come; without memory before the first.
#[derive(Default)]
pub struct Segments(Option<Box<Reassembly<Whose>>>);

impl Segments {
    /// Takes a segment, and returns its frame if it was the last: [`Reassembly::take`].
    pub fn take<'a>(
        &'a mut self,
        now: Instant,
        whose: Whose,
        segment: &Segment<'a>,
        is_marked: bool,
    ) -> Result<Option<Joined<'a>>, Refusal> {
        let reassembly = self.0.get_or_insert_with(|| Box::new(Reassembly::new(PLACES)));
        reassembly.take(whose, segment, is_marked, now + PATIENCE)
    }

    /// Drops the frames that have waited for too long, and says how many.
    pub fn expire(&mut self, now: Instant) -> usize {
        self.0.as_mut().map_or(0, |reassembly| reassembly.expire(now))
    }
}
