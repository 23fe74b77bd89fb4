//! Runs a case, step by step, until something is not as expected.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Serialize;
use tree::{Node, Value};
use units::Span;

use crate::edit::{Op, number, words};
use crate::exchange::Flows;
use crate::execution::Execution;
use crate::failure::{Failure, fail};
use crate::file::{Case, File};
use crate::frame::{Ends, Told};
use crate::matching::{self, Expected, joined};
use crate::world::World;

/// How a case ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// All was as expected.
    Passed,
    /// Something was not.
    Failed,
    /// What it needs is not there.
    Skipped,
}

/// What became of a case on an execution.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Report {
    /// Its name.
    pub case: String,
    /// What its file is about.
    pub category: String,
    /// What it was run on.
    pub execution: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether it does not count.
    pub optional: bool,
    /// The step that was not as expected, from 1.
    pub step: Option<usize>,
    /// What was expected there; of a case that was skipped, what it needs.
    pub expected: Option<String>,
    /// What was seen.
    pub seen: Option<String>,
}

/// What a step may say besides what it does.
const BESIDES: [&str; 8] =
    ["expect", "repeat", "needs", "after_s", "all_alike", "note", "strict", "either"];

/// The step that not everything can: it asks what a host knows.
const INSPECT: &str = "inspect";

/// Runs a case.
pub fn run(file: &File, case: &Case, on: &mut dyn Execution) -> Report {
    let mut report = Report {
        case: case.name.clone(),
        category: file.category.clone(),
        execution: on.name(),
        outcome: Outcome::Passed,
        optional: case.optional,
        step: None,
        expected: None,
        seen: None,
    };
    let missing: Vec<_> = case.needs.iter().filter(|need| !on.can(need)).cloned().collect();
    let ran = if missing.is_empty() { steps(file, case, on) } else { Ok(missing) };
    match ran {
        Ok(missing) if missing.is_empty() => {}
        // A case of which a step was left out has not passed.
        Ok(missing) => {
            report.outcome = Outcome::Skipped;
            report.expected = Some(format!("needs {}", missing.join(", ")));
        }
        Err((step, failure)) => {
            report.outcome = Outcome::Failed;
            report.step = Some(step);
            report.expected = failure.expected;
            report.seen = failure.seen;
        }
    }
    report
}

/// Runs a case's steps. What some of them need that is not there.
fn steps(
    file: &File,
    case: &Case,
    on: &mut dyn Execution,
) -> Result<Vec<String>, (usize, Failure)> {
    let at = |step: usize| move |failure: Failure| (step, failure);
    if let Some(fault) = &case.fault {
        return Err((0, fault.clone().into()));
    }
    let topology = file.topologies.get(&case.topology).cloned();
    let missing = || Failure::from(format!("no topology is called `{}`", case.topology));
    let topology = topology.ok_or_else(|| (0, missing()))?;
    let mut with = topology;
    for op in &case.with {
        let op = Op::read(op).map_err(Failure::from).map_err(at(0))?;
        op.apply(&mut with).map_err(Failure::from).map_err(at(0))?;
    }
    let needs = World::needs(&with).map_err(Failure::from).map_err(at(0))?;
    let missing: Vec<_> = needs.into_iter().filter(|need| !on.can(need)).collect();
    if !missing.is_empty() {
        return Ok(missing.into_iter().map(ToOwned::to_owned).collect());
    }
    let world = World::new(with, on).map_err(Failure::from).map_err(at(0))?;
    let mut run = Run { world, flows: Flows::default(), late: Vec::new(), missing: Vec::new() };
    for (i, step) in case.steps.iter().enumerate() {
        // What follows would not be what the case tells.
        if step.get("after_s").and_then(seconds).is_some_and(|span| !run.world.on.can_wait(span)) {
            run.missing.push("time".to_owned());
            return Ok(run.missing);
        }
        run.step(step).map_err(at(i + 1))?;
    }
    let last = case.steps.len();
    if let Some(it) = run.late.first() {
        let failure = Failure {
            expected: Some(format!("{} gets what was said to come later", it.port)),
            seen: Some("it did not come".to_owned()),
        };
        return Err((last, failure));
    }
    run.world.on.end().map_err(Failure::from).map_err(at(last))?;
    Ok(run.missing)
}

fn seconds(node: &Node) -> Option<Span> {
    number(node).map(|seconds| Span::from_nanos((seconds * 1e9) as u64))
}

