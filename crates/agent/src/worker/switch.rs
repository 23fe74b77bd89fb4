//! The thread itself: it turns the host, sleeps, and obeys.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, TryRecvError};

use kernel::clock::{now, timespec};
use kernel::thread::schedule;
use model::{
    AgentStatus, Generation, HostConfig, InvalidConfig, Polling, PortChange, PortName, PortShare,
    PortSpec, PortStatus,
};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::oneshot;
use units::{Instant, Span};

use super::order::{Order, Shared, Tunnels};
use crate::addresses;
use crate::host::{
    AttachError, ChangeError, DetachError, Ending, Host, Proof, Reply, Room, UplinkError,
};
use crate::networks::Networks;
use crate::store::Store;

/// While there is work, how often the host looks for ports that were idle and no longer are.
const LOOK_AROUND: Span = Span::from_micros(20);

/// How long a port that is detached may take to hand over what it holds; what is left then is
/// refused.
const FAREWELL: Span = Span::from_secs(1);
/// Of how many far hosts a status tells in a turn.
const FAR_HOSTS: usize = 64;

/// How long the thread sleeps at the most while it judges anybody's silence.
const LONGEST_SLEEP: Span = Span::from_millis(250);

/// The thread's priority: what Open vSwitch runs with, too.
const NICE: i32 = -10;

/// How long the thread runs before another that waits has its turn. Every frame on this host waits
/// for this thread, so it has to be back soon; but a sender or receiver on its processor has to be
/// let in soon as well, and the kernel's own slice is as long as a hundred frames of a gigabit.
const SLICE: Span = Span::from_micros(100);

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
    /// The logical networks that it is to begin with cannot stand.
    #[error(transparent)]
    Logical(#[from] crate::logical::StartError),
    /// A declared port cannot be attached. Those before it are detached again.
    #[error("cannot attach port `{port}`")]
    Attach {
        /// The port.
        port: PortName,
        /// Why.
        source: AttachError,
    },
}

