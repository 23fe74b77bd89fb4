//! `zovn apply FILE`, `zovn delete network`: the virtual networks of an agent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use api::Condition;
use model::{Generation, Member, NetworkName, NetworkShare, NetworkSpec, NetworksStatus};
use serde::Serialize;
use units::{Class, Mac};

use crate::client::AnswerArgs;
use crate::context::ContextArgs;
use crate::ending::Outcome;
use crate::objects::Apply;
use crate::objects::wait::{Timeout, timeout};
use crate::table::{headed, text};
use crate::{logical, objects};

const APPLY_EXAMPLES: &str = "\
Examples:
  zovn apply -f shop.yaml                    logical networks: switches, routers, policies
  zovn apply -f shop.yaml --dry-run --diff   only say what would change, field by field
  zovn apply -f shop.yaml --context prod     have a controller keep them, beside what it has
  zovn apply -f shop.yaml --prune=app=shop   and remove its others with this label
  zovn apply -f shop.yaml --wait             and wait until hosts execute it
  zovn apply networks.toml                   virtual networks, at the agent's usual place
  zovn apply networks.toml --dry-run         only say what would change, and whether it can
  zovn apply networks.toml --prune           remove networks that the file does not have, members and all
  zovn apply networks.toml --json            what has changed, for scripts
  zovn apply networks.toml --network blue    only this one of the file; the agent keeps the others
  site-networks | zovn apply -               what another program prints

`zovn delete network` removes a virtual network, `zovn get networks` and `zovn get logical` show what there is; \
docs/overlay.md and docs/logical.md show files.";

/// Replace all logical networks of an agent, or all its virtual networks, by those of files.
///
/// With `-f`, files of objects (YAML or JSON: switches, routers, policies) are one declaration of
/// logical networks. It takes the place of the one before at once, or not at all: then all that is
/// wrong is told, and the exit code is 2. What was applied is there again after the agent restarts.
///
/// Where a controller is said (`--context`, or `zovn context use`), it keeps these objects beside
/// those that it has, and has agents execute them; `--socket` means an agent all the same.
///
/// Without it, the file has virtual networks (TOML).
/// Their `[[network]]` tables are sent to the agent, which takes all of them at once or
/// none: then it says what is wrong with them, and frames go where they went before. A file that
/// has anything else is refused. So is one without a network that the agent has members of, unless
/// it is to be removed (`--prune`). With `--network`, one network of the file is sent, and the
/// agent's others stay. What somebody else has changed in the meantime is not overwritten.
#[derive(clap::Args)]
#[command(after_long_help = APPLY_EXAMPLES)]
pub struct ApplyArgs {
    /// A file of virtual networks (TOML); `-` is the standard input.
    #[arg(required_unless_present = "files", conflicts_with_all = ["files", "context"])]
    file: Option<PathBuf>,
    /// A file of logical networks (YAML or JSON), or several; `-` is the standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE", num_args = 1.., conflicts_with = "network")]
    files: Vec<PathBuf>,
    /// Say of each object of logical networks which of its fields change; at a controller, before
    /// they do.
    #[arg(long, requires = "files")]
    diff: bool,
    /// Add or replace only this network.
    #[arg(long, value_name = "NAME", conflicts_with = "prune")]
    network: Option<String>,
    /// Remove networks with members that the file does not have; at a controller, objects that
    /// have this label and are in no file.
    #[arg(long, value_name = "LABEL=VALUE", num_args = 0..=1, require_equals = true)]
    prune: Option<Option<objects::Prune>>,
    /// Change nothing: say what would change, and whether the agent would take it.
    #[arg(long)]
    dry_run: bool,
    /// At a controller: wait until hosts execute it.
    #[arg(long, requires = "files")]
    wait: bool,
    /// How long `--wait` waits, at most 5min.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = timeout)]
    timeout: Timeout,
    /// Only if what the agent has is of this generation.
    #[arg(long, value_name = "GENERATION")]
    if_match: Option<u64>,
    #[command(flatten)]
    answer: AnswerArgs,
    #[command(flatten)]
    context: ContextArgs,
}

