//! Reads `host.toml`, and reports errors with their place in the file.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use model::{
    AgentSettings, HostConfig, InvalidConfig, InvalidNetwork, LogicalSettings, NetworkSpec,
    PortSpec, Position, Uplink, check_networks, mistake,
};
use serde::Deserialize;
use toml::Spanned;

use crate::logical;
use crate::networks::{Capacity, promise};

/// Why a file is not a valid host declaration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read {}: name a file that exists and that you may read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// What it says of logical networks cannot stand.
    #[error(transparent)]
    Logical(#[from] logical::StartError),
    /// Its contents are invalid.
    #[error("{}:{line}: `{text}`: {what}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The text of the line.
        text: String,
        /// The error, and what to write instead.
        what: String,
    },
}

/// Reads and checks a host's declaration.
///
/// # Errors
///
/// [`ConfigError`] names the file, the line and its text, and says what to write instead.
pub fn load(path: &Path) -> Result<HostConfig, ConfigError> {
    let mut config = read(path, HostFile::checked)?;
    // Its files lie where it does, unless they say otherwise.
    let folder = path.parent().unwrap_or(Path::new(""));
    for file in &mut config.logical.files {
        if let Some(path) = folder.join(&*file).to_str() {
            *file = path.to_owned();
        }
    }
    logical::check(&config.logical)?;
    Ok(config)
}

/// Reads and checks a file of virtual networks alone; `-` is the standard input.
///
/// # Errors
///
/// [`ConfigError`], as of [`load`].
pub fn load_networks(path: &Path) -> Result<Vec<NetworkSpec>, ConfigError> {
    read(path, HostFile::checked_networks)
}

/// Reads a file and passes it to `check`.
fn read<T>(path: &Path, check: fn(HostFile) -> Result<T, Mistake>) -> Result<T, ConfigError> {
    let (path, text) = match path.to_str() {
        Some("-") => (Path::new("the standard input"), io::read_to_string(io::stdin())),
        _ => (path, fs::read_to_string(path)),
    };
    let text = text.map_err(|source| ConfigError::Read { path: path.into(), source })?;
    parse(&text).and_then(check).map_err(|Mistake { place, what }| {
        let Position { line, text, .. } = Position::of(&text, place.start);
        let what = brackets(text, &what).unwrap_or(what);
        ConfigError::Wrong { path: path.into(), line, text: text.to_owned(), what }
    })
}

/// The file as in `model::HostConfig`, with the place of each part.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    agent: Option<Spanned<AgentSettings>>,
    uplink: Option<Spanned<Uplink>>,
    logical: Option<Spanned<LogicalSettings>>,
    #[serde(default)]
    network: Vec<Spanned<NetworkSpec>>,
    #[serde(default)]
    port: Vec<Spanned<PortSpec>>,
}

/// An error and its place in the text.
struct Mistake {
    place: Range<usize>,
    what: String,
}

fn parse(text: &str) -> Result<HostFile, Mistake> {
    toml::from_str(text).map_err(|error| Mistake {
        place: error.span().unwrap_or_default(),
        what: mistake::plain(&error.message().trim_end().replace('\n', ", ")),
    })
}

/// The tables that a file has at most one of.
const SINGLE: [&str; 3] = ["agent", "uplink", "logical"];

/// What to write instead of a header of a table that has one pair of brackets too few or too many.
fn brackets(header: &str, what: &str) -> Option<String> {
    let single = |header: &str| Some(header.strip_prefix('[')?.strip_suffix(']')?.to_owned());
    match single(header).map(|name| (single(&name), name)) {
        Some((Some(name), _)) if SINGLE.contains(&name.as_str()) => {
            Some(format!("there is one of these: write it as `[{name}]`"))
        }
        Some((None, name)) if what.starts_with("this is a table: write a list") => {
            Some(format!("there may be several of these: write each as `[[{name}]]`"))
        }
        _ => None,
    }
}

