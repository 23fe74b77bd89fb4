//! What a lane is for: the datagrams for one socket, or all that is for one Ethernet address.
//!
//! Read from a frame by the rules of bpf/lanes.bpf.c, so that both agree on which lane it takes.

/// As in the C source: Ethernet address, port in network byte order, address; the last two are 0
/// where all is meant.
pub type Key = [u8; 24];

const ETHERNET: usize = 14;

/// The key of all that goes to the same Ethernet address as this frame; `None` if that is a group.
pub fn receiver(frame: &[u8]) -> Option<Key> {
    let mac = frame.first_chunk::<6>().filter(|mac| mac[0] & 1 == 0)?;
    let mut key = Key::default();
    key[..6].copy_from_slice(mac);
    Some(key)
}

/// The key of what goes to the same socket as this frame; `None` unless it is a datagram, without
/// a tag and whole, for one machine.
pub fn socket(frame: &[u8]) -> Option<Key> {
    let mut key = receiver(frame)?;
    let payload = match (frame.get(12..ETHERNET)?, frame.get(ETHERNET..)?) {
        ([0x08, 0x00], ip) => {
            let [first, _, _, _, _, _, flags, fragment, _, protocol, ..] = *ip else { return None };
            if flags & 0x3f | fragment != 0 || protocol != UDP {
                return None;
            }
            key[16..20].copy_from_slice(&[0, 0, 0xff, 0xff]);
            key[20..24].copy_from_slice(ip.get(16..20)?);
            usize::from(first & 15) * 4
        }
        ([0x86, 0xdd], ip) => {
            if *ip.get(6)? != UDP {
                return None;
            }
            key[8..24].copy_from_slice(ip.get(24..40)?);
            40
        }
        _ => return None,
    };
    let port = ETHERNET + payload + 2;
    key[6..8].copy_from_slice(frame.get(port..port + 2)?);
    Some(key)
}

/// The key of all that goes to the Ethernet address that is part of a key.
pub fn receiver_of(key: &Key) -> Key {
    let mut receiver = Key::default();
    receiver[..6].copy_from_slice(&key[..6]);
    receiver
}

const UDP: u8 = wire::ip::protocol::UDP;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A datagram for 10.0.0.2:53 or [fd00::2]:53.
    pub fn datagram(is_v6: bool) -> Vec<u8> {
        let ethernet = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        let udp = [0x10, 0, 0, 53, 0, 8, 0, 0];
        let mut ip = vec![0; if is_v6 { 40 } else { 20 }];
        if is_v6 {
            (ip[0], ip[6], ip[24], ip[39]) = (0x60, UDP, 0xfd, 2);
            [&ethernet[..], &[0x86, 0xdd], &ip, &udp].concat()
        } else {
            (ip[0], ip[9]) = (0x45, UDP);
            ip[16..20].copy_from_slice(&[10, 0, 0, 2]);
            [&ethernet[..], &[0x08, 0], &ip, &udp].concat()
        }
    }

    #[test]
    fn a_socket_is_known_by_its_address_and_port() {
        let four = socket(&datagram(false)).unwrap();
        assert_eq!(four, *b"\x02\0\0\0\0\x02\0\x35\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x02");
        let six = socket(&datagram(true)).unwrap();
        assert_eq!(
            (&six[..9], &six[9..23], six[23]),
            (&b"\x02\0\0\0\0\x02\0\x35\xfd"[..], &[0; 14][..], 2)
        );
    }

    #[test]
    fn options_move_the_port() {
        let mut frame = datagram(false);
        frame[14] = 0x46;
        frame.splice(34..34, [1; 4]);
        assert_eq!(socket(&frame), socket(&datagram(false)));
    }

    #[test]
    fn what_is_no_whole_datagram_for_one_machine_has_no_socket() {
        for (at, byte) in [(0, 3), (12, 0x81), (20, 0x20), (21, 1), (23, 6)] {
            let mut frame = datagram(false);
            frame[at] = byte;
            assert_eq!(socket(&frame), None, "{at}");
        }
        let mut other = datagram(true);
        other[20] = 44;
        assert_eq!(socket(&other), None);
        for len in 0..42 {
            assert!(len >= 38 || socket(&datagram(false)[..len]).is_none(), "{len}");
        }
        assert_eq!(receiver(&[1, 0, 0x5e, 0, 0, 1]), None, "a group is no receiver");
    }

    #[test]
    fn all_for_an_address_is_no_socket() {
        let key = receiver(&datagram(false)).unwrap();
        assert_eq!((&key[..6], &key[6..]), (&[2, 0, 0, 0, 0, 2][..], &[0; 18][..]));
    }
}
