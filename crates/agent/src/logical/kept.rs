//! The logical networks that were applied, kept for the next agent.
//!
//! They are a file of JSON beside the API's socket: /run/zovn/agent.sock.logical.json. It is
//! written aside and renamed, so that whoever reads it, after whatever end, reads a whole one.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use logical::objects::Object;
use model::Generation;
use serde::{Deserialize, Serialize};

use super::error::Faults;

/// Where applied objects are kept.
#[derive(Debug)]
pub struct Kept {
    /// `None`: nowhere, as files declare what there is at the start.
    path: Option<PathBuf>,
}

#[derive(Serialize)]
struct Written<'a> {
    generation: Generation,
    objects: &'a [Object],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    generation: Generation,
    objects: Vec<serde_json::Value>,
}

impl Kept {
    /// Beside this socket, or nowhere if files declare what there is at the start.
    pub fn new(socket: &Path, has_files: bool) -> Self {
        let mut path = socket.as_os_str().to_owned();
        path.push(".logical.json");
        let kept = Self { path: Some(path.into()) };
        if has_files {
            kept.clear();
            return Self { path: None };
        }
        kept
    }

    /// What the agent before has left. What cannot be read is set aside, and told of.
    pub fn take(&self) -> Option<(Generation, Vec<Object>)> {
        let text = match fs::read(self.path.as_ref()?) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.set_aside(&error);
                return None;
            }
        };
        let read = serde_json::from_slice(&text).map_err(|error| error.to_string());
        let read = read.and_then(|Read { generation, objects }| {
            let text = serde_json::to_string(&objects).map_err(|error| error.to_string())?;
            let source = logical::read(&text);
            match source.faults.is_empty() {
                true => Ok((generation, source.objects)),
                false => Err(Faults(source.faults).to_string()),
            }
        });
        read.map_err(|error| self.set_aside(&error)).ok()
    }

    /// Puts what cannot be taken out of the way.
    pub fn set_aside(&self, why: &impl Display) {
        let Some(path) = &self.path else { return };
        let aside = path.with_extension("unreadable");
        tracing::error!(path = %path.display(), error = %why, aside = %aside.display(), "the logical networks that were applied are not there any more: apply them again");
        let _ = fs::rename(path, aside);
    }

    /// Keeps these objects in place of those before.
    pub fn keep(&self, generation: Generation, objects: &[Object]) {
        let Some(path) = &self.path else { return };
        let write = || {
            let aside = path.with_extension("new");
            fs::write(&aside, serde_json::to_vec(&Written { generation, objects })?)?;
            fs::rename(aside, path)
        };
        if let Err(error) = write() {
            tracing::error!(path = %path.display(), %error, "the next agent will not know of these logical networks");
        }
    }

    /// Keeps nothing: no agent comes that is to go on.
    pub fn clear(&self) {
        let Some(path) = &self.path else { return };
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(path = %path.display(), %error, "applied logical networks cannot be removed");
            }
            _ => {}
        }
    }
}
