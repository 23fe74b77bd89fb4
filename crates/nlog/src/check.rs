//! Rule files into a checked program.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::names::Names;
use crate::parse::parse;
use crate::program::Program;
use crate::rules::rule;
use crate::source::{Fault, Faults};
use crate::strata::stratify;
use crate::syntax::Item;

impl Program {
    /// Reads and checks rule files, given by name and text. They are one program: each may use what
    /// another declares, in any order.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, in the order of the files.
    pub fn parse(files: &[(&str, &str)]) -> Result<Self, Vec<Fault>> {
        let names: Vec<String> = files.iter().map(|(name, _)| (*name).to_string()).collect();
        let mut faults = Faults::default();
        let mut items = Vec::new();
        for (file, (_, text)) in (0..).zip(files) {
            items.extend(parse(file, text, &mut faults));
        }
        let mut declared = Names::of(&items, &mut faults);
        let mut rules = Vec::new();
        for item in &items {
            if let Item::Rule(item) = item {
                rules.extend(rule(item, &declared, &mut faults));
            }
        }
        // Strata of rules that have faults would only tell of consequences.
        if !faults.is_empty() {
            return Err(faults.named(&names));
        }
        let strata = stratify(&mut declared.tables, &mut rules, &mut faults);
        if !faults.is_empty() {
            return Err(faults.named(&names));
        }
        let (tables, functions) = (declared.tables, declared.functions);
        Ok(Self { files: names, tables, functions, rules, strata })
    }
}
