//! A program that was checked: names are indexes, and every promise that the engine needs holds.

use alloc::string::String;
use alloc::vec::Vec;

use crate::kinds::Kind;
use crate::source::{Fault, Spot};
use crate::syntax::{Constant, Role};

/// The most columns that a table may have.
pub(crate) const MAX_COLUMNS: usize = 16;

/// The most variables and constants of a rule, together.
pub(crate) const MAX_SLOTS: usize = 64;

/// The most conditions of a rule.
pub(crate) const MAX_ATOMS: usize = 64;

/// A type as columns have it. Two types are one if they have the same name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Type {
    pub name: String,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: String,
    pub ty: Type,
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub name: String,
    pub role: Role,
    pub columns: Vec<Column>,
    /// The columns of which no two tuples have the same values. Empty if not declared.
    pub key: Vec<usize>,
    /// The stratum, by its index.
    pub stratum: usize,
    /// The rules that derive its tuples.
    pub rules: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub name: String,
    pub spot: Spot,
    pub inputs: Vec<Column>,
    pub outputs: Vec<Column>,
}

/// What every program can call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Builtin {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Add,
    Subtract,
}

impl Builtin {
    pub const ALL: [(&'static str, Self); 6] = [
        ("equal", Self::Equal),
        ("not_equal", Self::NotEqual),
        ("less", Self::Less),
        ("less_or_equal", Self::LessOrEqual),
        ("add", Self::Add),
        ("subtract", Self::Subtract),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, it)| *it == self).map_or("", |(name, _)| name)
    }

    /// How many of the arguments must be known.
    pub const INPUTS: usize = 2;

    /// How many it computes from them.
    pub fn outputs(self) -> usize {
        usize::from(matches!(self, Self::Add | Self::Subtract))
    }

    pub fn takes_numbers(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }
}

/// Who computes a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Callee {
    Builtin(Builtin),
    /// A declared function, by its index.
    Declared(usize),
}

/// One of a rule's variables and constants, by its index.
pub(crate) type Slot = u8;

#[derive(Clone, Debug)]
pub(crate) struct SlotInfo {
    /// The variable's name, or the constant as it was written.
    pub name: String,
    pub ty: Type,
    pub constant: Option<Constant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    /// A tuple of a table.
    Table(usize),
    /// That a table has no such tuple.
    Absent(usize),
    /// A function's tuple: the first so many terms are its inputs.
    Call(Callee, usize),
}

/// A condition of a rule's body.
#[derive(Clone, Debug)]
pub(crate) struct Atom {
    pub spot: Spot,
    pub sort: Sort,
    /// `None` is `_`.
    pub terms: Vec<Option<Slot>>,
}

impl Atom {
    /// The table that is read, if any.
    pub fn table(&self) -> Option<usize> {
        match self.sort {
            Sort::Table(table) | Sort::Absent(table) => Some(table),
            Sort::Call(..) => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Summary {
    Count,
    Sum,
    Min,
    Max,
    Set,
}

/// A column of a head that summarizes all solutions of the body with the same other columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Aggregate {
    pub summary: Summary,
    pub column: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub spot: Spot,
    pub head: usize,
    /// The head's columns. That of an aggregate has its argument, or `None` if it has none.
    pub terms: Vec<Option<Slot>>,
    pub aggregate: Option<Aggregate>,
    pub body: Vec<Atom>,
    pub slots: Vec<SlotInfo>,
    /// Whether the body reads a table of the head's own stratum.
    pub is_recursive: bool,
}

/// Tables that derive from each other, or one that does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stratum {
    pub tables: Vec<usize>,
    /// For a recursive stratum, the column of each of its tables that every derivation keeps: what
    /// differs there is never derived from each other.
    pub partition: Option<Vec<usize>>,
}

/// Rules that were read and checked.
///
/// Every table has a stratum, and no rule reads a table of a later one, so that strata can be
/// computed one after another.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) files: Vec<String>,
    pub(crate) tables: Vec<Table>,
    pub(crate) functions: Vec<Function>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) strata: Vec<Stratum>,
}

impl Program {
    /// What is wrong at a place.
    pub(crate) fn fault(&self, spot: Spot, message: String) -> Fault {
        let file = self.files[spot.file as usize].clone();
        Fault { file, line: spot.line, column: spot.column, message }
    }
}
