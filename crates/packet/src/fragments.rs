//! Which bytes of a packet its fragments have brought, and which fragments contradict each other.
//!
//! ```text
//! 0 ── first ──▶ 32 ── later ──▶ 48 ── last ──▶ 58      whole: the next of its number is another's
//!                     40 ── overlaps ──▶ 56             no fragment of the packet passes from now on
//! ```
//!
//! Two fragments that bring the same byte would let a receiver see other bytes than whoever filters
//! saw (RFC 5722 §3, RFC 8200 §4.5; of IPv4, RFC 1858 §4 and RFC 3128). The very same piece again
//! is no contradiction: links repeat frames.

use alloc::vec::Vec;

use crate::fields::{Piece, Tuple};

/// Of how many pieces a packet may consist: 64 KiB in links of 576 bytes.
const MOST: usize = 128;

/// The most packets that may be under way in fragments at a port each way. A machine's kernel puts
/// together no more of the longest ones: Linux keeps fragments of 4 MiB (`ipfrag_high_thresh`).
pub const MOST_PACKETS: usize = 64;

/// What is known of a packet that comes in fragments.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pieces {
    /// The packet's ends, as its first fragment has them.
    pub ends: Tuple,
    /// Whether no fragment has contradicted another.
    pub are_sound: bool,
    pieces: Vec<Piece>,
}

impl Pieces {
    /// A packet of which only the first fragment is known.
    pub fn first(ends: Tuple, piece: Piece) -> Self {
        Self { ends, are_sound: true, pieces: [piece].to_vec() }
    }

    /// A packet of which another host knew this. `None` if no host did: there are more pieces than
    /// are remembered, or some that contradict each other.
    pub fn of_parts(ends: Tuple, are_sound: bool, pieces: Vec<Piece>) -> Option<Self> {
        let overlap = || {
            let mut sorted = pieces.clone();
            sorted.sort_unstable_by_key(|it| (it.from, it.end));
            sorted.windows(2).any(|two| two[1].from < two[0].end)
        };
        let is_known = !pieces.is_empty() && pieces.len() <= MOST && !overlap();
        is_known.then_some(Self { ends, are_sound, pieces })
    }

    /// The pieces that have come and contradict no other.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The packet with one more fragment. `ends`: a first fragment's.
    pub fn with(&self, piece: Piece, ends: Option<Tuple>) -> Self {
        if let Some(ends) = ends
            && self.are_whole()
        {
            return Self::first(ends, piece);
        }
        let mut next = Self { ends: ends.unwrap_or(self.ends), ..self.clone() };
        if next.pieces.contains(&piece) {
            return next;
        }
        let overlaps = |it: &Piece| it.from < piece.end && piece.from < it.end;
        next.are_sound &= !next.pieces.iter().any(overlaps) && next.pieces.len() < MOST;
        if next.are_sound {
            next.pieces.push(piece);
        }
        next
    }

    /// Whether all bytes have come.
    pub fn are_whole(&self) -> bool {
        // None of them overlap, so their lengths tell.
        let all: usize = self.pieces.iter().map(|it| it.end - it.from).sum();
        self.are_sound && self.pieces.iter().any(|it| it.is_last && it.end == all)
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;

    const fn piece(from: usize, end: usize, is_last: bool) -> Piece {
        Piece { from, end, is_last }
    }

    fn ends(port: u16) -> Tuple {
        let end = (IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Tuple { protocol: 17, source: end, destination: end }
    }

    #[test]
    fn a_byte_comes_once_unless_all_of_its_piece_comes_again() {
        let first = Pieces::first(ends(1), piece(0, 32, false));
        let second = first.with(piece(32, 48, false), None);
        assert!(second.are_sound);
        assert_eq!(second.with(piece(32, 48, false), None), second);
        for wrong in [(40, 56), (24, 40), (32, 40), (0, 8), (16, 64)] {
            let bad = second.with(piece(wrong.0, wrong.1, false), None);
            assert!(!bad.are_sound, "{wrong:?}");
            assert!(!bad.with(piece(48, 56, true), None).are_sound);
            assert!(!bad.with(piece(0, 32, false), Some(ends(1))).are_sound);
        }
    }

    #[test]
    fn behind_a_whole_packet_its_number_is_anothers() {
        let mut all = Pieces::first(ends(1), piece(0, 32, false));
        for more in [piece(48, 50, true), piece(32, 48, false)] {
            assert!(!all.are_whole());
            all = all.with(more, None);
        }
        assert!(all.are_whole());
        let next = all.with(piece(0, 16, false), Some(ends(2)));
        assert_eq!(next, Pieces::first(ends(2), piece(0, 16, false)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut all = Pieces::first(ends(1), piece(0, 8, false));
        for place in (16..65_528).step_by(16) {
            all = all.with(piece(place, place + 8, false), None);
        }
        assert!(!all.are_sound && all.pieces.len() == MOST);
    }
}
