//! Lists of rules against a search from the beginning.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::class::ClassId;
use crate::classes::Classes;

const KEY: HashKey = HashKey([3, 5]);
const SETS: u32 = 5;

fn sets() -> impl Strategy<Value = Vec<SetId>> {
    prop::collection::vec((0..SETS).prop_map(SetId), 0..3)
}

fn peer() -> impl Strategy<Value = Option<Peer>> {
    let some = (sets(), sets(), sets())
        .prop_map(|(groups, sets, except)| Some(Peer { groups, sets, except }));
    prop_oneof![2 => Just(None), 3 => some]
}

fn condition() -> impl Strategy<Value = Condition> {
    let mac = || prop_oneof![3 => Just(Vec::new()), 1 => sets()];
    let ethertype = prop_oneof![3 => Just(None), 1 => (0_u16..2).prop_map(Some)];
    (ethertype, peer(), peer(), mac(), mac(), sets()).prop_map(
        |(ethertype, source, destination, source_macs, destination_macs, services)| Condition {
            ethertype,
            source,
            destination,
            source_macs,
            destination_macs,
            services,
        },
    )
}

fn rule() -> impl Strategy<Value = Rule> {
    let passes = prop::bool::weighted(0.2);
    (prop::collection::vec(condition(), 0..3), passes, prop::bool::weighted(0.8))
        .prop_map(|(conditions, passes, names_control)| Rule { conditions, passes, names_control })
}

/// Levels of a few rules each, or of many copies of them.
fn levels() -> impl Strategy<Value = Vec<Vec<Rule>>> {
    let some = prop::collection::vec(prop::collection::vec(rule(), 0..8), 0..4);
    (some, prop_oneof![2 => Just(1_usize), 1 => Just(40)]).prop_map(|(levels, copies)| {
        let mut levels = levels;
        for level in &mut levels {
            // Copies hold of nobody, so that the first that holds is far behind.
            let nobody = Condition { source: Some(Peer::default()), ..Condition::default() };
            let mut many = Vec::new();
            for rule in level.drain(..) {
                for _ in 1..copies {
                    let mut copy = rule.clone();
                    copy.conditions.push(nobody.clone());
                    many.push(copy);
                }
                many.push(rule);
            }
            *level = many;
        }
        levels
    })
}

/// Groups of a port if it is known, and sets of the address; none if it is no IP packet.
type EndSets = Option<(Option<Vec<SetId>>, Vec<SetId>)>;

/// Facts in sets.
#[derive(Clone, Debug)]
struct Packet {
    ethertype: u16,
    is_control: bool,
    ends: [EndSets; 2],
    macs: [Vec<SetId>; 2],
    service: Vec<SetId>,
}

fn packet() -> impl Strategy<Value = Packet> {
    let end = || prop::option::weighted(0.9, (prop::option::of(sets()), sets()));
    let is_control = prop::bool::weighted(0.2);
    (0_u16..3, is_control, [end(), end()], [sets(), sets()], sets()).prop_map(
        |(ethertype, is_control, ends, macs, service)| Packet {
            ethertype,
            is_control,
            ends,
            macs,
            service,
        },
    )
}

fn one_of(wanted: &[SetId], own: &[SetId]) -> bool {
    wanted.iter().any(|set| own.contains(set))
}

fn holds(it: &Condition, packet: &Packet) -> bool {
    let end = |peer: &Option<Peer>, at: usize| {
        let Some(peer) = peer else { return true };
        let Some((groups, address)) = &packet.ends[at] else { return false };
        one_of(&peer.groups, groups.as_ref().unwrap_or(address))
            || one_of(&peer.sets, address) && !one_of(&peer.except, address)
    };
    let listed = |wanted: &[SetId], own: &[SetId]| wanted.is_empty() || one_of(wanted, own);
    it.ethertype.is_none_or(|it| it == packet.ethertype)
        && end(&it.source, 0)
        && end(&it.destination, 1)
        && listed(&it.source_macs, &packet.macs[0])
        && listed(&it.destination_macs, &packet.macs[1])
        && listed(&it.services, &packet.service)
}

fn linear(levels: &[Vec<Rule>], packet: &Packet) -> Option<u32> {
    let mut before = 0;
    for level in levels {
        let first = level.iter().position(|rule| {
            (rule.names_control || !packet.is_control)
                && rule.conditions.iter().all(|it| holds(it, packet))
        });
        if let Some(first) = first.filter(|first| !level[*first].passes) {
            return Some(before + first as u32);
        }
        before += level.len() as u32;
    }
    None
}

/// The classes of a packet.
struct Known {
    ids: Vec<ClassId>,
}

