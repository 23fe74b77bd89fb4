//! Thousands of agents in one process: each is the session that a host's agent has, and what it is
//! told; but for a switch that would execute it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::Generation;
use replica::{Changed, Fence, Follower, Limits, Map, Name, Store};
use serde::{Deserialize, Serialize};
use southbound::{Backoff, Execute, FollowError, Node, Ports, Proof};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::sleep;
use units::Rng;

use super::plan::{self, Plan};
use super::process::failed;
use super::proofs::Proofs;
use crate::{Bench, MeasureError};

/// As agents have it.
const LIMITS: Limits = Limits { domains: 16_384, update_bytes: 256 << 20 };
const WINDOW: u64 = 4 << 20;

/// How long agents may take for what they are told.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often to look whether the user wants no more.
const LOOK: Duration = Duration::from_millis(50);

/// How far all agents are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// The time since the phase began.
    pub seconds: f64,
    /// Agents that execute all that there is, as told in the session that they have.
    pub agents: u32,
    /// Rows that agents have, together.
    pub rows: u64,
}

/// All agents.
pub struct Agents {
    told: Arc<Told>,
    orders: Vec<UnboundedSender<Order>>,
    /// Its tasks end with it.
    _runtime: Runtime,
}

/// What an agent is to do.
enum Order {
    /// A port, as tenant/name, is at its host, or no longer.
    Attach(String),
    Detach(String),
    /// Its connection breaks.
    Reconnect,
}

/// What all agents know, and whoever waits for it.
struct Told {
    hosts: Mutex<Vec<Known>>,
    news: Condvar,
    /// Sessions that an agent has ended because of what it was told.
    rejected: AtomicU64,
    /// Rows that were other for an agent than before, those that were gone among them.
    rows: AtomicU64,
}

/// What an agent knows.
#[derive(Default)]
struct Known {
    domains: BTreeMap<Name, Map>,
    /// Everything up to this revision was executed in the session that it has, if it has one.
    marked: u64,
}

impl Told {
    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self, host: usize, revision: u64) {
        self.lock()[host].marked = revision;
        self.news.notify_all();
    }
}

impl Agents {
    /// Starts the agents of a plan's hosts, which have their ports.
    pub fn start(
        plan: &Plan,
        controller: SocketAddr,
        proofs: Option<&Proofs>,
    ) -> Result<Self, MeasureError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let hosts = (0..plan.hosts).map(|_| Known::default()).collect();
        let (hosts, news) = (Mutex::new(hosts), Condvar::new());
        let (rejected, rows) = Default::default();
        let told = Arc::new(Told { hosts, news, rejected, rows });
        let mut orders = Vec::new();
        for (host, ports) in plan.ports_of().into_iter().enumerate() {
            let (sender, receiver) = mpsc::unbounded_channel();
            orders.push(sender);
            let own = |port: u32| {
                let (switch, _) = plan.ports[port as usize];
                name(plan.switches[switch as usize].tenant, &plan::port(port))
            };
            let agent = Agent {
                host,
                controller,
                proof: proofs.map_or_else(Proof::default, |it| it.agent(host as u32)),
                ports: ports.into_iter().map(own).collect(),
                orders: receiver,
                told: Arc::clone(&told),
            };
            runtime.spawn(agent.run());
        }
        Ok(Self { told, orders, _runtime: runtime })
    }

    /// A port is at a host.
    pub fn attach(&self, host: u32, tenant: u32, port: &str) {
        let _ = self.orders[host as usize].send(Order::Attach(name(tenant, port)));
    }

    /// A port is at a host no longer.
    pub fn detach(&self, host: u32, tenant: u32, port: &str) {
        let _ = self.orders[host as usize].send(Order::Detach(name(tenant, port)));
    }

    /// All connections break.
    pub fn reconnect(&self) {
        self.told.lock().iter_mut().for_each(|it| it.marked = 0);
        self.orders.iter().for_each(|it| drop(it.send(Order::Reconnect)));
    }

    /// No agent counts as told of anything before its next session: the controller has gone.
    pub fn forget_sessions(&self) {
        self.told.lock().iter_mut().for_each(|it| it.marked = 0);
    }

    /// Waits until these agents have executed all up to a revision.
    pub fn wait(
        &self,
        bench: &Bench<'_>,
        revision: u64,
        hosts: impl IntoIterator<Item = u32>,
    ) -> Result<(), MeasureError> {
        let begun = Instant::now();
        let mut left: Vec<_> = hosts.into_iter().map(|it| it as usize).collect();
        let mut known = self.told.lock();
        loop {
            left.retain(|host| known[*host].marked < revision);
            if left.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                let why = format!("{} agents do not execute revision {revision}", left.len());
                return Err(failed(why));
            }
            bench.go_on()?;
            let waited = self.told.news.wait_timeout(known, LOOK);
            known = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How far they are now. Nothing is declared meanwhile: whoever has a mark executes all.
    pub fn moment(&self, begun: Instant) -> Moment {
        let hosts = self.told.lock();
        let agents = hosts.iter().filter(|it| it.marked > 0).count() as u32;
        let rows = hosts.iter().flat_map(|it| it.domains.values()).map(Map::len).sum::<usize>();
        Moment { seconds: begun.elapsed().as_secs_f64(), agents, rows: rows as u64 }
    }

    /// How often an agent did not go on with a controller because of what it was told, since this
    /// was asked last.
    pub fn rejected(&self) -> u64 {
        self.told.rejected.swap(0, Ordering::Relaxed)
    }

    /// How many rows agents were told so far that changed what they had.
    pub fn told_rows(&self) -> u64 {
        self.told.rows.load(Ordering::Relaxed)
    }

    /// What an agent has of a domain.
    pub fn rows(&self, host: u32, domain: &str) -> Option<Map> {
        self.told.lock()[host as usize].domains.get(domain).cloned()
    }
}

