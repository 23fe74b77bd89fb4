//! What shells complete of what a controller keeps.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::kept::Kept;

const WORLD: &str = "
- {kind: Tenant, metadata: {name: a}, spec: {}}
- {kind: Tenant, metadata: {name: b}, spec: {}}
- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1]}}
- {kind: LogicalSwitch, metadata: {name: red, tenant: a}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: rose, tenant: a}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: blue, tenant: b}, spec: {}}
- {kind: AddressSet, metadata: {name: s, tenant: a}, spec: {addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: p, tenant: a}, spec: {switch: red, vif: {}, mac: '02:00:00:00:00:01'}}
";

/// What the last of these words is completed by, without flags. Nothing is said beside it.
#[track_caller]
fn completed(config: &Path, words: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.env("_ZOVN_COMPLETE", "bash").env("_CLAP_IFS", "\n");
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.env("XDG_CONFIG_HOME", config).env_remove("ZOVN_CONTEXT");
    let output = command.args(["--", "zovn"]).args(words).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|it| !it.starts_with('-')).map(ToOwned::to_owned).collect()
}

#[test]
fn objects_are_completed_by_those_that_one_may_see() {
    let kept = Kept::asking();
    kept.context("me", &["admin"]);
    kept.zovn(&["apply", "-f", &kept.file("world.yaml", WORLD)]);
    kept.context("alice", &["tenant-viewer", "--tenant", "a"]);
    // A host that has much to do may answer too late.
    let completed = |words: &[&str]| {
        let mut tries = (0..20).map(|_| completed(kept.folder(), words));
        tries.find(|it| !it.is_empty()).unwrap_or_default()
    };
    let switch = ["describe", "LogicalSwitch/"];
    assert_eq!(completed(&switch), ["LogicalSwitch/a/", "LogicalSwitch/b/"]);
    let own = ["LogicalSwitch/a/red", "LogicalSwitch/a/rose"];
    assert_eq!(completed(&["describe", "LogicalSwitch/a/"]), own);
    assert_eq!(completed(&["delete", "object", "LogicalSwitch/a/ro"]), own[1..]);
    assert_eq!(completed(&["wait", "TransportNode/"]), ["TransportNode/h1"]);
    assert_eq!(completed(&["diff", "--delete", "LogicalSwitch/b/"]), ["LogicalSwitch/b/blue"]);
    assert_eq!(completed(&["get", "objects", "--tenant", ""]), ["a", "b"]);
    // A tenant sees its own, whoever is asked about.
    let as_alice =
        |words: &[&str]| completed(&[&words[..1], &["--context", "alice"], &words[1..]].concat());
    assert_eq!(as_alice(&switch), own);
    assert!(as_alice(&["describe", "LogicalSwitch/b/"]).is_empty());
    assert!(as_alice(&["describe", "TransportNode/"]).is_empty());
    assert_eq!(as_alice(&["describe", "Tenant/"]), ["Tenant/a"]);
    assert_eq!(completed(&["explain", "port", "--context", "alice", ""]), ["a/p"]);
    // Where the context has a tenant, its objects need none.
    let (server, token) = (format!("http://{}", kept.listen()), kept.folder().join("alice"));
    let token = token.to_str().unwrap();
    let set = ["context", "set", "own", "--server", &server, "--token-file", token];
    kept.zovn(&[&set[..], &["--tenant", "a"]].concat());
    let in_own =
        |words: &[&str]| completed(&[&words[..1], &["--context", "own"], &words[1..]].concat());
    assert_eq!(in_own(&["describe", "LogicalSwitch/ro"]), ["LogicalSwitch/rose"]);
    assert_eq!(in_own(&["describe", "LogicalSwitch/a/ro"]), ["LogicalSwitch/a/rose"]);
    let all =
        ["LogicalSwitch/a/red", "LogicalSwitch/a/rose", "LogicalSwitch/red", "LogicalSwitch/rose"];
    assert_eq!(in_own(&switch), all);
    let port = |begun| completed(&["explain", "port", "--context", "own", begun]);
    assert_eq!((port("p"), port("a")), (vec!["p".to_owned()], vec!["a/p".to_owned()]));
    // Without one, such an object is the operator's.
    assert!(in_own(&["describe", "AddressSet/s"]).is_empty());
    assert_eq!(in_own(&["describe", "AddressSet/a/"]), ["AddressSet/a/s"]);
}

#[test]
fn what_no_controller_says_is_completed_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let completed = |words: &[&str]| completed(folder.path(), words);
    assert_eq!(completed(&["desc"]), ["describe"]);
    assert_eq!(completed(&["get", "objects", "logical-s"]), ["logical-switches"]);
    assert_eq!(completed(&["describe", "LogicalS"]), ["LogicalSwitch/"]);
    assert_eq!(completed(&["watch", "nat"]), ["nats"]);
    // Nobody is named, and nobody is there.
    let object = ["describe", "LogicalPort/"];
    assert!(completed(&object).is_empty());
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let set = |name: &str, server: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(["context", "set", name, "--server", server]);
        let set = command.env("XDG_CONFIG_HOME", folder.path()).output().unwrap();
        assert!(set.status.success(), "{set:?}");
    };
    set("gone", &format!("http://{gone}"));
    set("other", &format!("http://{gone}"));
    assert!(completed(&object).is_empty());
    assert_eq!(completed(&["context", "use", ""]), ["gone", "other"]);
    assert_eq!(completed(&["whoami", "--context", "o"]), ["other"]);
}

/// One that always has another page never comes to an end, and is not waited for.
#[test]
fn a_controller_that_takes_its_time_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for (page, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let head = BufReader::new(stream.try_clone().unwrap());
            let _ = head.lines().map_while(Result::ok).find(String::is_empty);
            let body = format!(r#"{{"items":[],"continue":"{page}"}}"#);
            let length = body.len();
            // Who has had enough has hung up.
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args(["context", "set", "slow", "--server", &server]);
    assert!(command.env("XDG_CONFIG_HOME", folder.path()).status().unwrap().success());
    assert!(completed(folder.path(), &["describe", "TransportNode/"]).is_empty());
}
