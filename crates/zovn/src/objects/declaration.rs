//! What files declare together, and a controller that is asked to keep it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use api::{Asked, RemoteClient, RemoteError};
use logical::objects::Identity;
use serde_json::Value;

use super::applied::Applied;
use super::said::{Failure, complain};
use super::wait::Timeout;
use super::word::in_query;
use crate::net::files;

/// Files say what cannot be: whoever wrote them is told, as of flags.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongFiles(Failure);

/// A label and its value: of a controller's objects, those that have it are removed if no file has
/// them.
#[derive(Clone, Debug)]
pub struct Prune(String);

impl FromStr for Prune {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let is_label = word.split_once('=').is_some_and(|(label, _)| !label.is_empty());
        if is_label {
            Ok(Self(word.into()))
        } else {
            Err("write a label and its value as app=shop")
        }
    }
}

/// What files declare together.
pub struct Declaration<'a> {
    /// Their texts, one behind the other.
    text: String,
    /// Each file, and how many lines are before its own.
    files: Vec<(&'a Path, u64)>,
    prune: Option<&'a Prune>,
}

impl<'a> Declaration<'a> {
    /// Reads files.
    pub fn read(paths: &'a [PathBuf], prune: Option<&'a Prune>) -> Result<Self, Failure> {
        let (mut text, mut files) = (String::new(), Vec::new());
        for path in paths {
            if !text.is_empty() {
                text.push_str("\n---\n");
            }
            files.push((path.as_path(), text.matches('\n').count() as u64));
            text.push_str(&files::read(path)?);
        }
        Ok(Self { text, files, prune })
    }

    /// Has a controller keep it, or say what would change by that.
    pub fn apply(
        &self,
        client: &RemoteClient,
        is_dry: bool,
        wait: Option<Timeout>,
    ) -> Result<Applied, Failure> {
        let prune = self.prune.map(|Prune(label)| format!("&prune={}", in_query(label)));
        let prune = prune.unwrap_or_default();
        let waiting = wait.map_or_else(String::new, |it| format!("&{}", it.query()));
        let path = format!("/v1/apply?dryRun={is_dry}{prune}{waiting}");
        let body = self.text.clone().into_bytes();
        let asked = Asked::post(path, body);
        let waits = wait.map(Timeout::duration).unwrap_or_default();
        client.ask_and_wait(asked, waits).map_err(|error| match error {
            RemoteError::Refused(refused) => {
                let failure = complain(&refused, |line| self.place(line));
                let is_files = matches!(refused.status, 400 | 422);
                if is_files { WrongFiles(failure).into() } else { failure }
            }
            error => error.into(),
        })
    }

    /// The objects as JSON, of those whose form is right.
    pub fn objects(&self) -> Result<BTreeMap<Identity, Value>, serde_json::Error> {
        let objects = logical::read(&self.text).objects.into_iter();
        objects.map(|it| Ok((it.identity(), serde_json::to_value(it)?))).collect()
    }

    /// A line of the text, by the file that it is of.
    fn place(&self, line: u64) -> String {
        let file = self.files.partition_point(|(_, before)| *before < line).saturating_sub(1);
        let (path, before) = self.files[file];
        format!("{}:{}: ", path.display(), line.saturating_sub(before))
    }
}
