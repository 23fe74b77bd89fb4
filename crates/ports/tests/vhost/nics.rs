//! Cards of our own front-ends, whose buffers go round, against cards of our own back-ends.

use std::time::Duration;

use ports::Taken;
use ports::vhost::backend::Backend;
use ports::vhost::device::Device;
use ports::vhost::nic::{Nic, NicConfig};
use ports::vhost::session::Offer;

use crate::cards::serve_while;
use crate::fronts::socketpair;

const CONFIG: NicConfig =
    NicConfig { ring: 64, longest: 1514, huge: false, timeout: Duration::from_secs(60) };

fn plugged() -> (Backend<Device>, Nic) {
    let (ours, theirs) = socketpair();
    let mut backend = Backend::new(Offer::net(1), Device::new(1, CONFIG.ring.into()));
    backend.connect(ours);
    let mut nic = Nic::new(&CONFIG).unwrap();
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
    let ((mut a, mut sender), (mut b, mut receiver)) = (plugged(), plugged());
    let mut next = 0_u64;
    let mut came = 0_u64;
    for len in [64, 1514] {
        sender.prepare(len, |number, frame| {
            frame.write(0, &vec![7; len]);
            frame.write(20, &number.to_le_bytes());
        });
        for round in 0..50 {
            let most = 1 + round % 70;
            let sent = sender.send(most, |frame| {
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
    let ((mut a, mut sender), (mut b, _receiver)) = (plugged(), plugged());
    sender.prepare(64, |_, frame| frame.write(0, &[7; 64]));
    assert_eq!(sender.send(100, |_| ()), 64);
    sender.publish();
    assert_eq!((sender.send(100, |_| ()), sender.on_their_way()), (0, 64));
    assert_eq!(carry(&mut a, &mut b), 64);
    assert_eq!(sender.send(100, |_| ()), 64);
}

#[test]
#[should_panic(expected = "still on their way")]
fn frames_on_their_way_are_not_overwritten() {
    let (_a, mut sender) = plugged();
    sender.prepare(64, |_, frame| frame.write(0, &[7; 64]));
    sender.send(1, |_| ());
    sender.prepare(64, |_, _| ());
}
