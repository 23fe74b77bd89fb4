//! The Unix socket of the API. It belongs to one agent, and only its owner may connect.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use model::DEFAULT_SOCKET;
use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

/// Why the API cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another agent listens there.
    #[error("an agent already listens on {}: stop it, or give this one a socket of its own", .0.display())]
    Taken(PathBuf),
    /// The path is not a socket.
    #[error("{} exists and is no socket: remove it, or give the agent another path", .0.display())]
    NoSocket(PathBuf),
    /// The path is not absolute. An empty one would not even be a file: any user could connect to
    /// the abstract socket that the kernel makes of it (unix(7)).
    #[error("`{}` is no absolute path: give the agent one, such as {DEFAULT_SOCKET}", .0.display())]
    Relative(PathBuf),
    /// A system call failed.
    #[error("cannot {operation} {}{}", path.display(), hint_for(source))]
    Refused {
        /// The operation.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// What to do about it, after a separator.
fn hint_for(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ": run the agent as root, or give it a path that it may write to"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            ": a part of the path is a file; give the agent another"
        }
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => {
            ": give the agent a path of at most 107 bytes"
        }
        io::ErrorKind::StorageFull => ": make room there, or give the agent another path",
        _ => "",
    }
}

/// A socket in the file system. Dropping it removes the file.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
}

impl Socket {
    /// Listens on `path`. Replaces the socket of an agent that was killed, but not that of a
    /// running one.
    ///
    /// The listener does not block. Its directory is made if it is missing. Only its owner may
    /// connect.
    pub fn bind(path: &Path) -> Result<(Self, UnixListener), SocketError> {
        if !path.is_absolute() {
            return Err(SocketError::Relative(path.to_owned()));
        }
        let refused = |operation| {
            let path = path.to_owned();
            move |source: io::Error| SocketError::Refused { operation, path, source }
        };
        let dir = path.parent().unwrap_or(path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(dir)
            .map_err(refused("make the directory of"))?;
        // Two agents that start at the same time must not both remove the same stale socket. A lock
        // on the directory leaves no file behind.
        let dir = File::open(dir).map_err(refused("open the directory of"))?;
        flock(&dir, FlockOperation::LockExclusive)
            .map_err(io::Error::from)
            .map_err(refused("lock the directory of"))?;
        remove_corpse(path)?;
        let listener = listen_privately(path).map_err(refused("listen on"))?;
        Ok((Self { path: path.to_owned() }, listener))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Another process has removed it already.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes a socket on which no process listens.
fn remove_corpse(path: &Path) -> Result<(), SocketError> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::NoSocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let remove = fs::remove_file(path);
            remove.map_err(|source| SocketError::Refused {
                operation: "remove",
                path: path.to_owned(),
                source,
            })
        }
        // Connected, or its queue is full: a process listens there.
        _ => Err(SocketError::Taken(path.to_owned())),
    }
}

fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Linux gives the file the mode that the socket has when it is bound, so others can never
    // connect.
    fchmod(&socket, Mode::from_raw_mode(0o600))?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, 128)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_is_private_and_removed_with_its_agent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/agent.sock");
        let (socket, _listener) = Socket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_running_agents_socket_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        let _living = Socket::bind(&path).unwrap();
        assert!(matches!(Socket::bind(&path), Err(SocketError::Taken(_))));
        assert!(path.exists());
    }

    #[test]
    fn a_killed_agents_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a listener that is dropped leaves its file");
        Socket::bind(&path).unwrap();
    }

    #[test]
    fn what_is_no_absolute_path_is_refused() {
        for path in ["", "agent.sock", "./agent.sock"] {
            let refused = Socket::bind(Path::new(path));
            assert!(matches!(refused, Err(SocketError::Relative(_))), "{refused:?}");
        }
    }

    #[test]
    fn a_hint_fits_its_cause() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let error = |path: &str| Socket::bind(&dir.path().join(path)).unwrap_err().to_string();
        assert!(error("file/agent.sock").contains("a part of the path is a file"));
        assert!(error(&"x".repeat(120)).contains("at most 107 bytes"));
    }

    #[test]
    fn a_file_is_not_mistaken_for_a_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(Socket::bind(&path), Err(SocketError::NoSocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
