//! Two network namespaces with the kernel's own TCP, and the path between their interfaces in user
//! space.
//!
//! Every frame is taken from one interface, judged by the path, held until its time has come and
//! handed to the other. The receiving kernel's stack runs within the handing over, up to its
//! answer: so what matters is that one thread is not late.

use std::collections::VecDeque;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use kernel::ethtool;
use kernel::netlink::{LinkChange, Netlink};
use kernel::netns::Namespace;
use port::{Left, Port, Slot, Taken};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tap::{TapConfig, TapPort};
use tcp::Control;
use units::{Instant, Mac, Span};
use wire::ethernet::{self, ethertype};
use wire::{ipv4, tcp as segments};

use crate::path::{Drops, Forward, Path};
use crate::trace::Trace;

/// Nothing here takes longer, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two hosts. Their namespaces go with them.
pub struct Kernel {
    names: [String; 2],
    namespaces: [Namespace; 2],
    ports: [TapPort; 2],
}

/// How a client ends.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    Bytes(u64),
    Time(Duration),
}

impl Kernel {
    pub fn new(tag: &str) -> Self {
        let names = ["a", "b"].map(|end| format!("zovn-t-{tag}-{end}-{}", std::process::id()));
        let namespaces = [0, 1].map(|end| Namespace::create(&names[end]).unwrap());
        let ports = [0, 1].map(|end| {
            let number = end as u32 + 1;
            let mut config = TapConfig::new(&*names[end], "eth0", Mac::local(number));
            config.addresses = vec![format!("10.9.0.{number}/24").parse().unwrap()];
            config.offload = false;
            config.small_slots = 4096;
            TapPort::attach(&config).unwrap()
        });
        for (end, namespace) in namespaces.iter().enumerate() {
            let mut netlink = Netlink::open_in(namespace).unwrap();
            let link = netlink.index("eth0").unwrap();
            let other = 2 - end as u32;
            let address = format!("10.9.0.{other}").parse().unwrap();
            netlink.add_neighbour(link, address, Mac::local(other)).unwrap();
            // A segment is sent when the window allows one, and not when it allows a batch.
            let change = LinkChange { gso_max_segs: Some(1), ..LinkChange::default() };
            netlink.change_link("eth0", change).unwrap();
            ethtool::switch_offload_off(namespace, "eth0").unwrap();
            set(namespace, "tcp_no_metrics_save", "1");
            set(namespace, "tcp_timestamps", "1");
            // A host's default may pace, and a socket that began so does until its end.
            set(namespace, "tcp_congestion_control", "reno");
        }
        Self { names, namespaces, ports }
    }

    /// One connection, from the SYN until all has arrived or the time is over.
    pub fn transfer(
        &mut self,
        control: Control,
        path: Path,
        drops: Drops,
        amount: Amount,
    ) -> Trace {
        let [near, far] = &self.namespaces;
        let listener = far.run(|| TcpListener::bind("10.9.0.2:0")).unwrap().unwrap();
        let address = listener.local_addr().unwrap();
        let mut middle = Middle::new(&mut self.ports, address.port(), Forward::new(path, drops));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let middle = scope.spawn(|| {
                hurry();
                while !done.load(Relaxed) {
                    middle.turn();
                    middle.sleep();
                }
                middle.end()
            });
            let over = needs::Over(&done);
            let client =
                near.run(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap().unwrap();
            let server = scope.spawn(|| serve(&listener, amount));
            // A namespace's default may only be what is allowed to everybody.
            rustix::net::sockopt::set_tcp_congestion(&client, &control.to_string()).unwrap();
            send(&client, amount);
            server.join().unwrap();
            // What is closed like this is forgotten by the kernel at once.
            rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            drop(client);
            drop(over);
            middle.join().unwrap()
        })
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        for (namespace, name) in self.namespaces.iter().zip(&self.names) {
            if let Ok(mut netlink) = Netlink::open_in(namespace) {
                let _ = netlink.delete_link("eth0");
            }
            let _ = Namespace::delete(name);
        }
    }
}

fn set(namespace: &Namespace, name: &str, value: &str) {
    let write = || fs::write(format!("/proc/sys/net/ipv4/{name}"), value);
    namespace.run(write).unwrap().unwrap_or_else(|error| panic!("{name} = {value}: {error}"));
}

/// Puts the calling thread before all that is ordinary. Without the right or the program to do so,
/// figures are noisier.
fn hurry() {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let _ = Command::new("chrt")
        .args(["--fifo", "--pid", "10", &thread])
        .stderr(Stdio::null())
        .status();
}

