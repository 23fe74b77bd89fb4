//! What a controller takes for thousands of hosts: to compute all, to have all agents execute it,
//! and what a change costs (Koponen et al., NSDI 2014, §6).
//!
//! ```text
//!  this process                                     `zovn controller`, a folder of its own
//!  plan ── objects over REST ─────────────────────▶ store ─▶ rows
//!  agents: sessions as hosts have them ◀═══ gRPC ═══════════════╝
//!  pings: what two hosts would do, against what the objects say
//! ```
//!
//! Agents keep what they are told and no switch executes it, so what is measured is the controller,
//! the connections, and the agents' ends of these, on one machine.

mod agents;
pub(crate) mod beside;
mod meanwhile;
mod pings;
mod plan;
mod process;
mod proofs;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use units::Rng;

use self::agents::Agents;
pub use self::agents::Moment;
use self::meanwhile::{Pings, meanwhile};
use self::pings::Switch;
use self::plan::{Plan, Port, listed};
use self::process::{Controller, Used, failed};
use self::proofs::Proofs;
use crate::stats::median;
use crate::{Bench, Environment, MeasureError, Measurement};

/// Hosts that can be asked for: below, there is no group; above, addresses end.
const HOSTS: std::ops::RangeInclusive<u32> = 10..=10_000;

/// Ports that come and go at once.
const ADDED: u32 = 10;

/// How many bytes of objects are declared at once.
const STEP_BYTES: usize = 1 << 20;

/// How many times as long as a ping takes who asks rests while a start is measured: one processor
/// has 5 % of its time for pings.
const RESTS: u32 = 19;

/// How often to look how far agents are while a controller starts.
const LOOK: Duration = Duration::from_millis(100);

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// How many hosts, with 21 ports each.
    pub hosts: u32,
    /// What chance begins with.
    pub seed: u64,
    /// How often each change is made.
    pub rounds: u32,
    /// Whether all connections are encrypted, and all prove who they are.
    #[serde(default)]
    pub tls: bool,
}

/// One phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// `declare`, `compute`, `cold`, `restart`, `add`, `delete`, `move`, `member`, `group`,
    /// `reconnect`.
    pub phase: String,
    /// How long it took until all agents concerned had executed it; of `declare` until it was
    /// stored, of `compute` until the controller served. Of changes, the median.
    pub seconds: f64,
    /// Where a controller and agents were started: how long it took until it served.
    pub served_s: Option<f64>,
    /// Of changes: how long the controller computed, on average.
    pub computed_s: Option<f64>,
    /// The time that processors worked for the controller, in seconds; of changes, for each.
    pub cpu_s: f64,
    /// The most memory that it had meanwhile.
    pub rss_bytes: u64,
    /// Tuples that its rules hold.
    pub tuples: u64,
    /// Rows that they make, each of which all hosts of its domain are told.
    pub flows: u64,
    /// Tuples for each row, if there are rows.
    pub tuples_a_flow: Option<f64>,
    /// Of `compute`: the bytes of tuples and their values, for each tuple.
    pub bytes_a_tuple: Option<f64>,
    /// How often it woke an agent; of changes, for each.
    pub wakes: f64,
    /// Of changes: rows that each host concerned was told, those that went among them.
    pub rows_a_host: Option<f64>,
    /// What figures should be at most, by their names here: `wakes` as many as a change concerns,
    /// the others for 3,000 hosts or fewer.
    pub goals: BTreeMap<String, f64>,
    /// Which figures are above their goals.
    pub missed: Vec<String>,
    /// Pings afterwards.
    pub pings: u32,
    /// Those of them whose answer is not as intended.
    pub pings_wrong: u32,
    /// Pings meanwhile; of changes, while as many more were made.
    pub pings_during: u32,
    /// Those of them whose answer is neither as intended before nor as intended afterwards.
    pub pings_wrong_during: u32,
    /// Updates that agents did not take, and controllers that they did not follow.
    pub refusals: u64,
    /// Of `cold` and `restart`: how far agents are as time goes on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over_time: Vec<Moment>,
}

