//! Connections that go to another host with their machine.

use conntrack::{Denied, Flags, Phase, Record, Segment, Stamp, Verdict};
use proptest::prelude::*;
use units::Instant;

use crate::common::{
    ACK, RST, STAMP, SYN, SYN_ACK, one_zone, pass, seconds, segment, tcp, tuple, udp,
};

#[test]
fn a_connection_goes_on_where_its_machine_went() {
    let to = tuple(6, (1, 4000), (2, 80));
    let (mut old, zone) = one_zone(4);
    let scaled = |scale, it| Segment { scale: Some(scale), ..it };
    for (tuple, it) in [
        (to, scaled(3, segment(SYN, 99, 0))),
        (to.reversed(), scaled(4, segment(SYN_ACK, 499, 100))),
        (to, segment(ACK, 100, 500)),
    ] {
        pass(&mut old, zone, &tcp(tuple, it), seconds(5)).unwrap();
    }
    let id = old.connections(zone, None, seconds(6)).next().unwrap().id;
    let record = old.export(id, seconds(6)).unwrap();
    assert_eq!(Record::parse(&record.to_bytes()), Some(record));
    assert_eq!((record.original(), record.phase()), (to, Phase::Established));

    // The other host's clock began at another time.
    let (mut new, there) = one_zone(4);
    let stamp = Stamp { generation: 9, rule: 1 };
    let id = new.import(there, &record, stamp, Flags::NONE, Instant::ZERO).unwrap();
    let connection = new.get(id, Instant::ZERO).unwrap();
    assert_eq!((connection.stamp, connection.phase), (stamp, Phase::Established));
    assert!(connection.flags.is_answered() && !connection.flags.is_loose());
    // It is as strict as it was.
    let data = |len| tcp(to, Segment { len, ..segment(ACK, 100, 500) });
    assert!(matches!(new.lookup(there, &data(16_002), Instant::ZERO), Verdict::Invalid { .. }));
    assert!(matches!(new.lookup(there, &data(1000), Instant::ZERO), Verdict::Request(_)));

    // Told again, it is replaced; told loosely, its windows are whatever they are.
    let again = new.import(there, &record.loosened(), stamp, Flags::BLOCKED, seconds(1)).unwrap();
    assert!(again != id && new.len() == 1);
    let flags = new.get(again, seconds(1)).unwrap().flags;
    assert!(flags.is_loose() && flags.is_blocked());
    let far = tcp(to, Segment { len: 10, ..segment(ACK, 70_000, 90_000) });
    assert!(matches!(new.lookup(there, &far, seconds(1)), Verdict::Request(_)));
    // A reset counts once both sides' numbers are known.
    let reset = |sequence| tcp(to, segment(RST, sequence, 0));
    pass(&mut new, there, &reset(3), seconds(1)).unwrap();
    pass(&mut new, there, &far, seconds(1)).unwrap();
    pass(&mut new, there, &tcp(to.reversed(), segment(ACK, 90_000, 70_010)), seconds(1)).unwrap();
    pass(&mut new, there, &reset(3), seconds(1)).unwrap();
    assert_eq!(new.get(again, seconds(1)).unwrap().phase, Phase::Established);
    pass(&mut new, there, &reset(70_010), seconds(1)).unwrap();
    assert_eq!(new.get(again, seconds(1)).unwrap().phase, Phase::Closed);
}

#[test]
fn what_is_taken_over_takes_no_others_tuple() {
    let (mut old, zone) = one_zone(4);
    let packet = udp((1, 1), (2, 2));
    let id = pass(&mut old, zone, &packet, Instant::ZERO).unwrap();
    let record = old.export(id, Instant::ZERO).unwrap();
    let (mut new, there) = one_zone(4);
    let other = conntrack::Packet { tuple: packet.tuple.reversed(), ..packet };
    let other = pass(&mut new, there, &other, Instant::ZERO).unwrap();
    let denied = new.import(there, &record, STAMP, Flags::NONE, Instant::ZERO);
    assert_eq!(denied, Err(Denied::Taken));
    assert!(new.get(other, Instant::ZERO).is_some());
    assert!(new.remove_zone(there));
    let denied = new.import(there, &record, STAMP, Flags::NONE, Instant::ZERO);
    assert_eq!(denied, Err(Denied::Gone));
}

#[test]
fn what_is_taken_over_lasts_no_longer_than_it_would_have() {
    let (mut old, zone) = one_zone(4);
    let id = pass(&mut old, zone, &udp((1, 1), (2, 2)), Instant::ZERO).unwrap();
    let record = old.export(id, seconds(20)).unwrap();
    let (mut new, there) = one_zone(4);
    let id = new.import(there, &record, STAMP, Flags::NONE, seconds(1000)).unwrap();
    let left = new.get(id, seconds(1000)).unwrap().left.as_nanos() / 1_000_000_000;
    assert!((10..=11).contains(&left), "{left}");
    // Nor do lies of another host make it last.
    let mut bytes = record.to_bytes();
    bytes[8..16].fill(0xff);
    let record = Record::parse(&bytes).unwrap();
    let id = new.import(there, &record, STAMP, Flags::NONE, seconds(1000)).unwrap();
    let left = new.get(id, seconds(1000)).unwrap().left.as_nanos() / 1_000_000_000;
    assert_eq!(left, 30);
}

proptest! {
    #[test]
    fn parse_undoes_emit(flips in prop::collection::vec((0..Record::LEN, any::<u8>()), 0..4)) {
        let (mut table, zone) = one_zone(4);
        let it = tcp(tuple(6, (1, 4000), (2, 80)), segment(SYN, 99, 0));
        let id = pass(&mut table, zone, &it, Instant::ZERO).unwrap();
        let mut bytes = table.export(id, Instant::ZERO).unwrap().to_bytes();
        for (at, by) in flips {
            bytes[at] ^= by;
        }
        if let Some(record) = Record::parse(&bytes) {
            prop_assert_eq!(record.to_bytes(), bytes);
            // Whatever it says, it can be taken over, and goes on.
            if let Ok(id) = table.import(zone, &record, STAMP, Flags::NONE, Instant::ZERO) {
                prop_assert!(table.get(id, Instant::ZERO).is_none_or(|own| own.id == id));
                let way = record.original();
                for it in [segment(ACK, 1, 1), segment(RST, 5, 5), segment(SYN, 7, 7)] {
                    let _ = pass(&mut table, zone, &tcp(way, it), Instant::ZERO);
                    let _ = pass(&mut table, zone, &tcp(way.reversed(), it), Instant::ZERO);
                }
            }
        }
    }
}
