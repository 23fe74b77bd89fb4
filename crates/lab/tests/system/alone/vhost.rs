//! Peers with vhost-user ports: each comes up, carries and counts frames, and leaves nothing.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lab::vhost::{Forwarding, FrontEnds, OvsDpdk, Port, Rig, Testpmd};
use lab::{DeviceCounters, HUGEPAGE_BYTES, Home, Hugepages, LabError, State};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

use crate::place::{Place, start_maker};

/// Nobody wants this test to stop.
static GO_ON: AtomicBool = AtomicBool::new(false);

/// One at a time: the machine's huge pages are counted.
fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The machine's huge pages of 2 MiB.
fn pool() -> u64 {
    let size =
        fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").unwrap();
    size.trim().parse().unwrap()
}

/// Whether a peer can be tried on this machine. If not, the test is skipped.
fn is_here(peer: Result<(), LabError>) -> bool {
    needs::checked(peer.and_then(|()| Testpmd::check()))
}

/// Waits until something has happened.
fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}

fn two(ports: &[Port]) -> &[Port; 2] {
    ports.try_into().unwrap()
}

/// Front-ends of two ports that send to each other.
fn front_ends<'a>(rig: &'a Rig<'_>, ports: &[Port]) -> Testpmd<'a> {
    let [left, right] = two(ports);
    let ends = FrontEnds {
        name: "front-ends",
        core: 1,
        ports,
        peers: &[right.mac, left.mac],
        size: 64,
        many_flows: false,
        reads: 0,
    };
    Testpmd::front_ends(rig, &ends).unwrap()
}

/// What both front-ends have sent, and what they have received.
fn carried(ends: &Testpmd<'_>) -> (u64, u64) {
    let [left, right] = [0, 1].map(|device| ends.counters(device).unwrap());
    (left.tx_packets + right.tx_packets, left.rx_packets + right.rx_packets)
}

/// Frames go round between two front-ends and the switch; then every one of them has arrived.
fn frames_go_round(ends: &mut Testpmd<'_>) -> u64 {
    ends.circulate(4).unwrap();
    wait_until("frames go round", || carried(ends).1 > 10_000);
    ends.stop().unwrap();
    ends.forward(Forwarding::Receive).unwrap();
    wait_until("what was on its way arrives", || {
        let (sent, received) = carried(ends);
        sent == received
    });
    carried(ends).0
}

/// Both send and nobody receives: each ring fills up, and the rest has no place. Returns how many
/// were sent.
fn nobody_receives(ends: &mut Testpmd<'_>) -> u64 {
    ends.stop().unwrap();
    let before = carried(ends).0;
    ends.forward(Forwarding::Send).unwrap();
    wait_until("frames are sent", || carried(ends).0 > before + 20_000);
    ends.stop().unwrap();
    carried(ends).0 - before
}

/// Places in a front-end's ring.
const RING: u64 = 1024;

#[test]
fn ovs_dpdk_carries_frames_and_counts_them() {
    if !is_here(OvsDpdk::check()) {
        return;
    }
    let (_machine, place, before) = (machine(), Place::new(), pool());
    let pages = OvsDpdk::pages(2) + Testpmd::PAGES;
    let rig = Rig::up(&place.home, 0, pages, &GO_ON).unwrap();
    assert_eq!(pool(), before + pages);
    let ports = rig.ports(2);
    let switch = OvsDpdk::up(&rig, &ports, false).unwrap();
    let mut ends = front_ends(&rig, &ports);
    wait_until("both connect", || switch.is_connected().unwrap());
    let idle = switch.threads().unwrap();
    let sent = frames_go_round(&mut ends);

    let busy = switch.threads().unwrap().since(idle);
    assert_eq!(busy.received, sent);
    assert_eq!(busy.emc_hits + busy.megaflow_hits + busy.misses, sent);
    assert!(busy.cycles_per_frame().unwrap() > 1.0);
    for (device, port) in switch.ports().unwrap().iter().enumerate() {
        let end = ends.counters(device).unwrap();
        let seen = port.device.map(|port| (port.rx_packets, port.rx_bytes, port.tx_packets));
        assert_eq!(seen, Some((end.tx_packets, end.tx_bytes, end.rx_packets)));
        assert_eq!(port.own["ovs_tx_failure_drops"], 0);
    }

    let flood = nobody_receives(&mut ends);
    wait_until("the switch takes all", || {
        switch.threads().unwrap().since(idle).received == sent + flood
    });
    let dropped =
        || switch.ports().unwrap().iter().map(|port| port.own["ovs_tx_failure_drops"]).sum::<u64>();
    // It counts the last of them a little later.
    wait_until("what it had no room for is counted", || dropped() >= flood - 2 * RING);
    assert_eq!(dropped(), flood - 2 * RING);
    for device in switch.ports().unwrap().iter().filter_map(|port| port.device) {
        assert!(device.tx_dropped > 0);
    }
    drop(ends);
    rig.down().unwrap();
    place.assert_empty();
    assert_eq!(pool(), before);
}

