//! `zovn get objects`: objects that a controller keeps.

use std::io::{self, Write};
use std::process::ExitCode;

use api::{Asked, RemoteClient};
use logical::objects::{Kind, Name, Owner};
use serde::Deserialize;
use serde_json::Value;

use super::said::{Failure, name, plain, refusable};
use super::word::{kind, object, shelf};
use super::{names, whoami, yaml};
use crate::context::{Asking, ContextArgs};
use crate::ending::{Outcome, print_json, show};
use crate::table::{headed, text};

/// Which objects, and whose.
#[derive(clap::Args)]
pub struct Args {
    /// A kind, as `LogicalPort`, `logical-ports` or `lp`; one object, as `LogicalPort/shop/web-1`;
    /// or, if nothing is said, all that the token and the tenant allow, kind by kind.
    #[arg(add = names::kind_or_object())]
    what: Option<String>,
    /// Whose; the context's tenant if nothing is said.
    #[arg(long, value_name = "NAME", add = names::tenant())]
    tenant: Option<Name>,
    /// Print them as JSON, with what the controller writes of them.
    #[arg(long)]
    json: bool,
    /// Print them as a file that `zovn apply -f` takes: as they are declared.
    #[arg(long, conflicts_with = "json")]
    yaml: bool,
    #[command(flatten)]
    context: ContextArgs,
}

/// Shows a kind's objects, or one.
pub fn run(args: &Args) -> Outcome {
    let Asking { client, tenant } = args.context.asking()?;
    let tenant = args.tenant.clone().or(tenant);
    let all = match &args.what {
        Some(one) if one.contains('/') => {
            let (_, object) = refusable(client.object(&object(one, tenant.as_ref())?))?;
            if !args.yaml {
                print_json(&object)?;
                return Ok(ExitCode::SUCCESS);
            }
            vec![object]
        }
        Some(one) => all(&client, &shelf(kind(one)?, tenant.as_ref())?)?,
        None => everything(&client, tenant)?,
    };
    if args.yaml {
        let all: Vec<_> = all.into_iter().map(yaml::declared).collect();
        write!(io::stdout(), "{}", yaml::documents(&all))?;
    } else {
        show(&all, args.json, || table(&all))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The objects of a tenant, or all that there are.
fn everything(client: &RemoteClient, tenant: Option<Name>) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    let tenants = match whoami::who(client)?.tenant.or(tenant) {
        Some(one) => vec![one],
        None => {
            for kind in Kind::ALL.iter().filter(|it| it.owner() != Owner::Tenant) {
                found.extend(all(client, &shelf(*kind, None)?)?);
            }
            let tenants = found.iter().filter(|it| it["kind"] == Kind::Tenant.name());
            let names = tenants.filter_map(|it| it["metadata"]["name"].as_str());
            names.map(str::parse).collect::<Result<_, _>>()?
        }
    };
    for tenant in &tenants {
        for kind in Kind::ALL.iter().filter(|it| it.owner() != Owner::Operator) {
            found.extend(all(client, &shelf(*kind, Some(tenant))?)?);
        }
    }
    Ok(found)
}

/// A page of objects.
#[derive(Deserialize)]
struct Page {
    items: Vec<Value>,
    #[serde(rename = "continue")]
    more: Option<String>,
}

/// All objects at a path, of one revision.
fn all(client: &RemoteClient, shelf: &str) -> Result<Vec<Value>, Failure> {
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let page = Asked::get(format!("{shelf}?limit=1000{next}"));
        let Page { items, more } = refusable(client.ask(page))?;
        all.extend(items);
        let Some(more) = more else { return Ok(all) };
        let after = format!("&continue={more}");
        if after == next {
            return Err(
                "the controller tells the same page again and again: look at its log".into()
            );
        }
        next = after;
    }
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
