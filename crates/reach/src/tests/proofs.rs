//! Whatever a proof says, the interpreter says of random packets; each counterexample is one.

use alloc::format;
use alloc::string::{String, ToString};

use logical::topology::{PortIndex, Topology};
use units::Rng;
use worlds::World;

use super::random::packet;
use super::{OPTIONS, ask};
use crate::frame::{Content, Packet};
use crate::hop::next_hop;
use crate::matrix::{matrix, name};
use crate::proof::Proof;
use crate::sentence::{Sentence, Who, port};

fn who(topology: &Topology, rng: &mut Rng) -> String {
    let mut one = |bound: usize| rng.below(bound as u64) as usize;
    let ports = topology.ports().map(|(_, it)| it);
    let ports =
        ports.filter(|it| !matches!(it.attachment, logical::topology::Attachment::Router(_)));
    let ports: alloc::vec::Vec<_> = ports.collect();
    let own = ports[one(ports.len())];
    match one(9) {
        0 => "tenant t".into(),
        1 => format!("switch {}", name(&topology[own.switch].id)),
        2 => ["group t/g0", "group t/g1"][one(2)].into(),
        3 => {
            let first = own.addresses.first().map(ToString::to_string);
            format!("address {}", first.unwrap_or("10.9.0.1".into()))
        }
        4 => ["address 10.2.0.0/24", "address 10.1.0.0-10.1.0.2", "address 10.9.0.0/16"][one(3)]
            .into(),
        5 => ["anyone", "outside"][one(2)].into(),
        _ => format!("port {}", name(&own.id)),
    }
}

fn sentence(topology: &Topology, rng: &mut Rng) -> String {
    let [from, to] = [0, 1].map(|_| who(topology, rng));
    let verb = ["never reaches", "reaches"][rng.below(2) as usize];
    let by = [
        "",
        " by tcp 80",
        " by tcp 81-90",
        " by udp 53",
        " by icmp",
        " by icmp6",
        " by tcp or udp 443",
        " by protocol 47",
        " by sctp",
    ];
    format!("{from} {verb} {to}{}", by[rng.below(9) as usize])
}

/// Whether a packet is one that a sentence speaks of, between two ports.
fn is_meant(sentence: &Sentence, packet: &Packet, from: PortIndex, to: PortIndex) -> bool {
    let ends = packet.ends();
    let has = |who: &Who, port, end: Option<core::net::IpAddr>| match who {
        Who::Ports(all) => all.contains(&port),
        Who::Addresses(range) => end.is_some_and(|it| range.contains(it)),
    };
    let asks = crate::area::Area(packet.asks().map(|it| (it, it)));
    let is_by = sentence.by.as_ref().is_none_or(|all| all.iter().any(|it| it.and(&asks).is_some()));
    is_by
        && has(&sentence.from, from, ends.map(|it| it.0))
        && has(&sentence.to, to, ends.map(|it| it.1))
}

/// Whether it is a packet that a machine sends by itself, from its own address and to another's.
fn is_plain(topology: &Topology, packet: &Packet, from: PortIndex, to: PortIndex) -> bool {
    let Content::Ip { from: source, to: destination, .. } = packet.content else { return false };
    let own = &topology[from];
    own.addresses.contains(&source)
        && topology[to].addresses.contains(&destination)
        && packet.from_mac == own.mac
        && next_hop(topology, &topology[own.switch], destination) == Some(packet.to_mac)
}

