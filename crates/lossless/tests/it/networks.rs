//! Networks and trunks against a naive model, which decides for each frame who gets it.

use super::*;

const NOW: Instant = Instant::ZERO;

fn network(number: u16) -> Network {
    Network::new(number).unwrap()
}

fn local(number: u16) -> PortConfig {
    PortConfig { network: network(number), ..PortConfig::default() }
}

fn trunk() -> PortConfig {
    PortConfig { trunk: true, ..PortConfig::default() }
}

/// The ports, and where each address is, in maps and sets.
#[derive(Default)]
struct Model {
    locals: BTreeMap<PortId, Network>,
    /// Each one's networks.
    trunks: BTreeMap<PortId, BTreeSet<Network>>,
    /// By network, VLAN and address: the port, and whether it was pinned.
    addresses: BTreeMap<(Network, u16, Mac), (PortId, bool)>,
    closed: BTreeSet<PortId>,
}

impl Model {
    fn attach(&mut self, port: PortId, config: &PortConfig) {
        if config.trunk {
            self.trunks.insert(port, BTreeSet::new());
        } else {
            self.locals.insert(port, config.network);
        }
    }

    fn detach(&mut self, port: PortId) {
        self.locals.remove(&port);
        self.trunks.remove(&port);
        self.closed.remove(&port);
        self.forget(port);
    }

    fn forget(&mut self, gone: PortId) {
        self.addresses.retain(|_, (port, _)| *port != gone);
    }

    fn is_member(&self, port: PortId, network: Network) -> bool {
        self.locals.get(&port) == Some(&network)
            || self.trunks.get(&port).is_some_and(|joined| joined.contains(&network))
    }

    /// Who gets a frame, or why nobody does.
    fn decide(&mut self, from: PortId, network: Network, header: &Peek) -> Result<BTreeSet<PortId>, Reason> {
        if !self.is_member(from, network) {
            return Err(Reason::NotMember);
        }
        let vlan = header.tag.map_or(0, |tag| tag.vlan);
        let from_trunk = self.trunks.contains_key(&from);
        if !from_trunk && !header.source().is_multicast() {
            let place = self.addresses.entry((network, vlan, header.source())).or_insert((from, false));
            if !place.1 {
                *place = (from, false);
            }
        }
        let is_group = header.destination().is_multicast();
        let known = self.addresses.get(&(network, vlan, header.destination())).filter(|_| !is_group);
        if let Some((to, _)) = known {
            return match self.trunks.contains_key(to) {
                _ if *to == from => Err(Reason::SamePort),
                _ if !self.is_member(*to, network) => Err(Reason::NotMember),
                true if from_trunk => Err(Reason::SplitHorizon),
                _ => Ok(BTreeSet::from([*to])),
            };
        }
        if header.destination() == LINK_LOCAL {
            return Err(Reason::LinkLocal);
        }
        let mut all: BTreeSet<PortId> = self.locals.keys().copied().collect();
        if is_group && !from_trunk {
            all.extend(self.trunks.keys());
        }
        all.retain(|port| *port != from && self.is_member(*port, network) && !self.closed.contains(port));
        if all.is_empty() { Err(Reason::NoEgress) } else { Ok(all) }
    }
}

/// Link-layer discovery's.
const LINK_LOCAL: Mac = Mac([0x01, 0x80, 0xc2, 0, 0, 0x0e]);

/// One of a few addresses, of which two are groups'.
fn address(number: usize) -> Mac {
    match number {
        6 => Mac::BROADCAST,
        7 => LINK_LOCAL,
        _ => mac(number),
    }
}

/// A frame as drawn: its network, unless it is its local port's; from and to which address; its VLAN; how many of them.
type Drawn = (Option<u16>, usize, usize, u16, usize);

#[derive(Clone, Debug)]
enum Step {
    /// One visit.
    Offer(usize, Vec<Drawn>),
    /// What the port offered last, once more.
    Again(usize),
    /// Straight to its receiver.
    Pass(usize, Drawn),
    Pin(usize, u16, u16, usize),
    Join(usize, u16),
    Leave(usize, u16),
    Close(usize),
    /// Another port in one's place: a trunk, if of no network.
    Replace(usize, Option<u16>),
}

