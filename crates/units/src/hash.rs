//! Hash functions that are quick and the same on every machine, for ever. None withstands an
//! adversary who chooses its input.

/// The golden ratio's first 64 bits.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fibonacci hashing (Knuth, volume 3, §6.4): a product of which the uppermost bits have seen all
/// of the number's.
#[inline]
pub const fn fibonacci(number: u64) -> u64 {
    number.wrapping_mul(GOLDEN)
}

/// The same with 32 bits.
#[inline]
pub const fn fibonacci32(number: u32) -> u32 {
    number.wrapping_mul((GOLDEN >> 32) as u32)
}

/// A number that depends on every bit of another: the finalizer of SplitMix64 (Steele, Lea and
/// Flood, 2014).
#[inline]
pub const fn splitmix64(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The same with 32 bits: the finalizer of MurmurHash3.
#[inline]
pub const fn murmur32(number: u32) -> u32 {
    let number = (number ^ number >> 16).wrapping_mul(0x85eb_ca6b);
    let number = (number ^ number >> 13).wrapping_mul(0xc2b2_ae35);
    number ^ number >> 16
}

/// A number for bytes: FNV-1a, 32 bits (RFC 9923 §5).
pub fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The same with 64 bits.
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gives_the_numbers_that_its_source_gives() {
        // RFC 9923, appendix C; SplitMix64's first number of seed 0 is that of the golden ratio;
        // MurmurHash3's reference.
        assert_eq!((fnv1a_32(b""), fnv1a_32(b"foobar")), (0x811c_9dc5, 0xbf9c_f968));
        assert_eq!(
            (fnv1a_64(b""), fnv1a_64(b"foobar")),
            (0xcbf2_9ce4_8422_2325, 0x8594_4171_f739_67e8)
        );
        assert_eq!(splitmix64(GOLDEN), 0xe220_a839_7b1d_cdaf);
        assert_eq!((murmur32(0), murmur32(1)), (0, 0x514e_28b7));
        assert_eq!((fibonacci(1), fibonacci32(1)), (GOLDEN, 0x9e37_79b9));
    }
}
