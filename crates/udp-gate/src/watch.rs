//! Watches how full the UDP sockets of our own namespace are, for `zovn guest`.
//!
//! Where the kernel allows it, BPF programs publish it, as for the gate, and ring a bell when there
//! is room. Elsewhere the sockets are listed at each request, and periodically while somebody waits
//! for room.

use std::fmt;
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{Ordering, fence};

use wire::room::{self, Want};

use super::diag::Diag;
use super::error::GateUnavailable;
use super::programs::{Kernel, Name, short};
use super::teller::{Watched, lacks};
use kernel::netns::{Namespace, NamespaceError};

/// Watches the UDP sockets of the namespace in which it was opened.
pub struct Watch {
    source: Source,
}

enum Source {
    Programs { kernel: Box<Kernel>, namespace: Namespace, inode: u32 },
    List(Diag),
}

/// Why sockets cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Our own namespace cannot be determined.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// Neither BPF nor listing works.
    #[error(
        "cannot list UDP sockets: {0}; the kernel needs CONFIG_INET_UDP_DIAG: load it with `modprobe udp_diag`"
    )]
    List(#[source] io::Error),
}

impl Watch {
    /// Watches by BPF or, if that fails, by listing. Then it also returns why.
    ///
    /// # Errors
    ///
    /// [`WatchError`]
    pub fn open() -> Result<(Self, Option<GateUnavailable>), WatchError> {
        match Self::by_programs() {
            Ok(watch) => Ok((watch, None)),
            Err(why) => Ok((Self::by_listing()?, Some(why))),
        }
    }

    /// Watches by BPF.
    ///
    /// # Errors
    ///
    /// [`GateUnavailable`]
    pub fn by_programs() -> Result<Self, GateUnavailable> {
        let refused = |step| {
            move |source: Box<dyn std::error::Error + Send + Sync>| GateUnavailable::Refused {
                step,
                source,
            }
        };
        let step = "finding our own network namespace";
        let namespace = Namespace::current().map_err(|error| refused(step)(error.into()))?;
        let inode = namespace.inode().map_err(|error| refused(step)(error.into()))?;
        let mut kernel = Box::new(Kernel::load()?);
        let step = "serving our own network namespace";
        kernel.serve(short(inode), true).map_err(|error| refused(step)(error.into()))?;
        let mut watch =
            Self { source: Source::Programs { kernel, namespace, inode: short(inode) } };
        watch.survey().map_err(|error| refused("a survey of its sockets")(error.into()))?;
        Ok(watch)
    }

    /// Watches by listing.
    ///
    /// # Errors
    ///
    /// [`WatchError::List`]
    pub fn by_listing() -> Result<Self, WatchError> {
        let mut diag = Diag::open().map_err(WatchError::List)?;
        diag.list(&mut Vec::new()).map_err(WatchError::List)?;
        Ok(Self { source: Source::List(diag) })
    }

    /// Whether it has a [bell](Self::bell). Without one, callers who wait for room must poll.
    pub fn rings(&self) -> bool {
        matches!(self.source, Source::Programs { .. })
    }

    /// Finds changes that cause no event. To be called once a second.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn survey(&mut self) -> io::Result<()> {
        match &mut self.source {
            Source::Programs { kernel, namespace, .. } => {
                kernel.survey().map_err(io::Error::other)?.take(namespace).map_err(io::Error::other)
            }
            Source::List(_) => Ok(()),
        }
    }

    /// Replaces `sockets` by all sockets, by ascending port.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn look(&mut self, sockets: &mut Vec<Watched>) -> io::Result<()> {
        sockets.clear();
        match &mut self.source {
            Source::Programs { kernel, inode, .. } => {
                sockets.extend(slots(kernel, *inode).map(|(_, watched)| watched))
            }
            Source::List(diag) => diag.list(sockets)?,
        }
        sockets.sort_by_key(|watched| watched.port);
        Ok(())
    }

    /// Arms the bell for when sockets get the room that they lack. Some may have it already: look
    /// again afterwards.
    pub fn arm(&mut self, wants: impl Iterator<Item = Want> + Clone) {
        let Source::Programs { kernel, inode, .. } = &self.source else { return };
        for (index, watched) in slots(kernel, *inode) {
            let mut wants = wants.clone().filter(|want| want.port == watched.port);
            if let Some(want) = wants.next()
                && lacks(&watched.socket, want.bytes)
            {
                kernel.slot(index).awaited.store(want.bytes, Ordering::Relaxed);
            }
        }
        // Either the reader sees that we wait, or we see what it has read: the BPF programs also
        // store, fence and load in this order.
        fence(Ordering::SeqCst);
    }

    /// Readable when it has rung.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        match &self.source {
            Source::Programs { kernel, .. } => Some(kernel.as_fd()),
            Source::List(_) => None,
        }
    }

    /// Resets the bell.
    pub fn silence(&mut self) {
        if let Source::Programs { kernel, .. } = &mut self.source {
            kernel.drain();
        }
    }
}

/// The sockets of a namespace, and the numbers of their slots.
fn slots(kernel: &Kernel, inode: u32) -> impl Iterator<Item = (u32, Watched)> {
    /// The index of the loopback interface. A socket that is bound to it receives nothing from
    /// outside.
    const LOOPBACK: u32 = 1;
    (1..=kernel.taken() as u32).filter_map(move |index| {
        let slot = kernel.slot(index);
        let Name { local, remote, local_port, remote_port, v6, v6_only, device, namespace } =
            slot.name()?;
        if namespace != inode || device == LOOPBACK {
            return None;
        }
        let socket = room::Socket {
            local: Ipv6Addr::from_bits(local),
            remote: Ipv6Addr::from_bits(remote),
            remote_port,
            v6,
            v6_only,
            occupied: slot.occupied.load(Ordering::Acquire),
            limit: slot.limit.load(Ordering::Relaxed),
        };
        Some((index, Watched { port: local_port, socket }))
    })
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("rings", &self.rings()).finish_non_exhaustive()
    }
}
