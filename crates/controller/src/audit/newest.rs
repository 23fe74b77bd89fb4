//! The newest lines, read from the files' ends.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::sync::PoisonError;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Audit, KEPT, Lines};

/// How many bytes of lines are read at most.
const READ_BYTES: u64 = 1 << 20;

/// The newest lines, the newest first.
#[derive(Debug)]
pub struct Newest {
    pub lines: Vec<Box<RawValue>>,
    /// Whether there may be older ones that were asked for.
    pub has_more: bool,
}

/// When a line was written.
#[derive(Deserialize)]
struct When<'a> {
    at: &'a str,
}

impl Audit {
    /// The newest lines of writes, or of what was refused, that are not older than `from`, a time
    /// as lines have it: at most `limit`, or a megabyte.
    ///
    /// # Errors
    ///
    /// The files cannot be read.
    pub fn newest(
        &self,
        is_of_refusals: bool,
        from: Option<&str>,
        limit: usize,
    ) -> io::Result<Newest> {
        let of = if is_of_refusals { &self.refusals } else { &self.writes };
        of.newest(from.unwrap_or_default(), limit, READ_BYTES)
    }
}

impl Lines {
    fn newest(&self, from: &str, limit: usize, mut bytes: u64) -> io::Result<Newest> {
        let mut newest = Newest { lines: Vec::new(), has_more: true };
        for mut file in self.files()? {
            let length = file.metadata()?.len();
            let begin = length.saturating_sub(bytes);
            file.seek(SeekFrom::Start(begin))?;
            let mut read = Vec::new();
            file.take(length - begin).read_to_end(&mut read)?;
            bytes -= length - begin;
            let mut lines: Vec<_> = read.split(|byte| *byte == b'\n').collect();
            if begin > 0 {
                // Where it begins is not read.
                lines.remove(0);
            }
            for line in lines.into_iter().rev() {
                // One that was broken off by a loss of power is none.
                let Ok(When { at }) = serde_json::from_slice(line) else { continue };
                if at < from {
                    newest.has_more = false;
                    return Ok(newest);
                }
                if newest.lines.len() == limit {
                    return Ok(newest);
                }
                newest.lines.push(serde_json::from_slice(line)?);
            }
            if begin > 0 {
                return Ok(newest);
            }
        }
        newest.has_more = false;
        Ok(newest)
    }

    /// The files, the newest first. They stay the same ones when a new one is begun.
    fn files(&self) -> io::Result<Vec<File>> {
        let _open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let older = (1..=KEPT).map(|age| self.path.with_added_extension(age.to_string()));
        let opened = [self.path.clone()].into_iter().chain(older).map(File::open);
        // Somebody may have taken one away.
        let is_there = |it: &io::Result<File>| {
            !it.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        opened.filter(is_there).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::http::StatusCode;

    use super::*;
    use crate::access::{Principal, Role};
    use crate::audit::Record;

    #[test]
    fn the_newest_lines_are_read_from_the_ends_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let length = 200;
        // Some lines a file.
        let audit = Arc::new(Audit::bounded(folder.path(), 4 * length).unwrap());
        for action in 0..20 {
            let who = Principal::new("me", Role::Admin);
            let record = Record::new(Arc::clone(&audit), who, None, &action.to_string());
            record.refused(StatusCode::CONFLICT);
        }
        let read = |from: &str, limit, bytes| {
            let newest = audit.refusals.newest(from, limit, bytes).unwrap();
            let action = |line: Box<RawValue>| -> u32 {
                let line: serde_json::Value = serde_json::from_str(line.get()).unwrap();
                line["action"].as_str().unwrap().parse().unwrap()
            };
            let lines: Vec<u32> = newest.lines.into_iter().map(action).collect();
            (lines, newest.has_more)
        };
        assert_eq!(read("", 3, 1 << 20), (vec![19, 18, 17], true));
        let (all, has_more) = read("", 20, 1 << 20);
        assert!(!has_more && all.len() > 8 && all.is_sorted_by(|a, b| *a == b + 1), "{all:?}");
        // No more is read than may be, and no part of a line told.
        let (some, has_more) = read("", 20, 3 * length);
        assert!(has_more && !some.is_empty() && some.len() < all.len(), "{some:?}");
        assert_eq!(some, all[..some.len()]);
        assert_eq!(read("9999", 20, 1 << 20), (vec![], false));
        assert_eq!(audit.newest(false, None, 20).unwrap().lines.len(), 0);
        assert_eq!(audit.newest(true, Some("2020"), 20).unwrap().lines.len(), all.len());
    }
}
