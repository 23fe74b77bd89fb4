//! DHCP (RFC 2131): messages of machines that ask for addresses, and of those who lend them.
//!
//! Options are read of their own field alone, not of the two that may be overloaded with them (RFC
//! 2132 §9.3): no machine asks so much.

use alloc::vec::Vec;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The ports of servers, and of relays.
pub const SERVER_PORT: u16 = 67;

/// The port of machines.
pub const CLIENT_PORT: u16 = 68;

/// What a message is no shorter than (RFC 1542 §2.1).
pub const LEAST_LEN: usize = 300;

/// Through how many relays a message may go (RFC 1542 §4.1.1).
pub const MOST_HOPS: u8 = 16;

/// What options begin with (RFC 2131 §3).
const COOKIE: [u8; 4] = [99, 130, 83, 99];

/// The bit of [`Header::flags`] by which a machine asks for answers to everybody (RFC 2131 §2).
pub const BROADCAST: u16 = 0x8000;

/// Which way a message goes: [`Header::op`].
pub mod op {
    /// To a server.
    pub const REQUEST: u8 = 1;
    /// To a machine.
    pub const REPLY: u8 = 2;
}

/// Options (RFC 2132; RFC 3397, RFC 3442).
pub mod option {
    #![expect(missing_docs, reason = "they are called as in the RFC")]
    pub const PAD: u8 = 0;
    pub const SUBNET_MASK: u8 = 1;
    pub const ROUTER: u8 = 3;
    pub const DOMAIN_NAME_SERVER: u8 = 6;
    pub const DOMAIN_NAME: u8 = 15;
    pub const INTERFACE_MTU: u8 = 26;
    pub const NTP_SERVERS: u8 = 42;
    pub const REQUESTED_ADDRESS: u8 = 50;
    pub const LEASE_TIME: u8 = 51;
    pub const MESSAGE_TYPE: u8 = 53;
    pub const SERVER_IDENTIFIER: u8 = 54;
    pub const MAXIMUM_SIZE: u8 = 57;
    pub const RENEWAL_TIME: u8 = 58;
    pub const REBINDING_TIME: u8 = 59;
    pub const TFTP_SERVER: u8 = 66;
    pub const BOOTFILE: u8 = 67;
    pub const DOMAIN_SEARCH: u8 = 119;
    pub const CLASSLESS_ROUTES: u8 = 121;
    pub const END: u8 = 255;
}

/// What a message is for (RFC 2132 §9.6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "they are called as in the RFC")]
pub enum Kind {
    Discover = 1,
    Offer,
    Request,
    Decline,
    Ack,
    Nak,
    Release,
    Inform,
}

impl Kind {
    const fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Discover,
            2 => Self::Offer,
            3 => Self::Request,
            4 => Self::Decline,
            5 => Self::Ack,
            6 => Self::Nak,
            7 => Self::Release,
            8 => Self::Inform,
            _ => return None,
        })
    }
}

/// A message but for its options: 240 bytes.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Of [`op`].
    pub op: u8,
    /// Hardware: 1, Ethernet.
    pub htype: u8,
    /// Its addresses' length: 6.
    pub hlen: u8,
    /// Through how many relays it has come.
    pub hops: u8,
    /// Which question an answer is about.
    pub xid: U32,
    /// For how long the machine has tried.
    pub secs: U16,
    /// [`BROADCAST`].
    pub flags: U16,
    /// The address that the machine has.
    pub ciaddr: [u8; 4],
    /// The address that it is lent.
    pub yiaddr: [u8; 4],
    /// The next server of its start.
    pub siaddr: [u8; 4],
    /// The relay's address.
    pub giaddr: [u8; 4],
    /// Its Ethernet address, and zeros.
    pub chaddr: [u8; 16],
    /// A server's name.
    pub sname: [u8; 64],
    /// The boot file.
    pub file: [u8; 128],
    cookie: [u8; 4],
}

impl Header {
    /// The length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// The answer to this, with nothing in it yet.
    pub fn reply(&self) -> Self {
        let op = op::REPLY;
        let (none, hops, secs) = ([0; 4], 0, U16::ZERO);
        let (sname, file) = ([0; 64], [0; 128]);
        Self { op, hops, secs, ciaddr: none, yiaddr: none, siaddr: none, sname, file, ..*self }
    }
}

