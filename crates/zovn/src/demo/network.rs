//! The demo's first chapter: a tenant's network, from a file to packets.
//!
//! ```text
//!   examples/shop.yaml ─▶ controller ═ gRPC ═▶ agents of two hosts
//!                             ▲                   │ packets of the machines, against the file
//!                a change ────┘                   ▼
//!                                              Report
//! ```

use std::error::Error;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use api::Asked;
use controller::Explained;
use figures::{Unit, count, si};
use lab::{Controller, Home, Lab, LabSpec};
use logical::{Object, Topology};
use measure::page::Chart;
use measure::readable::Rows;
use measure::{Bench, Environment, MeasureError, Measurement, Readable};
use model::{PacketOutcome, PacketTrace};
use reach::Question;
use serde::Serialize;

use super::paint::Paint;
use crate::pings::{self, Change, Fate, Networks, Ran, Service, Watched};

/// The lab, and what the tenant declares.
const LAB: &str = include_str!("../../../../examples/lab/controlled.toml");
const SHOP: &str = include_str!("../../../../examples/shop.yaml");

/// The port at which the database may be asked, as the file says it, and after the change.
const PORTS: [u16; 2] = [5432, 5433];

/// A packet that a rule forbids: from, to, and the TCP port, which is the one that packets go to
/// because no rule names it.
const FORBIDDEN: (&str, &str, u16) = ("shop/web-1", "shop/db-1", 1);

/// The rule that forbids it.
const FORBIDS: &str = "Policy/shop/db-in/nothing-else";

/// How long a packet may be underway, and how long a change may take to be in force.
const WAIT: Duration = Duration::from_secs(2);
const SETTLE: Duration = Duration::from_secs(10);

/// How it was made.
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    /// How many hosts follow the controller.
    hosts: u32,
    /// The file that was declared.
    network: String,
    /// The TCP port at which the database may be asked, before the change and after it.
    ports: [u16; 2],
    /// How long packets went on before the change, in milliseconds.
    lead_ms: f64,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// How many objects were declared, with the operator's that say where hosts and ports are.
    objects: usize,
    /// The controller's revision that has them.
    revision: Option<u64>,
    /// How long it took from the request until all hosts executed them and all machines' ports were
    /// up, in milliseconds.
    realized_ms: f64,
    /// What became of packets that a rule forbids.
    forbidden: Forbidden,
    /// What was changed while packets went on.
    change: Changed,
    /// The packets.
    matrix: pings::Report,
}

/// Packets that a rule forbids: what became of them, and what `zovn explain port` says of one.
#[derive(Clone, Debug, Serialize)]
struct Forbidden {
    from: String,
    to: String,
    tcp: u16,
    /// How many were sent.
    packets: u64,
    /// How many of them arrived.
    arrived: u64,
    /// Whether the controller says that it is refused.
    is_refused: bool,
    /// The policy and its rule by which it says so.
    by: Option<String>,
    /// What it says becomes of it, in a sentence.
    verdict: String,
}

/// A change of what is declared.
#[derive(Clone, Debug, Serialize)]
struct Changed {
    /// The controller's revision that has it.
    revision: Option<u64>,
    /// How long it took from the request until all hosts executed it, in milliseconds.
    realized_ms: f64,
    /// How long after that a round of packets began that was all as it says, in milliseconds.
    /// `None`: there was none.
    settled_ms: Option<f64>,
}

/// The chapter.
#[derive(Clone, Debug, Serialize)]
pub struct Report(Measurement<Config, Found>);

type Failed = Box<dyn Error + Send + Sync>;

/// Makes it. Packets go on for `lead` before the change.
pub fn run(bench: &Bench<'_>, lead: Duration) -> Result<Report, MeasureError> {
    match made(bench, lead) {
        Ok(Some(report)) => Ok(report),
        Ok(None) => Err(MeasureError::Interrupted),
        // Whatever fails when the user wants no more, that is why it ends.
        Err(_) if bench.stop.load(Ordering::Relaxed) => Err(MeasureError::Interrupted),
        Err(error) => Err(MeasureError::Other(error)),
    }
}

