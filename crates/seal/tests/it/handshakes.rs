//! Handshakes as they go, and where they must not.

use seal::{Mode, NotSealed, OVERHEAD, Refusal, State};
use units::Span;

use crate::world::{INITIATOR, RESPONDER, World, keys};

const MODES: [Mode; 2] = [Mode::Integrity, Mode::Encrypt];

const SECOND: Span = Span::from_secs(1);

fn open(mode: Mode) -> World {
    let mut world = World::new(mode);
    assert_eq!(world.settle(SECOND), Some(Span::ZERO));
    world
}

#[test]
fn either_end_may_want_to_send_first() {
    for mode in MODES {
        for first in [INITIATOR, RESPONDER] {
            let mut world = World::new(mode);
            assert_eq!(world.hosts[first].channel.state(), State::Closed);
            assert!(!world.send(first));
            assert_eq!(world.hosts[first].channel.state(), State::Opening);
            world.deliver();
            assert!(world.send(first), "without any time");
            assert_eq!(world.id(INITIATOR), world.id(RESPONDER));
            assert_eq!(world.handshakes(), [1, 1]);
        }
    }
}

#[test]
fn an_idle_channel_sends_nothing() {
    let mut world = World::new(Mode::Encrypt);
    assert_eq!(world.deadline(), None);
    world.settle(SECOND).unwrap();
    world.deliver();
    assert_eq!(world.deadline(), None);
    world.now += Span::from_secs(3_600);
    world.poll();
    assert_eq!(world.take(), []);
}

#[test]
fn who_asks_in_vain_gives_up_and_begins_again_when_it_is_wanted() {
    for host in [INITIATOR, RESPONDER] {
        let mut world = World::new(Mode::Encrypt);
        world.hosts[host].channel.want(world.now);
        let begin = world.now;
        let mut asked = 0;
        while let Some(at) = world.deadline() {
            world.now = at;
            world.poll();
            asked += world.take().len();
            assert!(world.now.since(begin) < Span::from_secs(12));
        }
        assert!((10..20).contains(&asked), "{asked}");
        assert!(world.settle(SECOND).is_some());
    }
}

#[test]
fn a_restart_of_either_end_heals_by_what_the_other_sends() {
    for mode in MODES {
        for host in [INITIATOR, RESPONDER] {
            for sender in [INITIATOR, RESPONDER] {
                let mut world = open(mode);
                world.restart(host);
                world.send(sender);
                world.deliver();
                assert!(world.id(host).is_some(), "{host} {sender}");
                assert_eq!(world.id(INITIATOR), world.id(RESPONDER));
                assert_eq!(world.settle(SECOND), Some(Span::ZERO), "{host} {sender}");
            }
        }
    }
}

#[test]
fn every_message_may_be_lost() {
    // Each of the first packets in turn: KNOCK, CHALLENGE, NOISE1, NOISE2, the empty packet.
    for first in [INITIATOR, RESPONDER] {
        for lost in 0..7 {
            let mut world = World::new(Mode::Encrypt);
            let mut count = 0;
            for _ in 0..40 {
                world.hosts[first].channel.want(world.now);
                world.poll();
                for (from, packet) in world.take() {
                    if count != lost {
                        let _ = world.receive(1 - from, &packet);
                    }
                    count += 1;
                }
                if world.id(first).is_some() {
                    break;
                }
                world.now += Span::from_millis(1);
            }
            assert!(world.send(first), "{first} {lost}");
        }
    }
}

