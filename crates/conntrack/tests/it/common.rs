//! What tests share: machines, packets and tables.

use std::net::{IpAddr, Ipv4Addr};

use conntrack::{
    Begin, Change, Denied, Id, Kind, Packet, Segment, Settings, Stamp, Table, Timeouts, Tuple,
    Verdict, Zone,
};
use units::{Instant, Span};
use wire::tcp::Flags;

pub fn seconds(seconds: u64) -> Instant {
    Instant::ZERO + Span::from_secs(seconds)
}

pub fn settings(connections: u32) -> Settings {
    let timeouts = Timeouts::default();
    Settings { connections, zones: 8, tenants: 4, timeouts, key: [3, 5] }
}

pub fn host(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, number).into()
}

pub fn tuple(protocol: u8, from: (u8, u16), to: (u8, u16)) -> Tuple {
    Tuple::new(protocol, (host(from.0), from.1), (host(to.0), to.1)).unwrap()
}

pub fn udp(from: (u8, u16), to: (u8, u16)) -> Packet {
    Packet { tuple: tuple(17, from, to), kind: Kind::Datagram }
}

pub fn ask(from: u8, to: u8, id: u16) -> Packet {
    Packet { tuple: tuple(1, (from, id), (to, 0)), kind: Kind::Ask }
}

pub fn answer(from: u8, to: u8, id: u16) -> Packet {
    Packet { tuple: tuple(1, (from, 0), (to, id)), kind: Kind::Answer }
}

pub const SYN: Flags = Flags::SYN;
pub const ACK: Flags = Flags::ACK;
pub const RST: Flags = Flags::RST;
pub const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);
pub const FIN_ACK: Flags = Flags(Flags::FIN.0 | Flags::ACK.0);
pub const RST_ACK: Flags = Flags(Flags::RST.0 | Flags::ACK.0);

/// A segment without data and with a window of 1,000 bytes.
pub fn segment(flags: Flags, sequence: u32, acknowledgment: u32) -> Segment {
    let (len, window, scale, is_part) = (0, 1000, None, false);
    Segment { sequence, acknowledgment, len, window, flags, scale, is_part }
}

pub fn tcp(tuple: Tuple, segment: Segment) -> Packet {
    Packet { tuple, kind: Kind::Tcp(segment) }
}

/// A table with one tenant's zone, both without a quota that matters.
pub fn one_zone(connections: u32) -> (Table, Zone) {
    let mut table = Table::new(&settings(connections), Instant::ZERO);
    let tenant = table.add_tenant(u32::MAX).unwrap();
    let zone = table.add_zone(tenant, u32::MAX).unwrap();
    (table, zone)
}

pub const STAMP: Stamp = Stamp { generation: 1, rule: 7 };

/// Lets a packet leave: decides, and makes its change.
pub fn pass(table: &mut Table, zone: Zone, packet: &Packet, now: Instant) -> Result<Id, Denied> {
    let change = match table.lookup(zone, packet, now) {
        Verdict::New => Change::Begin(Begin::new(zone, *packet, STAMP)),
        Verdict::Request(hit) | Verdict::Reply(hit) => hit.change(packet),
        Verdict::Related(hit) => return Ok(hit.id),
        Verdict::Invalid { why, .. } => return Err(Denied::Invalid(why)),
        Verdict::Untracked => panic!("nobody here sends such: {packet:?}"),
    };
    table.commit(&change, now)
}
