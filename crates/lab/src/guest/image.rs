//! What guests boot: a kernel, and a first file system in memory with busybox, the modules and
//! programs of ours.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::LabError;
use crate::guest::archive::Archive;
use crate::guest::elf::{self, Elf};
use crate::guest::{GuestError, Kernel};
use crate::program::find;

/// The first program that runs in a guest.
const INIT: &str = include_str!("init.sh");

/// What guests boot. One image serves any number of them; it lies in this process's memory and goes
/// with it.
///
/// Programs are in `/bin`, found by name: busybox's applets, and whatever was
/// [added](Self::with_program).
#[derive(Debug)]
pub struct Image {
    kernel: Kernel,
    /// Archives one behind the other, which the kernel unpacks in turn.
    file: File,
}

impl Image {
    /// An image with busybox and `agent`: a program that does nothing but [`serve`](super::serve).
    ///
    /// # Errors
    ///
    /// [`GuestError::Lab`]: a file cannot be read, or busybox is not installed.
    pub fn new(kernel: Kernel, agent: &Path) -> Result<Self, GuestError> {
        let file = memfd_create("initramfs", MemfdFlags::CLOEXEC)
            .map_err(GuestError::system("make an image"))?;
        let image = Self { kernel, file: file.into() };
        let busybox = find("busybox")
            .ok_or(LabError::Missing { program: "busybox", package: "busybox-static" })?;
        let mut archive = Archive::default();
        archive.file(Path::new("/init"), INIT.as_bytes());
        for (number, file) in image.kernel.modules().enumerate() {
            // Loaded in the order of their names.
            let name = format!("/modules/{number:02}.ko");
            archive.file(Path::new(&name), &read(&file)?);
        }
        program(&mut archive, "busybox", &busybox)?;
        program(&mut archive, "guest-agent", agent)?;
        image.append(archive)
    }

    /// Adds a program, under its own name, with the shared libraries that it is linked with. Those
    /// that it would open later by itself (dlopen(3)) are not known here. Of a program's file, only
    /// what runs is taken: no debug information.
    ///
    /// # Errors
    ///
    /// [`GuestError::Lab`]: it cannot be read, or lacks a library here already.
    pub fn with_program(self, path: &Path) -> Result<Self, GuestError> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name =
            name.ok_or_else(|| LabError::file(path)(std::io::ErrorKind::InvalidFilename.into()))?;
        let mut archive = Archive::default();
        program(&mut archive, name, path)?;
        self.append(archive)
    }

    /// The kernel's file.
    pub(super) fn kernel(&self) -> PathBuf {
        self.kernel.image()
    }

    /// The first file system's file, there as long as this image.
    pub(super) fn initramfs(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    fn append(mut self, archive: Archive) -> Result<Self, GuestError> {
        self.file.write_all(&archive.finish()).map_err(GuestError::system("write an image"))?;
        Ok(self)
    }
}

/// Adds a program and what it needs.
fn program(archive: &mut Archive, name: &str, path: &Path) -> Result<(), GuestError> {
    let bytes = read(path)?;
    let target = Path::new("/bin").join(name);
    // What is no ELF file is a script.
    let Some(elf) = Elf::read(&bytes) else {
        archive.file(&target, &bytes);
        return Ok(());
    };
    archive.file(&target, &elf.trimmed());
    if let Some(loader) = elf.loader() {
        archive.file(&loader, &read(&loader)?);
        for (name, place) in elf::libraries(&loader, path)? {
            // Where every loader looks, wherever it is here.
            archive.file(&Path::new("/lib").join(name), &read(&place)?);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, LabError> {
    fs::read(path).map_err(LabError::file(path))
}