/// A message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message<'a> {
    /// What is not in options.
    pub header: &'a Header,
    /// What it is for.
    pub kind: Kind,
    options: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads UDP's payload. `None` if it is no message of machines on Ethernet, or is cut short.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, options) = Header::ref_from_prefix(bytes).ok()?;
        let is_ethernet = (header.htype, header.hlen) == (1, 6);
        if !is_ethernet || header.cookie != COOKIE {
            return None;
        }
        let [kind] = *find(options, option::MESSAGE_TYPE)? else { return None };
        Some(Self { header, kind: Kind::of(kind)?, options })
    }

    /// What an option says, the first of its code.
    pub fn option(&self, code: u8) -> Option<&'a [u8]> {
        find(self.options, code)
    }

    /// An option that is an address.
    pub fn address(&self, code: u8) -> Option<[u8; 4]> {
        self.option(code)?.as_array().copied()
    }
}

fn find(mut options: &[u8], wanted: u8) -> Option<&[u8]> {
    loop {
        options = match *options {
            [option::PAD, ref rest @ ..] => rest,
            [option::END, ..] | [] | [_] => return None,
            [code, len, ref rest @ ..] => {
                let (value, rest) = rest.split_at_checked(len.into())?;
                if code == wanted {
                    return Some(value);
                }
                rest
            }
        };
    }
}

/// A message that is being written.
#[derive(Clone, Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    most: usize,
}

impl Writer {
    /// One of at most so many bytes. What its receiver takes is at least 548 (RFC 2131 §2).
    pub fn new(header: &Header, kind: Kind, most: usize) -> Self {
        let mut writer = Self { bytes: header.as_bytes().to_vec(), most: most.max(548) };
        writer.put(option::MESSAGE_TYPE, &[kind as u8]);
        writer
    }

    /// Adds an option, a long one in pieces (RFC 3396 §5). One for which there is no room is left
    /// out, so what matters most comes first. One that says nothing is none.
    pub fn put(&mut self, code: u8, value: &[u8]) {
        let pieces = value.chunks(255);
        // An end follows.
        let len = value.len() + 2 * pieces.len() + 1;
        if self.bytes.len() + len > self.most {
            return;
        }
        for piece in pieces {
            self.bytes.extend([code, piece.len() as u8]);
            self.bytes.extend(piece);
        }
    }

    /// The message.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(option::END);
        let len = self.bytes.len().max(LEAST_LEN);
        self.bytes.resize(len, option::PAD);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;
    use zerocopy::FromZeros;

    fn header() -> Header {
        let mut header = Header::new_zeroed();
        (header.op, header.htype, header.hlen, header.cookie) = (op::REQUEST, 1, 6, COOKIE);
        header
    }

    #[test]
    fn what_was_written_is_read() {
        let mut writer = Writer::new(&header(), Kind::Discover, 1000);
        writer.put(option::ROUTER, &[10, 0, 0, 1]);
        writer.put(option::CLASSLESS_ROUTES, &[7; 300]);
        let bytes = writer.finish();
        let message = Message::parse(&bytes).unwrap();
        assert_eq!((message.kind, message.header), (Kind::Discover, &header()));
        assert_eq!(message.address(option::ROUTER), Some([10, 0, 0, 1]));
        assert_eq!(message.option(option::CLASSLESS_ROUTES), Some(&[7; 255][..]));
        assert_eq!(message.option(option::NTP_SERVERS), None);
    }

    #[test]
    fn a_message_has_300_bytes_and_no_more_than_its_receiver_takes() {
        assert_eq!(Writer::new(&header(), Kind::Nak, 0).finish().len(), LEAST_LEN);
        let mut writer = Writer::new(&header(), Kind::Ack, 0);
        writer.put(224, &[1; 250]);
        writer.put(225, &[1; 250]);
        writer.put(226, &[1; 30]);
        let bytes = writer.finish();
        assert!(bytes.len() <= 548);
        let message = Message::parse(&bytes).unwrap();
        assert!(message.option(225).is_none() && message.option(226).is_some());
    }

    #[test]
    fn what_is_cut_short_is_no_message() {
        let bytes = Writer::new(&header(), Kind::Discover, 0).finish();
        for len in 0..243 {
            assert_eq!(Message::parse(&bytes[..len]), None, "{len}");
        }
        let mut other = bytes.clone();
        other[236] = 0;
        assert_eq!(Message::parse(&other), None);
    }

    proptest! {
        #[test]
        fn no_options_make_it_panic(options: Vec<u8>, code: u8) {
            let mut bytes = header().as_bytes().to_vec();
            bytes.extend([option::MESSAGE_TYPE, 1, 1]);
            bytes.extend(options);
            let message = Message::parse(&bytes).unwrap();
            let _ = message.option(code);
            let _ = vec![message.address(code)];
        }
    }
}