/// The whole experiment.
pub type Report = Measurement<Config, Phase>;

/// Makes the experiment.
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    if !HOSTS.contains(&config.hosts) || config.rounds == 0 {
        let (least, most) = (HOSTS.start(), HOSTS.end());
        let why = format!("hosts are {least} to {most}, and a change is made at least once");
        return Err(MeasureError::Config(why));
    }
    raise_files()?;
    let environment = Environment::look();
    bench.progress.begin(8);
    let folder = Folder::new()?;
    let plan = Plan::new(config.hosts, config.seed);
    let rng = Rng::new(config.seed ^ 1);
    let proofs = match config.tls {
        false => None,
        true => Some(Proofs::new(config.hosts, process::token(bench, &folder.0)?)),
    };
    let mut made = Experiment { bench, folder: &folder.0, proofs, plan, rng, phases: Vec::new() };
    // Whatever fails when the user wants no more, that is why it ends.
    made.all(config.rounds).or_else(|error| bench.go_on().and(Err(error)))?;
    let phases = made.phases.into_iter().map(|it| it.judged(config.hosts)).collect();
    Ok(Measurement::new("control", environment, config, phases))
}

/// An experiment under way.
struct Experiment<'a> {
    bench: &'a Bench<'a>,
    folder: &'a Path,
    /// Where connections are encrypted.
    proofs: Option<Proofs>,
    plan: Plan,
    rng: Rng,
    phases: Vec<Phase>,
}

/// What rounds of a change took.
struct Rounds<'a> {
    bench: &'a Bench<'a>,
    controller: &'a Controller,
    agents: &'a Agents,
    seconds: Vec<f64>,
    used: Used,
    /// Hosts that were concerned, each as often as it was.
    concerned: usize,
    told_rows: u64,
    pings: Pings,
    rng: Rng,
}

impl<'a> Rounds<'a> {
    fn new(bench: &'a Bench<'a>, controller: &'a Controller, agents: &'a Agents, rng: Rng) -> Self {
        let (seconds, used, concerned, told_rows, pings) = Default::default();
        Self { bench, controller, agents, seconds, used, concerned, told_rows, pings, rng }
    }

    /// Makes a change, whose revision these hosts are to execute. If a switch is asked about
    /// meanwhile, what it takes does not count.
    fn round(
        &mut self,
        hosts: &BTreeSet<u32>,
        asked: Option<&Switch>,
        change: impl FnOnce() -> Result<u64, MeasureError>,
    ) -> Result<(), MeasureError> {
        let (bench, controller, agents) = (self.bench, self.controller, self.agents);
        let executed = || agents.wait(bench, change()?, hosts.iter().copied());
        let told_rows = agents.told_rows();
        let (before, begun) = (controller.used()?, Instant::now());
        let Some(switch) = asked else {
            executed()?;
            let seconds = begun.elapsed().as_secs_f64();
            self.add(seconds, before, controller.used()?);
            self.concerned += hosts.len();
            self.told_rows += agents.told_rows() - told_rows;
            return Ok(());
        };
        meanwhile(|| self.pings.ask(0, || switch.ask(agents, &mut self.rng)), executed)?;
        self.used.refusals += controller.used()?.refusals - before.refusals;
        Ok(())
    }

    fn add(&mut self, seconds: f64, before: Used, after: Used) {
        self.seconds.push(seconds);
        self.used = Used {
            cpu_s: self.used.cpu_s + after.cpu_s - before.cpu_s,
            computed_s: self.used.computed_s + after.computed_s - before.computed_s,
            wakes: self.used.wakes + after.wakes - before.wakes,
            refusals: self.used.refusals + after.refusals - before.refusals,
            ..after
        };
    }

