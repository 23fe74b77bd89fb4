//! Files of a network, read as one.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use logical::{Fault, Object, Topology};

/// A file's text; `-` is stdin.
pub fn read(path: &Path) -> Result<String, String> {
    let read = match path == Path::new("-") {
        true => io::read_to_string(io::stdin()),
        false => fs::read_to_string(path),
    };
    read.map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// What is wrong with files: which, and where in it.
pub type Faults = Vec<(String, Fault)>;

/// Reads files as one topology, or tells all that is wrong with them.
pub fn load(paths: &[PathBuf]) -> Result<Result<Topology, Faults>, String> {
    Ok(load_both(paths)?.map(|read| read.topology))
}

/// Reads files as one list of objects that can stand together, or tells all that is wrong.
pub fn load_objects(paths: &[PathBuf]) -> Result<Result<Vec<Object>, Faults>, String> {
    match load_both(paths)? {
        Ok(read) if read.is_empty => {
            let names: Vec<_> = paths.iter().map(|it| it.display().to_string()).collect();
            Err(format!("{} says nothing: write `[]` to have no objects", names.join(", ")))
        }
        Ok(read) => Ok(Ok(read.objects)),
        Err(faults) => Ok(Err(faults)),
    }
}

/// What files say together.
pub struct Read {
    /// The objects, which can stand together.
    pub objects: Vec<Object>,
    /// What they are.
    pub topology: Topology,
    is_empty: bool,
}

/// Reads files as one list of objects and the topology that they are, or tells all that is wrong.
pub fn load_both(paths: &[PathBuf]) -> Result<Result<Read, Faults>, String> {
    let texts = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    // The lines of all files, one behind the other, so that references between them are found.
    let ends = texts.iter().scan(0, |sum, text| {
        *sum += text.lines().count() + 1;
        Some(*sum)
    });
    let ends: Vec<usize> = ends.collect();
    let whole: String = texts.iter().map(|text| with_end(text)).collect::<Vec<_>>().join("---\n");
    let whole = if texts.len() == 1 { texts.into_iter().next().unwrap_or_default() } else { whole };
    let source = logical::read(&whole);
    let (objects, is_empty) = (source.objects.clone(), source.is_empty);
    let read = |topology| Read { objects, topology, is_empty };
    Ok(source.resolve().map(read).map_err(|faults| {
        let place = |mut fault: Fault| {
            let line = fault.position.map_or(1, |it| it.line);
            let file = ends.iter().position(|end| line <= *end).unwrap_or(0);
            let before = file.checked_sub(1).and_then(|it| ends.get(it)).copied().unwrap_or(0);
            if let Some(position) = &mut fault.position {
                position.line -= before;
            }
            (paths.get(file).map_or_else(String::new, |it| it.display().to_string()), fault)
        };
        faults.into_iter().map(place).collect()
    }))
}

/// A text whose last line ends.
fn with_end(text: &str) -> String {
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{newline}")
}

/// Tells faults on stderr, a line each.
pub fn complain(faults: &[(String, Fault)]) -> io::Result<()> {
    let mut out = io::stderr().lock();
    faults.iter().try_for_each(|(file, fault)| writeln!(out, "{file}:{fault}"))
}