/// Remove a virtual network from an agent; the others stay.
///
/// It is refused while a port is in it: detach the port first.
#[derive(clap::Args)]
pub struct DeleteArgs {
    /// The network's name.
    name: String,
    /// Change nothing: only say whether the agent would remove it.
    #[arg(long)]
    dry_run: bool,
    /// Only if the agent's networks are of this generation.
    #[arg(long, value_name = "GENERATION")]
    if_match: Option<u64>,
    #[command(flatten)]
    answer: AnswerArgs,
}

/// What was replaced, or would be, as JSON.
#[derive(Serialize)]
struct Applied<'a> {
    /// The networks' generation after it.
    generation: Generation,
    /// Whether nothing was changed, as that was not asked for.
    dry_run: bool,
    /// What differs, by name.
    changes: Vec<Described<'a>>,
}

/// A change of a network, as JSON.
#[derive(Serialize)]
struct Described<'a> {
    change: &'static str,
    network: &'a NetworkName,
    vni: u32,
    members: usize,
    members_added: usize,
    members_changed: usize,
    members_removed: usize,
}

/// Why a file is not applied.
#[derive(Debug, thiserror::Error)]
enum ApplyError {
    /// The file does not have what was asked for.
    #[error("{} has no network `{name}`: leave out `--network` to send all that it has", file.display())]
    NoNetwork { file: PathBuf, name: String },
    /// Two are meant.
    #[error("`--socket` means an agent, and `--context` a controller: leave out one of them")]
    Both,
    /// A controller is meant, and asked for what agents do.
    #[error("controllers know no `--if-match`: leave it out, or name an agent by `--socket`")]
    OfAgents,
    /// An agent is meant, which has executed what it has applied.
    #[error("an agent applies at once, so leave out `--wait`")]
    Waiting,
    /// Nobody knows which of a controller's objects are to be removed.
    #[error("say which objects the controller is to remove: `--prune=app=shop`")]
    NoLabel,
    /// A label is said of what has none.
    #[error("{0}: labels are of a controller's objects")]
    Labelled(&'static str),
    /// The file would remove what is in use.
    #[error(
        "{} would remove {}: add them to the file, or say `--prune` to remove them", file.display(), list(removed)
    )]
    Removes { file: PathBuf, removed: Vec<NetworkSpec> },
}

