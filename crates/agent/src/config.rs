//! Reads `host.toml`, and points at what is wrong with it.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use model::{AgentSettings, HostConfig, InvalidConfig, PortSpec};
use serde::Deserialize;
use toml::Spanned;

/// Why a file is no host's declaration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read {}: name a file that exists and that you may read", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It says something that cannot be.
    #[error("{}:{line}: `{text}`: {what}", path.display())]
    Wrong {
        /// Which file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What stands there.
        text: String,
        /// What is wrong, and what to write instead.
        what: String,
    },
}

/// Reads and checks a host's declaration.
///
/// # Errors
///
/// [`ConfigError`] names the file, the line and its text, and says what to write instead.
pub fn load(path: &Path) -> Result<HostConfig, ConfigError> {
    let text = fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
    parse(&text).map_err(|Mistake { place, what }| {
        let (line, text) = line_at(&text, place.start);
        ConfigError::Wrong { path: path.into(), line, text, what }
    })
}

/// The file as `model::HostConfig` has it, with the place of each part kept.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    agent: Option<Spanned<AgentSettings>>,
    #[serde(default)]
    port: Vec<Spanned<PortSpec>>,
}

/// What is wrong, and where in the text.
struct Mistake {
    place: Range<usize>,
    what: String,
}

fn parse(text: &str) -> Result<HostConfig, Mistake> {
    let file: HostFile = toml::from_str(text).map_err(|error| Mistake {
        place: error.span().unwrap_or_default(),
        what: error.message().trim_end().replace('\n', ", "),
    })?;
    let agent_place = file.agent.as_ref().map(Spanned::span).unwrap_or_default();
    let port_places: Vec<_> = file.port.iter().map(Spanned::span).collect();
    let agent = file.agent.map(Spanned::into_inner).unwrap_or_default();
    let ports = file.port.into_iter().map(Spanned::into_inner).collect();
    let config = HostConfig { agent, ports };
    config.check().map_err(|error| {
        let place = match &error {
            InvalidConfig::Agent(_) => agent_place,
            // Of two with one name, the later.
            InvalidConfig::DuplicatePort(name)
            | InvalidConfig::DuplicateMac { port: name, .. }
            | InvalidConfig::DuplicateSocket { port: name, .. }
            | InvalidConfig::Port { port: name, .. } => {
                let place = config.ports.iter().rposition(|port| port.name == *name);
                place.and_then(|place| port_places.get(place)).cloned().unwrap_or_default()
            }
        };
        Mistake { place, what: error.to_string() }
    })?;
    Ok(config)
}

/// The number, from 1, and the text of the line that holds the byte at `offset`.
fn line_at(text: &str, offset: usize) -> (usize, String) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count();
    (line + 1, text.lines().nth(line).unwrap_or_default().trim().to_owned())
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
    fn the_example_is_a_declaration_that_can_stand() {
        let example = load(&example()).unwrap();
        assert!(!example.ports.is_empty());
    }

    #[test]
    fn what_the_example_says_is_what_holds_without_it() {
        let example = load(&example()).unwrap();
        assert_eq!(example.agent, AgentSettings::default());
        let full = &example.ports[1];
        let bare = PortSpec::new(full.name.clone(), full.attach.clone());
        assert_eq!(*full, PortSpec { rate: full.rate, ..bare });
    }

    #[test]
    fn what_the_example_leaves_out_can_be_said() {
        let text = fs::read_to_string(example()).unwrap();
        let said = ["egress", "quota", "scheduling", "pinned"].iter().fold(text, |text, key| {
            let (old, new) = (format!("\n{key} = "), format!("\n# {key} = "));
            let text = text.replace(&old, "\n# was = ");
            assert!(text.contains(&new), "{key}");
            text.replace(&new, &old)
        });
        let config = parse(&said).ok().unwrap();
        assert_eq!((config.ports[1].quota, config.ports[1].pinned.len()), (Some(256), 2));
    }

    #[test]
    fn nothing_at_all_is_a_host_without_ports() {
        assert_eq!(parse("").ok().unwrap(), HostConfig::default());
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
        assert!(
            error.starts_with("host.toml:2: `poling = 'always'`: unknown field `poling`, expected"),
            "{error}"
        );
        assert!(error.contains("`polling`"), "{error}");
    }

    #[test]
    fn a_mistake_inside_an_attachment_is_shown_at_its_line() {
        let error = complaint(&PORT.replace("netns = 'a', ", ""));
        assert!(error.starts_with("host.toml:3: "), "{error}");
        assert!(error.contains("missing field `netns`"), "{error}");
    }

    #[test]
    fn the_second_of_two_ports_with_one_name_is_blamed() {
        let error = complaint(&format!("{PORT}{PORT}"));
        assert_eq!(error, "host.toml:4: `[[port]]`: port `a` is declared twice: give each port its own name");
    }

    #[test]
    fn the_second_of_two_ports_with_one_ethernet_address_is_blamed() {
        let first = PORT.replace(" }", ", mac = '02:00:00:00:00:01' }");
        let error = complaint(&(first.clone() + &first.replace("'a'\n", "'b'\n")));
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

    #[test]
    fn what_is_no_address_is_shown() {
        let error = complaint(&PORT.replace(" }", ", addresses = ['banana'] }"));
        assert!(error.starts_with("host.toml:3: "), "{error}");
        assert!(
            error
                .ends_with("`banana` is not an address with a prefix: write it as 10.0.0.1/24 or fd00::1/64")
        );
    }

    #[test]
    fn what_is_no_toml_is_shown_too() {
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
