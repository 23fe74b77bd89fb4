//! A controller is followed: what it says of logical networks is executed here.
//!
//! ```text
//! controller ═ southbound ═▶ Follower ─▶ rows ─▶ Handle::execute ─▶ the switch's thread
//!                 ▲                       └────▶ kept: files, which the next agent begins with
//!                 └─ which ports are here, or are to be
//! ```
//!
//! What was said is executed until other is said, whether a controller is there or not. A port
//! whose networks are not known yet is attached when they are: its interface has their addresses.

mod kept;
mod rows;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use logical::objects::Identity;
use model::{Generation, LogicalPortName, PortSpec, VtepList};
use replica::{Changed, Fence, Follower, Limits, Map, Name, Store};
use southbound::{Backoff, Execute, FollowError, Node, Ports, Proof};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::logical::{Logical, identity};
use crate::worker::{Handle, Heard, Stopped};
pub use kept::Keeper;
pub use rows::Rows;

/// How much is kept of what controllers say.
const LIMITS: Limits = Limits { domains: 16_384, update_bytes: 256 << 20 };

/// How many bytes of updates may be underway here.
const WINDOW: u64 = 4 << 20;

/// Whom an agent follows.
#[derive(Clone, Debug)]
pub struct Follows {
    /// Where the controller listens for agents.
    pub controller: SocketAddr,
    /// What this host proves that it is its node by, and whom it trusts.
    pub proof: Proof,
    /// The TransportNode that this host is.
    pub node: String,
    /// The folder where what was said is kept for the next agent.
    pub kept: PathBuf,
}

/// A follower, with what the agent before has left.
#[derive(Debug)]
pub struct Following {
    follows: Follows,
    follower: Follower,
    execution: Execution,
    /// Ports that were declared, and are attached when their networks are known.
    late: Vec<PortSpec>,
    /// When what there is to begin with was said.
    said: Option<SystemTime>,
}

/// What is executed.
#[derive(Debug)]
struct Execution {
    rows: Rows,
    keeper: Keeper,
    whose: Option<(Store, Fence)>,
    switch: Option<Handle>,
    /// Whether a session has begun.
    is_heard: bool,
}

impl Following {
    /// What there is to begin with.
    ///
    /// # Errors
    ///
    /// Its folder cannot be had.
    pub fn open(follows: Follows) -> io::Result<Self> {
        let keeper = Keeper::new(&follows.kept, &follows.node)?;
        let kept::Found { whose, copies, rows, newest } = keeper.found();
        let follower = match whose {
            Some(whose) => Follower::restored(LIMITS, whose, copies),
            None => Follower::new(LIMITS),
        };
        let execution = Execution { rows, keeper, whose, switch: None, is_heard: false };
        Ok(Self { follows, follower, execution, late: Vec::new(), said: newest })
    }

    /// The logical networks to begin with, on a host with these tunnel addresses.
    pub fn logical(&self, own: Option<&VtepList>) -> Logical {
        let (domains, sites, labels) = self.execution.rows.executed();
        let (none, newest) = (Logical::of(own), self.execution.rows.newest());
        let began = none.followed(newest, domains, &sites, &labels, &BTreeSet::new());
        began.unwrap_or_else(|error| {
            tracing::error!(%error, "what a controller has said before is not executed");
            none
        })
    }

    /// Takes the declared ports whose networks are not known: they are attached later.
    pub fn hold_back(&mut self, ports: &mut Vec<PortSpec>, logical: &Logical) {
        let is_late = |port: &PortSpec| port.logical.as_ref().is_some_and(|it| !logical.has(it));
        self.late = ports.extract_if(.., |port| is_late(port)).collect();
    }

    /// Follows for as long as the switch runs.
    pub async fn run(mut self, switch: Handle) -> Infallible {
        self.execution.switch = Some(switch.clone());
        self.said.into_iter().for_each(|at| switch.hear(Heard::At(at)));
        for port in std::mem::take(&mut self.late) {
            let switch = switch.clone();
            tokio::spawn(async move { switch.attach_late(port).await });
        }
        let (mut said, mut backoff) = (String::new(), Backoff::default());
        loop {
            let begun = Instant::now();
            let why = self.session(&switch).await;
            if std::mem::take(&mut self.execution.is_heard) {
                switch.hear(Heard::At(SystemTime::now()));
            }
            if backoff.ended(begun.elapsed()) {
                said.clear();
            }
            if why != said {
                let controller = self.follows.controller;
                tracing::warn!(%controller, why, "no controller is followed: what is executed goes on");
                said = why;
            }
            sleep(backoff.next(kernel::random::number())).await;
        }
    }