/// A case that is being run.
pub struct Run<'a> {
    pub world: World<'a>,
    pub flows: Flows,
    /// What is still to come.
    late: Vec<Expected>,
    /// What steps needed that is not there: they were left out.
    missing: Vec<String>,
}

impl Run<'_> {
    fn step(&mut self, step: &Node) -> Result<(), Failure> {
        let Value::Map(entries) = &step.value else {
            return Err("a step is a map, as { send: { from: a1, to: b1 } }".to_owned().into());
        };
        let own = step.get("needs").map(words).unwrap_or_default();
        let needs: Vec<String> =
            own.into_iter().chain(self.world.network.needs().map(ToOwned::to_owned)).collect();
        if let Some(missing) = needs.into_iter().find(|need| !self.world.on.can(need)) {
            self.missing.push(missing);
            return Ok(());
        }
        let mut actions = entries.iter().filter(|(key, _)| !BESIDES.contains(&key.text.as_str()));
        let action = actions.next();
        let asks = action.is_some_and(|(key, _)| key.text == INSPECT);
        if asks && !self.world.on.can(INSPECT) {
            self.missing.push(INSPECT.to_owned());
            return Ok(());
        }
        if let Some((other, _)) = actions.next() {
            return Err(format!("a step does one thing: `{}` is another", other.text).into());
        }
        if let Some(span) = step.get("after_s").and_then(seconds) {
            self.world.on.wait(span);
        }
        let Some((key, what)) = action else { return Ok(()) };
        let times =
            step.get("repeat").and_then(number).map_or(1, |it| it as usize).clamp(1, 10_000);
        let is_alike = step.get("all_alike").is_some_and(|it| it.value == Value::Bool(true));
        let mut first = None;
        for _ in 0..times {
            self.flows.tick(&mut self.world)?;
            let way = self.act(&key.text, what, step)?;
            let first = first.get_or_insert_with(|| way.clone());
            if is_alike && *first != way {
                return fail(format!("each time as at first: {first}"), way);
            }
        }
        Ok(())
    }

    /// Does what a step says, and holds what comes of it against what is expected. A word for the
    /// way that it went, where several are expected.
    fn act(&mut self, action: &str, what: &Node, step: &Node) -> Result<String, Failure> {
        let what = self.world.resolve(what)?;
        match action {
            "change" => {
                let ops: Vec<Node> = match &what.value {
                    Value::List(items) => items.iter().map(|(_, it)| it.clone()).collect(),
                    _ => alloc::vec![what],
                };
                for op in &ops {
                    let op = Op::read(op)?;
                    self.world.change(&op)?;
                    self.flows.tick(&mut self.world)?;
                }
                Ok(String::new())
            }
            "send" => self.send(&what, step),
            "stream" => {
                known(action, &what)?;
                self.flows.stream(&mut self.world, &what).map(|()| String::new())
            }
            "inspect" | "ping" | "open" | "talk" | "stop" => {
                known(action, &what)?;
                let told = match action {
                    "ping" => self.flows.ping(&mut self.world, &what)?,
                    "open" => self.flows.open(&mut self.world, &what)?,
                    "talk" => self.flows.talk(&mut self.world, &what)?,
                    "stop" => self.flows.stop(&mut self.world, &what)?,
                    _ => self.inspect(&what)?,
                };
                let alternatives = self.alternatives(step)?;
                hold(&alternatives, &told)
            }
            other => Err(format!(
                "`{other}` is no step: write send, ping, open, talk, stream, stop, change or inspect"
            )
            .into()),
        }
    }

    /// What is expected: one of these.
    fn alternatives(&self, step: &Node) -> Result<Vec<Node>, Failure> {
        let expect = step.get("expect").map(|it| self.world.resolve(it)).transpose()?;
        let either = expect
            .as_ref()
            .and_then(|it| it.get("either"))
            .cloned()
            .or_else(|| step.get("either").cloned());
        match either.map(|it| self.world.resolve(&it)).transpose()?.map(|it| it.value) {
            Some(Value::List(items)) => {
                // What is said beside the alternatives holds with each.
                let shared: Vec<_> = match expect.map(|it| it.value) {
                    Some(Value::Map(entries)) => {
                        entries.into_iter().filter(|(key, _)| key.text != "either").collect()
                    }
                    _ => Vec::new(),
                };
                Ok(items
                    .into_iter()
                    .map(|(_, mut it)| {
                        let inner = it.take("expect");
                        let mut it = inner.unwrap_or(it);
                        if let Value::Map(entries) = &mut it.value {
                            entries.extend(shared.clone());
                        }
                        it
                    })
                    .collect())
            }
            Some(_) => Err("`either` is a list of what may be".to_owned().into()),
            None => Ok(expect.into_iter().collect()),
        }
    }

    fn send(&mut self, what: &Node, step: &Node) -> Result<String, Failure> {
        let mut what = what.clone();
        let mut field =
            |name: &str| what.take(name).and_then(|it| it.text().map(ToOwned::to_owned));
        let from = field("from").ok_or_else(|| "a frame has a sender: write `from`".to_owned())?;
        let (to, via) = (field("to"), field("via"));
        let told = Told::read(&what)?;
        let world = &mut self.world;
        let own = world.addresses(&from);
        let others = to.as_ref().map(|to| world.addresses(to)).unwrap_or_default();
        let mac = world.mac(&from).ok_or_else(|| format!("no port is called `{from}`"))?;
        let next = via.as_ref().or(to.as_ref());
        let next = match next {
            Some(name) => Some(
                world.mac(name).ok_or_else(|| format!("nobody is called `{name}`, or has it"))?,
            ),
            None => None,
        };
        let v4 = |all: &[core::net::IpAddr]| {
            all.iter().find_map(|it| match it {
                core::net::IpAddr::V4(it) => Some(*it),
                core::net::IpAddr::V6(_) => None,
            })
        };
        let v6 = |all: &[core::net::IpAddr]| {
            all.iter().find_map(|it| match it {
                core::net::IpAddr::V6(it) => Some(*it),
                core::net::IpAddr::V4(_) => None,
            })
        };
        let link = wire::neighbor::link_local;
        let ends = Ends {
            macs: (mac, next),
            v4: (v4(&own), v4(&others)),
            v6: (
                v6(&own).or_else(|| v4(&own).is_none().then(|| link(mac))),
                v6(&others).or_else(|| v4(&others).is_none().then_some(next).flatten().map(link)),
            ),
        };
        let frame = told.write(&ends)?;
        world.send(&from, alloc::vec![frame.clone()])?;
        let mut seen = world.on.receive()?;
        // What was to come with a following step.
        self.late.retain(|it| {
            let single = core::slice::from_ref(it);
            let place = seen.iter().position(|one| {
                let now = [one.clone()];
                matching::compare(&self.world, &now, single, false, false)
                    .is_ok_and(|(difference, late)| difference.is_none() && late.is_empty())
            });
            if let Some(place) = place {
                seen.remove(place);
            }
            place.is_none()
        });
        let alternatives = self.alternatives(step)?;
        if alternatives.is_empty() {
            return Ok(String::new());
        }
        let is_right = wire::whole::fault(&frame).is_none();
        let mut first = None;
        for (i, expect) in alternatives.iter().enumerate() {
            let says =
                |node: &Node| node.get("strict").is_some_and(|it| it.value == Value::Bool(true));
            known("send", expect)?;
            let expected = matching::read(expect, &frame)?;
            let is_strict = says(expect) || says(step);
            let (difference, late) =
                matching::compare(&self.world, &seen, &expected, is_strict, is_right)?;
            if difference.is_none() {
                self.late.extend(late);
                return Ok(i.to_string());
            }
            first = first.or(Some(difference));
        }
        let difference = first.unwrap_or_default();
        Err(Failure {
            expected: joined(&difference.expected)
                .or_else(|| Some("nobody else gets anything".into())),
            seen: joined(&difference.seen).or_else(|| Some("it did not come".into())),
        })
    }

    fn inspect(&mut self, what: &Node) -> Result<BTreeMap<&'static str, String>, Failure> {
        let Some(about) = what.get("connections") else {
            return Err("`inspect` asks for connections: write { connections: { port: a1 } }"
                .to_owned()
                .into());
        };
        let port = about.get("port").and_then(Node::text).or_else(|| about.text());
        let port = port.ok_or_else(|| "write whose connections: `port`".to_owned())?;
        let known = self.world.on.connections(port)?;
        let about = about.get("about").cloned();
        let known: Vec<_> = known
            .into_iter()
            .filter(|it| {
                about
                    .as_ref()
                    .is_none_or(|about| self.flows.is_about(&self.world, about, &it.tuple))
            })
            .collect();
        let mut told = BTreeMap::from([("count", known.len().to_string())]);
        if let Some(first) = known.first() {
            told.insert("state", first.state.to_owned());
        }
        Ok(told)
    }
}

