//! A matrix: what each of some columns did with each of some rows, in words and by shade.

use maud::{Markup, html};

use super::palette::Palette;
use super::table::Table;

/// Rows by columns. Every cell says its figures; how much it is to be noticed is its shade.
#[derive(Clone, Debug)]
pub struct Matrix {
    pub(super) title: String,
    corner: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<Option<Cell>>)>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its figures.
    pub text: String,
    /// From 0, as good as can be, to 1.
    pub shade: f64,
}

impl Matrix {
    /// An empty matrix with these columns. `corner` says what its cells tell.
    pub fn new(
        title: impl Into<String>,
        corner: impl Into<String>,
        columns: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { title: title.into(), corner: corner.into(), columns, rows: Vec::new() }
    }

    /// A row called `name`, with a cell for each column that has one.
    pub fn row(
        mut self,
        name: impl Into<String>,
        cells: impl IntoIterator<Item = Option<Cell>>,
    ) -> Self {
        let mut cells: Vec<_> = cells.into_iter().collect();
        cells.resize(self.columns.len(), None);
        self.rows.push((name.into(), cells));
        self
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(String::as_str)
    }

    /// What the numbers of its table are.
    pub(super) fn subject(&self) -> String {
        self.corner.clone()
    }

    pub(super) fn draw(&self, palette: &Palette) -> Markup {
        html! {
            table.matrix {
                thead { tr {
                    th scope="col" { (self.corner) }
                    @for column in &self.columns {
                        th scope="col" {
                            @if let Some(look) = palette.find(column) { (look.swatch()) }
                            (column)
                        }
                    }
                } }
                tbody {
                    @for (name, cells) in &self.rows {
                        tr {
                            th scope="row" { (name) }
                            @for cell in cells {
                                @match cell {
                                    Some(Cell { text, shade }) => td style=(share(*shade)) { (text) },
                                    None => td {},
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    pub(super) fn table(&self) -> Table {
        let heads = std::iter::once(self.corner.clone()).chain(self.columns.iter().cloned());
        self.rows.iter().fold(Table::new(heads), |table, (name, cells)| {
            let texts = cells.iter().map(|cell| cell.as_ref().map_or("", |cell| &cell.text));
            table.row(std::iter::once(name.as_str()).chain(texts))
        })
    }
}

/// How strong a cell's colour is, in percent: text stays legible on the strongest.
fn share(shade: f64) -> String {
    const STRONGEST: f64 = 60.0;
    let shade = if shade.is_finite() { shade.clamp(0.0, 1.0) } else { 1.0 };
    format!("--share:{:.0}", STRONGEST * shade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_say_their_figures_and_are_as_strong_as_they_are_bad() {
        let cell = |text: &str, shade| Some(Cell { text: text.into(), shade });
        let matrix = Matrix::new("", "delay", ["bridge", "zovn", "other"])
            .row("bytes", [cell("× 300", 2.0), cell("× 1.1", 0.05)]);
        let drawn = matrix.draw(&Palette::default()).into_string();
        assert!(drawn.contains(r#"<td style="--share:60">× 300"#), "{drawn}");
        assert!(drawn.contains(r#"<td style="--share:3">× 1.1"#), "{drawn}");
        assert!(drawn.ends_with("<td></td></tr></tbody></table>"), "{drawn}");
        assert_eq!((matrix.table().len(), share(f64::NAN)), (1, "--share:60".to_owned()));
    }
}
