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

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::mem;
use std::net::UdpSocket;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use api::NETWORKS;
use kernel::clock::{now, timespec};
use kernel::thread::schedule;
use model::{
    AddressStatus, AgentStatus, CaptureSpec, Generation, HostConfig, InvalidConfig, NetworkName,
    NetworkSpec, NetworksStatus, Polling, PortChange, PortName, PortSpec, PortStatus, TraceReport,
    TraceSpec, VtepList,
};
use overlay::{Delta, Topology};
use plane::taps::Reader;
use rustix::event::{PollFd, PollFlags, poll};
use seal::Keys;
use tokio::sync::{Mutex, oneshot};
use units::{Instant, Span};

use crate::addresses;
use crate::bell::Bell;
use crate::host::{
    AttachError, CaptureError, ChangeError, DetachError, Ending, Host, Proof, Reply, TraceError,
    UplinkError,
};
use crate::journal::Journal;
use crate::networks::Networks;
use crate::store::Store;

/// While there is work, how often the host looks for ports that were idle and no longer are.
const LOOK_AROUND: Span = Span::from_micros(20);

/// How long a port that is detached may take to hand over what it holds; what is left then is
/// refused.
const FAREWELL: Span = Span::from_secs(1);
/// Of how many far hosts a status tells in a turn.
const FAR_HOSTS: usize = 64;

/// How often it is looked whether this host has its address in the underlay, while it does not.
const LOOK_FOR_ADDRESS: Duration = Duration::from_millis(500);

/// How long the thread sleeps at the most while it judges anybody's silence.
const LONGEST_SLEEP: Span = Span::from_millis(250);

/// The thread's priority: what Open vSwitch runs with, too.
const NICE: i32 = -10;

/// How long the thread runs before another that waits has its turn. Every frame on this host waits
/// for this thread, so it has to be back soon; but a sender or receiver on its processor has to be
/// let in soon as well, and the kernel's own slice is as long as a hundred frames of a gigabit.
const SLICE: Span = Span::from_micros(100);

/// The switch's thread, from its start to its end. It ends, and leaves nothing attached, when it is
/// stopped or when nobody is left who could give it an order.
#[derive(Debug)]
pub struct Worker {
    handle: Handle,
    thread: JoinHandle<()>,
    ended: oneshot::Receiver<Infallible>,
}

/// Gives orders to the switch's thread. Cheap to clone; one for each who has something to say.
#[derive(Clone, Debug)]
pub struct Handle {
    orders: mpsc::Sender<Order>,
    shared: Arc<Shared>,
}

/// What both sides see.
#[derive(Debug)]
struct Shared {
    bell: Bell,
    /// The host's own address in the underlay.
    vtep: Option<VtepList>,
    /// How many turns the thread has taken.
    turns: AtomicU64,
    /// The far hosts that the thread knows, and what it was told of networks.
    topology: Mutex<Topology>,
    /// The thread has no place in the underlay, as this host does not have its address yet.
    is_unconnected: AtomicBool,
    /// The ports that were attached through the API, for the next agent.
    journal: Arc<Journal>,
    stopping: AtomicBool,
    at_once: AtomicBool,
}

