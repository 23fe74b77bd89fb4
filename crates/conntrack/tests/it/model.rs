//! The table against a list that is searched from its beginning each time.

use conntrack::{
    Begin, Change, Denied, Flags, Full, Hit, Id, Kind, Packet, Stamp, Table, Tenant, Timeouts,
    Tuple, Verdict, Way, Why, Zone,
};
use proptest::prelude::*;
use units::{Instant, Span};

use crate::common::{RST_ACK, SYN, SYN_ACK, answer, ask, segment, settings, tcp, tuple, udp};

/// A tick of the table, in nanoseconds.
const TICK: u64 = 1 << 28;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Datagram,
    Echo,
    Asked,
    Accepted,
    Reset,
}

#[derive(Clone, Debug)]
struct Conn {
    id: Option<Id>,
    zone: usize,
    original: Tuple,
    reply: Tuple,
    stage: Stage,
    is_answered: bool,
    deadline: u64,
    stamp: Stamp,
    /// Position among those of its zone that are as far: by when it got there.
    order: u64,
}

#[derive(Debug, PartialEq)]
enum Said {
    New,
    Known(usize, Way),
    Invalid,
}

/// Three zones, the first two of one tenant.
struct Model {
    conns: Vec<Conn>,
    zone_quotas: [usize; 3],
    tenant_quotas: [usize; 2],
    most: usize,
    order: u64,
}

const TENANT_OF: [usize; 3] = [0, 0, 1];

fn tick(now: u64) -> u64 {
    now / TICK
}

fn deadline(now: u64, conn: &Conn) -> u64 {
    let it = Timeouts::default();
    let is_names = [conn.original.source().1, conn.original.destination().1].contains(&53);
    let is_translated = conn.original.reversed() != conn.reply;
    let span = match conn.stage {
        Stage::Datagram if is_translated => it.udp_answered,
        Stage::Echo if is_translated => it.other_answered,
        Stage::Asked | Stage::Accepted | Stage::Reset if is_translated => it.tcp_closing,
        Stage::Datagram if is_names => it.names,
        Stage::Datagram if conn.is_answered => it.udp_answered,
        Stage::Datagram => it.udp,
        Stage::Echo => it.echo,
        Stage::Asked => it.tcp_opening,
        Stage::Accepted => it.tcp_accepting,
        Stage::Reset => it.tcp_closed,
    };
    tick(now) + span.as_nanos().div_ceil(TICK) + 1
}

impl Model {
    fn find(&self, zone: usize, tuple: Tuple) -> Option<(usize, Way)> {
        self.conns.iter().enumerate().find_map(|(at, it)| match it.zone == zone {
            true if it.original == tuple => Some((at, Way::Original)),
            true if it.reply == tuple => Some((at, Way::Reply)),
            _ => None,
        })
    }

    /// What a packet is to a connection: whether it begins a new one in its place, changes nothing,
    /// or how far it takes it. `None`: invalid.
    fn judge(&self, at: usize, packet: &Packet) -> Option<Result<Stage, bool>> {
        let stage = self.conns[at].stage;
        let Kind::Tcp(segment) = packet.kind else { return Some(Ok(stage)) };
        match (stage, segment.flags) {
            (Stage::Asked, SYN) => Some(Ok(Stage::Asked)),
            (Stage::Asked | Stage::Accepted, SYN_ACK) => Some(Ok(Stage::Accepted)),
            (Stage::Asked, RST_ACK) => Some(Ok(Stage::Reset)),
            (Stage::Accepted, SYN) => Some(Ok(Stage::Accepted)),
            (Stage::Reset, SYN) => Some(Err(true)),
            (Stage::Reset, _) => Some(Err(false)),
            _ => None,
        }
    }

    fn begins(packet: &Packet) -> bool {
        match packet.kind {
            Kind::Tcp(segment) => segment.flags == SYN,
            kind => kind != Kind::Answer,
        }
    }

    fn say(&self, zone: usize, packet: &Packet, now: u64) -> Said {
        match self.find(zone, packet.tuple).filter(|(at, _)| self.conns[*at].deadline > tick(now)) {
            Some((at, way)) => match self.judge(at, packet) {
                None => Said::Invalid,
                Some(Err(true)) => Said::New,
                Some(_) => Said::Known(at, way),
            },
            None if Self::begins(packet) => Said::New,
            None => Said::Invalid,
        }
    }

