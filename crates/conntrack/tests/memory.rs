//! How much memory a million connections take: all that is allocated is counted.

#![allow(unsafe_code, reason = "an allocator is made of it; each block says why it holds")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};

use conntrack::{
    Begin, Change, Denied, Full, Kind, Packet, Settings, Stamp, Table, Timeouts, Tuple,
};
use units::{Instant, Span};

/// The system's allocator, with a count of what it has given.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every block is the system's, under the layout that the caller knows it by.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const MILLION: u32 = 1_000_000;
const ZONES: u32 = 1000;

fn address(group: u16, number: u32) -> IpAddr {
    let [high, low] = [(number >> 16) as u16, number as u16];
    Ipv6Addr::new(0x2001, 0xdb8, group, 0, 0, 0, high, low).into()
}

/// The one test here: another one's memory would be counted, too.
#[test]
fn a_million_translated_ipv6_connections_take_160_bytes_each_and_no_more_comes_later() {
    let before = HELD.load(Ordering::Relaxed);
    let settings = Settings {
        connections: MILLION,
        zones: ZONES,
        tenants: 10,
        timeouts: Timeouts::default(),
        key: [11, 12],
    };
    let mut table = Table::new(&settings, Instant::ZERO);
    let tenant = table.add_tenant(u32::MAX).unwrap();
    let zones: Vec<_> = (0..ZONES).map(|_| table.add_zone(tenant, u32::MAX).unwrap()).collect();
    let calls = CALLS.load(Ordering::Relaxed);
    let begin = |number: u32| {
        let zone = zones[(number % ZONES) as usize];
        let to = (address(2, number % 50), 80);
        let tuple = Tuple::new(17, (address(1, number), 4000), to).unwrap();
        let reply = Tuple::new(17, to, (address(3, number), 5000)).unwrap();
        let packet = Packet { tuple, kind: Kind::Datagram };
        Change::Begin(Begin { reply, ..Begin::new(zone, packet, Stamp::default()) })
    };
    let mut ids = Vec::with_capacity(MILLION as usize);
    let calls = calls + 1;
    for number in 0..MILLION {
        let now = Instant::ZERO + Span::from_micros(u64::from(number));
        ids.push(table.commit(&begin(number), now).unwrap());
    }
    assert_eq!(table.len(), MILLION as usize);
    let own = MILLION as usize * size_of::<conntrack::Id>();
    let zones_list = ZONES as usize * size_of::<conntrack::Zone>();
    let held = HELD.load(Ordering::Relaxed) - before - own - zones_list;
    let each = held as f64 / f64::from(MILLION);
    assert!(each <= 160.0, "{each} bytes a connection");

    // All that ever was reserved was reserved first, whatever comes and goes.
    for number in MILLION..MILLION + 1000 {
        table.commit(&begin(number), Instant::ZERO).unwrap();
    }
    assert_eq!(table.len(), MILLION as usize, "each took the place of its zone's oldest");
    let expiry = table.expire(Instant::ZERO + Span::from_secs(240), u32::MAX);
    assert_eq!((expiry.forgotten, table.len()), (MILLION, 0));
    for number in 0..MILLION / 10 {
        table.commit(&begin(number), Instant::ZERO + Span::from_secs(240)).unwrap();
    }
    let zone = zones[0];
    assert!(table.remove_zone(zone));
    assert_eq!(table.commit(&begin(0), Instant::ZERO), Err(Denied::Gone));
    assert_ne!(table.room(zones[1]), Err(Full::Table));
    assert_eq!(CALLS.load(Ordering::Relaxed), calls);
    eprintln!("{each:.1} bytes a connection");
}
