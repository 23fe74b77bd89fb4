//! `zovn get objects`, `zovn delete object`, `zovn watch`, `zovn whoami`, and `zovn apply -f` where
//! a controller is said: the objects that a controller keeps.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use api::{Asked, RemoteError};
use hyper::Method;
use logical::objects::{Identity, Kind, Name, Owner};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::{Asking, ContextArgs};
use crate::ending::{Outcome, print_json, show};
use crate::net::files;
use crate::table::{headed, text};

/// Which objects, and whose.
#[derive(clap::Args)]
pub struct GetArgs {
    /// A kind, as `LogicalPort` or `logical-ports`; or one object, as `LogicalPort/shop/web-1`.
    what: String,
    /// Whose; the context's tenant if nothing is said.
    #[arg(long, value_name = "NAME")]
    tenant: Option<Name>,
    /// Print them as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    context: ContextArgs,
}

/// Remove an object that a controller keeps. What others refer to stays.
#[derive(clap::Args)]
pub struct DeleteArgs {
    /// The object, as `LogicalPort/shop/web-1`; without a tenant, the context's is meant.
    object: String,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    context: ContextArgs,
}

const WATCH_EXAMPLES: &str = "\
Examples:
  zovn watch logical-ports --tenant shop     a line for each change, until Ctrl-C
  zovn watch TransportNode --json            the changed objects, a line of JSON each";

/// Show what changes of a kind of objects that a controller keeps, until Ctrl-C.
#[derive(clap::Args)]
#[command(after_long_help = WATCH_EXAMPLES)]
pub struct WatchArgs {
    /// A kind, as `LogicalPort` or `logical-ports`.
    kind: String,
    /// Whose; the context's tenant if nothing is said.
    #[arg(long, value_name = "NAME")]
    tenant: Option<Name>,
    /// Print each change as a line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    context: ContextArgs,
}

/// Show as whom a controller is asked.
#[derive(clap::Args)]
pub struct WhoamiArgs {
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    context: ContextArgs,
}

type Failure = Box<dyn Error + Send + Sync>;

/// Why a word is not understood.
#[derive(Debug, thiserror::Error)]
enum WordError {
    /// It is no kind.
    #[error("`{0}` is no kind of object: they are {known}", known = kinds())]
    Kind(String),
    /// It is no object.
    #[error("`{0}` is no object: write it as `LogicalPort/shop/web-1`, or `TransportNode/h1`")]
    Object(String),
    /// Nobody is said.
    #[error("{0}s are a tenant's: say whose by `--tenant`")]
    Whose(&'static str),
}

fn kinds() -> String {
    Kind::ALL.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ")
}

/// A kind, by its name or its word in paths.
fn kind(word: &str) -> Result<Kind, WordError> {
    let is_it = |it: &&Kind| it.name().eq_ignore_ascii_case(word) || it.path() == word;
    Kind::ALL.iter().find(is_it).copied().ok_or_else(|| WordError::Kind(word.into()))
}

/// The path of a kind's objects.
fn shelf(kind: Kind, tenant: Option<&Name>) -> Result<String, WordError> {
    match (kind.owner(), tenant) {
        (Owner::Tenant, None) => Err(WordError::Whose(kind.name())),
        (Owner::Tenant | Owner::Either, Some(tenant)) => {
            Ok(format!("/v1/tenants/{tenant}/{}", kind.path()))
        }
        (Owner::Operator, _) | (Owner::Either, None) => Ok(format!("/v1/{}", kind.path())),
    }
}

/// The path of an object, by a word for it.
fn object(word: &str, tenant: Option<&Name>) -> Result<String, WordError> {
    let none = || WordError::Object(word.into());
    let (of, rest) = word.split_once('/').ok_or_else(none)?;
    let kind = kind(of)?;
    let identity: Identity = format!("{}/{rest}", kind.name()).parse().map_err(|_| none())?;
    let tenant = match (&identity.tenant, kind.owner()) {
        (Some(_), Owner::Operator) => return Err(none()),
        (Some(tenant), _) => Some(tenant),
        (None, Owner::Tenant) => tenant,
        (None, _) => None,
    };
    Ok(format!("{}/{}", shelf(kind, tenant)?, identity.name))
}

/// A page of objects.
#[derive(Deserialize)]
struct Page {
    items: Vec<Value>,
    #[serde(rename = "continue")]
    more: Option<String>,
}

/// Shows a kind's objects, or one.
pub fn get(args: &GetArgs) -> Outcome {
    let Asking { client, tenant } = args.context.asking()?;
    let tenant = args.tenant.clone().or(tenant);
    if args.what.contains('/') {
        let (_, object) = refusable(client.object(&object(&args.what, tenant.as_ref())?))?;
        print_json(&object)?;
        return Ok(ExitCode::SUCCESS);
    }
    let shelf = shelf(kind(&args.what)?, tenant.as_ref())?;
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let page = Asked::get(format!("{shelf}?limit=1000{next}"));
        let Page { items, more } = refusable(client.ask(page))?;
        all.extend(items);
        let Some(more) = more else { break };
        let after = format!("&continue={more}");
        if after == next {
            return Err(
                "the controller tells the same page again and again: look at its log".into()
            );
        }
        next = after;
    }
    show(&all, args.json, || table(&all))?;
    Ok(ExitCode::SUCCESS)
}

