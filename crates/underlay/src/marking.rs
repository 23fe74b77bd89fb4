//! Traffic classes and priorities of sent packets.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::sockopt::{set_ip_tos, set_ipv6_tclass};
use units::Class;

/// The marking of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Marking {
    /// The traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// The kernel's priority (SO_PRIORITY). A VLAN interface maps it to the tag's priority
    /// (egress-qos-map), and a queueing discipline to a queue.
    pub class: Class,
}

/// The current marking of a socket. System calls are made only for changes, because most packets
/// have the same marking.
///
/// Both are set by socket options, not by control messages of sendmsg(2): before Linux 6.14 there
/// is none for the priority, and over IPv4 the one for the traffic class resets the priority.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marker(Option<Marking>);

impl Marker {
    /// Sets the marking of an IP socket.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn mark(&mut self, socket: &OwnedFd, is_v6: bool, marking: Marking) -> io::Result<()> {
        if self.0.is_none_or(|last| last.traffic_class != marking.traffic_class) {
            match is_v6 {
                false => set_ip_tos(socket, marking.traffic_class)?,
                true => set_ipv6_tclass(socket, marking.traffic_class.into())?,
            }
            // Over IPv4 this has changed the priority (ip(7)).
            self.0 = None;
        }
        self.prioritize(socket, marking)
    }

    /// Sets the priority alone, of a socket of any kind.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn prioritize(&mut self, socket: &OwnedFd, marking: Marking) -> io::Result<()> {
        if self.0.is_none_or(|last| last.class != marking.class) {
            setsockopt(socket, sockopt::Priority, &i32::from(marking.class.pcp()))?;
        }
        self.0 = Some(marking);
        Ok(())
    }
}
