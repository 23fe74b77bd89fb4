//! Pre-shared keys: what operators write, and what is derived from it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::crypto::{Mac, TAG_LEN, derive, fill};

/// Bytes of a pre-shared key.
const LEN: usize = 32;

/// How many may be valid at once.
const MOST: usize = 2;

/// The pre-shared keys of a host: one, or two while they are being changed. Handshakes begin with
/// the first. Both are accepted.
pub struct Keys(Vec<Key>);

/// What is derived from one pre-shared key, which itself is not kept.
pub struct Key {
    fingerprint: Fingerprint,
    /// Goes into Noise.
    noise: Zeroizing<[u8; 32]>,
    /// Authenticates handshake messages.
    mac: Mac,
    bfd: Zeroizing<[u8; 20]>,
}

/// Tells pre-shared keys apart, and says nothing else about them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fingerprint(u32);

impl Fingerprint {
    /// Its low 8 bits.
    pub(crate) fn low_bits(self) -> u8 {
        self.0 as u8
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// Why a text has no keys in it. Never tells what it has.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum KeysError {
    /// All lines are empty or comments.
    #[error("there is no key: write a line that `openssl rand -base64 32` makes")]
    None,
    /// A line is something else.
    #[error("line {line} is not base64: replace it by what `openssl rand -base64 32` makes")]
    NotBase64 {
        /// Its number, from 1.
        line: usize,
    },
    /// A key of another length.
    #[error(
        "line {line} has {len} bytes and not {LEN}: replace it by what `openssl rand -base64 {LEN}` makes"
    )]
    Length {
        /// Its number, from 1.
        line: usize,
        /// How many bytes it has.
        len: usize,
    },
    /// A key that nobody drew at random.
    #[error(
        "line {line} is one byte over and over: replace it by what `openssl rand -base64 32` makes"
    )]
    NotRandom {
        /// Its number, from 1.
        line: usize,
    },
    /// A key that is there already.
    #[error("line {line} has the key of an earlier line: remove one of them")]
    Twice {
        /// Its number, from 1.
        line: usize,
    },
    /// A third key.
    #[error(
        "line {line} has one key more than the {MOST} that may be valid at once: remove the oldest"
    )]
    TooMany {
        /// Its number, from 1.
        line: usize,
    },
}

impl Keys {
    /// Reads one key or two, each a line of 32 bytes in base64. Empty lines and what follows a `#`
    /// are ignored.
    ///
    /// # Errors
    ///
    /// Says which line is wrong, and what to do about it.
    pub fn parse(text: &str) -> Result<Self, KeysError> {
        let mut keys: Vec<Key> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let secret = STANDARD.decode(text).map_err(|_| KeysError::NotBase64 { line })?;
            let secret = Zeroizing::new(secret);
            let secret: &[u8; LEN] =
                secret[..].try_into().map_err(|_| KeysError::Length { line, len: secret.len() })?;
            if secret.iter().all(|byte| *byte == secret[0]) {
                return Err(KeysError::NotRandom { line });
            }
            let key = Key::new(secret);
            if keys.iter().any(|other| other.fingerprint == key.fingerprint) {
                return Err(KeysError::Twice { line });
            }
            if keys.len() == MOST {
                return Err(KeysError::TooMany { line });
            }
            keys.push(key);
        }
        if keys.is_empty() { Err(KeysError::None) } else { Ok(Self(keys)) }
    }

    /// The keys, the one that handshakes begin with first.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.0.iter()
    }

    /// The key to begin with at the given attempt: they take turns, so that a peer that does not
    /// have the first yet is reached by the second.
    pub(crate) fn turn(&self, attempt: u32) -> &Key {
        &self.0[attempt as usize % self.0.len()]
    }

    /// The key with this fingerprint.
    pub(crate) fn find(&self, fingerprint: Fingerprint) -> Option<&Key> {
        self.iter().find(|key| key.fingerprint == fingerprint)
    }

    /// A line with a new key, as [`parse`](Self::parse) reads it.
    pub fn draw() -> Zeroizing<String> {
        let mut secret = Zeroizing::new([0; LEN]);
        fill(&mut *secret);
        Zeroizing::new(STANDARD.encode(*secret) + "\n")
    }

    /// The key that handshakes begin with.
    pub(crate) fn first(&self) -> &Key {
        self.turn(0)
    }
}