#[test]
fn testpmd_carries_frames_and_counts_them() {
    if !is_here(Testpmd::check()) {
        return;
    }
    let (_machine, before) = (machine(), pool());
    let place = Place::new();
    let rig = Rig::up(&place.home, 0, 2 * Testpmd::PAGES, &GO_ON).unwrap();
    let ports = rig.ports(2);
    let switch = Testpmd::switch(&rig, two(&ports)).unwrap();
    let mut ends = front_ends(&rig, &ports);
    wait_until("both connect", || switch.is_connected().unwrap());
    frames_go_round(&mut ends);
    for (device, port) in switch.switched().unwrap().into_iter().enumerate() {
        let end = ends.counters(device).unwrap();
        let expected = DeviceCounters {
            rx_packets: end.tx_packets,
            rx_bytes: end.tx_bytes,
            tx_packets: end.rx_packets,
            tx_bytes: end.rx_bytes,
            ..Default::default()
        };
        assert_eq!(port, expected);
    }

    let flood = nobody_receives(&mut ends);
    let taken = || switch.switched().unwrap().iter().map(|port| port.rx_packets).sum::<u64>();
    wait_until("the switch takes all", || taken() == carried(&ends).0);
    let dropped = || switch.switched().unwrap().iter().map(|port| port.tx_dropped).sum::<u64>();
    // What it is about to deliver counts as dropped until it has.
    wait_until("nothing moves", || dropped() <= flood - 2 * RING);
    assert_eq!(dropped(), flood - 2 * RING);
    drop((switch, ends));
    drop(rig);
    place.assert_empty();
    assert_eq!(pool(), before);
}

#[test]
fn huge_pages_are_there_until_they_are_dropped() {
    let (_machine, before) = (machine(), pool());
    let directory = tempfile::tempdir().unwrap();
    let reserve = |name: &str, pages| {
        Hugepages::reserve(&directory.path().join(name), pages, &GO_ON).unwrap()
    };
    let (first, second) = (reserve("first", 2), reserve("second", 3));
    assert_eq!(pool(), before + 5);
    drop(first);
    assert_eq!(pool(), before + 3);
    drop(second);
    assert_eq!(pool(), before);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn huge_pages_in_use_are_waited_for() {
    let (_machine, before) = (machine(), pool());
    let directory = tempfile::tempdir().unwrap();
    let pages = Hugepages::reserve(&directory.path().join("note"), 8, &GO_ON).unwrap();
    let used =
        memfd_create("used", MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB)
            .unwrap();
    fallocate(&used, FallocateFlags::empty(), 0, 8 * HUGEPAGE_BYTES).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            drop(used);
        });
        drop(pages);
        // Nothing is left for later.
        assert_eq!(pool(), before);
    });
}

/// Not a test of its own: the process that the next one kills.
#[test]
fn be_killed() {
    let Ok(place) = std::env::var("ZOVN_TEST_PLACE") else { return };
    let (directory, prefix) = place.split_once(' ').unwrap();
    let rig = Rig::up(&Home::new(directory, prefix), 0, 2 * Testpmd::PAGES, &GO_ON).unwrap();
    let ports = rig.ports(2);
    let _switch = Testpmd::switch(&rig, two(&ports)).unwrap();
    fs::write(Path::new(directory).join("up"), "").unwrap();
    std::thread::park();
}

#[test]
fn what_a_killed_process_leaves_is_found_and_removed() {
    if !is_here(Testpmd::check()) {
        return;
    }
    let (_machine, place, before) = (machine(), Place::new(), pool());
    let mut maker = start_maker(&place, "alone::vhost::be_killed");
    let up = place.directory.path().join("up");
    wait_until("the rig comes up", || up.exists() || maker.try_wait().unwrap().is_some());
    maker.kill().unwrap();
    maker.wait().unwrap();
    fs::remove_file(up).unwrap();
    assert_eq!(pool(), before + 2 * Testpmd::PAGES);

    let [left] = &place.home.list().unwrap()[..] else { panic!("one rig is left") };
    assert_eq!((left.state, left.record.is_none()), (State::LeftOver, true));
    place.home.remove(&left.id).unwrap();
    place.assert_empty();
    assert_eq!(pool(), before);
}
