//! BFD between two network namespaces, which takes root: with ourselves, with FRR, and with
//! somebody who says what is not so.

mod frr;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use agent::bfd::{Bfd, Counts, Health, Path, PathError, Settings, StartError};
use kernel::joined::{self, INTERFACE};
use kernel::netlink::{LinkChange, Netlink};
use kernel::netns::Namespace;
use seal::Keys;
use units::Prefix;
use wire::bfd::{Diagnostic, Flags, Header, Packet, SOURCE_PORTS, State};
use zerocopy::IntoBytes;

const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const OUT: Path = Path { local: NEAR, remote: FAR };
const BACK: Path = Path { local: FAR, remote: NEAR };

/// Asks again and again, and gives way to others in between; the time is a bound for a broken world
/// only.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Two hosts with a cable between them, and addresses of both families.
fn hosts() -> [Namespace; 2] {
    let hosts = joined::two().unwrap();
    for (host, addresses) in
        hosts.iter().zip([["10.0.0.1/24", "fd00::1/64"], ["10.0.0.2/24", "fd00::2/64"]])
    {
        for address in addresses.map(|it| it.parse::<Prefix>().unwrap()) {
            joined::give_address(host, INTERFACE, address).unwrap();
        }
    }
    hosts
}

/// Takes a host's end of the cable down, or up again.
fn plug(host: &Namespace, up: bool) {
    let change = LinkChange { up: Some(up), ..Default::default() };
    Netlink::open_in(host).unwrap().change_link(INTERFACE, change).unwrap();
}

fn start(host: &Namespace, path: Path, seed: u64) -> Bfd {
    start_with(host, path, seed, None)
}

/// The same, with packets that are authenticated by these keys.
fn start_with(host: &Namespace, path: Path, seed: u64, keys: Option<&str>) -> Bfd {
    let keys = keys.map(|keys| Arc::new(Keys::parse(keys).unwrap()));
    let start = || Bfd::start(Settings { keys: keys.clone(), ..Settings::new(path.local) }, seed);
    let mut started = None;
    // A program that another test has just started may still have the socket of the one before:
    // what it is not to have is closed when it is executed.
    until("the address is free", || match host.run(start).unwrap() {
        Ok(bfd) => started.replace(bfd).is_none(),
        Err(StartError::Receive { source, .. }) if source.kind() == ErrorKind::AddrInUse => false,
        Err(error) => panic!("{error}"),
    });
    let mut bfd = started.unwrap();
    bfd.set_paths([path]).unwrap();
    bfd
}

fn health(bfd: &Bfd, path: Path) -> Health {
    bfd.health(path).unwrap()
}

fn until_up(bfd: &Bfd, path: Path) {
    until("the path is up", || health(bfd, path).is_up());
}

/// How many packets were refused, besides those that came before their path was watched.
fn strange(bfd: &Bfd) -> u64 {
    let counts = bfd.counts();
    counts.refused() - counts.unknown
}

/// Waits until a path is down, and says why.
fn until_down(bfd: &Bfd, path: Path) -> Diagnostic {
    until("the path is down", || !health(bfd, path).is_up());
    health(bfd, path).status.diagnostic
}

#[test]
fn two_ends_come_up_and_detect_a_cut() {
    let [near, far] = hosts();
    let (ours, theirs) = (start(&near, OUT, 1), start(&far, BACK, 2));
    until_up(&ours, OUT);
    until_up(&theirs, BACK);
    let up_since = health(&ours, OUT).since;

    plug(&far, false);
    assert_eq!(until_down(&ours, OUT), Diagnostic::DETECTION_TIME_EXPIRED);
    assert_eq!(until_down(&theirs, BACK), Diagnostic::DETECTION_TIME_EXPIRED);
    assert!(health(&ours, OUT).since > up_since);

    plug(&far, true);
    until_up(&ours, OUT);
    until_up(&theirs, BACK);
    for end in [&ours, &theirs] {
        let counts = end.counts();
        assert!(counts.sent > 0 && counts.taken > 0, "{counts:?}");
        assert_eq!(strange(end), 0, "{counts:?}");
    }
}

