//! How a guest tells the switch at the other end of its interface what room its UDP sockets have.
//!
//! ```text
//!   guest's program                            switch
//!        │─ Hello ────────────────────────────────▶│  once a second
//!        │◀───────────────────── Ask 1 ────────────│  so it is heard
//!        │─ Hello, heard 1 ───────────────────────▶│  from here on what would be lost is held
//!        │◀─────────── Ask 2: that was heard ──────│  and the program knows
//!        │◀═══════════ datagrams, to port 53 ══════│
//!        │◀───────────── Ask 3: port 53? ──────────│  behind them, in the same queue
//!        │─ Tell, heard 3: port 53's sockets ─────▶│  what was before Ask 3 is counted in there
//!        │─ Tell: port 53's sockets ──────────────▶│  once there is the room that Ask 3 awaits
//!        │─ Bye ──────────────────────────────────▶│
//! ```
//!
//! What is told of a port is everything, so it takes the place of what was told before. A message
//! that is lost, comes twice or comes late does no harm: of a guest's, the one with the highest
//! number counts, and the switch asks again. A session is one life of a guest's program. The switch
//! has lives as well, and counts its Asks anew in each. A message of another version is answered
//! with an Ask, of no session, so that both ends know.
//!
//! The frames go to the one group address that no bridge passes on, of whatever kind
//! ([`DESTINATION`]), and concern what goes to the port that they came in at, whoever sent them.

use core::net::Ipv6Addr;

use units::Mac;
use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ethernet;

/// Where these frames go: as far as the other end of the link, be that what it may (802.1Q table
/// 8-1, 8-2 and 8-3: the nearest bridge).
pub const DESTINATION: Mac = Mac([0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]);

/// What they announce: a local experiment (IEEE 802 §9.2.2), told from others by [`MAGIC`].
pub const ETHERTYPE: u16 = 0x88b5;

/// What follows the EtherType.
pub const MAGIC: [u8; 4] = *b"zovn";

/// The version that is written and read here.
pub const VERSION: u8 = 2;

/// The most sockets of one port that are told of. Of more, one is told that stands for all.
pub const MOST_SOCKETS: usize = 16;

/// The longest message: every interface takes packets of 1280 bytes that can carry IPv6.
pub const LONGEST: usize = ethernet::Header::LEN + 1280;

/// What every message begins with, and all of [`Kind::Hello`] and [`Kind::Bye`].
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
struct Head {
    ethernet: ethernet::Header,
    magic: [u8; 4],
    version: u8,
    kind: u8,
    life: U32,
    session: U64,
    number: U64,
    heard: U64,
    page: U32,
    lost: U32,
    /// How many groups, or ports, follow.
    count: U16,
    padding: [u8; 2],
}

const _: () = assert!(size_of::<Head>() == 60, "the shortest frame there is");

/// Begins what is told of a port; its sockets follow.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
struct GroupHead {
    port: U16,
    sockets: u8,
    /// Bit 0: more is told once there is the room that was asked for.
    flags: u8,
}

const FOLLOWS: u8 = 1;

/// A socket, as it is written. An IPv4 address is mapped, ::ffff:a.b.c.d.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
struct SocketRecord {
    local: [u8; 16],
    remote: [u8; 16],
    remote_port: U16,
    /// Bit 0: AF_INET6; bit 1: IPv6 only.
    flags: U16,
    occupied: U32,
    limit: U32,
}

/// A port that is asked about.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
struct WantRecord {
    port: U16,
    unused: U16,
    bytes: U32,
}

/// What a message is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A guest's program is there: ask, so that it knows that it is heard.
    Hello,
    /// What a guest's program tells of ports.
    Tell,
    /// A guest's program goes.
    Bye,
    /// What the switch asks.
    Ask,
}

const KINDS: [Kind; 4] = [Kind::Hello, Kind::Tell, Kind::Bye, Kind::Ask];

/// A UDP socket, and how full it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Socket {
    /// Where it is bound.
    pub local: Ipv6Addr,
    /// Where it is connected, if `remote_port` is not 0.
    pub remote: Ipv6Addr,
    /// 0: not connected.
    pub remote_port: u16,
    /// It is an AF_INET6 socket.
    pub v6: bool,
    /// It hears no IPv4.
    pub v6_only: bool,
    /// Bytes of its buffer in use, as its kernel counts.
    pub occupied: u32,
    /// Bytes that its buffer may have.
    pub limit: u32,
}

