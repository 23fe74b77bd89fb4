//! Sorts rows of words.

use alloc::vec::Vec;

/// Below this many rows, comparisons are fewer than the passes over all digits.
const RADIX_ROWS: usize = 256;

/// Sorts rows of `stride` words by their first `width` words. `spare` is memory to be used again.
pub(crate) fn sort(rows: &mut Vec<u32>, stride: usize, width: usize, spare: &mut Vec<u32>) {
    match stride {
        1 => by_stride::<1>(rows, width, spare),
        2 => by_stride::<2>(rows, width, spare),
        3 => by_stride::<3>(rows, width, spare),
        4 => by_stride::<4>(rows, width, spare),
        5 => by_stride::<5>(rows, width, spare),
        6 => by_stride::<6>(rows, width, spare),
        7 => by_stride::<7>(rows, width, spare),
        8 => by_stride::<8>(rows, width, spare),
        9 => by_stride::<9>(rows, width, spare),
        10 => by_stride::<10>(rows, width, spare),
        11 => by_stride::<11>(rows, width, spare),
        12 => by_stride::<12>(rows, width, spare),
        13 => by_stride::<13>(rows, width, spare),
        14 => by_stride::<14>(rows, width, spare),
        15 => by_stride::<15>(rows, width, spare),
        16 => by_stride::<16>(rows, width, spare),
        17 => by_stride::<17>(rows, width, spare),
        _ => unreachable!("a row has at most 16 columns and a count, not {stride} words"),
    }
}

fn by_stride<const STRIDE: usize>(rows: &mut Vec<u32>, width: usize, spare: &mut Vec<u32>) {
    let all = rows.as_chunks_mut::<STRIDE>().0;
    if all.len() < RADIX_ROWS {
        return all.sort_unstable_by(|one, other| one[..width].cmp(&other[..width]));
    }
    if all.is_sorted_by(|one, other| one[..width] <= other[..width]) {
        return;
    }
    spare.clear();
    spare.resize(rows.len(), 0);
    // The least significant byte first; each pass keeps the order of those before it.
    for word in (0..width).rev() {
        let all = rows.as_chunks::<STRIDE>().0;
        let mut counts = [[0_u32; 256]; 4];
        for row in all {
            for (byte, counts) in counts.iter_mut().enumerate() {
                counts[digit(row[word], byte)] += 1;
            }
        }
        for (byte, counts) in counts.iter_mut().enumerate() {
            let (from, to) = (rows.as_chunks::<STRIDE>().0, spare.as_chunks_mut::<STRIDE>().0);
            // All rows have the same byte: so it is with the upper ones of small numbers.
            if counts[digit(from[0][word], byte)] as usize == from.len() {
                continue;
            }
            let mut start = 0;
            for count in counts.iter_mut() {
                (*count, start) = (start, start + *count);
            }
            for row in from {
                let place = &mut counts[digit(row[word], byte)];
                to[*place as usize] = *row;
                *place += 1;
            }
            core::mem::swap(rows, spare);
        }
    }
}

fn digit(word: u32, byte: usize) -> usize {
    (word >> (8 * byte)) as usize & 0xff
}

/// Adds up the last words of sorted rows that are otherwise equal, as signed numbers, and leaves
/// out those that come to nothing.
pub(crate) fn consolidate(rows: &mut Vec<u32>, stride: usize) {
    let width = stride - 1;
    let (mut written, mut read) = (0, 0);
    while read < rows.len() {
        let mut sum = 0_i32;
        let first = read;
        while read < rows.len() && rows[read..read + width] == rows[first..first + width] {
            sum = sum.checked_add(rows[read + width].cast_signed()).expect("fewer than 2^31 rows");
            read += stride;
        }
        if sum != 0 {
            rows.copy_within(first..first + width, written);
            rows[written + width] = sum.cast_unsigned();
            written += stride;
        }
    }
    rows.truncate(written);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        /// Sorting and adding up is what a map of sums does, with few rows and with many.
        #[test]
        fn rows_are_added_up_as_in_a_map(
            rows in proptest::collection::vec((0..6_u32, any::<u32>(), 0..3_u32, -1..2_i32), 0..900),
            shift in 0..32_u32,
        ) {
            let mut model: BTreeMap<[u32; 3], i32> = BTreeMap::new();
            let mut words = Vec::new();
            for (a, b, c, count) in rows {
                let key = [a, b >> shift, c << 30];
                *model.entry(key).or_default() += count;
                words.extend(key);
                words.push(count.cast_unsigned());
            }
            model.retain(|_, count| *count != 0);
            sort(&mut words, 4, 3, &mut Vec::new());
            consolidate(&mut words, 4);
            let found: Vec<[u32; 4]> = words.as_chunks().0.to_vec();
            let expected: Vec<[u32; 4]> =
                model.iter().map(|(it, count)| [it[0], it[1], it[2], count.cast_unsigned()]).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