/// Objects, a line each.
fn table(all: &[Value]) -> String {
    let mut table = headed(["object", "revision", "labels"]);
    for it in all {
        let metadata = &it["metadata"];
        let labels = metadata["labels"].as_object().map_or("–".into(), |labels| {
            let word = |(key, value): (&String, &Value)| {
                format!("{key}={}", value.as_str().unwrap_or_default())
            };
            plain(&labels.iter().map(word).collect::<Vec<_>>().join(","))
        });
        table.add_row([name(it), metadata["revision"].to_string(), labels]);
    }
    text(table)
}

/// An object's name, as `LogicalPort/shop/web-1`.
pub fn name(object: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // One that is gone is told without what it was.
    let metadata = object.get("metadata").unwrap_or(object);
    let parts = [&object["kind"], &metadata["tenant"], &metadata["name"]].map(word);
    plain(&parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/"))
}

/// What somebody else wrote, without what would have a terminal do anything else than show it.
fn plain(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// Tells all that a controller has said against something, and that it failed.
fn refusable<T>(answered: Result<T, RemoteError>) -> Result<T, Failure> {
    told(answered, |line| format!("line {line}: "))
}

/// The same, with lines of what was sent told in other words.
fn told<T>(answered: Result<T, RemoteError>, place: impl Fn(u64) -> String) -> Result<T, Failure> {
    let refused = match answered {
        Ok(answer) => return Ok(answer),
        Err(RemoteError::Refused(refused)) => refused,
        Err(error) => return Err(error.into()),
    };
    let mut out = io::stderr().lock();
    for it in &refused.errors {
        let line = it.line.map_or_else(String::new, &place);
        writeln!(out, "{line}{}", plain(&format!("{}{}: {}", it.object, it.path, it.message)))?;
    }
    Err(plain(&refused.detail).into())
}

/// What a write has done.
#[derive(Deserialize, Serialize)]
struct Applied {
    revision: u64,
    objects: Vec<AppliedObject>,
}

#[derive(Deserialize, Serialize)]
struct AppliedObject {
    object: String,
    change: String,
}

impl Applied {
    fn said(&self, is_dry: bool) -> String {
        let changed = self.objects.iter().filter(|it| it.change != "unchanged");
        let mut lines: Vec<_> = changed
            .map(|it| {
                let sign = match it.change.as_str() {
                    "created" => '+',
                    "deleted" => '-',
                    _ => '~',
                };
                format!("{sign} {}", plain(&it.object))
            })
            .collect();
        let (revision, count) = (self.revision, self.objects.len());
        lines.push(match is_dry {
            true => format!("a dry run: revision {revision} stays (objects: {count})"),
            false => format!("revision {revision} (objects: {count})"),
        });
        lines.join("\n")
    }
}

/// Removes an object, as it is now.
pub fn delete(args: &DeleteArgs) -> Outcome {
    let Asking { client, tenant } = args.context.asking()?;
    let path = object(&args.object, tenant.as_ref())?;
    // Of what somebody else changes in the meantime nothing is removed.
    let (tag, _) = refusable(client.object(&path))?;
    let if_match = Some(tag.as_str());
    let asked = Asked { method: Method::DELETE, path, if_match, body: Vec::new() };
    let applied: Applied = refusable(client.ask(asked))?;
    show(&applied, args.json, || applied.said(false))?;
    Ok(ExitCode::SUCCESS)
}

/// Has a controller keep files' objects, beside those that it has.
pub fn apply(asking: &Asking, paths: &[PathBuf], is_dry: bool, json: bool) -> Outcome {
    let mut body = String::new();
    // The lines before each file's own.
    let mut before = Vec::new();
    for path in paths {
        if !body.is_empty() {
            body.push_str("\n---\n");
        }
        before.push(body.matches('\n').count() as u64);
        body.push_str(&files::read(path)?);
    }
    let place = |line: u64| {
        let file = before.partition_point(|it| *it < line).saturating_sub(1);
        let (path, line) = (paths[file].display(), line.saturating_sub(before[file]));
        format!("{path}:{line}: ")
    };
    let path = format!("/v1/apply?dry_run={is_dry}");
    let asked = Asked { method: Method::POST, path, if_match: None, body: body.into_bytes() };
    let applied: Result<Applied, _> = asking.client.ask(asked);
    let refusal = applied.as_ref().err();
    // The files say what cannot be: whoever wrote them is told, as of flags.
    let is_usage =
        matches!(refusal, Some(RemoteError::Refused(it)) if matches!(it.status, 400 | 422));
    let applied = match told(applied, place) {
        Err(error) if is_usage => return Ok(zovn_agent::end("zovn", error.as_ref(), true)),
        applied => applied?,
    };
    show(&applied, json, || applied.said(is_dry))?;
    Ok(ExitCode::SUCCESS)
}

/// Shows what changes.
pub fn watch(args: &WatchArgs) -> Outcome {
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

/// Who asks.
#[derive(Deserialize, Serialize)]
struct Who {
    name: String,
    role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
}

/// Shows who asks.
pub fn whoami(args: &WhoamiArgs) -> Outcome {
    let Asking { client, .. } = args.context.asking()?;
    let who: Who = refusable(client.ask(Asked::get("/v1/whoami")))?;
    show(&who, args.json, || {
        let of = who.tenant.as_ref().map(|it| format!(" of tenant {it}"));
        let of = of.or_else(|| who.node.as_ref().map(|it| format!(" of node {it}")));
        format!("{}, {}{}", who.name, who.role, of.unwrap_or_default())
    })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lead_to_paths() {
        let shop: Name = "shop".parse().unwrap();
        for (word, tenant, path) in [
            ("LogicalPort/shop/web-1", None, "/v1/tenants/shop/logical-ports/web-1"),
            ("logical-ports/web-1", Some(&shop), "/v1/tenants/shop/logical-ports/web-1"),
            ("logicalport/b/web-1", Some(&shop), "/v1/tenants/b/logical-ports/web-1"),
            ("TransportNode/h1", Some(&shop), "/v1/transport-nodes/h1"),
            ("Policy/in", Some(&shop), "/v1/policies/in"),
            ("Policy/shop/in", None, "/v1/tenants/shop/policies/in"),
        ] {
            assert_eq!(object(word, tenant).unwrap(), path);
        }
        for (word, problem) in [
            ("LogicalPort", "is no object"),
            ("LogicalPort/web-1", "say whose"),
            ("Port/shop/web-1", "is no kind of object"),
            ("TransportNode/shop/h1", "is no object"),
            ("LogicalPort/shop/../x", "is no object"),
        ] {
            let error = object(word, None).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        assert_eq!(plain("a\u{1b}[2Jb\u{9b}"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(shelf(kind("tenants").unwrap(), Some(&shop)).unwrap(), "/v1/tenants");
    }
}