#[test]
fn a_responder_goes_on_with_its_old_keys_until_the_new_ones_are_used() {
    let mut world = open(Mode::Encrypt);
    let old = world.id(RESPONDER);
    // Ten minutes later the next packet begins a handshake.
    world.now += Span::from_secs(600);
    assert!(world.send(INITIATOR));
    let mut empty = Vec::new();
    for _ in 0..10 {
        world.poll();
        for (from, packet) in world.take() {
            if from == INITIATOR && packet.len() == OVERHEAD {
                empty.push(packet);
            } else {
                world.receive(1 - from, &packet).unwrap();
            }
        }
    }
    assert_ne!(world.id(INITIATOR), old);
    assert_eq!((world.id(RESPONDER), empty.len()), (old, 1), "the empty packet is kept back");
    // Its packets by the old keys are opened, and answered by another empty one.
    assert!(world.send(RESPONDER));
    world.now += Span::from_millis(10);
    world.deliver();
    assert_eq!(world.id(RESPONDER), world.id(INITIATOR));
    assert_eq!(world.receive(RESPONDER, &empty[0]), Ok(false), "late, and once");
    assert_eq!(world.receive(RESPONDER, &empty[0]), Err(Refusal::Replayed));
}

#[test]
fn packets_of_the_previous_keys_are_opened_for_a_minute() {
    for (later, is_opened) in [(59, true), (60, false)] {
        let mut world = open(Mode::Integrity);
        world.now += Span::from_secs(600);
        assert!(world.send(INITIATOR) && world.send(INITIATOR));
        let late = world.take();
        let [(_, first), (_, late)] = &late[..] else { panic!("two were sent") };
        world.receive(RESPONDER, first).unwrap();
        world.deliver();
        assert_eq!(world.handshakes(), [2, 2]);
        world.now += Span::from_secs(later);
        let read = world.receive(RESPONDER, late);
        assert_eq!(read, if is_opened { Ok(true) } else { Err(Refusal::UnknownKey) });
    }
}

#[test]
fn what_an_unknown_key_asks_for_is_asked_once_and_costs_living_keys_nothing() {
    let mut world = open(Mode::Encrypt);
    let (id, handshakes) = (world.id(INITIATOR), world.handshakes());
    for host in [INITIATOR, RESPONDER] {
        let forged: Vec<u8> = {
            assert!(world.send(1 - host));
            let (_, mut packet) = world.take().remove(0);
            packet[28] ^= 1;
            packet
        };
        for _ in 0..1_000 {
            assert_eq!(world.receive(host, &forged), Err(Refusal::UnknownKey));
            world.deliver();
            world.now += Span::from_micros(10);
        }
    }
    world.check_packets();
    // 10 ms at each end: two prompts or so, and one question.
    let control = world.sent.iter().filter(|(_, packet)| packet[1] & 0x80 != 0).count();
    assert!(control < 20, "{control}");
    assert_eq!((world.id(INITIATOR), world.handshakes()), (id, handshakes));
}

#[test]
fn a_replay_of_any_handshake_message_changes_nothing() {
    let mut world = open(Mode::Encrypt);
    // Of several incarnations.
    for host in [INITIATOR, RESPONDER, INITIATOR] {
        world.restart(host);
        world.settle(SECOND).unwrap();
    }
    world.deliver();
    let (ids, handshakes) = ([world.id(INITIATOR), world.id(RESPONDER)], world.handshakes());
    let (recorded, noise) = (world.sent.clone(), world.noise());
    for _ in 0..3 {
        for (_, packet) in &recorded {
            for host in [INITIATOR, RESPONDER] {
                let _ = world.receive(host, packet);
            }
            world.deliver();
            world.now += Span::from_millis(7);
        }
    }
    assert_eq!([world.id(INITIATOR), world.id(RESPONDER)], ids);
    assert_eq!((world.handshakes(), world.noise()), (handshakes, noise));
    assert!(world.settle(Span::ZERO).is_some());
}

