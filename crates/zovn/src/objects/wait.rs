//! `zovn wait`: until hosts execute what a controller keeps, or another of its conditions is so.

use std::process::ExitCode;
use std::time::Duration;

use api::{Asked, RemoteClient};
use clap::ValueEnum;
use logical::objects::{Condition, ConditionType, Status, Truth};
use serde::{Deserialize, Serialize};
use units::Span;

use super::names;
use super::said::{Failure, plain, refusable};
use super::word::object;
use crate::context::{Asking, ContextArgs};
use crate::ending::{Outcome, show};

const EXAMPLES: &str = "\
Examples:
  zovn wait LogicalPort/shop/web-1           until all hosts that have to do with it execute it
  zovn wait --for policy-ready lp/shop/web-1 until the host that has it does
  zovn wait 812 --timeout 2min               until they execute all that revision 812 has changed
  zovn apply -f shop.yaml --wait             applied, and executed

Exit codes: 0 it is so, 1 it is not by the end of `--timeout`, or cannot be told.";

/// Wait until hosts execute an object that a controller keeps, or all that a revision has changed;
/// or until another condition of an object is so.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// An object, as `LogicalPort/shop/web-1`, or a revision, as `zovn apply` prints it.
    #[arg(add = names::object())]
    what: String,
    /// What is waited for.
    #[arg(long = "for", value_name = "CONDITION", value_enum, default_value_t = Goal::Realized)]
    goal: Goal,
    /// How long, at most 5min.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = timeout)]
    timeout: Timeout,
    /// Print the condition as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    context: ContextArgs,
}

/// What is waited for.
#[derive(Clone, Copy, ValueEnum)]
enum Goal {
    /// A group has ports, or a policy holds for some.
    Resolved,
    /// What hosts are to execute of it is computed.
    Compiled,
    /// All hosts that have to do with it execute it.
    Realized,
    /// A connected host has the port.
    Bound,
    /// The host that has the port executes it, with the policies that were written before it.
    PolicyReady,
}

impl From<Goal> for ConditionType {
    fn from(goal: Goal) -> Self {
        match goal {
            Goal::Resolved => Self::Resolved,
            Goal::Compiled => Self::Compiled,
            Goal::Realized => Self::Realized,
            Goal::Bound => Self::Bound,
            Goal::PolicyReady => Self::PolicyReady,
        }
    }
}

/// How long is waited.
#[derive(Clone, Copy, Debug)]
pub struct Timeout(Duration);

/// The longest that a controller waits.
const LONGEST: Duration = Duration::from_secs(300);

/// Reads how long is to be waited.
pub fn timeout(word: &str) -> Result<Timeout, String> {
    let span: Span = word.parse().map_err(|error| format!("{error}"))?;
    let longest = Duration::from_nanos(span.as_nanos());
    match longest <= LONGEST {
        true => Ok(Timeout(longest)),
        false => Err(format!("a controller waits for at most {} s", LONGEST.as_secs())),
    }
}

impl Timeout {
    /// How long that is.
    pub fn duration(self) -> Duration {
        self.0
    }

    /// What a query says to wait so long until hosts execute something.
    pub fn query(self) -> String {
        self.query_for(ConditionType::Realized)
    }

    /// What it says to wait for any condition.
    fn query_for(self, goal: ConditionType) -> String {
        format!("waitFor={goal:?}&timeout={}ms", self.0.as_millis())
    }
}

/// What has conditions: an object, or a revision.
#[derive(Deserialize)]
struct Told {
    status: Option<Status>,
    conditions: Option<Vec<Condition>>,
}

/// What was waited for, as JSON.
#[derive(Serialize)]
struct Waited<'a> {
    what: &'a str,
    condition: &'a Condition,
}

/// Waits.
pub fn run(args: &Args) -> Outcome {
    let Asking { client, tenant } = args.context.asking()?;
    let path = match args.what.parse::<u64>() {
        Ok(revision) => format!("/v1/revisions/{revision}"),
        Err(_) => object(&args.what, tenant.as_ref())?,
    };
    let condition = waited(&client, &path, args.goal.into(), args.timeout)?;
    show(&Waited { what: &args.what, condition: &condition }, args.json, || said(&condition))?;
    ended(&condition)
}

/// A condition of what is at a path, once that is waited for.
fn waited(
    client: &RemoteClient,
    path: &str,
    goal: ConditionType,
    timeout: Timeout,
) -> Result<Condition, Failure> {
    let asked = Asked::get(format!("{path}?{}", timeout.query_for(goal)));
    let told: Told = refusable(client.ask_and_wait(asked, timeout.duration()))?;
    let all = told.status.map(|it| it.conditions).or(told.conditions).unwrap_or_default();
    let found = all.into_iter().find(|it| it.kind == goal);
    found.ok_or_else(|| format!("it has no condition `{goal:?}`").into())
}

/// A condition as a sentence.
pub fn said(condition: &Condition) -> String {
    plain(&condition.message)
}

/// 1 if it is not so.
pub fn ended(condition: &Condition) -> Outcome {
    match condition.status {
        Truth::True => Ok(ExitCode::SUCCESS),
        Truth::False | Truth::Unknown => Err(format!(
            "not `{:?}` in time ({}): wait again",
            condition.kind,
            plain(&condition.reason)
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_at_most_what_a_controller_waits() {
        assert_eq!(timeout("5min").unwrap().query(), "waitFor=Realized&timeout=300000ms");
        assert_eq!(timeout("1s").unwrap().duration(), Duration::from_secs(1));
        assert!(timeout("301s").unwrap_err().contains("at most 300 s"));
        timeout("soon").unwrap_err();
    }
}
