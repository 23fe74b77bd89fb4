//! Files that nobody else reads.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::LabError;

/// Writes one.
pub(super) fn keep(file: &Path, text: &str) -> Result<(), LabError> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(file);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(LabError::file(file))
}
