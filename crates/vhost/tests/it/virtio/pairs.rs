//! Guests with several pairs of rings.

use std::collections::BTreeSet;

use port::{FrameView, Taken};
use vhost::virtio::card::{Agreed, Card};
use vhost::virtio::driver::Driver;
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::{ipv4, ipv6, udp};
use zerocopy::IntoBytes;

use super::guest::{Guest, plugged, with_header};

const PAIRS: u8 = 4;
const RING: u16 = 64;
const AGREED: Agreed = Agreed { mergeable: false, offloads: true };

/// A card of which only the receive rings run, and their drivers, with all buffers posted.
fn receivers() -> (Card, Vec<Driver>, Guest) {
    let mut guest = Guest::new(1 << 20);
    let mut card = Card::new(PAIRS, 1);
    card.set_memory(guest.memory());
    let drivers = (0..usize::from(PAIRS)).map(|pair| {
        let (mut driver, ring) = guest.split(RING, 512, true);
        card.start(2 * pair, ring, AGREED);
        post(&mut driver);
        driver
    });
    let drivers = drivers.collect();
    (card, drivers, guest)
}

fn post(driver: &mut Driver) {
    while let Some(number) = driver.take() {
        driver.give(number, None);
    }
    driver.publish();
}

/// By which ring a frame goes.
fn ring_of(card: &mut Card, drivers: &mut [Driver], frame: &FrameView<'_>) -> usize {
    assert_eq!(card.transmit(frame, &mut ()), Ok(Taken::Yes));
    card.publish(&mut (), |_| {});
    let came: Vec<_> = drivers.iter_mut().map(|driver| driver.collect(|_, _, _| {})).collect();
    assert_eq!(came.iter().sum::<usize>(), 1);
    drivers.iter_mut().for_each(post);
    came.iter().position(|came| *came == 1).unwrap()
}

fn ethernet(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let header = ethernet::Header::new(units::Mac::local(1), units::Mac::local(2), ethertype);
    [header.as_bytes(), packet].concat()
}

/// A datagram of a flow.
fn datagram(flow: u16, v6: bool, len: usize) -> Vec<u8> {
    let payload = vec![flow as u8; len];
    let datagram = [udp::Header::new(1000 + flow, 53, len).unwrap().as_bytes(), &payload].concat();
    if v6 {
        let [from, to] = [1, 2].map(|host| std::net::Ipv6Addr::from(0xfd00_0000_u128 << 96 | host));
        let header = ipv6::Header::new(from, to, protocol::UDP, datagram.len()).unwrap();
        ethernet(ethertype::IPV6, &[header.as_bytes(), &datagram].concat())
    } else {
        let [from, to] = [1, 2].map(|host| std::net::Ipv4Addr::new(10, 0, 0, host));
        let header = ipv4::Header::new(from, to, protocol::UDP, datagram.len()).unwrap();
        ethernet(ethertype::IPV4, &[header.as_bytes(), &datagram].concat())
    }
}

#[test]
fn each_flow_has_one_ring_and_all_rings_have_flows() {
    let (mut card, mut drivers, _guest) = receivers();
    let mut sender = plugged(4, 2048, AGREED);
    let mut used = [0; PAIRS as usize];
    for flow in 0..200 {
        for v6 in [false, true] {
            let ring = ring_of(&mut card, &mut drivers, &FrameView::plain(&datagram(flow, v6, 30)));
            used[ring] += 1;
            // Longer ones, and one of which only the first bytes are at hand.
            let long = datagram(flow, v6, 300);
            assert_eq!(ring_of(&mut card, &mut drivers, &FrameView::plain(&long)), ring);
            sender.send(&with_header(&long)).unwrap();
            let mut slots = Vec::new();
            sender.card.receive(1, |slot, _| slots.push(slot)).unwrap();
            let frame = sender.card.frame(slots[0]);
            assert!(frame.bytes.len() < 34, "its addresses are not at hand");
            assert_eq!(ring_of(&mut card, &mut drivers, &frame), ring);
            sender.card.release(slots[0]);
            sender.card.publish(&mut (), |_| {});
            sender.transmit.collect(|_, _, _| {});
        }
    }
    assert!(used.iter().all(|flows| (60..140).contains(flows)), "{used:?}");
}

#[test]
fn fragments_of_a_datagram_go_one_way() {
    let (mut card, mut drivers, _guest) = receivers();
    for flow in 0..20 {
        let rings = [0x2000_u16, 0x2010, 0x0020].map(|offset| {
            let mut fragment = datagram(flow, false, 100);
            // More fragments, and where this one is; without the checksum, which nobody looks at
            // here.
            fragment[20..22].copy_from_slice(&offset.to_be_bytes());
            // What later ones have where the first has its ports.
            fragment[34..38].copy_from_slice(&(u32::from(offset) * 77).to_be_bytes());
            ring_of(&mut card, &mut drivers, &FrameView::plain(&fragment))
        });
        assert_eq!(rings, [rings[0]; 3]);
    }
}

#[test]
fn flows_go_by_rings_that_are_enabled() {
    let (mut card, mut drivers, _guest) = receivers();
    let mut rings = |card: &mut Card| -> Vec<usize> {
        let frames = (0..50).map(|flow| datagram(flow, false, 30));
        frames.map(|frame| ring_of(card, &mut drivers, &FrameView::plain(&frame))).collect()
    };
    let before = rings(&mut card);
    card.enable(2, false);
    card.enable(4, false);
    assert_eq!(rings(&mut card).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([0, 3]));
    card.enable(2, true);
    card.enable(4, true);
    assert_eq!(rings(&mut card), before);
    card.stop(0, &mut ());
    assert!(!rings(&mut card).contains(&0));
}

#[test]
fn a_full_ring_is_busy_for_its_own_flows_only() {
    let (mut card, mut drivers, _guest) = receivers();
    let frames: Vec<_> = (0..50).map(|flow| datagram(flow, false, 30)).collect();
    let rings: Vec<_> = frames
        .iter()
        .map(|frame| ring_of(&mut card, &mut drivers, &FrameView::plain(frame)))
        .collect();
    let mut send = |flow: usize| card.transmit(&FrameView::plain(&frames[flow]), &mut ());
    let other = rings.iter().position(|ring| *ring != rings[0]).unwrap();
    for _ in 0..RING {
        assert_eq!(send(0), Ok(Taken::Yes));
    }
    assert_eq!([send(0), send(other), send(0)], [Ok(Taken::Busy), Ok(Taken::Yes), Ok(Taken::Busy)]);
}