#[test]
fn a_proof_says_what_the_interpreter_says() {
    let mut counts = [0; 4];
    for seed in 0..300 {
        let world = World::with(seed, OPTIONS);
        let topology = &world.topology;
        let matrix = matrix(topology).unwrap();
        let mut rng = Rng::new(seed ^ 2);
        for _ in 0..12 {
            let text = sentence(topology, &mut rng);
            let Ok(sentence) = Sentence::read(topology, &text) else { continue };
            let context = || format!("{}\n{text}", world.text);
            match matrix.prove(topology, &sentence) {
                Proof::Refuted(it) => {
                    counts[0] += 1;
                    assert_eq!(it.arrives(topology), sentence.is_never, "{it:?} {}", context());
                    let to = it.to.unwrap_or(it.from);
                    let is_meant = is_meant(&sentence, &it.packet, it.from, to);
                    assert!(is_meant, "{it:?} {}", context());
                }
                Proof::Unanswered(..) => counts[1] += 1,
                Proof::Undecided(it) => {
                    counts[2] += 1;
                    let frame = it.frame();
                    let decision = ask(topology, it.from, &frame);
                    let lines: String = decision.trace.iter().map(|it| format!("{it}\n")).collect();
                    assert!(world.text.contains("ecmp"), "{it:?} {}\n{lines}", context());
                }
                Proof::Proven(_) => {
                    counts[3] += 1;
                    for _ in 0..60 {
                        let sent = packet(topology, &mut rng);
                        if matrix.field.atoms.find(sent.packet.asks()).is_none() {
                            continue;
                        }
                        let decision = ask(topology, sent.port, &sent.packet.frame());
                        for (to, _) in topology.ports().filter(|it| it.0 != sent.port) {
                            if !is_meant(&sentence, &sent.packet, sent.port, to) {
                                continue;
                            }
                            let arrives = decision.delivered.iter().any(|it| it.port == to);
                            let is_wrong = match sentence.is_never {
                                true => arrives && matrix.class(to).is_some(),
                                false => {
                                    let asks = matrix.field.atoms.find(sent.packet.asks());
                                    let atoms = &matrix.field.atoms;
                                    let is_first = asks.is_some_and(|it| {
                                        atoms.first().has(it) && !atoms.servers().has(it)
                                    });
                                    matches!(sentence.to, Who::Ports(_))
                                        && is_first
                                        && is_plain(topology, &sent.packet, sent.port, to)
                                        && !arrives
                                }
                            };
                            assert!(!is_wrong, "{sent:?} to {:?} {}", topology[to].id, context());
                        }
                    }
                }
            }
        }
    }
    assert!(counts[0] > 500 && counts[3] > 500 && counts[2] < 30, "{counts:?}");
}

const TWO: &str = "
- {kind: Tenant, metadata: {name: a}, spec: {}}
- {kind: Tenant, metadata: {name: b}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: lan, tenant: a}, spec: {subnets: [10.0.0.0/24]}}
- {kind: LogicalSwitch, metadata: {name: lan, tenant: b}, spec: {subnets: [10.0.0.0/24]}}
- {kind: LogicalPort, metadata: {name: p, tenant: a}, spec: {switch: lan, vif: {}, addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: p, tenant: b}, spec: {switch: lan, vif: {}, addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: q, tenant: b}, spec: {switch: lan, vif: {}, addresses: [10.0.0.2]}}
";

#[test]
fn sentences_say_where_they_stop_making_sense() {
    let topology = logical::load(TWO).unwrap();
    let wrong = |text: &str| Sentence::read(&topology, text).unwrap_err().to_string();
    assert_eq!(wrong("tenant a likes tenant b"), "at `likes`: write `reaches` or `never reaches`");
    assert_eq!(
        wrong("port p reaches port q").split(": write").next(),
        Some("at `p`: several tenants have a port `p`")
    );
    assert_eq!(
        wrong("tenant a reaches port x"),
        "at `x`: no port is called `x`: there are p, p, q"
    );
    assert_eq!(
        wrong("tenant a reaches port q by tcp x"),
        "at `x`: write `or` and another service, or nothing"
    );
    assert!(wrong("tenant a reaches port q by").starts_with("at the end: write a service"));
    assert!(wrong("").starts_with("at the end: write who: tenant NAME"));
    assert_eq!(wrong("outside never reaches tenant a"), "at `outside`: no port leads outside");
    assert_eq!(wrong("tenant c reaches tenant a"), "at `c`: no tenant `c` has ports");
    assert!(port(&topology, "a/p").is_ok());
    let matrix = matrix(&topology).unwrap();
    let proof = |text: &str| matrix.prove(&topology, &Sentence::read(&topology, text).unwrap());
    assert!(matches!(proof("tenant a never reaches tenant b"), Proof::Proven(_)));
    assert!(matches!(proof("tenant b reaches port q"), Proof::Proven(_)));
    assert!(matches!(proof("tenant b never reaches port q by udp 53"), Proof::Refuted(_)));
    assert!(matches!(proof("tenant a reaches tenant b by icmp"), Proof::Refuted(_)));
    assert!(matches!(proof("port a/p reaches address 10.0.0.7"), Proof::Unanswered(..)));
}
