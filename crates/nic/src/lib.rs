//! Ports that are interfaces of the host: what comes in by the interface enters the switch, and
//! what leaves the switch goes out by it.
//!
//! ```text
//!   a network that │ interface                  │ switch
//!   is not ours    │                            │
//!   ═══════════════╪══▶ packet socket's buffer ─┼─ receive ─▶ slot
//!   ◀══════════════╪═══ queueing discipline ◀───┼─ transmit
//! ```
//!
//! *Towards the wire* nothing is lost here: a frame that the socket, or the queue behind it, has no
//! room for stays with its sender. One that a rule of the host's (tc) drops is refused, once
//! nothing else explains that. *From the wire* nobody can be held back. What comes faster than
//! the switch takes it waits in the socket's buffer; what finds no room there is lost, and counted
//! ([`Seen::missed`]).
//!
//! A frame comes and goes as it is on the wire, with its tags; or a port is one VLAN of the
//! interface, whose frames have its 802.1Q tag there and none here. So ports share an interface,
//! and each has a socket, with a filter for its VLAN. Offloads pass in both directions, as
//! far as the interface has them: the kernel joins what comes in (GRO), and it or the card cuts
//! large segments and completes checksums (PACKET_VNET_HDR of packet(7)).
//!
//! **The interface stays its operator's.** It is neither made nor set up nor removed here; all that
//! is changed is that it takes frames for any address (promiscuous), as long as the port is there.
//! It must have no address of its own: the host would answer beside the switch's machines.

mod inspect;
mod memory;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kernel::netlink::{Netlink, NetlinkError};
use kernel::packet;
use port::{FrameView, Left, Port, PortError, Slot, Taken};
use rustix::io::Errno;
use units::{Class, Mac};
use wire::ethernet::{self, Tag, ethertype};

pub use self::inspect::{Inspector, Seen};
use self::memory::{ADDRESSES, Memory, TAG};

/// An interface as a port.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// Its name, in the calling thread's network namespace.
    pub interface: String,
    /// The VLAN that it is of the interface: 0 has the frames without a tag. All frames, with their
    /// tags, are its own if absent.
    pub vlan: Option<u16>,
    /// The largest packet in bytes. The interface has to take it.
    pub mtu: u32,
    /// The number of frames that the switch may hold, each of up to 66 KiB, of which memory is
    /// taken as far as it was ever used.
    pub slots: u32,
}

/// Why an interface cannot be a port.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There is none of that name.
    #[error("this host has no interface {0}")]
    Missing(String),
    /// The kernel does not tell of it.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// It has no Ethernet address.
    #[error("{0} is no Ethernet interface: what it carries has no addresses to switch by")]
    NotEthernet(String),
    /// It is a bridge's or a bond's.
    #[error("{0} is part of a bridge or a bond: take it out, `ip link set {0} nomaster`")]
    Enslaved(String),
    /// The host itself is reached by it.
    #[error(
        "{interface} has {address}, which the host would go on to answer for: remove it, \
         `ip address flush dev {interface}`, or choose another interface"
    )]
    Address {
        /// The interface.
        interface: String,
        /// One of its addresses.
        address: IpAddr,
    },
    /// It carries too little.
    #[error(
        "{interface} has an mtu of {has}, and the port one of {wanted}: \
         `ip link set {interface} mtu {wanted}`, or declare `mtu = {has}`"
    )]
    Mtu {
        /// The interface.
        interface: String,
        /// Its largest packet in bytes.
        has: u32,
        /// The port's.
        wanted: u32,
    },
    /// There is no socket for it.
    #[error("cannot open {interface}: {source}{hint}")]
    Socket {
        /// The interface.
        interface: String,
        /// The kernel's error.
        source: io::Error,
        /// What to do about it, after a separator.
        hint: &'static str,
    },
}

impl AttachError {
    /// Whether nothing is wrong but the time: the interface is not there yet.
    pub fn is_too_early(&self) -> bool {
        matches!(self, Self::Missing(_))
    }
}

/// How much the kernel keeps of what comes in while the switch is busy, in bytes as it counts them:
/// some 20,000 small frames, or 250 large segments. The kernel takes twice what it is told.
const RECEIVE_BUFFER: usize = (16 << 20) / 2;

/// How much is on its way out at once, in bytes as the kernel counts them. What more there is waits
/// in the switch. It lasts 10 Gbit/s for longer than it takes until a frame that found no room is
/// offered again. The kernel takes twice what it is told.
const SEND_BUFFER: usize = (1 << 20) / 2;

/// The most bytes that are read, or written, in one visit, but for the frame that crosses the
/// bound: some tens of microseconds of the kernel's work.
const BURST_BYTES: usize = 64 << 10;

/// How long the kernel may drop what is sent, although nothing of ours is in its way, before it is
/// a rule of the host's that does so and no queue that others have filled; and how long of frames
/// for whom one was dropped so, for some time.
const PATIENCE: Duration = Duration::from_millis(20);
const LESS_PATIENCE: Duration = Duration::from_millis(1);
const IMPATIENT_FOR: Duration = Duration::from_secs(1);

