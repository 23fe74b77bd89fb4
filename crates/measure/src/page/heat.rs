//! Heat: where, and when, there is how much of something.

use std::fmt::Write;

use figures::Unit;
use maud::{Markup, html};

use super::pixels::px;
use super::scale::Axis;
use super::svg::{Plot, TEXT, TITLE_ROW, WIDTH, columns, shortened, svg, text_width};
use super::table::Table;

/// The height of a row.
const ROW: f64 = 14.0;

/// The most room for the names of rows.
const NAMES: f64 = 190.0;

/// How many shades there are besides none.
const SHADES: usize = 6;

/// A row for each place, in as many shades as can be told apart.
#[derive(Clone, Debug)]
pub struct Heat {
    pub(super) title: String,
    x: Axis,
    values: Axis,
    end: f64,
    rows: Vec<(String, Vec<Stretch>)>,
}

/// A part of a row that has one value: where it begins, where it ends.
type Stretch = (f64, f64, f64);

impl Heat {
    /// An empty chart of `values` along `x`, from 0 to `end`.
    pub fn new(title: impl Into<String>, x: Axis, values: Axis, end: f64) -> Self {
        Self { title: title.into(), x, values, end, rows: Vec::new() }
    }

    /// A row called `name`, by parts: from where to where, and the value there. Elsewhere it is 0,
    /// and so is what is not finite.
    pub fn row(
        mut self,
        name: impl Into<String>,
        parts: impl IntoIterator<Item = Stretch>,
    ) -> Self {
        let parts = parts
            .into_iter()
            .filter(|(from, to, value)| from < to && *value > 0.0 && value.is_finite());
        self.rows.push((name.into(), parts.collect()));
        self
    }

    /// What the numbers of its table are.
    pub(super) fn subject(&self) -> String {
        self.values.subject()
    }

    fn largest(&self) -> f64 {
        self.rows.iter().flat_map(|(_, parts)| parts).map(|part| part.2).fold(0.0, f64::max)
    }

    /// A value's shade, 0 for none.
    fn shade(&self, value: f64, largest: f64) -> usize {
        ((value / largest * SHADES as f64).ceil() as usize).min(SHADES)
    }

    pub(super) fn draw(&self, id: &str) -> Markup {
        let largest = self.largest();
        let widths = self.rows.iter().map(|(name, _)| text_width(name, TEXT));
        let left = widths.fold(16.0, f64::max).min(NAMES) + 8.0;
        let top = TITLE_ROW + 22.0;
        let plot =
            Plot { left, right: WIDTH - 12.0, top, bottom: top + ROW * self.rows.len() as f64 };
        let x = self.x.fit([0.0, self.end], plot.left, plot.right);
        let body = html! {
            (self.legend(largest))
            rect.ground x=(px(left)) y=(px(top)) width=(px(plot.right - left)) height=(px(plot.bottom - top)) {}
            @for (row, (name, _)) in self.rows.iter().enumerate() {
                text.tick.end x=(px(left - 8.0)) y=(px(top + ROW * row as f64 + ROW - 3.0)) {
                    (shortened(name, NAMES, TEXT))
                }
            }
            @for shade in 1..=SHADES {
                path.heat style=(share(shade)) d=(self.path(shade, largest, top, |at| x.place(at))) {}
            }
            (plot.x_axis(&x.title(), &columns(&x)))
        };
        svg(id, &self.title, &self.describe(largest), plot.bottom + 50.0, body)
    }

    /// Which shade is which value.
    fn legend(&self, largest: f64) -> Markup {
        let step = (WIDTH - 12.0) / SHADES as f64;
        html! {
            text.axis x="0" y="14" { (self.values.label) ", up to" }
            @for shade in (1..=SHADES).filter(|_| largest > 0.0) {
                @let at = step * (shade - 1) as f64;
                rect.heat style=(share(shade)) x=(px(at)) y="26" width="12" height="12" rx="2" {}
                text.tick x=(px(at + 18.0)) y="36" {
                    (self.values.unit.brief(largest * shade as f64 / SHADES as f64))
                }
            }
        }
    }

    /// All parts of one shade. Neighbours are one, and what is too narrow to be seen is a third of
    /// a pixel wide.
    fn path(&self, shade: usize, largest: f64, top: f64, place: impl Fn(f64) -> f64) -> String {
        let mut path = String::new();
        for (row, (_, parts)) in self.rows.iter().enumerate() {
            let y = px(top + ROW * row as f64 + 0.5);
            let mut mine =
                parts.iter().filter(|part| self.shade(part.2, largest) == shade).peekable();
            while let Some(&(from, mut to, _)) = mine.next() {
                while let Some(next) = mine.next_if(|next| next.0 <= to) {
                    to = to.max(next.1);
                }
                let (from, to) = (place(from), place(to));
                let width = px((to - from).max(0.3));
                let _ = write!(path, "M{},{y}h{width}v{}h-{width}z", px(from), ROW - 1.0);
            }
        }
        path
    }

    pub(super) fn table(&self) -> Table {
        let exact = |unit: Unit, value| unit.exact(value);
        self.rows.iter().fold(Table::new(["", "most", "mean"]), |table, (name, parts)| {
            let most = parts.iter().map(|part| part.2).fold(0.0, f64::max);
            let mean =
                parts.iter().map(|(from, to, value)| (to - from) * value).sum::<f64>() / self.end;
            let unit = self.values.unit;
            table.row([name.clone(), exact(unit, most), unit.brief(mean)])
        })
    }

    fn describe(&self, largest: f64) -> String {
        let most = self.values.unit.brief(largest);
        let mut text =
            format!("Heat map of {} along {}, up to {most}.", self.values.label, self.x.label);
        let hottest =
            self.rows.iter().find(|(_, parts)| parts.iter().any(|part| part.2 == largest));
        if let Some((name, _)) = hottest {
            let _ = write!(text, " The most is at {name}.");
        }
        text
    }
}

/// How strong a shade's colour is.
fn share(shade: usize) -> String {
    format!("--share:{}", 10 + shade * 90 / SHADES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat() -> Heat {
        let chart = Heat::new(
            "Queues",
            Axis::linear("time", Unit::SECONDS),
            Axis::linear("queue", Unit::BYTES),
            10.0,
        );
        chart
            .row("a", [(0.0, 1.0, 600.0), (1.0, 2.0, 590.0), (5.0, 6.0, 100.0), (6.0, 7.0, 0.0)])
            .row("b", [])
    }

    #[test]
    fn neighbours_of_one_shade_are_one_part() {
        let heat = heat();
        let parts = |shade| heat.path(shade, 600.0, 0.0, |at| at * 10.0);
        assert_eq!(parts(6), "M0,0.5h20v13h-20z");
        assert_eq!(parts(1), "M50,0.5h10v13h-10z");
        assert!((2..6).all(|shade| parts(shade).is_empty()));
    }

    #[test]
    fn a_row_without_heat_is_there() {
        let drawn = heat().draw("x").into_string();
        assert!(drawn.contains(">a<") && drawn.contains(">b<"), "{drawn}");
        assert!(
            heat().describe(600.0).ends_with("up to 600 B. The most is at a."),
            "{}",
            heat().describe(600.0)
        );
        assert_eq!(heat().table().len(), 2);
    }
}
