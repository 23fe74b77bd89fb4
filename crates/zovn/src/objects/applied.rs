//! What a write of objects has done.

use std::process::ExitCode;

use logical::objects::Condition;
use serde::{Deserialize, Serialize};

use super::said::plain;
use super::wait;
use crate::ending::Outcome;

/// What a write has done.
#[derive(Deserialize, Serialize)]
pub struct Applied {
    pub revision: u64,
    pub objects: Vec<AppliedObject>,
    /// Whether hosts execute it, if that was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realized: Option<Condition>,
}

/// What became of one object.
#[derive(Deserialize, Serialize)]
pub struct AppliedObject {
    pub object: String,
    pub change: String,
}

impl AppliedObject {
    /// Whether it is other than before.
    pub fn is_change(&self) -> bool {
        self.change != "unchanged"
    }
}

impl Applied {
    /// How the command ends: 1 if it was waited for in vain.
    pub fn ended(&self) -> Outcome {
        self.realized.as_ref().map_or(Ok(ExitCode::SUCCESS), wait::ended)
    }

    /// A line for each object that changed, and the revision below.
    pub fn said(&self, is_dry: bool) -> String {
        let changed = self.objects.iter().filter(|it| it.is_change());
        let mut lines: Vec<_> = changed
            .map(|it| {
                let sign = match it.change.as_str() {
                    "created" => '+',
                    "deleted" => '-',
                    _ => '~',
                };
                format!("{sign} {}", plain(&it.object))
            })
            .collect();
        let (revision, count) = (self.revision, self.objects.len());
        lines.push(match is_dry {
            true => format!("a dry run: revision {revision} stays (objects: {count})"),
            false => format!("revision {revision} (objects: {count})"),
        });
        lines.extend(self.realized.as_ref().map(wait::said));
        lines.join("\n")
    }
}
