//! Two containers and the smallest switch: what arrives at one port leaves by the other.

use std::collections::VecDeque;
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kernel::netlink::{Netlink, PATIENCE, await_addresses};
use kernel::netns::Namespace;
use port::{Left, Port, PortError, Slot, Taken};
use rustix::event::epoll;
use tap::{TapConfig, TapPort};
use units::Mac;

/// A namespace that goes with its guard.
pub struct Container {
    pub name: String,
    pub namespace: Namespace,
}

impl Container {
    pub fn new(name: &str) -> Self {
        let name = format!("zovn-t-{name}-{}", std::process::id());
        let namespace = Namespace::create(&name).unwrap();
        // A loss probe (RFC 8985 §7) is sent because an answer is late, as it is on a busy machine.
        // Without them, whatever is sent again was lost.
        let no_probes = || std::fs::write("/proc/sys/net/ipv4/tcp_early_retrans", "0");
        namespace.run(no_probes).unwrap().unwrap();
        Self { name, namespace }
    }

    /// Tells the container where the other one is: while it asks, it drops what its sockets send.
    pub fn knows(&self, other: u8) {
        let mut netlink = Netlink::open_in(&self.namespace).unwrap();
        let link = netlink.index("eth0").unwrap();
        let address = format!("10.9.0.{other}").parse().unwrap();
        netlink.add_neighbour(link, address, Mac::local(other.into())).unwrap();
    }

    pub fn udp(&self, address: &str) -> UdpSocket {
        self.namespace.run(|| UdpSocket::bind(address)).unwrap().unwrap()
    }

    pub fn listen(&self, address: &str) -> TcpListener {
        self.namespace.run(|| TcpListener::bind(address)).unwrap().unwrap()
    }

    pub fn connect(&self, address: &str) -> TcpStream {
        self.namespace.run(|| TcpStream::connect(address)).unwrap().unwrap()
    }

    /// A counter of the container's own stack, from /proc/net/snmp or /proc/net/netstat.
    pub fn counter(&self, protocol: &str, name: &str) -> u64 {
        let file = if protocol.ends_with("Ext") { "netstat" } else { "snmp" };
        let read = || std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        let text = self.namespace.run(read).unwrap().unwrap();
        let mut lines =
            text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let place = names.split(' ').position(|other| other == name).unwrap();
        values.split(' ').nth(place).unwrap().parse().unwrap()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = Namespace::delete(&self.name);
    }
}

/// The interface `eth0` of container number 1 or 2: 10.9.0.1 and fd09::1, or 2.
pub fn config(container: &Container, number: u8) -> TapConfig {
    let mut config = TapConfig::new(&*container.name, "eth0", Mac::local(number.into()));
    config.addresses = vec![
        format!("10.9.0.{number}/24").parse().unwrap(),
        format!("fd09::{number}/64").parse().unwrap(),
    ];
    config
}

/// Attaches a container's port, and waits until its addresses are in use.
pub fn attach(config: &TapConfig) -> TapPort {
    let deadline = Instant::now() + PATIENCE;
    // What a program of another test has inherited of this process it closes when it begins. Until
    // then it has a device open that was closed here.
    let port = loop {
        match TapPort::attach(config) {
            Err(error) if error.is_too_early() && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            attached => break attached.unwrap(),
        }
    };
    let container = Namespace::open(&config.netns).unwrap();
    await_addresses(&container, &config.interface, config.addresses.clone(), deadline).unwrap();
    port
}

/// Moves frames between two ports.
pub struct Wire {
    pub ports: [TapPort; 2],
    waiting: [VecDeque<Slot>; 2],
    /// Whether a port may hold frames that it gave no event for.
    unread: [bool; 2],
}

/// How many frames a port may have waiting here.
const HELD: usize = 64;

impl Wire {
    pub fn new(ports: [TapPort; 2]) -> Self {
        Self { ports, waiting: Default::default(), unread: [true; 2] }
    }

