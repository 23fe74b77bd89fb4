//! Bars: how names compare.

use std::fmt::Write;

use figures::MISSING;
use maud::{Markup, html};

use super::palette::{Look, Palette};
use super::pixels::px;
use super::scale::{Axis, finite};
use super::svg::{
    Plot, Sample, TEXT, TITLE_ROW, WIDTH, columns, gutter, legend, rows, shortened, svg, text_width,
};
use super::table::Table;

/// The size of the numbers at the ends of bars.
const LABEL: f64 = 11.0;

const HEIGHT: f64 = 230.0;

/// About how wide a plot is, beside the labels of its vertical axis.
const UPRIGHT_WIDTH: f64 = 640.0;

/// A bar for each name, or for each name in each of several groups, with its value at its end.
#[derive(Clone, Debug)]
pub struct Bars {
    pub(super) title: String,
    axis: Axis,
    /// What the groups are, and their names; none for a bar per name.
    groups: Option<(String, Vec<String>)>,
    series: Vec<Series>,
    is_horizontal: bool,
}

#[derive(Clone, Debug)]
struct Series {
    name: String,
    /// One value a group; `None` where nothing was measured.
    values: Vec<Option<f64>>,
    /// What most of each group's samples lie between; empty for a series without whiskers.
    ranges: Vec<Option<(f64, f64)>>,
}

/// A bar that knows its place across the axis.
struct Placed<'a> {
    series: &'a Series,
    value: Option<f64>,
    range: Option<(f64, f64)>,
    look: Look,
    at: f64,
}

impl Bars {
    /// An empty chart of `axis`.
    pub fn new(title: impl Into<String>, axis: Axis) -> Self {
        Self { title: title.into(), axis, groups: None, series: Vec::new(), is_horizontal: false }
    }

    /// Splits the chart into groups; `label` says what they are ("response size").
    pub fn groups(
        self,
        label: impl Into<String>,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self { groups: Some((label.into(), names.into_iter().map(Into::into).collect())), ..self }
    }

    /// A bar of `name` in each group, in the groups' order. What is not finite was not measured.
    pub fn series(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = f64>,
    ) -> Self {
        let values = values.into_iter().map(finite).collect();
        self.series.push(Series { name: name.into(), values, ranges: Vec::new() });
        self
    }

    /// A bar of `name` in each group, with a whisker: values, each with the two between which most
    /// samples lie.
    pub fn ranged(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = (f64, [f64; 2])>,
    ) -> Self {
        let range = |[low, high]: [f64; 2]| Some((finite(low)?, finite(high)?));
        let (values, ranges) =
            values.into_iter().map(|(value, ends)| (finite(value), range(ends))).unzip();
        self.series.push(Series { name: name.into(), values, ranges });
        self
    }

    /// A single bar, for charts without groups.
    pub fn bar(self, name: impl Into<String>, value: f64) -> Self {
        self.series(name, [value])
    }

    /// Lays the bars on their side. A chart whose labels would not fit otherwise does so by itself.
    pub fn horizontal(self) -> Self {
        Self { is_horizontal: true, ..self }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.series.iter().map(|series| series.name.as_str())
    }

    /// What the numbers of its table are.
    pub(super) fn subject(&self) -> String {
        self.axis.subject()
    }

    pub(super) fn draw(&self, id: &str, palette: &Palette) -> Markup {
        let looks = palette.looks(&self.names().collect::<Vec<_>>());
        let (body, height) = if self.is_horizontal || !self.fits_upright() {
            self.draw_lying(&looks)
        } else {
            self.draw_upright(&looks)
        };
        svg(id, &self.title, &self.describe(), height, body)
    }

    pub(super) fn table(&self) -> Table {
        let exact = |value| self.axis.unit.exact(value);
        let tell = |series: &Series, group| match (series.value(group), series.range(group)) {
            (None, _) => MISSING.into(),
            (Some(value), None) => exact(value),
            (Some(value), Some((low, high))) => {
                format!("{} ({} to {})", exact(value), exact(low), exact(high))
            }
        };
        match &self.groups {
            None => self
                .series
                .iter()
                .fold(Table::new([String::new(), self.axis.subject()]), |table, series| {
                    table.row([series.name.clone(), tell(series, 0)])
                }),
            Some((label, groups)) => {
                let heads = Table::new(std::iter::once(label.as_str()).chain(self.names()));
                groups.iter().enumerate().fold(heads, |table, (group, name)| {
                    table.row(
                        std::iter::once(name.clone())
                            .chain(self.series.iter().map(|series| tell(series, group))),
                    )
                })
            }
        }
    }