fn step() -> impl Strategy<Value = Step> {
    let port = || 0usize..7;
    let number = || 0u16..3;
    let drawn = || (prop::option::weighted(0.2, number()), 0usize..7, 0usize..8, 0u16..2, 1usize..3);
    prop_oneof![
        6 => (port(), prop::collection::vec(drawn(), 1..5)).prop_map(|(port, frames)| Step::Offer(port, frames)),
        6 => port().prop_map(Step::Again),
        2 => (port(), drawn()).prop_map(|(port, frame)| Step::Pass(port, frame)),
        3 => (port(), number(), 0u16..2, 0usize..6).prop_map(|(port, number, vlan, mac)| Step::Pin(port, number, vlan, mac)),
        3 => (port(), number()).prop_map(|(port, number)| Step::Join(port, number)),
        1 => (port(), number()).prop_map(|(port, number)| Step::Leave(port, number)),
        1 => (port(), prop::option::of(number())).prop_map(|(port, number)| Step::Replace(port, number)),
        1 => port().prop_map(Step::Close),
    ]
}

/// The switch beside the model.
struct Pair {
    switch: Switch<u64>,
    model: Model,
    ids: Vec<PortId>,
    next: u64,
    /// What each port offered last.
    last: BTreeMap<PortId, Vec<Drawn>>,
    /// Who has had each frame since it was last looked.
    got: BTreeMap<u64, BTreeSet<PortId>>,
}

impl Pair {
    fn new(configs: &[Option<u16>]) -> Self {
        let switch = Switch::new(Settings::default());
        let mut pair = Self {
            switch,
            model: Model::default(),
            ids: Vec::new(),
            next: 0,
            last: BTreeMap::new(),
            got: BTreeMap::new(),
        };
        pair.ids = configs.iter().map(|config| pair.attach(*config)).collect();
        pair
    }

    fn attach(&mut self, number: Option<u16>) -> PortId {
        let config = number.map_or(trunk(), local);
        let id = self.switch.attach(NOW, config).unwrap();
        self.model.attach(id, &config);
        id
    }

    fn arrival(&mut self, from: PortId, drawn: Drawn) -> Arrival<u64> {
        let (number, source, destination, vlan, _) = drawn;
        let own = self.model.locals.get(&from).copied().unwrap_or_default();
        let tag = Some(Tag { class: Class::default(), vlan });
        let header = Peek::new(address(destination), address(source), tag);
        self.next += 1;
        Arrival { frame: self.next, header, network: number.map_or(own, network), bytes: 64, frames: 1 }
    }

    /// Has frames offered in one visit. Each is told of as the model decides it.
    fn offer(&mut self, from: PortId, frames: &[Drawn]) {
        let copies = frames.iter().flat_map(|drawn| std::iter::repeat_n(*drawn, drawn.4));
        let arrivals: Vec<_> = copies.map(|drawn| self.arrival(from, drawn)).collect();
        let mut refused = self.refused(from);
        let mut expected = BTreeMap::new();
        let mut visit = self.switch.arrivals(NOW, from);
        for arrival in arrivals {
            let outcome = visit.offer(arrival).unwrap();
            match self.model.decide(from, arrival.network, &arrival.header) {
                Ok(receivers) => {
                    assert_eq!(outcome, None, "{receivers:?} should have {arrival:?}");
                    expected.insert(arrival.frame, receivers);
                }
                Err(reason) => {
                    assert_eq!(outcome, Some(arrival.frame), "refused for {reason:?}");
                    *refused.entry(reason).or_default() += 1;
                }
            }
        }
        drop(visit);
        self.take_all();
        assert_eq!(std::mem::take(&mut self.got), expected);
        assert_eq!(self.refused(from), refused);
    }