/// Why the switch could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kernel does not give what a thread and its bell need.
    #[error("cannot start the switch's thread: raise the limits on threads and open files")]
    Thread(#[source] io::Error),
    /// The switch does not start.
    #[error("cannot start the switch")]
    Host(#[from] crate::host::StartError),
    /// The host has no place in the underlay.
    #[error("cannot connect the uplink")]
    Uplink(#[from] UplinkError),
    /// The declared networks cannot stand.
    #[error(transparent)]
    Networks(#[from] InvalidConfig),
    /// A declared port cannot be attached. Those before it are detached again.
    #[error("cannot attach port `{port}`")]
    Attach {
        /// The port.
        port: PortName,
        /// Why.
        source: AttachError,
    },
}

/// Why a port cannot be as it is declared.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// It cannot be attached.
    #[error(transparent)]
    Attach(AttachError),
    /// It cannot be changed so.
    #[error(transparent)]
    Change(ChangeError),
    /// It is attached, and differs in what stays as long as a port is.
    #[error("port `{0}` is attached to another place, network or address: detach it first")]
    Otherwise(PortName),
}

/// What has to be so for networks to be replaced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    /// They are of one of these generations, if that is asked for.
    pub generations: Option<Vec<Generation>>,
    /// Nothing changes: it is only checked whether they could be replaced.
    pub dry_run: bool,
}

impl Condition {
    fn is_met(&self, generation: Generation) -> bool {
        self.generations.as_ref().is_none_or(|wanted| wanted.contains(&generation))
    }
}

/// Why networks are not replaced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    /// The new ones cannot stand, or not beside the ports that are attached.
    #[error(transparent)]
    Invalid(#[from] InvalidConfig),
    /// There is none of that name.
    #[error("there is no network `{0}`: GET {NETWORKS} lists them")]
    UnknownNetwork(NetworkName),
    /// Somebody has replaced them since.
    #[error("the networks are of generation {0} now: look at them, and ask again")]
    Stale(Generation),
}

/// The switch takes no more orders: the agent is about to exit.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the agent is stopping: start it again, then ask again")]
pub struct Stopped;

enum Order {
    Status(Proof, oneshot::Sender<AgentStatus>),
    Port(PortName, oneshot::Sender<Option<PortStatus>>),
    Spec(PortName, oneshot::Sender<Option<PortSpec>>),
    Addresses(oneshot::Sender<Vec<AddressStatus>>),
    Attach(Box<PortSpec>, oneshot::Sender<Result<PortStatus, AttachError>>),
    Detach(PortName, oneshot::Sender<Result<PortStatus, DetachError>>),
    Change(PortName, PortChange, oneshot::Sender<Result<PortStatus, ChangeError>>),
    Connect(Delta, oneshot::Sender<Result<(), UplinkError>>),
    Networks(oneshot::Sender<(Generation, Arc<Networks>)>),
    Capture(CaptureSpec, oneshot::Sender<Result<Reader, CaptureError>>),
    Trace(TraceSpec, oneshot::Sender<Result<TraceReport, TraceError>>),
    Check(Arc<Networks>, oneshot::Sender<Result<(), InvalidConfig>>),
    Replace(
        Arc<Networks>,
        Delta,
        oneshot::Sender<Result<(Generation, Arc<Networks>), InvalidConfig>>,
    ),
    SetKeys(Arc<Keys>, oneshot::Sender<()>),
    Stop(Ending, oneshot::Sender<AgentStatus>),
}

impl Worker {
    /// Starts the thread and attaches the declared ports, which go on with what is left of them in
    /// `store`; returns once frames flow and the ports' addresses are in use.
    ///
    /// # Errors
    ///
    /// [`StartError`]; then the thread has ended and left nothing attached.
    pub fn start(
        config: HostConfig,
        store: Store,
        journal: Arc<Journal>,
    ) -> Result<Self, StartError> {
        let bell = Bell::new().map_err(StartError::Thread)?;
        let (stopping, at_once) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Shared {
            bell,
            vtep: config.vtep().cloned(),
            turns: AtomicU64::new(0),
            topology: Mutex::default(),
            is_unconnected: AtomicBool::new(false),
            journal,
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

impl Handle {
    /// The state of the agent.
    ///
    /// # Errors
    ///
    /// [`Stopped`], here and below: nobody is there to answer.
    pub async fn status(&self, proof: Proof) -> Result<AgentStatus, Stopped> {
        self.order(|reply| Order::Status(proof, reply)).await
    }

    /// How many turns the thread has taken. A thread that sleeps takes the next one when it is
    /// [woken](Self::wake).
    pub fn turns(&self) -> u64 {
        self.shared.turns.load(Ordering::Relaxed)
    }

    /// Has the thread take a turn, if it sleeps.
    pub fn wake(&self) {
        self.shared.bell.ring();
    }

    /// One port at this moment, if there is one of that name.
    ///
    /// # Errors
    ///
    /// [`Stopped`]
    pub async fn port(&self, name: PortName) -> Result<Option<PortStatus>, Stopped> {
        self.order(|reply| Order::Port(name, reply)).await
    }

    /// The table of addresses.
    ///
    /// # Errors
    ///
    /// [`Stopped`]
    pub async fn addresses(&self) -> Result<Vec<AddressStatus>, Stopped> {
        self.order(Order::Addresses).await
    }

    /// Attaches a port and returns it as it is then, once its addresses are in use.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why the port cannot be attached.
    pub async fn attach(&self, spec: PortSpec) -> Result<Result<PortStatus, AttachError>, Stopped> {
        // Whoever asked may hang up: what was begun is done, and kept, all the same.
        let handle = self.clone();
        let attached = tokio::spawn(async move { handle.attach_and_keep(spec).await });
        attached.await.map_err(|_| Stopped)?
    }

    async fn attach_and_keep(
        &self,
        spec: PortSpec,
    ) -> Result<Result<PortStatus, AttachError>, Stopped> {
        let attached = self.order(|reply| Order::Attach(Box::new(spec.clone()), reply)).await?;
        if attached.is_ok() {
            self.shared.journal.keep(spec.clone());
            // It logs what it waits for in vain.
            let _ = tokio::task::spawn_blocking(move || addresses::await_use([&spec])).await;
        }
        Ok(attached)
    }

    /// Drains and detaches a port and returns what it was at its end.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why the port cannot be detached.
    pub async fn detach(&self, name: PortName) -> Result<Result<PortStatus, DetachError>, Stopped> {
        let handle = self.clone();
        let detached = tokio::spawn(async move {
            let detached = handle.order(|reply| Order::Detach(name.clone(), reply)).await?;
            // One whose interface may remain is detached, too.
            if !matches!(detached, Err(DetachError::UnknownPort(_))) {
                handle.shared.journal.forget(&name);
            }
            Ok(detached)
        });
        detached.await.map_err(|_| Stopped)?
    }

    /// Changes a port and returns it as it is then.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why the port cannot be so.
    pub async fn change(
        &self,
        name: PortName,
        change: PortChange,
    ) -> Result<Result<PortStatus, ChangeError>, Stopped> {
        let handle = self.clone();
        let changed = tokio::spawn(async move {
            let changed =
                handle.order(|reply| Order::Change(name.clone(), change.clone(), reply)).await?;
            if changed.is_ok() {
                handle.shared.journal.update(&name, |port| port.changed(&change));
            }
            Ok(changed)
        });
        changed.await.map_err(|_| Stopped)?
    }

    /// Has a port be as it is declared here: attaches it, changes it, or does nothing. Whether it
    /// was attached, and the port as it is then.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why the port cannot be so.
    pub async fn put(
        &self,
        spec: PortSpec,
    ) -> Result<Result<(bool, PortStatus), PutError>, Stopped> {
        let Some(before) = self.order(|reply| Order::Spec(spec.name.clone(), reply)).await? else {
            return Ok(self.attach(spec).await?.map(|port| (true, port)).map_err(PutError::Attach));
        };
        let Some(change) = before.change_to(&spec) else {
            return Ok(Err(PutError::Otherwise(spec.name)));
        };
        let changed = self.change(spec.name, change).await?;
        Ok(changed.map(|port| (false, port)).map_err(PutError::Change))
    }

    /// Attaches ports again that are kept and are not attached, as their networks were not there.
    async fn attach_kept(&self) -> Result<(), Stopped> {
        for port in self.shared.journal.ports() {
            if self.port(port.name.clone()).await?.is_none() {
                let name = port.name.clone();
                match self.attach(port).await? {
                    Ok(_) => {}
                    // Its network is still not there.
                    Err(AttachError::Invalid(_)) => {}
                    Err(error) => {
                        tracing::error!(port = %name, %error, "a port that was attached through the API cannot be attached again");
                    }
                }
            }
        }
        Ok(())
    }

    /// Begins to capture frames.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why nothing is captured.
    pub(crate) async fn capture(
        &self,
        spec: CaptureSpec,
    ) -> Result<Result<Reader, CaptureError>, Stopped> {
        self.order(|reply| Order::Capture(spec, reply)).await
    }

    /// What would become of a frame that came now.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why there is no answer.
    pub(crate) async fn trace(
        &self,
        spec: TraceSpec,
    ) -> Result<Result<TraceReport, TraceError>, Stopped> {
        self.order(|reply| Order::Trace(spec, reply)).await
    }

    /// Waits until this host has its addresses in the underlay, if it does not have them, and then
    /// takes its place there. Whoever starts a host early, before its network is set up, finds it
    /// connected once that is done.
    ///
    /// # Errors
    ///
    /// [`Stopped`]
    pub async fn connect(&self) -> Result<(), Stopped> {
        let mut said = String::new();
        while self.shared.is_unconnected.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK_FOR_ADDRESS).await;
            if !self.shared.vtep.as_ref().is_some_and(is_ours) {
                continue;
            }
            let topology = self.shared.topology.lock().await;
            match self.order(|reply| Order::Connect(topology.whole(), reply)).await? {
                Ok(()) => {
                    self.shared.is_unconnected.store(false, Ordering::Relaxed);
                    tracing::info!("this host has its address in the underlay: tunnels begin");
                }
                Err(error) => {
                    let before = std::mem::replace(&mut said, error.to_string());
                    if said != before {
                        tracing::error!(%error, "cannot connect the uplink; it is tried again");
                    }
                }
            }
        }
        Ok(())
    }

    /// The virtual networks at this moment.
    ///
    /// # Errors
    ///
    /// [`Stopped`]
    pub async fn networks(&self) -> Result<NetworksStatus, Stopped> {
        let (generation, networks) = self.order(Order::Networks).await?;
        Ok(networks.status(generation))
    }

    /// Replaces all virtual networks at once, and returns the new generation's number.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; or, inside, why they are not replaced. Then all stay as they were.
    pub(crate) async fn set_networks(
        &self,
        condition: Condition,
        networks: Vec<NetworkSpec>,
    ) -> Result<Result<Generation, ReplaceError>, Stopped> {
        let vtep = self.shared.vtep.clone();
        self.change_networks(condition, |_| Ok(Networks::new(networks, vtep)?)).await
    }

    /// Adds or replaces one virtual network, and returns the new generation's number.
    ///
    /// # Errors
    ///
    /// As of [`set_networks`](Self::set_networks).
    pub(crate) async fn set_network(
        &self,
        condition: Condition,
        network: NetworkSpec,
    ) -> Result<Result<Generation, ReplaceError>, Stopped> {
        self.change_networks(condition, |networks| Ok(networks.with(network)?)).await
    }

    /// Removes one virtual network, and returns the new generation's number.
    ///
    /// # Errors
    ///
    /// As of [`set_networks`](Self::set_networks).
    pub(crate) async fn remove_network(
        &self,
        condition: Condition,
        name: NetworkName,
    ) -> Result<Result<Generation, ReplaceError>, Stopped> {
        let change = move |networks: &Networks| match networks.without(&name) {
            Some(without) => Ok(without?),
            None => Err(ReplaceError::UnknownNetwork(name)),
        };
        self.change_networks(condition, change).await
    }

    /// Puts other networks in place of those that there are.
    async fn change_networks(
        &self,
        condition: Condition,
        change: impl FnOnce(&Networks) -> Result<Networks, ReplaceError> + Send + 'static,
    ) -> Result<Result<Generation, ReplaceError>, Stopped> {
        // Whoever asked may hang up: what was begun is done all the same.
        let handle = self.clone();
        let replaced = tokio::spawn(async move {
            let replaced = handle.replace_networks(condition, change).await;
            if let Ok(Ok(_)) = replaced {
                handle.attach_kept().await?;
            }
            replaced
        });
        replaced.await.map_err(|_| Stopped)?
    }

    async fn replace_networks(
        &self,
        condition: Condition,
        change: impl FnOnce(&Networks) -> Result<Networks, ReplaceError>,
    ) -> Result<Result<Generation, ReplaceError>, Stopped> {
        // One change after the other: each begins where the one before has ended.
        let mut topology = self.shared.topology.lock().await;
        let (generation, before) = self.order(Order::Networks).await?;
        if !condition.is_met(generation) {
            return Ok(Err(ReplaceError::Stale(generation)));
        }
        let networks = match change(&before) {
            Ok(networks) => Arc::new(networks),
            Err(error) => return Ok(Err(error)),
        };
        if condition.dry_run {
            let fits = self.order(|reply| Order::Check(networks, reply)).await?;
            return Ok(fits.map(|()| generation).map_err(ReplaceError::from));
        }
        let mut next = topology.clone();
        let delta = next.advance(networks.directory());
        // What is let go of, new or old, is freed here: the switch's thread does not wait for that.
        let replaced = self.order(|reply| Order::Replace(networks.clone(), delta, reply)).await?;
        Ok(replaced.map_err(ReplaceError::from).map(|(generation, _old)| {
            *topology = next;
            generation
        }))
    }

    /// Has tunnels use these keys from now on.
    ///
    /// # Errors
    ///
    /// [`Stopped`]
    pub async fn set_keys(&self, keys: Arc<Keys>) -> Result<(), Stopped> {
        self.order(|reply| Order::SetKeys(keys, reply)).await
    }

    /// Takes no more frames, lets those that are held reach their receivers within the declared
    /// time, ends every port, and ends the thread. Returns the last status, taken when the draining
    /// was over.
    ///
    /// # Errors
    ///
    /// [`Stopped`]: it had ended already.
    pub async fn stop(&self, ending: Ending) -> Result<AgentStatus, Stopped> {
        self.shared.stopping.store(true, Ordering::Relaxed);
        if ending == Ending::Remove {
            self.shared.journal.clear();
        }
        self.order(|reply| Order::Stop(ending, reply)).await
    }

    /// Whether a [`stop`](Self::stop) is under way or over.
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Relaxed)
    }

    /// Cuts a [`stop`](Self::stop) short: what is still held is not waited for.
    pub fn hurry(&self) {
        self.shared.at_once.store(true, Ordering::Relaxed);
        self.shared.bell.ring();
    }

    async fn order<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> Order,
    ) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(order(reply)).map_err(|_| Stopped)?;
        self.shared.bell.ring();
        answer.await.map_err(|_| Stopped)
    }
}

