//! The switch's thread: it turns the host, sleeps when there is nothing to do, and takes orders in
//! between.
//!
//! ```text
//!      ──orders─▶
//!  API ◀─answers─  obey ─▶ turn ── worked ──▶ (again)
//!      ──bell───┐             └─── nothing ─▶ soon? spin : sleep until an event, the bell or the deadline
//!               └──────────────────────────────────────────────────────────────────────▲
//! ```
//!
//! Whoever gives an order puts it into the channel and then rings the bell. The thread, woken by
//! the bell, silences it and then empties the channel, so an order is never overlooked. While it
//! has work it looks into the channel once a turn and needs no bell.

mod apply;
mod following;
mod handle;
mod handover;
mod networks;
mod order;
mod switch;

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use model::HostConfig;
use tokio::sync::{Mutex, oneshot};

use crate::addresses;
use crate::bell::Bell;
use crate::host::Room;
use crate::journal::Journal;
use crate::logical::{Kept, Logical};
use crate::networks::Capacity;
use crate::store::Store;

pub use handle::{Handle, PutError, Stopped};
pub(crate) use handover::TakeOverError;
pub(crate) use networks::{Condition, ReplaceError};
pub use order::Heard;
use order::Shared;
pub use switch::StartError;
use switch::Switch;

/// The switch's thread, from its start to its end. It ends, and leaves nothing attached, when it is
/// stopped or when nobody is left who could give it an order.
#[derive(Debug)]
pub struct Worker {
    handle: Handle,
    thread: JoinHandle<()>,
    ended: oneshot::Receiver<Infallible>,
}

impl Worker {
    /// Starts the thread and attaches the declared ports, which go on with what is left of them in
    /// `store`; returns once frames flow and the ports' addresses are in use. `followed`: what a
    /// controller has said of logical networks, if one says that.
    ///
    /// # Errors
    ///
    /// [`StartError`]; then the thread has ended and left nothing attached.
    pub fn start(
        config: HostConfig,
        followed: Option<Logical>,
        store: Store,
        journal: Arc<Journal>,
    ) -> Result<Self, StartError> {
        let is_declared = !config.logical.files.is_empty() || followed.is_some();
        let kept = Kept::new(Path::new(&config.agent.socket), is_declared);
        let follows = followed.is_some();
        let logical = match followed {
            Some(logical) => logical,
            None => Logical::at_start(&config.logical, config.vtep(), &kept)?,
        };
        let bell = Bell::new().map_err(StartError::Thread)?;
        let (stopping, at_once) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Shared {
            bell,
            vtep: config.vtep().cloned(),
            capacity: Capacity::new(config.uplink.as_ref()),
            turns: AtomicU64::new(0),
            topology: Mutex::default(),
            is_unconnected: AtomicBool::new(false),
            journal,
            logical: Mutex::new(Arc::new(logical)),
            kept,
            room: Room::from(&config.logical),
            follows,
            expected: Default::default(),
            executed: Default::default(),
            heard: Default::default(),
            stopping,
            at_once,
        };
        let shared = Arc::new(shared);
        let (orders, inbox) = mpsc::channel();
        let handle = Handle { orders, shared: shared.clone() };
        let ports = config.ports.clone();
        let (started, outcome) = mpsc::sync_channel(1);
        let (alive, ended) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("zovn-switch".into())
            .spawn(move || {
                // Dropped when the thread ends, however it ends.
                let _alive = alive;
                let switch = Switch::new(&config, store, inbox, shared);
                // `start` waits on the other side, so it hears either.
                match switch {
                    Ok(switch) => {
                        let _ = started.send(Ok(()));
                        switch.run();
                    }
                    Err(error) => {
                        let _ = started.send(Err(error));
                    }
                }
            })
            .map_err(StartError::Thread)?;
        let died = || StartError::Thread(io::Error::other("it died at its start"));
        outcome.recv().map_err(|_| died())??;
        addresses::await_use(&ports);
        Ok(Self { handle, thread, ended })
    }

    /// A way to give it orders.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns when the thread has ended.
    pub async fn ended(&mut self) {
        let _ = (&mut self.ended).await;
    }

    /// Waits for the thread's end. Whether it ended well: `false` says that it panicked.
    pub fn join(self) -> bool {
        self.thread.join().is_ok()
    }
}
