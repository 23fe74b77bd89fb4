//! `zovn describe`: one object that a controller keeps, and what is so of it.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use logical::objects::{Condition, Status, Truth};
use serde_json::Value;

use super::names;
use super::said::{name, plain, refusable};
use super::word::object;
use super::yaml;
use crate::context::{Asking, ContextArgs};
use crate::ending::{Outcome, show};
use crate::table::{headed, text};

const EXAMPLES: &str = "\
Examples:
  zovn describe LogicalPort/shop/web-1       what is declared of it, and whether hosts execute that
  zovn describe LogicalPort/shop/web-1 --json | jq '.status.conditions[]'

`zovn wait` waits until hosts execute it.";

/// Show an object that a controller keeps, and what is so of it: whether hosts execute it, and
/// which of them do not.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The object, as `LogicalPort/shop/web-1` or `lp/shop/web-1`; without a tenant, the context's
    /// is meant.
    #[arg(add = names::object())]
    object: String,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
    /// Print it as a file that `zovn apply -f` takes: as it is declared.
    #[arg(long, conflicts_with = "json")]
    yaml: bool,
    #[command(flatten)]
    context: ContextArgs,
}

/// Shows it.
pub fn run(args: &Args) -> Outcome {
    let Asking { client, tenant } = args.context.asking()?;
    let (_, object) = refusable(client.object(&object(&args.object, tenant.as_ref())?))?;
    if args.yaml {
        write!(io::stdout(), "{}", yaml::text(&yaml::declared(object)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let status: Status = serde_json::from_value(object["status"].clone())?;
    show(&object, args.json, || described(&object, &status))?;
    Ok(ExitCode::SUCCESS)
}

/// Who it is, what is so of it, and what is declared of it.
fn described(object: &Value, status: &Status) -> String {
    let metadata = &object["metadata"];
    let word = |field: &str| match &metadata[field] {
        Value::String(word) => plain(word),
        Value::Null => "–".into(),
        other => other.to_string(),
    };
    let mut told = name(object);
    for (what, field) in [("revision", "revision"), ("created", "createdAt"), ("uid", "uid")] {
        let _ = write!(told, "\n{what:9} {}", word(field));
    }
    let facts = object["status"].as_object().into_iter().flatten();
    for (what, value) in facts.filter(|(what, _)| *what != "conditions") {
        let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        let _ = write!(told, "\n{:9} {}", plain(what), plain(&value));
    }
    let _ = write!(told, "\n\n{}", conditions(&status.conditions));
    let declared = yaml::declared(object.clone());
    let _ = write!(told, "\n\n{}", yaml::text(&declared).trim_end());
    told
}

/// Conditions, a line each.
pub fn conditions(all: &[Condition]) -> String {
    let mut table = headed(["condition", "is", "reason", "message"]);
    for it in all {
        let is = match it.status {
            Truth::True => "true",
            Truth::False => "false",
            Truth::Unknown => "unknown",
        };
        table.add_row([format!("{:?}", it.kind), is.into(), plain(&it.reason), plain(&it.message)]);
    }
    text(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_told_with_what_is_so_of_it() {
        let object = serde_json::json!({
            "kind": "LogicalPort",
            "metadata": {"name": "web-1", "tenant": "shop", "revision": 7, "uid": "u"},
            "spec": {"switch": "web"},
            "status": {"conditions": [
                {"type": "Realized", "status": "False", "reason": "Pending", "message": "a\u{1b}b"},
            ], "nodes": ["h1"]},
        });
        let status: Status = serde_json::from_value(object["status"].clone()).unwrap();
        let told = described(&object, &status);
        for part in [
            "LogicalPort/shop/web-1\n",
            "revision  7\n",
            "created   –\n",
            "switch: web",
            "\nnodes     [\"h1\"]\n",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let line = told.lines().find(|it| it.contains("Realized")).unwrap();
        assert!(line.contains("false") && line.contains("Pending") && line.contains("a\u{fffd}b"));
        assert!(!told.contains("conditions:"), "{told}");
    }
}
