//! `zovn controller certificate`: whose certificates a controller takes instead of tokens.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Subcommand;
use controller::Role;
use controller::tokens::{self, Means};
use logical::objects::Name;

use super::grants::{RoleArgs, words};
use crate::ending::{Outcome, show};
use crate::table;

const EXAMPLES: &str = "\
Examples:
  zovn controller certificate add alice --role tenant-admin --tenant shop --data FOLDER
  zovn controller certificate list --data FOLDER
  zovn controller certificate remove alice --data FOLDER    a controller that runs knows it within a second

A certificate is alice's if `alice` is a subjectAltName of it (DNS:alice) and one of the controller's
`--clients-ca` has signed it. So a renewed one needs nothing here.";

/// Say whose certificates the controller of a folder takes, beside one that runs or before.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Add(AddArgs),
    List(ListArgs),
    Remove(RemoveArgs),
}

/// Let in who shows a certificate for a name.
#[derive(clap::Args)]
struct AddArgs {
    /// The name in their certificates: who they are.
    name: Name,
    #[command(flatten)]
    role: RoleArgs,
    /// The controller's folder.
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
}

/// Show the names that are let in.
#[derive(clap::Args)]
struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The controller's folder.
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
}

/// Let in nobody any more who shows a certificate for a name.
#[derive(clap::Args)]
struct RemoveArgs {
    /// The name.
    name: Name,
    /// The controller's folder.
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
}

/// Does it.
pub fn run(args: Args) -> Outcome {
    match args.what {
        What::Add(AddArgs { name, role, data }) => {
            tokens::certify(&data, &name, role.role()?, SystemTime::now())?;
        }
        What::List(ListArgs { data, json }) => list(&tokens::list(&data)?, json)?,
        What::Remove(RemoveArgs { name, data }) => tokens::decertify(&data, &name)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(known: &tokens::Table, json: bool) -> io::Result<()> {
    let certified = known.iter().filter(|(_, it)| it.means() == Means::Certificate);
    let rows: Vec<_> = certified.map(|(name, it)| Row { name, role: &it.role }).collect();
    show(&rows, json, || text(&rows))
}

/// What is told of a name.
#[derive(serde::Serialize)]
struct Row<'a> {
    name: &'a Name,
    #[serde(flatten)]
    role: &'a Role,
}

fn text(rows: &[Row<'_>]) -> String {
    let mut table = table::headed(["NAME", "ROLE", "OF"]);
    for Row { name, role } in rows {
        let (word, of) = words(role);
        table.add_row([name.as_str(), word, of]);
    }
    table::text(table)
}
