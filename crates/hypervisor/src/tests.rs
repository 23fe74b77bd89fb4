//! The rules make what the compiler makes, and tell what changes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use compiler::compile;
use image::{Change, Domain, Group};
use logical::objects::Identity;
use logical::{Object, load, read};
use proptest::prelude::*;
use units::{Rng, hash};
use worlds::{CORNERS, World};

use crate::profile::profile;
use crate::{Changes, Edit, Hypervisor};

/// A hypervisor, what it was told, and how often.
struct Followed {
    hypervisor: Hypervisor,
    objects: BTreeMap<Identity, Arc<Object>>,
    revision: u64,
}

impl Followed {
    fn new() -> Self {
        Self { hypervisor: Hypervisor::new(1), objects: BTreeMap::new(), revision: 0 }
    }

    /// Has a text be what is declared. Whatever was before, the image is what the compiler makes of
    /// the text, and what is told is how the one image differs from the other.
    fn follow(&mut self, text: &str) -> Changes {
        let topology = load(text).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"));
        let objects = read(text).objects.into_iter();
        let next: BTreeMap<_, _> = objects.map(|it| (it.identity(), Arc::new(it))).collect();
        let gone = self.objects.keys().filter(|id| !next.contains_key(*id));
        let gone: Vec<_> = gone.cloned().map(Edit::remove).collect();
        let put = next.iter().filter(|(id, it)| self.objects.get(*id) != Some(*it));
        let put: Vec<_> = put.map(|(_, it)| Edit::put(it.clone())).collect();
        self.objects = next;
        self.revision += 1;
        let before = self.hypervisor.image().clone();
        let changes = self.hypervisor.commit(self.revision, gone.into_iter().chain(put));
        let after = compile(&topology);
        assert_eq!(*self.hypervisor.image(), after, "{text}");
        assert_eq!(changes, differences(&before, &after), "{text}");
        assert_eq!(self.hypervisor.rows(), after.values().map(Domain::len).sum::<usize>());
        changes
    }
}

fn differences(before: &BTreeMap<Identity, Domain>, after: &BTreeMap<Identity, Domain>) -> Changes {
    let none = Domain::default();
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let each = names.into_iter().map(|name| {
        let [before, after] = [before, after].map(|it| it.get(name).unwrap_or(&none));
        (name.clone(), before.diff(after))
    });
    each.filter(|(_, changes)| !changes.is_empty()).collect()
}

/// A text without some of its lines, and without those that cannot be without them.
fn without(lines: &[&str], gone: &mut BTreeSet<usize>) -> String {
    loop {
        let left: Vec<_> = (0..lines.len()).filter(|at| !gone.contains(at)).collect();
        let text: String = left.iter().map(|at| format!("{}\n", lines[*at])).collect();
        let text = if text.is_empty() { "[]".to_string() } else { text };
        match load(&text) {
            Ok(_) => return text,
            Err(faults) => gone.extend(faults.iter().filter_map(|it| Some(left[it.index?]))),
        }
    }
}