    /// Follows until that ends; why it has.
    async fn session(&mut self, switch: &Handle) -> String {
        let Follows { controller, proof, node, .. } = &self.follows;
        let connection = match southbound::connect(*controller, proof).await {
            Ok(connection) => connection,
            Err(error) => return chain(&error),
        };
        let mut wanted = switch.wanted();
        wanted.mark_unchanged();
        let Ok(first) = switch.wanted_ports().await else { return pending().await };
        let (sender, mut changes) = mpsc::channel(1);
        let attached = first.iter().map(ToString::to_string).collect();
        let all = Ports { attached, detached: Vec::new() };
        let Self { follower, execution, .. } = self;
        let incarnation = execution.keeper.number(clock());
        let node = Node { name: node.clone(), incarnation, window_bytes: WINDOW };
        tracing::info!(%controller, node = node.name, "following");
        let follow = southbound::follow(connection, &node, follower, &mut changes, all, execution);
        let tell = async {
            let mut told = first;
            while wanted.changed().await.is_ok() {
                let Ok(now) = switch.wanted_ports().await else { break };
                let text = |ports: &BTreeSet<LogicalPortName>, but: &BTreeSet<_>| {
                    ports.difference(but).map(ToString::to_string).collect::<Vec<_>>()
                };
                let change = Ports { attached: text(&now, &told), detached: text(&told, &now) };
                if !(change.attached.is_empty() && change.detached.is_empty())
                    && sender.send(change).await.is_err()
                {
                    break;
                }
                told = now;
            }
            pending::<Infallible>().await
        };
        tokio::select! {
            ended = follow => match ended {
                Ok(never) => match never {},
                Err(FollowError::Ended(status)) => status.message().to_owned(),
                Err(error) => error.to_string(),
            },
            never = tell => match never {},
        }
    }
}

impl Execution {
    /// This host's ports, as rows name them.
    async fn own(&self) -> Result<BTreeSet<Identity>, Stopped> {
        let Some(switch) = &self.switch else { return Err(Stopped) };
        Ok(switch.own_ports().await?.iter().filter_map(identity).collect())
    }

    /// Has the switch execute these rows.
    async fn realize(&self, rows: &Rows, generation: Generation) -> Result<(), String> {
        let Some(switch) = &self.switch else { return Err(Stopped.to_string()) };
        let (domains, sites, labels) = rows.executed();
        let executed = switch.execute(generation, domains, sites, labels).await;
        executed.map_err(|stopped| stopped.to_string())?
    }

    /// The same, where the controller is not asked whether it may be.
    async fn settle(&mut self, rows: Rows, generation: Generation) {
        match self.realize(&rows, generation).await {
            Ok(()) => self.rows = rows,
            Err(why) => tracing::error!(why, "what a controller has taken away is executed still"),
        }
    }
}

impl Execute for Execution {
    fn began(&mut self, store: Store, fence: Fence) {
        self.whose = Some((store, fence));
        self.is_heard = true;
        self.switch.iter().for_each(|switch| switch.hear(Heard::Now));
    }

    async fn execute(&mut self, changed: &Changed<'_>) -> Result<(), String> {
        let own = self.own().await.map_err(|stopped| stopped.to_string())?;
        let (domain, generation) = (changed.domain(), changed.generation());
        let rows = self.rows.with(domain, generation, changed.delta(), &own)?;
        self.realize(&rows, rows.newest()).await?;
        if let (Some(whose), Some(followed)) = (self.whose, rows.domain(domain)) {
            self.keeper.keep(whose, domain, followed, (changed.delta(), changed.digest()));
        }
        self.rows = rows;
        Ok(())
    }

    fn executes_instead(&self, domain: &Name, rows: &Map) -> Option<Map> {
        let instead = self.rows.instead(domain, rows);
        if instead.is_some() {
            tracing::error!(%domain, "what is executed is not what the controller has said: all of it is asked for again");
        }
        instead
    }

    async fn dropped(&mut self, domain: &Name) {
        self.keeper.forget(domain);
        if let Ok(own) = self.own().await {
            let rows = self.rows.without(domain, &own);
            self.settle(rows, self.rows.newest()).await;
        }
    }

    async fn marked(&mut self, revision: Generation) {
        if let Some(rows) = self.rows.settled() {
            let generation = rows.newest().max(revision);
            self.settle(rows, generation).await;
        }
    }

    fn unknown(&mut self, ports: Vec<String>) {
        let ports = ports.join(", ");
        tracing::warn!(
            ports,
            "the controller has no such ports for this host, or another host has them: nothing goes to them or comes from them"
        );
    }
}

/// What the host's clock says, in nanoseconds.
fn clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64
}

/// An error and what has caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
