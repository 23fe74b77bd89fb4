//! With FRR's bfdd at the other end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use agent::bfd::{Bfd, Path};
use kernel::netns::Namespace;
use kernel::spawn;
use tempfile::TempDir;
use wire::bfd::Diagnostic;

use super::{OUT, health, hosts, plug, start, strange, until, until_down, until_up};

const CONFIG: &str = "bfd
 profile quick
  detect-multiplier 3
  receive-interval 100
  transmit-interval 100
 peer 10.0.0.1 local-address 10.0.0.2
  profile quick
 peer fd00::1 local-address fd00::2
  profile quick
";

/// A bfdd of the test's own: by Debian's package `frr`.
struct Frr {
    daemon: Child,
    directory: TempDir,
}

impl Frr {
    fn start(host: &Namespace) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        // It gives up root for a user of its own, who puts his sockets there.
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(path.join("bfdd.conf"), CONFIG).unwrap();
        let mut command = Command::new("/usr/lib/frr/bfdd");
        for (flag, file) in [
            ("--config_file", "bfdd.conf"),
            ("--pid_file", "bfdd.pid"),
            ("--socket", "zserv.api"),
            ("--vty_socket", ""),
            ("--bfdctl", "bfdd.sock"),
        ] {
            command.arg(flag).arg(path.join(file));
        }
        command
            .args(["--vty_port", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        spawn::dies_with_parent(spawn::inside(&mut command, host.try_clone().unwrap()));
        let daemon = command.spawn().unwrap();
        Self { daemon, directory }
    }

    /// What it says of its session with `peer`.
    fn says(&self, peer: &str) -> Option<serde_json::Value> {
        let path = self.directory.path();
        let mut command = Command::new("vtysh");
        command.arg("--vty_socket").arg(path).args(["-c", "show bfd peers json"]);
        let output = command.output().unwrap();
        let sessions: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).ok()?;
        sessions.into_iter().find(|session| session["peer"] == peer)
    }

    /// Waits until it says so of its session with `peer`, and returns all that it says.
    fn until(&self, peer: &str, status: &str) -> serde_json::Value {
        let mut said = None;
        until(&format!("FRR says that {peer} is {status}"), || {
            said = self.says(peer);
            said.as_ref().is_some_and(|said| said["status"] == status)
        });
        said.unwrap()
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

#[test]
fn sessions_with_frr_come_up_and_detect_each_others_end() {
    if !needs::program("bfdd", "frr") {
        return;
    }
    let [near, far] = hosts();
    let frr = Frr::start(&far);
    let ours = start(&near, OUT, 1);
    until_up(&ours, OUT);
    let said = frr.until("10.0.0.1", "up");
    assert_eq!(said["remote-detect-multiplier"], 3);
    let told = || frr.says("10.0.0.1").unwrap()["remote-transmit-interval"].as_u64();
    until("FRR has our interval", || told() == Some(100));

    // Ours goes with a word.
    drop(ours);
    let said = frr.until("10.0.0.1", "down");
    assert_eq!(said["diagnostic"], "neighbor signaled session down");

    // It comes again, and goes without one.
    let ours = start(&near, OUT, 2);
    until_up(&ours, OUT);
    frr.until("10.0.0.1", "up");
    plug(&near, false);
    let said = frr.until("10.0.0.1", "down");
    assert_eq!(said["diagnostic"], "control detection time expired");
    assert_eq!(until_down(&ours, OUT), Diagnostic::DETECTION_TIME_EXPIRED);

    // FRR is killed.
    plug(&near, true);
    until_up(&ours, OUT);
    let up = health(&ours, OUT);
    drop(frr);
    assert_eq!(until_down(&ours, OUT), Diagnostic::DETECTION_TIME_EXPIRED);
    assert!(health(&ours, OUT).since > up.since);
    assert_eq!(strange(&ours), 0, "{:?}", ours.counts());
}

#[test]
fn sessions_with_frr_come_up_over_ipv6() {
    if !needs::program("bfdd", "frr") {
        return;
    }
    let [near, far] = hosts();
    let frr = Frr::start(&far);
    let [local, remote] = ["fd00::1", "fd00::2"].map(|it| it.parse().unwrap());
    let path = Path { local, remote };
    // The other path is there as well, of another end at the same host.
    let both: [Bfd; 2] = [start(&near, path, 1), start(&near, OUT, 2)];
    until_up(&both[0], path);
    until_up(&both[1], OUT);
    frr.until("fd00::1", "up");
    frr.until("10.0.0.1", "up");
    drop(frr);
    assert_eq!(until_down(&both[0], path), Diagnostic::DETECTION_TIME_EXPIRED);
    assert_eq!(strange(&both[0]), 0, "{:?}", both[0].counts());
}
