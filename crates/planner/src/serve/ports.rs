//! Which machines a host has, by the names of its agent's ports.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::MOST_PORTS;
use placement::Pattern;

/// The ports of a host. One that is missing counts for a while: an agent that starts again has its
/// ports one by one, and some of them only when its controller has said their networks.
#[derive(Clone, Debug, Default)]
pub struct Ports(BTreeMap<String, Option<Instant>>);

impl Ports {
    /// These are there `now`. One that is not any more counts until it has been missing for `keep`,
    /// and at two readings.
    pub fn see(&mut self, now: Instant, there: impl IntoIterator<Item = String>, keep: Duration) {
        for missing_since in self.0.values_mut() {
            missing_since.get_or_insert(now);
        }
        self.0.extend(there.into_iter().map(|name| (name, None)));
        let counts = |since: Instant| since == now || now.duration_since(since) < keep;
        self.0.retain(|_, missing_since| missing_since.is_none_or(counts));
        // Memory is bounded, whatever names an agent makes up.
        let mut missing: Vec<Instant> = self.0.values().flatten().copied().collect();
        if let Some(too_many) = missing.len().checked_sub(MOST_PORTS) {
            missing.sort_unstable();
            let first = missing.get(too_many).copied();
            self.0.retain(|_, since| since.is_none_or(|it| Some(it) >= first));
        }
    }

    /// The names of those that count.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// The machines of a host with these ports, by place among the plan's. Each port is a machine, of
/// the first of `known` whose pattern its name has; one of no pattern is none of the plan's.
pub fn machines<'a>(
    known: &[(String, usize)],
    ports: impl IntoIterator<Item = &'a str>,
) -> Pattern {
    let of_port = |name: &str| known.iter().find(|(pattern, _)| has(name, pattern)).map(|it| it.1);
    Pattern::new(ports.into_iter().filter_map(|name| Some((of_port(name)?, 1))))
}

/// Whether a name is as a pattern says, in which `*` stands for any characters.
fn has(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    // The first place of each is the one that leaves most to the others.
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_counts_until_it_has_been_missing_for_long_and_twice() {
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        let all = || ["a", "b"].map(str::to_owned);
        for keep in [0, 10].map(|it| it * second) {
            let mut ports = Ports::default();
            ports.see(begun, all(), keep);
            // An hour later, as the agent has not answered, it has none yet; then one.
            let again = begun + 3600 * second;
            ports.see(again, [], keep);
            assert_eq!(ports.names().collect::<Vec<_>>(), ["a", "b"]);
            ports.see(again + second, all().into_iter().take(1), keep);
            let kept: &[&str] = if keep > second { &["a", "b"] } else { &["a"] };
            assert_eq!(ports.names().collect::<Vec<_>>(), kept);
            // What is missing for so long is gone, and what has come back is not.
            ports.see(again + 10 * second, all().into_iter().take(1), keep);
            assert_eq!(ports.names().collect::<Vec<_>>(), ["a"]);
        }
    }

    #[test]
    fn names_that_an_agent_makes_up_are_forgotten() {
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        let mut ports = Ports::default();
        for reading in 0..5 {
            let names = (0..MOST_PORTS).map(|port| format!("{reading}-{port}"));
            ports.see(begun + reading * second, names, 3600 * second);
            assert!(ports.names().count() <= 2 * MOST_PORTS);
        }
        // The ones before are missing for the shortest time.
        assert!(ports.names().any(|it| it == "3-0") && ports.names().all(|it| it != "2-0"));
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name) in [
            ("web-*", "web-1"),
            ("web-*", "web-"),
            ("*", ""),
            ("*", "ä"),
            ("a*b*a", "aba"),
            ("a*b*b", "abbb"),
            ("*-eth0", "x-eth0"),
            ("web", "web"),
        ] {
            assert!(has(name, pattern), "{name} is as {pattern}");
        }
        for (pattern, name) in [
            ("web-*", "web"),
            ("web", "web-1"),
            ("", "a"),
            ("ab*ba", "aba"),
            ("a*b*b", "ab"),
            ("*-eth0", "x-eth1"),
            ("w*", "a-w"),
        ] {
            assert!(!has(name, pattern), "{name} is as {pattern}");
        }
    }

    #[test]
    fn each_port_is_of_the_first_pattern_that_it_has() {
        let known = [("db-*".to_owned(), 1), ("*".to_owned(), 0)];
        let ports = ["db-1", "web-1", "x", "db-2"];
        assert_eq!(machines(&known, ports), Pattern::new([(0, 2), (1, 2)]));
        assert_eq!(machines(&known[..1], ports), Pattern::new([(1, 2)]));
        assert!(machines(&[], ports).is_empty());
    }
}