    fn tell(&self, value: Option<f64>) -> String {
        value.map_or_else(|| MISSING.into(), |value| self.axis.unit.brief(value))
    }

    fn describe(&self) -> String {
        let mut text = format!("Bar chart of {}.", self.axis.label);
        let groups = self.group_names();
        for series in &self.series {
            let _ = write!(text, " {}:", series.name);
            for (group, value) in groups.iter().zip(&series.values) {
                let separator = if group.is_empty() { "" } else { " " };
                let _ = write!(text, " {group}{separator}{}", self.tell(*value));
            }
            text.push('.');
        }
        text
    }

    fn group_names(&self) -> Vec<&str> {
        match &self.groups {
            None => vec![""],
            Some((_, names)) => names.iter().map(String::as_str).collect(),
        }
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.series.iter().flat_map(|series| &series.values).flatten().copied()
    }

    /// What the axis must reach: values, and the ends of whiskers.
    fn extent(&self) -> impl Iterator<Item = f64> {
        let ends = self.series.iter().flat_map(|series| &series.ranges).flatten();
        self.values().chain(ends.flat_map(|(low, high)| [*low, *high]))
    }

    /// Whether every number fits above its bar, and every name below it.
    fn fits_upright(&self) -> bool {
        let groups = self.group_names();
        let group_width = UPRIGHT_WIDTH / groups.len().max(1) as f64;
        let slot = self.slot(group_width);
        let (names, name_width) = match self.groups {
            Some(_) => (groups, group_width),
            None => (self.names().collect(), slot),
        };
        let names_fit = names.iter().all(|name| text_width(name, TEXT) + 12.0 <= name_width);
        let mut numbers = self.values().map(|value| self.tell(Some(value)));
        names_fit && numbers.all(|number| text_width(&number, LABEL) + 6.0 <= slot)
    }

    /// The room for a bar in a group that is `width` wide, where groups stand apart by more than
    /// half a bar.
    fn slot(&self, width: f64) -> f64 {
        (width / (self.series.len() as f64 + 0.6)).min(96.0)
    }

