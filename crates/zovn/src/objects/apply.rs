//! `zovn apply -f` where a controller is said: has it keep files' objects.

use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serialize;

use super::applied::Applied;
use super::changes::Changes;
use super::declaration::{Declaration, Prune};
use super::wait::Timeout;
use crate::context::Asking;
use crate::ending::{Outcome, show};

/// What is applied, and how.
pub struct Apply {
    pub files: Vec<PathBuf>,
    pub prune: Option<Prune>,
    /// Whether is told first what changes.
    pub diff: bool,
    pub dry_run: bool,
    /// Whether it is waited for, and how long.
    pub wait: Option<Timeout>,
    pub json: bool,
}

/// What was applied, or would be, as JSON.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    applied: &'a Applied,
    /// What it was compared with, and the objects as they were and as they are declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<&'a Changes>,
}

/// Has a controller keep files' objects, beside those that it has.
pub fn run(asking: &Asking, args: &Apply) -> Outcome {
    let Apply { files, prune, diff, dry_run, wait, json } = args;
    let declaration = Declaration::read(files, prune.as_ref())?;
    let changes = diff.then(|| Changes::of(&declaration, &asking.client)).transpose()?;
    if let Some(changes) = changes.as_ref().filter(|_| !json) {
        write!(io::stdout(), "{}", changes.diff())?;
    }
    let applied = declaration.apply(&asking.client, *dry_run, *wait)?;
    let told = Told { applied: &applied, diff: changes.as_ref() };
    show(&told, *json, || applied.said(*dry_run))?;
    applied.ended()
}
