//! Network namespaces: where containers keep their interfaces.
//!
//! A named namespace is a file under /run/netns on which the namespace is mounted, exactly as `ip
//! netns` makes and reads it: what one creates the other lists, enters and deletes.
//!
//! Entering is a property of a thread. [`Namespace::run`] therefore enters on a thread of its own,
//! which ends with the work: the caller's thread never leaves home.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::FlockOperation;
use rustix::mount::{MountPropagationFlags, UnmountFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

/// Where named namespaces are, for iproute2 and for us.
pub const DIRECTORY: &str = "/run/netns";

/// An open network namespace. It lives on while this value does, even if its name is deleted.
#[derive(Debug)]
pub struct Namespace {
    file: File,
    path: PathBuf,
}

/// Why a namespace could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} network namespace {namespace}: {source}{hint}")]
pub struct NamespaceError {
    operation: &'static str,
    namespace: String,
    source: io::Error,
    hint: &'static str,
}

impl NamespaceError {
    /// Whether there is no such namespace.
    pub fn is_not_found(&self) -> bool {
        // A file that is no namespace: its container is about to come, or has just gone.
        self.source.kind() == io::ErrorKind::NotFound
            || self.source.raw_os_error() == Some(libc::EINVAL)
    }
}

impl Namespace {
    /// Opens a namespace by its name under /run/netns, or by a path such as /proc/1234/ns/net.
    ///
    /// # Errors
    ///
    /// [`NamespaceError`] if there is none.
    pub fn open(name_or_path: &str) -> Result<Self, NamespaceError> {
        let path = path_of(name_or_path);
        let file = File::open(&path).map_err(because("open", &path))?;
        Ok(Self { file, path })
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// [`NamespaceError`] if /proc is not mounted.
    pub fn current() -> Result<Self, NamespaceError> {
        Self::open("/proc/thread-self/ns/net")
    }

    /// Makes a new namespace and gives it a name under /run/netns.
    ///
    /// Its only interface is a loopback that is down.
    ///
    /// # Errors
    ///
    /// [`NamespaceError`] if the name is taken or we may not.
    pub fn create(name: &str) -> Result<Self, NamespaceError> {
        let path = Path::new(DIRECTORY).join(name);
        let why = |operation| because(operation, &path);
        share_directory().map_err(why("prepare /run/netns for"))?;
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o444)
            .open(&path)
            .map_err(why("name"))?;
        let made = on_own_thread(|| {
            // SAFETY: only UnshareFlags::FILES is dangerous, and it is not asked for.
            #[expect(unsafe_code, reason = "rustix's only call that makes a namespace")]
            unsafe {
                rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)?;
            }
            rustix::mount::mount_bind("/proc/thread-self/ns/net", &path)
        });
        match made.and_then(|done| Ok(done?)).map_err(why("create")) {
            Ok(()) => Self::open(name),
            Err(error) => {
                // Only the empty file is left, and the caller learns of the first failure.
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Takes a namespace's name away. The namespace itself goes when nobody uses it any more.
    ///
    /// # Errors
    ///
    /// [`NamespaceError`] if there is no such name.
    pub fn delete(name: &str) -> Result<(), NamespaceError> {
        let path = Path::new(DIRECTORY).join(name);
        match rustix::mount::unmount(&path, UnmountFlags::DETACH) {
            // A name that is not mounted is a file that somebody's failure left: it goes as well.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(because("unmount", &path)(error.into())),
        }
        std::fs::remove_file(&path).map_err(because("delete", &path))
    }

    /// The names under /run/netns, in order.
    ///
    /// # Errors
    ///
    /// [`NamespaceError`] if the directory cannot be read; one that does not exist holds no names.
    pub fn list() -> Result<Vec<String>, NamespaceError> {
        let why = because("list", Path::new(DIRECTORY));
        let entries = match std::fs::read_dir(DIRECTORY) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(why(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) => names.extend(entry.file_name().into_string().ok()),
                Err(error) => return Err(why(error)),
            }
        }
        names.sort();
        Ok(names)
    }

    /// Does `work` inside the namespace, on a thread of its own, and waits for it.
    ///
    /// What `work` opens there (a socket, a device) stays in the namespace wherever it is used
    /// later.
    ///
    /// # Errors
    ///
    /// [`NamespaceError`] if the namespace cannot be entered; `work` was not begun then.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
        on_own_thread(|| {
            rustix::thread::move_into_link_name_space(
                self.as_fd(),
                Some(LinkNameSpaceType::Network),
            )?;
            Ok(work())
        })
        .and_then(|done: io::Result<T>| done)
        .map_err(because("enter", &self.path))
    }

    /// A further hold on the same namespace.
    ///
    /// # Errors
    ///
    /// [`NamespaceError`] if no descriptor is left.
    pub fn try_clone(&self) -> Result<Self, NamespaceError> {
        let file = self.file.try_clone().map_err(because("hold", &self.path))?;
        Ok(Self { file, path: self.path.clone() })
    }

    /// The namespace's number: unique on this host while the namespace lives, and what BPF calls
    /// `netns cookie`'s elder, `ns.inum`.
    ///
    /// # Errors
    ///
    /// [`NamespaceError`] if the kernel refuses to tell.
    pub fn inode(&self) -> Result<u64, NamespaceError> {
        let metadata = self.file.metadata().map_err(because("number", &self.path))?;
        Ok(metadata.ino())
    }

    /// Whether the name or path that it was opened by still leads to it.
    pub fn is_reachable(&self) -> bool {
        let there = std::fs::metadata(&self.path).map(|metadata| metadata.ino());
        there.is_ok_and(|there| self.inode().is_ok_and(|here| here == there))
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Namespace {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

fn path_of(name_or_path: &str) -> PathBuf {
    // Joining an absolute path yields that path.
    Path::new(DIRECTORY).join(name_or_path)
}

/// Makes /run/netns a shared mount, so that a name given in one mount namespace is seen, and can be
/// taken away, in all of them: what `ip netns add` does first.
fn share_directory() -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(DIRECTORY)?;
    // Two that find the directory unshared would mount it twice; iproute2 takes the same lock.
    let lock = File::open(DIRECTORY)?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let share = || {
        rustix::mount::mount_change(
            DIRECTORY,
            MountPropagationFlags::SHARED | MountPropagationFlags::REC,
        )
    };
    match share() {
        // It is no mount point yet: mount it on itself.
        Err(rustix::io::Errno::INVAL) => {
            rustix::mount::mount_bind_recursive(DIRECTORY, DIRECTORY)?;
            Ok(share()?)
        }
        shared => Ok(shared?),
    }
}

fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let helper = thread::Builder::new().name("netns".into()).spawn_scoped(scope, work)?;
        helper.join().map_err(|_| io::Error::other("its helper thread panicked"))
    })
}

