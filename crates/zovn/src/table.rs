//! Tables for people and for `grep`: columns, no rules.

use comfy_table::{Table, presets};

/// A table without a header.
pub fn bare() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// A table with a header.
pub fn headed<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = bare();
    table.set_header(header.into_iter());
    table
}

/// The table's lines, without a newline after the last.
pub fn text(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}
