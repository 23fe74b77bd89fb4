//! The same laws in random worlds, which have all that can be declared.

use ::worlds::World;
use units::Rng;

use super::*;

/// Sends frames in a world, and what may answer them, and holds each decision against the laws.
fn attack(seed: u64) {
    let world = World::new(seed);
    let rng = &mut Rng::new(seed);
    let (mut state, mut now) = (State::default(), Instant::from_nanos(1_000_000_000));
    for _ in 0..40 {
        let sent = world.frame(rng);
        let mut next = Some((sent.port, sent.frame));
        // A question, its answer, and what is said to that.
        for _ in 0..3 {
            let Some((port, frame)) = next.take() else { break };
            let arrival = Arrival { port, node: None, frame: &frame };
            let decision = decide(&world.topology, &state, now, arrival);
            assert_eq!(decide(&world.topology, &state, now, arrival), decision, "seed {seed}");
            hold(&world, arrival, &decision, seed);
            state.commit(&decision.changes, now);
            now += Span::from_millis(rng.below(2_000));
            let got = decision.delivered.first();
            next = got.and_then(|it| Some((it.port, world.reply(&it.frame, rng)?)));
        }
    }
}

/// What is delivered is right, and goes to who is up and of that tenant; answers go to the sender
/// alone, and are about nothing that was for many or is an error itself.
fn hold(world: &World, arrival: Arrival<'_>, decision: &Decision, seed: u64) {
    let why = || format!("seed {seed}\n{}\n{}", world.text, told(decision));
    let own = &world.topology[arrival.port];
    let sent = Fields::of(arrival.frame);
    let ttl = |fields: Option<Fields>| fields.and_then(|it| it.ip).map(|it| it.ttl);
    for copy in &decision.delivered {
        let to = &world.topology[copy.port];
        assert!(to.enabled && to.id.tenant == own.id.tenant, "{}", why());
        // What was wrong when it came stays so.
        let was_right = wire::whole::fault(arrival.frame).is_none();
        assert!(!was_right || wire::whole::fault(&copy.frame).is_none(), "{}", why());
        if let (Some(before), Some(after)) = (ttl(sent), ttl(Fields::of(&copy.frame))) {
            let relayed = decision.trace.iter().any(|it| it.stage == "DHCP relay");
            assert!(relayed || after <= before, "{}", why());
        }
    }
    let is_held = decision.refused.iter().any(|it| it.reason == crate::Reason::Held);
    if decision.delivered.is_empty() && !is_held {
        assert!(!decision.changes.iter().any(crate::Change::grants), "{}", why());
    }
    let is_error = sent.and_then(|it| it.ip).is_some_and(|it| it.is_error());
    for copy in &decision.answers {
        let to = &world.topology[copy.port];
        assert!(to.id.tenant == own.id.tenant && to.switch == own.switch, "{}", why());
        assert_eq!(wire::whole::fault(&copy.frame), None, "{}", why());
        assert!(!is_error, "{}", why());
    }
}

#[test]
fn every_decision_in_any_world_keeps_the_laws() {
    (0..300).for_each(attack);
}