fn name(tenant: u32, port: &str) -> String {
    format!("{}/{port}", plan::tenant(tenant))
}

/// One agent.
struct Agent {
    host: usize,
    controller: SocketAddr,
    proof: Proof,
    ports: BTreeSet<String>,
    orders: UnboundedReceiver<Order>,
    told: Arc<Told>,
}

impl Agent {
    async fn run(mut self) {
        let mut follower = Follower::new(LIMITS);
        let (mut backoff, mut rng) = (Backoff::default(), Rng::new(self.host as u64));
        loop {
            let begun = Instant::now();
            if !self.session(&mut follower).await {
                return;
            }
            self.told.lock()[self.host].marked = 0;
            backoff.ended(begun.elapsed());
            sleep(backoff.next(rng.next_u64())).await;
        }
    }

    /// One session. Whether there is to be another.
    async fn session(&mut self, follower: &mut Follower) -> bool {
        let Ok(connection) = southbound::connect(self.controller, &self.proof).await else {
            return true;
        };
        let (changes, mut changed) = mpsc::channel(16);
        let all = Ports { attached: self.ports.iter().cloned().collect(), detached: Vec::new() };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (name, incarnation) = (plan::node(self.host as u32), since.as_nanos() as u64);
        let node = Node { name, incarnation, window_bytes: WINDOW };
        let mut host = Host { host: self.host, told: Arc::clone(&self.told) };
        let follow = southbound::follow(connection, &node, follower, &mut changed, all, &mut host);
        tokio::select! {
            Err(ended) = follow => {
                if !matches!(ended, FollowError::Ended(_)) {
                    self.told.rejected.fetch_add(1, Ordering::Relaxed);
                }
                true
            }
            is_ordered = self.obey(changes) => is_ordered,
        }
    }

    /// Does what is ordered, until the connection is to break (true), or nobody orders any more.
    async fn obey(&mut self, changes: mpsc::Sender<Ports>) -> bool {
        while let Some(order) = self.orders.recv().await {
            let (mut attached, mut detached) = (Vec::new(), Vec::new());
            match order {
                Order::Attach(port) => {
                    self.ports.insert(port.clone());
                    attached.push(port);
                }
                Order::Detach(port) => {
                    self.ports.remove(&port);
                    detached.push(port);
                }
                Order::Reconnect => return true,
            }
            if changes.send(Ports { attached, detached }).await.is_err() {
                return true;
            }
        }
        false
    }
}

/// Keeps what an agent is told.
struct Host {
    host: usize,
    told: Arc<Told>,
}

impl Execute for Host {
    async fn execute(&mut self, changed: &Changed<'_>) -> Result<(), String> {
        self.told.rows.fetch_add(changed.delta().len() as u64, Ordering::Relaxed);
        let mut all = self.told.lock();
        let rows = all[self.host].domains.entry(changed.domain().clone()).or_default();
        rows.apply(changed.delta().clone());
        Ok(())
    }

    fn began(&mut self, _: Store, _: Fence) {}

    async fn dropped(&mut self, domain: &Name) {
        self.told.lock()[self.host].domains.remove(domain);
    }

    async fn marked(&mut self, revision: Generation) {
        self.told.mark(self.host, revision.0);
    }

    fn unknown(&mut self, _: Vec<String>) {}
}
