//! `zovn hand-over` and `zovn take-over`: what is known of a logical port's packets, from the host
//! that it leaves to the one that it goes to.
//!
//! ```text
//! agent of the old host ─ hand-over ─▶ bytes: a pipe, or a file ─ take-over ─▶ agent of the new one
//! ```
//!
//! Only agents read the bytes.

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use model::PortName;

use crate::client::{AgentArgs, AnswerArgs};
use crate::ending::Outcome;

const EXAMPLES: &str = "\
Examples:
  ssh h1 zovn hand-over db-1 --stays | ssh h2 zovn take-over db-1 -    while its machine runs at h1
  ssh h1 zovn hand-over db-1 | ssh h2 zovn take-over db-1 -            once it has stopped there
  zovn hand-over shop/db-1 >db-1.handover                              at h1
  zovn take-over shop/db-1 db-1.handover                               at h2

docs/controller.md has all steps of a move, \"A port that moves\".";

/// Write what another host needs to go on with a logical port: its connections above all.
///
/// It goes to stdout, for `zovn take-over` at the host that the port goes to. Nothing changes here:
/// this may be asked again, and the port has its connections here until it is detached.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct HandOverArgs {
    /// The host's port, or the logical one: `shop/db-1`.
    name: String,
    /// The port's machine still runs here, so windows of TCP are left out, which change meanwhile.
    #[arg(long)]
    stays: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

/// Go on with a logical port as another host had it, by what `zovn hand-over` has written there.
///
/// The port is attached here before. This takes the place of what was taken over of it before; what
/// is refused changes nothing. Printed is how much goes on here, and how much finds no room: the
/// next packet of such a connection is as a first one.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TakeOverArgs {
    /// The host's port, or the logical one: `shop/db-1`.
    name: String,
    /// What was written; `-` is stdin.
    file: PathBuf,
    #[command(flatten)]
    answer: AnswerArgs,
}

/// Writes what goes with a port.
pub fn hand_over(args: HandOverArgs) -> Outcome {
    let mut stdout = io::stdout();
    if stdout.is_terminal() {
        return Err("only an agent can read this: pipe it to `zovn take-over` at the other host, \
                    or to a file"
            .into());
    }
    let handed = args.agent.client()?.hand_over(&PortName(args.name), args.stays)?;
    stdout.write_all(&handed)?;
    stdout.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Goes on with a port.
pub fn take_over(args: TakeOverArgs) -> Outcome {
    let TakeOverArgs { name, file, answer } = args;
    let handed = read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    if handed.is_empty() {
        return Err("nothing was handed over: look at what `zovn hand-over` says".into());
    }
    let name = PortName(name);
    let taken = answer.client()?.take_over(&name, handed.into())?;
    answer.show(&taken, || {
        let (connections, lost) = (taken.connections, taken.lost);
        format!("port `{name}`: {connections} connections go on here, {lost} find no room")
    })?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path != Path::new("-") {
        return fs::read(path);
    }
    let mut all = Vec::new();
    io::stdin().read_to_end(&mut all)?;
    Ok(all)
}
