//! A small switch: a policy for each port, sets of addresses, and a cache in front.

use classifier::cells::{CellId, Cells, Depends};
use classifier::class::{ClassId, SetId};
use classifier::classes::{Classes, Member};
use classifier::decisions::{Aspect, Condition, Decisions, End, Facts, Memory, Peer, Rule};
use classifier::exact::Exact;
use classifier::intervals::{Form, Services};
use classifier::table::HashKey;
use classifier::tracked::{Field, Tracked};
use units::Rng;

pub const PORTS: u64 = 3;
pub const SETS: u64 = 6;
const KEY: HashKey = HashKey([0x1234_5678_9abc_def1, 0x0fed_cba9_8765_4321]);

const PORT: Field = Field::new(0, 8);
const PROTOCOL: Field = PORT.then(8);
const SOURCE_PORT: Field = PROTOCOL.then(16);
const DESTINATION_PORT: Field = SOURCE_PORT.then(16);
const SOURCE: Field = Field::new(64, 32);
const DESTINATION: Field = SOURCE.then(32);

/// A packet, as a key.
pub type Packet = [u64; 2];

pub struct World {
    pub rng: Rng,
    pub cells: Cells,
    pub classes: Classes,
    pub members: Vec<(SetId, u32, u32)>,
    forms: Vec<(SetId, Form)>,
    services: Services,
    rules: Vec<Vec<Rule>>,
    policies: Vec<Decisions>,
    pub exact: Exact<2, Option<u32>>,
}