    /// Has a frame passed, which its receiver takes if it goes to one alone.
    fn pass(&mut self, from: PortId, drawn: Drawn) {
        let arrival = self.arrival(from, drawn);
        let mut refused = self.refused(from);
        let decided = self.model.decide(from, arrival.network, &arrival.header);
        match self.switch.pass(NOW, from, arrival, |_| true).unwrap() {
            Passed::Through(port) => assert_eq!(decided, Ok(BTreeSet::from([port]))),
            Passed::Held => {
                self.take_all();
                assert_eq!(std::mem::take(&mut self.got).remove(&arrival.frame), decided.ok());
            }
            Passed::Refused(back) => {
                *refused.entry(decided.expect_err("refused")).or_default() += 1;
                assert_eq!(back, arrival.frame);
            }
        }
        assert_eq!(self.refused(from), refused);
    }

    fn refused(&self, from: PortId) -> BTreeMap<Reason, u64> {
        self.switch.ingress_account(from, Class::default()).refusals().collect()
    }

    fn take_all(&mut self) {
        for id in &self.ids {
            let mut visit = self.switch.departures(NOW, *id);
            while let Some(head) = visit.head() {
                assert!(self.got.entry(head.frame()).or_default().insert(*id), "a frame comes once");
                head.delivered();
            }
        }
    }