fn send(mut stream: &TcpStream, amount: Amount) {
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    match amount {
        Amount::Bytes(bytes) => stream.write_all(&vec![0; bytes as usize]).unwrap(),
        Amount::Time(time) => {
            let begun = std::time::Instant::now();
            while begun.elapsed() < time {
                stream.write_all(&[0; 64 << 10]).unwrap();
            }
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        }
    }
}

fn serve(listener: &TcpListener, amount: Amount) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut left = if let Amount::Bytes(bytes) = amount { bytes } else { u64::MAX };
    while left > 0 {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => left -= read as u64,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        }
    }
}

/// What lies between the two interfaces, for one connection.
struct Middle<'a> {
    ports: &'a mut [TapPort; 2],
    /// The server's port. Whatever is not of this connection ends here.
    port: u16,
    forward: Forward,
    delay: Span,
    /// By the interface it came from.
    held: [VecDeque<(Instant, Slot)>; 2],
    epoch: std::time::Instant,
    /// Whether nothing can be done before a frame comes, or is due.
    idle: bool,
    /// By how much the latest of frames was handed over too late.
    late: Span,
}

impl<'a> Middle<'a> {
    fn new(ports: &'a mut [TapPort; 2], port: u16, forward: Forward) -> Self {
        let delay = forward.delay();
        Self {
            ports,
            port,
            forward,
            delay,
            held: Default::default(),
            epoch: std::time::Instant::now(),
            idle: true,
            late: Span::ZERO,
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(1 + self.epoch.elapsed().as_nanos() as u64)
    }

    fn turn(&mut self) {
        for from in 0..2 {
            let now = self.now();
            let (held, mut gone) = (&mut self.held[from], Vec::new());
            let (forward, delay, port) = (&mut self.forward, self.delay, self.port);
            let lifted = self.ports[from].receive(64, |slot, frame| {
                let arrives = match parse(frame.bytes) {
                    Some((_, destination, segment)) if from == 0 && destination == port => {
                        let number = segment.header.sequence.get();
                        let syn = segment.header.flags.any(segments::Flags::SYN);
                        forward.pass(
                            now,
                            frame.bytes.len(),
                            number,
                            segment.payload.len() as u16,
                            syn,
                        )
                    }
                    Some((source, ..)) if from == 1 && source == port => Some(now + delay),
                    _ => None,
                };
                match arrives {
                    Some(arrives) => held.push_back((arrives, slot)),
                    None => gone.push(slot),
                }
            });
            self.idle &= lifted.unwrap() == Left::Nothing;
            for slot in gone {
                self.ports[from].release(slot);
            }
            self.hand_over(from);
            self.idle &= self.ports[from].flush().unwrap();
        }
    }

    /// Until a frame comes, or is due.
    fn sleep(&mut self) {
        if !std::mem::replace(&mut self.idle, true) {
            return;
        }
        let due = self.held.iter().filter_map(|held| held.front()).map(|(due, _)| *due).min();
        let span = due.map_or(Span::from_millis(5), |due| due.since(self.now()));
        let timeout =
            Timespec { tv_sec: 0, tv_nsec: span.min(Span::from_millis(5)).as_nanos() as i64 };
        let mut fds = self.ports.each_ref().map(|port| PollFd::new(port, PollFlags::IN));
        poll(&mut fds, Some(&timeout)).unwrap();
    }

    /// Everything whose time has come.
    fn hand_over(&mut self, from: usize) {
        let now = self.now();
        let [one, other] = &mut *self.ports;
        let (sender, receiver) = if from == 0 { (one, other) } else { (other, one) };
        while let Some((due, slot)) = self.held[from].pop_front_if(|(due, _)| *due <= now) {
            self.late = self.late.max(now.since(due));
            assert_eq!(
                receiver.transmit(&sender.frame(slot)).unwrap(),
                Taken::Yes,
                "an interface that is up takes all"
            );
            sender.release(slot);
        }
    }

    /// Lets nothing more pass.
    fn end(mut self) -> Trace {
        for from in 0..2 {
            for (_, slot) in self.held[from].drain(..) {
                self.ports[from].release(slot);
            }
        }
        Trace::new(self.forward.log, self.late)
    }
}

/// The ports and the segment of a frame that holds one.
fn parse(frame: &[u8]) -> Option<(u16, u16, segments::Segment<'_>)> {
    let (header, packet) = ethernet::Header::parse(frame)?;
    if header.ethertype.get() != ethertype::IPV4 {
        return None;
    }
    let packet = ipv4::Packet::parse(packet).filter(|packet| packet.header.protocol == 6)?;
    let segment = segments::Segment::parse(packet.payload)?;
    Some((segment.header.source.get(), segment.header.destination.get(), segment))
}