/// Refuses words that a step of a kind has not: a mistake must not pass for what was meant.
fn known(action: &str, what: &Node) -> Result<(), Failure> {
    let words: &[&str] = match action {
        "send" => &["deliver", "answer", "strict", "note"],
        "ping" => &["from", "to", "via", "proto", "src", "ttl", "size", "family", "ip6"],
        "open" | "stream" => {
            &["as", "from", "to", "via", "proto", "src", "sport", "dport", "family", "ip6"]
        }
        "talk" => &["on"],
        "stop" => &["as"],
        _ => &["connections"],
    };
    let Value::Map(entries) = &what.value else { return Ok(()) };
    match entries.iter().find(|(key, _)| !words.contains(&key.text.as_str())) {
        Some((key, _)) => {
            Err(format!("`{}` is not known here: write {}", key.text, words.join(", ")).into())
        }
        None => Ok(()),
    }
}

/// Holds what a step told against what may be.
fn hold(alternatives: &[Node], told: &BTreeMap<&'static str, String>) -> Result<String, Failure> {
    let mut first = None;
    for (i, expect) in alternatives.iter().enumerate() {
        match mismatch(expect, told)? {
            None => return Ok(i.to_string()),
            wrong => first = first.or(wrong),
        }
    }
    let all: Vec<_> = told.iter().map(|(key, value)| format!("{key} {value}")).collect();
    match first {
        Some((expected, seen)) => fail(expected, seen),
        None => Ok(all.join(", ")),
    }
}

