//! Container ports: TAP devices in containers' network namespaces, lossless in both directions.
//!
//! ```text
//!   container                              │ switch
//!   socket ─▶ token bucket ─▶ TAP's ring ──┼─▶ receive ─▶ slot
//!   socket ◀──────── the whole stack ◀─────┼── transmit
//! ```
//!
//! *Container to switch*: `credit` holds frames back in the container, so that its sockets block
//! and no frame is dropped. *Switch to container*: a write returns when the frame has passed the
//! container's stack up to the socket.
//!
//! With offload, packets of up to 64 KiB and partial checksums pass in both directions, so a stream
//! between two containers is never cut into frames. Without offload, every frame in both directions
//! is one that a wire could carry.
//!
//! **Persistence.** The device is persistent. When a switch ends for any reason, the container
//! keeps its interface without carrier, with all its addresses, routes, neighbours and settings.
//! Attaching again restores the carrier. Only [`TapPort::detach`] removes the interface. An open
//! port keeps its network namespace alive.
//!
//! **Others' devices.** The interface carries an alias that says whose it is. A device of the same
//! name without it is somebody else's: it is neither adopted nor changed nor removed.

mod credit;
mod inspect;
mod lanes;
mod memory;
mod write;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use kernel::netlink::{LinkChange, Netlink, NetlinkError, Prefix, Route};
use kernel::netns::{Namespace, NamespaceError};
use kernel::steering::Steering;
use kernel::tun::Device;
use port::cut::Cutter;
use port::{FrameView, Left, Like, Port, PortError, Slot, Taken};
use units::Mac;
use wire::Offload;

use self::credit::{Credit, Kick};
pub use self::inspect::{Counters, Inspector, Seen};
use self::lanes::{Interface, Lanes};
use self::memory::{Memory, Read};
use self::write::write;

/// The most bytes on a wire for one frame of a port with offload.
pub const MOST_BYTES: u32 = credit::LARGEST;

/// The settings of a container port.
#[derive(Clone, Debug)]
pub struct TapConfig {
    /// The container's network namespace: a name under /run/netns, or a path such as
    /// /proc/1234/ns/net.
    pub netns: String,
    /// The interface's name in the container. The device of that name that an earlier switch has
    /// left is adopted.
    pub interface: String,
    /// The interface's Ethernet address.
    pub mac: Mac,
    /// The interface's addresses.
    pub addresses: Vec<Prefix>,
    /// The networks that packets leave to by it, each with the router on the way, if there is one.
    pub routes: Vec<(Prefix, Option<IpAddr>)>,
    /// The largest packet in bytes: 68 to 65,521.
    pub mtu: u32,
    /// Whether large packets and partial checksums pass.
    pub offload: bool,
    /// The longest large packet, if it is to be shorter than 64 KiB.
    pub longest: Option<u32>,
    /// The number of frames of up to 2 KiB that the switch may hold; each takes 2 KiB of memory.
    pub small_slots: u32,
    /// The number of larger frames that the switch may hold; each takes 66 KiB of memory.
    pub large_slots: u32,
}

impl TapConfig {
    /// An interface without addresses, with an MTU of 1500, offload, and room for 1,024 frames, of
    /// which 64 may be large.
    pub fn new(netns: impl Into<String>, interface: impl Into<String>, mac: Mac) -> Self {
        Self {
            netns: netns.into(),
            interface: interface.into(),
            mac,
            addresses: Vec::new(),
            routes: Vec::new(),
            mtu: 1500,
            offload: true,
            longest: None,
            small_slots: 1024,
            large_slots: 64,
        }
    }
}

/// The most bytes that are read, or written, in one visit, but for the frame that crosses the
/// bound: some tens of microseconds of the kernel's work.
const BURST_BYTES: usize = 64 << 10;

/// The alias of the interfaces that switches make.
const ALIAS: &str = "zovn";

/// Why a container port could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The container's network namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The interface cannot be set up.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// There is an interface of that name that no switch has made.
    #[error(
        "{interface} in {netns} was not made by zovn: choose another `interface`, or remove that one"
    )]
    Foreign {
        /// The interface's name.
        interface: String,
        /// The container's namespace.
        netns: String,
    },
    /// The device cannot be opened.
    #[error("cannot open TAP device {interface} in {netns}: {source}{hint}")]
    Device {
        /// The interface's name.
        interface: String,
        /// The container's namespace.
        netns: String,
        /// The kernel's error.
        source: io::Error,
        /// What to do about it, after a separator.
        hint: &'static str,
    },
}

