//! Lines and points: how something grows with something else.

use std::fmt::Write;

use figures::MISSING;
use maud::{Markup, html};

use super::bars::Bars;
use super::palette::{Look, Palette};
use super::pixels::px;
use super::scale::{Axis, Scale, finite};
use super::svg::{
    Plot, SIDE, Sample, TEXT, TITLE_ROW, WIDTH, columns, gutter, legend, rows, shortened, svg,
    text_width,
};
use super::table::Table;

const HEIGHT: f64 = 260.0;

/// The height of the row in which a mark's label stands.
const MARK_ROW: f64 = 18.0;

/// A line for each name, with markers, bands around lines, and vertical marks.
#[derive(Clone, Debug)]
pub struct Lines {
    pub(super) title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    marks: Vec<Mark>,
}

#[derive(Clone, Debug)]
struct Series {
    name: String,
    /// Sorted by x.
    points: Vec<(f64, f64)>,
    /// Whether a line leads from each to the next.
    is_joined: bool,
}

#[derive(Clone, Debug)]
struct Mark {
    name: String,
    x: f64,
    label: String,
}

impl Lines {
    /// An empty chart of `y` against `x`.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), marks: Vec::new() }
    }

    /// A line called `name` through `(x, y)` points, in any order. Points that are not finite are
    /// left out.
    pub fn series(
        self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        self.with(name.into(), points, true)
    }

    /// The same without the line: of points that differ in more than `x`.
    pub fn points(
        self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        self.with(name.into(), points, false)
    }

    fn with(
        mut self,
        name: String,
        points: impl IntoIterator<Item = (f64, f64)>,
        is_joined: bool,
    ) -> Self {
        let points = points.into_iter().filter_map(|(x, y)| Some((finite(x)?, finite(y)?)));
        let mut points: Vec<_> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.series.push(Series { name, points, is_joined });
        self
    }

    /// A vertical line at `x` in the colour of `name`, such as the point where a switch saturates.
    pub fn mark(mut self, name: impl Into<String>, x: f64, label: impl Into<String>) -> Self {
        if let Some(x) = finite(x) {
            self.marks.push(Mark { name: name.into(), x, label: label.into() });
        }
        self
    }

    /// The same as bars, if all of it is at one place: there is nothing that a line would lead to.
    pub(super) fn as_bars(&self) -> Option<Bars> {
        let mut points = self.series.iter().flat_map(|series| &series.points);
        let (x, _) = *points.next()?;
        if !self.marks.is_empty() || points.any(|point| point.0 != x) {
            return None;
        }
        let bars = Bars::new(&self.title, self.y.clone());
        let bars = bars.groups(&self.x.label, [self.x.unit.exact(x)]);
        Some(self.series.iter().fold(bars, |bars, series| {
            bars.series(&series.name, [series.points.first().map_or(f64::NAN, |point| point.1)])
        }))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.series.iter().map(|series| series.name.as_str())
    }

    /// What the numbers of its table are.
    pub(super) fn subject(&self) -> String {
        self.y.subject()
    }

    pub(super) fn draw(&self, id: &str, palette: &Palette) -> Markup {
        let names: Vec<_> = self.names().collect();
        let looks = palette.looks(&names);
        let is_joined = self.series.iter().any(|series| series.is_joined);
        let sample = if is_joined { Sample::LineAndMarker } else { Sample::Marker };
        let (legend, top) = legend(&names, &looks, sample);
        let marks_height = MARK_ROW * self.marks.len() as f64;
        let top = top + TITLE_ROW + marks_height;
        let bottom = top + HEIGHT;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let y = self.y.fit(points().map(|point| point.1), bottom, top);
        let y_ticks = rows(&y);
        let plot = Plot { left: gutter(&y_ticks), right: WIDTH - 1.0, top, bottom };
        let marks = self.marks.iter().map(|mark| mark.x);
        let x_values = points().map(|point| point.0).chain(marks);
        let x = self.x.fit(x_values, plot.left + SIDE, plot.right - SIDE);
        let mut in_front: Vec<(Look, &Series)> = looks.into_iter().zip(&self.series).collect();
        in_front.sort_by_key(|(look, _)| look.depth());
        let body = html! {
            (legend)
            (Plot { top: top - marks_height, ..plot }.y_axis(&y.title(), &y_ticks))
            (plot.y_shelf(&y))
            (plot.x_axis(&x.title(), &columns(&x)))
            (self.draw_marks(palette, plot, &x))
            @for (look, series) in &in_front { (series.draw_line(*look, &x, &y, self)) }
        };
        svg(id, &self.title, &self.describe(), bottom + 50.0, body)
    }

    pub(super) fn table(&self) -> Table {
        let mut places: Vec<f64> =
            self.series.iter().flat_map(|series| &series.points).map(|point| point.0).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let heads = std::iter::once(self.x.subject()).chain(self.names().map(str::to_owned));
        places.iter().fold(Table::new(heads), |table, &x| {
            let cells = self.series.iter().map(|series| self.cell(series, x));
            table.row(std::iter::once(self.x.unit.exact(x)).chain(cells))
        })
    }

    /// What a table says of `series` at `x`.
    fn cell(&self, series: &Series, x: f64) -> String {
        let point = series.points.iter().find(|point| point.0 == x);
        point.map_or_else(|| MISSING.into(), |point| self.y.unit.exact(point.1))
    }

    fn describe(&self) -> String {
        let mut text = format!("Chart of {} against {}.", self.y.label, self.x.label);
        let (x, y) = (|value| self.x.unit.brief(value), |value| self.y.unit.brief(value));
        for Series { name, points, .. } in &self.series {
            let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
            let (from, to) = (y(first.1), y(last.1));
            let _ =
                write!(text, " {name}: from {from} at {} to {to} at {}.", x(first.0), x(last.0));
        }
        text
    }

    /// The marks, each with its label in a row of its own above the plot, so that no two labels
    /// meet.
    fn draw_marks(&self, palette: &Palette, plot: Plot, x: &Scale) -> Markup {
        html! {
            @for (row, mark) in self.marks.iter().rev().enumerate() {
                @let at = x.place(mark.x);
                @let y = plot.top - 10.0 - MARK_ROW * row as f64;
                @let label = shortened(&mark.label, WIDTH / 2.0, TEXT);
                @let on_left = at + 6.0 + text_width(&label, TEXT) > plot.right;
                g class=[palette.find(&mark.name).map(Look::class)] {
                    path.mark d={ "M" (px(at)) "," (px(y - 10.0)) "V" (px(plot.bottom)) } {}
                    text.note.end[on_left] x=(px(if on_left { at - 6.0 } else { at + 6.0 })) y=(px(y)) { (label) }
                }
            }
        }
    }
}

impl Series {
    fn draw_line(&self, look: Look, x: &Scale, y: &Scale, chart: &Lines) -> Markup {
        let tip = |point: &(f64, f64)| {
            format!(
                "{}: {} at {}",
                self.name,
                chart.y.unit.brief(point.1),
                chart.x.unit.brief(point.0)
            )
        };
        html! {
            g class=(look.class()) {
                @if self.is_joined {
                    path.line d=(polyline(self.points.iter().map(|point| (x.place(point.0), y.place(point.1))))) {}
                }
                @for point in &self.points { (look.marker(x.place(point.0), y.place(point.1), Some(&tip(point)))) }
            }
        }
    }
}

/// A path through `points`.
fn polyline(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (x, y) in points {
        let _ = write!(path, "{}{},{}", if path.is_empty() { 'M' } else { 'L' }, px(x), px(y));
    }
    path
}
