//! Names of what a controller keeps, as a shell completes them: those that who asks may see.
//!
//! ```text
//! Logical ─▶ LogicalPort/ ─▶ LogicalPort/shop/ ─▶ LogicalPort/shop/web-1
//! ```

use api::{Asked, RemoteClient};
use clap_complete::ArgValueCompleter;
use logical::objects::{Kind, Name, Owner};
use serde::Deserialize;

use super::whoami::Who;
use super::word::{kind, shelf};
use crate::completion::{by, said};
use crate::context::{Asking, ContextArgs};

/// Completes an object.
pub fn object() -> ArgValueCompleter {
    by(objects)
}

/// Completes a kind, or an object.
pub fn kind_or_object() -> ArgValueCompleter {
    by(|begun| {
        let mut found = objects(begun)?;
        if !begun.contains('/') {
            found.extend(kinds());
        }
        Some(found)
    })
}

/// Completes a kind.
pub fn one_kind() -> ArgValueCompleter {
    by(|_| Some(kinds()))
}

/// Completes a tenant.
pub fn tenant() -> ArgValueCompleter {
    by(|_| tenants(&asking()?.client))
}

/// Completes a logical port, as `shop/web-1`.
pub fn port() -> ArgValueCompleter {
    by(|begun| of_tenants(&asking()?, Kind::LogicalPort, "", begun))
}

/// Kinds, by their words in paths.
fn kinds() -> Vec<String> {
    Kind::ALL.iter().map(|it| it.path().to_owned()).collect()
}

/// The controller that the line is for, and the tenant that it means.
fn asking() -> Option<Asking> {
    let Asking { client, tenant } = ContextArgs::named(said("--context")).asking().ok()?;
    let said = said("--tenant").and_then(|it| it.parse().ok());
    Some(Asking { client, tenant: said.or(tenant) })
}

/// What an object's word may go on with.
fn objects(begun: &str) -> Option<Vec<String>> {
    let Some((word, rest)) = begun.split_once('/') else {
        return Some(Kind::ALL.iter().map(|it| format!("{}/", it.name())).collect());
    };
    let (kind, asking) = (kind(word).ok()?, asking()?);
    let before = format!("{word}/");
    let mut found = Vec::new();
    if kind == Kind::Tenant {
        found.extend(tenants(&asking.client)?.into_iter().map(|it| before.clone() + &it));
    } else if kind.owner() != Owner::Tenant {
        // A tenant does not see the operator's.
        let names = shelf(kind, None).ok().and_then(|it| list(&asking.client, &it));
        found.extend(names.into_iter().flatten().map(|it| before.clone() + &it));
    }
    if kind.owner() != Owner::Operator {
        found.extend(of_tenants(&asking, kind, &before, rest).into_iter().flatten());
    }
    Some(found)
}

/// Objects of the one tenant that is meant, or tenants whose objects they may be; each behind this.
/// Without a tenant an object is the context's, if such objects are tenants' alone.
fn of_tenants(asking: &Asking, kind: Kind, before: &str, begun: &str) -> Option<Vec<String>> {
    let Asking { client, tenant } = asking;
    let tenant: Name = match (begun.split_once('/'), tenant) {
        (Some((tenant, _)), _) => tenant.parse().ok()?,
        (None, Some(tenant)) => tenant.clone(),
        (None, None) => {
            let all = tenants(client)?;
            let [one] = all.as_slice() else {
                return Some(all.iter().map(|it| format!("{before}{it}/")).collect());
            };
            one.parse().ok()?
        }
    };
    let names = list(client, &shelf(kind, Some(&tenant)).ok()?)?;
    let is_short = kind.owner() == Owner::Tenant && !begun.contains('/') && asking.tenant.is_some();
    let short = names.iter().filter(|_| is_short).map(|it| format!("{before}{it}"));
    Some(names.iter().map(|it| format!("{before}{tenant}/{it}")).chain(short).collect())
}

/// The tenants that who asks may see.
fn tenants(client: &RemoteClient) -> Option<Vec<String>> {
    // What is refused is not told.
    let who: Who = client.ask(Asked::get("/v1/whoami")).ok()?;
    match who.tenant {
        Some(own) => Some(vec![own.to_string()]),
        None => list(client, "/v1/tenants"),
    }
}

/// A page of objects, of which the names are looked at.
#[derive(Deserialize)]
struct Page {
    items: Vec<Named>,
    #[serde(rename = "continue")]
    more: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: Name,
}

/// The names at a path.
fn list(client: &RemoteClient, shelf: &str) -> Option<Vec<String>> {
    let (mut names, mut next) = (Vec::new(), String::new());
    loop {
        let page = client.ask(Asked::get(format!("{shelf}?limit=1000{next}"))).ok()?;
        let Page { items, more } = page;
        names.extend(items.into_iter().map(|it| it.metadata.name.to_string()));
        let Some(more) = more else { return Some(names) };
        next = format!("&continue={more}");
    }
}
