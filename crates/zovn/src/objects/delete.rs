//! `zovn delete object`: removes an object that a controller keeps.

use std::process::ExitCode;

use api::{Asked, RemoteClient};
use hyper::Method;

use super::applied::Applied;
use super::names;
use super::said::{Failure, refusable};
use super::word::object;
use crate::context::{Asking, ContextArgs};
use crate::ending::{Outcome, show};

/// Remove an object that a controller keeps. What others refer to stays, unless they go, too.
#[derive(clap::Args)]
pub struct Args {
    /// The object, as `LogicalPort/shop/web-1`; without a tenant, the context's is meant.
    #[arg(add = names::object())]
    object: String,
    /// Remove with it all of its owner that needs it, and what needs that.
    #[arg(long)]
    cascade: bool,
    /// Remove nothing: say what would go.
    #[arg(long)]
    dry_run: bool,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    context: ContextArgs,
}

/// Removes an object, as it is now.
pub fn run(args: &Args) -> Outcome {
    let Asking { client, tenant } = args.context.asking()?;
    let path = object(&args.object, tenant.as_ref())?;
    // Of what somebody else changes in the meantime nothing is removed.
    let (tag, _) = refusable(client.object(&path))?;
    let (cascade, is_dry) = (args.cascade, args.dry_run);
    let applied = delete(&client, &path, cascade, is_dry, Some(&tag))?;
    show(&applied, args.json, || applied.said(is_dry))?;
    Ok(ExitCode::SUCCESS)
}

/// Removes the object at a path, if it is as its tag says; or says what that would remove.
pub fn delete(
    client: &RemoteClient,
    path: &str,
    cascade: bool,
    is_dry: bool,
    if_match: Option<&str>,
) -> Result<Applied, Failure> {
    let path = format!("{path}?cascade={cascade}&dryRun={is_dry}");
    let asked = Asked { method: Method::DELETE, path, if_match, body: Vec::new() };
    refusable(client.ask(asked))
}