    /// Lifts at most `most` frames from each port and hands them over. `seen` is told each one's
    /// port and length.
    pub fn turn(
        &mut self,
        most: usize,
        mut seen: impl FnMut(usize, usize),
    ) -> Result<(), PortError> {
        for from in 0..2 {
            let waiting = &mut self.waiting[from];
            let room = (HELD - waiting.len()).min(most);
            if room > 0 {
                let left = self.ports[from].receive(room, |slot, frame| {
                    seen(from, frame.bytes.len());
                    waiting.push_back(slot);
                })?;
                self.unread[from] = !matches!(left, Left::Nothing | Left::Armed);
            }
            let [one, other] = &mut self.ports;
            let (sender, receiver) = if from == 0 { (one, other) } else { (other, one) };
            while let Some(slot) = waiting.front() {
                match receiver.transmit(&sender.frame(*slot))? {
                    Taken::Busy => break,
                    Taken::Yes => {}
                    Taken::Unfit | Taken::Dropped => panic!("a kernel's frame is well-formed"),
                }
                sender.release(*slot);
                waiting.pop_front();
            }
            sender.flush()?;
        }
        self.ports.iter_mut().try_for_each(|port| port.flush().map(drop))
    }

    /// Whether nothing can be done before an event.
    pub fn is_idle(&self) -> bool {
        self.unread == [false; 2] && self.waiting.iter().all(VecDeque::is_empty)
    }

    pub fn detach(self) {
        self.ports.into_iter().for_each(|port| port.detach().unwrap());
    }
}

/// A wire that a thread of its own drives until it is stopped.
pub struct Forwarder {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Wire>>,
}

struct Shared {
    stop: AtomicBool,
    /// Frames a second from each port; 0 is as fast as they come.
    pace: AtomicU64,
    /// Frames from each port.
    seen: [AtomicU64; 2],
    /// Those of [`Forwarder::COUNTED`] bytes or more.
    counted: [AtomicU64; 2],
    /// Processor time of the thread so far, in nanoseconds, as of its last sleep.
    busy_ns: AtomicU64,
    failed: Mutex<Option<String>>,
}

impl Forwarder {
    /// Shorter frames, as ARP and ND send them, are not counted.
    pub const COUNTED: usize = 200;

    pub fn start(mut wire: Wire, pace: u64) -> Self {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            pace: AtomicU64::new(pace),
            seen: Default::default(),
            counted: Default::default(),
            busy_ns: AtomicU64::new(0),
            failed: Mutex::new(None),
        });
        let mine = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            if let Err(error) = drive(&mut wire, &mine) {
                *mine.failed.lock().unwrap() = Some(error.to_string());
            }
            wire
        });
        Self { shared, thread: Some(thread) }
    }

    pub fn counted(&self, port: usize) -> u64 {
        assert_eq!(*self.shared.failed.lock().unwrap(), None);
        self.shared.counted[port].load(Relaxed)
    }

    pub fn seen(&self, port: usize) -> u64 {
        self.shared.seen[port].load(Relaxed)
    }

    pub fn processor_time(&self) -> Duration {
        Duration::from_nanos(self.shared.busy_ns.load(Relaxed))
    }

    pub fn set_pace(&self, pace: u64) {
        self.shared.pace.store(pace, Relaxed);
    }

    pub fn stop(mut self) -> Wire {
        self.shared.stop.store(true, Relaxed);
        let wire = self.thread.take().unwrap().join().unwrap();
        assert_eq!(*self.shared.failed.lock().unwrap(), None);
        wire
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
    }
}

fn drive(wire: &mut Wire, shared: &Shared) -> io::Result<()> {
    let sleeper = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for port in &wire.ports {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&sleeper, port.as_fd(), epoll::EventData::new_u64(0), flags)?;
    }
    let mut events = Vec::with_capacity(2);
    let mut earlier = Instant::now();
    while !shared.stop.load(Relaxed) {
        let most = match shared.pace.load(Relaxed) {
            0 => HELD,
            pace => {
                std::thread::sleep(Duration::from_millis(1));
                let now = Instant::now();
                let passed = now - std::mem::replace(&mut earlier, now);
                (passed.as_micros() as u64 * pace / 1_000_000) as usize
            }
        };
        let seen = |port: usize, len| {
            shared.seen[port].fetch_add(1, Relaxed);
            if len >= Forwarder::COUNTED {
                shared.counted[port].fetch_add(1, Relaxed);
            }
        };
        wire.turn(most, seen).map_err(io::Error::other)?;
        if wire.is_idle() {
            let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            shared.busy_ns.store(used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64, Relaxed);
            events.clear();
            let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            epoll::wait(&sleeper, rustix::buffer::spare_capacity(&mut events), Some(&timeout))?;
        }
    }
    Ok(())
}

/// Polls until something is so; the time is a bound for a broken world only.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "in vain: {what}");
        std::thread::yield_now();
    }
}