#[test]
fn what_is_declared_and_taken_away_again_leaves_nothing() {
    let mut followed = Followed::new();
    followed.follow(CORNERS);
    let full = followed.hypervisor.tuples();
    assert!(full > 200, "{full}");
    followed.follow("[]");
    assert_eq!(followed.hypervisor.tuples(), 0);
    followed.follow(CORNERS);
    assert_eq!(followed.hypervisor.tuples(), full);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// After any edits of a random world, and after a leap to another one, the image is the
    /// compiler's.
    #[test]
    fn the_image_is_the_compilers_after_any_edits(seed: u64) {
        let mut rng = Rng::new(seed);
        let mut followed = Followed::new();
        for _ in 0..2 {
            let mut world = World::new(rng.next_u64());
            followed.follow(&world.text);
            for _ in 0..4 {
                world = world.edited(&mut rng);
                followed.follow(&world.text);
            }
        }
    }

    /// The same of what worlds say nothing of: objects come and go, some at a time.
    #[test]
    fn the_image_is_the_compilers_whatever_is_there(seed: u64) {
        let lines: Vec<_> = CORNERS.lines().collect();
        let mut rng = Rng::new(seed);
        let mut below = |end: usize| usize::try_from(rng.below(end as u64)).unwrap();
        let mut followed = Followed::new();
        let mut gone: BTreeSet<usize> = BTreeSet::new();
        for _ in 0..12 {
            gone.retain(|_| below(2) == 0);
            gone.extend((0..1 + below(3)).map(|_| below(lines.len())));
            followed.follow(&without(&lines, &mut gone));
        }
    }

    /// Names that make one Ethernet address, and a declared address that is in their way.
    #[test]
    fn addresses_that_names_make_are_given_in_order(present in proptest::collection::vec(0..64u8, 1..6)) {
        let [one, other] = ALIKE;
        let [number, same] = ALIKE.map(|it| hash::fnv1a_32(format!("LogicalPort/t/{it}").as_bytes()));
        prop_assert_eq!(number, same);
        let after = units::Mac::local(number.wrapping_add(1));
        let head = "\
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: a, tenant: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: b, tenant: t}, spec: {}}
";
        let ports = [
            format!("{{name: {one}, tenant: t}}, spec: {{switch: a, vif: {{}}, addresses: [10.0.0.1]}}"),
            format!("{{name: {other}, tenant: t}}, spec: {{switch: a, vif: {{}}}}"),
            format!("{{name: f, tenant: t}}, spec: {{switch: a, vif: {{}}, mac: '{after}'}}"),
            format!("{{name: g, tenant: t}}, spec: {{switch: b, vif: {{}}, mac: '{after}'}}"),
            format!("{{name: {other}, tenant: t}}, spec: {{switch: b, vif: {{}}}}"),
            "{name: h, tenant: t}, spec: {switch: a, vif: {}}".to_string(),
        ];
        let mut followed = Followed::new();
        for present in present {
            let is_there = |at: &usize| present >> at & 1 == 1 && (*at != 4 || present & 2 == 0);
            let text: Vec<_> = (0..ports.len()).filter(is_there).map(|at| format!("- {{kind: LogicalPort, metadata: {}}}\n", ports[at])).collect();
            followed.follow(&format!("{head}{}", text.concat()));
        }
    }
}

/// Two ports whose names make one Ethernet address.
const ALIKE: [&str; 2] = ["p278357", "p1092240"];

/// A switch of so many ports, all in a group, and policies that speak of the group.
fn many(ports: usize, policies: usize) -> String {
    let mut text = String::from(
        "- {kind: Tenant, metadata: {name: t}, spec: {}}\n\
         - {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {}}\n",
    );
    for n in 0..=ports {
        text += &format!(
            "- {{kind: LogicalPort, metadata: {{name: p{n}, tenant: t}}, spec: {{switch: s, vif: {{}}}}}}\n"
        );
    }
    let names: Vec<_> = (0..ports).map(|n| format!("p{n}")).collect();
    let names = names.join(", ");
    text += &format!(
        "- {{kind: PortGroup, metadata: {{name: g, tenant: t}}, spec: {{ports: [{names}]}}}}\n"
    );
    for n in 0..policies {
        text += &format!(
            "- {{kind: Policy, metadata: {{name: q{n}, tenant: t}}, spec: {{appliesTo: {{ports: [p0]}}, \
             rules: [{{name: a, direction: toPort, action: allow, peer: {{groups: [g]}}}}]}}}}\n"
        );
    }
    text
}

#[test]
fn a_member_is_one_row_and_few_tuples_however_many_rules_speak_of_it() {
    let mut followed = Followed::new();
    let text = many(50, 20);
    followed.follow(&text);
    let changes = followed.follow(&text.replace("ports: [p0, p1,", "ports: [p0, p50, p1,"));
    let all: Vec<_> = changes.values().flatten().collect();
    assert!(matches!(all[..], [Change::Member((Group::Named(_), _), Some(_))]), "{all:?}");
    let counters = followed.hypervisor.counters();
    assert_eq!(counters.flips, 3, "the input, that it is in the group, and the row");
}

#[test]
fn a_profile_says_which_rules_edits_ask() {
    let profile = profile(&read(&many(9, 2)).objects, 100);
    assert_eq!(profile.edits, 2 * 3, "of two policies and the port that is in no group");
    let of = |name: &'static str| profile.rules.iter().filter(move |it| it.rule.message == name);
    assert_eq!(of("station_row").map(|it| it.cold.derivations).sum::<u64>(), 10);
    assert_eq!(of("station_row").map(|it| it.edits.derivations).sum::<u64>(), 2);
    assert_eq!(of("route_row").map(|it| it.edits.runs).sum::<u64>(), 0);
    let none = crate::profile::profile(&[], 100);
    assert_eq!((none.edits, none.tuples), (0, 0));
}

#[test]
fn what_makes_no_other_row_tells_nothing() {
    let mut followed = Followed::new();
    followed.follow(CORNERS);
    let noted = CORNERS.replace("name: v1, tenant: t,", "name: v1, tenant: t, displayName: one,");
    assert_eq!(followed.follow(&noted), Changes::new());
    assert!(followed.hypervisor.counters().flips > 0, "it was looked at");
}
