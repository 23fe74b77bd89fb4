use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use units::Dscp;

use super::open::BATCH;
use super::*;
use kernel::netns::Namespace;

const PORT: u16 = 3784;

fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

/// Everything that waits at a receiver: source, destination, TTL, payload.
fn all(receiver: &mut Receiver) -> Vec<(IpAddr, IpAddr, u8, Vec<u8>)> {
    let mut all = Vec::new();
    while receiver
        .receive(|it| all.push((it.source, it.destination, it.hops, it.payload.to_vec())))
        .unwrap()
    {}
    all
}

/// A new network namespace in which the loopback interface is up.
fn alone() -> Namespace {
    kernel::joined::alone().unwrap()
}

#[test]
fn datagrams_arrive_in_order_with_the_highest_ttl() {
    if !needs::root() {
        return;
    }
    alone()
        .run(|| {
            for ours in [IpAddr::from(Ipv4Addr::new(127, 1, 2, 3)), Ipv6Addr::LOCALHOST.into()] {
                let any: IpAddr = if ours.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
                let mut receiver = Receiver::bind(at(any, PORT)).unwrap();
                let mut sender = Sender::open(ours, Dscp::CS6).unwrap();
                for count in 0..200_u8 {
                    if sender.is_full() {
                        assert_eq!(sender.flush(), Sent { taken: BATCH, refused: 0 });
                    }
                    let (source, destination) =
                        (at(ours, 50_000 + u16::from(count)), at(ours, PORT));
                    sender.push(Datagram { source, destination, payload: &[count; LONGEST] });
                }
                assert_eq!(sender.flush().taken, 200 % BATCH);
                let expected: Vec<_> =
                    (0..200).map(|count| (ours, ours, ALL, [count; LONGEST].to_vec())).collect();
                assert_eq!(all(&mut receiver), expected);
            }
        })
        .unwrap();
}

#[test]
fn a_lower_ttl_is_reported_and_a_longer_payload_is_cut() {
    if !needs::root() {
        return;
    }
    alone()
        .run(|| {
            let ours = Ipv4Addr::LOCALHOST.into();
            let mut receiver = Receiver::bind(at(ours, PORT)).unwrap();
            let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            other.set_ttl(254).unwrap();
            other.send_to(&[7; LONGEST + 1], at(ours, PORT)).unwrap();
            other.send_to(&[], at(ours, PORT)).unwrap();
            assert_eq!(
                all(&mut receiver),
                [(ours, ours, 254, vec![7; LONGEST]), (ours, ours, 254, Vec::new())]
            );
        })
        .unwrap();
}

#[test]
fn a_datagram_without_a_route_does_not_stop_those_beside_it() {
    if !needs::root() {
        return;
    }
    alone()
        .run(|| {
            let ours = Ipv4Addr::LOCALHOST.into();
            let mut receiver = Receiver::bind(at(ours, PORT)).unwrap();
            let mut sender = Sender::open(ours, Dscp::CS6).unwrap();
            for to in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::LOCALHOST] {
                let (source, destination) = (at(ours, 50_000), at(to.into(), PORT));
                sender.push(Datagram { source, destination, payload: b"hello" });
            }
            assert_eq!(sender.flush(), Sent { taken: 2, refused: 1 });
            assert_eq!(all(&mut receiver).len(), 2);
            assert_eq!(sender.flush(), Sent::default());
        })
        .unwrap();
}

#[test]
fn a_port_can_be_opened_once() {
    if !needs::root() {
        return;
    }
    alone()
        .run(|| {
            let first = Receiver::bind(at(Ipv4Addr::LOCALHOST.into(), PORT));
            let second = Receiver::bind(at(Ipv4Addr::LOCALHOST.into(), PORT));
            assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
            drop(first);
            let elsewhere = Receiver::bind(at(Ipv4Addr::new(192, 0, 2, 1).into(), PORT));
            assert_eq!(elsewhere.unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
        })
        .unwrap();
}