/// The thread's own state.
struct Switch {
    host: Host,
    networks: Arc<Networks>,
    generation: Generation,
    orders: mpsc::Receiver<Order>,
    shared: Arc<Shared>,
    polling: Polling,
    spin: Span,
    drain: Span,
    started: Instant,
    busy: Span,
    turns: u64,
    empty_turns: u64,
    leaving: Vec<Leaving>,
    reports: VecDeque<Report>,
    stopping: Option<Stopping>,
}

/// A status that is being told: of far hosts, some each turn.
struct Report {
    status: AgentStatus,
    /// The number of the first far host of which nothing was told yet.
    next: usize,
    reply: oneshot::Sender<AgentStatus>,
}

/// A port that is about to be detached.
struct Leaving {
    name: PortName,
    until: Instant,
    reply: oneshot::Sender<Result<PortStatus, DetachError>>,
}

/// A stop under way.
struct Stopping {
    until: Instant,
    ending: Ending,
    reply: oneshot::Sender<AgentStatus>,
}

impl Switch {
    fn new(
        config: &HostConfig,
        store: Store,
        orders: mpsc::Receiver<Order>,
        shared: Arc<Shared>,
    ) -> Result<Self, StartError> {
        let networks = Networks::new(config.networks.clone(), config.vtep().cloned())?;
        let journal = shared.journal.clone();
        let mut host = Host::new(&config.agent, config.uplink.as_ref(), store, journal)?;
        // What the file says of a port counts.
        let mut kept = shared.journal.ports();
        kept.retain(|port| config.ports.iter().all(|declared| declared.name != port.name));
        match &shared.vtep {
            Some(vtep) if !is_ours(vtep) => {
                tracing::warn!(%vtep, "this host does not have its address in the underlay yet: other hosts are not reached until it does");
                shared.is_unconnected.store(true, Ordering::Relaxed);
            }
            _ => host.connect()?,
        }
        let delta = shared.topology.blocking_lock().advance(networks.directory());
        host.set_directory(networks.directory().clone(), delta);
        // A guest's largest packet may be what tunnels carry.
        host.inherit(&[&config.ports[..], &kept].concat());
        let fit = config.ports.iter().try_for_each(|spec| {
            networks.check(spec).map_err(|error| (spec.name.clone(), error.into()))
        });
        let failed = fit.map_or_else(Some, |()| host.attach_all(&config.ports).into_iter().next());
        if let Some((port, source)) = failed {
            host.end(Ending::Undo);
            return Err(StartError::Attach { port, source });
        }
        // Those whose networks are not there yet come with these.
        kept.retain(|port| networks.check(port).is_ok());
        for (port, error) in host.attach_all(&kept) {
            tracing::error!(%port, %error, "a port that was attached through the API cannot be attached again");
        }
        Ok(Self {
            host,
            networks: networks.into(),
            generation: Generation(1),
            orders,
            shared,
            polling: config.agent.polling,
            spin: config.agent.spin,
            drain: config.agent.drain,
            started: now(),
            busy: Span::ZERO,
            turns: 0,
            empty_turns: 0,
            leaving: Vec::new(),
            reports: VecDeque::new(),
            stopping: None,
        })
    }

