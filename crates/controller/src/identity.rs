//! Numbers for objects that nobody had before.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::rand::{GetRandomFlags, getrandom};

/// A UUIDv7 (RFC 9562 §5.7): milliseconds since 1970, then 74 random bits.
pub fn uuid(now: SystemTime) -> String {
    with_time(random(), since_1970(now).as_millis() as u64)
}

/// When the UUID of an object was made, in milliseconds since 1970.
pub fn made_ms(uuid: &str) -> Option<u64> {
    let (high, rest) = uuid.split_once('-')?;
    u64::from_str_radix(&[high, rest.get(..4)?].concat(), 16).ok()
}

/// A random number.
pub fn number() -> u64 {
    u64::from_ne_bytes(random())
}

/// Up to 256 random bytes.
pub fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let got = getrandom(&mut bytes, GetRandomFlags::empty());
    // The kernel interrupts no request of up to 256 bytes, once it has any randomness.
    assert_eq!(got, Ok(BYTES), "the kernel gives no random numbers");
    bytes
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How long 1970 is ago; nothing for a clock that was never set.
pub fn since_1970(now: SystemTime) -> std::time::Duration {
    now.duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn with_time(mut bytes: [u8; 16], milliseconds: u64) -> String {
    bytes[..6].copy_from_slice(&milliseconds.to_be_bytes()[2..]);
    // Its version and its variant.
    bytes[6] = bytes[6] & 0x0f | 0x70;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = hex(&bytes);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_the_one_of_the_standard() {
        // RFC 9562, appendix A.6.
        let random = [0, 0, 0, 0, 0, 0, 0xc, 0xc3, 0x18, 0xc4, 0xdc, 0xc, 0xc, 7, 0x39, 0x8f];
        let uuid = with_time(random, 0x017f_22e2_79b0);
        assert_eq!(uuid, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
        assert_eq!(made_ms(&uuid), Some(0x017f_22e2_79b0));
    }

    #[test]
    fn later_ones_are_greater() {
        let now = SystemTime::now();
        assert!(uuid(now) < uuid(now + std::time::Duration::from_millis(1)));
    }
}
