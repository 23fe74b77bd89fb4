//! Lengths as bytes: seven bits in each, the lowest first, the eighth says that more follow
//! (LEB128).

use alloc::vec::Vec;

/// Appends a length.
pub fn put(length: usize, to: &mut Vec<u8>) {
    let mut rest = length;
    while rest >= 0x80 {
        to.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

/// Takes a length from the front; `None` if none is there that fits 32 bits and is written as
/// [`put`] writes it.
pub fn take(bytes: &mut &[u8]) -> Option<usize> {
    let mut length = 0u64;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        length |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            let is_shortest = at == 0 || *byte != 0;
            *bytes = &bytes[at + 1..];
            return (is_shortest && length <= u64::from(u32::MAX)).then_some(length as usize);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_is_written_in_one_way() {
        for length in [0, 1, 127, 128, 300, 1 << 14, (1 << 21) - 1, u32::MAX as usize] {
            let mut bytes = Vec::new();
            put(length, &mut bytes);
            bytes.push(9);
            let mut rest = &bytes[..];
            assert_eq!((take(&mut rest), rest), (Some(length), &[9][..]));
        }
        for wrong in [&[][..], &[0x80], &[0x80, 0], &[0xff, 0xff, 0xff, 0xff, 0x10], &[0xff; 6]] {
            assert_eq!(take(&mut &*wrong), None, "{wrong:?}");
        }
    }
}
