//! The logical networks that an agent starts with: those of its files, or those that were applied
//! last.

use std::fs;
use std::path::Path;

use logical::Fault;
use logical::objects::Object;
use model::{Generation, LogicalSettings, VtepList};

use super::Logical;
use super::error::StartError;
use super::kept::Kept;

/// Checks the files of a declaration.
///
/// # Errors
///
/// [`StartError`] tells all that is wrong with them at once.
pub fn check(settings: &LogicalSettings) -> Result<(), StartError> {
    let objects = read(&settings.files)?;
    let checked = Logical::default().next(objects, Default::default());
    checked.map(drop).map_err(|faults| told(&settings.files, faults))
}

impl Logical {
    /// What an agent begins with, before it has ports, on a host with these tunnel addresses.
    ///
    /// # Errors
    ///
    /// [`StartError`] if a file that is declared cannot stand. What was applied and cannot stand
    /// any more is told of, and ends no agent.
    pub fn at_start(
        settings: &LogicalSettings,
        own: Option<&VtepList>,
        kept: &Kept,
    ) -> Result<Self, StartError> {
        let none = Self::of(own);
        if settings.files.is_empty() {
            let Some((generation, objects)) = kept.take() else { return Ok(none) };
            // It keeps its number.
            let before = Self { generation: Generation(generation.0.saturating_sub(1)), ..none };
            return Ok(before.next(objects, Default::default()).unwrap_or_else(|faults| {
                kept.set_aside(&super::Faults(faults));
                before
            }));
        }
        let objects = read(&settings.files)?;
        let next = none.next(objects, Default::default());
        next.map_err(|faults| told(&settings.files, faults))
    }
}

/// The objects of files, which are one declaration.
fn read(paths: &[String]) -> Result<Vec<Object>, StartError> {
    let (mut objects, mut told) = (Vec::new(), Vec::new());
    for path in paths {
        let text = fs::read_to_string(path)
            .map_err(|source| StartError::Read { path: Path::new(path).into(), source })?;
        let source = logical::read(&text);
        objects.extend(source.objects);
        told.extend(source.faults.iter().map(|fault| format!("{path}:{fault}")));
    }
    if told.is_empty() { Ok(objects) } else { Err(StartError::Faults(told)) }
}

/// Faults of objects that were read from these files.
fn told(paths: &[String], faults: Vec<Fault>) -> StartError {
    let all = paths.join(", ");
    StartError::Faults(faults.iter().map(|fault| format!("{all}: {fault}")).collect())
}
