//! Boxes with whiskers: where many values of each name lie.

use std::fmt::Write;

use figures::MISSING;
use maud::{Markup, html};

use super::palette::{Look, Palette};
use super::pixels::px;
use super::scale::{Axis, Scale, finite};
use super::svg::{Plot, Sample, TITLE_ROW, WIDTH, gutter, legend, rows, svg, text_width};
use super::table::Table;

/// The size of the numbers above boxes.
const LABEL: f64 = 11.0;

const HEIGHT: f64 = 260.0;

/// The radius of a value beyond a whisker.
const DOT: f64 = 2.0;

/// A box for each name in each of several groups (Tukey, *Exploratory Data Analysis*, 1977).
#[derive(Clone, Debug)]
pub struct Boxes {
    pub(super) title: String,
    axis: Axis,
    /// What the groups are, and their names.
    label: String,
    groups: Vec<String>,
    series: Vec<Series>,
}

/// What is drawn of many values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Whiskered {
    /// Where the lower whisker ends, the box begins, its middle line is, the box ends, and the
    /// upper whisker ends.
    pub five: [f64; 5],
    /// The values beyond the whiskers.
    pub outliers: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Series {
    name: String,
    /// One a group; `None` where nothing was measured.
    boxes: Vec<Option<Whiskered>>,
}

impl Boxes {
    /// An empty chart of `axis`; `label` says what its groups are.
    pub fn new(
        title: impl Into<String>,
        axis: Axis,
        label: impl Into<String>,
        groups: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let groups = groups.into_iter().map(Into::into).collect();
        Self { title: title.into(), axis, label: label.into(), groups, series: Vec::new() }
    }

    /// A box of `name` in each group, in the groups' order. One of which not all is finite was not
    /// measured.
    pub fn series(
        mut self,
        name: impl Into<String>,
        boxes: impl IntoIterator<Item = Option<Whiskered>>,
    ) -> Self {
        let sound = |one: Whiskered| {
            let [low, q1, median, q3, high] = one.five.map(finite);
            let five = [low?, q1?, median?, q3?, high?];
            Some(Whiskered {
                five,
                outliers: one.outliers.into_iter().filter_map(finite).collect(),
            })
        };
        let boxes = boxes.into_iter().map(|one| one.and_then(sound)).collect();
        self.series.push(Series { name: name.into(), boxes });
        self
    }

    /// What it is called.
    pub fn title(&self) -> &str {
        &self.title
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
        let (legend, top) = legend(&self.names().collect::<Vec<_>>(), &looks, Sample::Patch);
        let (top, bottom) = (top + TITLE_ROW, top + TITLE_ROW + HEIGHT);
        let y = self.axis.fit(self.extent(), bottom, top);
        let ticks = rows(&y);
        let plot = Plot { left: gutter(&ticks), right: WIDTH - 1.0, top, bottom };
        let width = (plot.right - plot.left) / self.groups.len().max(1) as f64;
        let slot = (width / (self.series.len() as f64 + 0.6)).min(96.0);
        let middle = |group: usize| plot.left + width * (group as f64 + 0.5);
        let first = |group| middle(group) - slot * (self.series.len() as f64 - 1.0) / 2.0;
        let body = html! {
            (legend)
            (plot.y_axis(&y.title(), &ticks))
            (plot.y_shelf(&y))
            @for (group, name) in self.groups.iter().enumerate() {
                @for (place, (series, look)) in self.series.iter().zip(&looks).enumerate() {
                    @if let Some(one) = series.at(group) {
                        (self.one(&series.name, name, one, *look, &y, (first(group) + slot * place as f64, slot)))
                    }
                }
                text.tick.middle x=(px(middle(group))) y=(px(bottom + 19.0)) { (name) }
            }
            (plot.x_axis(&self.label, &[]))
        };
        svg(id, &self.title, &self.describe(), bottom + 50.0, body)
    }

