//! Whether the paths to other hosts work: BFD on the wire (RFC 5880, over one hop RFC 5881).
//!
//! ```text
//!             ─paths─▶             ┌─ hear ─ counted refusals
//!   the owner ─bell─▶ zovn-bfd  ──┤
//!             ◀─bell─             └─ speak ─▶ rest 1 ms, or sleep until a packet, the bell or the deadline
//!             ◀─health, counts (atomics)
//! ```
//!
//! One thread runs all sessions at one address of ours. Packets that come or fall due within a
//! millisecond go through one system call, so that thousands of sessions cost little. The owner
//! reads how each path is whenever it likes, without a lock, and may sleep on a bell until one has
//! changed; however often that happens, nothing piles up.
//!
//! A packet counts only if it has all its hops left (RFC 5881 §5), so nobody further away than a
//! neighbour can forge one. Sessions have the source ports of RFC 5881 §4, each its own. When a
//! path is given up, and when the owner goes, the far end is told that it is administratively down
//! (RFC 5880 §6.8.16): that is no failure to it.

mod health;
mod shared;
mod table;
mod thread;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use kernel::clock::now;
use underlay::single_hop::{Receiver, Sender};
use wire::bfd::PORT;

use crate::bell::Bell;
use health::{Counters, Watch};
use shared::{Order, Shared};
use table::Table;

pub use health::{Counts, Health};
pub use shared::{MOST, Path, Settings};

/// Why there is no BFD.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is not to be had.
    #[error("cannot receive BFD at {address}: {source}{}", next_step(source))]
    Receive {
        /// Where.
        address: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// There is no socket to send from.
    #[error("cannot send BFD from {address}: {source}{}", next_step(source))]
    Send {
        /// Whence.
        address: IpAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// The kernel does not give what a thread and its bells need.
    #[error("cannot start BFD's thread: raise the limits on threads and open files")]
    Thread(#[source] io::Error),
}

/// Why the paths stay as they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PathError {
    /// A path does not fit where we are.
    #[error("cannot watch the path from {} to {}: give two hosts' addresses of one family, ours being {address}", .path.local, .path.remote)]
    Unfit {
        /// The path.
        path: Path,
        /// Where packets come to.
        address: IpAddr,
    },
    /// An address that means something at one interface only.
    #[error("cannot watch the path from {} to {}: link-local addresses need an interface; give others of these hosts", .0.local, .0.remote)]
    LinkLocal(Path),
    /// There are too many.
    #[error("cannot watch {0} paths: at one address there are {MOST} at most; give fewer")]
    TooMany(usize),
    /// The thread is gone.
    #[error("BFD's thread has ended: start the agent again")]
    Ended,
}

/// BFD at one address of ours, from its start until it is dropped.
#[derive(Debug)]
pub struct Bfd {
    address: IpAddr,
    paths: BTreeMap<Path, Arc<Watch>>,
    /// `None` only while it is dropped.
    orders: Option<mpsc::Sender<Order>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Bfd {
    /// Starts the thread, in the network namespace of the caller, without any paths. The seed says
    /// how packets are spread in time and what the first discriminator is: it should be another at
    /// each start.
    ///
    /// # Errors
    ///
    /// [`StartError`]; sending takes CAP_NET_RAW.
    pub fn start(settings: Settings, seed: u64) -> Result<Self, StartError> {
        let address = SocketAddr::new(settings.address, PORT);
        let receiver =
            Receiver::bind(address).map_err(|source| StartError::Receive { address, source })?;
        let sender = Sender::open(settings.address, settings.dscp)
            .map_err(|source| StartError::Send { address: settings.address, source })?;
        let bell = || Bell::new().map_err(StartError::Thread);
        let shared = Shared { ordered: bell()?, changed: bell()?, counters: Counters::default() };
        let shared = Arc::new(shared);
        let (orders, inbox) = mpsc::channel();
        let table = Table::new(&settings, seed, shared.clone());
        let thread = std::thread::Builder::new()
            .name("zovn-bfd".into())
            .spawn(move || thread::run(receiver, sender, table, &inbox))
            .map_err(StartError::Thread)?;
        let (paths, orders, thread) = (BTreeMap::new(), Some(orders), Some(thread));
        Ok(Self { address: settings.address, paths, orders, shared, thread })
    }

    /// Watches these paths and no others; those that were watched before go on as they are.
    ///
    /// # Errors
    ///
    /// [`PathError`]; nothing has changed then.
    pub fn set_paths(&mut self, paths: impl IntoIterator<Item = Path>) -> Result<(), PathError> {
        let wanted: BTreeSet<Path> = paths.into_iter().collect();
        if wanted.len() > MOST {
            return Err(PathError::TooMany(wanted.len()));
        }
        wanted.iter().try_for_each(|path| self.check(*path))?;
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(PathError::Ended);
        }
        let Self { paths, orders, .. } = self;
        // One that is not taken is to a thread that has just died, and what it watched says so.
        let order = |order| drop(orders.as_ref().map(|orders| orders.send(order)));
        // What is given up makes room first.
        paths.retain(|path, _| {
            let kept = wanted.contains(path);
            if !kept {
                order(Order::Close(*path));
            }
            kept
        });
        for path in wanted {
            paths.entry(path).or_insert_with(|| {
                let watch = Arc::new(Watch::new(now()));
                order(Order::Open(path, watch.clone()));
                watch
            });
        }
        self.shared.ordered.ring();
        Ok(())
    }

    /// How a path is; `None` if it is not watched.
    pub fn health(&self, path: Path) -> Option<Health> {
        self.paths.get(&path).map(|watch| watch.get())
    }

    /// How all paths are.
    pub fn paths(&self) -> impl Iterator<Item = (Path, Health)> {
        self.paths.iter().map(|(path, watch)| (*path, watch.get()))
    }

    /// What was sent and heard since the start.
    pub fn counts(&self) -> Counts {
        self.shared.counters.get()
    }

    /// Readable (poll(2)) once a path has changed, until [`silence`](Self::silence).
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shared.changed.as_fd()
    }

    /// Silences the bell: before the paths are looked at, so that no change is overlooked.
    pub fn silence(&self) {
        self.shared.changed.silence();
    }

    /// Whether a path can be watched from here.
    fn check(&self, path: Path) -> Result<(), PathError> {
        let ours = self.address.is_unspecified() || path.local == self.address;
        let family = |address: IpAddr| address.is_ipv4() == self.address.is_ipv4();
        let is_host = |address: IpAddr| !address.is_unspecified() && !address.is_multicast();
        let fits = |address| family(address) && is_host(address);
        if !ours || !fits(path.local) || !fits(path.remote) {
            return Err(PathError::Unfit { path, address: self.address });
        }
        let is_link_local =
            |address| matches!(address, IpAddr::V6(it) if it.is_unicast_link_local());
        if is_link_local(path.local) || is_link_local(path.remote) {
            return Err(PathError::LinkLocal(path));
        }
        Ok(())
    }
}

impl Drop for Bfd {
    /// Tells the far ends, and returns once the thread is gone.
    fn drop(&mut self) {
        self.orders = None;
        self.shared.ordered.ring();
        // A panic of its own was told when it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn next_step(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; end the program that speaks BFD there, or give another address"
        }
        io::ErrorKind::AddrNotAvailable => "; give an address of this host",
        io::ErrorKind::PermissionDenied => "; run as root",
        _ => "",
    }
}
