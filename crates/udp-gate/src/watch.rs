//! How full the UDP sockets of our own namespace are, for whoever tells somebody else.
//!
//! BPF programs publish it where the kernel lets them, as for our own gate, and ring when there is
//! room. Elsewhere the sockets are listed whenever they are asked about, and again and again while
//! somebody waits for room.

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

/// A look at the UDP sockets of the namespace that it was opened in.
pub struct Watch {
    source: Source,
}

enum Source {
    Programs { kernel: Box<Kernel>, namespace: Namespace, inode: u32 },
    List(Diag),
}

/// Why there is no watching.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Where we are is not known.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// No BPF, and no list either.
    #[error(
        "cannot list UDP sockets: {0}; the kernel needs CONFIG_INET_UDP_DIAG: load it with `modprobe udp_diag`"
    )]
    List(#[source] io::Error),
}

impl Watch {
    /// Watches by BPF, or else by listing: then it says why.
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

    /// Whether it has a [bell](Self::bell); otherwise, who waits for room has to look again and
    /// again.
    pub fn rings(&self) -> bool {
        matches!(self.source, Source::Programs { .. })
    }

    /// Finds out what nothing tells of: to be done once a second.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn survey(&mut self) -> io::Result<()> {
        match &mut self.source {
            Source::Programs { kernel, namespace, .. } => {
                kernel.survey().map_err(io::Error::other)?.take(namespace).map_err(io::Error::other)
            }
            Source::List(_) => Ok(()),
        }
    }

    /// Puts all sockets into `sockets`, in the order of their ports.
    ///
    /// # Errors
    ///
    /// What the kernel says.
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

    /// Has the bell ring once the sockets that lack so much room have it. Some may have it by now:
    /// look again afterwards.
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
        // Either the reader sees that we wait, or we see what it read: the programs store, fence
        // and load likewise.
        fence(Ordering::SeqCst);
    }

    /// Readable when it has rung.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        match &self.source {
            Source::Programs { kernel, .. } => Some(kernel.as_fd()),
            Source::List(_) => None,
        }
    }

    /// Silences the bell.
    pub fn silence(&mut self) {
        if let Source::Programs { kernel, .. } = &mut self.source {
            kernel.drain();
        }
    }
}

/// The sockets of a namespace, and the numbers of their slots.
fn slots(kernel: &Kernel, inode: u32) -> impl Iterator<Item = (u32, Watched)> {
    /// The loopback device's index: what is bound to it hears nobody from outside.
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
