//! Where frames go, against a naive model of maps and sets, which decides for each frame who gets
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datapath::{Datapath, Network, Remote, Settings};
use lossless::{PortId, Reason};
use proptest::prelude::*;
use units::{Class, Mac};
use wire::ethernet::{Peek, Tag};

use super::common::*;

/// The ports, and where each address is, in maps and sets.
#[derive(Default)]
struct Model {
    locals: BTreeMap<PortId, Network>,
    /// By network, VLAN and address: the port, and whether it was pinned.
    addresses: BTreeMap<(Network, u16, Mac), (PortId, bool)>,
    /// By network: the peer and label of each machine on other hosts.
    declared: BTreeMap<Network, BTreeMap<usize, (u32, u32)>>,
}

impl Model {
    fn detach(&mut self, port: PortId) {
        self.locals.remove(&port);
        self.forget(port);
    }

    fn forget(&mut self, gone: PortId) {
        self.addresses.retain(|_, (port, _)| *port != gone);
    }

    fn is_member(&self, port: PortId, network: Network) -> bool {
        self.locals.get(&port) == Some(&network)
            || port == self::port(UPLINK) && self.declared.contains_key(&network)
    }

    /// Who gets a frame, or why nobody does.
    fn decide(&mut self, from: PortId, network: Network, header: &Peek) -> Outcome {
        if !self.is_member(from, network) {
            return Err(Reason::NotMember);
        }
        let vlan = header.tag().map_or(0, |tag| tag.vlan);
        let is_uplink = from == port(UPLINK);
        let is_far = |address: Mac| {
            let declared = self.declared.get(&network).filter(|_| vlan == 0);
            declared.is_some_and(|machines| machines.keys().any(|it| mac(*it) == address))
        };
        // What is pinned without a VLAN is known in all.
        let pinned =
            |mac| self.addresses.get(&(network, 0, mac)).filter(|(_, is_pinned)| *is_pinned);
        let is_pinned = pinned(header.source()).is_some();
        if !is_uplink && !header.source().is_multicast() && !is_far(header.source()) && !is_pinned {
            let place =
                self.addresses.entry((network, vlan, header.source())).or_insert((from, false));
            if !place.1 {
                *place = (from, false);
            }
        }
        if header.destination() == LINK_LOCAL {
            return Err(Reason::LinkLocal);
        }
        if header.source().is_multicast() {
            return Err(Reason::Malformed);
        }
        let is_group = header.destination().is_multicast();
        let is_far = is_far(header.destination());
        let pinned = self
            .addresses
            .get(&(network, 0, header.destination()))
            .filter(|(_, is_pinned)| *is_pinned);
        let exact = self.addresses.get(&(network, vlan, header.destination()));
        let known = exact.filter(|(_, is_pinned)| *is_pinned).or(pinned).or(exact);
        let known = known.filter(|(_, is_pinned)| !is_group && (*is_pinned || !is_far));
        if let Some((to, _)) = known {
            return match *to == from {
                true => Err(Reason::SamePort),
                false => Ok(BTreeSet::from([Receiver::Port(*to)])),
            };
        }
        let far = self.declared.get(&network).into_iter().flatten();
        let remote =
            |(_, (host, label)): (&usize, &(u32, u32))| Remote { peer: peer(*host), label: *label };
        let mut is_it =
            far.clone().filter(|(address, _)| vlan == 0 && mac(**address) == header.destination());
        if let Some(it) = is_it.next().filter(|_| !is_group) {
            return if is_uplink {
                Err(Reason::SplitHorizon)
            } else {
                Ok(BTreeSet::from([Receiver::Far(remote(it))]))
            };
        }
        let mut all: BTreeSet<PortId> = self.locals.keys().copied().collect();
        all.retain(|port| *port != from && self.is_member(*port, network));
        let mut all: BTreeSet<_> = all.into_iter().map(Receiver::Port).collect();
        if is_group && !is_uplink {
            let vni = u32::from(network.number()) + 100;
            all.extend(far.map(|(_, (host, _))| Receiver::Far(Remote::flood(peer(*host), vni))));
        }
        Ok(all)
    }
}

/// A frame as drawn: its network, unless it is its local port's; from and to which address; its
/// VLAN.
type Drawn = (Option<u16>, usize, usize, u16);

#[derive(Clone, Debug)]
enum Step {
    /// One visit.
    Visit(usize, Vec<Drawn>),
    /// What came by the port last, once more.
    Again(usize),
    Pin(usize, u16, usize),
    Close(usize),
    /// A network's machines on other hosts; none: it is this host's alone.
    Declare(u16, Option<BTreeMap<usize, (u32, u32)>>),
    /// Another port in one's place.
    Replace(usize, u16),
}

