//! DHCP for IPv6 (RFC 8415): messages of machines, of servers, and of relays between them.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use units::Mac;

/// The port of servers, and of relays.
pub const SERVER_PORT: u16 = 547;

/// The port of machines.
pub const CLIENT_PORT: u16 = 546;

/// All relays and servers on a link (§7.1).
pub const ALL_SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

/// Through how many relays a message may go (§7.6).
pub const MOST_HOPS: u8 = 8;

/// A time that does not end (§7.7).
pub const FOR_EVER: u32 = u32::MAX;

/// What messages are for (§7.3).
pub mod kind {
    #![expect(missing_docs, reason = "they are called as in the RFC")]
    pub const SOLICIT: u8 = 1;
    pub const ADVERTISE: u8 = 2;
    pub const REQUEST: u8 = 3;
    pub const CONFIRM: u8 = 4;
    pub const RENEW: u8 = 5;
    pub const REBIND: u8 = 6;
    pub const REPLY: u8 = 7;
    pub const RELEASE: u8 = 8;
    pub const DECLINE: u8 = 9;
    pub const INFORMATION_REQUEST: u8 = 11;
    pub const RELAY_FORWARD: u8 = 12;
    pub const RELAY_REPLY: u8 = 13;
}

/// Options (§21; RFC 3646).
pub mod option {
    #![expect(missing_docs, reason = "they are called as in the RFC")]
    pub const CLIENT_ID: u16 = 1;
    pub const SERVER_ID: u16 = 2;
    pub const IA_NA: u16 = 3;
    pub const IA_TA: u16 = 4;
    pub const IA_ADDRESS: u16 = 5;
    pub const RELAY_MESSAGE: u16 = 9;
    pub const STATUS: u16 = 13;
    pub const RAPID_COMMIT: u16 = 14;
    pub const INTERFACE_ID: u16 = 18;
    pub const DNS_SERVERS: u16 = 23;
    pub const DOMAIN_SEARCH: u16 = 24;
    pub const IA_PD: u16 = 25;
}

/// How it went (§21.13).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "they are called as in the RFC")]
pub enum Status {
    Success = 0,
    NoAddrsAvail = 2,
    NoBinding = 3,
    NotOnLink = 4,
    NoPrefixAvail = 6,
}

/// A server's identifier that is made of an Ethernet address (§11.4).
pub const fn identifier(Mac([a, b, c, d, e, f]): Mac) -> [u8; 10] {
    [0, 3, 0, 1, a, b, c, d, e, f]
}

/// A message of a machine or a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message<'a> {
    /// Of [`kind`].
    pub kind: u8,
    /// Which question an answer is about.
    pub transaction: [u8; 3],
    /// Everything else.
    pub options: Options<'a>,
}

impl<'a> Message<'a> {
    /// Reads UDP's payload. `None` if it is cut short, or a relay's.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[kind, a, b, c], options) = bytes.split_first_chunk()?;
        let is_relays = matches!(kind, kind::RELAY_FORWARD | kind::RELAY_REPLY);
        let options = Options(options);
        (!is_relays && options.are_whole()).then_some(Self {
            kind,
            transaction: [a, b, c],
            options,
        })
    }
}

/// A message as a relay hands it on (§9).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Relayed<'a> {
    /// Of [`kind`].
    pub kind: u8,
    /// Through how many relays it had come before.
    pub hops: u8,
    /// Which link the machine is on: an address of the relay there.
    pub link: Ipv6Addr,
    /// Where it came from.
    pub peer: Ipv6Addr,
    /// Everything else.
    pub options: Options<'a>,
}

impl<'a> Relayed<'a> {
    /// Reads UDP's payload. `None` if it is cut short, or no relay's.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[kind, hops], rest) = bytes.split_first_chunk()?;
        let (link, rest) = rest.split_first_chunk::<16>()?;
        let (peer, options) = rest.split_first_chunk::<16>()?;
        let (link, peer) = (Ipv6Addr::from(*link), Ipv6Addr::from(*peer));
        let is_relays = matches!(kind, kind::RELAY_FORWARD | kind::RELAY_REPLY);
        let options = Options(options);
        (is_relays && options.are_whole()).then_some(Self { kind, hops, link, peer, options })
    }

    /// The message around another.
    pub fn around(kind: u8, hops: u8, link: Ipv6Addr, peer: Ipv6Addr, message: &[u8]) -> Vec<u8> {
        let mut bytes = alloc::vec![kind, hops];
        bytes.extend(link.octets());
        bytes.extend(peer.octets());
        put(&mut bytes, option::RELAY_MESSAGE, message);
        bytes
    }
}

/// Options, one after the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options<'a>(pub &'a [u8]);

impl<'a> Options<'a> {
    /// Each with its code.
    pub fn iter(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (code, value, next) = first(rest)?;
            rest = next;
            Some((code, value))
        })
    }

    /// What the first of a code says.
    pub fn get(self, wanted: u16) -> Option<&'a [u8]> {
        self.iter().find(|(code, _)| *code == wanted).map(|(_, value)| value)
    }

    fn are_whole(self) -> bool {
        let mut rest = self.0;
        while let Some((.., next)) = first(rest) {
            rest = next;
        }
        rest.is_empty()
    }
}

fn first(options: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (&[a, b, c, d], rest) = options.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(u16::from_be_bytes([c, d]).into())?;
    Some((u16::from_be_bytes([a, b]), value, rest))
}

/// Adds an option. One that is too long is left out.
pub fn put(bytes: &mut Vec<u8>, code: u16, value: &[u8]) {
    let Ok(len) = u16::try_from(value.len()) else { return };
    bytes.extend(code.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes.extend(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(
            options in prop::collection::vec(any::<(u16, Vec<u8>)>(), 0..5), transaction: [u8; 3],
        ) {
            let mut bytes = alloc::vec![kind::SOLICIT];
            bytes.extend(transaction);
            options.iter().for_each(|(code, value)| put(&mut bytes, *code, value));
            let message = Message::parse(&bytes).unwrap();
            prop_assert_eq!(message.transaction, transaction);
            let read: Vec<_> = message.options.iter().map(|(code, it)| (code, it.to_vec())).collect();
            prop_assert_eq!(&read, &options);
            if !options.is_empty() {
                prop_assert_eq!(Message::parse(&bytes[..bytes.len() - 1]), None);
            }
            let (link, peer) = (ALL_SERVERS, Ipv6Addr::LOCALHOST);
            let relayed = Relayed::around(kind::RELAY_FORWARD, 2, link, peer, &bytes);
            prop_assert_eq!(Message::parse(&relayed), None);
            let relayed = Relayed::parse(&relayed).unwrap();
            prop_assert_eq!((relayed.hops, relayed.link, relayed.peer), (2, link, peer));
            prop_assert_eq!(relayed.options.get(option::RELAY_MESSAGE), Some(&bytes[..]));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = (Message::parse(&bytes), Relayed::parse(&bytes));
        }
    }
}
