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

use std::convert::Infallible;
use std::io;
use std::mem;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::thread::{self, JoinHandle};

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
    AttachError, CaptureError, ChangeError, DetachError, Host, Proof, TraceError, UplinkError,
};
use crate::networks::Networks;
use crate::store::Store;

/// While there is work, how often the host looks for ports that were idle and no longer are.
const LOOK_AROUND: Span = Span::from_micros(20);

/// How long a port that is detached may take to hand over what it holds; what is left then is
/// refused.
const FAREWELL: Span = Span::from_secs(1);
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

/// The switch takes no more orders: the agent is about to exit.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the agent is stopping: start it again, then ask again")]
pub struct Stopped;

enum Order {
    Status(Proof, oneshot::Sender<AgentStatus>),
    Port(PortName, oneshot::Sender<Option<PortStatus>>),
    Addresses(oneshot::Sender<Vec<AddressStatus>>),
    Attach(Box<PortSpec>, oneshot::Sender<Result<PortStatus, AttachError>>),
    Detach(PortName, oneshot::Sender<Result<PortStatus, DetachError>>),
    Change(PortName, PortChange, oneshot::Sender<Result<PortStatus, ChangeError>>),
    Networks(oneshot::Sender<(Generation, Arc<Networks>)>),
    Capture(CaptureSpec, oneshot::Sender<Result<Reader, CaptureError>>),
    Trace(TraceSpec, oneshot::Sender<Result<TraceReport, TraceError>>),
    Replace(
        Arc<Networks>,
        Delta,
        oneshot::Sender<Result<(Generation, Arc<Networks>), InvalidConfig>>,
    ),
    SetKeys(Arc<Keys>, oneshot::Sender<()>),
    Stop(oneshot::Sender<AgentStatus>),
}