/// `None`: interrupted.
fn made(bench: &Bench<'_>, lead: Duration) -> Result<Option<Report>, Failed> {
    let environment = Environment::look();
    bench.progress.begin(3);
    bench.progress.step("a controller, and two hosts that follow it");
    let name = format!("demo-{}", std::process::id());
    let spec = LabSpec { name, ..toml::from_str(LAB)? };
    let (objects, before) = read(SHOP);
    let (changed, after) = read(&text_after());
    let lab = Lab::up_unless(&spec, &Home::system(), bench.stop)?;

    bench.progress.step("a tenant's network, declared at the controller");
    let begun = Instant::now();
    let declared = lab.declare(&objects, bench.stop)?;
    lab.await_networks(bench.stop)?;
    let realized = begun.elapsed();
    let explained = explained(&lab.controller()?, bench.stop)?;

    bench.progress.step("packets between all machines, while a policy changes");
    let (sender, receiver) = mpsc::channel();
    let controller = lab.controller()?;
    let change = move || {
        thread::sleep(lead);
        let begun = Instant::now();
        // Nobody waits for it any more if the user wants no more: so it does not look.
        let declared = controller.declare(&changed, &AtomicBool::new(false));
        let is_done = declared.is_ok();
        let _ = sender.send((begun.elapsed(), declared));
        is_done
    };
    let networks = Networks { before: &before, after: Some(&after) };
    let change = Some((Change::Work(Box::new(change)), SETTLE));
    let (from, to, tcp) = FORBIDDEN;
    let watched = Some(Watched { from, to, service: Service::Tcp(tcp) });
    let Some(matrix) = pings::ask(&lab, &networks, watched, change, WAIT, bench.stop)? else {
        return Ok(None);
    };
    let (took, changed) = receiver.recv()?;
    let change = Changed {
        revision: changed?.revision,
        realized_ms: ms(took),
        settled_ms: matrix.command.and_then(settled_ms),
    };
    let found = Found {
        objects: declared.objects,
        revision: declared.revision,
        realized_ms: ms(realized),
        forbidden: Forbidden::new(&explained, matrix.watched),
        change,
        matrix,
    };
    let hosts = spec.hosts.map_or(1, |it| it.count);
    let config =
        Config { hosts, network: "examples/shop.yaml".into(), ports: PORTS, lead_ms: ms(lead) };
    Ok(Some(Report(Measurement {
        zovn: env!("CARGO_PKG_VERSION").into(),
        experiment: "network".into(),
        environment,
        config,
        results: vec![found],
    })))
}

/// The objects of a file that comes with the program, and what they are together.
fn read(text: &str) -> (Vec<Object>, Topology) {
    let source = logical::read(text);
    let objects = source.objects.clone();
    (objects, source.resolve().expect("a test reads what comes with the program"))
}

/// The file after the change: the database may be asked at another port.
fn text_after() -> String {
    let [before, after] = PORTS.map(|port| format!("ports: [{port}]"));
    SHOP.replace(&before, &after)
}

/// What becomes of the forbidden packet, as the controller explains it.
fn explained(controller: &Controller, stop: &AtomicBool) -> Result<PacketTrace, Failed> {
    let (from, to, tcp) = FORBIDDEN;
    let question =
        Question { from: from.into(), to: to.into(), tcp: Some(tcp), ..Question::default() };
    let asked = Asked::post("/v1/trace", serde_json::to_vec(&question)?);
    Ok(controller.ask::<Explained>(asked, stop)?.explanation.trace)
}

impl Forbidden {
    /// Of the packet's explanation, and what became of those that were sent.
    fn new(explained: &PacketTrace, fate: Fate) -> Self {
        let (from, to, tcp) = FORBIDDEN;
        let Fate { packets, arrived } = fate;
        Self {
            from: from.into(),
            to: to.into(),
            tcp,
            packets,
            arrived,
            is_refused: explained.outcome == PacketOutcome::Refused,
            by: explained.refused.first().and_then(|it| it.by.clone()),
            verdict: explained.verdict(),
        }
    }

    /// Which packet it is.
    fn packet(&self) -> String {
        format!("TCP {} from {} to {}", self.tcp, self.from, self.to)
    }

    /// What is told, in words.
    fn said(&self) -> String {
        let Self { packets, arrived, is_refused, by, verdict, .. } = self;
        let why = match (is_refused, by) {
            (true, Some(by)) => format!("refused by {by}"),
            _ => verdict.clone(),
        };
        let (arrived, packets) = (count(*arrived), count(*packets));
        format!(
            "{}: {arrived} of {packets} packets arrive; {why} (zovn explain port)",
            self.packet()
        )
    }

