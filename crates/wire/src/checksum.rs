//! The Internet checksum (RFC 1071).

use core::ops::Add;

/// A ones' complement sum of 16-bit words.
///
/// Sums of pieces add up to the sum of the whole, in any order, provided that every piece but the
/// last has an even length.
///
/// ```
/// use wire::checksum::Sum;
///
/// let header = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 192, 168, 0, 1, 192, 168, 0, 199];
/// assert_eq!(Sum::of(&header).checksum(), 0xb861);
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sum(u16); // In the machine's byte order: the sum is the same up to a swap (RFC 1071 §2 B).

impl Sum {
    /// The sum of `bytes`; an odd last byte counts as if a zero followed it.
    pub fn of(bytes: &[u8]) -> Self {
        // Words of 32 bits into an accumulator of 64: no carry to chase, so the compiler makes
        // vectors of it, and no overflow below 16 GiB.
        let (words, rest) = bytes.as_chunks::<4>();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
        Self::fold(sum + u64::from(u32::from_ne_bytes(last)))
    }

    /// The sum of one word, given as a number.
    pub const fn word(word: u16) -> Self {
        Self(word.to_be())
    }

    /// What goes into a checksum field: the sum's complement, as a number.
    ///
    /// Over bytes that carry their right checksum it is zero.
    pub const fn checksum(self) -> u16 {
        u16::from_be(!self.0)
    }

    /// [`checksum`](Self::checksum) for a transport header, where zero means that there is none:
    /// its other form, all ones, takes its place (RFC 768).
    pub const fn transport_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    fn fold(sum: u64) -> Self {
        let sum = (sum >> 32) + (sum & 0xffff_ffff);
        let sum = (sum >> 32) + (sum & 0xffff_ffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        Self(sum as u16)
    }
}

impl Add for Sum {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Self(sum + u16::from(carry))
    }
}

/// The sum of a pseudo-header: what TCP and UDP checksums cover besides their own bytes.
///
/// `addresses` are source and destination as they lie in the IP header, 8 bytes of IPv4 (RFC 9293
/// §3.1) or 32 of IPv6 (RFC 8200 §8.1); `len` is the length of transport header and payload in
/// bytes.
pub fn pseudo_header(addresses: &[u8], protocol: u8, len: usize) -> Sum {
    let len = len as u32;
    Sum::of(addresses) + Sum::word(u16::from(protocol)) + Sum::of(&len.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 §4.1, word by word.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
            sum = (sum >> 16) + (sum & 0xffff);
        }
        !(sum as u16)
    }

    proptest! {
        #[test]
        fn the_fast_sum_is_the_naive_sum(bytes: alloc::vec::Vec<u8>) {
            prop_assert_eq!(Sum::of(&bytes).checksum(), naive(&bytes));
        }

        #[test]
        fn pieces_add_up_to_the_whole(mut bytes: alloc::vec::Vec<u8>, cut: usize) {
            let cut = cut % (bytes.len() / 2 + 1) * 2;
            let pieces = Sum::of(&bytes[cut..]) + Sum::of(&bytes[..cut]);
            prop_assert_eq!(pieces.checksum(), naive(&bytes));
            // And a right checksum sums to nothing.
            if bytes.len() >= 2 {
                bytes[..2].fill(0);
                let checksum = Sum::of(&bytes).checksum();
                bytes[..2].copy_from_slice(&checksum.to_be_bytes());
                prop_assert_eq!(Sum::of(&bytes).checksum(), 0);
            }
        }
    }

    #[test]
    fn the_longest_frame_of_all_ones_does_not_overflow() {
        assert_eq!(Sum::of(&[0xff; 65_536]).checksum(), 0);
    }

    #[test]
    fn a_transport_checksum_is_never_zero() {
        assert_eq!(Sum::word(0xffff).transport_checksum(), 0xffff);
        assert_eq!(Sum::word(0x1234).transport_checksum(), 0xedcb);
    }
}
