//! `zovn controller restored`: has agents take a store that was put back from a backup.

use std::path::PathBuf;
use std::process::ExitCode;

use controller::Restored;

use crate::ending::{Outcome, show};

const EXAMPLES: &str = "\
Examples:
  mv FOLDER LOST && cp -a BACKUP FOLDER      after its controller was ended
  zovn controller restored --data FOLDER
  zovn controller --data FOLDER              agents take all of it

docs/controller.md, `Backup`, says how to make one, and what else to look at.";

/// Say that the store in a folder was put back from a backup.
///
/// The store becomes another one with the same content, so agents take all of it, whatever they
/// had of later revisions. Until a controller runs on it they go on with what they have. None may
/// run on the folder meanwhile.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The controller's folder.
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
}

/// Does it.
pub fn run(Args { json, data }: Args) -> Outcome {
    let restored = controller::restored(&data)?;
    show(&restored, json, || text(&restored))?;
    Ok(ExitCode::SUCCESS)
}

fn text(Restored { before, store, revision }: &Restored) -> String {
    format!(
        "store {before} is store {store} now: once a controller runs on it, agents take all of revision {revision}\n\
         tokens and certificates are those of the backup, too: revoke again what was revoked since"
    )
}