/// Networks with the number of their members, as a sentence has them.
fn list(networks: &[NetworkSpec]) -> String {
    let word = |network: &NetworkSpec| {
        format!("network `{}` (members: {})", network.name, network.members.len())
    };
    networks.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// Sends a file's networks, or one of them.
pub fn apply(args: ApplyArgs) -> Outcome {
    let ApplyArgs {
        file,
        files,
        diff,
        network: one,
        prune,
        dry_run,
        wait,
        timeout,
        if_match,
        answer,
        context,
    } = args;
    let Some(file) = file else {
        if answer.names_agent() && context.is_said() {
            return Err(ApplyError::Both.into());
        }
        // An agent that is named is meant.
        if let Some(asking) = if answer.names_agent() { None } else { context.find()? } {
            if if_match.is_some() {
                return Err(ApplyError::OfAgents.into());
            }
            let prune = match prune {
                Some(None) => return Err(ApplyError::NoLabel.into()),
                prune => prune.flatten(),
            };
            let json = answer.json();
            let wait = wait.then_some(timeout);
            let apply = Apply { files, prune, diff, dry_run, wait, json };
            return objects::apply::run(&asking, &apply);
        }
        if wait {
            return Err(ApplyError::Waiting.into());
        }
        if prune.is_some() {
            let problem =
                "the files take the place of all that the agent has, so leave out `--prune`";
            return Err(ApplyError::Labelled(problem).into());
        }
        return logical::apply(&logical::Apply { files, dry_run, diff, if_match, answer });
    };
    if matches!(prune, Some(Some(_))) {
        return Err(ApplyError::Labelled("write `--prune` alone for a file of networks").into());
    }
    let mut networks = agent::load_networks(&file)?;
    let client = answer.client()?;
    let status = client.networks()?;
    let mut kept = Vec::new();
    if let Some(name) = one {
        networks.retain(|network| network.name.0 == name);
        if networks.is_empty() {
            return Err(ApplyError::NoNetwork { file, name }.into());
        }
        kept.extend(status.networks.iter().filter(|network| network.name.0 != name));
    }
    let changes = changes(&status.networks, networks.iter().chain(kept.iter().copied()));
    let removed: Vec<_> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Removed(network) if !network.members.is_empty() => Some((*network).clone()),
            _ => None,
        })
        .collect();
    if prune.is_none() && !removed.is_empty() {
        return Err(ApplyError::Removes { file, removed }.into());
    }
    let generation = if_match.map_or(status.generation, Generation);
    let condition = Condition { generation: Some(generation), dry_run };
    let applied = match &networks[..] {
        [network] if !kept.is_empty() => client.set_network_if(condition, network)?,
        _ => client.set_networks_if(condition, &networks)?,
    };
    let generation = applied.generation;
    let described = changes.iter().map(Change::described).collect();
    answer.show(&Applied { generation, dry_run, changes: described }, || {
        let said = |networks: &mut dyn Iterator<Item = &NetworkSpec>| {
            let (mut count, mut members) = (0, 0);
            networks.for_each(|network| {
                (count, members) = (count + 1, members + network.members.len());
            });
            format!("networks: {count}, members: {members}")
        };
        if !dry_run {
            return format!("generation {generation} ({})", said(&mut networks.iter()));
        }
        let mut lines: Vec<_> = changes.iter().map(ToString::to_string).collect();
        let after = said(&mut networks.iter().chain(kept.iter().copied()));
        lines.push(format!("a dry run: generation {generation} stays; applied, there are {after}"));
        lines.join("\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Removes a network.
pub fn delete(args: DeleteArgs) -> Outcome {
    let DeleteArgs { name, dry_run, if_match, answer } = args;
    let (condition, name) =
        (Condition { generation: if_match.map(Generation), dry_run }, NetworkName(name));
    let removed = answer.client()?.remove_network_if(condition, &name)?;
    answer.show(&removed, || match dry_run {
        true => format!("a dry run: network `{name}` stays (generation {})", removed.generation),
        false => format!("network `{name}` is removed (generation {})", removed.generation),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What becomes of a network.
enum Change<'a> {
    Added(&'a NetworkSpec),
    Changed { from: &'a NetworkSpec, to: &'a NetworkSpec },
    Removed(&'a NetworkSpec),
}

/// What differs between networks, by name.
fn changes<'a>(
    from: &'a [NetworkSpec],
    to: impl Iterator<Item = &'a NetworkSpec>,
) -> Vec<Change<'a>> {
    let by_name = |network: &'a NetworkSpec| (&network.name, network);
    let from: BTreeMap<_, _> = from.iter().map(by_name).collect();
    let to: BTreeMap<_, _> = to.map(by_name).collect();
    let names: BTreeSet<_> = from.keys().chain(to.keys()).copied().collect();
    let change = |name: &NetworkName| match (from.get(name), to.get(name)) {
        (None, Some(to)) => Some(Change::Added(to)),
        (Some(from), None) => Some(Change::Removed(from)),
        (Some(from), Some(to)) if from != to => Some(Change::Changed { from, to }),
        _ => None,
    };
    names.into_iter().filter_map(change).collect()
}

impl Change<'_> {
    fn described(&self) -> Described<'_> {
        let (change, network) = match self {
            Self::Added(network) => ("added", network),
            Self::Changed { to, .. } => ("changed", to),
            Self::Removed(network) => ("removed", network),
        };
        let NetworkSpec { name, vni, members, .. } = network;
        let by_mac = |members: &'_ [Member]| -> BTreeMap<Mac, Member> {
            members.iter().map(|member| (member.mac, member.clone())).collect()
        };
        let (from, to) = match self {
            Self::Added(to) => (BTreeMap::new(), by_mac(&to.members)),
            Self::Changed { from, to } => (by_mac(&from.members), by_mac(&to.members)),
            Self::Removed(from) => (by_mac(&from.members), BTreeMap::new()),
        };
        let is_changed =
            |(mac, to): &(&Mac, &Member)| from.get(mac).is_some_and(|from| from != *to);
        Described {
            change,
            network: name,
            vni: *vni,
            members: members.len(),
            members_added: to.keys().filter(|mac| !from.contains_key(mac)).count(),
            members_changed: to.iter().filter(is_changed).count(),
            members_removed: from.keys().filter(|mac| !to.contains_key(mac)).count(),
        }
    }
}

impl fmt::Display for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self {
            Self::Added(_) => '+',
            Self::Changed { .. } => '~',
            Self::Removed(_) => '-',
        };
        let Described { network, vni, members, .. } = self.described();
        write!(f, "{sign} {network} (vni {vni}, members: {members})")?;
        let Self::Changed { from, to } = self else { return Ok(()) };
        let share = if from.share == to.share { "" } else { ", share changed" };
        let Described { members_added, members_changed, members_removed, .. } = self.described();
        write!(
            f,
            ": {members_added} added, {members_changed} changed, {members_removed} removed{share}"
        )
    }
}

