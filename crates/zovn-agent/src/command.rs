//! Runs a host's virtual switch.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use agent::Follows;
use clap::ValueEnum;
use model::{HostConfig, Polling};

use crate::log::LogArgs;
use crate::outcome::Outcome;

/// What the help shows, by the program's name.
macro_rules! examples {
    ($program:literal) => {
        concat!(
            "Examples:\n",
            "  ", $program, " -c /etc/zovn/host.toml          run until SIGTERM or Ctrl-C\n",
            "  ", $program, " -c host.toml --check            only say whether the file can stand\n",
            "  ", $program, " --socket /tmp/a.sock            no ports yet: attach them through the API\n",
            "  curl --unix-socket /run/zovn/agent.sock http://agent/v1/status\n\n",
            // One line: the terminal's width breaks it.
            "The first signal stops taking frames and lets those that are held reach their receivers (`drain` in the file, 5s); ",
            "a second one does not wait. After SIGTERM, containers keep their interfaces, and ports that were attached through ",
            "the API are kept, for the next agent. After Ctrl-C (SIGINT) all is removed."
        )
    };
}

/// What the help of `zovn agent` shows.
pub const EXAMPLES: &str = examples!("zovn agent");

/// Run a host's virtual switch until it is told to stop.
///
/// The switch attaches the ports that the file declares, moves their frames without losing any, and
/// listens on a Unix socket for its local API: attach and detach ports, change them, read their
/// status and metrics.
#[derive(clap::Args)]
#[command(after_long_help = examples!("zovn-agent"))]
pub struct Args {
    /// The host's declaration; without one, a switch without ports.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the local API listens, whatever the file says.
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,
    /// When the switch's thread polls, whatever the file says.
    #[arg(long, value_name = "WHEN", value_enum)]
    poll: Option<Poll>,
    /// Follow the controller that listens for agents there: it says which logical networks there
    /// are.
    #[arg(long, value_name = "ADDRESS", requires = "node")]
    controller: Option<SocketAddr>,
    /// The TransportNode that this host is for the controller.
    #[arg(long, value_name = "NAME", requires = "controller")]
    node: Option<String>,
    /// The folder where what the controller has said is kept for the next agent.
    #[arg(
        long,
        value_name = "FOLDER",
        requires = "controller",
        default_value = "/var/lib/zovn/agent"
    )]
    kept: PathBuf,
    /// Check the declaration and exit.
    #[arg(long, requires = "config")]
    check: bool,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Poll {
    /// While there is work and a little longer; then it sleeps.
    Adaptive,
    /// Always, on a core of its own.
    Always,
}

/// Runs the agent.
pub fn run(args: Args) -> Outcome {
    let mut config = match &args.config {
        Some(path) => agent::load(path)?,
        None => HostConfig::default(),
    };
    if let Some(socket) = args.socket {
        config.agent.socket = socket;
    }
    match args.poll {
        None => {}
        Some(Poll::Adaptive) => config.agent.polling = Polling::Adaptive,
        Some(Poll::Always) => config.agent.polling = Polling::Always,
    }
    // What a flag says was not in the file.
    config.agent.check()?;
    if args.check {
        if let Some(key) = config.uplink.as_ref().and_then(|uplink| uplink.key.as_ref()) {
            agent::check_key(key)?;
        }
        let (ports, networks) = (config.ports.len(), config.networks.len());
        writeln!(io::stdout(), "the declaration can stand (ports: {ports}, networks: {networks})")?;
        return Ok(ExitCode::SUCCESS);
    }
    args.log.start()?;
    let follows = args.controller.zip(args.node);
    let kept = args.kept;
    let follows = follows.map(|(controller, node)| Follows { controller, node, kept });
    agent::serve(config, follows)?;
    Ok(ExitCode::SUCCESS)
}
