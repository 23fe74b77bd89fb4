//! The program: TAP devices, the fabric between them, and a clock.

use std::num::NonZeroU64;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time;

use ::fabric::{Delivery, Fabrics, Place, Released, Sent, mark};
use kernel::netlink;
use kernel::netns::Namespace;
use kernel::thread::schedule;
use port::{BURST, FrameView, Left, Port, PortError, Slot, Taken};
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tap::TapPort;
use units::{Instant, Span};
use wire::pfc;
use zerocopy::IntoBytes;

use super::plan::Plan;
use super::{FabricReport, FabricSpec};
use crate::LabError;

/// By how much we may be late without a link being idle for it: what a host sends goes on as if it
/// had been lifted in time.
const LATE: Span = Span::from_millis(1);

/// The thread's priority and how long it runs before another has its turn: as an agent's.
const NICE: i32 = -10;
const SLICE: Span = Span::from_micros(100);

/// How soon a device that could not end its burst is tried again.
const RETRY: Span = Span::from_micros(500);

/// A physical switch that runs. One thread turns it, and waits in between.
pub struct PhysicalSwitch {
    spec: FabricSpec,
    fabric: Fabrics<Slot>,
    /// Every port's name.
    names: Vec<(String, Place)>,
    hosts: Vec<Host>,
    epoll: OwnedFd,
    begun: time::Instant,
    /// Where frames are marked.
    scratch: Vec<u8>,
}

/// A host's interface.
struct Host {
    device: TapPort,
    /// It may have something to send; otherwise its next event is worth waiting for.
    wet: bool,
    /// It was seen empty when it was looked at last.
    emptied: bool,
    /// Since when what it sends next may have been waiting for the link.
    ready_at: Instant,
    /// There was no room for what it sends next.
    blocked: bool,
    /// It could not end its burst.
    unfinished: bool,
}

impl PhysicalSwitch {
    /// Makes the hosts' interfaces, and waits until their addresses are in use. Frames flow as soon
    /// as it is turned, by the thread that calls this.
    ///
    /// # Errors
    ///
    /// [`LabError`]; whatever was made is removed again.
    pub fn up(spec: FabricSpec) -> Result<Self, LabError> {
        let plan = spec.plan()?;
        // Without the privilege to go first, it is late more often.
        let _ = schedule(NICE, SLICE).or_else(|_| schedule(0, SLICE));
        // A frame is due to the microsecond; by default a timer may be 50 µs late (prctl(2),
        // PR_SET_TIMERSLACK).
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let fabric = Fabrics::new(&plan.configs, plan.hosts.clone(), &plan.cables);
        let fabric = fabric.map_err(|(_, error)| LabError::Fabric(error.to_string()))?;
        let kernel = |error: rustix::io::Errno| LabError::kernel("wait for frames")(error.into());
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(kernel)?;
        let hosts = Vec::with_capacity(spec.ports.len());
        let begun = time::Instant::now();
        let names = plan.names.clone();
        let mut it = Self { spec, fabric, names, hosts, epoll, begun, scratch: Vec::new() };
        let attached = (0..it.spec.ports.len()).try_for_each(|port| it.attach(port, &plan));
        if let Err(error) = attached.and_then(|()| it.await_addresses()) {
            // The error that is told is the first.
            let _ = it.down();
            return Err(error);
        }
        Ok(it)
    }

    fn await_addresses(&self) -> Result<(), LabError> {
        let deadline = time::Instant::now() + netlink::PATIENCE;
        self.spec.ports.iter().try_for_each(|port| {
            let host = Namespace::open(&port.netns)?;
            Ok(netlink::await_addresses(&host, &port.interface, port.addresses.clone(), deadline)?)
        })
    }

    fn attach(&mut self, port: usize, plan: &Plan) -> Result<(), LabError> {
        let attach = |source| LabError::Attach { port: self.spec.ports[port].name.clone(), source };
        let device = TapPort::attach(&self.spec.tap(port, plan)).map_err(attach)?;
        let ready_at = self.now();
        let data = EventData::new_u64(port as u64);
        let added = epoll::add(&self.epoll, &device, data, EventFlags::IN | EventFlags::ET);
        self.hosts.push(Host {
            device,
            wet: true,
            emptied: false,
            ready_at,
            blocked: false,
            unfinished: false,
        });
        added.map_err(|error| LabError::kernel("wait for frames")(error.into()))
    }

    /// Removes the hosts' interfaces. What is underway is gone.
    ///
    /// # Errors
    ///
    /// [`LabError::Port`]: the first interface that may remain.
    pub fn down(self) -> Result<(), LabError> {
        let detached: Vec<_> = self.hosts.into_iter().map(|host| host.device.detach()).collect();
        detached.into_iter().collect::<Result<(), PortError>>().map_err(LabError::from)
    }

    /// What was counted until now.
    pub fn report(&self) -> FabricReport {
        FabricReport::of(&self.fabric, &self.names)
    }

    /// Lifts what hosts send, as far as their links are free, and hands over what has arrived.
    ///
    /// # Errors
    ///
    /// [`LabError::Port`]: a host's interface is gone or broken.
    pub fn turn(&mut self) -> Result<(), LabError> {
        let now = self.now();
        for port in 0..self.hosts.len() {
            self.lift(now, port)?;
        }
        self.fabric.run(now);
        self.deliver(now)?;
        for Released { port, handle } in self.fabric.released() {
            self.hosts[port].device.release(handle);
        }
        for host in &mut self.hosts {
            host.unfinished = !host.device.flush()?;
        }
        Ok(())
    }

