//! What both benchmarks do: fill a table, and let packets pass.

use std::net::{IpAddr, Ipv4Addr};

use conntrack::{
    Begin, Change, Id, Kind, Packet, Segment, Settings, Stamp, Table, Timeouts, Tuple, Verdict,
    Way, Zone,
};
use units::{Instant, Span};
use wire::tcp::Flags;

/// Connections of as many zones as a host has ports.
pub struct World {
    pub table: Table,
    zones: Vec<Zone>,
}

const ZONES: u32 = 100;
const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);

pub fn at(number: u64) -> Instant {
    Instant::ZERO + Span::from_micros(number)
}

fn segment(flags: Flags, sequence: u32, acknowledgment: u32, len: u32) -> Segment {
    let (window, scale, is_part) = (60_000, None, false);
    Segment { sequence, acknowledgment, len, window, flags, scale, is_part }
}

impl World {
    /// An empty table for so many connections.
    pub fn new(connections: u32) -> Self {
        let timeouts = Timeouts::default();
        let settings = Settings { connections, zones: ZONES, tenants: 1, timeouts, key: [5, 7] };
        let mut table = Table::new(&settings, Instant::ZERO);
        let tenant = table.add_tenant(u32::MAX).expect("there is room");
        let zones = (0..ZONES).map(|_| table.add_zone(tenant, u32::MAX).expect("there is room"));
        Self { zones: zones.collect(), table }
    }

    /// A flow's zone and the tuple of its first packet.
    fn flow(&self, number: u32) -> (Zone, Tuple) {
        let address = |group: u32, number: u32| -> IpAddr {
            Ipv4Addr::from(group << 24 | number & 0x00ff_ffff).into()
        };
        let ports = (1024 + (number % 60_000) as u16, 443);
        let (from, to) = (address(10, number / 7), address(11, number / 1000));
        let tuple = Tuple::new(6, (from, ports.0), (to, ports.1)).expect("both are IPv4");
        (self.zones[(number % ZONES) as usize], tuple)
    }

    fn pass(&mut self, zone: Zone, tuple: Tuple, segment: Segment, now: Instant) {
        let packet = Packet { tuple, kind: Kind::Tcp(segment) };
        let change = match self.table.lookup(zone, &packet, now) {
            Verdict::New => Change::Begin(Begin::new(zone, packet, Stamp::default())),
            Verdict::Request(hit) | Verdict::Reply(hit) => hit.change(&packet),
            verdict => panic!("{verdict:?}"),
        };
        self.table.commit(&change, now).expect("there is room");
    }

    /// So many flows are established.
    pub fn fill(&mut self, flows: u32) {
        for number in 0..flows {
            self.ask(number, at(0));
            self.accept(number, at(0));
        }
    }

    /// A flow's first packet passes.
    pub fn ask(&mut self, number: u32, now: Instant) {
        let (zone, tuple) = self.flow(number);
        self.pass(zone, tuple, segment(Flags::SYN, 0, 0, 0), now);
    }

    /// The rest of its handshake passes.
    pub fn accept(&mut self, number: u32, now: Instant) {
        let (zone, tuple) = self.flow(number);
        self.pass(zone, tuple.reversed(), segment(SYN_ACK, 0, 1, 0), now);
        self.pass(zone, tuple, segment(Flags::ACK, 1, 1, 0), now);
    }

    /// Both close it.
    pub fn close(&mut self, number: u32, now: Instant) {
        let (zone, tuple) = self.flow(number);
        let fin = Flags::FIN | Flags::ACK;
        self.pass(zone, tuple, segment(fin, 1, 1, 0), now);
        self.pass(zone, tuple.reversed(), segment(fin, 1, 2, 0), now);
        self.pass(zone, tuple, segment(Flags::ACK, 2, 2, 0), now);
    }

    /// A segment with data passes, one way or the other.
    pub fn hit(&mut self, number: u32, now: Instant) {
        let (zone, tuple) = self.flow(number);
        let tuple = if number & 1 == 0 { tuple } else { tuple.reversed() };
        self.pass(zone, tuple, segment(Flags::ACK, 1, 1, 1000), now);
    }

    /// A segment with data is decided, and does not leave.
    pub fn look(&self, number: u32, now: Instant) -> bool {
        let (zone, tuple) = self.flow(number);
        let packet = Packet { tuple, kind: Kind::Tcp(segment(Flags::ACK, 1, 1, 1000)) };
        matches!(self.table.lookup(zone, &packet, now), Verdict::Request(_))
    }

    /// Flows' connections, and which way their packets go here, as a cache would have them.
    pub fn cache(&self, flows: u32) -> Vec<(Id, Way)> {
        let found = (0..flows).map(|number| {
            let (zone, tuple) = self.flow(number);
            let packet = Packet { tuple, kind: Kind::Tcp(segment(Flags::ACK, 1, 1, 1000)) };
            let Verdict::Request(hit) = self.table.lookup(zone, &packet, at(0)) else { panic!() };
            (hit.id, hit.way)
        });
        found.collect()
    }

    /// A segment of a flow that is cached is decided, and does not leave.
    pub fn recall(&self, number: u32, (id, way): (Id, Way), now: Instant) -> bool {
        let (_, tuple) = self.flow(number);
        let packet = Packet { tuple, kind: Kind::Tcp(segment(Flags::ACK, 1, 1, 1000)) };
        self.table.recall(id, way, &packet.kind, now).is_some()
    }

    /// What the benchmark itself does for a packet.
    pub fn make(&self, number: u32) -> bool {
        let (zone, tuple) = self.flow(number);
        let packet = Packet { tuple, kind: Kind::Tcp(segment(Flags::ACK, 1, 1, 1000)) };
        std::hint::black_box((zone, packet)).1.begins()
    }
}
