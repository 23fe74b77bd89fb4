//! Frames of which some segments have arrived and others have not.

use tunnel::Tag;
use tunnel::outer::Vteps;
use units::{Instant, Span};
use wire::stt::{Joined, Reassembly, Refusal, Segment};

/// How many frames of one host may lack segments: 4.5 MiB of memory, touched as it is used.
const PLACES: usize = 64;

/// How long a frame waits for its segments. They leave together, but the fabric may pause between
/// them.
const PATIENCE: Span = Span::from_millis(50);

/// The key of a frame's sender: both addresses, and its incarnation if it numbers frames anew in
/// each.
type Whose = (Vteps, Option<Tag>);

/// The incomplete frames of one host. Allocates with the first.
#[derive(Default)]
pub struct Segments(Option<Box<Reassembly<Whose>>>);

impl Segments {
    /// Adds a segment, and returns its frame if it was the last: [`Reassembly::take`].
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

    /// Drops frames that have waited too long, and returns their number.
    pub fn expire(&mut self, now: Instant) -> usize {
        self.0.as_mut().map_or(0, |reassembly| reassembly.expire(now))
    }
}
