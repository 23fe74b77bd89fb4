//! Runs a host's virtual switch.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use agent::{Follows, Proof};
use clap::ValueEnum;
use model::{HostConfig, Polling};
use tls::Own;

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
    #[command(flatten)]
    follow: FollowArgs,
    /// Check the declaration and exit.
    #[arg(long, requires = "config")]
    check: bool,
    #[command(flatten)]
    log: LogArgs,
}

/// Which controller is followed, as whom.
#[derive(clap::Args)]
struct FollowArgs {
    /// Follow the controller that listens for agents there: it says which logical networks there
    /// are.
    #[arg(long, value_name = "ADDRESS", requires = "node")]
    controller: Option<SocketAddr>,
    /// The TransportNode that this host is for the controller.
    #[arg(long, value_name = "NAME", requires = "controller")]
    node: Option<String>,
    /// Those who sign the controller's certificate, as PEM: the connection is encrypted.
    #[arg(long, value_name = "FILE", requires = "controller")]
    controller_ca: Option<PathBuf>,
    /// The name in the controller's certificate, if that is not its address.
    #[arg(long, value_name = "NAME", requires = "controller_ca")]
    controller_name: Option<String>,
    /// A file with a token of role `node`, by which the controller knows this host.
    #[arg(long, value_name = "FILE", requires = "controller")]
    token_file: Option<PathBuf>,
    /// The same by a certificate for the node's name, as PEM.
    #[arg(long, value_name = "FILE", requires_all = ["controller_ca", "key"])]
    certificate: Option<PathBuf>,
    /// The certificate's private key, as PEM.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// The folder where what the controller has said is kept for the next agent.
    #[arg(
        long,
        value_name = "FOLDER",
        requires = "controller",
        default_value = "/var/lib/zovn/agent"
    )]
    kept: PathBuf,
}

impl FollowArgs {
    /// Whom to follow, if anybody.
    fn follows(self) -> Option<Follows> {
        let (controller, node) = self.controller.zip(self.node)?;
        let own = self.certificate.zip(self.key);
        let own = own.map(|(certificate, key)| Own { certificate, key });
        let name = self.controller_name.unwrap_or_else(|| controller.ip().to_string());
        let tls = self.controller_ca.map(|authorities| tls::Client { authorities, name, own });
        let proof = Proof { tls, token: self.token_file };
        Some(Follows { controller, proof, node, kept: self.kept })
    }
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
    agent::serve(config, args.follow.follows())?;
    Ok(ExitCode::SUCCESS)
}