    fn count(&self, is: impl Fn(&Conn) -> bool) -> usize {
        self.conns.iter().filter(|it| is(it)).count()
    }

    fn full(&self, zone: usize) -> Option<(Full, bool)> {
        let own = self.count(|it| it.zone == zone);
        let all = self.count(|it| TENANT_OF[it.zone] == TENANT_OF[zone]);
        let (zone_quota, tenant_quota) =
            (self.zone_quotas[zone], self.tenant_quotas[TENANT_OF[zone]]);
        let is_helped = own <= zone_quota && all <= tenant_quota;
        if own >= zone_quota {
            Some((Full::Zone, is_helped))
        } else if all >= tenant_quota {
            Some((Full::Tenant, is_helped))
        } else {
            (self.conns.len() >= self.most).then_some((Full::Table, true))
        }
    }

    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    fn advance(&mut self, at: usize, way: Way, packet: &Packet, now: u64) -> Result<usize, ()> {
        match self.judge(at, packet).ok_or(())? {
            Err(true) => return Err(()),
            Err(false) => return Ok(at),
            Ok(stage) => self.conns[at].stage = stage,
        }
        if way == Way::Reply && !self.conns[at].is_answered {
            self.conns[at].is_answered = true;
            self.conns[at].order = self.next_order();
        }
        self.conns[at].deadline = deadline(now, &self.conns[at]);
        Ok(at)
    }

    /// The new connection's place in the list, or which one went on, or why not.
    fn begin(&mut self, zone: usize, begin: &Begin, now: u64) -> Result<usize, Option<Denied>> {
        let packet = &begin.packet;
        let found = self.find(zone, packet.tuple);
        if let Some((at, way)) = found
            && self.conns[at].deadline > tick(now)
            && self.judge(at, packet) != Some(Err(true))
        {
            return self.advance(at, way, packet, now).map_err(|()| None);
        }
        if !Self::begins(packet) {
            return Err(None);
        }
        let other =
            self.find(zone, begin.reply).filter(|(at, _)| Some(*at) != found.map(|it| it.0));
        if other.is_some_and(|(at, _)| self.conns[at].deadline > tick(now)) {
            return Err(Some(Denied::Taken));
        }
        let gone = [found, other].map(|it| it.map(|(at, _)| at));
        let mut at = 0;
        self.conns.retain(|_| {
            at += 1;
            !gone.contains(&Some(at - 1))
        });
        if let Some((full, is_helped)) = self.full(zone) {
            let half_open = |it: &&Conn| it.zone == zone && !it.is_answered;
            let oldest = self.conns.iter().filter(half_open).map(|it| it.order).min();
            let oldest = oldest.filter(|_| is_helped).ok_or(Some(Denied::Full(full)))?;
            self.conns.retain(|it| it.order != oldest);
        }
        let stage = match packet.kind {
            Kind::Tcp(_) => Stage::Asked,
            Kind::Ask => Stage::Echo,
            _ => Stage::Datagram,
        };
        let mut conn = Conn {
            id: None,
            zone,
            original: packet.tuple,
            reply: begin.reply,
            stage,
            is_answered: false,
            deadline: 0,
            stamp: begin.stamp,
            order: self.next_order(),
        };
        conn.deadline = deadline(now, &conn);
        self.conns.push(conn);
        Ok(self.conns.len() - 1)
    }

    /// A zone's connections in the order in which the table tells them.
    fn told(&self, zone: usize, now: u64) -> Vec<&Conn> {
        let mut own: Vec<&Conn> =
            self.conns.iter().filter(|it| it.zone == zone && it.deadline > tick(now)).collect();
        own.sort_by_key(|it| (it.is_answered, it.order));
        own
    }
}

#[derive(Clone, Debug)]
enum Do {
    /// A packet of a zone leaves; translated replies come to a port of another machine.
    Pass(usize, Packet, Option<u16>),
    /// A packet is decided, and waits.
    Hold(usize, Packet),
    /// The one that has waited longest leaves.
    Leave,
    Wait(u64),
    Expire,
    Remove(usize),
    Restamp(usize, u32),
    ZoneQuota(usize, u32),
    TenantQuota(usize, u32),
    ForgetZone(usize),
}

