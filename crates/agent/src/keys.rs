//! The file with the keys that a host has in common with others.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{TunnelKey, TunnelMode};
use overlay::Protection;
use seal::{Keys, KeysError, Mode};

/// The longest file, in bytes. Two keys and what is said of them are far shorter.
const LONGEST: u64 = 16 << 10;

/// Why the keys of a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("cannot read {}, the `key` of `[uplink]`: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Others can read it.
    #[error("{}, the `key` of `[uplink]`, is open to others: `chmod 600` it", .file.display())]
    Exposed {
        /// The file.
        file: PathBuf,
    },
    /// It has something else in it.
    #[error("{}, the `key` of `[uplink]`: {source}", .file.display())]
    Keys {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: KeysError,
    },
}

/// What protects tunnels that have this key.
///
/// # Errors
///
/// [`KeyFileError`]
pub fn protection(key: &TunnelKey) -> Result<Protection, KeyFileError> {
    let mode = match key.mode {
        TunnelMode::Integrity => Mode::Integrity,
        TunnelMode::Encrypt => Mode::Encrypt,
    };
    Ok(Protection { mode, keys: Arc::new(read(Path::new(&key.file))?) })
}

/// Whether tunnels that have this key could be protected now.
///
/// # Errors
///
/// [`KeyFileError`]
pub fn check_key(key: &TunnelKey) -> Result<(), KeyFileError> {
    protection(key).map(drop)
}

fn read(path: &Path) -> Result<Keys, KeyFileError> {
    let file = path.to_owned();
    let mut text = String::new();
    let read = File::open(path).and_then(|opened| {
        let mode = opened.metadata()?.permissions().mode();
        opened.take(LONGEST).read_to_string(&mut text)?;
        Ok(mode)
    });
    match read {
        Err(source) => Err(KeyFileError::Read { file, source }),
        Ok(mode) if mode & 0o077 != 0 => Err(KeyFileError::Exposed { file }),
        Ok(_) => Keys::parse(&text).map_err(|source| KeyFileError::Keys { file, source }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_others_can_read_or_that_has_no_keys_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tunnel.key");
        let key = TunnelKey { file: file.to_str().unwrap().into(), mode: TunnelMode::Encrypt };
        let complaint = |text: &str, mode| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            protection(&key).map(|_| ()).map_err(|error| error.to_string())
        };
        assert!(protection(&key).unwrap_err().to_string().contains("tunnel.key"));
        let good = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
        assert_eq!(complaint(good, 0o600), Ok(()));
        assert!(complaint(good, 0o640).unwrap_err().contains("chmod 600"));
        assert!(complaint("secret\n", 0o600).unwrap_err().contains("line 1"));
    }
}
