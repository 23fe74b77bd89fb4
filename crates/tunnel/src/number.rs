//! 64-bit numbers of which the low 32 bits are sent (RFC 9000 A.3).

/// The number nearest to `near` with these low 32 bits.
pub fn expand(low: u32, near: u64) -> u64 {
    let apart = low.wrapping_sub(near as u32).cast_signed();
    // There are no numbers below 0: the lowest number with these bits is meant.
    near.checked_add_signed(apart.into()).unwrap_or(u64::from(low))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_not_far_away_is_found(near in 0..u64::MAX / 2, ahead in 0_u64..1 << 31, behind in 0_u64..1 << 31) {
            prop_assert_eq!(expand((near + ahead) as u32, near), near + ahead);
            let before = near.saturating_sub(behind);
            prop_assert_eq!(expand(before as u32, near), before);
        }
    }
}
