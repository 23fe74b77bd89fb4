//! `zovn apply -f`, `zovn get logical`: the logical networks of an agent.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use api::{Condition, LogicalNetworks, LogicalPort};
use model::{DomainChange, Generation, LogicalApplied, ObjectChange, ObjectFate};
use serde::Serialize;
use serde_json::Value;

use crate::client::AnswerArgs;
use crate::ending::{Outcome, USAGE};
use crate::net::files::{complain, load_objects};
use crate::table::{headed, text};

/// What is to be applied, and how.
pub struct Apply {
    pub files: Vec<PathBuf>,
    pub dry_run: bool,
    pub diff: bool,
    pub if_match: Option<u64>,
    pub answer: AnswerArgs,
}

/// What was applied, or would be, as JSON.
#[derive(Serialize)]
struct Applied<'a> {
    /// Whether nothing was changed, as that was not asked for.
    dry_run: bool,
    #[serde(flatten)]
    applied: &'a LogicalApplied,
    /// The fields that are not as before, by object, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<BTreeMap<&'a str, Vec<String>>>,
}

/// Sends files' objects to an agent.
pub fn apply(args: &Apply) -> Outcome {
    let Apply { files, dry_run, diff, if_match, answer } = args;
    let objects = match load_objects(files)? {
        Ok(objects) => objects,
        Err(faults) => {
            complain(&faults)?;
            return Ok(ExitCode::from(USAGE));
        }
    };
    let client = answer.client()?;
    let before = client.logical()?;
    // What somebody else has changed since is not overwritten.
    let generation = if_match.map_or(before.generation, Generation);
    let condition = Condition { generation: Some(generation), dry_run: *dry_run };
    let applied = client.apply_if(condition, &objects)?;
    let fields = diff.then(|| fields(&before, &objects, &applied)).transpose()?;
    let shown = Applied { dry_run: *dry_run, applied: &applied, fields };
    answer.show(&shown, || said(&shown, objects.len()))?;
    Ok(ExitCode::SUCCESS)
}

/// What has changed, a line each, and the generation below.
fn said(shown: &Applied<'_>, count: usize) -> String {
    let mut said = String::new();
    for ObjectChange { change, object } in &shown.applied.objects {
        let sign = match change {
            ObjectFate::Added => '+',
            ObjectFate::Changed => '~',
            ObjectFate::Removed => '-',
        };
        // A string takes whatever is written to it.
        let _ = writeln!(said, "{sign} {object}");
        let fields = shown.fields.as_ref().and_then(|all| all.get(object.as_str()));
        for field in fields.into_iter().flatten() {
            let _ = writeln!(said, "    {field}");
        }
    }
    for DomainChange { domain, put, removed, rows, here } in &shown.applied.domains {
        let _ = writeln!(
            said,
            "domain {domain}: rows put: {put}, removed: {removed}; it has {rows}, {here} of them for ports here"
        );
    }
    let generation = shown.applied.generation;
    match shown.dry_run {
        true => said + &format!("a dry run: generation {generation} stays"),
        false => said + &format!("generation {generation} (objects: {count})"),
    }
}

/// The fields that differ, by object, each in a line.
fn fields<'a>(
    before: &LogicalNetworks,
    objects: &[logical::Object],
    applied: &'a LogicalApplied,
) -> Result<BTreeMap<&'a str, Vec<String>>, Box<dyn Error + Send + Sync>> {
    let from: BTreeMap<_, _> = before.objects.iter().map(|it| (name(it), it)).collect();
    let to = objects
        .iter()
        .map(|object| Ok((object.identity().to_string(), serde_json::to_value(object)?)));
    let to: BTreeMap<_, _> = to.collect::<Result<_, serde_json::Error>>()?;
    let changed = applied.objects.iter().map(|change| {
        let name = change.object.as_str();
        let mut lines = Vec::new();
        differ("", from.get(name).copied(), to.get(name), &mut lines);
        (name, lines)
    });
    Ok(changed.collect())
}

