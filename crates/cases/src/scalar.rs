//! Values of fields.

use alloc::vec::Vec;

/// What a field is asked to be, or made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Scalar {
    Number(u128),
    Bytes(Vec<u8>),
}

/// Bytes as a number, the first sixteen of them.
pub fn number_of(bytes: &[u8]) -> u128 {
    bytes.iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))
}
