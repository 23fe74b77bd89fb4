//! A host of a plan as a scenario of the simulator.
//!
//! ```text
//!   server0: the host                                server1: everybody else
//!   ┌──────────────────────────────────┐             ┌────────┐
//!   │ m0@0/0 ─┐   ┌────────┐           │   the card  │        │
//!   │ m0@0/1 ─┼──▶│ switch │───────────┼─────────────┼▶ peer  │
//!   │ m1@0/0 ─┘   └────────┘◀──────────┼─────────────┼─       │
//!   │ peer@0 ◀────────┘ its capacity   │             │        │
//!   └──────────────────────────────────┘             └────────┘
//! ```
//!
//! Each machine has up to four flows, which are in the same state at all times: what it sends and
//! receives, near and far. A frame passes the host's switch once, as a plan counts it.
//!
//! Holding times are shorter than the plan's, all by one factor: shares of time and of traffic stay
//! what they are as long as bursts are long beside buffers, and buffers here hold a few frames.

use std::fmt::Write;

use planner::stage::{Actor, Stage};
use serde::Serialize;
use units::Span;

use crate::plan::words::machines;

/// How a host is simulated.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Scale {
    /// How many frames there are in all runs of a host, about.
    pub frames: u64,
    /// How many frames a machine's visit to a state has, on average.
    pub burst: u64,
    /// How many runs.
    pub runs: u32,
    /// The first one's seed.
    pub seed: u64,
}

/// A scenario of a host.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    /// The scenario.
    pub text: String,
    /// By how much holding times are shorter than the plan's.
    pub faster: f64,
    /// How long a run is, in seconds of the plan.
    pub secs: f64,
}

/// The most machines of a host whose flows a scenario has room for.
const MOST_MACHINES: u32 = 250;

/// How many frames wait at a machine.
const QUEUE: u64 = 2;

/// The least MTU that a scenario has, in bytes.
const LEAST_MTU: u64 = 256;

/// Bytes that a frame costs on a link beside its own: preamble and gap. What else a plan counts is
/// around the packet.
const LINK: u64 = 20;

impl Rehearsal {
    /// The scenario of a host.
    ///
    /// # Errors
    ///
    /// A host that cannot be simulated, in a sentence.
    pub fn new(stage: &Stage, scale: Scale) -> Result<Self, String> {
        let capacity = stage.capacity().ok_or_else(|| {
            format!(
                "frames of the machines of {} take its switch different times by its profile, and a simulated one carries \
                 so many frames, or bits, of whoever sends: ask with `--by lab` or `--by monte-carlo`, or say `carries` or \
                 `frames` in place of `profile`",
                stage.hosts[0]
            )
        })?;
        let machines = stage.count();
        if machines > MOST_MACHINES {
            return Err(format!(
                "{} has {machines} machines, and at most {MOST_MACHINES} can be simulated: ask with `--by monte-carlo`",
                stage.hosts[0]
            ));
        }
        let frames_per_sec = stage.frames_per_sec();
        if frames_per_sec == 0.0 {
            return Err(format!(
                "machines of {} send nothing: there is nothing to simulate",
                stage.hosts[0]
            ));
        }
        let faster = stage.faster(scale.burst);
        let run_secs = scale.frames as f64 / f64::from(scale.runs) / frames_per_sec;
        let text = Text { stage, capacity, faster, run_secs, scale }.write();
        Ok(Self { text, faster, secs: run_secs * faster })
    }
}

/// What a scenario is written of.
struct Text<'a> {
    stage: &'a Stage,
    /// Frames and bits a second that its switch carries.
    capacity: (Option<u64>, Option<u64>),
    faster: f64,
    run_secs: f64,
    scale: Scale,
}

