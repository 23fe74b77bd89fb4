//! A key that remembers which of its bits were read: these are the mask of what is decided by it.

/// A place in a key of 64-bit words: bits counted from the first word's most significant one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Field {
    first: u16,
    len: u8,
}

impl Field {
    /// `len` bits from `first` on.
    ///
    /// # Panics
    ///
    /// If there are none, or more than 128. Fields are constants: this is a compiler's error.
    pub const fn new(first: u16, len: u8) -> Self {
        assert!(len > 0 && len <= 128, "a field has 1 to 128 bits");
        Self { first, len }
    }

    /// How many bits it has.
    pub const fn len(self) -> u8 {
        self.len
    }

    /// Never: a field has bits.
    pub const fn is_empty(self) -> bool {
        false
    }

    /// The field that begins where this one ends.
    pub const fn then(self, len: u8) -> Self {
        Self::new(self.first + self.len as u16, len)
    }

    /// Its words, and the bits of it in each: the number of the word, how many bits are to the
    /// right of it there, how many bits it has there.
    fn parts(self) -> impl Iterator<Item = (usize, u32, u32)> {
        let (mut at, mut left) = (u32::from(self.first), u32::from(self.len));
        core::iter::from_fn(move || {
            let here = left.min(64 - at % 64);
            let part = (here > 0).then(|| ((at / 64) as usize, 64 - at % 64 - here, here));
            (at, left) = (at + here, left - here);
            part
        })
    }

    /// Its value in a key.
    ///
    /// # Panics
    ///
    /// If the key is shorter.
    pub fn get<const N: usize>(self, key: &[u64; N]) -> u128 {
        self.parts().fold(0, |value, (word, right, len)| {
            let part = key[word] >> right & ones(len);
            value << len | u128::from(part)
        })
    }

    /// Gives it a value in a key: as many of the value's last bits as it has.
    ///
    /// # Panics
    ///
    /// If the key is shorter.
    pub fn set<const N: usize>(self, key: &mut [u64; N], value: u128) {
        let mut left = u32::from(self.len);
        for (word, right, len) in self.parts() {
            left -= len;
            let part = (value >> left) as u64 & ones(len);
            key[word] = key[word] & !(ones(len) << right) | part << right;
        }
    }
}

/// So many ones, 64 at most.
const fn ones(len: u32) -> u64 {
    match len {
        0 => 0,
        len => u64::MAX >> (64 - len),
    }
}

/// A key, and which of its bits were read.
#[derive(Clone, Debug)]
pub struct Tracked<'a, const N: usize> {
    key: &'a [u64; N],
    mask: [u64; N],
}

impl<'a, const N: usize> Tracked<'a, N> {
    /// Of which nothing was read yet.
    pub const fn new(key: &'a [u64; N]) -> Self {
        Self { key, mask: [0; N] }
    }

    /// A field's value. What is decided depends on all of it.
    pub fn read(&mut self, field: Field) -> u128 {
        self.note(field, field.len);
        field.get(self.key)
    }

    /// A field's value, of which only so many leading bits are looked at; the others are 0.
    pub fn read_prefix(&mut self, field: Field, bits: u8) -> u128 {
        let bits = bits.min(field.len);
        self.note(field, bits);
        let rest = u32::from(field.len - bits);
        field.get(self.key).checked_shr(rest).and_then(|it| it.checked_shl(rest)).unwrap_or(0)
    }

    /// A field's value, to look something up by. What is found says how many leading bits decided:
    /// [`note`](Self::note) them.
    pub fn peek(&self, field: Field) -> u128 {
        field.get(self.key)
    }

    /// Notes that so many leading bits of a field decided.
    pub fn note(&mut self, field: Field, bits: u8) {
        if bits > 0 {
            let read = Field { len: bits.min(field.len), ..field };
            for (word, right, len) in read.parts() {
                self.mask[word] |= ones(len) << right;
            }
        }
    }

    /// The key.
    pub const fn key(&self) -> &'a [u64; N] {
        self.key
    }

    /// The bits that were read.
    pub const fn mask(&self) -> &[u64; N] {
        &self.mask
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_field_has_what_it_was_given_and_others_stay(
            key: [u64; 4],
            value: u128,
            first in 0_u16..128,
            len in 1_u8..=128,
            bits in 0_u8..=128,
        ) {
            let field = Field::new(first, len);
            let mut changed = key;
            field.set(&mut changed, value);
            let ones = u128::MAX >> (128 - len);
            prop_assert_eq!(field.get(&changed), value & ones);
            let mut tracked = Tracked::new(&changed);
            tracked.read(field);
            for (word, read) in tracked.mask().iter().enumerate() {
                prop_assert_eq!(changed[word] & !read, key[word] & !read);
            }
            let all: u32 = tracked.mask().iter().map(|it| it.count_ones()).sum();
            prop_assert_eq!(all, u32::from(len));

            // A prefix is read as what agrees in these bits is.
            let mut tracked = Tracked::new(&changed);
            let read = tracked.read_prefix(field, bits);
            let other: [u64; 4] = core::array::from_fn(|word| {
                changed[word] & tracked.mask()[word] | key[word] & !tracked.mask()[word]
            });
            prop_assert_eq!(Tracked::new(&other).read_prefix(field, bits), read);
            let all: u32 = tracked.mask().iter().map(|it| it.count_ones()).sum();
            prop_assert_eq!(all, u32::from(bits.min(len)));
        }
    }
}
