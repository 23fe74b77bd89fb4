//! `zovn apply` and `zovn get`: the virtual networks of an agent.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use api::Client;
use clap::Subcommand;
use model::{Member, NetworksStatus};

use crate::ending::{Outcome, print_json};
use crate::table::{headed, text};

const APPLY_EXAMPLES: &str = "\
Examples:
  zovn apply networks.toml                   the agent at its usual place
  zovn apply host.toml --socket /tmp/a.sock  another agent, and what its file says of networks now
  zovn apply networks.toml --network blue    only this one of the file; the agent keeps the others

docs/overlay.md shows a file.";

/// Replace all virtual networks of an agent by those of a file.
///
/// The `[[network]]` tables of the file are sent to the agent, which takes all of them at once or
/// none: then it says what is wrong with them, and frames go where they went before. The rest of a
/// host.toml is not looked at. With `--network`, one network of the file is sent, and the agent's
/// others stay.
#[derive(clap::Args)]
#[command(after_long_help = APPLY_EXAMPLES)]
pub struct ApplyArgs {
    /// The file (TOML).
    file: PathBuf,
    /// Add or replace only this network.
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// The agent's socket.
    #[arg(long, value_name = "PATH", default_value = api::DEFAULT_SOCKET)]
    socket: PathBuf,
}

const GET_EXAMPLES: &str = "\
Examples:
  zovn get networks                          a line for each member
  zovn get networks | grep 10.0.0.7          where that machine is
  zovn get networks --json                   all of it, for scripts";

/// Show what an agent has been told.
#[derive(clap::Args)]
#[command(after_long_help = GET_EXAMPLES)]
pub struct GetArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The virtual networks, and where each of their members is.
    Networks {
        /// The agent's socket.
        #[arg(long, value_name = "PATH", default_value = api::DEFAULT_SOCKET)]
        socket: PathBuf,
        /// Print them as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The file does not have what was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{} has no network `{name}`: leave out `--network` to send all that it has", file.display())]
struct NoNetwork {
    file: PathBuf,
    name: String,
}

/// Sends a file's networks, or one of them.
pub fn apply(args: ApplyArgs) -> Outcome {
    let mut networks = agent::load_networks(&args.file)?;
    let client = Client::new(args.socket)?;
    let applied = match args.network {
        None => client.set_networks(&networks)?,
        Some(name) => {
            networks.retain(|network| network.name.0 == name);
            let [network] = &networks[..] else {
                return Err(NoNetwork { file: args.file, name }.into());
            };
            client.set_network(network)?
        }
    };
    let members: usize = networks.iter().map(|network| network.members.len()).sum();
    writeln!(
        io::stdout(),
        "generation {} (networks: {}, members: {members})",
        applied.generation,
        networks.len()
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Shows what an agent has.
pub fn get(args: GetArgs) -> Outcome {
    let What::Networks { socket, json } = args.what;
    let status = Client::new(socket)?.networks()?;
    if json {
        print_json(&status)?;
    } else {
        writeln!(io::stdout(), "{}", table(&status))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for each member, and for each network without one.
fn table(status: &NetworksStatus) -> String {
    let mut table = headed(["network", "vni", "member", "vtep", "label", "here", "addresses"]);
    for network in &status.networks {
        let first = [network.name.to_string(), network.vni.to_string()];
        if network.members.is_empty() {
            table.add_row(first.clone());
        }
        for Member { mac, addresses, vtep, label } in &network.members {
            let is_here = if Some(vtep) == status.vtep.as_ref() { "yes" } else { "no" };
            let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            let rest = [
                mac.to_string(),
                vtep.to_string(),
                label.to_string(),
                is_here.into(),
                addresses.join(" "),
            ];
            table.add_row(first.iter().chain(&rest));
        }
    }
    text(table)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use model::{Generation, NetworkName, NetworkSpec, VtepList};
    use units::Mac;

    #[test]
    fn a_table_has_a_line_for_each_member() {
        let vteps =
            ["192.0.2.1", "192.0.2.2"].map(|vtep| VtepList::from(vtep.parse::<IpAddr>().unwrap()));
        let member = |number: u32, host: usize| {
            let addresses =
                vec![format!("10.0.0.{number}").parse().unwrap(), "fd00::1".parse().unwrap()];
            Member { mac: Mac::local(number), addresses, vtep: vteps[host].clone(), label: 7 }
        };
        let network =
            |name: &str, vni, members| NetworkSpec { name: NetworkName(name.into()), vni, members };
        let networks =
            vec![network("blue", 100, vec![member(1, 0), member(2, 1)]), network("red", 2, vec![])];
        let status =
            NetworksStatus { generation: Generation(3), vtep: Some(vteps[0].clone()), networks };
        assert_eq!(
            table(&status).lines().map(str::trim_end).collect::<Vec<_>>(),
            [
                "network  vni  member             vtep       label  here  addresses",
                "blue     100  02:00:00:00:00:01  192.0.2.1  7      yes   10.0.0.1 fd00::1",
                "blue     100  02:00:00:00:00:02  192.0.2.2  7      no    10.0.0.2 fd00::1",
                "red      2",
            ]
        );
    }
}
