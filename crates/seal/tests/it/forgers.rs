//! An attacker who owns the network: it drops, doubles, delays, replays whatever was ever sent, and
//! forges. `World` checks that nothing is opened that was not sealed so, and nothing twice.

use proptest::prelude::*;
use proptest::sample::Index;
use seal::Mode;
use units::Span;

use crate::world::{INITIATOR, RESPONDER, World};

/// By then both ends are open once the network delivers: a handshake that waits for an answer that
/// cannot come begins again after three seconds, and messages are sent each second at least.
const SETTLED: Span = Span::from_secs(6);

#[derive(Clone, Debug)]
enum Attack {
    /// Something of all that was ever sent.
    Replay(Index),
    /// The same, with some bits turned.
    Damage(Index, Vec<(Index, u8)>),
    /// The beginning of one packet and the rest of another.
    Splice(Index, Index, Index),
    /// A handshake message with the nonces of another, so that only the code is wrong.
    Renonce(Index, Index),
    Bytes(Vec<u8>),
}

#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    /// What is on its way arrives, but what is lost: by turns of these.
    Deliver(Vec<bool>),
    Attack(usize, Attack),
    Wait(Span),
    Restart(usize),
    Keys(usize, Vec<usize>),
}

fn hosts() -> impl Strategy<Value = usize> {
    prop_oneof![Just(INITIATOR), Just(RESPONDER)]
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Integrity), Just(Mode::Encrypt)]
}

fn attacks() -> impl Strategy<Value = Attack> {
    let damage = prop::collection::vec((any::<Index>(), 1_u8..), 1..4);
    prop_oneof![
        any::<Index>().prop_map(Attack::Replay),
        (any::<Index>(), damage).prop_map(|(which, damage)| Attack::Damage(which, damage)),
        any::<[Index; 3]>().prop_map(|[a, b, at]| Attack::Splice(a, b, at)),
        any::<[Index; 2]>().prop_map(|[a, b]| Attack::Renonce(a, b)),
        prop::collection::vec(any::<u8>(), 0..120).prop_map(Attack::Bytes),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![
        8 => (0..20_u64).prop_map(Span::from_millis),
        4 => (0..3_000_u64).prop_map(Span::from_millis),
        // The clock stands still, or jumps.
        1 => (0..4_000_u64).prop_map(Span::from_secs),
    ];
    let keys = prop::sample::select(vec![vec![0], vec![1, 0], vec![0, 1], vec![1], vec![2]]);
    prop_oneof![
        4 => hosts().prop_map(Step::Send),
        6 => prop::collection::vec(prop::bool::weighted(0.8), 1..6).prop_map(Step::Deliver),
        4 => (hosts(), attacks()).prop_map(|(host, attack)| Step::Attack(host, attack)),
        3 => wait.prop_map(Step::Wait),
        1 => hosts().prop_map(Step::Restart),
        1 => (hosts(), keys).prop_map(|(host, keys)| Step::Keys(host, keys)),
    ]
}

/// The attacker's packet.
fn forged(world: &World, attack: &Attack) -> Vec<u8> {
    let any = |which: &Index| {
        if world.sent.is_empty() { Vec::new() } else { which.get(&world.sent).1.clone() }
    };
    match attack {
        Attack::Replay(which) => any(which),
        Attack::Damage(which, damage) => {
            let mut packet = any(which);
            for (at, turned) in damage {
                let len = packet.len().max(1);
                if let Some(byte) = packet.get_mut(at.index(len)) {
                    *byte ^= turned;
                }
            }
            packet
        }
        Attack::Splice(a, b, at) => {
            let (a, b) = (any(a), any(b));
            let at = at.index(a.len().min(b.len()) + 1);
            [&a[..at], &b[at..]].concat()
        }
        Attack::Renonce(a, b) => {
            let (mut a, b) = (any(a), any(b));
            if let (Some(to), Some(from)) = (a.get_mut(32..52), b.get(32..52)) {
                to.copy_from_slice(from);
            }
            a
        }
        Attack::Bytes(bytes) => bytes.clone(),
    }
}

fn deliver(world: &mut World, arrive: &[bool]) {
    world.poll();
    for ((from, packet), arrives) in world.take().into_iter().zip(arrive.iter().cycle()) {
        if *arrives {
            let _ = world.receive(1 - from, &packet);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_opened_that_was_not_sealed_and_what_delivers_heals(
        mode in modes(),
        steps in prop::collection::vec(steps(), 1..120),
    ) {
        let mut world = World::new(mode);
        for step in &steps {
            match step {
                Step::Send(host) => {
                    world.send(*host);
                }
                Step::Deliver(arrive) => deliver(&mut world, arrive),
                Step::Attack(host, attack) => {
                    let packet = forged(&world, attack);
                    let _ = world.receive(*host, &packet);
                }
                Step::Wait(span) => world.now += *span,
                Step::Restart(host) => world.restart(*host),
                Step::Keys(host, keys) => world.set_keys(*host, keys),
            }
        }
        for host in [INITIATOR, RESPONDER] {
            world.set_keys(host, &[0, 1]);
        }
        prop_assert!(world.settle(SETTLED).is_some());
        world.check_packets();
    }

    #[test]
    fn who_has_no_key_ends_and_replaces_nothing(
        mode in modes(),
        past in prop::collection::vec((hosts(), any::<bool>()), 0..4),
        steps in prop::collection::vec((hosts(), attacks(), 0..1_000_u64, any::<bool>()), 1..120),
    ) {
        let mut world = World::new(mode);
        prop_assert!(world.settle(SETTLED).is_some());
        for (host, changes_keys) in past {
            if changes_keys {
                world.set_keys(INITIATOR, &[1]);
                world.set_keys(RESPONDER, &[1]);
            }
            world.restart(host);
            prop_assert!(world.settle(SETTLED).is_some());
        }
        world.deliver();
        let (id, handshakes, noise) = (world.id(INITIATOR), world.handshakes(), world.noise());
        prop_assert_eq!(id, world.id(RESPONDER));
        for (host, attack, micros, sends) in steps {
            let packet = forged(&world, &attack);
            let _ = world.receive(host, &packet);
            world.now += Span::from_micros(micros * 300);
            if sends {
                prop_assert!(world.send(host));
            }
            world.poll();
            for (from, packet) in world.take() {
                let read = world.receive(1 - from, &packet);
                // What answers a replay may answer nothing. What was sealed is opened.
                prop_assert!(read.is_ok() || packet[10] != 0x88, "{:?}", read);
            }
        }
        prop_assert_eq!((world.id(INITIATOR), world.id(RESPONDER)), (id, id));
        prop_assert_eq!((world.handshakes(), world.noise()), (handshakes, noise));
    }
}