#[test]
fn other_modes_keys_and_versions_are_told_by_name_at_both_ends() {
    let counted = |mut world: World, why: Refusal| {
        assert_eq!(world.settle(Span::from_secs(5)), None);
        for host in [INITIATOR, RESPONDER] {
            assert!(world.refused(host, why) > 0, "{host} {why:?}");
            assert_eq!(world.hosts[host].channel.state(), State::Opening);
        }
    };
    counted(World::with([Mode::Encrypt, Mode::Integrity], [&[0], &[0]]), Refusal::OtherMode);
    counted(World::with([Mode::Integrity, Mode::Encrypt], [&[0], &[0]]), Refusal::OtherMode);
    counted(World::with([Mode::Encrypt; 2], [&[0], &[1]]), Refusal::OtherKey);

    let mut world = World::new(Mode::Encrypt);
    world.hosts[INITIATOR].channel.want(world.now);
    world.poll();
    let (_, mut knock) = world.take().remove(0);
    knock[12 + 16] += 1;
    assert_eq!(world.receive(RESPONDER, &knock), Err(Refusal::OtherVersion));
    world.poll();
    let (_, mut challenge) = world.take().remove(0);
    challenge[12 + 16] += 1;
    assert_eq!(world.receive(INITIATOR, &challenge), Err(Refusal::OtherVersion));
}

#[test]
fn keys_are_changed_on_one_host_after_the_other_without_a_pause() {
    // The new one first on every host, then the old one away on every host.
    for order in [[INITIATOR, RESPONDER], [RESPONDER, INITIATOR]] {
        let mut world = open(Mode::Encrypt);
        for which in [&[1, 0][..], &[1]] {
            for host in order {
                world.set_keys(host, which);
                for _ in 0..100 {
                    assert!(world.send(INITIATOR) && world.send(RESPONDER));
                    world.deliver();
                    world.now += Span::from_millis(10);
                }
            }
        }
        let new = keys(&[1]).iter().next().unwrap().fingerprint();
        for host in &world.hosts {
            assert!(matches!(host.channel.state(), State::Open { psk, .. } if psk == new));
        }
    }
}

#[test]
fn keys_that_come_from_a_removed_one_end_after_a_minute() {
    for host in [INITIATOR, RESPONDER] {
        let mut world = open(Mode::Encrypt);
        world.set_keys(host, &[1]);
        assert!(world.send(host));
        assert_eq!(world.settle(Span::from_secs(59)), Some(Span::ZERO));
        world.now += Span::from_secs(60);
        assert_eq!(world.settle(Span::from_secs(5)), None);
        assert!(!world.hosts[host].channel.is_open());
        world.set_keys(1 - host, &[1]);
        assert!(world.settle(Span::from_secs(2)).is_some());
    }
}

#[test]
fn a_silent_peer_is_asked_whether_it_has_the_keys_and_lives_by_its_answer() {
    // All goes one way.
    let mut world = open(Mode::Integrity);
    world.deliver();
    let begin = world.sent.len();
    for _ in 0..100 {
        assert!(world.send(INITIATOR));
        world.deliver();
        world.now += Span::from_millis(100);
    }
    assert_eq!(world.handshakes(), [1, 1]);
    let questions = world.sent[begin..].iter().filter(|(_, packet)| packet[10] == 0x89).count();
    assert!((3..=5).contains(&questions), "{questions}");
    // Nobody tells that the responder restarted: its prompts are lost.
    world.restart(RESPONDER);
    for _ in 0..30 {
        assert!(world.send(INITIATOR));
        for _ in 0..10 {
            world.poll();
            for (from, packet) in world.take() {
                let is_prompt = packet[10] == 0x8a && packet[12 + 20..][..8] == [0; 8];
                if !is_prompt {
                    let _ = world.receive(1 - from, &packet);
                }
            }
        }
        world.now += Span::from_millis(100);
    }
    assert_eq!(world.handshakes(), [2, 1]);
}

