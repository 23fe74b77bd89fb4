use conntrack::{Begin, Change, Packet, Settings, Stamp, Table, Timeouts};
use logical::objects::Kind;
use proptest::prelude::*;
use units::Instant;

use super::*;

fn named(kind: Kind, name: &str) -> Identity {
    Identity { kind, tenant: Some("shop".parse().unwrap()), name: name.parse().unwrap() }
}

fn tuple(port: u16) -> Tuple {
    let end = |it: u8, port| (IpAddr::from([10, 0, 0, it]), port);
    Tuple { protocol: 17, source: end(1, port), destination: end(2, 53) }
}

/// A record of a connection that a table has.
fn record(port: u16) -> Record {
    let settings = Settings {
        connections: 4,
        zones: 1,
        tenants: 1,
        timeouts: Timeouts::default(),
        key: [0; 2],
    };
    let mut table = Table::new(&settings, Instant::ZERO);
    let tenant = table.add_tenant(4).unwrap();
    let zone = table.add_zone(tenant, 4).unwrap();
    let ends = tuple(port);
    let ends = conntrack::Tuple::new(ends.protocol, ends.source, ends.destination).unwrap();
    let begin = Begin::new(zone, Packet::part_of(ends), Stamp::default());
    let id = table.commit(&Change::Begin(begin), Instant::ZERO).unwrap();
    table.export(id, Instant::ZERO).unwrap()
}

/// All that can go with a port, and with one behind its tags.
fn all() -> Vec<Place> {
    let (web, child) = (named(Kind::LogicalPort, "web"), named(Kind::LogicalPort, "child"));
    let rule = RuleName { policy: named(Kind::Policy, "p"), rule: "in".parse().unwrap() };
    let piece = |from, end, is_last| Piece { from, end, is_last };
    let address = |it: u8| IpAddr::from([10, 0, 0, it]);
    let whole = Handover {
        connections: [
            Handed {
                record: record(1),
                opened: Direction::ToPort,
                origin: Some(child.clone()),
                rule: Some(rule),
            },
            Handed { record: record(2), opened: Direction::FromPort, origin: None, rule: None },
        ]
        .to_vec(),
        flows: [record(3)].to_vec(),
        paths: [(tuple(4), (child.clone(), "fd00::1".parse().unwrap()), MOST_LEFT)].to_vec(),
        fragments: [(
            Direction::FromPort,
            (7, address(1), address(2), 17),
            (
                Pieces::first(tuple(5), piece(0, 24, false)).with(piece(24, 30, true), None),
                Span::from_secs(5),
            ),
        )]
        .to_vec(),
        listener: Listener::of_parts(true, [IpAddr::from([239, 0, 0, 1])].to_vec()),
        neighbours: HandedNeighbours::default(),
    };
    [(web, whole), (child, Handover::default())].to_vec()
}

