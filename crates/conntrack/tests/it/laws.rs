//! What a table promises, each in the smallest world that shows it.

use conntrack::{
    Begin, Change, Denied, Flags, Full, Kind, Packet, Stamp, Table, Tuple, Verdict, Way, Why,
};
use units::{Instant, Span};

use crate::common::{
    STAMP, SYN, ask, host, one_zone, pass, seconds, segment, settings, tcp, tuple, udp,
};

#[test]
fn what_is_full_refuses_only_what_is_new_and_a_tenant_takes_no_others_place() {
    let mut table = Table::new(&settings(8), Instant::ZERO);
    let [a, b] = [(); 2].map(|()| table.add_tenant(100).unwrap());
    let [x, y] = [a, b].map(|tenant| table.add_zone(tenant, 100).unwrap());
    let now = Instant::ZERO;
    // b has three that nobody has answered, and a takes the rest, answered.
    let theirs: Vec<_> =
        (0..3).map(|port| pass(&mut table, y, &udp((1, port + 1), (2, 9)), now).unwrap()).collect();
    for port in 0..5 {
        let packet = udp((1, port + 1), (2, 9));
        pass(&mut table, x, &packet, now).unwrap();
        let back = Packet { tuple: packet.tuple.reversed(), ..packet };
        pass(&mut table, x, &back, now).unwrap();
    }
    assert_eq!(table.room(x), Err(Full::Table));
    let more = udp((1, 99), (2, 9));
    assert_eq!(pass(&mut table, x, &more, now), Err(Denied::Full(Full::Table)));
    assert!(theirs.iter().all(|id| table.get(*id, now).is_some()));
    // What is known goes on; b's own oldest makes room for b's.
    pass(&mut table, x, &udp((1, 1), (2, 9)), now).unwrap();
    assert_eq!(table.room(y), Ok(()));
    pass(&mut table, y, &more, now).unwrap();
    let left: Vec<bool> = theirs.iter().map(|id| table.get(*id, now).is_some()).collect();
    assert_eq!(left, [false, true, true]);
    assert_eq!((table.len(), table.tenant_len(a), table.tenant_len(b)), (8, 5, 3));
}

#[test]
fn a_quota_is_a_zones_and_a_tenants() {
    let mut table = Table::new(&settings(100), Instant::ZERO);
    let tenant = table.add_tenant(3).unwrap();
    let [x, y] = [(); 2].map(|()| table.add_zone(tenant, 2).unwrap());
    let now = Instant::ZERO;
    let answered = |table: &mut Table, zone, port| {
        let packet = udp((1, port), (2, 9));
        pass(table, zone, &packet, now)?;
        pass(table, zone, &Packet { tuple: packet.tuple.reversed(), ..packet }, now)
    };
    answered(&mut table, x, 1).unwrap();
    answered(&mut table, x, 2).unwrap();
    assert_eq!(answered(&mut table, x, 3), Err(Denied::Full(Full::Zone)));
    answered(&mut table, y, 1).unwrap();
    assert_eq!(answered(&mut table, y, 2), Err(Denied::Full(Full::Tenant)));
    // Less than there are: those stay, and nobody is thrown out for nothing.
    assert!(table.set_tenant_quota(tenant, 10) && table.set_zone_quota(y, 10));
    let half_open = pass(&mut table, y, &udp((1, 7), (2, 9)), now).unwrap();
    assert!(table.set_zone_quota(y, 1));
    assert_eq!(answered(&mut table, y, 8), Err(Denied::Full(Full::Zone)));
    assert!(table.get(half_open, now).is_some());
}

#[test]
fn a_reply_makes_a_datagrams_connection_last() {
    let (mut table, zone) = one_zone(4);
    let packet = udp((1, 1000), (2, 2000));
    let back = Packet { tuple: packet.tuple.reversed(), ..packet };
    let left =
        |table: &Table, id, now| table.get(id, now).map(|it| it.left.as_nanos() / 1_000_000_000);
    let id = pass(&mut table, zone, &packet, Instant::ZERO).unwrap();
    assert_eq!(left(&table, id, Instant::ZERO), Some(30));
    // A second question makes it no older.
    pass(&mut table, zone, &packet, seconds(1)).unwrap();
    assert_eq!(left(&table, id, seconds(1)), Some(30));
    pass(&mut table, zone, &back, seconds(2)).unwrap();
    assert_eq!(left(&table, id, seconds(2)), Some(180));
    let names = udp((1, 1000), (2, 53));
    let id = pass(&mut table, zone, &names, seconds(2)).unwrap();
    pass(&mut table, zone, &Packet { tuple: names.tuple.reversed(), ..names }, seconds(2)).unwrap();
    assert_eq!(left(&table, id, seconds(2)), Some(30));
    // Over is over, whether or not somebody has looked.
    assert_eq!(table.lookup(zone, &names, seconds(33)), Verdict::New);
    assert_eq!((table.len(), left(&table, id, seconds(33))), (2, None));
}