impl Text<'_> {
    fn write(&self) -> String {
        let Self { stage, capacity: (frames, bits), run_secs, scale, .. } = self;
        let longest = stage.actors.iter().map(|it| it.frame).max().unwrap_or(0).max(LEAST_MTU);
        let around = stage.overhead.saturating_sub(LINK);
        let frame = longest + around;
        let description = format!("{} with {}", stage.hosts[0], machines(&stage.machines));
        let description = toml::Value::String(description);
        let mut text = format!(
            "# Made by `zovn plan prove --by sim`.\nversion = 1\nname = \"prove\"\ndescription = {description}\n\n\
             [run]\nseed = {}\nduration = \"{}ns\"\n\n\
             [topology]\nkind = \"star\"\nservers = 2\n\n\
             [link]\nrate = \"{}bit\"\ndelay = \"0ns\"\noverhead = \"{}b\"\n\n",
            scale.seed,
            (run_secs * 1e9) as u64,
            stage.card.unwrap_or_else(|| self.more_than_is_sent()),
            stage.overhead.min(LINK),
        );
        let memory = 8 * frame + 2000;
        let _ = write!(
            text,
            "[fabric]\nnic_queue = \"{memory}b\"\npfc.response = \"0b\"\n\
             buffer = {{ kind = \"private-input\", bytes = \"{memory}b\" }}\n\n",
        );
        let _ = write!(
            text,
            "[virtual]\nmtu = {longest}\nencapsulation = \"{around}b\"\nstack_delay = \"100ns\"\n\
             ingress = \"{0}b\"\negress = \"{0}b\"\n",
            4 * frame
        );
        let capacity = [
            frames.map(|it| format!("frames = {it}")),
            bits.map(|it| format!("bits = \"{it}bit\"")),
        ];
        let capacity: Vec<String> = capacity.into_iter().flatten().collect();
        if !capacity.is_empty() {
            let _ = writeln!(text, "capacity = {{ {}, servers = 1 }}", capacity.join(", "));
        }
        let roles = stage.actors.iter().enumerate();
        let roles: Vec<String> =
            roles.map(|(role, it)| format!("m{role} = {}", it.count)).collect();
        let _ = writeln!(text, "vms = {{ {}, peer = 1 }}", roles.join(", "));
        for (role, actor) in stage.actors.iter().enumerate() {
            for place in 0..actor.count {
                self.flows(&mut text, role, actor, place);
            }
        }
        let _ = write!(text, "\n[output]\nflows = false\n\n[sweep]\nrepeat = {}\n", scale.runs);
        text
    }

    /// A rate of links that holds nobody back, where a plan does not say what the card carries.
    fn more_than_is_sent(&self) -> u64 {
        let peaks = self.stage.actors.iter();
        let peaks = peaks.map(|it| u64::from(it.count) * it.model.source().peak());
        (4 * peaks.sum::<u64>()).clamp(1_000_000_000, 10_000_000_000_000)
    }

    /// What a machine sends and receives.
    fn flows(&self, text: &mut String, role: usize, actor: &Actor, place: u32) {
        let me = format!("m{role}@0/{place}");
        let Actor { sends, remote, .. } = *actor;
        let flows = [
            ("out", me.as_str(), "peer@1", sends * remote),
            ("in", "peer@1", me.as_str(), (1.0 - sends) * remote),
            ("near-out", me.as_str(), "peer@0", sends * (1.0 - remote)),
            ("near-in", "peer@0", me.as_str(), (1.0 - sends) * (1.0 - remote)),
        ];
        let together = match actor.together {
            Some(group) => format!("group-{group}"),
            None => format!("m{role}-{place}"),
        };
        for (name, from, to, part) in flows {
            let rates: Vec<String> =
                actor.model.states().iter().map(|it| word(it.rate as f64 * part)).collect();
            if rates.iter().all(|it| it == "\"0\"") {
                continue;
            }
            let _ = write!(
                text,
                "\n[workload.m{role}-{place}-{name}]\nkind = \"markov\"\nsources = \"{from}\"\ndestinations = \"{to}\"\n\
                 rates = [{}]\nhold = [{}]\njump = {}\nframe = \"{}b\"\nqueue = \"{}b\"\ntogether = \"{together}\"\n",
                rates.join(", "),
                self.holds(actor).join(", "),
                jumps(actor),
                actor.frame,
                QUEUE * actor.frame,
            );
        }
    }

    fn holds(&self, actor: &Actor) -> Vec<String> {
        let hold = |hold: Span| {
            format!("\"{}ns\"", ((hold.as_nanos() as f64 / self.faster) as u64).max(1))
        };
        actor.model.states().iter().map(|it| hold(it.hold)).collect()
    }
}

/// A rate as scenarios write it. What is less than a scenario can say is nothing.
fn word(rate: f64) -> String {
    let bits = rate.round() as u64;
    if bits < 1000 { "\"0\"".to_owned() } else { format!("\"{bits}bit\"") }
}

fn jumps(actor: &Actor) -> String {
    let count = actor.model.states().len();
    let row = |from: usize| {
        let row: Vec<String> =
            (0..count).map(|to| format!("{:?}", actor.model.jump(from, to))).collect();
        format!("[{}]", row.join(", "))
    };
    let rows: Vec<String> = (0..count).map(row).collect();
    format!("[{}]", rows.join(", "))
}
