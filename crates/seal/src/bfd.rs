//! BFD's packets with a digest: meticulous keyed SHA1 (RFC 5880 §6.7.4), by keys that come from the
//! pre-shared ones.

use wire::bfd::{Header, KeyedSha1, Packet};
use zerocopy::IntoBytes;

use crate::crypto::{is_equal, sha1};
use crate::{Key, Keys};

/// Bytes of a packet with a digest.
pub const LEN: usize = Header::LEN + KeyedSha1::LEN;

/// The packet with this header, the digest by the first key, and this sequence number.
pub fn sign(header: Header, keys: &Keys, sequence: u32) -> [u8; LEN] {
    let key = keys.first();
    let header = header.authenticated();
    let unsigned = KeyedSha1::new(id(key), sequence, [0; 20]);
    let section = unsigned.with_digest(digest(&header, &unsigned, key));
    let mut packet = [0; LEN];
    packet[..Header::LEN].copy_from_slice(header.as_bytes());
    packet[Header::LEN..].copy_from_slice(section.as_bytes());
    packet
}

/// The sequence number of a packet, if its digest is by one of these keys.
pub fn verify(packet: &Packet<'_>, keys: &Keys) -> Option<u32> {
    let section = packet.authentication.and_then(KeyedSha1::parse)?;
    let is_by = |key: &Key| {
        id(key) == section.key && is_equal(&digest(packet.header, section, key), &section.digest)
    };
    keys.iter().any(is_by).then_some(section.sequence.get())
}

/// The digest of a packet, with the key in its place.
fn digest(header: &Header, section: &KeyedSha1, key: &Key) -> [u8; 20] {
    let section = section.with_digest(*key.bfd());
    sha1(&[header.as_bytes(), section.as_bytes()])
}

/// The number of a key in packets.
fn id(key: &Key) -> u8 {
    key.fingerprint().low_bits()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::bfd::{Diagnostic, Flags, State};

    use super::*;

    const ONE: &str = "Nq2qzpGUxm5uUBVVXVd1c6yjQYFCoUqrtVtNYyREp3k=";
    const TWO: &str = "gM3v1H5RZkQPZMNqZ6vWwVrGm2v8f8Jv0xQvV2rX0nA=";

    fn keys(lines: &[&str]) -> Keys {
        Keys::parse(&lines.join("\n")).unwrap()
    }

    proptest! {
        #[test]
        fn a_digest_is_of_the_whole_packet_and_by_a_key_that_is_known(sequence: u32, at in 0..LEN * 8) {
            let header = Header::new(State::Down, Diagnostic::NONE, Flags::default(), 7);
            let packet = sign(header, &keys(&[ONE, TWO]), sequence);
            let sequence_by =
                |bytes: &[u8], keys: &Keys| verify(&Packet::parse(bytes)?, keys);
            for (lines, is_known) in [(&[ONE][..], true), (&[TWO, ONE], true), (&[TWO], false)] {
                let expected = is_known.then_some(sequence);
                prop_assert_eq!(sequence_by(&packet, &keys(lines)), expected);
            }
            let mut other = packet;
            other[at / 8] ^= 1 << (at % 8);
            prop_assert_eq!(sequence_by(&other, &keys(&[ONE])), None);
        }
    }
}
