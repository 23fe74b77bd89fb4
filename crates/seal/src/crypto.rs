//! What is taken from the cryptographic library for keys and packets. `noise` takes what the
//! handshake needs.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};
use aws_lc_rs::rand;
use zeroize::Zeroizing;

/// Bytes of a key of AES-128.
pub const KEY_LEN: usize = 16;

/// Bytes of a tag of AES-GCM, and of the codes of handshake messages.
pub const TAG_LEN: usize = 16;

/// Fills this with random bytes.
pub fn fill(bytes: &mut [u8]) {
    rand::fill(bytes).expect("the operating system has random numbers");
}

/// A fresh random number, which is not 0.
pub fn random() -> u64 {
    loop {
        let mut bytes = [0; 8];
        fill(&mut bytes);
        match u64::from_ne_bytes(bytes) {
            0 => {}
            number => return number,
        }
    }
}

/// A key for what `label` says, made of a secret (HKDF with SHA-256, RFC 5869).
pub fn derive<const LEN: usize>(secret: &[u8], label: &str) -> Zeroizing<[u8; LEN]> {
    struct Len(usize);
    impl KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut key = Zeroizing::new([0; LEN]);
    Salt::none(HKDF_SHA256)
        .extract(secret)
        .expand(&[label.as_bytes()], Len(LEN))
        .and_then(|output| output.fill(&mut key[..]))
        .expect("a key is shorter than 255 hashes");
    key
}

/// Authenticates handshake messages (HMAC with SHA-256, cut to 128 bits).
pub struct Mac(Key);

impl Mac {
    pub fn new(key: &[u8; 32]) -> Self {
        Self(Key::new(HMAC_SHA256, key))
    }

    /// The code of all parts, one behind the other.
    pub fn code(&self, parts: &[&[u8]]) -> [u8; TAG_LEN] {
        let mut context = Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        *context.sign().as_ref().first_chunk().expect("a hash has 32 bytes")
    }

    /// Whether that is their code.
    pub fn is_code(&self, parts: &[&[u8]], code: &[u8; TAG_LEN]) -> bool {
        is_equal(&self.code(parts), code)
    }
}

/// SHA1 of all parts, one behind the other, which BFD's standard wants.
pub fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().try_into().expect("SHA1 has 20 bytes")
}

/// Whether these are equal, in a time that does not tell where they differ.
pub fn is_equal(one: &[u8], other: &[u8]) -> bool {
    verify_slices_are_equal(one, other).is_ok()
}

/// AES-128-GCM with one key: for packets of one direction. Its nonce is their number.
pub struct Cipher(LessSafeKey);

impl Cipher {
    pub fn new(key: &[u8; KEY_LEN]) -> Self {
        let key = UnboundKey::new(&AES_128_GCM, key).expect("it has the length of a key");
        Self(LessSafeKey::new(key))
    }

    /// Encrypts `text` in place. Returns the tag of both parts.
    pub fn seal(&self, number: u64, clear: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        let tag = self.0.seal_in_place_separate_tag(nonce(number), Aad::from(clear), text);
        let tag = tag.expect("a datagram is shorter than 64 GiB");
        tag.as_ref().try_into().expect("the tags of AES-GCM have 16 bytes")
    }

    /// Decrypts `text` in place. Whether that is the tag of both parts; if not, `text` is lost.
    pub fn open(&self, number: u64, clear: &[u8], tag: &[u8; TAG_LEN], text: &mut [u8]) -> bool {
        self.0.open_in_place_separate_tag(nonce(number), Aad::from(clear), tag, text).is_ok()
    }
}

/// As in Noise for AES-GCM: 32 bits of 0 and the number (Noise §12.4).
fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hexadecimal digits.
    fn hex<const LEN: usize>(digits: &str) -> [u8; LEN] {
        std::array::from_fn(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
    }

    #[test]
    fn keys_are_derived_as_the_standard_does() {
        // RFC 5869, A.3: neither salt nor label.
        let key: Zeroizing<[u8; 42]> = derive(&[0x0b; 22], "");
        let expected = hex(
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        );
        assert_eq!(*key, expected);
    }

    #[test]
    fn codes_are_those_of_the_standard() {
        // RFC 4231, test case 2, with its key filled up: HMAC does so itself.
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let parts: [&[u8]; 2] = [b"what do ya want ", b"for nothing?"];
        let code = hex("5bdcc146bf60754e6a042426089575c7");
        assert_eq!(Mac::new(&key).code(&parts), code);
        assert!(Mac::new(&key).is_code(&parts, &code));
        assert!(!Mac::new(&key).is_code(&parts, &[0; TAG_LEN]));
    }

    #[test]
    fn packets_are_sealed_as_the_standard_does() {
        // The GCM specification's test cases 1 and 2: key and nonce of zeros.
        let cipher = Cipher::new(&[0; KEY_LEN]);
        assert_eq!(cipher.seal(0, &[], &mut []), hex("58e2fccefa7e3061367f1d57a4e7455a"));
        let mut text = [0; 16];
        let tag = cipher.seal(0, &[], &mut text);
        assert_eq!(text, hex("0388dace60b6a392f328c2b971b2fe78"));
        assert_eq!(tag, hex("ab6e47d42cec13bdf53a67b21257bddf"));
        assert!(cipher.open(0, &[], &tag, &mut text));
        assert_eq!(text, [0; 16]);
        assert_eq!(nonce(0x0102_0304_0506_0708).as_ref(), &[0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
