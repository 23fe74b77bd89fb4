//! The keys of one handshake: they seal and open packets.

use units::{Instant, Span};

use crate::config::Mode;
use crate::counters::{NotSealed, Refusal};
use crate::crypto::Cipher;
use crate::keys::Fingerprint;
use crate::noise::Outcome;
use crate::packet::{Sealed, begin_sealed, set_tag};
use crate::window::Window;

/// After so many packets in either direction there are to be new keys: as many of 64 KiB as AES-GCM
/// may encrypt with one (RFC 9001 §6.6).
const REKEY: u64 = 1 << 23;

/// After so many packets sealing stops. With packets of up to 32 KiB they are within the same bound
/// (RFC 9001 §B.1.1).
pub const LIMIT: u64 = 1 << 24;

/// After so long there are to be new keys.
const REKEY_AFTER: Span = Span::from_secs(600);

/// Keys that both ends have.
pub struct Traffic {
    /// Identifies them in packets.
    pub id: u32,
    /// The pre-shared key that they come from.
    pub psk: Fingerprint,
    /// When this end had them.
    pub since: Instant,
    mode: Mode,
    sealing: Cipher,
    opening: Cipher,
    /// The number of the next packet that is sealed.
    next: u64,
    window: Window,
}

impl Traffic {
    /// The keys that a handshake gave.
    pub fn new(
        now: Instant,
        outcome: &Outcome,
        psk: Fingerprint,
        mode: Mode,
        initiates: bool,
    ) -> Self {
        let [initiator, responder] =
            [&outcome.initiator, &outcome.responder].map(|key| Cipher::new(key));
        let (sealing, opening) =
            if initiates { (initiator, responder) } else { (responder, initiator) };
        let window = Window::new();
        Self { id: outcome.id, psk, since: now, mode, sealing, opening, next: 0, window }
    }

    /// Whether no more may be sealed.
    pub fn is_used_up(&self) -> bool {
        self.next >= LIMIT
    }

    /// Whether it is time for new keys.
    pub fn is_old(&self, now: Instant) -> bool {
        self.next.max(self.window.next()) >= REKEY || now.since(self.since) >= REKEY_AFTER
    }

    /// Seals the packet behind the room for the header.
    pub fn seal(&mut self, packet: &mut [u8]) -> Result<(), NotSealed> {
        if self.is_used_up() {
            return Err(NotSealed::NoKeys);
        }
        let sealed = begin_sealed(self.id, self.next, packet).ok_or(NotSealed::Length)?;
        let tag = match self.mode {
            Mode::Integrity => self.sealing.seal(sealed.number, sealed.whole(packet), &mut []),
            Mode::Encrypt => {
                let (header, inside) = sealed.parts(packet);
                self.sealing.seal(sealed.number, header, inside)
            }
        };
        set_tag(packet, &tag);
        self.next += 1;
        Ok(())
    }

    /// Verifies a packet with this header, and decrypts it in place.
    pub fn open(&mut self, sealed: &Sealed, packet: &mut [u8]) -> Result<(), Refusal> {
        // Of an honest peer there is none; a window of numbers below this cannot overflow.
        if sealed.number >= LIMIT {
            return Err(Refusal::Malformed);
        }
        if !self.window.is_new(sealed.number) {
            return Err(Refusal::Replayed);
        }
        let is_genuine = match self.mode {
            Mode::Integrity => {
                self.opening.open(sealed.number, sealed.whole(packet), &sealed.tag, &mut [])
            }
            Mode::Encrypt => {
                let (header, inside) = sealed.parts(packet);
                self.opening.open(sealed.number, header, &sealed.tag, inside)
            }
        };
        if !is_genuine {
            return Err(Refusal::BadTag);
        }
        self.window.insert(sealed.number);
        Ok(())
    }

    /// As if so many packets had been sealed.
    #[cfg(test)]
    pub fn skip(&mut self, packets: u64) {
        self.next += packets;
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::Keys;
    use crate::packet::OVERHEAD;

    fn pair(mode: Mode) -> [Traffic; 2] {
        let keys = Keys::parse("Nq2qzpGUxm5uUBVVXVd1c6yjQYFCoUqrtVtNYyREp3k=").unwrap();
        let psk = keys.turn(0).fingerprint();
        let [initiator, responder] = [[1; 16], [2; 16]].map(Zeroizing::new);
        let outcome = Outcome { id: 7, initiator, responder };
        [true, false].map(|initiates| Traffic::new(Instant::ZERO, &outcome, psk, mode, initiates))
    }

    fn sealed(traffic: &mut Traffic, inside: &[u8]) -> Vec<u8> {
        let mut packet = [&[0; OVERHEAD], inside].concat();
        traffic.seal(&mut packet).unwrap();
        packet
    }

    fn open(traffic: &mut Traffic, packet: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut packet = packet.to_vec();
        let sealed = Sealed::parse(&packet).unwrap();
        traffic.open(&sealed, &mut packet)?;
        Ok(packet[sealed.inside()].to_vec())
    }

    #[test]
    fn each_packet_is_opened_once_by_the_other_end_alone() {
        for mode in [Mode::Integrity, Mode::Encrypt] {
            let [mut a, mut b] = pair(mode);
            for inside in [&b""[..], b"x", &[3; 1500]] {
                let packet = sealed(&mut a, inside);
                let is_plain = packet[OVERHEAD..] == *inside;
                assert_eq!(is_plain, mode == Mode::Integrity || inside.is_empty());
                assert_eq!(open(&mut a, &packet), Err(Refusal::BadTag), "reflected");
                let padded = [&packet[..], &[0; 9]].concat();
                assert_eq!(open(&mut b, &padded).as_deref(), Ok(inside));
                assert_eq!(open(&mut b, &packet), Err(Refusal::Replayed));
            }
        }
    }

    #[test]
    fn every_bit_behind_the_beginning_counts() {
        for mode in [Mode::Integrity, Mode::Encrypt] {
            let [mut a, mut b] = pair(mode);
            let packet = sealed(&mut a, b"12345");
            for bit in 8 * 12..8 * packet.len() {
                let mut damaged = packet.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                // The identifier chooses the keys; here there is no choice.
                let read = Sealed::parse(&damaged).map(|_| open(&mut b, &damaged));
                let is_refused =
                    matches!(read, None | Some(Err(Refusal::BadTag | Refusal::Malformed)));
                assert!(is_refused, "{mode:?} {bit}: {read:?}");
            }
            assert_eq!(open(&mut b, &packet).as_deref(), Ok(&b"12345"[..]));
        }
    }

    #[test]
    fn keys_are_old_after_2_23_packets_either_way_and_used_up_after_2_24() {
        let [mut a, mut b] = pair(Mode::Encrypt);
        a.skip(REKEY - 1);
        assert!(!a.is_old(Instant::ZERO));
        open(&mut b, &sealed(&mut a, b"the last")).unwrap();
        assert!(a.is_old(Instant::ZERO) && b.is_old(Instant::ZERO));
        a.skip(REKEY - 1);
        sealed(&mut a, b"");
        assert!(a.is_used_up());
        assert_eq!(a.seal(&mut [0; OVERHEAD]), Err(NotSealed::NoKeys));
        let [fresh, _] = pair(Mode::Encrypt);
        assert!(!fresh.is_old(Instant::ZERO + Span::from_secs(599)));
        assert!(fresh.is_old(Instant::ZERO + Span::from_secs(600)));
    }
}
