//! `zovn explain`: what becomes of a packet by the objects that a controller keeps, and why.

use std::net::IpAddr;

use api::Asked;
use clap::Subcommand;
use controller::{Explained, ObjectHost};
use logical::objects::Name;
use reach::{Explanation, Remedy};

use crate::context::{Asking, ContextArgs};
use crate::ending::{Outcome, show};
use crate::net::packet::Sent;
use crate::net::trace::{exit, told};
use crate::objects::{names, refusable};

const EXAMPLES: &str = "\
Examples:
  zovn explain port shop/web-1 --to shop/db-1 --tcp 5432    which objects let it through, or do not
  zovn explain port web-1 --to 10.0.2.1                     an echo request, of the context's tenant
  zovn explain port shop/web-1 --to db-1 --udp 53 --json | jq .remedy

Exit codes: 0 it would be delivered, or answered by the network, 1 there is no answer, 2 wrong usage, 3 it would be refused.";

/// Explain what becomes of a packet by the objects that a controller keeps.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Port(PortArgs),
}

/// Explain what becomes of the first packet of a connection that a port's machine opens.
///
/// The objects decide, as they are declared now; nothing is asked of hosts (`zovn trace` does).
/// Told are the steps, the object and the rule of each, at which hosts these objects are, and, if
/// it is refused, which object to change. A tenant is told of its own objects.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
struct PortArgs {
    /// The port, as `shop/web-1`; without a tenant, the context's is meant.
    #[arg(add = names::port())]
    port: String,
    #[command(flatten)]
    packet: Sent,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    context: ContextArgs,
}

/// Asks, and says what the controller says.
pub fn run(args: &Args) -> Outcome {
    let What::Port(args) = &args.what;
    let Asking { client, tenant } = args.context.asking()?;
    let mut question = args.packet.question(&of(&args.port, tenant.as_ref()));
    if question.to.parse::<IpAddr>().is_err() {
        question.to = of(&question.to, tenant.as_ref());
    }
    let body = serde_json::to_vec(&question)?;
    let explained: Explained = refusable(client.ask(Asked::post("/v1/trace", body)))?;
    show(&explained, args.json, || text(&explained))?;
    Ok(exit(&explained.explanation.trace))
}

/// A port by its tenant and its name.
fn of(word: &str, tenant: Option<&Name>) -> String {
    match tenant {
        Some(tenant) if !word.contains('/') => format!("{tenant}/{word}"),
        _ => word.into(),
    }
}

/// The steps, the end, the hosts, and what to change.
fn text(explained: &Explained) -> String {
    let Explained { revision, explanation: Explanation { trace, remedy, .. }, hosts } = explained;
    let mut lines = vec![format!("{} (revision {revision})", told(trace))];
    let host = |ObjectHost { object, node }: &ObjectHost| format!("{object} is at {node}");
    lines.extend(hosts.iter().map(host));
    if let Some(Remedy { object, what }) = remedy {
        lines.push(format!("to change: {object}: {what}"));
    }
    lines.join("\n")
}