impl Known {
    fn new(classes: &mut Classes, packet: &Packet) -> Self {
        let mut ids = Vec::new();
        for end in &packet.ends {
            let (groups, address) = end.clone().unwrap_or_default();
            ids.push(classes.hold(&groups.unwrap_or_default()));
            ids.push(classes.hold(&address));
        }
        ids.extend(packet.macs.iter().map(|sets| classes.hold(sets)));
        ids.push(classes.hold(&packet.service));
        Self { ids }
    }

    fn facts<'a>(&self, classes: &'a Classes, packet: &Packet) -> Facts<'a> {
        let class = |at: usize| classes.class(self.ids[at]);
        let end = |at: usize| match &packet.ends[at] {
            None => End::Nobody,
            Some((None, _)) => End::Address(class(2 * at + 1)),
            Some((Some(_), _)) => End::Port { groups: class(2 * at), address: class(2 * at + 1) },
        };
        Facts {
            ethertype: packet.ethertype,
            is_control: packet.is_control,
            source: end(0),
            destination: end(1),
            source_mac: class(4),
            destination_mac: class(5),
            service: class(6),
        }
    }
}

/// A packet that is the same in all that was read, and another in the rest.
fn mixed(one: &Packet, other: &Packet, read: Aspects) -> Packet {
    let mut mixed = other.clone();
    if read.contains(Aspect::Ethertype) {
        mixed.ethertype = one.ethertype;
    }
    if read.contains(Aspect::Control) {
        mixed.is_control = one.is_control;
    }
    let ends = [
        (Aspect::Source, Aspect::SourceAddress),
        (Aspect::Destination, Aspect::DestinationAddress),
    ];
    for (at, (end, address)) in ends.into_iter().enumerate() {
        let keeps = |aspect| read.contains(aspect);
        mixed.ends[at] = match (&one.ends[at], &other.ends[at]) {
            (own, _) if keeps(end) && keeps(address) => own.clone(),
            (None, _) if keeps(end) => None,
            (Some((groups, _)), Some((_, address))) if keeps(end) => {
                Some((groups.clone(), address.clone()))
            }
            (own, None) if keeps(end) => own.clone(),
            (_, other) => other.clone(),
        };
    }
    for (at, aspect) in [Aspect::SourceMac, Aspect::DestinationMac].into_iter().enumerate() {
        if read.contains(aspect) {
            mixed.macs[at] = one.macs[at].clone();
        }
    }
    if read.contains(Aspect::Service) {
        mixed.service = one.service.clone();
    }
    mixed
}

proptest! {
    #[test]
    fn a_list_decides_as_a_search_from_its_beginning(
        levels in levels(),
        packets in prop::collection::vec(packet(), 1..12),
        (bitmaps, decisions) in (1_usize..20, 1_usize..20),
    ) {
        let mut list = Decisions::new(&levels, Memory { bitmaps, decisions }, KEY);
        let mut classes = Classes::default();
        for packet in &packets {
            let known = Known::new(&mut classes, packet);
            let found = list.decide(&known.facts(&classes, packet));
            prop_assert_eq!(found.rule, linear(&levels, packet));
            prop_assert_eq!(list.decide(&known.facts(&classes, packet)), found);
            prop_assert_eq!(list.list().first(&known.facts(&classes, packet)), found);
            prop_assert_eq!(list.list().place(&known.facts(&classes, packet)), found.rule);
            for other in &packets {
                // What was not read does not matter.
                let other = mixed(packet, other, found.read);
                prop_assert_eq!(found.rule, linear(&levels, &other));
                let known = Known::new(&mut classes, &other);
                prop_assert_eq!(list.decide(&known.facts(&classes, &other)), found);
            }
        }
    }
}

#[test]
fn what_no_rule_before_the_first_asks_for_is_not_read() {
    let peer = |set| Some(Peer { sets: Vec::from([SetId(set)]), ..Peer::default() });
    let source = Condition { source: peer(0), ..Condition::default() };
    let service = Condition { services: Vec::from([SetId(1)]), ..Condition::default() };
    let level = [source, service].map(|it| Rule {
        conditions: Vec::from([it]),
        names_control: true,
        ..Rule::default()
    });
    let memory = Memory { bitmaps: 8, decisions: 8 };
    let mut list = Decisions::new(&[level.to_vec()], memory, KEY);
    let mut classes = Classes::default();
    let id = classes.hold(&[SetId(0)]);
    let facts = Facts { source: End::Address(classes.class(id)), ..Facts::default() };
    let found = list.decide(&facts);
    assert_eq!(found.rule, Some(0));
    assert!(found.read.contains(Aspect::SourceAddress) && !found.read.contains(Aspect::Service));
    let found = list.decide(&Facts::default());
    assert_eq!(found.rule, None);
    assert!(found.read.contains(Aspect::Service) && !found.read.contains(Aspect::Ethertype));
    assert_eq!((list.list().len(), list.list().is_empty()), (2, false));
}
