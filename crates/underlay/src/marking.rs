//! By what the fabric tells packets apart.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::sockopt::{set_ip_tos, set_ipv6_tclass};
use units::Class;

/// How a packet is marked on its way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Marking {
    /// Its traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// The kernel's priority of it, of which a VLAN interface makes the tag's (its egress-qos-map)
    /// and a queueing discipline its queue.
    pub class: Class,
}

/// How a socket marks what it sends from now on. It is told only what is new: most that it sends is
/// of one class.
///
/// The control message of sendmsg(2) for the priority is not known before Linux 6.14, and the one
/// for the traffic class resets the priority over IPv4; so both are options of the socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marker(Option<Marking>);

impl Marker {
    /// Has a socket of IP mark what it sends so.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn mark(&mut self, socket: &OwnedFd, is_v6: bool, marking: Marking) -> io::Result<()> {
        if self.0.is_none_or(|last| last.traffic_class != marking.traffic_class) {
            match is_v6 {
                false => set_ip_tos(socket, marking.traffic_class)?,
                true => set_ipv6_tclass(socket, marking.traffic_class.into())?,
            }
            // Over IPv4 the priority is another now (ip(7)).
            self.0 = None;
        }
        self.prioritize(socket, marking)
    }

    /// Has a socket, of IP or not, give what it sends the priority alone.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn prioritize(&mut self, socket: &OwnedFd, marking: Marking) -> io::Result<()> {
        if self.0.is_none_or(|last| last.class != marking.class) {
            setsockopt(socket, sockopt::Priority, &i32::from(marking.class.pcp()))?;
        }
        self.0 = Some(marking);
        Ok(())
    }
}