/// After how many frames a visit looks at its time again: one costs a microsecond or two.
const LOOK: u32 = 8;

/// An interface of the host that is a port.
pub struct NicPort {
    interface: String,
    link: u32,
    /// The interface's largest packet in bytes.
    mtu: u32,
    vlan: Option<u16>,
    socket: OwnedFd,
    told: Arc<Told>,
    memory: Memory,
    drops: Drops,
}

/// What the kernel has dropped on its way out.
#[derive(Debug, Default)]
struct Drops {
    /// Since when it drops all that it is given, although nothing of ours waits there, and when it
    /// did so last.
    since: Option<(Instant, Instant)>,
    /// When a frame was given up last, and for whom it was.
    gave_up: Option<(Instant, Option<[u8; 6]>)>,
}

impl Drops {
    /// The kernel has dropped a frame for somebody. Whether it does not do so for want of room.
    fn are_by_rule(&mut self, is_ours_waiting: bool, to: Option<[u8; 6]>) -> bool {
        if is_ours_waiting {
            self.since = None;
            return false;
        }
        let now = Instant::now();
        // Nothing was tried in between, of which nobody knows what would have become.
        let since = self.since.filter(|(_, last)| now - *last < PATIENCE).map_or(now, |it| it.0);
        self.since = Some((since, now));
        let is_impatient =
            self.gave_up.is_some_and(|(at, it)| it == to && now - at < IMPATIENT_FOR);
        if now - since < if is_impatient { LESS_PATIENCE } else { PATIENCE } {
            return false;
        }
        *self = Self { since: None, gave_up: Some((now, to)) };
        true
    }
}

/// What a port and its [`Inspector`] tell each other.
#[derive(Debug, Default)]
struct Told {
    /// The interface takes no frames: it is down, without carrier, or gone. Only who looks at it
    /// sees that it has no carrier, or is up again: what was sent meanwhile would be lost.
    is_down: AtomicBool,
    /// How many frames the kernel could not hand over: see [`Seen::missed`].
    missed: AtomicU64,
}

impl Told {
    fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }
}

impl NicPort {
    /// Opens an interface.
    ///
    /// # Errors
    ///
    /// [`AttachError`].
    pub fn attach(config: &NicConfig) -> Result<Self, AttachError> {
        let NicConfig { interface, vlan, mtu, slots } = config;
        let mut netlink = Netlink::open()?;
        let link = netlink.link(interface).map_err(|error| match error.is_not_found() {
            true => AttachError::Missing(interface.clone()),
            false => error.into(),
        })?;
        if link.mac.is_none_or(|mac| mac == Mac([0; 6])) {
            return Err(AttachError::NotEthernet(interface.clone()));
        }
        if link.master.is_some() {
            return Err(AttachError::Enslaved(interface.clone()));
        }
        if let Some(address) = own_address(&mut netlink, link.index)? {
            return Err(AttachError::Address { interface: interface.clone(), address });
        }
        if link.mtu < *mtu {
            let (interface, has, wanted) = (interface.clone(), link.mtu, *mtu);
            return Err(AttachError::Mtu { interface, has, wanted });
        }
        let socket = open(link.index, *vlan).map_err(|source| AttachError::Socket {
            interface: interface.clone(),
            hint: match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => "; run as root",
                _ => "",
            },
            source,
        })?;
        Ok(Self {
            interface: interface.clone(),
            link: link.index,
            mtu: link.mtu,
            vlan: *vlan,
            socket,
            told: Arc::new(Told { is_down: (!link.up).into(), ..Told::default() }),
            memory: Memory::new(*slots, vlan.is_none()),
            drops: Drops::default(),
        })
    }

    /// Sends a frame, with the tag of the port's VLAN.
    fn send(&self, frame: &FrameView<'_>) -> Result<(), Errno> {
        let mut offload = frame.offload();
        let Some(vlan @ 1..) = self.vlan else {
            return port::write(&self.socket, &offload.emit()[..packet::OFFLOAD], frame);
        };
        offload.shift(|at| at + TAG as u16);
        let (addresses, behind) = frame.bytes.split_at(ADDRESSES);
        let tag = Tag { class: Class::default(), vlan };
        let mut around = [0; packet::OFFLOAD + ADDRESSES + TAG];
        let (header, place) = around.split_at_mut(packet::OFFLOAD);
        header.copy_from_slice(&offload.emit()[..packet::OFFLOAD]);
        place[..ADDRESSES].copy_from_slice(addresses);
        place[ADDRESSES..ADDRESSES + 2].copy_from_slice(&ethertype::VLAN.to_be_bytes());
        place[ADDRESSES + 2..].copy_from_slice(&tag.tci().to_be_bytes());
        port::write(&self.socket, &around, &FrameView { bytes: behind, ..*frame })
    }

    /// Whether a frame would be in another VLAN than the port's by a tag of its own.
    fn strays(&self, frame: &FrameView<'_>) -> bool {
        self.vlan == Some(0) && is_tagged(frame)
    }

    /// Whether the interface can carry each of the segments that a large frame is cut into; the
    /// kernel would cut it without asking.
    fn carries(&self, frame: &FrameView<'_>) -> bool {
        let Some(segment) = frame.offload().segment else { return true };
        let around = ethernet::Header::LEN + if is_tagged(frame) { TAG } else { 0 };
        usize::from(segment.header_len) + usize::from(segment.size) <= around + self.mtu as usize
    }

    fn error(&self, operation: &'static str, source: io::Error) -> PortError {
        PortError { device: self.interface.clone(), operation, source }
    }
}

