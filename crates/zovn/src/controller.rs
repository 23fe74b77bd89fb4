//! `zovn controller`: keeps logical networks, and tells the agents of hosts what to execute.

mod certificate;
mod grants;
mod restored;
mod token;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use controller::Settings;
use tls::Own;
use zovn_agent::LogArgs;

use crate::ending::Outcome;

const EXAMPLES: &str = "\
Examples:
  zovn controller --data /var/lib/zovn/controller                      until SIGTERM or Ctrl-C
  zovn controller token create me --role admin --data FOLDER           prints a token, with which one may ask
  zovn controller token create h1 --role node --node h1 --data FOLDER  prints a token for the agent of node h1
  zovn controller --data FOLDER --listen 192.0.2.9:6640 --agents 192.0.2.9:6641 --tls-certificate FILE --tls-key FILE
                                                                       others ask, and agents connect, by TLS
  zovn controller certificate add alice --role auditor --data FOLDER   who has a certificate for this name may ask
  zovn controller restored --data FOLDER                               the folder was put back from a backup
  curl -H @token 127.0.0.1:6640/v1/apply --data-binary @shop.yaml      `token` is a file: Authorization: Bearer TOKEN

Whatever it has answered is in its folder, so it may be killed at any time. docs/controller.md has the rest.";

/// Run the controller of logical networks until it is told to stop.
///
/// It keeps what tenants and operators declare over its REST API, computes what hosts execute of
/// it, and tells that to their agents. Who asks says a token or has a certificate, and agents have
/// one of their node. With a certificate of its own, all is encrypted (TLS 1.3); without one,
/// requests are taken on this host only.
#[derive(clap::Args)]
#[command(
    after_long_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Token(token::Args),
    Certificate(certificate::Args),
    Restored(restored::Args),
}

#[derive(clap::Args)]
struct RunArgs {
    /// The folder where it keeps everything; made if it is not there.
    #[arg(long, value_name = "FOLDER", required = true)]
    data: Option<PathBuf>,
    /// Where requests are taken. Without a certificate, an address of this host only.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6640")]
    listen: SocketAddr,
    /// Where agents connect.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6641")]
    agents: SocketAddr,
    /// The controller's certificate, as PEM: requests and agents are encrypted.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The certificate's private key, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Those who sign certificates of who asks the API, as PEM. They may have tokens instead.
    #[arg(long, value_name = "FILE", requires = "tls_certificate", conflicts_with = "open")]
    clients_ca: Option<PathBuf>,
    /// Those who sign agents' certificates, as PEM. Agents may have tokens instead.
    #[arg(long, value_name = "FILE", requires = "tls_certificate", conflicts_with_all = ["open", "open_agents"])]
    agents_ca: Option<PathBuf>,
    /// Ask nobody for a token, and no agent either: whoever reaches the API is its operator.
    #[arg(long)]
    open: bool,
    /// Do not ask agents who they are: each is the node that it says.
    #[arg(long)]
    open_agents: bool,
    /// Where metrics can be read; nowhere if absent.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    log: LogArgs,
}

/// Runs it.
pub fn run(args: Args) -> Outcome {
    match args.command {
        Some(Command::Token(args)) => return token::run(args),
        Some(Command::Certificate(args)) => return certificate::run(args),
        Some(Command::Restored(args)) => return restored::run(args),
        None => {}
    }
    let args = args.run;
    // Asked for by the parser, but for a command that goes on.
    let data = args.data.ok_or("say `--data FOLDER`, where the controller keeps everything")?;
    let own = args.tls_certificate.zip(args.tls_key);
    args.log.start()?;
    controller::serve(&Settings {
        data,
        listen: args.listen,
        agents: args.agents,
        own: own.map(|(certificate, key)| Own { certificate, key }),
        clients: args.clients_ca,
        nodes: args.agents_ca,
        is_open: args.open,
        has_open_agents: args.open_agents,
        metrics: args.metrics,
    })?;
    Ok(ExitCode::SUCCESS)
}
