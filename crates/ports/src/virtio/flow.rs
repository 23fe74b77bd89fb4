//! Which frames belong together: those of one flow reach their guest in order, so by one ring.

use wire::Layout;
use wire::ip::{Fragment, Version, protocol};

use crate::FrameView;

/// As many bytes as headers have that tell one flow from another: Ethernet with two tags, IPv6 with extensions, ports.
const HEADERS: usize = 128;

/// A number that is the same for all frames of a flow: of those between the same two machines, and where these are TCP or UDP,
/// the same two ports.
///
/// A fragment's flow is that between its two addresses: only the first one shows its ports. So where a program's datagrams are
/// partly fragmented, those are another flow than the rest, as they are for network cards.
#[inline(never)]
pub fn hash(frame: &FrameView<'_>) -> u32 {
    let mut scratch = [0; HEADERS];
    let head = frame.first(&mut scratch);
    let hash = mix(0, head.get(..12).unwrap_or_default());
    let Some(layout) = Layout::of_head(head, frame.len()) else { return fold(hash) };
    let addresses = match layout.version {
        Version::V4 => layout.network + 12..layout.network + 20,
        Version::V6 => layout.network + 8..layout.network + 40,
    };
    let hash = mix(hash, head.get(addresses).unwrap_or_default());
    let has_ports =
        layout.fragment == Fragment::Whole && matches!(layout.protocol, protocol::TCP | protocol::UDP);
    let ports = head.get(layout.transport..layout.transport + 4).filter(|_| has_ports);
    fold(mix(hash, ports.unwrap_or_default()))
}

/// Which of `count` places a flow has.
#[inline]
pub fn place(hash: u32, count: usize) -> usize {
    ((u64::from(hash) * count as u64) >> 32) as usize
}

/// Adds words of four bytes to a hash.
fn mix(hash: u64, bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().fold(hash, |hash, word| {
        // The golden ratio's bits, as in Fibonacci hashing (Knuth, volume 3, §6.4).
        (hash.rotate_left(23) ^ u64::from(u32::from_ne_bytes(*word))).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// The bits that have seen most of what was mixed in.
fn fold(hash: u64) -> u32 {
    (hash >> 32) as u32
}