#[test]
fn a_handshake_by_a_key_that_the_responder_lost_begins_again_by_the_other() {
    let mut world = World::with([Mode::Encrypt; 2], [&[0, 1], &[0, 1]]);
    world.hosts[INITIATOR].channel.want(world.now);
    // KNOCK and CHALLENGE.
    for _ in 0..2 {
        world.poll();
        for (from, packet) in world.take().into_iter().take(1) {
            world.receive(1 - from, &packet).unwrap();
        }
    }
    world.set_keys(RESPONDER, &[1]);
    assert!(world.settle(Span::from_secs(4)).is_some());
}

#[test]
fn every_bit_of_a_handshake_message_counts() {
    let mut world = World::new(Mode::Encrypt);
    assert!(!world.send(INITIATOR));
    world.deliver();
    for (from, packet) in world.sent.clone() {
        for bit in (8 * 12..8 * packet.len()).filter(|_| packet[10] > 0x88) {
            let mut damaged = packet.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let read = world.receive(1 - from, &damaged);
            assert!(
                matches!(read, Err(Refusal::OtherKey | Refusal::OtherVersion)),
                "{bit} {read:?}"
            );
        }
    }
}

#[test]
fn what_cannot_be_sealed_is_said() {
    let mut world = World::new(Mode::Encrypt);
    let now = world.now;
    let seal = |world: &mut World, len| world.hosts[INITIATOR].channel.seal(now, &mut vec![0; len]);
    assert_eq!(seal(&mut world, 100), Err(NotSealed::NoKeys));
    world.settle(SECOND).unwrap();
    assert_eq!(seal(&mut world, OVERHEAD - 1), Err(NotSealed::Length));
    assert_eq!(seal(&mut world, OVERHEAD + 65_536), Err(NotSealed::Length));
    assert_eq!(seal(&mut world, OVERHEAD + 65_535), Ok(()));
    let read = world.receive(INITIATOR, &[0, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3]);
    assert_eq!(read, Err(Refusal::Unsealed));
}

#[test]
fn thousands_of_peers_have_keys_within_ten_seconds_of_a_restart() {
    use std::net::{IpAddr, Ipv4Addr};

    use seal::{Channel, Config, Ends, Pace};
    use units::Instant;

    const PEERS: u32 = 4_096;
    let ours = IpAddr::V4(Ipv4Addr::new(10, 0, 8, 0));
    let begin = Instant::from_nanos(1);
    let keys = keys(&[0]);
    let channel = |own, peer| {
        let ends = Ends::new(own, peer).unwrap();
        Channel::new(begin, Config { mode: Mode::Encrypt, keys: keys.clone(), ends })
    };
    // Half of them have lower addresses than this host.
    let peers = (0..PEERS).map(|peer| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0001 + peer)));
    let mut pairs: Vec<_> = peers
        .filter(|peer| *peer != ours)
        .map(|peer| (channel(ours, peer), channel(peer, ours), Pace::default()))
        .collect();
    let mut pace = Pace::default();
    let mut now = begin;
    let mut sent = 0;
    loop {
        let mut are_open = true;
        for (own, peer, their_pace) in &mut pairs {
            own.want(now);
            let due = [own.deadline(), peer.deadline()].into_iter().flatten().any(|at| at <= now);
            are_open &= own.is_open();
            if !due {
                continue;
            }
            // As long as there is something to say.
            loop {
                let from_own = own.poll_transmit(now, &mut pace).map(|it| it.bytes().to_vec());
                let from_peer = peer.poll_transmit(now, their_pace).map(|it| it.bytes().to_vec());
                if from_own.is_none() && from_peer.is_none() {
                    break;
                }
                sent += 1;
                for (mut packet, to) in [(from_own, &mut *peer), (from_peer, &mut *own)] {
                    let _ = packet.as_deref_mut().map(|packet| to.open(now, packet).map(drop));
                }
            }
        }
        if are_open {
            break;
        }
        now += Span::from_millis(10);
        assert!(now.since(begin) < Span::from_secs(10));
    }
    assert!(now.since(begin) > Span::from_secs(4), "the pace is kept");
    assert!(sent < 30 * PEERS, "{sent}");
}