impl Port for NicPort {
    #[inline]
    fn receive(
        &mut self,
        most: usize,
        mut arrived: impl FnMut(Slot, &FrameView<'_>),
    ) -> Result<Left, PortError> {
        let Self { memory, socket, .. } = self;
        let mut left = most;
        let mut bytes = 0;
        while left > 0 && bytes < BURST_BYTES {
            if memory.is_full() {
                return Ok(Left::Full);
            }
            let received = memory.receive(socket, left, |slot, frame| {
                bytes += frame.len();
                arrived(slot, frame);
            });
            match received {
                Ok(0) => return Ok(Left::Nothing),
                Ok(count) => {
                    if self.told.is_down() {
                        self.told.set_down(false);
                    }
                    left -= count;
                }
                Err(error) => match Errno::from_io_error(&error) {
                    // It is told once.
                    Some(Errno::NETDOWN) => {
                        self.told.set_down(true);
                        return Ok(Left::Nothing);
                    }
                    // A large frame of a kind that its header cannot say.
                    Some(Errno::INVAL) => {
                        self.told.missed.fetch_add(1, Ordering::Relaxed);
                        left -= 1;
                    }
                    _ => return Err(self.error("receive from it", error)),
                },
            }
        }
        Ok(Left::More)
    }

    #[inline]
    fn frame(&self, slot: Slot) -> FrameView<'_> {
        self.memory.frame(slot)
    }

    fn rewrite(&mut self, slot: Slot, at: usize, bytes: &[u8]) -> bool {
        self.memory.rewrite(slot, at, bytes)
    }

    #[inline]
    fn release(&mut self, slot: Slot) {
        self.memory.release(slot);
    }

    #[inline]
    fn frames_a_look(&self) -> u32 {
        LOOK
    }

    #[inline]
    fn burst_shift(&self) -> u32 {
        (BURST_BYTES / port::BURST).ilog2()
    }

    #[inline]
    fn transmit(&mut self, frame: &FrameView<'_>) -> Result<Taken, PortError> {
        if self.strays(frame) || !self.carries(frame) {
            return Ok(Taken::Unfit);
        }
        if self.told.is_down() {
            return Ok(Taken::Busy);
        }
        // A socket tells an error of what it has received when it is next used.
        let sent = self.send(frame).or_else(|error| match error {
            Errno::INVAL => self.send(frame),
            error => Err(error),
        });
        match sent {
            Ok(()) => {
                self.drops.since = None;
                Ok(Taken::Yes)
            }
            // The queue behind the socket is full, or a rule of the host's has dropped this frame.
            Err(Errno::NOBUFS) => {
                let is_ours_waiting = packet::unsent(&self.socket).is_ok_and(|bytes| bytes > 0);
                let to = frame.bytes.first_chunk().copied();
                match self.drops.are_by_rule(is_ours_waiting, to) {
                    true => Ok(Taken::Dropped),
                    false => Ok(Taken::Busy),
                }
            }
            // Its send buffer is full.
            Err(Errno::AGAIN | Errno::NOMEM) => Ok(Taken::Busy),
            // It is down, or there is none any more.
            Err(Errno::NETDOWN | Errno::NXIO | Errno::NODEV) => {
                self.told.set_down(true);
                Ok(Taken::Busy)
            }
            // Its sender's memory was truncated while it waited, or it is none that the interface
            // can carry.
            Err(Errno::FAULT | Errno::INVAL | Errno::MSGSIZE) => Ok(Taken::Unfit),
            Err(error) => Err(self.error("send by it", error.into())),
        }
    }

    fn is_absent(&self) -> bool {
        self.told.is_down()
    }

    #[inline]
    fn flush(&mut self) -> Result<bool, PortError> {
        Ok(true)
    }
}

/// Readable when frames have come. For edge-triggered use: each arriving frame is an event.
impl AsFd for NicPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn is_tagged(frame: &FrameView<'_>) -> bool {
    let kind = frame.bytes.get(ADDRESSES..ADDRESSES + 2);
    kind.is_some_and(|kind| {
        [ethertype::VLAN, ethertype::SERVICE_VLAN].map(u16::to_be_bytes).iter().any(|it| it == kind)
    })
}

fn open(link: u32, vlan: Option<u16>) -> io::Result<OwnedFd> {
    let socket = packet::device(link, vlan, RECEIVE_BUFFER)?;
    rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER)?;
    Ok(socket)
}

/// An address by which the host itself is reached at an interface. Those that Linux gives by itself
/// do not count (RFC 4291 §2.5.6).
fn own_address(netlink: &mut Netlink, link: u32) -> Result<Option<IpAddr>, NetlinkError> {
    let is_own = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    };
    Ok(netlink.addresses_of(link)?.into_iter().find(is_own))
}
