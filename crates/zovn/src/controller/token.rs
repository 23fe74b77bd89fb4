//! `zovn controller token`: who may ask a controller.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use controller::Role;
use controller::tokens::{self, Means};
use logical::objects::Name;

use super::grants::{RoleArgs, words};
use crate::ending::{Outcome, show};
use crate::table;

const EXAMPLES: &str = "\
Examples:
  zovn controller token create me --role admin --data /var/lib/zovn/controller
  zovn controller token create alice --role tenant-admin --tenant shop --days 30 --data FOLDER
  zovn controller token list --data FOLDER
  zovn controller token revoke alice --data FOLDER      a controller that runs knows it within a second

A token is printed once. The folder has only its digest.";

/// Say who may ask the controller of a folder, beside one that runs or before.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Create(CreateArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Make a token, and print it: it is said nowhere else.
#[derive(clap::Args)]
struct CreateArgs {
    /// Its name: who has it.
    name: Name,
    #[command(flatten)]
    role: RoleArgs,
    /// How many days it counts.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// The controller's folder.
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
}

/// List the tokens, without what they are.
#[derive(clap::Args)]
struct ListArgs {
    /// The controller's folder.
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Have a token count no more. Watches that it has begun end.
#[derive(clap::Args)]
struct RevokeArgs {
    /// Its name.
    name: Name,
    /// The controller's folder.
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
}

/// Does it.
pub fn run(args: Args) -> Outcome {
    match args.what {
        What::Create(args) => create(args),
        What::List(ListArgs { data, json }) => list(&tokens::list(&data)?, json),
        What::Revoke(RevokeArgs { name, data }) => {
            tokens::revoke(&data, &name)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn create(args: CreateArgs) -> Outcome {
    let CreateArgs { name, role, days, data } = args;
    let lasts = Duration::from_hours(24) * days;
    let token = tokens::create(&data, &name, role.role()?, lasts, SystemTime::now())?;
    writeln!(io::stdout(), "{token}")?;
    Ok(ExitCode::SUCCESS)
}

fn list(tokens: &tokens::Table, json: bool) -> Outcome {
    let tokens = tokens.iter().filter(|(_, it)| it.means() == Means::Token);
    let rows: Vec<_> = tokens
        .map(|(name, it)| Row { name, role: &it.role, expires: it.expires.map(figures::utc) })
        .collect();
    show(&rows, json, || text(&rows))?;
    Ok(ExitCode::SUCCESS)
}

/// What is told of a token.
#[derive(serde::Serialize)]
struct Row<'a> {
    name: &'a Name,
    #[serde(flatten)]
    role: &'a Role,
    /// Absent: it never counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

fn text(rows: &[Row<'_>]) -> String {
    let mut table = table::headed(["NAME", "ROLE", "OF", "EXPIRES"]);
    for Row { name, role, expires } in rows {
        let (word, of) = words(role);
        let expires = expires.as_deref().unwrap_or("–");
        table.add_row([name.as_str(), word, of, expires]);
    }
    table::text(table)
}
