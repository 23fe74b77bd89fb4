//! Cards of our own front-ends, whose buffers go round, against cards of our own back-ends.

use std::thread;
use std::time::Duration;

use port::Taken;
use units::Mac;
use vhost::backend::Backend;
use vhost::device::Device;
use vhost::features::Features;
use vhost::front::FrontError;
use vhost::nic::{Nic, NicConfig};
use vhost::session::Offer;
use wire::{Offload, PartialChecksum, Segment, SegmentKind, ethernet, ip, ipv4, tcp};
use zerocopy::IntoBytes;

use super::cards::serve_while;
use super::fronts::socketpair;

const CONFIG: NicConfig = NicConfig {
    ring: 64,
    longest: 1514,
    offload: false,
    huge: false,
    timeout: Duration::from_secs(60),
};

/// Of the longest frames that there are.
const LARGE: NicConfig = NicConfig { ring: 4, longest: 14 + 65_535, offload: true, ..CONFIG };

fn plugged(config: &NicConfig) -> (Backend<Device>, Nic) {
    let (ours, theirs) = socketpair();
    let mut backend = Backend::new(Offer::net(1), Device::new(1, config.ring.into()));
    backend.connect(ours);
    let mut nic = Nic::new(config).unwrap();
    serve_while(&mut backend, || nic.connect(theirs).unwrap());
    (backend, nic)
}

/// Carries what there is from one card to the other. Returns how many frames.
fn carry(from: &mut Backend<Device>, to: &mut Backend<Device>) -> usize {
    let ((from, its), (to, others)) = (from.session_mut().parts(), to.session_mut().parts());
    let mut slots = Vec::new();
    from.card_mut().receive(64, |slot, _| slots.push(slot)).unwrap();
    for slot in &slots {
        assert_eq!(to.transmit(&from.card().frame(*slot), others), Ok(Taken::Yes));
        from.card_mut().release(*slot);
    }
    from.publish(its);
    to.publish(others);
    slots.len()
}

#[test]
fn frames_go_round_and_arrive_in_order_as_they_were_written() {
    let ((mut a, mut sender), (mut b, mut receiver)) = (plugged(&CONFIG), plugged(&CONFIG));
    let mut next = 0_u64;
    let mut came = 0_u64;
    for len in [64, 1514] {
        sender.prepare(len, Offload::NONE, |number, frame| {
            frame.write(0, &vec![7; len]);
            frame.write(20, &number.to_le_bytes());
        });
        for round in 0..50 {
            let most = 1 + round % 70;
            let sent = sender.send(most, |_, frame| {
                frame.write(30, &next.to_le_bytes());
                next += 1;
            });
            assert_eq!(sent, most.min(64), "all buffers are free again");
            sender.publish();
            assert_eq!(sender.on_their_way(), sent);
            assert_eq!(carry(&mut a, &mut b), sent);
            assert_eq!(sender.on_their_way(), 0);
            let first = receiver.receive(1, |_, _| came += 1);
            let rest = receiver.receive(usize::MAX, |frame, got| {
                assert_eq!((got, frame.read(30)), (len, came.to_le_bytes()));
                assert_eq!(frame.read(len - 1), [7]);
                assert!(u16::from_le_bytes(frame.read(20)) < 64);
                came += 1;
            });
            assert_eq!((first, rest), (1, sent - 1));
            receiver.publish();
        }
    }
    assert_eq!(came, next);
}

#[test]
fn what_the_switch_has_is_not_sent_again() {
    let ((mut a, mut sender), (mut b, _receiver)) = (plugged(&CONFIG), plugged(&CONFIG));
    sender.prepare(64, Offload::NONE, |_, frame| frame.write(0, &[7; 64]));
    assert_eq!(sender.send(100, |_, _| ()), 64);
    sender.publish();
    assert_eq!((sender.send(100, |_, _| ()), sender.on_their_way()), (0, 64));
    assert_eq!(carry(&mut a, &mut b), 64);
    assert_eq!(sender.send(100, |_, _| ()), 64);
}

#[test]
#[should_panic(expected = "still on their way")]
fn frames_on_their_way_are_not_overwritten() {
    let (_a, mut sender) = plugged(&CONFIG);
    sender.prepare(64, Offload::NONE, |_, frame| frame.write(0, &[7; 64]));
    sender.send(1, |_, _| ());
    sender.prepare(64, Offload::NONE, |_, _| ());
}

#[test]
fn a_large_segment_arrives_as_one() {
    let ((mut a, mut sender), (mut b, mut receiver)) = (plugged(&LARGE), plugged(&LARGE));
    let ip =
        ipv4::Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), ip::protocol::TCP, 65_515);
    let head = ethernet::Header::new(Mac::local(2), Mac::local(1), ethernet::ethertype::IPV4);
    let tcp = tcp::Header::new(1, 2, 0, tcp::Flags::ACK);
    let headers = [head.as_bytes(), ip.unwrap().as_bytes(), tcp.as_bytes()].concat();
    let offload = Offload {
        checksum: Some(PartialChecksum { start: 34, offset: tcp::Header::CHECKSUM_OFFSET }),
        segment: Some(Segment { kind: SegmentKind::Tcp4, ecn: false, header_len: 54, size: 1460 }),
        data_valid: false,
    };
    sender.prepare(LARGE.longest, offload, |number, frame| {
        frame.write(0, &headers);
        frame.write(LARGE.longest - 2, &number.to_le_bytes());
    });
    assert_eq!(sender.send(10, |number, frame| frame.write(60, &number.to_le_bytes())), 4);
    sender.publish();
    let (from, to) = (a.session_mut().parts().0, b.session_mut().parts().0);
    from.card_mut().receive(1, |_, frame| assert_eq!(frame.offload(), offload)).unwrap();
    assert!(to.takes(offload));
    assert_eq!(carry(&mut a, &mut b), 3);
    let received = receiver.receive(10, |frame, len| {
        assert_eq!(len, LARGE.longest);
        assert_eq!(
            (frame.read::<2>(60), frame.read::<54>(0)),
            (frame.read(len - 2), headers[..].try_into().unwrap())
        );
    });
    assert_eq!(received, 3);
}

#[test]
fn a_switch_that_takes_no_large_segments_is_refused() {
    let (ours, theirs) = socketpair();
    let offer = Offer::net(1);
    let offer = Offer { features: offer.features.without(Features::HOST_TSO4), ..offer };
    let mut backend = Backend::new(offer, Device::new(1, LARGE.ring.into()));
    backend.connect(ours);
    let met = thread::scope(|scope| {
        let front = scope.spawn(|| Nic::new(&LARGE).unwrap().connect(theirs));
        while !front.is_finished() {
            // In the end the front-end closes the connection.
            let _ = backend.serve(|_| {});
        }
        front.join().unwrap()
    });
    assert!(matches!(met, Err(FrontError::Features(Features::HOST_TSO4))), "{met:?}");
}
