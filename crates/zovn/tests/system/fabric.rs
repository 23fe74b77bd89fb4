//! `zovn fabric`: a physical switch between two hosts, which are namespaces with a kernel each.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kernel::netlink::Netlink;
use kernel::netns::Namespace;
use kernel::packet;
use lab::physical::{FabricPort, FabricReport, FabricSpec};
use model::ClassKind;
use rustix::net::{SendFlags, sockopt};
use rustix::process::{Pid, Signal, kill_process};
use units::{Bytes, Mac, Rate, Span};
use wire::pause;
use zerocopy::IntoBytes;

/// Two hosts and the switch between them. All of it goes with the test.
struct World {
    prefix: String,
    place: tempfile::TempDir,
    hosts: [Namespace; 2],
    switch: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

const LINK: u64 = 100_000_000;

const SOCKET: &str = "fabric.sock";

/// No test waits so long, unless something never comes.
const LONG: Duration = Duration::from_secs(60);

impl World {
    /// Links of 100 Mb/s. The second host's is a tenth as fast.
    fn new(change: impl FnOnce(&mut FabricSpec)) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("zovn-t-fabric-{}-{number}", std::process::id());
        let hosts = [0, 1].map(|at| Namespace::create(&format!("{prefix}-{at}")).unwrap());
        // No frames but those that a test sends: none is announced, and none is asked for.
        for host in &hosts {
            let quiet = || fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            host.run(quiet).unwrap().unwrap();
        }
        let ports = (0..2).map(|at| FabricPort {
            switch: String::new(),
            name: format!("h{at}"),
            netns: format!("{prefix}-{at}"),
            interface: "eth0".into(),
            mac: mac(at),
            addresses: vec![format!("10.8.0.{}/24", at + 1).parse().unwrap()],
            mtu: 1500,
            offload: false,
            rate: Rate::from_bits_per_sec([LINK, LINK / 10][at]).unwrap(),
            delay: Span::from_micros(10),
            buffer: Default::default(),
            class: Default::default(),
        });
        let mut spec = FabricSpec { ports: ports.collect(), ..FabricSpec::default() };
        change(&mut spec);
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("fabric.toml");
        fs::write(&file, toml::to_string(&spec).unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.arg("fabric").arg("--config").arg(&file);
        command
            .arg("--socket")
            .arg(place.path().join(SOCKET))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut switch = command.spawn().unwrap();
        let stdin = switch.stdin.take();
        let mut lines = BufReader::new(switch.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), r#"{"ready":true}"#);
        for (at, host) in hosts.iter().enumerate() {
            let mut netlink = Netlink::open_in(host).unwrap();
            let link = netlink.index("eth0").unwrap();
            let other = 1 - at;
            netlink.add_neighbour(link, [10, 8, 0, other as u8 + 1].into(), mac(other)).unwrap();
        }
        Self { prefix, place, hosts, switch, stdin, lines }
    }

    /// A socket of a host whose buffer no test fills.
    fn udp(&self, host: usize) -> UdpSocket {
        let address = format!("10.8.0.{}:7000", host + 1);
        let socket = self.hosts[host].run(|| UdpSocket::bind(address)).unwrap().unwrap();
        sockopt::set_socket_recv_buffer_size_force(&socket, 32 << 20).unwrap();
        socket
    }

    fn report(&mut self) -> FabricReport {
        writeln!(self.stdin.as_ref().unwrap(), "counters").unwrap();
        self.next_report()
    }

    /// What was counted once that is enough.
    fn report_when(&mut self, is_enough: impl Fn(&FabricReport) -> bool) -> FabricReport {
        let begun = Instant::now();
        loop {
            let report = self.report();
            if is_enough(&report) {
                return report;
            }
            assert!(begun.elapsed() < LONG, "{report:?}");
            thread::yield_now();
        }
    }

