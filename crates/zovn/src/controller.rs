//! `zovn controller`: keeps logical networks, and tells the agents of hosts what to execute.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use controller::Settings;
use zovn_agent::LogArgs;

use crate::ending::Outcome;

const EXAMPLES: &str = "\
Examples:
  zovn controller --data /var/lib/zovn/controller                      until SIGTERM or Ctrl-C
  zovn controller --data /tmp/networks --agents 192.0.2.9:6641         agents of other hosts connect there
  curl 127.0.0.1:6640/v1/apply --data-binary @shop.yaml                declare a tenant's networks
  curl '127.0.0.1:6640/v1/tenants/shop/logical-ports?watch=true'       what changes in them

Whatever it has answered is in its folder, so it may be killed at any time. docs/controller.md has the rest.";

/// Run the controller of logical networks until it is told to stop.
///
/// It keeps what tenants and operators declare over its REST API, computes what hosts execute of
/// it, and tells that to their agents. Requests are not asked who they are from, so they are taken
/// on this host only.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The folder where it keeps everything; made if it is not there.
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
    /// Where requests are taken: an address of this host only.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6640")]
    listen: SocketAddr,
    /// Where agents connect. They are not asked who they are: have only hosts reach it.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6641")]
    agents: SocketAddr,
    /// Where metrics can be read; nowhere if absent.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    log: LogArgs,
}

/// Runs it.
pub fn run(args: Args) -> Outcome {
    let Args { data, listen, agents, metrics, log } = args;
    log.start()?;
    controller::serve(&Settings { data, listen, agents, metrics })?;
    Ok(ExitCode::SUCCESS)
}
