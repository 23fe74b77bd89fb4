//! Laws that hold whatever is declared and whatever is sent: in a small world, frames that mean
//! something, some of them damaged.

use proptest::prelude::*;

use super::*;

const PORTS: [&str; 3] = ["a", "b", "c"];
const MACS: [Mac; 6] = [A, B, C, LAN, WAN, Mac::BROADCAST];
const OWN: [[&str; 2]; 3] =
    [["10.1.0.1", "fd01::1"], ["10.1.0.2", "fd01::2"], ["10.2.0.3", "fd02::3"]];
const V4: [&str; 10] = [
    "10.1.0.1",
    "10.1.0.2",
    "10.2.0.3",
    "10.1.0.254",
    "10.2.0.254",
    "10.2.0.100",
    "10.2.0.101",
    "10.2.0.102",
    "224.0.0.9",
    "10.9.0.1",
];
const V6: [&str; 5] = ["fd01::1", "fd01::2", "fd02::3", "fd01::fe", "ff02::1"];

/// Policies and translations, any of them together, and a tenant that has all the same addresses.
fn worlds() -> impl Strategy<Value = String> {
    let policy = (0..3usize, 0..2usize, 0..4usize, 0..4usize, 0..4u8, any::<bool>());
    let policies = prop::collection::vec(policy, 0..6);
    (policies, any::<[bool; 3]>()).prop_map(|(policies, nats)| {
        let mut text = String::new();
        for (number, (port, way, action, what, level, isolates)) in policies.into_iter().enumerate() {
            let way = ["fromPort", "toPort"][way];
            let action = ["allow", "drop", "reject", "pass"][action];
            let what = [
                "",
                ", services: [{protocol: tcp}]",
                ", services: [{protocol: udp, ports: [2]}]",
                ", peer: {ports: [a]}",
            ][what];
            let isolates = if isolates { "defaultAction: drop, " } else { "" };
            text += &format!(
                "- {{kind: Policy, metadata: {{name: p{number}, tenant: t}}, spec: {{level: {level}, {isolates}\
                 appliesTo: {{ports: [{}]}}, rules: [{{name: r, direction: {way}, action: {action}{what}}}]}}}}\n",
                PORTS[port],
            );
        }
        for (nat, _) in [SNAT, FLOATING, DNAT].into_iter().zip(nats).filter(|(_, is)| *is) {
            text += nat;
        }
        let twin = WORLD.replace("tenant: t}", "tenant: u}").replace("{name: t}", "{name: u}");
        text.extend(twin.lines().filter(|it| !it.contains("ExternalPool")).flat_map(|it| [it, "\n"]));
        text
    })
}

/// What one of the ports sends.
#[derive(Clone, Debug)]
struct Sent {
    from: usize,
    to_mac: usize,
    to: usize,
    kind: usize,
    ports: [u16; 2],
    damage: Option<(usize, u8)>,
}

fn sent() -> impl Strategy<Value = Sent> {
    let damage = prop::option::weighted(0.3, (12..60usize, any::<u8>()));
    let parts = (0..3usize, 0..6usize, 0..10usize, 0..6usize, [1..4u16, 1..4u16], damage);
    parts.prop_map(|(from, to_mac, to, kind, ports, damage)| Sent {
        from,
        to_mac,
        to,
        kind,
        ports,
        damage,
    })
}

impl Sent {
    fn frame(&self) -> Vec<u8> {
        let macs = [MACS[self.from], MACS[self.to_mac]];
        let v4 = [OWN[self.from][0], V4[self.to]];
        let v6 = [OWN[self.from][1], V6[self.to % V6.len()]];
        let mut frame = match self.kind {
            0 => udp_of(macs, v4, self.ports),
            1 => tcp_of(macs, v4, self.ports, SYN, [1, 0]),
            2 => tcp_of(macs, v4, self.ports, SYN | ACK, [1, 2]),
            3 => echo(macs, v4, 8),
            4 => echo(macs, v6, 128),
            _ => error_about(macs, v4, 3, &udp_of(macs, [v4[1], v4[0]], self.ports)[14..]),
        };
        if let Some((at, byte)) = self.damage
            && let Some(place) = frame.get_mut(at)
        {
            *place = byte;
        }
        frame
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Deciding twice is equal; nobody of another tenant gets anything; a frame that is refused
    /// lets nobody in; what is delivered or answered has right checksums; answers go to the sender
    /// alone, none is for a group, and none is about an error.
    #[test]
    fn every_decision_keeps_the_laws(
        world in worlds(), all in prop::collection::vec(sent(), 1..12),
    ) {
        let mut net = Net::new(&world);
        for sent in all {
            let frame = sent.frame();
            let port = net.port(PORTS[sent.from]);
            let arrival = Arrival { port, node: None, frame: &frame };
            let decision = decide(&net.topology, &net.state, net.now, arrival);
            prop_assert_eq!(&decide(&net.topology, &net.state, net.now, arrival), &decision);
            for copy in &decision.delivered {
                let to = &net.topology[copy.port];
                prop_assert!(to.enabled && to.id.tenant == net.topology[port].id.tenant);
                prop_assert!(copy.port != port || sent.to_mac >= 3, "{}", told(&decision));
            }
            if decision.delivered.is_empty() {
                prop_assert!(!decision.changes.iter().any(crate::Change::grants));
            }
            prop_assert!(decision.answers.iter().all(|it| it.port == port));
            if sent.damage.is_none() {
                for copy in decision.delivered.iter().chain(&decision.answers) {
                    prop_assert_eq!(wire::whole::fault(&copy.frame), None, "{}", told(&decision));
                }
                let to = decision.answers.iter().map(|it| Fields::of(&it.frame).unwrap().destination);
                prop_assert!(to.into_iter().all(|it| it == MACS[sent.from]));
                prop_assert!(sent.kind != 5 || decision.answers.is_empty());
                let ttl = |frame| Fields::of(frame).and_then(|it| it.ip).map(|it| it.ttl);
                for copy in &decision.delivered {
                    prop_assert!(ttl(&copy.frame) <= ttl(&frame), "{}", told(&decision));
                }
            }
            net.state.commit(&decision.changes, net.now);
        }
    }
}