    /// What was not as intended, in sentences.
    fn broken(&self) -> Vec<String> {
        let Self { packets, arrived, is_refused, by, verdict, .. } = self;
        let mut broken = Vec::new();
        if !is_refused {
            broken.push(format!("{} is not refused: {verdict}.", self.packet()));
        } else if by.as_deref() != Some(FORBIDS) {
            broken.push(format!("{} is not refused by {FORBIDS}: {verdict}.", self.packet()));
        }
        if *packets == 0 {
            broken.push(format!("no packet was sent that is {}.", self.packet()));
        }
        if *is_refused && *arrived > 0 {
            let (arrived, packets) = (count(*arrived), count(*packets));
            broken.push(format!(
                "{}: {arrived} of {packets} packets arrived, and the controller says otherwise: {verdict}.",
                self.packet()
            ));
        }
        broken
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn settled_ms(ran: Ran) -> Option<f64> {
    ran.settled_s.map(|at| (at - ran.ended_s).max(0.0) * 1e3)
}

/// A time in milliseconds as people read it.
fn time(ms: f64) -> String {
    si(ms / 1e3, Unit::SECONDS)
}

impl Report {
    /// Tells it on a terminal.
    pub(super) fn tell(&self, text: &mut String, paint: &Paint) -> std::fmt::Result {
        let ([port, _], hosts) = (self.0.config.ports, self.0.config.hosts);
        writeln!(text, "{}", paint.strong("1. A tenant's network, through a controller"))?;
        writeln!(
            text,
            "   A controller, and {hosts} hosts whose agents follow it. The tenant declares {}: web servers on\n   \
             both hosts, a router, and a database that only they may ask, at TCP port {port}.\n",
            self.0.config.network,
        )?;
        for found in &self.0.results {
            for [what, said, took] in found.said(self.0.config.ports) {
                let took = if took.is_empty() { took } else { format!("; {took}") };
                writeln!(text, "   {what:<10}  {said}{took}")?;
            }
        }
        writeln!(text, "\n   {}\n", BY_HAND.join("\n   "))
    }
}

/// How to have the same without the demo.
const BY_HAND: [&str; 2] = [
    "By hand: zovn lab up examples/lab/controlled.toml && zovn lab declare controlled examples/shop.yaml.",
    "That lab's file says how `zovn apply -f` does the same, and how packets are compared.",
];

impl Found {
    /// What is told, in words: of what, what, and how long it took.
    fn said(&self, [_, port]: [u16; 2]) -> [[String; 3]; 4] {
        let Self { objects, realized_ms, forbidden, change, matrix, .. } = self;
        let services: Vec<_> = matrix.services.iter().map(ToString::to_string).collect();
        let wrong = matrix.pings_wrong + matrix.strange;
        let is_right = match wrong {
            0 => "all as intended".to_owned(),
            _ => format!("{} NOT as intended", count(wrong)),
        };
        let settled = change.settled_ms.map_or_else(
            || "no round of packets was ever as it says".to_owned(),
            |at| format!("{} after that all packets are as it says", time(at)),
        );
        [
            [
                "declared".into(),
                format!("{objects} objects"),
                format!(
                    "both hosts execute them and all ports are up {} later",
                    time(*realized_ms)
                ),
            ],
            [
                "packets".into(),
                format!(
                    "{} between all pairs of {} machines ({}): {is_right}",
                    count(matrix.packets),
                    matrix.machines,
                    services.join(", ")
                ),
                String::new(),
            ],
            ["forbidden".into(), forbidden.said(), String::new()],
            [
                "changed".into(),
                format!("to port {port}, while packets go on"),
                format!("both hosts execute it {} later, and {settled}", time(change.realized_ms)),
            ],
        ]
    }
}

impl Readable for Report {
    fn title(&self) -> String {
        "A tenant's network, through a controller".into()
    }

    fn conditions(&self) -> String {
        let Config { hosts, network, ports: [port, other], .. } = &self.0.config;
        format!(
            "{network}, declared at a controller that the agents of {hosts} hosts follow; a packet from every machine \
             to every other, again and again, while the policy changes from TCP port {port} to {other}."
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new(["", "what", "how soon"]);
        for found in &self.0.results {
            for row in found.said(self.0.config.ports) {
                rows.row(row);
            }
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let meanwhile = "Packets are the first of connections, of the machines' own, and are seen where they arrive. \
                         While the policy changes, what it says before and after is right; before and after the \
                         change only that.";
        vec![meanwhile.into(), BY_HAND.join(" ")]
    }

    fn charts(&self) -> Vec<Chart> {
        Vec::new()
    }

    fn broken(&self) -> Vec<String> {
        self.0.results.iter().flat_map(Found::broken).collect()
    }

    fn environment(&self) -> &Environment {
        &self.0.environment
    }
}

impl Found {
    /// What was not as intended, in sentences.
    fn broken(&self) -> Vec<String> {
        let Self { forbidden, change, matrix, .. } = self;
        let wrong = matrix.pings_wrong + matrix.strange;
        let mut broken = Vec::new();
        if wrong > 0 {
            let first = matrix.wrong.first().map_or_else(String::new, |it| {
                let it = &it.wrong;
                format!(
                    ", first {} from {} to {} at {}: {}",
                    it.asks, it.from, it.to, it.host, it.why
                )
            });
            let all = count(matrix.packets);
            broken.push(format!("{} of {all} packets were not as intended{first}.", count(wrong)));
        }
        if matrix.packets == 0 {
            broken.push("no machine sent a packet.".into());
        }
        broken.extend(forbidden.broken());
        if change.settled_ms.is_none() {
            broken.push("after the change no round of packets was as it says.".into());
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let ran = Ran { began_s: 0.2, ended_s: 1.5, settled_s: Some(1.52), code: Some(0) };
        let matrix = pings::Report {
            lab: "demo".into(),
            machines: 3,
            pairs: 6,
            services: Vec::new(),
            rounds: 50,
            packets: 1200,
            late: 0,
            strange: 0,
            pings_wrong: 0,
            seconds: 2.0,
            command: Some(ran),
            wrong: Vec::new(),
            watched: Fate { packets: 50, arrived: 0 },
        };
        let found = Found {
            objects: 19,
            revision: Some(1),
            realized_ms: 40.0,
            forbidden: Forbidden {
                from: "shop/web-1".into(),
                to: "shop/db-1".into(),
                tcp: 1,
                packets: 50,
                arrived: 0,
                is_refused: true,
                by: Some(FORBIDS.into()),
                verdict: "refused: rejected".into(),
            },
            change: Changed { revision: Some(2), realized_ms: 12.0, settled_ms: settled_ms(ran) },
            matrix,
        };
        let config =
            Config { hosts: 2, network: "examples/shop.yaml".into(), ports: PORTS, lead_ms: 1.0 };
        Report(Measurement {
            zovn: "0".into(),
            experiment: "network".into(),
            environment: Environment::look(),
            config,
            results: vec![found],
        })
    }

    fn told(report: &Report) -> String {
        let mut text = String::new();
        report.tell(&mut text, &Paint { colour: false }).unwrap();
        text
    }

    #[test]
    fn what_was_as_intended_is_told_with_its_times() {
        let report = report();
        let text = told(&report);
        for words in [
            "declared    19 objects; both hosts execute them and all ports are up 40 ms later",
            "packets     1,200 between all pairs of 3 machines",
            "all as intended",
            "TCP 1 from shop/web-1 to shop/db-1: 0 of 50 packets arrive; refused by Policy/shop/db-in/nothing-else",
            "to port 5433, while packets go on; both hosts execute it 12 ms later, and 20 ms after that all",
            "(zovn explain port)",
        ] {
            assert!(text.contains(words), "{words} missing in\n{text}");
        }
        assert_eq!(report.broken(), Vec::<String>::new());
        assert!(report.rows().text().contains("all ports are up 40 ms later"));
    }

    #[test]
    fn whatever_is_not_as_intended_is_broken() {
        let broken = |spoil: fn(&mut Found), words: &str| {
            let mut report = report();
            spoil(&mut report.0.results[0]);
            let broken = report.broken();
            assert_eq!(broken.len(), 1, "{broken:?}");
            assert!(broken[0].contains(words), "{broken:?}");
            told(&report)
        };
        let text = broken(|it| it.matrix.pings_wrong = 2, "2 of 1,200 packets");
        assert!(text.contains("2 NOT as intended"), "{text}");
        broken(|it| it.matrix.strange = 1, "1 of 1,200 packets");
        broken(|it| it.matrix.packets = 0, "no machine");
        broken(|it| it.forbidden.is_refused = false, "is not refused: ");
        broken(|it| it.forbidden.by = None, "is not refused by Policy/shop/db-in/nothing-else");
        broken(|it| it.forbidden.packets = 0, "no packet was sent that is TCP 1");
        let text = broken(|it| it.forbidden.arrived = 2, "the controller says otherwise");
        assert!(text.contains("2 of 50 packets arrive"), "{text}");
        let text = broken(|it| it.change.settled_ms = None, "after the change");
        assert!(text.contains("no round of packets"), "{text}");
    }

    #[test]
    fn the_files_that_come_with_the_program_can_be_and_the_change_is_one() {
        let spec: LabSpec = toml::from_str(LAB).unwrap();
        spec.resolve("zovn-7").unwrap();
        let (objects, before) = read(SHOP);
        let (changed, after) = read(&text_after());
        let differ = objects.iter().zip(&changed).filter(|(one, other)| one != other).count();
        assert_eq!((objects.len(), changed.len(), differ), (14, 14, 1));
        // The forbidden packet is of two ports that the network has, and one that is sent.
        for name in [FORBIDDEN.0, FORBIDDEN.1] {
            let (tenant, port) = name.split_once('/').unwrap();
            assert!(after.port(tenant, port).is_some(), "{name}");
        }
        assert!(!PORTS.contains(&FORBIDDEN.2));
        assert!(pings::services(&[&before, &after]).contains(&Service::Tcp(FORBIDDEN.2)));
    }
}