impl HostFile {
    fn checked(self) -> Result<HostConfig, Mistake> {
        let agent_place = self.agent.as_ref().map(Spanned::span).unwrap_or_default();
        let uplink_place = self.uplink.as_ref().map(Spanned::span).unwrap_or_default();
        let logical_place = self.logical.as_ref().map(Spanned::span).unwrap_or_default();
        let (networks, network_places) = apart(self.network);
        let (ports, port_places) = apart(self.port);
        let agent = self.agent.map(Spanned::into_inner).unwrap_or_default();
        let uplink = self.uplink.map(Spanned::into_inner);
        let logical = self.logical.map(Spanned::into_inner).unwrap_or_default();
        let config = HostConfig { agent, uplink, logical, networks, ports };
        let promised = || {
            let capacity = Capacity::new(config.uplink.as_ref());
            promise(&config.networks, &config.ports, config.vtep(), &capacity)
        };
        config.check().and_then(|()| promised().map(drop)).map_err(|error| {
            let place = match &error {
                InvalidConfig::Agent(_) => agent_place,
                InvalidConfig::Logical(_) => logical_place,
                InvalidConfig::Uplink(_) | InvalidConfig::Promises { network: None, .. } => {
                    uplink_place
                }
                InvalidConfig::NoUplink => network_places.first().cloned().unwrap_or_default(),
                // Of two with the same name, the later one.
                InvalidConfig::Network(InvalidNetwork { network: name, .. })
                | InvalidConfig::Promises { network: Some(name), .. } => {
                    last(&config.networks, &network_places, |network| network.name == *name)
                }
                InvalidConfig::DuplicatePort(name)
                | InvalidConfig::DuplicateMac { port: name, .. }
                | InvalidConfig::DuplicateAddress { port: name, .. }
                | InvalidConfig::DuplicateInterface { port: name, .. }
                | InvalidConfig::DuplicateHostInterface { port: name, .. }
                | InvalidConfig::MemberAddress { port: name, .. }
                | InvalidConfig::PortClass { port: name, .. }
                | InvalidConfig::TooManyPorts { port: name, .. }
                | InvalidConfig::DuplicateSocket { port: name, .. }
                | InvalidConfig::DuplicateLabel { port: name, .. }
                | InvalidConfig::DuplicateLogical { port: name, .. }
                | InvalidConfig::UnknownNetwork { port: name, .. }
                | InvalidConfig::NoMember { port: name, .. }
                | InvalidConfig::PortPromises { port: name, .. }
                | InvalidConfig::Port { port: name, .. } => {
                    last(&config.ports, &port_places, |port| port.name == *name)
                }
            };
            Mistake { place, what: error.to_string() }
        })?;
        Ok(config)
    }

    fn checked_networks(self) -> Result<Vec<NetworkSpec>, Mistake> {
        let agent = self.agent.as_ref().map(Spanned::span);
        let uplink = self.uplink.as_ref().map(Spanned::span);
        let logical = self.logical.as_ref().map(Spanned::span);
        let port = self.port.first().map(Spanned::span);
        if let Some(place) =
            [agent, uplink, logical, port].into_iter().flatten().min_by_key(|it| it.start)
        {
            let what = "a file of networks has `[[network]]` alone: an agent reads the rest when it starts";
            return Err(Mistake { place, what: what.into() });
        }
        let (networks, places) = apart(self.network);
        check_networks(&networks, None).map_err(|error| {
            let place = last(&networks, &places, |network| network.name == error.network);
            Mistake { place, what: error.to_string() }
        })?;
        Ok(networks)
    }
}

/// Parts of a file, and their places.
fn apart<T>(parts: Vec<Spanned<T>>) -> (Vec<T>, Vec<Range<usize>>) {
    let apart = |part: Spanned<T>| {
        let place = part.span();
        (part.into_inner(), place)
    };
    parts.into_iter().map(apart).unzip()
}