    fn step(&mut self, step: Step) {
        let place = |port: usize| port % self.ids.len();
        match step {
            Step::Offer(port, frames) => {
                let id = self.ids[place(port)];
                self.offer(id, &frames);
                self.last.insert(id, frames);
            }
            Step::Again(port) => {
                let id = self.ids[place(port)];
                let frames = self.last.get(&id).cloned().unwrap_or_default();
                self.offer(id, &frames);
            }
            Step::Pass(port, frame) => self.pass(self.ids[place(port)], frame),
            Step::Pin(port, number, vlan, at) => {
                let id = self.ids[place(port)];
                self.switch.pin(network(number), mac(at), vlan, id);
                self.model.addresses.insert((network(number), vlan, mac(at)), (id, true));
            }
            Step::Join(port, number) => {
                let id = self.ids[place(port)];
                if let Some(joined) = self.model.trunks.get_mut(&id) {
                    joined.insert(network(number));
                    self.switch.join(id, network(number));
                }
            }
            Step::Leave(port, number) => {
                let id = self.ids[place(port)];
                if let Some(joined) = self.model.trunks.get_mut(&id) {
                    joined.remove(&network(number));
                    self.model.addresses.retain(|key, (port, _)| (key.0, *port) != (network(number), id));
                    self.switch.leave(id, network(number));
                }
            }
            Step::Close(port) => {
                let id = self.ids[place(port)];
                self.model.closed.insert(id);
                self.model.forget(id);
                self.switch.close(id);
            }
            Step::Replace(port, number) => {
                let place = place(port);
                self.switch.detach(NOW, self.ids[place], |_| panic!("nothing is held"));
                self.model.detach(self.ids[place]);
                self.ids[place] = self.attach(number);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn a_frame_reaches_those_of_its_network_whom_a_naive_model_names(
        ports in prop::collection::vec(prop::option::weighted(0.6, 0u16..3), 2..7),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut pair = Pair::new(&ports);
        for step in steps {
            pair.step(step);
            pair.switch.audit().unwrap();
            let addresses: BTreeMap<_, _> =
                pair.switch.addresses().iter().map(|at| ((at.network, at.vlan, at.mac), (at.port, at.seen.is_none()))).collect();
            let expected: BTreeMap<_, _> = pair.model.addresses.iter().map(|(key, (port, pinned))| (*key, (port.index() as u16, *pinned))).collect();
            prop_assert_eq!(addresses, expected);
        }
    }
}

#[test]
fn a_number_that_stands_for_no_network_is_none() {
    assert_eq!(Network::new(0), Some(Network::default()));
    assert_eq!(Network::new(0xfffe).map(Network::number), Some(0xfffe));
    assert_eq!(Network::new(0xffff), None);
}

/// Two local ports in network 1, two trunks, and a local port in network 2. The trunks are in both.
fn two_networks() -> (Switch<Frame>, Vec<PortId>) {
    let mut switch = Switch::new(Settings::default());
    let configs = [local(1), local(1), trunk(), trunk(), local(2)];
    let ids: Vec<_> = configs.iter().map(|config| switch.attach(NOW, *config).unwrap()).collect();
    for (trunk, number) in [(2, 1), (2, 2), (3, 1), (3, 2)] {
        switch.join(ids[trunk], network(number));
    }
    (switch, ids)
}

/// Who gets a frame of a network that comes in by `from`, from its own address.
fn heard(
    switch: &mut Switch<Frame>,
    ids: &[PortId],
    from: usize,
    number: u16,
    to: Option<usize>,
) -> Vec<usize> {
    let frame = Frame { number: 0, from, flow: 0 };
    let arrival = Arrival { network: network(number), ..arrival(frame, to, Class::default(), 60) };
    switch.arrivals(NOW, ids[from]).offer(arrival).unwrap();
    let takes =
        |port: &usize| switch.departures(NOW, ids[*port]).head().map(|head| head.delivered()).is_some();
    (0..ids.len()).filter(takes).collect()
}

#[test]
fn a_group_is_reached_by_trunks_and_an_unknown_address_is_not_looked_for_there() {
    let (mut switch, ids) = two_networks();
    assert_eq!(heard(&mut switch, &ids, 0, 1, None), [1, 2, 3]);
    assert_eq!(heard(&mut switch, &ids, 0, 1, Some(1)), [1]);
    assert_eq!(heard(&mut switch, &ids, 2, 1, None), [0, 1]);
    assert_eq!(heard(&mut switch, &ids, 2, 1, Some(1)), [0, 1], "not known yet");
    assert_eq!(heard(&mut switch, &ids, 4, 2, None), [2, 3]);
    switch.leave(ids[3], network(2));
    assert_eq!(heard(&mut switch, &ids, 4, 2, None), [2]);
}

#[test]
fn an_address_in_two_networks_is_two_entries() {
    let (mut switch, ids) = two_networks();
    switch.pin(network(1), mac(9), 0, ids[1]);
    switch.pin(network(2), mac(9), 0, ids[3]);
    assert_eq!(heard(&mut switch, &ids, 0, 1, Some(9)), [1]);
    assert_eq!(heard(&mut switch, &ids, 4, 2, Some(9)), [3]);
    switch.leave(ids[3], network(2));
    let left: Vec<_> =
        switch.addresses().iter().filter(|entry| entry.mac == mac(9)).map(|entry| entry.network).collect();
    assert_eq!(left, [network(1)], "forgotten with the membership");
}

#[test]
fn what_came_by_a_trunk_leaves_by_none_and_teaches_nothing() {
    let (mut switch, ids) = two_networks();
    switch.pin(network(1), mac(9), 0, ids[3]);
    assert_eq!(heard(&mut switch, &ids, 2, 1, Some(9)), []);
    assert_eq!(heard(&mut switch, &ids, 3, 1, Some(9)), []);
    let refusals: Vec<_> = switch.total().refusals().collect();
    assert_eq!(refusals, [(Reason::SamePort, 1), (Reason::SplitHorizon, 1)]);
    assert_eq!(switch.addresses().len(), 1);
}

#[test]
fn a_network_is_closed_to_ports_that_are_no_members() {
    let (mut switch, ids) = two_networks();
    switch.pin(network(1), mac(9), 0, ids[4]);
    assert_eq!(heard(&mut switch, &ids, 4, 1, None), []);
    assert_eq!(heard(&mut switch, &ids, 0, 1, Some(9)), []);
    assert_eq!(heard(&mut switch, &ids, 2, 3, None), []);
    let refusals: Vec<_> = switch.total().refusals().collect();
    assert_eq!(refusals, [(Reason::NotMember, 3)]);
}
