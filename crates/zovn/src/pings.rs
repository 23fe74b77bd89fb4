//! `zovn lab ping-matrix`: whether every machine of a lab reaches whom its networks say, and nobody
//! else, by packets of the machines' own; also while something changes.
//!
//! ```text
//!   files ─▶ intent ─▶ questions ─▶ rounds ═ the lab ═▶ answers ─▶ wrong ones ─▶ culprit ─▶ report
//! ```

mod culprit;
mod intent;
mod question;
mod report;
mod rounds;
mod running;

use std::collections::BTreeSet;
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::{Home, Lab, LabError, LabSpec};
use logical::Topology;
use units::Span;

use crate::ending::{Outcome, USAGE, show};
use crate::net::files::{Read, complain, load_both};
use crate::signals;
use culprit::Culprits;
pub use intent::services;
use intent::{Intent, Machine};
pub use question::Service;
use report::{Book, Wrong};
pub use report::{Fate, Ran, Report};
use rounds::{Packets, Round, Rounds, Stage};
pub use running::Change;
use running::Running;

/// How soon a round follows another while a command runs, and how much longer than it takes to ask.
const INTERVAL: Duration = Duration::from_millis(20);
const REST: u32 = 3;

/// How many answers are waited for at a time: what bounds memory.
const MOST_OPEN: usize = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  zovn lab ping-matrix examples/lab/shop.toml examples/shop.yaml        a lab for this alone
  zovn lab up examples/lab/shop.toml && zovn lab declare shop examples/shop.yaml
  zovn lab ping-matrix shop examples/shop.yaml                          a lab that is up
  zovn lab ping-matrix shop examples/shop.yaml --after new.yaml --while 'zovn lab declare shop new.yaml'
  zovn lab ping-matrix shop examples/shop.yaml --while 'sleep 10' --json | jq .wrong";

/// Send a packet from every machine of a lab to every other, and compare who gets it with what
/// networks intend.
///
/// Packets are the first of connections: echoes, and for each port of TCP or UDP that rules name
/// one to it. A packet is seen where it arrives, whether the machine answers or not. Exit code 0 if
/// all is as intended, 1 if something is not, or the command fails, 2 if a file is wrong.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The name or id of a lab that is up, or the file of one that is brought up for this, told the
    /// networks, and taken down.
    #[arg(value_name = "LAB")]
    lab: String,
    /// The files of the networks (YAML or JSON).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Ask again and again while this shell command runs.
    #[arg(long = "while", value_name = "COMMAND")]
    command: Option<String>,
    /// What is intended when the command has ended. Meanwhile either is right. Without, it is the
    /// same as before.
    #[arg(long, value_name = "FILE", requires = "command")]
    after: Vec<PathBuf>,
    /// How long after the command's end that may take to be in force.
    #[arg(long, value_name = "TIME", default_value = "5s", requires = "command")]
    settle: Span,
    /// How long a packet may be underway.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    wait: Span,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// Asks, and tells.
pub fn run(args: &Args) -> Outcome {
    let before = load_both(&args.files)?;
    let after = (!args.after.is_empty()).then(|| load_both(&args.after)).transpose()?;
    let (before, after) = match (before, after.transpose()) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(faults), _) | (_, Err(faults)) => {
            complain(&faults)?;
            return Ok(ExitCode::from(USAGE));
        }
    };
    let stop = signals::stop()?;
    let lab = match reach(&args.lab, &before, &stop) {
        Err(LabError::Interrupted) => return Ok(ExitCode::from(signals::INTERRUPTED)),
        lab => lab?,
    };
    let networks =
        Networks { before: &before.topology, after: after.as_ref().map(|it| &it.topology) };
    let command = args.command.as_deref().map(Change::Command);
    let change = command.map(|command| (command, args.settle.into()));
    let Some(report) = ask(&lab, &networks, None, change, args.wait.into(), &stop)? else {
        return Ok(ExitCode::from(signals::INTERRUPTED));
    };
    show(&report, args.json, || report.text())?;
    Ok(if report.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A lab that is up; or that of a file, which is brought up and told the networks.
fn reach(word: &str, networks: &Read, stop: &AtomicBool) -> Result<Lab, LabError> {
    let home = Home::system();
    if !Path::new(word).is_file() {
        return Lab::open(word, &home);
    }
    let spec = LabSpec::find(word)?;
    if home.list()?.iter().any(|lab| lab.name() == Some(&spec.name)) {
        return Err(LabError::Taken(spec.name));
    }
    let lab = Lab::up_unless(&spec, &home, stop)?;
    lab.declare(&networks.objects, stop)?;
    lab.await_networks(stop)?;
    Ok(lab)
}

/// What is intended.
pub struct Networks<'a> {
    /// At first.
    pub before: &'a Topology,
    /// When the command has ended, if that is something else.
    pub after: Option<&'a Topology>,
}