#[test]
fn ends_with_a_key_in_common_come_up_and_others_do_not() {
    const ONE: &str = "Nq2qzpGUxm5uUBVVXVd1c6yjQYFCoUqrtVtNYyREp3k=";
    const TWO: &str = "gM3v1H5RZkQPZMNqZ6vWwVrGm2v8f8Jv0xQvV2rX0nA=";
    let [near, far] = hosts();
    let ours = start_with(&near, OUT, 1, Some(ONE));
    for (keys, refused) in [
        (None, (|counts| counts.unauthenticated) as fn(Counts) -> u64),
        (Some(TWO), |counts| counts.unauthenticated),
    ] {
        let theirs = start_with(&far, BACK, 2, keys);
        until("they refuse each other", || {
            refused(ours.counts()) > 0 && theirs.counts().refused() > 0
        });
        assert!(!health(&ours, OUT).is_up() && !health(&theirs, BACK).is_up());
    }
    let both = format!("{TWO}\n{ONE}\n");
    let theirs = start_with(&far, BACK, 3, Some(&both));
    // They begin with a key that we do not have yet.
    until("they hear us", || theirs.counts().taken > 0);
    ours.set_keys(&Arc::new(Keys::parse(&both).unwrap()));
    until_up(&ours, OUT);
    until_up(&theirs, BACK);
    plug(&far, false);
    assert_eq!(until_down(&ours, OUT), Diagnostic::DETECTION_TIME_EXPIRED);
    plug(&far, true);
    until_up(&ours, OUT);
    assert_eq!(ours.counts().replayed, 0);
}

#[test]
fn ipv6_is_as_good() {
    let [near, far] = hosts();
    let path = |local: &str, remote: &str| Path {
        local: local.parse().unwrap(),
        remote: remote.parse().unwrap(),
    };
    let (out, back) = (path("fd00::1", "fd00::2"), path("fd00::2", "fd00::1"));
    let (ours, theirs) = (start(&near, out, 1), start(&far, back, 2));
    until_up(&ours, out);
    until_up(&theirs, back);
    drop(theirs);
    assert_eq!(until_down(&ours, out), Diagnostic::NEIGHBOR_SIGNALED_DOWN);
    assert_eq!(strange(&ours), 0);
}

#[test]
fn a_program_announces_its_end_and_may_return() {
    let [near, far] = hosts();
    let (ours, mut theirs) = (start(&near, OUT, 1), start(&far, BACK, 2));
    until_up(&ours, OUT);
    theirs.set_paths([]).unwrap();
    assert_eq!(theirs.health(BACK), None);
    assert_eq!(until_down(&ours, OUT), Diagnostic::NEIGHBOR_SIGNALED_DOWN);
    assert_eq!(health(&ours, OUT).status.remote_diagnostic, Diagnostic::ADMINISTRATIVELY_DOWN);

    theirs.set_paths([BACK]).unwrap();
    until_up(&ours, OUT);
    drop(theirs);
    assert_eq!(until_down(&ours, OUT), Diagnostic::NEIGHBOR_SIGNALED_DOWN);

    let theirs = start(&far, BACK, 3);
    until_up(&ours, OUT);
    until_up(&theirs, BACK);
}

#[test]
fn each_of_many_paths_between_two_hosts_finds_its_session() {
    let [near, far] = hosts();
    joined::give_address(&far, joined::LOOPBACK, "10.1.0.1/16".parse().unwrap()).unwrap();
    let mut netlink = Netlink::open_in(&near).unwrap();
    let link = netlink.index(INTERFACE).unwrap();
    let to = "10.1.0.0/16".parse().unwrap();
    netlink
        .add_route(kernel::netlink::Route { to, via: Some(FAR), link, initial_window: None })
        .unwrap();

    let others: Vec<IpAddr> = (1..=200).map(|host| Ipv4Addr::new(10, 1, 7, host).into()).collect();
    let mut ours = near.run(|| Bfd::start(Settings::new(NEAR), 1)).unwrap().unwrap();
    let anywhere = Settings::new(Ipv4Addr::UNSPECIFIED.into());
    let mut theirs = far.run(|| Bfd::start(anywhere, 2)).unwrap().unwrap();
    ours.set_paths(others.iter().map(|&remote| Path { local: NEAR, remote })).unwrap();
    theirs.set_paths(others.iter().map(|&local| Path { local, remote: NEAR })).unwrap();
    let all_up =
        |bfd: &Bfd| bfd.paths().filter(|(_, health)| health.is_up()).count() == others.len();
    until("all are up", || all_up(&ours) && all_up(&theirs));
    assert_eq!((strange(&ours), strange(&theirs)), (0, 0));

    // Those that are not named any more go, the others stay.
    let kept = ours.paths().nth(7).unwrap();
    ours.set_paths([kept.0]).unwrap();
    until("one is left", || theirs.paths().filter(|(_, health)| health.is_up()).count() == 1);
    assert_eq!(ours.paths().collect::<Vec<_>>(), [kept]);
}

