//! The fuzzer's attack, fed from property tests.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::network::RULES;

#[path = "../../../../fuzz/src/rules.rs"]
mod rules;

/// A rule file for engines without a library.
const GOOD: &str = "\
type node = text;
input edge(from: node, to: node, cost: int) key(from, to);
input down(node: node);
table reach(from: node, to: node);
output far(from: node, nodes: set node);
output cost(from: node, most: int);
reach(a, b) :- edge(a, b, _), not down(b);
reach(a, c) :- reach(a, b), edge(b, c, _), not_equal(\"a\", c);
far(a, set(b)) :- reach(a, b);
cost(a, max(sum)) :- edge(a, b, one), edge(b, _, two), add(one, two, sum), less(1, sum);
";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn any_bytes_are_read(bytes in vec(any::<u8>(), 0..300)) {
        rules::attack(&bytes);
    }

    #[test]
    fn almost_rules_are_read(
        is_figure in any::<bool>(),
        edits in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4_usize), 1..6),
    ) {
        let text = if is_figure { RULES } else { GOOD };
        let mut words: Vec<&str> = text.split_inclusive([' ', '(', ')', ',', ';']).collect();
        for (one, other, len) in edits {
            let (one, other) = (one.index(words.len()), other.index(words.len()));
            let moved: Vec<&str> = words[one..(one + len).min(words.len())].to_vec();
            words.splice(other..(other + len / 2).min(words.len()), moved);
        }
        rules::attack(words.concat().as_bytes());
    }
}

#[test]
fn what_is_attacked_is_good() {
    rules::attack(GOOD.as_bytes());
    assert!(nlog::Program::parse(&[("good", GOOD)]).is_ok());
}