/// A packet whose fate is told apart from others'.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'a> {
    /// The logical port whose machine sends it, as `tenant/name`.
    pub from: &'a str,
    /// The logical port that it is for.
    pub to: &'a str,
    /// What it asks for.
    pub service: Service,
}

/// Why a matrix could not be asked.
type Failed = Box<dyn Error + Send + Sync>;

/// Asks every machine of a lab about every other: once; or before, during and after a change, whose
/// outcome may take so long after it. `None`: interrupted.
pub fn ask(
    lab: &Lab,
    networks: &Networks<'_>,
    watched: Option<Watched<'_>>,
    change: Option<(Change<'_>, Duration)>,
    wait: Duration,
    stop: &AtomicBool,
) -> Result<Option<Report>, Failed> {
    let machines = Machine::of(lab);
    let before = Intent::new(networks.before, &machines);
    let after = Intent::new(networks.after.unwrap_or(networks.before), &machines);
    if before.known() < 2 {
        let lab = &lab.spec().name;
        return Err(format!(
            "lab `{lab}` has fewer than two endpoints that are ports of these networks: say `logical` of each"
        )
        .into());
    }
    let others = before.others();
    if !others.is_empty() {
        eprintln!("zovn: not asked, because no endpoint is it: {}", others.join(", "));
    }
    let both: Vec<_> = [Some(networks.before), networks.after].into_iter().flatten().collect();
    let services = services(&both);
    let drawn = RandomState::new().hash_one("run");
    let source = (drawn >> 48) as u16;
    let number = |name: &str| machines.iter().position(|it| it.name == name);
    let watched = watched.and_then(|it| Some((number(it.from)?, number(it.to)?, it.service)));
    let mut matrix = Matrix {
        machines: &machines,
        rounds: Rounds::new(lab, &machines, wait, drawn)?,
        culprits: Culprits::new(lab, &machines),
        book: Book::default(),
        begun: Instant::now(),
        wrong: 0,
        watched,
        fate: Fate::default(),
        stop,
    };
    let questions = before.questions(&services);
    let pairs: BTreeSet<_> = questions.iter().map(|it| (it.from, it.to)).collect();
    let verdicts = before.verdicts(&questions);
    let first = Stage { intents: vec![verdicts], questions, source, first: 0 };
    let mut command = None;
    if matrix.once(&first)?.is_none() {
        return Ok(None);
    }
    if let Some((change, settle)) = change {
        let mut meanwhile = first;
        if networks.after.is_some() {
            meanwhile.intents.push(after.verdicts(&meanwhile.questions));
        }
        let Some(ran) = matrix.during(&meanwhile, change, settle)? else { return Ok(None) };
        command = Some(ran);
        let questions = after.questions(&services);
        let intents = vec![after.verdicts(&questions)];
        let first = matrix.rounds.begun();
        if matrix.once(&Stage { questions, intents, source, first })?.is_none() {
            return Ok(None);
        }
    }
    let Packets { sent, late, strange } = matrix.rounds.packets();
    Ok(Some(Report {
        lab: lab.spec().name.clone(),
        machines: before.known(),
        pairs: pairs.len(),
        services,
        rounds: matrix.rounds.begun(),
        packets: sent,
        late,
        strange,
        pings_wrong: matrix.wrong,
        seconds: matrix.begun.elapsed().as_secs_f64(),
        command,
        wrong: matrix.book.entries(),
        watched: matrix.fate,
    }))
}

/// A matrix that is being asked.
struct Matrix<'a> {
    machines: &'a [Machine],
    rounds: Rounds<'a>,
    culprits: Culprits<'a>,
    book: Book,
    begun: Instant,
    wrong: u64,
    /// The sender, by number, of packets whose fate is told; the receiver; what they ask for.
    watched: Option<(usize, usize, Service)>,
    fate: Fate,
    stop: &'a AtomicBool,
}

