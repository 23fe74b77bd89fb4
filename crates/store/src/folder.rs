//! The folder of what is kept.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes a folder for this user alone, if it is not there. Folders above it that are missing are
/// made as others are: what else is below them is not this user's.
///
/// # Errors
///
/// It cannot be made, or is no folder.
pub fn make_private(folder: &Path) -> io::Result<()> {
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn only_the_folder_itself_is_private() {
        let all = tempfile::tempdir().unwrap();
        let above = all.path().join("above");
        let folder = above.join("own");
        let mode = |folder: &Path| fs::metadata(folder).unwrap().mode() & 0o777;
        for _ in 0..2 {
            make_private(&folder).unwrap();
        }
        fs::create_dir(all.path().join("other")).unwrap();
        assert_eq!((mode(&folder), mode(&above)), (0o700, mode(&all.path().join("other"))));
        fs::write(folder.join("file"), "").unwrap();
        make_private(&folder.join("file")).unwrap_err();
    }
}