#[test]
fn the_bell_rings_for_a_change() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let rings = |bfd: &Bfd, patience| {
        let timeout = Timespec { tv_sec: patience, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(bfd.bell(), PollFlags::IN)], Some(&timeout)).unwrap()
            == 1
    };
    let [near, far] = hosts();
    let ours = start(&near, OUT, 1);
    assert!(!rings(&ours, 0));
    let _theirs = start(&far, BACK, 2);
    while !health(&ours, OUT).is_up() {
        assert!(rings(&ours, 60));
        ours.silence();
    }
}

#[test]
fn invalid_packets_are_refused_and_counted() {
    let [near, far] = hosts();
    let ours = start(&near, OUT, 1);
    let other = far.run(|| UdpSocket::bind((FAR, wire::bfd::PORT))).unwrap().unwrap();
    let mut heard = [0; 100];
    let mut hear = || {
        let (len, from) = other.recv_from(&mut heard).unwrap();
        (*Packet::parse(&heard[..len]).unwrap().header, from)
    };
    let (first, from) = hear();
    let (second, again) = hear();
    assert!(SOURCE_PORTS.contains(&from.port()));
    assert_eq!((from, from.ip()), (again, NEAR), "a session keeps its port");
    assert_eq!((first.state(), second.state()), (State::Down, State::Down));

    let down = Header::new(State::Down, Diagnostic::NONE, Flags::default(), 9);
    let mut unknown = down;
    unknown.your_discriminator.set(first.my_discriminator.get() ^ 1 << 31);
    let mut authenticated = [down.as_bytes(), &[1, 3, 0]].concat();
    (authenticated[1], authenticated[3]) = (0x44, 27);
    let to = (NEAR, wire::bfd::PORT);
    other.set_ttl(254).unwrap();
    other.send_to(down.as_bytes(), to).unwrap();
    other.set_ttl(255).unwrap();
    for bytes in [b"not BFD", unknown.as_bytes(), &authenticated] {
        other.send_to(bytes, to).unwrap();
    }
    until("all are refused", || ours.counts().refused() == 4);
    let counts = ours.counts();
    assert_eq!(
        (counts.distant, counts.malformed, counts.unknown, counts.authenticated, counts.taken),
        (1, 1, 1, 1, 0)
    );
    assert_eq!(health(&ours, OUT).status.state, State::Down);

    other.send_to(down.as_bytes(), to).unwrap();
    until("it is heard", || health(&ours, OUT).status.state == State::Init);
    assert_eq!(ours.counts().taken, 1);
}

#[test]
fn paths_that_cannot_be_monitored_change_nothing() {
    let [near, _far] = hosts();
    let mut ours = start(&near, OUT, 1);
    for (local, remote) in [
        ("10.0.0.1", "fd00::2"),
        ("10.0.0.3", "10.0.0.2"),
        ("10.0.0.1", "0.0.0.0"),
        ("10.0.0.1", "224.0.0.1"),
    ] {
        let path = Path { local: local.parse().unwrap(), remote: remote.parse().unwrap() };
        assert_eq!(ours.set_paths([path]), Err(PathError::Unfit { path, address: NEAR }));
    }
    let too_many = (0..=agent::bfd::MOST as u32)
        .map(|host| Path { local: NEAR, remote: Ipv4Addr::from(0x0b00_0001 + host).into() });
    assert_eq!(ours.set_paths(too_many), Err(PathError::TooMany(agent::bfd::MOST + 1)));
    assert_eq!(ours.paths().map(|(path, _)| path).collect::<Vec<_>>(), [OUT]);

    let second = near.run(|| Bfd::start(Settings::new(NEAR), 1)).unwrap();
    assert!(matches!(second, Err(StartError::Receive { .. })));
    drop(ours);
    assert!(
        near.run(|| Bfd::start(Settings::new(NEAR), 1)).unwrap().is_ok(),
        "nothing is left over"
    );
}
