//! What a program needs in order to run elsewhere: its segments, its loader, its libraries
//! (elf(5)).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::LabError;
use crate::program::run;

/// How long a file's header is.
const HEADER: usize = 64;

/// The type of the segment that names the loader (PT_INTERP).
const INTERPRETER: u32 = 3;

/// A program of this machine's kind: 64 bits, little-endian.
pub(super) struct Elf<'a> {
    bytes: &'a [u8],
}

impl<'a> Elf<'a> {
    /// Reads a program; nothing if the file is none, or has parts that lie outside it.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        // The magic number, ELFCLASS64, ELFDATA2LSB; and a whole header.
        let is_elf = bytes.starts_with(b"\x7fELF\x02\x01") && bytes.len() >= HEADER;
        let elf = is_elf.then_some(Self { bytes })?;
        elf.segments()?
            .iter()
            .all(|(_, range)| elf.bytes.get(range.clone()).is_some())
            .then_some(elf)
    }

    /// The program that loads this one's libraries; none if it is static.
    pub(super) fn loader(&self) -> Option<PathBuf> {
        let (_, range) = self.segments()?.into_iter().find(|(kind, _)| *kind == INTERPRETER)?;
        let path = std::str::from_utf8(self.bytes.get(range)?).ok()?;
        Some(path.trim_end_matches('\0').into())
    }

    /// What is needed to run: sections, debug information among them, are for linkers and
    /// debuggers, and come last.
    pub(super) fn trimmed(&self) -> Vec<u8> {
        let end = self.segments().and_then(|all| all.into_iter().map(|(_, range)| range.end).max());
        let mut bytes = self.bytes[..end.map_or(self.bytes.len(), |end| end.max(HEADER))].to_vec();
        // e_shoff; e_shnum and e_shstrndx.
        bytes[40..48].fill(0);
        bytes[60..64].fill(0);
        bytes
    }

    /// Each segment's type and where it lies in the file.
    fn segments(&self) -> Option<Vec<(u32, Range<usize>)>> {
        // e_phoff, e_phentsize and e_phnum.
        let (table, size, count) = (self.number(32, 8)?, self.number(54, 2)?, self.number(56, 2)?);
        let segment = |index| {
            // p_type, p_offset and p_filesz.
            let at = table.checked_add(size * index)?;
            let (kind, offset, len) =
                (self.number(at, 4)?, self.number(at + 8, 8)?, self.number(at + 32, 8)?);
            Some((u32::try_from(kind).ok()?, offset..offset.checked_add(len)?))
        };
        (0..count).map(segment).collect()
    }

    fn number(&self, at: usize, len: usize) -> Option<usize> {
        let bytes = self.bytes.get(at..at.checked_add(len)?)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }
}

/// A dynamic program's shared libraries: what each is called, and where it is here. The loader
/// says, as ldd(1) would.
pub(super) fn libraries(loader: &Path, program: &Path) -> Result<Vec<(String, PathBuf)>, LabError> {
    let said = run(Command::new(loader).arg("--list").arg(program))?;
    let lines = said.lines().filter_map(|line| line.trim().split_once(" => "));
    let library = |(name, place): (&str, &str)| {
        if place == "not found" {
            let said = format!("its library {name} is not installed");
            return Err(LabError::Program { program: program.display().to_string(), said });
        }
        // An address in parentheses follows.
        Ok((name.to_owned(), place.rsplit_once(" (").map_or(place, |(path, _)| path).into()))
    };
    lines.map(library).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ourselves() -> (PathBuf, Vec<u8>) {
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        (path, bytes)
    }

    #[test]
    fn a_trimmed_program_runs_and_is_smaller() {
        let (_, bytes) = ourselves();
        let before = bytes.len();
        let trimmed = Elf::read(&bytes).unwrap().trimmed();
        assert!(trimmed.len() < before);
        let place = tempfile::tempdir().unwrap();
        let copy = place.path().join("copy");
        std::fs::write(&copy, trimmed).unwrap();
        std::fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        assert!(Command::new(copy).arg("--list").output().unwrap().status.success());
    }

    #[test]
    fn a_dynamic_programs_libraries_are_found() {
        let (path, bytes) = ourselves();
        let loader = Elf::read(&bytes).unwrap().loader().unwrap();
        let found = libraries(&loader, &path).unwrap();
        assert!(
            found.iter().any(|(name, place)| name == "libc.so.6" && place.is_absolute()),
            "{found:?}"
        );
    }

    #[test]
    fn what_is_no_program_or_a_broken_one_is_refused() {
        assert!(Elf::read(b"#!/bin/sh\n").is_none());
        let (_, mut bytes) = ourselves();
        bytes.truncate(4096);
        assert!(Elf::read(&bytes).is_none());
    }
}