    /// The bars of one group side by side, `slot` apart, around `middle`.
    fn placed(&self, looks: &[Look], group: usize, middle: f64, slot: f64) -> Vec<Placed<'_>> {
        let first = middle - slot * (self.series.len() as f64 - 1.0) / 2.0;
        let bars =
            self.series.iter().zip(looks).enumerate().map(|(index, (series, &look))| Placed {
                series,
                value: series.value(group),
                range: series.range(group),
                look,
                at: first + slot * index as f64,
            });
        bars.collect()
    }

    fn legend(&self, looks: &[Look]) -> (Markup, f64) {
        let names: Vec<_> = if self.groups.is_some() { self.names().collect() } else { Vec::new() };
        legend(&names, looks, Sample::Patch)
    }

    fn draw_upright(&self, looks: &[Look]) -> (Markup, f64) {
        let (legend, top) = self.legend(looks);
        let (top, bottom) = (top + TITLE_ROW, top + TITLE_ROW + HEIGHT);
        let y = self.axis.fit(self.extent(), bottom, top);
        let y_ticks = rows(&y);
        let plot = Plot { left: gutter(&y_ticks), right: WIDTH - 1.0, top, bottom };
        let groups = self.group_names();
        let width = (plot.right - plot.left) / groups.len().max(1) as f64;
        let slot = self.slot(width);
        let thick = (slot - 4.0).clamp(2.0, 56.0);
        let middle = |group: usize| plot.left + width * (group as f64 + 0.5);
        let body = html! {
            (legend)
            (plot.y_axis(&y.title(), &y_ticks))
            (plot.y_shelf(&y))
            @for (group, name) in groups.iter().enumerate() {
                @for bar in self.placed(looks, group, middle(group), slot) {
                    @let end = bar.value.map_or(y.base(), |value| y.place(value));
                    @let range = bar.range.map(|(low, high)| (y.place(low), y.place(high)));
                    @let peak = range.map_or(end, |(_, high)| high.min(end));
                    g class=(bar.look.class()) {
                        (self.rect(&bar, name, (bar.at - thick / 2.0, end.min(y.base())), (thick, (y.base() - end).abs())))
                        @if let Some((low, high)) = range {
                            path.whisker d={ "M" (px(bar.at - 4.0)) "," (px(low)) "h8m-4,0V" (px(high)) "m-4,0h8" } {}
                        }
                        text.value.middle x=(px(bar.at)) y=(px(peak.min(y.base()) - 5.0)) { (self.tell(bar.value)) }
                    }
                    @if self.groups.is_none() {
                        text.tick.middle x=(px(bar.at)) y=(px(bottom + 19.0)) { (bar.series.name) }
                    }
                }
                @if self.groups.is_some() {
                    text.tick.middle x=(px(middle(group))) y=(px(bottom + 19.0)) { (name) }
                }
            }
            (plot.x_axis(self.groups.as_ref().map_or("", |(label, _)| label), &[]))
        };
        (body, bottom + if self.groups.is_some() { 50.0 } else { 28.0 })
    }

    fn draw_lying(&self, looks: &[Look]) -> (Markup, f64) {
        let (legend, top) = self.legend(looks);
        let groups = self.group_names();
        let slot = if self.groups.is_some() { 20.0 } else { 32.0 };
        let thick = slot - if self.groups.is_some() { 5.0 } else { 10.0 };
        let pitch =
            slot * self.series.len() as f64 + if self.groups.is_some() { 16.0 } else { 4.0 };
        let top = top + 4.0;
        let names: Vec<_> =
            if self.groups.is_some() { groups.clone() } else { self.names().collect() };
        let name_width =
            names.iter().map(|name| text_width(name, TEXT)).fold(0.0, f64::max).min(220.0);
        let number_width = self
            .values()
            .map(|value| text_width(&self.tell(Some(value)), LABEL))
            .fold(0.0, f64::max);
        let plot = Plot {
            left: name_width + 12.0,
            right: WIDTH - 1.0,
            top,
            bottom: top + pitch * groups.len().max(1) as f64,
        };
        let x = self.axis.fit(self.extent(), plot.left, plot.right - number_width - 10.0);
        let x_ticks = columns(&x);
        let middle = |group: usize| plot.top + pitch * (group as f64 + 0.5);
        let name_at = |y: f64, name: &str| {
            html! { text.name.end x=(px(name_width)) y=(px(y + 4.0)) { (shortened(name, 220.0, TEXT)) } }
        };
        let body = html! {
            (legend)
            @for tick in &x_ticks {
                path.grid d={ "M" (px(tick.at)) "," (px(plot.top)) "V" (px(plot.bottom)) } {}
            }
            (plot.x_axis(&x.title(), &x_ticks))
            @for (group, name) in groups.iter().enumerate() {
                @for bar in self.placed(looks, group, middle(group), slot) {
                    @let end = bar.value.map_or(x.base(), |value| x.place(value));
                    @let right = end.max(x.base());
                    @let range = bar.range.map(|(low, high)| (x.place(low), x.place(high)));
                    @let last = range.map_or(right, |(_, high)| high.max(right));
                    g class=(bar.look.class()) {
                        (self.rect(&bar, name, (end.min(x.base()), bar.at - thick / 2.0), (right - end.min(x.base()), thick)))
                        @if let Some((low, high)) = range {
                            path.whisker d={ "M" (px(low)) "," (px(bar.at - 4.0)) "v8m0,-4H" (px(high)) "m0,-4v8" } {}
                        }
                        text.value x=(px(last + 6.0)) y=(px(bar.at + 4.0)) { (self.tell(bar.value)) }
                    }
                    @if self.groups.is_none() { (name_at(bar.at, &bar.series.name)) }
                }
                @if self.groups.is_some() { (name_at(middle(group), name)) }
            }
        };
        (body, plot.bottom + 50.0)
    }

    fn rect(&self, bar: &Placed<'_>, group: &str, corner: (f64, f64), size: (f64, f64)) -> Markup {
        let separator = if group.is_empty() { "" } else { ", " };
        html! {
            rect.bar x=(px(corner.0)) y=(px(corner.1)) width=(px(size.0)) height=(px(size.1)) rx="2" {
                title { (bar.series.name) (separator) (group) ": " (self.tell(bar.value)) }
            }
        }
    }
}

impl Series {
    fn value(&self, group: usize) -> Option<f64> {
        self.values.get(group).copied().flatten()
    }

    fn range(&self, group: usize) -> Option<(f64, f64)> {
        self.ranges.get(group).copied().flatten()
    }
}