    fn next_report(&mut self) -> FabricReport {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    /// Sends so many datagrams from the first host to the second, at once. How many came, and what
    /// was counted then.
    fn flood(&mut self, count: u64, size: usize) -> (u64, FabricReport) {
        let (from, to) = (self.udp(0), self.udp(1));
        let address = to.local_addr().unwrap();
        for _ in 0..count {
            from.send_to(&vec![7; size], address).unwrap();
        }
        let report = self.report_when(|report| {
            let first = report.port("h0");
            first.received.frames == count && first.held.frames == 0
        });
        assert!(report.balanced);
        // All are in the socket: a frame has been handed over when its kernel is done with it.
        to.set_nonblocking(true).unwrap();
        let came = std::iter::from_fn(|| to.recv(&mut [0; 2000]).ok()).count() as u64;
        assert_eq!(report.port("h0").passed.frames, came);
        (came, report)
    }

    fn has_interface(&self, host: usize) -> bool {
        Netlink::open_in(&self.hosts[host]).unwrap().index("eth0").is_ok()
    }

    /// How the switch ends.
    fn end(mut self, how: impl FnOnce(&mut Self)) -> FabricReport {
        how(&mut self);
        let report = self.next_report();
        assert!(self.lines.next().is_none());
        assert!(self.switch.wait().unwrap().success());
        assert!(!self.place.path().join(SOCKET).exists());
        assert!(!self.has_interface(0) && !self.has_interface(1));
        report
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.switch), signal).unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.switch.kill();
        let _ = self.switch.wait();
        (0..2).for_each(|at| Namespace::delete(&format!("{}-{at}", self.prefix)).unwrap());
    }
}

fn mac(host: usize) -> Mac {
    Mac::local(host as u32 + 1)
}

fn lossless(spec: &mut FabricSpec) {
    spec.classes = [ClassKind::Lossless; 8];
}

#[test]
fn a_lossy_switch_drops_what_its_buffer_cannot_hold_and_counts_it() {
    const FRAMES: u64 = 1000;
    let mut world = World::new(|spec| spec.ports[0].buffer.frames = 50);
    let (came, report) = world.flood(FRAMES, 1000);
    let first = report.port("h0");
    assert_eq!(came + first.dropped("full"), FRAMES);
    // They come ten times as fast as they go. A sender that is interrupted fills its link less.
    assert!(first.dropped("full") > FRAMES / 4, "{first:?}");
    assert_eq!(
        (first.dropped.len(), first.pauses_sent, report.port("h1").sent.frames),
        (1, 0, came)
    );
    world.end(|world| drop(world.stdin.take()));
}

#[test]
fn a_lossless_switch_asks_for_pauses_and_loses_nothing_of_who_does_not_heed_them() {
    const FRAMES: u64 = 1000;
    let mut world = World::new(lossless);
    let begun = Instant::now();
    let (came, report) = world.flood(FRAMES, 1000);
    assert_eq!(came, FRAMES);
    let first = report.port("h0");
    assert!(first.dropped.is_empty() && first.pauses_sent > 0, "{first:?}");
    // No frame comes faster than the second link has it: 1,042 bytes are 1,066 on the wire.
    let least = Rate::from_bits_per_sec(LINK / 10).unwrap().time_for(FRAMES * 1066);
    assert!(begun.elapsed() >= Duration::from(least));
    let report = world.end(|world| world.signal(Signal::TERM));
    assert_eq!(report.port("h1").sent.frames, FRAMES);
}

#[test]
fn random_loss_is_what_is_missing() {
    let mut world = World::new(|spec| {
        spec.ports[1].rate = spec.ports[0].rate;
        spec.loss = 0.1;
        lossless(spec);
    });
    let (came, report) = world.flood(1000, 100);
    let random = report.port("h0").dropped("random");
    assert_eq!(came + random, 1000);
    assert!((50..150).contains(&random), "{random}");
}