    /// Waits until a host sends something, something falls due, or one of `others` is readable.
    /// Which of these are.
    ///
    /// # Errors
    ///
    /// [`LabError::Kernel`]; there is no cause that we know of.
    pub fn wait<const N: usize>(
        &mut self,
        others: [BorrowedFd<'_>; N],
    ) -> Result<[bool; N], LabError> {
        let now = self.now();
        let mut fds = vec![PollFd::new(&self.epoll, PollFlags::IN)];
        fds.extend(others.iter().map(|other| PollFd::new(other, PollFlags::IN)));
        let patience = self.deadline().map(|due| due.since(now).as_nanos());
        let patience = patience.map(|ns| Timespec {
            // Both parts fit: a u64 of nanoseconds is less than 2^35 seconds.
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        let waited = match poll(&mut fds, patience.as_ref()) {
            // A signal: whoever sent it says so by other means.
            Err(rustix::io::Errno::INTR) => return Ok([false; N]),
            waited => waited,
        };
        waited.map_err(|error| LabError::kernel("wait for frames")(error.into()))?;
        let readable = std::array::from_fn(|other| !fds[other + 1].revents().is_empty());
        if fds[0].revents().contains(PollFlags::IN) {
            self.stir()?;
        }
        Ok(readable)
    }

    fn now(&self) -> Instant {
        // Far from the origin, so that links have been free for long.
        Instant::from_nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
            + LATE
    }

    /// When there is something to do although no host sends.
    fn deadline(&self) -> Option<Instant> {
        let lifts = |(port, host): (usize, &Host)| {
            let may = host.wet && (!host.blocked || self.fabric.has_room(port));
            may.then(|| self.fabric.host_free_at(port))
        };
        let lifts = self.hosts.iter().enumerate().filter_map(lifts).min();
        let retry = self.hosts.iter().any(|host| host.unfinished).then(|| self.now() + RETRY);
        [lifts, retry, self.fabric.deadline()].into_iter().flatten().min()
    }

    /// Takes the events of hosts that send again.
    fn stir(&mut self) -> Result<(), LabError> {
        let now = self.now();
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = match epoll::wait(&self.epoll, &mut events, Some(&at_once)) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            count => count.map_err(|error| LabError::kernel("wait for frames")(error.into()))?,
        };
        for event in &events[..count] {
            let host = &mut self.hosts[event.data.u64() as usize];
            if !host.wet {
                (host.wet, host.emptied, host.ready_at) = (true, false, now);
            }
        }
        Ok(())
    }

    /// Has a host's link take what the host sends, one frame after the other, until it is busy.
    fn lift(&mut self, now: Instant, port: usize) -> Result<(), LabError> {
        let Self { fabric, hosts, .. } = self;
        let host = &mut hosts[port];
        host.blocked = false;
        for _ in 0..BURST {
            if !host.wet || fabric.host_free_at(port) > now {
                break;
            }
            if !fabric.has_room(port) {
                (host.blocked, host.ready_at) = (true, now);
                break;
            }
            let at = host
                .ready_at
                .max(Instant::from_nanos(now.as_nanos().saturating_sub(LATE.as_nanos())));
            let left = host.device.receive(1, |slot, frame| {
                let (bytes, frames) = frame.on_wire();
                let (head, len) = (frame.bytes, frame.len());
                let sent =
                    Sent { handle: slot, head, len, frames: frames as u16, bytes: bytes as u32 };
                fabric.send(at, port, sent);
            })?;
            match left {
                Left::More => host.emptied = false,
                // It is looked at once more after its flush: what a new credit lets out had been
                // waiting for the link all the time.
                Left::Nothing | Left::Armed | Left::Silence => {
                    host.wet = !host.emptied;
                    host.emptied = true;
                    break;
                }
                // Its memory is full of what is underway: we are later than it was made for.
                Left::Full => break,
            }
        }
        Ok(())
    }

    /// Hands hosts what has reached them.
    fn deliver(&mut self, now: Instant) -> Result<(), LabError> {
        let Self { fabric, hosts, scratch, .. } = self;
        let mut failed = None;
        fabric.deliver(now, |to, delivery| {
            let handed = match delivery {
                Delivery::Pause(frame) => hand(&mut hosts[to], &pause(&frame)),
                Delivery::Frame { from, handle, mark: marked } => {
                    let Ok([sender, receiver]) = hosts.get_disjoint_mut([from, to]) else {
                        unreachable!("a frame leaves by another port than it came");
                    };
                    let frame = sender.device.frame(handle);
                    if marked {
                        scratch.clear();
                        scratch.extend_from_slice(frame.bytes);
                        mark(scratch);
                        hand(receiver, &FrameView { bytes: scratch, ..frame })
                    } else {
                        hand(receiver, &frame)
                    }
                }
            };
            handed.unwrap_or_else(|error| {
                failed.get_or_insert(error);
                false
            })
        });
        failed.map_or(Ok(()), |error| Err(error.into()))
    }
}

fn pause(frame: &pfc::Frame) -> FrameView<'_> {
    FrameView::plain(frame.as_bytes())
}

/// Hands a host a frame. Whether it took it: one whose interface is down does not, and no wire
/// waits for it.
fn hand(host: &mut Host, frame: &FrameView<'_>) -> Result<bool, PortError> {
    host.device.transmit(frame).map(|taken| taken == Taken::Yes)
}