/// An object's name, as an agent has it.
fn name(object: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let parts = [&object["kind"], &metadata["tenant"], &metadata["name"]].map(word);
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// Tells of each value that is not as before, with its path.
fn differ(path: &str, from: Option<&Value>, to: Option<&Value>, lines: &mut Vec<String>) {
    let below = |key: &str| format!("{path}/{key}");
    match (from, to) {
        (from, to) if from == to => {}
        (Some(Value::Object(from)), Some(Value::Object(to))) => {
            let keys: BTreeSet<_> = from.keys().chain(to.keys()).collect();
            keys.into_iter().for_each(|it| differ(&below(it), from.get(it), to.get(it), lines));
        }
        (Some(Value::Array(from)), Some(Value::Array(to))) => {
            for place in 0..from.len().max(to.len()) {
                differ(&below(&place.to_string()), from.get(place), to.get(place), lines);
            }
        }
        (Some(from), Some(to)) => lines.push(format!("{path}: {from} → {to}")),
        (None, Some(to)) if path.is_empty() => {
            let spec =
                to.get("spec").filter(|spec| spec.as_object().is_some_and(|it| !it.is_empty()));
            lines.extend(spec.map(|spec| format!("+ /spec: {spec}")));
        }
        (None, Some(to)) => lines.push(format!("+ {path}: {to}")),
        (Some(from), None) if !path.is_empty() => lines.push(format!("- {path}: {from}")),
        _ => {}
    }
}

/// A line for each machine's port, then one for each kind of object, and the generation below.
pub fn table(networks: &LogicalNetworks) -> String {
    let mut ports = headed(["logical port", "here", "state", "generation", "refused"]);
    for LogicalPort { name, port, state, realized, refused } in &networks.ports {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".into());
        let reasons: Vec<_> = refused.iter().map(|(why, count)| format!("{why} {count}")).collect();
        ports.add_row([
            name.to_string(),
            or_dash(port.as_ref().map(ToString::to_string)),
            or_dash(state.map(|state| state.to_string())),
            or_dash(realized.map(|generation| generation.to_string())),
            or_dash(Some(reasons.join(", ")).filter(|it| !it.is_empty())),
        ]);
    }
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for object in &networks.objects {
        let name = name(object);
        let (kind, name) = name.split_once('/').unwrap_or((&name, ""));
        kinds.entry(kind.into()).or_default().push(name.into());
    }
    let mut objects = headed(["kind", "objects"]);
    for (kind, mut names) in kinds {
        names.sort();
        objects.add_row([kind, names.join(" ")]);
    }
    let mut domains = headed(["domain", "rows", "here"]);
    for api::DomainRows { domain, rows, here } in &networks.domains {
        domains.add_row([domain.clone(), rows.to_string(), here.to_string()]);
    }
    let [ports, objects, domains] = [ports, objects, domains].map(text);
    let silence = networks.silence_seconds.filter(|it| *it > 0).map(age);
    let silence = silence.map_or_else(String::new, |age| {
        format!(", as a controller said {age} ago or earlier; none is connected")
    });
    format!("{ports}\n\n{objects}\n\n{domains}\ngeneration {}{silence}", networks.generation)
}

/// A length of time, in the largest unit that it has one of.
fn age(seconds: u64) -> String {
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let (length, unit) =
        units.into_iter().find(|(length, _)| seconds >= *length).unwrap_or((1, "second"));
    let many = seconds / length;
    format!("{many} {unit}{}", if many == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_field_that_differs_has_a_line() {
        let from = json!({"spec": {"a": 1, "list": [1, 2], "gone": true, "same": "x"}});
        let to = json!({"spec": {"a": 2, "list": [1, 3, 4], "new": {}, "same": "x"}});
        let mut lines = Vec::new();
        differ("", Some(&from), Some(&to), &mut lines);
        assert_eq!(
            lines,
            [
                "/spec/a: 1 → 2",
                "- /spec/gone: true",
                "/spec/list/1: 2 → 3",
                "+ /spec/list/2: 4",
                "+ /spec/new: {}",
            ]
        );
    }

    #[test]
    fn a_table_has_a_line_for_each_port_and_kind() {
        let port = |name: &str, here: Option<&str>| LogicalPort {
            name: name.parse().unwrap(),
            port: here.map(|name| model::PortName(name.into())),
            state: here.map(|_| model::PortState::Up),
            realized: here.map(|_| Generation(2)),
            refused: here.map(|_| ("policy".to_owned(), 3)).into_iter().collect(),
        };
        let object = |name: &str| json!({"kind": "Tenant", "metadata": {"name": name}, "spec": {}});
        let networks = LogicalNetworks {
            generation: Generation(2),
            objects: vec![object("shop"), object("mall")],
            ports: vec![port("shop/db", Some("db-1")), port("shop/web", None)],
            domains: Vec::new(),
            silence_seconds: Some(0),
        };
        let silent = LogicalNetworks { silence_seconds: Some(3 * 86_400 + 7), ..networks.clone() };
        let last = super::table(&silent);
        assert!(last.ends_with(
            "generation 2, as a controller said 3 days ago or earlier; none is connected"
        ));
        let table = table(&networks);
        let lines: Vec<_> = table.lines().map(str::trim_end).collect();
        assert_eq!(lines[1], "shop/db       db-1  up     2           policy 3");
        assert_eq!(lines[2], "shop/web      –     –      –           –");
        assert_eq!(lines[5], "Tenant  mall shop");
        assert_eq!(lines.last(), Some(&"generation 2"));
    }
}