    fn run(mut self) {
        // Without the privilege to go first, it still asks to wait shortly.
        if let Err(error) = schedule(NICE, SLICE).or_else(|_| schedule(0, SLICE)) {
            tracing::debug!(%error, "the switch's thread may have to wait for others");
        }
        // A shaped frame is due to the microsecond; by default a timer may be 50 µs late (prctl(2),
        // PR_SET_TIMERSLACK).
        if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)) {
            tracing::debug!(%error, "the switch's thread may wake late");
        }
        let mut turn_began = self.host.look(Some(Span::ZERO));
        let mut last_work = turn_began;
        let mut last_look = turn_began;
        loop {
            if !self.obey_all() {
                return self.end();
            }
            self.report(FAR_HOSTS);
            let worked = self.host.turn(turn_began);
            let turn_ended = self.host.look(Some(Span::ZERO));
            self.turns += 1;
            self.shared.turns.store(self.turns, Ordering::Relaxed);
            if worked {
                self.busy += turn_ended.since(turn_began);
                last_work = turn_ended;
            } else {
                self.empty_turns += 1;
            }
            let refused = self.see_off(turn_ended);
            if self.is_done(turn_ended) {
                return self.end();
            }
            turn_began = turn_ended;
            if worked && turn_ended.since(last_look) < LOOK_AROUND {
                continue;
            }
            let is_idle = !worked && !refused && self.reports.is_empty();
            if is_idle && !self.spins(turn_ended, last_work) {
                if !self.host.arm() {
                    self.sleep(turn_ended);
                }
                turn_began = self.host.now();
            }
            self.look();
            last_look = turn_began;
        }
    }

    /// Whether it is too early to sleep: work was a moment ago, or is due in a moment.
    fn spins(&self, now: Instant, last_work: Instant) -> bool {
        self.polling == Polling::Always
            || now.since(last_work) < self.spin
            || self.host.deadline().is_some_and(|due| due.since(now) < self.spin)
    }

    /// Sleeps until a port has work, an order comes, or something falls due.
    fn sleep(&mut self, now: Instant) {
        let stopping = self.stopping.iter().map(|stopping| stopping.until);
        let leaving = self.leaving.iter().map(|leaving| leaving.until);
        let due = stopping.chain(leaving).chain(self.host.deadline()).min();
        let sleep = due.map(|due| due.since(now));
        // Where a silence is judged, a look now and then shows that we were there to hear its end.
        let longest = self.host.is_judging().then_some(LONGEST_SLEEP);
        let sleep = sleep.into_iter().chain(longest).min();
        let wait = sleep.map(timespec);
        let events = self.host.events();
        let mut sources = [
            PollFd::from_borrowed_fd(events, PollFlags::IN),
            PollFd::new(&self.shared.bell, PollFlags::IN),
        ];
        match poll(&mut sources, wait.as_ref()) {
            Ok(_) if sources[1].revents().contains(PollFlags::IN) => self.shared.bell.silence(),
            // A signal woke us: the next turn finds out whether there is anything to do.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll(2) on our own two descriptors: {error}"),
        }
        self.host.look(sleep);
    }

    fn look(&mut self) {
        if let Err(error) = self.host.wake() {
            panic!("epoll_wait(2) on the host's own descriptor: {error}");
        }
    }

    /// Does what was ordered since the last turn. `false`: nobody is left who could order anything.
    fn obey_all(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(order) => self.obey(order),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    // An answer that nobody waits for any more is dropped, and so is the order of somebody who
    // comes too late: the broken channel tells him.
    fn obey(&mut self, order: Order) {
        match order {
            Order::Attach(..)
            | Order::Detach(..)
            | Order::Change(..)
            | Order::Connect(..)
            | Order::Replace(..)
            | Order::Stop(..)
                if self.stopping.is_some() => {}
            Order::Status(proof, reply) => {
                let status = self.status(proof);
                self.reports.push_back(Report { status, next: 0, reply });
            }
            Order::Port(name, reply) => {
                let _ = reply.send(self.host.port(&name));
            }
            Order::Spec(name, reply) => {
                let port = self.host.specs().find(|port| port.name == name);
                let _ = reply.send(port.cloned());
            }
            Order::Addresses(reply) => {
                let _ = reply.send(self.host.addresses());
            }
            Order::Attach(spec, reply) => match self.networks.check(&spec) {
                Ok(()) => self.host.attach(*spec, answer(reply)),
                Err(error) => {
                    let _ = reply.send(Err(error.into()));
                }
            },
            Order::Detach(name, reply) => match self.host.close(&name) {
                Ok(()) => {
                    self.leaving.push(Leaving { name, until: self.host.now() + FAREWELL, reply })
                }
                Err(error) => {
                    let _ = reply.send(Err(error));
                }
            },
            Order::Change(name, change, reply) => {
                let outcome = self.host.change(&name, &change);
                let _ = reply.send(outcome.map(|()| self.port(&name)));
            }
            Order::Capture(spec, reply) => {
                let _ = reply.send(self.host.capture(spec));
            }
            Order::Trace(spec, reply) => {
                let _ = reply.send(self.host.trace(&spec));
            }
            Order::Connect(delta, reply) => {
                let connected = self.host.connect();
                if connected.is_ok() {
                    self.host.set_directory(self.networks.directory().clone(), delta);
                }
                let _ = reply.send(connected);
            }
            Order::Networks(reply) => {
                let _ = reply.send((self.generation, self.networks.clone()));
            }
            Order::Check(networks, reply) => {
                let _ = reply.send(self.host.specs().try_for_each(|port| networks.check(port)));
            }
            Order::Replace(networks, delta, reply) => {
                let _ = reply.send(self.replace(networks, delta));
            }
            Order::SetKeys(keys, reply) => {
                self.host.set_keys(&keys);
                let _ = reply.send(());
            }
            Order::Stop(ending, reply) => {
                self.host.stop_receiving();
                self.stopping =
                    Some(Stopping { until: self.host.now() + self.drain, ending, reply });
            }
        }
    }

    /// Has frames go by other networks from now on, and returns the former ones with the new ones'
    /// number.
    fn replace(
        &mut self,
        networks: Arc<Networks>,
        delta: Delta,
    ) -> Result<(Generation, Arc<Networks>), InvalidConfig> {
        self.host.specs().try_for_each(|port| networks.check(port))?;
        self.host.set_directory(networks.directory().clone(), delta);
        self.generation.0 += 1;
        Ok((self.generation, mem::replace(&mut self.networks, networks)))
    }

    /// Goes on with the first status that is being told, by so many far hosts: with thousands of
    /// them, frames do not wait for all.
    fn report(&mut self, most: usize) {
        let Some(Report { status, next, .. }) = self.reports.front_mut() else { return };
        let end = self.host.far_hosts().min(next.saturating_add(most));
        if let Some(uplink) = &mut status.uplink {
            uplink.peers.extend(self.host.far_hosts_status(*next..end));
        }
        *next = end;
        if end == self.host.far_hosts()
            && let Some(Report { mut status, reply, .. }) = self.reports.pop_front()
        {
            if let Some(uplink) = &mut status.uplink {
                uplink.peers.sort_unstable_by_key(|peer| peer.vtep);
            }
            let _ = reply.send(status);
        }
    }

    /// The state of the agent, without far hosts.
    fn status(&self, proof: Proof) -> AgentStatus {
        let status = self.host.status(now().since(self.started), self.busy, proof);
        AgentStatus { turns: self.turns, empty_turns: self.empty_turns, ..status }
    }

    /// A port that is attached.
    fn port(&self, name: &PortName) -> PortStatus {
        self.host.port(name).expect("its change has just succeeded")
    }

    /// Detaches the ports that are to go and hold nothing more, or had their time. Whether there
    /// were any: what was for them is refused, so their senders may go on, and no event would tell.
    fn see_off(&mut self, now: Instant) -> bool {
        let Self { host, leaving, .. } = self;
        let before = leaving.len();
        while let Some(place) =
            leaving.iter().position(|leaving| now >= leaving.until || host.is_empty(&leaving.name))
        {
            let Leaving { name, reply, .. } = leaving.remove(place);
            host.detach(&name, answer(reply));
        }
        leaving.len() < before
    }

    /// Whether a stop has nothing left to wait for.
    fn is_done(&self, now: Instant) -> bool {
        self.stopping.as_ref().is_some_and(|stopping| {
            self.host.drained()
                || now >= stopping.until
                || self.shared.at_once.load(Ordering::Relaxed)
        })
    }

    /// Detaches every port, and tells what there was before.
    fn end(mut self) {
        let status = self.status(Proof::Now);
        while !self.reports.is_empty() {
            self.report(usize::MAX);
        }
        for Leaving { name, reply, .. } in std::mem::take(&mut self.leaving) {
            self.host.detach(&name, answer(reply));
        }
        let ending = self.stopping.as_ref().map_or(Ending::Remove, |stopping| stopping.ending);
        self.host.end(ending);
        if let Some(stopping) = self.stopping {
            let _ = stopping.reply.send(status);
        }
    }
}

/// Whether this host has all these addresses.
fn is_ours(vtep: &VtepList) -> bool {
    let is_missing = |address| {
        UdpSocket::bind((address, 0))
            .is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
    };
    // Of other failures, those who open the uplink tell.
    !vtep.iter().any(is_missing)
}

/// Answers an order later; an answer that nobody waits for any more is dropped.
fn answer<T: Send + 'static>(reply: oneshot::Sender<T>) -> Reply<T> {
    Box::new(move |answer| drop(reply.send(answer)))
}
