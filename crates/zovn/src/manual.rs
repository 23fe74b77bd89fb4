//! `zovn completion` and `zovn man`: what has shells complete the command line, and its pages of
//! the manual.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::completion;
use crate::ending::Outcome;

const EXAMPLES: &str = "\
Examples:
  source <(zovn completion bash)             in this shell
  zovn completion fish >~/.config/fish/completions/zovn.fish

`make install` puts those of bash, zsh and fish where these look for them.";

/// Print what has a shell complete zovn's commands and flags, and names of what a controller keeps.
///
/// The shell asks zovn itself, and zovn asks the controller of `zovn context use`, or of the
/// `--context` on the line, for names that its token or certificate may see. A controller that does
/// not answer within a second is not waited for.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct CompletionArgs {
    /// Whose.
    shell: Shell,
}

/// Write the pages of the manual, one for each command.
#[derive(clap::Args)]
pub struct ManArgs {
    /// The folder that they are written to.
    folder: PathBuf,
}

/// Prints a shell's script, by which it asks `zovn` what there is.
pub fn completion(args: CompletionArgs) -> Outcome {
    io::stdout().write_all(&completion::script(args.shell)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of `zovn`.
pub fn man(args: ManArgs, zovn: Command) -> Outcome {
    let ManArgs { folder } = args;
    let wrong = |error: io::Error| format!("cannot write to {}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(wrong)?;
    let mut zovn = zovn.disable_help_subcommand(true);
    zovn.build();
    write(&zovn, &folder).map_err(wrong)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and of those below it.
fn write(command: &Command, folder: &Path) -> io::Result<()> {
    Man::new(command.clone()).date(zovn_agent::DAY).generate_to(folder)?;
    let below = command.get_subcommands().filter(|command| !command.is_hide_set());
    below.into_iter().try_for_each(|command| write(command, folder))
}