fn packets() -> impl Strategy<Value = Packet> {
    let hosts = || prop_oneof![Just((1_u8, 2_u8)), Just((2, 1)), Just((3, 1)), Just((1, 3))];
    let ports = prop_oneof![Just((1000_u16, 53_u16)), Just((1000, 2000)), Just((2000, 1000))];
    let segments = prop_oneof![
        Just((true, segment(SYN, 1000, 0))),
        Just((false, segment(SYN_ACK, 2000, 1001))),
        Just((false, segment(RST_ACK, 0, 1001))),
    ];
    prop_oneof![
        3 => (hosts(), ports).prop_map(|((a, b), (p, q))| udp((a, p), (b, q))),
        1 => (hosts(), 1..3_u16).prop_map(|((a, b), id)| ask(a, b, id)),
        1 => (hosts(), 1..3_u16).prop_map(|((a, b), id)| answer(a, b, id)),
        3 => (segments, 1..5_u16).prop_map(|((asks, segment), port)| {
            let to = tuple(6, (1, port), (2, 80));
            tcp(if asks { to } else { to.reversed() }, segment)
        }),
    ]
}

fn step() -> impl Strategy<Value = Do> {
    let zone = || 0..3_usize;
    prop_oneof![
        12 => (zone(), packets(), proptest::option::weighted(0.1, 0..4_u16))
            .prop_map(|(zone, packet, by)| Do::Pass(zone, packet, by)),
        4 => (zone(), packets()).prop_map(|(zone, packet)| Do::Hold(zone, packet)),
        3 => Just(Do::Leave),
        3 => prop_oneof![0..3_u64, 0..40_u64, 0..300_u64].prop_map(Do::Wait),
        2 => Just(Do::Expire),
        1 => any::<usize>().prop_map(Do::Remove),
        1 => (any::<usize>(), any::<u32>()).prop_map(|(which, rule)| Do::Restamp(which, rule)),
        1 => (zone(), 0..6_u32).prop_map(|(zone, quota)| Do::ZoneQuota(zone, quota)),
        1 => (0..2_usize, 0..10_u32).prop_map(|(tenant, quota)| Do::TenantQuota(tenant, quota)),
        1 => zone().prop_map(Do::ForgetZone),
    ]
}

struct Both {
    table: Table,
    tenants: [Tenant; 2],
    zones: [Zone; 3],
    model: Model,
    now: u64,
    held: Vec<(usize, Packet, Option<Change>)>,
}

