//! `zovn-agent` as its users run it.

use std::path::Path;
use std::process::{Command, Output};

fn zovn_agent(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zovn-agent")).args(arguments).output().unwrap()
}

#[test]
fn a_declaration_is_checked_and_a_wrong_one_told() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/containers.toml");
    let checked = zovn_agent(&["--check", "-c", example.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    assert_eq!(
        String::from_utf8_lossy(&checked.stdout),
        "the declaration can stand (ports: 2, networks: 0)\n"
    );

    let missing = zovn_agent(&["--check", "-c", "/nonexistent/host.toml"]);
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(String::from_utf8_lossy(&missing.stderr).starts_with("zovn-agent: "), "{missing:?}");

    assert_eq!(
        zovn_agent(&["--check"]).status.code(),
        Some(2),
        "without a file there is nothing to check"
    );
    assert_eq!(zovn_agent(&["--nonsense"]).status.code(), Some(2));
}

#[test]
fn a_key_that_cannot_be_read_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.toml");
    let text = "[uplink]\nvtep = \"192.0.2.1\"\nkey = { file = \"/nonexistent/tunnel.key\" }\n";
    std::fs::write(&file, text).unwrap();
    let checked = zovn_agent(&["--check", "-c", file.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    assert!(String::from_utf8_lossy(&checked.stderr).contains("/nonexistent/tunnel.key"));
}

#[test]
fn a_socket_that_others_could_open_or_nobody_would_find_is_refused() {
    for socket in ["", "agent.sock", "@zovn"] {
        // Without `--check` it would have to be ended if it were taken.
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/containers.toml");
        let refused = zovn_agent(&["--check", "-c", example.to_str().unwrap(), "--socket", socket]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("`socket` is no absolute path"), "{said}");
    }
}

#[test]
fn the_version_tells_what_it_was_built_of() {
    let version = String::from_utf8(zovn_agent(&["--version"]).stdout).unwrap();
    let commit =
        version.trim().strip_prefix(concat!("zovn-agent ", env!("CARGO_PKG_VERSION"), " ("));
    let commit = commit.and_then(|rest| rest.strip_suffix(')')).unwrap_or_default();
    let is_commit = commit.len() >= 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_commit || matches!(commit, "development" | "unknown"), "{version}");
}

#[test]
fn the_help_names_the_program() {
    let help = zovn_agent(&["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(
        help.contains("Usage: zovn-agent") && help.contains("zovn-agent -c /etc/zovn/host.toml"),
        "{help}"
    );
}