#[test]
fn expiry_goes_on_where_it_stopped() {
    let (mut table, zone) = one_zone(100);
    for port in 1..=100 {
        let now = Instant::ZERO + Span::from_millis(u64::from(port) * 37);
        pass(&mut table, zone, &udp((1, port), (2, 2000)), now).unwrap();
    }
    let now = seconds(40);
    let mut forgotten = 0;
    loop {
        let expiry = table.expire(now, 7);
        assert!(expiry.forgotten <= 7);
        forgotten += expiry.forgotten;
        if expiry.is_done {
            break;
        }
    }
    assert_eq!((forgotten, table.len(), table.expires_at()), (100, 0, None));
}

#[test]
fn two_machines_that_ask_each_other_with_one_identifier_have_two_connections() {
    let (mut table, zone) = one_zone(4);
    let there = pass(&mut table, zone, &ask(1, 2, 7), Instant::ZERO).unwrap();
    assert_eq!(table.lookup(zone, &ask(2, 1, 7), Instant::ZERO), Verdict::New);
    let back = pass(&mut table, zone, &ask(2, 1, 7), Instant::ZERO).unwrap();
    assert_ne!(there, back);
}

#[test]
fn zones_know_nothing_of_each_other() {
    let mut table = Table::new(&settings(100), Instant::ZERO);
    let tenants = [(); 2].map(|()| table.add_tenant(9).unwrap());
    let zones = tenants.map(|tenant| table.add_zone(tenant, 9).unwrap());
    let packet = udp((1, 1), (2, 2));
    let ids = zones.map(|zone| pass(&mut table, zone, &packet, Instant::ZERO).unwrap());
    assert_ne!(ids[0], ids[1]);
    assert!(!table.remove_tenant(tenants[0]), "it has a zone");
    assert!(table.remove_zone(zones[0]) && table.remove_tenant(tenants[0]));
    assert_eq!(table.lookup(zones[0], &packet, Instant::ZERO), Verdict::New);
    let begin = Change::Begin(Begin::new(zones[0], packet, STAMP));
    assert_eq!(table.commit(&begin, Instant::ZERO), Err(Denied::Gone));
    assert_eq!(table.add_zone(tenants[0], 1), None);
    assert!(matches!(table.lookup(zones[1], &packet, Instant::ZERO), Verdict::Request(_)));
    assert_eq!((table.zone_len(zones[0]), table.zone_len(zones[1]), table.len()), (0, 1, 1));
}

#[test]
fn a_translated_connection_is_found_by_both_its_tuples() {
    let (mut table, zone) = one_zone(4);
    let now = Instant::ZERO;
    // 10.0.0.1:4000 asks 10.0.0.2:80, and comes as 10.0.0.9:7000.
    let first = tcp(tuple(6, (1, 4000), (2, 80)), segment(SYN, 1, 0));
    let reply = tuple(6, (2, 80), (9, 7000));
    assert!(table.is_free(zone, &reply, now));
    let begin = Begin { reply, ..Begin::new(zone, first, STAMP) };
    let id = table.commit(&Change::Begin(begin), now).unwrap();
    assert!(!table.is_free(zone, &reply, now));
    let connection = table.get(id, now).unwrap();
    assert_eq!(connection.translated(Way::Original), tuple(6, (9, 7000), (2, 80)));
    assert_eq!(connection.translated(Way::Reply), tuple(6, (2, 80), (1, 4000)));
    let is_of = |packet: Packet, way| match table.lookup(zone, &packet, now) {
        Verdict::Related(hit) => (hit.id, hit.way) == (id, way),
        verdict => panic!("{verdict:?}"),
    };
    // Errors from outside quote what has come there, and go as replies do; those from inside quote
    // what has come there, and go as requests do.
    assert!(is_of(Packet { tuple: reply, kind: Kind::Error }, Way::Reply));
    assert!(is_of(Packet { tuple: first.tuple, kind: Kind::Error }, Way::Original));
    // Another that would come by the same way is for its caller to send by another.
    let other = tcp(tuple(6, (3, 4000), (2, 80)), segment(SYN, 1, 0));
    let begin = Begin { reply, ..Begin::new(zone, other, STAMP) };
    assert_eq!(table.commit(&Change::Begin(begin), now), Err(Denied::Taken));
    assert_eq!(table.len(), 1);
}