/// The thread's own state.
pub struct Switch {
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
    pub fn new(
        config: &HostConfig,
        store: Store,
        orders: mpsc::Receiver<Order>,
        shared: Arc<Shared>,
    ) -> Result<Self, StartError> {
        let capacity = shared.capacity.clone();
        let frame = capacity.frame().clone();
        let networks = Networks::new(config.networks.clone(), config.vtep().cloned(), capacity)?;
        let journal = shared.journal.clone();
        let room = Room::from(&config.logical);
        let uplink = config.uplink.as_ref();
        let mut host = Host::new(&config.agent, uplink, store, journal, frame, room)?;
        let mut logical = shared.logical.blocking_lock();
        // Interfaces have their addresses of it.
        host.realize(logical.realization(None, |_| None));
        // What the file says of a port counts.
        let mut kept = shared.journal.ports();
        kept.retain(|port| config.ports.iter().all(|declared| declared.name != port.name));
        match &shared.vtep {
            Some(vtep) if !addresses::are_ours(vtep) => {
                tracing::warn!(%vtep, "this host does not have its address in the underlay yet: other hosts are not reached until it does");
                shared.is_unconnected.store(true, Ordering::Relaxed);
            }
            _ => host.connect()?,
        }
        let delta = shared.topology.blocking_lock().advance(networks.directory());
        host.set_directory(networks.directory().clone(), delta);
        host.set_shares(networks.shares(), networks.promise());
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
        // Nor does anything keep what they had of an uplink whose rate is not declared any more.
        for port in kept.iter_mut().filter(|port| !port.share.is_default() && !networks.has_rate())
        {
            let name = &port.name;
            tracing::error!(port = %name, "a port that was attached through the API has no `share` any more: `rate` of [uplink] is not declared");
            port.share = PortShare::default();
        }
        // What they were promised beside one another may be too much beside what the file says.
        while networks.check_ports(config.ports.iter().chain(&kept)).is_err()
            && let Some(last) = kept.iter().rposition(|port| port.share.min.is_some())
        {
            let port = kept.remove(last).name;
            tracing::error!(%port, "a port that was attached through the API is not attached again: its `min` is too much beside others'");
        }
        for (port, error) in host.attach_all(&kept) {
            tracing::error!(%port, %error, "a port that was attached through the API cannot be attached again");
        }
        let own = host.logical_ports();
        if !own.is_empty() {
            *logical = Arc::new(logical.with_ports(own));
            let mut topology = shared.topology.blocking_lock();
            let vtep = shared.vtep.as_ref();
            match Tunnels::advance(&mut topology, &networks, &logical) {
                Ok(Tunnels { directory, delta }) => host.set_directory(directory, delta),
                Err(error) => {
                    tracing::error!(%error, "logical ports on other hosts are not reached");
                }
            }
            host.realize(logical.realization(vtep, |host| topology.peer(host)));
        }
        drop(logical);
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

    pub fn run(mut self) {
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
            Order::Attach(spec, reply) => match self.admit(&spec) {
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
                let outcome = self.admit_change(&name, &change);
                let outcome = outcome.and_then(|()| self.host.change(&name, &change));
                let _ = reply.send(outcome.map(|()| self.port(&name)));
            }
            Order::Capture(spec, reply) => {
                let _ = reply.send(self.host.capture(spec));
            }
            Order::Trace(spec, reply) => {
                let _ = reply.send(self.host.trace(&spec));
            }
            Order::Rules(port, reply) => {
                let _ = reply.send(self.host.rules(port.as_ref()));
            }
            Order::Connections(asked, reply) => {
                let _ = reply.send(self.host.connections(&asked));
            }
            Order::HandOver(port, reply) => {
                let _ = reply.send(self.host.hand_over(&port));
            }
            Order::TakeOver(port, places, reply) => {
                let _ = reply.send(self.host.take_over(&port, &places));
            }
            Order::TracePacket(spec, reply) => {
                let _ = reply.send(self.host.trace_packet(&spec));
            }
            Order::Connect(delta, reply) => {
                let connected = self.host.connect();
                if connected.is_ok() {
                    self.host.set_directory(self.networks.directory().clone(), delta);
                    self.host.set_shares(self.networks.shares(), self.networks.promise());
                }
                let _ = reply.send(connected);
            }
            Order::Networks(reply) => {
                let _ = reply.send((self.generation, self.networks.clone()));
            }
            Order::Check(networks, reply) => {
                let _ = reply.send(self.check(&networks));
            }
            Order::Replace(networks, delta, reply) => {
                let _ = reply.send(self.replace(networks, delta));
            }
            Order::LogicalPorts(reply) => {
                let _ = reply.send(self.host.logical_ports());
            }
            Order::HasLogical(reply) => {
                let _ = reply.send(self.host.has_logical());
            }
            Order::SetLogical(networks, reply) => {
                self.host.set_logical(*networks);
                let _ = reply.send(());
            }
            Order::Realize(realization, reply) => {
                let (realization, Tunnels { directory, delta }) = *realization;
                self.host.set_directory(directory, delta);
                let _ = reply.send(self.host.realize(realization));
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

    /// Checks whether a port may be attached beside those that there are.
    fn admit(&self, spec: &PortSpec) -> Result<(), InvalidConfig> {
        self.networks.check(spec)?;
        if spec.share.is_default() {
            return Ok(());
        }
        self.networks.check_ports(self.host.specs().chain([spec]))
    }

    /// Checks whether a port that is attached may have the share that a change gives it.
    fn admit_change(&self, name: &PortName, change: &PortChange) -> Result<(), ChangeError> {
        if change.share.is_none_or(|share| share.is_default()) {
            return Ok(());
        }
        let changed = self.host.specs().find(|port| port.name == *name);
        let changed = changed.map(|port| port.changed(change));
        let others = self.host.specs().filter(|port| port.name != *name);
        Ok(self.networks.check_ports(others.chain(&changed))?)
    }

    /// Checks whether the ports that there are may be attached with these networks.
    fn check(&self, networks: &Networks) -> Result<(), InvalidConfig> {
        self.host.specs().try_for_each(|port| networks.check(port))?;
        networks.check_ports(self.host.specs())
    }

    /// Has frames go by other networks from now on, and returns the former ones with the new ones'
    /// number.
    fn replace(
        &mut self,
        networks: Arc<Networks>,
        tunnels: Tunnels,
    ) -> Result<(Generation, Arc<Networks>), InvalidConfig> {
        self.check(&networks)?;
        self.host.set_directory(tunnels.directory, tunnels.delta);
        self.host.set_shares(networks.shares(), networks.promise());
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
        for Leaving { name, reply, .. } in mem::take(&mut self.leaving) {
            self.host.detach(&name, answer(reply));
        }
        let ending = self.stopping.as_ref().map_or(Ending::Remove, |stopping| stopping.ending);
        self.host.end(ending);
        if let Some(stopping) = self.stopping {
            let _ = stopping.reply.send(status);
        }
    }
}

/// Answers an order later; an answer that nobody waits for any more is dropped.
fn answer<T: Send + 'static>(reply: oneshot::Sender<T>) -> Reply<T> {
    Box::new(move |answer| drop(reply.send(answer)))
}
