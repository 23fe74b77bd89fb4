//! Kubernetes' own types ask and read, in Go.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use crate::desk::Desk;

/// Where Go is looked for.
const GO: [&str; 2] = ["go", "/usr/local/go/bin/go"];

#[test]
fn the_schedulers_own_types_ask_and_read_all_answers() {
    // Some 0.5 GB for one test are too much for `dependencies`.
    let go = GO.into_iter().find(|go| Command::new(go).arg("version").output().is_ok());
    let how = "Go is not installed: apt-get install --no-install-recommends golang-go (0.5 GB)";
    if !needs::optional(go.is_some(), how) {
        return;
    }
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    let modules = place.join("modules");
    if !needs::fetched(modules.is_dir(), "modules of Go") {
        return;
    }
    let run = |arguments: &[&OsStr]| -> Output {
        let mut command = Command::new(go.unwrap());
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/extender"));
        // Nothing is changed here, nothing is left at home, and `cargo clean` may remove the rest.
        command.env("GOFLAGS", "-mod=readonly -modcacherw -buildvcs=false");
        command.env("GOMODCACHE", &modules).env("GOCACHE", place.join("built"));
        command.env("XDG_CONFIG_HOME", place.join("config"));
        command.env("GOTOOLCHAIN", "local").env("GOWORK", "off");
        command.args(arguments).output().unwrap()
    };
    let fetched = run(&["mod", "download"].map(OsStr::new));
    let error = String::from_utf8_lossy(&fetched.stderr);
    // What comes and is not what `go.sum` says is worse than nothing.
    assert!(!error.contains("checksum mismatch"), "{error}");
    let why = error.lines().last().unwrap_or_default();
    let why = format!("Go's modules cannot be fetched: {why}");
    if !needs::optional(fetched.status.success(), why) {
        return;
    }
    let desk = Desk::open();
    let asked = desk.arguments();
    let mut arguments = vec![OsStr::new("run"), OsStr::new(".")];
    arguments.extend(asked.iter().map(OsStr::new));
    let output = run(&arguments);
    let [out, error] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(output.status.success() && out.contains("extender: passed"), "{out}\n{error}");
}