/// The place of the last part that an error is about.
fn last<T>(parts: &[T], places: &[Range<usize>], is_meant: impl Fn(&T) -> bool) -> Range<usize> {
    let place = parts.iter().rposition(is_meant);
    place.and_then(|place| places.get(place)).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: &str =
        "[[port]]\nname = 'a'\nattach = { kind = 'container', netns = 'a', interface = 'eth0' }\n";

    fn example() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/host.toml")
    }

    fn complaint(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host.toml");
        fs::write(&path, text).unwrap();
        let error = load(&path).unwrap_err().to_string();
        error.replace(path.to_str().unwrap(), "host.toml")
    }

    #[test]
    fn the_example_is_a_valid_declaration() {
        let example = load(&example()).unwrap();
        assert!(!example.ports.is_empty());
    }

    #[test]
    fn what_the_example_says_is_what_holds_without_it() {
        let example = load(&example()).unwrap();
        assert_eq!(example.agent, AgentSettings::default());
        assert_eq!(example.logical, LogicalSettings::default());
        let full = &example.ports[1];
        let bare = PortSpec::new(full.name.clone(), full.attach.clone());
        assert_eq!(*full, PortSpec { rate: full.rate, ..bare });
        let uplink = example.uplink.unwrap();
        assert_eq!(uplink, Uplink::new(uplink.vtep.clone()));
    }

    #[test]
    fn what_the_example_leaves_out_can_be_said() {
        let text = fs::read_to_string(example()).unwrap();
        // Some parts can be written in two ways.
        let text = ["egress", "scheduling"]
            .iter()
            .fold(text, |text, key| text.replace(&format!("\n{key} = "), "\n# was = "));
        let keys = [
            "metrics",
            "class",
            "send_rate",
            "egress",
            "quota",
            "scheduling",
            "pinned",
            "antispoof",
            "network",
            "label",
            "mtu",
        ];
        let said = keys.iter().fold(text, |text, key| {
            let (old, new) = (format!("\n# {key} = "), format!("\n{key} = "));
            assert!(text.contains(&old), "{key}");
            text.replace(&old, &new)
        });
        let config = parse(&said).and_then(HostFile::checked).ok().unwrap();
        assert_eq!((config.ports[1].quota, config.ports[1].pinned.len()), (Some(256), 2));
        assert_eq!(config.agent.metrics, Some("127.0.0.1:9109".parse().unwrap()));
        assert_eq!((config.ports[1].label, config.uplink.unwrap().mtu), (Some(2), Some(1500)));
    }

    #[test]
    fn nothing_at_all_is_a_host_without_ports() {
        let nothing = parse("").and_then(HostFile::checked);
        assert_eq!(nothing.ok().unwrap(), HostConfig::default());
    }

    #[test]
    fn a_wrong_unit_is_shown_where_it_stands() {
        assert_eq!(
            complaint(&format!("{PORT}rate = '0gbit'\n")),
            "host.toml:4: `rate = '0gbit'`: `0gbit` is not a rate above zero: write it as 1gbit, 100mbit or 2.5gbit"
        );
    }

    #[test]
    fn an_unknown_word_is_shown_with_those_that_are_known() {
        let error = complaint("[agent]\npoling = 'always'\n");
        assert!(error.ends_with("`poling` is not known here: did you mean `polling`?"), "{error}");
        assert!(error.starts_with("host.toml:2: `poling = 'always'`: "), "{error}");
    }

    #[test]
    fn what_is_of_another_kind_is_told_what_to_write() {
        let agent = |line: &str| complaint(&format!("[agent]\n{line}\n"));
        let port = |line: &str| complaint(&format!("{PORT}{line}\n"));
        let uplink = |line: &str| complaint(&format!("[uplink]\nvtep = '192.0.2.1'\n{line}\n"));
        for (error, sentence) in [
            (
                agent("stall_after = 10"),
                "`10` is not a length of time: write it as 10s, 300ms, 50us or 2min",
            ),
            (
                agent("metrics = '9109'"),
                "`9109` is not an address and a port: write it as 127.0.0.1:9109 or [::1]:9109",
            ),
            (
                agent("metrics = 9109"),
                "`9109` is not an address and a port: write it as 127.0.0.1:9109 or [::1]:9109",
            ),
            (
                agent("classes = ['lossless']"),
                "this is a list of length 1: write eight values in brackets, one for each class, class 0 first",
            ),
            (
                agent("classes = 'lossless'"),
                "this is the word \"lossless\": write eight values in brackets, one for each class, class 0 first",
            ),
            (agent("polling = 5"), "this is no word: write one in quotes"),
            (agent("udp_gate = 'yes'"), "this is the word \"yes\": write true or false"),
            (agent("socket = 7"), "this is the whole number `7`: write a word in quotes"),
            (
                port("vlan = 7"),
                "this is the whole number `7`: write VLANs, as { access = 7 } or { trunk = [7, 8], native = 9 }",
            ),
            (port("rate = 1000"), "`1000` is not a rate: write it as 1gbit, 100mbit or 2.5gbit"),
            (
                port("rate = '1gbps'"),
                "`1gbps` is not a rate: write it as 1gbit, 100mbit or 2.5gbit",
            ),
            (port("rate = 2.5"), "`2.5` is not a rate: write it as 1gbit, 100mbit or 2.5gbit"),
            (
                port("quota = '64'"),
                "this is the word \"64\": write a whole number from 0 to 4294967295",
            ),
            (port("class = 8"), "this is the whole number `8`: write a class, from 0 to 7"),
            (port("class = 'gold'"), "this is the word \"gold\": write a class, from 0 to 7"),
            (
                port("egress = 64"),
                "this is the whole number `64`: write bounds of a queue, as { frames = 1024 }",
            ),
            (
                port("storm = 64"),
                "this is the whole number `64`: write limits of what is flooded, as { broadcast = 1000 }",
            ),
            (port("scheduling = 7"), "this is no word: write one in quotes"),
            (port("scheduling = 'strickt'"), "`strickt` is not known here: did you mean `strict`?"),
            (
                uplink("key = 'secret'"),
                "this is the word \"secret\": write where the key is, as { file = \"/etc/zovn/tunnel.key\" }",
            ),
            (
                uplink("dscp = [1]"),
                "this is a list of length 1: write eight values in brackets, one for each class, class 0 first",
            ),
            (
                uplink("dscp = 64"),
                "this is the whole number `64`: write eight values in brackets, one for each class, class 0 first",
            ),
            (
                uplink("encapsulation = 'genev'"),
                "`genev` is not known here: did you mean `geneve`?",
            ),
            (
                complaint("[port]\nname = 'a'\n"),
                "there may be several of these: write each as `[[port]]`",
            ),
            (
                complaint("[[agent]]\nspin = '1us'\n"),
                "there is one of these: write it as `[agent]`",
            ),
            (
                complaint("[[ports]]\nname = 'a'\n"),
                "`ports` is not known here: did you mean `port`?",
            ),
            (
                complaint(&NETWORK.replace("'10.0.0.1'", "'10.0.0.1/24'")),
                "`10.0.0.1/24` is not an address without a prefix: write it as 10.0.0.1 or fd00::1",
            ),
            (
                complaint(&NETWORK.replace("['10.0.0.1']", "'10.0.0.1'")),
                "this is the word \"10.0.0.1\": write a list, in brackets",
            ),
            (
                complaint(&PORT.replace(" }", ", addresses = ['10.0.0.1'] }")),
                "`10.0.0.1` is not an address with a prefix: write it as 10.0.0.1/24 or fd00::1/64",
            ),
            (
                complaint(&PORT.replace(" }", ", routes = ['0.0.0.0/0'] }")),
                "this is the word \"0.0.0.0/0\": write a route, as { to = \"0.0.0.0/0\", via = \"10.0.0.254\" }",
            ),
            (
                complaint(&PORT.replace("'container'", "'pod'")),
                "`pod` is not known here: write one of container, vhost-user, interface",
            ),
        ] {
            let (place, what) = error.split_once("`: ").unwrap();
            assert_eq!(what, sentence, "{place}");
        }
    }

    #[test]
    fn frames_that_nobody_can_promise_are_refused_in_a_sentence() {
        let share = |packets: &str| {
            complaint(&format!(
                "[uplink]\nvtep = '192.0.2.1'\n[[network]]\nname = 'blue'\nvni = 1\nshare = {{ min_packets = {packets} }}\n\
                 [[network.member]]\nmac = '02:00:00:00:00:01'\nvtep = '192.0.2.1'\nlabel = 1\n"
            ))
        };
        let number = "write a whole number from 0 to 4294967295";
        let bounds = "lies outside 1 to 50000000 frames a second: leave it out for none";
        for (packets, sentence) in [
            ("-1", number),
            ("1.5", number),
            ("5_000_000_000", number),
            ("'many'", number),
            ("0", bounds),
            ("50_000_001", bounds),
            (
                "400_000",
                "`min_packets` of all networks takes 120.00 % of a processor, and may take 85.00 %; most have `blue` \
                 (400000/s): lower one of these",
            ),
        ] {
            let error = share(packets);
            assert!(error.ends_with(sentence), "{packets}: {error}");
        }
    }

    #[test]
    fn a_promise_that_cannot_hold_is_shown_at_the_network_that_has_most_of_it() {
        let network = |name: &str, vni: u32, min: &str| {
            format!(
                "[[network]]\nname = '{name}'\nvni = {vni}\nshare = {{ min = '{min}' }}\n\
                 [[network.member]]\nmac = '02:00:00:00:00:0{vni}'\nvtep = '192.0.2.1'\nlabel = {vni}\n"
            )
        };
        let networks = network("blue", 1, "400mbit") + &network("red", 2, "600mbit");
        assert_eq!(
            complaint(&format!("[uplink]\nvtep = '192.0.2.1'\nrate = '1gbit'\n{networks}")),
            "host.toml:12: `[[network]]`: networks: `min` of all networks is 100.00 % of the uplink's 1gbit, and may be \
             94.05 % beside control; most have `red` (600mbit), `blue` (400mbit), control (49500kbit): lower a network's"
        );
        // Here nobody's share is at fault.
        let error = complaint(&format!("[uplink]\nvtep = '192.0.2.1'\n{networks}"));
        assert!(error.starts_with("host.toml:1: `[uplink]`: networks: `min` of "), "{error}");
        let blue = network("blue", 1, "400mbit");
        let error =
            complaint(&format!("[uplink]\nvtep = '192.0.2.1'\n{}", blue.replace("min", "max")));
        assert_eq!(
            error,
            "host.toml:1: `[uplink]`: networks: `max` of `blue` is of an uplink whose rate is not known: declare `rate` in \
             [uplink]"
        );
    }

    #[test]
    fn a_port_that_is_promised_too_much_of_its_network_is_shown_at_its_line() {
        let port = |name: &str, label: u32, min: &str| {
            format!(
                "[[port]]\nname = '{name}'\nnetwork = 'blue'\nlabel = {label}\nshare = {{ min = '{min}' }}\n\
                 attach = {{ kind = 'vhost-user', socket = '/run/{name}' }}\n"
            )
        };
        let text = |share: &str, second: &str| {
            format!(
                "uplink = {{ vtep = '192.0.2.1', rate = '1gbit' }}\n[[network]]\nname = 'blue'\nvni = 1\n{share}\n\
                 [[network.member]]\nmac = '02:00:00:00:00:01'\nvtep = '192.0.2.1'\nlabel = 1\n{}{}",
                port("a", 1, "300mbit"),
                port("b", 2, second)
            )
        };
        let within = text("share = { min = '500mbit' }", "200mbit");
        let within = parse(&within).and_then(HostFile::checked).map_err(|mistake| mistake.what);
        assert_eq!(within.map(|config| config.ports.len()), Ok(2));
        assert_eq!(
            complaint(&text("share = { min = '500mbit' }", "301mbit")),
            "host.toml:16: `[[port]]`: ports: `min` of all ports of network `blue` is 601mbit, and may be 500mbit, the \
             network's `min`; most have `b` (301mbit), `a` (300mbit): lower one of these, or raise the network's"
        );
        for term in ["min = '1mbit'", "max = '1mbit'", "weight = 2"] {
            let text = text("", "1mbit").replace(", rate = '1gbit'", "");
            let text = text.replace("share = { min = '300mbit' }", "");
            assert_eq!(
                complaint(&text.replace("min = '1mbit'", term)),
                "host.toml:16: `[[port]]`: ports: `share` of `b` is of an uplink whose rate is not known: declare `rate` in \
                 [uplink]",
                "{term}"
            );
        }
        // Without a minimum of its network's, the link is asked.
        let error = complaint(&text("", "700mbit"));
        assert!(error.starts_with("host.toml:2: `[[network]]`: networks: `min` of "), "{error}");
        assert!(error.contains("100.00 % of the uplink's 1gbit"), "{error}");
    }

    #[test]
    fn a_mistake_inside_an_attachment_is_shown_at_its_line() {
        let error = complaint(&PORT.replace("netns = 'a', ", ""));
        assert!(error.starts_with("host.toml:3: "), "{error}");
        assert!(error.contains("`netns` is missing: add it here"), "{error}");
    }

    #[test]
    fn the_second_of_two_ports_with_one_name_is_blamed() {
        let error = complaint(&format!("{PORT}{PORT}"));
        assert_eq!(
            error,
            "host.toml:4: `[[port]]`: port `a` is declared twice: give each port its own name"
        );
    }

    #[test]
    fn the_second_of_two_ports_with_one_ethernet_address_is_blamed() {
        let first = PORT.replace(" }", ", mac = '02:00:00:00:00:01' }");
        let error = complaint(
            &(first.clone()
                + &first.replace("'a'\n", "'b'\n").replace("netns = 'a'", "netns = 'b'")),
        );
        assert_eq!(
            error,
            "host.toml:4: `[[port]]`: port `b`: Ethernet address 02:00:00:00:00:01 is port `a`'s already: keep it for one \
             of them"
        );
    }

    #[test]
    fn the_second_of_two_ports_at_one_socket_is_blamed_whoever_makes_it() {
        let port = |name: &str, mode: &str| {
            let socket = if name == "a" { "/run//./x" } else { "/run/x" };
            let attach = format!("kind = 'vhost-user', socket = '{socket}', mode = '{mode}'");
            format!("[[port]]\nname = '{name}'\nattach = {{ {attach} }}\n")
        };
        for mode in ["connect", "listen"] {
            let error = complaint(&(port("a", "listen") + &port("b", mode)));
            assert_eq!(
                error,
                "host.toml:4: `[[port]]`: port `b`: socket /run/x is port `a`'s already: each virtual machine has its own"
            );
        }
    }

    /// A network with one member, at line 3 of a declaration.
    const NETWORK: &str = "[uplink]\nvtep = '192.0.2.1'\n[[network]]\nname = 'blue'\nvni = 7\n[[network.member]]\n\
                           mac = '02:00:00:00:00:01'\naddresses = ['10.0.0.1']\nvtep = '192.0.2.1'\nlabel = 1\n";

    #[test]
    fn paths_are_monitored_as_configured_or_not_at_all() {
        let bfd = |text: &str| {
            let text = format!("[uplink]\nvtep = '192.0.2.1'\n{text}");
            let config = parse(&text).and_then(HostFile::checked).ok().unwrap();
            let again = toml::to_string(&config).unwrap();
            assert_eq!(toml::from_str::<HostConfig>(&again).unwrap(), config);
            config.uplink.unwrap().bfd
        };
        let usual = model::Bfd::default();
        assert_eq!((bfd(""), bfd("bfd = 'off'")), (Some(usual), None));
        let multiplier = 5;
        assert_eq!(bfd("bfd = { multiplier = 5 }"), Some(model::Bfd { multiplier, ..usual }));
        for wrong in ["'on'", "{ intervall = '1s' }", "{ interval = '0s' }"] {
            let error = complaint(&format!("[uplink]\nvtep = '192.0.2.1'\nbfd = {wrong}\n"));
            assert!(error.contains("off"), "{error}");
        }
    }

    #[test]
    fn an_uplink_has_an_address_and_several_have_a_list() {
        let with = |vtep: &str| NETWORK.replace("vtep = '192.0.2.1'", &format!("vtep = {vtep}"));
        let several = "['192.0.2.1', '2001:db8::1']";
        for (vtep, again) in
            [("'192.0.2.1'", "\"192.0.2.1\""), ("['192.0.2.1']", "\"192.0.2.1\""), (several, "[")]
        {
            let config = parse(&with(vtep)).and_then(HostFile::checked).ok().unwrap();
            let written = toml::to_string(&config).unwrap();
            assert!(written.contains(&format!("vtep = {again}")), "{written}");
            assert_eq!(toml::from_str::<HostConfig>(&written).unwrap(), config);
        }
        for (wrong, why) in [
            (
                "'banana'",
                "`vtep = 'banana'`: write an address, as `\"192.0.2.1\"`, or one for each uplink",
            ),
            ("[]", "`vtep = []`: a host without a tunnel address is in no underlay"),
            ("['192.0.2.1', '192.0.2.1']", "`vtep` has an address twice"),
        ] {
            let error = complaint(&with(wrong));
            assert!(error.contains(why), "{error}");
        }
        let error = complaint(&NETWORK.replacen("'192.0.2.1'", several, 1));
        assert!(
            error.contains("elsewhere the host with 192.0.2.1 has 192.0.2.1, 2001:db8::1"),
            "{error}"
        );
    }

    #[test]
    fn networks_and_uplinks_are_shown_where_they_stand() {
        let error = complaint(&NETWORK.replace("vtep = '192.0.2.1'\n[[", "vtep = '0.0.0.0'\n[["));
        assert!(
            error.starts_with("host.toml:1: `[uplink]`: uplink: `vtep` is no machine's address"),
            "{error}"
        );
        let error = complaint(&NETWORK.replace("label = 1", "label = 0"));
        assert!(
            error.starts_with("host.toml:3: `[[network]]`: network `blue`: member 02:"),
            "{error}"
        );
        let error = complaint(NETWORK.split_once("'\n").unwrap().1);
        assert!(
            error.starts_with("host.toml:1: `[[network]]`: virtual networks need this host's"),
            "{error}"
        );
        let error = complaint(&(NETWORK.to_owned() + PORT + "network = 'red'\nlabel = 1\n"));
        assert!(
            error.starts_with("host.toml:11: `[[port]]`: port `a`: network `red` is not declared"),
            "{error}"
        );
    }

    #[test]
    fn code_points_are_eight_and_each_has_six_bits() {
        let with = |dscp: &str| format!("[uplink]\nvtep = '192.0.2.1'\ndscp = {dscp}\n");
        let read = parse(&with("[0, 8, 16, 26, 32, 46, 48, 63]"))
            .and_then(HostFile::checked)
            .ok()
            .unwrap();
        assert_eq!(read.uplink.unwrap().dscp.unwrap()[5].number(), 46);
        for (wrong, why) in [
            (
                "[0, 8, 16, 26, 32, 46, 48, 64]",
                "this is the whole number `64`: write a code point, from 0 to 63",
            ),
            ("[0, 8, 16]", "write eight values in brackets, one for each class"),
            ("46", "write eight values in brackets, one for each class"),
        ] {
            let error = complaint(&with(wrong));
            assert!(error.starts_with(&format!("host.toml:3: `dscp = {wrong}`: ")), "{error}");
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn classes_are_all_or_none_or_listed() {
        let with =
            |key: &str, classes: &str| format!("[uplink]\nvtep = '192.0.2.1'\n{key} = {classes}\n");
        for (written, bits) in [("true", 0xff), ("false", 0), ("[]", 0), ("[3, 4, 3]", 0b1_1000)] {
            for key in ["retransmit", "credit"] {
                let read = parse(&with(key, written)).and_then(HostFile::checked).ok().unwrap();
                let uplink = read.uplink.as_ref().unwrap();
                let [set, other] = match key {
                    "credit" => [uplink.credit, uplink.retransmit],
                    _ => [uplink.retransmit, uplink.credit],
                };
                assert_eq!((set.bits(), other.bits()), (bits, 0xff));
                let again = toml::to_string(&read).unwrap();
                assert_eq!(parse(&again).and_then(HostFile::checked).ok(), Some(read));
            }
        }
        for wrong in ["[8]", "3", "'all'"] {
            let error = complaint(&with("retransmit", wrong));
            assert!(
                error.starts_with(&format!("host.toml:3: `retransmit = {wrong}`: write `true`")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_of_networks_has_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("networks.toml");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            load_networks(&path).map_err(|error| error.to_string())
        };
        let alone = &NETWORK[NETWORK.find("[[").unwrap()..];
        let [network] = &*read(alone).unwrap() else { panic!("one was written") };
        assert_eq!((network.vni, network.members.len()), (7, 1));
        assert_eq!(read(""), Ok(Vec::new()));
        for (text, line) in [
            (NETWORK.to_owned(), 1),
            (format!("{alone}{PORT}"), 9),
            (format!("[agent]\n{alone}"), 1),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(&format!("networks.toml:{line}: ")), "{error}");
            assert!(error.contains("a file of networks has `[[network]]` alone"), "{error}");
        }
        let error = read(&format!("{alone}[networks]\n")).unwrap_err();
        assert!(error.contains("networks.toml:9: `[networks]`: `networks` is not known here: did you mean `network`?"), "{error}");
        let error = read(&alone.replace("vni = 7", "vni = 0")).unwrap_err();
        assert!(
            error
                .ends_with(":1: `[[network]]`: network `blue`: `vni` 0 lies outside 1 to 16777215"),
            "{error}"
        );
    }

    #[test]
    fn an_invalid_address_is_shown_with_its_line() {
        let error = complaint(&PORT.replace(" }", ", addresses = ['banana'] }"));
        assert!(error.starts_with("host.toml:3: "), "{error}");
        assert!(error.ends_with(
            "`banana` is not an address with a prefix: write it as 10.0.0.1/24 or fd00::1/64"
        ));
    }

    #[test]
    fn invalid_toml_is_shown_with_its_line() {
        let error = complaint("[agent\n");
        assert!(error.starts_with("host.toml:1: `[agent`: "), "{error}");
    }

    #[test]
    fn what_would_refuse_or_hold_back_everything_is_refused_itself() {
        let error = complaint("[agent]\nstall_after = '0s'\n");
        assert!(
            error.starts_with("host.toml:1: `[agent]`: agent: every receiver would be stalled"),
            "{error}"
        );
        let error = complaint(&format!("{PORT}ingress = {{ frames = 64, bytes = '0b' }}\n"));
        assert!(error.contains("raise `bytes` above 0"), "{error}");
    }
}