    fn phase(&self, name: &str) -> Phase {
        let rounds = self.seconds.len().max(1) as f64;
        let seconds = median(self.seconds.iter().copied()).unwrap_or_default();
        let all = phase(name, seconds, self.used);
        Phase {
            computed_s: Some(self.used.computed_s / rounds),
            cpu_s: all.cpu_s / rounds,
            wakes: all.wakes / rounds,
            rows_a_host: Some(self.told_rows as f64 / self.concerned.max(1) as f64),
            goals: BTreeMap::from([("wakes".into(), self.concerned as f64 / rounds)]),
            ..all.with(self.pings)
        }
    }
}

impl Experiment<'_> {
    /// All phases.
    fn all(&mut self, rounds: u32) -> Result<(), MeasureError> {
        self.declare()?;
        let controller = self.compute()?;
        let (controller, agents) = self.cold(controller)?;
        let controller = self.restart(controller, &agents)?;
        self.add(&controller, &agents, rounds)?;
        self.moves(&controller, &agents, rounds)?;
        self.member(&controller, &agents, rounds)?;
        self.reconnect(&controller, &agents)
    }

    fn start(&self, agents: Option<SocketAddr>) -> Result<Controller, MeasureError> {
        Controller::start(self.bench, self.folder, self.proofs.as_ref(), agents)
    }

    /// Declares everything.
    fn declare(&mut self) -> Result<(), MeasureError> {
        self.bench.step("declaring all objects")?;
        let controller = self.start(None)?;
        let begun = Instant::now();
        controller.apply("", self.plan.operators())?;
        let mut text = String::new();
        for at in 0..self.plan.switches.len() as u32 {
            text += &self.plan.switch(at);
            if text.len() > STEP_BYTES {
                self.bench.go_on()?;
                controller.apply("", listed(&std::mem::take(&mut text)))?;
            }
        }
        controller.apply("", listed(&text))?;
        controller.apply("", self.plan.group(false, true))?;
        let used = controller.used()?;
        self.phases.push(phase("declare", begun.elapsed().as_secs_f64(), used));
        Ok(())
    }

    /// A controller computes all of a full store. Nobody follows it yet.
    fn compute(&mut self) -> Result<Controller, MeasureError> {
        self.bench.step("computing all")?;
        let controller = self.start(None)?;
        let (took, used) = (controller.began.as_secs_f64(), controller.used()?);
        let bytes_a_tuple = (used.tuples > 0).then(|| used.tuple_bytes as f64 / used.tuples as f64);
        self.phases.push(Phase { bytes_a_tuple, ..phase("compute", took, used) });
        Ok(controller)
    }

    /// A controller and all agents start at once.
    fn cold(&mut self, before: Controller) -> Result<(Controller, Agents), MeasureError> {
        self.bench.step("a cold start of the controller and of all agents")?;
        let address = before.agents;
        drop(before);
        let begun = Instant::now();
        let agents = Agents::start(&self.plan, address, self.proofs.as_ref())?;
        let (controller, phase) = self.started("cold", begun, address, &agents)?;
        self.pinged(&agents, phase)?;
        Ok((controller, agents))
    }

    /// The controller dies and starts again, while agents go on.
    fn restart(&mut self, before: Controller, agents: &Agents) -> Result<Controller, MeasureError> {
        self.bench.step("another start of the controller")?;
        let address = before.agents;
        let mut rng = self.fork();
        let mut pings = Pings::default();
        let ask = || pings.ask(RESTS, || pings::anywhere(&self.plan, agents, &mut rng));
        let (controller, phase) = meanwhile(ask, || {
            let begun = Instant::now();
            drop(before);
            agents.forget_sessions();
            self.started("restart", begun, address, agents)
        })?;
        self.pinged(agents, phase.with(pings))?;
        Ok(controller)
    }

    /// All connections of agents break at once.
    fn reconnect(&mut self, controller: &Controller, agents: &Agents) -> Result<(), MeasureError> {
        self.bench.step("all agents connect again")?;
        controller.forget_most();
        let before = controller.used()?;
        let mut rng = self.fork();
        let mut pings = Pings::default();
        let ask = || pings.ask(RESTS, || pings::anywhere(&self.plan, agents, &mut rng));
        let settled = meanwhile(ask, || {
            let begun = Instant::now();
            agents.reconnect();
            self.settled("reconnect", begun, controller, agents)
        })?;
        let phase = Phase {
            cpu_s: settled.cpu_s - before.cpu_s,
            wakes: settled.wakes - before.wakes as f64,
            refusals: settled.refusals - before.refusals,
            ..settled
        };
        self.pinged(agents, phase.with(pings))
    }

    /// Chance of its own.
    fn fork(&mut self) -> Rng {
        Rng::new(self.rng.next_u64())
    }

    /// A controller starts, and every agent executes what it tells.
    fn started(
        &self,
        name: &str,
        begun: Instant,
        address: SocketAddr,
        agents: &Agents,
    ) -> Result<(Controller, Phase), MeasureError> {
        let mut over_time = Vec::new();
        let look = || {
            over_time.push(agents.moment(begun));
            Ok(LOOK)
        };
        let (controller, served, settled) = meanwhile(look, || {
            let controller = self.start(Some(address))?;
            let served = begun.elapsed();
            let settled = self.settled(name, begun, &controller, agents)?;
            Ok((controller, served, settled))
        })?;
        over_time.push(agents.moment(begun));
        let served_s = Some(served.as_secs_f64());
        Ok((controller, Phase { served_s, over_time, ..settled }))
    }

    /// Waits until every agent executes all that there is.
    fn settled(
        &self,
        name: &str,
        begun: Instant,
        controller: &Controller,
        agents: &Agents,
    ) -> Result<Phase, MeasureError> {
        // One revision for all of them: nothing is declared meanwhile.
        let revision = controller.revision()?;
        agents.wait(self.bench, revision, 0..self.plan.hosts)?;
        let seconds = begun.elapsed().as_secs_f64();
        Ok(phase(name, seconds, controller.used()?))
    }

    /// Ports with rules come to a switch and go again.
    fn add(
        &mut self,
        controller: &Controller,
        agents: &Agents,
        rounds: u32,
    ) -> Result<(), MeasureError> {
        self.bench.step(&format!("{ADDED} ports come and go"))?;
        controller.forget_most();
        let [mut came, mut went] =
            [(); 2].map(|()| Rounds::new(self.bench, controller, agents, self.fork()));
        for round in 0..2 * rounds {
            let switch = self.rng.below(self.plan.switches.len() as u64) as u32;
            let (tenant, own) = {
                let it = &self.plan.switches[switch as usize];
                (it.tenant, it.ports.clone())
            };
            let ports: Vec<_> = (0..ADDED)
                .map(|it| Port {
                    name: format!("new{it}"),
                    tenant,
                    switch,
                    number: own.end - own.start + it,
                    host: self.rng.below(self.plan.hosts.into()) as u32,
                    has_rules: true,
                    round: Some(round),
                })
                .collect();
            ports.iter().for_each(|it| agents.attach(it.host, tenant, &it.name));
            let mut text = String::new();
            ports.iter().for_each(|it| it.say(&mut text));
            let mut hosts = self.plan.hosts_of(switch);
            hosts.extend(ports.iter().map(|it| it.host));
            let asked =
                (round >= rounds).then(|| Switch::new(&self.plan, switch, &ports, &mut self.rng));
            let asked = asked.transpose()?;
            came.round(&hosts, asked.as_ref(), || controller.apply("", listed(&text)))?;
            let prune = format!("?prune=round%3Dr{round}");
            went.round(&hosts, asked.as_ref(), || controller.apply(&prune, "[]".into()))?;
            ports.iter().for_each(|it| agents.detach(it.host, tenant, &it.name));
        }
        let [came, went] = [came.phase("add"), went.phase("delete")];
        self.pinged(agents, came)?;
        self.pinged(agents, went)
    }

    /// Machines move to other hosts.
    fn moves(
        &mut self,
        controller: &Controller,
        agents: &Agents,
        rounds: u32,
    ) -> Result<(), MeasureError> {
        self.bench.step("machines move")?;
        controller.forget_most();
        let mut all = Rounds::new(self.bench, controller, agents, self.fork());
        for round in 0..2 * rounds {
            let port = self.rng.below(self.plan.ports.len() as u64) as u32;
            let (switch, from) = self.plan.ports[port as usize];
            let to = (from + 1 + self.rng.below(u64::from(self.plan.hosts) - 1) as u32)
                % self.plan.hosts;
            let tenant = self.plan.switches[switch as usize].tenant;
            let name = plan::port(port);
            agents.attach(to, tenant, &name);
            self.plan.ports[port as usize].1 = to;
            // The host that is left is told as well.
            let mut hosts = self.plan.hosts_of(switch);
            hosts.insert(from);
            let asked =
                (round >= rounds).then(|| Switch::new(&self.plan, switch, &[], &mut self.rng));
            let asked = asked.transpose()?.map(|it| it.without(&name));
            let moved = plan::binding(tenant, &name, to);
            all.round(&hosts, asked.as_ref(), || controller.apply("", moved))?;
            agents.detach(from, tenant, &name);
        }
        self.pinged(agents, all.phase("move"))
    }

    /// A large group has a member more, or less: by a patch, and then by the whole group.
    fn member(
        &mut self,
        controller: &Controller,
        agents: &Agents,
        rounds: u32,
    ) -> Result<(), MeasureError> {
        let (members, rules) = (self.plan.members, plan::RULES);
        self.bench.step(&format!("a group of {members} ports in {rules} rules changes"))?;
        controller.forget_most();
        let [mut patched, mut put] =
            [(); 2].map(|()| Rounds::new(self.bench, controller, agents, self.fork()));
        let (switch, _) = self.plan.ports[0];
        let hosts = self.plan.hosts_of(switch);
        let own = Switch::new(&self.plan, switch, &[], &mut self.rng)?;
        let mut is_whole = false;
        for round in 0..4 * rounds {
            is_whole = !is_whole;
            let asked = (round / rounds % 2 == 1).then_some(&own);
            if round < 2 * rounds {
                let (path, patch) = self.plan.member(is_whole);
                patched.round(&hosts, asked, || controller.patch(path, patch))?;
            } else {
                let group = self.plan.group(is_whole, false);
                put.round(&hosts, asked, || controller.apply("", group))?;
            }
        }
        self.pinged(agents, patched.phase("member"))?;
        self.pinged(agents, put.phase("group"))
    }

    /// A phase is over: pings.
    fn pinged(&mut self, agents: &Agents, phase: Phase) -> Result<(), MeasureError> {
        self.bench.go_on()?;
        let pings_wrong = pings::wrong(&self.plan, agents, &mut self.rng)?;
        let refusals = phase.refusals + agents.rejected();
        self.phases.push(Phase { pings: pings::PAIRS, pings_wrong, refusals, ..phase });
        Ok(())
    }
}

impl Phase {
    fn with(self, pings: Pings) -> Self {
        Self { pings_during: pings.asked, pings_wrong_during: pings.wrong, ..self }
    }
}

/// A phase that happens once.
fn phase(name: &str, seconds: f64, used: Used) -> Phase {
    Phase {
        phase: name.into(),
        seconds,
        cpu_s: used.cpu_s,
        rss_bytes: used.rss_bytes,
        tuples: used.tuples,
        flows: used.flows,
        tuples_a_flow: (used.flows > 0).then(|| used.tuples as f64 / used.flows as f64),
        wakes: used.wakes as f64,
        refusals: used.refusals,
        ..Phase::default()
    }
}

/// Has as many open files as may be: an agent has one here, and one at the controller.
fn raise_files() -> Result<(), MeasureError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).map_err(failed)
}

/// The controller's folder, which is gone with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, MeasureError> {
        let name = format!("zovn-measure-control-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(failed)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