impl Matrix<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Asks each question once. `None`: interrupted.
    fn once(&mut self, stage: &Stage) -> Result<Option<()>, Failed> {
        self.rounds.begin(stage);
        while !self.is_stopped() {
            if let Some(round) = self.rounds.turn(stage)? {
                self.book(stage, &round);
                return Ok(Some(()));
            }
        }
        Ok(None)
    }

    /// Asks while something changes, and after it until all is as the last network intends, or time
    /// is over. `None`: interrupted.
    fn during(
        &mut self,
        stage: &Stage,
        change: Change<'_>,
        settle: Duration,
    ) -> Result<Option<Ran>, Failed> {
        let most = (MOST_OPEN / stage.questions.len().max(1)).clamp(1, 64);
        let after = stage.intents.last().map_or(&[][..], Vec::as_slice);
        let began = Instant::now();
        let mut running = Running::start(change)?;
        let mut next = began;
        let (mut ended, mut settled): (Option<(Instant, Option<i32>)>, Option<Instant>) =
            (None, None);
        let mut asking: Option<Instant> = None;
        loop {
            if self.is_stopped() {
                return Ok(None);
            }
            let now = Instant::now();
            if ended.is_none() {
                ended = running.ended()?.map(|code| (now, code));
            }
            let is_late = ended.is_some_and(|(at, _)| now.duration_since(at) > settle);
            let is_done = settled.is_some() || is_late;
            if let Some(begun) = asking
                && self.rounds.is_asked(stage)
            {
                next = now + INTERVAL.max((now - begun) * REST);
                asking = None;
            }
            if !is_done && asking.is_none() && now >= next && self.rounds.open() < most {
                self.rounds.begin(stage);
                asking = Some(now);
            }
            if let Some(round) = self.rounds.turn(stage)? {
                self.book(stage, &round);
                let is_new = ended.is_some_and(|(at, _)| round.begun >= at);
                let mut all = round.answers.iter().zip(after);
                if settled.is_none() && is_new && all.all(|(answer, it)| answer.at == it.at) {
                    settled = Some(round.begun);
                }
            }
            if let Some((at, code)) = ended
                && is_done
                && self.rounds.open() == 0
            {
                let [began_s, ended_s] = [began, at].map(|it| self.seconds(it));
                let settled_s = settled.map(|it| self.seconds(it));
                return Ok(Some(Ran { began_s, ended_s, settled_s, code }));
            }
        }
    }

    fn seconds(&self, at: Instant) -> f64 {
        at.duration_since(self.begun).as_secs_f64()
    }

    /// Books what became of the watched packet, and what a round's answers are wrong about.
    fn book(&mut self, stage: &Stage, round: &Round) {
        for (number, answer) in round.answers.iter().enumerate() {
            let question = &stage.questions[number];
            if self.watched == Some((question.from, question.to, question.service)) {
                self.fate.packets += u64::from(answer.sent.is_some());
                self.fate.arrived += u64::from(!answer.at.is_empty());
            }
            if stage.allows(number, &answer.at) {
                continue;
            }
            self.wrong += 1;
            let at_s = self.seconds(answer.sent.unwrap_or(round.begun));
            let is_v4 = question.ends.1.is_ipv4();
            let key = (question.from, question.to, question.service, is_v4, answer.at.clone());
            let name = |it: &usize| self.machines[*it].name.clone();
            let culprits = &mut self.culprits;
            self.book.add(key, at_s, || {
                let (host, why) = culprits.of(stage, number, answer);
                let names = |all: &[usize]| all.iter().map(name).collect::<Vec<_>>();
                Wrong {
                    from: name(&question.from),
                    to: name(&question.to),
                    asks: question.service,
                    address: question.ends.1,
                    intended: stage.intents.iter().map(|it| names(&it[number].at)).collect(),
                    seen: names(&answer.at),
                    host,
                    why,
                }
            });
        }
    }
}
