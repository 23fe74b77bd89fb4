//! What switches are to carry, and through what.

use std::fmt;

use kernel::cycles;
use lab::SwitchKind;
use units::Span;

use super::report::{Config, Load, Ports, Through};
use crate::vhost::frames::{LONGEST_DATAGRAM, SMALLEST};
use crate::{MeasureError, check_switches};

impl Ports {
    /// The switches that have such ports and can be told rules.
    pub const fn switches(self) -> [SwitchKind; 2] {
        match self {
            Self::VhostUser => [SwitchKind::OvsDpdk, SwitchKind::Zovn],
            Self::Container => [SwitchKind::Bridge, SwitchKind::Zovn],
        }
    }

    /// How many flows take turns at most.
    const fn most_flows(self) -> u32 {
        match self {
            Self::VhostUser => 1_000_000,
            Self::Container => 100_000,
        }
    }
}

/// How many rules there can be: as many policies as one port is asked of in an order of its own.
const MOST_RULES: u32 = 100_000;

/// How many connections are begun in a run at most.
const MOST_CONNECTIONS: u32 = 4_000_000;

/// One switch, and what frames pass there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Path {
    pub switch: SwitchKind,
    pub through: Through,
    pub rules: u32,
}

/// What is put on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum What {
    Flows(u32),
    Connect,
    Accept,
    First,
}

impl What {
    pub fn load(self) -> Load {
        match self {
            Self::Flows(_) => Load::Flows,
            Self::Connect => Load::Connect,
            Self::Accept => Load::Accept,
            Self::First => Load::First,
        }
    }

    pub fn flows(self) -> Option<u32> {
        match self {
            Self::Flows(flows) => Some(flows),
            Self::Connect | Self::Accept | Self::First => None,
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { switch, through, rules } = self;
        write!(f, "{switch} through {through}")?;
        if through.has_rules() { write!(f, " of {rules} rules") } else { Ok(()) }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flows(1) => f.write_str("1 flow"),
            Self::Flows(flows) => write!(f, "{flows} flows"),
            Self::Connect => f.write_str("new connections"),
            Self::Accept => f.write_str("connections of TCP"),
            Self::First => f.write_str("first packets"),
        }
    }
}

/// All paths, those of all switches through the same beside each other.
pub fn paths(config: &Config) -> Vec<Path> {
    let mut paths = Vec::new();
    for &through in &config.through {
        let rules = match through {
            Through::Acl => &config.rules[..],
            Through::Stateful => &config.rules[..1],
            Through::Plain | Through::L2 | Through::Routed | Through::Nat => &[0],
        };
        for &rules in rules {
            paths.extend(config.switches.iter().map(|&switch| Path { switch, through, rules }));
        }
    }
    paths
}

/// All that is put on a path.
pub fn loads(config: &Config, path: &Path) -> Vec<What> {
    let put = config.loads.iter().filter(|load| load.is_put_on(path.through, config.ports));
    put.flat_map(|load| match load {
        Load::Flows => config.flows.iter().copied().map(What::Flows).collect(),
        Load::Connect => vec![What::Connect],
        Load::Accept => vec![What::Accept],
        Load::First => vec![What::First],
    })
    .collect()
}