impl Both {
    fn new(most: u32) -> Self {
        let mut table = Table::new(&settings(most), Instant::ZERO);
        let tenants = [(); 2].map(|()| table.add_tenant(6).unwrap());
        let zones = TENANT_OF.map(|tenant| table.add_zone(tenants[tenant], 4).unwrap());
        let model = Model {
            conns: Vec::new(),
            zone_quotas: [4; 3],
            tenant_quotas: [6; 2],
            most: most as usize,
            order: 0,
        };
        Self { table, tenants, zones, model, now: 0, held: Vec::new() }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Whoever remembers a datagram's or a segment's connection is told the same.
    fn recall(&self, hit: Hit, packet: &Packet, is_taken: bool) {
        let again = self.table.recall(hit.id, hit.way, &packet.kind, self.now());
        let is_of_flow = matches!(packet.kind, Kind::Tcp(_) | Kind::Datagram);
        assert_eq!(again, (is_taken && is_of_flow).then_some(hit), "{packet:?}");
    }

    /// What the table decides, which must be what the model does.
    fn decide(&self, zone: usize, packet: &Packet, translated: Option<u16>) -> Option<Change> {
        let said = self.model.say(zone, packet, self.now);
        match self.table.lookup(self.zones[zone], packet, self.now()) {
            Verdict::New => {
                assert_eq!(said, Said::New, "{packet:?}");
                let mut begin =
                    Begin::new(self.zones[zone], *packet, Stamp { generation: 1, rule: 2 });
                if let Some(port) = translated {
                    let reply = begin.reply;
                    let to = (crate::common::host(9), port);
                    begin.reply = Tuple::new(reply.protocol(), reply.source(), to).unwrap();
                }
                Some(Change::Begin(begin))
            }
            Verdict::Request(hit) => {
                let Said::Known(at, Way::Original) = said else { panic!("{said:?}: {packet:?}") };
                assert_eq!((Some(hit.id), hit.way), (self.model.conns[at].id, Way::Original));
                assert_eq!(hit.stamp, self.model.conns[at].stamp);
                self.recall(hit, packet, true);
                Some(hit.change(packet))
            }
            Verdict::Reply(hit) => {
                let Said::Known(at, Way::Reply) = said else { panic!("{said:?}: {packet:?}") };
                assert_eq!((Some(hit.id), hit.way), (self.model.conns[at].id, Way::Reply));
                self.recall(hit, packet, true);
                Some(hit.change(packet))
            }
            Verdict::Invalid { hit, .. } => {
                assert_eq!(said, Said::Invalid, "{packet:?}");
                hit.into_iter().for_each(|hit| self.recall(hit, packet, false));
                None
            }
            verdict => panic!("{verdict:?} of {packet:?}"),
        }
    }

    fn commit(&mut self, zone: usize, packet: &Packet, change: &Change) {
        let room = self.table.room(self.zones[zone]);
        let done = self.table.commit(change, self.now());
        match change {
            Change::Begin(begin) => match self.model.begin(zone, begin, self.now) {
                Ok(at) => {
                    let id = done.expect("the model begins it");
                    let known = self.model.conns[at].id.get_or_insert(id);
                    assert_eq!(*known, id);
                }
                Err(None) => assert!(matches!(done, Err(Denied::Invalid(_)))),
                Err(Some(Denied::Full(full))) => {
                    assert_eq!(done, Err(Denied::Full(full)));
                    assert!(room.is_err() || self.model.conns.len() < self.model.most);
                }
                Err(Some(denied)) => assert_eq!(done, Err(denied)),
            },
            Change::Advance { id, way, .. } => {
                match self.model.conns.iter().position(|it| it.id == Some(*id)) {
                    None => assert_eq!(done, Err(Denied::Gone)),
                    Some(at) => match self.model.advance(at, *way, packet, self.now) {
                        Ok(_) => assert_eq!(done, Ok(*id)),
                        Err(()) => assert!(done.is_err()),
                    },
                }
            }
        }
    }

    fn run(&mut self, step: Do) {
        let nth = |model: &Model, which: usize| which % model.conns.len().max(1);
        match step {
            Do::Pass(zone, packet, translated) => {
                let decided = self.decide(zone, &packet, translated);
                // Deciding changes nothing, however often.
                assert_eq!(decided, self.decide(zone, &packet, translated));
                if let Some(change) = decided {
                    self.commit(zone, &packet, &change);
                }
            }
            Do::Hold(zone, packet) => {
                let decided = self.decide(zone, &packet, None);
                self.held.push((zone, packet, decided));
            }
            Do::Leave if !self.held.is_empty() => {
                if let (zone, packet, Some(change)) = self.held.remove(0) {
                    self.commit(zone, &packet, &change);
                }
            }
            Do::Leave => {}
            Do::Wait(seconds) => self.now += Span::from_secs(seconds).as_nanos() + 12_345,
            Do::Expire => {
                let before = self.model.conns.len();
                self.model.conns.retain(|it| it.deadline > tick(self.now));
                let expiry = self.table.expire(self.now(), u32::MAX);
                assert!(expiry.is_done);
                assert_eq!(expiry.forgotten as usize, before - self.model.conns.len());
                let first = self.model.conns.iter().map(|it| it.deadline).min();
                let next = self.table.expires_at();
                let in_time = |first| next.is_some_and(|next| next.as_nanos() <= first * TICK);
                assert!(first.is_none_or(in_time));
            }
            Do::Remove(which) => {
                let at = nth(&self.model, which);
                if at < self.model.conns.len() {
                    let id = self.model.conns.remove(at).id.unwrap();
                    assert!(self.table.remove(id) && !self.table.remove(id));
                    assert_eq!(self.table.get(id, self.now()), None);
                    let again = self.table.recall(id, Way::Reply, &Kind::Datagram, self.now());
                    assert_eq!(again, None);
                }
            }
            Do::Restamp(which, rule) => {
                let at = nth(&self.model, which);
                if let Some(conn) = self.model.conns.get_mut(at) {
                    conn.stamp = Stamp { generation: 2, rule };
                    assert!(self.table.restamp(conn.id.unwrap(), conn.stamp, Flags::BLOCKED));
                }
            }
            Do::ZoneQuota(zone, quota) => {
                self.model.zone_quotas[zone] = quota as usize;
                assert!(self.table.set_zone_quota(self.zones[zone], quota));
            }
            Do::TenantQuota(tenant, quota) => {
                self.model.tenant_quotas[tenant] = quota as usize;
                assert!(self.table.set_tenant_quota(self.tenants[tenant], quota));
            }
            Do::ForgetZone(zone) => {
                let old = self.zones[zone];
                assert!(self.table.remove_zone(old) && !self.table.remove_zone(old));
                self.model.conns.retain(|it| it.zone != zone);
                let tenant = self.tenants[TENANT_OF[zone]];
                let quota = self.model.zone_quotas[zone] as u32;
                self.zones[zone] = self.table.add_zone(tenant, quota).unwrap();
                // What waited for the old one finds nobody.
                let now = self.now();
                for (_, _, change) in self.held.extract_if(.., |(it, _, _)| *it == zone) {
                    let Some(change) = change else { continue };
                    assert_eq!(self.table.commit(&change, now), Err(Denied::Gone));
                }
            }
        }
        self.compare();
    }

    fn compare(&self) {
        assert_eq!(self.table.len(), self.model.conns.len());
        for (at, zone) in self.zones.into_iter().enumerate() {
            assert_eq!(self.table.zone_len(zone) as usize, self.model.count(|it| it.zone == at));
            let told = self.model.told(at, self.now);
            let all: Vec<_> = self.table.connections(zone, None, self.now()).collect();
            assert_eq!(all.len(), told.len());
            for (own, it) in all.iter().zip(told) {
                assert_eq!((Some(own.id), own.zone), (it.id, zone));
                assert_eq!((own.original, own.reply), (it.original, it.reply));
                assert_eq!((own.stamp, own.flags.is_answered()), (it.stamp, it.is_answered));
                assert_eq!(own.left.as_nanos(), it.deadline * TICK - self.now);
                // A reply's reply is the original.
                assert_eq!(own.translated(Way::Reply).reversed(), own.original);
                assert!(!self.table.is_free(zone, &own.reply, self.now()));
            }
            // In pieces they are the same.
            let mut pieces = Vec::new();
            while let Some(next) = self
                .table
                .connections(
                    zone,
                    pieces.last().map(|it: &conntrack::Connection| it.id),
                    self.now(),
                )
                .next()
            {
                pieces.push(next);
            }
            assert_eq!(pieces, all);
        }
        for (at, tenant) in self.tenants.into_iter().enumerate() {
            let all = self.model.count(|it| TENANT_OF[it.zone] == at);
            assert_eq!(self.table.tenant_len(tenant) as usize, all);
        }
    }
}

proptest! {
    #[test]
    fn a_table_is_a_list_of_connections(
        most in 1..14_u32, steps in prop::collection::vec(step(), 0..100),
    ) {
        let mut both = Both::new(most);
        for step in steps {
            both.run(step);
        }
    }
}

#[test]
fn why_is_told() {
    // The model knows only that something is invalid.
    let both = Both::new(4);
    let zone = both.zones[0];
    let lookup = |packet: &Packet| both.table.lookup(zone, packet, Instant::ZERO);
    assert_eq!(lookup(&answer(1, 2, 3)), Verdict::Invalid { why: Why::NoConnection, hit: None });
    assert_eq!(lookup(&udp((1, 5), (1, 5))), Verdict::Invalid { why: Why::Circular, hit: None });
    let alone = tcp(tuple(6, (1, 5), (2, 80)), segment(SYN_ACK, 1, 1));
    assert_eq!(lookup(&alone), Verdict::Invalid { why: Why::NoConnection, hit: None });
}