impl AttachError {
    /// Whether nothing is wrong but the time: the container is not there yet, or another process
    /// still has its interface open.
    pub fn is_too_early(&self) -> bool {
        match self {
            Self::Namespace(error) => error.is_not_found(),
            Self::Device { source, .. } => source.raw_os_error() == Some(libc::EBUSY),
            Self::Netlink(_) | Self::Foreign { .. } => false,
        }
    }
}

/// An attached container interface.
pub struct TapPort {
    name: String,
    namespace: Namespace,
    device: Device,
    netlink: Netlink,
    interface: String,
    is_adopted: bool,
    link: u32,
    offload: bool,
    /// The interface was down when a frame was last written to it, and has sent none since.
    down: bool,
    credit: Credit,
    lanes: Lanes,
    memory: Memory,
    cutter: Cutter,
}

impl TapPort {
    /// Makes the interface in the container, or adopts the one that an earlier switch has left, and
    /// sets it up. Sets up the container's loopback interface, too.
    ///
    /// # Errors
    ///
    /// [`AttachError`]. A new interface is removed again.
    pub fn attach(config: &TapConfig) -> Result<Self, AttachError> {
        let namespace = Namespace::open(&config.netns)?;
        let interface = &config.interface;
        let because = |source: io::Error| AttachError::Device {
            interface: interface.clone(),
            netns: namespace.path().display().to_string(),
            hint: hint_for(&source),
            source,
        };

        let mut netlink = namespace.run(Netlink::open)??;
        let is_adopted = match netlink.link(interface) {
            // An earlier switch has left it.
            Ok(link) if link.alias == ALIAS => true,
            Ok(_) => {
                let netns = namespace.path().display().to_string();
                return Err(AttachError::Foreign { interface: interface.clone(), netns });
            }
            Err(error) if error.is_not_found() => false,
            Err(error) => return Err(error.into()),
        };
        let device = namespace.run(|| Device::open(interface, Offload::LEN))?;
        let (device, _) = device.map_err(because)?;
        device.set_offload(config.offload).map_err(because)?;
        let link = netlink.index(interface)?;

        // The queue comes first: an adopted interface may be up already.
        let kick = namespace.run(|| Kick::new(link))?.map_err(because)?;
        let credit = Credit::install(&mut netlink, link, kick)?;
        let kick = credit.kick();
        let at =
            Interface { netlink: &mut netlink, namespace: &namespace, name: interface, link, kick };
        let lanes = Lanes::new(at, is_adopted, config.small_slots / 2);
        netlink.change_link("lo", LinkChange { up: Some(true), ..LinkChange::default() })?;
        let change = LinkChange {
            mtu: Some(config.mtu),
            mac: Some(config.mac),
            alias: Some(ALIAS),
            tx_queue_len: Some(credit::RING),
            gso_max_segs: Some(credit::MOST_SEGMENTS),
            gso_max_size: config.longest,
            ..LinkChange::default()
        };
        netlink.change_link(interface, change)?;
        netlink.change_link(interface, LinkChange { up: Some(true), ..LinkChange::default() })?;
        for prefix in &config.addresses {
            netlink.add_address(link, *prefix)?;
        }
        for (to, via) in config.routes.iter().copied() {
            netlink.add_route(Route { to, via, link, initial_window: None })?;
        }
        // The UDP gate relies on a datagram being at its socket once it is written. Without sysfs
        // steering cannot be switched off; then the container's own settings count.
        if let Ok(steering) = Steering::open_in(&namespace)
            && steering.is_on(interface).unwrap_or(false)
        {
            steering.switch_off(interface).map_err(because)?;
        }
        device.persist(true).map_err(because)?;

        Ok(Self {
            name: format!("{interface} in {}", namespace.path().display()),
            namespace,
            device,
            netlink,
            interface: interface.clone(),
            is_adopted,
            link,
            offload: config.offload,
            down: false,
            credit,
            lanes,
            memory: Memory::new(config.small_slots, config.large_slots),
            cutter: Cutter::default(),
        })
    }

    /// Removes the interface from the container, unless somebody has removed it already. Frames
    /// that wait in the container to be sent are lost.
    ///
    /// # Errors
    ///
    /// [`PortError`] if the kernel refuses. Then the interface may remain.
    pub fn detach(self) -> Result<(), PortError> {
        // A device that is not persistent is removed when its last user, which is this one, closes
        // it.
        match self.device.persist(false) {
            // There is no device behind the descriptor any more (`__tun_chr_ioctl`).
            Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Ok(()),
            other => other.map_err(|source| self.error("remove it", source)),
        }
    }