/// Refuses what cannot be measured, before any switch is up.
pub fn check(config: &Config) -> Result<(), MeasureError> {
    let wrong = |what: String| Err(MeasureError::Config(what));
    let Config { ports, through, rules, flows, loads: put, size, connections, .. } = config;
    if through.is_empty() || rules.is_empty() || flows.is_empty() || config.rounds == 0 {
        return wrong("a measurement of policies needs a path, rules, a flow and a round".into());
    }
    if config.duration == Span::ZERO {
        return wrong("a run lasts some time".into());
    }
    if !(SMALLEST..=LONGEST_DATAGRAM).contains(size) {
        return wrong(format!("a datagram has {SMALLEST} to {LONGEST_DATAGRAM} bytes, not {size}"));
    }
    for (what, most, numbers) in [
        ("rules", MOST_RULES, &rules[..]),
        ("flows", ports.most_flows(), &flows[..]),
        ("connections", MOST_CONNECTIONS, &[*connections]),
    ] {
        if let Some(number) = numbers.iter().find(|number| !(1..=most).contains(*number)) {
            return wrong(format!("there are 1 to {most} {what}, not {number}"));
        }
    }
    let is_put = |load: &Load| through.iter().any(|it| load.is_put_on(*it, *ports));
    if let Some(load) = put.iter().find(|load| !is_put(load)) {
        let needs = match (ports, load) {
            (Ports::Container, _) => "between virtual machines only",
            (_, Load::First) => "through `acl`: add it",
            _ => "through `stateful` and `nat`: add one of them",
        };
        return wrong(format!("`{load}` is measured {needs}, or leave {load} out"));
    }
    if put.is_empty() {
        return wrong(
            "name something to put on the switches: flows, connect, accept, first".into(),
        );
    }
    if *ports == Ports::VhostUser && cycles::now().is_none() {
        return wrong(
            "virtual machines' ports are measured by a time stamp counter, which this processor lacks".into(),
        );
    }
    check_switches(&config.switches, &ports.switches(), "such ends of which it can be told rules")?;
    if config.switches.contains(&SwitchKind::Bridge) {
        lab::nft()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            switches: vec![SwitchKind::Zovn],
            ports: Ports::VhostUser,
            through: Through::ALL.to_vec(),
            rules: vec![10, 1000],
            flows: vec![1, 1000],
            loads: Load::ALL.to_vec(),
            size: 64,
            connections: 1000,
            duration: Span::from_secs(1),
            rounds: 1,
        }
    }

    #[test]
    fn switches_stand_beside_each_other_and_only_rules_have_numbers() {
        let switches = vec![SwitchKind::Zovn, SwitchKind::OvsDpdk];
        let paths = paths(&Config { switches, ..config() });
        let told: Vec<_> = paths.iter().map(|path| (path.through, path.rules)).collect();
        let each = [
            (Through::Plain, 0),
            (Through::L2, 0),
            (Through::Acl, 10),
            (Through::Acl, 1000),
            (Through::Stateful, 10),
            (Through::Routed, 0),
            (Through::Nat, 0),
        ];
        assert_eq!(told, each.into_iter().flat_map(|it| [it, it]).collect::<Vec<_>>());
        assert_ne!(paths[0].switch, paths[1].switch);
        assert_eq!(paths[4].to_string(), "zovn through acl of 10 rules");
    }

    #[test]
    fn loads_are_put_where_they_have_a_meaning() {
        let of = |through| loads(&config(), &Path { switch: SwitchKind::Zovn, through, rules: 1 });
        let flows = [What::Flows(1), What::Flows(1000)];
        let and = |others: &[What]| [&flows[..], others].concat();
        assert_eq!(of(Through::Plain), and(&[What::Accept]));
        assert_eq!(of(Through::Stateful), and(&[What::Connect, What::Accept]));
        assert_eq!(of(Through::Nat), of(Through::Stateful));
        assert_eq!(of(Through::Acl), and(&[What::Accept, What::First]));
        let containers = Config { ports: Ports::Container, ..config() };
        let path = Path { switch: SwitchKind::Zovn, through: Through::Stateful, rules: 1 };
        assert_eq!(loads(&containers, &path), and(&[What::Accept]));
    }

    #[test]
    fn what_cannot_be_measured_is_said_with_what_can() {
        let said = |change: &dyn Fn(&mut Config)| {
            let mut config = config();
            change(&mut config);
            check(&config).map_err(|error| error.to_string())
        };
        assert_eq!(said(&|_| ()), Ok(()));
        type Change = fn(&mut Config);
        let wrong: [(Change, &str); 13] = [
            (|config| config.switches = vec![SwitchKind::Testpmd], "ovs-dpdk, zovn"),
            (|config| config.switches = vec![SwitchKind::Zovn; 2], "each once"),
            (|config| config.rules = vec![10, 100_001], "1 to 100000 rules"),
            (|config| config.flows = vec![0], "1 to 1000000 flows"),
            (|config| config.connections = 4_000_001, "1 to 4000000 connections"),
            (|config| config.size = 1515, "64 to 1514"),
            (|config| config.duration = Span::ZERO, "some time"),
            (|config| config.rounds = 0, "a round"),
            (
                |config| config.through = vec![Through::Acl],
                "`connect` is measured through `stateful`",
            ),
            (|config| config.ports = Ports::Container, "between virtual machines only"),
            (
                |config| {
                    config.ports = Ports::Container;
                    config.loads = vec![Load::Flows];
                    config.flows = vec![100_001];
                },
                "1 to 100000 flows",
            ),
            (
                |config| {
                    config.ports = Ports::Container;
                    config.loads = vec![Load::Flows];
                    config.switches = vec![SwitchKind::OvsDpdk];
                },
                "bridge, zovn",
            ),
            (|config| config.loads.clear(), "flows, connect, accept, first"),
        ];
        for (change, word) in wrong {
            let error = said(&change).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