impl Key {
    fn new(secret: &[u8; LEN]) -> Self {
        Self {
            fingerprint: Fingerprint(u32::from_be_bytes(*derive(secret, "zovn 1 fingerprint"))),
            noise: derive(secret, "zovn 1 noise"),
            mac: Mac::new(&derive(secret, "zovn 1 handshake")),
            bfd: derive(secret, "zovn 1 bfd"),
        }
    }

    /// What to tell it by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The key for BFD's meticulous keyed SHA1 (RFC 5880 §6.7.4).
    pub(crate) fn bfd(&self) -> &[u8; 20] {
        &self.bfd
    }

    pub(crate) fn noise(&self) -> &[u8; 32] {
        &self.noise
    }

    pub(crate) fn code(&self, parts: &[&[u8]]) -> [u8; TAG_LEN] {
        self.mac.code(parts)
    }

    pub(crate) fn is_code(&self, parts: &[&[u8]], code: &[u8; TAG_LEN]) -> bool {
        self.mac.is_code(parts, code)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&format_args!("{}", self.fingerprint)).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: &str = "Nq2qzpGUxm5uUBVVXVd1c6yjQYFCoUqrtVtNYyREp3k=";
    const TWO: &str = "gM3v1H5RZkQPZMNqZ6vWwVrGm2v8f8Jv0xQvV2rX0nA=";

    #[test]
    fn a_file_has_one_key_or_two() {
        let one = Keys::parse(&format!("{ONE}\n")).unwrap();
        let both = Keys::parse(&format!("# new\n {TWO} # of May\r\n\n{ONE}\n#\n")).unwrap();
        assert_eq!((one.iter().count(), both.iter().count()), (1, 2));
        assert_eq!(both.turn(1).fingerprint(), one.turn(0).fingerprint());
        assert_eq!(both.turn(1).bfd(), one.first().bfd());
        assert_ne!(both.first().bfd(), one.first().bfd());
        assert_eq!(both.turn(2).fingerprint(), both.turn(0).fingerprint());
        assert!(both.find(one.turn(0).fingerprint()).is_some());
        assert!(one.find(both.turn(0).fingerprint()).is_none());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_never_with_what_it_has() {
        let wrong = |text: &str| Keys::parse(text).unwrap_err();
        assert_eq!(wrong(" \n# none\n"), KeysError::None);
        assert_eq!(wrong("\n?\n"), KeysError::NotBase64 { line: 2 });
        assert_eq!(wrong(&ONE[..43]), KeysError::NotBase64 { line: 1 });
        assert_eq!(wrong(&format!("{ONE} {TWO}")), KeysError::NotBase64 { line: 1 });
        assert_eq!(wrong("AAAAAAAAAAAAAAAAAAAAAA=="), KeysError::Length { line: 1, len: 16 });
        let zeros = format!("{}=", "A".repeat(43));
        assert_eq!(wrong(&zeros), KeysError::NotRandom { line: 1 });
        assert_eq!(wrong(&format!("{ONE}\n\n{ONE}")), KeysError::Twice { line: 3 });
        let three = "sCjfGnO8nCh0nWbSgHTG9Bnm4oaC6XgpF3c7ne0qx3E=";
        assert_eq!(wrong(&format!("{ONE}\n{TWO}\n{three}")), KeysError::TooMany { line: 3 });
        assert_eq!(
            wrong("AAAA").to_string(),
            "line 1 has 3 bytes and not 32: replace it by what `openssl rand -base64 32` makes"
        );
    }

    #[test]
    fn what_is_drawn_is_a_key_and_another_each_time() {
        let [one, other] = [(); 2].map(|()| Keys::parse(&Keys::draw()).unwrap());
        assert_ne!(one.first().fingerprint(), other.first().fingerprint());
    }

    #[test]
    fn debugging_shows_fingerprints_only() {
        let keys = Keys::parse(ONE).unwrap();
        assert_eq!(format!("{keys:?}"), format!("[Key({})]", keys.turn(0).fingerprint()));
    }

    proptest! {
        #[test]
        fn any_text_is_keys_or_an_error(text in "[A-Za-z0-9+/=# \n]{0,150}") {
            if let Err(error) = Keys::parse(&text) {
                let said = format!("{error} {error:?}");
                let mut words = text.split(['#', ' ', '\n']).filter(|word| word.len() > 12);
                prop_assert!(words.all(|word| !said.contains(word)));
            }
        }
    }
}
