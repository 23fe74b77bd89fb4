//! What attacks connections: frames of any kind, through one zone, as time goes on.
//!
//! The fuzz target feeds it what libFuzzer finds, `crates/conntrack/tests/it/fuzz.rs` what property
//! tests do.

use conntrack::{Begin, Change, Flags, Packet, Record, Settings, Stamp, Table, Timeouts, Verdict};
use units::{Instant, Span};

/// Frames to begin with, of 10.0.0.1 and 10.0.0.2: an echo request and its answer, UDP, an error
/// about it, a SYN, and what answers it.
pub const FRAMES: [&[u8]; 6] = [
    &[
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0,
        0, 1, 10, 0, 0, 2, 8, 0, 0, 0, 0, 7, 0, 1,
    ],
    &[
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0,
        0, 2, 10, 0, 0, 1, 0, 0, 0, 0, 0, 7, 0, 1,
    ],
    &[
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0,
        0, 1, 10, 0, 0, 2, 3, 232, 0, 53, 0, 8, 0, 0,
    ],
    &[
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0,
        0, 2, 10, 0, 0, 1, 3, 3, 0, 0, 0, 0, 0, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0,
        0, 1, 10, 0, 0, 2, 3, 232, 0, 53, 0, 8, 0, 0,
    ],
    &[
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0,
        0, 1, 10, 0, 0, 2, 3, 232, 0, 80, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 2, 4, 0, 0, 0, 0, 0,
    ],
    &[
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0,
        0, 2, 10, 0, 0, 1, 0, 80, 3, 232, 0, 0, 0, 7, 0, 0, 0, 10, 0x50, 18, 4, 0, 0, 0, 0, 0,
    ],
];

/// Reads `bytes` as frames, each behind its length, and lets them pass: some at once, some after
/// those that come later. Then reads them as a record of a connection.
pub fn attack(bytes: &[u8]) {
    let settings = Settings {
        connections: 4,
        zones: 1,
        tenants: 1,
        timeouts: Timeouts::default(),
        key: [1, 2],
    };
    let mut now = Instant::ZERO;
    let mut table = Table::new(&settings, now);
    let tenant = table.add_tenant(3).expect("there is room for one");
    let zone = table.add_zone(tenant, 3).expect("there is room for one");
    let mut held: Vec<Change> = Vec::new();
    let mut rest = bytes;
    while let Some((&len, behind)) = rest.split_first() {
        let (frame, behind) = behind.split_at(behind.len().min(len.into()));
        rest = behind;
        let Some(packet) = Packet::of(frame) else {
            now += Span::from_secs(len.into());
            table.expire(now, len.into());
            continue;
        };
        assert_eq!(packet.tuple.reversed().reversed(), packet.tuple);
        let verdict = table.lookup(zone, &packet, now);
        assert_eq!(table.lookup(zone, &packet, now), verdict);
        match verdict {
            Verdict::New => held.push(Change::Begin(Begin::new(zone, packet, Stamp::default()))),
            Verdict::Request(hit) | Verdict::Reply(hit) | Verdict::Related(hit) => {
                let connection = table.get(hit.id, now).expect("who was found is there");
                let tuple = connection.translated(hit.way.opposite()).reversed();
                assert_eq!(tuple, packet.tuple);
                held.push(hit.change(&packet));
            }
            Verdict::Invalid { .. } | Verdict::Untracked => {}
        }
        if len & 1 == 1 {
            for change in held.drain(..) {
                let _ = table.commit(&change, now);
                assert!(table.len() <= 3 && table.zone_len(zone) as usize == table.len());
            }
        }
    }
    if let Some(bytes) = bytes.first_chunk()
        && let Some(record) = Record::parse(bytes)
    {
        assert_eq!(record.to_bytes(), *bytes);
        let _ = table.import(zone, &record, Stamp::default(), Flags::NONE, now);
    }
    assert!(table.remove_zone(zone) && table.is_empty());
}
