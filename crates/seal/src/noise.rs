//! The handshake itself: Noise's pattern NNpsk0 (revision 34), by the crate `snow` with the
//! primitives of our cryptographic library.
//!
//! ```text
//!   -> psk, e        begin ─▶ NOISE1 ─▶ hear      symmetric work only
//!   <- e, ee        finish ◀─ NOISE2 ◀─ answer    the responder's Diffie-Hellman
//! ```
//!
//! X25519, AES-256-GCM and SHA-256. Nothing but the pre-shared key authenticates, and each
//! handshake has keys that later knowledge of it does not give away.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::{digest, rand};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error, HandshakeState};
use zeroize::Zeroizing;

use crate::crypto::{KEY_LEN, TAG_LEN};
use crate::packet::{NOISE_LEN, NoiseMessage};

/// The name of the protocol (Noise §8).
const NAME: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// What both ends have when a handshake is done.
pub struct Outcome {
    /// Identifies it: the first 32 bits of the handshake's hash.
    pub id: u32,
    /// The key of what the initiator sends.
    pub initiator: Zeroizing<[u8; KEY_LEN]>,
    /// The key of what the responder sends.
    pub responder: Zeroizing<[u8; KEY_LEN]>,
}

/// The initiator, who waits for NOISE2.
pub struct Begun(HandshakeState);

/// The responder, who has received NOISE1.
pub struct Heard(HandshakeState);

/// Begins a handshake: draws a key pair and makes NOISE1. `None` if that fails.
pub fn begin(psk: &[u8; 32], prologue: &[u8]) -> Option<(Begun, NoiseMessage)> {
    let mut state = builder(psk, prologue)?.build_initiator().ok()?;
    let mut message = [0; NOISE_LEN];
    state.write_message(&[], &mut message).ok()?;
    Some((Begun(state), message))
}

/// Verifies NOISE1: whether its sender has the same key and prologue. Costs no Diffie-Hellman.
pub fn hear(psk: &[u8; 32], prologue: &[u8], message: &NoiseMessage) -> Option<Heard> {
    let mut state = builder(psk, prologue)?.build_responder().ok()?;
    state.read_message(message, &mut []).ok()?;
    Some(Heard(state))
}

impl Heard {
    /// Draws a key pair and makes NOISE2. `None` if the peer's public key is none.
    pub fn answer(mut self) -> Option<(Outcome, NoiseMessage)> {
        let mut message = [0; NOISE_LEN];
        self.0.write_message(&[], &mut message).ok()?;
        Some((outcome(&mut self.0), message))
    }
}

impl Begun {
    /// Reads NOISE2. `None` if its sender does not have the same key, prologue and NOISE1.
    pub fn finish(&mut self, message: &NoiseMessage) -> Option<Outcome> {
        self.0.read_message(message, &mut []).ok()?;
        Some(outcome(&mut self.0))
    }
}

fn builder<'a>(psk: &'a [u8; 32], prologue: &'a [u8]) -> Option<Builder<'a>> {
    let params = NAME.parse().ok()?;
    Builder::with_resolver(params, Box::new(Library)).psk(0, psk).ok()?.prologue(prologue).ok()
}

fn outcome(state: &mut HandshakeState) -> Outcome {
    // We use the keys with numbers of our own and AES-128, which Noise's own transport does not
    // have. They are used for nothing else.
    let (initiator, responder) = state.dangerously_get_raw_split();
    let [initiator, responder] = [Zeroizing::new(initiator), Zeroizing::new(responder)];
    let hash = state.get_handshake_hash();
    Outcome {
        id: u32::from_be_bytes(*hash.first_chunk().expect("a hash has 32 bytes")),
        initiator: half(&initiator),
        responder: half(&responder),
    }
}

fn half(key: &[u8; 32]) -> Zeroizing<[u8; KEY_LEN]> {
    Zeroizing::new(*key.first_chunk().expect("it is longer"))
}

/// Hands the library's primitives to `snow`.
struct Library;

impl CryptoResolver for Library {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Library))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::new(KeyPair::default()) as _)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        matches!(choice, HashChoice::SHA256).then(|| Box::new(Sha256::new()) as _)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        matches!(choice, CipherChoice::AESGCM).then(|| Box::new(AesGcm(None)) as _)
    }
}

impl Random for Library {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        rand::fill(bytes).map_err(|_| Error::Rng)
    }
}

/// X25519 (RFC 7748).
#[derive(Default)]
struct KeyPair {
    private: Option<PrivateKey>,
    public: [u8; 32],
}

impl KeyPair {
    fn put(&mut self, private: PrivateKey) -> Result<(), Error> {
        let public = private.compute_public_key().map_err(|_| Error::Dh)?;
        self.public = public.as_ref().try_into().map_err(|_| Error::Dh)?;
        self.private = Some(private);
        Ok(())
    }
}

impl Dh for KeyPair {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    /// Called by tests alone: keys are drawn.
    fn set(&mut self, private: &[u8]) {
        let private = PrivateKey::from_private_key(&X25519, private);
        let put = private.map_err(|_| Error::Dh).and_then(|private| self.put(private));
        put.expect("any 32 bytes are a private key");
    }

    fn generate(&mut self, _random: &mut dyn Random) -> Result<(), Error> {
        self.put(PrivateKey::generate(&X25519).map_err(|_| Error::Rng)?)
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    /// The library keeps it; `snow` asks for keys that live longer, of which there are none here.
    fn privkey(&self) -> &[u8] {
        &[]
    }

    fn dh(&self, peer: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let private = self.private.as_ref().ok_or(Error::Dh)?;
        // `snow` hands over a buffer for the keys of every curve.
        let peer = UnparsedPublicKey::new(&X25519, peer.get(..32).ok_or(Error::Dh)?);
        agree(private, peer, Error::Dh, |secret| {
            out.get_mut(..32).ok_or(Error::Dh)?.copy_from_slice(secret);
            Ok(())
        })
    }
}

struct Sha256(digest::Context);

impl Sha256 {
    fn new() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }
}

