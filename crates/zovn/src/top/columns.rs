//! The columns of the tables below that of ports: which of them fit.

use ratatui::layout::{Constraint, HorizontalAlignment};
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table};

use super::cells::abridged;

/// A column of a table of things `T`, which go at a pace `P`.
pub struct Column<T: ?Sized, P> {
    title: &'static str,
    width: u16,
    alignment: HorizontalAlignment,
    /// Where room is short, columns go in the order of this number; those of 0 stay.
    goes: u8,
    show: fn(&T, &P) -> Vec<Span<'static>>,
}

impl<T: ?Sized, P> Column<T, P> {
    /// A column of words.
    pub const fn left(
        title: &'static str,
        width: u16,
        goes: u8,
        show: fn(&T, &P) -> Vec<Span<'static>>,
    ) -> Self {
        Self { title, width, alignment: HorizontalAlignment::Left, goes, show }
    }

    /// A column of figures.
    pub const fn right(
        title: &'static str,
        width: u16,
        goes: u8,
        show: fn(&T, &P) -> Vec<Span<'static>>,
    ) -> Self {
        Self { title, width, alignment: HorizontalAlignment::Right, goes, show }
    }

    /// A cell of the column.
    pub fn cell(&self, cell: Vec<Span<'static>>) -> Line<'static> {
        Line::from(abridged(cell, self.width.into())).alignment(self.alignment)
    }
}

/// How wide columns are with a space between two.
pub const fn width<T: ?Sized, P>(columns: &[Column<T, P>]) -> u16 {
    let (mut width, mut place) = (columns.len() as u16 - 1, 0);
    while place < columns.len() {
        width += columns[place].width;
        place += 1;
    }
    width
}

/// The columns that fit.
pub fn fitting<T: ?Sized, P>(
    columns: &'static [Column<T, P>],
    room: u16,
) -> Vec<&'static Column<T, P>> {
    let (mut left, mut gone) = (width(columns), 0);
    while left > room && gone < columns.len() as u8 {
        gone += 1;
        let going = columns.iter().filter(|column| column.goes == gone);
        left -= going.map(|column| column.width + 1).sum::<u16>();
    }
    columns.iter().filter(|column| column.goes == 0 || column.goes > gone).collect()
}

/// A thing's row.
pub fn row<T: ?Sized, P>(columns: &[&Column<T, P>], thing: &T, pace: &P) -> Row<'static> {
    Row::new(columns.iter().map(|column| column.cell((column.show)(thing, pace))))
}

/// A table of these rows.
pub fn table<'a, T: ?Sized, P>(
    columns: &[&Column<T, P>],
    rows: impl Iterator<Item = Row<'a>>,
) -> Table<'a> {
    let title = |column: &&Column<T, P>| Line::from(column.title.dim()).alignment(column.alignment);
    let widths = columns.iter().map(|column| Constraint::Length(column.width));
    Table::new(rows, widths).header(Row::new(columns.iter().map(title))).column_spacing(1)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Asserts that a table fits into all widths from this on, and has these columns at it.
    pub fn assert_fits<T: ?Sized, P>(
        columns: &'static [Column<T, P>],
        least: u16,
        titles: &[&str],
    ) {
        for room in least..100 {
            let total: u16 = fitting(columns, room).iter().map(|column| column.width + 1).sum();
            assert!(total - 1 <= room, "{room}");
        }
        let shown: Vec<_> = fitting(columns, least).iter().map(|column| column.title).collect();
        assert_eq!(shown, titles);
    }
}
