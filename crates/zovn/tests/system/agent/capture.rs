//! What `zovn capture` writes, as tshark reads it.

use needs::tshark;

use super::*;

/// A capture that runs until it is ended, or has enough.
struct Capture {
    child: Child,
    file: PathBuf,
}

impl Capture {
    /// Begins one, and waits until it has begun.
    fn begin(world: &World, flags: &[&str]) -> Self {
        let file = world.directory.path().join("captured.pcapng");
        let _ = fs::remove_file(&file);
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.arg("capture").args(flags).arg("--socket").arg(world.socket()).arg("-w").arg(&file);
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        until(|| fs::metadata(&file).is_ok_and(|file| file.len() > 0));
        Self { child, file }
    }

    fn has(&self, frames: usize) -> bool {
        self.read(&["frame.number"]).len() >= frames
    }

    /// These fields of each frame that is in the file by now.
    fn read(&self, fields: &[&str]) -> Vec<Vec<String>> {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&self.file).args(["-T", "fields", "-E", "separator=|"]);
        fields.iter().for_each(|field| {
            command.args(["-e", field]);
        });
        let output = command.output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect()
    }

    /// Ends it as Ctrl-C does; what it says.
    fn end(self) -> (Self, String) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.wait()
    }

    fn wait(self) -> (Self, String) {
        let Self { child, file } = self;
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let none = Command::new("true").spawn().unwrap();
        (Self { child: none, file }, said)
    }
}

#[test]
fn what_two_containers_say_is_captured_at_the_port_that_was_named() {
    if !tshark::is_here() {
        return;
    }
    let mut world = World::new(2);
    world.start(2);
    let capture = Capture::begin(&world, &["--port", "c0"]);
    world.greet(0, 1);
    let payload = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (there, back) = (payload("there"), payload("back"));
    let fields = ["frame.interface_name", "udp.payload"];
    let said = |capture: &Capture, place: &str, payload: &str| {
        capture.read(&fields).iter().any(|line| line == &[place.to_owned(), payload.to_owned()])
    };
    until(|| said(&capture, "c0 egress", &back));
    let (capture, told) = capture.end();
    let frames = capture.read(&fields);
    assert!(said(&capture, "c0 ingress", &there), "{frames:?}");
    assert!(frames.iter().all(|line| line[0].starts_with("c0 ")), "{frames:?}");
    assert!(told.contains(&format!("captured {} frames, dropped 0", frames.len())), "{told}");
}

#[test]
fn a_capture_ends_with_as_many_frames_as_were_asked_for_each_cut() {
    if !tshark::is_here() {
        return;
    }
    let mut world = World::new(2);
    world.start(2);
    let flags = ["--port", "c0", "--direction", "in", "--snap", "20", "--count", "3"];
    let capture = Capture::begin(&world, &flags);
    for _ in 0..3 {
        world.greet(0, 1);
    }
    let (capture, told) = capture.wait();
    let frames = capture.read(&["frame.interface_name", "frame.cap_len"]);
    assert_eq!(frames, vec![["c0 ingress", "20"]; 3], "{told}");
    let capture = Capture::begin(&world, &["--duration", "50ms"]);
    capture.wait();
}

#[test]
fn what_is_refused_is_captured_with_its_reason() {
    if !tshark::is_here() {
        return;
    }
    let mut world = World::new(2);
    let client = world.start(2);
    world.greet(0, 1);
    client.change(&name(1), &rate("1kbit")).unwrap();
    let (from, to) = (world.udp(0), world.udp(1));
    for _ in 0..30 {
        from.send_to(&[7; 1000], to.local_addr().unwrap()).unwrap();
    }
    until(|| client.status().unwrap().ledger.held > 20);
    let capture = Capture::begin(&world, &["--refused"]);
    client.detach(&name(1)).unwrap();
    until(|| capture.has(21));
    let (capture, _) = capture.end();
    let frames = capture.read(&["frame.interface_name", "frame.comment", "frame.len"]);
    let comment = "refused: detached; it came from `c0` for `c1`";
    let is_ours =
        |line: &Vec<String>| line[0] == "refused" && line[1].contains(comment) && line[2] == "1042";
    assert!(frames.iter().filter(|line| is_ours(line)).count() > 20, "{frames:?}");
}

#[test]
fn what_cannot_be_captured_is_said() {
    let mut world = World::new(0);
    world.start(0);
    let client = world.client();
    let spec = model::CaptureSpec { ports: vec![name(9)], ..model::CaptureSpec::default() };
    assert_eq!(refusal(client.capture(&spec).map(drop)).0, 404);
    let captures: Vec<_> =
        (0..8).map(|_| client.capture(&model::CaptureSpec::default()).unwrap()).collect();
    let (status, problem) = refusal(client.capture(&model::CaptureSpec::default()).map(drop));
    assert!(status == 429 && problem.contains("end one first"), "{problem}");
    drop(captures);
    until(|| client.capture(&model::CaptureSpec::default()).is_ok());
}

#[test]
fn an_expression_chooses_frames_as_tcpdump_does() {
    if !tshark::is_here() {
        return;
    }
    let mut world = World::new(2);
    world.start(2);
    world.greet(0, 1);
    let flags = ["--port", "c0", "udp", "dst", "port", "7", "and", "src", "10.9.0.1"];
    let capture = Capture::begin(&world, &flags);
    for _ in 0..3 {
        world.greet(0, 1);
    }
    until(|| capture.has(3));
    let (capture, _) = capture.end();
    let fields = capture.read(&["ip.src", "ip.dst", "udp.dstport"]);
    assert_eq!(fields, vec![["10.9.0.1", "10.9.0.2", "7"].map(str::to_owned); 3]);

    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args(["capture", "-w", "-", "hots", "10.0.0.1", "--socket"]).arg(world.socket());
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("`hots 10.0.0.1` is no filter: `hots` is not understood"), "{said}");
}

/// A file system of a few pages, which goes with its guard.
struct Small(PathBuf);

impl Small {
    fn new(at: PathBuf) -> Self {
        fs::create_dir(&at).unwrap();
        let options = ["-t", "tmpfs", "-o", "size=32k", "none"];
        assert!(Command::new("mount").args(options).arg(&at).status().unwrap().success());
        Self(at)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_named_and_what_is_on_it_stays_readable() {
    if !tshark::is_here() {
        return;
    }
    let mut world = World::new(2);
    world.start(2);
    world.greet(0, 1);
    let small = Small::new(world.directory.path().join("small"));
    let file = small.0.join("full.pcapng");
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.arg("capture").arg("-w").arg(&file).arg("--socket").arg(world.socket());
    let mut capture = command.stderr(Stdio::piped()).spawn().unwrap();
    let (from, to) = (world.udp(0), world.udp(1));
    until(|| {
        from.send_to(&[7; 1000], to.local_addr().unwrap()).unwrap();
        to.recv(&mut [0; 1000]).unwrap();
        capture.try_wait().unwrap().is_some()
    });
    let output = capture.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let why = format!("cannot write {}: No space left on device", file.display());
    assert!(said.contains(&why), "{said}");
    let count = said.split_whitespace().nth(1).unwrap().to_owned();
    let fields = ["-T", "fields", "-e", "frame.number"];
    let read = Command::new("tshark").arg("-r").arg(&file).args(fields).output().unwrap();
    let (frames, complaints) = (String::from_utf8(read.stdout).unwrap(), read.stderr);
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&complaints));
    assert_eq!(frames.lines().count().to_string(), count, "{said}");
}
