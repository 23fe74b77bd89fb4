//! The ends of packets that come in fragments: a later one has its first's.

use logical::objects::{Direction, Identity};
use packet::fragments::Pieces;
use packet::{Ip, Tuple};
use units::{Instant, Span};
use wire::ip::Fragment;

use crate::change::{Change, FragmentOf};
use crate::outcome::Reason;
use crate::state::State;

/// How long a packet's ends are remembered for its later fragments.
const FRAGMENTS: Span = Span::from_secs(5);

/// The ends of a packet at a place that it passes a way. Of a packet whose fragments contradict
/// each other there are none. And what is to be remembered of a fragment.
pub fn ends(
    state: &State,
    now: Instant,
    (place, way): (&Identity, Direction),
    ip: &Ip,
) -> (Result<Tuple, Reason>, Option<Change>) {
    let ends = ip.tuple;
    let Some(piece) = ip.piece else { return (Ok(ends), None) };
    let (source, destination) = (ends.source.0, ends.destination.0);
    let of: FragmentOf =
        (place.clone(), way, ip.identification, source, destination, ends.protocol);
    let first = (ip.layout.fragment == Fragment::First).then_some(ends);
    let (pieces, until) = match (state.fragment(&of, now), first) {
        (Some((known, until)), None) => (known.with(piece, None), *until),
        (Some((known, _)), first) => (known.with(piece, first), now + FRAGMENTS),
        (None, Some(ends)) => (Pieces::first(ends, piece), now + FRAGMENTS),
        (None, None) => return (Err(Reason::Fragment), None),
    };
    let ends = if pieces.are_sound { Ok(pieces.ends) } else { Err(Reason::Fragment) };
    (ends, Some(Change::Fragment(of, pieces, until)))
}