/// The first thing that is not as expected: that, and what is.
fn mismatch(
    expect: &Node,
    told: &BTreeMap<&'static str, String>,
) -> Result<Option<(String, String)>, Failure> {
    let Value::Map(entries) = &expect.value else {
        return Err("`expect` is a map, as { result: open }".to_owned().into());
    };
    for (key, wanted) in entries {
        if matches!(key.text.as_str(), "strict" | "note") {
            continue;
        }
        if let Value::Map(inner) = &wanted.value {
            for (name, wanted) in inner {
                let key = format!("{}.{}", key.text, short(&name.text));
                if let Some(wrong) = one_mismatch(&key, wanted, told)? {
                    return Ok(Some(wrong));
                }
            }
            continue;
        }
        if let Some(wrong) = one_mismatch(&key.text, wanted, told)? {
            return Ok(Some(wrong));
        }
    }
    Ok(None)
}

/// The last word of a field's name, as results have it.
fn short(name: &str) -> &str {
    match name.rsplit('.').next().unwrap_or(name) {
        "address" | "ip" | "from" => "src",
        "port" => "sport",
        word => word,
    }
}

fn one_mismatch(
    key: &str,
    wanted: &Node,
    told: &BTreeMap<&'static str, String>,
) -> Result<Option<(String, String)>, Failure> {
    let is = told.get(key).cloned();
    let words: Vec<String> = match &wanted.value {
        Value::List(items) => items.iter().map(|(_, it)| word(it)).collect(),
        _ => alloc::vec![word(wanted)],
    };
    let Some(is) = is else {
        let nothing = words.iter().any(|it| matches!(it.as_str(), "none" | "false" | "null" | "0"));
        return Ok((!nothing).then(|| (format!("{key} {}", words.join(" or ")), "nothing".into())));
    };
    let fits = words.iter().any(|word| fits(word, &is));
    Ok((!fits).then(|| (format!("{key} {}", words.join(" or ")), format!("{key} {is}"))))
}

/// Whether a value is as a word says: the same, or in a bound such as `>0`.
fn fits(word: &str, is: &str) -> bool {
    let bound =
        |prefix: &str| word.strip_prefix(prefix).and_then(|it| it.trim().parse::<f64>().ok());
    let value = is.parse::<f64>().ok();
    let by = |prefix: &str, holds: fn(f64, f64) -> bool| Some(holds(value?, bound(prefix)?));
    let in_bound = by(">=", |is, bound| is >= bound)
        .or_else(|| by("<=", |is, bound| is <= bound))
        .or_else(|| by(">", |is, bound| is > bound))
        .or_else(|| by("<", |is, bound| is < bound));
    let some =
        (word == "some" && value.is_some_and(|it| it > 0.0)) || (word == "none" && is == "0");
    in_bound.unwrap_or(word == is) || some
}

fn word(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Unsigned(number) => number.to_string(),
        Value::Signed(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::List(_) | Value::Map(_) => "…".into(),
    }
}