impl Hash for Sha256 {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        *self = Self::new();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        let context = std::mem::replace(self, Self::new()).0;
        out[..32].copy_from_slice(context.finish().as_ref());
    }
}

/// AES-256-GCM, which Noise's messages are encrypted with.
struct AesGcm(Option<LessSafeKey>);

impl AesGcm {
    fn nonce(number: u64) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Cipher for AesGcm {
    fn name(&self) -> &'static str {
        "AESGCM"
    }

    fn set(&mut self, key: &[u8; 32]) {
        self.0 = UnboundKey::new(&AES_256_GCM, key).ok().map(LessSafeKey::new);
    }

    fn encrypt(&self, number: u64, clear: &[u8], text: &[u8], out: &mut [u8]) -> usize {
        let key = self.0.as_ref().expect("snow sets a key first");
        let (out, tag_out) = out[..text.len() + TAG_LEN].split_at_mut(text.len());
        out.copy_from_slice(text);
        let tag = key.seal_in_place_separate_tag(Self::nonce(number), Aad::from(clear), out);
        tag_out.copy_from_slice(tag.expect("the text is short").as_ref());
        text.len() + TAG_LEN
    }

    fn decrypt(
        &self,
        number: u64,
        clear: &[u8],
        text: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let key = self.0.as_ref().ok_or(Error::Decrypt)?;
        let len = text.len().checked_sub(TAG_LEN).ok_or(Error::Decrypt)?;
        let (text, tag) = text.split_at(len);
        let out = out.get_mut(..len).ok_or(Error::Decrypt)?;
        out.copy_from_slice(text);
        key.open_in_place_separate_tag(Self::nonce(number), Aad::from(clear), tag, out)
            .map_err(|_| Error::Decrypt)?;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(digits: &str) -> Vec<u8> {
        let digit = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(digit).collect()
    }

    #[test]
    fn handshakes_are_those_of_other_implementations() {
        // A vector of cacophony, the implementation in Haskell, which `snow` is tested with too.
        let psk = bytes("54686973206973206d7920417573747269616e20706572737065637469766521");
        let ephemeral = [
            bytes("893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a"),
            bytes("bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b"),
        ];
        let psk: [u8; 32] = psk.try_into().unwrap();
        let [mut initiator, mut responder] = ephemeral.each_ref().map(|key| {
            let builder = builder(&psk, b"John Galt").unwrap();
            let builder = builder.fixed_ephemeral_key_for_testing_only(key);
            let is_first = key == &ephemeral[0];
            let built =
                if is_first { builder.build_initiator() } else { builder.build_responder() };
            built.unwrap()
        });
        let expect =
            |from: &mut HandshakeState, to: &mut HandshakeState, text: &[u8], sent: &str| {
                let (mut message, mut read) = ([0; 100], [0; 100]);
                let len = from.write_message(text, &mut message).unwrap();
                assert_eq!(message[..len], bytes(sent));
                let len = to.read_message(&message[..len], &mut read).unwrap();
                assert_eq!(&read[..len], text);
            };
        expect(
            &mut initiator,
            &mut responder,
            b"Ludwig von Mises",
            "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c79447c37a89fc17813788d30df2d\
             59501d6066f5f8aecc3406bbd9829f2d24a531b1",
        );
        expect(
            &mut responder,
            &mut initiator,
            b"Murray Rothbard",
            "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088432f29d79368ef9de4e1ae7a36\
             2fb05bf0ad668e026bf5714554497b3a720461",
        );
        assert_eq!(
            initiator.get_handshake_hash(),
            bytes("9f3b1f9afd7767767b5b9d1069844a6154fdbdcc36dfb3e31c0fffc5c973d530")
        );
        // What Noise's own transport sends first says which keys were split off.
        let (key, _) = responder.dangerously_get_raw_split();
        let mut cipher = AesGcm(None);
        cipher.set(&key);
        let mut text = [0; 11 + TAG_LEN];
        cipher.encrypt(0, &[], b"F. A. Hayek", &mut text);
        assert_eq!(text[..], bytes("7c01e898a6201f36aecee532e29cd0b7f8ffa29d3366ad0dce39a6"));
    }

    #[test]
    fn both_ends_have_the_same_keys_and_one_for_each_direction() {
        let (mut begun, noise1) = begin(&[7; 32], b"here").unwrap();
        let heard = hear(&[7; 32], b"here", &noise1).unwrap();
        let (theirs, noise2) = heard.answer().unwrap();
        // What is wrong ends nothing.
        assert!(begun.finish(&[3; NOISE_LEN]).is_none());
        let ours = begun.finish(&noise2).unwrap();
        assert_eq!(
            (ours.id, &*ours.initiator, &*ours.responder),
            (theirs.id, &*theirs.initiator, &*theirs.responder)
        );
        assert_ne!(ours.initiator, ours.responder);
    }

    #[test]
    fn another_key_or_prologue_is_refused_before_any_diffie_hellman() {
        let (_, noise1) = begin(&[7; 32], b"here").unwrap();
        assert!(hear(&[8; 32], b"here", &noise1).is_none());
        assert!(hear(&[7; 32], b"there", &noise1).is_none());
        assert!(hear(&[7; 32], b"here", &[0; NOISE_LEN]).is_none());
    }
}