    /// Whether the interface was there before, left by an earlier switch.
    pub fn is_adopted(&self) -> bool {
        self.is_adopted
    }

    /// Settles lanes. Whether all is done.
    #[cold]
    fn settle_lanes(&mut self) -> bool {
        let Self { namespace, netlink, interface, link, credit, lanes, .. } = self;
        let kick = credit.kick();
        let settled =
            lanes.settle(&mut Interface { netlink, namespace, name: interface, link: *link, kick });
        if settled.is_filled {
            credit.kick_soon();
        }
        !settled.is_unfinished
    }

    /// Why what is for a slow receiver cannot wait apart from what is for others, if so.
    pub fn without_lanes(&self) -> Option<&str> {
        self.lanes.fault()
    }

    fn error(&self, operation: &'static str, source: io::Error) -> PortError {
        PortError { device: self.name.clone(), operation, source }
    }
}

impl Port for TapPort {
    #[inline]
    fn receive(
        &mut self,
        most: usize,
        mut arrived: impl FnMut(Slot, &FrameView<'_>),
    ) -> Result<Left, PortError> {
        // It may be up again: the next frame that is written to it tells.
        self.down = false;
        self.memory.lend(self.lanes.are_opening());
        let mut bytes = 0;
        for _ in 0..most {
            if !self.memory.has_room() {
                return Ok(Left::Full);
            }
            if bytes >= BURST_BYTES {
                break;
            }
            match self.memory.read(self.device.as_fd()) {
                Ok(Read::Frame { slot, charged }) => {
                    let frame = self.memory.frame(slot);
                    bytes += frame.len();
                    self.credit.read(charged);
                    if let Some(own) = self.credit.own(frame.bytes) {
                        self.lanes.read_own(own);
                        continue;
                    }
                    if !self.lanes.are_closed() {
                        if frame.bytes.is_empty() {
                            self.lanes.read_unknown();
                        } else {
                            let lane = self.lanes.read(frame.bytes, self.memory.weight(slot));
                            self.memory.note_lane(slot, lane);
                        }
                    }
                    arrived(slot, &self.memory.frame(slot));
                    self.memory.keep(slot);
                }
                Ok(Read::Empty) => {
                    self.credit.seen_empty();
                    self.lanes.seen_empty();
                    return Ok(Left::Nothing);
                }
                Err(source) => return Err(self.error("read from it", source)),
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
        let lane = self.memory.lane(slot);
        if lane != 0 {
            self.lanes.released(lane, self.memory.weight(slot));
        }
        self.memory.release(slot);
    }

    #[inline]
    fn frames_a_look(&self) -> u32 {
        1
    }

    #[inline]
    fn burst_shift(&self) -> u32 {
        (BURST_BYTES / port::BURST).ilog2()
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        self.memory.is_crowded()
    }

    fn lent(&self) -> Option<u32> {
        let lent = if self.lanes.are_opening() { memory::MORE } else { 0 };
        (!self.lanes.are_closed()).then_some(lent)
    }

    fn may_divert(&self) -> bool {
        self.lanes.may_divert()
    }

    fn divert(&mut self, slot: Slot, like: Like) -> bool {
        self.lanes.divert(self.memory.frame(slot).bytes, like)
    }

    #[inline]
    fn transmit(&mut self, frame: &FrameView<'_>) -> Result<Taken, PortError> {
        let Self { device, cutter, down, .. } = self;
        let Offload { checksum, segment, .. } = frame.offload();
        let written = if !self.offload && (checksum.is_some() || segment.is_some()) {
            cutter.write(frame, |bytes| write(device, &FrameView::plain(bytes), down))
        } else {
            write(device, frame, down)
        };
        match written {
            Ok(taken) => Ok(taken),
            Err(error) => Err(self.error("write to it", error.into())),
        }
    }

    fn is_absent(&self) -> bool {
        self.down
    }

    #[inline]
    fn flush(&mut self) -> Result<bool, PortError> {
        let are_settled = self.lanes.are_closed() || self.settle_lanes();
        let settled = self.credit.settle(&mut self.netlink);
        match settled {
            Ok(is_done) => Ok(is_done && are_settled),
            Err(source) => Err(self.error("grant credit to it", source)),
        }
    }
}

/// Readable when the container has sent frames. For edge-triggered use: each arriving frame is an
/// event.
impl AsFd for TapPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

fn hint_for(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EBUSY) => "; another process has it open",
        Some(libc::EPERM | libc::EACCES) => "; run as root",
        Some(libc::ENOENT) => "; the kernel has no TAP devices: load its module `tun`",
        _ => "",
    }
}
