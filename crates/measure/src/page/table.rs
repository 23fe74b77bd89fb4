//! Tables: the numbers themselves.

use maud::{Markup, html};

use super::palette::Palette;

/// Rows of text under heads. Columns of numbers are aligned to the right; the names of switches
/// carry their colour.
#[derive(Clone, Debug)]
pub struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with a head for each column. The first column names its rows.
    pub fn new(heads: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { heads: heads.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row. Cells beyond the heads are left out; missing ones stay empty.
    pub fn row(mut self, cells: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.heads.len(), String::new());
        self.rows.push(cells);
        self
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn draw(&self, palette: &Palette) -> Markup {
        let named = |text: &str| {
            let look = palette.find(text);
            html! { @if let Some(look) = look { (look.swatch()) } (text) }
        };
        let is_number: Vec<bool> =
            (0..self.heads.len()).map(|column| self.is_number(column)).collect();
        html! {
            div.scroll.wide[self.is_wide()] tabindex="0" {
                table.narrow[self.heads.len() <= 3] {
                    thead { tr {
                        @for (head, &number) in self.heads.iter().zip(&is_number) {
                            th.number[number] scope="col" { (named(head)) }
                        }
                    } }
                    tbody {
                        @for row in &self.rows {
                            @let ours = row.first().and_then(|name| palette.find(name)).is_some_and(|look| look.is_ours());
                            tr.ours[ours] {
                                @for (column, (cell, &number)) in row.iter().zip(&is_number).enumerate() {
                                    @if column == 0 {
                                        th.number[number] scope="row" { (named(cell)) }
                                    } @else {
                                        td.number[number] { (cell) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Whether it takes more room than a line of text.
    fn is_wide(&self) -> bool {
        self.heads.len() > 7
    }

    /// Whether all cells of a column start like a number does.
    fn is_number(&self, column: usize) -> bool {
        let starts = |cell: &String| {
            cell.starts_with(|glyph: char| glyph.is_ascii_digit() || "-−–+<>".contains(glyph))
        };
        !self.rows.is_empty()
            && self.rows.iter().all(|row| row[column].is_empty() || starts(&row[column]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_many_columns_is_wider_than_text() {
        let wide = |columns: usize| {
            let heads = (0..columns).map(|column| column.to_string());
            Table::new(heads).draw(&Palette::default()).into_string().contains("scroll wide")
        };
        assert_eq!([3, 7, 8, 12].map(wide), [false, false, true, true]);
    }

    #[test]
    fn numbers_go_to_the_right_and_switches_carry_their_colour() {
        let table = Table::new(["switch", "lost"]).row(["zovn", "0"]).row(["bridge", "< 0.001 %"]);
        let drawn = table.draw(&Palette::default()).into_string();
        assert!(drawn.contains(r#"<th class="number" scope="col">lost"#), "{drawn}");
        assert!(drawn.contains("swatch look green ours"), "{drawn}");
        assert!(drawn.contains(r#"<tr class="ours">"#), "{drawn}");
    }

    #[test]
    fn ragged_rows_become_rectangles() {
        let drawn = Table::new(["a", "b"])
            .row(["1"])
            .row(["1", "2", "3"])
            .draw(&Palette::default())
            .into_string();
        assert_eq!(drawn.matches("<td").count(), 2);
    }
}
