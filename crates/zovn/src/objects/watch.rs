//! `zovn watch`: what changes of a kind of objects that a controller keeps.

use std::io::{self, Write};

use logical::objects::Name;
use serde_json::Value;

use super::names;
use super::said::{name, plain, refusable};
use super::word::{kind, shelf};
use crate::context::{Asking, ContextArgs};
use crate::ending::Outcome;

const EXAMPLES: &str = "\
Examples:
  zovn watch logical-ports --tenant shop     a line for each change, until Ctrl-C
  zovn watch TransportNode --json            the changed objects, a line of JSON each";

/// Show what changes of a kind of objects that a controller keeps, until Ctrl-C.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// A kind, as `LogicalPort` or `logical-ports`.
    #[arg(add = names::one_kind())]
    kind: String,
    /// Whose; the context's tenant if nothing is said.
    #[arg(long, value_name = "NAME", add = names::tenant())]
    tenant: Option<Name>,
    /// Print each change as a line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    context: ContextArgs,
}

/// Shows what changes.
pub fn run(args: &Args) -> Outcome {
    let Asking { client, tenant } = args.context.asking()?;
    let shelf = shelf(kind(&args.kind)?, args.tenant.as_ref().or(tenant.as_ref()))?;
    let mut out = io::stdout();
    let mut written = Ok(());
    let mut is_reset = false;
    let watched = client.watch(&format!("{shelf}?watch=true"), |event, data| {
        is_reset = event == "reset";
        if !matches!(event, "put" | "delete") {
            return !is_reset;
        }
        written = match args.json {
            true => writeln!(out, "{{\"event\":\"{event}\",\"object\":{}}}", plain(data)),
            false => {
                let object: Value = serde_json::from_str(data).unwrap_or_default();
                writeln!(out, "{event:6}  {}", name(&object))
            }
        };
        written.is_ok()
    });
    written?;
    refusable(watched)?;
    let why = match is_reset {
        true => "the controller has forgotten what happened since: ask again",
        false => "the controller has hung up: ask again",
    };
    Err(why.into())
}
