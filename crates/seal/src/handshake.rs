//! What both ends do with handshake messages: authenticate them, and bind Noise to them.

use crate::config::Config;
use crate::counters::Refusal;
use crate::crypto::TAG_LEN;
use crate::keys::Key;
use crate::packet::{Control, Message, NOISE_LEN, Received, Step, VERSION};

/// A message without Noise, of this end.
pub fn message(config: &Config, step: Step, [initiator, responder]: [u64; 2], key: u32) -> Message {
    let mode = config.mode.number();
    Message { step, mode, initiator, responder, key, noise: [0; NOISE_LEN] }
}

/// The packet that says it, authenticated by a pre-shared key.
pub fn signed(config: &Config, psk: &Key, message: &Message) -> Control {
    message.write(|kind, rest| code(config, psk, kind, rest))
}

/// What a message says and which of our pre-shared keys its sender has. It may be a replay.
pub fn verified<'k>(
    config: &'k Config,
    received: &Received<'_>,
) -> Result<(Message, &'k Key), Refusal> {
    if received.version() != VERSION {
        return Err(Refusal::OtherVersion);
    }
    let message = received.read().ok_or(Refusal::Malformed)?;
    let (sent, kind, rest) = received.code();
    let parts = [&[kind], config.ends.bytes(), rest];
    let mut keys = config.keys.iter();
    let key = keys.find(|key| key.is_code(&parts, sent)).ok_or(Refusal::OtherKey)?;
    Ok((message, key))
}

fn code(config: &Config, psk: &Key, kind: u8, rest: &[u8]) -> [u8; TAG_LEN] {
    psk.code(&[&[kind], config.ends.bytes(), rest])
}

/// What both ends must agree on before Noise begins (Noise §6).
pub fn prologue(config: &Config, nonces: [u64; 2]) -> Vec<u8> {
    let [initiator, responder] = nonces.map(u64::to_be_bytes);
    let numbers = [VERSION, config.mode.number()];
    [b"zovn sealed packets", &numbers[..], config.ends.bytes(), &initiator, &responder].concat()
}