fn step() -> impl Strategy<Value = Step> {
    let port = || 0usize..7;
    let number = || 0u16..3;
    let drawn = || (prop::option::weighted(0.2, number()), 0usize..7, 0usize..8, 0u16..2);
    let frames = prop::collection::vec(drawn(), 1..8);
    // The port with the highest number is the uplink.
    let visitor = || 0usize..8;
    // Each port of a host has a label of its own.
    let labelled = |(address, host): (usize, u32)| (address, (host, address as u32 + 1));
    let machines = prop::collection::btree_map(0usize..6, 0u32..3, 1..5);
    let machines = machines.prop_map(move |machines| machines.into_iter().map(labelled).collect());
    prop_oneof![
        6 => (visitor(), frames).prop_map(|(port, frames)| Step::Visit(port, frames)),
        6 => visitor().prop_map(Step::Again),
        3 => (port(), 0u16..2, 0usize..6).prop_map(|(port, vlan, mac)| Step::Pin(port, vlan, mac)),
        1 => (port(), number()).prop_map(|(port, number)| Step::Replace(port, number)),
        1 => port().prop_map(Step::Close),
        3 => (number(), prop::option::weighted(0.8, machines)).prop_map(|(number, it)| Step::Declare(number, it)),
    ]
}

/// The datapath beside the model.
struct Pair {
    datapath: Datapath,
    model: Model,
    /// What came by each port last.
    last: BTreeMap<PortId, Vec<Drawn>>,
}

impl Pair {
    fn attach(&mut self, id: PortId, number: u16) {
        self.datapath.attach(id, local(number));
        self.model.locals.insert(id, network(number));
    }

    /// Each frame of a visit fares as the model decides it, and as was explained before; but for
    /// what its source teaches, if that is its own destination.
    fn visit(&mut self, from: PortId, frames: &[Drawn]) {
        let own = self.model.locals.get(&from).copied().unwrap_or_default();
        let frame = |(number, source, destination, vlan): &Drawn| {
            let tag = Some(Tag { class: Class::default(), vlan: *vlan });
            (Peek::new(address(*destination), address(*source), tag), number.map_or(own, network))
        };
        let frames: Vec<_> = frames.iter().map(frame).collect();
        let explained = self.datapath.explain(NOW, from, &frames[0].0, frames[0].1).fate;
        let mut outcomes: Vec<Outcome> = Vec::new();
        let mut visit = self.datapath.visit(NOW, from);
        for (header, network) in &frames {
            let repeated = outcomes.last().filter(|_| visit.repeats(header, *network)).cloned();
            outcomes.push(outcome(visit.decide(header, *network).verdict));
            assert!(repeated.is_none_or(|repeated| Some(&repeated) == outcomes.last()));
        }
        let teaches = frames[0].0.source() == frames[0].0.destination();
        assert!(
            teaches || outcomes[0] == outcome_of(&explained),
            "explained as {explained:?}, not {outcomes:?}"
        );
        for (outcome, (header, network)) in outcomes.into_iter().zip(frames) {
            assert_eq!(
                outcome,
                self.model.decide(from, network, &header),
                "{header:?} in {network:?}"
            );
        }
    }

    fn step(&mut self, step: Step, ports: usize) {
        let at = |number: usize| if number == 7 { port(UPLINK) } else { port(number % ports) };
        match step {
            Step::Declare(number, machines) => {
                let it = machines.as_ref().map(|machines| Arc::new(declared(number, machines)));
                self.datapath.declare(network(number), it);
                self.model.declared.remove(&network(number));
                self.model.declared.extend(machines.map(|machines| (network(number), machines)));
            }
            Step::Visit(port, frames) => {
                self.visit(at(port), &frames);
                self.last.insert(at(port), frames);
            }
            Step::Again(port) => {
                if let Some(frames) = self.last.get(&at(port)).cloned() {
                    self.visit(at(port), &frames);
                }
            }
            Step::Pin(port, vlan, address) => {
                self.datapath.pin(at(port), mac(address), vlan);
                let network = self.model.locals[&at(port)];
                self.model.addresses.insert((network, vlan, mac(address)), (at(port), true));
            }
            Step::Close(port) => {
                self.model.forget(at(port));
                self.datapath.close(at(port));
            }
            Step::Replace(port, number) => {
                self.datapath.detach(at(port));
                self.model.detach(at(port));
                self.attach(at(port), number);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn a_frame_reaches_those_of_its_network_whom_a_naive_model_names(
        ports in prop::collection::vec(0u16..3, 2..7),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let datapath = Datapath::new(Settings::default());
        let mut pair = Pair { datapath, model: Model::default(), last: BTreeMap::new() };
        pair.datapath.set_uplink(port(UPLINK), Class::default());
        ports.iter().enumerate().for_each(|(number, config)| pair.attach(port(number), *config));
        for step in steps {
            pair.step(step, ports.len());
            let addresses: BTreeMap<_, _> =
                pair.datapath.addresses().iter().map(|at| ((at.network, at.vlan, at.mac), (at.port, at.seen.is_none()))).collect();
            prop_assert_eq!(&addresses, &pair.model.addresses);
        }
    }
}