/// Places with any number of everything, of few names.
fn any_places() -> impl Strategy<Value = Vec<Place>> {
    let name = || prop::sample::select(&["a", "b", "c"][..]);
    let port = move || name().prop_map(|it| named(Kind::LogicalPort, it));
    let way = || prop::sample::select(&[Direction::FromPort, Direction::ToPort][..]);
    let left = || (0..=MOST_LEFT.as_nanos()).prop_map(Span::from_nanos);
    let rule = (name(), name()).prop_map(|(policy, rule)| RuleName {
        policy: named(Kind::Policy, policy),
        rule: rule.parse().unwrap(),
    });
    let record = || prop::sample::select((1..9).map(record).collect::<Vec<_>>());
    let connection = (record(), way(), prop::option::of(port()), prop::option::of(rule))
        .prop_map(|(record, opened, origin, rule)| Handed { record, opened, origin, rule });
    let end = || (any::<IpAddr>(), any::<u16>());
    let tuple = move || {
        (any::<u8>(), end(), end()).prop_map(|(protocol, source, destination)| Tuple {
            protocol,
            source,
            destination,
        })
    };
    let path = (tuple(), (port(), any::<IpAddr>()), left());
    // Pieces in any order, some of which are missing.
    let pieces = prop::sample::subsequence((0..20).collect::<Vec<usize>>(), 1..20).prop_shuffle();
    let pieces = (tuple(), any::<bool>(), pieces).prop_map(|(ends, are_sound, starts)| {
        let piece = |at: usize| Piece { from: 8 * at, end: 8 * at + 8, is_last: at == 19 };
        Pieces::of_parts(ends, are_sound, starts.into_iter().map(piece).collect()).unwrap()
    });
    let of = (any::<u32>(), any::<IpAddr>(), any::<IpAddr>(), any::<u8>());
    let fragment = (way(), of, (pieces, left()));
    let listener = (any::<bool>(), prop::collection::vec(any::<IpAddr>(), 0..4))
        .prop_map(|(takes_all, groups)| Listener::of_parts(takes_all, groups).unwrap());
    let handover = (
        prop::collection::vec(connection, 0..4),
        prop::collection::vec(record(), 0..4),
        prop::collection::vec(path, 0..4),
        prop::collection::vec(fragment, 0..4),
        prop::option::of(listener),
    )
        .prop_map(|(connections, flows, paths, fragments, listener)| Handover {
            connections,
            flows,
            paths,
            fragments,
            listener,
            neighbours: HandedNeighbours::default(),
        });
    prop::collection::vec((port(), handover), 0..4)
}

#[test]
fn what_is_packed_is_read_again() {
    assert_eq!(unpack(&pack(&all())), Ok(all()));
    assert_eq!(unpack(&pack(&[])), Ok(Vec::new()));
}

#[test]
fn bytes_of_another_version_are_refused_by_its_name() {
    let bytes = pack(&all());
    let other = unpack(&[&[VERSION + 1], &bytes[1..]].concat());
    assert_eq!(other, Err(Unreadable::Version(VERSION + 1)));
    assert_eq!(unpack(&[]), Err(Unreadable::Broken));
}

#[test]
fn a_time_that_no_host_remembers_is_refused() {
    let mut longer = all();
    longer[0].1.paths[0].2 = MOST_LEFT + Span::from_nanos(1);
    assert_eq!(unpack(&pack(&longer)), Err(Unreadable::Broken));
}

#[test]
fn a_count_beyond_the_bytes_is_refused_without_memory_for_it() {
    // A place that claims to have 2^32 - 1 connections, and as many places.
    let name = named(Kind::LogicalPort, "b").to_string();
    let len = (name.len() as u16).to_be_bytes();
    let bytes = [&[VERSION, 0, 0, 0, 1][..], &len, name.as_bytes(), &[u8::MAX; 4]].concat();
    assert_eq!(unpack(&bytes), Err(Unreadable::Broken));
    assert_eq!(unpack(&[VERSION, 255, 255, 255, 255]), Err(Unreadable::Broken));
}

proptest! {
    #[test]
    fn any_places_are_read_as_they_were_packed(places in any_places()) {
        prop_assert_eq!(unpack(&pack(&places)), Ok(places));
    }

    #[test]
    fn what_ends_early_or_late_is_refused_whole(
        places in any_places(),
        end in any::<prop::sample::Index>(),
        more in 1..9usize,
    ) {
        let bytes = pack(&places);
        prop_assert_eq!(unpack(&bytes[..end.index(bytes.len())]), Err(Unreadable::Broken));
        let longer = [&bytes[..], &[0; 8][..more]].concat();
        prop_assert_eq!(unpack(&longer), Err(Unreadable::Broken));
    }

    /// Nothing that differs is read as the same.
    #[test]
    fn changed_bytes_are_refused_or_mean_something_else(
        at in any::<prop::sample::Index>(),
        bits in 1..=u8::MAX,
    ) {
        let mut bytes = pack(&all());
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        if let Ok(read) = unpack(&bytes) {
            prop_assert_ne!(&read, &all());
            prop_assert_eq!(unpack(&pack(&read)), Ok(read));
        }
    }
}
