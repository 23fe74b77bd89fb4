//! Of which services a packet is, by its protocol and ports, as one class.
//!
//! For each protocol two lines are cut where a service's range begins or ends: one of destination
//! ports, one of source ports. A packet is in one piece of each; the services that both pieces
//! belong to are its class. Most services ask for no source port; then the piece of the destination
//! says it all, and the source stays unread.
//!
//! ```text
//! web: 80, 443    high: 1024-65535       0      80 81     443 444      1024            65535
//!                                        ├──────┼─┼────────┼─┼──────────┼────────────────┤
//!                                          ·    web   ·    web    ·           high
//! ```
//!
//! ICMP has no ports. Its type and code stand in the destination's place, the type first.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::block::Block;
use crate::cells::{Cells, Depends};
use crate::class::{Class, ClassId, Interner, SetId};
use crate::exact::Exact;
use crate::table::HashKey;

/// Packets of one protocol that a service speaks of: both its lists must have the packet's port.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Form {
    /// The protocol's number.
    pub protocol: u8,
    /// Destination ports, from the first to the last. None: all.
    pub destination: Vec<(u16, u16)>,
    /// Source ports, from the first to the last. None: all.
    pub source: Vec<(u16, u16)>,
}

impl Form {
    /// ICMP messages, of one type or of all, with one code or with any.
    pub fn icmp(protocol: u8, kind: Option<u8>, code: Option<u8>) -> Self {
        let destination = match (kind, code) {
            (None, None) => Vec::new(),
            (Some(kind), None) => Vec::from([(icmp(kind, 0), icmp(kind, 255))]),
            (Some(kind), Some(code)) => Vec::from([(icmp(kind, code), icmp(kind, code))]),
            (None, Some(code)) => {
                (0..=255).map(|kind| (icmp(kind, code), icmp(kind, code))).collect()
            }
        };
        Self { protocol, destination, source: Vec::new() }
    }
}

/// What stands for a destination port in ICMP.
pub fn icmp(kind: u8, code: u8) -> u16 {
    u16::from_be_bytes([kind, code])
}

/// Services, and the classes of packets.
#[derive(Clone, Debug)]
pub struct Services {
    protocols: BTreeMap<u8, Lines>,
    /// Of each form: its service.
    forms: Vec<SetId>,
    interner: Interner,
    /// The classes of packets that need both lines: by protocol and pieces.
    pairs: Exact<1, (ClassId, Arc<[SetId]>)>,
    cells: Cells,
}

#[derive(Clone, Debug)]
struct Lines {
    destination: Vec<Piece>,
    source: Vec<Piece>,
}

/// Ports from `first` on, up to the next piece.
#[derive(Clone, Debug)]
struct Piece {
    first: u16,
    last: u16,
    forms: Vec<u32>,
    /// The class, if the other line does not matter.
    class: Option<ClassId>,
}

/// The class of a packet's service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Service<'a> {
    /// The class. All packets of another protocol that no service names are of none.
    pub class: Class<'a>,
    /// How many leading bits of the destination port decided.
    pub destination_bits: u8,
    /// How many leading bits of the source port decided.
    pub source_bits: u8,
}

impl Services {
    /// Of services that are all these forms; one may have several. It keeps the classes of at most
    /// `most` pairs of ranges of ports.
    pub fn new(
        services: impl IntoIterator<Item = (SetId, Form)>,
        most: usize,
        hash_key: HashKey,
    ) -> Self {
        let mut forms = Vec::new();
        let mut of: BTreeMap<u8, Vec<(u32, Form)>> = BTreeMap::new();
        for (number, (service, form)) in (0..).zip(services) {
            forms.push(service);
            of.entry(form.protocol).or_default().push((number, form));
        }
        let mut interner = Interner::default();
        let lines = |(protocol, of): (u8, Vec<(u32, Form)>)| {
            let mut destination = cut(of.iter().map(|(number, it)| (*number, &it.destination[..])));
            let source = cut(of.iter().map(|(number, it)| (*number, &it.source[..])));
            let any_source: BTreeSet<u32> =
                of.iter().filter(|(_, it)| it.source.is_empty()).map(|it| it.0).collect();
            for piece in &mut destination {
                if piece.forms.iter().all(|form| any_source.contains(form)) {
                    piece.class = Some(interner.hold(&services_of(&forms, &piece.forms)));
                }
            }
            (protocol, Lines { destination, source })
        };
        let protocols = of.into_iter().map(lines).collect();
        let pairs = Exact::new(most, hash_key);
        Self { protocols, forms, interner, pairs, cells: Cells::default() }
    }

