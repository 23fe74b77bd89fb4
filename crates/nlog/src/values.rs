//! Values as words.
//!
//! Tables hold a word of 32 bits for each value, so that comparing, sorting and hashing never touch
//! a text. Bools, ids and numbers below 2^31 are their own words; larger numbers, texts, bytes and
//! sets are kept here once each, and their words say where. What no tuple has any more is forgotten
//! when there are twice as many as were left the last time.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use hashbrown::HashTable;

use crate::kinds::{Kind, Scalar};

/// A value of an engine: a word, and what it means.
///
/// It is the engine's whose [`Values`] made it, until the next commit if no tuple has it then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Value {
    pub(crate) kind: Kind,
    pub(crate) word: u32,
}

impl Value {
    /// Its kind.
    pub fn kind(self) -> Kind {
        self.kind
    }
}

/// Every value of an engine that is not its own word.
#[derive(Clone)]
pub struct Values {
    kept: Vec<Box<[u8]>>,
    /// The kept ones by their bytes.
    index: HashTable<u32>,
    /// Places of values that were forgotten.
    free: Vec<u32>,
    /// How many may be kept before those that nobody needs are looked for.
    limit: usize,
    /// Makes hashes unpredictable for whoever chooses the values.
    seed: u64,
}

/// Marks the words of numbers that are kept.
const KEPT: u32 = 1 << 31;

/// How many values may be kept that nobody needs, however few there are.
const SPARE: usize = 1 << 12;

impl Values {
    /// None yet. `seed` is what hashes depend on: give it a random number where tenants choose
    /// names, so that they cannot choose ones that collide.
    pub fn new(seed: u64) -> Self {
        Self { kept: Vec::new(), index: HashTable::new(), free: Vec::new(), limit: SPARE, seed }
    }

    /// The value of a bool.
    pub fn bool(&self, value: bool) -> Value {
        Value { kind: Kind::One(Scalar::Bool), word: value.into() }
    }

    /// The value of a number of the program's user.
    pub fn id(&self, value: u32) -> Value {
        Value { kind: Kind::One(Scalar::Id), word: value }
    }

    /// The value of a number.
    pub fn int(&mut self, value: u64) -> Value {
        Value { kind: Kind::One(Scalar::Int), word: self.int_word(value) }
    }

    /// The value of a text.
    pub fn text(&mut self, value: &str) -> Value {
        Value { kind: Kind::One(Scalar::Text), word: self.keep(value.as_bytes()) }
    }

    /// The value of bytes.
    pub fn bytes(&mut self, value: &[u8]) -> Value {
        Value { kind: Kind::One(Scalar::Bytes), word: self.keep(value) }
    }

    /// The value of a set without members: none that rules derive is so.
    pub fn empty(&mut self, of: Scalar) -> Value {
        Value { kind: Kind::Set(of), word: self.keep(&[]) }
    }

    /// How many values are kept, and their bytes together.
    pub fn kept(&self) -> (usize, usize) {
        (self.len(), self.kept.iter().map(|it| it.len()).sum())
    }

    fn len(&self) -> usize {
        self.kept.len() - self.free.len()
    }

    /// Whether it is time to look for values that nobody needs.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Where a value is kept, if it is not its own word.
    pub(crate) fn place(kind: Kind, word: u32) -> Option<usize> {
        match kind {
            Kind::One(Scalar::Bool | Scalar::Id) => None,
            Kind::One(Scalar::Int) => (word >= KEPT).then_some((word ^ KEPT) as usize),
            Kind::One(Scalar::Text | Scalar::Bytes) | Kind::Set(_) => Some(word as usize),
        }
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> usize {
        self.kept.len()
    }

    /// Forgets all values but those at the places that are needed.
    pub(crate) fn forget(&mut self, is_needed: &[bool]) {
        self.index.retain(|word| is_needed[*word as usize]);
        self.free.clear();
        for (place, is_needed) in is_needed.iter().enumerate().rev() {
            if !is_needed {
                self.kept[place] = Box::default();
                self.free.push(place as u32);
            }
        }
        self.limit = 2 * self.len() + SPARE;
    }

    /// Has what nobody needs be looked for at every commit.
    #[cfg(test)]
    pub(crate) fn be_full(&mut self) {
        self.limit = 0;
    }

    /// What the value is.
    pub fn datum(&self, value: Value) -> Datum<'_> {
        match value.kind {
            Kind::One(scalar) => self.scalar(scalar, value.word),
            Kind::Set(scalar) => {
                let mut members: Vec<Datum<'_>> =
                    self.members(value.word).map(|word| self.scalar(scalar, word)).collect();
                members.sort_unstable();
                Datum::Set(members)
            }
        }
    }

    pub(crate) fn int_word(&mut self, value: u64) -> u32 {
        match u32::try_from(value) {
            Ok(small) if small < KEPT => small,
            _ => KEPT | self.keep(&value.to_le_bytes()),
        }
    }

