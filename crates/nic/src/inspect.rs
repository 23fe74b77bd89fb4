//! What becomes of an interface, and of frames that never reach its port.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kernel::netlink::Netlink;
use kernel::packet;
use rustix::net::netdevice;

use super::{NicPort, Told, own_address};

/// Looks at a port's interface. To be used in another thread than the switch's: the kernel answers
/// under a lock that others may hold for long.
///
/// It keeps the port's socket.
#[derive(Debug)]
pub struct Inspector {
    netlink: Netlink,
    interface: String,
    link: u32,
    mtu: u32,
    socket: OwnedFd,
    told: Arc<Told>,
    /// What the last look found.
    was_down: bool,
}

/// What a look at an interface found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// It takes no frames: it was set down, or its link has no carrier.
    pub is_down: bool,
    /// How many frames have come by it, since the port is there, that the switch never had: the
    /// socket's buffer was full, or they were large frames of a kind that cannot be handed over.
    pub missed: u64,
    /// Notes for the operator, in sentences; empty if all is well.
    pub notes: Vec<String>,
}

impl NicPort {
    /// Opens an inspector of the port's interface.
    ///
    /// # Errors
    ///
    /// What the kernel says, for example if no file descriptors are left.
    pub fn inspector(&self) -> io::Result<Inspector> {
        Ok(Inspector {
            netlink: Netlink::open().map_err(io::Error::other)?,
            interface: self.interface.clone(),
            link: self.link,
            mtu: self.mtu,
            socket: self.socket.try_clone()?,
            told: self.told.clone(),
            was_down: self.told.is_down(),
        })
    }
}

impl Inspector {
    /// Whether the interface is still there by its name. This takes no lock of the kernel's.
    pub fn is_reachable(&self) -> bool {
        netdevice::name_to_index(&self.socket, &self.interface) == Ok(self.link)
    }

    /// Whether the port has seen otherwise than the last look: it was told that the interface is
    /// down, which may be up again by now, or a frame has come by it.
    pub fn is_due(&self) -> bool {
        self.told.is_down() != self.was_down
    }

    /// Looks at the interface, and has the port know whether it takes frames.
    pub fn look(&mut self) -> Seen {
        let Self { netlink, interface, link, mtu, socket, told, was_down } = self;
        let mut notes = Vec::new();
        match packet::missed(socket) {
            Ok(more) => drop(told.missed.fetch_add(more.into(), Ordering::Relaxed)),
            Err(error) => notes.push(format!("the frames that it misses are not counted: {error}")),
        }
        let missed = told.missed.load(Ordering::Relaxed);
        let looked =
            netlink.link_at(*link).and_then(|seen| Ok((seen, own_address(netlink, *link)?)));
        let (seen, address) = match looked {
            Ok(looked) => looked,
            Err(error) => {
                let is_down = error.is_not_found();
                notes.push(format!("{interface} cannot be looked at: {error}"));
                return Seen { is_down, missed, notes };
            }
        };
        match (seen.up, seen.carrier) {
            (true, true) => {}
            (true, false) => notes.push(format!(
                "{interface} has no carrier: look at its cable, and at the port it leads to"
            )),
            (false, _) => {
                notes.push(format!("{interface} is set down: `ip link set {interface} up`"))
            }
        }
        if let Some(address) = address {
            notes.push(format!(
                "{interface} has {address}, which the host answers for beside the switch's machines: remove it"
            ));
        }
        if seen.mtu < *mtu {
            notes.push(format!(
                "{interface} has an mtu of {} and had {mtu} when the port was attached: restore it, or attach the port anew",
                seen.mtu
            ));
        }
        let is_down = !(seen.up && seen.carrier);
        told.set_down(is_down);
        *was_down = is_down;
        Seen { is_down, missed, notes }
    }
}