    /// The class of packets of a protocol, by their ports.
    pub fn class_of(&mut self, protocol: u8, source: u16, destination: u16) -> Service<'_> {
        let none = Service { class: Class::default(), destination_bits: 0, source_bits: 0 };
        let Some(lines) = self.protocols.get(&protocol) else { return none };
        let (to, piece) = find(&lines.destination, destination);
        let destination_bits = piece.bits(destination);
        if let Some(class) = piece.class {
            let class = self.interner.class(class);
            return Service { class, destination_bits, source_bits: 0 };
        }
        let (from, other) = find(&lines.source, source);
        let source_bits = other.bits(source);
        let key = [u64::from(protocol) << 40 | (to as u64) << 20 | from as u64];
        if self.pairs.find(&self.cells, &key).is_none() {
            let sets = services_of(&self.forms, &piece.both(other));
            // Held by nobody once it is forgotten here, and then it is another number.
            let id = self.interner.hold(&sets);
            self.pairs.insert(&self.cells, key, (id, sets.into()), Depends::NOTHING);
        }
        let class = match self.pairs.find(&self.cells, &key) {
            Some((id, sets)) => Class { id: *id, sets },
            None => Class::default(),
        };
        Service { class, destination_bits, source_bits }
    }
}

/// The services of a packet, without the number of their class.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sets<'a> {
    /// The services, in ascending order.
    pub sets: Cow<'a, [SetId]>,
    /// How many leading bits of the destination port decided.
    pub destination_bits: u8,
    /// How many leading bits of the source port decided.
    pub source_bits: u8,
}

impl Services {
    /// The services that packets of a protocol are of, by their ports. Nothing is remembered.
    pub fn sets_of(&self, protocol: u8, source: u16, destination: u16) -> Sets<'_> {
        let Some(lines) = self.protocols.get(&protocol) else {
            return Sets { sets: Cow::Borrowed(&[]), destination_bits: 0, source_bits: 0 };
        };
        let (_, piece) = find(&lines.destination, destination);
        let destination_bits = piece.bits(destination);
        if let Some(class) = piece.class {
            let sets = Cow::Borrowed(self.interner.class(class).sets);
            return Sets { sets, destination_bits, source_bits: 0 };
        }
        let (_, other) = find(&lines.source, source);
        let sets = Cow::Owned(services_of(&self.forms, &piece.both(other)));
        Sets { sets, destination_bits, source_bits: other.bits(source) }
    }
}

impl Piece {
    /// The forms of this piece and of one of the other line.
    fn both(&self, other: &Self) -> Vec<u32> {
        let is_both = |form: &u32| other.forms.binary_search(form).is_ok();
        self.forms.iter().copied().filter(is_both).collect()
    }

    fn bits(&self, port: u16) -> u8 {
        Block::within(port, self.first, self.last).bits()
    }
}

/// The services of forms, in ascending order.
fn services_of(forms: &[SetId], of: &[u32]) -> Vec<SetId> {
    let mut sets: Vec<SetId> = of.iter().map(|form| forms[*form as usize]).collect();
    sets.sort_unstable();
    sets.dedup();
    sets
}

/// Cuts all ports into pieces of which each belongs to the same forms.
fn cut<'a>(forms: impl Iterator<Item = (u32, &'a [(u16, u16)])>) -> Vec<Piece> {
    // Where forms begin and end: how many more of their ranges there are from here on.
    let mut ends: BTreeMap<u32, BTreeMap<u32, i32>> = BTreeMap::from([(0, BTreeMap::new())]);
    for (form, ranges) in forms {
        let all = [(0, u16::MAX)];
        let ranges = if ranges.is_empty() { &all[..] } else { ranges };
        for (first, last) in ranges.iter().filter(|(first, last)| first <= last) {
            *ends.entry(u32::from(*first)).or_default().entry(form).or_default() += 1;
            *ends.entry(u32::from(*last) + 1).or_default().entry(form).or_default() -= 1;
        }
    }
    let mut here: BTreeMap<u32, i32> = BTreeMap::new();
    let mut pieces: Vec<Piece> = Vec::new();
    for (port, changes) in ends {
        for (form, change) in changes {
            let count = here.entry(form).or_default();
            *count += change;
            if *count == 0 {
                here.remove(&form);
            }
        }
        let Ok(first) = u16::try_from(port) else { break };
        let forms: Vec<u32> = here.keys().copied().collect();
        if let Some(before) = pieces.last_mut() {
            if before.forms == forms {
                continue;
            }
            before.last = first - 1;
        }
        pieces.push(Piece { first, last: u16::MAX, forms, class: None });
    }
    pieces
}