    pub(crate) fn int_of(&self, word: u32) -> u64 {
        if word < KEPT {
            return word.into();
        }
        let bytes = &self.kept[(word ^ KEPT) as usize];
        u64::from_le_bytes((**bytes).try_into().expect("a kept number is 8 bytes"))
    }

    /// The word of a set of words, which are in order and differ.
    pub(crate) fn set_word(&mut self, members: impl Iterator<Item = u32>) -> u32 {
        let bytes: Vec<u8> = members.flat_map(u32::to_le_bytes).collect();
        self.keep(&bytes)
    }

    pub(crate) fn members(&self, word: u32) -> impl Iterator<Item = u32> {
        self.kept[word as usize].as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// Which of two words of a scalar comes first.
    pub(crate) fn order(&self, scalar: Scalar, one: u32, other: u32) -> Ordering {
        match scalar {
            Scalar::Bool | Scalar::Id => one.cmp(&other),
            _ => self.scalar(scalar, one).cmp(&self.scalar(scalar, other)),
        }
    }

    fn scalar(&self, scalar: Scalar, word: u32) -> Datum<'_> {
        match scalar {
            Scalar::Bool => Datum::Bool(word != 0),
            Scalar::Id => Datum::Id(word),
            Scalar::Int => Datum::Int(self.int_of(word)),
            Scalar::Bytes => Datum::Bytes(&self.kept[word as usize]),
            Scalar::Text => Datum::Text(
                core::str::from_utf8(&self.kept[word as usize]).expect("a kept text is UTF-8"),
            ),
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> u32 {
        let Self { kept, index, free, seed, .. } = self;
        let known = |word: &u32| *kept[*word as usize] == *bytes;
        let hash = hash(*seed, bytes);
        if let Some(word) = index.find(hash, known) {
            return *word;
        }
        let word = free.pop().unwrap_or_else(|| {
            kept.push(Box::default());
            let word = u32::try_from(kept.len() - 1).ok().filter(|word| *word < KEPT);
            word.expect("an engine keeps fewer than 2^31 values")
        });
        kept[word as usize] = bytes.into();
        let rehash = |word: &u32| self::hash(*seed, &kept[*word as usize]);
        index.insert_unique(hash, word, rehash);
        word
    }
}

/// Eight bytes at a time, each folded in by a multiplication of 64 by 64 bits, as wyhash does.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = fold(state ^ u64::from_le_bytes(word), 0xa076_1d64_78bd_642f ^ seed);
    }
    fold(state ^ bytes.len() as u64, 0xe703_7ed1_a0b4_28db)
}

/// What a value is, to be read. Data of one kind have an order: that of numbers, texts and bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Datum<'a> {
    /// A bool.
    Bool(bool),
    /// A number.
    Int(u64),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A number of the program's user.
    Id(u32),
    /// A set, in order.
    Set(Vec<Datum<'a>>),
}

/// As rules write it. Bytes are hexadecimal digits, ids have a `#` before them.
impl fmt::Display for Datum<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(it) => write!(f, "{it}"),
            Self::Int(it) => write!(f, "{it}"),
            Self::Text(it) => write!(f, "{it:?}"),
            Self::Bytes(it) => it.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Id(it) => write!(f, "#{it}"),
            Self::Set(members) => {
                f.write_str("{")?;
                for (at, member) in members.iter().enumerate() {
                    write!(f, "{}{member}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn values_are_kept_once_and_read_back() {
        let mut values = Values::new(7);
        for number in [0, 1, (1 << 31) - 1, 1 << 31, u64::from(u32::MAX), u64::MAX] {
            let value = values.int(number);
            assert_eq!(value, values.int(number));
            assert_eq!(values.datum(value), Datum::Int(number));
        }
        let (text, bytes) = (values.text("web"), values.bytes(b"web"));
        assert_eq!(values.datum(text), Datum::Text("web"));
        assert_eq!(values.datum(bytes).to_string(), "776562");
        assert_eq!(values.text("web"), text);
        assert_eq!(values.kept(), (4, 3 * 8 + 3));
    }

    #[test]
    fn sets_are_shown_in_the_order_of_their_members() {
        let mut values = Values::new(0);
        let mut words: Vec<u32> = ["b", "c", "a"].map(|it| values.text(it).word).into();
        words.sort_unstable();
        let word = values.set_word(words.into_iter());
        let set = Value { kind: Kind::Set(Scalar::Text), word };
        assert_eq!(values.datum(set).to_string(), "{\"a\", \"b\", \"c\"}");
        let empty = values.empty(Scalar::Text);
        assert_eq!(values.empty(Scalar::Text), empty);
        assert_eq!(values.datum(empty), Datum::Set(Vec::new()));
    }
}