/// TCP, with and without offload, through a switch that drops or marks, or does neither.
#[test]
fn a_stream_passes_whatever_the_switch_promises() {
    const BYTES: usize = 2_000_000;
    for (kind, offload) in
        [(ClassKind::Lossy, false), (ClassKind::Lossless, false), (ClassKind::Lossy, true)]
    {
        let mut world = World::new(|spec| {
            spec.classes = [kind; 8];
            spec.ecn = Some(Bytes(20_000));
            spec.ports.iter_mut().for_each(|port| port.offload = offload);
        });
        for host in &world.hosts {
            host.run(|| fs::write("/proc/sys/net/ipv4/tcp_ecn", "1")).unwrap().unwrap();
        }
        let listener = world.hosts[1].run(|| TcpListener::bind("10.8.0.2:7000")).unwrap().unwrap();
        let mut sender =
            world.hosts[0].run(|| TcpStream::connect("10.8.0.2:7000")).unwrap().unwrap();
        let begun = Instant::now();
        let writer = thread::spawn(move || sender.write_all(&vec![7; BYTES]).unwrap());
        let mut got = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
        let took = begun.elapsed();
        writer.join().unwrap();
        assert!(got.len() == BYTES && got.iter().all(|byte| *byte == 7));
        let least = Rate::from_bits_per_sec(LINK / 10).unwrap().time_for(BYTES as u64);
        assert!(took >= Duration::from(least), "{took:?}");
        let report = world.report();
        let (first, second) = (report.port("h0"), report.port("h1"));
        assert!(second.marked > 0 && report.balanced, "{report:?}");
        assert!(kind == ClassKind::Lossy || first.dropped.is_empty(), "{first:?}");
        // Frames are what a wire would carry, also where a segment stands for them.
        assert!(second.sent.frames >= (BYTES / 1460) as u64, "{second:?}");
    }
}

#[test]
fn delays_add_up_and_pauses_of_hosts_are_obeyed() {
    let mut world = World::new(|spec| {
        spec.ports.iter_mut().for_each(|port| port.delay = Span::from_millis(5));
    });
    let (one, other) = (world.udp(0), world.udp(1));
    let begun = Instant::now();
    one.send_to(b"there", other.local_addr().unwrap()).unwrap();
    other.set_read_timeout(Some(LONG)).unwrap();
    one.set_read_timeout(Some(LONG)).unwrap();
    other.recv(&mut [0; 8]).unwrap();
    other.send_to(b"back", one.local_addr().unwrap()).unwrap();
    one.recv(&mut [0; 8]).unwrap();
    // What was lifted late counts as sent earlier, by a millisecond at the most.
    let least = Duration::from_millis(4 * 5 - 2);
    assert!(begun.elapsed() >= least, "four links of 5 ms: {:?}", begun.elapsed());

    let link = Netlink::open_in(&world.hosts[1]).unwrap().index("eth0").unwrap();
    let socket = world.hosts[1].run(|| packet::socket(link, 0)).unwrap().unwrap();
    rustix::net::send(&socket, pause::Frame::new(mac(1), u16::MAX).as_bytes(), SendFlags::empty())
        .unwrap();
    // One for each class.
    world.report_when(|report| report.port("h1").pauses_obeyed == 8);
    let asked = FabricReport::ask(&world.place.path().join(SOCKET)).unwrap();
    assert_eq!(asked.port("h1").received.frames, 1, "a pause is for the switch");
}

#[test]
fn what_cannot_be_is_told_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("fabric.toml");
    let mut spec = FabricSpec { loss: 2.0, ..FabricSpec::default() };
    let run = |spec: &FabricSpec| {
        fs::write(&file, toml::to_string(spec).unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        let output = command.arg("fabric").arg("-c").arg(&file).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(run(&spec).contains("make it a probability"));
    let prefix = format!("zovn-t-fabric-{}", std::process::id());
    let here = Namespace::create(&format!("{prefix}-here")).unwrap();
    spec.loss = 0.0;
    for (at, netns) in ["here", "nowhere"].into_iter().enumerate() {
        let text = format!(
            "name = \"{netns}\"\nnetns = \"{prefix}-{netns}\"\nmac = \"{}\"\nrate = \"1gbit\"\n",
            mac(at)
        );
        spec.ports.push(toml::from_str(&text).unwrap());
    }
    let said = run(&spec);
    let left = Netlink::open_in(&here).unwrap().index("eth0").is_ok();
    Namespace::delete(&format!("{prefix}-here")).unwrap();
    assert!(said.contains("port `nowhere`") && !left, "{said}");
}
