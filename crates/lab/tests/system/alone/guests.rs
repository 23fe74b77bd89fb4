//! Virtual machines that boot, run what they are told, and talk to each other through a switch.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use kernel::spawn;
use lab::guest::{Features, Guest, GuestError, GuestSpec, Image, Kernel, Nic, Socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use units::Mac;

/// Whether a test that needs guests can run. If not, it is skipped.
fn has_qemu() -> bool {
    needs::program("qemu-system-x86_64", "qemu-system-x86")
}

fn new_image() -> Image {
    let kernel = Kernel::fetch(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    Image::new(kernel, Path::new(env!("CARGO_BIN_EXE_guest-agent"))).unwrap()
}

fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(new_image)
}

/// What a program in a guest writes, if it succeeds.
fn said(guest: &Guest, command: &[&str]) -> String {
    let output = guest.run(command).unwrap_or_else(|error| panic!("{error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// One MiB that no compression or mistaken text mode would leave as it is.
fn noise() -> Vec<u8> {
    let mut random = units::Rng::new(1);
    (0..1 << 20).map(|_| random.below(256) as u8).collect()
}

#[test]
fn programs_in_a_guest_say_all_and_end_as_they_do() {
    if !has_qemu() {
        return;
    }
    let guest = Guest::boot(image(), GuestSpec::new("guest")).unwrap();
    assert_eq!(said(&guest, &["uname", "-sm"]), "Linux x86_64\n");

    let output = guest.run(&["sh", "-c", "echo out; echo err >&2; exit 7"]).unwrap();
    assert_eq!(
        (output.status.code(), &*output.stdout, &*output.stderr),
        (Some(7), &b"out\n"[..], &b"err\n"[..])
    );
    assert_eq!(guest.run(&["sh", "-c", "kill -USR1 $$"]).unwrap().status.signal(), Some(10));
    let error = guest.run(&["no-such-program", "x"]).unwrap_err();
    assert!(error.to_string().contains("`no-such-program x` failed: No such file"), "{error}");

    // Every byte comes back, while others run.
    let noise = noise();
    let mut shell = guest.spawn(&["sh"]);
    let endless = guest.spawn(&["sh", "-c", "yes & wait"]);
    let cat = guest.spawn(&["cat"]);
    cat.write(&noise);
    cat.end_input();
    let output = cat.output().unwrap();
    assert!(output.status.success());
    assert!(output.stdout == noise, "{} bytes came back", output.stdout.len());

    // A conversation; it ends with its stdin.
    for word in ["one", "two"] {
        shell.write(format!("echo {word}\n").as_bytes());
        assert_eq!(shell.line().unwrap().as_deref(), Some(word));
    }
    shell.end_input();
    assert_eq!(shell.line().unwrap(), None);
    assert_eq!(shell.output().unwrap().stdout, b"one\ntwo\n");

    // Whoever is dropped is ended, with its children.
    drop(endless);
    said(&guest, &["sh", "-c", "while pidof yes; do :; done"]);
}

#[test]
fn a_paused_guest_goes_on_where_it_was() {
    if !has_qemu() {
        return;
    }
    let guest = Guest::boot(image(), GuestSpec::new("guest")).unwrap();
    let status = || guest.qmp("query-status", serde_json::json!({})).unwrap()["status"].clone();
    guest.pause().unwrap();
    assert_eq!(status(), "paused");
    let echo = guest.spawn(&["echo", "late"]);
    guest.resume().unwrap();
    assert_eq!(status(), "running");
    assert_eq!(echo.output().unwrap().stdout, b"late\n");
    let error = guest.qmp("no-such-command", serde_json::json!({})).unwrap_err();
    assert!(matches!(error, GuestError::Refused { .. }), "{error}");
}

#[test]
fn what_a_guest_said_last_is_told_with_its_end() {
    if !has_qemu() {
        return;
    }
    let guest = Guest::boot(image(), GuestSpec::new("guest")).unwrap();
    let error = guest.run(&["sh", "-c", "echo c >/proc/sysrq-trigger"]).unwrap_err();
    assert!(matches!(error, GuestError::Ended { .. }));
    assert!(
        error.to_string().contains("Kernel panic - not syncing: sysrq triggered crash"),
        "{error}"
    );

    // One that never ran.
    let nowhere = Socket::Listens("/no/such/directory/a.sock".into());
    let spec =
        GuestSpec { nics: vec![Nic::new(Mac::local(1), nowhere)], ..GuestSpec::new("unborn") };
    let error = Guest::boot(image(), spec).err().unwrap().to_string();
    assert!(
        error.contains("guest `unborn` has ended") && error.contains("/no/such/directory/a.sock"),
        "{error}"
    );

    // One whose switch does not come.
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("a.sock");
    let nics = vec![Nic::new(Mac::local(1), Socket::Listens(socket.clone()))];
    let spec = GuestSpec { nics, patience: Duration::from_secs(1), ..GuestSpec::new("lonely") };
    let booting = Guest::start(image(), spec).unwrap();
    let begun = Instant::now();
    while !socket.exists() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
    }
    assert!(socket.exists());
    let error = booting.ready().err().unwrap().to_string();
    assert!(error.contains("guest `lonely` did not boot within 1 s"), "{error}");
    assert!(!socket.exists());
}

/// zovn's own programs are linked with shared libraries and carry debug information: an image takes
/// what they need.
#[test]
fn zovns_endpoint_programs_run_in_a_guest() {
    if !has_qemu() {
        return;
    }
    let Some(zovn) = needs::zovn() else { return };
    let image = new_image().with_program(&zovn).unwrap();
    let guest =
        Guest::boot(&image, GuestSpec { memory_mib: 384, ..GuestSpec::new("guest") }).unwrap();
    let receive = r#"{"tcp-receive": {"port": 9000, "flows": 1, "congestion": "cubic"}}"#;
    let send =
        r#"{"tcp-send": {"to": "127.0.0.1:9000", "congestion": "cubic", "duration": "200ms"}}"#;
    let mut receiver = guest.spawn(&["zovn", "endpoint", receive]);
    assert_eq!(receiver.line().unwrap().as_deref(), Some("\"ready\""));
    let mut sender = guest.spawn(&["zovn", "endpoint", send]);
    assert_eq!(sender.line().unwrap().as_deref(), Some("\"ready\""));
    sender.write(b"\"start\"\n");
    let report = receiver.line().unwrap().unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert!(report["report"]["bytes"].as_u64().unwrap() > 0, "{report}");
}

/// Two guests and DPDK's example of a switch: whatever enters at one port leaves at the other.
#[test]
fn guests_talk_through_a_vhost_user_switch() {
    if !has_qemu() || !needs::program("dpdk-testpmd", "dpdk-dev") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let [first, second] = ["a.sock", "b.sock"].map(|name| place.path().join(name));
    let start_switch = || TestPmd::start(place.path(), &[(&first, true), (&second, false)]);
    let switch = start_switch();
    let specs =
        [("a", Socket::Listens(first.clone()), 1), ("b", Socket::Connects(second.clone()), 2)];
    let guests = specs.map(|(name, socket, number)| {
        let mut nic = Nic::new(Mac::local(number), socket);
        let addresses = [format!("10.0.0.{number}/24"), format!("fd00::{number}/64")];
        nic.addresses = addresses.map(|address| address.parse().unwrap()).into();
        if name == "b" {
            nic.features =
                Features { event_index: false, indirect_descriptors: false, ..Features::default() };
            nic.mtu = Some(1400);
        }
        Guest::start(image(), GuestSpec { nics: vec![nic], ..GuestSpec::new(name) }).unwrap()
    });
    let [a, b] = guests.map(|guest| guest.ready().unwrap());

    // Each got what it asked for: an index of events and indirect descriptors (virtio 1.2 §6).
    for (guest, expected, mtu) in [(&a, "11", "1500\n"), (&b, "00", "1400\n")] {
        let bits = said(guest, &["cat", "/sys/class/net/eth0/device/features"]);
        assert_eq!(bits[28..30], *expected, "{bits}");
        assert_eq!(said(guest, &["cat", "/sys/class/net/eth0/mtu"]), mtu);
    }

    for to in ["10.0.0.2", "fd00::2"] {
        let report = said(&a, &["ping", "-c", "3", "-i", "0.1", to]);
        assert!(report.contains("3 packets transmitted, 3 packets received"), "{report}");
    }

    // Ten megabytes of TCP arrive as they were sent.
    said(&a, &["sh", "-c", "head -c 10000000 /dev/urandom >/tmp/sent"]);
    let receiver = b.spawn(&["sh", "-c", "nc -l -p 9000 | sha256sum"]);
    // Listening: state 0A at port 9000.
    said(
        &b,
        &["sh", "-c", "until grep -q ':2328 .* 0A ' /proc/net/tcp /proc/net/tcp6; do :; done"],
    );
    said(&a, &["sh", "-c", "nc 10.0.0.2 9000 </tmp/sent"]);
    let sum = said(&a, &["sh", "-c", "sha256sum </tmp/sent"]);
    assert_eq!(String::from_utf8(receiver.output().unwrap().stdout).unwrap(), sum);

    // A switch that was killed is found again by both, whoever listens.
    drop(switch);
    let _switch = start_switch();
    said(&a, &["sh", "-c", "until ping -c 1 -W 1 10.0.0.2; do :; done"]);

    // A guest that has lost its interface still answers us.
    assert_eq!(said(&a, &["ls", "/sys/class/net"]), "eth0\nlo\n");
    a.unplug(0).unwrap();
    assert_eq!(said(&a, &["ls", "/sys/class/net"]), "lo\n");
    drop(a);
    assert!(!first.exists(), "its socket is gone");
}

/// DPDK's packet forwarder between vhost-user ports. It ends with its test.
struct TestPmd {
    process: Child,
}

impl TestPmd {
    /// A port for each socket, which it connects to if told so, and makes itself if not.
    fn start(place: &Path, ports: &[(&Path, bool)]) -> Self {
        let mut command = Command::new(lab::find("dpdk-testpmd").unwrap());
        command.args([
            "--no-huge",
            "-m",
            "512",
            "--no-pci",
            "--no-telemetry",
            "-l",
            "0,1",
            "--log-level=*:error",
        ]);
        for (number, (socket, connects)) in ports.iter().enumerate() {
            let client = u8::from(*connects);
            if !connects {
                // It does not replace what one before it has left.
                let _ = std::fs::remove_file(socket);
            }
            command.arg(format!(
                "--vdev=net_vhost{number},iface={},client={client}",
                socket.display()
            ));
        }
        command.args(["--", "--forward-mode=io", "--auto-start", "--total-num-mbufs=16384"]);
        // It ends when its stdin does. Its runtime files are as short-lived as the test.
        command.env("RUNTIME_DIRECTORY", place).stdin(Stdio::piped()).stdout(Stdio::null());
        Self { process: spawn::dies_with_parent(&mut command).spawn().unwrap() }
    }
}

impl Drop for TestPmd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Not a test of its own: the process that the next one kills.
#[test]
fn be_killed() {
    if std::env::var_os("ZOVN_TEST_BE_KILLED").is_none() {
        return;
    }
    let guest = Guest::boot(image(), GuestSpec::new("orphan")).unwrap();
    eprintln!("up");
    let _ = guest.spawn(&["cat"]).output();
}

#[test]
fn a_killed_process_leaves_no_guest() {
    if !has_qemu() {
        return;
    }
    let mut maker = Command::new(std::env::current_exe().unwrap());
    maker
        .args(["--exact", "alone::guests::be_killed", "--nocapture"])
        .env("ZOVN_TEST_BE_KILLED", "yes")
        .stderr(Stdio::piped());
    let mut maker = maker.spawn().unwrap();
    let lines = BufReader::new(maker.stderr.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "up"), "no guest is up");
    let guest = child_of(maker.id()).expect("the guest is a child of its maker's");
    let guest = pidfd_open(guest, PidfdFlags::empty()).unwrap();
    maker.kill().unwrap();
    maker.wait().unwrap();
    let patience = Timespec::try_from(Duration::from_secs(20)).unwrap();
    let ended = poll(&mut [PollFd::new(&guest, PollFlags::IN)], Some(&patience)).unwrap();
    assert_eq!(ended, 1, "the guest outlives its maker");
}

/// A child of a process (proc(5): field 4 of stat is the parent).
fn child_of(parent: u32) -> Option<Pid> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find_map(|pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let its_parent = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().nth(1)?;
        (its_parent == parent.to_string()).then(|| Pid::from_raw(pid))?
    })
}