/// What the switch wants to know of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Want {
    /// Which port's sockets.
    pub port: u16,
    /// Tell again whenever one of them that has less has so many bytes free, or is empty; 0: there
    /// is no need to.
    pub bytes: u32,
}

/// What is told of one port: all of its sockets.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// The port.
    pub port: u16,
    /// More is told once there is the room that was asked for.
    pub follows: bool,
    sockets: &'a [SocketRecord],
}

/// What all messages have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Common {
    /// What it is.
    pub kind: Kind,
    /// Which life of the switch's end it is from, or that it has heard; 0: none.
    pub life: u32,
    /// Which life of a guest's program it is from, or for.
    pub session: u64,
    /// Which of its sender's messages it is.
    pub number: u64,
    /// The last of the other's messages that was heard before this was said; 0: none. An Ask says 0
    /// until one was heard: so long nothing is held.
    pub heard: u64,
    /// The guest's pages, in bytes: what a frame takes up in memory is a multiple of that at worst.
    pub page: u32,
    /// Datagrams that found no room since the program began, as far as it can count.
    pub lost: u32,
}

/// A message, read.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// What all have.
    pub common: Common,
    count: u16,
    body: &'a [u8],
}

/// Why a frame cannot be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unreadable {
    /// It is of another protocol.
    Foreign,
    /// It is of another version of this one.
    Version(u8),
    /// It contradicts itself.
    Malformed,
}

/// Whether a frame to this address may be one of these: to be asked of every frame.
#[inline]
pub fn may_be(destination: Mac) -> bool {
    destination == DESTINATION
}

/// Whether a frame is one of these, of whatever version and however broken. Its first 18 bytes say
/// so.
pub fn is_ours(frame: &[u8]) -> bool {
    ethernet::Header::parse(frame).is_some_and(|(ethernet, rest)| {
        may_be(Mac(ethernet.destination))
            && ethernet.ethertype.get() == ETHERTYPE
            && rest.starts_with(&MAGIC)
    })
}

impl<'a> Message<'a> {
    /// Reads a frame.
    ///
    /// # Errors
    ///
    /// [`Unreadable`]
    pub fn parse(frame: &'a [u8]) -> Result<Self, Unreadable> {
        if !is_ours(frame) {
            return Err(Unreadable::Foreign);
        }
        match frame.get(ethernet::Header::LEN + MAGIC.len()) {
            Some(&VERSION) => Self::parse_ours(frame).ok_or(Unreadable::Malformed),
            Some(version) => Err(Unreadable::Version(*version)),
            None => Err(Unreadable::Malformed),
        }
    }

    fn parse_ours(frame: &'a [u8]) -> Option<Self> {
        let (head, body) = Head::ref_from_prefix(frame).ok()?;
        let kind = *KINDS.get(usize::from(head.kind))?;
        let common = Common {
            kind,
            life: head.life.get(),
            session: head.session.get(),
            number: head.number.get(),
            heard: head.heard.get(),
            page: head.page.get(),
            lost: head.lost.get(),
        };
        let message = Self { common, count: head.count.get(), body };
        let whole = match kind {
            Kind::Ask => message.records().is_some(),
            Kind::Tell => message.groups().count() == usize::from(message.count),
            Kind::Hello | Kind::Bye => message.count == 0,
        };
        whole.then_some(message)
    }

    /// What a Tell tells, port by port; of another message, nothing.
    pub fn groups(&self) -> impl Iterator<Item = Group<'a>> + use<'a> {
        let is_tell = self.common.kind == Kind::Tell;
        let (mut left, mut body) = (if is_tell { self.count } else { 0 }, self.body);
        core::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let (head, behind) = GroupHead::ref_from_prefix(body).ok()?;
            let count = usize::from(head.sockets);
            let (sockets, behind) =
                <[SocketRecord]>::ref_from_prefix_with_elems(behind, count).ok()?;
            body = behind;
            Some(Group { port: head.port.get(), follows: head.flags & FOLLOWS != 0, sockets })
        })
    }

    /// What an Ask asks about; of another message, nothing.
    pub fn wants(&self) -> impl Iterator<Item = Want> + use<'a> {
        let records = if self.common.kind == Kind::Ask { self.records() } else { None };
        let want =
            |record: &WantRecord| Want { port: record.port.get(), bytes: record.bytes.get() };
        records.unwrap_or_default().iter().map(want)
    }

    fn records(&self) -> Option<&'a [WantRecord]> {
        let count = usize::from(self.count);
        <[WantRecord]>::ref_from_prefix_with_elems(self.body, count)
            .ok()
            .map(|(records, _)| records)
    }
}

