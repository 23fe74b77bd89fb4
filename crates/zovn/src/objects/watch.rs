//! `zovn watch`: what changes of a kind of objects that a controller keeps.

use std::io::{self, Write};

use logical::objects::{Name, Status};
use serde_json::Value;

use super::names;
use super::said::{name, plain, refusable};
use super::word::{kind, shelf};
use crate::context::{Asking, ContextArgs};
use crate::ending::Outcome;

const EXAMPLES: &str = "\
Examples:
  zovn watch logical-ports --tenant shop     a line for each change, until Ctrl-C
  zovn watch logical-ports --status          also what is so of each, first and whenever it changes
  zovn watch TransportNode --json            the changed objects, a line of JSON each";

/// Show what changes of a kind of objects that a controller keeps, until Ctrl-C.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// A kind, as `LogicalPort`, `logical-ports` or `lp`.
    #[arg(add = names::one_kind())]
    kind: String,
    /// Whose; the context's tenant if nothing is said.
    #[arg(long, value_name = "NAME", add = names::tenant())]
    tenant: Option<Name>,
    /// Show what is so of each object, too: first, and whenever it changes.
    #[arg(long)]
    status: bool,
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
    let status = if args.status { "&status=true" } else { "" };
    let watched = client.watch(&format!("{shelf}?watch=true{status}"), |event, data| {
        is_reset = event == "reset";
        if !matches!(event, "put" | "delete" | "status") {
            return !is_reset;
        }
        written = match args.json {
            true => writeln!(out, "{{\"event\":\"{event}\",\"object\":{}}}", plain(data)),
            false => {
                let object: Value = serde_json::from_str(data).unwrap_or_default();
                writeln!(out, "{}", line(event, &object))
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

/// A change, or what is so of an object, in a line.
fn line(event: &str, object: &Value) -> String {
    let status: Status = serde_json::from_value(object["status"].clone()).unwrap_or_default();
    let conditions = status.conditions.iter();
    let said = conditions.map(|it| format!("{:?} {:?} {}", it.kind, it.status, it.reason));
    let said = said.collect::<Vec<_>>().join(", ");
    plain(format!("{event:6}  {}  {said}", name(object)).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_told_in_a_line() {
        let mut object = serde_json::json!({
            "kind": "LogicalPort",
            "metadata": {"name": "web-1", "tenant": "shop", "revision": 7},
        });
        assert_eq!(line("put", &object), "put     LogicalPort/shop/web-1");
        object["status"] = serde_json::json!({"conditions": [
            {"type": "Compiled", "status": "True", "reason": "Computed", "message": ""},
            {"type": "Realized", "status": "False", "reason": "Pend\u{1b}ing", "message": ""},
        ]});
        assert_eq!(
            line("status", &object),
            "status  LogicalPort/shop/web-1  Compiled True Computed, Realized False Pend\u{fffd}ing"
        );
    }
}
