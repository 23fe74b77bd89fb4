//! `zovn net prove`: whether a sentence about a network holds, for all packets.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use logical::Topology;
use logical::topology::PortIndex;
use reach::{Counterexample, Looked, Proof, Sentence, matrix};
use serde::Serialize;

use super::files::{complain, load};
use super::packet::Command;
use crate::ending::{Outcome, USAGE, print_json};

const SENTENCES: &str = "\
A sentence is WHO reaches WHO, or WHO never reaches WHO; by SERVICE may follow.

  WHO      tenant NAME, switch NAME, group NAME, port NAME, address ADDRESS, outside, anyone
  SERVICE  tcp 443, udp 1000-2000, sctp, icmp, icmp6, protocol 47; several with `or` between them
  NAME     name, or tenant/name;  ADDRESS  10.0.0.1, 10.0.0.0/24, or 10.0.0.1-10.0.0.9

Examples:
  zovn net prove shop.yaml 'tenant a never reaches tenant b'
  zovn net prove shop.yaml 'port web-1 reaches port db-1 by tcp 5432'
  zovn net prove shop.yaml 'group web-servers never reaches address 10.0.2.0/24 by udp or icmp'
  zovn net prove shop.yaml 'outside never reaches switch db' --json

docs/net.md says what each means exactly.";

/// Prove a sentence about a network for all packets, or show a packet that refutes it.
///
/// Exit code 0 if it holds, 1 if it does not, or a file cannot be read, 2 if the file or the
/// sentence is wrong.
#[derive(clap::Args)]
#[command(after_long_help = SENTENCES)]
pub struct Args {
    /// The network's file (YAML or JSON); `-` is stdin.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The sentence.
    #[arg(value_name = "SENTENCE")]
    sentence: String,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` says.
#[derive(Serialize)]
struct Report<'a> {
    sentence: &'a str,
    /// `proven`, `refuted` or `undecided`.
    outcome: &'static str,
    /// What was looked at, if it is proven.
    looked: Option<Looked>,
    /// Why it does not hold.
    why: Option<String>,
    /// The command that shows it.
    command: Option<String>,
}

/// Proves, and tells.
pub fn run(args: &Args) -> Outcome {
    let topology = match load(std::slice::from_ref(&args.file))? {
        Ok(topology) => topology,
        Err(faults) => {
            complain(&faults)?;
            return Ok(ExitCode::from(USAGE));
        }
    };
    let sentence = match Sentence::read(&topology, &args.sentence) {
        Ok(sentence) => sentence,
        Err(error) => {
            writeln!(io::stderr(), "zovn: the sentence stops making sense {error}")?;
            return Ok(ExitCode::from(USAGE));
        }
    };
    let proof = matrix(&topology)?.prove(&topology, &sentence);
    let report = Report::of(args, &topology, &proof);
    if args.json {
        print_json(&report)?;
    } else {
        writeln!(io::stdout(), "{}", report.text())?;
    }
    Ok(if matches!(proof, Proof::Proven(_)) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl<'a> Report<'a> {
    fn of(args: &'a Args, topology: &Topology, proof: &Proof) -> Self {
        let sentence = args.sentence.as_str();
        let none = Self { sentence, outcome: "refuted", looked: None, why: None, command: None };
        let shown = |it| Some(command(&args.file, topology, it));
        let name = |it: PortIndex| reach::name(&topology[it].id);
        match proof {
            Proof::Proven(looked) => Self { outcome: "proven", looked: Some(*looked), ..none },
            Proof::Refuted(it) => {
                let (from, does) = (name(it.from), it.arrives(topology));
                let to = it.to.map_or_else(|| "anybody".to_owned(), name);
                let does = if does { "reaches" } else { "does not reach" };
                Self { why: Some(format!("{from} {does} {to}")), command: shown(it), ..none }
            }
            Proof::Unanswered(from, Some(to)) => {
                let why = format!("{} cannot send to {to}: nobody answers for it", name(*from));
                Self { why: Some(why), ..none }
            }
            Proof::Unanswered(from, None) => {
                let why = "has no address of the family of whom it is to reach";
                Self { why: Some(format!("{} {why}", name(*from))), ..none }
            }
            Proof::Undecided(it) => {
                let why = "the hash of each packet decides, and none of those tried showed it";
                Self { outcome: "undecided", why: Some(why.to_owned()), command: shown(it), ..none }
            }
        }
    }

    fn text(&self) -> String {
        let mut lines = match (&self.looked, &self.why) {
            (Some(Looked { pairs, classes }), _) => vec![format!(
                "proven for all packets: {pairs} pairs of classes of ports, {classes} classes of \
                 packets"
            )],
            (None, Some(why)) => vec![format!("{}: {why}", self.outcome)],
            (None, None) => vec![self.outcome.to_owned()],
        };
        lines.extend(self.command.as_ref().map(|it| format!("shown by: {it}")));
        lines.join("\n")
    }
}

/// The command that shows a packet stage by stage.
fn command(file: &Path, topology: &Topology, it: &Counterexample) -> String {
    format!("zovn net trace {} {}", file.display(), Command(topology, it))
}
