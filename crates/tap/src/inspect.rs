//! Kernel counters of a container port, for events that the switch does not see.

use super::{TapPort, credit, lanes};
use kernel::netlink::{Handle, Netlink, NetlinkError, OpenError, QdiscStatus};
use kernel::netns::Namespace;
use kernel::steering::Steering;

/// Inspects a container port's interface. To be used in another thread than the switch's: the
/// kernel answers under a lock that others may hold for long.
///
/// It keeps the network namespace alive, as the port does.
#[derive(Debug)]
pub struct Inspector {
    namespace: Namespace,
    netlink: Netlink,
    interface: String,
    link: u32,
    /// `None` if it cannot be looked at.
    steering: Option<Steering>,
    /// Whether its bucket has our queues in it.
    has_lanes: bool,
}

/// What a look at an interface found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// It takes no frames: it was set down, or is not in its container any more.
    pub is_down: bool,
    /// Notes for the operator, in sentences; empty if all is well.
    pub notes: Vec<String>,
}

/// Counters of a port's frames outside the switch, since the interface was made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Frames that the container's end has sent.
    pub sent: u64,
    /// Frames that the container's end has received.
    pub received: u64,
    /// Frames that the device dropped between the container and the switch. There are none unless
    /// the container has changed its interface.
    pub dropped_by_device: u64,
    /// Frames that the container's own queue dropped because it was full.
    pub dropped_by_queue: u64,
    /// Bytes in the container's own queue now.
    pub queued_bytes: u64,
}

impl TapPort {
    /// Opens an inspector of the port's interface.
    ///
    /// # Errors
    ///
    /// [`OpenError`], for example if no file descriptors are left.
    pub fn inspector(&self) -> Result<Inspector, OpenError> {
        Ok(Inspector {
            namespace: self.namespace.try_clone()?,
            netlink: Netlink::open_in(&self.namespace)?,
            interface: self.interface.clone(),
            link: self.link,
            steering: Steering::open_in(&self.namespace).ok(),
            has_lanes: self.without_lanes().is_none(),
        })
    }
}

impl Inspector {
    /// Reads the counters.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`] if the interface is gone.
    pub fn counters(&mut self) -> Result<Counters, NetlinkError> {
        let link = self.netlink.link_at(self.link)?.counters;
        let queues = self.netlink.qdiscs(self.link)?;
        let queue = queues.iter().find(|queue| queue.parent == Handle::ROOT);
        Ok(Counters {
            sent: link.tx_packets,
            received: link.rx_packets,
            dropped_by_device: link.tx_dropped,
            dropped_by_queue: queue.map_or(0, |queue| queue.drops.into()),
            queued_bytes: queue.map_or(0, |queue| queue.backlog_bytes.into()),
        })
    }

    /// Whether the container's namespace is still where it was when the port was attached. If not,
    /// the container was deleted. This takes no lock of the kernel's.
    pub fn is_reachable(&self) -> bool {
        self.namespace.is_reachable()
    }

    /// Looks at the interface.
    pub fn look(&mut self) -> Seen {
        let mut notes = Vec::new();
        // By its number: a container may rename it.
        let (link, queues) = match (self.netlink.link_at(self.link), self.netlink.qdiscs(self.link))
        {
            (Ok(link), Ok(queues)) => (link, queues),
            (Err(error), _) | (_, Err(error)) => {
                let is_down = error.is_not_found();
                notes.push(match is_down {
                    true => "the interface was moved out of the container, or removed there: move it back, or \
                             detach the port and attach it again"
                        .into(),
                    false => format!("the interface cannot be looked at: {error}"),
                });
                return Seen { is_down, notes };
            }
        };
        if link.name != self.interface {
            notes
                .push(format!("the interface was renamed to `{}` inside the container", link.name));
        }
        if !link.up {
            notes
                .push("the interface was set down inside the container: frames for it wait".into());
        }
        let is_ours = |queue: &QdiscStatus| {
            queue.parent == Handle::ROOT && queue.handle == credit::BUCKET && queue.kind == "tbf"
        };
        if !queues.iter().any(is_ours) || self.has_lanes && !lanes::are_there(&queues) {
            notes.push(
                "the interface's queue was replaced inside the container, or a queue in it: its frames may be \
                 dropped before the switch sees them; detach the port and attach it again"
                    .into(),
            );
        }
        if link.tx_queue_len < credit::RING {
            notes.push(format!(
                "the interface's txqueuelen was lowered to {} inside the container: its frames may be dropped \
                 before the switch sees them; set it to {}",
                link.tx_queue_len,
                credit::RING
            ));
        }
        let is_steered = |steering: &Steering| steering.is_on(&self.interface).unwrap_or(false);
        if self.steering.as_ref().is_some_and(is_steered) {
            notes.push(
                "receive packet steering was switched on inside the container (`rps_cpus`, `rps_flow_cnt`): \
                 its UDP sockets may lose what they are sent when they are nearly full; set both to 0"
                    .into(),
            );
        }
        Seen { is_down: !link.up, notes }
    }
}
