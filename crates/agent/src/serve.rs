//! Runs an agent: starts it, serves, drains, and cleans up.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use connections::Bounds;
use model::{AgentStatus, HostConfig, TunnelKey};
use overlay::Protection;
use sd_notify::NotifyState;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exporter;
use crate::following::{Following, Follows};
use crate::host::Ending;
use crate::journal::Journal;
use crate::keys;
use crate::routes;
use crate::socket::{Socket, SocketError};
use crate::store::Store;
use crate::worker::{Handle, StartError, Stopped, Worker};

/// Bounds of the API's connections. Its callers are few, and know what they ask before they
/// connect.
const API: Bounds =
    Bounds { connections: 128, reserved: 16, head: Duration::from_secs(10), life: None };

/// Why an agent ended without a signal.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The API cannot listen.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The switch cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// What a controller says cannot be kept.
    #[error("cannot keep what the controller says in {}: name a folder that this agent may write to", folder.display())]
    Kept {
        /// Where.
        folder: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The API's runtime cannot be made.
    #[error("cannot serve the API: raise the limit on open files")]
    Api(#[from] io::Error),
    /// The switch's thread has panicked: our defect.
    #[error("the switch's thread died: this is a defect, report it with the words above")]
    SwitchDied,
}

/// Runs a host's switch until SIGTERM or SIGINT.
///
/// The first signal drains: no more frames are accepted, and held frames have the configured time
/// to reach their receivers. A second signal ends it at once. After SIGTERM, containers keep their
/// interfaces, and the ports that were attached through the API are kept, for the next agent. After
/// SIGINT, everything that the agent has made is removed. Logical networks are those that a
/// controller says, if one is followed.
///
/// # Errors
///
/// [`ServeError`]; of an agent that could not start, nothing is left.
pub fn serve(mut config: HostConfig, follows: Option<Follows>) -> Result<(), ServeError> {
    // What captures and requests take is for a while.
    kernel::heap::return_large_blocks();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let inside = runtime.enter();
    // Before anything is made that must be removed, so that no signal comes too early.
    let signals = Signals::new()?;
    // Before any port is touched: another agent may be running.
    let (_socket, listener) = Socket::bind(Path::new(&config.agent.socket))?;
    let metrics = config.agent.metrics;
    let socket = config.agent.socket.clone();
    let key = config.uplink.as_ref().and_then(|uplink| uplink.key.clone());
    let journal = Arc::new(Journal::open(Path::new(&socket)));
    let mut following = match follows {
        None => None,
        Some(follows) => {
            let folder = follows.kept.clone();
            Some(Following::open(follows).map_err(|source| ServeError::Kept { folder, source })?)
        }
    };
    let logical = following.as_ref().map(|it| it.logical(config.vtep()));
    if let (Some(following), Some(logical)) = (&mut following, &logical) {
        following.hold_back(&mut config.ports, logical);
    }
    let mut worker = Worker::start(config, logical, Store::open(), journal)?;
    drop(inside);
    tracing::info!(socket, "serving");
    let last = runtime.block_on(async {
        let last = live(&mut worker, listener, metrics, signals, key, following).await;
        if last.is_err() {
            // Without the API nobody could control the switch. It may have ended already.
            worker.handle().hurry();
            let _ = worker.handle().stop(Ending::Leave).await;
        }
        last
    });
    if !worker.join() {
        return Err(ServeError::SwitchDied);
    }
    let AgentStatus { ledger, balanced, .. } = last?;
    let refused = ledger.refused_total();
    tracing::info!(ledger.accepted, ledger.delivered, refused, ledger.held, balanced, "stopped");
    Ok(())
}

/// Runs everything until the switch has stopped. Returns its last status.
async fn live(
    worker: &mut Worker,
    listener: UnixListener,
    metrics: Option<SocketAddr>,
    mut signals: Signals,
    key: Option<TunnelKey>,
    following: Option<Following>,
) -> Result<AgentStatus, ServeError> {
    let switch = worker.handle();
    let hangup = signal(SignalKind::hangup())?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let accept = async || Ok(listener.accept().await?.0);
    let server = connections::serve(accept, routes::router(switch.clone()), API);
    let metrics = exporter::serve(metrics, switch.clone());
    tell_systemd(&[NotifyState::Ready, NotifyState::Status("frames flow")]);
    tokio::select! {
        last = until_stopped(worker, &mut signals) => last.map_err(|Stopped| ServeError::SwitchDied),
        never = server => match never {},
        never = metrics => match never {},
        never = feed_watchdog(&switch) => match never {},
        never = reload(&switch, hangup, key) => match never {},
        never = connect(&switch) => match never {},
        never = follow(following, &switch) => match never {},
    }
}

/// Follows a controller, if one is to be followed.
async fn follow(following: Option<Following>, switch: &Handle) -> Infallible {
    match following {
        Some(following) => following.run(switch.clone()).await,
        None => pending().await,
    }
}

/// Has the host take its place in the underlay once it has its address there.
async fn connect(switch: &Handle) -> Infallible {
    // A switch that has stopped ends the agent by another way.
    let _ = switch.connect().await;
    pending().await
}

/// Waits for a signal and stops the switch. A second signal ends the draining. [`Stopped`] if the
/// switch ended by itself.
async fn until_stopped(worker: &mut Worker, signals: &mut Signals) -> Result<AgentStatus, Stopped> {
    let switch = worker.handle();
    let ending = tokio::select! {
        ending = signals.next() => ending,
        () = worker.ended() => return Err(Stopped),
    };
    tracing::info!("draining");
    tell_systemd(&[NotifyState::Stopping, NotifyState::Status("draining")]);
    let hurry = async {
        signals.next().await;
        switch.hurry();
        pending::<Infallible>().await
    };
    tokio::select! {
        last = switch.stop(ending) => last,
        never = hurry => match never {},
    }
}

/// Reads the keys of tunnels again at each SIGHUP. If that fails, those that are in use stay.
/// Without a key there is nothing to reload.
async fn reload(switch: &Handle, mut hangup: Signal, key: Option<TunnelKey>) -> Infallible {
    loop {
        hangup.recv().await;
        match key.as_ref().map(keys::protection) {
            None => tracing::info!("SIGHUP: there is nothing to reload"),
            Some(Err(error)) => tracing::error!(%error, "the keys in use stay"),
            Some(Ok(Protection { keys, .. })) => {
                let named: Vec<_> = keys.iter().map(|key| key.fingerprint().to_string()).collect();
                tracing::info!(
                    keys = named.join(", "),
                    "tunnels use these keys, the first to send"
                );
                // Who stops needs none.
                let _ = switch.set_keys(keys).await;
            }
        }
    }
}

/// Sends systemd's watchdog notifications at the requested interval, as long as the switch's thread
/// makes progress.
async fn feed_watchdog(switch: &Handle) -> Infallible {
    let Some(period) = sd_notify::watchdog_enabled() else {
        return pending().await;
    };
    let mut meals = tokio::time::interval(period / 3);
    let mut seen = switch.turns();
    loop {
        meals.tick().await;
        let turns = switch.turns();
        if turns != seen {
            seen = turns;
            tell_systemd(&[NotifyState::Watchdog]);
        }
        // Wake a thread that sleeps without a deadline, so that it takes a turn before the next
        // check.
        switch.wake();
    }
}

/// Notifies systemd, if it started us.
fn tell_systemd(news: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(news) {
        tracing::warn!(%error, "systemd does not hear us");
    }
}

/// The signals that end an agent.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    // Caught at once: SIGHUP reloads, and a closing terminal is no reason to stop.
    _hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next signal, and how it has the switch end: SIGTERM is what service managers send,
    /// before a restart as well; SIGINT comes from somebody at a terminal.
    async fn next(&mut self) -> Ending {
        tokio::select! {
            _ = self.terminate.recv() => Ending::Leave,
            _ = self.interrupt.recv() => Ending::Remove,
        }
    }
}
