//! Which machines a host has, by the names of its agent's ports.

use placement::Pattern;

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