/// The piece that a port is in. The first begins with 0.
fn find(pieces: &[Piece], port: u16) -> (usize, &Piece) {
    let at = pieces.partition_point(|piece| piece.first <= port) - 1;
    (at, &pieces[at])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges() -> impl Strategy<Value = Vec<(u16, u16)>> {
        let edge = prop_oneof![0_u16..40, Just(u16::MAX), any::<u16>()];
        prop::collection::vec((edge.clone(), edge), 0..3)
            .prop_map(|all| all.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect())
    }

    fn forms() -> impl Strategy<Value = Vec<(SetId, Form)>> {
        let source = prop_oneof![2 => Just(Vec::new()), 1 => ranges()];
        let form = (0_u8..3, ranges(), source).prop_map(|(protocol, destination, source)| Form {
            protocol,
            destination,
            source,
        });
        prop::collection::vec(((0_u32..6).prop_map(SetId), form), 0..10)
    }

    fn linear(all: &[(SetId, Form)], protocol: u8, source: u16, destination: u16) -> Vec<SetId> {
        let has = |ranges: &[(u16, u16)], port| {
            ranges.is_empty() || ranges.iter().any(|(first, last)| (*first..=*last).contains(&port))
        };
        let mine = all.iter().filter(|(_, it)| {
            it.protocol == protocol && has(&it.source, source) && has(&it.destination, destination)
        });
        let mine: BTreeSet<SetId> = mine.map(|(service, _)| *service).collect();
        mine.into_iter().collect()
    }

    proptest! {
        #[test]
        fn services_are_those_of_a_list_and_the_bits_decide(
            all in forms(),
            packets in prop::collection::vec((0_u8..4, 0_u16..45, 0_u16..45), 20),
            noise: [u16; 6],
        ) {
            let mut services = Services::new(all.clone(), 8, HashKey([3, 5]));
            let mut seen: BTreeMap<ClassId, Vec<SetId>> = BTreeMap::new();
            for (protocol, source, destination) in packets {
                let found = services.class_of(protocol, source, destination);
                let sets = found.class.sets.to_vec();
                let (id, bits) = (found.class.id, (found.source_bits, found.destination_bits));
                prop_assert_eq!(&sets, &linear(&all, protocol, source, destination));
                let unremembered = services.sets_of(protocol, source, destination);
                prop_assert_eq!(&unremembered.sets[..], &sets[..]);
                prop_assert_eq!(
                    (unremembered.source_bits, unremembered.destination_bits),
                    bits
                );
                prop_assert_eq!(seen.entry(id).or_insert_with(|| sets.clone()), &sets);
                for noise in noise.chunks(2) {
                    let keep = |port: u16, bits, noise: u16| {
                        Block::new(port, bits).unwrap().first()
                            | noise & crate::block::Key::last(0_u16, bits)
                    };
                    let source = keep(source, bits.0, noise[0]);
                    let destination = keep(destination, bits.1, noise[1]);
                    prop_assert_eq!(&sets, &linear(&all, protocol, source, destination));
                    let other = services.class_of(protocol, source, destination);
                    prop_assert_eq!((other.source_bits, other.destination_bits), bits);
                }
            }
        }
    }

    #[test]
    fn what_no_service_asks_for_is_not_read() {
        let form = Form { protocol: 6, destination: Vec::from([(80, 80)]), ..Form::default() };
        let all = [(SetId(4), form), (SetId(5), Form::icmp(1, Some(8), None))];
        let mut services = Services::new(all, 8, HashKey([3, 5]));
        let web = services.class_of(6, 1, 80);
        assert_eq!(
            (web.class.sets, web.destination_bits, web.source_bits),
            (&[SetId(4)][..], 16, 0)
        );
        assert_eq!(services.class_of(6, 1, 40_000).destination_bits, 1);
        assert_eq!(services.class_of(1, 0, icmp(8, 3)).class.sets, [SetId(5)]);
        assert_eq!(services.class_of(1, 0, icmp(8, 3)).destination_bits, 8);
        let other = services.class_of(17, 1, 1);
        assert_eq!((other.class.id, other.destination_bits), (ClassId::NONE, 0));
    }
}
