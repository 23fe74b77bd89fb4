//! Monitors the paths to other hosts by BFD (RFC 5880; over one hop, RFC 5881).
//!
//! ```text
//!             ─paths─▶             ┌─ hear ─ counted refusals
//!   the owner ─bell─▶ zovn-bfd  ──┤
//!             ◀─bell─             └─ speak ─▶ rest 1 ms, or sleep until a packet, the bell or the deadline
//!             ◀─health, counts (atomics)
//! ```
//!
//! One thread runs all sessions of one local address. It handles all packets of a millisecond with
//! one system call each way, so that thousands of sessions cost little. The owner can read the
//! state of each path at any time without a lock, and can sleep until a bell tells that one has
//! changed. Changes do not queue up.
//!
//! Packets with a TTL below 255 are discarded (RFC 5881 §5), so only a neighbour can forge one.
//! Where hosts have a key in common, each packet has a digest by it and a number of its own (RFC
//! 5880 §6.7.4), so nobody else can. Each session has its own source port from the range of RFC
//! 5881 §4. When a path is removed, and when the owner is dropped, the far end receives AdminDown
//! (RFC 5880 §6.8.16), which is not a failure.

mod health;
mod sequence;
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
use seal::Keys;
use underlay::single_hop::{Receiver, Sender};
use wire::bfd::PORT;

use crate::bell::Bell;
use health::{Counters, Watch};
use shared::{Order, Shared};
use table::Table;

pub use health::{Counts, Health};
pub use shared::{MOST, Path, Settings};

/// Why BFD cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port cannot be opened.
    #[error("cannot receive BFD at {address}: {source}{}", next_step(source))]
    Receive {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// The sending socket cannot be opened.
    #[error("cannot send BFD from {address}: {source}{}", next_step(source))]
    Send {
        /// The address.
        address: IpAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// The thread or its bells cannot be made.
    #[error("cannot start BFD's thread: raise the limits on threads and open files")]
    Thread(#[source] io::Error),
}

/// Why the paths were not changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PathError {
    /// A path does not begin at our address.
    #[error("cannot watch the path from {} to {}: give two hosts' addresses of one family, ours being {address}", .path.local, .path.remote)]
    Unfit {
        /// The path.
        path: Path,
        /// The address at which packets are received.
        address: IpAddr,
    },
    /// A link-local address, which is valid at one interface only.
    #[error("cannot watch the path from {} to {}: link-local addresses need an interface; give others of these hosts", .0.local, .0.remote)]
    LinkLocal(Path),
    /// There are too many paths.
    #[error("cannot watch {0} paths: at one address there are {MOST} at most; give fewer")]
    TooMany(usize),
    /// The thread has ended.
    #[error("BFD's thread has ended: start the agent again")]
    Ended,
}

/// BFD at one local address. Dropping it ends all sessions.
#[derive(Debug)]
pub struct Bfd {
    address: IpAddr,
    paths: BTreeMap<Path, Arc<Watch>>,
    /// `None` only while it is being dropped.
    orders: Option<mpsc::Sender<Order>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Bfd {
    /// Starts the thread without paths, in the caller's network namespace. The seed determines the
    /// jitter and the first discriminator, so it should differ at each start.
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

    /// Monitors these paths and no others. Sessions of paths that were monitored before continue.
    ///
    /// # Errors
    ///
    /// [`PathError`]; then nothing has changed.
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
        // Sending fails if the thread has just died. Then the published state of its paths says so.
        let order = |order| drop(orders.as_ref().map(|orders| orders.send(order)));
        // Remove paths first, to make room.
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

    /// Authenticates packets by these keys from now on, if they were authenticated before.
    pub fn set_keys(&self, keys: &Arc<Keys>) {
        let order = |order| drop(self.orders.as_ref().map(|orders| orders.send(order)));
        order(Order::SetKeys(keys.clone()));
        self.shared.ordered.ring();
    }

    /// The health of a path; `None` if it is not monitored.
    pub fn health(&self, path: Path) -> Option<Health> {
        self.paths.get(&path).map(|watch| watch.get())
    }

    /// The health of all paths.
    pub fn paths(&self) -> impl Iterator<Item = (Path, Health)> {
        self.paths.iter().map(|(path, watch)| (*path, watch.get()))
    }

    /// Counts of packets since the start.
    pub fn counts(&self) -> Counts {
        self.shared.counters.get()
    }

    /// Readable (poll(2)) after a path has changed, until [`silence`](Self::silence) is called.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shared.changed.as_fd()
    }

    /// Resets the bell. To be called before reading the paths' health, so that no change is missed.
    pub fn silence(&self) {
        self.shared.changed.silence();
    }

    /// Checks whether a path can be monitored from here.
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
    /// Notifies the far ends, and returns when the thread has ended.
    fn drop(&mut self) {
        self.orders = None;
        self.shared.ordered.ring();
        // A panic of the thread was reported when it happened.
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