    /// One box, around `at`, in a place so wide.
    fn one(
        &self,
        name: &str,
        group: &str,
        one: &Whiskered,
        look: Look,
        y: &Scale,
        (at, slot): (f64, f64),
    ) -> Markup {
        let [low, q1, median, q3, high] = one.five.map(|value| y.place(value));
        let thick = (slot - 8.0).clamp(3.0, 44.0);
        let (left, right) = (at - thick / 2.0, at + thick / 2.0);
        let cap = (thick / 4.0).min(6.0);
        let whisker = |from: f64, to: f64| {
            let (from, to, wide) = (px(from), px(to), px(2.0 * cap));
            format!("M{},{from}V{to}M{},{to}h{wide}", px(at), px(at - cap))
        };
        let number = self.axis.unit.brief(one.five[2]);
        let fits = text_width(&number, LABEL) + 6.0 <= slot;
        let peak = one.outliers.iter().map(|value| y.place(*value)).fold(high.min(low), f64::min);
        html! {
            g class=(look.class()) {
                path.whisker d={ (whisker(q1, low)) (whisker(q3, high)) } {}
                rect.bar x=(px(left)) y=(px(q1.min(q3))) width=(px(thick)) height=(px((q1 - q3).abs())) {
                    title { (name) ", " (group) ": " (self.tell(one)) }
                }
                path.median d={ "M" (px(left)) "," (px(median)) "H" (px(right)) } {}
                @for value in &one.outliers {
                    circle.outlier cx=(px(at)) cy=(px(y.place(*value))) r=(px(DOT)) {}
                }
                @if fits {
                    text.value.middle x=(px(at)) y=(px(peak - 6.0)) { (number) }
                }
            }
        }
    }

    pub(super) fn table(&self) -> Table {
        let heads = Table::new(std::iter::once(self.label.as_str()).chain(self.names()));
        self.groups.iter().enumerate().fold(heads, |table, (group, name)| {
            let cells = self.series.iter().map(|series| match series.at(group) {
                Some(one) => self.tell(one),
                None => MISSING.into(),
            });
            table.row(std::iter::once(name.clone()).chain(cells))
        })
    }

    /// The middle, the box, the whiskers, and how many values lie beyond.
    fn tell(&self, one: &Whiskered) -> String {
        let [low, q1, median, q3, high] = one.five.map(|value| self.axis.unit.exact(value));
        let mut text = format!("{median} ({q1} to {q3}, whiskers {low} to {high}");
        if !one.outliers.is_empty() {
            let _ = write!(text, ", {} beyond", one.outliers.len());
        }
        text + ")"
    }

    fn describe(&self) -> String {
        let mut text = format!("Box plot of {}.", self.axis.label);
        for series in &self.series {
            let _ = write!(text, " {}:", series.name);
            for (group, name) in self.groups.iter().enumerate() {
                let median = series.at(group).map(|one| self.axis.unit.brief(one.five[2]));
                let _ = write!(text, " {name} {}", median.as_deref().unwrap_or(MISSING));
            }
            text.push('.');
        }
        text
    }

    /// What the axis must reach.
    fn extent(&self) -> impl Iterator<Item = f64> {
        let boxes = self.series.iter().flat_map(|series| &series.boxes).flatten();
        boxes.flat_map(|one| one.five.iter().chain(&one.outliers).copied())
    }
}

impl Series {
    fn at(&self, group: usize) -> Option<&Whiskered> {
        self.boxes.get(group)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use figures::Unit;

    use super::*;

    fn boxes() -> Boxes {
        let one = Whiskered { five: [1e6, 2e6, 3e6, 4e6, 5e6], outliers: vec![8e6] };
        let axis = Axis::linear("bandwidth", Unit::BITS_PER_SEC);
        let chart = Boxes::new("Downloads", axis, "tunnel", ["none", "vxlan"]);
        chart
            .series("ovs", [Some(one.clone()), None])
            .series("zovn", [Some(Whiskered { five: [f64::NAN; 5], ..one.clone() }), Some(one)])
    }

    #[test]
    fn a_box_has_its_line_its_whiskers_and_what_lies_beyond() {
        let chart = boxes();
        let palette = Palette::new(chart.names());
        let drawn = chart.draw("x", &palette).into_string();
        for (what, count) in [("path class=\"median\"", 2), ("circle class=\"outlier\"", 2)] {
            assert_eq!(drawn.matches(what).count(), count, "{what}\n{drawn}");
        }
        // The axis goes from 0 to 8 Mbit/s, from the bottom of the plot to its top.
        let y = chart.axis.fit(chart.extent(), 80.0, 0.0);
        assert_eq!([8e6, 3e6, 0.0].map(|value| y.place(value)), [0.0, 50.0, 80.0]);
    }

    #[test]
    fn what_is_drawn_is_told() {
        let text = boxes().table().draw(&Palette::default()).into_string();
        let told = "3 Mbit/s (2 Mbit/s to 4 Mbit/s, whiskers 1 Mbit/s to 5 Mbit/s, 1 beyond)";
        assert_eq!(text.matches(told).count(), 2, "{text}");
        assert!(boxes().describe().contains(" ovs: none "), "{}", boxes().describe());
    }
}