fn because(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> NamespaceError {
    move |source| NamespaceError {
        operation,
        namespace: path.display().to_string(),
        hint: match (source.raw_os_error(), source.kind()) {
            (Some(libc::EMFILE | libc::ENFILE), _) => "; raise the limit on open files",
            (_, io::ErrorKind::PermissionDenied) => "; run as root",
            (_, io::ErrorKind::NotFound) => "; create it first",
            (_, io::ErrorKind::AlreadyExists) => "; choose another name or delete it first",
            _ => "",
        },
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(String);

    impl Drop for Named {
        fn drop(&mut self) {
            let _ = Namespace::delete(&self.0);
        }
    }

    #[test]
    fn a_namespace_lives_under_its_name_until_that_is_deleted() {
        if !needs::root() {
            return;
        }
        let name = Named(format!("zovn-t-ns-{}", std::process::id()));
        let made = Namespace::create(&name.0).unwrap();
        assert!(Namespace::list().unwrap().contains(&name.0));
        assert!(Namespace::create(&name.0).is_err(), "a name is given once");

        let home = Namespace::current().unwrap().inode().unwrap();
        let inside = made.run(|| Namespace::current().unwrap().inode().unwrap()).unwrap();
        assert_eq!(inside, made.inode().unwrap());
        assert_ne!(inside, home);
        assert_eq!(
            Namespace::current().unwrap().inode().unwrap(),
            home,
            "the caller stayed at home"
        );

        assert!(made.is_reachable());
        Namespace::delete(&name.0).unwrap();
        assert!(!made.is_reachable());
        assert!(!Namespace::list().unwrap().contains(&name.0));
        assert!(Namespace::open(&name.0).unwrap_err().to_string().contains("create it first"));
    }
}
