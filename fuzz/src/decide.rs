//! Attacks the interpreter of logical networks: any frames, at any ports of a random world.

use interpreter::{Arrival, State, decide};
use units::{Instant, Span};
use worlds::World;

/// How many worlds there are: making one takes longer than deciding a frame in it.
const WORLDS: u64 = 64;

/// Reads `bytes` as a world's number and what its ports send: of each frame its port, its length,
/// and so many bytes.
pub fn attack(bytes: &[u8]) {
    let Some((seed, mut rest)) = bytes.split_first() else { return };
    let world = World::new(u64::from(*seed) % WORLDS);
    let ports: Vec<_> = world.topology.ports().map(|(index, _)| index).collect();
    let (mut state, mut now) = (State::default(), Instant::from_nanos(1_000_000_000));
    while let [port, len, more @ ..] = rest {
        let (frame, left) = more.split_at(usize::from(*len).min(more.len()));
        rest = left;
        let Some(port) = ports.get(usize::from(*port) % ports.len().max(1)).copied() else {
            return;
        };
        let arrival = Arrival { port, node: None, frame };
        let decision = decide(&world.topology, &state, now, arrival);
        let own = &world.topology[port].id;
        for copy in decision.delivered.iter().chain(&decision.answers) {
            assert_eq!(world.topology[copy.port].id.tenant, own.tenant);
        }
        state.commit(&decision.changes);
        now += Span::from_millis(7);
    }
}