impl<'a> Group<'a> {
    /// The port's sockets.
    pub fn sockets(&self) -> impl ExactSizeIterator<Item = Socket> + use<'a> {
        self.sockets.iter().map(|record| Socket {
            local: record.local.into(),
            remote: record.remote.into(),
            remote_port: record.remote_port.get(),
            v6: record.flags.get() & 1 != 0,
            v6_only: record.flags.get() & 2 != 0,
            occupied: record.occupied.get(),
            limit: record.limit.get(),
        })
    }
}

/// A message that is being written: as much as fits.
#[derive(Clone, Debug)]
pub struct Draft {
    bytes: [u8; LONGEST],
    len: usize,
    count: u16,
}

impl Draft {
    /// A message from `source` that says nothing yet of any port.
    pub fn new(source: Mac, common: &Common) -> Self {
        let head = Head {
            ethernet: ethernet::Header::new(DESTINATION, source, ETHERTYPE),
            magic: MAGIC,
            version: VERSION,
            kind: common.kind as u8,
            life: U32::new(common.life),
            session: U64::new(common.session),
            number: U64::new(common.number),
            heard: U64::new(common.heard),
            page: U32::new(common.page),
            lost: U32::new(common.lost),
            count: U16::ZERO,
            padding: [0; 2],
        };
        let mut draft = Self { bytes: [0; LONGEST], len: 0, count: 0 };
        draft.put(head.as_bytes());
        draft
    }

    /// Adds what is to be told of a port: all of its sockets, or one that stands for all if they
    /// are more than [`MOST_SOCKETS`]. `false` if there is no room for it.
    pub fn tell(&mut self, port: u16, follows: bool, sockets: &[Socket]) -> bool {
        let all;
        let sockets = if sockets.len() > MOST_SOCKETS {
            all = [stand_in(sockets)];
            &all
        } else {
            sockets
        };
        let len = size_of::<GroupHead>() + sockets.len() * size_of::<SocketRecord>();
        if LONGEST - self.len < len {
            return false;
        }
        let head = GroupHead {
            port: U16::new(port),
            sockets: sockets.len() as u8,
            flags: if follows { FOLLOWS } else { 0 },
        };
        self.put(head.as_bytes());
        for socket in sockets {
            let record = SocketRecord {
                local: socket.local.octets(),
                remote: socket.remote.octets(),
                remote_port: U16::new(socket.remote_port),
                flags: U16::new(u16::from(socket.v6) | u16::from(socket.v6_only) << 1),
                occupied: U32::new(socket.occupied),
                limit: U32::new(socket.limit),
            };
            self.put(record.as_bytes());
        }
        self.finish_one();
        true
    }

    /// Adds what is to be asked about. `false` if there is no room for it.
    pub fn ask(&mut self, want: Want) -> bool {
        let record = WantRecord {
            port: U16::new(want.port),
            unused: U16::ZERO,
            bytes: U32::new(want.bytes),
        };
        if LONGEST - self.len < size_of_val(&record) {
            return false;
        }
        self.put(record.as_bytes());
        self.finish_one();
        true
    }

