//! Archives that the kernel unpacks into its first file system: cpio's `newc` format
//! (the kernel's Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The kinds of file that we need, with their permissions (inode(7)).
const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

/// An archive that grows. Directories come by themselves.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    names: BTreeSet<PathBuf>,
}

impl Archive {
    /// Adds an executable file at an absolute path, unless one is there.
    pub(super) fn file(&mut self, path: &Path, content: &[u8]) {
        self.entry(path, FILE, content);
    }

    /// Adds an empty directory.
    pub(super) fn directory(&mut self, path: &Path) {
        self.entry(path, DIRECTORY, &[]);
    }

    /// The archive with its end.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.append("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &Path, mode: u32, content: &[u8]) {
        let name = path.strip_prefix("/").expect("archived paths are absolute");
        if name.as_os_str().is_empty() || self.names.contains(name) {
            return;
        }
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        self.names.insert(name.to_owned());
        self.append(name.to_str().expect("archived paths are UTF-8"), mode, content);
    }

    fn append(&mut self, name: &str, mode: u32, content: &[u8]) {
        let size = u32::try_from(content.len()).expect("an archived file is smaller than 4 GiB");
        let name_size = u32::try_from(name.len()).expect("a path is short") + 1;
        // Our inode numbers only tell files apart, which is of use to hard links alone.
        let inode = u32::try_from(self.names.len()).expect("an archive has few files");
        let [owner, group, links, time, major, minor, check] = [0, 0, 1, 0, 0, 0, 0];
        self.bytes.extend(b"070701");
        for field in [
            inode, mode, owner, group, links, time, size, major, minor, major, minor, name_size,
            check,
        ] {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    /// Headers and contents begin at multiples of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_brings_its_directories_and_is_there_once() {
        let mut archive = Archive::default();
        archive.file(Path::new("/lib/a.so"), b"first");
        archive.file(Path::new("/lib/a.so"), b"second");
        archive.file(Path::new("/lib/b.so"), b"a");
        let bytes = archive.finish();
        // Names and contents, in order, as a reader finds them by the sizes alone.
        let mut found = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            assert_eq!(&rest[..6], b"070701");
            let field = |n: usize| {
                let digits = std::str::from_utf8(&rest[6 + 8 * n..][..8]).unwrap();
                usize::from_str_radix(digits, 16).unwrap()
            };
            let (mode, size, name_size) = (field(1), field(6), field(11));
            let name = std::str::from_utf8(&rest[110..][..name_size - 1]).unwrap();
            let content = (110 + name_size).next_multiple_of(4);
            found.push((name, mode, &rest[content..][..size]));
            rest = &rest[(content + size).next_multiple_of(4)..];
        }
        let expected: [(_, _, &[u8]); 4] = [
            ("lib", 0o040_755, b""),
            ("lib/a.so", 0o100_755, b"first"),
            ("lib/b.so", 0o100_755, b"a"),
            ("TRAILER!!!", 0, b""),
        ];
        assert_eq!(found, expected);
    }
}
