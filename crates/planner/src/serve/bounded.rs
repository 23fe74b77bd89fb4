//! Lists of a bounded length, of which no more is kept than is needed.

use std::fmt::{self, Display};
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

use super::word::Word;

/// More names of hosts than this are not asked about at once.
pub const MOST_NAMES: usize = 20_000;

/// Names of hosts.
#[derive(Debug, Default)]
pub struct Names(pub Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut names = Vec::new();
        each(deserializer, "names", MOST_NAMES, |Word(name)| {
            names.push(name);
            Ok::<_, std::convert::Infallible>(())
        })?;
        Ok(Self(names))
    }
}

/// Reads a list and hands each of its items on, as long as there are no more than `most`.
pub fn each<'de, D, T, E>(
    deserializer: D,
    what: &'static str,
    most: usize,
    take: impl FnMut(T) -> Result<(), E>,
) -> Result<(), D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
    E: Display,
{
    struct Each<T, F> {
        what: &'static str,
        most: usize,
        take: F,
        item: PhantomData<T>,
    }

    impl<'de, T, E, F> Visitor<'de> for Each<T, F>
    where
        T: Deserialize<'de>,
        E: Display,
        F: FnMut(T) -> Result<(), E>,
    {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {} {}", self.most, self.what)
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            let mut count = 0;
            while let Some(item) = list.next_element()? {
                count += 1;
                if count > self.most {
                    return Err(de::Error::invalid_length(count, &self));
                }
                (self.take)(item).map_err(de::Error::custom)?;
            }
            Ok(())
        }
    }

    deserializer.deserialize_seq(Each { what, most, take, item: PhantomData })
}