    /// The frame.
    pub fn frame(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn finish_one(&mut self) {
        const COUNT: usize = size_of::<Head>() - 4;
        self.count += 1;
        self.bytes[COUNT..COUNT + 2].copy_from_slice(&self.count.to_be_bytes());
    }
}

/// One socket in the place of many: it hears everything, and has as little room as any of them.
fn stand_in(sockets: &[Socket]) -> Socket {
    let room = |socket: &Socket| socket.limit.saturating_sub(socket.occupied);
    let least = sockets.iter().map(room).min().unwrap_or_default();
    let occupied = sockets.iter().map(|socket| socket.occupied).max().unwrap_or_default();
    Socket {
        local: Ipv6Addr::UNSPECIFIED,
        remote: Ipv6Addr::UNSPECIFIED,
        remote_port: 0,
        v6: true,
        v6_only: false,
        occupied,
        limit: occupied.saturating_add(least),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn common(kind: Kind) -> Common {
        Common { kind, life: 5, session: 7, number: 3, heard: 2, page: 4096, lost: 1 }
    }

    fn sockets() -> impl Strategy<Value = Vec<Socket>> {
        let addresses = (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<u16>());
        let socket = (addresses, any::<(bool, bool)>(), any::<(u32, u32)>());
        let socket =
            socket.prop_map(|((local, remote, remote_port), (v6, v6_only), (occupied, limit))| {
                let (local, remote) = (local.into(), remote.into());
                Socket { local, remote, remote_port, v6, v6_only, occupied, limit }
            });
        proptest::collection::vec(socket, 0..=MOST_SOCKETS)
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(
            numbers: (u32, u64, u64, u64, u32, u32),
            groups in proptest::collection::vec((any::<u16>(), any::<bool>(), sockets()), 0..6),
        ) {
            let (life, session, number, heard, page, lost) = numbers;
            let common = Common { kind: Kind::Tell, life, session, number, heard, page, lost };
            let mut draft = Draft::new(Mac::local(1), &common);
            let fits = groups.iter().take_while(|(port, follows, all)| draft.tell(*port, *follows, all));
            let fits = fits.count();
            prop_assert!(fits == groups.len() || draft.frame().len() > LONGEST / 3);
            let message = Message::parse(draft.frame()).unwrap();
            prop_assert_eq!(message.common, common);
            let read = |group: Group<'_>| (group.port, group.follows, group.sockets().collect::<Vec<_>>());
            prop_assert_eq!(message.groups().map(read).collect::<Vec<_>>(), &groups[..fits]);
            prop_assert_eq!(message.wants().count(), 0);
        }

        #[test]
        fn what_is_asked_is_read(wants in proptest::collection::vec(any::<(u16, u32)>(), 0..200)) {
            let mut draft = Draft::new(Mac::local(1), &common(Kind::Ask));
            let wants = wants.into_iter().map(|(port, bytes)| Want { port, bytes });
            let fit: Vec<_> = wants.take_while(|want| draft.ask(*want)).collect();
            let message = Message::parse(draft.frame()).unwrap();
            prop_assert_eq!(message.wants().collect::<Vec<_>>(), fit);
            prop_assert_eq!(message.groups().count(), 0);
        }

        #[test]
        fn a_message_that_is_cut_is_none(at in 0usize..60) {
            let draft = Draft::new(Mac::local(1), &common(Kind::Hello));
            prop_assert!(Message::parse(draft.frame()).is_ok());
            prop_assert!(Message::parse(&draft.frame()[..at]).is_err());
        }
    }

    #[test]
    fn it_is_laid_out_for_good_so_that_other_versions_are_told_from_other_protocols() {
        let mut draft = Draft::new(Mac::local(1), &common(Kind::Ask));
        assert!(draft.ask(Want { port: 53, bytes: 9 }));
        let mut bytes = draft.frame().to_vec();
        assert_eq!(bytes[..6], [0x01, 0x80, 0xc2, 0, 0, 0x0e]);
        assert_eq!(bytes[12..20], [0x88, 0xb5, b'z', b'o', b'v', b'n', 2, 3]);
        assert_eq!(bytes[60..], [0, 53, 0, 0, 0, 0, 0, 9]);
        bytes[18] = 1;
        assert_eq!(Message::parse(&bytes).unwrap_err(), Unreadable::Version(1));
        bytes[17] = b'N';
        assert_eq!(Message::parse(&bytes).unwrap_err(), Unreadable::Foreign);
    }

    #[test]
    fn of_too_many_sockets_one_stands_for_all() {
        let socket = |occupied, limit| Socket { occupied, limit, ..stand_in(&[]) };
        let mut many = [socket(0, 100); MOST_SOCKETS + 1];
        (many[3], many[4]) = (socket(90, 1000), socket(1000, 1020));
        let mut draft = Draft::new(Mac::local(1), &common(Kind::Tell));
        assert!(draft.tell(53, true, &many));
        let message = Message::parse(draft.frame()).unwrap();
        let group = message.groups().next().unwrap();
        assert!(group.follows);
        assert_eq!(group.sockets().collect::<Vec<_>>(), [socket(1000, 1020)]);
    }
}
