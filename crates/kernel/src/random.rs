//! Numbers that nobody guesses.

use rustix::rand::{GetRandomFlags, getrandom};

/// 64 random bits of the kernel's generator (getrandom(2)).
///
/// # Panics
///
/// If the kernel has no such call: Linux has it since 3.17.
pub fn number() -> u64 {
    let mut bytes = [0; 8];
    loop {
        // A signal may come while the kernel's generator is not seeded yet, at boot.
        if getrandom(&mut bytes, GetRandomFlags::empty()) == Ok(bytes.len()) {
            return u64::from_ne_bytes(bytes);
        }
    }
}
