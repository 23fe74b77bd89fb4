//! `zovn diff`: what files, or the deletion of an object, would change of the objects that a
//! controller keeps.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use super::changes::Changes;
use super::declaration::{Declaration, Prune};
use super::names;
use super::said::Failure;
use super::word::object;
use crate::context::{Asking, ContextArgs};
use crate::ending::{Outcome, print_json};

const EXAMPLES: &str = "\
Examples:
  zovn diff -f shop.yaml                     what `zovn apply -f shop.yaml` would change
  zovn diff -f shop.yaml --prune app=shop    what it would remove as well
  zovn get objects --tenant shop --yaml | zovn diff -f -
                                             nothing: as long as nobody changes it
  zovn diff --delete LogicalSwitch/shop/web  what would go with it, as it needs it
  zovn diff -f shop.yaml --json | jq -r '.objects[].object'

Exit codes: 0 nothing would change, 1 something would, 2 it cannot be told.";

/// Show what files would change of the objects that a controller keeps, field by field; or what
/// would go with one of them.
///
/// It is asked by a dry run, so what it would refuse is told, too. Nothing changes. What only the
/// controller writes of an object is left out.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// A file of objects (YAML or JSON), or several; `-` is the standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE", required_unless_present = "delete", num_args = 1..)]
    files: Vec<PathBuf>,
    /// Objects that have this label and are in no file would be removed.
    #[arg(long, value_name = "LABEL=VALUE")]
    prune: Option<Prune>,
    /// What `zovn delete object --cascade` would remove with this object, as
    /// `LogicalSwitch/shop/web`; without a tenant, the context's is meant.
    #[arg(long, value_name = "OBJECT", conflicts_with_all = ["files", "prune"], add = names::object())]
    delete: Option<String>,
    /// Print each object as it is and as it would be, as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    context: ContextArgs,
}

/// Shows what would change. As with diff(1), 1 says that something would, and 2 that it failed.
pub fn run(args: &Args) -> Outcome {
    match changes(args) {
        Ok(changes) if changes.are_none() => Ok(ExitCode::SUCCESS),
        Ok(_) => Ok(ExitCode::FAILURE),
        Err(error) => Ok(zovn_agent::end("zovn", error.as_ref(), true)),
    }
}

fn changes(args: &Args) -> Result<Changes, Failure> {
    let Asking { client, tenant } = args.context.asking()?;
    let changes = match &args.delete {
        Some(one) => Changes::of_deletion(&object(one, tenant.as_ref())?, &client)?,
        None => Changes::of(&Declaration::read(&args.files, args.prune.as_ref())?, &client)?,
    };
    match args.json {
        true => print_json(&changes)?,
        false => write!(io::stdout(), "{}", changes.diff())?,
    }
    Ok(changes)
}