impl Worker {
    /// Starts the thread and attaches the declared ports, which go on with what is left of them in
    /// `store`; returns once frames flow and the ports' addresses are in use.
    ///
    /// # Errors
    ///
    /// [`StartError`]; then the thread has ended and left nothing attached.
    pub fn start(config: HostConfig, store: Store) -> Result<Self, StartError> {
        let bell = Bell::new().map_err(StartError::Thread)?;
        let (stopping, at_once) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Shared {
            bell,
            vtep: config.vtep().cloned(),
            turns: AtomicU64::new(0),
            topology: Mutex::default(),
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
        let attached = self.order(|reply| Order::Attach(Box::new(spec.clone()), reply)).await?;
        if attached.is_ok() {
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
        self.order(|reply| Order::Detach(name, reply)).await
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
        self.order(|reply| Order::Change(name, change, reply)).await
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
    /// [`Stopped`]; or, inside, why they cannot stand, or not beside the ports that are attached.
    /// Then all stay as they were.
    pub async fn set_networks(
        &self,
        networks: Vec<NetworkSpec>,
    ) -> Result<Result<Generation, InvalidConfig>, Stopped> {
        let vtep = self.shared.vtep.clone();
        let replaced = self.change_networks(|_| Some(Networks::new(networks, vtep))).await?;
        Ok(replaced.expect("there is always something to replace"))
    }

    /// Adds or replaces one virtual network, and returns the new generation's number.
    ///
    /// # Errors
    ///
    /// As of [`set_networks`](Self::set_networks).
    pub async fn set_network(
        &self,
        network: NetworkSpec,
    ) -> Result<Result<Generation, InvalidConfig>, Stopped> {
        let replaced = self.change_networks(|networks| Some(networks.with(network))).await?;
        Ok(replaced.expect("there is always a place for it"))
    }

    /// Removes one virtual network, and returns the new generation's number; `None` if there is
    /// none of that name.
    ///
    /// # Errors
    ///
    /// As of [`set_networks`](Self::set_networks).
    pub async fn remove_network(
        &self,
        name: NetworkName,
    ) -> Result<Option<Result<Generation, InvalidConfig>>, Stopped> {
        self.change_networks(move |networks| networks.without(&name)).await
    }

    /// Puts other networks in place of those that there are, unless `change` has none.
    async fn change_networks(
        &self,
        change: impl FnOnce(&Networks) -> Option<Result<Networks, InvalidConfig>> + Send + 'static,
    ) -> Result<Option<Result<Generation, InvalidConfig>>, Stopped> {
        // Whoever asked may hang up: what was begun is done all the same.
        let handle = self.clone();
        let replaced = tokio::spawn(async move { handle.replace_networks(change).await });
        replaced.await.map_err(|_| Stopped)?
    }

    async fn replace_networks(
        &self,
        change: impl FnOnce(&Networks) -> Option<Result<Networks, InvalidConfig>>,
    ) -> Result<Option<Result<Generation, InvalidConfig>>, Stopped> {
        // One change after the other: each begins where the one before has ended.
        let mut topology = self.shared.topology.lock().await;
        let (_, before) = self.order(Order::Networks).await?;
        let networks = match change(&before) {
            Some(Ok(networks)) => Arc::new(networks),
            Some(Err(error)) => return Ok(Some(Err(error))),
            None => return Ok(None),
        };
        let mut next = topology.clone();
        let delta = next.advance(networks.directory());
        // What is let go of, new or old, is freed here: the switch's thread does not wait for that.
        let replaced = self.order(|reply| Order::Replace(networks.clone(), delta, reply)).await?;
        Ok(Some(replaced.map(|(generation, _old)| {
            *topology = next;
            generation
        })))
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
    /// time, detaches every port, and ends the thread. Returns the last status, taken when the
    /// draining was over.
    ///
    /// # Errors
    ///
    /// [`Stopped`]: it had ended already.
    pub async fn stop(&self) -> Result<AgentStatus, Stopped> {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.order(Order::Stop).await
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
    stopping: Option<Stopping>,
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
        let mut host = Host::new(&config.agent, store)?;
        host.inherit(&config.ports);
        if let Some(uplink) = &config.uplink {
            host.connect(uplink)?;
        }
        let delta = shared.topology.blocking_lock().advance(networks.directory());
        host.set_directory(networks.directory().clone(), delta);
        for spec in &config.ports {
            if let Err(source) = attach(&mut host, &networks, spec) {
                host.end();
                return Err(StartError::Attach { port: spec.name.clone(), source });
            }
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
        let mut turn_began = now();
        let mut last_work = turn_began;
        let mut last_look = turn_began;
        loop {
            if !self.obey_all() {
                return self.end();
            }
            let worked = self.host.turn(turn_began);
            let turn_ended = now();
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
            if !worked && !refused && !self.spins(turn_ended, last_work) {
                if !self.host.arm() {
                    self.sleep(turn_ended);
                }
                turn_began = now();
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
    fn sleep(&self, now: Instant) {
        let stopping = self.stopping.iter().map(|stopping| stopping.until);
        let leaving = self.leaving.iter().map(|leaving| leaving.until);
        let wait = stopping.chain(leaving).chain(self.host.deadline()).min();
        let wait = wait.map(|due| timespec(due.since(now)));
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
            | Order::Replace(..)
            | Order::Stop(_)
                if self.stopping.is_some() => {}
            Order::Status(proof, reply) => {
                let _ = reply.send(self.status(proof));
            }
            Order::Port(name, reply) => {
                let _ = reply.send(self.host.port(&name));
            }
            Order::Addresses(reply) => {
                let _ = reply.send(self.host.addresses());
            }
            Order::Attach(spec, reply) => {
                let outcome = attach(&mut self.host, &self.networks, &spec);
                let _ = reply.send(outcome.map(|()| self.port(&spec.name)));
            }
            Order::Detach(name, reply) => match self.host.close(&name) {
                Ok(()) => self.leaving.push(Leaving { name, until: now() + FAREWELL, reply }),
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
            Order::Networks(reply) => {
                let _ = reply.send((self.generation, self.networks.clone()));
            }
            Order::Replace(networks, delta, reply) => {
                let _ = reply.send(self.replace(networks, delta));
            }
            Order::SetKeys(keys, reply) => {
                self.host.set_keys(&keys);
                let _ = reply.send(());
            }
            Order::Stop(reply) => {
                self.host.stop_receiving();
                self.stopping = Some(Stopping { until: now() + self.drain, reply });
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

    fn status(&self, proof: Proof) -> AgentStatus {
        let status = self.host.status(now().since(self.started), self.busy, proof);
        AgentStatus { turns: self.turns, empty_turns: self.empty_turns, ..status }
    }

    /// A port that is attached.
    fn port(&self, name: &PortName) -> PortStatus {
        self.host.port(name).expect("its attachment or change has just succeeded")
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
            let _ = reply.send(host.detach(&name));
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
        for Leaving { name, reply, .. } in std::mem::take(&mut self.leaving) {
            let _ = reply.send(self.host.detach(&name));
        }
        self.host.end();
        if let Some(stopping) = self.stopping {
            let _ = stopping.reply.send(status);
        }
    }
}

/// Attaches a port that is in the network that it names.
fn attach(host: &mut Host, networks: &Networks, spec: &PortSpec) -> Result<(), AttachError> {
    networks.check(spec)?;
    host.attach(spec)
}
