//! Tuples as their readers see them: columns in the order in which they were declared.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::kinds::Kind;
use crate::program::Table;
use crate::values::{Value, Values};

/// A table of an engine's program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub(crate) u32);

impl TableId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a table's rows are laid out.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub name: String,
    pub kinds: Vec<Kind>,
    /// Where in a row each column is.
    places: Vec<u8>,
}

impl Layout {
    pub fn new(table: &Table, primary: &[u8]) -> Self {
        let place = |column| primary.iter().position(|it| usize::from(*it) == column);
        Self {
            name: table.name.clone(),
            kinds: table.columns.iter().map(|column| column.ty.kind).collect(),
            places: (0..primary.len()).map(|it| place(it).unwrap_or_default() as u8).collect(),
        }
    }

    /// The kinds of a row's words.
    pub fn row_kinds(&self) -> Vec<Kind> {
        let mut kinds = self.kinds.clone();
        for (kind, place) in self.kinds.iter().zip(&self.places) {
            kinds[usize::from(*place)] = *kind;
        }
        kinds
    }

    /// Adds the row of these values.
    ///
    /// # Panics
    ///
    /// If they are not as many as the table has columns, or one is of another kind.
    pub fn extend(&self, row: &mut Vec<u32>, values: &[Value]) {
        let fits = values.iter().map(|value| value.kind()).eq(self.kinds.iter().copied());
        assert!(fits, "{values:?} are not the columns of {}", self.name);
        let start = row.len();
        row.resize(start + values.len(), 0);
        for (value, place) in values.iter().zip(&self.places) {
            row[start + usize::from(*place)] = value.word;
        }
    }
}

/// A tuple of a table.
#[derive(Clone, Copy)]
pub struct Tuple<'a> {
    layout: &'a Layout,
    row: &'a [u32],
}

impl<'a> Tuple<'a> {
    pub(crate) fn new(layout: &'a Layout, row: &'a [u32]) -> Self {
        Self { layout, row }
    }

    /// The value in a column.
    pub fn value(&self, column: usize) -> Value {
        let word = self.row[usize::from(self.layout.places[column])];
        Value { kind: self.layout.kinds[column], word }
    }

    /// The values of all columns.
    pub fn values(&self) -> impl ExactSizeIterator<Item = Value> + use<'a> {
        let tuple = *self;
        (0..self.layout.kinds.len()).map(move |column| tuple.value(column))
    }

    /// The tuple as rules write it: `port("web", 7)`.
    pub fn show(&self, values: &Values) -> String {
        let mut shown = self.layout.name.clone();
        for (at, value) in self.values().enumerate() {
            let before = if at == 0 { "(" } else { ", " };
            write!(shown, "{before}{}", values.datum(value)).expect("a String takes everything");
        }
        shown.push(')');
        shown
    }
}