/// A line for each member, and for each network without one; then a line for each network that has
/// terms; the generation below.
pub fn table(status: &NetworksStatus) -> String {
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
    format!("{}\n{}generation {}", text(table), terms(&status.networks), status.generation)
}

/// A line for each network that has terms, below an empty one; nothing if none has.
fn terms(networks: &[NetworkSpec]) -> String {
    let mut table =
        headed(["terms of", "min", "max", "weight", "burst", "min_packets", "memory", "classes"]);
    let mut has_some = false;
    for NetworkSpec { name, share, .. } in networks {
        if *share == NetworkShare::default() {
            continue;
        }
        has_some = true;
        let NetworkShare { min, max, weight, burst, min_packets, memory, classes } = *share;
        let of = |term: Option<String>| term.unwrap_or_else(|| "–".into());
        let classes = classes.map(|classes| {
            let all: Vec<_> = Class::all().filter(|class| classes.contains(*class)).collect();
            all.iter().map(|class| class.pcp().to_string()).collect::<Vec<_>>().join(" ")
        });
        table.add_row([
            name.to_string(),
            of(min.map(|it| it.to_string())),
            of(max.map(|it| it.to_string())),
            of(weight.map(|it| it.to_string())),
            of(burst.map(|it| it.to_string())),
            of(min_packets.map(|it| it.to_string())),
            of(memory.map(|it| it.to_string())),
            of(classes),
        ]);
    }
    if has_some { format!("\n{}\n", text(table)) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use model::VtepList;
    use units::Bytes;

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
            |name: &str, vni, members| NetworkSpec::new(NetworkName(name.into()), vni, members);
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
                "generation 3",
            ]
        );
    }

    #[test]
    fn terms_have_a_line_for_each_network_that_has_some() {
        let mut networks: Vec<_> = ["blue", "red", "sea"]
            .map(|name| NetworkSpec::new(NetworkName(name.into()), 7, vec![]))
            .into();
        networks[0].share = NetworkShare {
            min: "500mbit".parse().ok(),
            min_packets: Some(50_000),
            memory: Some(Bytes(32 << 20)),
            ..NetworkShare::default()
        };
        let classes = [0, 3].map(Class::from_low_bits).into_iter().collect();
        networks[2].share = NetworkShare {
            max: "2gbit".parse().ok(),
            weight: Some(3),
            classes: Some(classes),
            ..NetworkShare::default()
        };
        assert_eq!(
            terms(&networks).lines().map(str::trim_end).collect::<Vec<_>>(),
            [
                "",
                "terms of  min      max    weight  burst  min_packets  memory  classes",
                "blue      500mbit  –      –       –      50000        32mib   –",
                "sea       –        2gbit  3       –      –            –       0 3",
            ]
        );
        assert_eq!(terms(&networks[1..2]), "");
    }
}