fn cell_of(class: ClassId) -> CellId {
    CellId(PORTS as u32 + class.number() as u32 % 8)
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let forms: Vec<(SetId, Form)> = (0..rng.below(5))
            .map(|_| {
                let mut ranges = |most| {
                    let range = |rng: &mut Rng| {
                        let first = rng.below(12) as u16;
                        (first, first + rng.below(4) as u16)
                    };
                    (0..rng.below(most)).map(|_| range(&mut rng)).collect()
                };
                let (destination, source) = (ranges(3), ranges(2));
                let protocol = rng.below(2) as u8;
                (SetId(rng.below(3) as u32), Form { protocol, destination, source })
            })
            .collect();
        let services = Services::new(forms.clone(), 8, KEY);
        let mut world = Self {
            rng,
            cells: Cells::new(PORTS as u32 + 8),
            classes: Classes::default(),
            members: Vec::new(),
            forms,
            services,
            rules: Vec::new(),
            policies: Vec::new(),
            exact: Exact::new(64, KEY),
        };
        for port in 0..PORTS {
            world.rules.push(Vec::new());
            world.policies.push(Decisions::new(&[], Memory { bitmaps: 1, decisions: 1 }, KEY));
            world.change_policy(port);
        }
        for _ in 0..10 {
            world.change_set();
        }
        world
    }

    fn peer(&mut self) -> Option<Peer> {
        let rng = &mut self.rng;
        let mut sets = |most| (0..rng.below(most)).map(|_| SetId(rng.below(SETS) as u32)).collect();
        let (sets, except) = (sets(3), sets(2));
        (self.rng.below(3) > 0).then(|| Peer { sets, except, ..Peer::default() })
    }

    pub fn change_policy(&mut self, port: u64) {
        let rules: Vec<Rule> = (0..self.rng.below(6))
            .map(|_| {
                let (source, destination) = (self.peer(), self.peer());
                let services = (0..self.rng.below(2)).map(|_| SetId(self.rng.below(3) as u32));
                let services = services.collect();
                let condition = Condition { source, destination, services, ..Condition::default() };
                Rule { conditions: vec![condition], names_control: true, ..Rule::default() }
            })
            .collect();
        let memory = Memory { bitmaps: 16, decisions: 16 };
        self.policies[port as usize] = Decisions::new(std::slice::from_ref(&rules), memory, KEY);
        self.rules[port as usize] = rules;
        self.cells.change(CellId(port as u32));
    }

    fn address(&mut self) -> u32 {
        let low = self.rng.below(24) as u32;
        [low, low << 28, 0x0a00_0000 | low, u32::MAX - low][self.rng.below(4) as usize]
    }

    pub fn change_set(&mut self) {
        let cells = &mut self.cells;
        if !self.members.is_empty() && self.rng.below(3) == 0 {
            let which = self.rng.below(self.members.len() as u64) as usize;
            let (set, first, last) = self.members.swap_remove(which);
            let left = |class| cells.change(cell_of(class));
            assert!(self.classes.remove(set, Member::V4(first, last), left));
            return;
        }
        let set = SetId(self.rng.below(SETS) as u32);
        let (one, other) = (self.address(), self.address());
        let (first, last) = match self.rng.below(2) {
            0 => (one, one),
            _ => (one.min(other), one.max(other)),
        };
        self.members.push((set, first, last));
        let cells = &mut self.cells;
        self.classes.add(set, Member::V4(first, last), |class| cells.change(cell_of(class)));
    }

    pub fn packet(&mut self) -> Packet {
        let mut key = [0; 2];
        PORT.set(&mut key, self.rng.below(PORTS).into());
        PROTOCOL.set(&mut key, self.rng.below(3).into());
        SOURCE_PORT.set(&mut key, self.rng.below(16).into());
        DESTINATION_PORT.set(&mut key, self.rng.below(16).into());
        let ends = [self.address(), self.address()];
        SOURCE.set(&mut key, ends[0].into());
        DESTINATION.set(&mut key, ends[1].into());
        key
    }

    /// What is decided of a packet by going through all there is.
    pub fn linear(&self, key: &Packet) -> Option<u32> {
        let sets = |field: Field| -> Vec<SetId> {
            let address = field.get(key) as u32;
            let mine = self.members.iter().filter(|(_, a, b)| (*a..=*b).contains(&address));
            mine.map(|(set, ..)| *set).collect()
        };
        let has = |ranges: &[(u16, u16)], field: Field| {
            let port = field.get(key) as u16;
            ranges.is_empty() || ranges.iter().any(|(a, b)| (*a..=*b).contains(&port))
        };
        let asked = |wanted: &[SetId], own: &[SetId]| wanted.iter().any(|it| own.contains(it));
        let end = |peer: &Option<Peer>, own: &[SetId]| {
            peer.as_ref().is_none_or(|it| asked(&it.sets, own) && !asked(&it.except, own))
        };
        let (source, destination) = (sets(SOURCE), sets(DESTINATION));
        let mine = self.forms.iter().filter(|(_, it)| {
            u128::from(it.protocol) == PROTOCOL.get(key)
                && has(&it.destination, DESTINATION_PORT)
                && has(&it.source, SOURCE_PORT)
        });
        let services: Vec<SetId> = mine.map(|(service, _)| *service).collect();
        let rules = &self.rules[PORT.get(key) as usize];
        let first = rules.iter().position(|rule| {
            rule.conditions.iter().all(|it| {
                end(&it.source, &source)
                    && end(&it.destination, &destination)
                    && (it.services.is_empty() || asked(&it.services, &services))
            })
        });
        first.map(|at| at as u32)
    }

    /// What is decided of a packet, by which bits, and on what that depends.
    pub fn decide(&mut self, key: &Packet) -> (Option<u32>, Packet, Depends) {
        let mut depends = Depends::now(&self.cells);
        let mut packet = Tracked::new(key);
        let port = packet.read(PORT);
        depends.on(CellId(port as u32));
        let source = self.classes.class_of_v4(packet.peek(SOURCE) as u32);
        let destination = self.classes.class_of_v4(packet.peek(DESTINATION) as u32);
        let service = self.services.class_of(
            packet.peek(PROTOCOL) as u8,
            packet.peek(SOURCE_PORT) as u16,
            packet.peek(DESTINATION_PORT) as u16,
        );
        let found = self.policies[port as usize].decide(&Facts {
            source: End::Address(source.class),
            destination: End::Address(destination.class),
            service: service.class,
            ..Facts::default()
        });
        if found.read.contains(Aspect::SourceAddress) {
            packet.note(SOURCE, source.bits);
            depends.on(cell_of(source.class.id));
        }
        if found.read.contains(Aspect::DestinationAddress) {
            packet.note(DESTINATION, destination.bits);
            depends.on(cell_of(destination.class.id));
        }
        if found.read.contains(Aspect::Service) {
            packet.read(PROTOCOL);
            packet.note(SOURCE_PORT, service.source_bits);
            packet.note(DESTINATION_PORT, service.destination_bits);
        }
        (found.rule, *packet.mask(), depends)
    }
}
