//! `zovn whoami`: as whom a controller is asked.

use std::process::ExitCode;

use api::{Asked, RemoteClient};
use logical::objects::Name;
use serde::{Deserialize, Serialize};

use super::said::{Failure, refusable};
use crate::context::{Asking, ContextArgs};
use crate::ending::{Outcome, show};

/// Show as whom a controller is asked.
#[derive(clap::Args)]
pub struct Args {
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    context: ContextArgs,
}

/// Who asks.
#[derive(Deserialize, Serialize)]
pub struct Who {
    name: String,
    role: String,
    /// The tenant whose objects they see, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
}

/// As whom a controller is asked.
pub fn who(client: &RemoteClient) -> Result<Who, Failure> {
    refusable(client.ask(Asked::get("/v1/whoami")))
}

/// Shows who asks.
pub fn run(args: &Args) -> Outcome {
    let Asking { client, .. } = args.context.asking()?;
    let who = who(&client)?;
    show(&who, args.json, || {
        let of = who.tenant.as_ref().map(|it| format!(" of tenant {it}"));
        let of = of.or_else(|| who.node.as_ref().map(|it| format!(" of node {it}")));
        format!("{}, {}{}", who.name, who.role, of.unwrap_or_default())
    })?;
    Ok(ExitCode::SUCCESS)
}