#[test]
fn what_stands_for_another_address_is_kept_for_minutes() {
    let (mut table, zone) = one_zone(8);
    let packets = [
        udp((1, 4000), (2, 53)),
        udp((1, 4000), (2, 80)),
        tcp(tuple(6, (1, 4000), (2, 80)), segment(SYN, 1, 0)),
    ];
    for packet in packets {
        let (from, to) = (packet.tuple.source(), packet.tuple.destination());
        let reply = conntrack::Tuple::new(packet.tuple.protocol(), to, (from.0, 7000)).unwrap();
        let begin = Begin { reply, ..Begin::new(zone, packet, STAMP) };
        let id = table.commit(&Change::Begin(begin), Instant::ZERO).unwrap();
        let later = Instant::ZERO + Span::from_secs(120);
        assert!(table.get(id, later).is_some(), "{packet:?}");
    }
}

#[test]
fn what_its_caller_notes_stays() {
    let (mut table, zone) = one_zone(4);
    let packet = udp((1, 1), (2, 2));
    let begin = Begin { mark: 77, flags: Flags::PERSISTS, ..Begin::new(zone, packet, STAMP) };
    let id = table.commit(&Change::Begin(begin), Instant::ZERO).unwrap();
    let Verdict::Request(hit) = table.lookup(zone, &packet, Instant::ZERO) else { panic!() };
    assert_eq!((hit.id, hit.stamp, hit.mark, hit.flags), (id, STAMP, 77, Flags::PERSISTS));
    let later = Stamp { generation: 2, rule: 3 };
    assert!(table.restamp(id, later, Flags::BLOCKED));
    let back = Packet { tuple: packet.tuple.reversed(), ..packet };
    let Verdict::Reply(hit) = table.lookup(zone, &back, Instant::ZERO) else { panic!() };
    assert!(hit.flags.is_blocked() && !hit.flags.persists() && !hit.flags.is_answered());
    assert_eq!((hit.stamp, hit.mark), (later, 77));
}

#[test]
fn an_id_is_of_one_connection() {
    let (mut table, zone) = one_zone(1);
    let packet = udp((1, 1), (2, 2));
    let old = pass(&mut table, zone, &packet, Instant::ZERO).unwrap();
    let Verdict::Request(hit) = table.lookup(zone, &packet, Instant::ZERO) else { panic!() };
    let change = hit.change(&packet);
    assert!(table.remove(old));
    pass(&mut table, zone, &packet, Instant::ZERO).unwrap();
    // A frame that was held meanwhile does not advance another connection in the same place.
    assert_eq!(table.commit(&change, Instant::ZERO), Err(Denied::Gone));
    assert!(!table.restamp(old, STAMP, Flags::NONE) && !table.remove(old));
}

#[test]
fn a_connection_whose_two_tuples_are_one_does_not_begin() {
    let (mut table, zone) = one_zone(1);
    let land = udp((1, 1), (1, 1));
    assert_eq!(
        table.lookup(zone, &land, Instant::ZERO),
        Verdict::Invalid { why: Why::Circular, hit: None }
    );
    let begin = Begin::new(zone, land, STAMP);
    let denied = Err(Denied::Invalid(Why::Circular));
    assert_eq!(table.commit(&Change::Begin(begin), Instant::ZERO), denied);
    let packet = udp((1, 1), (2, 2));
    let other = Tuple::new(6, (host(2), 2), (host(1), 1)).unwrap();
    let begin = Begin { reply: other, ..Begin::new(zone, packet, STAMP) };
    assert_eq!(table.commit(&Change::Begin(begin), Instant::ZERO), denied);
    assert!(table.is_empty());
}

#[test]
fn nothing_is_remembered_of_what_is_for_many() {
    let (table, zone) = one_zone(1);
    let packet = Packet { kind: Kind::Other, ..udp((1, 1), (2, 2)) };
    assert_eq!(table.lookup(zone, &packet, Instant::ZERO), Verdict::Untracked);
    let packet = Packet { kind: Kind::Stray, ..packet };
    assert_eq!(
        table.lookup(zone, &packet, Instant::ZERO),
        Verdict::Invalid { why: Why::Unrelated, hit: None }
    );
}
