//! The kernel that guests run: Debian's for clouds, taken out of its package. The host neither
//! installs nor boots it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::LabError;
use crate::guest::GuestError;
use crate::program::{find, run};

/// The package that depends on the newest kernel's.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// What a guest's kernel loads, in this order: each needs those before it.
const MODULES: [&str; 11] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_console",
    "failover",
    "net_failover",
    "virtio_net",
    "inet_diag",
    "udp_diag",
];

/// The modules that the kernel has within it, a path a line.
const BUILT_IN: &str = "modules.builtin";

/// A kernel and the modules that guests load.
#[derive(Clone, Debug)]
pub struct Kernel {
    directory: PathBuf,
}

impl Kernel {
    /// The kernel that is kept in `cache`; fetched from Debian's mirrors first if there is none.
    /// Whoever asks meanwhile, in another process too, waits. Remove `kernel` in there to have a
    /// newer one fetched.
    ///
    /// The host's own package lists and its right to install are not needed: the lists of its
    /// sources are read anew, into a place that is gone afterwards.
    ///
    /// # Errors
    ///
    /// [`GuestError::Lab`]: the host is no Debian, its mirrors do not answer or the cache cannot be
    /// written.
    pub fn fetch(cache: &Path) -> Result<Self, GuestError> {
        fs::create_dir_all(cache).map_err(LabError::file(cache))?;
        let lock = cache.join("kernel.lock");
        // Released with the file.
        let lock = File::create(&lock)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(LabError::file(&lock))?;
        let kernel = Self { directory: cache.join("kernel") };
        if !kernel.is_complete() {
            kernel.make(cache)?;
        }
        drop(lock);
        Ok(kernel)
    }

    /// What boots.
    pub(super) fn image(&self) -> PathBuf {
        self.directory.join("vmlinuz")
    }

    /// The modules to load, in order; those that this kernel has within it are not among them.
    pub(super) fn modules(&self) -> impl Iterator<Item = PathBuf> {
        MODULES.iter().map(|name| self.module(name)).filter(|file| file.exists())
    }

    fn module(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.ko"))
    }

    fn is_complete(&self) -> bool {
        let built_in = fs::read_to_string(self.directory.join(BUILT_IN)).unwrap_or_default();
        let has =
            |name: &&str| self.module(name).exists() || built_in.contains(&format!("/{name}.ko\n"));
        self.image().exists() && MODULES.iter().all(has)
    }

    /// Fetches the package and keeps of it what guests need. The directory appears whole or not at
    /// all.
    fn make(&self, cache: &Path) -> Result<(), GuestError> {
        let work = tempfile::tempdir_in(cache).map_err(LabError::file(cache))?;
        let unpacked = work.path().join("unpacked");
        run(Command::new(find_tool("dpkg-deb", "dpkg")?)
            .arg("-x")
            .arg(download(work.path())?)
            .arg(&unpacked))?;

        let chosen = work.path().join("chosen");
        fs::create_dir(&chosen).map_err(LabError::file(&chosen))?;
        let wanted = |name: &str| {
            let stem = name.strip_suffix(".ko").unwrap_or(name);
            name == BUILT_IN || MODULES.contains(&stem)
        };
        for file in files(&unpacked)? {
            let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
            let kept = if name.starts_with("vmlinuz-") { "vmlinuz" } else { name };
            if kept == "vmlinuz" || wanted(name) {
                fs::rename(&file, chosen.join(kept)).map_err(LabError::file(&file))?;
            }
        }
        let found = Self { directory: chosen };
        if !found.is_complete() {
            return Err(LabError::Program {
                program: PACKAGE.into(),
                said: format!("it lacks one of vmlinuz, {BUILT_IN}, {}", MODULES.join(", ")),
            }
            .into());
        }
        let _ = fs::remove_dir_all(&self.directory);
        fs::rename(&found.directory, &self.directory).map_err(LabError::file(&self.directory))?;
        Ok(())
    }
}

/// Downloads the newest kernel's package into `work`.
fn download(work: &Path) -> Result<PathBuf, GuestError> {
    let apt = |tool: &'static str| -> Result<Command, GuestError> {
        let mut command = Command::new(find_tool(tool, "apt")?);
        command.current_dir(work).arg("-q").arg("-o");
        command.arg(format!("Dir::State::Lists={}", work.join("lists").display()));
        command.args(["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]);
        command.args(["-o", "Acquire::Languages=none"]);
        Ok(command)
    };
    let partial = work.join("lists/partial");
    fs::create_dir_all(&partial).map_err(LabError::file(&partial))?;
    let updated = run(apt("apt-get")?.arg("update"));
    let depends = run(apt("apt-cache")?.args(["depends", PACKAGE])).unwrap_or_default();
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let Some(package) = package else {
        // Of several sources one may fail: that matters only now.
        updated?;
        let said = format!("no source of this host has {PACKAGE}; see /etc/apt/sources.list");
        return Err(LabError::Program { program: "apt-get".into(), said }.into());
    };
    run(apt("apt-get")?.args(["download", package]))?;
    let is_package = |file: &PathBuf| file.extension() == Some(OsStr::new("deb"));
    files(work)?.into_iter().find(is_package).ok_or_else(|| {
        LabError::Program {
            program: "apt-get".into(),
            said: format!("it left no file of {package}"),
        }
        .into()
    })
}

fn find_tool(program: &'static str, package: &'static str) -> Result<PathBuf, LabError> {
    find(program).ok_or(LabError::Missing { program, package })
}

/// Every regular file below a directory.
fn files(directory: &Path) -> Result<Vec<PathBuf>, LabError> {
    let mut found = Vec::new();
    let mut ahead = vec![directory.to_owned()];
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(&directory).map_err(LabError::file(&directory))? {
            let entry = entry.map_err(LabError::file(&directory))?;
            let kind = entry.file_type().map_err(LabError::file(&entry.path()))?;
            if kind.is_dir() {
                ahead.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_fetched_again() {
        let cache = tempfile::tempdir().unwrap();
        let kernel = Kernel { directory: cache.path().join("kernel") };
        fs::create_dir(&kernel.directory).unwrap();
        fs::write(kernel.image(), "ours").unwrap();
        fs::write(kernel.directory.join(BUILT_IN), "kernel/drivers/virtio/virtio.ko\n").unwrap();
        for name in MODULES.iter().filter(|name| **name != "virtio") {
            assert!(!kernel.is_complete(), "{name} is not there yet");
            fs::write(kernel.module(name), "").unwrap();
        }
        let fetched = Kernel::fetch(cache.path()).unwrap();
        assert_eq!(fs::read(fetched.image()).unwrap(), b"ours");
        assert_eq!(fetched.modules().count(), MODULES.len() - 1, "one is within the kernel");
    }
}
