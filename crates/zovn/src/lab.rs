//! Not here yet.

/// None.
#[derive(clap::Args)]
pub struct Args {}

/// Ends at once.
pub fn run(_args: Args) -> crate::Outcome {
    Err("this command does not exist yet".into())
}
